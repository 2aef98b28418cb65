//! Flags for `cai/unstable/dlpack.h`.

/// Imports elements of several lanes, such as `float4`: with this flag of `cai_array_from_dlpack`
/// and `cai_array_from_dlpack_unversioned`, elements of `lanes` numbers of whole bytes are numbers of
/// an array with one more dimension: the last one, of `lanes` contiguous numbers. A tensor of shape
/// (3, 5) with elements of 2 floats is an array of shape (3, 5, 2) of floats. Its other strides are
/// those of the tensor, in bytes. Tensors of one lane come in as without the flag. For lanes in a
/// tensor of 64 dimensions, the status is `CAI_ERR_NDIM`.
pub const CAI_UNSTABLE_DLPACK_LANES: u32 = 8;

/// The same for `cai_import_options.flags`: tensors of `__dlpack__` and of DLPack's exchange table.
pub const CAI_UNSTABLE_IMPORT_LANES: u32 = 1_073_741_824;
