//! Parts of an array along one dimension: another address, shape and strides for the same data.
//! Several dimensions are several calls: one call would take three lists, whose lengths may differ.

use std::ptr;

use crate::abi::{self, cai_array};
use crate::device::is_opaque;
use crate::error::{Count, Result, fail};
use crate::owner::{Array, Destructor, description};
use crate::read::Unchecked;
use crate::validate::Valid;

/// The elements from `start` to below `stop` of one dimension, in steps.
#[derive(Clone, Copy)]
pub struct Cut {
    pub dimension: usize,
    pub start: i64,
    pub stop: i64,
    pub step: i64,
}

impl Cut {
    /// Checks a cut against the shape that it applies to.
    pub fn new(shape: &[i64], dimension: i32, start: i64, stop: i64, step: i64) -> Result<Cut> {
        let index = usize::try_from(dimension).unwrap_or(usize::MAX);
        let Some(&extent) = shape.get(index) else {
            return fail!(CAI_ERR_ARGUMENT, "dimension";
                found "{dimension}"; expected "at least 0 and below ndim, {}", shape.len());
        };
        if !(0..=extent).contains(&start) {
            return fail!(CAI_ERR_ARGUMENT, "start";
                found "{start}"; expected "0 to {extent}, the extent of the dimension");
        }
        if !(start..=extent).contains(&stop) {
            return fail!(CAI_ERR_ARGUMENT, "stop";
                found "{stop}";
                expected "{start} to {extent}: from start to the extent of the dimension");
        }
        if step < 1 {
            return fail!(CAI_ERR_ARGUMENT, "step"; found "{step}"; expected "at least 1");
        }
        Ok(Cut { dimension: index, start, stop, step })
    }

    /// Returns the number of elements along the dimension.
    fn count(&self) -> i64 {
        let range = self.stop - self.start;
        range / self.step + i64::from(range % self.step != 0)
    }

    /// Returns the mask of an array with its part of this cut. `None` if there is no mask, or if it is
    /// the same for all elements along the dimension: then so are its own masks.
    fn of_mask<'a>(self, array: &Valid<'a>) -> Option<(Valid<'a>, Cut)> {
        let mask = array.mask()?;
        let (whole, shape) = (array.layout().shape, mask.layout().shape);
        // Shapes are compared from the last dimension.
        let dimension = self.dimension.checked_sub(whole.len() - shape.len())?;
        let is_broadcast = shape[dimension] != whole[self.dimension];
        (!is_broadcast).then_some((mask, Cut { dimension, ..self }))
    }
}

/// Returns a part of an array, with an owner that keeps the array's alive.
pub fn slice(array: &Valid, cut: Cut) -> Result<Array> {
    // Fails for a borrowed array, whose data a new owner would not keep alive.
    drop(array.retain()?);
    with_part(array, cut, 0, &mut |part| {
        // SAFETY: the array is valid, and lives during this call. Its shape and strides, and those of
        // the masks, are its own or those of `with_part`, which lives as long.
        let part = unsafe { Unchecked::new(part) };
        Ok(description::prepare(part)?.finish(Destructor::NONE))
    })
}

/// Calls `then` with a part of an array, which is a mask at this depth.
fn with_part(
    array: &Valid,
    cut: Cut,
    depth: usize,
    then: &mut dyn FnMut(&cai_array) -> Result<Array>,
) -> Result<Array> {
    let (mut shape, mut strides) = ([0; DIMENSIONS], [0; DIMENSIONS]);
    let part = part(array, cut, &mut shape, &mut strides).map_err(|f| f.in_mask(depth))?;
    match cut.of_mask(array) {
        None => then(&part),
        Some((mask, cut)) => {
            let mut part = part;
            with_part(&mask, cut, depth + 1, &mut |mask| {
                part.mask = mask;
                then(&part)
            })
        }
    }
}

const DIMENSIONS: usize = abi::CAI_MAX_NDIM as usize;

/// Returns a part of an array without its mask. It points to `shape` and `strides`.
fn part(
    array: &Valid,
    cut: Cut,
    shape: &mut [i64; DIMENSIONS],
    strides: &mut [i64; DIMENSIONS],
) -> Result<cai_array> {
    let layout = array.layout();
    let ndim = layout.shape.len();
    let (shape, strides) = (&mut shape[..ndim], &mut strides[..ndim]);
    shape.copy_from_slice(layout.shape);
    let count = cut.count();
    shape[cut.dimension] = count;
    let mut part = cai_array { shape: shape.as_ptr(), ..**array };
    if shape.contains(&0) {
        (part.data, part.byte_offset) = (ptr::null_mut(), 0);
        return Ok(part);
    }
    // Elements that follow each other without gaps stay so in a part of the outermost dimension.
    let is_dense = layout.strides.is_none()
        && layout.shape[..cut.dimension].iter().all(|&extent| extent == 1)
        && (cut.step == 1 || count == 1);
    let offset = if layout.is_packed_bits() {
        if !is_dense {
            return fail!(CAI_ERR_BIT_STRIDES, "typestr";
                found "elements of {}, and a part with gaps", Count(layout.bits, "bit");
                expected "elements of whole bytes, or all of a range of the outermost dimension");
        }
        // The array has no more bits than its size, which was found to fit.
        let row = layout.shape[cut.dimension + 1..].iter().product::<i64>() * layout.bits;
        let start = cut.start * row;
        if start % 8 != 0 {
            return fail!(CAI_ERR_CONVERT_BIT_OFFSET, "start";
                found "{}, which is bit {start}", cut.start; expected "the first bit of a byte");
        }
        start / 8
    } else {
        layout.write_strides(strides)?;
        // The offset of an element, which lies in the span of the array.
        let offset = cut.start * strides[cut.dimension];
        if count > 1 {
            strides[cut.dimension] *= cut.step;
        }
        if !is_dense {
            part.strides = strides.as_ptr();
        }
        offset
    };
    if is_opaque(part.device.r#type) {
        part.byte_offset = part.byte_offset.wrapping_add_signed(offset);
    } else {
        part.data = part.data.wrapping_byte_offset(offset as isize);
    }
    Ok(part)
}
