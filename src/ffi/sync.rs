//! Streams, for C.
//!
//! May use: `abi`, `error`, `ffi::array`, `ffi::guard`, `ffi::ptr`, `read`, `sync::consume`,
//! `sync::notify`, `sync::policy`, `sync::produce`, `sync::release_queue`.
//! Unsafe: follows a caller's pointers, whose contract the C documentation states.

use std::ptr::null_mut;

use super::guard::{guard, guard_local};
use super::ptr::given;
use crate::abi::{CAI_OK, cai_array, cai_error, cai_owner, cai_status, cai_stream};
use crate::error::{Failure, Result, fail};
use crate::read;
use crate::sync::consume::{self, Phase};
use crate::sync::notify::{self, Kind};
use crate::sync::{policy, produce, release_queue};

/// Tells the race checker, if there is one, and hands the result on.
///
/// # Safety
/// As for [`notify::array`].
#[inline]
unsafe fn told(
    what: Kind,
    array: *const cai_array,
    consumer: cai_stream,
    access: u32,
    result: Result<()>,
) -> Result<()> {
    if notify::is_watched() {
        let status = result.as_ref().map_or_else(Failure::status, |()| 0);
        // SAFETY: the header requires of the caller what this function requires.
        unsafe { notify::array(what, array, consumer, access, status) };
    }
    result
}

/// More streams than any program has: a larger count is garbage.
const MOST_STREAMS: usize = 1 << 20;

/// The long way of begin and end.
///
/// # Safety
/// As for [`consume::exchange`]; `error` is NULL or writable.
#[inline(never)]
unsafe fn exchange(
    phase: Phase,
    array: *const cai_array,
    consumer_stream: cai_stream,
    flags: u32,
    error: *mut cai_error,
) -> cai_status {
    guard(error, || {
        given(array, "array")?;
        // SAFETY: not NULL (checked above); the header requires the rest of the caller.
        let result = unsafe { consume::exchange(phase, array, consumer_stream, flags) };
        let what = if phase == Phase::Begin { Kind::Begin } else { Kind::End };
        // SAFETY: the header requires of the caller what this function requires.
        unsafe { told(what, array, consumer_stream, flags, result) }
    })
}

/// Before a consumer's work: makes `consumer_stream` wait for the work that the producer has pending on the
/// array, its masks included. Call it, enqueue the work on `consumer_stream`, call `cai_array_consume_end`.
///
/// It enqueues an event and a wait and never blocks the host. It does nothing at all where the two streams are
/// the same, where the array's stream is `CAI_STREAM_NONE`, or where the array has no elements. Where the array
/// has an `event`, a reader waits for that alone, so that several read at once; a writer waits for them all.
///
/// `consumer_stream`: 1 (legacy default), 2 (per-thread default), both of the calling thread's current context,
/// or a `CUstream`; it may be of another context or device than the producer's. 0 is refused, for it could mean
/// either default stream: see `cai_inline_stream`.
/// `flags`: `CAI_ACCESS_READ`, `CAI_ACCESS_WRITE` or both; and `CAI_SYNC_IGNORE`, `CAI_SYNC_CONSERVATIVE`,
/// `CAI_SYNC_THIS_CALL`, `CAI_CAPTURE_JOIN`, `CAI_CAPTURE_EXTERNAL` as wanted.
///
/// The context of the array's default stream is its `context`; where that is NULL, the one that owns the memory;
/// else the primary one of its device; else the current one. The per-thread stream of another thread is found
/// out by `stream_id`. A stream that is being captured is never asked or told anything that could break its
/// capture.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_FLAGS`,
/// `CAI_ERR_READONLY`, `CAI_ERR_STREAM_ZERO`, `CAI_ERR_STREAM_VERSION`, `CAI_ERR_STREAM_DEVICE`,
/// `CAI_ERR_STREAM_HANDLE`, `CAI_ERR_STREAM_STALE`, `CAI_ERR_STREAM_THREAD`, `CAI_ERR_STREAM_DETACHED`,
/// `CAI_ERR_NO_CONTEXT`, `CAI_ERR_CAPTURE_PRODUCER`, `CAI_ERR_CAPTURE_CONSUMER`, `CAI_ERR_CAPTURE_MERGE`,
/// `CAI_ERR_CAPTURE_INVALIDATED`, `CAI_ERR_CAPTURE_LEGACY`, `CAI_ERR_CAPTURE`, `CAI_ERR_MASK_DEPTH`,
/// `CAI_ERR_ENVIRONMENT`, or what the driver may answer to any call (`cai_driver_info_get`). With
/// `CAI_CAPTURE_EXTERNAL` also `CAI_ERR_THREAD`. On failure the consumer must not touch the data.
/// Thread safety: any thread, also several on one array; allocates nothing. Source: CAI version 3, "Interface
/// Requirements"; `cuEventRecord`, `cuStreamWaitEvent`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_consume_begin(
    array: *const cai_array,
    consumer_stream: cai_stream,
    flags: u32,
    error: *mut cai_error,
) -> cai_status {
    // SAFETY: the header requires of the caller what this function requires.
    if unsafe { consume::is_fast_path(Phase::Begin, array, consumer_stream, flags) }
        && !notify::is_watched()
    {
        return CAI_OK;
    }
    // SAFETY: the header requires of the caller what this function requires.
    unsafe { exchange(Phase::Begin, array, consumer_stream, flags, error) }
}

/// After a consumer's work: makes the array's stream wait for all that was enqueued on `consumer_stream`, so
/// that whatever the producer enqueues next comes after it. Call it before control goes back to whoever may make
/// the producer go on. After a write, the array's `event`, if it has one, is recorded again.
///
/// Never blocks the host. Does nothing where the streams are the same, and nothing for `CAI_STREAM_NONE`: such
/// an array has no stream that could wait. Its owner still has to outlive the work: `cai_owner_release_after`.
///
/// `consumer_stream`, `flags`: as for `cai_array_consume_begin`, and the same as there.
///
/// Returns what `cai_array_consume_begin` returns. On failure the producer is not held back: synchronize
/// `consumer_stream` before going on.
/// Thread safety: any thread, also several on one array; allocates nothing. Source: CAI version 3, "Interface
/// Requirements": "Placing a wait on an event in the provided stream".
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_consume_end(
    array: *const cai_array,
    consumer_stream: cai_stream,
    flags: u32,
    error: *mut cai_error,
) -> cai_status {
    // SAFETY: the header requires of the caller what this function requires.
    if unsafe { consume::is_fast_path(Phase::End, array, consumer_stream, flags) }
        && !notify::is_watched()
    {
        return CAI_OK;
    }
    // SAFETY: the header requires of the caller what this function requires.
    unsafe { exchange(Phase::End, array, consumer_stream, flags, error) }
}

/// Blocks the host until the work that the producer has pending on the array and its masks is done: for
/// consumers that read on the host. Where an event would do, `cai_array_consume_begin` is faster.
///
/// Release an interpreter's lock before: the work that it waits for may need it.
///
/// `flags`: as for `cai_array_consume_begin`, without the bits about captures.
///
/// Returns what `cai_array_consume_begin` returns, and `CAI_ERR_CAPTURE_HOST` where the stream is being captured, which
/// no host can wait for.
/// Thread safety: any thread; allocates nothing. Source: CAI version 3, "Interface Requirements";
/// `cuStreamSynchronize`, `cuEventSynchronize`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_synchronize(
    array: *const cai_array,
    flags: u32,
    error: *mut cai_error,
) -> cai_status {
    guard(error, || {
        given(array, "array")?;
        // SAFETY: not NULL (checked above); the header requires the rest of the caller.
        let result = unsafe { consume::synchronize(array, flags) };
        // SAFETY: the header requires of the caller what this function requires.
        unsafe { told(Kind::Synchronize, array, crate::abi::CAI_STREAM_NONE, flags, result) }
    })
}

/// Before a producer hands out an array: makes waiting for `export_stream` enough to wait for all work that is
/// pending on the data, and writes into the array what consumers need to know.
///
/// `array`: `stream`, `stream_id` and `context` are written, on success only. With no streams nothing is
/// pending: `stream` becomes `CAI_STREAM_NONE`, `stream_id` 0 and `event` NULL. An `event` that is set beforehand is recorded on
/// `export_stream` (unless that is being captured): then consumers can read at once. The event is the producer's:
/// made in the context of `export_stream`, kept alive by the owner.
/// `streams`, `count`: the streams on which work on the data may be pending, in any order; where consumers may
/// write, reads count too. 1 and 2 are those of the calling thread's current context. `export_stream` may be
/// among them.
/// `export_stream`: the stream that consumers are told. It waits for the others by events; the host never blocks.
/// Looked at only where `count` is not 0. The array's owner must keep it alive: see `cai_array_attach`.
/// `flags`: 0, or `CAI_SYNC_EXPORT_NONE`, `CAI_SYNC_THIS_CALL`, `CAI_CAPTURE_JOIN`, `CAI_CAPTURE_EXTERNAL`.
///
/// An idle buffer that will be reused on a stream is better exported with that stream than with none: consumers
/// then hold the stream back until they are done.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_VERSION`,
/// `CAI_ERR_STREAM_ZERO`, `CAI_ERR_STREAM_HANDLE`, `CAI_ERR_STREAM_DETACHED`, `CAI_ERR_NO_CONTEXT`,
/// `CAI_ERR_CAPTURE_STREAMS`, `CAI_ERR_CAPTURE_MERGE`, `CAI_ERR_CAPTURE_INVALIDATED`,
/// `CAI_ERR_CAPTURE_LEGACY`, `CAI_ERR_CAPTURE`, `CAI_ERR_ENVIRONMENT`, with `CAI_CAPTURE_EXTERNAL` also
/// `CAI_ERR_THREAD`, or what the driver may answer to any call (`cai_driver_info_get`).
/// Thread safety: any thread, but not two on one structure at once; allocates nothing. Source: CAI version 3,
/// "Interface Requirements": streams 7, 9 and 15 into 3.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_produce(
    array: *mut cai_array,
    streams: *const cai_stream,
    count: usize,
    export_stream: cai_stream,
    flags: u32,
    error: *mut cai_error,
) -> cai_status {
    guard(error, || {
        given(array, "array")?;
        if count > 0 {
            given(streams, "streams")?;
        }
        if count > MOST_STREAMS {
            return fail!(
                CAI_ERR_ARGUMENT,
                "count",
                found = "{count}",
                expected = "at most {MOST_STREAMS}"
            );
        }
        // SAFETY: not NULL (checked above); the header requires the rest of the caller.
        let size = unsafe { read::array_size(array) }?;
        // SAFETY: not NULL if `count > 0` (checked above), with `count` readable values as the
        // header requires.
        let streams = unsafe { read::values(streams, count) };
        // SAFETY: not NULL (checked above); the header requires the rest of the caller.
        let mut local = unsafe { read::array(array) }?;
        let result = produce::produce(&mut local, streams, export_stream, flags);
        if result.is_ok() {
            // SAFETY: the caller's structure has `size` writable bytes, which it stated.
            unsafe { super::ptr::write_array(array, size, &local) };
        }
        if notify::is_watched() {
            let access = crate::abi::CAI_ACCESS_READ
                | if local.flags & crate::abi::CAI_ARRAY_READONLY == 0 {
                    crate::abi::CAI_ACCESS_WRITE
                } else {
                    0
                };
            let status = result.as_ref().map_or_else(Failure::status, |()| 0);
            // SAFETY: the header requires of the caller what this function requires.
            unsafe { notify::array(Kind::Export, array, local.stream, access, status) };
        }
        result
    })
}

/// Gives up a reference to an owner once the work enqueued on `stream` so far is done, without blocking: for
/// consumers that are finished with an array while their kernels still read it.
///
/// A thread of the library, started by the first call, asks the driver for an event and then releases the
/// owner, so its destroy function runs on that thread, on which no context is current; a slow one delays the others. It
/// never runs inside a callback of the driver. Where `stream` is
/// being captured, the graph keeps the owner, until it and every executable graph made from it are gone. Where the
/// device is lost or the context destroyed, the owner is released: nothing runs any more. What is still
/// pending when the process exits is not released.
///
/// `stream`: as the `consumer_stream` of `cai_array_consume_begin`; with `CAI_STREAM_NONE` the owner is released at once.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_OWNER_OPS`, `CAI_ERR_ARGUMENT`, `CAI_ERR_STREAM_ZERO`,
/// `CAI_ERR_STREAM_HANDLE`, `CAI_ERR_STREAM_DETACHED`, `CAI_ERR_NO_CONTEXT`, `CAI_ERR_CAPTURE_INVALIDATED`,
/// `CAI_ERR_CAPTURE_LEGACY`, `CAI_ERR_CAPTURE`, `CAI_ERR_THREAD`, `CAI_ERR_NO_MEMORY`, or what the driver may
/// answer to any call (`cai_driver_info_get`). On failure the reference is still the caller's.
/// Thread safety: any thread; allocates nothing once the library's lists are long enough, but for a captured
/// stream. Source: CAI version 3, "Lifetime management"; `cuUserObjectCreate`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_owner_release_after(
    owner: *mut cai_owner,
    stream: cai_stream,
    error: *mut cai_error,
) -> cai_status {
    guard(error, || {
        given(owner, "owner")?;
        // SAFETY: not NULL (checked above), and alive as the header requires.
        unsafe { release_after(owner, stream) }
    })
}

/// # Safety
/// As for [`release_queue::release_after`].
unsafe fn release_after(owner: *mut cai_owner, stream: cai_stream) -> Result<()> {
    let identity = owner.cast_const().cast();
    // SAFETY: the owner is alive (this function's contract). Afterwards it may be destroyed, so
    // only its address is used.
    let result = unsafe { release_queue::release_after(owner, stream) };
    if notify::is_watched() {
        notify::release_after(
            identity,
            stream,
            result.as_ref().map_or_else(Failure::status, |()| 0),
        );
    }
    result
}

/// The same for the reference that an array holds, and clears the structure as `cai_array_release` does. An
/// array without an owner is just cleared.
///
/// Returns what `cai_owner_release_after` returns, and `CAI_ERR_STRUCT_SIZE`. On failure the structure is as it was.
/// Thread safety: any thread, but not two on one structure at once.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_release_after(
    array: *mut cai_array,
    stream: cai_stream,
    error: *mut cai_error,
) -> cai_status {
    guard(error, || {
        given(array, "array")?;
        // SAFETY: not NULL (checked above); the header requires the rest of the caller.
        unsafe { read::array_size(array) }?;
        // SAFETY: not NULL (checked above). The first 16 bytes of every version are the same.
        let owner = unsafe { (&raw const (*array).owner).read() };
        if !owner.is_null() {
            // SAFETY: the structure held a reference to this owner, which is alive as the header
            // requires.
            unsafe { release_after(owner, stream) }?;
            // SAFETY: not NULL (checked above). The reference was given up, so nothing is left to
            // release.
            unsafe { (&raw mut (*array).owner).write(null_mut()) };
        }
        // SAFETY: the header requires of the caller what this function requires.
        unsafe { super::array::cai_array_release(array) };
        Ok(())
    })
}

/// Sets for the whole process what synchronization leaves out, in place of what the environment variable
/// `CAI_SYNC` said. Whoever sets a bit answers for the absence of data races (CAI version 3, "Design
/// Motivations", 3).
///
/// `policy`: 0, the default, follows the specification; else bits out of `CAI_SYNC_IGNORE`,
/// `CAI_SYNC_EXPORT_NONE` and `CAI_SYNC_CONSERVATIVE`. In the environment they are called `ignore`, `export-none`
/// and `conservative`, with commas between them; `0` stands for the first two.
///
/// Each copy of the library in a process has a setting of its own; the environment speaks to all of them.
///
/// Returns `CAI_OK` or `CAI_ERR_ARGUMENT`. Thread safety: any thread; calls under way may still follow the old one.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_sync_policy_set(
    policy: u32,
    error: *mut cai_error,
) -> cai_status {
    guard_local(error, || policy::set(policy))
}

/// What `cai_sync_policy_set`, or the environment, has set for the process.
///
/// `out`: written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT` or `CAI_ERR_ENVIRONMENT`. Thread safety: any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_sync_policy_get(
    out: *mut u32,
    error: *mut cai_error,
) -> cai_status {
    guard_local(error, || {
        given(out, "out")?;
        let bits = policy::process()?;
        // SAFETY: not NULL (checked above), and writable as the header requires.
        unsafe { out.write(bits) };
        Ok(())
    })
}
