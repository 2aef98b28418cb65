//! Orders producers and consumers on their streams; deferred release.
//!
//! May use: `abi`, `error`, `read`.
//! Unsafe: follows the pointers of an array.
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

use std::mem::MaybeUninit;

use crate::abi::{self, cai_array};
use crate::error::{Result, fail};
use crate::read;

/// Returns what the functions of this folder need of an array.
///
/// # Safety
/// As for [`read::view`].
#[inline(always)]
unsafe fn view(
    array: *const cai_array,
    scratch: &mut MaybeUninit<cai_array>,
) -> Result<&cai_array> {
    // SAFETY: the contract is that of this function.
    let array = unsafe { read::view(array, scratch) }?;
    if array.flags & !abi::CAI_ARRAY_READONLY != 0 {
        return fail!(
            CAI_ERR_FLAGS,
            "flags",
            found = ("{:#x}", array.flags),
            expected = "flags that this library knows"
        );
    }
    Ok(array)
}

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
