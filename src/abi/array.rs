//! The array itself.

use std::ffi::{c_char, c_void};
use std::mem::{offset_of, size_of};

use super::dtype::{CAI_TYPESTR_SIZE, cai_descr};
use super::owner::cai_owner;

/// The most dimensions an array may have.
pub const CAI_MAX_NDIM: i32 = 64;

/// How many masks may hang on one another: an array's mask, that mask's mask, and so on.
pub const CAI_MAX_MASKS: i32 = 8;

/// The highest version of the CUDA Array Interface that this header describes.
pub const CAI_INTERFACE_VERSION: u16 = 3;

/// Bit of `cai_array.flags`: the data must not be written through this array.
pub const CAI_ARRAY_READONLY: u32 = 1;

/// A CUDA stream as the CUDA Array Interface writes it: `CAI_STREAM_LEGACY`, `CAI_STREAM_PER_THREAD`,
/// `CAI_STREAM_NONE`, `CAI_STREAM_UNKNOWN`, or a `CUstream` (`cudaStream_t`) as an integer. 0 is
/// refused, so that a zeroed structure never passes for "no synchronization needed".
pub type cai_stream = u64;

/// The legacy default stream of `context`.
pub const CAI_STREAM_LEGACY: cai_stream = 1;

/// The calling thread's per-thread default stream of `context`.
pub const CAI_STREAM_PER_THREAD: cai_stream = 2;

/// No synchronization is needed: no work on the data is pending. What `None`, or no `stream` entry,
/// says in version 3.
pub const CAI_STREAM_NONE: cai_stream = u64::MAX;

/// The producer could not say whether work is pending: its protocol has no streams (CAI before
/// version 3).
pub const CAI_STREAM_UNKNOWN: cai_stream = u64::MAX - 1;

/// `cai_device.type`: not known; ask the CUDA driver about the address.
pub const CAI_DEVICE_UNKNOWN: i32 = 0;
/// `cai_device.type`: host memory. This and the following numbers are DLPack's `DLDeviceType`; those
/// of DLPack that are not named here are valid too.
pub const CAI_DEVICE_CPU: i32 = 1;
/// `cai_device.type`: memory of a CUDA device.
pub const CAI_DEVICE_CUDA: i32 = 2;
/// `cai_device.type`: host memory that CUDA allocated or registered.
pub const CAI_DEVICE_CUDA_HOST: i32 = 3;
/// `cai_device.type`: an OpenCL buffer; `data` is a `cl_mem`, not an address.
pub const CAI_DEVICE_OPENCL: i32 = 4;
/// `cai_device.type`: CUDA managed memory.
pub const CAI_DEVICE_CUDA_MANAGED: i32 = 13;
/// `cai_device.type`: oneAPI unified shared memory.
pub const CAI_DEVICE_ONEAPI: i32 = 14;

/// Where data lives.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct cai_device {
    /// `CAI_DEVICE_CUDA`, ..., or `CAI_DEVICE_UNKNOWN`.
    pub r#type: i32,
    /// The device's ordinal; not looked at when the type is not known.
    pub id: i32,
}

/// A GPU array: all that `__cuda_array_interface__` versions 0 to 3 say, and what its relatives for
/// other devices need, in 128 bytes. Plain data: whoever has this header reads an array, keeps it
/// alive and lets it go without linking anything.
///
/// Start from `CAI_ARRAY_INIT`, which fills `struct_size` and `version` and leaves `stream` 0: a
/// producer must say which stream its work is on, or `CAI_STREAM_NONE`. To start over, assign
/// `(cai_array)CAI_ARRAY_INIT` (in C++ `cai_array(CAI_ARRAY_INIT)`); other languages set the two fields.
///
/// Ownership: copying the structure copies no reference. `cai_array_retain` and `cai_array_release`
/// act on `owner`, which keeps alive all that is reachable from the structure, the mask included.
/// What `shape`, `strides`, `descr` and `mask` point to is constant while any reference is held.
///
/// Growth: later versions of this header may append fields. A reader uses only what `struct_size`
/// covers and takes the rest for zero; a field that may not be ignored is announced by a flag. The
/// first 16 bytes never change.
///
/// Thread safety: plain data; several threads may read one structure at once.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct cai_array {
    /// `sizeof(cai_array)` as the filler compiled it.
    pub struct_size: u32,
    /// `CAI_ARRAY_READONLY` or 0. An unknown bit is an error.
    pub flags: u32,
    /// Keeps everything reachable from this structure alive. NULL: borrowed, valid only during the call
    /// that it was passed to.
    pub owner: *mut cai_owner,
    /// Device address of the element with index zero, or an opaque handle (`cl_mem`). NULL exactly when
    /// the array has no elements. With negative strides it is not the lowest address.
    pub data: *mut c_void,
    /// `ndim` extents, each at least 0. May be NULL when `ndim` is 0.
    pub shape: *const i64,
    /// `ndim` steps in bytes, which may be 0 or negative. NULL: C-contiguous.
    pub strides: *const i64,
    /// Number of dimensions, 0 to `CAI_MAX_NDIM`.
    pub ndim: i32,
    /// Version of the CUDA Array Interface that the contents follow, 0 to 3.
    pub version: u16,
    /// 0: the type is what `typestr` says. Else what an opaque type means: `CAI_DTYPE_BFLOAT16`, ...
    pub dtype_code: u16,
    /// The element's type in the grammar of NumPy's array interface, NUL-terminated: `<f4`.
    pub typestr: [c_char; CAI_TYPESTR_SIZE],
    /// NULL, or the fields of a structured type. Its size must be the one that `typestr` says.
    pub descr: *const cai_descr,
    /// NULL, or an array that says which elements are valid: a true element marks a valid one. Where the mask
    /// has a mask of its own that calls its element invalid, the array's element is not valid either. Its
    /// own `owner` may be NULL: this array's owner covers it.
    pub mask: *const cai_array,
    /// The stream on which the producer may have work on the data pending.
    pub stream: cai_stream,
    /// What `cuStreamGetId` says of that stream, 0 when not known: tells a destroyed stream from a new
    /// one with the same handle.
    pub stream_id: u64,
    /// NULL, or a `CUevent` recorded on `stream` after the last work that writes the data. It lets several
    /// consumers read at once: each waits for the event alone, not for what the others do. It belongs to the
    /// context of `stream`, and the owner keeps it alive. Whoever writes the data records it again, as
    /// `cai_array_produce` and `cai_array_consume_end` do.
    pub event: *mut c_void,
    /// Where the data lives.
    pub device: cai_device,
    /// The `CUcontext` of `stream` (where that names none, of the data), a `cl_context` or a SYCL context;
    /// NULL: not known. Streams 1 and 2 mean something only together with it.
    pub context: *mut c_void,
    /// Only for opaque handles: bytes from the start of the buffer to the element with index zero. Else 0.
    pub byte_offset: u64,
}

/// Bit of the `checks` of `cai_array_validate`: the structure and all that it points to, by what it
/// says alone. Reads the structure, shape, strides, descr and masks; never the data; asks no driver.
pub const CAI_CHECK_LAYOUT: u32 = 1;

/// Bit of the `checks` of `cai_array_validate`: `data` and every stride that is used are multiples of
/// the element's natural alignment. Reads what `CAI_CHECK_LAYOUT` reads.
pub const CAI_CHECK_ALIGNMENT: u32 = 2;

/// Bit of the `checks` of `cai_array_validate`: asks the CUDA driver whether `data` is memory that it knows, of
/// the kind and on the device that `device` says, reachable from the current context if there is one, and
/// whether every byte that the array can touch lies in the allocation. Arrays without elements, in host memory
/// or behind handles pass.
pub const CAI_CHECK_DEVICE: u32 = 4;

/// Bit of the `checks` of `cai_array_validate`: asks the CUDA driver whether `stream` is alive, is the one that
/// `stream_id` names and belongs to `context`. A handle that was destroyed and not given out again is the one
/// thing that cannot be asked about: it must not be passed.
pub const CAI_CHECK_STREAM: u32 = 8;

const _: () = assert!(size_of::<cai_device>() == 8);
const _: () = assert!(size_of::<cai_array>() == 128);
const _: () = assert!(offset_of!(cai_array, flags) == 4);
const _: () = assert!(offset_of!(cai_array, owner) == 8);
const _: () = assert!(offset_of!(cai_array, data) == 16);
const _: () = assert!(offset_of!(cai_array, shape) == 24);
const _: () = assert!(offset_of!(cai_array, strides) == 32);
const _: () = assert!(offset_of!(cai_array, ndim) == 40);
const _: () = assert!(offset_of!(cai_array, version) == 44);
const _: () = assert!(offset_of!(cai_array, dtype_code) == 46);
const _: () = assert!(offset_of!(cai_array, typestr) == 48);
const _: () = assert!(offset_of!(cai_array, descr) == 64);
const _: () = assert!(offset_of!(cai_array, mask) == 72);
const _: () = assert!(offset_of!(cai_array, stream) == 80);
const _: () = assert!(offset_of!(cai_array, stream_id) == 88);
const _: () = assert!(offset_of!(cai_array, event) == 96);
const _: () = assert!(offset_of!(cai_array, device) == 104);
const _: () = assert!(offset_of!(cai_array, context) == 112);
const _: () = assert!(offset_of!(cai_array, byte_offset) == 120);
