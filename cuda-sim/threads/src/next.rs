//! The functions that are replaced: the next definitions of their names.
//!
//! May use: `modules`. Unsafe: the loader's functions.

use crate::modules;
use libc::{c_char, c_void};
use std::ffi::CStr;
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Returns the next definition of a function, which is looked up once. `@VERSION` selects one
/// of several versions.
macro_rules! real {
    ($name:ident $(@ $version:literal)?, $type:ty) => {{
        use std::sync::atomic::{AtomicUsize, Ordering};
        static REAL: AtomicUsize = AtomicUsize::new(0);
        let mut found = REAL.load(Ordering::Relaxed);
        if found == 0 {
            #[allow(unused_mut, unused_assignments)]
            let mut version: Option<&std::ffi::CStr> = None;
            $( version = Some($version); )?
            let name = concat!(stringify!($name), "\0").as_ptr();
            found = crate::next::find(name.cast(), version) as usize;
            REAL.store(found, Ordering::Relaxed);
            if found == 0 {
                static FOUND: crate::next::Found = crate::next::NONE_FOUND;
                found = crate::next::find_for_caller(name.cast(), &FOUND) as usize;
            }
        }
        // SAFETY: the library that the program was linked against defines this function
        // with this type (POSIX, C11, Linux). It exists, because the caller is linked
        // against it.
        unsafe { std::mem::transmute::<usize, $type>(found) }
    }};
}
pub(crate) use real;

/// Returns the next definition of a name, of a version if there is such one.
pub fn find(name: *const c_char, version: Option<&CStr>) -> *mut c_void {
    if let Some(version) = version {
        // SAFETY: both texts are NUL-terminated constants.
        let found = unsafe { libc::dlvsym(libc::RTLD_NEXT, name, version.as_ptr()) };
        if !found.is_null() {
            return found;
        }
    }
    // SAFETY: the text is a NUL-terminated constant.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name) }
}

/// Functions of libraries that not all modules can see, with the module that called.
pub type Found = [AtomicPtr<(usize, *mut c_void)>; 16];
#[allow(clippy::declare_interior_mutable_const)]
pub const NONE_FOUND: Found = [const { AtomicPtr::new(ptr::null_mut()) }; 16];

/// Returns the addresses of this library.
fn own() -> Range<usize> {
    static OWN: OnceLock<Range<usize>> = OnceLock::new();
    let here = find as fn(*const c_char, Option<&CStr>) -> *mut c_void as usize;
    OWN.get_or_init(|| modules::range(here)).clone()
}

/// Returns the definition that the calling module would have: one of a library that was loaded
/// with it, without being visible to others. There may be several such libraries.
#[cold]
pub fn find_for_caller(name: *const c_char, found: &Found) -> *mut c_void {
    let own = own();
    let caller = modules::caller(own.clone());
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `dladdr` fills the structure, whose zeros are NULL.
    let info = unsafe {
        libc::dladdr(caller as *const c_void, info.as_mut_ptr());
        info.assume_init()
    };
    let base = info.dli_fbase as usize;
    let slot = &found[(base >> 12) % found.len()];
    // SAFETY: NULL, or leaked below.
    if let Some((of, function)) = unsafe { slot.load(Ordering::Acquire).as_ref() } {
        if *of == base {
            return *function;
        }
    }
    // SAFETY: the file is one that is loaded. Its handle is kept: the module stays.
    let function = unsafe {
        let handle = libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() { handle } else { libc::dlsym(handle, name) }
    };
    if function.is_null() || own.contains(&(function as usize)) {
        // SAFETY: the name is a NUL-terminated constant.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        eprintln!(
            "cuda-sim: no definition of {name} for its caller. Run with --host-threads=ordered."
        );
        std::process::abort();
    }
    slot.store(Box::into_raw(Box::new((base, function))), Ordering::Release);
    function
}
