//! The order that allocating and freeing device memory makes: the streams of the context
//! synchronize. [Programming Guide 13, stream-ordered memory allocator]

use crate::actor::{Actor, Who};
use crate::checker::Checker;
use crate::results::Result;
use crate::sim::state::{Locked, Sim};
use crate::work::StreamRef;

impl Sim {
    /// Orders all work of a context before all that it is given later, for the checker: a host
    /// function may wait for what the program does next, so nothing is held up. Streams of other
    /// contexts are not ordered: the text does not say whether they are meant. Nor are streams
    /// behind a wait for a number that nothing known has written: it may come later.
    pub fn synchronize_streams(&mut self, context: u64) {
        let context = self.base(context);
        self.list_news();
        let gone = self.gone_of(context);
        let (Some(checker), Some(found)) = (&mut self.checker, self.contexts.get_mut(context))
        else {
            return;
        };
        let barrier = &mut found.barrier;
        barrier.number += 1;
        let actor = *barrier.actor.get_or_insert_with(|| checker.actor(None, Who::Earlier));
        let mut order = |earlier: Actor| {
            let is_ordered = !checker.waits_openly(Some(earlier));
            if is_ordered {
                checker.order(earlier, actor);
            }
            is_ordered
        };
        gone.into_iter().for_each(|gone| {
            order(gone);
        });
        let slots = &mut self.stream_slots;
        barrier.news.retain(|stream| {
            let slot = slots[stream.slot].as_mut();
            let Some(found) = slot.filter(|found| found.id == stream.id) else { return false };
            found.is_news = found.actor.is_some_and(|actor| !order(actor));
            found.is_news
        });
        // To read a clock does not change it.
        checker.take_used();
    }

    /// Enters the streams that were used since the last call into the lists of their contexts.
    fn list_news(&mut self) {
        let used = self.checker.as_mut().map(Checker::take_used).unwrap_or_default();
        for actor in used {
            let Some(stream) = self.stream_of_actor.get(&actor).copied() else { continue };
            let Some(found) = self.get(stream).filter(|found| found.actor == Some(actor)) else {
                continue;
            };
            if found.is_news {
                continue;
            }
            let context = self.base(found.context);
            if let Some(context) = self.contexts.get_mut(context) {
                context.barrier.news.push(stream);
                self.stream_mut(stream).is_news = true;
            }
        }
    }

    /// Returns the streams of a context that have work, without those behind an open wait.
    fn pending_streams_of(&self, context: u64) -> Vec<StreamRef> {
        let family = self.family(context);
        let waits_openly = |actor: Option<Actor>| {
            self.checker.as_ref().is_some_and(|checker| checker.waits_openly(actor))
        };
        let is_pending = |stream: &StreamRef| {
            let found = self.get(*stream).filter(|found| family.contains(&found.context));
            found.is_some_and(|found| !waits_openly(found.actor))
        };
        self.busy.iter().copied().filter(is_pending).collect()
    }

    /// Orders the work of a context in the same way, and makes the host wait for it.
    pub fn synchronize_and_wait(sim: &mut Locked, context: u64) -> Result {
        sim.synchronize_streams(context);
        let base = sim.base(context);
        let streams = sim.pending_streams_of(base);
        Sim::wait_all(sim, &streams);
        let (barrier, host) =
            (sim.contexts.get(base).and_then(|found| found.barrier.actor), sim.host_actor());
        sim.order_actors(barrier, Some(host));
        sim.context_error(context)
    }

    /// Orders the next operation of a stream after the last of these calls.
    pub(super) fn comes_after_barrier(&mut self, stream: StreamRef) {
        let found = self.stream_mut(stream);
        let (seen, context, actor) = (found.barrier_seen, found.context, found.actor);
        let Some(found) = self.contexts.get(self.base(context)) else { return };
        let (number, earlier) = (found.barrier.number, found.barrier.actor);
        if number != seen {
            self.stream_mut(stream).barrier_seen = number;
            self.order_actors(earlier, actor);
        }
    }
}
