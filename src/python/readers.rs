//! Readers of a value that may be given up while they read it, as other threads do in free-threaded
//! builds.

use std::sync::atomic::{AtomicU32, Ordering};

/// The number of readers, and [`GIVEN_UP`]. Of those who end reading and the one who gives up,
/// exactly one learns that it is the last: it releases the value.
pub struct Readers(AtomicU32);

const GIVEN_UP: u32 = 1 << 31;

impl Readers {
    /// Begins to read. False once the value was given up.
    #[inline(always)]
    pub fn begin(&self) -> bool {
        let more = |state| (state & GIVEN_UP == 0).then_some(state + 1);
        self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, more).is_ok()
    }

    /// Ends reading. True for the last reader of a value that was given up.
    #[inline(always)]
    pub fn end(&self) -> bool {
        // Ordered as in `give_up`.
        self.0.fetch_sub(1, Ordering::AcqRel) == GIVEN_UP | 1
    }

    /// Gives the value up: from here on nobody begins to read. True for the first call, if nobody
    /// reads.
    pub fn give_up(&self) -> bool {
        // Release: what this thread did with the value happens before the last reader's release.
        // Acquire: what earlier readers did happens before the release here.
        self.0.fetch_or(GIVEN_UP, Ordering::AcqRel) == 0
    }

    /// Returns true if the value was given up.
    pub fn is_given_up(&mut self) -> bool {
        *self.0.get_mut() & GIVEN_UP != 0
    }
}
