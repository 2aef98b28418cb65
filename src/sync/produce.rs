//! The producer's side: joins the streams that have pending work into the exported one.
//!
//! May use: `abi`, `driver`, `error`, `sync`, `sync::order`, `sync::policy`.
//! Unsafe: none.

use std::ptr;

use crate::abi::{self, cai_array, cai_stream};
use crate::driver::{self, Capture, Driver, Stream};
use crate::error::{Result, fail};
use crate::sync::order::{Direction, order};
use crate::sync::{bad_flags, names_a_stream, policy};

const PRODUCER: u32 = abi::CAI_SYNC_EXPORT_NONE
    | abi::CAI_SYNC_THIS_CALL
    | abi::CAI_CAPTURE_JOIN
    | abi::CAI_CAPTURE_EXTERNAL;

/// Joins `streams` into `export`, and writes into `array` what a consumer needs.
pub fn produce(
    array: &mut cai_array,
    streams: &[cai_stream],
    export: cai_stream,
    flags: u32,
) -> Result<()> {
    if flags & !PRODUCER != 0 {
        return Err(bad_flags(flags, "flags", PRODUCER));
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
    if export == 0 {
        names_a_stream(export, "export_stream")?;
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
        // A stream that was joined before adds nothing.
        if value == export || streams[..index].contains(&value) {
            continue;
        }
        let from = Stream::from_current_context(driver, value)?;
        order(driver, &from, &to, Direction::Producers, flags)
            .map_err(|failure| failure.at(format_args!("streams[{index}]")))?;
    }
    identify(array, driver, export, &to).map_err(|failure| failure.at("export_stream"))
}

/// Writes the stream's identity into the array, and records the array's event.
fn identify(array: &mut cai_array, driver: &Driver, export: u64, stream: &Stream) -> Result<()> {
    let state = stream.capture(driver)?;
    let who = || -> Result<_> { Ok((stream.context(driver)?, stream.id(driver)?)) };
    let (context, id) = if state == Capture::None { who() } else { driver.relaxed(who) }?;
    // An event that is recorded in a capture has no meaning outside of it.
    if !array.event.is_null() && state == Capture::None {
        stream.record(driver, array.event.cast())?;
    }
    array.stream = export;
    array.stream_id = id;
    array.context = context.cast();
    Ok(())
}
