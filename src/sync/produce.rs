//! The producer's side: from the streams that work is pending on to the one that is exported.

use std::ptr;

use crate::abi::{self, cai_array, cai_stream};
use crate::driver::{self, Capture, Driver, Stream};
use crate::error::{Result, fail};
use crate::sync::order::{Direction, order};
use crate::sync::{names_a_stream, policy};

const PRODUCER: u32 = abi::CAI_SYNC_EXPORT_NONE
    | abi::CAI_SYNC_THIS_CALL
    | abi::CAI_CAPTURE_JOIN
    | abi::CAI_CAPTURE_EXTERNAL;

/// Joins `streams` into `export`, and writes into `array` what a consumer has to know.
pub fn produce(
    array: &mut cai_array,
    streams: &[cai_stream],
    export: cai_stream,
    flags: u32,
) -> Result<()> {
    if flags & !PRODUCER != 0 {
        return fail!(
            CAI_ERR_ARGUMENT,
            "flags",
            found = "{flags:#x}",
            expected = "bits of {PRODUCER:#x} only"
        );
    }
    if array.version < 3 {
        return fail!(
            CAI_ERR_VERSION,
            "version",
            found = ("{}", array.version),
            expected = "3: earlier versions have no stream"
        );
    }
    for (index, &stream) in streams.iter().enumerate() {
        names_a_stream(stream, format_args!("streams[{index}]"))?;
    }
    if streams.is_empty() || policy::in_force(flags)? & abi::CAI_SYNC_EXPORT_NONE != 0 {
        array.stream = abi::CAI_STREAM_NONE;
        array.stream_id = 0;
        array.event = ptr::null_mut();
        return Ok(());
    }
    names_a_stream(export, "export_stream")?;
    let driver = driver::driver()?;
    let to = Stream::from_current_context(driver, export)?;
    for (index, &value) in streams.iter().enumerate() {
        // A stream that was joined before has nothing to add.
        if value == export || streams[..index].contains(&value) {
            continue;
        }
        let from = Stream::from_current_context(driver, value)?;
        order(driver, &from, &to, Direction::Producers, flags)
            .map_err(|failure| failure.at(format_args!("streams[{index}]")))?;
    }
    identify(array, driver, export, &to).map_err(|failure| failure.at("export_stream"))
}

/// Writes down which stream it is, and records the event of the array.
fn identify(array: &mut cai_array, driver: &Driver, export: u64, stream: &Stream) -> Result<()> {
    let state = stream.capture(driver)?;
    let who = || -> Result<_> { Ok((stream.context(driver)?, stream.id(driver)?)) };
    let (context, id) = if state == Capture::None { who() } else { driver.relaxed(who) }?;
    // An event that is recorded in a capture says nothing outside of it.
    if !array.event.is_null() && state == Capture::None {
        stream.record(driver, array.event.cast())?;
    }
    array.stream = export;
    array.stream_id = id;
    array.context = context.cast();
    Ok(())
}
