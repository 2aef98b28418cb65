//! Detects that a Python in this process ends, for a thread that may run functions which need it.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::library::Library;

type Query = unsafe extern "C" fn() -> c_int;

/// Returns true if the process contains a CPython that ends or has ended. A function that needs the
/// interpreter, such as a callback of ctypes, then ends the calling thread, and crashes once the
/// interpreter is gone. CPython keeps this answer until an interpreter begins again.
pub fn python_is_ending() -> bool {
    /// NULL: not found yet. Python may be loaded at any time.
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    // Relaxed: an address in a library, which stays loaded.
    let mut found = FOUND.load(Ordering::Relaxed);
    if found.is_null() {
        let program = Library::program();
        let query = program.function(c"Py_IsFinalizing");
        let query = query.or_else(|| program.function(c"_Py_IsFinalizing"));
        let Some(query) = query else { return false };
        found = query as *mut c_void;
        FOUND.store(found, Ordering::Relaxed);
    }
    // SAFETY: only the address of one of these functions is stored there, which have this type in
    // every version of CPython, and may be called by any thread at any time.
    unsafe { std::mem::transmute::<*mut c_void, Query>(found)() != 0 }
}
