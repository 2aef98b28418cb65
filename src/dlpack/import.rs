//! Arrays from DLPack tensors.
//!
//! May use: `abi`, `device`, `dlpack::abi`, `dlpack::dtype`, `error`, `layout`, `owner::shape`,
//! `read`, `validate`.
//! Unsafe: follows the pointers of a tensor.

use std::ffi::c_void;
use std::mem::{MaybeUninit, size_of};
use std::ptr;

use crate::abi::{self, DLManagedTensor, DLManagedTensorVersioned, cai_array, cai_device};
use crate::device::is_opaque;
use crate::dlpack::abi::{
    DIMENSIONS, DataType, Deleter, IS_COPIED, PADDED, READ_ONLY, Tensor, Unversioned, VERSION,
    Versioned, inside_versioned,
};
use crate::dlpack::dtype::{BIT, from_dlpack};
use crate::error::{Failure, Result, fail};
use crate::layout::{self, Layout};
use crate::owner::shape;
use crate::{read, validate};

/// Scratch memory for the strides of any array.
pub type Steps = [MaybeUninit<i64>; DIMENSIONS];

/// Writes to `to` the array that a tensor describes, borrowed and validated. Its shape is the
/// tensor's; its strides are written to `steps`. `flags` are those of a versioned tensor. The paths
/// of failures are the names in the tensor. After a failure `to` has no owner and must not be used.
///
/// # Safety
/// `tensor` points to a live tensor, which stays unchanged while the result is in use.
pub unsafe fn describe(
    tensor: *const Tensor,
    flags: Option<u64>,
    stream: u64,
    steps: &mut Steps,
    to: &mut cai_array,
) -> Result<()> {
    // For every device, also for host memory, where the stream is not used: 0 is never a stream.
    if stream == 0 {
        return fail!(
            CAI_ERR_STREAM_ZERO,
            "stream",
            found = "0",
            expected = "CAI_STREAM_NONE if no work is pending, else 1, 2 or a CUstream"
        );
    }
    // SAFETY: the tensor is live (this function's contract).
    unsafe { describe_unchecked(&*tensor, flags, stream, steps, to) }?;
    // SAFETY: `to` refers to the tensor's shape, which is live, and to `steps`.
    unsafe { validate::array(to, abi::CAI_CHECK_LAYOUT) }.map_err(named)
}

/// Renames the array's fields in a failure to those of the tensor.
#[cold]
fn named(failure: Failure) -> Failure {
    let name = match failure.details().map(|details| details.field.as_str()) {
        Some("device.type") => "device.device_type",
        Some("device.id") => "device.device_id",
        Some("typestr") => "dtype",
        _ => return failure,
    };
    failure.at(name)
}

/// Describes a tensor without validating the array.
///
/// # Safety
/// As for [`describe`].
#[inline(always)]
unsafe fn describe_unchecked(
    tensor: &Tensor,
    flags: Option<u64>,
    stream: u64,
    steps: &mut Steps,
    to: &mut cai_array,
) -> Result<()> {
    let tensor_flags = flags.unwrap_or_default();
    if tensor_flags & !(READ_ONLY | IS_COPIED | PADDED) != 0 {
        return fail!(
            CAI_ERR_FLAGS,
            "flags",
            found = "{tensor_flags:#x}",
            expected = ("bits of DLPack {}.{} only", VERSION.major, VERSION.minor)
        );
    }
    if tensor.device_type == abi::CAI_DEVICE_UNKNOWN {
        return fail!(
            CAI_ERR_DEVICE_TYPE,
            "device.device_type",
            found = "0",
            expected = "a device type of DLPack"
        );
    }
    // DLPack has no number for a device that is not known, as arrays have.
    if tensor.device_id < 0 {
        return fail!(
            CAI_ERR_DEVICE_ID,
            "device.device_id",
            found = ("{}", tensor.device_id),
            expected = "at least 0"
        );
    }
    let dtype = tensor.dtype;
    let converted = from_dlpack(dtype, tensor_flags & PADDED != 0);
    // The structure without a version does not specify whether such elements are packed or padded,
    // and both were in use.
    let Some((typestr, dtype_code)) =
        converted.filter(|_| flags.is_some() || !dtype.is_below_a_byte())
    else {
        return no_type(dtype, flags);
    };
    // SAFETY: `shape` refers to `ndim` extents (this function's contract); NULL and the range of
    // `ndim` are checked there.
    let shape = unsafe { read::shape(tensor.ndim, tensor.shape) }?;
    let mut is_empty = false;
    for &extent in shape {
        if extent <= 0 {
            // Everything else about the extents is validated with the array.
            layout::check_shape(shape)?;
            is_empty = true;
        }
    }
    let strides = if tensor.strides.is_null() {
        None
    } else {
        // SAFETY: not NULL here, so `strides` refers to `ndim` values (this function's contract).
        Some(unsafe { read::values(tensor.strides, shape.len()) })
    };
    let strides = match strides {
        Some(strides) if dtype == BIT && dtype_code == abi::CAI_DTYPE_NONE => {
            // Strides of elements are compared as if elements were bytes.
            if !(Layout { shape, strides: Some(strides), bits: 8 }).is_c_contiguous() {
                return fail!(
                    CAI_ERR_BIT_STRIDES,
                    "strides",
                    found = "packed bits with gaps or in another order",
                    expected = "packed bits in C order"
                );
            }
            ptr::null()
        }
        Some(strides) => {
            // All types except bits have whole bytes in the array interface.
            let itemsize = (i64::from(dtype.bits) / 8).max(1);
            byte_steps(shape, strides, itemsize, is_empty, steps)?;
            steps.as_ptr().cast()
        }
        None => ptr::null(),
    };
    let is_handle = is_opaque(tensor.device_type);
    let (data, byte_offset) = if is_empty {
        (ptr::null_mut(), 0)
    } else if is_handle || tensor.data.is_null() {
        // NULL stays NULL, so that validation finds it.
        (tensor.data, if is_handle { tensor.byte_offset } else { 0 })
    } else {
        match (tensor.data as u64).checked_add(tensor.byte_offset) {
            Some(address) => (address as *mut c_void, 0),
            None => {
                return fail!(
                    CAI_ERR_ADDRESS_RANGE,
                    "byte_offset",
                    found = ("{} from {:p}", tensor.byte_offset, tensor.data),
                    expected = "an address below 2^64"
                );
            }
        }
    };
    *to = cai_array {
        struct_size: size_of::<cai_array>() as u32,
        flags: if tensor_flags & READ_ONLY != 0 { abi::CAI_ARRAY_READONLY } else { 0 },
        owner: ptr::null_mut(),
        data,
        shape: tensor.shape,
        strides,
        ndim: tensor.ndim,
        version: abi::CAI_INTERFACE_VERSION,
        dtype_code,
        typestr,
        descr: ptr::null(),
        mask: ptr::null(),
        // Memory that only the host uses has no pending work.
        stream: if tensor.device_type == abi::CAI_DEVICE_CPU {
            abi::CAI_STREAM_NONE
        } else {
            stream
        },
        stream_id: 0,
        event: ptr::null_mut(),
        device: cai_device { r#type: tensor.device_type, id: tensor.device_id },
        context: ptr::null_mut(),
        byte_offset,
    };
    Ok(())
}

#[cold]
fn no_type<T>(dtype: DataType, flags: Option<u64>) -> Result<T> {
    let DataType { code, bits, lanes } = dtype;
    if dtype.is_below_a_byte() {
        let padding =
            if flags.is_some_and(|flags| flags & PADDED != 0) { "padded" } else { "packed" };
        return fail!(
            CAI_ERR_CONVERT_TYPE,
            "dtype",
            found = "code {code}, bits {bits}, lanes {lanes}, {padding}",
            expected =
                "elements of whole bytes, or, in a versioned tensor, padded ones or packed bits"
        );
    }
    fail!(
        CAI_ERR_CONVERT_TYPE,
        "dtype",
        found = "code {code}, bits {bits}, lanes {lanes}",
        expected =
            "a number of 1 to 8 bytes, an integer or complex number of 16, or a bool, in one lane"
    )
}

/// Converts strides in elements to strides in bytes. A stride that is never used may be any number:
/// without an equivalent, it becomes one element.
fn byte_steps(
    shape: &[i64],
    strides: &[i64],
    itemsize: i64,
    is_empty: bool,
    steps: &mut Steps,
) -> Result<()> {
    for (index, ((&extent, &stride), step)) in shape.iter().zip(strides).zip(steps).enumerate() {
        step.write(match stride.checked_mul(itemsize) {
            Some(bytes) => bytes,
            None if is_empty || extent <= 1 => itemsize,
            None => {
                return fail!(
                    CAI_ERR_SPAN_OVERFLOW,
                    "strides[{index}]",
                    found = "{stride} elements of {itemsize} bytes",
                    expected = "a stride within 2^63 bytes"
                );
            }
        });
    }
    Ok(())
}

/// Gives a borrowed description an owner. One block holds shape and strides, and calls
/// `destroy(context)` when it is destroyed. On failure the caller keeps `context`.
///
/// # Safety
/// `array` was written by [`describe`]; `context` keeps the data alive until it is passed to
/// `destroy`.
pub unsafe fn own(array: cai_array, context: *mut c_void, destroy: Deleter) -> Result<cai_array> {
    // SAFETY: `describe` validated the array (this function's contract).
    let (shape, strides) = unsafe { read::shape_and_strides(&array) }?;
    let shape::Made { owner, shape, strides } = shape::new(context, destroy, shape, strides)?;
    Ok(cai_array { owner, shape, strides, ..array })
}

/// Makes an array of a versioned tensor and takes the tensor over. On failure the caller keeps the
/// tensor.
///
/// # Safety
/// `tensor` points to a live managed tensor that the caller owns.
pub unsafe fn from_versioned(
    tensor: *mut DLManagedTensorVersioned,
    stream: u64,
) -> Result<cai_array> {
    // SAFETY: the tensor is live (this function's contract).
    let (inside, flags) = unsafe { inside_versioned(tensor) }?;
    // SAFETY: `inside_versioned` has checked that the major version has this member.
    let deleter = unsafe { (&raw const (*tensor.cast::<Versioned>()).deleter).read() };
    let (mut steps, mut array) = ([MaybeUninit::uninit(); DIMENSIONS], read::NOTHING);
    // SAFETY: `inside` is the tensor inside `tensor`, which is live (this function's contract).
    unsafe { describe(inside, Some(flags), stream, &mut steps, &mut array) }?;
    // SAFETY: `describe` has written the array; the caller owns the tensor (this function's
    // contract).
    unsafe { own(array, tensor.cast(), deleter) }
}

/// Makes an array of a tensor without a version.
///
/// # Safety
/// As for [`from_versioned`].
pub unsafe fn from_unversioned(tensor: *mut DLManagedTensor, stream: u64) -> Result<cai_array> {
    let managed = tensor.cast::<Unversioned>();
    // SAFETY: the tensor is live (this function's contract).
    let deleter = unsafe { (&raw const (*managed).deleter).read() };
    let (mut steps, mut array) = ([MaybeUninit::uninit(); DIMENSIONS], read::NOTHING);
    // SAFETY: the tensor inside `managed`, which is live (this function's contract).
    unsafe { describe(&raw const (*managed).tensor, None, stream, &mut steps, &mut array) }?;
    // SAFETY: `describe` has written the array; the caller owns the tensor (this function's
    // contract).
    unsafe { own(array, tensor.cast(), deleter) }
}
