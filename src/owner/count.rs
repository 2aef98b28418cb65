//! The reference count.

use super::atomics::{AtomicUsize, Ordering};

/// A count of references that starts at one.
pub struct Count(AtomicUsize);

impl Count {
    /// One reference.
    pub fn one() -> Self {
        Count(AtomicUsize::new(1))
    }

    /// Adds a reference. Whoever calls this holds one, so the object is alive.
    pub fn retain(&self) {
        // Relaxed: a new reference is made from an existing one, and handing it to another thread
        // is what must synchronize.
        let old = self.0.fetch_add(1, Ordering::Relaxed);
        // Phase the range is out of reach of honest programs: this one leaks references in a loop
        // and is about to wrap around, which would free memory that is in use.
        if old > usize::MAX / 2 {
            std::process::abort();
        }
    }

    /// Takes a reference away. `true`: it was the last, and the caller must destroy the object.
    #[must_use]
    pub fn release(&self) -> bool {
        // Release: all that this thread did with the object comes before its destruction.
        if self.0.fetch_sub(1, Ordering::Release) != 1 {
            return false;
        }
        // Acquire: the destruction comes after all that the other threads did. A load, and not a
        // fence, because thread sanitizers do not understand fences.
        self.0.load(Ordering::Acquire);
        true
    }
}
