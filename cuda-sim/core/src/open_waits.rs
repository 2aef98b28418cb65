//! Waits for values in memory whose write is enqueued later.
//!
//! May use: `access`, `actor`, `clock`, `race`, `work`. Unsafe: none.
//!
//! Work after such a wait comes after the write, and after what happens before that, although it
//! was enqueued first. So a race with work after the wait is held back until the write is known. It
//! is dropped if the write orders the two accesses, and reported if it does not, or if no write
//! comes until the end.

use crate::access::{Access, WRITE};
use crate::actor::Actor;
use crate::clock::{Clock, Epoch};
use crate::race::Race;
use crate::work::satisfies;
use std::collections::HashMap;

/// A wait of a stream for a value.
pub struct Wanted {
    /// Where the number is for the host, and for the device.
    pub host: u64,
    pub device: u64,
    pub value: u64,
    pub wide: bool,
    pub flags: u32,
}

struct Open {
    id: u64,
    wanted: Wanted,
    since: Epoch,
    /// What work after the wait wrote there, which comes after the write that ends the wait.
    then: Option<Option<u64>>,
}

/// A race that a write may rule out: for each open wait, what the write has to come after.
struct Held<K> {
    race: Race,
    key: K,
    needs: Vec<(u64, Epoch)>,
}

/// Maximum number of waits, and of races, that are held. The oldest ones are given up.
const MOST: usize = 1024;

/// `K`: what names a race that was reported.
pub struct OpenWaits<K> {
    open: Vec<Open>,
    held: Vec<Held<K>>,
    /// The value that was written last, by the address; `None` if it is not known.
    last: HashMap<u64, Option<u64>>,
    next: u64,
}

impl<K> Default for OpenWaits<K> {
    fn default() -> Self {
        OpenWaits { open: Vec::new(), held: Vec::new(), last: HashMap::new(), next: 0 }
    }
}

/// What follows from a write: the streams whose waits it ends, races that it does not rule out, and
/// the names of those that it does.
pub struct Ended<K> {
    pub waiters: Vec<Actor>,
    pub races: Vec<Race>,
    pub dropped: Vec<K>,
}

impl<K> OpenWaits<K> {
    /// Enters a wait, unless the value that was written last ends it.
    pub fn wait(&mut self, wanted: Wanted, since: Epoch) {
        let last = *self.last.entry(wanted.host).or_default();
        if last.is_some_and(|found| satisfies(found, wanted.value, wanted.wide, wanted.flags)) {
            return;
        }
        if self.open.len() == MOST {
            self.open.remove(0);
        }
        self.next += 1;
        self.open.push(Open { id: self.next, wanted, since, then: None });
    }

    /// Returns the waits whose writes may order two accesses, and what a write has to come after.
    pub fn needs(&self, first: Epoch, second: &Clock, at: Epoch) -> Vec<(u64, Epoch)> {
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

    pub fn hold(&mut self, race: Race, key: K, needs: Vec<(u64, Epoch)>) {
        self.held.push(Held { race, key, needs });
    }

    /// Enters the write of a value after what `clock` knows.
    pub fn written(&mut self, host: u64, value: u64, clock: &Clock) -> Ended<K> {
        self.last.insert(host, Some(value));
        let after = |open: &&mut Open| open.wanted.host == host && clock.knows(open.since);
        self.open.iter_mut().filter(after).for_each(|open| open.then = Some(Some(value)));
        self.end(clock, |wanted| {
            wanted.host == host && satisfies(value, wanted.value, wanted.wide, wanted.flags)
        })
    }

    /// Enters an access that may write any value.
    pub fn touched(&mut self, access: &Access, clock: &Clock) -> Option<Ended<K>> {
        if self.last.is_empty() || access.mode & WRITE == 0 {
            return None;
        }
        let (from, to) = access.hull();
        for (address, last) in &mut self.last {
            if (from..to).contains(address) {
                *last = None;
            }
        }
        let touches = |wanted: &Wanted| access.touches(wanted.device, wanted.device + 1);
        let after = |open: &&mut Open| touches(&open.wanted) && clock.knows(open.since);
        self.open.iter_mut().filter(after).for_each(|open| open.then = Some(None));
        self.open.iter().any(|open| touches(&open.wanted)).then(|| self.end(clock, touches))
    }

    fn end(&mut self, clock: &Clock, ends: impl Fn(&Wanted) -> bool) -> Ended<K> {
        // Work after a wait does not end it.
        let is_end = |open: &Open| !clock.knows(open.since) && ends(&open.wanted);
        let (over, open): (Vec<Open>, Vec<Open>) =
            std::mem::take(&mut self.open).into_iter().partition(is_end);
        self.open = open;
        for open in &over {
            open.then.map(|value| self.last.insert(open.wanted.host, value));
        }
        let is_over = |id: u64| over.iter().any(|open| open.id == id);
        let mut ended = Ended {
            waiters: over.iter().map(|open| open.since.actor).collect(),
            races: Vec::new(),
            dropped: Vec::new(),
        };
        for mut held in std::mem::take(&mut self.held) {
            if held.needs.iter().any(|(id, need)| is_over(*id) && clock.knows(*need)) {
                ended.dropped.push(held.key);
                continue;
            }
            held.needs.retain(|(id, _)| !is_over(*id));
            if held.needs.is_empty() || self.held.len() == MOST {
                ended.races.push(held.race);
            } else {
                self.held.push(held);
            }
        }
        ended
    }

    /// Returns the races that a write may still rule out.
    pub fn held(&self) -> impl Iterator<Item = &Race> {
        self.held.iter().map(|held| &held.race)
    }

    /// Returns the races that no write has ruled out.
    pub fn rest(&mut self) -> impl Iterator<Item = Race> {
        std::mem::take(&mut self.held).into_iter().map(|held| held.race)
    }
}
