//! Signals: what sent one comes before what waited for it. Their handlers notify nothing.

use crate::checker::{Kind, after_key, before_key, in_handler, key};
use crate::next::real;
use libc::{
    SIG_ERR, c_int, c_void, pid_t, pthread_t, sighandler_t, siginfo_t, sigset_t, sigval, timespec,
};
use std::sync::atomic::{AtomicUsize, Ordering};

pub fn signal_key(number: c_int) -> usize {
    key(Kind::Signal, number as u64)
}

/// Defines functions that send a signal.
macro_rules! sends {
    ($($name:ident($($arg:ident: $type:ty),*) of $number:ident;)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            let real = real!($name, unsafe extern "C-unwind" fn($($type),*) -> c_int);
            before_key(signal_key($number));
            // SAFETY: passes on what the caller passed.
            unsafe { real($($arg),*) }
        }
    )* };
}

sends! {
    kill(process: pid_t, number: c_int) of number;
    raise(number: c_int) of number;
    tgkill(process: pid_t, thread: pid_t, number: c_int) of number;
    pthread_kill(thread: pthread_t, number: c_int) of number;
    sigqueue(process: pid_t, number: c_int, value: sigval) of number;
    pthread_sigqueue(thread: pthread_t, number: c_int, value: sigval) of number;
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigwait(set: *const sigset_t, number: *mut c_int) -> c_int {
    type Wait = unsafe extern "C-unwind" fn(*const sigset_t, *mut c_int) -> c_int;
    let real = real!(sigwait, Wait);
    // SAFETY: passes on what the caller passed.
    let result = unsafe { real(set, number) };
    if result == 0 {
        // SAFETY: `sigwait` wrote the number.
        after_key(signal_key(unsafe { *number }));
    }
    result
}

/// Defines waits that return the number.
macro_rules! waits {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            set: *const sigset_t, info: *mut siginfo_t $(, $arg: $type)*
        ) -> c_int {
            let real = real!(
                $name,
                unsafe extern "C-unwind" fn(*const sigset_t, *mut siginfo_t $(, $type)*) -> c_int
            );
            // SAFETY: passes on what the caller passed.
            let result = unsafe { real(set, info $(, $arg)*) };
            if result > 0 {
                after_key(signal_key(result));
            }
            result
        }
    )* };
}

waits! {
    sigwaitinfo();
    sigtimedwait(time: *const timespec);
}

// --- handlers ---

/// The program's handlers, by number.
static HANDLERS: [AtomicUsize; 65] = [const { AtomicUsize::new(0) }; 65];

/// Handles a signal: the kernel calls it instead of the program's handler.
unsafe extern "C-unwind" fn handle(number: c_int, info: *mut siginfo_t, context: *mut c_void) {
    type Handler = unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void);
    let handler = HANDLERS[number as usize].load(Ordering::Acquire);
    // SAFETY: `replace` stored it before this function became the handler. One without
    // SA_SIGINFO has the first argument alone, and does not see the others.
    in_handler(|| unsafe {
        std::mem::transmute::<usize, Handler>(handler)(number, info, context);
    });
}

/// The address of [`handle`].
fn ours() -> sighandler_t {
    handle as unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void) as sighandler_t
}

/// Replaces a handler while `install` gives the kernel its result, and returns what `install`
/// found as the program's own.
fn replace(
    number: c_int,
    handler: sighandler_t,
    install: impl FnOnce(sighandler_t) -> Option<sighandler_t>,
) -> Option<sighandler_t> {
    /// SIG_DFL, SIG_IGN and SIG_HOLD.
    const SPECIAL: sighandler_t = 2;
    let Some(slot) = usize::try_from(number).ok().and_then(|at| HANDLERS.get(at)) else {
        return install(handler);
    };
    let is_function = handler > SPECIAL && handler != SIG_ERR;
    let earlier = slot.load(Ordering::Acquire);
    if is_function {
        slot.store(handler, Ordering::Release);
    }
    match install(if is_function { ours() } else { handler }) {
        Some(found) => Some(if found == ours() { earlier } else { found }),
        None => {
            slot.store(earlier, Ordering::Release);
            None
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(
    number: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    type Set = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;
    let real = real!(sigaction, Set);
    // SAFETY: NULL, or the caller's structure. It is copied before `old`, which may be the
    // same, is written.
    let Some(mut changed) = (unsafe { new.as_ref() }).copied() else {
        // SAFETY: passes on what the caller passed.
        let result = unsafe { real(number, new, old) };
        // SAFETY: NULL, or written by the C library.
        if let (0, Some(old)) = (result, unsafe { old.as_mut() }) {
            if old.sa_sigaction == ours() {
                old.sa_sigaction = HANDLERS[number as usize].load(Ordering::Acquire);
            }
        }
        return result;
    };
    let found = replace(number, changed.sa_sigaction, |handler| {
        changed.sa_sigaction = handler;
        let mut found = std::mem::MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: a copy of the caller's structure, and space for another, which the C
        // library fills if it returns 0.
        unsafe {
            if real(number, &raw const changed, found.as_mut_ptr()) != 0 {
                return None;
            }
            let found = found.assume_init();
            old.as_mut().into_iter().for_each(|old| *old = found);
            Some(found.sa_sigaction)
        }
    });
    let Some(found) = found else { return -1 };
    // SAFETY: NULL, or the caller's structure.
    unsafe { old.as_mut() }.into_iter().for_each(|old| old.sa_sigaction = found);
    0
}

/// Defines functions that set a handler and return the earlier one.
macro_rules! setters {
    ($($name:ident;)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(number: c_int, handler: sighandler_t) -> sighandler_t {
            let real = real!($name, unsafe extern "C" fn(c_int, sighandler_t) -> sighandler_t);
            replace(number, handler, |handler| {
                // SAFETY: a handler of the program, or the one that calls it.
                Some(unsafe { real(number, handler) }).filter(|found| *found != SIG_ERR)
            })
            .unwrap_or(SIG_ERR)
        }
    )* };
}

setters! {
    signal;
    bsd_signal;
    sysv_signal;
    __sysv_signal;
    ssignal;
    sigset;
}
