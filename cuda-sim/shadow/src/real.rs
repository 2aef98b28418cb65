//! The real driver: which library it is, and where its functions are.
//!
//! All functions are looked up when this library is loaded, so that a call of one that is not
//! followed is one jump, whatever its arguments.

use crate::launches::record_launch;
use cudasim_core::console::print;
use cudasim_core::cudasim::Api;
use cudasim_core::functions::NAMES;
use cudasim_core::real_driver::{self, RealDriver};
use cudasim_core::results::Code;
use std::ffi::{CStr, CString, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

extern "C" fn not_found() -> i32 {
    Code::NOT_FOUND.0
}

/// The functions of the real driver, in the order of `NAMES`.
pub static SLOTS: [AtomicPtr<c_void>; NAMES.len()] =
    [const { AtomicPtr::new(not_found as extern "C" fn() -> i32 as *mut c_void) }; NAMES.len()];

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = load;

static REAL: RealDriver = RealDriver {
    functions: &SLOTS,
    current_context,
    simulated: || SIMULATED.get().copied(),
    record_launch,
};

extern "C" fn load() {
    real_driver::set(&REAL);
    let named = cudasim_core::environment::variable("CUDASIM_REAL").filter(|path| !path.is_empty());
    let places =
        named.as_deref().map_or(cudasim_core::config::REAL_DRIVERS.to_vec(), |path| vec![path]);
    let open = |path: &&str| {
        let path = CString::new(*path).unwrap_or_default();
        // SAFETY: `path` is NUL-terminated. The constructors of the library are those that the
        // program would have run without this one.
        unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) }
    };
    let Some(driver) = places.iter().map(open).find(|driver| !driver.is_null()) else {
        // SAFETY: `dlerror` returns NULL or text that is valid until the next call of the loader on
        // this thread; it is copied at once.
        let why =
            unsafe { libc::dlerror().as_ref().map(|text| CStr::from_ptr(text).to_string_lossy()) };
        let (places, why) = (places.join(", "), why.unwrap_or_default());
        return print(&format!(
            "cuda-sim: no real driver: tried {places} (CUDASIM_REAL): {}\n",
            why.escape_debug()
        ));
    };
    let find = |name: &CStr| {
        // SAFETY: `driver` is a handle of `dlopen` that is never closed; `name` is NUL-terminated.
        unsafe { libc::dlsym(driver, name.as_ptr()) }
    };
    if find(c"cudasim_passthrough").cast_const().cast() == &raw const cudasim_passthrough {
        return print("cuda-sim: CUDASIM_REAL names the checker itself, not a driver\n");
    }
    for (slot, name) in SLOTS.iter().zip(NAMES) {
        let found = find(name);
        if !found.is_null() {
            slot.store(found, Ordering::Relaxed);
        }
    }
    let get = find(c"cudasim_get_api");
    if !get.is_null() {
        // SAFETY: only the simulated driver exports this name, with this type.
        let get: extern "C" fn(u32) -> *const Api = unsafe { std::mem::transmute(get) };
        // SAFETY: `cudasim_get_api` returns NULL or a constant of a library that is never unloaded.
        if let Some(table) = unsafe { get(1).as_ref() } {
            let _ = SIMULATED.set(table);
        }
    }
}

/// Identifies this library by the address of this symbol.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static cudasim_passthrough: u8 = 0;

/// The table of cudasim.h, if the real driver is a simulated one.
static SIMULATED: OnceLock<&'static Api> = OnceLock::new();

/// Records a function that the real driver does not export but returns from cuGetProcAddress.
pub fn found_elsewhere(symbol: &str, function: *mut c_void) {
    let at = NAMES.binary_search_by(|name| name.to_bytes().cmp(symbol.as_bytes()));
    if let Ok(at) = at {
        let missing = not_found as extern "C" fn() -> i32 as *mut c_void;
        let _ = SLOTS[at].compare_exchange(missing, function, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Returns the current context and its device. `known`: the last result, whose device is reused for
/// the same context.
fn current_context(known: (u64, i32)) -> (u64, i32) {
    let mut context = 0;
    let mut device = 0;
    if function!(cuCtxGetCurrent(*mut u64))(&mut context) != 0 {
        return (0, -1);
    }
    if context != known.0 && context != 0 {
        function!(cuCtxGetDevice(*mut i32))(&mut device);
        return (context, device);
    }
    (context, known.1)
}

/// Returns a function of the real driver, by its symbol and the types of its arguments.
macro_rules! function {
    ($name:ident($($ty:ty),* $(,)?)) => {{
        let found = crate::real::SLOTS[cudasim_core::functions::index::$name]
            .load(std::sync::atomic::Ordering::Relaxed);
        type Function = extern "C" fn($($ty),*) -> i32;
        // SAFETY: a slot holds the driver's function of this name, which has this type, or
        // `not_found`, which reads no argument.
        unsafe { std::mem::transmute::<*mut std::ffi::c_void, Function>(found) }
    }};
}
pub(crate) use function;

/// The body of a naked function: jumps to another function with all arguments.
macro_rules! jump {
    ($slot:literal) => {{
        #[cfg(target_arch = "x86_64")]
        std::arch::naked_asm!(
            "jmp qword ptr [rip + {slots} + {at}]",
            slots = sym crate::real::SLOTS, at = const $slot * 8
        );
        #[cfg(target_arch = "aarch64")]
        std::arch::naked_asm!(
            "adrp x16, {slots} + {at}", "ldr x16, [x16, :lo12:{slots} + {at}]", "br x16",
            slots = sym crate::real::SLOTS, at = const $slot * 8
        );
    }};
    ($function:path) => {{
        #[cfg(target_arch = "x86_64")]
        std::arch::naked_asm!("jmp {function}", function = sym $function);
        #[cfg(target_arch = "aarch64")]
        std::arch::naked_asm!("b {function}", function = sym $function);
    }};
}
pub(crate) use jump;
