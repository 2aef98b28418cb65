//! An event for consumers that know events and no streams.

use std::ffi::c_void;
use std::ptr;

use crate::abi::{self, CAI_STREAM_NONE, CAI_STREAM_UNKNOWN, cai_array};
use crate::device;
use crate::driver::{self, CallingThread, Capture, Event, OwnedEvent};
use crate::error::{Result, fail};
use crate::owner::Borrowed;
use crate::sync::array_context::{ArrayContext, with_streams};
use crate::sync::{consume, invalidated, no_streams, outgoing};
use crate::validate::Valid;

/// The event that consumers of an array must wait for.
pub enum Mark {
    /// None: no work is pending.
    Nothing,
    /// The array's, which its owner keeps alive.
    Given(*mut c_void),
    /// A new one.
    Recorded(Event),
}

impl Mark {
    /// Returns the handle, or NULL, and what keeps a new event alive.
    pub fn keep(self) -> Result<(*mut c_void, Option<OwnedEvent>)> {
        match self {
            Mark::Nothing => Ok((ptr::null_mut(), None)),
            Mark::Given(event) => Ok((event, None)),
            Mark::Recorded(event) => {
                // Not returned to the pool: its slot is free for other uses meanwhile.
                let event = event.into_owned();
                Ok((event.handle().cast(), Some(event)))
            }
        }
    }
}

/// Returns an event after which the data of an array and of its masks can be used. Where no event
/// can express that, blocks the host until the work is done.
pub fn of(given: &Valid) -> Result<Mark> {
    let replaced = outgoing::replaced(given)?;
    let array = replaced.as_ref().unwrap_or(&**given);
    // The policy of the process may be that no stream is stated, that of the masks included.
    if array.stream != given.stream && array.stream == CAI_STREAM_NONE {
        return Ok(Mark::Nothing);
    }
    wait_for_masks(given)?;
    mark_one(array, given.unchecked().owner())
}

/// Blocks the host until the work on the masks of an array is done, unless it is done when that on
/// the array is: for protocols in which a mask has no stream of its own.
pub fn wait_for_masks(array: &Valid) -> Result<()> {
    for (mask, depth) in array.masks().zip(1..) {
        if !has_work_of(&mask, array)? {
            // With the masks of this mask.
            return consume::synchronize(mask.unchecked(), abi::CAI_ACCESS_READ)
                .map_err(|failure| failure.in_mask(depth));
        }
    }
    Ok(())
}

/// Returns true if the work on a mask is done when the work on its array is: it is on the same
/// stream, or before the same event. [`wait_for_masks`] waits for that of other masks.
pub fn has_work_of(mask: &Valid, array: &Valid) -> Result<bool> {
    let state = |of: &cai_array| (of.stream, of.stream_id, of.context, of.event);
    if state(mask) != state(array) {
        return Ok(false);
    }
    // Without a context, these mean one of the memory's.
    let is_of_memory = array.context.is_null()
        && (driver::is_default(array.stream)
            || array.stream == CAI_STREAM_UNKNOWN && array.event.is_null());
    if is_of_memory && !mask.data.is_null() { is_in_context_of(mask, array) } else { Ok(true) }
}

#[cold]
fn is_in_context_of(mask: &Valid, array: &Valid) -> Result<bool> {
    let drivers = (outgoing::driver_of(mask)?, outgoing::driver_of(array)?);
    let (driver, of_array) = match drivers {
        (Some(driver), Some(of_array)) => (driver, of_array),
        (of_mask, of_array) => return Ok(of_mask.is_none() && of_array.is_none()),
    };
    if !ptr::eq(driver, of_array) {
        return Ok(false);
    }
    let thread = &CallingThread::new(driver);
    let context = |of: &Valid| ArrayContext::of(thread, of, of.unchecked().owner());
    let (mask, array) = (context(mask)?, context(array)?);
    Ok(mask.context == array.context)
}

fn mark_one(array: &cai_array, owner: Option<Borrowed>) -> Result<Mark> {
    if array.stream == CAI_STREAM_NONE || array.data.is_null() {
        return Ok(Mark::Nothing);
    }
    let is_unknown = array.stream == CAI_STREAM_UNKNOWN;
    if is_unknown && array.event.is_null() {
        consume::synchronize_one(None, array, owner, abi::CAI_ACCESS_READ)?;
        return Ok(Mark::Nothing);
    }
    let r#type = array.device.r#type;
    if !device::has_streams(r#type) {
        return Err(no_streams(array, "events of other devices cannot be recorded"));
    }
    if is_unknown {
        return Ok(Mark::Given(array.event));
    }
    let thread = &CallingThread::new(driver::driver_of(r#type)?);
    // Only the producer writes to a read-only array, and it recorded the event.
    let is_recorded = !array.event.is_null() && array.flags & abi::CAI_ARRAY_READONLY != 0;
    let mut recorded: Option<Event> = None;
    with_streams(thread, array, owner, |stream| {
        match stream.capture(thread)? {
            Capture::None => {}
            Capture::Active => {
                return fail!(CAI_ERR_CAPTURE_PRODUCER, "stream";
                    found "a stream that is being captured";
                    expected "a stream outside of a capture, whose events mean nothing elsewhere");
            }
            Capture::Invalidated => return Err(invalidated()),
        }
        if is_recorded {
            return Ok(());
        }
        // One of two streams that may be meant waits for the other.
        if let Some(before) = recorded.take() {
            stream.wait(thread, before.handle(), 0)?;
            before.keep();
        }
        recorded = Some(thread.record(&stream, stream.checked_id(thread)?)?);
        Ok(())
    })?;
    Ok(recorded.map_or(Mark::Given(array.event), Mark::Recorded))
}
