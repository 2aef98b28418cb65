//! Copies, and when the host waits for them.
//!
//! | | synchronous call | asynchronous call |
//! |---|---|---|
//! | pageable host to device | waits for the stream, then reads the bytes | may read the bytes |
//! | pinned host to device | waits until it is done | does not wait |
//! | device to pageable host | waits until it is done | may wait until it is done |
//! | device to pinned host | waits until it is done | does not wait |
//! | device to device | does not wait | does not wait |
//! | host to host | waits until it is done | waits until it is done |
//!
//! Source: "API synchronization behavior" in the driver's documentation, 13.5. Where a call may wait
//! or read, it does, and what relies on that is a remark. In the text of CUDA 11.0, a copy to
//! pageable memory always waits, and so does every synchronous copy of managed memory.

use super::copy_order::{DURING_THE_CALL, IN_STREAM, read_early, serialized};
use crate::access::{Access, READ, WRITE};
use crate::api::macros::api;
use crate::capture::submit;
use crate::ffi::get;
use crate::memory::Kind;
use crate::results::{Code, Result, refuse_if};
use crate::sim::{Locked, Sim};
use crate::work::{Copy, Extent, Origin, StreamRef, Work};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Device,
    Pinned,
    Pageable,
}

/// The kind of memory that a caller claims for one end of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    Host,
    Device,
    Any,
}

#[derive(Clone, Copy)]
pub struct End {
    pub origin: Origin,
    pub claim: Claim,
}

impl End {
    fn host(address: u64) -> End {
        End { origin: Origin { address, row: 0, layer: 0 }, claim: Claim::Host }
    }
    fn device(address: u64) -> End {
        End { origin: Origin { address, row: 0, layer: 0 }, claim: Claim::Device }
    }
    pub fn any(address: u64) -> End {
        End { origin: Origin { address, row: 0, layer: 0 }, claim: Claim::Any }
    }
}

/// Returns the number of bytes from the first to the end of the last.
fn span(origin: &Origin, extent: &Extent) -> Option<u64> {
    if extent.width == 0 || extent.rows == 0 || extent.layers == 0 {
        return Some(0);
    }
    let rows = origin.row.checked_mul(extent.rows - 1)?;
    let layers = origin.layer.checked_mul(extent.layers - 1)?;
    extent.width.checked_add(rows)?.checked_add(layers)
}

/// Finds the memory of one end of a copy, checks that it contains the whole extent, and returns
/// where its bytes are.
pub fn locate(sim: &Sim, end: &End, extent: &Extent) -> Result<(Side, Origin)> {
    let address = end.origin.address;
    let length = span(&end.origin, extent).ok_or(Code::INVALID_VALUE)?;
    let Some(found) = sim.memory.find(address) else {
        // The real driver accepted it: memory from a call that is not followed, or freed by now.
        if crate::real_driver::is_present() && end.claim == Claim::Device {
            return Ok((Side::Device, end.origin));
        }
        if end.claim == Claim::Host && address != 0 {
            return Ok((Side::Pageable, end.origin));
        }
        // Under unified addressing, other addresses are host memory, but for freed device memory.
        let known =
            end.claim == Claim::Any && address != 0 && sim.memory.was_freed(address).is_none();
        return if known { Ok((Side::Pageable, end.origin)) } else { Err(Code::INVALID_VALUE) };
    };
    let by_device = address >= found.base && address < found.end();
    let offset = address - if by_device { found.base } else { found.host };
    let left = sim.memory.end_of_bytes(found) - (found.host + offset);
    refuse_if(length > left && !crate::real_driver::is_present(), Code::INVALID_VALUE)?;
    let side = if found.kind.is_host() { Side::Pinned } else { Side::Device };
    Ok((side, Origin { address: found.host + offset, ..end.origin }))
}

pub fn access(origin: &Origin, extent: &Extent, mode: u32) -> Access {
    let mut access = Access::rows(origin.address, extent.width, origin.row, extent.rows, mode);
    access.ndim = 2;
    access.count[1] = extent.layers as i64;
    access.stride[1] = origin.layer as i64;
    access
}

fn is_small(extent: &Extent) -> bool {
    extent.width <= 64 && extent.rows == 1 && extent.layers == 1
}

/// Returns a copy of pageable memory.
fn stage(origin: &Origin, extent: &Extent) -> Arc<[u8]> {
    let length = span(origin, extent).unwrap_or(0) as usize;
    // SAFETY: the address is in no allocation of the driver, so it is host memory of the program,
    // which passed it together with this extent as the readable source of a copy.
    unsafe { std::slice::from_raw_parts(origin.address as *const u8, length) }.into()
}

pub fn host_waits(sim: &mut Locked, stream: StreamRef, position: u64) -> Result {
    Sim::wait_done(sim, stream, position);
    sim.host_knows(&[stream]);
    let context = sim.stream_mut(stream).context;
    sim.context_error(context)
}

struct Request {
    to: End,
    from: End,
    extent: Extent,
    synchronous: bool,
    /// When the source is read, as `CUmemcpySrcAccessOrder`.
    order: i32,
    label: &'static str,
}

fn copy(sim: &mut Locked, stream: StreamRef, request: Request) -> Result {
    let Request { to, from, extent, synchronous, order, label } = request;
    if extent.width == 0 || extent.rows == 0 || extent.layers == 0 {
        return Ok(());
    }
    let (to_side, to_bytes) = locate(sim, &to, &extent)?;
    let (from_side, from_bytes) = locate(sim, &from, &extent)?;
    let capturing = sim.stream_mut(stream).lane.is_some();
    if synchronous {
        sim.forbid_on_capturing(stream)?;
        sim.forbid_while_capturing()?;
    }
    let to_host = to_side != Side::Device;
    let from_host = from_side != Side::Device;
    let managed = |end: &End| {
        sim.memory.find(end.origin.address).is_some_and(|found| found.kind == Kind::Managed)
    };
    let waits = match (from_side, to_side) {
        _ if capturing => false,
        _ if synchronous && sim.config.old_docs && (managed(&from) || managed(&to)) => true,
        (Side::Device, Side::Device) => false,
        _ if from_host && to_host => true,
        (_, Side::Pageable) => true,
        (Side::Pageable, _) => false,
        _ => synchronous,
    };
    if synchronous && from_side == Side::Pageable && !to_host {
        Sim::synchronize(sim, stream)?;
    }
    let now = order == DURING_THE_CALL && !capturing;
    let staged = (from_side == Side::Pageable && !to_host && !capturing)
        || (now && !crate::real_driver::is_present());
    let work = Copy {
        to: to_bytes,
        from: if staged { Origin { address: 0, ..from_bytes } } else { from_bytes },
        extent,
        // A real driver has copied the bytes. The checker needs small numbers that are waited for.
        staged: (staged && (!crate::real_driver::is_present() || is_small(&extent)))
            .then(|| sim.unguarded(|_| stage(&from_bytes, &extent))),
    };
    let read = access(&from.origin, &extent, READ);
    let mut accesses = vec![read, access(&to.origin, &extent, WRITE)];
    if order != IN_STREAM && !capturing {
        accesses.remove(0);
        read_early(sim, stream, order, read, label);
    }
    let pageable = match (from_side, to_side) {
        (Side::Pageable, Side::Device) => Some(read),
        (Side::Device, Side::Pageable) if !sim.config.old_docs => {
            Some(access(&to.origin, &extent, WRITE))
        }
        _ => None,
    };
    let pageable = pageable.filter(|_| !synchronous && !capturing && order == IN_STREAM);
    if let Some(access) = &pageable {
        sim.pageable_copy(stream, access, label);
    }
    let position = submit(sim, stream, Work::Copy(work), accesses, label)?;
    match position {
        Some(position) if waits && pageable.is_some() => {
            Sim::wait_done(sim, stream, position);
            sim.host_perhaps_knows(stream);
            let context = sim.stream_mut(stream).context;
            sim.context_error(context)
        }
        Some(position) if waits => host_waits(sim, stream, position),
        _ => {
            if synchronous {
                sim.synchronous_call(stream);
            }
            Ok(())
        }
    }
}

/// Checks the contexts of a node. Beside a real driver, the driver has checked them.
pub fn check_contexts(sim: &mut Sim, contexts: &[u64]) -> Result {
    let mut unknown = contexts.iter().filter(|context| sim.contexts.get(**context).is_none());
    if unknown.next().is_some() && !crate::real_driver::is_present() {
        Err(Code::INVALID_CONTEXT)
    } else {
        Ok(())
    }
}

pub fn flat(bytes: usize) -> Extent {
    Extent { width: bytes as u64, rows: 1, layers: 1 }
}

fn copy_now(
    sim: &mut Locked,
    default: u64,
    to: End,
    from: End,
    bytes: usize,
    label: &'static str,
) -> Result {
    let stream = sim.stream(0, default)?;
    copy(
        sim,
        stream,
        Request { to, from, extent: flat(bytes), synchronous: true, order: IN_STREAM, label },
    )
}

pub fn copy_async(
    sim: &mut Locked,
    stream: u64,
    default: u64,
    to: End,
    from: End,
    bytes: usize,
    label: &'static str,
) -> Result {
    let stream = sim.stream(stream, default)?;
    copy(
        sim,
        stream,
        Request { to, from, extent: flat(bytes), synchronous: false, order: IN_STREAM, label },
    )
}

pub fn copy_box(
    sim: &mut Locked,
    stream: StreamRef,
    to: End,
    from: End,
    extent: Extent,
    order: i32,
    label: &'static str,
) -> Result {
    copy(sim, stream, Request { to, from, extent, synchronous: false, order, label })
}

/// One side of `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Side2D {
    x: usize,
    y: usize,
    memory: i32,
    host: u64,
    device: u64,
    array: u64,
    pitch: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Copy2D {
    from: Side2D,
    to: Side2D,
    width: usize,
    height: usize,
}

/// One side of `CUDA_MEMCPY3D` and of `CUDA_MEMCPY3D_PEER`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Side3D {
    x: usize,
    y: usize,
    z: usize,
    lod: usize,
    memory: i32,
    host: u64,
    device: u64,
    array: u64,
    context: u64,
    pitch: usize,
    height: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Copy3D {
    from: Side3D,
    to: Side3D,
    width: usize,
    height: usize,
    depth: usize,
}

const _: () = assert!(size_of::<Copy2D>() == 128 && size_of::<Copy3D>() == 200);

impl Copy3D {
    /// Returns the `CUmemorytype` of both sides and the extent in bytes, rows and layers.
    pub fn outline(&self) -> ([i32; 2], [usize; 3]) {
        ([self.from.memory, self.to.memory], [self.width, self.height, self.depth])
    }

    /// Returns the extent, the destination and the source.
    fn ends(&self) -> Result<(Extent, End, End)> {
        let [width, rows, layers] = [self.width, self.height, self.depth].map(|size| size as u64);
        let extent = Extent { width, rows, layers };
        Ok((extent, self.to.end(&extent)?, self.from.end(&extent)?))
    }
}

impl Side3D {
    fn end(&self, extent: &Extent) -> Result<End> {
        let (address, claim) = match self.memory {
            1 => (self.host, Claim::Host),
            2 => (self.device, Claim::Device),
            4 => (self.device, Claim::Any),
            // Beside a real driver: CUDA arrays are not followed.
            3 if crate::real_driver::is_present() => return Ok(End::device(0)),
            // Arrays are for textures, which are not simulated.
            3 => return Err(Code::NOT_SUPPORTED),
            _ => return Err(Code::INVALID_VALUE),
        };
        let row = if self.pitch == 0 { extent.width } else { self.pitch as u64 };
        let rows = if self.height == 0 { extent.rows } else { self.height as u64 };
        refuse_if(row < self.x as u64 + extent.width && extent.rows > 1, Code::INVALID_VALUE)?;
        let layer = row.checked_mul(rows).ok_or(Code::INVALID_VALUE)?;
        let skipped = (self.z as u64)
            .checked_mul(layer)
            .and_then(|z| z.checked_add((self.y as u64).checked_mul(row)?));
        let offset = skipped
            .and_then(|skipped| skipped.checked_add(self.x as u64))
            .ok_or(Code::INVALID_VALUE)?;
        let address = address.checked_add(offset).ok_or(Code::INVALID_VALUE)?;
        Ok(End { origin: Origin { address, row, layer }, claim })
    }
}

impl Copy2D {
    fn as_3d(&self) -> Copy3D {
        let side = |side: &Side2D| Side3D {
            x: side.x,
            y: side.y,
            memory: side.memory,
            host: side.host,
            device: side.device,
            array: side.array,
            pitch: side.pitch,
            ..Side3D::default()
        };
        Copy3D {
            from: side(&self.from),
            to: side(&self.to),
            width: self.width,
            height: self.height,
            depth: 1,
        }
    }
}

fn copy_3d(
    sim: &mut Locked,
    stream: StreamRef,
    copy_of: &Copy3D,
    synchronous: bool,
    label: &'static str,
) -> Result {
    let (extent, to, from) = copy_of.ends()?;
    copy(sim, stream, Request { to, from, extent, synchronous, order: IN_STREAM, label })
}

pub fn node_of(sim: &Sim, copy_of: &Copy3D) -> Result<(Work, Vec<Access>)> {
    let (extent, to, from) = copy_of.ends()?;
    let (_, to_bytes) = locate(sim, &to, &extent)?;
    let (_, from_bytes) = locate(sim, &from, &extent)?;
    let work = Work::Copy(Copy { to: to_bytes, from: from_bytes, extent, staged: None });
    Ok((work, vec![access(&from.origin, &extent, READ), access(&to.origin, &extent, WRITE)]))
}

/// Returns the parameters of a copy node: pointers, without the offsets that the program passed.
pub fn params_of(sim: &Sim, copy: &Copy, accesses: &[Access]) -> Copy3D {
    let side = |at: usize, origin: &Origin| {
        let address = accesses.get(at).map_or(origin.address, |access| access.address);
        let on_host = sim.memory.find(address).is_none_or(|found| found.kind.is_host());
        let (host, device) = if on_host { (address, 0) } else { (0, address) };
        let height = origin.layer.checked_div(origin.row).unwrap_or(0) as usize;
        let (memory, pitch) = (if on_host { 1 } else { 2 }, origin.row as usize);
        Side3D { memory, host, device, pitch, height, ..Side3D::default() }
    };
    Copy3D {
        from: side(0, &copy.from),
        to: side(1, &copy.to),
        width: copy.extent.width as usize,
        height: copy.extent.rows as usize,
        depth: copy.extent.layers as usize,
    }
}

api! {
    fn cuMemcpy / cuMemcpy_ptds(to: u64, from: u64, bytes: usize) |sim, default| {
        copy_now(sim, default, End::any(to), End::any(from), bytes, "cuMemcpy")
    }
    fn cuMemcpyPeer / cuMemcpyPeer_ptds(
        to: u64, to_context: u64, from: u64, from_context: u64, bytes: usize,
    ) |sim, default| {
        check_contexts(sim, &[to_context, from_context])?;
        serialized(sim, default, [to_context, from_context], |sim| {
            copy_now(sim, default, End::any(to), End::any(from), bytes, "cuMemcpyPeer")
        })
    }
    fn cuMemcpyHtoD_v2 / cuMemcpyHtoD_v2_ptds(to: u64, from: u64, bytes: usize) |sim, default| {
        copy_now(sim, default, End::device(to), End::host(from), bytes, "cuMemcpyHtoD")
    }
    fn cuMemcpyDtoH_v2 / cuMemcpyDtoH_v2_ptds(to: u64, from: u64, bytes: usize) |sim, default| {
        copy_now(sim, default, End::host(to), End::device(from), bytes, "cuMemcpyDtoH")
    }
    fn cuMemcpyDtoD_v2 / cuMemcpyDtoD_v2_ptds(to: u64, from: u64, bytes: usize) |sim, default| {
        copy_now(sim, default, End::device(to), End::device(from), bytes, "cuMemcpyDtoD")
    }
    fn cuMemcpyAsync / cuMemcpyAsync_ptsz(to: u64, from: u64, bytes: usize, stream: u64) |sim, default| {
        copy_async(sim, stream, default, End::any(to), End::any(from), bytes, "cuMemcpyAsync")
    }
    fn cuMemcpyPeerAsync / cuMemcpyPeerAsync_ptsz(
        to: u64, to_context: u64, from: u64, from_context: u64, bytes: usize, stream: u64,
    ) |sim, default| {
        check_contexts(sim, &[to_context, from_context])?;
        copy_async(sim, stream, default, End::any(to), End::any(from), bytes, "cuMemcpyPeerAsync")
    }
    fn cuMemcpyHtoDAsync_v2 / cuMemcpyHtoDAsync_v2_ptsz(to: u64, from: u64, bytes: usize, stream: u64) |sim, default| {
        copy_async(sim, stream, default, End::device(to), End::host(from), bytes, "cuMemcpyHtoDAsync")
    }
    fn cuMemcpyDtoHAsync_v2 / cuMemcpyDtoHAsync_v2_ptsz(to: u64, from: u64, bytes: usize, stream: u64) |sim, default| {
        copy_async(sim, stream, default, End::host(to), End::device(from), bytes, "cuMemcpyDtoHAsync")
    }
    fn cuMemcpyDtoDAsync_v2 / cuMemcpyDtoDAsync_v2_ptsz(to: u64, from: u64, bytes: usize, stream: u64) |sim, default| {
        copy_async(sim, stream, default, End::device(to), End::device(from), bytes, "cuMemcpyDtoDAsync")
    }
    fn cuMemcpy2D_v2 / cuMemcpy2D_v2_ptds(copy_of: *const Copy2D) |sim, default| {
        let stream = sim.stream(0, default)?;
        copy_3d(sim, stream, &get(copy_of)?.as_3d(), true, "cuMemcpy2D")
    }
    fn cuMemcpy2DUnaligned_v2 / cuMemcpy2DUnaligned_v2_ptds(copy_of: *const Copy2D) |sim, default| {
        let stream = sim.stream(0, default)?;
        copy_3d(sim, stream, &get(copy_of)?.as_3d(), true, "cuMemcpy2DUnaligned")
    }
    fn cuMemcpy2DAsync_v2 / cuMemcpy2DAsync_v2_ptsz(copy_of: *const Copy2D, stream: u64) |sim, default, stream| {
        copy_3d(sim, stream, &get(copy_of)?.as_3d(), false, "cuMemcpy2DAsync")
    }
    fn cuMemcpy3D_v2 / cuMemcpy3D_v2_ptds(copy_of: *const Copy3D) |sim, default| {
        let stream = sim.stream(0, default)?;
        copy_3d(sim, stream, &get(copy_of)?, true, "cuMemcpy3D")
    }
    fn cuMemcpy3DAsync_v2 / cuMemcpy3DAsync_v2_ptsz(copy_of: *const Copy3D, stream: u64) |sim, default, stream| {
        copy_3d(sim, stream, &get(copy_of)?, false, "cuMemcpy3DAsync")
    }
    fn cuMemcpy3DPeer / cuMemcpy3DPeer_ptds(copy_of: *const Copy3D) |sim, default| {
        let (stream, copy_of) = (sim.stream(0, default)?, get(copy_of)?);
        serialized(sim, default, [copy_of.to.context, copy_of.from.context], |sim| {
            copy_3d(sim, stream, &copy_of, true, "cuMemcpy3DPeer")
        })
    }
    fn cuMemcpy3DPeerAsync / cuMemcpy3DPeerAsync_ptsz(copy_of: *const Copy3D, stream: u64) |sim, default, stream| {
        copy_3d(sim, stream, &get(copy_of)?, false, "cuMemcpy3DPeerAsync")
    }
}
