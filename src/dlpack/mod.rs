//! DLPack: imports and exports tensors.
//!
//! The two descriptions differ: DLPack's strides count elements, those of the array interface
//! bytes; DLPack's address and offset are two numbers on every device; its types are numbers, in
//! the machine's byte order; it has neither streams nor masks. [`describe`] converts a tensor,
//! `to_versioned` an array; ownership moves only after every check has passed.

mod abi;
mod dtype;
pub mod exchange_table;
mod export;
mod import;
mod managed;

pub use export::*;
pub use import::*;
pub use managed::*;
