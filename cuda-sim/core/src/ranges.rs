//! The ranges on which the same two accesses race. The first is reported, the others are counted.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of ranges of one pair of accesses that are told apart.
const MOST: usize = 4096;

/// The ranges of a pair of accesses.
pub struct Ranges {
    first: (u64, u64),
    others: HashSet<(u64, u64)>,
    count: MoreRanges,
}

impl Ranges {
    pub fn new(from: u64, to: u64) -> Ranges {
        Ranges { first: (from, to), others: HashSet::new(), count: MoreRanges::default() }
    }

    pub fn add(&mut self, from: u64, to: u64) {
        let is_inside = self.first.0 <= from && to <= self.first.1;
        if !is_inside && self.others.len() < MOST && self.others.insert((from, to)) {
            self.count.0.store(self.others.len(), Ordering::Relaxed);
        }
    }

    /// Returns the number of the other ranges, which the report of the first reads.
    pub fn count(&self) -> MoreRanges {
        self.count.clone()
    }
}

/// The number of ranges beside the first.
#[derive(Clone, Default)]
pub struct MoreRanges(Arc<AtomicUsize>);

impl MoreRanges {
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the number in words, if there are any.
    pub fn text(&self) -> Option<String> {
        let (count, least) = (self.get(), if self.get() == MOST { "at least " } else { "" });
        let s = if count == 1 { "" } else { "s" };
        (count > 0).then(|| format!("{least}{count} more range{s}"))
    }
}
