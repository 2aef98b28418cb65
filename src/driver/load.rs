//! Loads and starts the CUDA driver and the HIP runtime.
//!
//! Nothing is loaded or called before a function needs it. A driver that is missing is searched for
//! again by the next call. After a fork, every function returns a status in the child. The
//! simulated driver is just another `libcuda.so.1`. A HIP runtime that the process has loaded under
//! any of its names is used: a second one would know nothing of the first one's streams.

use std::ffi::{CStr, c_char};
use std::fmt;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::abi::{self, CAI_DRIVER_PATH_SIZE, cai_driver_info};
use crate::driver::result;
use crate::driver::table::{Api, Table};
use crate::environment::Variable;
use crate::error::{Failure, Result, fail, failure};
use crate::library::{self, Library};
use crate::memory;
use crate::observer;
use crate::published::Published;

impl Api {
    /// The variable that names another file than those of [`files`](Self::files).
    fn variable(self) -> &'static CStr {
        if self == Api::Cuda { c"CAI_CUDA_DRIVER" } else { c"CAI_HIP_DRIVER" }
    }

    /// The names of the library. A Python package may contain the HIP runtime under the first one,
    /// and every other program loads the one that it was linked with.
    fn files(self) -> &'static [&'static CStr] {
        match self {
            #[cfg(windows)]
            Api::Cuda => &[c"nvcuda.dll"],
            #[cfg(not(windows))]
            Api::Cuda => &[c"libcuda.so.1"],
            #[cfg(windows)]
            Api::Hip => &[c"amdhip64.dll", c"amdhip64_7.dll", c"amdhip64_6.dll"],
            #[cfg(not(windows))]
            Api::Hip => {
                &[c"libamdhip64.so", c"libamdhip64.so.7", c"libamdhip64.so.6", c"libamdhip64.so.5"]
            }
        }
    }

    /// Calls `body` with the file that the user names, or else with the names of the library until
    /// one succeeds. Returns the first failure if none does.
    fn try_files<T, E>(
        self,
        body: impl Fn(&CStr) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let (file, files) = (self.file(), self.files());
        let others = if file.as_c_str() == files[0] { &files[1..] } else { &[] };
        body(file.as_c_str())
            .or_else(|failure| others.iter().find_map(|file| body(file).ok()).ok_or(failure))
    }

    /// Returns true if the process has loaded none of the files that the driver may be.
    fn is_absent(self) -> bool {
        Library::is_absent(self.file().as_c_str())
            && self.files().iter().all(|file| Library::is_absent(file))
    }

    /// The file to look for first.
    fn file(self) -> Variable {
        Variable::read(self.variable())
            .filter(|file| !file.as_c_str().is_empty())
            .unwrap_or_else(|| Variable::new(self.files()[0]))
    }

    fn loaded(self) -> Option<Library> {
        self.try_files(|file| Library::loaded(file).ok_or(())).ok()
    }
}

pub struct Driver {
    table: Table,
    path: Path,
}

impl Deref for Driver {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

static DRIVERS: [Published<Driver>; Api::COUNT] = [const { Published::nothing() }; Api::COUNT];

/// The process in which a thread is looking for the driver; 0: none. A mutex would stay locked in
/// the child if another thread forks.
static SEARCHER: AtomicU32 = AtomicU32::new(0);
/// That thread, as [`this_thread`] numbers it; 0: none.
static SEARCHING_THREAD: AtomicUsize = AtomicUsize::new(0);

/// Number of the calling thread: the address of a variable of its own, so it needs no memory.
fn this_thread() -> usize {
    thread_local!(static OWN: u8 = const { 0 });
    OWN.with(|own| ptr::from_ref(own).addr())
}

static FORKED: AtomicBool = AtomicBool::new(false);

pub fn loaded(api: Api) -> Option<&'static Driver> {
    DRIVERS[api as usize].get()
}

/// Returns the CUDA driver; loads and starts it at first use.
pub fn driver() -> Result<&'static Driver> {
    get(Api::Cuda)
}

/// Returns the driver for work on data of this device type; loads and starts it at first use.
pub fn driver_of(device_type: i32) -> Result<&'static Driver> {
    get(Api::of(device_type))
}

/// As [`driver_of`], if that one was loaded and may be called.
#[inline(always)]
pub fn ready(device_type: i32) -> Option<&'static Driver> {
    loaded(Api::of(device_type)).filter(|_| !is_forked())
}

/// Returns HIP if it was loaded, by this library or by the program, and starts.
pub fn hip_if_loaded() -> Option<&'static Driver> {
    let is_loaded = !is_forked() && (loaded(Api::Hip).is_some() || Api::Hip.loaded().is_some());
    if is_loaded { get(Api::Hip).ok() } else { None }
}

/// Returns true if the process has no driver for this device type: nothing was enqueued with it.
pub fn is_absent(device_type: i32) -> bool {
    let api = Api::of(device_type);
    !is_forked() && loaded(api).is_none() && api.is_absent()
}

fn get(api: Api) -> Result<&'static Driver> {
    if is_forked() {
        return Err(forked());
    }
    match loaded(api) {
        Some(driver) => Ok(driver),
        None => find(api),
    }
}

/// Returns true if the CUDA driver was loaded, by the library or the program. Loads nothing.
pub fn is_present() -> bool {
    !is_forked() && (loaded(Api::Cuda).is_some() || program_has_driver())
}

/// Looks for the driver among the libraries of the process: at first, and then at each 64th call,
/// because a process that has GPU memory had a driver before.
fn program_has_driver() -> bool {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    // Relaxed, and not one operation: a call that is not counted does no harm.
    let calls = CALLS.load(Ordering::Relaxed);
    CALLS.store(calls.wrapping_add(1), Ordering::Relaxed);
    calls % 64 == 0 && find_loaded()
}

/// Searches once for each number of libraries: a search that finds nothing allocates memory.
#[cold]
fn find_loaded() -> bool {
    static SEARCHED: AtomicU64 = AtomicU64::new(u64::MAX);
    let changes = library::changes();
    // Relaxed: the number publishes nothing.
    if changes.is_some_and(|changes| SEARCHED.load(Ordering::Relaxed) == changes) {
        return false;
    }
    let found = Api::Cuda.loaded().is_some();
    if let (false, Some(changes)) = (found, changes) {
        SEARCHED.store(changes, Ordering::Relaxed);
    }
    found
}

/// Returns true in a child of a process that had started the driver.
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

#[cold]
#[inline(never)]
fn forked() -> Failure {
    failure!(abi::CAI_ERR_FORKED, "driver";
        found "a child of a process that had started CUDA";
        expected "a process that starts CUDA itself: CUDA does not survive fork()")
}

/// The search for the driver, by one thread at a time.
///
/// A mutex would stay locked for ever in the child of a process of which another thread was
/// searching. The number of the process shows that case: such a child is never unlocked, and does
/// not use the driver.
struct Search {
    #[cfg(target_os = "linux")]
    cancellation: std::ffi::c_int,
}

#[cfg(target_os = "linux")]
unsafe extern "C" {
    safe fn pthread_setcancelstate(
        state: std::ffi::c_int,
        before: Option<&mut std::ffi::c_int>,
    ) -> std::ffi::c_int;
}

/// `PTHREAD_CANCEL_DISABLE`
#[cfg(target_os = "linux")]
const CANCEL_DISABLE: std::ffi::c_int = 1;

impl Search {
    /// Begins the search when no other thread searches. Fails in the child of a process that was
    /// searching, and on the thread that searches: code that the driver runs while it is loaded or
    /// started would wait for itself.
    fn begin() -> Result<Self> {
        let (process, thread) = (std::process::id(), this_thread());
        loop {
            // Acquire: what the thread before did comes before what this one does.
            match SEARCHER.compare_exchange(0, process, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break,
                Err(searcher) if searcher != process => return Err(forked()),
                Err(_) if SEARCHING_THREAD.load(Ordering::Relaxed) == thread => {
                    return fail!(CAI_ERR_NO_DRIVER, "driver";
                        found "a call from code that runs while the driver is loaded or started";
                        expected "a call after that");
                }
                Err(_) => std::thread::sleep(Duration::from_micros(200)),
            }
        }
        SEARCHING_THREAD.store(thread, Ordering::Relaxed);
        #[cfg(target_os = "linux")]
        {
            let mut cancellation = 0;
            // The system's loader cannot be cancelled safely.
            pthread_setcancelstate(CANCEL_DISABLE, Some(&mut cancellation));
            Ok(Search { cancellation })
        }
        #[cfg(not(target_os = "linux"))]
        Ok(Search {})
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        SEARCHING_THREAD.store(0, Ordering::Relaxed);
        // Release: see `begin`.
        SEARCHER.store(0, Ordering::Release);
        #[cfg(target_os = "linux")]
        pthread_setcancelstate(self.cancellation, None);
    }
}

#[cold]
fn find(api: Api) -> Result<&'static Driver> {
    let _search = Search::begin()?;
    if let Some(driver) = loaded(api) {
        return Ok(driver);
    }
    observe_forks()?;
    // SAFETY: the user vouches for a file that the variable names; the system's driver runs no
    // surprising code when it is loaded.
    let open = || api.try_files(|file| unsafe { Library::open(file) });
    let loaded = if api == Api::Hip { api.loaded() } else { None };
    let library = match loaded.map_or_else(open, Ok) {
        Ok(library) => library,
        Err(error) if error.is_no_memory => return Err(Failure::no_memory(0)),
        Err(error) => {
            return fail!(CAI_ERR_NO_DRIVER, "driver";
                found "none: {}", error.message;
                expected "a {} ({}, or the file that {} names)",
                    api.library(), Shown(api.files()[0]), Shown(api.variable()));
        }
    };
    // Taken before the driver is started, which cannot be undone.
    let table = Table::find(api, &library);
    let mut driver = memory::boxed(Driver { table, path: [0; CAI_DRIVER_PATH_SIZE] })?;
    let started = driver.table.init(0);
    if started.is_ok() {
        if api == Api::Cuda {
            observer::accept(Some(&library));
        }
        driver.path = path_of(&driver.table);
        let driver = Box::leak(driver);
        DRIVERS[api as usize].set(Some(driver));
        result::set_error_texts(driver);
        return Ok(driver);
    }
    if started.is_missing() {
        return fail!(CAI_ERR_NO_DRIVER, "driver";
            found "{} without {}", Shown(api.file().as_c_str()), started.name();
            expected "a {}", api.library());
    }
    // Before a fork, other code had started it.
    if started.code == result::NOT_INITIALIZED {
        return Err(forked());
    }
    Err(failure!(abi::CAI_ERR_NO_DRIVER, "driver";
        found "{}, which does not start: {started}", Shown(api.file().as_c_str());
        expected "a {} with a device", api.library())
    .driver(started.code))
}

/// A file or a variable in a message.
struct Shown<'a>(&'a CStr);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.0.to_bytes().escape_ascii())
    }
}

/// The path of the file that the driver came from, cut to the size of the caller's structure.
type Path = [c_char; CAI_DRIVER_PATH_SIZE];

#[cfg(unix)]
fn path_of(table: &Table) -> Path {
    use std::mem::MaybeUninit;
    let mut path = [0; CAI_DRIVER_PATH_SIZE];
    let Some(symbol) = table.address() else { return path };
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `info` is writable; all zeros is a value of it.
    let (found, info) = unsafe { (libc::dladdr(symbol, info.as_mut_ptr()), info.assume_init()) };
    if found != 0 && !info.dli_fname.is_null() {
        // SAFETY: the loader's own text, which is terminated.
        let name = unsafe { CStr::from_ptr(info.dli_fname) };
        for (to, from) in path[..CAI_DRIVER_PATH_SIZE - 1].iter_mut().zip(name.to_bytes()) {
            *to = *from as c_char;
        }
    }
    path
}

#[cfg(not(unix))]
fn path_of(_: &Table) -> Path {
    [0; CAI_DRIVER_PATH_SIZE]
}

/// From now on, a child knows that the driver was started before the fork, or may have been. There,
/// the driver refuses every call or worse: this library makes none.
#[cfg(unix)]
fn observe_forks() -> Result<()> {
    static OBSERVED: AtomicBool = AtomicBool::new(false);

    extern "C" fn in_child() {
        let searching = SEARCHER.load(Ordering::Relaxed) != 0;
        let started = DRIVERS.iter().any(|driver| !driver.is_empty());
        if searching || started {
            FORKED.store(true, Ordering::Relaxed);
            observer::detach();
        }
    }
    if !OBSERVED.load(Ordering::Relaxed) {
        // SAFETY: the handler uses atomics only, and this library is never unloaded.
        if unsafe { libc::pthread_atfork(None, None, Some(in_child)) } != 0 {
            return Err(Failure::no_memory(0));
        }
        OBSERVED.store(true, Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(not(unix))]
fn observe_forks() -> Result<()> {
    Ok(())
}

impl Driver {
    pub fn info(&self) -> Result<cai_driver_info> {
        let mut info =
            cai_driver_info { version: 0, devices: 0, reserved: [0; 7], path: self.path };
        self.driver_version(&raw mut info.version).ok()?;
        self.device_count(&raw mut info.devices).ok()?;
        Ok(info)
    }

    /// Runs `body` with a capture mode in which captures of other threads forbid no call. `body`
    /// must touch no capture itself. [cuThreadExchangeStreamCaptureMode]
    pub fn relaxed<T>(&self, body: impl FnOnce() -> Result<T>) -> Result<T> {
        let _before = self.relax()?;
        body()
    }

    /// Sets that capture mode until the result is dropped.
    #[inline(never)]
    fn relax(&self) -> Result<CaptureMode<'_>> {
        let mut mode = RELAXED;
        let exchanged = self.exchange_capture_mode(&raw mut mode);
        // Where the call failed but did its work, the mode from before is known all the same.
        let before = CaptureMode { driver: self, before: mode };
        if !exchanged.is_missing() {
            exchanged.ok()?;
        }
        Ok(before)
    }
}

/// Another capture mode of the thread is in force while this lives.
struct CaptureMode<'a> {
    driver: &'a Driver,
    before: i32,
}

impl Drop for CaptureMode<'_> {
    #[inline(never)]
    fn drop(&mut self) {
        if self.before == RELAXED {
            return;
        }
        for _ in 0..2 {
            let mut mode = self.before;
            // A call may report the failure of earlier work although it did its own: then it
            // returned the mode that was in force.
            if self.driver.exchange_capture_mode(&raw mut mode).is_ok() || mode == RELAXED {
                break;
            }
        }
    }
}

/// `CU_STREAM_CAPTURE_MODE_RELAXED`
const RELAXED: i32 = 2;

/// Looks for an observer in a driver that the program has loaded already. Loads and starts nothing.
#[cold]
pub fn find_observer() {
    observer::accept(Api::Cuda.loaded().as_ref());
}
