//! The identity of an array's stream: its context and its id, without which a handle may be that of
//! a later stream, and 1 and 2 those of another context or thread.

use std::ffi::c_void;

use crate::abi::{self, cai_array};
use crate::device;
use crate::driver::{self, CallingThread, Stream};
use crate::error::{Result, fail};
use crate::sync::array_context::{ArrayContext, ArrayContexts};
use crate::sync::{names_a_stream, no_streams};

/// Writes the identity of the array's stream into `context` and `stream_id`. One that the array
/// states already stays as it is.
pub fn identify(array: &mut cai_array) -> Result<()> {
    if array.stream >= abi::CAI_STREAM_UNKNOWN {
        return Ok(());
    }
    names_a_stream(array.stream, format_args!("stream"))?;
    if array.version < 3 {
        return fail!(CAI_ERR_STREAM_VERSION, "stream";
            found "{:#x} in version {}", array.stream, array.version;
            expected "CAI_STREAM_UNKNOWN below version 3");
    }
    if array.stream_id != 0 || array.data.is_null() {
        return Ok(());
    }
    if !device::has_streams(array.device.r#type) {
        return Err(no_streams(array, "streams of other devices have no identity"));
    }
    let thread = &CallingThread::new(driver::driver_of(array.device.r#type)?);
    if driver::is_default(array.stream) {
        let contexts = ArrayContexts::of(thread, array, None)?;
        return identify_default(thread, &contexts, array);
    }
    (array.context, array.stream_id) = query(thread, &Stream::from_handle(array.stream, 0))?;
    Ok(())
}

/// Writes the identity of a default stream. If it may be of either of two contexts, none is
/// written: the id, which is that in the memory's, then identifies the thread.
fn identify_default(
    thread: &CallingThread,
    contexts: &ArrayContexts,
    array: &mut cai_array,
) -> Result<()> {
    let stream = Stream::from_array(thread, array.stream, contexts.first.context, 0);
    let (context, id) = query(thread, &stream)?;
    if contexts.current.is_none() {
        array.context = context;
    }
    array.stream_id = id;
    Ok(())
}

fn query(thread: &CallingThread, stream: &Stream) -> Result<(*mut c_void, u64)> {
    let state = stream.capture(thread)?;
    stream.identity(thread, state).map(|(context, id)| (context.cast(), id))
}

/// Writes the identity of stream 2 of an imported array, as far as the driver knows it: it is the
/// calling thread's. Loads no driver: without one, nothing can be pending. Stream 1 is the same for
/// every thread, so its identity would cost driver calls and detect no fault.
#[cold]
#[inline(never)]
pub fn identify_per_thread(array: &mut cai_array) {
    let has_identity = array.stream_id != 0 || array.data.is_null() || array.version < 3;
    if has_identity || !device::may_be_cuda(array.device.r#type) || !driver::is_present() {
        return;
    }
    // Without an identity the array is what its producer stated: a failure shows where it is used.
    let _ = || -> Result<()> {
        let thread = &CallingThread::new(driver::driver()?);
        // Only a context that exists: an import creates none.
        let first = match array.context.is_null() {
            true => ArrayContext::of_memory(thread, array, None)?,
            false => Some(ArrayContext::of(thread, array, None)?),
        };
        let Some(first) = first else { return Ok(()) };
        identify_default(thread, &first.or_current(thread, array)?, array)
    }();
}
