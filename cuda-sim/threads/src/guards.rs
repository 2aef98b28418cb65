//! The guards of local static variables of C++ (Itanium C++ ABI, 3.3.3).
//!
//! Compiled code calls `__cxa_guard_acquire` only while the first byte of a guard is 0, and a
//! thread that finds the variable initialized would call nothing. Here the byte stays 0 once
//! there is a checker, so that each use calls; a thread that knows the initialization returns
//! at once. The other bytes belong to the C++ runtime library, which this replaces as a whole.
//! They are those of GCC's library, with which a guard may be shared by a module that has its
//! own copy of it. A guard that a module exports may be one of them, so its first byte is set,
//! and only threads that wait for the initialization are observed.

use crate::checker::{after, before, is_attached};
use crate::modules::is_exported;
use crate::next::real;
use libc::{SYS_futex, c_int};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// The variable is initialized, for compiled code too.
const DONE: u32 = 1;
/// A thread initializes it.
const PENDING: u32 = 0x100;
/// Others wait for that.
const WAITING: u32 = 0x1_0000;
/// The variable is initialized, and each use is observed.
const OBSERVED: u32 = 0x100_0000;

/// A guard: 64 bits. The second half has no meaning for others.
#[repr(C, align(8))]
pub struct Guard {
    state: AtomicU32,
    /// The number of the initialization, if it is observed.
    number: AtomicU32,
}

/// Number of initializations that are observed.
static NUMBERS: AtomicU32 = AtomicU32::new(0);

const KNOWN: usize = 64;
thread_local! {
    /// Initializations that this thread knows, by their numbers.
    static KNOWN_HERE: [Cell<u32>; KNOWN] = const { [const { Cell::new(0) }; KNOWN] };
}

/// Calls the kernel without the function that this library replaces: a guard notifies itself.
fn futex(word: &AtomicU32, operation: c_int, value: u32) {
    type Syscall = unsafe extern "C" fn(i64, *const AtomicU32, c_int, u32, usize) -> i64;
    let real = real!(syscall, Syscall);
    // SAFETY: the word is alive; a wait without a time limit, or a wake.
    unsafe { real(SYS_futex, word, operation | libc::FUTEX_PRIVATE_FLAG, value, 0) };
}

/// Returns true if the thread knew the initialization already, and knows it from now on.
fn is_known(number: u32) -> bool {
    let slot = number as usize % KNOWN;
    KNOWN_HERE.try_with(|known| known[slot].replace(number) == number).unwrap_or(false)
}

#[cold]
fn acquire_observed(guard: &Guard) {
    if !is_known(guard.number.load(Ordering::Relaxed)) {
        after(guard);
    }
}

/// Returns 1 if the caller has to initialize the variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cxa_guard_acquire(guard: *mut Guard) -> c_int {
    // SAFETY: the guard of a variable, 64 bits aligned to 8, which the ABI prescribes; it
    // lives as long as its module.
    let guard = unsafe { &*guard };
    let mut found = guard.state.load(Ordering::Acquire);
    loop {
        match found {
            OBSERVED => {
                acquire_observed(guard);
                return 0;
            }
            0 => {
                let pending =
                    guard.state.compare_exchange(0, PENDING, Ordering::Acquire, Ordering::Acquire);
                match pending {
                    Ok(_) => {
                        // After an attempt that failed.
                        after(guard);
                        return 1;
                    }
                    Err(now) => found = now,
                }
                continue;
            }
            state if state & DONE != 0 => {
                after(guard);
                return 0;
            }
            PENDING => {
                let waiting = guard.state.compare_exchange(
                    PENDING,
                    PENDING | WAITING,
                    Ordering::Acquire,
                    Ordering::Acquire,
                );
                if let Err(now) = waiting {
                    found = now;
                    continue;
                }
            }
            _ => {}
        }
        futex(&guard.state, libc::FUTEX_WAIT, PENDING | WAITING);
        found = guard.state.load(Ordering::Acquire);
    }
}

/// Ends an attempt, and wakes those that wait for it.
fn end(guard: &Guard, state: u32) {
    before(guard);
    if guard.state.swap(state, Ordering::AcqRel) & WAITING != 0 {
        futex(&guard.state, libc::FUTEX_WAKE, i32::MAX as u32);
    }
}

/// The variable is initialized.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cxa_guard_release(guard: *mut Guard) {
    // SAFETY: as in `__cxa_guard_acquire`.
    let guard = unsafe { &*guard };
    if is_attached() && !is_exported(guard) {
        // 0 is the number of none.
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
        guard.number.store(number, Ordering::Relaxed);
        is_known(number);
        end(guard, OBSERVED);
    } else {
        end(guard, DONE);
    }
}

/// The initialization ended by an exception.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cxa_guard_abort(guard: *mut Guard) {
    // SAFETY: as in `__cxa_guard_acquire`.
    end(unsafe { &*guard }, 0);
}
