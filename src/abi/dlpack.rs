//! Names of DLPack's structures, and flags, for `cai/dlpack.h`.

/// `DLManagedTensor` of DLPack: the older structure, without version and flags.
pub enum DLManagedTensor {}

/// `DLManagedTensorVersioned` of DLPack 1.0 and later.
pub enum DLManagedTensorVersioned {}

/// Makes a tensor of a read-only array that does not state so, for consumers that reject those.
pub const CAI_DLPACK_HIDE_READONLY: u32 = 4;
