//! Memory and events that processes share.

use super::memory::enter;
use crate::api::macros::api;
use crate::ffi::put;
use crate::ipc::{self, Handle, SharedEvent};
use crate::memory::{Allocation, Kind, map_file};
use crate::results::{Code, Result, refuse_if};
use crate::sim::{Event, Locked, Sim};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// An IPC handle, which is passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IpcHandle([u8; 64]);

fn export_memory(sim: &mut Locked, to: *mut [u8; 64], address: u64) -> Result {
    // Only memory of cuMemAlloc, by any address in it. [cuIpcGetMemHandle]
    let found = sim
        .memory
        .find(address)
        .filter(|found| found.kind == Kind::Device)
        .ok_or(Code::INVALID_VALUE)?;
    let (base, size) = (found.base, found.size);
    let arena = found.block.ok_or(Code::INVALID_VALUE)?.0;
    let (fd, offset, total) = sim.memory.arenas[arena].file_of(base).ok_or(Code::INVALID_VALUE)?;
    let (pid, history) = (std::process::id(), sim.export_history(base));
    let handle = Handle { magic: ipc::MEMORY, fd, pid, offset, size, total, history };
    put(to, handle.bytes())
}

/// Returns a number of the memory that a handle names. It may be at several addresses.
fn identity(handle: &Handle) -> u64 {
    let mut hasher = DefaultHasher::new();
    (handle.pid, handle.fd, handle.offset, handle.history).hash(&mut hasher);
    hasher.finish().max(1)
}

/// Maps the memory of another process that a handle names.
pub fn import(
    sim: &mut Sim,
    handle: &[u8; 64],
    device: i32,
    context: u64,
    pool: u64,
    label: &'static str,
) -> Result<u64> {
    let (fd, parsed) = ipc::open(handle, ipc::MEMORY)?;
    // Files are mapped in whole pages; allocations may begin anywhere in a page.
    let page = parsed.offset & !4095;
    let skipped = parsed.offset - page;
    let mapped = map_file(fd, page, parsed.size + skipped);
    // SAFETY: `ipc::open` opened this descriptor for this function; the mapping does not need it.
    unsafe { libc::close(fd) };
    let base = mapped? + skipped;
    let new = Allocation::new(Kind::Imported, base, parsed.size, device, context);
    enter(sim, Allocation { pool, ..new }, label);
    sim.import_history(base, parsed.pid, parsed.history);
    sim.memory.is_at(base, identity(&parsed));
    Ok(base)
}

fn import_memory(sim: &mut Locked, to: *mut u64, handle: &IpcHandle, flags: u32) -> Result {
    let context = sim.current_context()?;
    refuse_if(flags & !1 != 0 || to.is_null(), Code::INVALID_VALUE)?;
    // A process cannot open its own exports. [cuIpcOpenMemHandle]
    let parsed = Handle::parse(&handle.0, ipc::MEMORY)?;
    refuse_if(parsed.pid == std::process::id(), Code::INVALID_CONTEXT)?;
    // In one context, a handle that is open gives the same address again. [cuIpcOpenMemHandle]
    if let Some(found) = sim.memory.opened(identity(&parsed), context) {
        found.opened += 1;
        return put(to, found.base);
    }
    let device = sim.context(context)?.device;
    put(to, import(sim, &handle.0, device, context, 0, "cuIpcOpenMemHandle")?)
}

fn close_memory(sim: &mut Locked, address: u64) -> Result {
    let found = sim.memory.allocations.get(&address).filter(|found| found.kind == Kind::Imported);
    let size = found.ok_or(Code::INVALID_VALUE)?.size;
    if sim.memory.is_still_open(address) {
        return Ok(());
    }
    let label = sim.label("cuIpcCloseMemHandle");
    let moment = sim.check_host(&[], label);
    // The memory goes on in the other process.
    sim.end_history(address);
    sim.end_allocation(address, moment.as_ref());
    Sim::wait_everything(sim);
    // SAFETY: `import_memory` mapped this memory, the allocation was removed above, and all pending
    // work was waited for.
    unsafe { ipc::unmap(address, size) };
    Ok(())
}

api! {
    fn cuIpcGetMemHandle(to: *mut [u8; 64], address: u64) |sim| { export_memory(sim, to, address) }
    fn cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2(to: *mut u64, handle: IpcHandle, flags: u32) |sim| {
        import_memory(sim, to, &handle, flags)
    }
    fn cuIpcCloseMemHandle(address: u64) |sim| { close_memory(sim, address) }
    fn cuIpcGetEventHandle(to: *mut [u8; 64], event: u64) |sim| {
        let found = sim.events.get(event).ok_or(Code::INVALID_HANDLE)?;
        let shared = found.shared.as_ref().ok_or(Code::INVALID_VALUE)?;
        put(to, shared.handle())
    }
    fn cuIpcOpenEventHandle(to: *mut u64, handle: IpcHandle) |sim| {
        let context = sim.current_context()?;
        refuse_if(to.is_null(), Code::INVALID_VALUE)?;
        let shared = SharedEvent::open(&handle.0)?;
        let device = sim.context(context)?.device;
        // Flags: without timing, interprocess.
        let event = Event::new(context, device, 6, Some(Arc::new(shared)));
        put(to, sim.events.insert(event))
    }
}
