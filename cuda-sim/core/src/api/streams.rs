//! Streams, the operations besides copies and kernels, and their capture.

use crate::access::{Access, WRITE};
use crate::api::macros::api;
use crate::capture;
use crate::ffi::{get, put, put_if, slice};
use crate::open_waits::Wanted;
use crate::results::{Code, Result, refuse_if};
use crate::sim::{Lane, Locked, Sim, StreamKind};
use crate::work::{HostCall, StreamRef, Work};

pub const NON_BLOCKING: u32 = 1;

fn create(sim: &mut Locked, to: *mut u64, flags: u32, priority: i32) -> Result {
    let context = sim.execution_context()?;
    create_in(sim, to, context, flags, priority)
}

pub fn create_in(
    sim: &mut Locked,
    to: *mut u64,
    context: u64,
    flags: u32,
    priority: i32,
) -> Result {
    refuse_if(to.is_null() || flags & !NON_BLOCKING != 0, Code::INVALID_VALUE)?;
    let kind =
        if flags & NON_BLOCKING != 0 { StreamKind::NonBlocking } else { StreamKind::Blocking };
    let device = sim.context(context)?.device;
    let priority = priority.clamp(super::contexts::GREATEST_PRIORITY, 0);
    let stream = sim.new_stream(kind, context, device, flags, priority);
    let handle = sim.streams.insert(stream);
    sim.stream_mut(stream).handle = handle;
    put(to, handle)
}

/// Refuses a query of a stream while it captures. Only cuStreamIsCapturing and
/// cuStreamGetCaptureInfo are allowed.
fn forbid_query(sim: &mut Locked, stream: u64, default: u64) -> Result<StreamRef> {
    let stream = sim.stream(stream, default)?;
    if sim.stream_mut(stream).lane.is_some() {
        sim.forbid_while_capturing()?;
    }
    Ok(stream)
}

/// Returns the context of a stream: the current one for a default stream.
pub fn context_of(sim: &mut Locked, stream: u64, default: u64) -> Result<u64> {
    let found = forbid_query(sim, stream, default)?;
    if stream <= 2 { sim.execution_context() } else { Ok(sim.stream_mut(found).context) }
}

struct CaptureInfo {
    status: i32,
    id: u64,
    graph: u64,
    tail: Vec<u64>,
}

fn capture_info(sim: &mut Locked, stream: StreamRef) -> Result<CaptureInfo> {
    // The query does not invalidate the capture. [cuStreamIsCapturing]
    refuse_if(!sim.captures_under(stream).is_empty(), Code::STREAM_CAPTURE_IMPLICIT)?;
    let nothing = CaptureInfo { status: 0, id: 0, graph: 0, tail: Vec::new() };
    let Some(Lane { capture, tail }) = sim.stream_mut(stream).lane.clone() else {
        return Ok(nothing);
    };
    Ok(match sim.captures.get(&capture) {
        None => nothing,
        Some(found) if found.invalidated => {
            CaptureInfo { status: 2, id: found.id, graph: 0, tail: Vec::new() }
        }
        Some(found) => CaptureInfo { status: 1, id: found.id, graph: found.graph, tail },
    })
}

#[allow(clippy::too_many_arguments)]
fn put_capture_info(
    sim: &mut Locked,
    info: CaptureInfo,
    status: *mut i32,
    id: *mut u64,
    graph: *mut u64,
    dependencies: *mut *const u64,
    edges: *mut *const u64,
    count: *mut usize,
) -> Result {
    put(status, info.status)?;
    if info.status == 0 {
        return Ok(());
    }
    put_if(id, info.id);
    put_if(graph, info.graph);
    put_if(count, info.tail.len());
    // Valid until the next query of this thread.
    let queried = &mut sim.thread().queried;
    *queried = [vec![0; info.tail.len()], info.tail];
    put_if(edges, queried[0].as_ptr());
    put_if(dependencies, queried[1].as_ptr());
    Ok(())
}

fn update_dependencies(sim: &mut Locked, stream: StreamRef, nodes: &[u64], flags: u32) -> Result {
    let lane = sim.stream_mut(stream).lane.clone();
    let Lane { capture, mut tail } = lane.ok_or(Code::ILLEGAL_STATE)?;
    let graph = match sim.captures.get(&capture) {
        None => return Err(Code::ILLEGAL_STATE),
        Some(found) if found.invalidated => return Err(Code::STREAM_CAPTURE_INVALIDATED),
        Some(found) => found.graph,
    };
    if nodes.iter().any(|node| sim.nodes.get(*node).is_none_or(|node| node.graph != graph)) {
        return Err(Code::INVALID_VALUE);
    }
    match flags {
        0 => tail
            .extend(nodes.iter().filter(|node| !tail.contains(node)).copied().collect::<Vec<_>>()),
        1 => tail = nodes.to_vec(),
        _ => return Err(Code::INVALID_VALUE),
    }
    sim.stream_mut(stream).lane = Some(Lane { capture, tail });
    Ok(())
}

pub fn value_address(sim: &Locked, address: u64, wide: bool) -> Result<u64> {
    let size = if wide { 8 } else { 4 };
    if crate::real_driver::is_present() {
        return Ok(sim.memory.host_address(address));
    }
    let found = sim.memory.find(address).ok_or(Code::INVALID_VALUE)?;
    let on_device = address >= found.base && address < found.end();
    let offset = address - if on_device { found.base } else { found.host };
    refuse_if(address % size != 0 || offset + size > found.size, Code::INVALID_VALUE)?;
    Ok(sim.memory.host_address(address))
}

pub fn write_value(
    sim: &mut Locked,
    stream: StreamRef,
    address: u64,
    value: u64,
    wide: bool,
) -> Result {
    let host = value_address(sim, address, wide)?;
    let access = Access::range(address, if wide { 8 } else { 4 }, WRITE);
    let label = if wide { "cuStreamWriteValue64" } else { "cuStreamWriteValue32" };
    let work = Work::Store { address: host, value, wide };
    sim.track_number(&work);
    capture::submit(sim, stream, work, vec![access], label)?;
    Ok(())
}

/// Waits for a value in stream order. See `open_waits` for what that orders.
pub fn wait_value(
    sim: &mut Locked,
    stream: StreamRef,
    address: u64,
    value: u64,
    wide: bool,
    flags: u32,
) -> Result {
    let host = value_address(sim, address, wide)?;
    let label = if wide { "cuStreamWaitValue64" } else { "cuStreamWaitValue32" };
    let work = Work::WaitValue { address: host, value, wide, flags };
    sim.track_number(&work);
    let position = capture::submit(sim, stream, work, Vec::new(), label)?;
    let (actor, word) = (sim.stream_mut(stream).actor, sim.word_at(host, wide));
    let wanted = Wanted { word, value, flags };
    if let (Some(_), Some(actor)) = (position, actor) {
        sim.wait_for_number(actor, wanted);
    }
    Ok(())
}

fn host_call(sim: &mut Locked, stream: u64, default: u64, function: usize, data: usize) -> Result {
    let stream = sim.stream(stream, default)?;
    refuse_if(function == 0, Code::INVALID_VALUE)?;
    let call = HostCall { function, data, callback_stream: None };
    capture::submit(sim, stream, Work::Host(call, None), Vec::new(), "cuLaunchHostFunc")?;
    Ok(())
}

/// Returns an attribute as 64 bytes, the size of the union `CUstreamAttrValue`.
fn attribute(sim: &mut Locked, stream: StreamRef, which: i32) -> Result<[u64; 8]> {
    let found = sim.stream_mut(stream);
    let mut value = found.attributes.get(&which).copied().unwrap_or_default();
    match which {
        1 | 3 | 9 | 10 => {}
        8 => value[0] = u64::from(found.priority as u32),
        _ => return Err(Code::INVALID_VALUE),
    }
    Ok(value)
}

api! {
    fn cuStreamCreate(to: *mut u64, flags: u32) |sim| { create(sim, to, flags, 0) }
    fn cuStreamCreateWithPriority(to: *mut u64, flags: u32, priority: i32) |sim| { create(sim, to, flags, priority) }
    fn cuStreamDestroy_v2(stream: u64) |sim| {
        let ended = *sim.streams.get(stream).ok_or(Code::INVALID_HANDLE)?;
        capture::leave(sim, ended);
        if sim.get(ended).is_some_and(|ended| ended.detached) {
            capture::abandon(sim, ended);
        }
        sim.streams.remove(stream);
        sim.stream_of_export_ends(ended);
        sim.destroy_stream(ended);
        Ok(())
    }
    fn cuStreamGetPriority / cuStreamGetPriority_ptsz(stream: u64, priority: *mut i32) |sim, default, stream| {
        put(priority, sim.stream_mut(stream).priority)
    }
    fn cuStreamGetFlags / cuStreamGetFlags_ptsz(stream: u64, flags: *mut u32) |sim, default, stream| {
        put(flags, sim.stream_mut(stream).flags)
    }
    fn cuStreamGetId / cuStreamGetId_ptsz(stream: u64, id: *mut u64) |sim, default| {
        let stream = forbid_query(sim, stream, default)?;
        put(id, stream.id)
    }
    fn cuStreamGetDevice / cuStreamGetDevice_ptsz(stream: u64, device: *mut i32) |sim, default| {
        let stream = forbid_query(sim, stream, default)?;
        put(device, sim.stream_mut(stream).device)
    }
    fn cuStreamGetCtx / cuStreamGetCtx_ptsz(stream: u64, context: *mut u64) |sim, default| {
        put(context, context_of(sim, stream, default)?)
    }
    fn cuStreamGetCtx_v2 / cuStreamGetCtx_v2_ptsz(stream: u64, context: *mut u64, green: *mut u64) |sim, default| {
        let of = context_of(sim, stream, default)?;
        put_if(green, sim.green_of(of));
        put(context, sim.base(of))
    }
    fn cuStreamWaitEvent / cuStreamWaitEvent_ptsz(stream: u64, event: u64, flags: u32) |sim, default, stream| {
        refuse_if(flags > 1, Code::INVALID_VALUE)?;
        capture::wait(sim, stream, event, flags == 1)
    }
    fn cuStreamQuery / cuStreamQuery_ptsz(stream: u64) |sim, default, stream| {
        sim.forbid_on_capturing(stream)?;
        sim.forbid_while_capturing()?;
        sim.default_stream_rules_for_wait(stream);
        let position = sim.stream_mut(stream).enqueued;
        refuse_if(!Sim::poll(sim, stream, position), Code::NOT_READY)?;
        sim.host_knows(&[stream]);
        Ok(())
    }
    fn cuStreamSynchronize / cuStreamSynchronize_ptsz(stream: u64) |sim, default, stream| {
        sim.forbid_on_capturing(stream)?;
        sim.forbid_while_capturing()?;
        Sim::synchronize(sim, stream)?;
        sim.pools_synchronized();
        Ok(())
    }
    fn cuStreamAddCallback / cuStreamAddCallback_ptsz(
        stream: u64, function: usize, data: usize, flags: u32,
    ) |sim, default| {
        let call = HostCall { function, data, callback_stream: Some(stream) };
        let stream = sim.stream(stream, default)?;
        refuse_if(function == 0 || flags != 0, Code::INVALID_VALUE)?;
        sim.forbid_on_capturing(stream)?;
        capture::submit(sim, stream, Work::Host(call, None), Vec::new(), "cuStreamAddCallback")?;
        Ok(())
    }
    fn cuLaunchHostFunc / cuLaunchHostFunc_ptsz(stream: u64, function: usize, data: usize) |sim, default| {
        host_call(sim, stream, default, function, data)
    }
    fn cuLaunchHostFunc_v2 / cuLaunchHostFunc_v2_ptsz(
        stream: u64, function: usize, data: usize, mode: u32,
    ) |sim, default| {
        refuse_if(mode > 1, Code::INVALID_VALUE)?;
        host_call(sim, stream, default, function, data)
    }
    fn cuStreamAttachMemAsync / cuStreamAttachMemAsync_ptsz(
        stream: u64, address: u64, length: usize, flags: u32,
    ) |sim, default, stream| {
        refuse_if(sim.memory.find(address).is_none() || !matches!(flags, 1 | 2 | 4), Code::INVALID_VALUE)?;
        capture::submit(sim, stream, Work::Nothing, Vec::new(), "cuStreamAttachMemAsync")?;
        Ok(())
    }
    fn cuStreamWriteValue32_v2 / cuStreamWriteValue32_v2_ptsz(
        stream: u64, address: u64, value: u32, flags: u32,
    ) |sim, default, stream| {
        write_value(sim, stream, address, u64::from(value), false)
    }
    fn cuStreamWriteValue64_v2 / cuStreamWriteValue64_v2_ptsz(
        stream: u64, address: u64, value: u64, flags: u32,
    ) |sim, default, stream| {
        write_value(sim, stream, address, value, true)
    }
    fn cuStreamWaitValue32_v2 / cuStreamWaitValue32_v2_ptsz(
        stream: u64, address: u64, value: u32, flags: u32,
    ) |sim, default, stream| {
        wait_value(sim, stream, address, u64::from(value), false, flags)
    }
    fn cuStreamWaitValue64_v2 / cuStreamWaitValue64_v2_ptsz(
        stream: u64, address: u64, value: u64, flags: u32,
    ) |sim, default, stream| {
        wait_value(sim, stream, address, value, true, flags)
    }
    fn cuStreamCopyAttributes / cuStreamCopyAttributes_ptsz(to: u64, from: u64) |sim, default| {
        let (to, from) = (sim.stream(to, default)?, sim.stream(from, default)?);
        let attributes = sim.stream_mut(from).attributes.clone();
        sim.stream_mut(to).attributes = attributes;
        Ok(())
    }
    fn cuStreamGetAttribute / cuStreamGetAttribute_ptsz(
        stream: u64, which: i32, value: *mut [u64; 8],
    ) |sim, default, stream| {
        put(value, attribute(sim, stream, which)?)
    }
    fn cuStreamSetAttribute / cuStreamSetAttribute_ptsz(
        stream: u64, which: i32, value: *const [u64; 8],
    ) |sim, default, stream| {
        attribute(sim, stream, which)?;
        let value = get(value)?;
        sim.stream_mut(stream).attributes.insert(which, value);
        Ok(())
    }

    // --- capture ---

    fn cuStreamBeginCapture_v2 / cuStreamBeginCapture_v2_ptsz(stream: u64, mode: i32) |sim, default, stream| {
        capture::begin(sim, stream, mode, None)
    }
    fn cuStreamBeginCapture / cuStreamBeginCapture_ptsz(stream: u64) |sim, default, stream| {
        capture::begin(sim, stream, capture::GLOBAL, None)
    }
    fn cuStreamBeginCaptureToGraph / cuStreamBeginCaptureToGraph_ptsz(
        stream: u64, graph: u64, dependencies: *const u64, edges: *const u64, count: usize, mode: i32,
    ) |sim, default, stream| {
        let tail = slice(dependencies, count)?.to_vec();
        sim.graphs.get(graph).ok_or(Code::INVALID_VALUE)?;
        if tail.iter().any(|node| sim.nodes.get(*node).is_none_or(|node| node.graph != graph)) {
            return Err(Code::INVALID_VALUE);
        }
        capture::begin(sim, stream, mode, Some((graph, tail)))
    }
    fn cuStreamEndCapture / cuStreamEndCapture_ptsz(stream: u64, graph: *mut u64) |sim, default, stream| {
        put_if(graph, 0);
        let captured = capture::end(sim, stream)?;
        put_if(graph, captured);
        Ok(())
    }
    fn cuStreamIsCapturing / cuStreamIsCapturing_ptsz(stream: u64, status: *mut i32) |sim, default, stream| {
        let info = capture_info(sim, stream)?;
        put(status, info.status)
    }
    fn cuStreamGetCaptureInfo / cuStreamGetCaptureInfo_ptsz(
        stream: u64, status: *mut i32, id: *mut u64,
    ) |sim, default, stream| {
        let info = capture_info(sim, stream)?;
        put(status, info.status)?;
        if info.status != 0 {
            put_if(id, info.id);
        }
        Ok(())
    }
    fn cuStreamGetCaptureInfo_v2 / cuStreamGetCaptureInfo_v2_ptsz(
        stream: u64, status: *mut i32, id: *mut u64, graph: *mut u64, dependencies: *mut *const u64, count: *mut usize,
    ) |sim, default, stream| {
        let info = capture_info(sim, stream)?;
        put_capture_info(sim, info, status, id, graph, dependencies, std::ptr::null_mut(), count)
    }
    fn cuStreamGetCaptureInfo_v3 / cuStreamGetCaptureInfo_v3_ptsz(
        stream: u64, status: *mut i32, id: *mut u64, graph: *mut u64, dependencies: *mut *const u64,
        edges: *mut *const u64, count: *mut usize,
    ) |sim, default, stream| {
        let info = capture_info(sim, stream)?;
        put_capture_info(sim, info, status, id, graph, dependencies, edges, count)
    }
    fn cuStreamUpdateCaptureDependencies / cuStreamUpdateCaptureDependencies_ptsz(
        stream: u64, nodes: *const u64, count: usize, flags: u32,
    ) |sim, default, stream| {
        update_dependencies(sim, stream, slice(nodes, count)?, flags)
    }
    fn cuStreamUpdateCaptureDependencies_v2 / cuStreamUpdateCaptureDependencies_v2_ptsz(
        stream: u64, nodes: *const u64, edges: *const u64, count: usize, flags: u32,
    ) |sim, default, stream| {
        update_dependencies(sim, stream, slice(nodes, count)?, flags)
    }
    fn cuThreadExchangeStreamCaptureMode(mode: *mut i32) |sim| {
        let new = get(mode)?;
        refuse_if(!(0..=2).contains(&new), Code::INVALID_VALUE)?;
        put(mode, std::mem::replace(&mut sim.thread().capture_mode, new))
    }
}
