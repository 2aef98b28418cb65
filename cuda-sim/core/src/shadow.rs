//! The last accesses to each byte of one allocation.
//!
//! The bytes are split into segments with the same history: the last write, and the reads since
//! then that no later read covers. An operation conflicts with accesses that it does not know.

use crate::access::{READ, WRITE};
use crate::clock::{Clock, Epoch};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One access in a history. `S` describes its origin.
pub struct Mark<S> {
    pub epoch: Epoch,
    pub site: Arc<S>,
}

impl<S> Clone for Mark<S> {
    fn clone(&self) -> Self {
        Mark { epoch: self.epoch, site: self.site.clone() }
    }
}

struct Segment<S> {
    end: u64,
    write: Option<Mark<S>>,
    reads: Vec<Mark<S>>,
}

impl<S> Clone for Segment<S> {
    fn clone(&self) -> Self {
        Segment { end: self.end, write: self.write.clone(), reads: self.reads.clone() }
    }
}

/// Maximum number of reads that are kept for the same bytes, none of them ordered after another.
/// Beyond it the oldest half is forgotten: a write that is ordered after all others is then not
/// checked against those. Streams that are made, read, and are destroyed without a wait would
/// otherwise be kept for ever.
const MOST_READS: usize = 256;

pub struct Shadow<S> {
    segments: BTreeMap<u64, Segment<S>>,
}

impl<S> Default for Shadow<S> {
    fn default() -> Self {
        Shadow { segments: BTreeMap::new() }
    }
}

impl<S> Shadow<S> {
    /// Creates the history of new bytes, which begins with this write: their allocation.
    pub fn begin(start: u64, end: u64, mark: Mark<S>) -> Shadow<S> {
        let mut shadow = Shadow::default();
        if start < end {
            shadow.segments.insert(start, Segment { end, write: Some(mark), reads: Vec::new() });
        }
        shadow
    }

    /// Clears the history of these bytes, which begins again with this write.
    pub fn restart(&mut self, start: u64, end: u64, mark: Mark<S>) {
        if start >= end {
            return;
        }
        self.split(start);
        self.split(end);
        while let Some((&from, _)) = self.segments.range(start..end).next() {
            self.segments.remove(&from);
        }
        self.segments.insert(start, Segment { end, write: Some(mark), reads: Vec::new() });
    }

    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// Splits the segment that contains `at`, if it does not begin there.
    fn split(&mut self, at: u64) {
        if let Some((_, segment)) = self.segments.range_mut(..at).next_back() {
            if segment.end > at {
                let right = segment.clone();
                segment.end = at;
                self.segments.insert(at, right);
            }
        }
    }

    /// Enters an access by an actor with the knowledge `clock`. Calls `conflict` for each earlier
    /// access that it is not ordered after, with the bytes and the mode of that access.
    pub fn access(
        &mut self,
        (start, end): (u64, u64),
        mode: u32,
        clock: &Clock,
        mark: &Mark<S>,
        conflict: &mut impl FnMut(&Mark<S>, u32, u64, u64),
    ) {
        if start >= end {
            return;
        }
        // Fast path: a range that is accessed repeatedly has a segment of its own.
        if let Some(segment) = self.segments.get_mut(&start) {
            if segment.end == end {
                Self::enter(segment, start, mode, clock, mark, conflict);
                return;
            }
        }
        self.split(start);
        self.split(end);
        let mut gap = start;
        let mut gaps = Vec::new();
        for (&from, segment) in self.segments.range_mut(start..end) {
            if gap < from {
                gaps.push((gap, from));
            }
            gap = segment.end;
            Self::enter(segment, from, mode, clock, mark, conflict);
        }
        if mode & WRITE != 0 {
            // The write covers all segments: one history is left.
            while let Some((&from, _)) = self.segments.range(start..end).next() {
                self.segments.remove(&from);
            }
            self.segments
                .insert(start, Segment { end, write: Some(mark.clone()), reads: Vec::new() });
            return;
        }
        if gap < end {
            gaps.push((gap, end));
        }
        for (from, to) in gaps {
            self.segments.insert(from, Segment { end: to, write: None, reads: vec![mark.clone()] });
        }
    }

    /// Calls `conflict` for each access that an actor with the knowledge `clock` would conflict
    /// with. Enters nothing.
    pub fn pending(
        &self,
        (start, end): (u64, u64),
        mode: u32,
        clock: &Clock,
        conflict: &mut impl FnMut(&Mark<S>, u32, u64, u64),
    ) {
        let before = self.segments.range(..start).next_back();
        for (&from, segment) in before.into_iter().chain(self.segments.range(start..end.max(start)))
        {
            let (from, to) = (from.max(start), segment.end.min(end));
            if from >= to {
                continue;
            }
            let write = segment.write.iter().map(|mark| (mark, WRITE));
            let reads = segment.reads.iter().map(|mark| (mark, READ)).filter(|_| mode & WRITE != 0);
            for (mark, earlier) in write.chain(reads).filter(|(mark, _)| !clock.knows(mark.epoch)) {
                conflict(mark, earlier, from, to);
            }
        }
    }

    /// Returns the last writes of some bytes.
    pub fn written(&self, start: u64, end: u64) -> Vec<&Mark<S>> {
        let before = self.segments.range(..start).next_back();
        let parts = before.into_iter().chain(self.segments.range(start..end.max(start)));
        parts
            .filter(|(_, segment)| segment.end > start)
            .filter_map(|(_, segment)| segment.write.as_ref())
            .collect()
    }

    /// Calls `each` with the bytes and the mode of every access that is kept.
    pub fn for_each(&self, mut each: impl FnMut(&Mark<S>, u32, u64, u64)) {
        for (&from, segment) in &self.segments {
            segment.write.iter().for_each(|mark| each(mark, WRITE, from, segment.end));
            segment.reads.iter().for_each(|mark| each(mark, READ, from, segment.end));
        }
    }

    fn enter(
        segment: &mut Segment<S>,
        start: u64,
        mode: u32,
        clock: &Clock,
        mark: &Mark<S>,
        conflict: &mut impl FnMut(&Mark<S>, u32, u64, u64),
    ) {
        if let Some(write) = &segment.write {
            if !clock.knows(write.epoch) {
                conflict(write, WRITE, start, segment.end);
            }
        }
        if mode & WRITE != 0 {
            for read in &segment.reads {
                if !clock.knows(read.epoch) {
                    conflict(read, READ, start, segment.end);
                }
            }
            segment.write = Some(mark.clone());
            segment.reads.clear();
        } else {
            segment.reads.retain(|read| !clock.knows(read.epoch));
            if segment.reads.len() == MOST_READS {
                segment.reads.drain(..MOST_READS / 2);
            }
            segment.reads.push(mark.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::tests::clocks;

    fn mark(epoch: Epoch) -> Mark<&'static str> {
        Mark { epoch, site: Arc::new("x") }
    }

    fn conflicts(
        shadow: &mut Shadow<&'static str>,
        range: (u64, u64),
        mode: u32,
        clock: &mut Clock,
    ) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        let mark = mark(clock.step());
        shadow.access(range, mode, clock, &mark, &mut |_, _, from, to| found.push((from, to)));
        found
    }

    #[test]
    fn every_pair_but_two_reads() {
        for (first, second) in [(READ, READ), (READ, WRITE), (WRITE, READ), (WRITE, WRITE)] {
            for ordered in [false, true] {
                let [mut a, mut b] = clocks();
                let mut shadow = Shadow::default();
                assert!(conflicts(&mut shadow, (10, 20), first, &mut a).is_empty());
                if ordered {
                    b.join(&a);
                }
                let found = conflicts(&mut shadow, (15, 30), second, &mut b);
                let expected =
                    if !ordered && (first | second) & WRITE != 0 { vec![(15, 20)] } else { vec![] };
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn a_write_is_checked_against_all_reads_since() {
        let [mut a, mut b, mut c] = clocks();
        let mut shadow = Shadow::default();
        conflicts(&mut shadow, (0, 8), READ, &mut a);
        conflicts(&mut shadow, (0, 8), READ, &mut b);
        c.join(&b);
        assert_eq!(conflicts(&mut shadow, (0, 8), WRITE, &mut c), [(0, 8)]);
    }

    #[test]
    fn reads_that_nothing_orders_are_bounded() {
        let mut readers: [Clock; 4 * MOST_READS] = clocks();
        let mut shadow = Shadow::default();
        for reader in &mut readers {
            conflicts(&mut shadow, (0, 8), READ, reader);
        }
        assert!(shadow.segments[&0].reads.len() <= MOST_READS);
        // The newest are kept.
        let (newest, others) = readers.split_last_mut().unwrap();
        let [.., writer] = others else { unreachable!() };
        for _ in 0..2 {
            assert_eq!(conflicts(&mut shadow, (0, 8), READ, newest), []);
        }
        assert!(!conflicts(&mut shadow, (0, 8), WRITE, writer).is_empty());
    }

    #[test]
    fn adjacent_bytes_are_apart() {
        let [mut a, mut b] = clocks();
        let mut shadow = Shadow::default();
        conflicts(&mut shadow, (0, 8), WRITE, &mut a);
        assert!(conflicts(&mut shadow, (8, 16), WRITE, &mut b).is_empty());
        assert_eq!(conflicts(&mut shadow, (7, 9), WRITE, &mut b), [(7, 8)]);
    }

    #[test]
    fn a_covering_write_forgets_the_pieces() {
        let [mut a] = clocks();
        let mut shadow = Shadow::default();
        for i in 0..100 {
            conflicts(&mut shadow, (i * 10, i * 10 + 5), WRITE, &mut a);
        }
        assert_eq!(shadow.len(), 100);
        conflicts(&mut shadow, (0, 2000), WRITE, &mut a);
        assert_eq!(shadow.len(), 1);
    }

    /// Compares with a model that keeps every access of every byte.
    #[test]
    fn random_histories() {
        let mut seed = 1u64;
        let mut next = |n: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % n
        };
        for _ in 0..300 {
            let mut clocks: [Clock; 4] = clocks();
            let mut shadow = Shadow::default();
            let mut all: Vec<(u64, u32, Epoch)> = Vec::new(); // byte, mode, epoch
            for _ in 0..30 {
                let (actor, other) = (next(4) as usize, next(4) as usize);
                if next(2) == 0 {
                    let known = clocks[other].clone();
                    clocks[actor].join(&known);
                }
                let start = next(30);
                let end = start + 1 + next(10);
                let mode = 1 + next(3) as u32;
                let found = conflicts(&mut shadow, (start, end), mode, &mut clocks[actor]);
                let racing = |byte: u64| {
                    all.iter().any(|(at, earlier, epoch)| {
                        *at == byte && (earlier | mode) & WRITE != 0 && !clocks[actor].knows(*epoch)
                    })
                };
                // The history keeps the last writer only: after a race was found, an older access
                // that the racing one did not know of may be lost. Until the first race both agree.
                let expected: Vec<u64> = (start..end).filter(|byte| racing(*byte)).collect();
                let mut bytes: Vec<u64> = found.iter().flat_map(|(from, to)| *from..*to).collect();
                bytes.sort_unstable();
                bytes.dedup();
                assert_eq!(bytes, expected);
                if !expected.is_empty() {
                    break;
                }
                let epoch = clocks[actor].now();
                all.extend((start..end).map(|byte| (byte, mode, epoch)));
            }
        }
    }
}
