//! Shapes and strides, for C.
//!
//! May use: `abi`, `error`, `ffi::guard`, `ffi::ptr`, `layout`, `read`, `validate`.
//! Unsafe: follows a caller's pointers, whose contract the C documentation states.

use super::guard::guard;
use super::ptr::{array, given};
use crate::abi::{self, cai_array, cai_error, cai_status};
use crate::error::{Result, fail};
use crate::layout::{self, Layout};
use crate::read;
use crate::validate;

/// Reads an array, asks its layout a question and writes the answer.
///
/// # Safety
/// `array` is NULL or points to an array whose shape and strides are readable; `out` is NULL or writable.
unsafe fn answer<T>(
    array: *const cai_array,
    out: *mut T,
    error: *mut cai_error,
    question: impl FnOnce(&Layout) -> Result<T>,
) -> cai_status {
    guard(error, || {
        // SAFETY: handed on.
        let local = unsafe { self::array(array, "array") }?;
        given(out, "out")?;
        // SAFETY: handed on.
        let described = unsafe { validate::describe(&local) }?;
        let value = question(&described.layout)?;
        // SAFETY: not NULL; writable by contract.
        unsafe { out.write(value) };
        Ok(())
    })
}

/// The number of elements: the product of all extents, 1 for no dimensions, 0 if any extent is 0.
///
/// `out`: written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_SIZE_OVERFLOW`, or what `cai_array_validate` says of a
/// malformed type, shape or strides.
/// Thread safety: any thread; allocates nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_count(
    array: *const cai_array,
    out: *mut i64,
    error: *mut cai_error,
) -> cai_status {
    // SAFETY: handed on.
    unsafe { answer(array, out, error, |layout| layout::count(layout.shape)) }
}

/// The bytes that all elements take when laid out without gaps: what a buffer for a dense copy needs.
/// Bit fields are packed and rounded up once. The bytes that the array itself reaches are those of
/// `cai_array_span`.
///
/// `out`: written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_SIZE_OVERFLOW`, or what `cai_array_validate` says of a
/// malformed type, shape or strides.
/// Thread safety: any thread; allocates nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_nbytes(
    array: *const cai_array,
    out: *mut i64,
    error: *mut cai_error,
) -> cai_status {
    // SAFETY: handed on.
    unsafe { answer(array, out, error, |layout| layout.nbytes()) }
}

/// The bytes that the array can touch, counted from `data` (from `data` plus `byte_offset` for opaque
/// handles): from `*out_lower`, 0 or negative, up to but not including `*out_upper`. Both are 0 for an
/// empty array. Strides of any sign and size are taken for what they are.
///
/// `out_lower`, `out_upper`: bytes, written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_SPAN_OVERFLOW`, `CAI_ERR_SIZE_OVERFLOW`, or what
/// `cai_array_validate` says of a malformed type, shape or strides.
/// Thread safety: any thread; allocates nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_span(
    array: *const cai_array,
    out_lower: *mut i64,
    out_upper: *mut i64,
    error: *mut cai_error,
) -> cai_status {
    guard(error, || {
        // SAFETY: handed on.
        let local = unsafe { self::array(array, "array") }?;
        given(out_lower, "out_lower")?;
        given(out_upper, "out_upper")?;
        // SAFETY: handed on.
        let span = unsafe { validate::describe(&local) }?.layout.span()?;
        // SAFETY: not NULL; writable by contract.
        unsafe {
            out_lower.write(span.lower);
            out_upper.write(span.upper);
        }
        Ok(())
    })
}

/// Do the elements lie in C order (last dimension fastest) without gaps? Strides of extents of at most
/// one do not matter, nor do any strides of an empty array.
///
/// `out`: written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or what `cai_array_validate` says of a malformed type, shape or
/// strides.
/// Thread safety: any thread; allocates nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_is_c_contiguous(
    array: *const cai_array,
    out: *mut bool,
    error: *mut cai_error,
) -> cai_status {
    // SAFETY: handed on.
    unsafe { answer(array, out, error, |layout| Ok(layout.is_c_contiguous())) }
}

/// Do the elements lie in Fortran order (first dimension fastest) without gaps? Strides of extents of at
/// most one do not matter, nor do any strides of an empty array. An array can be both.
///
/// `out`: written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or what `cai_array_validate` says of a malformed type, shape or
/// strides.
/// Thread safety: any thread; allocates nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_is_f_contiguous(
    array: *const cai_array,
    out: *mut bool,
    error: *mut cai_error,
) -> cai_status {
    // SAFETY: handed on.
    unsafe { answer(array, out, error, |layout| Ok(layout.is_f_contiguous())) }
}

/// The steps in bytes of an array, also where it leaves them out (`strides` NULL). Extents of 0 count as 1.
///
/// `out`: room for `capacity` steps, of which `array->ndim` are written, on success only. May be NULL if
/// the array has no dimensions.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_BUFFER_SIZE` if `capacity` is below `array->ndim`,
/// `CAI_ERR_BIT_STRIDES` for bit fields that are no whole bytes, `CAI_ERR_SIZE_OVERFLOW`, or what
/// `cai_array_validate` says of a malformed type, shape or strides.
/// Thread safety: any thread; allocates nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_strides(
    array: *const cai_array,
    capacity: i32,
    out: *mut i64,
    error: *mut cai_error,
) -> cai_status {
    guard(error, || {
        // SAFETY: handed on.
        let local = unsafe { self::array(array, "array") }?;
        // SAFETY: handed on.
        let layout = unsafe { validate::describe(&local) }?.layout;
        if capacity < local.ndim {
            return fail!(
                CAI_ERR_BUFFER_SIZE,
                "capacity",
                found = "{capacity}",
                expected = ("at least ndim, {}", local.ndim)
            );
        }
        // SAFETY: at least `ndim` steps are writable by contract.
        unsafe { write_strides(out, layout.shape.len(), |steps| layout.write_strides(steps)) }
    })
}

/// The steps in bytes that a dense array of this shape has: what a producer writes into `strides`.
///
/// `order`: `'C'` (last dimension fastest) or `'F'` (first dimension fastest).
/// `ndim`: 0 to `CAI_MAX_NDIM`. `shape`: `ndim` extents; may be NULL if `ndim` is 0. Extents of 0 count as 1.
/// `itemsize`: bytes of one element, at least 1.
/// `out`: gets `ndim` steps, on success only; may be NULL if `ndim` is 0.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT` (`order` or `itemsize`), `CAI_ERR_NDIM`,
/// `CAI_ERR_SHAPE_NULL`, `CAI_ERR_SHAPE_NEGATIVE` or `CAI_ERR_SIZE_OVERFLOW`.
/// Thread safety: any thread; allocates nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_layout_strides(
    order: std::ffi::c_char,
    ndim: i32,
    shape: *const i64,
    itemsize: i64,
    out: *mut i64,
    error: *mut cai_error,
) -> cai_status {
    guard(error, || {
        let fill = match order as u8 {
            b'C' => layout::c_strides,
            b'F' => layout::f_strides,
            other => {
                return fail!(
                    CAI_ERR_ARGUMENT,
                    "order",
                    found = ("'{}'", [other].escape_ascii()),
                    expected = "'C' or 'F'"
                );
            }
        };
        if itemsize < 1 {
            return fail!(
                CAI_ERR_ARGUMENT,
                "itemsize",
                found = "{itemsize}",
                expected = "at least 1"
            );
        }
        // SAFETY: handed on; no strides are read.
        let shape = unsafe { read::shape(ndim, shape) }?;
        layout::check_shape(shape)?;
        // SAFETY: `ndim` steps are writable by contract.
        unsafe { write_strides(out, shape.len(), |steps| fill(shape, itemsize, steps)) }
    })
}

/// Lets `fill` write `count` steps and copies them out if it succeeds.
///
/// # Safety
/// `out` is NULL or `count` steps are writable there.
unsafe fn write_strides(
    out: *mut i64,
    count: usize,
    fill: impl FnOnce(&mut [i64]) -> Result<()>,
) -> Result<()> {
    let mut steps = [0; abi::CAI_MAX_NDIM as usize];
    let steps = &mut steps[..count];
    if count > 0 {
        given(out, "out")?;
    }
    fill(steps)?;
    if count > 0 {
        // SAFETY: not NULL; writable by contract.
        unsafe { out.copy_from_nonoverlapping(steps.as_ptr(), count) };
    }
    Ok(())
}

/// May two arrays share bytes? `false` is certain: the spans do not meet. `true` may be a false alarm:
/// interleaved arrays have overlapping spans, and different opaque handles may be windows of one buffer.
/// Memory that is mapped at two addresses is seen at neither through the other. Masks are not looked at.
///
/// `out`: written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or what `cai_array_validate` says of a malformed type, shape,
/// strides, device or address; the error's `field` begins with `a.` or `b.`.
/// Thread safety: any thread; allocates nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_may_overlap(
    a: *const cai_array,
    b: *const cai_array,
    out: *mut bool,
    error: *mut cai_error,
) -> cai_status {
    guard(error, || {
        given(a, "a")?;
        given(b, "b")?;
        // SAFETY: handed on.
        let a = unsafe { array(a, "a") }.map_err(|failure| failure.within("a."))?;
        // SAFETY: handed on.
        let b = unsafe { array(b, "b") }.map_err(|failure| failure.within("b."))?;
        given(out, "out")?;
        // SAFETY: handed on.
        let overlap = unsafe { validate::may_overlap(&a, &b) }?;
        // SAFETY: not NULL; writable by contract.
        unsafe { out.write(overlap) };
        Ok(())
    })
}
