//! DLPack's structures, for C.
//!
//! May use: `abi`, `dlpack`, `ffi::guard`, `ffi::ptr`.
//! Unsafe: follows a caller's pointers, whose contract the C documentation states.

use super::guard::guard;
use super::ptr::{array, given, output_size, write_array};
use crate::abi::{
    DLManagedTensor, DLManagedTensorVersioned, cai_array, cai_error, cai_status, cai_stream,
};
use crate::dlpack;

/// Makes an array of a DLPack tensor, and takes the tensor over: its deleter runs exactly once, when the last
/// reference to the array is gone, on the thread where that happens.
///
/// `tensor`: belongs to the array from success on. On failure nothing has changed: the caller still has to call
/// its deleter, also after `CAI_ERR_DLPACK_VERSION`.
/// `stream`: DLPack does not say which stream work on the data is pending on; the caller does. The stream that
/// it passed to `__dlpack__`, the one that `current_work_stream` of an exchange table answered (0 there is
/// `CAI_STREAM_LEGACY`), `CAI_STREAM_NONE` or `CAI_STREAM_UNKNOWN`. An array in host memory
/// (`CAI_DEVICE_CPU`) always has `CAI_STREAM_NONE`. 0 is refused with `CAI_ERR_STREAM_ZERO`, for host memory too.
/// `out`: must be initialized (`CAI_ARRAY_INIT`) and hold no reference, which would be lost. Strides are in bytes;
/// `byte_offset` of the tensor goes into `data`, except for devices whose data is a handle. `data` is NULL where there
/// are no elements, whatever the tensor says. Read-only if the tensor says so. Release it with `cai_array_release`.
///
/// Types that DLPack knows and the array interface does not get a `dtype_code`. Handles, floats of more than 64 bits,
/// packed elements of less than a byte other than bits, and vectors (`lanes` above 1) other than two 4-bit floats in a
/// byte are refused with `CAI_ERR_CONVERT_TYPE`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_DLPACK_VERSION` for another major
/// number, `CAI_ERR_FLAGS` for a flag that DLPack 1.3 does not have, `CAI_ERR_CONVERT_TYPE`, `CAI_ERR_NO_MEMORY`, or
/// what `cai_array_validate` with `CAI_CHECK_LAYOUT` says; `field` is then the name in the tensor
/// (`device.device_type`, `strides[1]`).
/// Thread safety: any thread; allocates one block. Source: DLPack 1.3, `dlpack.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_from_dlpack(
    tensor: *mut DLManagedTensorVersioned,
    stream: cai_stream,
    out: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    guard(error, || {
        given(tensor, "tensor")?;
        // SAFETY: the header requires of the caller what this function requires.
        let size = unsafe { output_size(out, "out") }?;
        // SAFETY: not NULL (checked above), and alive as the header requires.
        let array = unsafe { dlpack::from_versioned(tensor, stream, size) }?;
        // SAFETY: the caller's structure has `size` writable bytes, which it stated.
        unsafe { write_array(out, size, &array) };
        Ok(())
    })
}

/// The same for DLPack's older structure, which has no version and cannot say that it is read-only. Nor does it say
/// whether elements of less than a byte are packed, so they are refused with `CAI_ERR_CONVERT_TYPE`, bits too.
///
/// Parameters, statuses and thread safety: as `cai_array_from_dlpack`, without `CAI_ERR_DLPACK_VERSION` and
/// `CAI_ERR_FLAGS`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_from_dlpack_unversioned(
    tensor: *mut DLManagedTensor,
    stream: cai_stream,
    out: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    guard(error, || {
        given(tensor, "tensor")?;
        // SAFETY: the header requires of the caller what this function requires.
        let size = unsafe { output_size(out, "out") }?;
        // SAFETY: not NULL (checked above), and alive as the header requires.
        let array = unsafe { dlpack::from_unversioned(tensor, stream, size) }?;
        // SAFETY: the caller's structure has `size` writable bytes, which it stated.
        unsafe { write_array(out, size, &array) };
        Ok(())
    })
}

/// Makes a DLPack tensor of an array. The tensor holds a reference of its own; calling its deleter, once, from any
/// thread, gives it up.
///
/// DLPack has no streams: whoever hands the tensor out first makes the receiver's stream wait for the array's work
/// (`cai_array_consume_begin` with that stream), or says that it works on the array's stream.
///
/// `array`: must have an owner and pass `cai_array_validate` with `CAI_CHECK_LAYOUT`. Where `device` is not known,
/// the CUDA driver is asked; an array without elements is then on CUDA device 0.
/// `flags`: 0.
/// `out`: written on success only. Its version is 1.3; `strides` are never NULL, but for no dimensions. The id of host
/// memory and managed memory is 0, as DLPack demands.
///
/// What does not convert says so: a mask (`CAI_ERR_CONVERT_MASK`); structures, texts, times, objects, floats of more than
/// 8 bytes and opaque types without a `dtype_code` (`CAI_ERR_CONVERT_TYPE`); strides that are no whole number of elements
/// (`CAI_ERR_CONVERT_STRIDES`), unless nothing takes that step; foreign byte order (`CAI_ERR_CONVERT_BYTE_ORDER`); an
/// address whose device neither the array nor the driver knows (`CAI_ERR_CONVERT_DEVICE`).
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT`, `CAI_ERR_BORROWED`, `CAI_ERR_OWNER_OPS`, the five
/// above, `CAI_ERR_NO_MEMORY`, what `cai_array_validate` says, or what the driver may answer to any call.
/// Thread safety: any thread; allocates one block. Source: DLPack 1.3, `dlpack.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_to_dlpack(
    array: *const cai_array,
    flags: u32,
    out: *mut *mut DLManagedTensorVersioned,
    error: *mut cai_error,
) -> cai_status {
    guard(error, || {
        // SAFETY: the header requires of the caller what this function requires.
        let local = unsafe { self::array(array, "array") }?;
        given(out, "out")?;
        // SAFETY: the header requires of the caller what this function requires.
        let tensor = unsafe { dlpack::to_versioned(&local, flags) }?;
        // SAFETY: not NULL (checked above), and writable as the header requires.
        unsafe { out.write(tensor) };
        Ok(())
    })
}

/// The same as DLPack's older structure, which cannot say that it is read-only: read-only arrays are refused with
/// `CAI_ERR_CONVERT_READONLY`. Nor can it say how elements of less than a byte lie: `CAI_ERR_CONVERT_TYPE`.
///
/// Parameters, other statuses and thread safety: as `cai_array_to_dlpack`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_to_dlpack_unversioned(
    array: *const cai_array,
    flags: u32,
    out: *mut *mut DLManagedTensor,
    error: *mut cai_error,
) -> cai_status {
    guard(error, || {
        // SAFETY: the header requires of the caller what this function requires.
        let local = unsafe { self::array(array, "array") }?;
        given(out, "out")?;
        // SAFETY: the header requires of the caller what this function requires.
        let tensor = unsafe { dlpack::to_unversioned(&local, flags) }?;
        // SAFETY: not NULL (checked above), and writable as the header requires.
        unsafe { out.write(tensor) };
        Ok(())
    })
}
