//! Shapes and strides, for C.

use std::mem::MaybeUninit;

use super::guard::{guard, guard_local};
use crate::abi::{self, cai_array, cai_error, cai_layout, cai_status};
use crate::argument::{Buffer, Given, In, Out, Shape, arguments};
use crate::error::{Result, fail};
use crate::layout::{self, Bytes, Layout};
use crate::validate::{self, Described};

/// Reports the number of elements of an array, the bytes of one and of all of them, the bytes that
/// the array spans, and whether it is contiguous.
///
/// `out`: needs no initialization; written on success only.
///
/// Returns a status of `cai_array_validate` with `CAI_CHECK_LAYOUT`, or `CAI_ERR_NULL_ARGUMENT` for
/// `out`.
/// Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_layout(
    array: *const cai_array,
    out: *mut cai_layout,
    error: *mut cai_error,
) -> cai_status {
    arguments!(array: In, out: Out, error: Out);
    match (array.optional().and_then(Given::plain_layout), out.optional()) {
        (Some((layout, bytes)), Some(out)) => {
            guard_local(error, || describe(layout, bytes).map(|found| out.write(found)))
        }
        _ => any_layout(array, out, error),
    }
}

/// Returns a status of `cai_array_layout`.
#[inline(never)]
fn any_layout(array: In<cai_array>, out: Out<cai_layout>, error: Out<cai_error>) -> cai_status {
    guard(error, || {
        let array = array.given("array")?;
        let out = out.given("out")?;
        array.validate(abi::CAI_CHECK_LAYOUT)?;
        let mut scratch = MaybeUninit::uninit();
        let layout = Described::new(array.unchecked(&mut scratch)?)?.layout;
        out.write(describe(layout, layout.bytes()?)?);
        Ok(())
    })
}

#[inline]
fn describe(layout: Layout, bytes: Bytes) -> Result<cai_layout> {
    let flag = |is: bool, flag: u32| if is { flag } else { 0 };
    Ok(cai_layout {
        count: layout::count(layout.shape)?,
        nbytes: bytes.all,
        lower: bytes.span.lower,
        upper: bytes.span.upper,
        flags: flag(layout.is_c_contiguous(), abi::CAI_LAYOUT_C_CONTIGUOUS)
            | flag(layout.is_f_contiguous(), abi::CAI_LAYOUT_F_CONTIGUOUS),
        reserved: 0,
        itemsize: if layout.is_packed_bits() { 0 } else { layout.itemsize() },
        reserved_tail: [0; 2],
    })
}

/// Writes the strides of an array in bytes, also if `strides` is NULL. Extents of 0 count as 1.
///
/// `out`: gets `array->ndim` strides, on success only. May be NULL if the array has no dimensions.
/// `capacity`: number of strides that fit in `out`, at least `array->ndim`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_FLAGS`,
/// `CAI_ERR_BUFFER_SIZE` if `capacity` is too small,
/// `CAI_ERR_BIT_STRIDES` for bit fields that are not a whole number of bytes,
/// `CAI_ERR_SIZE_OVERFLOW`, or the status of `cai_array_validate` for an invalid type, shape or
/// strides.
/// Thread safety: any thread; allocates nothing.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_strides(
    array: *const cai_array,
    out: *mut i64,
    capacity: i32,
    error: *mut cai_error,
) -> cai_status {
    let count = usize::try_from(capacity).unwrap_or_default();
    arguments!(array: In, out: Buffer(out, count), error: Out);
    guard(error, || {
        let mut scratch = MaybeUninit::uninit();
        let local = array.given("array")?.unchecked(&mut scratch)?;
        let layout = Described::new(local)?.layout;
        if capacity < local.ndim {
            return fail!(CAI_ERR_BUFFER_SIZE, "capacity";
                found "{capacity}"; expected "at least ndim, {}", local.ndim);
        }
        write_strides(out, layout.shape.len(), |steps| layout.write_strides(steps))
    })
}

/// Writes the strides in bytes of an array of this shape without gaps.
///
/// `order`: `'C'` (last dimension fastest) or `'F'` (first dimension fastest).
/// `shape`, `ndim`: the extents, 0 to `CAI_MAX_NDIM` of them; `shape` may be NULL if `ndim` is 0.
/// Extents of 0 count as 1.
/// `itemsize`: bytes of one element, at least 1.
/// `out`: gets `ndim` strides, on success only. May be NULL if `ndim` is 0.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_NEWER_CALLER` for another `order`,
/// `CAI_ERR_ARGUMENT` for another `itemsize`, `CAI_ERR_NDIM`, `CAI_ERR_SHAPE_NULL`,
/// `CAI_ERR_SHAPE_NEGATIVE` or `CAI_ERR_SIZE_OVERFLOW`.
/// Thread safety: any thread; allocates nothing.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_layout_strides(
    order: std::ffi::c_char,
    shape: *const i64,
    ndim: i32,
    itemsize: i64,
    out: *mut i64,
    error: *mut cai_error,
) -> cai_status {
    let count = if (0..=abi::CAI_MAX_NDIM).contains(&ndim) { ndim as usize } else { 0 };
    arguments!(shape: Shape(ndim, shape), out: Buffer(out, count), error: Out);
    guard(error, || {
        let fill = match order as u8 {
            b'C' => layout::c_strides,
            b'F' => layout::f_strides,
            other => {
                return fail!(CAI_ERR_NEWER_CALLER, "order";
                    found "'{}'", [other].escape_ascii(); expected "'C' or 'F'");
            }
        };
        if itemsize < 1 {
            return fail!(CAI_ERR_ARGUMENT, "itemsize"; found "{itemsize}"; expected "at least 1");
        }
        let shape = shape.given()?;
        layout::check_shape(shape)?;
        write_strides(out, shape.len(), |steps| fill(shape, itemsize, steps))
    })
}

/// Writes `count` strides, or none if they cannot be computed.
fn write_strides(
    mut out: Buffer<i64>,
    count: usize,
    fill: impl FnOnce(&mut [i64]) -> Result<()>,
) -> Result<()> {
    let mut steps = [0; abi::CAI_MAX_NDIM as usize];
    let steps = &mut steps[..count];
    out.given(count, "out")?;
    fill(steps)?;
    out.append(steps);
    Ok(())
}

/// Reports whether two arrays may share bytes. `false` is certain: the spans are disjoint. `true`
/// may be a false alarm: interleaved arrays have overlapping spans, and different handles may be
/// windows of one buffer. Aliased mappings of the same physical memory are not detected. Masks are
/// ignored.
///
/// `out`: written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_FLAGS`, or the status
/// of `cai_array_validate` for an invalid type, shape, strides, device or address; `error->field`
/// then begins with `a.` or `b.`.
/// Thread safety: any thread; allocates nothing.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_may_overlap(
    a: *const cai_array,
    b: *const cai_array,
    out: *mut bool,
    error: *mut cai_error,
) -> cai_status {
    arguments!(a: In, b: In, out: Out, error: Out);
    guard(error, || {
        let (a, b) = (a.given("a")?, b.given("b")?);
        let out = out.given("out")?;
        let mut scratch = [const { MaybeUninit::uninit() }; 2];
        let [of_a, of_b] = &mut scratch;
        let a = a.unchecked(of_a).map_err(|failure| failure.within(format_args!("a.")))?;
        let b = b.unchecked(of_b).map_err(|failure| failure.within(format_args!("b.")))?;
        out.write(validate::may_overlap(a, b)?);
        Ok(())
    })
}
