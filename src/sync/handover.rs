//! Passes elements to a background thread, which may end and be replaced. Tested with loom.
//!
//! It does not grow: the elements are linked. Where no thread can be started, they stay, and later
//! calls of the library try again; one that may run callbacks of the user does the thread's work.

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

/// An element of a list, which it owns from itself on.
pub trait Link: Sized {
    fn next(&mut self) -> &mut Option<Self>;
}

/// The list, and the state of the thread that works on it.
pub struct Handover<E> {
    inbox: Mutex<Inbox<E>>,
    wake: Condvar,
    /// There may be elements and no thread that works on them.
    stalled: AtomicBool,
}

struct Inbox<E> {
    /// The latest first.
    latest: Option<E>,
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

impl<E: Link> Handover<E> {
    /// An empty list without a thread.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Handover {
            inbox: Mutex::new(Inbox { latest: None, worker: Worker::None, is_asleep: false }),
            wake: Condvar::new(),
            stalled: AtomicBool::new(false),
        }
    }

    /// An empty list without a thread.
    #[cfg(loom)]
    pub fn new() -> Self {
        Handover {
            inbox: Mutex::new(Inbox { latest: None, worker: Worker::None, is_asleep: false }),
            wake: Condvar::new(),
            stalled: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inbox<E>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an element. It stays until there is a thread.
    pub fn push(&self, mut element: E) {
        let mut inbox = self.lock();
        *element.next() = inbox.latest.take();
        inbox.latest = Some(element);
        if inbox.is_asleep {
            inbox.is_asleep = false;
            self.wake.notify_one();
        }
        if inbox.worker == Worker::None {
            // Relaxed: readers take the lock.
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
        let is_left = has_rest || inbox.latest.is_some();
        self.stalled.store(is_left, Ordering::Relaxed);
        is_left
    }

    /// The thread ends because the process exits. Nothing is worked on any more.
    pub fn exit(&self) {
        self.lock().worker = Worker::Exited;
        self.stalled.store(false, Ordering::Relaxed);
    }

    pub fn wait(&self) {
        let mut inbox = self.lock();
        if inbox.latest.is_none() {
            inbox.is_asleep = true;
            while inbox.is_asleep {
                inbox = self.wake.wait(inbox).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Takes all elements, the earliest first. For the thread or its stand-in.
    pub fn take(&self) -> Option<E> {
        let mut rest = self.lock().latest.take();
        let mut earliest = None;
        while let Some(mut element) = rest {
            rest = std::mem::replace(element.next(), earliest);
            earliest = Some(element);
        }
        earliest
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::{Handover, Link};
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use loom::thread;

    /// A release that is due, once. Loom reports two threads that use the count without an order.
    struct Element {
        next: Option<Box<Element>>,
        released: Arc<UnsafeCell<usize>>,
    }

    impl Link for Box<Element> {
        fn next(&mut self) -> &mut Option<Self> {
            &mut self.next
        }
    }

    struct Queue {
        handover: Handover<Box<Element>>,
        counts: [Arc<UnsafeCell<usize>>; 2],
        released: AtomicUsize,
    }

    impl Queue {
        fn new() -> Arc<Self> {
            let count = || Arc::new(UnsafeCell::new(0));
            let (counts, released) = ([count(), count()], AtomicUsize::new(0));
            Arc::new(Queue { handover: Handover::new(), counts, released })
        }

        fn push(&self, index: usize) {
            let released = self.counts[index].clone();
            self.handover.push(Box::new(Element { next: None, released }));
        }

        /// Releases everything that is in the queue. For the worker.
        fn release(&self) {
            let mut first = self.handover.take();
            while let Some(element) = first {
                // SAFETY: loom reports an error if another thread uses it now.
                element.released.with_mut(|count| unsafe { *count += 1 });
                first = element.next;
                self.released.fetch_add(1, Ordering::Relaxed);
            }
        }

        /// A call of the library which may do the thread's work.
        fn call(&self) {
            if self.handover.is_stalled() && self.handover.stand_in() {
                self.release();
                self.handover.leave(false);
            }
        }

        fn all_were_released_once(&self) -> bool {
            // SAFETY: no other thread runs any more.
            self.counts.iter().all(|count| count.with(|count| unsafe { *count == 1 }))
        }
    }

    /// Two threads pass elements to a third, which one of them starts and which sleeps in between.
    #[test]
    fn everything_is_handed_over() {
        loom::model(|| {
            let queue = Queue::new();
            let worker = Arc::new(std::sync::Mutex::new(None));
            let start = |queue: &Arc<Queue>, worker: &std::sync::Mutex<_>| {
                let shared = queue.clone();
                let spawn = || {
                    let run = move || {
                        while shared.released.load(Ordering::Relaxed) < 2 {
                            shared.handover.wait();
                            shared.release();
                        }
                    };
                    *worker.lock().unwrap() = Some(thread::spawn(run));
                    Ok(())
                };
                assert!(queue.handover.start(spawn).is_ok());
            };
            let other = {
                let (queue, worker) = (queue.clone(), worker.clone());
                thread::spawn(move || {
                    queue.push(1);
                    start(&queue, &worker);
                })
            };
            queue.push(0);
            start(&queue, &worker);
            other.join().unwrap();
            let worker = worker.lock().unwrap().take().unwrap();
            worker.join().unwrap();
            assert!(queue.all_were_released_once());
        });
    }

    /// The worker ends at any point, with and without elements that it took. What is passed on
    /// before or after that is released by a later call.
    #[test]
    fn the_worker_may_end() {
        loom::model(|| {
            let queue = Queue::new();
            assert!(queue.handover.start(|| Ok(())).is_ok());
            let worker = {
                let queue = queue.clone();
                thread::spawn(move || {
                    queue.release();
                    queue.handover.leave(false)
                })
            };
            queue.push(0);
            queue.push(1);
            let is_left = worker.join().unwrap();
            assert!(!is_left || queue.handover.is_stalled());
            queue.call();
            assert!(queue.all_were_released_once());
            assert!(!queue.handover.is_stalled());
        });
    }

    /// Two calls find that there is no thread: one of them does the work, and none is lost.
    #[test]
    fn one_call_stands_in() {
        loom::model(|| {
            let queue = Queue::new();
            let other = {
                let queue = queue.clone();
                thread::spawn(move || {
                    queue.push(1);
                    queue.call();
                })
            };
            queue.push(0);
            queue.call();
            other.join().unwrap();
            // What was passed on while the other one worked.
            queue.call();
            assert!(queue.all_were_released_once());
        });
    }

    /// A process forks while a thread works: the child has the memory as it is at that moment, and
    /// no thread. It looks at nothing but one word, and releases nothing.
    #[test]
    fn a_child_releases_nothing() {
        loom::model(|| {
            let queue = Queue::new();
            let other = {
                let queue = queue.clone();
                thread::spawn(move || {
                    queue.push(0);
                    queue.call();
                    queue.push(1);
                    queue.call();
                })
            };
            // The child, at any moment: with the lock in any state.
            let _ = queue.handover.is_stalled();
            other.join().unwrap();
            assert!(queue.all_were_released_once());
        });
    }
}
