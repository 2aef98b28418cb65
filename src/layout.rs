//! Shapes and strides: counts, sizes, spans, contiguity, overlap.
//!
//! Every product and sum is checked: an overflow is a status, at 64 dimensions and at extents near
//! 2^63. All sums here add numbers of one sign. So a partial result that does not fit proves that
//! the whole does not fit, and 64-bit arithmetic is exact.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::indexing_slicing))]

use crate::error::{Count, Result, fail};

/// The shape of an array, its strides in bytes and the size of its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout<'a> {
    /// Extents; their sign was checked.
    pub shape: &'a [i64],
    /// As many strides as extents, or `None` for C-contiguous. Always `None` for packed bit fields.
    pub strides: Option<&'a [i64]>,
    /// Bits of one element; `bits / 8` bytes unless it is a packed bit field.
    pub bits: i64,
}

/// The bytes that an array can touch, relative to the element with index zero: from `lower`, which
/// is 0 or negative, up to but not including `upper`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub lower: i64,
    /// One past the last byte.
    pub upper: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// Bytes of all elements without gaps, which consumers allocate, also for a broadcast array.
    pub all: i64,
    /// The bytes that the array can touch.
    pub span: Span,
}

pub fn check_shape(shape: &[i64]) -> Result<()> {
    match shape.iter().enumerate().find(|(_, extent)| **extent < 0) {
        None => Ok(()),
        Some((index, extent)) => fail!(CAI_ERR_SHAPE_NEGATIVE, "shape[{index}]";
            found "{extent}"; expected "at least 0"),
    }
}

/// Returns the number of elements. An extent of 0 makes it 0, whatever the others are.
pub fn count(shape: &[i64]) -> Result<i64> {
    let mut product = 1i64;
    if shape.contains(&0) {
        return Ok(0);
    }
    for (index, &extent) in shape.iter().enumerate() {
        match product.checked_mul(extent) {
            Some(next) => product = next,
            None => {
                return fail!(CAI_ERR_SIZE_OVERFLOW, "shape[{index}]";
                    found "{extent} after {}", Count(product, "element");
                    expected "at most 2^63 - 1 elements in total");
            }
        }
    }
    Ok(product)
}

impl Span {
    /// Returns true if all bytes around an address, or around an offset in a buffer, exist.
    #[inline(always)]
    pub fn fits(&self, start: u64) -> bool {
        start.checked_add_signed(self.lower).is_some()
            && start.checked_add_signed(self.upper).is_some()
    }
}

/// Returns the bytes of an array whose elements are whole bytes, or `None` if it has no elements, an
/// extent is negative or a number does not fit. [`Layout::bytes`] tells which.
#[inline(always)]
pub fn measure(shape: &[i64], strides: Option<&[i64]>, itemsize: i64) -> Option<Bytes> {
    let Some(strides) = strides else { return measure_dense(shape, itemsize) };
    measure_strided(
        shape.iter().zip(strides).map(|(&extent, &stride)| Some((extent, stride))),
        itemsize,
    )
}

/// Returns the bytes of an array in C order as [`measure`] does.
#[inline(always)]
pub fn measure_dense(shape: &[i64], itemsize: i64) -> Option<Bytes> {
    let mut all = itemsize;
    for &extent in shape {
        all = if extent > 0 { all.checked_mul(extent)? } else { return None };
    }
    Some(Bytes { all, span: Span { lower: 0, upper: all } })
}

/// Returns an array's bytes as [`measure`] does, from pairs of extent and stride until `None`.
#[inline(always)]
pub fn measure_strided(
    dimensions: impl Iterator<Item = Option<(i64, i64)>>,
    itemsize: i64,
) -> Option<Bytes> {
    let (mut all, mut lower, mut upper) = (itemsize, 0i64, itemsize);
    for dimension in dimensions {
        let (extent, stride) = dimension?;
        // Broadcast arrays span fewer bytes than their elements have. Both numbers must fit.
        all = if extent > 0 { all.checked_mul(extent)? } else { return None };
        let reach = extent.saturating_sub(1).checked_mul(stride)?;
        if reach < 0 {
            lower = lower.checked_add(reach)?;
        } else {
            upper = upper.checked_add(reach)?;
        }
    }
    Some(Bytes { all, span: Span { lower, upper } })
}

impl Layout<'_> {
    /// Returns true for packed bit fields, whose elements are not a whole number of bytes.
    pub fn is_packed_bits(&self) -> bool {
        self.bits % 8 != 0
    }

    pub fn itemsize(&self) -> i64 {
        self.bits / 8
    }

    /// Returns the bytes of the array. One without elements has none.
    #[inline]
    pub fn bytes(&self) -> Result<Bytes> {
        let common = if self.is_packed_bits() {
            None
        } else {
            measure(self.shape, self.strides, self.itemsize())
        };
        common.map_or_else(|| self.other_bytes(), Ok)
    }

    /// Returns the bytes of all elements without gaps.
    pub fn nbytes(&self) -> Result<i64> {
        self.bytes().map(|bytes| bytes.all)
    }

    /// Returns the bytes that the array can touch.
    pub fn span(&self) -> Result<Span> {
        self.bytes().map(|bytes| bytes.span)
    }

    /// The bytes of packed bits and of arrays without elements, and why others cannot be measured.
    #[inline(never)]
    fn other_bytes(&self) -> Result<Bytes> {
        let count = count(self.shape)?;
        // At most 2^63 elements of 2^63 bits: far below `i128`'s limit. Packed bits round up once.
        let bits = i128::from(count).saturating_mul(i128::from(self.bits));
        let Ok(all) = i64::try_from(bits.saturating_add(7) / 8) else {
            return fail!(CAI_ERR_SIZE_OVERFLOW, "shape";
                found "{} of {}", Count(count, "element"), Count(self.bits, "bit");
                expected "at most 2^63 - 1 bytes in total");
        };
        let dimensions = self.shape.iter().zip(self.strides.unwrap_or_default());
        // The elements can be counted, so this is about the strides.
        let is_too_far = |&(index, _): &(usize, _)| {
            let first = self.strides.and_then(|strides| strides.get(..=index));
            measure(self.shape.get(..=index).unwrap_or_default(), first, self.itemsize()).is_none()
        };
        match dimensions.enumerate().find(is_too_far) {
            Some((index, (extent, stride))) if count > 0 => {
                fail!(CAI_ERR_SPAN_OVERFLOW, "strides[{index}]";
                found "{stride} over an extent of {extent}";
                expected "a span within 2^63 bytes of data")
            }
            _ => Ok(Bytes { all, span: Span { lower: 0, upper: all } }),
        }
    }

    /// Returns true if the elements lie in C order without gaps. Dimensions with an extent of at
    /// most one, and empty arrays, put no condition on strides.
    pub fn is_c_contiguous(&self) -> bool {
        match self.strides {
            None => true,
            Some(strides) => self.is_dense(self.shape.iter().zip(strides).rev()),
        }
    }

    /// Returns true if the elements lie in Fortran order without gaps, under the same conditions.
    pub fn is_f_contiguous(&self) -> bool {
        match self.strides {
            // Without strides, C; also Fortran if at most one dimension has more than one element.
            None => {
                self.shape.contains(&0)
                    || self.shape.iter().filter(|&&extent| extent > 1).count() <= 1
            }
            Some(strides) => self.is_dense(self.shape.iter().zip(strides)),
        }
    }

    /// Takes `dimensions` in order, the fastest-varying one first.
    fn is_dense<'b>(&self, dimensions: impl Iterator<Item = (&'b i64, &'b i64)>) -> bool {
        if self.shape.contains(&0) {
            return true;
        }
        // `None`: above 2^63, so no stride equals it.
        let mut step = Some(self.itemsize());
        for (&extent, &stride) in dimensions {
            if extent > 1 {
                if Some(stride) != step {
                    return false;
                }
                step = step.and_then(|step| step.checked_mul(extent));
            }
        }
        true
    }

    /// Writes the strides in bytes, whether the array states them or not.
    pub fn write_strides(&self, out: &mut [i64]) -> Result<()> {
        match self.strides {
            Some(strides) => out.copy_from_slice(strides),
            None if self.is_packed_bits() => {
                return fail!(CAI_ERR_BIT_STRIDES, "typestr";
                    found "elements of {}", Count(self.bits, "bit"); expected "elements of whole bytes");
            }
            None => c_strides(self.shape, self.itemsize(), out)?,
        }
        Ok(())
    }
}

/// Writes the strides in bytes of a C-contiguous array. Extents of 0 count as 1, as in NumPy, so
/// that an empty array has the strides of the array that it will grow into.
pub fn c_strides(shape: &[i64], itemsize: i64, out: &mut [i64]) -> Result<()> {
    dense_strides(shape.iter().zip(out).enumerate().rev(), itemsize)
}

/// Writes the strides in bytes of a Fortran-contiguous array.
pub fn f_strides(shape: &[i64], itemsize: i64, out: &mut [i64]) -> Result<()> {
    dense_strides(shape.iter().zip(out).enumerate(), itemsize)
}

fn dense_strides<'a>(
    dimensions: impl Iterator<Item = (usize, (&'a i64, &'a mut i64))>,
    itemsize: i64,
) -> Result<()> {
    let mut step = Some(itemsize);
    for (index, (&extent, stride)) in dimensions {
        let Some(value) = step else {
            return fail!(CAI_ERR_SIZE_OVERFLOW, "shape[{index}]";
                found "a stride above 2^63 - 1"; expected "strides of at most 2^63 - 1 bytes");
        };
        *stride = value;
        step = value.checked_mul(extent.max(1));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout<'a>(shape: &'a [i64], strides: Option<&'a [i64]>, bits: i64) -> Layout<'a> {
        Layout { shape, strides, bits }
    }

    fn status<T>(result: Result<T>) -> i32 {
        result.err().map_or(0, |failure| failure.status())
    }

    #[test]
    fn the_largest_spans_are_exact() {
        let span = |layout: Layout| layout.bytes().map(|bytes| bytes.span);
        let least = layout(&[2], Some(&[i64::MIN]), 8);
        assert_eq!(span(least).ok(), Some(Span { lower: i64::MIN, upper: 1 }));
        let below = layout(&[2, 2], Some(&[i64::MIN, -1]), 8);
        assert_eq!(status(span(below)), crate::abi::CAI_ERR_SPAN_OVERFLOW);
        let most = layout(&[2], Some(&[i64::MAX - 1]), 8);
        assert_eq!(span(most).ok(), Some(Span { lower: 0, upper: i64::MAX }));
        let above = layout(&[2], Some(&[i64::MAX]), 8);
        assert_eq!(status(span(above)), crate::abi::CAI_ERR_SPAN_OVERFLOW);
    }
}
