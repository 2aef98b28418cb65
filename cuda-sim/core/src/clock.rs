//! Vector clocks.
//!
//! An actor performs operations one after another. `own` counts its operations and its joins; it
//! grows with every join, so that (actor, own) identifies one state of knowledge, and "already
//! known" is one comparison. A clock keeps its actor's number: while a snapshot of it exists, no
//! later actor has the number, whose counts that comparison would take for the earlier one's.

use crate::actor::{Actor, Number};
use crate::counts::Counts;
use std::sync::Arc;

/// One operation of one actor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Epoch {
    pub actor: Actor,
    pub n: u64,
}

/// The knowledge of an actor at one moment: everything that happened before.
#[derive(Clone, Debug)]
pub struct Clock {
    number: Arc<Number>,
    pub own: u64,
    /// The actor's own entry is not used.
    seen: Counts,
}

impl Clock {
    pub fn new(number: Arc<Number>, own: u64) -> Clock {
        Clock { number, own, seen: Counts::default() }
    }

    pub fn actor(&self) -> Actor {
        self.number.value()
    }

    pub fn of(&self, actor: Actor) -> u64 {
        if actor == self.actor() { self.own } else { self.seen.of(actor) }
    }

    pub fn knows(&self, epoch: Epoch) -> bool {
        self.of(epoch.actor) >= epoch.n
    }

    /// Returns true if joining `other` would add nothing.
    pub fn includes(&self, other: &Clock) -> bool {
        self.of(other.actor()) >= other.own
    }

    /// Adds the knowledge of `other`.
    pub fn join(&mut self, other: &Clock) {
        if self.includes(other) {
            return;
        }
        if other.knows(self.now()) {
            // It has all that this one learned.
            self.seen = other.seen.clone();
        } else {
            self.seen.include_all(&other.seen);
        }
        self.seen.include(other.actor(), other.own);
        self.own += 1;
    }

    /// Adds the knowledge of several actors.
    pub fn join_all(&mut self, others: &Knowledge) {
        if self.seen.include_all(&others.seen) {
            self.own += 1;
        }
        others.newest.iter().for_each(|clock| self.join(clock));
    }

    /// Returns what is known of each actor.
    pub fn counts(&self) -> impl Iterator<Item = (Actor, u64)> {
        let own = (self.actor(), self.own);
        let others = self.seen.list().into_iter();
        others.filter(move |(actor, _)| *actor != own.0).chain([own])
    }

    /// Starts the next operation.
    pub fn step(&mut self) -> Epoch {
        self.own += 1;
        self.now()
    }

    pub fn now(&self) -> Epoch {
        Epoch { actor: self.actor(), n: self.own }
    }
}

/// The knowledge of several actors at several moments.
#[derive(Debug, Default)]
pub struct Knowledge {
    /// The newest clocks that no other of them includes.
    newest: Vec<Clock>,
    /// Counts that others have learned.
    seen: Counts,
}

/// Clocks that are kept one by one, because most are included by the next soon.
const NEWEST: usize = 4;

impl Knowledge {
    pub fn of(counts: impl IntoIterator<Item = (Actor, u64)>) -> Knowledge {
        let mut seen = Counts::default();
        counts.into_iter().for_each(|(actor, n)| seen.include(actor, n));
        Knowledge { newest: Vec::new(), seen }
    }

    pub fn knows(&self, epoch: Epoch) -> bool {
        self.seen.of(epoch.actor) >= epoch.n || self.newest.iter().any(|clock| clock.knows(epoch))
    }

    pub fn include(&mut self, clock: Clock) {
        self.newest.retain(|other| !clock.includes(other));
        if self.newest.len() == NEWEST {
            for clock in self.newest.drain(..) {
                self.seen.include_all(&clock.seen);
                self.seen.include(clock.actor(), clock.own);
            }
        }
        self.newest.push(clock);
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::actor::Numbers;
    use crate::counts::tests::nodes;

    /// Clocks of different actors.
    pub fn clocks<const N: usize>() -> [Clock; N] {
        let mut numbers = Numbers::default();
        [(); N].map(|()| Clock::new(numbers.take(), 0))
    }

    #[test]
    fn order_is_what_was_joined() {
        let [mut a, mut b, mut c] = clocks();
        let first = a.step();
        let known = a.clone();
        let second = a.step();
        b.join(&known);
        assert!(b.knows(first) && !b.knows(second) && !c.knows(first));
        // Transitively, through a third actor.
        c.join(&b);
        assert!(c.knows(first) && !c.knows(second));
        // Joining known knowledge again changes nothing; later knowledge is new.
        let own = c.own;
        c.join(&known);
        assert_eq!(c.own, own);
        c.join(&a);
        assert!(c.knows(second));
        // A copied clock does not change.
        assert!(!known.knows(second));
    }

    /// Returns the number of nodes for `n` clocks that stay, each after the one before, and those for
    /// as many that all know of each other.
    fn nodes_of(n: usize) -> [usize; 2] {
        let mut numbers = Numbers::default();
        let mut clock = || Clock::new(numbers.take(), 0);
        let (mut host, mut middle) = (clock(), clock());
        let mut chain: Vec<Clock> = Vec::new();
        let mut star: Vec<Clock> = Vec::new();
        for _ in 0..n {
            host.step();
            for all in [&mut chain, &mut star] {
                let mut new = clock();
                new.join(&host);
                new.step();
                all.push(new);
            }
            if let [.., before, new] = &mut chain[..] {
                new.join(before);
            }
            middle.join(&star[star.len() - 1]);
        }
        let ends = [star[0].now(), star[n - 1].now(), chain[n - 1].now()];
        star.iter_mut().for_each(|each| each.join(&middle));
        chain.iter().for_each(|each| host.join(each));
        assert!(star.iter().all(|each| ends.map(|end| each.knows(end)) == [true, true, false]));
        assert!(chain.iter().all(|each| host.includes(each)));
        [chain, star].map(|all| nodes(all.iter().map(|clock| &clock.seen)))
    }

    #[test]
    fn clocks_share_what_they_know() {
        let n = 4000;
        let [chain, star] = nodes_of(n);
        assert!(chain < 8 * n && star < 8 * n, "{chain} nodes in a chain, {star} in a star");
    }

    #[test]
    fn knowledge_of_many_is_that_of_each() {
        let mut clocks: [Clock; 20] = clocks();
        let mut all = Knowledge::default();
        let steps: Vec<Epoch> = clocks[1..].iter_mut().map(Clock::step).collect();
        clocks[1..].iter().for_each(|clock| all.include(clock.clone()));
        assert!(all.newest.len() <= NEWEST);
        let [reader, ..] = &mut clocks;
        reader.join_all(&all);
        assert!(steps.iter().all(|step| reader.knows(*step)));
        let own = reader.own;
        reader.join_all(&all);
        assert_eq!(reader.own, own);
    }
}
