//! Futexes, which the locks of C++20 and Rust wait on: they call `syscall` of the C library.
//!
//! Only a thread that waits, and one that wakes, call it. A lock that is free is taken by an
//! atomic operation alone.

use crate::checker::{after_key, before_key, is_of_program};
use crate::next::real;
use libc::{c_int, c_long};

/// Effect of a futex operation on order.
enum Effect {
    Wakes,
    Waits,
    None,
}

fn effect(operation: c_long) -> Effect {
    match operation as c_int & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) {
        libc::FUTEX_WAKE
        | libc::FUTEX_WAKE_BITSET
        | libc::FUTEX_WAKE_OP
        | libc::FUTEX_REQUEUE
        | libc::FUTEX_CMP_REQUEUE
        | libc::FUTEX_UNLOCK_PI => Effect::Wakes,
        libc::FUTEX_WAIT
        | libc::FUTEX_WAIT_BITSET
        | libc::FUTEX_LOCK_PI
        | libc::FUTEX_TRYLOCK_PI => Effect::Waits,
        _ => Effect::None,
    }
}

/// `syscall` of the C library, which has a variable number of arguments. All of them are
/// integers or pointers, and those that the caller omits are read and never used, as by the C
/// library.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syscall(
    number: c_long,
    first: c_long,
    second: c_long,
    third: c_long,
    fourth: c_long,
    fifth: c_long,
    sixth: c_long,
) -> c_long {
    type Syscall = unsafe extern "C-unwind" fn(
        c_long,
        c_long,
        c_long,
        c_long,
        c_long,
        c_long,
        c_long,
    ) -> c_long;
    let real = real!(syscall, Syscall);
    let effect = match number {
        libc::SYS_futex if is_of_program() => effect(second),
        _ => Effect::None,
    };
    if let Effect::Wakes = effect {
        before_key(first as usize);
        if second as c_int & !libc::FUTEX_PRIVATE_FLAG == libc::FUTEX_WAKE_OP {
            before_key(fifth as usize);
        }
    }
    // SAFETY: passes on what the caller passed.
    let result = unsafe { real(number, first, second, third, fourth, fifth, sixth) };
    // A thread that was woken, or came too late to wait because the value had changed.
    if let Effect::Waits = effect {
        // SAFETY: the address is that of this thread's `errno`.
        if result == 0 || unsafe { *libc::__errno_location() } == libc::EAGAIN {
            after_key(first as usize);
        }
    }
    result
}
