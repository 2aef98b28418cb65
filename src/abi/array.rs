//! Checks and results of the functions in `cai/array.h`.

/// Structure, shape, strides, fields and masks obey every rule. Makes no driver call.
pub const CAI_CHECK_LAYOUT: u32 = 1;
/// `data` and every stride that is used are multiples of the element's natural alignment.
pub const CAI_CHECK_ALIGNMENT: u32 = 2;
/// Asks the CUDA driver for the kind, device, extent and accessibility of the memory.
pub const CAI_CHECK_DEVICE: u32 = 4;
/// Asks the CUDA driver whether `stream` is alive and agrees with `stream_id` and `context`.
pub const CAI_CHECK_STREAM: u32 = 8;
/// The elements, or all of their fields, have the machine's byte order, or none. Masks are exempt:
/// an element is set in either order. Makes no driver call.
pub const CAI_CHECK_NATIVE: u32 = 16;

/// The elements lie in C order (last dimension fastest) without gaps.
pub const CAI_LAYOUT_C_CONTIGUOUS: u32 = 1;
/// The elements lie in Fortran order (first dimension fastest) without gaps.
pub const CAI_LAYOUT_F_CONTIGUOUS: u32 = 2;

/// Size and extent of an array, filled by `cai_array_layout`.
///
/// The size never changes: later versions use reserved space, which is zero until then.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct cai_layout {
    /// Number of elements: the product of all extents; 1 if there are no dimensions.
    pub count: i64,
    /// Bytes of all elements without gaps, as a dense copy needs. Bit fields are packed and rounded
    /// up.
    pub nbytes: i64,
    /// First byte that the array touches, relative to `data` (to `data` plus `byte_offset` for a
    /// handle): 0 or negative.
    pub lower: i64,
    /// End of the bytes that the array touches, relative to the same address. 0 if there are no
    /// elements.
    pub upper: i64,
    /// `CAI_LAYOUT_` bits. Strides of extents below 2 do not matter. An array can be both.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
    /// Bytes of one element; 0 for bit fields that are not a whole number of bytes.
    pub itemsize: i64,
    /// Zero.
    pub reserved_tail: [u64; 2],
}

layout! { cai_layout: 64; nbytes 8, lower 16, upper 24, flags 32, itemsize 40 }
