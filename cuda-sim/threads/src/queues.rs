//! Queues of messages of POSIX and System V, and semaphores of System V.

use crate::channels::queue;
use crate::checker::{Kind, after_key, before_key, is_attached, key};
use crate::next::real;
use libc::{c_char, c_int, c_long, c_uint, c_void, mqd_t, sembuf, size_t, ssize_t, timespec};

fn message_key(id: c_int) -> usize {
    key(Kind::Messages, id as u64)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn msgsnd(
    id: c_int,
    message: *const c_void,
    size: size_t,
    flags: c_int,
) -> c_int {
    type Send = unsafe extern "C-unwind" fn(c_int, *const c_void, size_t, c_int) -> c_int;
    let real = real!(msgsnd, Send);
    before_key(message_key(id));
    // SAFETY: passes on what the caller passed.
    unsafe { real(id, message, size, flags) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn msgrcv(
    id: c_int,
    message: *mut c_void,
    size: size_t,
    kind: c_long,
    flags: c_int,
) -> ssize_t {
    type Receive =
        unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t, c_long, c_int) -> ssize_t;
    let real = real!(msgrcv, Receive);
    // SAFETY: passes on what the caller passed.
    let result = unsafe { real(id, message, size, kind, flags) };
    if result >= 0 {
        after_key(message_key(id));
    }
    result
}

/// Calls `each` with the keys of semaphores, those that are raised or those that are waited for.
///
/// # Safety
/// `operations` points to `count` operations.
unsafe fn semaphores(
    id: c_int,
    operations: *const sembuf,
    count: size_t,
    raised: bool,
    each: fn(usize),
) {
    if !is_attached() {
        return;
    }
    for at in 0..count {
        // SAFETY: `at` is below `count` (this function's contract).
        let sembuf { sem_num, sem_op, .. } = unsafe { *operations.add(at) };
        if (sem_op > 0) == raised {
            each(key(Kind::Semaphores, (id as u64) << 16 | u64::from(sem_num)));
        }
    }
}

/// Defines both forms of the operations on semaphores.
macro_rules! operations {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            id: c_int, operations: *mut sembuf, count: size_t $(, $arg: $type)*
        ) -> c_int {
            let real = real!(
                $name,
                unsafe extern "C-unwind" fn(c_int, *mut sembuf, size_t $(, $type)*) -> c_int
            );
            // SAFETY: the caller passes `count` operations, by the function's contract.
            unsafe { semaphores(id, operations, count, true, before_key) };
            // SAFETY: passes on what the caller passed.
            let result = unsafe { real(id, operations, count $(, $arg)*) };
            if result == 0 {
                // SAFETY: there are `count` operations, as before the call.
                unsafe { semaphores(id, operations, count, false, after_key) };
            }
            result
        }
    )* };
}

operations! {
    semop();
    semtimedop(time: *const timespec);
}

/// Defines functions that send a message to a queue of POSIX.
macro_rules! sends {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            to: mqd_t, text: *const c_char, size: size_t, priority: c_uint $(, $arg:
            $type)*
        ) -> c_int {
            let real = real!(
                $name,
                unsafe extern "C-unwind" fn(
                    mqd_t, *const c_char, size_t, c_uint $(, $type)*
                ) -> c_int
            );
            queue(to, before_key);
            // SAFETY: passes on what the caller passed.
            unsafe { real(to, text, size, priority $(, $arg)*) }
        }
    )* };
}

sends! {
    mq_send();
    mq_timedsend(time: *const timespec);
}

/// Defines functions that receive a message from a queue of POSIX.
macro_rules! receives {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            from: mqd_t, text: *mut c_char, size: size_t, priority: *mut c_uint $(,
            $arg: $type)*
        ) -> ssize_t {
            let real = real!(
                $name,
                unsafe extern "C-unwind" fn(
                    mqd_t, *mut c_char, size_t, *mut c_uint $(, $type)*
                ) -> ssize_t
            );
            // SAFETY: passes on what the caller passed.
            let result = unsafe { real(from, text, size, priority $(, $arg)*) };
            if result >= 0 {
                queue(from, after_key);
            }
            result
        }
    )* };
}

receives! {
    mq_receive();
    mq_timedreceive(time: *const timespec);
}
