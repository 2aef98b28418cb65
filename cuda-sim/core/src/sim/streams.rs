//! Streams: their creation, the stream that a handle names, and their end.

use crate::actor::{LEGACY, Who};
use crate::handles;
use crate::results::{Code, Result};
use crate::sim::objects::{Core, CoreKind};
use crate::sim::state::Sim;
use crate::work::CoreRef;
use std::collections::{BTreeMap, VecDeque};

impl Sim {
    pub fn new_core(
        &mut self,
        kind: CoreKind,
        context: u64,
        device: i32,
        flags: u32,
        priority: i32,
    ) -> CoreRef {
        let id = self.id();
        let core = Core {
            id,
            kind,
            context,
            device,
            handle: 0,
            flags,
            priority,
            queue: VecDeque::new(),
            enqueued: 0,
            completed: 0,
            running: false,
            destroyed: false,
            detached: false,
            listed: false,
            legacy_seen: 0,
            dirty: false,
            actor: None,
            lane: None,
            waiters: Vec::new(),
            wake: None,
            queries: 0,
            attributes: BTreeMap::new(),
        };
        let slot = match self.free_cores.pop() {
            Some(slot) => slot,
            None => {
                self.cores.push(None);
                self.cores.len() - 1
            }
        };
        self.cores[slot] = Some(core);
        let core = CoreRef { slot, id };
        if self.checker.is_some() {
            let host = self.host_actor();
            let name = match kind {
                CoreKind::Legacy => LEGACY,
                CoreKind::PerThread => "per-thread default stream",
                CoreKind::Blocking => "stream",
                CoreKind::NonBlocking => "non-blocking stream",
            };
            if let Some(checker) = &mut self.checker {
                let actor = checker.actor(Some(host), Who::Stream { id, device, kind: name });
                self.core_mut(core).actor = Some(actor);
            }
        }
        if let Some(context) = self.contexts.get_mut(context) {
            context.cores.push(core);
        }
        self.wait_like_context(core, context);
        core
    }

    pub fn get(&self, core: CoreRef) -> Option<&Core> {
        self.cores.get(core.slot)?.as_ref().filter(|found| found.id == core.id)
    }

    pub fn get_mut(&mut self, core: CoreRef) -> Option<&mut Core> {
        self.cores.get_mut(core.slot)?.as_mut().filter(|found| found.id == core.id)
    }

    /// Returns a stream that was just found.
    pub fn core_mut(&mut self, core: CoreRef) -> &mut Core {
        match self.cores[core.slot].as_mut() {
            Some(core) => core,
            None => unreachable!("a stream that was found is there"),
        }
    }

    pub fn is_done(&self, core: CoreRef, position: u64) -> bool {
        self.get(core).is_none_or(|core| core.completed >= position)
    }

    /// Destroys a stream. Its pending work continues.
    pub fn destroy_core(&mut self, core: CoreRef) {
        let context = match self.get_mut(core) {
            Some(found) => {
                found.destroyed = true;
                found.context
            }
            None => return,
        };
        if let Some(context) = self.contexts.get_mut(context) {
            context.cores.retain(|other| *other != core);
        }
        self.remember_destroyed(core, context);
        if let (Some(actor), Some(checker)) = (self.core_mut(core).actor.take(), &mut self.checker)
        {
            checker.retire(actor);
        }
        self.drop_if_drained(core);
    }

    pub(super) fn drop_if_drained(&mut self, core: CoreRef) {
        let Some(found) = self.get(core) else { return };
        if found.destroyed && found.queue.is_empty() && !found.running {
            if let Some(wake) = &found.wake {
                wake.notify_all();
            }
            self.cores[core.slot] = None;
            self.free_cores.push(core.slot);
        }
    }

    /// Adopts a stream that a real driver created in a call that is not followed. It is treated as
    /// a blocking stream, which has the most ordering.
    fn adopt_stream(&mut self, handle: u64) -> Result {
        let context = self.current_context()?;
        let device = self.context(context)?.device;
        let core = self.new_core(CoreKind::Blocking, context, device, 0, 0);
        // The handle of the object that is being created must not be lost.
        let given = handles::GIVEN.replace(handle);
        self.streams.insert(core);
        handles::GIVEN.set(given);
        self.core_mut(core).handle = handle;
        Ok(())
    }

    /// Returns the stream that a handle names for the calling thread.
    pub fn stream(&mut self, handle: u64, default: u64) -> Result<CoreRef> {
        let token = if handle == 0 { default } else { handle };
        if token > 2 {
            if crate::real_driver::is_present() && self.streams.get(token).is_none() {
                self.adopt_stream(token)?;
            }
            let core = *self.streams.get(token).ok_or(Code::INVALID_HANDLE)?;
            let (context, detached) =
                self.get(core).map_or((0, false), |core| (core.context, core.detached));
            if detached {
                return Err(Code::STREAM_DETACHED);
            }
            if self.contexts.get(context).is_none() {
                return Err(Code::CONTEXT_IS_DESTROYED);
            }
            return self.context_error(context).map(|()| core);
        }
        let mut context = self.execution_context()?;
        if let Some(green) = &self.context(context)?.green {
            // Green contexts have no per-thread default stream. [cuStreamGetCtx_v2]
            if token != 1 {
                return Err(Code::INVALID_HANDLE);
            }
            if !green.default_stream {
                context = green.base;
            }
        }
        if token == 1 {
            return Ok(self.context(context)?.legacy);
        }
        if let Some((_, core)) = self.thread().streams.iter().find(|(of, _)| *of == context) {
            return Ok(*core);
        }
        let device = self.context(context)?.device;
        let core = self.new_core(CoreKind::PerThread, context, device, 0, 0);
        self.thread().streams.push((context, core));
        Ok(core)
    }
}
