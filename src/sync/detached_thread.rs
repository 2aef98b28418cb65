//! Starts threads that are never joined, on Unix without the standard library: its threads cannot
//! be started where memory has run out, and functions that end them end the process.

use crate::error::{Result, fail};

pub struct Program {
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

#[cfg(not(unix))]
pub fn spawn(program: &'static Program) -> Result<()> {
    match std::thread::Builder::new().name("cai-release".to_owned()).spawn(program.run) {
        Ok(_detached) => Ok(()),
        Err(error) => no_thread(error),
    }
}

fn no_thread(error: std::io::Error) -> Result<()> {
    fail!(CAI_ERR_THREAD, "thread";
        found "{error}"; expected "the background release thread to start")
}

#[cfg(unix)]
mod posix {
    use std::alloc::Layout;
    use std::ffi::{c_int, c_void};
    use std::hint::black_box;
    use std::mem::MaybeUninit;
    use std::ptr::{null, null_mut};
    use std::sync::atomic::{AtomicU64, Ordering};

    use crate::error::{Failure, Result};
    use crate::memory::Memory;
    use crate::sync::detached_thread::{Program, no_thread};

    /// A thread's main function. The `libc` crate declares it without the way it may be left.
    type Main = extern "C-unwind" fn(&'static Program) -> *mut c_void;

    // With the type of the values that this module passes. The C library reads nothing of a program.
    #[allow(improper_ctypes)]
    unsafe extern "C" {
        fn pthread_create(
            thread: *mut libc::pthread_t,
            attributes: *const libc::pthread_attr_t,
            main: Main,
            argument: &'static Program,
        ) -> c_int;
        fn pthread_key_create(
            key: *mut libc::pthread_key_t,
            destructor: Option<extern "C" fn(&'static Program)>,
        ) -> c_int;
        fn pthread_setspecific(key: libc::pthread_key_t, value: Option<&'static Program>) -> c_int;
    }

    pub fn spawn(program: &'static Program) -> Result<()> {
        let (mut all, mut before) = (MaybeUninit::zeroed(), MaybeUninit::zeroed());
        let mut thread = MaybeUninit::uninit();
        // A thread inherits which signals are blocked. Those of the program are not its business.
        // SAFETY: locals are written, and all zeros is a value of a signal set. The thread uses
        // nothing of this function but a constant, and is not referred to any more.
        let code = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            let code = pthread_create(thread.as_mut_ptr(), null(), main, program);
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
        // The compiler may leave out memory that is not used.
        black_box(Memory::new(Layout::new::<[u64; 8]>())).is_err()
    }

    extern "C-unwind" fn main(program: &'static Program) -> *mut c_void {
        name();
        let key = Key::new();
        if let Some(key) = key {
            key.set(Some(program));
        }
        (program.run)();
        if let Some(key) = key {
            key.set(None);
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

    /// The key of the program that a thread runs. It is never deleted.
    #[derive(Clone, Copy)]
    struct Key(libc::pthread_key_t);

    impl Key {
        /// Returns the key of all threads. `None` where the process has used up its keys.
        fn new() -> Option<Self> {
            /// One more than the key; 0: not made yet.
            static KEY: AtomicU64 = AtomicU64::new(0);
            if let Some(key) = KEY.load(Ordering::Acquire).checked_sub(1) {
                return Some(Key(key as libc::pthread_key_t));
            }
            let mut key = 0;
            // SAFETY: a local; the function stays loaded.
            if unsafe { pthread_key_create(&raw mut key, Some(ended)) } != 0 {
                return None;
            }
            match KEY.compare_exchange(0, key as u64 + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => Some(Key(key)),
                Err(other) => {
                    // Another thread was faster.
                    // SAFETY: made above, and not used.
                    unsafe { libc::pthread_key_delete(key) };
                    Some(Key((other - 1) as libc::pthread_key_t))
                }
            }
        }

        /// Sets the program of this thread. [`ended`] is called with it if the thread ends.
        fn set(self, program: Option<&'static Program>) {
            // SAFETY: the key was made for values of this type, and is never deleted.
            unsafe { pthread_setspecific(self.0, program) };
        }
    }

    extern "C" fn ended(program: &'static Program) {
        (program.ended)();
    }
}
