//! Memory that is allocated and freed in stream order, and the pools that it comes from.
//!
//! May use: `api::devices`, `api::ipc`, `api::macros`, `api::memory`, `ffi`, `handles`, `ipc`,
//! `memory`, `real_driver`, `results`, `sim`, `work`. Unsafe: system calls on the files of shared
//! pools.

use super::memory::{New, enter_at, take};
use crate::api::macros::api;
use crate::ffi::{get, put, slice};
use crate::ipc;
use crate::memory::Kind;
use crate::results::{Code, Result};
use crate::sim::{Freed, Locked, Pool, Sim};
use crate::work::{CoreRef, Work};
use std::ffi::c_void;

/// `CUmemPoolProps`, the part that is read.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PoolProps {
    kind: i32,
    handle_types: i32,
    location_type: i32,
    location_id: i32,
    security: u64,
    max_size: usize,
    rest: [u8; 56],
}
const _: () = assert!(size_of::<PoolProps>() == 88);

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Location {
    pub kind: i32,
    pub id: i32,
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AccessDesc {
    pub location: Location,
    pub flags: i32,
}

/// Returns a block for an allocation on a stream. Memory that the same stream freed is reused at
/// once, in stream order; memory that another stream freed, only when its free was reached.
fn block_for(sim: &mut Sim, core: CoreRef, device: i32, size: u64) -> Result<u64> {
    if crate::real_driver::is_present() {
        return take(sim, device, size);
    }
    let same = |freed: &Freed| {
        !freed.taken
            && freed.arena == device as usize
            && freed.size.next_multiple_of(512) == size.next_multiple_of(512)
    };
    let mut of_stream = sim.freed.range_mut((core.id, 0)..=(core.id, u64::MAX)).rev();
    if let Some((_, freed)) = of_stream.find(|(_, freed)| same(freed)) {
        freed.taken = true;
        return Ok(freed.address);
    }
    take(sim, device, size)
}

fn allocate(
    sim: &mut Locked,
    to: *mut u64,
    size: u64,
    pool: Option<u64>,
    stream: u64,
    default: u64,
    label: &'static str,
) -> Result {
    let core = sim.stream(stream, default)?;
    if to.is_null() || size == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let device = sim.core_mut(core).device;
    // Pools of a real driver are not followed: one represents all.
    let pool = pool
        .filter(|_| !crate::real_driver::is_present())
        .unwrap_or(sim.devices[device as usize].current_pool);
    let of = sim.pools.get(pool).ok_or(Code::INVALID_VALUE)?.device;
    if sim.pools.get(pool).is_some_and(|pool| pool.imported) {
        // The pool of another process cannot allocate. [cuMemPoolImportFromShareableHandle]
        return Err(Code::INVALID_VALUE);
    }
    if sim.core_mut(core).lane.is_some() {
        if crate::real_driver::is_present() {
            // The pool is not followed, but its memory is no longer freed memory.
            let base = crate::handles::GIVEN.take();
            sim.memory.begins_again(base, base.saturating_add(size));
        }
        // Memory nodes of graphs are not simulated.
        return Err(Code::NOT_SUPPORTED);
    }
    sim.forbid_legacy(core)?;
    sim.prepare(core);
    let base = block_for(sim, core, of, size)?;
    // The allocation begins in the stream: accesses that are not ordered after it are races.
    let label = sim.label(label);
    let actor = sim.core_mut(core).actor;
    let thread = u64::from(crate::sim::thread_id());
    let mark = actor.and_then(|actor| Some(sim.checker.as_mut()?.step(actor, label, thread).mark));
    let block = Some((of as usize, size));
    let new = New {
        kind: Kind::Pool,
        base,
        host: base,
        size,
        device: of,
        context: 0,
        pool,
        flags: 0,
        block,
    };
    enter_at(sim, new, mark);
    if let Some(pool) = sim.pools.get_mut(pool) {
        pool.used += size;
        pool.used_high = pool.used_high.max(pool.used);
    }
    Sim::enqueue(sim, core, Work::Nothing);
    put(to, base)
}

pub fn free(sim: &mut Locked, address: u64, stream: u64, default: u64) -> Result {
    let core = sim.stream(stream, default)?;
    if address == 0 {
        return Ok(());
    }
    if sim.core_mut(core).lane.is_some() {
        return Err(Code::NOT_SUPPORTED);
    }
    let found = sim.memory.allocations.get(&address).ok_or(Code::INVALID_VALUE)?;
    if !matches!(found.kind, Kind::Pool | Kind::Device | Kind::Imported) {
        return Err(Code::INVALID_VALUE);
    }
    sim.forbid_legacy(core)?;
    sim.prepare(core);
    let label = sim.label("cuMemFreeAsync");
    let actor = sim.core_mut(core).actor;
    let thread = u64::from(crate::sim::thread_id());
    let moment = actor.and_then(|actor| Some(sim.checker.as_mut()?.step(actor, label, thread)));
    let allocation = sim.end_allocation(address, moment.as_ref()).ok_or(Code::INVALID_VALUE)?;
    if let Some(pool) = sim.pools.get_mut(allocation.pool) {
        // Memory of another process does not count here.
        pool.used = pool.used.saturating_sub(allocation.size);
    }
    let Some((arena, size)) = allocation.block else { return Ok(()) };
    let id = sim.id();
    sim.freed
        .insert((core.id, id), Freed { address, size, arena, pool: allocation.pool, taken: false });
    Sim::enqueue(sim, core, Work::Release(id));
    Ok(())
}

fn pool_of(sim: &mut Locked, pool: u64) -> Result<&mut Pool> {
    sim.pools.get_mut(pool).ok_or(Code::INVALID_VALUE)
}

/// Attributes 1 to 3 are 32 bits wide, the rest 64.
fn attribute(sim: &mut Locked, pool: u64, which: i32, value: *mut c_void) -> Result {
    let pool = pool_of(sim, pool)?;
    match which {
        1..=3 => put(value.cast(), 1 - pool.reuse[which as usize - 1]),
        4 => put(value.cast(), pool.threshold),
        5 => put(value.cast(), pool.used.next_multiple_of(32 << 20)),
        6 => put(value.cast(), pool.used_high.next_multiple_of(32 << 20)),
        7 => put(value.cast(), pool.used),
        8 => put(value.cast(), pool.used_high),
        9 => put(value.cast(), 1i32),
        10 => put(value.cast(), pool.handle_types),
        11 => put(value.cast(), pool.device),
        12 => put(value.cast(), 1i32),
        13 => put(value.cast(), 0u64),
        14 => put(value.cast(), 0i32),
        _ => Err(Code::INVALID_VALUE),
    }
}

api! {
    fn cuMemAllocAsync / cuMemAllocAsync_ptsz(
        to: *mut u64,
        size: usize,
        stream: u64,
    ) |sim, default| {
        allocate(sim, to, size as u64, None, stream, default, "cuMemAllocAsync")
    }
    fn cuMemAllocFromPoolAsync / cuMemAllocFromPoolAsync_ptsz(
        to: *mut u64,
        size: usize,
        pool: u64,
        stream: u64,
    ) |sim, default| {
        allocate(sim, to, size as u64, Some(pool), stream, default, "cuMemAllocFromPoolAsync")
    }
    fn cuMemFreeAsync / cuMemFreeAsync_ptsz(address: u64, stream: u64) |sim, default| {
        free(sim, address, stream, default)
    }
    fn cuMemPoolCreate(to: *mut u64, props: *const PoolProps) |sim| {
        let props = get(props)?;
        // Pinned memory of a device.
        if props.kind != 1 || props.location_type != 1 || props.handle_types & !1 != 0 {
            return Err(if props.kind == 1 { Code::NOT_SUPPORTED } else { Code::INVALID_VALUE });
        }
        super::devices::check(sim, props.location_id)?;
        let handle = sim.pools.insert(Pool {
            device: props.location_id,
            handle_types: props.handle_types,
            ..Pool::default()
        });
        put(to, handle)
    }
    fn cuMemPoolDestroy(pool: u64) |sim| {
        if pool_of(sim, pool)?.default {
            return Err(Code::INVALID_VALUE);
        }
        sim.pools.remove(pool);
        for device in &mut sim.devices {
            if device.current_pool == pool {
                device.current_pool = device.default_pool;
            }
        }
        Ok(())
    }
    fn cuMemPoolTrimTo(pool: u64, keep: usize) |sim| {
        let _ = keep;
        pool_of(sim, pool).map(|_| ())
    }
    fn cuMemPoolGetAttribute(pool: u64, which: i32, value: *mut c_void) |sim| {
        sim.forbid_while_capturing()?;
        attribute(sim, pool, which, value)
    }
    fn cuMemPoolSetAttribute(pool: u64, which: i32, value: *const c_void) |sim| {
        sim.forbid_while_capturing()?;
        let pool = pool_of(sim, pool)?;
        match which {
            1..=3 => pool.reuse[which as usize - 1] = 1 - get(value.cast::<i32>())?.clamp(0, 1),
            4 => pool.threshold = get(value.cast())?,
            // High-water marks can only be reset.
            6 | 8 if get(value.cast::<u64>())? == 0 => pool.used_high = pool.used,
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }
    fn cuMemPoolSetAccess(pool: u64, map: *const AccessDesc, count: usize) |sim| {
        let devices = sim.devices.len() as i32;
        let pool = pool_of(sim, pool)?;
        for desc in slice(map, count)? {
            let own = desc.location.id == pool.device && desc.flags != 3;
            if desc.location.kind != 1
                || !(0..devices).contains(&desc.location.id)
                || !matches!(desc.flags, 0 | 1 | 3)
                || own
            {
                return Err(Code::INVALID_VALUE);
            }
            pool.access.insert(desc.location.id, desc.flags);
        }
        Ok(())
    }
    fn cuMemPoolGetAccess(flags: *mut i32, pool: u64, location: *const Location) |sim| {
        let location = get(location)?;
        let pool = pool_of(sim, pool)?;
        let own = if location.id == pool.device { 3 } else { 0 };
        let found = pool.access.get(&location.id).copied().unwrap_or(own);
        put(flags, found)
    }
    fn cuMemPoolExportToShareableHandle(
        to: *mut c_void,
        pool: u64,
        kind: i32,
        flags: u64,
    ) |sim| {
        let found = pool_of(sim, pool)?;
        if kind != 1 || flags != 0 || found.handle_types & 1 == 0 {
            return Err(Code::INVALID_VALUE);
        }
        // The file contains the device; memory is imported with each pointer.
        let device = found.device;
        // SAFETY: system calls on a file that is created here; the buffer has four bytes.
        let fd = unsafe {
            let fd = libc::memfd_create(c"cuda-sim pool".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 || libc::pwrite(fd, (&raw const device).cast(), 4, 0) != 4 {
                return Err(Code::OPERATING_SYSTEM);
            }
            fd
        };
        put(to.cast::<i32>(), fd)
    }
    fn cuMemPoolImportFromShareableHandle(
        to: *mut u64,
        handle: u64,
        kind: i32,
        flags: u64,
    ) |sim| {
        let mut device = -1i32;
        // SAFETY: `pread` checks the descriptor, and `device` has four bytes.
        let read = unsafe { libc::pread(handle as i32, (&raw mut device).cast(), 4, 0) };
        if to.is_null() || kind != 1 || flags != 0 || read != 4 {
            return Err(Code::INVALID_VALUE);
        }
        super::devices::check(sim, device)?;
        let pool = sim.pools.insert(Pool { device, imported: true, ..Pool::default() });
        put(to, pool)
    }
    fn cuMemPoolImportPointer(to: *mut u64, pool: u64, data: *const [u8; 64]) |sim| {
        let data = get(data)?;
        let found = pool_of(sim, pool)?;
        if to.is_null() || !found.imported {
            return Err(Code::INVALID_VALUE);
        }
        let device = found.device;
        let base = super::ipc::import(sim, &data, device, 0, pool, "cuMemPoolImportPointer")?;
        put(to, base)
    }
    fn cuMemPoolExportPointer(data: *mut [u8; 64], address: u64) |sim| {
        let found = sim
            .memory
            .allocations
            .get(&address)
            .filter(|found| found.kind == Kind::Pool)
            .ok_or(Code::INVALID_VALUE)?;
        let (size, device) = (found.size, found.device as usize);
        let (fd, offset, total) =
            sim.memory.arenas[device].file_of(address).ok_or(Code::INVALID_VALUE)?;
        let handle =
            ipc::Handle { magic: ipc::MEMORY, fd, pid: std::process::id(), offset, size, total };
        put(data, handle.bytes())
    }
}
