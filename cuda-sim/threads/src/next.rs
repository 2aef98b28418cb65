//! The functions that are replaced: the next definitions of their names.

use crate::modules;
use libc::{c_char, c_void};
use std::ffi::CStr;
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The next definition of a function.
pub struct Next {
    /// NUL-terminated.
    pub name: &'static str,
    /// One of several versions, if there are such.
    pub version: Option<&'static CStr>,
    /// Its address, 0 before it is known, or if it has no definition that all modules see.
    pub address: AtomicUsize,
}

/// Returns the next definition of a function, which is looked up once. `@VERSION` selects one
/// of several versions.
macro_rules! real {
    ($name:ident $(@ $version:literal)?, $type:ty) => {{
        #[used]
        // The linker makes one array of this section.
        #[unsafe(link_section = "cudasim_next")]
        static REAL: crate::next::Next = {
            #[allow(unused_mut, unused_assignments)]
            let mut version: Option<&std::ffi::CStr> = None;
            $( version = Some($version); )?
            crate::next::Next {
                name: concat!(stringify!($name), "\0"),
                version,
                address: std::sync::atomic::AtomicUsize::new(0),
            }
        };
        let mut found = REAL.address.load(std::sync::atomic::Ordering::Relaxed);
        if found == 0 {
            found = REAL.find();
            if found == 0 {
                static FOUND: crate::next::Found = crate::next::NONE_FOUND;
                let name = REAL.name.as_ptr().cast();
                found = crate::next::find_for_caller(name, &FOUND) as usize;
            }
        }
        // SAFETY: the library that the program was linked against defines this function
        // with this type (POSIX, C11, Linux). It exists, because the caller is linked
        // against it.
        unsafe { std::mem::transmute::<usize, $type>(found) }
    }};
}
pub(crate) use real;

impl Next {
    /// Looks up the function. Takes the lock of the dynamic linker.
    pub fn find(&self) -> usize {
        let name = self.name.as_ptr().cast();
        let mut found = ptr::null_mut();
        if let Some(version) = self.version {
            // SAFETY: both texts are NUL-terminated constants.
            found = unsafe { libc::dlvsym(libc::RTLD_NEXT, name, version.as_ptr()) };
        }
        if found.is_null() {
            // SAFETY: the text is a NUL-terminated constant.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, name) };
        }
        self.address.store(found as usize, Ordering::Relaxed);
        found as usize
    }
}

unsafe extern "C" {
    /// The array of the section, from the linker.
    #[link_name = "__start_cudasim_next"]
    static FIRST: u8;
    #[link_name = "__stop_cudasim_next"]
    static END: u8;
}

/// Looks up all functions. The simulator calls some of them while it runs an operation. A thread
/// that initializes a library may wait for that operation, and it has the lock of the dynamic
/// linker, so that a look-up would wait for ever.
pub fn find_all() {
    let first = (&raw const FIRST).cast::<Next>();
    let end = (&raw const END).cast::<Next>();
    // SAFETY: the linker puts both symbols around the array. Its elements are never changed, but
    // for their atomic words.
    let all = unsafe { std::slice::from_raw_parts(first, end.offset_from(first) as usize) };
    for next in all {
        next.find();
    }
    // A program that asks for errors of its own look-ups does not see that some were not found.
    // SAFETY: the function has no preconditions.
    unsafe { libc::dlerror() };
    modules::prepare();
    own();
}

/// Functions of libraries that not all modules can see, with the module that called.
pub type Found = [AtomicPtr<(usize, *mut c_void)>; 16];
#[allow(clippy::declare_interior_mutable_const)]
pub const NONE_FOUND: Found = [const { AtomicPtr::new(ptr::null_mut()) }; 16];

/// Returns the addresses of this library.
fn own() -> Range<usize> {
    static OWN: OnceLock<Range<usize>> = OnceLock::new();
    let here = find_all as fn() as usize;
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
