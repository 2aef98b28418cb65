//! Fills, and when the host waits for them.

use super::copies::{Claim, End, Side, access, host_waits, locate};
use crate::access::{Access, WRITE};
use crate::api::macros::api;
use crate::capture::submit;
use crate::memory::Kind;
use crate::results::{Code, Result, refuse_if};
use crate::sim::{Locked, Sim};
use crate::work::{Extent, Fill, Origin, StreamRef, Work};

fn fill_of(
    sim: &Sim,
    address: u64,
    pitch: u64,
    value: u32,
    element: u64,
    extent: Extent,
) -> Result<(Side, Work, Access)> {
    if (address % element != 0 && !crate::real_driver::is_present())
        || (extent.rows > 1 && pitch < extent.width)
    {
        return Err(Code::INVALID_VALUE);
    }
    let end = End { origin: Origin { address, row: pitch, layer: 0 }, claim: Claim::Device };
    let (side, bytes) = locate(sim, &end, &extent)?;
    Ok((
        side,
        Work::Fill(Fill { to: bytes, extent, value, element }),
        access(&end.origin, &extent, WRITE),
    ))
}

pub fn fill_node_of(
    sim: &Sim,
    address: u64,
    pitch: u64,
    value: u32,
    element: u32,
    width: u64,
    rows: u64,
) -> Result<(Work, Vec<Access>)> {
    refuse_if(!matches!(element, 1 | 2 | 4), Code::INVALID_VALUE)?;
    let element = u64::from(element);
    let extent =
        Extent { width: width.checked_mul(element).ok_or(Code::INVALID_VALUE)?, rows, layers: 1 };
    let (_, work, access) = fill_of(sim, address, pitch, value, element, extent)?;
    Ok((work, vec![access]))
}

/// The elements that a call fills.
struct Elements {
    address: u64,
    pitch: usize,
    value: u32,
    /// Bytes of one element.
    size: u64,
    count: usize,
    rows: usize,
}

/// Fills memory. A synchronous fill of pinned memory makes the host wait; a fill of other memory does
/// not. [API synchronization behavior, 13.5] In the text of CUDA 11.0, the host also waits for a fill
/// of managed memory.
fn fill(
    sim: &mut Locked,
    stream: StreamRef,
    elements: Elements,
    synchronous: bool,
    label: &'static str,
) -> Result {
    let Elements { address, pitch, value, size, count, rows } = elements;
    let width = (count as u64).checked_mul(size).ok_or(Code::INVALID_VALUE)?;
    if width == 0 || rows == 0 {
        return Ok(());
    }
    let extent = Extent { width, rows: rows as u64, layers: 1 };
    let (side, work, access) = fill_of(sim, address, pitch as u64, value, size, extent)?;
    let managed = sim.config.old_docs
        && sim.memory.find(address).is_some_and(|found| found.kind == Kind::Managed);
    if synchronous {
        sim.forbid_on_capturing(stream)?;
        sim.forbid_while_capturing()?;
    }
    let position = submit(sim, stream, work, vec![access], label)?;
    match position {
        Some(position) if synchronous && (side != Side::Device || managed) => {
            host_waits(sim, stream, position)
        }
        _ => {
            if synchronous {
                sim.synchronous_call(stream);
            }
            Ok(())
        }
    }
}

/// Fills rows of elements. `stream`: `None` for a synchronous fill.
fn several<T: Into<u32>>(
    sim: &mut Locked,
    default: u64,
    stream: Option<u64>,
    (address, pitch, value, count, rows): (u64, usize, T, usize, usize),
    label: &'static str,
) -> Result {
    let is_synchronous = stream.is_none();
    let stream = sim.stream(stream.unwrap_or(0), default)?;
    let (size, value) = (size_of::<T>() as u64, value.into());
    let elements = Elements { address, pitch, value, size, count, rows };
    fill(sim, stream, elements, is_synchronous, label)
}

/// Defines the fills with elements of a type: of one row and of several, each with its twin.
macro_rules! fills {
    (
        $ty:ty, $flat:ident / $flat_twin:ident, $rows:ident / $rows_twin:ident,
        $flat_async:ident / $flat_async_twin:ident, $rows_async:ident / $rows_async_twin:ident
    ) => {
        api! {
            fn $flat / $flat_twin(address: u64, value: $ty, count: usize) |sim, default| {
                several(sim, default, None, (address, 0, value, count, 1), stringify!($flat))
            }
            fn $rows / $rows_twin(
                address: u64, pitch: usize, value: $ty, count: usize, rows: usize
            ) |sim, default| {
                let elements = (address, pitch, value, count, rows);
                several(sim, default, None, elements, stringify!($rows))
            }
            fn $flat_async / $flat_async_twin(
                address: u64, value: $ty, count: usize, stream: u64
            ) |sim, default| {
                let elements = (address, 0, value, count, 1);
                several(sim, default, Some(stream), elements, stringify!($flat_async))
            }
            fn $rows_async / $rows_async_twin(
                address: u64, pitch: usize, value: $ty, count: usize, rows: usize, stream: u64
            ) |sim, default| {
                let elements = (address, pitch, value, count, rows);
                several(sim, default, Some(stream), elements, stringify!($rows_async))
            }
        }
    };
}

fills! {
    u8, cuMemsetD8_v2 / cuMemsetD8_v2_ptds, cuMemsetD2D8_v2 / cuMemsetD2D8_v2_ptds,
    cuMemsetD8Async / cuMemsetD8Async_ptsz, cuMemsetD2D8Async / cuMemsetD2D8Async_ptsz
}
fills! {
    u16, cuMemsetD16_v2 / cuMemsetD16_v2_ptds, cuMemsetD2D16_v2 / cuMemsetD2D16_v2_ptds,
    cuMemsetD16Async / cuMemsetD16Async_ptsz, cuMemsetD2D16Async / cuMemsetD2D16Async_ptsz
}
fills! {
    u32, cuMemsetD32_v2 / cuMemsetD32_v2_ptds, cuMemsetD2D32_v2 / cuMemsetD2D32_v2_ptds,
    cuMemsetD32Async / cuMemsetD32Async_ptsz, cuMemsetD2D32Async / cuMemsetD2D32Async_ptsz
}
