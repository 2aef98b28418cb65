//! The bytes of an array, for code that moves memory itself.

use std::ffi::c_void;

use crate::abi::{self, cai_stream};
use crate::device::{Name, is_opaque};
use crate::driver::{self, CallingThread, Stream};
use crate::error::{Result, fail};
use crate::sync::consume::{self, Phase};
use crate::validate::Valid;

/// The elements of an array: one block without gaps.
pub struct Bytes {
    /// The lowest address; NULL if there are no elements.
    pub address: *mut c_void,
    pub count: i64,
}

/// Returns the block that an array's elements fill.
pub fn of(array: &Valid) -> Result<Bytes> {
    super::without_mask(array)?;
    if is_opaque(array.device.r#type) {
        return fail!(CAI_ERR_CONVERT_DEVICE, "device.type";
            found "{}, whose memory has a handle", Name(array.device.r#type);
            expected "memory with addresses");
    }
    if array.has_objects()? {
        return fail!(CAI_ERR_CONVERT_TYPE, "typestr";
            found "Python objects, whose bytes are addresses of this process";
            expected "numbers or text");
    }
    let layout = array.layout();
    if !layout.is_c_contiguous() && !layout.is_f_contiguous() {
        return fail!(CAI_ERR_CONVERT_CONTIGUOUS, "strides";
            found "gaps, overlaps or another order";
            expected "a C- or Fortran-contiguous array: copy it first");
    }
    // A contiguous array begins at its lowest address.
    Ok(Bytes { address: array.data, count: array.bytes().all })
}

/// Makes the host or a stream wait for the pending work on an array, and records `event`, unless it
/// is NULL, on the stream.
///
/// # Safety
/// `event` is NULL or an event of the stream's context.
pub unsafe fn wait(
    array: &Valid,
    stream: cai_stream,
    event: *mut c_void,
    flags: u32,
) -> Result<()> {
    if stream == abi::CAI_STREAM_NONE {
        if !event.is_null() {
            return fail!(CAI_ERR_ARGUMENT, "event";
                found "an event and CAI_STREAM_NONE";
                expected "NULL, or a stream to record the event on");
        }
        return consume::synchronize(array.unchecked(), flags);
    }
    if event.is_null() {
        return consume::exchange_all_work(Phase::Begin, array.unchecked(), stream, flags);
    }
    consume::check_synchronize(flags)?;
    consume::check_exchange(stream, flags)?;
    let thread = &CallingThread::new(driver::driver_of(array.device.r#type)?);
    let on = Stream::from_current_context(thread, stream)?;
    // Polling an event that is recorded in a capture invalidates the capture, and so does recording
    // one on the legacy stream beside a capture.
    consume::check_host_can_wait(on.capture_here(thread)?)?;
    consume::exchange_all_work(Phase::Begin, array.unchecked(), stream, flags)?;
    on.record(thread, event.cast())
}
