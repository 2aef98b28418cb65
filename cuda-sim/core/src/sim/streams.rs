//! Streams: their creation, the stream that a handle names, and their end.

use crate::actor::{LEGACY, Who};
use crate::handles;
use crate::results::{Code, Result, refuse_if};
use crate::sim::objects::{Stream, StreamKind};
use crate::sim::state::Sim;
use crate::work::StreamRef;

impl Sim {
    pub fn new_stream(
        &mut self,
        kind: StreamKind,
        context: u64,
        device: i32,
        flags: u32,
        priority: i32,
    ) -> StreamRef {
        let id = self.id();
        let stream = Stream { id, kind, context, device, flags, priority, ..Stream::default() };
        let slot = match self.free_stream_slots.pop() {
            Some(slot) => slot,
            None => {
                self.stream_slots.push(None);
                self.stream_slots.len() - 1
            }
        };
        self.stream_slots[slot] = Some(stream);
        let stream = StreamRef { slot, id };
        if self.checker.is_some() {
            let host = self.host_actor();
            let name = match kind {
                StreamKind::Legacy => LEGACY,
                StreamKind::PerThread => "per-thread default stream",
                StreamKind::Blocking => "stream",
                StreamKind::NonBlocking => "non-blocking stream",
            };
            if let Some(checker) = &mut self.checker {
                let actor = checker.actor(Some(host), Who::Stream { id, device, kind: name });
                self.stream_mut(stream).actor = Some(actor);
                self.stream_of_actor.insert(actor, stream);
            }
        }
        if let Some(context) = self.contexts.get_mut(context) {
            context.streams.push(stream);
        }
        self.wait_like_context(stream, context);
        stream
    }

    pub fn get(&self, stream: StreamRef) -> Option<&Stream> {
        self.stream_slots.get(stream.slot)?.as_ref().filter(|found| found.id == stream.id)
    }

    pub fn get_mut(&mut self, stream: StreamRef) -> Option<&mut Stream> {
        self.stream_slots.get_mut(stream.slot)?.as_mut().filter(|found| found.id == stream.id)
    }

    /// Returns a stream that was just found.
    pub fn stream_mut(&mut self, stream: StreamRef) -> &mut Stream {
        match self.stream_slots[stream.slot].as_mut() {
            Some(stream) => stream,
            None => unreachable!("a stream that was found is there"),
        }
    }

    pub fn is_done(&self, stream: StreamRef, position: u64) -> bool {
        self.get(stream).is_none_or(|stream| stream.completed >= position)
    }

    /// Destroys a stream. Its pending work continues.
    pub fn destroy_stream(&mut self, stream: StreamRef) {
        let context = match self.get_mut(stream) {
            Some(found) => {
                found.destroyed = true;
                found.context
            }
            None => return,
        };
        if let Some(context) = self.contexts.get_mut(context) {
            context.streams.retain(|other| *other != stream);
        }
        self.remember_destroyed(stream, context);
        if let (Some(actor), Some(checker)) =
            (self.stream_mut(stream).actor.take(), &mut self.checker)
        {
            checker.retire(actor);
        }
        self.drop_if_drained(stream);
    }

    pub(super) fn drop_if_drained(&mut self, stream: StreamRef) {
        let Some(found) = self.get(stream) else { return };
        if found.destroyed && found.queue.is_empty() && !found.running {
            if let Some(wake) = &found.wake {
                wake.notify_all();
            }
            self.stream_slots[stream.slot] = None;
            self.free_stream_slots.push(stream.slot);
        }
    }

    /// Adopts a stream that a real driver created in a call that is not followed. It is treated as
    /// a blocking stream, which has the most ordering.
    fn adopt_stream(&mut self, handle: u64) -> Result {
        let context = self.current_context()?;
        let device = self.context(context)?.device;
        let stream = self.new_stream(StreamKind::Blocking, context, device, 0, 0);
        // The handle of the object that is being created must not be lost.
        let given = handles::GIVEN.replace(handle);
        self.streams.insert(stream);
        handles::GIVEN.set(given);
        self.stream_mut(stream).handle = handle;
        Ok(())
    }

    /// Returns the stream that a handle names for the calling thread.
    pub fn stream(&mut self, handle: u64, default: u64) -> Result<StreamRef> {
        let token = if handle == 0 { default } else { handle };
        if token > 2 {
            if crate::real_driver::is_present() && self.streams.get(token).is_none() {
                self.adopt_stream(token)?;
            }
            let stream = *self.streams.get(token).ok_or(Code::INVALID_HANDLE)?;
            let (context, detached) =
                self.get(stream).map_or((0, false), |stream| (stream.context, stream.detached));
            refuse_if(detached, Code::STREAM_DETACHED)?;
            refuse_if(self.contexts.get(context).is_none(), Code::CONTEXT_IS_DESTROYED)?;
            return self.context_error(context).map(|()| stream);
        }
        let mut context = self.execution_context()?;
        if let Some(green) = &self.context(context)?.green {
            // Green contexts have no per-thread default stream. [cuStreamGetCtx_v2]
            refuse_if(token != 1, Code::INVALID_HANDLE)?;
            if !green.default_stream {
                context = green.base;
            }
        }
        if token == 1 {
            return Ok(self.context(context)?.legacy);
        }
        if let Some((_, stream)) = self.thread().streams.iter().find(|(of, _)| *of == context) {
            return Ok(*stream);
        }
        let device = self.context(context)?.device;
        let stream = self.new_stream(StreamKind::PerThread, context, device, 0, 0);
        self.thread().streams.push((context, stream));
        Ok(stream)
    }
}
