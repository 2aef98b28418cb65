//! What crosses to other protocols: options for Python objects, and the table that types publish.

use std::ffi::{c_char, c_void};
use std::mem::{offset_of, size_of};

use super::array::{cai_array, cai_stream};
use super::dtype::CAI_TYPESTR_SIZE;
use super::error::cai_error;
use super::status::cai_status;

/// `struct PyObject` of CPython, under the name that its own headers use: a `PyObject *` is a `struct _object *`.
pub enum _object {}

/// `DLManagedTensor` of DLPack: the older structure, without version and flags.
pub enum DLManagedTensor {}

/// `DLManagedTensorVersioned` of DLPack 1.0 and later.
pub enum DLManagedTensorVersioned {}

/// A way in: the exchange table of this library, published on the object's type (`__cai_exchange_api__`).
pub const CAI_PROTOCOL_EXCHANGE: u8 = 1;
/// A way in: DLPack's exchange table, published on the object's type (`__dlpack_c_exchange_api__`). It
/// names the producer's current stream, which becomes the array's.
pub const CAI_PROTOCOL_DLPACK_EXCHANGE: u8 = 2;
/// A way in: the dictionary `__cuda_array_interface__`, versions 0 to 3.
pub const CAI_PROTOCOL_CUDA_ARRAY_INTERFACE: u8 = 3;
/// A way in: the method `__dlpack__`. The producer is asked to order its work before `stream` of the options, or
/// before the legacy default stream where that is 0; that stream becomes the array's. After the last release, the tensor
/// goes once the work that was enqueued there is done.
pub const CAI_PROTOCOL_DLPACK: u8 = 4;
/// A way in: the dictionary `__sycl_usm_array_interface__`, version 1. A SYCL queue becomes the array's
/// `stream`, a SYCL context its `context`.
pub const CAI_PROTOCOL_SYCL_USM: u8 = 5;
/// A way in: an object with `buffer` (or `base_data`, as pyopencl's arrays call it), `offset`, `dtype`, `shape` and
/// `strides`: the OpenCL/CUDA buffer interface. The array is a `cl_mem` with a `byte_offset`, or CUDA memory.
pub const CAI_PROTOCOL_BUFFER: u8 = 6;
/// A way in, for host memory: the capsule `__array_struct__` of NumPy. Tried by default only with
/// `CAI_IMPORT_ALLOW_HOST`.
pub const CAI_PROTOCOL_ARRAY_STRUCT: u8 = 7;
/// A way in, for host memory: the dictionary `__array_interface__` of NumPy, version 3. Tried by default only
/// with `CAI_IMPORT_ALLOW_HOST`.
pub const CAI_PROTOCOL_ARRAY_INTERFACE: u8 = 8;

/// Bit of `cai_import_options.flags`: takes only what the specification allows to the letter. Without it, what
/// real producers write is taken where it can mean one thing only: any mapping, lists for tuples, no `version`, a
/// `typestr` without byte order.
pub const CAI_IMPORT_STRICT: u32 = 1;
/// Bit of `cai_import_options.flags`: also takes a `stream` of 0, which the specification forbids, as the legacy
/// default stream.
pub const CAI_IMPORT_ALLOW_STREAM_ZERO: u32 = 2;
/// Bit of `cai_import_options.flags`: refuses read-only arrays.
pub const CAI_IMPORT_REQUIRE_WRITABLE: u32 = 4;
/// Bit of `cai_import_options.flags`: refuses what is not C-contiguous. Together with
/// `CAI_IMPORT_REQUIRE_F_CONTIGUOUS`, either will do.
pub const CAI_IMPORT_REQUIRE_C_CONTIGUOUS: u32 = 8;
/// Bit of `cai_import_options.flags`: refuses what is not Fortran-contiguous.
pub const CAI_IMPORT_REQUIRE_F_CONTIGUOUS: u32 = 16;
/// Bit of `cai_import_options.flags`: refuses elements that are not in the machine's byte order.
pub const CAI_IMPORT_REQUIRE_NATIVE: u32 = 32;
/// Bit of `cai_import_options.flags`: refuses arrays that have not `ndim` of the options for a number of dimensions.
pub const CAI_IMPORT_REQUIRE_NDIM: u32 = 64;
/// Bit of `cai_import_options.flags`: refuses arrays with a mask. Without it, whoever imports must look at `mask`.
pub const CAI_IMPORT_NO_MASK: u32 = 128;
/// Bit of `cai_import_options.flags`: also takes arrays in host memory (`CAI_DEVICE_CPU`), and tries NumPy's two
/// protocols at the end of the default order. Without it they are refused.
pub const CAI_IMPORT_ALLOW_HOST: u32 = 256;
/// Bit of `cai_import_options.flags`: asks the CUDA driver for the device and the context of the data where the
/// protocol does not say.
pub const CAI_IMPORT_QUERY_DEVICE: u32 = 512;
/// Bit of `cai_import_options.flags`: sets no Python exception for a refusal of this library's; `cai_error` says it
/// all. Exceptions of the producer's are passed on as ever.
pub const CAI_IMPORT_NO_EXCEPTION: u32 = 1024;

/// What `cai_array_from_python` shall take. Start from `CAI_IMPORT_OPTIONS_INIT`, which demands nothing; NULL
/// instead of it means the same.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct cai_import_options {
    /// `sizeof(cai_import_options)` as the caller compiled it.
    pub struct_size: u32,
    /// `CAI_IMPORT_` bits.
    pub flags: u32,
    /// The ways in that are tried, `CAI_PROTOCOL_` numbers, in this order up to the first 0. All 0: the
    /// default order, which is that of their numbers (but `CAI_PROTOCOL_SYCL_USM` before `CAI_PROTOCOL_DLPACK` for oneAPI).
    pub protocols: [u8; 8],
    /// The stream that the caller is going to work on, or 0: not known. Needed by `CAI_PROTOCOL_DLPACK` only.
    /// `CAI_STREAM_NONE`: the producer shall order nothing; the array's stream is then `CAI_STREAM_UNKNOWN`.
    pub stream: cai_stream,
    /// The number of dimensions that `CAI_IMPORT_REQUIRE_NDIM` demands.
    pub ndim: i32,
    /// The `dtype_code` that is demanded beside `typestr`.
    pub dtype_code: u16,
    /// What an opaque type of one byte means, a `CAI_DTYPE_` code (`CAI_DTYPE_FLOAT8_E4M3FN`): it becomes the
    /// array's `dtype_code`. 0: not known.
    pub opaque_8bit: u16,
    /// What an opaque type of two bytes means: `CAI_DTYPE_BFLOAT16` or 0.
    pub opaque_16bit: u16,
    /// Zero.
    pub reserved: [u16; 3],
    /// The type that is demanded, as in `cai_array`; empty: any type.
    pub typestr: [c_char; CAI_TYPESTR_SIZE],
}

/// Bit of `cai_export_options.flags`: the dictionary says version 2, which has no stream.
/// Whoever sets it has made sure that no work on the data is pending (`cai_array_synchronize`).
pub const CAI_EXPORT_VERSION_2: u32 = 1;
/// Bit of `cai_export_options.flags`: `strides` is always a tuple, for consumers that know no None.
pub const CAI_EXPORT_STRIDES: u32 = 2;
/// Bit of `cai_export_options.flags`: calls a read-only array writable, for consumers that refuse the truth
/// (PyTorch does). Whoever sets it answers for nobody writing.
pub const CAI_EXPORT_HIDE_READONLY: u32 = 4;

/// How `cai_array_to_python` presents an array. Start from `CAI_EXPORT_OPTIONS_INIT`; NULL instead of it means
/// the same.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct cai_export_options {
    /// `sizeof(cai_export_options)` as the caller compiled it.
    pub struct_size: u32,
    /// `CAI_EXPORT_` bits.
    pub flags: u32,
}

/// A table of functions that a type of a host language publishes, so that compiled code passes its objects on
/// without going through the language. In Python: a capsule with the name `cai_exchange_api` in the attribute
/// `__cai_exchange_api__` of the type (`cai_python_publish`).
///
/// The table is constant and lives as long as the process. The functions are called with the interpreter's lock
/// held. They may set a Python exception where they fail, which is then passed on.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct cai_exchange_api {
    /// `sizeof(cai_exchange_api)` as the publisher compiled it.
    pub struct_size: u32,
    /// `CAI_ABI_MAJOR` as the publisher compiled it. A table of another number is not used.
    pub abi_major: i32,
    /// Describes an object of the type, or of a type derived from it, in `out`, which comes initialized
    /// (`CAI_ARRAY_INIT`) and gets a reference of its own. Orders nothing: `out` names the stream.
    pub from_object: Option<
        unsafe extern "C" fn(
            object: *mut c_void,
            out: *mut cai_array,
            error: *mut cai_error,
        ) -> cai_status,
    >,
    /// NULL, or makes a new object of the type that holds a reference of its own to the array.
    pub to_object: Option<
        unsafe extern "C" fn(
            array: *const cai_array,
            out: *mut *mut c_void,
            error: *mut cai_error,
        ) -> cai_status,
    >,
}

const _: () = assert!(size_of::<cai_import_options>() == 56);
const _: () = assert!(offset_of!(cai_import_options, protocols) == 8);
const _: () = assert!(offset_of!(cai_import_options, stream) == 16);
const _: () = assert!(offset_of!(cai_import_options, ndim) == 24);
const _: () = assert!(offset_of!(cai_import_options, opaque_16bit) == 32);
const _: () = assert!(offset_of!(cai_import_options, typestr) == 40);
const _: () = assert!(size_of::<cai_export_options>() == 8);
const _: () = assert!(size_of::<cai_exchange_api>() == 24);
