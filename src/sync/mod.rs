//! Orders producers and consumers on their streams; deferred release.
//!
//! The rules are those of "Synchronization" and "Lifetime management" in version 3 of the
//! specification. [`order`] is the basic step: it makes one stream wait for another by an event,
//! without blocking the host. [`consume`] and [`produce`] determine the streams, [`identity`]
//! says which stream a value means, and [`outgoing`] what Python objects state. [`release_queue`]
//! releases owners when streams get there, [`policy`] holds what users override, and [`notify`]
//! reports exchanges to the observer.

mod array_context;
mod batch;
pub mod consume;
pub mod deferred;
mod detached_thread;
mod element;
mod handover;
pub mod identity;
pub mod lost_streams;
pub mod many;
pub mod mark;
pub mod notify;
mod order;
pub mod outgoing;
mod pending_work;
pub mod policy;
pub mod produce;
mod python_end;
pub mod release_in_order;
pub mod release_queue;

use crate::abi::{self, cai_array};
use crate::device::Name;
use crate::error::{Failure, Result, Text, failure};
use crate::flags::{self, Named};

/// The failure for flags of which a function takes only `taken`. Bits that no function of this
/// module knows come from a newer caller; the others are a mistake.
#[cold]
fn bad_flags(given: u32, field: &str, taken: u32) -> Failure {
    const KNOWN: u32 = abi::CAI_ACCESS_READ
        | abi::CAI_ACCESS_WRITE
        | abi::CAI_SYNC_IGNORE
        | abi::CAI_SYNC_EXPORT_NONE
        | abi::CAI_SYNC_CONSERVATIVE
        | abi::CAI_SYNC_THIS_CALL
        | abi::CAI_CAPTURE_JOIN
        | abi::CAI_UNSTABLE_CAPTURE_EXTERNAL;
    const ACCESS: u32 = abi::CAI_ACCESS_READ | abi::CAI_ACCESS_WRITE;
    let unknown = given & !KNOWN != 0;
    let needs_access = taken & ACCESS != 0;
    let access = "CAI_ACCESS_READ, CAI_ACCESS_WRITE or both, and ";
    let found: Text<96> = match given & !taken {
        0 => Text::new(format_args!("neither CAI_ACCESS_READ nor CAI_ACCESS_WRITE")),
        other => Text::new(format_args!("{}", Named(other, flags::SYNC))),
    };
    failure!(if unknown { abi::CAI_ERR_NEWER_CALLER } else { abi::CAI_ERR_ARGUMENT }, "{field}";
        found "{found}";
        expected "{}only {}",
            if needs_access { access } else { "" }, Named(taken & !ACCESS, flags::SYNC))
}

/// The failure for a stream whose capture was invalidated.
#[cold]
fn invalidated() -> Failure {
    failure!(abi::CAI_ERR_CAPTURE_INVALIDATED, "stream";
        found "a stream whose capture was invalidated by an earlier call";
        expected "a stream without a capture: call cuStreamEndCapture first")
}

/// The failure for a stream of a device other than CUDA's and ROCm's.
#[cold]
fn no_streams(array: &cai_array, expected: &str) -> Failure {
    failure!(abi::CAI_ERR_STREAM_DEVICE, "device.type";
        found "{}, with a stream", Name(array.device.r#type);
        expected "a CUDA or ROCm device: {expected}")
}

/// Fails for values that name no stream of the driver: 0, NONE and UNKNOWN.
#[inline]
pub fn names_a_stream(value: u64, field: std::fmt::Arguments) -> Result<()> {
    if matches!(value, 1..abi::CAI_STREAM_UNKNOWN) { Ok(()) } else { Err(no_stream(value, field)) }
}

#[cold]
fn no_stream(value: u64, field: std::fmt::Arguments) -> Failure {
    let name = match value {
        0 => {
            return failure!(abi::CAI_ERR_STREAM_ZERO, "{field}";
                found "0"; expected "1 (legacy default), 2 (per-thread default) or a CUstream");
        }
        abi::CAI_STREAM_NONE => "CAI_STREAM_NONE",
        _ => "CAI_STREAM_UNKNOWN",
    };
    failure!(abi::CAI_ERR_ARGUMENT, "{field}";
        found "{name}"; expected "a stream that work is enqueued on")
}
