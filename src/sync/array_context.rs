//! The contexts that an array's default stream may be of.
//!
//! 1 and 2 mean a stream only together with a context. If the array states none, its producer may
//! have meant the context that the memory belongs to, or the one that was current when it enqueued
//! its work: memory that is managed, page-locked or open to peers is used in other contexts than
//! its own. Which one is meant cannot be known, so both count.

use std::ptr::NonNull;

use crate::abi::{self, cai_array};
use crate::driver::{self, CUcontext, CallingThread, Capture, Driver, Stream};
use crate::error::{Result, fail};
use crate::owner::Borrowed;

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
    /// Returns the context that the array states, or else that of the memory, which `owner` keeps
    /// alive and knows if it was asked for before. For memory that belongs to a device only, it is
    /// the device's primary context, or else the current one.
    pub fn of(
        thread: &CallingThread,
        array: &cai_array,
        owner: Option<Borrowed>,
    ) -> Result<ArrayContext> {
        let driver = thread.driver();
        let found = |context| Ok(ArrayContext { driver, context, primary: None });
        if !array.context.is_null() {
            return found(array.context.cast());
        }
        // A device is all that HIP's memory belongs to.
        if array.device.r#type == abi::CAI_DEVICE_ROCM && array.device.id >= 0 {
            return ArrayContext::primary(driver, array.device.id);
        }
        if let Some(found) = ArrayContext::of_memory(thread, array, owner)? {
            return Ok(found);
        }
        if array.device.r#type == abi::CAI_DEVICE_CUDA {
            return driver.relaxed(|| ArrayContext::primary(driver, array.device.id));
        }
        found(thread.some_current()?)
    }

    /// Returns the context that memory belongs to: for memory that belongs to a device only, the
    /// device's primary one. `None` if the driver does not know the memory. `owner`: see `of`.
    #[inline]
    pub fn of_memory(
        thread: &CallingThread,
        array: &cai_array,
        owner: Option<Borrowed>,
    ) -> Result<Option<ArrayContext>> {
        let driver = thread.driver();
        match known_context(thread, array, owner)? {
            Some(context) => Ok(Some(ArrayContext { driver, context, primary: None })),
            None => ArrayContext::ask(driver, array.data.addr(), owner),
        }
    }

    #[inline(never)]
    fn ask(
        driver: &'static Driver,
        address: usize,
        owner: Option<Borrowed>,
    ) -> Result<Option<ArrayContext>> {
        let home = driver::home(driver, address as u64)?;
        match (NonNull::new(home.context), home.device) {
            (Some(context), _) => {
                if let Some(owner) = owner.filter(|_| home.is_fixed) {
                    owner.remember_context(address, context.cast());
                }
                Ok(Some(ArrayContext { driver, context: home.context, primary: None }))
            }
            (None, Some(device)) => {
                driver.relaxed(|| ArrayContext::primary(driver, device)).map(Some)
            }
            (None, None) => Ok(None),
        }
    }

    fn primary(driver: &'static Driver, device: i32) -> Result<ArrayContext> {
        Ok(ArrayContext { driver, context: driver.primary(device)?, primary: Some(device) })
    }
}

/// Returns the context of an array's memory if `owner`, which keeps it alive, knows it and it is the
/// current one. Another one may have been destroyed, and is asked for again.
#[inline]
pub fn known_context(
    thread: &CallingThread,
    array: &cai_array,
    owner: Option<Borrowed>,
) -> Result<Option<CUcontext>> {
    // HIP's memory belongs to no context.
    if thread.is_hip() {
        return Ok(None);
    }
    let known = owner.and_then(|owner| owner.known_context(array.data.addr()));
    let Some(known) = known.map(|known| known.as_ptr().cast()) else { return Ok(None) };
    Ok((thread.current()? == known).then_some(known))
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
    pub fn of(
        thread: &CallingThread,
        array: &cai_array,
        owner: Option<Borrowed>,
    ) -> Result<ArrayContexts> {
        ArrayContext::of(thread, array, owner)?.or_current(thread, array)
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
    owner: Option<Borrowed>,
    body: impl FnOnce(Stream) -> Result<T>,
) -> Result<T> {
    if !driver::is_default(array.stream) {
        return body(Stream::from_handle(array.stream, array.stream_id));
    }
    let context = ArrayContext::of(thread, array, owner)?;
    body(Stream::from_array(thread, array.stream, context.context, array.stream_id))
}

/// Calls `body` with the stream of an array, or with each of the two streams that a default stream
/// without a context may mean.
#[inline]
pub fn with_streams(
    thread: &CallingThread,
    array: &cai_array,
    owner: Option<Borrowed>,
    mut body: impl FnMut(Stream) -> Result<()>,
) -> Result<()> {
    if !driver::is_default(array.stream) {
        return body(Stream::from_handle(array.stream, array.stream_id));
    }
    let contexts = ArrayContexts::of(thread, array, owner)?;
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
