//! The places that actors of other processes have in the clocks of this one.

use crate::actor::{Actor, Number};
use crate::clock::Clock;
use crate::processes::{Count, own_number};
use std::collections::HashMap;
use std::sync::Arc;

/// An actor of another process: its number here, and the count here that is its 0. The number may
/// have belonged to an actor of this process.
struct Proxy {
    number: Arc<Number>,
    base: u64,
}

pub struct Foreign {
    /// The number of this process.
    pub own: u64,
    proxies: HashMap<(u64, u64), Proxy>,
    /// The actor of another process, by its number here.
    origins: HashMap<Actor, (u64, u64)>,
}

impl Default for Foreign {
    fn default() -> Self {
        Foreign { own: own_number(), proxies: HashMap::new(), origins: HashMap::new() }
    }
}

impl Foreign {
    /// Returns the place and the count in clocks of this process. `new`: takes a number, and
    /// returns it with its present count.
    pub fn translate(
        &mut self,
        count: Count,
        new: impl FnOnce() -> (Arc<Number>, u64),
    ) -> (Actor, u64) {
        if count.process == self.own {
            return (count.place as Actor, count.count);
        }
        let origin = (count.process, count.place);
        let proxy = self.proxies.entry(origin).or_insert_with(|| {
            let (number, base) = new();
            self.origins.insert(number.value(), origin);
            Proxy { number, base }
        });
        (proxy.number.value(), proxy.base + count.count)
    }

    /// Returns whether a clock knows of an access of another process.
    pub fn is_known(&self, count: Count, clock: &Clock) -> bool {
        let proxy = self.proxies.get(&(count.process, count.place));
        proxy.is_some_and(|proxy| clock.of(proxy.number.value()) >= proxy.base + count.count)
    }

    /// Returns a clock in the terms that all processes share.
    pub fn counts(&self, clock: &Clock) -> Vec<Count> {
        let count = |(actor, n): (Actor, u64)| match self.origins.get(&actor) {
            None => Some(Count { process: self.own, place: actor as u64, count: n }),
            Some(&(process, place)) => {
                let base = self.proxies.get(&(process, place))?.base;
                (n > base).then(|| Count { process, place, count: n - base })
            }
        };
        clock.counts().filter_map(count).collect()
    }
}
