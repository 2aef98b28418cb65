//! The stream that an array states to consumers outside of this library: Python objects, DLPack.
//!
//! 1 and 2 mean a stream only together with a context, and 2 with a thread. A dictionary states
//! neither, and the driver has no name for the per-thread stream of another thread. That stream is
//! therefore joined into the legacy stream of its context: the two wait for each other by
//! themselves, in both directions, whichever threads use them [stream-sync-behavior]. A stream of
//! another context than the reader means is refused: if it were joined into one of the reader's
//! context, the producer's later work would not wait for the reader.

use std::ffi::c_void;
use std::ptr;

use crate::abi::{self, CAI_STREAM_LEGACY, CAI_STREAM_NONE, CAI_STREAM_PER_THREAD, cai_array};
use crate::device;
use crate::driver::{self, CallingThread, Capture, Driver, Stream};
use crate::error::{Result, fail};
use crate::owner::Borrowed;
use crate::read::Unchecked;
use crate::sync::array_context::{ArrayContext, ArrayContexts};
use crate::sync::policy;

/// Returns true if consumers may see the array as it is, which [`replaced`] would confirm.
#[inline]
pub fn is_final(array: &cai_array) -> bool {
    array.stream == CAI_STREAM_NONE
        || (array.stream != CAI_STREAM_PER_THREAD
            && policy::process().is_ok_and(|policy| policy & abi::CAI_SYNC_EXPORT_NONE == 0))
}

/// Returns the array as a consumer may see it, if it differs: without a stream where the policy of
/// the process requires that; on the legacy stream in place of another thread's per-thread stream.
#[inline]
pub fn replaced(array: &cai_array) -> Result<Option<cai_array>> {
    if array.stream == CAI_STREAM_NONE {
        return Ok(None);
    }
    if policy::process()? & abi::CAI_SYNC_EXPORT_NONE != 0 {
        return Ok(Some(without_stream(array)));
    }
    if array.stream == CAI_STREAM_PER_THREAD { per_thread(array) } else { Ok(None) }
}

#[cold]
fn without_stream(array: &cai_array) -> cai_array {
    let (stream, event) = (CAI_STREAM_NONE, ptr::null_mut());
    cai_array { stream, stream_id: 0, event, ..*array }
}

/// Returns the driver if the array's stream is one of its streams, on which work may be pending.
pub(super) fn driver_of(array: &cai_array) -> Result<Option<&'static Driver>> {
    if array.data.is_null() || !device::has_streams(array.device.r#type) {
        return Ok(None);
    }
    match driver::driver_of(array.device.r#type) {
        Ok(driver) => Ok(Some(driver)),
        Err(failure) if failure.status() == abi::CAI_ERR_NO_DRIVER => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Joins the per-thread stream into its context's legacy stream, unless it is this thread's.
#[cold]
#[inline(never)]
fn per_thread(array: &cai_array) -> Result<Option<cai_array>> {
    let Some(driver) = driver_of(array)? else { return Ok(None) };
    let thread = &CallingThread::new(driver);
    let contexts = ArrayContexts::of(thread, array, None)?;
    if array.stream_id != 0 {
        let first = contexts.first.context;
        let own = Stream::from_array(thread, CAI_STREAM_PER_THREAD, first, 0);
        let _entered = own.enter(thread)?;
        let state = own.capture(thread)?;
        if own.identity(thread, state)?.1 == array.stream_id {
            return Ok(None);
        }
    }
    let mut joined = cai_array { stream: CAI_STREAM_LEGACY, stream_id: 0, ..*array };
    contexts.each(|context| {
        let legacy = Stream::from_array(thread, CAI_STREAM_LEGACY, context, 0);
        let _entered = legacy.enter(thread)?;
        // Fails if a blocking stream of the context is being captured.
        let state = legacy.capture(thread)?;
        // The record waits for all blocking streams of the context, those of other threads too.
        thread.record(&legacy, 0)?.keep();
        // Where two contexts may be meant, neither is stated, so that consumers wait for both.
        if contexts.current.is_none() {
            let (context, stream_id) = legacy.identity(thread, state)?;
            (joined.context, joined.stream_id) = (context.cast(), stream_id);
        }
        Ok(())
    })?;
    Ok(Some(joined))
}

/// Returns the stream for a dictionary, which states neither a context nor a thread.
#[inline]
pub fn for_dictionary(array: Unchecked) -> Result<u64> {
    if is_final(&array) && array.stream != CAI_STREAM_LEGACY && array.stream_id == 0 {
        return Ok(array.stream);
    }
    checked(array)
}

#[cold]
#[inline(never)]
fn checked(given: Unchecked) -> Result<u64> {
    let replaced = replaced(&given)?;
    let array = replaced.as_ref().unwrap_or(&given);
    check(array, given.owner())?;
    Ok(array.stream)
}

/// Fails unless readers of a dictionary find the array's stream.
fn check(array: &cai_array, owner: Option<Borrowed>) -> Result<()> {
    if array.stream <= CAI_STREAM_PER_THREAD {
        means_the_same(array, owner)
    } else {
        is_alive(array)
    }
}

/// Returns the array as a dictionary of version 4 states it: its stream, whose identity and event may
/// be stated too.
pub fn for_version_4(given: Unchecked) -> Result<cai_array> {
    let array = replaced(&given)?.unwrap_or(*given);
    check(&array, given.owner())?;
    Ok(array)
}

/// Fails if the stream was destroyed since the array got its identity: readers would wait for
/// whichever stream has its handle now, or use a handle that names none.
#[inline]
pub fn is_alive(array: &cai_array) -> Result<()> {
    let is_known = array.stream_id != 0 && array.stream > CAI_STREAM_PER_THREAD;
    if is_known { ask_alive(array) } else { Ok(()) }
}

#[cold]
#[inline(never)]
fn ask_alive(array: &cai_array) -> Result<()> {
    let Some(driver) = driver_of(array)? else { return Ok(()) };
    let thread = &CallingThread::new(driver);
    let stream = Stream::from_handle(array.stream, array.stream_id);
    // During its capture, a stream may not be asked for its id.
    match stream.capture(thread)? {
        Capture::None => stream.check_id(thread),
        _ => Ok(()),
    }
}

/// Fails unless readers take 1 or 2 for the array's stream. They look for it in the context that
/// the memory belongs to, or in the current one.
#[cold]
#[inline(never)]
fn means_the_same(array: &cai_array, owner: Option<Borrowed>) -> Result<()> {
    let Some(driver) = driver_of(array)? else { return Ok(()) };
    let thread = &CallingThread::new(driver);
    let memory = ArrayContext::of_memory(thread, array, owner)?;
    let memory = memory.map_or(ptr::null_mut(), |memory| memory.context.cast::<c_void>());
    let own = if array.context.is_null() { memory } else { array.context };
    let current = thread.current()?.cast::<c_void>();
    for (taken, whose) in [(memory, "the memory's"), (current, "the current")] {
        if !taken.is_null() && !own.is_null() && taken != own {
            return fail!(CAI_ERR_STREAM_CONTEXT, "stream";
                found "{}, of context {own:p}, where {whose} context is {taken:p}", array.stream;
                expected "a CUstream, which is the same in every context; __dlpack__ takes this \
                    array as it is");
        }
    }
    Ok(())
}
