//! Contexts: the one that a call refers to, their creation and their end.

use crate::handles;
use crate::results::{Code, Result};
use crate::sim::objects::{Context, CoreKind, Green};
use crate::sim::state::{Locked, Sim};
use crate::work::CoreRef;

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
    let nowhere = CoreRef { slot: usize::MAX, id: 0 };
    let handle = sim.contexts.insert(Context {
        device,
        id,
        flags,
        api_version,
        primary,
        legacy: nowhere,
        dirty: Vec::new(),
        cores: Vec::new(),
        error: None,
        peers: Vec::new(),
        limits: [1024, 1 << 20, 8 << 20, 2, 2048, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        attached: 1,
        gone: [None; 2],
        green,
        waits: Vec::new(),
        waited: None,
    });
    let legacy = sim.new_core(CoreKind::Legacy, handle, device, 0, 0);
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
    let all = sim.contexts.get(handle).map_or_else(Vec::new, |context| context.cores.clone());
    Sim::wait_all(sim, &all);
    // The program destroys streams that a destroyed green context left.
    let (left, cores): (Vec<CoreRef>, Vec<CoreRef>) =
        all.into_iter().partition(|core| sim.get(*core).is_some_and(|core| core.detached));
    for core in left {
        sim.core_mut(core).context = 0;
    }
    let captures: Vec<u64> = sim
        .captures
        .values()
        .filter(|capture| cores.contains(&capture.origin))
        .map(|capture| capture.id)
        .collect();
    for capture in captures {
        sim.captures.remove(&capture);
    }
    let streams: Vec<u64> = sim
        .streams
        .iter()
        .filter(|(_, core)| cores.contains(core))
        .map(|(stream, _)| stream)
        .collect();
    for stream in streams {
        sim.streams.remove(stream);
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
    for core in cores {
        sim.destroy_core(core);
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
