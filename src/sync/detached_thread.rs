//! Starts threads that are never joined, on Unix without the standard library: its threads cannot
//! be started where memory has run out, and functions that end them end the process.

use crate::error::{Result, fail};

/// Functions of a thread.
pub struct Program {
    /// Its work.
    pub run: fn(),
    /// Called in the thread where a function that `run` called has ended it, whether its stack was
    /// unwound or not. On Unix only; where the process has used up its keys of thread-specific
    /// data, or memory has run out, it is not called.
    #[cfg_attr(not(unix), allow(dead_code))]
    pub ended: fn(),
}

/// Starts a thread, in which no signals are delivered.
#[cfg(unix)]
pub fn spawn(program: &'static Program) -> Result<()> {
    posix::spawn(program)
}

/// Starts a thread.
#[cfg(not(unix))]
pub fn spawn(program: &'static Program) -> Result<()> {
    match std::thread::Builder::new().name("cai-release".to_owned()).spawn(program.run) {
        Ok(_detached) => Ok(()),
        Err(error) => no_thread(error),
    }
}

fn no_thread(error: std::io::Error) -> Result<()> {
    fail!(
        CAI_ERR_THREAD,
        "thread",
        found = "{error}",
        expected = "the background release thread to start"
    )
}

#[cfg(unix)]
mod posix {
    use std::ffi::c_void;
    use std::mem::MaybeUninit;
    use std::ptr::{self, null, null_mut};
    use std::sync::atomic::{AtomicU64, Ordering};

    use crate::error::{Failure, Result};
    use crate::sync::detached_thread::{Program, no_thread};

    type Main = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;
    /// As the `libc` crate declares it.
    type PlainMain = extern "C" fn(*mut c_void) -> *mut c_void;

    pub fn spawn(program: &'static Program) -> Result<()> {
        let (mut all, mut before) = (MaybeUninit::zeroed(), MaybeUninit::zeroed());
        let mut thread = MaybeUninit::uninit();
        let argument = ptr::from_ref(program).cast_mut().cast();
        // SAFETY: the same function, with an ABI that also describes how it is left.
        let main = unsafe { std::mem::transmute::<Main, PlainMain>(main) };
        // A thread inherits which signals are blocked. Those of the program are not its business.
        // SAFETY: locals are written, and all zeros is a value of a signal set. The thread uses
        // nothing of this function but a constant, and is not referred to any more.
        let code = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            let code = libc::pthread_create(thread.as_mut_ptr(), null(), main, argument);
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
            if code == 0 {
                libc::pthread_detach(thread.assume_init());
            }
            code
        };
        match code {
            0 => Ok(()),
            _ if is_out_of_memory() => Err(Failure::no_memory(0)),
            _ => no_thread(std::io::Error::from_raw_os_error(code)),
        }
    }

    /// The C library has one code for a lack of memory and a lack of threads.
    fn is_out_of_memory() -> bool {
        // SAFETY: memory that is freed at once; `malloc` may return NULL.
        unsafe {
            let memory = libc::malloc(64);
            libc::free(memory);
            memory.is_null()
        }
    }

    unsafe extern "C-unwind" fn main(program: *mut c_void) -> *mut c_void {
        name();
        let key = end_key();
        if let Some(key) = key {
            // SAFETY: the key is never deleted.
            unsafe { libc::pthread_setspecific(key, program) };
        }
        // SAFETY: `spawn` passed it.
        (unsafe { &*program.cast::<Program>() }.run)();
        if let Some(key) = key {
            // SAFETY: the key is never deleted.
            unsafe { libc::pthread_setspecific(key, null()) };
        }
        null_mut()
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn name() {
        // SAFETY: this thread, and a constant text.
        unsafe { libc::pthread_setname_np(libc::pthread_self(), c"cai-release".as_ptr()) };
    }

    #[cfg(target_vendor = "apple")]
    fn name() {
        // SAFETY: a constant text.
        unsafe { libc::pthread_setname_np(c"cai-release".as_ptr()) };
    }

    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    fn name() {}

    /// The key of a value that a thread has while it runs. Its destructor is called when the thread
    /// ends.
    fn end_key() -> Option<libc::pthread_key_t> {
        /// One more than the key; 0: not made yet.
        static KEY: AtomicU64 = AtomicU64::new(0);
        if let Some(key) = KEY.load(Ordering::Acquire).checked_sub(1) {
            return Some(key as libc::pthread_key_t);
        }
        let mut key = 0;
        // SAFETY: a local; the function stays loaded.
        if unsafe { libc::pthread_key_create(&raw mut key, Some(ended)) } != 0 {
            return None;
        }
        match KEY.compare_exchange(0, key as u64 + 1, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(key),
            Err(other) => {
                // Another thread was faster.
                // SAFETY: made above, and not used.
                unsafe { libc::pthread_key_delete(key) };
                Some((other - 1) as libc::pthread_key_t)
            }
        }
    }

    unsafe extern "C" fn ended(program: *mut c_void) {
        // SAFETY: `main` set it.
        (unsafe { &*program.cast::<Program>() }.ended)();
    }
}
