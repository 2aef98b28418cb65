//! Options for Python objects, and the exchange table, of `cai/python.h`.

use std::ffi::c_char;

use super::core::{CAI_TYPESTR_SIZE, cai_stream};

/// `PyObject` of CPython, under the name that its own headers use.
pub enum _object {}

/// Exchange table of this library on the object's type: `__cai_exchange_api__`.
pub const CAI_PROTOCOL_EXCHANGE: u8 = 1;
/// Exchange table of DLPack on the object's type: `__dlpack_c_exchange_api__`.
pub const CAI_PROTOCOL_DLPACK_EXCHANGE: u8 = 2;
/// Dictionary `__cuda_array_interface__`, versions 0 to 3.
pub const CAI_PROTOCOL_CUDA_ARRAY_INTERFACE: u8 = 3;
/// Method `__dlpack__`.
pub const CAI_PROTOCOL_DLPACK: u8 = 4;
/// Dictionary `__sycl_usm_array_interface__`, version 1.
pub const CAI_PROTOCOL_SYCL_USM: u8 = 5;
/// Buffer interface of OpenCL: attributes `buffer` or `base_data`, `offset`, `dtype`, `shape`, `strides` of OpenCL arrays.
pub const CAI_PROTOCOL_OPENCL_BUFFER: u8 = 6;
/// Capsule `__array_struct__` of NumPy, for host memory.
pub const CAI_PROTOCOL_ARRAY_STRUCT: u8 = 7;
/// Dictionary `__array_interface__` of NumPy, version 3, for host memory.
pub const CAI_PROTOCOL_ARRAY_INTERFACE: u8 = 8;
/// `Py_buffer` of PEP 3118, for host memory: `bytes`, `bytearray`, `array`, `mmap`, `memoryview`.
pub const CAI_PROTOCOL_PEP3118: u8 = 9;

/// Accepts only what the specification allows to the letter.
pub const CAI_IMPORT_STRICT: u32 = 1;
/// Accepts a `stream` of 0, which the specification forbids, as the legacy default stream.
pub const CAI_IMPORT_ALLOW_STREAM_ZERO: u32 = 2;
/// Refuses read-only arrays.
pub const CAI_IMPORT_REQUIRE_WRITABLE: u32 = 4;
/// Refuses arrays that are not C-contiguous. With the next bit too, either order is accepted.
pub const CAI_IMPORT_REQUIRE_C_CONTIGUOUS: u32 = 8;
/// Refuses arrays that are not Fortran-contiguous.
pub const CAI_IMPORT_REQUIRE_F_CONTIGUOUS: u32 = 16;
/// Refuses elements that are not in the machine's byte order.
pub const CAI_IMPORT_REQUIRE_NATIVE: u32 = 32;
/// Refuses arrays whose number of dimensions is not `ndim` of the options.
pub const CAI_IMPORT_REQUIRE_NDIM: u32 = 64;
/// Accepts arrays with a mask, which the caller must not ignore.
pub const CAI_IMPORT_ALLOW_MASK: u32 = 128;
/// Accepts host memory (`CAI_DEVICE_CPU`), and tries the protocols for it after the others.
pub const CAI_IMPORT_ALLOW_HOST: u32 = 256;
/// Asks CUDA, and HIP if it is loaded, for what the protocol does not specify of the location.
pub const CAI_IMPORT_QUERY_DEVICE: u32 = 512;
/// Sets no Python exception for a failure of this library. Exceptions of the producer stay set.
pub const CAI_IMPORT_NO_EXCEPTION: u32 = 1024;
/// Refuses Python objects (`O`) as elements and in fields, which mean nothing on a device.
pub const CAI_IMPORT_REFUSE_OBJECTS: u32 = 2048;
/// Accepts tensors that require grad: automatic differentiation does not see what is written.
pub const CAI_IMPORT_ALLOW_GRAD: u32 = 4096;
/// Takes `_ptr` of OpenCL's buffer interface as a `cl_mem` if the object does not state its kind.
pub const CAI_IMPORT_OPENCL_BUFFER_CL_MEM: u32 = 8192;
/// Takes `_ptr` of OpenCL's buffer interface as a CUDA address if the object does not state its
/// kind.
pub const CAI_IMPORT_OPENCL_BUFFER_CUDA_ADDRESS: u32 = 16384;
/// Asks the CUDA driver for the context and the id of any stream, not only of 2.
pub const CAI_IMPORT_IDENTIFY_STREAM: u32 = 32768;
/// Refuses arrays whose stream is not known (`CAI_STREAM_UNKNOWN`) and that have no event, and
/// arrays with such a mask: `cai_array_consume_begin` could not order them.
pub const CAI_IMPORT_REQUIRE_STREAM: u32 = 65536;
/// Accepts a mask of bytes (`|u1`) that hold one bit for each element, as cuDF's.
pub const CAI_IMPORT_ALLOW_PACKED_MASK: u32 = 131072;

/// Exports version 2 of the interface, which has no stream.
pub const CAI_EXPORT_VERSION_2: u32 = 1;
/// Always exports `strides` as a tuple, for consumers that do not accept None.
pub const CAI_EXPORT_STRIDES: u32 = 2;
/// Exports a read-only array as writable, for consumers that reject read-only arrays.
pub const CAI_EXPORT_HIDE_READONLY: u32 = 4;

/// Options of `cai_array_from_python`. Start from `CAI_IMPORT_OPTIONS_INIT`, which requires
/// nothing.
///
/// A newer caller may pass a longer structure. If its tail is not zero, the call is refused with
/// `CAI_ERR_NEWER_CALLER`: no requirement is ignored.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct cai_import_options {
    /// `sizeof(cai_import_options)` of the caller's header; at least 64.
    pub struct_size: u32,
    /// `CAI_IMPORT_` bits.
    pub flags: u32,
    /// Protocols to try, `CAI_PROTOCOL_` numbers in this order, up to the first 0. All 0: the
    /// default order: that of the numbers, but SYCL before DLPack for oneAPI, and Arrow before 9.
    pub protocols: [u8; 16],
    /// Argument of `__dlpack__`: the stream that the caller will work on. Other protocols do not
    /// use it, and no import waits: `cai_array_consume_begin` does. The producer orders its work
    /// before it, and the array is released on it: it must live until then.
    /// `CAI_STREAM_UNKNOWN`: the legacy default stream. `CAI_STREAM_NONE`: the producer orders
    /// nothing. 0 is refused. A producer that raises RuntimeError (TensorFlow) is asked again
    /// without a stream, which means the legacy default stream.
    pub dlpack_stream: cai_stream,
    /// Number of dimensions that `CAI_IMPORT_REQUIRE_NDIM` requires.
    pub ndim: i32,
    /// Required `dtype_code`; considered only if `typestr` is not empty.
    pub dtype_code: u16,
    /// Meaning of an opaque 1-byte type (`CAI_DTYPE_FLOAT8_E4M3FN`, ...), or 0 if not known.
    pub opaque_8bit: u16,
    /// Meaning of an opaque 2-byte type (`CAI_DTYPE_BFLOAT16`), or 0 if not known.
    pub opaque_16bit: u16,
    /// Zero.
    pub reserved: [u16; 3],
    /// Required type, as in `cai_array`. Empty: any type.
    pub typestr: [c_char; CAI_TYPESTR_SIZE],
}

/// Options of `cai_array_to_python`. Start from `CAI_EXPORT_OPTIONS_INIT`.
///
/// A longer structure of a newer caller is refused with `CAI_ERR_NEWER_CALLER` if its tail is not
/// zero.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct cai_export_options {
    /// `sizeof(cai_export_options)` of the caller's header; at least 8.
    pub struct_size: u32,
    /// `CAI_EXPORT_` bits.
    pub flags: u32,
}

layout! { cai_import_options: 64; protocols 8, dlpack_stream 24, ndim 32, opaque_16bit 40, typestr 48 }
layout! { cai_export_options: 8 }
