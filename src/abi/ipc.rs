//! Sizes for `cai/ipc.h`.
//!
//! May use: nothing.
//! Unsafe: none.

/// Bytes that suffice for every exported array.
pub const CAI_IPC_SIZE: usize = 2048;
