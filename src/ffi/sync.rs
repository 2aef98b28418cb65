//! Streams, for C.

use std::mem::MaybeUninit;

use super::guard::{guard, guard_local, unguarded};
use crate::abi::{
    self, CAI_DEVICE_CUDA, CAI_OK, cai_array, cai_error, cai_owner, cai_status, cai_stream,
};
use crate::argument::{In, InOut, List, Out, Reference, arguments};
use crate::device;
use crate::error::{Failure, Result, fail};
use crate::read::{Given, Unchecked};
use crate::sync::consume::{self, Phase};
use crate::sync::deferred::Deferred;
use crate::sync::notify::{self, Kind};
use crate::sync::{policy, produce, release_queue};

/// Reports an event with its result, which it returns.
#[inline]
fn notify_result(
    what: Kind,
    array: Unchecked,
    consumer: cai_stream,
    access: u32,
    result: Result<()>,
) -> Result<()> {
    if notify::is_watched() {
        let status = result.as_ref().map_or_else(Failure::status, |()| 0);
        notify::array(what, array, consumer, access, status);
    }
    result
}

/// More streams than any program has: a larger count is garbage.
const MOST_STREAMS: usize = 1 << 20;

/// Orders streams, unless that is not needed, and reports the event.
#[inline(always)]
fn exchange(
    given: In<cai_array>,
    consumer_stream: cai_stream,
    flags: u32,
    error: Out<cai_error>,
    phase: Phase,
) -> cai_status {
    let same = given.optional().and_then(Given::of_this_size);
    match same.filter(|array| consume::is_plain(array, consumer_stream, flags)) {
        Some(array) if !notify::is_watched() => {
            if consume::is_settled(array, consumer_stream) {
                return CAI_OK;
            }
            exchange_plain(given, consumer_stream, flags, error, phase)
        }
        _ => exchange_any(given, consumer_stream, flags, error, phase),
    }
}

/// Orders streams, for plain arguments that nobody observes.
///
/// Returns a status of `cai_array_consume_begin`.
#[inline(never)]
fn exchange_plain(
    array: In<cai_array>,
    consumer_stream: cai_stream,
    flags: u32,
    error: Out<cai_error>,
    phase: Phase,
) -> cai_status {
    release_queue::progress();
    let mut scratch = MaybeUninit::uninit();
    let same = array.optional().filter(|array| array.of_this_size().is_some());
    let ordered = same
        .and_then(|array| array.unchecked(&mut scratch).ok())
        .and_then(|array| consume::exchange_plain(phase, array, consumer_stream, flags));
    match ordered {
        Some(result) => unguarded(error, || result),
        None => exchange_any(array, consumer_stream, flags, error, phase),
    }
}

/// Orders streams and reports the event.
///
/// Returns a status of `cai_array_consume_begin`.
#[cold]
#[inline(never)]
fn exchange_any(
    array: In<cai_array>,
    consumer_stream: cai_stream,
    flags: u32,
    error: Out<cai_error>,
    phase: Phase,
) -> cai_status {
    guard(error, || {
        let mut scratch = MaybeUninit::uninit();
        let array = array.given("array")?.unchecked(&mut scratch)?;
        let result = consume::exchange(phase, array, consumer_stream, flags);
        let what = if phase == Phase::Begin { Kind::Begin } else { Kind::End };
        notify_result(what, array, consumer_stream, flags, result)
    })
}

/// Makes `consumer_stream` wait for the producer's pending work on an array and its masks. Call it,
/// enqueue the work on `consumer_stream`, then call `cai_array_consume_end`. On failure the
/// consumer must not touch the data. It does not wait for work on a stream that the array does not
/// state: for `CAI_STREAM_UNKNOWN`, as dictionaries before version 3 import it, it waits only for
/// the array's `event`, and without one it returns `CAI_OK` although work may be pending. Use
/// `CAI_SYNC_CONSERVATIVE` or `cai_array_synchronize` then.
///
/// Enqueues an event and a wait, and does not block the host. Makes no driver call if both streams
/// are the same `CUstream`, if the array's stream is `CAI_STREAM_NONE`, or if the array has no
/// elements; for default streams it compares the contexts. If the array has an `event` and is
/// read-only, readers wait for the event instead of the stream, so that several readers can run in
/// parallel.
///
/// `consumer_stream`: `CAI_STREAM_LEGACY` or `CAI_STREAM_PER_THREAD` of the calling thread's
/// current context, or a `CUstream`, also of another context or device than the producer's.
/// `flags`: `CAI_ACCESS_READ`, `CAI_ACCESS_WRITE` or both, and any of `CAI_SYNC_IGNORE`,
/// `CAI_SYNC_CONSERVATIVE`, `CAI_SYNC_THIS_CALL`, `CAI_CAPTURE_JOIN`, `CAI_UNSTABLE_CAPTURE_EXTERNAL`.
///
/// If the array is on `CAI_DEVICE_ROCM` or `CAI_DEVICE_ROCM_HOST`, its stream and `consumer_stream`
/// are each a `hipStream_t`, and the corresponding functions of HIP are called. The default streams
/// are those of HIP's current device.
///
/// An array's default stream is that of its `context`. If that is NULL, it is that of the context
/// that owns the memory (else of the primary context of its device) or of the current one: if these
/// differ, either may be meant, and both are ordered; if only one of them is capturing, the
/// function returns `CAI_ERR_CAPTURE_PRODUCER`. It detects per-thread streams of other threads by
/// `stream_id`. It makes no call on a capturing stream that could invalidate the capture.
///
/// `CAI_SYNC_CONSERVATIVE` makes the whole context wait, which invalidates a capture in it; on
/// drivers without `cuCtxRecordEvent` it blocks the host.
/// `CAI_UNSTABLE_CAPTURE_EXTERNAL` makes each launch of the graph wait for the work that is pending now; an
/// `event` of the array must then outlive the graph, so let the graph keep the owner with
/// `cai_owner_release_after`. If you use `CAI_SYNC_IGNORE`, you are responsible for avoiding data
/// races.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT`, `CAI_ERR_NEWER_CALLER`,
/// `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_FLAGS`, `CAI_ERR_READONLY`, `CAI_ERR_MASK_DEPTH`,
/// `CAI_ERR_STREAM_ZERO`, `CAI_ERR_STREAM_VERSION`, `CAI_ERR_STREAM_DEVICE`,
/// `CAI_ERR_STREAM_HANDLE`, `CAI_ERR_STREAM_STALE`, `CAI_ERR_STREAM_THREAD`,
/// `CAI_ERR_STREAM_DETACHED`, `CAI_ERR_NO_CONTEXT`, `CAI_ERR_CAPTURE_PRODUCER`,
/// `CAI_ERR_CAPTURE_CONSUMER`, `CAI_ERR_CAPTURE_MERGE`, `CAI_ERR_CAPTURE_INVALIDATED`,
/// `CAI_ERR_CAPTURE_LEGACY`, `CAI_ERR_CAPTURE`, `CAI_ERR_ENVIRONMENT`, for an array of a channel
/// `CAI_ERR_IPC_PEER`, with `CAI_UNSTABLE_CAPTURE_EXTERNAL` also `CAI_ERR_THREAD`, or a status of
/// `cai_driver_info_get`.
/// Thread safety: any thread, also several on one array; allocates nothing. Source: CAI version 3,
/// "Interface Requirements"; `cuEventRecord`, `cuStreamWaitEvent`.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_consume_begin(
    array: *const cai_array,
    consumer_stream: cai_stream,
    flags: u32,
    error: *mut cai_error,
) -> cai_status {
    arguments!(array: In, error: Out);
    exchange(array, consumer_stream, flags, error, Phase::Begin)
}

/// Makes the array's stream wait for everything that was enqueued on `consumer_stream`, so that the
/// producer's later work comes after the consumer's. Call it before control returns to code that
/// may let the producer continue.
///
/// Blocks the host only as described for `CAI_SYNC_CONSERVATIVE`. The producer does not wait if the
/// streams are the same, if the array's stream is `CAI_STREAM_NONE`, if it is `CAI_STREAM_UNKNOWN`
/// and `CAI_SYNC_CONSERVATIVE` is not set, or if the array has no elements. Keep the array until
/// the work is done, or release it with `cai_array_release_after`.
///
/// `consumer_stream`, `flags`: the same as in `cai_array_consume_begin`. Call it with the same
/// context current, in which default streams have the same meaning.
///
/// Returns a status of `cai_array_consume_begin`. On failure the producer does not wait:
/// synchronize `consumer_stream` before you return to it.
/// Thread safety: any thread, also several on one array; allocates nothing. Source: CAI version 3,
/// "Interface Requirements": "Placing a wait on an event in the provided stream".
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_consume_end(
    array: *const cai_array,
    consumer_stream: cai_stream,
    flags: u32,
    error: *mut cai_error,
) -> cai_status {
    arguments!(array: In, error: Out);
    exchange(array, consumer_stream, flags, error, Phase::End)
}

/// Blocks the host until the producer's pending work on an array and its masks is done, for
/// consumers that read on the host. If a stream can wait instead, use `cai_array_consume_begin`.
///
/// Release an interpreter's lock before the call: the pending work may need it.
///
/// For `CAI_STREAM_UNKNOWN` it waits for the array's `event`, and without one for every stream of
/// the array's context, which invalidates a capture in it. With `CAI_SYNC_CONSERVATIVE` it waits
/// for the context in either case, and with `CAI_SYNC_IGNORE` for nothing. Contexts and default
/// streams are those of `cai_array_consume_begin`.
///
/// `flags`: as in `cai_array_consume_begin`, `CAI_ACCESS_READ`, `CAI_ACCESS_WRITE` or both included,
/// without `CAI_CAPTURE_` bits.
///
/// Returns a status of `cai_array_consume_begin`, or `CAI_ERR_CAPTURE_HOST` if the stream is
/// capturing.
/// Thread safety: any thread; allocates nothing. Source: CAI version 3, "Interface Requirements";
/// `cuStreamSynchronize`, `cuEventSynchronize`.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_synchronize(
    array: *const cai_array,
    flags: u32,
    error: *mut cai_error,
) -> cai_status {
    arguments!(array: In, error: Out);
    let same = array.optional().and_then(Given::of_this_size);
    if same.is_some_and(|array| consume::is_idle(array, flags)) && !notify::is_watched() {
        return CAI_OK;
    }
    synchronize(array, flags, error)
}

/// Waits and reports the event.
///
/// Returns a status of `cai_array_synchronize`.
#[cold]
#[inline(never)]
fn synchronize(array: In<cai_array>, flags: u32, error: Out<cai_error>) -> cai_status {
    guard(error, || {
        let mut scratch = MaybeUninit::uninit();
        let array = array.given("array")?.unchecked(&mut scratch)?;
        let result = consume::synchronize(array, flags);
        notify_result(Kind::Synchronize, array, abi::CAI_STREAM_NONE, flags, result)
    })
}

/// Makes `export_stream` wait for all pending work on the data, and writes the stream into an array
/// that is about to be exported. A consumer that waits for `export_stream` then waits for all of
/// the work.
///
/// `array`: only `stream`, `stream_id`, `context` and `event` are written, on success only. If
/// `count` is 0, nothing is pending: `stream` becomes `CAI_STREAM_NONE`, `stream_id` 0 and `event`
/// NULL. If `event` is not NULL, it is recorded on `export_stream`, unless that stream is
/// capturing. The producer creates the event in the context of `export_stream`, and the array's
/// owner keeps it alive.
/// `streams`, `count`: the streams on which work on the data may be pending, in any order,
/// `export_stream` included or not. If consumers may write to the data, include the streams of work
/// that reads it. Default streams are those of the calling thread's current context.
/// `export_stream`: the stream that consumers synchronize with. It waits for the others by events;
/// the host never blocks. It must not be 0, even if `count` is 0. The array's owner must keep the
/// stream alive: see `cai_array_attach`.
/// `flags`: 0 or any of `CAI_SYNC_EXPORT_NONE`, `CAI_SYNC_THIS_CALL`, `CAI_CAPTURE_JOIN`,
/// `CAI_UNSTABLE_CAPTURE_EXTERNAL`.
///
/// If you will reuse an idle buffer on stream `s`, export it with `s`, not with `CAI_STREAM_NONE`:
/// only then can consumers make `s` wait for them.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT`, `CAI_ERR_NEWER_CALLER`,
/// `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_FLAGS`, `CAI_ERR_VERSION`, `CAI_ERR_STREAM_ZERO`,
/// `CAI_ERR_STREAM_HANDLE`, `CAI_ERR_STREAM_DETACHED`, `CAI_ERR_NO_CONTEXT`,
/// `CAI_ERR_CAPTURE_STREAMS`, `CAI_ERR_CAPTURE_MERGE`, `CAI_ERR_CAPTURE_INVALIDATED`,
/// `CAI_ERR_CAPTURE_LEGACY`, `CAI_ERR_CAPTURE`, `CAI_ERR_ENVIRONMENT`, with `CAI_UNSTABLE_CAPTURE_EXTERNAL`
/// also `CAI_ERR_THREAD`, or a status of `cai_driver_info_get`.
/// Thread safety: any thread, but not two on one structure at once; allocates nothing. Source: CAI
/// version 3, "Interface Requirements".
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_produce(
    array: *mut cai_array,
    streams: *const cai_stream,
    count: usize,
    export_stream: cai_stream,
    flags: u32,
    error: *mut cai_error,
) -> cai_status {
    arguments!(array: InOut, streams: List(streams, count.min(MOST_STREAMS)), error: Out);
    guard(error, || {
        array.input().given("array")?;
        let streams = streams.given("streams")?;
        if count > MOST_STREAMS {
            return fail!(CAI_ERR_ARGUMENT, "count";
                found "{count}"; expected "at most {MOST_STREAMS}");
        }
        let mut structure = array.given("array")?;
        let mut local = structure.input().array()?;
        let result = produce::produce(&mut local, streams, export_stream, flags);
        if result.is_ok() {
            structure.set_stream(&local);
        }
        if !notify::is_watched() {
            return result;
        }
        let mut scratch = MaybeUninit::uninit();
        let array = structure.input().unchecked(&mut scratch)?;
        notify_result(Kind::Export, array, local.stream, consume::access(&local), result)
    })
}

/// Releases a reference to an owner after the work that is enqueued on `stream` so far, without
/// blocking. For consumers that are done with an array while their kernels still read it.
///
/// The first call starts a thread of the library, which queries an event periodically and then
/// releases the owner. `destroy` then runs on that thread, with no current context, and delays
/// other releases while it runs. It never runs inside a callback of the driver. If `stream` is
/// capturing, the owner is released after the work that was enqueued before the capture, and after
/// the graph and every executable graph made from it are destroyed; until the owner is released, a
/// non-blocking stream must not be destroyed. If the device is lost or the context destroyed, the
/// owner is released, because nothing runs any more. Any other failure of the driver leaves the
/// reference pending, and the driver is asked again. If the thread
/// ended and cannot be started again, later calls try to; those that release an owner do its work
/// instead, on the calling thread. References that are still pending when the process exits are not
/// released; a `destroy` that runs while it exits may find that the driver has shut down
/// (`CUDA_ERROR_DEINITIALIZED`). From when a Python in the process begins to end, and until one
/// begins again, the thread releases nothing, because a `destroy` may be a Python function: what
/// is due then is never released.
///
/// `stream`: as `consumer_stream` in `cai_array_consume_begin`, of CUDA; for HIP see
/// `cai_array_release_after`. For `CAI_STREAM_NONE` the owner is released at once.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT`, `CAI_ERR_OWNER_OPS`,
/// `CAI_ERR_STREAM_ZERO`, `CAI_ERR_STREAM_HANDLE`, `CAI_ERR_STREAM_DETACHED`, `CAI_ERR_NO_CONTEXT`,
/// `CAI_ERR_CAPTURE_INVALIDATED`, `CAI_ERR_CAPTURE_LEGACY`, `CAI_ERR_CAPTURE`, `CAI_ERR_THREAD`,
/// `CAI_ERR_NO_MEMORY`, or a status of `cai_driver_info_get`. On failure the caller still has the
/// reference.
/// Thread safety: any thread; allocates only while the library's lists grow: for a second pending
/// reference to one owner, for an owner of another library, and for a capturing stream. Source: CAI
/// version 3, "Lifetime management"; `cuUserObjectCreate`.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_owner_release_after(
    owner: *mut cai_owner,
    stream: cai_stream,
    error: *mut cai_error,
) -> cai_status {
    arguments!(owner: Reference, error: Out);
    guard(error, || {
        let owner = owner.given("owner")?;
        release_queue::progress_here();
        release_after(owner, CAI_DEVICE_CUDA, stream)
    })
}

fn release_after(owner: Reference, device_type: i32, stream: cai_stream) -> Result<()> {
    let identity = owner.as_ptr().cast();
    // Afterwards the owner may be destroyed, so only its address is used.
    let result = owner.adopt().map(Deferred::new).and_then(|owner| {
        // On failure, the caller keeps the reference.
        release_queue::release_after(owner, device_type, stream, true)
            .map_err(|(failure, _)| failure)
    });
    // The observer watches CUDA's streams alone.
    if notify::is_watched() && !device::is_rocm(device_type) {
        notify::release_after(
            identity,
            stream,
            result.as_ref().map_or_else(Failure::status, |()| 0),
        );
    }
    result
}

/// Releases the reference of an array after the work that is enqueued on `stream` so far, as
/// `cai_owner_release_after`, and clears the structure, as `cai_array_release`. An array without an
/// owner is only cleared. If the array is on a ROCm device, `stream` is a `hipStream_t`.
///
/// Returns a status of `cai_owner_release_after`, or `CAI_ERR_STRUCT_SIZE`. On failure the
/// structure is unchanged.
/// Thread safety: any thread, but not two on one structure at once; allocates as
/// `cai_owner_release_after`.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_release_after(
    array: *mut cai_array,
    stream: cai_stream,
    error: *mut cai_error,
) -> cai_status {
    arguments!(array: InOut, error: Out);
    guard(error, || {
        // The structure may be part of what the owner frees, at once or on another thread. So it is
        // cleared before, and restored if the reference was not given up.
        let before = array.given("array")?.take();
        if !before.owner.is_given() {
            return Ok(());
        }
        release_queue::progress_here();
        let result = release_after(before.owner, before.device_type, stream);
        if result.is_err() {
            // SAFETY: the reference was not given up.
            unsafe { before.members.restore() };
        }
        result
    })
}

/// Disables or extends synchronization for the whole process, and overrides the environment
/// variable `CAI_SYNC`. If you set a bit, you are responsible for avoiding data races.
///
/// `policy`: 0, the default, follows the specification. Otherwise any of `CAI_SYNC_IGNORE`,
/// `CAI_SYNC_EXPORT_NONE` and `CAI_SYNC_CONSERVATIVE`. In the environment they are called `ignore`,
/// `export-none` and `conservative`, separated by commas; `0` means the first two.
///
/// Each copy of the library in a process has its own setting; the environment applies to all of
/// them.
///
/// Returns `CAI_OK`, `CAI_ERR_ARGUMENT` or `CAI_ERR_NEWER_CALLER`.
/// Thread safety: any thread; calls in progress may use the old setting. Source: CAI version 3,
/// "Synchronization", "Design Motivations", 3.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_sync_policy_set(
    policy: u32,
    error: *mut cai_error,
) -> cai_status {
    arguments!(error: Out);
    guard_local(error, || policy::set(policy))
}

/// Reports the setting of `cai_sync_policy_set`, or of the environment.
///
/// `out`: written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT` or `CAI_ERR_ENVIRONMENT`.
/// Thread safety: any thread.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_sync_policy_get(
    out: *mut u32,
    error: *mut cai_error,
) -> cai_status {
    arguments!(out: Out, error: Out);
    guard_local(error, || out.fill("out", policy::process))
}
