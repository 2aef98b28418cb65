//! The parsed typestr of `cai/dtype.h`.

use std::ffi::c_char;

/// Generic, or not a time.
pub const CAI_UNIT_GENERIC: i32 = 0;
/// Years.
pub const CAI_UNIT_YEAR: i32 = 1;
/// Months.
pub const CAI_UNIT_MONTH: i32 = 2;
/// Weeks.
pub const CAI_UNIT_WEEK: i32 = 3;
/// Days.
pub const CAI_UNIT_DAY: i32 = 4;
/// Hours.
pub const CAI_UNIT_HOUR: i32 = 5;
/// Minutes.
pub const CAI_UNIT_MINUTE: i32 = 6;
/// Seconds.
pub const CAI_UNIT_SECOND: i32 = 7;
/// Milliseconds.
pub const CAI_UNIT_MILLISECOND: i32 = 8;
/// Microseconds.
pub const CAI_UNIT_MICROSECOND: i32 = 9;
/// Nanoseconds.
pub const CAI_UNIT_NANOSECOND: i32 = 10;
/// Picoseconds.
pub const CAI_UNIT_PICOSECOND: i32 = 11;
/// Femtoseconds.
pub const CAI_UNIT_FEMTOSECOND: i32 = 12;
/// Attoseconds.
pub const CAI_UNIT_ATTOSECOND: i32 = 13;

/// Parsed typestr: byte order, kind, size in bytes (characters for `U`, bits for `t`), and for `m`
/// and `M` the unit in brackets, as in NumPy's array interface.
///
/// The size never changes: later versions use reserved space, which is zero until then.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct cai_dtype {
    /// One of the kinds above.
    pub kind: c_char,
    /// `<` little-endian, `>` big-endian, `|` not relevant. As written: `<V2` and `|V2` differ
    /// here, and `|i8`, which some producers write, means the machine's own order.
    pub byte_order: c_char,
    /// Meaning of an opaque type (`CAI_DTYPE_BFLOAT16`, ...), or `CAI_DTYPE_NONE`.
    pub code: u16,
    /// Time unit of the kinds `m` and `M` (`CAI_UNIT_SECOND`, ...), otherwise `CAI_UNIT_GENERIC`.
    pub unit: i32,
    /// Number of units in a step of the kinds `m` and `M` (25 in `<M8[25us]`), otherwise 1.
    pub unit_count: i32,
    /// Zero. Reserved for packed and vector types.
    pub reserved: [u16; 2],
    /// Bytes of one element; 0 for bit fields that are not a whole number of bytes.
    pub itemsize: i64,
    /// Bits of one element.
    pub bits: i64,
}

layout! { cai_dtype: 32; unit 4, unit_count 8, reserved 12, itemsize 16, bits 24 }
