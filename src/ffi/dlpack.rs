//! DLPack's structures, for C.

use std::ptr::NonNull;

use super::guard::guard;
use crate::abi::{
    self, DLManagedTensor, DLManagedTensorVersioned, cai_array, cai_error, cai_status, cai_stream,
};
use crate::argument::{In, Out, arguments};
use crate::dlpack::{self, Lanes, ManagedTensor};
use crate::error::{Failure, Result, fail};

/// Leaves a tensor to the caller, who keeps it if an import fails.
fn kept((failure, tensor): (Failure, ManagedTensor)) -> Failure {
    tensor.into_raw();
    failure
}

/// Makes `out` the array of a tensor, which still belongs to the caller if that fails.
///
/// # Safety
/// `tensor` is NULL, or `managed` may be called with it.
unsafe fn import<T>(
    tensor: *mut T,
    managed: unsafe fn(*mut T) -> ManagedTensor,
    stream: cai_stream,
    flags: u32,
    out: Out<cai_array>,
) -> Result<()> {
    let lanes = match flags {
        0 => Lanes::Refused,
        abi::CAI_UNSTABLE_DLPACK_LANES => Lanes::Dimension,
        _ => {
            return fail!(CAI_ERR_NEWER_CALLER, "flags";
                found "{flags:#x}";
                expected "0 or CAI_UNSTABLE_DLPACK_LANES, the flag that this version knows");
        }
    };
    let tensor = NonNull::new(tensor).ok_or_else(|| Failure::null("tensor"))?;
    let out = out.array("out")?;
    // SAFETY: not NULL, so the call is allowed (this function's contract).
    let tensor = unsafe { managed(tensor.as_ptr()) };
    out.give(tensor.into_array(stream, lanes).map_err(kept)?);
    Ok(())
}

/// Creates an array from a DLPack tensor, which it takes over: the deleter runs exactly once, when
/// the last reference to the array is released, on that thread.
///
/// `tensor`: belongs to the array if the function succeeds. If it fails, nothing has changed: the
/// caller must still call the deleter, also after `CAI_ERR_DLPACK_VERSION`.
/// `stream`: the stream on which work on the data may be pending, which a tensor does not contain:
/// the stream that was passed to `__dlpack__`, the result of `current_work_stream` of an exchange
/// table (whose 0 is `CAI_STREAM_LEGACY` here), `CAI_STREAM_NONE` or `CAI_STREAM_UNKNOWN`. 0 is
/// refused. An array in host memory (`CAI_DEVICE_CPU`) always gets `CAI_STREAM_NONE`.
/// `flags`: 0, or `CAI_UNSTABLE_DLPACK_LANES` of `cai/unstable/dlpack.h`.
/// `out`: must be initialized (`CAI_ARRAY_INIT`) and hold no reference, which would be lost.
/// Strides are in bytes. `byte_offset` of the tensor is added to `data`, unless `data` is a handle.
/// `data` is NULL if there are no elements. It is read-only if the tensor is. Written on success
/// only; release it with `cai_array_release`.
///
/// Types of DLPack that NumPy does not have get a `dtype_code`. Not representable, and refused with
/// `CAI_ERR_CONVERT_TYPE`: handles, floats of more than 64 bits, packed elements of less than a
/// byte other than bits, and vectors (`lanes` above 1) other than two 4-bit floats in a byte.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_NEWER_CALLER`, `CAI_ERR_STRUCT_SIZE`,
/// `CAI_ERR_STREAM_ZERO`, `CAI_ERR_DLPACK_VERSION` for another major version, `CAI_ERR_FLAGS` for a flag that DLPack 1.3
/// does not have, `CAI_ERR_CONVERT_TYPE`, `CAI_ERR_NO_MEMORY`, or a status of `cai_array_validate`
/// with `CAI_CHECK_LAYOUT`, where `error->field` is a member of the tensor (`device.device_type`,
/// `strides[1]`).
/// Thread safety: any thread; allocates one block. Source: DLPack 1.3, `dlpack.h`.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_from_dlpack(
    tensor: *mut DLManagedTensorVersioned,
    stream: cai_stream,
    flags: u32,
    out: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    arguments!(out: Out, error: Out);
    guard(error, || {
        // SAFETY: NULL, or alive and the caller's, as the header requires.
        unsafe { import(tensor, ManagedTensor::versioned, stream, flags, out) }
    })
}

/// Creates an array from a tensor of DLPack's older structure, which has no version and cannot
/// express that it is read-only. The array is writable: DLPack requires that producers refuse to
/// export read-only memory in this structure. (`numpy.from_dlpack` returns a read-only array
/// instead.) If you know that the memory is read-only, set `CAI_ARRAY_READONLY` in the flags of the
/// array. Because it does not specify whether elements of less than a byte are packed, these
/// are refused with `CAI_ERR_CONVERT_TYPE`, bits included.
///
/// Parameters and thread safety: as for `cai_array_from_dlpack`.
///
/// Returns a status of `cai_array_from_dlpack` other than `CAI_ERR_DLPACK_VERSION` and
/// `CAI_ERR_FLAGS`.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_from_dlpack_unversioned(
    tensor: *mut DLManagedTensor,
    stream: cai_stream,
    flags: u32,
    out: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    arguments!(out: Out, error: Out);
    guard(error, || {
        // SAFETY: NULL, or alive and the caller's, as the header requires.
        unsafe { import(tensor, ManagedTensor::unversioned, stream, flags, out) }
    })
}

/// Creates a DLPack tensor from an array, with a reference of its own, which the tensor's deleter
/// releases. The deleter must be called once, from any thread.
///
/// DLPack has no streams. Before you pass the tensor on, make the receiver's stream wait for the
/// array's work (`cai_array_consume_begin` with that stream), or tell the receiver to use the
/// array's stream.
///
/// `array`: must have an owner and pass `cai_array_validate` with `CAI_CHECK_LAYOUT`. If `device`
/// is not known, the CUDA driver is queried; an array without elements is then on the device of its
/// context, or else of the current context, or else on CUDA device 0.
/// `flags`: `CAI_DLPACK_` bits. With `CAI_DLPACK_HIDE_READONLY`, the caller must ensure that
/// nothing writes to the data of a read-only array.
/// `out`: a tensor of version 1.3. `strides` is NULL only without dimensions. The id of host and
/// managed memory is 0, as DLPack requires. Written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_NEWER_CALLER`, `CAI_ERR_BORROWED`,
/// `CAI_ERR_OWNER_OPS`, `CAI_ERR_CONVERT_MASK` for an array with a mask, `CAI_ERR_CONVERT_TYPE` for
/// structures, text, times, objects, floats of more than 8 bytes and opaque types without a
/// `dtype_code`, `CAI_ERR_CONVERT_STRIDES` for strides that are used and are not a whole number of
/// elements, `CAI_ERR_CONVERT_BYTE_ORDER`, `CAI_ERR_CONVERT_DEVICE` if the device is not known,
/// `CAI_ERR_NO_MEMORY`, a status of `cai_array_validate`, or, if the driver is queried, of
/// `cai_driver_info_get`.
/// Thread safety: any thread; allocates one block. Source: DLPack 1.3, `dlpack.h`.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_to_dlpack(
    array: *const cai_array,
    flags: u32,
    out: *mut *mut DLManagedTensorVersioned,
    error: *mut cai_error,
) -> cai_status {
    arguments!(array: In, out: Out, error: Out);
    guard(error, || {
        let array = array.given("array")?;
        let out = out.given("out")?;
        dlpack::check_flags(flags)?;
        let valid = array.valid(abi::CAI_CHECK_LAYOUT)?;
        out.write(dlpack::to_versioned(&valid, flags)?.into_raw().cast());
        Ok(())
    })
}

/// Makes a tensor of DLPack's older structure. It cannot express how elements of less than a byte
/// are packed (`CAI_ERR_CONVERT_TYPE`).
///
/// Parameters and thread safety: as for `cai_array_to_dlpack`.
///
/// Returns a status of `cai_array_to_dlpack`, or `CAI_ERR_CONVERT_READONLY` for a read-only array,
/// unless `flags` contain `CAI_DLPACK_HIDE_READONLY`.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_to_dlpack_unversioned(
    array: *const cai_array,
    flags: u32,
    out: *mut *mut DLManagedTensor,
    error: *mut cai_error,
) -> cai_status {
    arguments!(array: In, out: Out, error: Out);
    guard(error, || {
        let array = array.given("array")?;
        let out = out.given("out")?;
        dlpack::check_flags(flags)?;
        let valid = array.valid(abi::CAI_CHECK_LAYOUT)?;
        out.write(dlpack::to_unversioned(&valid, flags)?.into_raw().cast());
        Ok(())
    })
}
