//! The protocol and the flag of `cai/unstable/arrow.h`.

/// For `cai_unstable_array_to_arrow`: an array of two or more dimensions always becomes one of
/// `arrow.fixed_shape_tensor`. Its masks are of whole tensors, or of all elements in the stored order.
pub const CAI_UNSTABLE_ARROW_TENSOR: u32 = 1;

/// For `cai_unstable_arrow_stream_to_python`: the stream of `__arrow_c_stream__`, for host memory.
pub const CAI_UNSTABLE_ARROW_HOST: u32 = 2;

/// Methods `__arrow_c_device_array__` and, with `CAI_IMPORT_ALLOW_HOST`, `__arrow_c_array__`, of arrays
/// that `cai_unstable_array_from_arrow` accepts: for `cai_import_options.protocols`. In the default
/// order it comes after those for device memory, and after NumPy's interface.
pub const CAI_UNSTABLE_PROTOCOL_ARROW: u8 = 10;
