//! JSON, for C.

use std::ffi::c_char;

use super::super::guard::guard;
use super::super::text::{Output, length};
use crate::abi::{self, cai_array, cai_error, cai_status};
use crate::argument::{In, Out, arguments};
use crate::json::Text;

/// Writes the array interface of an array as JSON text, as functions of XGBoost take it
/// (`XGDMatrixCreateFromDense` and `XGDMatrixCreateFromCudaArrayInterface`), such as
/// `{"data": [140123, false], "shape": [3, 4], "strides": null, "typestr": "<f4", "version": 3,
/// "stream": 1}`.
///
/// The text states addresses and keeps nothing alive: retain the array until the reader is done.
/// `strides` is null for C-contiguous arrays. `stream` is null for `CAI_STREAM_NONE`. For
/// `CAI_STREAM_UNKNOWN` the text has no `stream`, and `version` is 2. For host memory it has no
/// `stream` either, because XGBoost assumes device memory if there is one. What the members mean,
/// and which streams are replaced or refused, is as for `__cuda_array_interface__`. A mask becomes
/// an object in `mask`, which states the stream of the array: if work is pending on it on another
/// stream, the call blocks until that is done, and the mask states none.
///
/// `array`: a borrowed one is accepted, too.
/// `buffer`, `size`: gets the NUL-terminated text; 256 characters suffice for 4 dimensions without
/// a mask. NULL with a `size` of 0 asks for the length only.
/// `out_length`: number of characters without the NUL; may be NULL. Both outputs are written on
/// success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_BUFFER_SIZE`, `CAI_ERR_CONVERT_DEVICE` for
/// memory of neither CUDA nor the host, `CAI_ERR_CONVERT_TYPE` for fields or a `dtype_code`, which
/// the text cannot express, `CAI_ERR_CONVERT_BYTE_ORDER` for a type that is not in the machine's
/// order, which XGBoost reads as if it were, `CAI_ERR_STREAM_CONTEXT` for a default stream of
/// another context than readers assume, `CAI_ERR_STREAM_STALE` or `CAI_ERR_STREAM_HANDLE` for a
/// stream that was destroyed (if `stream_id` is set), a status of `cai_array_validate` with
/// `CAI_CHECK_LAYOUT`, for a per-thread default stream of another thread, one of
/// `cai_array_produce`, or, for a mask, one of `cai_array_synchronize`.
/// Thread safety: any thread; allocates nothing. Calls the CUDA driver only for default streams,
/// for streams with a `stream_id`, and for masks with another stream than the array.
/// Source: CAI version 3; XGBoost, `c_api.h`.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_array_to_json(
    array: *const cai_array,
    buffer: *mut c_char,
    size: usize,
    out_length: *mut usize,
    error: *mut cai_error,
) -> cai_status {
    arguments!(array: In, output: Output(buffer, size, out_length), error: Out);
    guard(error, || {
        let text = Text::new(array.given("array")?.valid(abi::CAI_CHECK_LAYOUT)?)?;
        output.write(length(|to| text.write(to))?, |to| text.write(to))
    })
}
