//! Order of many arrays at once, for C.

use super::super::guard::guard;
use crate::abi::{cai_array, cai_error, cai_status, cai_stream};
use crate::argument::{List, Out, arguments};
use crate::sync::many;

/// Makes `consumer_stream` wait for the producers' pending work on many arrays and their masks, as
/// `cai_array_consume_begin` for each of them. Arrays with the same stream cost one event and one
/// wait as long as arrays of at most 8 streams alternate; then a stream is ordered again.
///
/// `arrays`, `count`: pointers to arrays, in any order, of any version and device; the same one may
/// occur twice. `arrays` may be NULL if `count` is 0.
/// `consumer_stream`, `flags`: as in `cai_array_consume_begin`, the same for all arrays.
///
/// On failure the consumer must not touch the data of any of the arrays, and no end is needed:
/// `error->field` begins with the first array that failed (`arrays[17].stream`).
///
/// Returns a status of `cai_array_consume_begin`.
/// Thread safety: any thread, also several on one array; allocates nothing. Source: CAI version 3,
/// "Interface Requirements"; `cuEventRecord`, `cuStreamWaitEvent`.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_arrays_consume_begin(
    arrays: *const *const cai_array,
    count: usize,
    consumer_stream: cai_stream,
    flags: u32,
    error: *mut cai_error,
) -> cai_status {
    arguments!(arrays: List(arrays.cast(), count), error: Out);
    guard(error, || many::begin(arrays.given("arrays")?, consumer_stream, flags))
}

/// Makes the streams of many arrays and of their masks wait for everything that was enqueued on
/// `consumer_stream`, as `cai_array_consume_end` for each of them, with one event for each stream as
/// in `cai_unstable_arrays_consume_begin`.
///
/// `arrays`, `count`, `consumer_stream`, `flags`: those of `cai_unstable_arrays_consume_begin`.
///
/// A failure does not end the call: the streams of the other arrays wait all the same.
/// `error->field` begins with the first array that failed. Synchronize `consumer_stream` before
/// control returns to its producer.
///
/// Returns a status of `cai_array_consume_begin`.
/// Thread safety: any thread, also several on one array; allocates nothing. Source: CAI version 3,
/// "Interface Requirements": "Placing a wait on an event in the provided stream".
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_arrays_consume_end(
    arrays: *const *const cai_array,
    count: usize,
    consumer_stream: cai_stream,
    flags: u32,
    error: *mut cai_error,
) -> cai_status {
    arguments!(arrays: List(arrays.cast(), count), error: Out);
    guard(error, || many::end(arrays.given("arrays")?, consumer_stream, flags))
}

/// Blocks the host until the producers' pending work on many arrays and their masks is done, as
/// `cai_array_synchronize` for each of them. Waits once for each stream, event or context as long as
/// arrays of at most 8 of them alternate.
///
/// Release an interpreter's lock before the call: the pending work may need it.
///
/// `arrays`, `count`: as in `cai_unstable_arrays_consume_begin`.
/// `flags`: as in `cai_array_synchronize`.
///
/// On failure work may be pending on any of the arrays; `error->field` begins with the first array
/// that failed.
///
/// Returns a status of `cai_array_synchronize`.
/// Thread safety: any thread; allocates nothing. Source: CAI version 3, "Interface Requirements";
/// `cuStreamSynchronize`, `cuEventSynchronize`.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_arrays_synchronize(
    arrays: *const *const cai_array,
    count: usize,
    flags: u32,
    error: *mut cai_error,
) -> cai_status {
    arguments!(arrays: List(arrays.cast(), count), error: Out);
    guard(error, || many::synchronize(arrays.given("arrays")?, flags))
}
