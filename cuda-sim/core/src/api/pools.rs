//! Memory that is allocated and freed in stream order, and the pools that it comes from.

use super::memory::{enter_at, take};
use crate::api::macros::api;
use crate::ffi::{get, put, slice};
use crate::ipc;
use crate::memory::{Allocation, Kind};
use crate::results::{Code, Result, refuse_if};
use crate::sim::{
    DEVICE, Freed, Locked, MANAGED, PINNED, Pool, PoolLocation, Sim, Task, give_back_graph_memory,
};
use crate::work::{StreamRef, Work};
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

// `CUmemLocationType`.
const NONE: i32 = 0;
const HOST: i32 = 2;
const HOST_NUMA: i32 = 3;

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AccessDesc {
    pub location: Location,
    pub flags: i32,
}

/// Returns a block for an allocation on a stream. Memory that the same stream freed is reused at
/// once, in stream order; memory that another stream freed, only when its free was reached.
fn block_for(sim: &mut Sim, stream: StreamRef, pool: u64, size: u64) -> Result<u64> {
    let of = sim.pools.get(pool).ok_or(Code::INVALID_VALUE)?;
    if crate::real_driver::is_present() {
        return take(sim, of.device(), size);
    }
    let arena = of.arena;
    let same = |freed: &Freed| {
        !freed.taken
            && freed.arena == arena
            && freed.size.next_multiple_of(512) == size.next_multiple_of(512)
    };
    let mut of_stream = sim.freed.range_mut((stream.id, 0)..=(stream.id, u64::MAX)).rev();
    if let Some((_, freed)) = of_stream.find(|(_, freed)| same(freed)) {
        freed.taken = true;
        return Ok(freed.address);
    }
    sim.take_from_pool(pool, size)
}

/// `CUmemLocation` and `CUmemAllocationType` as a place that can have a pool.
fn place_of(sim: &Sim, location: Location, kind: i32) -> Result<PoolLocation> {
    let id = match (kind, location.kind) {
        (PINNED | MANAGED, DEVICE) => super::devices::check(sim, location.id)? as i32,
        // There is one node.
        (PINNED | MANAGED, HOST_NUMA) if location.id != 0 => return Err(Code::INVALID_VALUE),
        (PINNED | MANAGED, HOST | HOST_NUMA) | (MANAGED, NONE) => 0,
        _ => return Err(Code::INVALID_VALUE),
    };
    Ok(PoolLocation { kind, location: location.kind, id })
}

/// Returns the default pool of a place and the current one.
fn pools_of(sim: &mut Sim, place: PoolLocation) -> [u64; 2] {
    if place.kind == PINNED && place.location == DEVICE {
        let device = &sim.devices[place.id as usize];
        return [device.default_pool, device.current_pool];
    }
    if let Some(pools) = sim.other_pools.get(&place) {
        return *pools;
    }
    let pool = sim.new_pool(place, 0, 0, true);
    sim.other_pools.insert(place, [pool; 2]);
    [pool; 2]
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
    let stream = sim.stream(stream, default)?;
    refuse_if(to.is_null(), Code::INVALID_VALUE)?;
    // Unlike cuMemAlloc, drivers allocate nothing, too: cuda.core relies on it.
    let size = size.max(1);
    let device = sim.stream_mut(stream).device;
    // Pools of a real driver are not followed: one represents all.
    let pool = pool
        .filter(|_| !crate::real_driver::is_present())
        .unwrap_or(sim.devices[device as usize].current_pool);
    let found = sim.pools.get(pool).ok_or(Code::INVALID_VALUE)?;
    let (device, arena) = (found.device(), found.arena);
    let kind = match found.place {
        PoolLocation { kind: MANAGED, .. } => Kind::Managed,
        PoolLocation { location: DEVICE, .. } => Kind::Pool,
        _ => Kind::Pinned,
    };
    if found.imported {
        // The pool of another process cannot allocate. [cuMemPoolImportFromShareableHandle]
        return Err(Code::INVALID_VALUE);
    }
    if sim.stream_mut(stream).lane.is_some() {
        if crate::real_driver::is_present() {
            // The pool is not followed, but its memory is no longer freed memory.
            let base = crate::handles::GIVEN.take();
            sim.memory.begins_again(base, base.saturating_add(size));
            return Err(Code::NOT_SUPPORTED);
        }
        let Some(lane) = sim.lane_of(stream)? else { return Err(Code::ILLEGAL_STATE) };
        give_back_graph_memory(sim);
        let base = sim.new_graph_memory(device, size)?;
        sim.capture_task(stream, lane, Task::Allocate(base))?;
        return put(to, base);
    }
    sim.forbid_legacy(stream)?;
    sim.prepare(stream);
    let base = block_for(sim, stream, pool, size)?;
    // The allocation begins in the stream: accesses that are not ordered after it are races.
    let mark = sim.moment_on(stream, label).map(|moment| moment.mark);
    let block = Some((arena, size));
    let new = Allocation { pool, block, ..Allocation::new(kind, base, size, device, 0) };
    enter_at(sim, new, mark);
    if let Some(pool) = sim.pools.get_mut(pool) {
        pool.used += size;
        pool.used_high = pool.used_high.max(pool.used);
    }
    Sim::enqueue(sim, stream, Work::Nothing);
    put(to, base)
}

pub fn free(sim: &mut Locked, address: u64, stream: u64, default: u64) -> Result {
    let stream = sim.stream(stream, default)?;
    if address == 0 {
        return Ok(());
    }
    if sim.stream_mut(stream).lane.is_some() {
        refuse_if(!sim.is_graph_memory(address), Code::NOT_SUPPORTED)?;
        let Some(lane) = sim.lane_of(stream)? else { return Err(Code::ILLEGAL_STATE) };
        return sim.capture_task(stream, lane, Task::Free(address));
    }
    if sim.is_graph_memory(address) {
        sim.forbid_legacy(stream)?;
        sim.prepare(stream);
        let moment = sim.moment_on(stream, "cuMemFreeAsync");
        sim.graph_memory_ends(address, moment.as_ref())?;
        Sim::enqueue(sim, stream, Work::Nothing);
        give_back_graph_memory(sim);
        return Ok(());
    }
    let found = sim.memory.allocations.get(&address).ok_or(Code::INVALID_VALUE)?;
    let of_pool = found.pool != 0 && found.kind != Kind::Registered;
    if !matches!(found.kind, Kind::Device | Kind::Imported) && !of_pool {
        return Err(Code::INVALID_VALUE);
    }
    sim.forbid_legacy(stream)?;
    sim.prepare(stream);
    let moment = sim.moment_on(stream, "cuMemFreeAsync");
    let allocation = sim.end_allocation(address, moment.as_ref()).ok_or(Code::INVALID_VALUE)?;
    if let Some(pool) = sim.pools.get_mut(allocation.pool) {
        // Memory of another process does not count here.
        pool.used = pool.used.saturating_sub(allocation.size);
    }
    let Some((arena, size)) = allocation.block else { return Ok(()) };
    let id = sim.id();
    sim.freed.insert(
        (stream.id, id),
        Freed { address, size, arena, pool: allocation.pool, taken: false },
    );
    Sim::enqueue(sim, stream, Work::Release(id));
    Ok(())
}

fn pool_of(sim: &mut Locked, pool: u64) -> Result<&mut Pool> {
    sim.pools.get_mut(pool).ok_or(Code::INVALID_VALUE)
}

/// Attributes 1 to 3 and 9 to 12 are 32 bits wide, the rest 64.
fn attribute(sim: &mut Locked, pool: u64, which: i32, value: *mut c_void) -> Result {
    let arena = pool_of(sim, pool)?.arena;
    let reserved = sim.memory.arenas[arena].reserved();
    let pool = pool_of(sim, pool)?;
    match which {
        1..=3 => put(value.cast(), 1 - pool.reuse[which as usize - 1]),
        4 => put(value.cast(), pool.threshold),
        5 => put(value.cast(), reserved),
        6 => put(value.cast(), pool.reserved_high.max(reserved)),
        7 => put(value.cast(), pool.used),
        8 => put(value.cast(), pool.used_high),
        9 => put(value.cast(), pool.place.kind),
        10 => put(value.cast(), pool.handle_types),
        11 => put(value.cast(), pool.place.id),
        12 => put(value.cast(), pool.place.location),
        13 => put(value.cast(), pool.max_size),
        14 => put(value.cast(), 0i32),
        15 => put(value.cast(), -1i32),
        _ => Err(Code::INVALID_VALUE),
    }
}

/// Marks the files of shared pools.
const SHARED_POOL: i32 = 0x706f_6f6c;

api! {
    fn cuMemAllocAsync / cuMemAllocAsync_ptsz(to: *mut u64, size: usize, stream: u64) |sim, default| {
        allocate(sim, to, size as u64, None, stream, default, "cuMemAllocAsync")
    }
    fn cuMemAllocFromPoolAsync / cuMemAllocFromPoolAsync_ptsz(
        to: *mut u64, size: usize, pool: u64, stream: u64,
    ) |sim, default| {
        allocate(sim, to, size as u64, Some(pool), stream, default, "cuMemAllocFromPoolAsync")
    }
    fn cuMemFreeAsync / cuMemFreeAsync_ptsz(address: u64, stream: u64) |sim, default| {
        free(sim, address, stream, default)
    }
    fn cuMemPoolCreate(to: *mut u64, props: *const PoolProps) |sim| {
        let props = get(props)?;
        let location = Location { kind: props.location_type, id: props.location_id };
        let place = place_of(sim, location, props.kind)?;
        // Managed pools cannot be shared or limited. [cuMemPoolCreate]
        let limited = props.handle_types != 0 || props.max_size != 0;
        refuse_if(to.is_null() || (place.kind == MANAGED && limited), Code::INVALID_VALUE)?;
        // Only file descriptors can be exported.
        refuse_if(props.handle_types & !1 != 0, Code::NOT_SUPPORTED)?;
        put(to, sim.new_pool(place, props.handle_types, props.max_size as u64, false))
    }
    fn cuMemPoolDestroy(pool: u64) |sim| {
        refuse_if(pool_of(sim, pool)?.default, Code::INVALID_VALUE)?;
        sim.end_pool(pool);
        for [default, current] in sim.other_pools.values_mut() {
            if *current == pool {
                *current = *default;
            }
        }
        for device in &mut sim.devices {
            if device.current_pool == pool {
                device.current_pool = device.default_pool;
            }
        }
        Ok(())
    }
    fn cuMemPoolTrimTo(pool: u64, keep: usize) |sim| {
        pool_of(sim, pool)?;
        sim.trim_pool(pool, |reserved, part| reserved - part >= keep as u64);
        Ok(())
    }
    fn cuMemGetDefaultMemPool(to: *mut u64, location: *const Location, kind: i32) |sim| {
        let place = place_of(sim, get(location)?, kind)?;
        put(to, pools_of(sim, place)[0])
    }
    fn cuMemGetMemPool(to: *mut u64, location: *const Location, kind: i32) |sim| {
        let place = place_of(sim, get(location)?, kind)?;
        put(to, pools_of(sim, place)[1])
    }
    fn cuMemSetMemPool(location: *const Location, kind: i32, pool: u64) |sim| {
        let place = place_of(sim, get(location)?, kind)?;
        refuse_if(!sim.pools.get(pool).is_some_and(|pool| pool.place == place && !pool.imported), Code::INVALID_VALUE)?;
        let [default, _] = pools_of(sim, place);
        if place.kind == PINNED && place.location == DEVICE {
            sim.devices[place.id as usize].current_pool = pool;
        } else {
            sim.other_pools.insert(place, [default, pool]);
        }
        Ok(())
    }
    fn cuMemPoolGetAttribute(pool: u64, which: i32, value: *mut c_void) |sim| {
        sim.forbid_while_capturing()?;
        attribute(sim, pool, which, value)
    }
    fn cuMemPoolSetAttribute(pool: u64, which: i32, value: *const c_void) |sim| {
        sim.forbid_while_capturing()?;
        let arena = pool_of(sim, pool)?.arena;
        let reserved = sim.memory.arenas[arena].reserved();
        let pool = pool_of(sim, pool)?;
        match which {
            1..=3 => pool.reuse[which as usize - 1] = 1 - get(value.cast::<i32>())?.clamp(0, 1),
            4 => pool.threshold = get(value.cast())?,
            // High-water marks can only be reset.
            6 if get(value.cast::<u64>())? == 0 => pool.reserved_high = reserved,
            8 if get(value.cast::<u64>())? == 0 => pool.used_high = pool.used,
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }
    fn cuMemPoolSetAccess(pool: u64, map: *const AccessDesc, count: usize) |sim| {
        let devices = sim.devices.len() as i32;
        let pool = pool_of(sim, pool)?;
        for desc in slice(map, count)? {
            let own = pool.place.location == DEVICE
                && desc.location.id == pool.place.id
                && desc.flags != 3;
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
        let own = location.kind == pool.place.location && location.id == pool.place.id;
        let own = own || (location.kind == HOST && pool.place.location != DEVICE);
        let own = if own { 3 } else { 0 };
        let granted = pool.access.get(&location.id).filter(|_| location.kind == DEVICE);
        put(flags, granted.copied().unwrap_or(own))
    }
    fn cuMemPoolExportToShareableHandle(to: *mut c_void, pool: u64, kind: i32, flags: u64) |sim| {
        let found = pool_of(sim, pool)?;
        refuse_if(kind != 1 || flags != 0 || found.handle_types & 1 == 0, Code::INVALID_VALUE)?;
        // The file contains the device; memory is imported with each pointer.
        let content = [SHARED_POOL, found.device()];
        // SAFETY: system calls on a file that is created here; the buffer has eight bytes.
        let fd = unsafe {
            let fd = libc::memfd_create(c"cuda-sim pool".as_ptr(), libc::MFD_CLOEXEC);
            refuse_if(fd < 0 || libc::pwrite(fd, (&raw const content).cast(), 8, 0) != 8, Code::OPERATING_SYSTEM)?;
            fd
        };
        put(to.cast::<i32>(), fd)
    }
    fn cuMemPoolImportFromShareableHandle(to: *mut u64, handle: u64, kind: i32, flags: u64) |sim| {
        let mut content = [0, -1i32];
        // SAFETY: `pread` checks the descriptor, and `content` has eight bytes.
        let read = unsafe { libc::pread(handle as i32, (&raw mut content).cast(), 8, 0) };
        let is_pool = read == 8 && content[0] == SHARED_POOL;
        refuse_if(to.is_null() || kind != 1 || flags != 0 || !is_pool, Code::INVALID_VALUE)?;
        super::devices::check(sim, content[1])?;
        let place = PoolLocation { kind: PINNED, location: DEVICE, id: content[1] };
        let pool = sim.new_pool(place, 0, 0, false);
        pool_of(sim, pool)?.imported = true;
        put(to, pool)
    }
    fn cuMemPoolImportPointer(to: *mut u64, pool: u64, data: *const [u8; 64]) |sim| {
        let data = get(data)?;
        let found = pool_of(sim, pool)?;
        refuse_if(to.is_null() || !found.imported, Code::INVALID_VALUE)?;
        let device = found.device();
        put(to, super::ipc::import(sim, &data, device, 0, pool, "cuMemPoolImportPointer")?)
    }
    fn cuMemPoolExportPointer(data: *mut [u8; 64], address: u64) |sim| {
        let found = sim
            .memory
            .allocations
            .get(&address)
            // Only of pools that can be shared.
            .filter(|found| sim.pools.get(found.pool).is_some_and(|pool| pool.handle_types != 0))
            .ok_or(Code::INVALID_VALUE)?;
        let (size, block) = (found.size, found.block.ok_or(Code::INVALID_VALUE)?);
        let (fd, offset, total) =
            sim.memory.arenas[block.0].file_of(address).ok_or(Code::INVALID_VALUE)?;
        let (magic, pid, history) = (ipc::MEMORY, std::process::id(), sim.export_history(address));
        let handle = ipc::Handle { magic, fd, pid, offset, size, total, history };
        put(data, handle.bytes())
    }
}
