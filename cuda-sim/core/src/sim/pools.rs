//! Memory of pools: what they reserve, use and release.
//!
//! A pool has an arena of its own. It grows by large parts, which count as used memory of the
//! device until the pool releases them: when the host synchronizes and the pool has more than its
//! threshold, when it is trimmed, or when it ends. What the program frees stays in the pool, so
//! nothing else gets it.

use crate::memory::{Segment, round_up};
use crate::results::{Code, Result};
use crate::sim::objects::{DEVICE, MANAGED, Pool, PoolLocation};
use crate::sim::state::Sim;

/// Bytes that drivers reserve at once, and those that they reserve when less is left.
const PARTS: [u64; 2] = [32 << 20, 2 << 20];

impl Sim {
    pub fn new_pool(
        &mut self,
        place: PoolLocation,
        handle_types: i32,
        max_size: u64,
        default: bool,
    ) -> u64 {
        let arena = self.free_arenas.pop().unwrap_or_else(|| {
            self.memory.arenas.push(Default::default());
            self.memory.arenas.len() - 1
        });
        let home = match place {
            PoolLocation { kind: MANAGED, .. } => self.managed_arena(),
            PoolLocation { location: DEVICE, id, .. } => id as usize,
            _ => self.pinned_arena(),
        };
        self.memory.arenas[arena].for_host = self.memory.arenas[home].for_host;
        let limits = Pool { max_size, default, handle_types, ..Pool::default() };
        self.pools.insert(Pool { place, arena, home, ..limits })
    }

    /// Removes a pool. Its memory is released as soon as nothing in it is allocated.
    pub fn end_pool(&mut self, handle: u64) {
        if let Some(pool) = self.pools.remove(handle) {
            self.left_arenas.push((pool.arena, pool.home));
            self.release_left_arenas();
        }
    }

    fn release_left_arenas(&mut self) {
        for (arena, home) in std::mem::take(&mut self.left_arenas) {
            while let Some(part) = self.memory.arenas[arena].take_idle(|_| true) {
                self.memory.arenas[home].add(part);
            }
            if self.memory.arenas[arena].reserved() == 0 {
                self.free_arenas.push(arena);
            } else {
                self.left_arenas.push((arena, home));
            }
        }
    }

    /// Returns the memory of a device that is allocated or reserved by pools.
    pub fn memory_used(&self, device: i32) -> u64 {
        let home = device as usize;
        let pools = self.pools.iter().map(|(_, pool)| (pool.arena, pool.home));
        let reserved = pools
            .chain(self.left_arenas.iter().copied())
            .filter(|(_, of)| *of == home)
            .map(|(arena, _)| self.memory.arenas[arena].reserved());
        self.memory.arenas[home].used + reserved.sum::<u64>()
    }

    /// Takes a block from a pool, which reserves more memory if needed.
    pub fn take_from_pool(&mut self, handle: u64, size: u64) -> Result<u64> {
        let pool = self.pools.get(handle).ok_or(Code::INVALID_VALUE)?;
        let (arena, home, max) = (pool.arena, pool.home, pool.max_size);
        if let Some(address) = self.memory.arenas[arena].fit(size)? {
            return Ok(address);
        }
        let most = if max == 0 { u64::MAX } else { round_up(max, PARTS[0]).unwrap_or(u64::MAX) };
        for part in PARTS {
            let length = round_up(size, part).ok_or(Code::OUT_OF_MEMORY)?;
            let reserved = self.memory.arenas[arena].reserved();
            if reserved.saturating_add(length) > most || !self.has_free(home, length) {
                continue;
            }
            let part = match self.memory.arenas[home].take_idle(|size| size == length) {
                Some(part) => part,
                None => Segment::map(length)?,
            };
            self.memory.arenas[arena].add(part);
            self.protect_devices();
            if let Some(pool) = self.pools.get_mut(handle) {
                pool.reserved_high = pool.reserved_high.max(reserved + length);
            }
            return self.memory.arenas[arena].fit(size)?.ok_or(Code::OUT_OF_MEMORY);
        }
        Err(Code::OUT_OF_MEMORY)
    }

    /// Returns whether a device has so much memory left. Pools release what they do not use rather
    /// than let an allocation fail.
    pub fn has_free(&mut self, home: usize, size: u64) -> bool {
        if home >= self.config.devices {
            return true;
        }
        let fits = |sim: &Sim| {
            sim.memory_used(home as i32)
                .checked_add(size)
                .is_some_and(|all| all <= sim.config.memory)
        };
        if !fits(self) {
            for (pool, _) in self.pools_with_thresholds() {
                self.trim_pool(pool, |_, _| true);
            }
        }
        fits(self)
    }

    fn pools_with_thresholds(&self) -> Vec<(u64, u64)> {
        self.pools.iter().map(|(handle, pool)| (handle, pool.threshold)).collect()
    }

    /// Releases unused parts of a pool while `more` accepts: given what is reserved, and the size
    /// of the part.
    pub fn trim_pool(&mut self, handle: u64, more: impl Fn(u64, u64) -> bool) {
        let Some(pool) = self.pools.get(handle) else { return };
        let (arena, home) = (pool.arena, pool.home);
        loop {
            let reserved = self.memory.arenas[arena].reserved();
            let Some(part) = self.memory.arenas[arena].take_idle(|size| more(reserved, size))
            else {
                return;
            };
            self.memory.arenas[home].add(part);
        }
    }

    /// Releases what pools have above their thresholds. Called when the host has synchronized.
    /// [CU_MEMPOOL_ATTR_RELEASE_THRESHOLD]
    pub fn pools_synchronized(&mut self) {
        if !std::mem::take(&mut self.pools_freed) || crate::real_driver::is_present() {
            return;
        }
        for (pool, threshold) in self.pools_with_thresholds() {
            self.trim_pool(pool, |reserved, _| reserved > threshold);
        }
        self.release_left_arenas();
    }
}
