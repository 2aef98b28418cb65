//! Validation of arrays, for C.

use super::guard::{guard, guard_local};
use super::ptr::given;
use crate::abi::{self, cai_array, cai_error, cai_status};
use crate::error::fail;
use crate::flags::{self, Named};
use crate::validate;

/// Validates an array and its masks against every rule of the CUDA Array Interface and of
/// `cai/abi.h`. A consumer calls it first; it takes nanoseconds.
///
/// `checks`: `CAI_CHECK_` bits. The layout is always checked; 0 means `CAI_CHECK_LAYOUT`.
///
/// It reads the structure, shape, strides, fields and masks, and never the data. Only
/// `CAI_CHECK_DEVICE` and `CAI_CHECK_STREAM` call the CUDA driver. `CAI_CHECK_DEVICE` accepts
/// arrays without elements, in host memory and behind handles without querying the driver.
/// `CAI_CHECK_STREAM` cannot detect a stream that was destroyed and whose handle was not reused: do
/// not pass one.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_NEWER_CALLER`, or the status of the first
/// violated rule, in this order: `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_FLAGS`, a `CAI_ERR_TYPESTR_`
/// status, `CAI_ERR_DTYPE_CODE`, `CAI_ERR_NDIM`, `CAI_ERR_SHAPE_NULL`, `CAI_ERR_SHAPE_NEGATIVE`,
/// `CAI_ERR_ITEMSIZE`, `CAI_ERR_BIT_STRIDES`, `CAI_ERR_SIZE_OVERFLOW`, `CAI_ERR_SPAN_OVERFLOW`,
/// `CAI_ERR_DEVICE_TYPE`, `CAI_ERR_DEVICE_ID`, `CAI_ERR_DATA_NULL`, `CAI_ERR_DATA_NOT_NULL`,
/// `CAI_ERR_BYTE_OFFSET`, `CAI_ERR_ADDRESS_RANGE`, `CAI_ERR_STREAM_ZERO`, `CAI_ERR_STREAM_VERSION`,
/// `CAI_ERR_STREAM_ID`, `CAI_ERR_EVENT`, `CAI_ERR_STREAM_DEVICE`, a `CAI_ERR_DESCR_` status,
/// `CAI_ERR_ALIGNMENT`, `CAI_ERR_MASK_VERSION`, `CAI_ERR_MASK_CYCLE`, `CAI_ERR_MASK_DEPTH`, the
/// rules for the mask itself, `CAI_ERR_MASK_TYPE`, `CAI_ERR_MASK_SHAPE` or `CAI_ERR_MASK_DEVICE`;
/// for a list of more than 32 fields also `CAI_ERR_NO_MEMORY`. `CAI_CHECK_DEVICE` adds
/// `CAI_ERR_NOT_DEVICE_POINTER`, `CAI_ERR_DEVICE_MISMATCH`, `CAI_ERR_NOT_ACCESSIBLE` and
/// `CAI_ERR_OUT_OF_ALLOCATION`. `CAI_CHECK_STREAM` adds `CAI_ERR_STREAM_HANDLE`,
/// `CAI_ERR_STREAM_DETACHED`, `CAI_ERR_STREAM_STALE`, `CAI_ERR_STREAM_THREAD`,
/// `CAI_ERR_STREAM_CONTEXT`, `CAI_ERR_NO_CONTEXT` and `CAI_ERR_CAPTURE_LEGACY`. Both add the
/// statuses of `cai_driver_info_get`. For a violation inside a mask, `error->field` begins with
/// `mask.`.
/// Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_validate(
    array: *const cai_array,
    checks: u32,
    error: *mut cai_error,
) -> cai_status {
    let body = || {
        given(array, "array")?;
        const KNOWN: u32 = abi::CAI_CHECK_LAYOUT
            | abi::CAI_CHECK_ALIGNMENT
            | abi::CAI_CHECK_DEVICE
            | abi::CAI_CHECK_STREAM;
        if checks & !KNOWN != 0 {
            return fail!(
                CAI_ERR_NEWER_CALLER,
                "checks",
                found = ("{}", Named(checks & !KNOWN, flags::CHECKS)),
                expected = ("only {}", Named(KNOWN, flags::CHECKS))
            );
        }
        // SAFETY: not NULL (checked above); the header requires the rest of the caller.
        unsafe { validate::array(array, checks) }
    };
    // Only these two call the driver.
    if checks & (abi::CAI_CHECK_DEVICE | abi::CAI_CHECK_STREAM) != 0 {
        guard(error, body)
    } else {
        guard_local(error, body)
    }
}
