//! The Arrow C device data interface: imports and exports arrays.
//!
//! Arrow's arrays have one dimension; more are fixed-size lists in one another. Nulls are a bitmap
//! of each level, which here is a packed mask that broadcasts to the levels inside. Work that is
//! pending is an event, without a stream.

mod abi;
mod batch;
mod bits;
mod export;
mod format;
mod import;
mod metadata;
mod structures;
mod tensor;

use std::fmt;

use crate::error::{Failure, failure};
pub use abi::{Array, DeviceArray, Schema};
pub use batch::{OwnedStream, batch, batches, in_column, in_host_memory, into_stream};
pub use export::{CHECKS, check_flags, to_arrow};
pub use import::{columns_from_arrow, from_arrow};
pub use structures::{Owned, OwnedDeviceArray};

/// The failure for a structure that does not conform to Arrow.
#[cold]
fn malformed(field: &str, found: &dyn fmt::Display, expected: &str) -> Failure {
    failure!(crate::abi::CAI_ERR_ARROW, "{field}"; found "{found}"; expected "{expected}")
}
