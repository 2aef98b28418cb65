//! Descriptors that importers need to open memory of pools and of `cuMemCreate`.

use std::collections::HashMap;
use std::os::fd::AsFd;

use super::super::ready::{Importer, tell};
use super::super::{message, said};
use crate::abi::cai_pointer_info;
use crate::driver::{self, CallingThread, Descriptor, MemoryKind};
use crate::error::{Failure, Result};

/// A pool, or an allocation of `cuMemCreate`.
struct Shared {
    info: cai_pointer_info,
    /// That of a pool, whose handle is invalid once the program has destroyed it. Memory of
    /// `cuMemCreate` may be in more pieces than a process has descriptors: theirs is made again.
    descriptor: Option<Descriptor>,
    /// Allocations with exported arrays.
    allocations: u32,
    /// Importers that need the descriptor.
    wanted: u64,
}

#[derive(Default)]
pub struct Descriptors {
    by_number: HashMap<u64, Shared>,
    /// Numbers of pools, by their handles.
    pools: HashMap<usize, u64>,
    /// An importer needs one.
    is_wanted: bool,
}

impl Descriptors {
    /// Returns the handle of an allocation, which has this number, and the number of its descriptor.
    pub fn export(
        &mut self,
        thread: &CallingThread,
        info: &cai_pointer_info,
        number: u64,
        last_number: &mut u64,
    ) -> Result<([u8; 64], u64)> {
        let kind = MemoryKind::of(info);
        let mut descriptor = None;
        if kind == MemoryKind::Plain {
            return Ok((driver::export_memory(thread, info, &mut descriptor)?, 0));
        }
        let pool = info.pool.addr();
        let known = self.pools.get(&pool).filter(|_| kind == MemoryKind::Pool);
        if let Some((number, shared)) =
            known.and_then(|it| Some((*it, self.by_number.get_mut(it)?)))
        {
            let handle = driver::export_memory(thread, info, &mut shared.descriptor)?;
            shared.allocations += 1;
            return Ok((handle, number));
        }
        let reserved = self.by_number.try_reserve(1).and_then(|()| self.pools.try_reserve(1));
        reserved.map_err(|_| Failure::no_memory(size_of::<Shared>()))?;
        let handle = driver::export_memory(thread, info, &mut descriptor)?;
        let mut number = number;
        if kind == MemoryKind::Pool {
            *last_number += 1;
            number = *last_number;
            self.pools.insert(pool, number);
        } else {
            // It was made because not all memory has one.
            descriptor = None;
        }
        self.by_number
            .insert(number, Shared { info: *info, descriptor, allocations: 1, wanted: 0 });
        Ok((handle, number))
    }

    /// Notes that no array of an allocation is exported any more. `number`: that of its descriptor.
    pub fn leave(&mut self, number: u64) {
        let Some(shared) = self.by_number.get_mut(&number) else { return };
        shared.allocations -= 1;
        if shared.allocations == 0 {
            if MemoryKind::of(&shared.info) == MemoryKind::Pool {
                self.pools.remove(&shared.info.pool.addr());
            }
            self.by_number.remove(&number);
        }
    }

    /// Notes that an importer needs a descriptor.
    pub fn want(&mut self, number: u64, importer: usize) {
        if let Some(shared) = self.by_number.get_mut(&number) {
            shared.wanted |= 1 << importer;
            self.is_wanted = true;
        }
    }

    /// Forgets what an importer needs.
    pub fn forget(&mut self, importer: usize) {
        self.by_number.values_mut().for_each(|shared| shared.wanted &= !(1 << importer));
    }

    /// Sends what importers need, as far as their connections take it.
    pub fn send(&mut self, importers: &[Option<Importer>]) {
        if !self.is_wanted {
            return;
        }
        self.is_wanted = false;
        for (number, shared) in self.by_number.iter_mut().filter(|(_, shared)| shared.wanted != 0) {
            shared.wanted &= !shared.send(importers, *number);
            self.is_wanted |= shared.wanted != 0;
        }
    }
}

impl Shared {
    /// Sends the descriptor to the importers that need it, and returns those to which it was sent.
    fn send(&self, importers: &[Option<Importer>], number: u64) -> u64 {
        let mut made = None;
        if self.descriptor.is_none() {
            let Ok(driver) = driver::driver() else { return 0 };
            let thread = &CallingThread::new(driver);
            let _ = thread.relaxed(|| driver::export_memory(thread, &self.info, &mut made));
        }
        let Some(descriptor) = self.descriptor.as_ref().or(made.as_ref()) else { return 0 };
        let message = message(said::DESCRIPTOR, number);
        tell(importers, self.wanted, message, Some(descriptor.as_fd()))
    }
}
