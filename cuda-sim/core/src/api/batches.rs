//! Several operations in one call.
//!
//! May use: `api::copies`, `api::macros`, `api::pools`, `api::streams`, `ffi`, `results`, `sim`.
//! Unsafe: none.
//!
//! The operations of a batch are in no order on a real driver. Here they run one after another.

use super::copies::{End, copy_async};
use super::pools::Location;
use super::streams::{wait_value, write_value};
use crate::api::macros::api;
use crate::ffi::{put_if, slice};
use crate::results::{Code, Result};
use crate::sim::{CoreKind, Locked};

/// `CUstreamBatchMemOpParams`: a wait for or a write of a value. The others are shorter.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemOp {
    operation: i32,
    address: u64,
    value: u64,
    flags: u32,
    rest: [u64; 2],
}
const _: () = assert!(size_of::<MemOp>() == 48);

const MOST_OPERATIONS: u32 = 256;

/// `barriers`: whether the second version is called, which has memory barriers.
fn mem_ops(
    sim: &mut Locked,
    stream: u64,
    default: u64,
    count: u32,
    of: *const MemOp,
    flags: u32,
    barriers: bool,
) -> Result {
    let core = sim.stream(stream, default)?;
    if count == 0 || count > MOST_OPERATIONS || flags != 0 {
        return Err(Code::INVALID_VALUE);
    }
    let all = slice(of, count as usize)?;
    if all.iter().any(|op| !(1..=if barriers { 6 } else { 5 }).contains(&op.operation)) {
        return Err(Code::INVALID_VALUE);
    }
    for op in all {
        let wide = op.operation >= 4;
        let value = if wide { op.value } else { op.value & 0xffff_ffff };
        match op.operation {
            1 | 4 => wait_value(sim, core, op.address, value, wide, op.flags)?,
            2 | 5 => write_value(sim, core, op.address, value, wide)?,
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
    let core = sim.stream(stream, default)?;
    let count = batch.count;
    let (to, from) = (slice(batch.to, count)?, slice(batch.from, count)?);
    let sizes = slice(batch.sizes, count)?;
    let attributes = slice(batch.attributes, batch.number)?;
    let first = slice(batch.first, batch.number)?;
    // Not in the legacy stream. [cuMemcpyBatchAsync]
    if sim.core_mut(core).kind == CoreKind::Legacy
        || first.first() != Some(&0)
        || !first.is_sorted()
        || first.iter().any(|first| *first >= count)
        || attributes.iter().any(|of| !(1..=3).contains(&of.order))
    {
        return Err(Code::INVALID_VALUE);
    }
    for ((to, from), size) in to.iter().zip(from).zip(sizes) {
        let (to, from) = (End::any(*to), End::any(*from));
        copy_async(sim, stream, default, to, from, *size, "cuMemcpyBatchAsync")?;
    }
    Ok(())
}

api! {
    fn cuStreamBatchMemOp / cuStreamBatchMemOp_ptsz(
        stream: u64,
        count: u32,
        of: *const MemOp,
        flags: u32,
    ) |sim, default| {
        mem_ops(sim, stream, default, count, of, flags, false)
    }
    fn cuStreamBatchMemOp_v2 / cuStreamBatchMemOp_v2_ptsz(
        stream: u64,
        count: u32,
        of: *const MemOp,
        flags: u32,
    ) |sim, default| {
        mem_ops(sim, stream, default, count, of, flags, true)
    }
    fn cuMemcpyBatchAsync / cuMemcpyBatchAsync_ptsz(
        to: *const u64,
        from: *const u64,
        sizes: *const usize,
        count: usize,
        attributes: *const CopyAttributes,
        first: *const usize,
        number: usize,
        failed: *mut usize,
        stream: u64,
    ) |sim, default| {
        // No single copy: the arguments are wrong.
        put_if(failed, usize::MAX);
        copies(sim, stream, default, &Batch { to, from, sizes, count, attributes, first, number })
    }
    fn cuMemcpyBatchAsync_v2 / cuMemcpyBatchAsync_v2_ptsz(
        to: *const u64,
        from: *const u64,
        sizes: *const usize,
        count: usize,
        attributes: *const CopyAttributes,
        first: *const usize,
        number: usize,
        stream: u64,
    ) |sim, default| {
        copies(sim, stream, default, &Batch { to, from, sizes, count, attributes, first, number })
    }
    fn cuMemcpyWithAttributesAsync / cuMemcpyWithAttributesAsync_ptsz(
        to: u64,
        from: u64,
        size: usize,
        attributes: *const CopyAttributes,
        stream: u64,
    ) |sim, default| {
        let (sizes, first) = (&raw const size, &raw const FIRST);
        let (to, from) = (&raw const to, &raw const from);
        let batch = Batch { to, from, sizes, count: 1, attributes, first, number: 1 };
        copies(sim, stream, default, &batch)
    }
}

static FIRST: usize = 0;
