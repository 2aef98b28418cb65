//! Fills, and when the host waits for them.
//!
//! May use: `access`, `api::copies`, `api::macros`, `capture`, `memory`, `results`, `sim`, `work`.
//! Unsafe: none.

use super::copies::{Claim, End, Side, access, host_waits, locate};
use crate::access::{Access, WRITE};
use crate::api::macros::api;
use crate::capture::submit;
use crate::memory::Kind;
use crate::results::{Code, Result};
use crate::sim::{Locked, Sim};
use crate::work::{CoreRef, Extent, Fill, Origin, Work};

fn fill_of(
    sim: &Sim,
    address: u64,
    pitch: u64,
    value: u32,
    element: u64,
    extent: Extent,
) -> Result<(Side, Work, Access)> {
    if (address % element != 0 && !crate::PASSTHROUGH) || (extent.rows > 1 && pitch < extent.width)
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

/// Returns the work and the access of a fill node.
pub fn fill_node_of(
    sim: &Sim,
    address: u64,
    pitch: u64,
    value: u32,
    element: u32,
    width: u64,
    rows: u64,
) -> Result<(Work, Vec<Access>)> {
    if !matches!(element, 1 | 2 | 4) {
        return Err(Code::INVALID_VALUE);
    }
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

/// Fills memory. A synchronous fill of host or managed memory makes the host wait; a fill of device
/// memory does not. [API synchronization behavior]
fn fill(
    sim: &mut Locked,
    core: CoreRef,
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
    let managed = sim.memory.find(address).is_some_and(|found| found.kind == Kind::Managed);
    if synchronous {
        sim.forbid_on_capturing(core)?;
        sim.forbid_while_capturing()?;
    }
    let position = submit(sim, core, work, vec![access], label)?;
    match position {
        Some(position) if synchronous && (side != Side::Device || managed) => {
            host_waits(sim, core, position)
        }
        _ => {
            if synchronous {
                sim.synchronous_call(core);
            }
            Ok(())
        }
    }
}

/// Defines twelve functions that differ in the element type, in rows, and in synchronization.
macro_rules! fills {
    ($($name:ident / $twin:ident, $type:ty, $rows:tt, $async:tt;)*) => {
        $( fills!(@one $name / $twin, $type, $rows, $async); )*
    };
    (@one $name:ident / $twin:ident, $type:ty, flat, sync) => {
        api! { fn $name / $twin(address: u64, value: $type, count: usize) |sim, default| {
            let core = sim.stream(0, default)?;
            let (size, value) = (size_of::<$type>() as u64, value.into());
            let elements = Elements { address, pitch: 0, value, size, count, rows: 1 };
            fill(sim, core, elements, true, stringify!($name))
        } }
    };
    (@one $name:ident / $twin:ident, $type:ty, flat, async) => {
        api! { fn $name / $twin(
            address: u64,
            value: $type,
            count: usize,
            stream: u64,
        ) |sim, default| {
            let core = sim.stream(stream, default)?;
            let (size, value) = (size_of::<$type>() as u64, value.into());
            let elements = Elements { address, pitch: 0, value, size, count, rows: 1 };
            fill(sim, core, elements, false, stringify!($name))
        } }
    };
    (@one $name:ident / $twin:ident, $type:ty, rows, sync) => {
        api! { fn $name / $twin(
            address: u64,
            pitch: usize,
            value: $type,
            count: usize,
            rows: usize,
        ) |sim, default| {
            let core = sim.stream(0, default)?;
            let (size, value) = (size_of::<$type>() as u64, value.into());
            let elements = Elements { address, pitch, value, size, count, rows };
            fill(sim, core, elements, true, stringify!($name))
        } }
    };
    (@one $name:ident / $twin:ident, $type:ty, rows, async) => {
        api! { fn $name / $twin(
            address: u64,
            pitch: usize,
            value: $type,
            count: usize,
            rows: usize,
            stream: u64,
        ) |sim, default| {
            let core = sim.stream(stream, default)?;
            let (size, value) = (size_of::<$type>() as u64, value.into());
            let elements = Elements { address, pitch, value, size, count, rows };
            fill(sim, core, elements, false, stringify!($name))
        } }
    };
}

fills! {
    cuMemsetD8_v2 / cuMemsetD8_v2_ptds, u8, flat, sync;
    cuMemsetD16_v2 / cuMemsetD16_v2_ptds, u16, flat, sync;
    cuMemsetD32_v2 / cuMemsetD32_v2_ptds, u32, flat, sync;
    cuMemsetD2D8_v2 / cuMemsetD2D8_v2_ptds, u8, rows, sync;
    cuMemsetD2D16_v2 / cuMemsetD2D16_v2_ptds, u16, rows, sync;
    cuMemsetD2D32_v2 / cuMemsetD2D32_v2_ptds, u32, rows, sync;
    cuMemsetD8Async / cuMemsetD8Async_ptsz, u8, flat, async;
    cuMemsetD16Async / cuMemsetD16Async_ptsz, u16, flat, async;
    cuMemsetD32Async / cuMemsetD32Async_ptsz, u32, flat, async;
    cuMemsetD2D8Async / cuMemsetD2D8Async_ptsz, u8, rows, async;
    cuMemsetD2D16Async / cuMemsetD2D16Async_ptsz, u16, rows, async;
    cuMemsetD2D32Async / cuMemsetD2D32Async_ptsz, u32, rows, async;
}
