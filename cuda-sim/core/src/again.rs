//! What is counted of a finding, which is reported once: its other ranges, and its other callers.

use crate::race::Race;
use crate::shown::counted;
use crate::stack::StackId;
use std::collections::HashSet;

/// Maximum number of ranges, and of callers, that are told apart.
const MOST: usize = 4096;

pub struct Again {
    first: (u64, u64),
    ranges: HashSet<(u64, u64)>,
    /// The user's code may come to the same two places from several.
    callers: HashSet<[StackId; 2]>,
    /// Whether a later write may rule the reported one out.
    pub is_held: bool,
}

/// The number of ranges beside the first, and of pairs of stacks.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct More {
    pub ranges: usize,
    pub callers: usize,
}

impl Again {
    pub fn new(range: (u64, u64), callers: [StackId; 2], is_held: bool) -> Again {
        let callers = HashSet::from([callers]);
        Again { first: range, ranges: HashSet::new(), callers, is_held }
    }

    /// The race on these bytes is the one that is reported.
    pub fn told(&mut self, range: (u64, u64)) {
        (self.first, self.is_held) = (range, false);
    }

    pub fn add(&mut self, range: (u64, u64), callers: [StackId; 2]) {
        self.add_range(range);
        if self.callers.len() <= MOST {
            self.callers.insert(callers);
        }
    }

    pub fn add_range(&mut self, range: (u64, u64)) {
        let is_inside = self.first.0 <= range.0 && range.1 <= self.first.1;
        if !is_inside && self.ranges.len() < MOST {
            self.ranges.insert(range);
        }
    }

    pub fn more(&self) -> More {
        More { ranges: self.ranges.len(), callers: self.callers.len() - 1 }
    }
}

/// Returns a number with a noun, if it is not 0.
fn some(count: usize, noun: &str) -> Option<String> {
    let least = if count == MOST { "at least " } else { "" };
    (count > 0).then(|| format!("{least}{}", counted(count, noun)))
}

impl More {
    /// Returns the end of a report's first line, and a line of its own.
    pub fn texts(self) -> [String; 2] {
        let ranges = some(self.ranges, "more range").map(|text| format!(", and on {text}"));
        let callers = some(self.callers, "other pair")
            .map(|text| format!("  the same lines from {text} of callers\n"));
        [ranges.unwrap_or_default(), callers.unwrap_or_default()]
    }

    /// Returns what was found after the race was printed.
    pub fn found_later(self, race: &Race) -> Option<String> {
        let ranges = some(self.ranges, "more range").map(|text| format!("on {text}"));
        let callers =
            some(self.callers, "other pair").map(|text| format!("from {text} of callers"));
        let ranges = ranges.filter(|_| self.ranges > race.told.ranges);
        let callers = callers.filter(|_| self.callers > race.told.callers);
        let found: Vec<String> = ranges.into_iter().chain(callers).collect();
        let (_, from, to) = race.bytes.as_ref()?;
        let bytes = counted(to - from, "byte");
        (!found.is_empty()).then(|| {
            format!(
                "cuda-sim: the race on {bytes} at {from:#x} was found {}\n",
                found.join(" and ")
            )
        })
    }
}
