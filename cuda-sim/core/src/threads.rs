//! Threads in which functions of the program are called.
//!
//! May use: nothing. Unsafe: starts threads with the C library.
//!
//! A function of the program may end the thread that calls it: CPython up to 3.13 ends every thread
//! that asks for its lock once the interpreter ends. A thread of the standard library then ends the
//! process; these end alone. So nothing between `Main` and the program's function may catch what
//! unwinds the stack, or have values that need to be dropped.

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

pub type Main = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;
/// As the `libc` crate declares it.
type PlainMain = extern "C" fn(*mut c_void) -> *mut c_void;

/// Starts a thread that is never joined. Returns false if that fails; the caller has the argument
/// back then. `name`: at most 15 bytes.
///
/// # Safety
///
/// `main` may be called with `argument` in another thread.
pub unsafe fn spawn(name: &CStr, main: Main, argument: *mut c_void) -> bool {
    let mut thread = MaybeUninit::uninit();
    // SAFETY: the same function, with an ABI that also describes how it is left.
    let main = unsafe { std::mem::transmute::<Main, PlainMain>(main) };
    // SAFETY: `thread` is a local that is written on success, `NULL` stands for the default
    // attributes, and the caller permits the call of `main`.
    if unsafe { libc::pthread_create(thread.as_mut_ptr(), null(), main, argument) } != 0 {
        return false;
    }
    // SAFETY: `pthread_create` succeeded, so `thread` is initialized, and it is neither joined nor
    // detached elsewhere. Until it is detached, its number stays valid even if it has ended.
    unsafe {
        let thread = thread.assume_init();
        libc::pthread_setname_np(thread, name.as_ptr());
        libc::pthread_detach(thread);
    }
    true
}

/// As `spawn`, with a value that the thread takes with `take`.
pub fn spawn_with<T: Send + 'static>(name: &CStr, main: Main, value: T) -> bool {
    let argument = Box::into_raw(Box::new(value)).cast();
    // SAFETY: `main` takes the value, once, and values of this type may be sent to other threads.
    let started = unsafe { spawn(name, main, argument) };
    if !started {
        // SAFETY: made above; no thread was started that would take it.
        drop(unsafe { Box::<T>::from_raw(argument.cast()) });
    }
    started
}

/// Returns the value that `spawn_with` passed to this thread.
///
/// # Safety
///
/// `argument` is that of a `Main` that `spawn_with` started with a `T`, and is taken once.
pub unsafe fn take<T: Send + 'static>(argument: *mut c_void) -> T {
    // SAFETY: made by `spawn_with` from a `Box<T>`, as the caller states.
    *unsafe { Box::from_raw(argument.cast()) }
}

/// What a `Main` returns; it is not read.
pub const NOTHING: *mut c_void = null_mut();
