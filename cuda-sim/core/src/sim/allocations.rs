//! Who can access allocations, and their end: races with it, and what becomes of the bytes.

use crate::access::{Access, WRITE};
use crate::memory::{self, Allocation, Kind};
use crate::sim::state::Sim;
use crate::site::Moment;
use crate::work::{Launch, StreamRef, Work};
use std::sync::Arc;

impl Sim {
    /// Performs a stream-ordered free: returns the bytes to the arena, unless they were already
    /// reused.
    pub(super) fn pool_released(&mut self, stream: StreamRef, id: u64) {
        let Some(freed) = self.freed.remove(&(stream.id, id)) else { return };
        if !freed.taken {
            self.unguarded(|sim| {
                memory::poison(freed.address, freed.size);
                sim.memory.arenas[freed.arena].release(freed.address, freed.size);
            });
            self.pools_freed = true;
        }
    }

    /// Returns the access that kernels of a context have to an allocation, as `CUmemAccess_flags`:
    /// 0 none, 1 read, 3 read and write.
    /// [cuCtxEnablePeerAccess, cuMemPoolSetAccess, cuMemSetAccess]
    pub fn access_to(&self, context: u64, found: &Allocation) -> i32 {
        let Some(context) = self.contexts.get(self.base(context)) else { return 0 };
        let own = if context.device == found.device { 3 } else { 0 };
        match found.kind {
            Kind::Pinned | Kind::Registered if found.pool == 0 => 3,
            Kind::Managed => 3,
            Kind::Device | Kind::Imported if found.pool == 0 => {
                if context.peers.contains(&found.context) { 3 } else { own }
            }
            Kind::Virtual => {
                let mapping = self.mappings.mapped.get(&found.base);
                mapping
                    .and_then(|mapping| mapping.access.get(&context.device))
                    .copied()
                    .unwrap_or(0)
            }
            _ => {
                let pool = self.pools.get(found.pool);
                let own = if found.kind.is_host() { 0 } else { own };
                pool.and_then(|pool| pool.access.get(&context.device)).copied().unwrap_or(own)
            }
        }
    }

    /// Returns the work, or a kernel that faults if it is one that would access memory out of the
    /// reach of its context.
    pub fn or_fault(&self, stream: StreamRef, work: Work, accesses: &[Access]) -> Work {
        // With one device, all memory is its own or the host's.
        if crate::real_driver::is_present()
            || self.devices.len() < 2
            || !matches!(work, Work::Kernel(_))
        {
            return work;
        }
        let Some(context) = self.get(stream).map(|stream| stream.context) else { return work };
        let faults = accesses.iter().any(|access| {
            let access = self.memory.on_device(access);
            let (from, to) = access.hull();
            let touched = self.memory.inside(from, to);
            touched.iter().filter_map(|base| self.memory.allocations.get(base)).any(|found| {
                access.mode as i32 & !self.access_to(context, found) != 0
                    && access.touches(found.base, found.end())
            })
        });
        if faults { Work::Kernel(Arc::new(Launch::faulting())) } else { work }
    }

    /// Ends an allocation. Accesses that are not ordered before its end are races.
    pub fn end_allocation(&mut self, base: u64, moment: Option<&Moment>) -> Option<Allocation> {
        if let Some(moment) = moment {
            let allocation = self.memory.allocations.get_mut(&base)?;
            let (info, access) = (allocation.info(), Access::range(base, allocation.size, WRITE));
            if let Some(checker) = &mut self.checker {
                checker.access(&mut allocation.shadow, &info, &access, moment);
                self.shared.check(checker, &info, &access, moment);
            }
        }
        self.end_history(base);
        if let (Some(checker), Some(found)) =
            (&mut self.checker, self.memory.allocations.get(&base))
        {
            checker.open.forget(base, found.end());
        }
        if let (Some(checker), Some(allocation)) =
            (&mut self.checker, self.memory.allocations.get(&base))
        {
            checker.rules.forget(base, base + allocation.size);
        }
        self.advice.remove(&base);
        self.memory.remove(base, moment.map(|moment| moment.mark.site.clone()))
    }

    /// Ends all allocations of a context that is destroyed.
    pub fn end_allocations_of(&mut self, context: u64) {
        let bases: Vec<u64> = self
            .memory
            .allocations
            .values()
            .filter(|a| a.context == context)
            .map(|a| a.base)
            .collect();
        for base in bases {
            if let Some(allocation) = self.memory.remove(base, None) {
                self.give_back(&allocation);
            }
        }
    }

    /// Returns the bytes of an ended allocation to their arena.
    pub fn give_back(&mut self, allocation: &Allocation) {
        if let Some((arena, size)) = allocation.block {
            let base = allocation.base;
            self.unguarded(|sim| {
                memory::poison(base, size);
                sim.memory.arenas[arena].release(base, size);
            });
            self.pools_freed |= allocation.pool != 0;
        }
    }
}
