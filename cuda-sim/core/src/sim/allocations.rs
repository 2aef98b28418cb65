//! Who can access allocations, and their end: races with it, and what becomes of the bytes.

use crate::access::{Access, MAX_NDIM, READ, WRITE};
use crate::console::print;
use crate::memory::{self, Allocation, Kind};
use crate::shown::counted;
use crate::sim::state::Sim;
use crate::site::Moment;
use crate::work::{Launch, StreamRef, Work};
use std::sync::Arc;

impl Sim {
    /// Performs a stream-ordered free: returns to the arena the bytes that were not reused.
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

    /// Overwrites the bytes that accesses write, as far as they are in memory of the device.
    pub fn overwrite(&self, fills: &[(u8, Access)]) {
        for (byte, access) in fills {
            let access = self.memory.on_device(access);
            let (from, to) = access.hull();
            for found in self.memory.inside(from, to) {
                let Some(found) = self.memory.allocations.get(&found) else { continue };
                access.for_each_range(|from, to| {
                    let (from, to) = (from.max(found.base), to.min(found.end()));
                    if from < to {
                        let host = found.host + (from - found.base);
                        let size = (to - from) as usize;
                        // SAFETY: the bytes are in an allocation, which cannot end while the state
                        // is locked, and the engine has opened its pages to the host.
                        unsafe { std::ptr::write_bytes(host as *mut u8, *byte, size) };
                    }
                });
            }
        }
    }

    /// Reports accesses that a program declares and that are not checked, once for each kernel.
    pub fn report_ignored(&mut self, work: &Work, accesses: &[Access], label: &'static str) {
        let is_declared = matches!(work, Work::Kernel(_) | Work::Nothing);
        if self.checker.is_none() || !is_declared || self.ignored.contains(label) {
            return;
        }
        if let Some(what) = accesses.iter().find_map(|access| self.is_ignored(access)) {
            self.ignored.insert(label);
            print(&format!("cuda-sim: {label} declares {what}\n"));
        }
    }

    /// Returns which part of an access is not checked.
    fn is_ignored(&self, access: &Access) -> Option<String> {
        let Access { address, mode, ndim, .. } = *access;
        let access = self.memory.on_device(access);
        let (from, to) = access.hull();
        if from == to {
            return None;
        }
        if mode & (READ | WRITE) == 0 || ndim as usize > MAX_NDIM {
            return Some(format!("an access of mode {mode} and ndim {ndim}, which is not valid"));
        }
        let bytes = counted(to - from, "byte");
        if self.memory.find(access.address).is_none() {
            let is_freed = self.memory.was_freed(access.address).is_some();
            return (!is_freed).then(|| {
                format!("{bytes} at {address:#x}, where no memory of the device is: not checked")
            });
        }
        let found = self.memory.inside(from, to);
        let first = self.memory.allocations.get(found.first()?)?;
        let last = self.memory.allocations.get(found.last()?)?;
        (from < first.base || last.end() < to).then(|| {
            let size = counted(last.end() - first.base, "byte");
            let kind = first.kind.name();
            format!(
                "{bytes} at {from:#x}, which {kind} of {size} at {:#x} does not contain: the rest \
                 is not checked",
                first.base
            )
        })
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
