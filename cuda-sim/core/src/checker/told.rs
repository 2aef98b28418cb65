//! Races that were told, and those that are only their consequences.

use crate::clock::Clock;
use crate::shadow::Mark;
use crate::site::Site;
use std::collections::VecDeque;
use std::sync::Arc;

struct Pair<K> {
    key: K,
    first: Mark<Site>,
    second: Mark<Site>,
}

/// Maximum number of races that are kept. A race that is a consequence of an older one is told.
const MOST: usize = 64;

/// `K`: what races have in common that are told once.
pub struct Told<K> {
    newest: VecDeque<Pair<K>>,
}

impl<K> Default for Told<K> {
    fn default() -> Self {
        Told { newest: VecDeque::new() }
    }
}

impl<K: Copy + PartialEq> Told<K> {
    /// Returns whether a race of `first` with an access of this knowledge is only a consequence of a
    /// race (A, B) that was told. It is if `first` is A or came before it in the same stream or
    /// thread, and the access comes after B: whatever orders A before B orders the two as well. So
    /// two waits are never missing where one race is told: the second would have to be between
    /// `first` and A, or between B and the access, where there is order.
    pub fn explains(&self, first: &Mark<Site>, clock: &Clock) -> bool {
        self.newest
            .iter()
            .any(|told| is_or_precedes(first, &told.first) && clock.knows(told.second.epoch))
    }

    /// Enters a race that was told, or, if `is_new` is false, one that was not because another with
    /// the same key had been told.
    pub fn add(&mut self, key: K, is_new: bool, first: &Mark<Site>, second: &Mark<Site>) {
        let before = self.newest.iter().position(|told| told.key == key);
        if let Some(at) = before {
            self.newest.remove(at);
        } else if !is_new {
            return;
        } else if self.newest.len() == MOST {
            self.newest.pop_front();
        }
        self.newest.push_back(Pair { key, first: first.clone(), second: second.clone() });
    }

    pub fn clear(&mut self) {
        self.newest.clear();
    }
}

/// Returns whether an access is the other or came before it in the same actor. The sites keep the
/// numbers of their actors. Only for accesses of this process: others have no time, and for a use
/// after a free, the free has no epoch, because its order does not matter.
fn is_or_precedes(one: &Mark<Site>, other: &Mark<Site>) -> bool {
    let earlier = one.epoch.actor == other.epoch.actor
        && one.epoch.n <= other.epoch.n
        && one.epoch.n != 0
        && one.site.time < other.site.time;
    earlier || Arc::ptr_eq(&one.site, &other.site)
}
