//! Memory at several addresses, waits for numbers in memory, and what the checker learns from their
//! end.
//!
//! May use: `access`, `actor`, `checker`, `open_waits`, `shadow`, `site`. Unsafe: none.

use super::Checker;
use crate::access::Access;
use crate::actor::Actor;
use crate::open_waits::Wanted;
use crate::shadow::Shadow;
use crate::site::{Content, Moment, Place, Site};

impl Checker {
    /// Checks an access against a history that it does not become part of. The beginning of that is
    /// no use of the memory.
    pub fn compare(
        &mut self,
        shadow: &Shadow<Site>,
        place: &Place,
        access: &Access,
        moment: &Moment,
    ) {
        let mut found = Vec::new();
        access.for_each_range(|from, to| {
            let range = (from.max(place.base), to.min(place.base + place.size));
            shadow.pending(range, access.mode, &moment.clock, &mut |mark, mode, from, to| {
                if found.len() < 16 && !mark.site.begins_memory() {
                    found.push((mark.clone(), mode, from, to));
                }
            });
        });
        for (mark, mode, from, to) in found {
            self.race(&mark, mode, moment, access.mode, place, from, to);
        }
    }

    /// Enters a write, which may end waits.
    pub fn touched(&mut self, access: &Access, content: Content, moment: &Moment) {
        let Some(ended) = self.open.touched(access, content, moment) else { return };
        for over in ended.over {
            let waiter = &mut self.actors[over.since.actor].state;
            waiter.iter_mut().for_each(|state| state.clock.join_all(&over.known));
        }
        ended.dropped.iter().for_each(|key| {
            self.reported.remove(key);
        });
        self.races.extend(ended.races);
    }

    /// Makes an actor wait for a number. What happens before the write that ends the wait happens
    /// before its next work, also if that write is enqueued later.
    pub fn wait_for(&mut self, actor: Actor, wanted: Wanted) {
        let known = self.snapshot(actor);
        match self.open.seen(&wanted, &known) {
            Some(before) => self.learn_all(actor, &before),
            None => {
                self.mark(actor);
                let known = self.snapshot(actor);
                self.open.wait(wanted, known);
            }
        }
    }

    /// Records that an actor found a number that satisfies a wait.
    pub fn has_seen(&mut self, actor: Actor, wanted: &Wanted) {
        let known = self.snapshot(actor);
        let before = self.open.seen(wanted, &known);
        before.iter().for_each(|before| self.learn_all(actor, before));
    }

    /// Reports the races that no write has ruled out.
    pub fn end_open_waits(&mut self) {
        self.races.extend(self.open.rest());
    }
}
