//! DLPack: tensors in and out.
//!
//! May use: `abi`, `error`, `raw`, `dtype`, `layout`, `owner`, `driver`, `validate`. `unsafe`:
//! follows the pointers of a tensor that the caller vouches for, and writes into the block that it
//! allocated.
//!
//! The differences between the two descriptions: DLPack's steps count elements, ours bytes; its
//! address and offset are two numbers on every device; its types are numbers, in the machine's byte
//! order; it knows neither streams nor masks. [`describe`] is the way in, `Export` the way out;
//! what surrounds them moves ownership. Nothing changes hands before all is known to be sound.

mod abi;
mod dtype;
pub mod exchange_table;
mod export;
mod import;

pub use abi::*;
pub use export::*;
pub use import::*;
