//! Copies to and from the host, and bytes for others who copy, for C.

use std::ffi::c_void;

use super::super::guard::guard;
use crate::abi::{self, cai_array, cai_error, cai_status, cai_stream};
use crate::argument::{Buffer, In, List, Out, arguments};
use crate::copy::{self, bytes};
use crate::error::{Result, fail};

const FLAGS: u32 = abi::CAI_SYNC_IGNORE | abi::CAI_SYNC_CONSERVATIVE | abi::CAI_SYNC_THIS_CALL;

fn known(flags: u32) -> Result<()> {
    if flags & !FLAGS != 0 {
        return fail!(CAI_ERR_NEWER_CALLER, "flags";
            found "{flags:#x}";
            expected "0, or CAI_SYNC_IGNORE, CAI_SYNC_CONSERVATIVE, CAI_SYNC_THIS_CALL");
    }
    Ok(())
}

/// Copies an array to host memory, in C order, after the work that is pending on it. Gaps between
/// elements are not read. The driver copies the rows; if the elements are then not in C order, the
/// host reorders them.
///
/// | array | `stream` | `buffer` | the call |
/// |---|---|---|---|
/// | device or managed memory | `CAI_STREAM_NONE` | any | blocks; uses a stream of its own |
/// | device or managed memory | another | page-locked | enqueues the copies and returns |
/// | device or managed memory | another | NULL or pageable | blocks until the stream is done |
/// | host memory | any | any | blocks for the pending work; the host copies |
///
/// If the host has to put the copies in order, the call blocks until they are done.
///
/// `array`: must pass `cai_array_validate` with `CAI_CHECK_LAYOUT`; a borrowed one is accepted.
/// `stream`: waits for the pending work, and the array's stream then waits for it, as with
/// `cai_array_consume_begin` and `cai_array_consume_end`. Default streams are those of the calling
/// thread's current context. `CAI_STREAM_NONE` copies on a stream of its own. If the array's stream
/// is `CAI_STREAM_UNKNOWN`, and `stream` is not being captured, the copy waits for the array's
/// `event`, and without one for every stream of its context.
/// `flags`: 0 or any of `CAI_SYNC_IGNORE`, `CAI_SYNC_CONSERVATIVE`, `CAI_SYNC_THIS_CALL`.
/// `buffer`, `size`: host memory for the copy, of at least `nbytes` of `cai_array_layout`, of any
/// alignment, that does not overlap the array. NULL with a `size` of 0 allocates it, aligned to 64
/// bytes.
/// `out`: must be initialized (`CAI_ARRAY_INIT`), hold no reference, which would be lost, and not
/// be `array`. A writable array of the same type and shape, without strides. Its `device` is
/// `CAI_DEVICE_CPU`, and its `stream` is `CAI_STREAM_NONE`. If the copies are still pending, its
/// device is `CAI_DEVICE_CUDA_HOST`, and its stream is `stream`: call `cai_array_synchronize`
/// before you read it, and keep `array` and `buffer` until then. Its owner owns the memory that was
/// allocated, never `buffer`. Written on success only; release it with `cai_array_release`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT`, `CAI_ERR_NEWER_CALLER`,
/// `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_STREAM_ZERO`, `CAI_ERR_BUFFER_SIZE`, `CAI_ERR_CONVERT_MASK`,
/// `CAI_ERR_CONVERT_DEVICE` for another device than CUDA's, `CAI_ERR_CAPTURE_HOST` if a stream is
/// being captured and the call would block, `CAI_ERR_NO_MEMORY`, a status of `cai_array_validate`,
/// of `cai_array_consume_begin`, or of `cai_array_synchronize`. After a failure, no copy is
/// pending; the buffer may have been written, and a capture may contain some of the copies.
/// Thread safety: any thread. Allocates one block, and others for a new buffer and for copies that
/// the host puts in order. Source: CUDA driver API, `cuMemcpyDtoHAsync`, `cuMemcpy2DAsync`.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_array_copy_to_host(
    array: *const cai_array,
    stream: cai_stream,
    flags: u32,
    buffer: *mut c_void,
    size: usize,
    out: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    arguments!(array: In, bytes: Buffer(buffer.cast::<u8>(), size), out: Out, error: Out);
    guard(error, || {
        let given = array.given("array")?;
        given.array()?;
        let out = out.array("out")?;
        known(flags)?;
        bytes.given(size, "buffer")?;
        out.differs_from(array, "array")?;
        let valid = given.valid(abi::CAI_CHECK_LAYOUT)?;
        // SAFETY: the data is alive and the buffer writable by the caller's contract.
        out.give(unsafe { copy::to_host(&valid, stream, flags, buffer, size) }?);
        Ok(())
    })
}

/// Copies host memory, in C order, to the elements of an array, after the work that is pending on
/// it: the inverse of `cai_unstable_array_copy_to_host`. Gaps between elements are not written.
///
/// | array | `stream` | `buffer` | the call |
/// |---|---|---|---|
/// | device or managed memory | `CAI_STREAM_NONE` | any | blocks; uses a stream of its own |
/// | device or managed memory | another | page-locked | enqueues the copies and returns |
/// | device or managed memory | another | pageable | blocks until the stream is done |
/// | host memory | any | any | blocks for the pending work; the host copies |
///
/// If rows of the array are not in C order, the host puts the elements in order first, and the call
/// blocks until the copies are done.
///
/// `array`: must be writable and pass `cai_array_validate` with `CAI_CHECK_LAYOUT`; a borrowed one
/// is accepted. No two elements may share bytes. A stride of 0 and neighbours that overlap are
/// refused; if others share bytes, either may be written last.
/// `stream`: waits for the pending work, and the array's stream then waits for it, as with
/// `cai_array_consume_begin` and `cai_array_consume_end`. Default streams are those of the calling
/// thread's current context. `CAI_STREAM_NONE` copies on a stream of its own. For the array's
/// `CAI_STREAM_UNKNOWN` see `cai_unstable_array_copy_to_host`.
/// `flags`: 0 or any of `CAI_SYNC_IGNORE`, `CAI_SYNC_CONSERVATIVE`, `CAI_SYNC_THIS_CALL`.
/// `buffer`, `size`: host memory with at least `nbytes` of `cai_array_layout`, of any alignment,
/// that does not overlap the array; NULL with a `size` of 0 for an array without elements.
/// Page-locked memory must not change before `stream` has read it.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT` for `CAI_STREAM_UNKNOWN`, a stride
/// of 0 and neighbours that overlap, `CAI_ERR_NEWER_CALLER`, `CAI_ERR_STRUCT_SIZE`,
/// `CAI_ERR_READONLY`, `CAI_ERR_STREAM_ZERO`, `CAI_ERR_BUFFER_SIZE`, `CAI_ERR_CONVERT_MASK`,
/// `CAI_ERR_CONVERT_DEVICE` for another device than CUDA's, `CAI_ERR_CAPTURE_HOST` if a stream is
/// being captured and the call would block, `CAI_ERR_NO_MEMORY`, a status of `cai_array_validate`,
/// of `cai_array_consume_begin`, or of `cai_array_synchronize`. After a failure, no copy is
/// pending; the array may have been written in part, and a capture may contain some of the copies.
/// Thread safety: any thread; allocates only for elements that the host puts in order. Source: CUDA
/// driver API, `cuMemcpyHtoDAsync`, `cuMemcpy2DAsync`.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_array_copy_from_host(
    array: *const cai_array,
    stream: cai_stream,
    flags: u32,
    buffer: *const c_void,
    size: usize,
    error: *mut cai_error,
) -> cai_status {
    arguments!(array: In, bytes: List(buffer.cast::<u8>(), size), error: Out);
    guard(error, || {
        let given = array.given("array")?;
        given.array()?;
        known(flags)?;
        bytes.given("buffer")?;
        let valid = given.valid(abi::CAI_CHECK_LAYOUT)?;
        // SAFETY: the data is alive and the buffer readable by the caller's contract.
        unsafe { copy::from_host(&valid, stream, flags, buffer, size) }
    })
}

/// Waits for the pending work on an array and reports the address and the number of bytes of its
/// elements, for code that moves memory itself: to a network, a file or a cache.
///
/// | `stream` | `event` | the call |
/// |---|---|---|
/// | `CAI_STREAM_NONE` | NULL | blocks the host, as `cai_array_synchronize` |
/// | another | NULL | makes the stream wait, as `cai_array_consume_begin` |
/// | another | an event | the same, and records the event on it: poll the event, outside of a capture |
///
/// After a move on a stream, call `cai_array_consume_end`. After one that the host knows to be done,
/// nothing is needed. Keep the array until then. Release an interpreter's lock before a call that
/// blocks.
///
/// `array`: must pass `cai_array_validate` with `CAI_CHECK_LAYOUT`, and be C- or
/// Fortran-contiguous, so that its elements fill one block; a borrowed one is accepted. If its
/// stream is `CAI_STREAM_UNKNOWN`, the call waits for its `event`, and without one for every stream
/// of its context.
/// `event`: NULL, or a `CUevent` of the stream's context, which stays the caller's.
/// `flags`: as in `cai_array_consume_begin`, `CAI_ACCESS_WRITE` to receive into the array. No
/// `CAI_CAPTURE_` bits if `stream` is `CAI_STREAM_NONE`, or with an event.
/// `address`, `nbytes`: need no initialization; written on success only. An array without elements
/// has NULL and 0.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT` for an event without a stream,
/// `CAI_ERR_CONVERT_MASK`, `CAI_ERR_CONVERT_DEVICE` for memory that has no addresses,
/// `CAI_ERR_CONVERT_TYPE` for Python objects, `CAI_ERR_CONVERT_CONTIGUOUS`, a status of
/// `cai_array_validate`, of `cai_array_consume_begin`, or of `cai_array_synchronize`.
/// Thread safety: any thread, also several on one array; allocates nothing unless a list has more
/// than 32 fields. Source: CAI version 3, "Interface Requirements"; `cuEventRecord`.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_array_bytes(
    array: *const cai_array,
    stream: cai_stream,
    event: *mut c_void,
    flags: u32,
    address: *mut *mut c_void,
    nbytes: *mut i64,
    error: *mut cai_error,
) -> cai_status {
    arguments!(array: In, address: Out, nbytes: Out, error: Out);
    guard(error, || {
        let array = array.given("array")?;
        let (address, nbytes) = (address.given("address")?, nbytes.given("nbytes")?);
        let array = array.valid(abi::CAI_CHECK_LAYOUT)?;
        let bytes = bytes::of(&array)?;
        // SAFETY: the event is NULL or the stream's by the caller's contract.
        unsafe { bytes::wait(&array, stream, event, flags) }?;
        address.write(bytes.address);
        nbytes.write(bytes.count);
        Ok(())
    })
}
