//! The order that allocating and freeing device memory makes: the streams of the context
//! synchronize. [Programming Guide 13, stream-ordered memory allocator]

use crate::actor::Who;
use crate::results::Result;
use crate::sim::state::{Locked, Sim};
use crate::work::StreamRef;

impl Sim {
    /// Orders all work of a context before all that it is given later, for the checker: a host
    /// function may wait for what the program does next, so nothing is held up. Streams of other
    /// contexts are not ordered: the text does not say whether they are meant. Nor are streams
    /// behind a wait for a number that nothing known has written: what they wait for may come
    /// later. Returns the streams that are ordered.
    pub fn synchronize_streams(&mut self, context: u64) -> Vec<StreamRef> {
        let context = self.base(context);
        let mut streams = self.streams_of(context);
        let Some(checker) = &self.checker else { return streams };
        let actor_of = |stream: &StreamRef| self.get(*stream).and_then(|stream| stream.actor);
        streams.retain(|stream| !checker.waits_openly(actor_of(stream)));
        let mut actors = self.gone_of(context);
        actors.retain(|gone| !checker.waits_openly(Some(*gone)));
        actors.extend(streams.iter().filter_map(actor_of));
        if let (Some(checker), Some(found)) = (&mut self.checker, self.contexts.get_mut(context)) {
            let barrier = &mut found.barrier;
            barrier.number += 1;
            let actor = *barrier.actor.get_or_insert_with(|| checker.actor(None, Who::Earlier));
            actors.iter().for_each(|earlier| checker.order(*earlier, actor));
        }
        streams
    }

    /// Does the same, and makes the host wait.
    pub fn synchronize_and_wait(sim: &mut Locked, context: u64) -> Result {
        let streams = sim.synchronize_streams(context);
        Sim::wait_all(sim, &streams);
        let base = sim.base(context);
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
