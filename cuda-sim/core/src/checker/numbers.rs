//! Memory at several addresses, waits for numbers in memory, and what the checker learns from their
//! end.

use super::{Checker, MOST_FOUND};
use crate::access::Access;
use crate::actor::{Actor, Identity, Who};
use crate::clock::Clock;
use crate::open_waits::Wanted;
use crate::race::Race;
use crate::shadow::{Mark, Shadow};
use crate::site::{AllocationInfo, Content, Moment, Site};

impl Checker {
    /// Checks an access against a history that it does not become part of. The beginning of that is
    /// no use of the memory.
    pub fn compare(
        &mut self,
        shadow: &Shadow<Site>,
        info: &AllocationInfo,
        access: &Access,
        moment: &Moment,
    ) {
        let mut found = Vec::new();
        access.for_each_range(|from, to| {
            let range = (from.max(info.base), to.min(info.base + info.size));
            shadow.pending(range, access.mode, &moment.clock, &mut |mark, mode, from, to| {
                if found.len() < MOST_FOUND && !mark.site.begins_memory() {
                    found.push((mark.clone(), mode, from, to));
                }
            });
        });
        for (mark, mode, from, to) in found {
            self.race(&mark, mode, moment, access.mode, info, from, to);
        }
    }

    /// Returns what may order two accesses and is not observed: the host thread that waited for the
    /// first, if it is another one than that of the second, and the number that a stream wrote
    /// after the first, which the host may have read.
    pub(super) fn not_observed(
        &self,
        first: &Mark<Site>,
        moment: &Moment,
    ) -> (Option<u64>, Option<u64>) {
        if matches!(first.site.actor.who, Who::Host { .. } | Who::Foreign { .. }) {
            return (None, None);
        }
        let own = moment.mark.site.thread;
        let waited = |identity: &Identity, clock: &Clock| match identity.who {
            Who::Host { thread } if thread != own && clock.knows(first.epoch) => Some(thread),
            _ => None,
        };
        let live = self.actors.iter().filter_map(|slot| slot.state.as_ref());
        let live = live.map(|state| (&state.identity, &state.clock));
        let ended = self.ended_hosts.iter().map(|(identity, clock)| (identity, clock));
        let thread = live.chain(ended).find_map(|(identity, clock)| waited(identity, clock));
        let number = self.open.written_after(first.epoch, &moment.clock);
        (thread.filter(|_| self.threads_seen), number)
    }

    /// Enters a write, which may end waits.
    pub fn touched(&mut self, access: &Access, content: Content, moment: &Moment) {
        let Some(ended) = self.open.touched(access, content, moment) else { return };
        for over in ended.over {
            let waiter = over.since.actor;
            if self.actors[waiter].state.is_some() {
                self.learn_all(waiter, &over.known);
            }
        }
        ended.races.into_iter().for_each(|race| self.tell(race));
        for race in ended.dropped {
            let is_held = self.reported.get(&race.key).is_some_and(|again| again.is_held);
            if is_held && self.open.held().all(|other| other.key != race.key) {
                self.reported.remove(&race.key);
            }
        }
    }

    /// Reports a race that was held, or counts it if another one of the same calls was reported.
    fn tell(&mut self, race: Race) {
        let range = race.bytes.as_ref().map_or((0, 0), |&(_, from, to)| (from, to));
        match self.reported.get_mut(&race.key) {
            Some(again) if !again.is_held => again.add_range(range),
            Some(again) => {
                again.told(range);
                self.open.drop_held(race.key);
                self.races.push(race);
            }
            None => self.races.push(race),
        }
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
        let rest: Vec<Race> = self.open.rest().collect();
        rest.into_iter().for_each(|race| self.tell(race));
    }
}
