//! Vector clocks.
//!
//! May use: nothing. Unsafe: none.
//!
//! An actor performs operations one after another: a stream, a host thread, or a branch of a graph.
//! `own` counts its operations and its joins; it grows with every join, so that (actor, own)
//! identifies one state of knowledge, and "already known" is one comparison.

use std::sync::Arc;

pub type Actor = usize;

/// One operation of one actor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Epoch {
    pub actor: Actor,
    pub n: u64,
}

/// The knowledge of an actor at one moment: everything that happened before.
#[derive(Clone, Debug)]
pub struct Clock {
    pub actor: Actor,
    pub own: u64,
    /// Known counts, by actor. The actor's own entry is not used.
    seen: Arc<Vec<u64>>,
}

impl Clock {
    pub fn new(actor: Actor, own: u64) -> Clock {
        Clock { actor, own, seen: Arc::default() }
    }

    pub fn of(&self, actor: Actor) -> u64 {
        if actor == self.actor { self.own } else { self.seen.get(actor).copied().unwrap_or(0) }
    }

    pub fn knows(&self, epoch: Epoch) -> bool {
        self.of(epoch.actor) >= epoch.n
    }

    /// Adds the knowledge of `other`.
    pub fn join(&mut self, other: &Clock) {
        if self.of(other.actor) >= other.own {
            return;
        }
        let seen = Arc::make_mut(&mut self.seen);
        let length = other.seen.len().max(other.actor + 1);
        if seen.len() < length {
            seen.resize(length, 0);
        }
        for (mine, theirs) in seen.iter_mut().zip(other.seen.iter()) {
            *mine = (*mine).max(*theirs);
        }
        seen[other.actor] = seen[other.actor].max(other.own);
        self.own += 1;
    }

    /// Starts the next operation.
    pub fn step(&mut self) -> Epoch {
        self.own += 1;
        Epoch { actor: self.actor, n: self.own }
    }

    pub fn now(&self) -> Epoch {
        Epoch { actor: self.actor, n: self.own }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_what_was_joined() {
        let (mut a, mut b, mut c) = (Clock::new(0, 0), Clock::new(1, 0), Clock::new(2, 0));
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
}
