//! The producer's side: joins the streams that have pending work into the exported one.

use std::ptr;

use crate::abi::{self, cai_array, cai_stream};
use crate::driver::{self, CallingThread, Capture, Stream};
use crate::error::{Result, fail};
use crate::sync::order::{Direction, order_in};
use crate::sync::{bad_flags, names_a_stream, policy};

const PRODUCER: u32 = abi::CAI_SYNC_EXPORT_NONE
    | abi::CAI_SYNC_THIS_CALL
    | abi::CAI_CAPTURE_JOIN
    | abi::CAI_UNSTABLE_CAPTURE_EXTERNAL;

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
        return fail!(CAI_ERR_VERSION, "version";
            found "{}", array.version; expected "3: earlier versions have no stream");
    }
    for (index, &stream) in streams.iter().enumerate() {
        names_a_stream(stream, format_args!("streams[{index}]"))?;
    }
    if export == 0 {
        names_a_stream(export, format_args!("export_stream"))?;
    }
    if streams.is_empty() || policy::in_force(flags)? & abi::CAI_SYNC_EXPORT_NONE != 0 {
        array.stream = abi::CAI_STREAM_NONE;
        array.stream_id = 0;
        array.event = ptr::null_mut();
        return Ok(());
    }
    names_a_stream(export, format_args!("export_stream"))?;
    let thread = &CallingThread::new(driver::driver_of(array.device.r#type)?);
    let to = Stream::from_current_context(thread, export)?;
    let _entered = to.enter(thread)?;
    let mut state =
        to.capture(thread).map_err(|failure| failure.at(format_args!("export_stream")))?;
    for (index, &value) in streams.iter().enumerate() {
        // A stream that was joined before adds nothing.
        if value == export || streams[..index].contains(&value) {
            continue;
        }
        let mut join = || -> Result<()> {
            let from = Stream::from_current_context(thread, value)?;
            let states = (from.capture(thread)?, state);
            order_in(thread, &from, &to, states, Direction::Producers, flags)?;
            if states.0 == Capture::Active {
                // It may have joined the capture.
                state = to.capture(thread)?;
            }
            Ok(())
        };
        join().map_err(|failure| failure.at(format_args!("streams[{index}]")))?;
    }
    identify(array, thread, export, &to, state)
        .map_err(|failure| failure.at(format_args!("export_stream")))
}

/// Writes the stream's identity into the array, and records the array's event.
fn identify(
    array: &mut cai_array,
    thread: &CallingThread,
    export: u64,
    stream: &Stream,
    state: Capture,
) -> Result<()> {
    let (context, id) = stream.identity(thread, state)?;
    // An event that is recorded in a capture has no meaning outside of it.
    if !array.event.is_null() && state == Capture::None {
        stream.record(thread, array.event.cast())?;
    }
    array.stream = export;
    array.stream_id = id;
    array.context = context.cast();
    Ok(())
}
