//! Cache of facts about streams: their contexts, and the events that can be recorded on them.
//! A table of fixed size, without locks and without allocation.
//!
//! Streams are distinguished by their id, which no other stream of the process ever has
//! [cuStreamGetId]; a handle may return for another stream. A stream keeps its context as long as
//! it lives, so an entry never goes stale: it can only be replaced by that of another stream.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

use cudarc::driver::sys::{CUcontext, CUctx_st};

const ENTRIES: usize = 256;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// The context that its events must be created in.
    pub context: CUcontext,
    /// The number of the list with that context's events.
    pub bucket: usize,
}

/// One entry. The version is odd while the entry is written, and then another one.
struct Entry {
    version: AtomicU64,
    id: AtomicU64,
    context: AtomicPtr<CUctx_st>,
    bucket: AtomicUsize,
}

static TABLE: [Entry; ENTRIES] = [const {
    Entry {
        version: AtomicU64::new(0),
        id: AtomicU64::new(0),
        context: AtomicPtr::new(null_mut()),
        bucket: AtomicUsize::new(0),
    }
}; ENTRIES];

fn places(id: u64) -> [&'static Entry; 2] {
    // Fibonacci hashing; the shift leaves a number below `ENTRIES`.
    let first = (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize;
    [&TABLE[first % ENTRIES], &TABLE[(first ^ 1) % ENTRIES]]
}

pub fn find(id: u64) -> Option<Known> {
    let [one, other] = places(id);
    one.read(id).or_else(|| other.read(id))
}

impl Entry {
    fn holds(&self, id: u64) -> bool {
        self.id.load(Ordering::Relaxed) == id
    }

    fn read(&self, id: u64) -> Option<Known> {
        // Acquire: pairs with the Release in `remember`: the values are at least of this version.
        let version = self.version.load(Ordering::Acquire);
        let found = self.id.load(Ordering::Relaxed);
        let known = Known {
            context: self.context.load(Ordering::Relaxed),
            bucket: self.bucket.load(Ordering::Relaxed),
        };
        // If a later version's value was read above, the load below sees that version.
        fence(Ordering::Acquire);
        let unchanged = version % 2 == 0 && self.version.load(Ordering::Relaxed) == version;
        (unchanged && found == id && id != 0).then_some(known)
    }
}

/// Remembers a stream, in a free place or in that of another one. Does nothing if another thread
/// writes there.
#[cold]
pub fn remember(id: u64, known: Known) {
    let places = places(id);
    let entry = match places.into_iter().find(|entry| entry.holds(0) || entry.holds(id)) {
        Some(entry) => entry,
        None => places[id as usize % 2],
    };
    let version = entry.version.load(Ordering::Relaxed);
    if id == 0
        || version % 2 != 0
        || entry
            .version
            .compare_exchange(version, version + 1, Ordering::Relaxed, Ordering::Relaxed)
            .is_err()
    {
        return;
    }
    // Release: a thread that sees one of the values below sees the odd version too.
    fence(Ordering::Release);
    entry.id.store(id, Ordering::Relaxed);
    entry.context.store(known.context, Ordering::Relaxed);
    entry.bucket.store(known.bucket, Ordering::Relaxed);
    entry.version.store(version + 2, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::{ENTRIES, Known, find, remember};

    fn known(id: u64) -> Known {
        Known { context: (id * 16) as *mut _, bucket: id as usize + 1 }
    }

    /// Whatever was replaced, an entry is of the stream that was asked for.
    #[test]
    fn an_entry_is_of_its_stream() {
        const STREAMS: u64 = 8 * ENTRIES as u64;
        assert_eq!(find(0), None);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for round in 0..40_000 {
                        let id = 1 + (round * 7 + thread * 13) % STREAMS;
                        assert!(find(id).is_none_or(|found| found == known(id)));
                        remember(id, known(id));
                    }
                });
            }
        });
        remember(5, known(5));
        remember(6, known(6));
        assert_eq!((find(5), find(6)), (Some(known(5)), Some(known(6))));
        remember(0, known(1));
        assert_eq!(find(0), None);
    }
}
