//! Contexts: the one that a call refers to, their creation and their end.

use crate::handles;
use crate::results::{Code, Result};
use crate::sim::objects::{Context, Green, StreamKind};
use crate::sim::state::{Locked, Sim};
use crate::work::StreamRef;

impl Sim {
    /// Returns the context that memory, events and modules belong to: the primary one if a green
    /// context is current.
    pub fn current_context(&mut self) -> Result<u64> {
        let handle = self.execution_context()?;
        Ok(self.base(handle))
    }

    /// Returns the context that streams belong to: the current one, green or not.
    pub fn execution_context(&mut self) -> Result<u64> {
        let handle = if crate::real_driver::is_present() {
            handles::CURRENT.get().0
        } else {
            self.thread().contexts.last().copied().unwrap_or(0)
        };
        match self.contexts.get(handle) {
            None if handle == 0 => Err(Code::INVALID_CONTEXT),
            None => Err(Code::CONTEXT_IS_DESTROYED),
            Some(_) => self.context_error(handle).map(|()| handle),
        }
    }

    pub fn context(&mut self, handle: u64) -> Result<&mut Context> {
        self.contexts.get_mut(handle).ok_or(Code::INVALID_CONTEXT)
    }
}

pub fn new_context(
    sim: &mut Locked,
    device: i32,
    flags: u32,
    primary: bool,
    api_version: u32,
    green: Option<Green>,
) -> u64 {
    let id = sim.id();
    let nowhere = StreamRef { slot: usize::MAX, id: 0 };
    let handle = sim.contexts.insert(Context {
        device,
        id,
        flags,
        api_version,
        primary,
        legacy: nowhere,
        limits: [1024, 1 << 20, 8 << 20, 2, 2048, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        attached: 1,
        green,
        ..Context::default()
    });
    let legacy = sim.new_stream(StreamKind::Legacy, handle, device, 0, 0);
    if let Some(context) = sim.contexts.get_mut(handle) {
        context.legacy = legacy;
    }
    handle
}

/// Ends a context and all its objects, after its work is done.
pub fn end_context(sim: &mut Locked, handle: u64) {
    for green in sim.greens_over(handle) {
        end_context(sim, green);
    }
    let all = sim.contexts.get(handle).map_or_else(Vec::new, |context| context.streams.clone());
    Sim::wait_all(sim, &all);
    // The program destroys streams that a destroyed green context left.
    let (left, streams): (Vec<StreamRef>, Vec<StreamRef>) =
        all.into_iter().partition(|stream| sim.get(*stream).is_some_and(|stream| stream.detached));
    for stream in left {
        sim.stream_mut(stream).context = 0;
    }
    let captures: Vec<u64> = sim
        .captures
        .values()
        .filter(|capture| streams.contains(&capture.origin))
        .map(|capture| capture.id)
        .collect();
    for capture in captures {
        sim.captures.remove(&capture);
    }
    let handles: Vec<u64> = sim
        .streams
        .iter()
        .filter(|(_, stream)| streams.contains(stream))
        .map(|(handle, _)| handle)
        .collect();
    for handle in handles {
        sim.streams.remove(handle);
    }
    let events: Vec<u64> = sim
        .events
        .iter()
        .filter(|(_, event)| event.context == handle)
        .map(|(event, _)| event)
        .collect();
    for event in events {
        sim.events.remove(event);
    }
    sim.end_allocations_of(handle);
    for stream in streams {
        sim.destroy_stream(stream);
    }
    for thread in sim.threads.values_mut() {
        thread.streams.retain(|(context, _)| *context != handle);
    }
    for (_, other) in sim.contexts.iter_mut() {
        other.peers.retain(|peer| *peer != handle);
    }
    let ended = sim.contexts.remove(handle);
    if let Some(green) = ended.and_then(|context| context.green) {
        sim.greens.remove(green.handle);
    }
}
