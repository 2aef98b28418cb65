//! Virtual memory management: reserved addresses, physical memory, and mappings between them.

use crate::memory::{ALLOCATION_GRANULARITY, map_named};
use crate::results::{Code, Result, refuse_if};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::RawFd;

/// Memory without an address: a file that can be mapped and shared.
pub struct Physical {
    pub fd: RawFd,
    pub size: u64,
    pub device: i32,
    pub location: i32,
    pub handle_types: i32,
    pub id: u64,
    pub refs: u32,
    /// The program released its handle; mappings keep the memory.
    pub released: bool,
}

pub struct Mapping {
    pub size: u64,
    pub physical: u64,
    /// Access by device: 0 none, 1 read, 3 read and write.
    pub access: BTreeMap<i32, i32>,
}

#[derive(Default)]
pub struct Mappings {
    pub reserved: BTreeMap<u64, u64>,
    pub mapped: BTreeMap<u64, Mapping>,
}

/// Beginning of the name of a file of physical memory; the device follows.
const NAME: &str = "cuda-sim memory of device ";

/// Returns the device of a file of physical memory, of this or another process.
pub fn device_of(fd: RawFd) -> Option<i32> {
    let link = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    let name = link.to_str()?.strip_prefix("/memfd:")?.strip_prefix(NAME)?;
    name.split(' ').next()?.parse().ok()
}

impl Physical {
    pub fn new(
        size: u64,
        device: i32,
        location: i32,
        handle_types: i32,
        id: u64,
    ) -> Result<Physical> {
        let name = CString::new(format!("{NAME}{device}")).map_err(|_| Code::INVALID_VALUE)?;
        let (base, fd) = map_named(size, &name)?;
        // SAFETY: `map_named` just created this mapping with this size, and nothing refers to it.
        // Only the file is needed.
        unsafe { libc::munmap(base as *mut _, size as usize) };
        Ok(Physical { fd, size, device, location, handle_types, id, refs: 0, released: false })
    }
}

impl Mappings {
    pub fn reserve(&mut self, size: u64, alignment: u64, wanted: u64) -> Result<u64> {
        if size == 0
            || size % ALLOCATION_GRANULARITY != 0
            || (alignment != 0 && !alignment.is_power_of_two())
        {
            return Err(Code::INVALID_VALUE);
        }
        let alignment = alignment.max(ALLOCATION_GRANULARITY);
        // The range is larger, so that it contains an aligned one; the rest is unmapped.
        let length = size.checked_add(alignment).ok_or(Code::OUT_OF_MEMORY)?;
        // SAFETY: without MAP_FIXED, the kernel chooses unused addresses; `wanted` is a hint.
        let base = unsafe {
            libc::mmap(
                wanted as *mut _,
                length as usize,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        refuse_if(base == libc::MAP_FAILED, Code::OUT_OF_MEMORY)?;
        let base = base as u64;
        let aligned = base.next_multiple_of(alignment);
        // SAFETY: the parts before and after the aligned range belong to the mapping that was just
        // created, and nothing refers to them.
        unsafe {
            if aligned > base {
                libc::munmap(base as *mut _, (aligned - base) as usize);
            }
            let end = aligned + size;
            if base + length > end {
                libc::munmap(end as *mut _, (base + length - end) as usize);
            }
        }
        self.reserved.insert(aligned, size);
        Ok(aligned)
    }

    pub fn free(&mut self, address: u64, size: u64) -> Result {
        if self.reserved.get(&address) != Some(&size)
            || self.mapped.range(address..address + size).next().is_some()
        {
            return Err(Code::INVALID_VALUE);
        }
        self.reserved.remove(&address);
        // SAFETY: `reserved` contained exactly this range, which `reserve` mapped, and `mapped` has
        // no mapping in it.
        unsafe { libc::munmap(address as *mut _, size as usize) };
        Ok(())
    }

    pub fn forget(&mut self, address: u64) {
        if let Some((base, size)) = self.reservation(address, 1) {
            let _ = self.free(base, size);
        }
    }

    pub fn reservation(&self, address: u64, size: u64) -> Option<(u64, u64)> {
        let (&base, &length) = self.reserved.range(..=address).next_back()?;
        (address.checked_add(size)? <= base + length).then_some((base, length))
    }

    pub fn at(&self, address: u64) -> Option<&Mapping> {
        let (base, mapping) = self.mapped.range(..=address).next_back()?;
        (address < base + mapping.size).then_some(mapping)
    }

    pub fn map(&mut self, address: u64, size: u64, physical: &Physical, handle: u64) -> Result {
        if self.reservation(address, size).is_none()
            || size != physical.size
            || address % ALLOCATION_GRANULARITY != 0
        {
            return Err(Code::INVALID_VALUE);
        }
        let before = self.mapped.range(..address + size).next_back();
        if before.is_some_and(|(base, mapping)| base + mapping.size > address) {
            return Err(Code::ALREADY_MAPPED);
        }
        protect(address, size, Some(physical.fd), libc::PROT_NONE)?;
        self.mapped.insert(address, Mapping { size, physical: handle, access: BTreeMap::new() });
        Ok(())
    }

    pub fn unmap(&mut self, address: u64) -> Option<Mapping> {
        let mapping = self.mapped.remove(&address)?;
        // The addresses stay reserved.
        let _ = protect(address, mapping.size, None, libc::PROT_NONE);
        Some(mapping)
    }

    /// Sets the access to all mappings in a range. The mappings must fill the range.
    pub fn set_access(&mut self, address: u64, size: u64, device: i32, access: i32) -> Result {
        let end = address.checked_add(size).ok_or(Code::INVALID_VALUE)?;
        let mut at = address;
        while at < end {
            let mapping = self.mapped.get(&at).ok_or(Code::INVALID_VALUE)?;
            at += mapping.size;
        }
        refuse_if(at != end, Code::INVALID_VALUE)?;
        for (base, mapping) in self.mapped.range_mut(address..end) {
            mapping.access.insert(device, access);
            let most = mapping.access.values().copied().max().unwrap_or(0);
            let protection = match most {
                0 => libc::PROT_NONE,
                1 => libc::PROT_READ,
                _ => libc::PROT_READ | libc::PROT_WRITE,
            };
            // SAFETY: `mapped` contains this range, which `map` mapped at reserved addresses.
            unsafe { libc::mprotect(*base as *mut _, mapping.size as usize, protection) };
        }
        Ok(())
    }
}

/// Maps a file, or nothing, at reserved addresses.
fn protect(address: u64, size: u64, fd: Option<RawFd>, protection: i32) -> Result {
    let flags = match fd {
        Some(_) => libc::MAP_SHARED | libc::MAP_FIXED,
        None => libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
    };
    // SAFETY: callers checked that the range is in a reservation, so MAP_FIXED replaces only
    // mappings of this module.
    let base = unsafe {
        libc::mmap(address as *mut _, size as usize, protection, flags, fd.unwrap_or(-1), 0)
    };
    if base == libc::MAP_FAILED { Err(Code::OUT_OF_MEMORY) } else { Ok(()) }
}
