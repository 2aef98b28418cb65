//! Types of elements: the parsed typestr, the list of fields, and the codes for opaque types.

use std::ffi::c_char;
use std::mem::{offset_of, size_of};

/// Bytes of a `typestr`, the terminating NUL included.
pub const CAI_TYPESTR_SIZE: usize = 16;

/// How many fields a `cai_descr` may have in all, the nested ones included.
pub const CAI_MAX_FIELDS: u64 = 65536;

/// How deep fields may be nested: a `cai_descr` in a field in a `cai_descr` is two deep.
pub const CAI_MAX_DESCR_DEPTH: i32 = 16;

/// Time units of `cai_dtype.unit`: 0 is generic, or not a time.
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

/// What `dtype_code` says about an opaque type: nothing, the typestr says it all. The other codes are
/// for types that NumPy's grammar cannot name and that travel as opaque bytes of the right size. The
/// numbers of floating types are those of DLPack's `DLDataTypeCode`.
pub const CAI_DTYPE_NONE: u16 = 0;
/// bfloat16: two bytes, travels as `<V2`.
pub const CAI_DTYPE_BFLOAT16: u16 = 4;
/// 8-bit float with 3 exponent and 4 mantissa bits: one byte, travels as `<V1`, as all the 8-bit
/// floats do (some producers write `<f1` for e5m2; that is taken too).
pub const CAI_DTYPE_FLOAT8_E3M4: u16 = 7;
/// 8-bit float, IEEE-like, 4 exponent and 3 mantissa bits.
pub const CAI_DTYPE_FLOAT8_E4M3: u16 = 8;
/// 8-bit float, 4 exponent and 3 mantissa bits, bias 11, finite, unsigned zero.
pub const CAI_DTYPE_FLOAT8_E4M3B11FNUZ: u16 = 9;
/// 8-bit float, 4 exponent and 3 mantissa bits, finite.
pub const CAI_DTYPE_FLOAT8_E4M3FN: u16 = 10;
/// 8-bit float, 4 exponent and 3 mantissa bits, finite, unsigned zero.
pub const CAI_DTYPE_FLOAT8_E4M3FNUZ: u16 = 11;
/// 8-bit float, IEEE-like, 5 exponent and 2 mantissa bits.
pub const CAI_DTYPE_FLOAT8_E5M2: u16 = 12;
/// 8-bit float, 5 exponent and 2 mantissa bits, finite, unsigned zero.
pub const CAI_DTYPE_FLOAT8_E5M2FNUZ: u16 = 13;
/// 8-bit power of two, 8 exponent bits, no sign.
pub const CAI_DTYPE_FLOAT8_E8M0FNU: u16 = 14;
/// 6-bit float, one in a byte, 2 exponent and 3 mantissa bits.
pub const CAI_DTYPE_FLOAT6_E2M3FN: u16 = 15;
/// 6-bit float, one in a byte, 3 exponent and 2 mantissa bits.
pub const CAI_DTYPE_FLOAT6_E3M2FN: u16 = 16;
/// 4-bit float, one in a byte, 2 exponent bits and 1 mantissa bit.
pub const CAI_DTYPE_FLOAT4_E2M1FN: u16 = 17;
/// 4-bit signed integer, one in a byte.
pub const CAI_DTYPE_INT4: u16 = 256;
/// 4-bit unsigned integer, one in a byte.
pub const CAI_DTYPE_UINT4: u16 = 257;
/// 2-bit signed integer, one in a byte.
pub const CAI_DTYPE_INT2: u16 = 258;
/// 2-bit unsigned integer, one in a byte.
pub const CAI_DTYPE_UINT2: u16 = 259;
/// 4-bit floats as `CAI_DTYPE_FLOAT4_E2M1FN`, two in a byte: extents and strides count bytes.
pub const CAI_DTYPE_FLOAT4_E2M1FN_X2: u16 = 260;
/// 1-bit signed integer (0 or -1), one in a byte.
pub const CAI_DTYPE_INT1: u16 = 261;
/// 1-bit unsigned integer, one in a byte.
pub const CAI_DTYPE_UINT1: u16 = 262;

/// A typestr, taken apart. Its layout never changes.
///
/// The grammar is that of `typestr` in NumPy's array interface protocol: byte order, kind, size in
/// bytes (characters for `U`, bits for `t`), and for `m` and `M` the unit in brackets.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct cai_dtype {
    /// One of `t b i u f c m M O S U V`: bit field, boolean, signed integer, unsigned integer, float,
    /// complex, time difference, point in time, Python object, bytes, UCS-4 text, opaque bytes.
    pub kind: c_char,
    /// `<` little-endian, `>` big-endian, `|` not relevant. As written: `<V2` and `|V2` differ here,
    /// and `|i8`, which some producers write, means the machine's own order.
    pub byte_order: c_char,
    /// What an opaque type means (`CAI_DTYPE_BFLOAT16`, ...), or `CAI_DTYPE_NONE`.
    pub code: u16,
    /// Time unit of the kinds `m` and `M` (`CAI_UNIT_SECOND`, ...), else `CAI_UNIT_GENERIC`.
    pub unit: i32,
    /// How many units a step of the kinds `m` and `M` has (25 in `<M8[25us]`), else 1.
    pub unit_count: i64,
    /// Bytes of one element; 0 for bit fields that are no whole number of bytes.
    pub itemsize: i64,
    /// Bits of one element.
    pub bits: i64,
}

/// The fields of a structured type: NumPy's `descr`, counted. Names, sub-array shapes and padding
/// rows are kept as the producer wrote them.
///
/// The array's owner keeps it alive. Thread safety: constant.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct cai_descr {
    /// `sizeof(cai_descr)` as the filler compiled it.
    pub struct_size: u32,
    /// `sizeof(cai_field)` as the filler compiled it: the step from one row to the next.
    pub field_size: u32,
    /// Number of rows.
    pub count: u64,
    /// The rows, in the order of memory. May be NULL when `count` is 0.
    pub fields: *const cai_field,
}

/// One row of a `cai_descr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct cai_field {
    /// The field's name, NUL-terminated UTF-8. Empty for padding and for the one row of a plain type.
    pub name: *const c_char,
    /// The field's title (the first of the two names in NumPy's `(title, name)`), or NULL.
    pub title: *const c_char,
    /// The type of the field, or of one element of its sub-array; empty when `nested` is set.
    pub typestr: [c_char; CAI_TYPESTR_SIZE],
    /// NULL, or the fields that this field is made of.
    pub nested: *const cai_descr,
    /// `ndim` extents of a sub-array, in C order without gaps; may be NULL when `ndim` is 0.
    pub shape: *const i64,
    /// Number of dimensions of the sub-array; 0 for a single element.
    pub ndim: i32,
    /// What an opaque type means, as in `cai_array`.
    pub dtype_code: u16,
    /// Zero.
    pub reserved: u16,
}

const _: () = assert!(size_of::<cai_dtype>() == 32);
const _: () = assert!(offset_of!(cai_dtype, unit_count) == 8);
const _: () = assert!(offset_of!(cai_dtype, itemsize) == 16);
const _: () = assert!(offset_of!(cai_dtype, bits) == 24);
const _: () = assert!(size_of::<cai_descr>() == 24);
const _: () = assert!(offset_of!(cai_descr, fields) == 16);
const _: () = assert!(size_of::<cai_field>() == 56);
const _: () = assert!(offset_of!(cai_field, typestr) == 16);
const _: () = assert!(offset_of!(cai_field, nested) == 32);
const _: () = assert!(offset_of!(cai_field, shape) == 40);
const _: () = assert!(offset_of!(cai_field, ndim) == 48);
