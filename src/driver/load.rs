//! Finds and starts the CUDA driver.

use std::ffi::{CStr, CString, OsString};
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use libloading::Library;

use crate::abi::{CAI_DRIVER_PATH_SIZE, cai_driver_info};
use crate::driver::result;
use crate::driver::table::Table;
use crate::error::{Result, fail};
use crate::observer;

/// Names another file than the system's driver.
const VARIABLE: &str = "CAI_CUDA_DRIVER";

#[cfg(windows)]
const FILE: &str = "nvcuda.dll";

#[cfg(not(windows))]
const FILE: &str = "libcuda.so.1";

/// A driver that was found and started.
pub struct Driver {
    table: Table,
    path: String,
}

impl Deref for Driver {
    type Target = Table;

    #[inline]
    fn deref(&self) -> &Table {
        &self.table
    }
}

static DRIVER: AtomicPtr<Driver> = AtomicPtr::new(ptr::null_mut());

static SEARCH: Mutex<()> = Mutex::new(());

static FORKED: AtomicBool = AtomicBool::new(false);

/// The driver, if it was found before. For those who only describe something.
pub fn loaded() -> Option<&'static Driver> {
    // SAFETY: NULL or a leaked box. Acquire pairs with the Release in `find`.
    unsafe { DRIVER.load(Ordering::Acquire).as_ref() }
}

/// The driver, looked for if need be.
#[inline]
pub fn driver() -> Result<&'static Driver> {
    if is_forked() {
        return forked();
    }
    match loaded() {
        Some(driver) => Ok(driver),
        None => find(),
    }
}

/// Is this the child of a process in which the driver had been started?
#[inline]
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

#[cold]
fn forked() -> Result<&'static Driver> {
    fail!(
        CAI_ERR_FORKED,
        "driver",
        found = "a child of a process that had started CUDA",
        expected = "a process of its own: CUDA does not survive fork()"
    )
}

/// The file to look for.
fn file() -> OsString {
    std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).unwrap_or(OsString::from(FILE))
}

#[cold]
#[inline(never)]
fn find() -> Result<&'static Driver> {
    let _one_at_a_time = SEARCH.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(driver) = loaded() {
        return Ok(driver);
    }
    let file = file();
    // SAFETY: whoever names the file answers for it; the system's driver runs no surprising code
    // when loaded.
    let library = match unsafe { Library::new(&file) } {
        Ok(library) => library,
        Err(error) => {
            // The loader's own words (a missing file, a missing dependency) stand in the source.
            let why = std::error::Error::source(&error)
                .map_or_else(|| error.to_string(), |e| e.to_string());
            return fail!(
                CAI_ERR_NO_DRIVER,
                "driver",
                found = "none: {why}",
                expected = "a CUDA driver ({FILE}, or what {VARIABLE} names)"
            );
        }
    };
    let table = Table::find(&library);
    let started = table.init(0);
    if started.is_ok() {
        attach_observer(&library);
        result::set_error_texts(&library);
        let driver = Box::leak(Box::new(Driver { table, path: path_of(&library) }));
        on_fork();
        DRIVER.store(driver, Ordering::Release);
    }
    // The driver is never unloaded, not even one that does not start: it may have started threads.
    std::mem::forget(library);
    match loaded() {
        Some(driver) => Ok(driver),
        None if started.is_missing() => {
            fail!(
                CAI_ERR_NO_DRIVER,
                "driver",
                found = ("{} without cuInit", file.to_string_lossy()),
                expected = "a CUDA driver"
            )
        }
        // Before a fork, somebody else had started it.
        None if started.code == result::NOT_INITIALIZED => forked(),
        None => Err(crate::error::Failure::new(
            crate::abi::CAI_ERR_NO_DRIVER,
            format_args!("driver"),
            format_args!("{} that does not start: {started}", file.to_string_lossy()),
            format_args!("a CUDA driver with a device"),
        )
        .driver(started.code)),
    }
}

#[cfg(unix)]
fn path_of(library: &Library) -> String {
    use std::mem::MaybeUninit;
    // SAFETY: only the address of the symbol is looked at.
    let Ok(symbol) = (unsafe { library.get::<*const ()>(b"cuInit\0") }) else {
        return String::new();
    };
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `info` is writable; all zeros is a value of it.
    let (found, info) =
        unsafe { (libc::dladdr((*symbol).cast(), info.as_mut_ptr()), info.assume_init()) };
    if found == 0 || info.dli_fname.is_null() {
        return String::new();
    }
    // SAFETY: the loader's own text.
    unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn path_of(_: &Library) -> String {
    String::new()
}

/// In a child, the driver refuses every call or worse: this library does not even ask.
#[cfg(unix)]
fn on_fork() {
    extern "C" fn in_child() {
        FORKED.store(true, Ordering::Relaxed);
        observer::detach();
    }
    // Where it fails, for want of memory, the driver's own answers still tell.
    // SAFETY: the handler does nothing but an atomic store, and this library is never unloaded.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

#[cfg(not(unix))]
fn on_fork() {}

impl Driver {
    /// What was found.
    pub fn info(&self) -> Result<cai_driver_info> {
        let mut info = cai_driver_info {
            version: 0,
            devices: 0,
            simulated: observer::is_simulated(),
            reserved: [0; 7],
            path: [0; CAI_DRIVER_PATH_SIZE],
        };
        self.driver_version(&raw mut info.version).ok()?;
        self.device_count(&raw mut info.devices).ok()?;
        for (to, from) in info.path[..CAI_DRIVER_PATH_SIZE - 1].iter_mut().zip(self.path.bytes()) {
            *to = from as std::ffi::c_char;
        }
        Ok(info)
    }

    /// Runs `body` as a thread that may make calls which a capture elsewhere would forbid: it
    /// touches no capture itself. [cuThreadExchangeStreamCaptureMode]
    pub fn relaxed<T>(&self, body: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut mode = RELAXED;
        let exchanged = self.exchange_capture_mode(&raw mut mode);
        if !exchanged.is_missing() {
            exchanged.ok()?;
        }
        let result = body();
        // A call may answer with the failure of earlier work, whether it did its own or not: saying
        // the same again does no harm.
        for _ in 0..2 {
            let mut before = mode;
            if exchanged.is_missing() || self.exchange_capture_mode(&raw mut before).is_ok() {
                break;
            }
        }
        result
    }

    /// The same for the rest of this thread's life. `false`: not now.
    pub fn be_relaxed(&self) -> bool {
        let mut mode = RELAXED;
        let exchanged = self.exchange_capture_mode(&raw mut mode);
        exchanged.is_ok() || exchanged.is_missing()
    }
}

/// `CU_STREAM_CAPTURE_MODE_RELAXED`
const RELAXED: i32 = 2;

/// Asks a driver for its observer.
fn attach_observer(library: &Library) {
    // SAFETY: the type is that of cudasim.h.
    let get = unsafe { library.get::<observer::Get>(observer::NAME.to_bytes_with_nul()) };
    observer::accept(get.ok().map(|symbol| *symbol));
}

/// Looks for an observer in a driver that the program has loaded already. Loads and starts nothing.
#[cfg(unix)]
#[cold]
pub fn find_observer() {
    let Ok(file) = CString::new(file().as_encoded_bytes()) else { return observer::accept(None) };
    // SAFETY: finds a library that is loaded, and asks for a symbol whose type is that of
    // cudasim.h. The reference to the library is kept.
    let get = unsafe {
        let loaded = libc::dlopen(file.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        let name = observer::NAME.as_ptr();
        let symbol = if loaded.is_null() { ptr::null_mut() } else { libc::dlsym(loaded, name) };
        std::mem::transmute::<*mut std::ffi::c_void, Option<observer::Get>>(symbol)
    };
    observer::accept(get);
}

#[cfg(not(unix))]
pub fn find_observer() {
    observer::accept(None);
}
