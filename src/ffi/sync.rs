//! Streams, for C.
//!
//! May use: `abi`, `error`, `ffi::array`, `ffi::guard`, `ffi::ptr`, `owner`, `read`,
//! `sync::consume`, `sync::notify`, `sync::policy`, `sync::produce`, `sync::release_queue`.
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
        // SAFETY: handed on.
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
        // SAFETY: not NULL; handed on.
        let result = unsafe { consume::exchange(phase, array, consumer_stream, flags) };
        let what = if phase == Phase::Begin { Kind::Begin } else { Kind::End };
        // SAFETY: handed on.
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
    // SAFETY: handed on.
    if unsafe { consume::is_fast_path(Phase::Begin, array, consumer_stream, flags) }
        && !notify::is_watched()
    {
        return CAI_OK;
    }
    // SAFETY: handed on.
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
    // SAFETY: handed on.
    if unsafe { consume::is_fast_path(Phase::End, array, consumer_stream, flags) }
        && !notify::is_watched()
    {
        return CAI_OK;
    }
    // SAFETY: handed on.
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
        // SAFETY: not NULL; handed on.
        let result = unsafe { consume::synchronize(array, flags) };
        // SAFETY: handed on.
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
        // SAFETY: not NULL; handed on.
        let size = unsafe { read::array_size(array) }?;
        // SAFETY: not NULL where count > 0; readable by contract.
        let streams = unsafe { read::values(streams, count) };
        // SAFETY: not NULL; handed on.
        let mut local = unsafe { read::array(array) }?;
        let result = produce::produce(&mut local, streams, export_stream, flags);
        if result.is_ok() {
            // SAFETY: `size` bytes are the caller's.
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
            // SAFETY: handed on.
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
        // SAFETY: not NULL; a live owner by contract.
        unsafe { release_after(owner, stream) }
    })
}

/// # Safety
/// As for [`release_queue::release_after`].
unsafe fn release_after(owner: *mut cai_owner, stream: cai_stream) -> Result<()> {
    let identity = owner.cast_const().cast();
    // SAFETY: handed on. Afterwards the owner may be gone: only its address is used.
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
        // SAFETY: not NULL; handed on.
        unsafe { read::array_size(array) }?;
        // SAFETY: the first 16 bytes of every version are the same.
        let owner = unsafe { (&raw const (*array).owner).read() };
        if !owner.is_null() {
            // SAFETY: a live owner by contract, of which the structure held a reference.
            unsafe { release_after(owner, stream) }?;
            // SAFETY: as above. The reference is given up: nothing is left to release.
            unsafe { (&raw mut (*array).owner).write(null_mut()) };
        }
        // SAFETY: handed on.
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
        // SAFETY: not NULL; writable by contract.
        unsafe { out.write(bits) };
        Ok(())
    })
}

/// Makes an array keep something else alive as well: the stream that it is exported with, an event, a pool. The
/// array's owner is replaced by one that first lets the old one go and then calls `destroy(context)`. So the
/// data may still be freed in stream order on a stream that is kept in this way.
///
/// `array`: must have an owner; holds the only reference to the new one on success, and is unchanged on failure.
/// `destroy`: as in `cai_owner_create`; not called on failure.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_BORROWED`, `CAI_ERR_OWNER_OPS` or
/// `CAI_ERR_NO_MEMORY`.
/// Thread safety: any thread, but not two on one structure at once; allocates one block. Source: CAI version 3,
/// "Lifetime management", "Streams".
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_attach(
    array: *mut cai_array,
    context: *mut std::ffi::c_void,
    destroy: Option<unsafe extern "C-unwind" fn(context: *mut std::ffi::c_void)>,
    error: *mut cai_error,
) -> cai_status {
    guard(error, || {
        given(array, "array")?;
        // SAFETY: not NULL; handed on.
        unsafe { read::array_size(array) }?;
        // SAFETY: the first 16 bytes of every version are the same.
        let owner = unsafe { (&raw const (*array).owner).read() };
        if owner.is_null() {
            return fail!(
                CAI_ERR_BORROWED,
                "owner",
                found = "NULL, a borrowed array",
                expected = "an owner that keeps the data alive"
            );
        }
        // SAFETY: not NULL; a live owner by contract, whose reference moves.
        let both = unsafe { crate::owner::both(owner, context, destroy) }?;
        // SAFETY: as above.
        unsafe { (&raw mut (*array).owner).write(both) };
        Ok(())
    })
}
