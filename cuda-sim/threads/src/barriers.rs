//! Barriers of POSIX. A thread that leaves one does not know what the others did afterwards, even
//! if they arrived at the next one before it was notified: each round has an object of its own.

use crate::checker::{after, before};
use crate::next::real;
use libc::{c_int, c_uint, pthread_barrier_t, pthread_barrierattr_t};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

struct Barrier {
    /// Its address; 0 if the slot is free.
    address: AtomicUsize,
    /// The number of threads that it waits for.
    count: AtomicUsize,
    arrivals: AtomicUsize,
    inside: AtomicUsize,
    /// Whether more threads than `count` use it: then the rounds are not known.
    is_crowded: AtomicBool,
}

/// Barriers beyond this number have one object for all rounds, which only adds order.
static BARRIERS: [Barrier; 64] = [const {
    Barrier {
        address: AtomicUsize::new(0),
        count: AtomicUsize::new(0),
        arrivals: AtomicUsize::new(0),
        inside: AtomicUsize::new(0),
        is_crowded: AtomicBool::new(false),
    }
}; 64];

fn find(barrier: *const pthread_barrier_t) -> Option<&'static Barrier> {
    BARRIERS.iter().find(|known| known.address.load(SeqCst) == barrier.addr())
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_barrier_init(
    barrier: *mut pthread_barrier_t,
    attributes: *const pthread_barrierattr_t,
    count: c_uint,
) -> c_int {
    type Init = unsafe extern "C-unwind" fn(
        *mut pthread_barrier_t,
        *const pthread_barrierattr_t,
        c_uint,
    ) -> c_int;
    let real = real!(pthread_barrier_init, Init);
    // SAFETY: the caller's arguments satisfy the contract of the C library's function of this name.
    let result = unsafe { real(barrier, attributes, count) };
    if result == 0 {
        // The memory may have been that of a barrier that was not destroyed.
        let known = find(barrier).or_else(|| {
            let take =
                |slot: &&Barrier| slot.address.compare_exchange(0, 1, SeqCst, SeqCst).is_ok();
            BARRIERS.iter().find(take)
        });
        if let Some(known) = known {
            known.count.store(count as usize, SeqCst);
            known.arrivals.store(0, SeqCst);
            known.inside.store(0, SeqCst);
            known.is_crowded.store(false, SeqCst);
            known.address.store(barrier.addr(), SeqCst);
        }
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_barrier_destroy(barrier: *mut pthread_barrier_t) -> c_int {
    let real = real!(
        pthread_barrier_destroy,
        unsafe extern "C-unwind" fn(*mut pthread_barrier_t) -> c_int
    );
    // SAFETY: the caller's arguments satisfy the contract of the C library's function of this name.
    let result = unsafe { real(barrier) };
    if result == 0 {
        find(barrier).into_iter().for_each(|known| known.address.store(0, SeqCst));
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int {
    let real =
        real!(pthread_barrier_wait, unsafe extern "C-unwind" fn(*mut pthread_barrier_t) -> c_int);
    // A thread that has not left a round cannot arrive at the next one, so the one after that
    // cannot begin to end: two objects are enough.
    let rounds = [barrier.cast::<u8>(), barrier.cast::<u8>().wrapping_add(1)];
    let known = find(barrier);
    let round = known.map_or(0, |known| {
        let count = known.count.load(SeqCst).max(1);
        if known.inside.fetch_add(1, SeqCst) >= count {
            known.is_crowded.store(true, SeqCst);
        }
        known.arrivals.fetch_add(1, SeqCst) / count % 2
    });
    let is_crowded = || known.is_some_and(|known| known.is_crowded.load(SeqCst));
    before(rounds[round]);
    if is_crowded() {
        before(rounds[1 - round]);
    }
    // SAFETY: the caller's arguments satisfy the contract of the C library's function of this name.
    let result = unsafe { real(barrier) };
    after(rounds[round]);
    if is_crowded() {
        after(rounds[1 - round]);
    }
    known.into_iter().for_each(|known| {
        known.inside.fetch_sub(1, SeqCst);
    });
    result
}
