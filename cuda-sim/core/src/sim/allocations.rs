//! The end of allocations: races with it, and what becomes of the bytes.
//!
//! May use: `access`, `memory`, `sim::state`, `site`, `work`. Unsafe: none.

use crate::access::{Access, WRITE};
use crate::memory::{self, Allocation};
use crate::sim::state::Sim;
use crate::site::Moment;
use crate::work::CoreRef;

impl Sim {
    /// Performs a stream-ordered free: returns the bytes to the arena, unless they were already
    /// reused.
    pub(super) fn pool_released(&mut self, core: CoreRef, id: u64) {
        let Some(freed) = self.freed.remove(&(core.id, id)) else { return };
        if !freed.taken {
            self.unguarded(|sim| {
                memory::poison(freed.address, freed.size);
                sim.memory.arenas[freed.arena].release(freed.address, freed.size);
            });
        }
    }

    pub fn arena_used(&self, device: i32) -> u64 {
        self.memory.arenas[device as usize].used
    }

    /// Ends an allocation. Accesses that are not ordered before its end are races.
    pub fn end_allocation(&mut self, base: u64, moment: Option<&Moment>) -> Option<Allocation> {
        if let Some(moment) = moment {
            let allocation = self.memory.allocations.get_mut(&base)?;
            let (place, access) = (allocation.place(), Access::range(base, allocation.size, WRITE));
            if let Some(checker) = &mut self.checker {
                checker.access(&mut allocation.shadow, &place, &access, moment);
            }
        }
        if let (Some(checker), Some(allocation)) =
            (&mut self.checker, self.memory.allocations.get(&base))
        {
            checker.rules.forget(base, base + allocation.size);
        }
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
        }
    }
}
