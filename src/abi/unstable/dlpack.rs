//! Flags for `cai/unstable/dlpack.h`.

/// Imports elements of several lanes, such as `float4`: the lanes are a last dimension of the array.
pub const CAI_UNSTABLE_DLPACK_LANES: u32 = 8;

/// The same for `cai_import_options.flags`: tensors of `__dlpack__` and of DLPack's exchange table.
pub const CAI_UNSTABLE_IMPORT_LANES: u32 = 1_073_741_824;
