//! Memory that is allocated at once, host memory, and attributes of pointers.

use crate::api::macros::api;
use crate::ffi::{get, put, put_if, slice};
use crate::memory::{Allocation, Kind, round_up};
use crate::results::{Code, Result, refuse_if};
use crate::shadow::{Mark, Shadow};
use crate::sim::{Locked, Sim, give_back_graph_memory};
use crate::site::Site;
use std::ffi::c_void;

/// Enters an allocation. Its beginning counts as a write by the calling thread: accesses that are
/// not ordered after it are races.
pub fn enter(sim: &mut Sim, new: Allocation, label: &'static str) {
    let label = sim.label(label);
    let moment = sim.check_host(&[], label);
    enter_at(sim, new, moment.map(|moment| moment.mark));
}

pub fn enter_at(sim: &mut Sim, mut new: Allocation, mark: Option<Mark<Site>>) {
    new.buffer_id = sim.memory.next_buffer_id();
    new.shadow = mark.map_or_else(Shadow::default, |mark| Shadow::begin(new.base, new.end(), mark));
    sim.memory.insert(new);
}

/// Allocates device memory, within the memory of the device.
pub fn take(sim: &mut Sim, device: i32, size: u64) -> Result<u64> {
    let length = round_up(size, 512).ok_or(Code::OUT_OF_MEMORY)?;
    refuse_if(!sim.has_free(device as usize, length), Code::OUT_OF_MEMORY)?;
    let address = sim.memory.arenas[device as usize].allocate(size)?;
    sim.protect_devices();
    Ok(address)
}

pub fn allocate(sim: &mut Locked, to: *mut u64, size: u64, label: &'static str) -> Result {
    let context = sim.current_context()?;
    refuse_if(to.is_null() || size == 0, Code::INVALID_VALUE)?;
    sim.forbid_while_capturing()?;
    let device = sim.context(context)?.device;
    let base = take(sim, device, size)?;
    if !sim.config.old_docs {
        sim.synchronize_streams(context);
    }
    let block = Some((device as usize, size));
    let new = Allocation { block, ..Allocation::new(Kind::Device, base, size, device, context) };
    enter(sim, new, label);
    put(to, base)
}

pub fn free(sim: &mut Locked, address: u64) -> Result {
    if address == 0 {
        return Ok(());
    }
    sim.current_context()?;
    sim.forbid_while_capturing()?;
    let found = sim.memory.allocations.get(&address).ok_or(Code::INVALID_VALUE)?;
    if sim.is_graph_memory(address) {
        let moment = sim.freeing("cuMemFree");
        sim.graph_memory_ends(address, moment.as_ref())?;
        give_back_graph_memory(sim);
        return Ok(());
    }
    let of_pool = found.pool != 0 && found.kind != Kind::Registered;
    if !matches!(found.kind, Kind::Device | Kind::Managed) && !of_pool {
        return Err(Code::INVALID_VALUE);
    }
    // Memory of pools belongs to no context, and is freed without a wait. [cuMemFree] For other
    // memory, cuda.h says that the call may wait, and the Programming Guide that it does.
    let context = found.context;
    if !sim.config.old_docs && context != 0 {
        Sim::synchronize_and_wait(sim, context)?;
    }
    end(sim, address, "cuMemFree")
}

/// Ends an allocation in a call of the host, and returns its bytes.
pub fn end(sim: &mut Locked, base: u64, label: &'static str) -> Result {
    let moment = sim.freeing(label);
    let allocation = sim.end_allocation(base, moment.as_ref()).ok_or(Code::INVALID_VALUE)?;
    if let Some(pool) = sim.pools.get_mut(allocation.pool) {
        pool.used = pool.used.saturating_sub(allocation.size);
    }
    sim.give_back(&allocation);
    if allocation.kind == Kind::Imported {
        Sim::wait_everything(sim);
        // SAFETY: `api::ipc::import` mapped this memory, the allocation was removed above, and all
        // pending work was waited for.
        unsafe { crate::ipc::unmap(allocation.base, allocation.size) };
    }
    Ok(())
}

/// Allocates memory that the host may access. `valid`: whether the flags are.
fn allocate_shared(
    sim: &mut Locked,
    to: *mut u64,
    size: u64,
    (kind, flags, valid): (Kind, u32, bool),
    label: &'static str,
) -> Result {
    let context = sim.current_context()?;
    refuse_if(to.is_null() || size == 0 || !valid, Code::INVALID_VALUE)?;
    sim.forbid_while_capturing()?;
    let device = sim.context(context)?.device;
    let is_managed = kind == Kind::Managed;
    let arena = if is_managed { sim.managed_arena() } else { sim.pinned_arena() };
    let base = sim.memory.arenas[arena].allocate(size)?;
    let block = Some((arena, size));
    let new = Allocation { flags, block, ..Allocation::new(kind, base, size, device, context) };
    enter(sim, new, label);
    put(to, base)
}

fn allocate_host(
    sim: &mut Locked,
    to: *mut u64,
    size: usize,
    flags: u32,
    label: &'static str,
) -> Result {
    // PORTABLE, DEVICEMAP, WRITECOMBINED. All pinned memory is mapped, as under unified addressing.
    let kind = (Kind::Pinned, flags | 2, flags & !7 == 0);
    allocate_shared(sim, to, size as u64, kind, label)
}

pub fn register(sim: &mut Locked, address: u64, size: u64, flags: u32) -> Result {
    let context = sim.current_context()?;
    // PORTABLE, DEVICEMAP, IOMEMORY, READ_ONLY
    refuse_if(address == 0 || size == 0 || flags & !15 != 0, Code::INVALID_VALUE)?;
    sim.forbid_while_capturing()?;
    let last = address.checked_add(size - 1).ok_or(Code::INVALID_VALUE)?;
    let known = sim.memory.find(address).is_some() || sim.memory.find(last).is_some();
    refuse_if(known && !crate::real_driver::is_present(), Code::HOST_MEMORY_ALREADY_REGISTERED)?;
    let device = sim.context(context)?.device;
    let base = if crate::real_driver::is_present() {
        match crate::handles::GIVEN.take() {
            0 => address,
            elsewhere => elsewhere,
        }
    } else if sim.config.shifted {
        // Addresses that nothing else uses and that have no memory.
        sim.mappings.reserve(round_up(size, 2 << 20).ok_or(Code::INVALID_VALUE)?, 0, 0)?
            + address % 4096
    } else {
        address
    };
    let new = Allocation::new(Kind::Registered, base, size, device, context);
    let new = Allocation { host: address, flags, ..new };
    enter(sim, new, "cuMemHostRegister");
    Ok(())
}

pub fn unregister(sim: &mut Locked, address: u64) -> Result {
    sim.forbid_while_capturing()?;
    let found = sim
        .memory
        .find(address)
        .filter(|found| found.kind == Kind::Registered && found.host == address);
    let base = found.ok_or(Code::HOST_MEMORY_NOT_REGISTERED)?.base;
    end(sim, base, "cuMemHostUnregister")?;
    // The memory belongs to the program, which may unmap it next: late work must not access it.
    Sim::wait_everything(sim);
    if base != address {
        sim.mappings.forget(base);
    }
    Ok(())
}

fn host_pointer(sim: &mut Locked, to: *mut u64, address: u64, flags: u32) -> Result {
    refuse_if(flags != 0, Code::INVALID_VALUE)?;
    let found =
        sim.memory.find(address).filter(|found| found.kind.is_host()).ok_or(Code::INVALID_VALUE)?;
    put(to, found.base + (address - found.host))
}

// --- pointers ---

/// A value of an attribute, with its size.
enum Value {
    Word(u64),
    Number(u32),
    Flag(bool),
}

fn store(to: *mut c_void, value: Value) -> Result {
    match value {
        Value::Word(value) => put(to.cast(), value),
        Value::Number(value) => put(to.cast(), value),
        Value::Flag(value) => put(to.cast(), value),
    }
}

/// Returns the value of an attribute; `None` if this pointer does not have it.
fn attribute(sim: &mut Locked, which: i32, address: u64) -> Result<Option<Value>> {
    let current = sim.current_context();
    let sim = &**sim;
    let Some(found) = sim.memory.find(address) else {
        return if (1..=22).contains(&which) { Ok(None) } else { Err(Code::INVALID_VALUE) };
    };
    let by_device = address >= found.base && address < found.end();
    let offset = address - if by_device { found.base } else { found.host };
    let on_host = found.kind.is_host() || found.kind == Kind::Managed;
    Ok(Some(match which {
        // Pools and mappings belong to no context.
        1 => Value::Word(found.context),
        // 1: host. 2: device. Managed memory counts as device memory.
        2 => Value::Number(if found.kind.is_host() { 1 } else { 2 }),
        // Without a current context, the batch has the pointer all the same.
        3 if current.is_ok_and(|context| sim.access_to(context, found) == 0) => return Ok(None),
        3 => Value::Word(found.base + offset),
        4 if on_host => Value::Word(found.host + offset),
        4 => return Ok(None),
        6 => Value::Flag(found.sync_memops),
        7 => Value::Word(found.buffer_id),
        8 => Value::Flag(found.kind == Kind::Managed),
        9 => Value::Number(found.device as u32),
        10 => Value::Flag(found.kind == Kind::Device),
        11 => match sim.mappings.reservation(found.base, found.size) {
            Some((base, _)) if found.kind == Kind::Virtual => Value::Word(base),
            _ => Value::Word(found.base),
        },
        12 => match sim.mappings.reservation(found.base, found.size) {
            Some((_, size)) if found.kind == Kind::Virtual => Value::Word(size),
            _ => Value::Word(found.size),
        },
        13 => Value::Flag(true),
        14 => Value::Word(u64::from(matches!(found.kind, Kind::Virtual))),
        15 => Value::Flag(matches!(found.kind, Kind::Device | Kind::Pool)),
        16 => Value::Number(sim.access_to(current?, found) as u32),
        17 => Value::Word(found.pool),
        18 => Value::Word(found.size),
        19 => Value::Word(found.base),
        20 => Value::Word(found.buffer_id),
        21 => Value::Flag(false),
        22 => Value::Number(0),
        // 5, the tokens for peers, was removed in CUDA 11.
        _ => return Err(Code::INVALID_VALUE),
    }))
}

/// Returns the value of an attribute in a batch, for a pointer that the driver does not know.
fn default_value(which: i32, address: u64) -> Value {
    match which {
        4 => Value::Word(address),
        9 => Value::Number(-2i32 as u32),
        2 | 16 | 22 => Value::Number(0),
        6 | 8 | 10 | 13 | 15 | 21 => Value::Flag(false),
        _ => Value::Word(0),
    }
}

api! {
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) |sim| {
        let context = sim.current_context()?;
        let device = sim.context(context)?.device;
        put(free, sim.config.memory.saturating_sub(sim.memory_used(device)) as usize)?;
        put(total, sim.config.memory as usize)
    }
    fn cuMemAlloc_v2(to: *mut u64, size: usize) |sim| { allocate(sim, to, size as u64, "cuMemAlloc") }
    fn cuMemAllocPitch_v2(to: *mut u64, pitch: *mut usize, width: usize, rows: usize, element: u32) |sim| {
        refuse_if(pitch.is_null() || !matches!(element, 4 | 8 | 16), Code::INVALID_VALUE)?;
        let of = round_up(width as u64, 512).ok_or(Code::OUT_OF_MEMORY)?;
        allocate(
            sim,
            to,
            of.checked_mul(rows as u64).ok_or(Code::OUT_OF_MEMORY)?,
            "cuMemAllocPitch",
        )?;
        put(pitch, of as usize)
    }
    fn cuMemFree_v2(address: u64) |sim| { free(sim, address) }
    fn cuMemGetAddressRange_v2(base: *mut u64, size: *mut usize, address: u64) |sim| {
        sim.current_context()?;
        let found = sim.memory.find(address).ok_or(Code::NOT_FOUND)?;
        put_if(base, found.base);
        put_if(size, found.size as usize);
        Ok(())
    }
    fn cuMemAllocHost_v2(to: *mut u64, size: usize) |sim| { allocate_host(sim, to, size, 0, "cuMemAllocHost") }
    fn cuMemHostAlloc(to: *mut u64, size: usize, flags: u32) |sim| {
        allocate_host(sim, to, size, flags, "cuMemHostAlloc")
    }
    fn cuMemFreeHost(address: u64) |sim| {
        if address == 0 {
            return Ok(());
        }
        sim.forbid_while_capturing()?;
        let pinned = |found: &&Allocation| found.kind == Kind::Pinned && found.pool == 0;
        let found = sim.memory.allocations.get(&address).filter(pinned);
        found.ok_or(Code::INVALID_VALUE)?;
        end(sim, address, "cuMemFreeHost")
    }
    fn cuMemHostGetDevicePointer_v2(to: *mut u64, address: u64, flags: u32) |sim| {
        host_pointer(sim, to, address, flags)
    }
    fn cuMemHostGetFlags(flags: *mut u32, address: u64) |sim| {
        let found = sim
            .memory
            .find(address)
            .filter(|found| found.kind.is_host())
            .ok_or(Code::INVALID_VALUE)?;
        put(flags, found.flags)
    }
    fn cuMemHostRegister_v2(address: u64, size: usize, flags: u32) |sim| { register(sim, address, size as u64, flags) }
    fn cuMemHostUnregister(address: u64) |sim| { unregister(sim, address) }
    fn cuMemAllocManaged(to: *mut u64, size: usize, flags: u32) |sim| {
        let kind = (Kind::Managed, flags, matches!(flags, 1 | 2));
        allocate_shared(sim, to, size as u64, kind, "cuMemAllocManaged")
    }
    fn cuPointerGetAttribute(to: *mut c_void, which: i32, address: u64) |sim| {
        refuse_if(to.is_null(), Code::INVALID_VALUE)?;
        let value = attribute(sim, which, address)?.ok_or(Code::INVALID_VALUE)?;
        if which == 3 {
            sim.current_context()?;
        }
        store(to, value)
    }
    fn cuPointerGetAttributes(count: u32, which: *const i32, to: *const *mut c_void, address: u64) |sim| {
        let (which, to) = (slice(which, count as usize)?, slice(to, count as usize)?);
        // Not allowed in a batch: the tokens, access flags, and attributes of mappings.
        // [cuPointerGetAttributes]
        if count == 0 || which.iter().any(|which| !matches!(which, 1..=4 | 6..=15 | 17 | 21)) {
            return Err(Code::INVALID_VALUE);
        }
        for (which, to) in which.iter().zip(to) {
            let value =
                attribute(sim, *which, address)?.unwrap_or_else(|| default_value(*which, address));
            store(*to, value)?;
        }
        Ok(())
    }
    fn cuPointerSetAttribute(value: *const i32, which: i32, address: u64) |sim| {
        let value = get(value)?;
        refuse_if(which != 6, Code::INVALID_VALUE)?;
        sim.memory.find_mut(address).ok_or(Code::INVALID_VALUE)?.sync_memops = value != 0;
        Ok(())
    }
}
