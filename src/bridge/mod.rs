//! Bridges to other protocols, one file or folder each.
//!
//! May use: `abi`, `error`, `raw`, `dtype`, `layout`, `owner`, `driver`, `validate`, `sync`. `unsafe`: follows the
//! pointers of foreign structures.

pub mod dlpack;
pub mod python;
