//! Names of DLPack's structures, for `cai/dlpack.h`.
//!
//! May use: nothing.
//! Unsafe: none.

/// `DLManagedTensor` of DLPack: the older structure, without version and flags.
pub enum DLManagedTensor {}

/// `DLManagedTensorVersioned` of DLPack 1.0 and later.
pub enum DLManagedTensorVersioned {}
