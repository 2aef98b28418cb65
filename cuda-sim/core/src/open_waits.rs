//! Waits for numbers in memory: which write may end one.
//!
//! A wait ends when the number satisfies it, so it comes after one of the writes of such a number
//! that the stream does not know to be overwritten. Which of them it is depends on the device: only
//! what happens before all of them happens before the work after the wait.
//!
//! If there is none yet, the write is enqueued later. Work after the wait comes after it, and after
//! what happens before that, although it was enqueued first. So a race with work after the wait is
//! held back until the write is known. It is dropped if the write orders the two accesses, and
//! reported if it does not, or if no write comes until the end.
//!
//! A write that comes later and is not ordered with the others may end the wait as well; it races
//! with them, which is reported.

use crate::access::{Access, WRITE};
use crate::actor::Actor;
use crate::clock::{Clock, Epoch, Knowledge};
use crate::race::{Key, Race};
use crate::site::{Content, Moment, Site};
use crate::written::{End, Written};
use std::cell::Cell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// A wait for a number.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub word: Word,
    pub value: u64,
    pub flags: u32,
}

/// The place of a number for the device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Word {
    pub address: u64,
    pub wide: bool,
}

impl Word {
    pub fn end(self) -> u64 {
        self.address + if self.wide { 8 } else { 4 }
    }

    /// Returns its part of what an operation wrote; `None` if that is not known.
    fn of(self, access: &Access, content: Content) -> Option<u64> {
        let mut is_whole = false;
        access.for_each_range(|from, to| is_whole |= from <= self.address && self.end() <= to);
        content.number_at(self.address).filter(|_| is_whole).map(|found| self.cut(found))
    }

    pub fn cut(self, found: u64) -> u64 {
        if self.wide { found } else { found & 0xffff_ffff }
    }

    /// Returns its part of another number.
    fn part_of(self, other: Word, value: u64) -> Option<u64> {
        let inside = other.address <= self.address && self.end() <= other.end();
        inside.then(|| self.cut(value >> ((self.address - other.address) * 8)))
    }
}

/// A write and the work that happens before it.
#[derive(Clone)]
struct Point {
    epoch: Epoch,
    /// `None`: not known any more.
    clock: Option<Clock>,
    /// Whether the number was found and not written: the write itself is not known, nor what
    /// happens before it.
    found: bool,
}

/// Writes of a number, or of memory that contains it: one, or several in order.
#[derive(Clone)]
struct Write {
    first: Point,
    last: Point,
    /// `None`: any number.
    value: Option<Written>,
    /// Keeps the number of its actor too. `None`: not known.
    site: Option<Arc<Site>>,
}

/// Stands for all writes before those that are known.
const BEFORE: Epoch = Epoch { actor: Actor::MAX, n: 1 };

impl Point {
    fn comes_after(&self, epoch: Epoch) -> bool {
        epoch == BEFORE || self.clock.as_ref().is_some_and(|clock| clock.knows(epoch))
    }

    /// Returns how much of an actor's work happens before its end.
    fn known_of(&self, actor: Actor) -> u64 {
        match &self.clock {
            _ if self.found => 0,
            Some(clock) => clock.of(actor),
            None if actor == self.epoch.actor => self.epoch.n,
            None => 0,
        }
    }
}

impl Write {
    fn one(point: Point, value: Option<u64>, site: Option<Arc<Site>>) -> Write {
        Write { first: point.clone(), last: point, value: value.map(Written::one), site }
    }

    /// Returns the newest of the writes that is known.
    fn newest(&self, known: &dyn Fn(Epoch) -> bool) -> Option<&Point> {
        [&self.last, &self.first].into_iter().find(|point| known(point.epoch))
    }

    /// Adds the next write, if it comes after this one.
    fn join(&mut self, next: &Write) -> bool {
        let joined = match (self.value, next.value) {
            (Some(value), Some(later)) => Some(value.then(later)),
            (None, None) => None,
            _ => return false,
        };
        let fits = next.first.comes_after(self.last.epoch) && self.last.epoch != BEFORE;
        if fits {
            (self.last, self.value) = (next.last.clone(), joined);
            self.site.clone_from(&next.site);
        }
        fits
    }
}

struct Open {
    id: u64,
    wanted: Wanted,
    since: Epoch,
    /// The knowledge of its stream.
    known: Clock,
}

/// A wait, and what the write that ends it has to come after to rule a race out.
pub type Need = (u64, Epoch);

/// A race that a write may rule out: for each open wait, what the write has to come after.
struct Held {
    race: Race,
    needs: Vec<Need>,
}

/// A wait that ended after work behind it was enqueued: what happens before that work.
pub struct Over {
    id: u64,
    pub since: Epoch,
    pub known: Knowledge,
}

/// Maximum number of races of the same calls that are held.
const MOST_ALIKE: usize = 16;

/// Maximum number of waits, and of races, that are held. The oldest ones are given up.
const MOST: usize = 1024;
/// Maximum number of writes of one number that are kept apart.
const MOST_WRITES: usize = 256;

#[derive(Default)]
pub struct OpenWaits {
    open: Vec<Open>,
    held: Vec<Held>,
    over: VecDeque<Arc<Over>>,
    /// The writes of each number that a stream waits for or writes.
    words: HashMap<Word, Vec<Write>>,
    next: u64,
    /// The number of waits that one of several writes ended which are not kept apart.
    unsure: Cell<u64>,
}

/// Consequences of a write: the waits that it ends, races that it does not rule out, and those that
/// it does.
pub struct Ended {
    pub over: Vec<Arc<Over>>,
    pub races: Vec<Race>,
    pub dropped: Vec<Race>,
}

/// Returns what happens before the end of each of these writes.
fn common(writes: &[&Point]) -> Knowledge {
    let Some((first, others)) = writes.split_first() else { return Knowledge::default() };
    let least = |(actor, n): (Actor, u64)| {
        (actor, others.iter().map(|write| write.known_of(actor)).fold(n, u64::min))
    };
    let counts: Vec<(Actor, u64)> = match &first.clock {
        _ if first.found => Vec::new(),
        Some(clock) => clock.counts().collect(),
        None => vec![(first.epoch.actor, first.epoch.n)],
    };
    Knowledge::of(counts.into_iter().map(least).filter(|(_, n)| *n > 0))
}

impl OpenWaits {
    pub fn is_tracked(&self, word: Word) -> bool {
        self.words.contains_key(&word)
    }

    /// Returns whether a clock knows of all writes of a number.
    pub fn all_known(&self, word: Word, clock: &Clock) -> bool {
        let mut writes = self.words.get(&word).into_iter().flatten();
        writes.all(|write| write.last.epoch == BEFORE || clock.knows(write.last.epoch))
    }

    /// Returns the number that was written last, if it is known.
    pub fn last(&self, word: Word) -> Option<u64> {
        Some(self.words.get(&word)?.last()?.value?.last)
    }

    /// Begins to track a number. `before`: the accesses that wrote it, as far as they are known.
    /// `others`: the number at other addresses.
    pub fn track(&mut self, word: Word, others: &[Word], before: &[(Epoch, Arc<Site>)]) {
        let overlaps = |other: &Word| other.end() > word.address && word.end() > other.address;
        let mut writes: Vec<Write> = Vec::new();
        if let Some(same) = others.iter().find_map(|other| self.words.get(other)) {
            writes = same.clone();
        } else if let Some(other) = self.words.keys().copied().find(overlaps) {
            let part = |write: &Write| {
                let value = write.value.filter(|value| value.count == 1);
                let value = value.and_then(|value| word.part_of(other, value.last));
                Write { value: value.map(Written::one), ..write.clone() }
            };
            writes.extend(self.words[&other].iter().map(part));
        } else if !before.is_empty() {
            let whole = Access::range(word.address, word.end() - word.address, WRITE);
            let first = Point { epoch: BEFORE, clock: None, found: true };
            let write = |(epoch, site): &(Epoch, Arc<Site>)| {
                let point = Point { epoch: *epoch, clock: None, found: false };
                let value = word.of(&whole, site.content).filter(|_| before.len() == 1);
                Write::one(point, value, Some(site.clone()))
            };
            writes.push(Write::one(first, None, None));
            writes.extend(before.iter().map(write));
        }
        self.words.insert(word, writes);
    }

    /// Enters what a host thread found, which knows of all writes.
    pub fn found(&mut self, word: Word, value: u64, moment: &Moment) {
        let writes = self.words.entry(word).or_default();
        Self::push(writes, moment, Some(value), true);
    }

    /// Ends the memory between two addresses.
    pub fn forget(&mut self, from: u64, to: u64) {
        if !self.words.is_empty() {
            self.words.retain(|word, _| word.end() <= from || to <= word.address);
        }
    }

    fn push(writes: &mut Vec<Write>, moment: &Moment, value: Option<u64>, found: bool) {
        if writes.len() == MOST_WRITES {
            Self::thin(writes);
        }
        let clock = Some(moment.clock.clone());
        let point = Point { epoch: moment.mark.epoch, clock, found };
        writes.push(Write::one(point, value, Some(moment.mark.site.clone())));
    }

    /// Makes room: equal numbers in a row become one, or of the older half, a write and the next.
    fn thin(writes: &mut Vec<Write>) {
        let mut kept: Vec<Write> = Vec::with_capacity(MOST_WRITES);
        for write in writes.drain(..) {
            let same = |last: &Write| Some(last.value?.are_equal(write.value?));
            let last = kept.last_mut().filter(|last| same(last) == Some(true));
            if !last.is_some_and(|last| last.join(&write)) {
                kept.push(write);
            }
        }
        if kept.len() <= MOST_WRITES / 4 * 3 {
            *writes = kept;
            return;
        }
        let newer = kept.split_off(kept.len() / 2);
        let mut is_joined = true;
        for write in std::mem::take(&mut kept) {
            is_joined = !is_joined && kept.last_mut().is_some_and(|last| last.join(&write));
            if !is_joined {
                kept.push(write);
            }
        }
        kept.extend(newer);
        if kept.len() == MOST_WRITES {
            // They race, which is reported. The oldest become one of any number.
            let oldest = kept.remove(0).last;
            let next = &mut kept[0];
            next.last.clock = oldest.clock.filter(|_| next.last.comes_after(oldest.epoch));
            next.last.found |= oldest.found;
            (next.first, next.value) = (next.last.clone(), None);
        }
        *writes = kept;
    }

    /// Returns the writes that may end a wait of one that knows of this, which `is_own` does not
    /// tell to come after it, and whether one of them is a guess.
    fn candidates(
        &self,
        wanted: &Wanted,
        known: &dyn Fn(Epoch) -> bool,
        is_own: &dyn Fn(&Point) -> bool,
    ) -> (Vec<&Point>, bool) {
        let (mut found, mut is_guess) = (Vec::new(), false);
        let Some(writes) = self.words.get(&wanted.word) else { return (found, is_guess) };
        // The newest writes that are known, which overwrote others.
        let mut newest: Vec<&Point> = Vec::new();
        for write in writes.iter().rev().filter(|write| !is_own(&write.first)) {
            let Some(point) = write.newest(known) else { continue };
            if !newest.iter().any(|newer| newer.comes_after(point.epoch)) {
                newest.push(point);
            }
        }
        let is_over = |write: &Write| {
            let newer = |newer: &&Point| newer.epoch != write.last.epoch;
            newest.iter().filter(|it| newer(it)).any(|it| it.comes_after(write.last.epoch))
        };
        for write in writes.iter().filter(|write| !is_own(&write.first) && !is_over(write)) {
            let Wanted { word, value, flags } = *wanted;
            let any = Some(End::First);
            match write.value.map_or(any, |found| found.end(value, word.wide, flags)) {
                None => {}
                Some(End::First) => found.push(&write.first),
                Some(end) => {
                    is_guess |= end == End::Between;
                    found.push(&write.last);
                }
            }
        }
        (found, is_guess)
    }

    /// Returns what happens before the end of a wait, if a write may end it. A write behind another
    /// open wait for this number does not count: what ends that one may end this one too.
    fn end_of(&self, wanted: &Wanted, clock: &Clock, since: Option<Epoch>) -> Option<Knowledge> {
        let is_own = |write: &Point| since.is_some_and(|since| write.comes_after(since));
        let (found, is_guess) = self.candidates(wanted, &|epoch| clock.knows(epoch), &is_own);
        let is_behind = |open: &Open| {
            open.wanted.word == wanted.word
                && Some(open.since) != since
                && found.iter().any(|write| write.comes_after(open.since))
        };
        if found.is_empty() || self.open.iter().any(is_behind) {
            None
        } else {
            self.unsure.set(self.unsure.get() + u64::from(is_guess));
            Some(common(&found))
        }
    }

    /// Returns the number of waits of which the end is a guess.
    pub fn unsure(&self) -> u64 {
        self.unsure.get()
    }

    /// Counts a wait of which the end is a guess.
    pub fn count_unsure(&self) {
        self.unsure.set(self.unsure.get() + 1);
    }

    /// Returns what happens before the end of a wait of one with this knowledge; `None` if no write
    /// is known to end it.
    pub fn seen(&self, wanted: &Wanted, clock: &Clock) -> Option<Knowledge> {
        self.end_of(wanted, clock, None)
    }

    /// Enters a wait that no known write ends.
    pub fn wait(&mut self, wanted: Wanted, known: Clock) {
        if self.open.len() == MOST {
            self.open.remove(0);
        }
        self.next += 1;
        self.open.push(Open { id: self.next, wanted, since: known.now(), known });
    }

    /// Returns whether one of this knowledge comes after a wait that is open. `None`: not known.
    pub fn is_waited_for(&self, clock: Option<&Clock>) -> bool {
        self.open.iter().any(|open| clock.is_none_or(|clock| clock.knows(open.since)))
    }

    /// Returns the waits whose writes may order two accesses, and what a write has to come after.
    pub fn needs(&self, first: Epoch, second: &Clock, at: Epoch) -> Vec<Need> {
        let need = |open: &Open| {
            if second.knows(open.since) {
                Some((open.id, first))
            } else {
                let after = first.actor == open.since.actor && first.n > open.since.n;
                after.then_some((open.id, at))
            }
        };
        self.open.iter().filter_map(need).collect()
    }

    /// Returns the address of a number that a stream wrote after an access, which one of this
    /// knowledge may have read in a loop.
    pub fn written_after(&self, first: Epoch, second: &Clock) -> Option<u64> {
        let is_value = |write: &Write| {
            let site = write.site.as_ref();
            let is_store = site.is_some_and(|site| site.label.contains("cuStreamWriteValue"));
            is_store && write.last.comes_after(first) && !second.knows(write.last.epoch)
        };
        let mut words = self.words.iter();
        words.find(|(_, writes)| writes.iter().any(is_value)).map(|(word, _)| word.address)
    }

    /// Returns whether waits that ended later order an access before one of this knowledge.
    pub fn orders(&self, first: Epoch, second: &Clock) -> bool {
        let mut left: Vec<&Arc<Over>> = self.over.iter().collect();
        let (mut reached, later): (Vec<_>, Vec<_>) =
            left.drain(..).partition(|over| second.knows(over.since));
        let mut left = later;
        while let Some(over) = reached.pop() {
            if over.known.knows(first) {
                return true;
            }
            let (more, later): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|other| over.known.knows(other.since));
            reached.extend(more);
            left = later;
        }
        false
    }

    pub fn hold(&mut self, race: Race, needs: Vec<Need>) {
        self.held.push(Held { race, needs });
    }

    /// Returns whether a race is held for other writes than those with its key, of which a few are held.
    pub fn differs(&self, key: Key, needs: &[Need]) -> bool {
        let mut alike = self.held.iter().filter(|held| held.race.key == key);
        alike.clone().count() < MOST_ALIKE && alike.all(|held| held.needs != needs)
    }

    /// Removes races, in whose place a certain one is reported.
    pub fn drop_held(&mut self, key: Key) {
        self.held.retain(|held| held.race.key != key);
    }

    /// Enters an access.
    pub fn touched(&mut self, access: &Access, content: Content, moment: &Moment) -> Option<Ended> {
        if self.words.is_empty() || access.mode & WRITE == 0 {
            return None;
        }
        let mut any = false;
        for (word, writes) in &mut self.words {
            if access.touches(word.address, word.end()) {
                Self::push(writes, moment, word.of(access, content), false);
                any = true;
            }
        }
        if !any || self.open.is_empty() {
            return None;
        }
        let mut over = Vec::new();
        while let Some((at, known)) = self.open.iter().enumerate().find_map(|(at, open)| {
            Some((at, self.end_of(&open.wanted, &open.known, Some(open.since))?))
        }) {
            let Open { id, since, .. } = self.open.remove(at);
            // Writes and waits behind the wait come after what ends it.
            let writes = self.words.values_mut().flatten();
            let points = writes.flat_map(|write| [&mut write.first, &mut write.last]);
            let writes = points.filter_map(|point| point.clock.as_mut());
            let waits = self.open.iter_mut().map(|open| &mut open.known);
            for clock in writes.chain(waits).filter(|clock| clock.knows(since)) {
                let own = clock.own;
                clock.join_all(&known);
                clock.own = own;
            }
            over.push(Arc::new(Over { id, since, known }));
        }
        (!over.is_empty()).then(|| self.end(over))
    }

    fn end(&mut self, over: Vec<Arc<Over>>) -> Ended {
        let mut ended = Ended { over, races: Vec::new(), dropped: Vec::new() };
        for mut held in std::mem::take(&mut self.held) {
            let of = |id: u64| ended.over.iter().find(|over| over.id == id);
            if held.needs.iter().any(|(id, need)| of(*id).is_some_and(|o| o.known.knows(*need))) {
                ended.dropped.push(held.race);
                continue;
            }
            held.needs.retain(|(id, _)| of(*id).is_none());
            if held.needs.is_empty() || self.held.len() == MOST {
                ended.races.push(held.race);
            } else {
                self.held.push(held);
            }
        }
        self.over.extend(ended.over.iter().cloned());
        let surplus = self.over.len().saturating_sub(MOST);
        self.over.drain(..surplus);
        ended
    }

    /// Returns the races that a write may still rule out: one of each key.
    pub fn held(&self) -> impl Iterator<Item = &Race> {
        let mut seen = HashSet::new();
        self.held.iter().map(|held| &held.race).filter(move |race| seen.insert(race.key))
    }

    /// Returns the races that no write has ruled out.
    pub fn rest(&mut self) -> impl Iterator<Item = Race> {
        std::mem::take(&mut self.held).into_iter().map(|held| held.race)
    }
}
