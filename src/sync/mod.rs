//! Ordering producers and consumers on their streams, and lifetime on streams.
//!
//! May use: `abi`, `error`, `raw`, `layout`, `owner`, `driver`, `validate`. `unsafe`: follows the
//! pointers of an array that the caller vouches for.
//!
//! The rules are those of "Synchronization" and "Lifetime management" in version 3 of the
//! specification. [`order`] is the one step that everything is made of: what was enqueued on one
//! stream comes before what will be enqueued on another, by an event, without blocking the host.
//! [`consume`] and [`produce`] say between which streams; [`release_queue`] lets owners go when
//! streams get there; [`policy`] is what users override.

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

/// What the functions of this room need to know of an array.
///
/// # Safety
/// As for [`read::view`].
#[inline(always)]
unsafe fn view(
    array: *const cai_array,
    scratch: &mut MaybeUninit<cai_array>,
) -> Result<&cai_array> {
    // SAFETY: handed on.
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

/// A value that names a stream of the driver: not 0, and neither of the two that name none.
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
