//! Green contexts, and properties of a whole context: its streams and its green contexts'.
//!
//! A green context is a context for streams; all else belongs to its primary context.

use crate::actor::Actor;
use crate::actor::Who;
use crate::clock::Clock;
use crate::results::Result;
use crate::sim::objects::{Stream, StreamKind};
use crate::sim::state::Sim;
use crate::work::{StreamRef, Work};

impl Sim {
    /// Returns the context that memory and errors belong to: the primary one of a green context,
    /// otherwise the same.
    pub fn base(&self, context: u64) -> u64 {
        let green = self.contexts.get(context).and_then(|context| context.green.as_ref());
        green.map_or(context, |green| green.base)
    }

    /// Returns the handle of the green context that a context represents; 0 for none.
    pub fn green_of(&self, context: u64) -> u64 {
        let green = self.contexts.get(context).and_then(|context| context.green.as_ref());
        green.map_or(0, |green| green.handle)
    }

    /// Returns the contexts that represent green contexts over a primary one.
    pub fn greens_over(&self, context: u64) -> Vec<u64> {
        self.greens
            .iter()
            .map(|(_, green)| *green)
            .filter(|green| self.base(*green) == context)
            .collect()
    }

    pub(super) fn family(&self, context: u64) -> Vec<u64> {
        let mut family = self.greens_over(context);
        family.push(context);
        family
    }

    pub fn context_error(&self, context: u64) -> Result {
        self.contexts.get(self.base(context)).and_then(|context| context.error).map_or(Ok(()), Err)
    }

    /// Returns all streams of a context and of green ones over it, including destroyed streams with
    /// pending work.
    pub fn streams_of(&self, context: u64) -> Vec<StreamRef> {
        let family = self.family(context);
        let all = self.stream_slots.iter().enumerate();
        let of_context = |(slot, stream): (usize, &Option<Stream>)| {
            stream
                .as_ref()
                .filter(|stream| family.contains(&stream.context))
                .map(|stream| StreamRef { slot, id: stream.id })
        };
        all.filter_map(of_context).collect()
    }

    /// Returns the same streams without those that take no more work.
    pub fn live_streams_of(&self, context: u64) -> Vec<StreamRef> {
        let is_live = |stream: &StreamRef| {
            self.get(*stream).is_some_and(|stream| !stream.destroyed && !stream.detached)
        };
        self.streams_of(context).into_iter().filter(is_live).collect()
    }

    /// Returns the actors of the destroyed streams of a context and of green ones over it.
    pub(super) fn gone_of(&self, context: u64) -> Vec<Actor> {
        self.family(context).into_iter().filter_map(|of| self.contexts.get(of)?.gone[1]).collect()
    }

    /// Orders the work of a context's destroyed streams before the next work of a stream.
    pub fn comes_after_destroyed(&mut self, stream: StreamRef, context: u64) {
        let actor = self.stream_mut(stream).actor;
        for gone in self.gone_of(context) {
            self.order_actors(Some(gone), actor);
        }
    }

    // --- waits of a whole context ---

    pub fn future_streams_wait(&mut self, context: u64, work: Work) {
        let Some(found) = self.contexts.get_mut(context) else { return };
        let mut waits = std::mem::take(&mut found.waits);
        waits.retain(|work| !self.is_unblocked(work));
        waits.push(work);
        if let Some(found) = self.contexts.get_mut(context) {
            found.waits = waits;
        }
    }

    pub fn future_streams_learn(&mut self, context: u64, clock: &Clock) {
        if let (Some(checker), Some(context)) = (&mut self.checker, self.contexts.get_mut(context))
        {
            let waited = *context.waited.get_or_insert_with(|| checker.actor(None, Who::Destroyed));
            checker.learn(waited, clock);
        }
    }

    /// Makes a new stream wait for everything that its context, and the primary one of that, was
    /// made to wait for.
    pub(super) fn wait_like_context(&mut self, stream: StreamRef, context: u64) {
        let base = Some(self.base(context)).filter(|base| *base != context);
        for of in std::iter::once(context).chain(base) {
            let Some(found) = self.contexts.get(of) else { continue };
            let (waits, waited) = (found.waits.clone(), found.waited);
            let actor = self.stream_mut(stream).actor;
            self.order_actors(waited, actor);
            for work in waits {
                if !self.is_unblocked(&work) {
                    self.push(stream, work);
                }
            }
        }
    }

    // --- the end of a green context ---

    /// Destroys a green context. Its streams remain, with their work, until they are destroyed;
    /// their work belongs to the primary context from here on.
    pub fn detach(&mut self, context: u64) {
        let base = self.base(context);
        for stream in self.streams_of(context) {
            let found = self.stream_mut(stream);
            found.context = base;
            found.detached = true;
            // The default stream of the primary context does not wait for it.
            found.kind = StreamKind::NonBlocking;
            let (implicit, destroyed) = (found.handle == 0, found.destroyed);
            if let Some(lane) = found.lane.take() {
                self.invalidate(lane.capture);
            }
            if destroyed {
                continue;
            }
            if implicit {
                self.destroy_stream(stream);
            } else if let Some(base) = self.contexts.get_mut(base) {
                base.streams.push(stream);
            }
        }
        let Some(ended) = self.contexts.remove(context) else { return };
        if let Some(green) = ended.green {
            self.greens.remove(green.handle);
        }
        if let (Some(checker), Some(base), Some(gone)) =
            (&mut self.checker, self.contexts.get_mut(base), ended.gone[1])
        {
            let all = *base.gone[1].get_or_insert_with(|| checker.actor(None, Who::Destroyed));
            checker.order(gone, all);
        }
    }
}
