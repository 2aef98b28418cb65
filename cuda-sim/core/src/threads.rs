//! Threads of the simulator, and the end of threads of the program.
//!
//! A function of the program may end the thread that calls it: CPython up to 3.13 ends every thread
//! that asks for its lock once the interpreter ends. A thread of the standard library then ends the
//! process; these end alone. So nothing between `Main` and the program's function may catch what
//! unwinds the stack, or have values that need to be dropped.
//!
//! Nothing here takes the lock of the dynamic linker, as threads of the standard library and
//! destructors of thread-local variables do: a library that is being loaded has that lock, and may
//! wait for a thread or for an operation.

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

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

/// Starts a thread that calls no function of the program. Returns false if that fails.
pub fn start(name: &CStr, run: impl FnOnce() + Send + 'static) -> bool {
    let run: Run = Box::new(run);
    spawn_with(name, call, run)
}

type Run = Box<dyn FnOnce() + Send>;

unsafe extern "C-unwind" fn call(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `start` passed a `Run`, for this call.
    let run: Run = unsafe { take(argument) };
    run();
    NOTHING
}

/// Calls a function when the calling thread ends, after the destructors of thread-local variables.
/// A thread has one such function. For the first thread, it is called if that ends before the
/// program does.
pub fn at_end(run: extern "C" fn()) {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    let key = KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: `key` is writable, and `end` takes the values of the key.
        (unsafe { libc::pthread_key_create(&raw mut key, Some(end)) } == 0).then_some(key)
    });
    if let Some(key) = *key {
        // SAFETY: the key exists for ever.
        unsafe { libc::pthread_setspecific(key, run as *const c_void) };
    }
}

unsafe extern "C" fn end(run: *mut c_void) {
    // SAFETY: `at_end` wrote a function of this type.
    let run = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn()>(run) };
    run();
}

/// Result of a `Main`; it is not read.
pub const NOTHING: *mut c_void = null_mut();
