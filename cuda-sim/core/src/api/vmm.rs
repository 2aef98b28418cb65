//! Virtual memory management.

use super::memory::enter;
use super::pools::{AccessDesc, Location};
use crate::api::macros::api;
use crate::ffi::{get, put, slice};
use crate::memory::{ALLOCATION_GRANULARITY, Allocation, Kind, file_number, size_of_file};
use crate::results::{Code, Result, refuse_if};
use crate::sim::{Locked, Sim};
use crate::vmm::{Physical, device_of};
use std::ffi::c_void;

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Props {
    kind: i32,
    handle_types: i32,
    location: Location,
    win32: u64,
    flags: [u8; 8],
}
const _: () = assert!(size_of::<Props>() == 32);

const DEVICE: i32 = 1;

fn check(sim: &Sim, props: &Props) -> Result {
    refuse_if(props.kind != 1 || props.location.kind != DEVICE, Code::INVALID_VALUE)?;
    super::devices::check(sim, props.location.id)?;
    // Only file descriptors can be exported.
    if props.handle_types & !1 != 0 { Err(Code::NOT_SUPPORTED) } else { Ok(()) }
}

fn drop_unused(sim: &mut Sim, handle: u64) {
    if sim.physical.get(handle).is_some_and(|physical| physical.released && physical.refs == 0) {
        if let Some(physical) = sim.physical.remove(handle) {
            // SAFETY: the descriptor belongs to this object, which was just removed.
            unsafe { libc::close(physical.fd) };
        }
    }
}

fn unmap(sim: &mut Locked, address: u64, size: u64) -> Result {
    let inside: Vec<u64> = sim
        .mappings
        .mapped
        .range(address..address.saturating_add(size))
        .map(|(base, _)| *base)
        .collect();
    let covered: u64 = inside.iter().map(|base| sim.mappings.mapped[base].size).sum();
    refuse_if(inside.is_empty() || covered != size || inside[0] != address, Code::INVALID_VALUE)?;
    let label = sim.label("cuMemUnmap");
    let moment = sim.check_host(&[], label);
    for base in &inside {
        sim.end_allocation(*base, moment.as_ref());
    }
    Sim::wait_everything(sim);
    for base in inside {
        if let Some(mapping) = sim.mappings.unmap(base) {
            if let Some(physical) = sim.physical.get_mut(mapping.physical) {
                physical.refs -= 1;
            }
            drop_unused(sim, mapping.physical);
        }
    }
    Ok(())
}

api! {
    fn cuMemGetAllocationGranularity(to: *mut usize, props: *const Props, option: i32) |sim| {
        let props = get(props)?;
        refuse_if(!(0..=1).contains(&option), Code::INVALID_VALUE)?;
        check(sim, &props)?;
        put(to, ALLOCATION_GRANULARITY as usize)
    }
    fn cuMemAddressReserve(to: *mut u64, size: usize, alignment: usize, wanted: u64, flags: u64) |sim| {
        refuse_if(to.is_null() || flags != 0, Code::INVALID_VALUE)?;
        put(to, sim.mappings.reserve(size as u64, alignment as u64, wanted)?)
    }
    fn cuMemAddressFree(address: u64, size: usize) |sim| { sim.mappings.free(address, size as u64) }
    fn cuMemCreate(to: *mut u64, size: usize, props: *const Props, flags: u64) |sim| {
        let props = get(props)?;
        check(sim, &props)?;
        if to.is_null() || flags != 0 || size == 0 || size as u64 % ALLOCATION_GRANULARITY != 0 {
            return Err(Code::INVALID_VALUE);
        }
        refuse_if(size as u64 > sim.config.memory, Code::OUT_OF_MEMORY)?;
        let id = sim.id();
        let physical = Physical::new(
            size as u64,
            props.location.id,
            props.location.kind,
            props.handle_types,
            id,
        )?;
        put(to, sim.physical.insert(physical))
    }
    fn cuMemRelease(handle: u64) |sim| {
        let found = sim
            .physical
            .get_mut(handle)
            .filter(|found| !found.released)
            .ok_or(Code::INVALID_VALUE)?;
        found.released = true;
        drop_unused(sim, handle);
        Ok(())
    }
    fn cuMemMap(address: u64, size: usize, offset: usize, handle: u64, flags: u64) |sim| {
        refuse_if(offset != 0 || flags != 0, Code::INVALID_VALUE)?;
        let Sim { physical, mappings, .. } = &mut **sim;
        let found =
            physical.get_mut(handle).filter(|found| !found.released).ok_or(Code::INVALID_VALUE)?;
        mappings.map(address, size as u64, found, handle)?;
        found.refs += 1;
        let (device, file) = (found.device, file_number(found.fd));
        enter(sim, Allocation::new(Kind::Virtual, address, size as u64, device, 0), "cuMemMap");
        sim.memory.is_at(address, file);
        Ok(())
    }
    fn cuMemUnmap(address: u64, size: usize) |sim| { unmap(sim, address, size as u64) }
    fn cuMemSetAccess(address: u64, size: usize, descs: *const AccessDesc, count: usize) |sim| {
        for desc in slice(descs, count)? {
            refuse_if(desc.location.kind != DEVICE || !matches!(desc.flags, 0 | 1 | 3), Code::INVALID_VALUE)?;
            super::devices::check(sim, desc.location.id)?;
            sim.mappings.set_access(address, size as u64, desc.location.id, desc.flags)?;
        }
        if count == 0 { Err(Code::INVALID_VALUE) } else { Ok(()) }
    }
    fn cuMemGetAccess(flags: *mut u64, location: *const Location, address: u64) |sim| {
        let location = get(location)?;
        let mapping = sim.mappings.at(address).ok_or(Code::INVALID_VALUE)?;
        let found = mapping.access.get(&location.id).copied().unwrap_or(0);
        put(flags, found as u64)
    }
    fn cuMemRetainAllocationHandle(to: *mut u64, address: u64) |sim| {
        let mapping = sim.mappings.at(address).ok_or(Code::INVALID_VALUE)?;
        let handle = mapping.physical;
        if let Some(physical) = sim.physical.get_mut(handle) {
            physical.released = false;
        }
        put(to, handle)
    }
    fn cuMemGetAllocationPropertiesFromHandle(to: *mut Props, handle: u64) |sim| {
        let found = sim.physical.get(handle).ok_or(Code::INVALID_VALUE)?;
        let location = Location { kind: found.location, id: found.device };
        put(to, Props { kind: 1, handle_types: found.handle_types, location, win32: 0, flags: [0; 8] })
    }
    fn cuMemExportToShareableHandle(to: *mut c_void, handle: u64, kind: i32, flags: u64) |sim| {
        let found = sim.physical.get(handle).ok_or(Code::INVALID_VALUE)?;
        refuse_if(kind != 1 || flags != 0 || found.handle_types & 1 == 0, Code::INVALID_VALUE)?;
        // SAFETY: `fcntl` with F_DUPFD_CLOEXEC accepts any descriptor.
        let fd = unsafe { libc::fcntl(found.fd, libc::F_DUPFD_CLOEXEC, 0) };
        refuse_if(fd < 0, Code::OPERATING_SYSTEM)?;
        put(to.cast::<i32>(), fd)
    }
    fn cuMemImportFromShareableHandle(to: *mut u64, handle: u64, kind: i32) |sim| {
        refuse_if(kind != 1 || to.is_null(), Code::INVALID_VALUE)?;
        let size = size_of_file(handle as i32).unwrap_or(0);
        let device = device_of(handle as i32).ok_or(Code::INVALID_VALUE)?;
        super::devices::check(sim, device)?;
        refuse_if(size == 0 || size % ALLOCATION_GRANULARITY != 0, Code::INVALID_VALUE)?;
        // SAFETY: `fcntl` with F_DUPFD_CLOEXEC accepts any descriptor.
        let fd = unsafe { libc::fcntl(handle as i32, libc::F_DUPFD_CLOEXEC, 0) };
        refuse_if(fd < 0, Code::OPERATING_SYSTEM)?;
        let id = sim.id();
        let imported = sim.physical.insert(Physical {
            fd,
            size,
            device,
            location: DEVICE,
            handle_types: 1,
            id,
            refs: 0,
            released: false,
        });
        put(to, imported)
    }
}
