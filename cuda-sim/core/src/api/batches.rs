//! Several operations in one call.
//!
//! The operations of a batch are in no order on a real driver. Here they run one after another.

use super::copies::{Claim, End, copy_box, flat};
use super::pools::Location;
use super::streams::{wait_value, write_value};
use crate::api::macros::api;
use crate::ffi::{put_if, slice};
use crate::results::{Code, Result, refuse_if};
use crate::sim::{Locked, MemOp, StreamKind};
use crate::work::{Extent, Origin, StreamRef};

const MOST_OPERATIONS: u32 = 256;

/// Returns the operations of a batch. `barriers`: whether the second version is called, which has
/// memory barriers.
pub fn operations<'a>(
    count: u32,
    of: *const MemOp,
    flags: u32,
    barriers: bool,
) -> Result<&'a [MemOp]> {
    refuse_if(count == 0 || count > MOST_OPERATIONS || flags != 0, Code::INVALID_VALUE)?;
    let all = slice(of, count as usize)?;
    if all.iter().any(|op| !(1..=if barriers { 6 } else { 5 }).contains(&op.operation)) {
        return Err(Code::INVALID_VALUE);
    }
    Ok(all)
}

fn mem_ops(sim: &mut Locked, stream: StreamRef, operations: &[MemOp]) -> Result {
    for op in operations {
        let wide = op.operation >= 4;
        let value = if wide { op.value } else { op.value & 0xffff_ffff };
        match op.operation {
            1 | 4 => wait_value(sim, stream, op.address, value, wide, op.flags)?,
            2 | 5 => write_value(sim, stream, op.address, value, wide)?,
            // Writes are visible in order.
            _ => {}
        }
    }
    Ok(())
}

/// `CUmemcpyAttributes`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CopyAttributes {
    order: i32,
    hints: [Location; 2],
    flags: u32,
}
const _: () = assert!(size_of::<CopyAttributes>() == 24);

struct Batch {
    to: *const u64,
    from: *const u64,
    sizes: *const usize,
    count: usize,
    attributes: *const CopyAttributes,
    first: *const usize,
    number: usize,
}

fn copies(sim: &mut Locked, stream: u64, default: u64, batch: &Batch) -> Result {
    let stream = sim.stream(stream, default)?;
    let count = batch.count;
    let (to, from) = (slice(batch.to, count)?, slice(batch.from, count)?);
    let sizes = slice(batch.sizes, count)?;
    let attributes = slice(batch.attributes, batch.number)?;
    let first = slice(batch.first, batch.number)?;
    // Not in the legacy stream. [cuMemcpyBatchAsync]
    if sim.stream_mut(stream).kind == StreamKind::Legacy
        || first.first() != Some(&0)
        || !first.is_sorted()
        || first.iter().any(|first| *first >= count)
        || attributes.iter().any(|of| !(1..=3).contains(&of.order))
    {
        return Err(Code::INVALID_VALUE);
    }
    for (i, ((to, from), size)) in to.iter().zip(from).zip(sizes).enumerate() {
        let (to, from) = (End::any(*to), End::any(*from));
        let order = attributes[first.partition_point(|first| *first <= i) - 1].order;
        copy_box(sim, stream, to, from, flat(*size), order, "cuMemcpyBatchAsync")?;
    }
    Ok(())
}

/// `CUmemcpy3DOperand`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Operand {
    kind: i32,
    address: u64,
    row: usize,
    height: usize,
    hint: Location,
}

/// `CUDA_MEMCPY3D_BATCH_OP`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CopyBox {
    from: Operand,
    to: Operand,
    extent: [usize; 3],
    order: i32,
    flags: u32,
}
const _: () = assert!(size_of::<CopyBox>() == 112);

impl Operand {
    fn end(&self, extent: &Extent) -> Result<End> {
        match self.kind {
            1 => {}
            // Arrays are for textures, which are not simulated.
            2 => return Err(Code::NOT_SUPPORTED),
            _ => return Err(Code::INVALID_VALUE),
        }
        let or_packed = |given: usize, packed: u64| match given as u64 {
            0 => Ok(packed),
            given if given >= packed => Ok(given),
            _ => Err(Code::INVALID_VALUE),
        };
        let row = or_packed(self.row, extent.width)?;
        let height = or_packed(self.height, extent.rows)?;
        let layer = row.checked_mul(height).ok_or(Code::INVALID_VALUE)?;
        let origin = Origin { address: self.address, row, layer };
        Ok(End { origin, claim: Claim::Any })
    }
}

fn boxes(
    sim: &mut Locked,
    stream: u64,
    default: u64,
    of: *const CopyBox,
    count: usize,
    flags: u64,
) -> Result {
    let stream = sim.stream(stream, default)?;
    // Not in the legacy stream. [cuMemcpy3DBatchAsync]
    if flags != 0 || count == 0 || sim.stream_mut(stream).kind == StreamKind::Legacy {
        return Err(Code::INVALID_VALUE);
    }
    let mut checked = Vec::new();
    for one in slice(of, count)? {
        let [width, rows, layers] = one.extent.map(|size| size as u64);
        if width == 0 || rows == 0 || layers == 0 || !(1..=3).contains(&one.order) {
            return Err(Code::INVALID_VALUE);
        }
        let extent = Extent { width, rows, layers };
        checked.push((one.to.end(&extent)?, one.from.end(&extent)?, extent, one.order));
    }
    for (to, from, extent, order) in checked {
        copy_box(sim, stream, to, from, extent, order, "cuMemcpy3DBatchAsync")?;
    }
    Ok(())
}

api! {
    fn cuMemcpy3DBatchAsync / cuMemcpy3DBatchAsync_ptsz(
        count: usize, of: *const CopyBox, failed: *mut usize, flags: u64, stream: u64,
    ) |sim, default| {
        // No single copy: the arguments are wrong.
        put_if(failed, usize::MAX);
        boxes(sim, stream, default, of, count, flags)
    }
    fn cuMemcpy3DBatchAsync_v2 / cuMemcpy3DBatchAsync_v2_ptsz(
        count: usize, of: *const CopyBox, flags: u64, stream: u64,
    ) |sim, default| {
        boxes(sim, stream, default, of, count, flags)
    }
    fn cuMemcpy3DWithAttributesAsync / cuMemcpy3DWithAttributesAsync_ptsz(
        of: *const CopyBox, flags: u64, stream: u64,
    ) |sim, default| {
        boxes(sim, stream, default, of, 1, flags)
    }
    fn cuStreamBatchMemOp / cuStreamBatchMemOp_ptsz(
        stream: u64, count: u32, of: *const MemOp, flags: u32,
    ) |sim, default, stream| {
        mem_ops(sim, stream, operations(count, of, flags, false)?)
    }
    fn cuStreamBatchMemOp_v2 / cuStreamBatchMemOp_v2_ptsz(
        stream: u64, count: u32, of: *const MemOp, flags: u32,
    ) |sim, default, stream| {
        mem_ops(sim, stream, operations(count, of, flags, true)?)
    }
    fn cuMemcpyBatchAsync / cuMemcpyBatchAsync_ptsz(
        to: *const u64, from: *const u64, sizes: *const usize, count: usize, attributes: *const CopyAttributes,
        first: *const usize, number: usize, failed: *mut usize, stream: u64,
    ) |sim, default| {
        // No single copy: the arguments are wrong.
        put_if(failed, usize::MAX);
        copies(sim, stream, default, &Batch { to, from, sizes, count, attributes, first, number })
    }
    fn cuMemcpyBatchAsync_v2 / cuMemcpyBatchAsync_v2_ptsz(
        to: *const u64, from: *const u64, sizes: *const usize, count: usize, attributes: *const CopyAttributes,
        first: *const usize, number: usize, stream: u64,
    ) |sim, default| {
        copies(sim, stream, default, &Batch { to, from, sizes, count, attributes, first, number })
    }
    fn cuMemcpyWithAttributesAsync / cuMemcpyWithAttributesAsync_ptsz(
        to: u64, from: u64, size: usize, attributes: *const CopyAttributes, stream: u64,
    ) |sim, default| {
        let (sizes, first) = (&raw const size, &raw const FIRST);
        let (to, from) = (&raw const to, &raw const from);
        let batch = Batch { to, from, sizes, count: 1, attributes, first, number: 1 };
        copies(sim, stream, default, &batch)
    }
}

static FIRST: usize = 0;
