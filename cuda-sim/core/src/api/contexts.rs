//! Contexts, and the stack of contexts of each thread.

use crate::api::macros::api;
use crate::ffi::{get, put, put_if};
use crate::results::{Code, Result, refuse_if};
use crate::sim::{Locked, Sim, StreamKind, end_context, new_context};

fn create(sim: &mut Locked, to: *mut u64, flags: u32, device: i32, version: u32) -> Result {
    super::devices::check(sim, device)?;
    if to.is_null() || flags & !0xff != 0 || matches!(flags & 7, 3 | 5..) {
        return Err(Code::INVALID_VALUE);
    }
    let context = new_context(sim, device, flags, false, version, None);
    sim.thread().contexts.push(context);
    put(to, context)
}

fn destroy(sim: &mut Locked, handle: u64) -> Result {
    let context = sim.contexts.get(handle).ok_or(if handle == 0 {
        Code::INVALID_VALUE
    } else {
        Code::CONTEXT_IS_DESTROYED
    })?;
    // The contexts of green ones are destroyed with those.
    refuse_if(context.primary || context.green.is_some(), Code::INVALID_CONTEXT)?;
    end_context(sim, handle);
    let contexts = &mut sim.thread().contexts;
    if contexts.last() == Some(&handle) {
        contexts.pop();
    }
    Ok(())
}

fn pop(sim: &mut Locked, to: *mut u64) -> Result {
    let popped = sim.thread().contexts.pop().ok_or(Code::INVALID_CONTEXT)?;
    put_if(to, popped);
    Ok(())
}

fn push(sim: &mut Locked, handle: u64) -> Result {
    sim.contexts.get(handle).ok_or(Code::INVALID_CONTEXT)?;
    sim.thread().contexts.push(handle);
    Ok(())
}

/// Returns the context of a handle, or the current one for 0.
fn named(sim: &mut Locked, handle: u64) -> Result<u64> {
    if handle == 0 {
        return sim.execution_context();
    }
    let destroyed = sim.contexts.was_made(handle);
    let code = if destroyed { Code::CONTEXT_IS_DESTROYED } else { Code::INVALID_CONTEXT };
    sim.contexts.get(handle).map(|_| handle).ok_or(code)
}

pub fn synchronize(sim: &mut Locked, handle: u64) -> Result {
    sim.context(handle)?;
    sim.forbid_capturing_context(handle)?;
    // The pending work of destroyed streams belongs to the context's work.
    let all = sim.streams_of(handle);
    Sim::wait_all(sim, &all);
    sim.host_knows_context(handle);
    sim.pools_synchronized();
    sim.context_error(handle)
}

const LEAST_PRIORITY: i32 = 0;
pub const GREATEST_PRIORITY: i32 = -5;

api! {
    fn cuCtxCreate_v2(to: *mut u64, flags: u32, device: i32) |sim| { create(sim, to, flags, device, 3020) }
    fn cuCtxCreate_v3(to: *mut u64, affinity: *const u8, count: i32, flags: u32, device: i32) |sim| {
        refuse_if(count != 0, Code::UNSUPPORTED_EXEC_AFFINITY)?;
        create(sim, to, flags, device, 3020)
    }
    fn cuCtxCreate_v4(to: *mut u64, params: *const u8, flags: u32, device: i32) |sim| {
        refuse_if(!params.is_null(), Code::NOT_SUPPORTED)?;
        create(sim, to, flags, device, 3020)
    }
    fn cuCtxDestroy_v2(context: u64) |sim| { destroy(sim, context) }
    fn cuCtxPushCurrent_v2(context: u64) |sim| { push(sim, context) }
    fn cuCtxPopCurrent_v2(to: *mut u64) |sim| { pop(sim, to) }
    fn cuCtxSetCurrent(context: u64) |sim| {
        if context != 0 {
            sim.contexts.get(context).ok_or(Code::INVALID_CONTEXT)?;
        }
        let contexts = &mut sim.thread().contexts;
        contexts.pop();
        if context != 0 {
            contexts.push(context);
        }
        Ok(())
    }
    fn cuCtxGetCurrent(to: *mut u64) |sim| { put(to, sim.thread().contexts.last().copied().unwrap_or(0)) }
    fn cuCtxGetDevice(device: *mut i32) |sim| {
        let current = sim.thread().contexts.last().copied().unwrap_or(0);
        put(device, sim.context(current)?.device)
    }
    fn cuCtxGetDevice_v2(device: *mut i32, context: u64) |sim| {
        let context = named(sim, context)?;
        put(device, sim.context(context)?.device)
    }
    fn cuCtxGetFlags(flags: *mut u32) |sim| {
        let context = sim.current_context()?;
        put(flags, sim.context(context)?.flags)
    }
    fn cuCtxSetFlags(flags: u32) |sim| {
        let context = sim.current_context()?;
        sim.context(context)?.flags = flags;
        Ok(())
    }
    fn cuCtxGetId(context: u64, id: *mut u64) |sim| {
        let context = named(sim, context)?;
        put(id, sim.context(context)?.id)
    }
    fn cuCtxGetApiVersion(context: u64, version: *mut u32) |sim| {
        let context = named(sim, context)?;
        put(version, sim.context(context)?.api_version)
    }
    fn cuCtxSynchronize() |sim| {
        let context = sim.execution_context()?;
        sim.forbid_while_capturing()?;
        synchronize(sim, context)
    }
    fn cuCtxSynchronize_v2(context: u64) |sim| {
        let context = named(sim, context)?;
        sim.forbid_while_capturing()?;
        synchronize(sim, context)
    }
    fn cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) |sim| {
        sim.current_context()?;
        put_if(least, LEAST_PRIORITY);
        put_if(greatest, GREATEST_PRIORITY);
        Ok(())
    }
    fn cuCtxGetLimit(value: *mut usize, limit: i32) |sim| {
        let context = sim.current_context()?;
        let at = usize::try_from(limit).ok().filter(|at| *at < 7).ok_or(Code::UNSUPPORTED_LIMIT)?;
        let of = sim.context(context)?.limits[at];
        put(value, of as usize)
    }
    fn cuCtxSetLimit(limit: i32, value: usize) |sim| {
        let context = sim.current_context()?;
        let at = usize::try_from(limit).ok().filter(|at| *at < 7).ok_or(Code::UNSUPPORTED_LIMIT)?;
        sim.context(context)?.limits[at] = value as u64;
        Ok(())
    }
    fn cuCtxGetCacheConfig(config: *mut i32) |sim| {
        sim.current_context()?;
        put(config, 0)
    }
    fn cuCtxSetCacheConfig(config: i32) |sim| {
        sim.current_context()?;
        if (0..4).contains(&config) { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }
    fn cuCtxResetPersistingL2Cache() |sim| { sim.current_context().map(|_| ()) }
    fn cuCtxEnablePeerAccess(peer: u64, flags: u32) |sim| {
        let (context, peer) = (sim.current_context()?, sim.base(peer));
        let device = sim.context(peer)?.device;
        refuse_if(context == peer, Code::INVALID_CONTEXT)?;
        refuse_if(flags != 0, Code::INVALID_VALUE)?;
        let capable = sim.config.peers;
        let mine = sim.context(context)?;
        refuse_if(mine.device == device || !capable, Code::PEER_ACCESS_UNSUPPORTED)?;
        refuse_if(mine.peers.contains(&peer), Code::PEER_ACCESS_ALREADY_ENABLED)?;
        mine.peers.push(peer);
        Ok(())
    }
    fn cuCtxDisablePeerAccess(peer: u64) |sim| {
        let (context, peer) = (sim.current_context()?, sim.base(peer));
        sim.context(peer)?;
        let mine = sim.context(context)?;
        let before = mine.peers.len();
        mine.peers.retain(|other| *other != peer);
        if mine.peers.len() < before { Ok(()) } else { Err(Code::PEER_ACCESS_NOT_ENABLED) }
    }
    fn cuCtxAttach(to: *mut u64, flags: u32) |sim| {
        refuse_if(flags != 0, Code::INVALID_VALUE)?;
        let context = sim.current_context()?;
        sim.context(context)?.attached += 1;
        put(to, context)
    }
    fn cuCtxDetach(context: u64) |sim| {
        let found = sim.context(context)?;
        refuse_if(found.green.is_some(), Code::INVALID_CONTEXT)?;
        found.attached -= 1;
        if found.attached == 0 { destroy(sim, context) } else { Ok(()) }
    }
    fn cuCtxRecordEvent(context: u64, event: u64) |sim| {
        let context = named(sim, context)?;
        record_all(sim, context, event)
    }
    fn cuCtxWaitEvent(context: u64, event: u64) |sim| {
        let context = named(sim, context)?;
        crate::capture::wait_in_context(sim, context, event)
    }
    fn cuCtxGetExecAffinity(to: *mut u8, kind: i32) |sim| {
        sim.current_context()?;
        let _ = (get(to), kind);
        Err(Code::UNSUPPORTED_EXEC_AFFINITY)
    }
    fn cuCtxGetSharedMemConfig(config: *mut i32) |sim| {
        sim.current_context()?;
        put(config, 1)
    }
    fn cuCtxSetSharedMemConfig(config: i32) |sim| {
        sim.current_context()?;
        if (0..3).contains(&config) { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }
}

/// Records an event after everything that the context was given, on a stream of its own that waits
/// for all others.
pub fn record_all(sim: &mut Locked, context: u64, event: u64) -> Result {
    let streams = sim.streams_of(context);
    sim.forbid_capturing_context(context)?;
    // Event and context must be of the same primary context, or the same one.
    // [cuGreenCtxRecordEvent]
    if sim.events.get(event).ok_or(Code::INVALID_HANDLE)?.context != sim.base(context)
        && !crate::real_driver::is_present()
    {
        return Err(Code::INVALID_HANDLE);
    }
    let device = sim.context(context)?.device;
    let joined = sim.new_stream(StreamKind::NonBlocking, context, device, 1, 0);
    for stream in streams {
        sim.wait_for_stream(joined, stream);
    }
    sim.comes_after_destroyed(joined, context);
    crate::capture::record(sim, event, joined, false)?;
    sim.destroy_stream(joined);
    Ok(())
}
