//! Release in stream order, for C.

use std::ptr;

use super::super::guard::guard;
use crate::abi::{cai_array, cai_error, cai_status};
use crate::argument::{InOut, Out, arguments};
use crate::sync::{identity, release_in_order, release_queue};

/// Writes the identity of the array's stream: its `context` and its `stream_id`. Other functions
/// can then detect the per-thread stream of another thread (`CAI_ERR_STREAM_THREAD`) and a
/// destroyed stream (`CAI_ERR_STREAM_STALE`). Call it for arrays that you fill without
/// `cai_array_produce`, which also writes the identity. Imports write it for stream 2 only, or,
/// with `CAI_IMPORT_IDENTIFY_STREAM`, for every stream.
///
/// `array`: only `context` and `stream_id` are written, on success only. A `stream_id` that is not
/// 0 is not changed. Nothing is written, and no driver call is made, if the array has no elements
/// or its stream is `CAI_STREAM_NONE` or `CAI_STREAM_UNKNOWN`. Masks are not changed.
///
/// Streams 1 and 2 are default streams of `context`. If that is NULL, they are those of the context
/// that owns the memory, else of the primary context of its device, else of the current context. If
/// the memory's context is not the current one, either may be meant (`cai_array_consume_begin`):
/// then `context` stays NULL, and `stream_id` is that in the memory's context. Stream 2 is that of
/// the calling thread. Without `cuStreamGetId` (drivers before CUDA 12.0), `stream_id` stays 0.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_FLAGS`,
/// `CAI_ERR_STREAM_ZERO`, `CAI_ERR_STREAM_VERSION`, `CAI_ERR_STREAM_DEVICE`,
/// `CAI_ERR_STREAM_HANDLE`, `CAI_ERR_STREAM_DETACHED`, `CAI_ERR_NO_CONTEXT`,
/// `CAI_ERR_CAPTURE_LEGACY`, `CAI_ERR_CAPTURE`, or a status of `cai_driver_info_get`.
/// Thread safety: any thread, but not two on one structure at once; allocates nothing. Source: CAI
/// version 3, "Streams"; `cuStreamGetId`.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_array_identify(
    array: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    arguments!(array: InOut, error: Out);
    guard(error, || {
        let mut structure = array.given("array")?;
        let mut local = structure.input().array()?;
        identity::identify(&mut local)?;
        structure.set_stream(&local);
        Ok(())
    })
}

/// Releases the reference of an array after the work that is enqueued on the array's own stream so
/// far, and clears the structure, as `cai_array_release`. Never fails. Use it in the deleter of
/// another library's tensor, which runs on any thread: store the consumer's stream in a copy of the
/// array, for a default stream with its context, and release the copy.
///
/// A default stream is that of `context`; if that is NULL, of the context that owns the memory,
/// else of the primary context of its device, and also of the calling thread's current context if
/// that is another one: the array is released after the work on both. So `data` and `device` must
/// be those of the array; `shape` is not read.
///
/// It is released at once if the stream is `CAI_STREAM_NONE`, if there are no elements, or if the
/// process has no driver. Otherwise it is never released before the work is done: where the driver
/// cannot say so now, it is asked again later. That is so while another stream's capture forbids
/// the legacy default stream, until a capture of the stream ends, and where memory has run out or
/// no thread can be started (see `cai_owner_release_after`). Until then the stream must not be
/// destroyed. If the stream is capturing, its graph holds a reference as well.
///
/// If the stream is the per-thread default stream of another thread (`cai_unstable_array_identify`), the
/// array is released after the work on all blocking streams of the context. If it was destroyed
/// before the call, it is released after all work of the context; on drivers without
/// `cuCtxRecordEvent`, the thread of the library blocks meanwhile. As that function does, this
/// invalidates a capture in the context.
///
/// The reference is kept for ever if the driver can never answer: in the child of a process that
/// had started the driver, if the driver does not say which context is current, which stream this
/// is or whether it is capturing, or if the stream is capturing and its graph does not take the
/// reference. Does nothing for NULL and for a structure with an unknown size or flag.
///
/// Thread safety: any thread, but not two on one structure at once; needs no allocation.
/// Source: CAI version 3, "Lifetime management".
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_array_release_in_order(array: *mut cai_array) {
    arguments!(array: InOut);
    guard(Out::NONE, || {
        let structure = array.given("array")?;
        let before = structure.first_members()?;
        // The structure may be part of what the owner frees, so it is cleared before.
        let owner = structure.take().owner;
        if owner.is_given() {
            let array = cai_array { owner: ptr::null_mut(), ..before };
            // An owner that cannot be released leaks.
            if let Ok(owner) = owner.adopt() {
                release_in_order::release(owner, &array, ptr::null_mut());
            }
            release_queue::progress_here();
        }
        Ok(())
    });
}
