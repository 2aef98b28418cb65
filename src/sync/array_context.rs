//! The contexts that an array's default stream may be of.
//!
//! 1 and 2 mean a stream only together with a context. If the array states none, its producer may
//! have meant the context that the memory belongs to, or the one that was current when it enqueued
//! its work: memory that is managed, page-locked or open to peers is used in other contexts than
//! its own. Which one is meant cannot be known, so both count.

use crate::abi::{self, cai_array};
use crate::driver::{self, CUcontext, CallingThread, Capture, Driver, Stream};
use crate::error::{Result, fail};

/// The context of an array, with a reference to it if it is a primary one.
pub struct ArrayContext {
    driver: &'static Driver,
    pub context: CUcontext,
    primary: Option<i32>,
}

impl Drop for ArrayContext {
    fn drop(&mut self) {
        if let Some(device) = self.primary {
            self.driver.release_primary(device);
        }
    }
}

impl ArrayContext {
    /// Returns the context that the array states, or else that of the memory. For memory that
    /// belongs to a device only, it is the device's primary context, or else the current one.
    pub fn of(thread: &CallingThread, array: &cai_array) -> Result<ArrayContext> {
        let driver = thread.driver();
        let found = |context| Ok(ArrayContext { driver, context, primary: None });
        if !array.context.is_null() {
            return found(array.context.cast());
        }
        // A device is all that HIP's memory belongs to.
        if array.device.r#type == abi::CAI_DEVICE_ROCM && array.device.id >= 0 {
            return ArrayContext::primary(driver, array.device.id);
        }
        if let Some(found) = ArrayContext::of_memory(thread, array)? {
            return Ok(found);
        }
        if array.device.r#type == abi::CAI_DEVICE_CUDA {
            return driver.relaxed(|| ArrayContext::primary(driver, array.device.id));
        }
        found(thread.some_current()?)
    }

    /// Returns the context that memory belongs to: for memory that belongs to a device only, the
    /// device's primary one. `None` if the driver does not know the memory.
    pub fn of_memory(thread: &CallingThread, array: &cai_array) -> Result<Option<ArrayContext>> {
        let driver = thread.driver();
        driver.relaxed(|| {
            let (context, device) = driver::owner_context(driver, array.data as u64)?;
            match device {
                _ if !context.is_null() => {
                    Ok(Some(ArrayContext { driver, context, primary: None }))
                }
                Some(device) => ArrayContext::primary(driver, device).map(Some),
                None => Ok(None),
            }
        })
    }

    fn primary(driver: &'static Driver, device: i32) -> Result<ArrayContext> {
        Ok(ArrayContext { driver, context: driver.primary(device)?, primary: Some(device) })
    }
}

/// The contexts that a default stream of an array may be of: one, or two.
pub struct ArrayContexts {
    pub first: ArrayContext,
    /// The current one, if the array states none and the memory belongs to another.
    pub current: Option<CUcontext>,
}

impl ArrayContexts {
    /// Returns the context that the array states, or else that of the memory, as
    /// [`ArrayContext::of`] finds it, and the current one if it is another one. No other context
    /// may have been made current for this operation.
    #[inline]
    pub fn of(thread: &CallingThread, array: &cai_array) -> Result<ArrayContexts> {
        ArrayContext::of(thread, array)?.or_current(thread, array)
    }

    pub fn each(&self, mut body: impl FnMut(CUcontext) -> Result<()>) -> Result<()> {
        body(self.first.context)?;
        self.current.map_or(Ok(()), body)
    }
}

impl ArrayContext {
    /// Adds the current context if the array may mean that one instead.
    #[inline]
    pub fn or_current(self, thread: &CallingThread, array: &cai_array) -> Result<ArrayContexts> {
        let first = self;
        // To order a stream, its context is made current, for which this query is needed anyway.
        let current = if array.context.is_null() { thread.current()? } else { first.context };
        let is_other = !current.is_null() && current != first.context;
        Ok(ArrayContexts { first, current: is_other.then_some(current) })
    }
}

/// Calls `body` with an array's stream, where a default stream is of the first context possible.
#[inline]
pub fn with_stream<T>(
    thread: &CallingThread,
    array: &cai_array,
    body: impl FnOnce(Stream) -> Result<T>,
) -> Result<T> {
    if !driver::is_default(array.stream) {
        return body(Stream::from_handle(array.stream, array.stream_id));
    }
    let context = ArrayContext::of(thread, array)?;
    body(Stream::from_array(thread, array.stream, context.context, array.stream_id))
}

/// Calls `body` with the stream of an array, or with each of the two streams that a default stream
/// without a context may mean.
#[inline]
pub fn with_streams(
    thread: &CallingThread,
    array: &cai_array,
    mut body: impl FnMut(Stream) -> Result<()>,
) -> Result<()> {
    if !driver::is_default(array.stream) {
        return body(Stream::from_handle(array.stream, array.stream_id));
    }
    let contexts = ArrayContexts::of(thread, array)?;
    let first = Stream::from_array(thread, array.stream, contexts.first.context, array.stream_id);
    match contexts.current {
        None => body(first),
        Some(current) => in_both_contexts(thread, array, first, current)?
            .into_iter()
            .flatten()
            .try_for_each(body),
    }
}

/// Returns the streams of two contexts, of which `first` is in that of the memory. An id without a
/// context is that of the stream in either; in that of the memory it identifies only the thread.
///
/// Fails if one of them is in a capture in which the other is not: to order a third stream with
/// both would change that capture.
#[cold]
#[inline(never)]
fn in_both_contexts(
    thread: &CallingThread,
    array: &cai_array,
    first: Stream,
    current: CUcontext,
) -> Result<[Option<Stream>; 2]> {
    let in_current = |id| Stream::from_array(thread, array.stream, current, id);
    let second = in_current(0);
    let states = match second.capture(thread) {
        // Green contexts have no per-thread default stream. [cuStreamGetCtx]
        Err(_) if array.stream == abi::CAI_STREAM_PER_THREAD && thread.is_green()? => {
            return Ok([Some(first), None]);
        }
        state => (first.capture(thread)?, state?),
    };
    match states {
        (Capture::None, Capture::None)
            if array.stream_id != 0 && second.id(thread)? == array.stream_id =>
        {
            return Ok([Some(in_current(array.stream_id)), None]);
        }
        (Capture::Active, Capture::Active) => first.check_same_capture(thread, &second)?,
        (Capture::Active, _) | (_, Capture::Active) => {
            return fail!(CAI_ERR_CAPTURE_PRODUCER, "stream";
                found "{}, which is being captured in one of two contexts that may be meant",
                    array.stream;
                expected "the context of the stream in the array, which states none");
        }
        // A capture that was invalidated is refused when the stream is used.
        _ => {}
    }
    Ok([Some(first), Some(second)])
}
