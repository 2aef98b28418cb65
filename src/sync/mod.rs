//! Orders producers and consumers on their streams; deferred release.
//!
//! May use: `abi`, `error`.
//! Unsafe: none.
//!
//! The rules are those of "Synchronization" and "Lifetime management" in version 3 of the
//! specification. [`order`] is the basic step: it makes one stream wait for another by an event,
//! without blocking the host. [`consume`] and [`produce`] determine the streams. [`release_queue`]
//! releases owners when streams get there, [`policy`] holds what users override, and [`notify`]
//! reports exchanges to the observer.

pub mod consume;
pub mod notify;
mod order;
pub mod policy;
pub mod produce;
pub mod release_queue;

use crate::abi;
use crate::error::{Result, fail};

/// Fails for values that name no stream of the driver: 0, NONE and UNKNOWN.
#[inline]
fn names_a_stream(value: u64, field: impl std::fmt::Display) -> Result<()> {
    match value {
        0 => fail!(
            CAI_ERR_STREAM_ZERO,
            "{field}",
            found = "0",
            expected = "1 (legacy default), 2 (per-thread default) or a CUstream"
        ),
        abi::CAI_STREAM_NONE | abi::CAI_STREAM_UNKNOWN => {
            let name = if value == abi::CAI_STREAM_NONE {
                "CAI_STREAM_NONE"
            } else {
                "CAI_STREAM_UNKNOWN"
            };
            fail!(
                CAI_ERR_ARGUMENT,
                "{field}",
                found = "{name}",
                expected = "a stream that work is enqueued on"
            )
        }
        _ => Ok(()),
    }
}
