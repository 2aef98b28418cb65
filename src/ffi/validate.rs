//! Validation of arrays, for C.

use super::guard::{guard, guard_local};
use crate::abi::{self, CAI_OK, cai_array, cai_error, cai_status};
use crate::argument::{Given, In, Out, arguments};
use crate::error::fail;
use crate::flags::{self, Named};

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
/// violated rule, in this order: {rules}. For a list of more than 32 fields also
/// `CAI_ERR_NO_MEMORY`. `CAI_CHECK_DEVICE` and `CAI_CHECK_STREAM` add the statuses of
/// `cai_driver_info_get`. For a violation inside a mask, `error->field` begins with `mask.`.
/// Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_validate(
    array: *const cai_array,
    checks: u32,
    error: *mut cai_error,
) -> cai_status {
    #[inline(never)]
    fn validate(array: In<cai_array>, checks: u32, error: Out<cai_error>) -> cai_status {
        let body = || {
            let array = array.given("array")?;
            const KNOWN: u32 = abi::CAI_CHECK_LAYOUT
                | abi::CAI_CHECK_ALIGNMENT
                | abi::CAI_CHECK_DEVICE
                | abi::CAI_CHECK_STREAM
                | abi::CAI_CHECK_NATIVE;
            if checks & !KNOWN != 0 {
                return fail!(CAI_ERR_NEWER_CALLER, "checks";
                    found "{}", Named(checks & !KNOWN, flags::CHECKS);
                    expected "only {}", Named(KNOWN, flags::CHECKS));
            }
            array.validate(checks)
        };
        // Only these two call the driver.
        if checks & (abi::CAI_CHECK_DEVICE | abi::CAI_CHECK_STREAM) != 0 {
            guard(error, body)
        } else {
            guard_local(error, body)
        }
    }

    // With a frame of its own, which an array of the most common kind does not need.
    #[inline(never)]
    fn validate_layout(array: In<cai_array>, error: Out<cai_error>) -> cai_status {
        if array.optional().is_some_and(Given::is_common) {
            return CAI_OK;
        }
        validate(array, abi::CAI_CHECK_LAYOUT, error)
    }

    arguments!(array: In, error: Out);
    if checks & !abi::CAI_CHECK_LAYOUT != 0 {
        return validate(array, checks, error);
    }
    if array.optional().is_some_and(Given::is_plain) {
        return CAI_OK;
    }
    validate_layout(array, error)
}
