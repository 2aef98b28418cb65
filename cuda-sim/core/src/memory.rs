//! Memory: where allocations are, their attributes, and their bytes.
//!
//! A device address is the address of real bytes in this process, so that copies and kernels are
//! plain code. Freed addresses are poisoned and reused at once; their pages stay mapped, so that
//! work that runs too late finds wrong bytes and does not crash the simulator.

use crate::access::Access;
use crate::results::{Code, Result, refuse_if};
use crate::shadow::Shadow;
use crate::site::{AllocationInfo, Site};
use std::collections::{BTreeMap, HashMap};
use std::ffi::CStr;
use std::os::fd::RawFd;
use std::sync::Arc;

/// The value of the bytes of freed memory.
pub const POISON: u8 = 0xdb;

/// The value of bytes that a kernel without a function writes: floats of every size are NaN.
pub const UNKNOWN: u8 = 0xff;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// cuMemAlloc
    Device,
    /// cuMemAllocAsync and pools
    Pool,
    /// cuMemAllocManaged
    Managed,
    /// cuMemAllocHost, cuMemHostAlloc
    Pinned,
    /// cuMemHostRegister
    Registered,
    /// cuMemMap
    Virtual,
    /// cuIpcOpenMemHandle
    Imported,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Device => "an allocation",
            Kind::Pool => "a stream-ordered allocation",
            Kind::Managed => "a managed allocation",
            Kind::Pinned => "pinned host memory",
            Kind::Registered => "registered host memory",
            Kind::Virtual => "a virtual mapping",
            Kind::Imported => "memory of another process",
        }
    }

    pub fn is_host(self) -> bool {
        matches!(self, Kind::Pinned | Kind::Registered)
    }
}

pub struct Allocation {
    pub kind: Kind,
    /// The address that the device uses.
    pub base: u64,
    pub size: u64,
    /// The address of the bytes: `base`, except for shifted registered memory.
    pub host: u64,
    pub device: i32,
    /// The context that it belongs to; 0 for pools and mappings, which have none.
    pub context: u64,
    pub buffer_id: u64,
    pub pool: u64,
    pub flags: u32,
    pub sync_memops: bool,
    pub shadow: Shadow<Site>,
    /// The physical memory, if it may be at several addresses; otherwise 0.
    pub physical: u64,
    /// Times its handle of another process was opened.
    pub opened: u32,
    /// The arena and the size of its block there, returned when it is freed.
    pub block: Option<(usize, u64)>,
}

impl Allocation {
    /// Creates one that is to be entered.
    pub fn new(kind: Kind, base: u64, size: u64, device: i32, context: u64) -> Allocation {
        Allocation {
            kind,
            base,
            size,
            host: base,
            device,
            context,
            buffer_id: 0,
            pool: 0,
            flags: 0,
            sync_memops: false,
            shadow: Shadow::default(),
            physical: 0,
            opened: 1,
            block: None,
        }
    }

    pub fn info(&self) -> AllocationInfo {
        AllocationInfo {
            base: self.base,
            size: self.size,
            device: self.device,
            kind: self.kind.name(),
        }
    }

    pub fn end(&self) -> u64 {
        self.base + self.size
    }

    /// Returns the end of the bytes after an address of them, of the device or of the host.
    pub fn end_from(&self, address: u64) -> u64 {
        let is_of_device = (self.base..self.end()).contains(&address);
        if is_of_device { self.end() } else { self.host + self.size }
    }
}

/// One mapping with its free parts.
pub struct Segment {
    base: u64,
    size: u64,
    fd: RawFd,
    /// Address to length; adjacent parts are merged.
    free: BTreeMap<u64, u64>,
}

/// The memory of one kind of one device.
#[derive(Default)]
pub struct Arena {
    segments: Vec<Segment>,
    /// The last freed blocks, by size: the first choice for the next allocation of that size.
    recent: HashMap<u64, Vec<u64>>,
    pub used: u64,
    /// Whether the host may access it, too.
    pub for_host: bool,
}

/// The granularity of addresses and sizes in virtual memory management.
pub const ALLOCATION_GRANULARITY: u64 = 2 << 20;

const ALIGNMENT: u64 = 512;
const SEGMENT: u64 = 64 << 20;

pub fn round_up(n: u64, to: u64) -> Option<u64> {
    Some(n.checked_add(to - 1)? / to * to)
}

impl Arena {
    pub fn allocate(&mut self, size: u64) -> Result<u64> {
        if crate::real_driver::is_present() {
            return Ok(crate::handles::GIVEN.take());
        }
        if let Some(address) = self.fit(size)? {
            return Ok(address);
        }
        self.segments.push(Segment::map(size.max(SEGMENT))?);
        self.fit(size)?.ok_or(Code::OUT_OF_MEMORY)
    }

    /// Allocates in the memory that it has, if enough is free.
    pub fn fit(&mut self, size: u64) -> Result<Option<u64>> {
        let length = round_up(size.max(1), ALIGNMENT).ok_or(Code::OUT_OF_MEMORY)?;
        let recent = self.recent.get_mut(&length);
        let again = recent.and_then(|list| {
            while let Some(address) = list.pop() {
                if self.segments.iter_mut().any(|segment| segment.carve(address, length)) {
                    return Some(address);
                }
            }
            None
        });
        let address =
            again.or_else(|| self.segments.iter_mut().find_map(|part| part.first_fit(length)));
        if address.is_some() {
            self.used += length;
        }
        Ok(address)
    }

    /// Returns the size of the memory that it has.
    pub fn reserved(&self) -> u64 {
        self.segments.iter().map(|segment| segment.size).sum()
    }

    pub fn add(&mut self, segment: Segment) {
        self.segments.push(segment);
    }

    /// Removes and returns a part in which nothing is allocated, if its size is accepted.
    pub fn take_idle(&mut self, accepted: impl Fn(u64) -> bool) -> Option<Segment> {
        let idle = |part: &Segment| part.free.get(&part.base) == Some(&part.size);
        let found = self.segments.iter().rposition(|part| idle(part) && accepted(part.size))?;
        Some(self.segments.remove(found))
    }

    pub fn release(&mut self, address: u64, size: u64) {
        let length = round_up(size.max(1), ALIGNMENT).unwrap_or(size);
        if let Some(segment) = self.segments.iter_mut().find(|segment| segment.contains(address)) {
            segment.release(address, length);
            self.used -= length;
            let recent = self.recent.entry(length).or_default();
            // Stale entries are skipped when they are tried; a few entries are enough.
            if recent.len() >= 64 {
                recent.remove(0);
            }
            recent.push(address);
        }
    }

    /// Returns the file of an address, the offset in it and its size, for other processes.
    pub fn file_of(&self, address: u64) -> Option<(RawFd, u64, u64)> {
        let segment = self.segments.iter().find(|segment| segment.contains(address))?;
        Some((segment.fd, address - segment.base, segment.size))
    }

    /// Opens or closes all of it to the host code of this process.
    pub fn protect(&self, open: bool) {
        let protection = if open { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
        for segment in &self.segments {
            // SAFETY: `Segment::map` made this mapping of this size, which is never unmapped.
            unsafe { libc::mprotect(segment.base as *mut _, segment.size as usize, protection) };
        }
    }
}

impl Segment {
    pub fn map(size: u64) -> Result<Segment> {
        let size = round_up(size, 2 << 20).ok_or(Code::OUT_OF_MEMORY)?;
        let (base, fd) = map_shared(size)?;
        Ok(Segment { base, size, fd, free: BTreeMap::from([(base, size)]) })
    }

    fn contains(&self, address: u64) -> bool {
        (self.base..self.base + self.size).contains(&address)
    }

    /// Takes exactly these bytes if they are free.
    fn carve(&mut self, address: u64, length: u64) -> bool {
        let Some((&start, &free)) = self.free.range(..=address).next_back() else { return false };
        let (end, wanted) = (start + free, address + length);
        if end < wanted {
            return false;
        }
        self.free.remove(&start);
        if start < address {
            self.free.insert(start, address - start);
        }
        if wanted < end {
            self.free.insert(wanted, end - wanted);
        }
        true
    }

    fn first_fit(&mut self, length: u64) -> Option<u64> {
        let (&start, _) = self.free.iter().find(|(_, free)| **free >= length)?;
        self.carve(start, length).then_some(start)
    }

    fn release(&mut self, mut address: u64, mut length: u64) {
        if let Some((&start, &free)) = self.free.range(..address).next_back() {
            if start + free == address {
                self.free.remove(&start);
                (address, length) = (start, free + length);
            }
        }
        if let Some(after) = self.free.remove(&(address + length)) {
            length += after;
        }
        self.free.insert(address, length);
    }
}

/// Maps new memory that other processes can map too. Returns its address and its file.
pub fn map_shared(size: u64) -> Result<(u64, RawFd)> {
    map_named(size, c"cuda-sim")
}

fn stat(fd: RawFd) -> Option<libc::stat> {
    // SAFETY: the call checks the descriptor, zeros are a valid `stat`, and it is read only after
    // `fstat` filled it.
    unsafe {
        let mut stat = std::mem::zeroed::<libc::stat>();
        (libc::fstat(fd, &mut stat) == 0).then_some(stat)
    }
}

/// Returns the bytes of a file, of any kind.
pub fn size_of_file(fd: RawFd) -> Option<u64> {
    stat(fd).map(|stat| stat.st_size as u64)
}

/// Returns the number of a file of shared memory, which all its descriptors have; 0 for none.
pub fn file_number(fd: RawFd) -> u64 {
    stat(fd).map_or(0, |stat| stat.st_ino)
}

/// The same with a name, which other processes can read.
pub fn map_named(size: u64, name: &CStr) -> Result<(u64, RawFd)> {
    // SAFETY: system calls on a file that was created here; no memory is accessed.
    unsafe {
        let fd = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
        refuse_if(fd < 0 || libc::ftruncate(fd, size as libc::off_t) != 0, Code::OUT_OF_MEMORY)?;
        Ok((map_file(fd, 0, size)?, fd))
    }
}

pub fn map_file(fd: RawFd, offset: u64, size: u64) -> Result<u64> {
    // SAFETY: with a NULL hint and without MAP_FIXED, the kernel chooses unused addresses.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            fd,
            offset as libc::off_t,
        )
    };
    if base == libc::MAP_FAILED { Err(Code::OUT_OF_MEMORY) } else { Ok(base as u64) }
}

/// Overwrites freed memory. The middle of a very large block is returned to the system instead.
pub fn poison(address: u64, size: u64) {
    if crate::real_driver::is_present() {
        return;
    }
    const WHOLE: u64 = 64 << 20;
    // SAFETY: callers pass a block that they just returned to an arena, whose segments are never
    // unmapped.
    unsafe {
        if size <= WHOLE {
            std::ptr::write_bytes(address as *mut u8, POISON, size as usize);
        } else {
            std::ptr::write_bytes(address as *mut u8, POISON, (WHOLE / 2) as usize);
            std::ptr::write_bytes(
                (address + size - WHOLE / 2) as *mut u8,
                POISON,
                (WHOLE / 2) as usize,
            );
            let from = (address + WHOLE / 2).next_multiple_of(4096);
            let to = (address + size - WHOLE / 2) & !4095;
            if from < to {
                libc::madvise(from as *mut _, (to - from) as usize, libc::MADV_REMOVE);
            }
        }
    }
}

/// All memory that the device can touch.
#[derive(Default)]
pub struct Memory {
    pub allocations: BTreeMap<u64, Allocation>,
    /// Host address to device address, for shifted memory.
    shifted: BTreeMap<u64, u64>,
    /// One arena for each device, for pinned, and for managed memory, then those of pools.
    pub arenas: Vec<Arena>,
    /// Freed and not reused memory: base to size and the place of the free.
    freed: BTreeMap<u64, (u64, Arc<Site>)>,
    next_buffer: u64,
    /// The addresses of physical memory, of which some may have ended.
    mappings: HashMap<u64, Vec<u64>>,
}

impl Memory {
    pub fn next_buffer_id(&mut self) -> u64 {
        self.next_buffer += 1;
        self.next_buffer
    }

    pub fn insert(&mut self, allocation: Allocation) {
        let (base, end) = (allocation.base, allocation.end());
        self.begins_again(base, end);
        if crate::real_driver::is_present() {
            // An earlier allocation there ended in a call that is not followed.
            self.set_aside(base, end);
        }
        if allocation.host != allocation.base {
            self.shifted.insert(allocation.host, base);
        }
        crate::instrumented::add(base, end - base);
        crate::instrumented::add(allocation.host, allocation.size);
        self.allocations.insert(base, allocation);
    }

    /// Removes a range from the freed memory: it is allocated again.
    pub fn begins_again(&mut self, base: u64, end: u64) {
        while let Some((&start, (size, _))) = self.freed.range(..end).next_back() {
            if start + size <= base {
                break;
            }
            self.freed.remove(&start);
        }
    }

    /// Records that the memory of an allocation may be at other addresses too.
    pub fn is_at(&mut self, base: u64, physical: u64) {
        if let Some(found) = self.allocations.get_mut(&base) {
            found.physical = physical;
            let ended =
                |other: &u64| self.allocations.get(other).is_none_or(|o| o.physical != physical);
            let bases = self.mappings.entry(physical).or_default();
            bases.retain(|other| *other != base && !ended(other));
            bases.push(base);
        }
    }

    /// Returns the memory of another process that is open in a context.
    pub fn opened(&mut self, physical: u64, context: u64) -> Option<&mut Allocation> {
        let bases = self.mappings.get(&physical)?;
        let is_it = |found: &Allocation| {
            found.physical == physical && found.context == context && found.pool == 0
        };
        let base = bases.iter().find(|base| self.allocations.get(base).is_some_and(is_it))?;
        self.allocations.get_mut(base)
    }

    /// Records that another process's memory is closed once. Returns whether it was opened again.
    pub fn is_still_open(&mut self, base: u64) -> bool {
        let Some(found) = self.allocations.get_mut(&base) else { return false };
        found.opened = found.opened.saturating_sub(1);
        found.opened > 0
    }

    pub fn has_mappings(&self) -> bool {
        !self.mappings.is_empty()
    }

    /// Returns the other addresses of the memory of an allocation.
    pub fn other_bases(&self, base: u64) -> Vec<u64> {
        let of = |base: u64| self.allocations.get(&base).map_or(0, |found| found.physical);
        let physical = of(base);
        if physical == 0 {
            return Vec::new();
        }
        let all = self.mappings.get(&physical).into_iter().flatten().copied();
        all.filter(|other| *other != base && of(*other) == physical).collect()
    }

    /// Returns the base addresses of the allocations in a range.
    pub fn inside(&self, base: u64, end: u64) -> Vec<u64> {
        let mut found: Vec<u64> = self.find(base).map(|first| first.base).into_iter().collect();
        found.extend(self.allocations.range(base..end).map(|(base, _)| *base));
        found.dedup();
        found
    }

    /// Removes the allocations in a range, until the real driver has decided whether they end.
    pub fn set_aside(&mut self, base: u64, end: u64) -> Vec<Allocation> {
        let mut taken = Vec::new();
        while let Some((&start, found)) = self.allocations.range(..end).next_back() {
            if found.end() <= base {
                break;
            }
            taken.extend(self.allocations.remove(&start));
        }
        taken
    }

    pub fn remove(&mut self, base: u64, site: Option<Arc<Site>>) -> Option<Allocation> {
        let allocation = self.allocations.remove(&base)?;
        self.shifted.remove(&allocation.host);
        // Memory of an arena remains device memory after a free. Registered or mapped memory does
        // not.
        if let (Some(site), Some(_)) = (site, allocation.block) {
            self.freed.insert(base, (allocation.size, site));
        }
        Some(allocation)
    }

    /// Returns the allocation that contains a device or host address.
    pub fn find(&self, address: u64) -> Option<&Allocation> {
        if let Some((_, allocation)) = self.allocations.range(..=address).next_back() {
            if address < allocation.end() {
                return Some(allocation);
            }
        }
        let (_, base) = self.shifted.range(..=address).next_back()?;
        let allocation = self.allocations.get(base)?;
        (address - allocation.host < allocation.size).then_some(allocation)
    }

    pub fn find_mut(&mut self, address: u64) -> Option<&mut Allocation> {
        let base = self.find(address)?.base;
        self.allocations.get_mut(&base)
    }

    /// Returns the end of the bytes of an allocation, and of mappings behind it: adjacent mappings are
    /// one range for the program.
    pub fn end_of_bytes(&self, allocation: &Allocation) -> u64 {
        let mut end = allocation.host + allocation.size;
        if allocation.kind == Kind::Virtual {
            let behind = self.allocations.range(allocation.end()..);
            for (_, next) in behind.take_while(|(_, next)| next.kind == Kind::Virtual) {
                if next.base != end {
                    break;
                }
                end = next.end();
            }
        }
        end
    }

    /// Returns the freed allocation at an address, if it was not reused since: its base, its size,
    /// and the place of the free.
    pub fn was_freed(&self, address: u64) -> Option<(u64, u64, &Arc<Site>)> {
        let (start, (size, site)) = self.freed.range(..=address).next_back()?;
        (address - start < *size).then_some((*start, *size, site))
    }

    /// Returns the host address of the bytes of a device address.
    pub fn host_address(&self, address: u64) -> u64 {
        match self.find(address) {
            Some(allocation)
                if allocation.host != allocation.base
                    && address >= allocation.base
                    && address < allocation.end() =>
            {
                allocation.host + (address - allocation.base)
            }
            _ => address,
        }
    }

    /// Translates the host addresses of an access into device addresses, which shadows use.
    pub fn on_device(&self, access: &Access) -> Access {
        let mut access = *access;
        if let Some(allocation) = self.find(access.address) {
            if access.address < allocation.base || access.address >= allocation.end() {
                access.address = allocation.base + (access.address - allocation.host);
            }
        }
        access
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_freed_block_comes_back_first() {
        let mut arena = Arena::default();
        let blocks: Vec<u64> = (0..4).map(|_| arena.allocate(1000).unwrap()).collect();
        assert!(blocks.windows(2).all(|pair| pair[1] == pair[0] + 1024));
        arena.release(blocks[1], 1000);
        arena.release(blocks[2], 1000);
        assert_eq!(arena.allocate(1000).unwrap(), blocks[2]);
        assert_eq!(arena.allocate(900).unwrap(), blocks[1]);
        assert_eq!(arena.used, 4096);
    }

    #[test]
    fn neighbours_grow_together() {
        let mut arena = Arena::default();
        let blocks: Vec<u64> = (0..8).map(|_| arena.allocate(512).unwrap()).collect();
        for i in [0, 2, 1, 7, 3, 4, 6, 5] {
            arena.release(blocks[i], 512);
        }
        assert_eq!(arena.used, 0);
        assert_eq!(arena.segments[0].free.len(), 1);
        assert_eq!(arena.allocate(512 * 8).unwrap(), blocks[0]);
    }

    #[test]
    fn too_much_is_an_error() {
        assert_eq!(Arena::default().allocate(u64::MAX), Err(Code::OUT_OF_MEMORY));
        assert_eq!(Arena::default().allocate(1 << 62), Err(Code::OUT_OF_MEMORY));
    }
}
