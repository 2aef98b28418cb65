//! The Arrow C device data interface: imports and exports arrays.
//!
//! Arrow's arrays have one dimension; more are fixed-size lists in one another. Nulls are a bitmap
//! of each level, which here is a packed mask that broadcasts to the levels inside. Work that is
//! pending is an event, without a stream.

mod abi;
mod bits;
mod export;
mod format;
mod import;
mod metadata;
mod tensor;

pub use export::to_arrow;
pub use import::from_arrow;
