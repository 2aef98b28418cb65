//! Passes elements to a background thread, which may end and be replaced. Tested with loom.
//!
//! May use: `error`.
//! Unsafe: follows the links of elements.
//!
//! It does not grow: the elements are linked. Where no thread can be started, they stay, and later
//! calls of the library try again; one that may run callbacks of the user does the thread's work.

use std::ptr::null_mut;
use std::sync::PoisonError;
#[cfg(not(loom))]
use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering},
};

#[cfg(loom)]
use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering},
};

use crate::error::Result;

/// An element of a list.
pub trait Link {
    /// The place of the link in it.
    ///
    /// # Safety
    /// `this` points to an element, which nothing else uses.
    unsafe fn next(this: *mut Self) -> *mut *mut Self;
}

/// The list, and who works on it.
pub struct Handover<T> {
    inbox: Mutex<Inbox<T>>,
    wake: Condvar,
    /// There may be elements and no thread that works on them.
    stalled: AtomicBool,
}

struct Inbox<T> {
    /// The latest first.
    latest: *mut T,
    worker: Worker,
    /// The thread sleeps until it is woken.
    is_asleep: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Worker {
    /// None, or it was ended by a function that it called.
    None,
    /// The thread, or a caller in its place.
    Works,
    /// Ended because the process exits.
    Exited,
}

// SAFETY: an element belongs to one side at a time, and the lock orders what both do with it.
unsafe impl<T> Send for Inbox<T> {}
// SAFETY: as above.
#[cfg(loom)]
unsafe impl<T> Sync for Handover<T> {}

impl<T: Link> Handover<T> {
    /// An empty list without a thread.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Handover {
            inbox: Mutex::new(Inbox { latest: null_mut(), worker: Worker::None, is_asleep: false }),
            wake: Condvar::new(),
            stalled: AtomicBool::new(false),
        }
    }

    /// An empty list without a thread.
    #[cfg(loom)]
    pub fn new() -> Self {
        Handover {
            inbox: Mutex::new(Inbox { latest: null_mut(), worker: Worker::None, is_asleep: false }),
            wake: Condvar::new(),
            stalled: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inbox<T>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an element. It stays until there is a thread.
    ///
    /// # Safety
    /// The element is in no list, and belongs to the list from now on.
    pub unsafe fn push(&self, element: *mut T) {
        let mut inbox = self.lock();
        // SAFETY: in no list (this function's contract).
        unsafe { T::next(element).write(inbox.latest) };
        inbox.latest = element;
        if inbox.is_asleep {
            inbox.is_asleep = false;
            self.wake.notify_one();
        }
        if inbox.worker == Worker::None {
            // Relaxed: who reads it takes the lock.
            self.stalled.store(true, Ordering::Relaxed);
        }
    }

    /// Calls `spawn` unless there is a thread.
    pub fn start(&self, spawn: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut inbox = self.lock();
        if inbox.worker == Worker::None {
            spawn()?;
            inbox.worker = Worker::Works;
            self.stalled.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns true if elements may wait for a thread.
    #[inline]
    pub fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    /// Makes the caller work in place of the thread, until [`leave`](Self::leave) with `true`.
    /// Returns false if there is a thread.
    pub fn stand_in(&self) -> bool {
        let mut inbox = self.lock();
        let is_free = inbox.worker == Worker::None;
        if is_free {
            inbox.worker = Worker::Works;
        }
        is_free
    }

    /// The thread ends, or the caller that stood in for it. `has_rest`: it leaves elements that it
    /// took. Returns true if elements are left, for which there should be another one.
    pub fn leave(&self, has_rest: bool) -> bool {
        let mut inbox = self.lock();
        inbox.worker = Worker::None;
        let is_left = has_rest || !inbox.latest.is_null();
        self.stalled.store(is_left, Ordering::Relaxed);
        is_left
    }

    /// The thread ends because the process exits. Nothing is worked on any more.
    pub fn exit(&self) {
        self.lock().worker = Worker::Exited;
        self.stalled.store(false, Ordering::Relaxed);
    }

    /// Sleeps until there are elements. For the thread.
    pub fn wait(&self) {
        let mut inbox = self.lock();
        if inbox.latest.is_null() {
            inbox.is_asleep = true;
            while inbox.is_asleep {
                inbox = self.wake.wait(inbox).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Takes all elements, the earliest first. For the thread or who stands in for it.
    pub fn take(&self) -> *mut T {
        let mut rest = std::mem::replace(&mut self.lock().latest, null_mut());
        let mut earliest = null_mut();
        while !rest.is_null() {
            // SAFETY: what was in the list is the caller's now.
            let next = unsafe { std::mem::replace(&mut *T::next(rest), earliest) };
            earliest = rest;
            rest = next;
        }
        earliest
    }
}
