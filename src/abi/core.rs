//! The data of `cai/abi.h`: array, device, owner, fields, and the numbers in them.
//!
//! Programs copy `cai/abi.h` into their tree and use it without the library, so a layout in this
//! file never changes. A constant's comment is one sentence: it becomes one line of the header. The
//! build script makes the constants of device types and of dtype codes from `devices.txt` and
//! `dtypes.txt`.

use std::ffi::{c_char, c_void};

/// Version of the layouts of arrays, owners and fields. A new layout would get new names.
pub const CAI_DATA_ABI: u32 = 1;

/// Highest version of the CUDA Array Interface that this header describes.
pub const CAI_INTERFACE_VERSION: u16 = 3;

/// Bytes of a `typestr`, the terminating NUL included.
pub const CAI_TYPESTR_SIZE: usize = 16;
/// Maximum number of dimensions.
pub const CAI_MAX_NDIM: i32 = 64;
/// Maximum mask nesting depth (the mask of a mask, and so on).
pub const CAI_MAX_MASKS: i32 = 8;
/// Maximum number of fields, nested fields included.
pub const CAI_MAX_FIELDS: u64 = 65536;
/// Maximum field nesting depth, the outermost list included.
pub const CAI_MAX_DESCR_DEPTH: i32 = 16;

/// The data must not be written through this array.
pub const CAI_ARRAY_READONLY: u32 = 1;

/// A CUDA stream: a `CUstream` (`cudaStream_t`) as an integer, or one of the `CAI_STREAM_` values.
/// 0 is invalid, so that a zeroed structure never passes for "no synchronization needed".
pub type cai_stream = u64;

/// Legacy default stream of `context`.
pub const CAI_STREAM_LEGACY: cai_stream = 1;
/// Per-thread default stream of the producer.
pub const CAI_STREAM_PER_THREAD: cai_stream = 2;
/// No work is pending: no synchronization needed.
pub const CAI_STREAM_NONE: cai_stream = u64::MAX;
/// Not known: the protocol has no streams.
pub const CAI_STREAM_UNKNOWN: cai_stream = u64::MAX - 1;

include!(concat!(env!("OUT_DIR"), "/devices.rs"));

/// None: `typestr` describes the type completely.
pub const CAI_DTYPE_NONE: u16 = 0;
include!(concat!(env!("OUT_DIR"), "/dtypes.rs"));

/// Result of a function: `CAI_OK`, or a failure, which this header need not name.
// No enum: a value that a newer library returns would be undefined behaviour.
pub type cai_status = i32;

/// Success.
pub const CAI_OK: cai_status = 0;
/// A required pointer argument is NULL.
///
/// `field` names the parameter.
pub const CAI_ERR_NULL_ARGUMENT: cai_status = 101;
/// `struct_size` is not the size of any version of the structure.
///
/// Initialize the structure with `CAI_ARRAY_INIT`.
pub const CAI_ERR_STRUCT_SIZE: cai_status = 201;
/// `flags` of the array has a bit that this library does not know.
///
/// The bit announces a member that must not be ignored. Use a newer library.
pub const CAI_ERR_FLAGS: cai_status = 202;
/// The array has no owner, so it cannot be kept beyond this call.
pub const CAI_ERR_BORROWED: cai_status = 215;
/// The owner's table of operations is missing, too short or incomplete.
pub const CAI_ERR_OWNER_OPS: cai_status = 216;

/// Location of data.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct cai_device {
    /// A `CAI_DEVICE_` number: DLPack's `DLDeviceType`, or `CAI_DEVICE_UNKNOWN`.
    pub r#type: i32,
    /// Ordinal of the device; -1: not known (not for CUDA). Ignored if the type is unknown.
    pub id: i32,
}

/// Reference count of what keeps an array alive. It carries its own operations, so that an array
/// from one library is released correctly through any other.
///
/// Embed `cai_owner` as the first member of your own reference-counted object. The other members
/// are private to you. `cai_owner_create` makes one if you have no such object.
///
/// An owner keeps alive everything that is reachable from the `cai_array`: the data, `shape`,
/// `strides`, `descr` and `mask`, the event, and the stream, which must live at least as long as
/// the exported array (CAI version 3, "Lifetime management", "Streams").
#[repr(C)]
pub struct cai_owner {
    /// Operations. They stay valid, and their code stays loaded, until the last release has
    /// returned.
    pub ops: *const cai_owner_ops,
}

/// Operations of an owner: a constant table in the library that made the owner.
///
/// Both functions may be called from any thread at any time, by several threads at once, with or
/// without an interpreter's lock, with any CUDA context current or none, and during a stream
/// capture. They must not throw. Later versions append operations: use only what `struct_size`
/// covers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct cai_owner_ops {
    /// `sizeof(cai_owner_ops)` of the producer's header; at least 24.
    pub struct_size: u32,
    /// Zero.
    pub reserved: u32,
    /// Adds a reference.
    pub retain: Option<unsafe extern "C-unwind" fn(owner: *mut cai_owner)>,
    /// Releases a reference; the last one destroys the owner. It should not block, and must not
    /// make a CUDA call that synchronizes: `cudaFree` waits for the device and fails during a
    /// capture.
    pub release: Option<unsafe extern "C-unwind" fn(owner: *mut cai_owner)>,
}

// SAFETY: a table is never written after it was made, and its functions can be called from any
// thread: the structure's documentation requires both of the producer.
unsafe impl Sync for cai_owner_ops {}

/// GPU array: the contents of `__cuda_array_interface__` versions 0 to 3, and what the related
/// protocols for other devices need. Plain data of 128 bytes.
///
/// Start from `CAI_ARRAY_INIT`. It leaves `stream` 0, which is invalid: a producer sets the stream
/// that its work is on, or `CAI_STREAM_NONE`.
///
/// Ownership: copying the structure copies no reference. `cai_inline_retain` and
/// `cai_inline_release` act on `owner`. What the pointers lead to is constant while any reference
/// is held. For a copy use `cai_inline_share`: an assignment also copies a `struct_size` that can
/// exceed the copy.
///
/// Growth: later versions append members. Use only what `struct_size` covers and take the rest for
/// zero. A member that must not be ignored is announced by a bit in `flags`.
///
/// Thread safety: plain data. Several threads may read one structure at once.
#[repr(C)]
#[derive(Clone, Copy)]
#[cfg_attr(test, derive(Debug))]
pub struct cai_array {
    /// `sizeof(cai_array)` of the header that the writer was compiled with: 128 to 512, a multiple
    /// of 8.
    pub struct_size: u32,
    /// `CAI_ARRAY_` bits. An array with an unknown bit must be refused.
    pub flags: u32,
    /// Keeps everything that is reachable from this structure alive. NULL: a borrowed array, which
    /// is valid only during the call that it was passed to.
    pub owner: *mut cai_owner,
    /// Address of the element at index zero, or a handle. NULL exactly if there are no elements.
    /// With negative strides it is not the lowest address.
    pub data: *mut c_void,
    /// `ndim` extents in elements, each at least 0. May be NULL if `ndim` is 0.
    pub shape: *const i64,
    /// `ndim` strides in bytes, which may be 0 or negative. NULL: C-contiguous.
    pub strides: *const i64,
    /// Number of dimensions, 0 to `CAI_MAX_NDIM`.
    pub ndim: i32,
    /// Version of the CUDA Array Interface that the contents follow. Values above 3 mean "at least
    /// 3".
    pub version: u16,
    /// Meaning of an opaque type (`CAI_DTYPE_BFLOAT16`, ...), or `CAI_DTYPE_NONE`.
    pub dtype_code: u16,
    /// Type of an element in the grammar of NumPy's array interface, NUL-terminated: `<f4`.
    pub typestr: [c_char; CAI_TYPESTR_SIZE],
    /// Fields of a structured type, or NULL. Their size is that of `typestr`.
    pub descr: *const cai_descr,
    /// NULL, or an array that broadcasts to this one: a non-zero element marks a valid element. If
    /// the mask has a mask of its own, an element must be valid in both. Its `owner` may be NULL.
    pub mask: *const cai_array,
    /// Stream on which the producer's work on the data may be pending. On ROCm devices, of HIP.
    pub stream: cai_stream,
    /// Identity of the stream (`cuStreamGetId`), or 0 if not known. It distinguishes a destroyed
    /// stream from a new one with the same handle.
    pub stream_id: u64,
    /// A `CUevent` (`cudaEvent_t`), not a pointer to one; on ROCm devices a `hipEvent_t`. NULL, or
    /// recorded on `stream` after the last write. Readers wait for the event alone only if the
    /// array is read-only; otherwise they wait for the stream, because a writer that follows the
    /// specification on `stream` alone does not record the event again. If `stream` is
    /// `CAI_STREAM_UNKNOWN`, readers and writers wait for the event.
    pub event: *mut c_void,
    /// Location of the data.
    pub device: cai_device,
    /// Context of `stream` (of the data, if there is no stream), or NULL if not known; on ROCm, the
    /// number of the device plus one. Streams 1 and 2 have a meaning only within a context.
    pub context: *mut c_void,
    /// For handles, bytes from the start of the buffer to the element at index zero. Otherwise 0.
    pub byte_offset: u64,
}

/// Fields of a structured type: NumPy's `descr` with a count. The array's owner keeps it alive.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct cai_descr {
    /// `sizeof(cai_descr)` of the producer's header; at least 24.
    pub struct_size: u32,
    /// `sizeof(cai_field)` of the producer's header, at least 56: the distance between two rows.
    pub field_size: u32,
    /// Number of rows.
    pub count: u64,
    /// Rows in memory order; `cai_inline_field` returns one. May be NULL if `count` is 0.
    pub fields: *const cai_field,
}

/// One row of a `cai_descr`.
#[repr(C)]
#[derive(Clone, Copy)]
#[cfg_attr(test, derive(Debug))]
pub struct cai_field {
    /// Name, NUL-terminated UTF-8. Empty for padding and for the single row of a plain type.
    pub name: *const c_char,
    /// Title (the first of the two names in NumPy's `(title, name)`), or NULL.
    pub title: *const c_char,
    /// Type of the field, or of one element of its sub-array. Empty if `nested` is set.
    pub typestr: [c_char; CAI_TYPESTR_SIZE],
    /// NULL, or the fields that this field consists of.
    pub nested: *const cai_descr,
    /// `ndim` extents of a sub-array in C order without gaps. May be NULL if `ndim` is 0.
    pub shape: *const i64,
    /// Number of dimensions of the sub-array; 0 for a single element.
    pub ndim: i32,
    /// As in `cai_array`.
    pub dtype_code: u16,
    /// Zero.
    pub reserved: u16,
}

layout! { cai_device: 8 }
layout! { cai_owner: 8 }
layout! { cai_owner_ops: 24; retain 8, release 16 }
layout! { cai_array: 128; flags 4, owner 8, data 16, shape 24, strides 32, ndim 40, version 44,
dtype_code 46, typestr 48, descr 64, mask 72, stream 80, stream_id 88, event 96,
device 104, context 112, byte_offset 120 }
layout! { cai_descr: 24; fields 16 }
layout! { cai_field: 56; typestr 16, nested 32, shape 40, ndim 48 }
