//! The reference count.

use super::atomics::{AtomicUsize, Ordering};

pub struct Count(AtomicUsize);

impl Count {
    pub fn one() -> Self {
        Count(AtomicUsize::new(1))
    }

    /// Adds a reference. The caller holds one, so the object is alive.
    pub fn retain(&self) {
        // Relaxed: a new reference is made from an existing one. Passing it to another thread
        // synchronizes.
        let old = self.0.fetch_add(1, Ordering::Relaxed);
        // A correct program cannot hold half the range of references. This one leaks references in
        // a loop and is about to wrap around, which would free memory that is in use.
        if old > usize::MAX / 2 {
            std::process::abort();
        }
    }

    /// Removes a reference. `true`: it was the last, and the caller must destroy the object.
    #[must_use]
    pub fn release(&self) -> bool {
        // A count of one cannot change: no other code holds a reference. Acquire: as below. This
        // saves the locked instruction that most releases would need.
        if self.0.load(Ordering::Acquire) == 1 {
            return true;
        }
        // Release: all uses of the object by this thread happen before its destruction.
        if self.0.fetch_sub(1, Ordering::Release) != 1 {
            return false;
        }
        // Acquire: the uses by all other threads happen before the destruction. A load and not a
        // fence, because thread sanitizers do not support fences.
        self.0.load(Ordering::Acquire);
        true
    }
}
