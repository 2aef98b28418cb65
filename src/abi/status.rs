//! Statuses, and the error that a caller allocates, of `cai/status.h`. Those that the inline
//! functions of `cai/abi.h` return are in `core`.
//!
//! The first paragraph of a status's comment is the text that `cai_status_message` returns. A last
//! paragraph names its exception in Python if that is not the one of its hundred: RuntimeError for
//! 3xx, 4xx and 6xx, BufferError for 7xx, and ValueError. `build.rs` reads both from here.
//!
//! Numbers are pinned: a retired one is never used again. 1xx arguments, 2xx the array, 3xx the
//! CUDA driver, 4xx stream capture, 5xx Python, 6xx resources, 7xx conversions, 9xx the library.

use std::ffi::c_char;

use super::core::cai_status;

/// First number that this library never uses; for statuses of other libraries.
pub const CAI_STATUS_THIRD_PARTY: cai_status = 0x10000;

/// Bytes of `cai_error.field`, the terminating NUL included.
pub const CAI_ERROR_FIELD_SIZE: usize = 96;
/// Bytes of `cai_error.message`, the terminating NUL included.
pub const CAI_ERROR_MESSAGE_SIZE: usize = 408;

/// Details of a failure, in the caller's memory. It needs no initialization and no release, and its
/// layout never changes. A function that fails writes all of it; one that succeeds writes nothing.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct cai_error {
    /// Status that the function returned.
    pub code: cai_status,
    /// `CUresult` of the CUDA driver if the driver refused, otherwise 0.
    pub driver_code: i32,
    /// Path of a member (`mask.shape[2]`, `descr[1].typestr`) or name of a parameter.
    /// NUL-terminated; a path that is too long ends in "...".
    pub field: [c_char; CAI_ERROR_FIELD_SIZE],
    /// One line with the field, the value found and the value expected:
    /// `ndim: found -1, expected 0 to 64`. NUL-terminated UTF-8.
    pub message: [c_char; CAI_ERROR_MESSAGE_SIZE],
}

layout! { cai_error: 512; driver_code 4, field 8, message 104 }

/// An argument has a value that the function does not accept.
pub const CAI_ERR_ARGUMENT: cai_status = 102;
/// The caller's buffer is too small for the result.
pub const CAI_ERR_BUFFER_SIZE: cai_status = 103;
/// A bit, a mode or the tail of a structure is not known to this library.
///
/// The caller was compiled with a newer header. Use a newer library, or leave the feature out.
pub const CAI_ERR_NEWER_CALLER: cai_status = 104;
/// The argument is valid, but the receiver does not support it.
///
/// Consumers may report it for a type, a device or a mask. The C functions never return it.
///
/// In Python: BufferError.
pub const CAI_ERR_UNSUPPORTED: cai_status = 105;

/// The array's `version` is one that the function cannot use.
pub const CAI_ERR_VERSION: cai_status = 203;
/// `ndim` is negative or above `CAI_MAX_NDIM`.
pub const CAI_ERR_NDIM: cai_status = 204;
/// `shape` is NULL although the array has dimensions.
pub const CAI_ERR_SHAPE_NULL: cai_status = 205;
/// An extent in `shape` is negative.
pub const CAI_ERR_SHAPE_NEGATIVE: cai_status = 206;
/// The number of elements or bytes is above 2^63 - 1.
pub const CAI_ERR_SIZE_OVERFLOW: cai_status = 207;
/// The strides span more than 2^63 - 1 bytes on one side of `data`.
pub const CAI_ERR_SPAN_OVERFLOW: cai_status = 208;
/// The array extends beyond the address space, or begins before its buffer.
pub const CAI_ERR_ADDRESS_RANGE: cai_status = 209;
/// `data` is NULL although the array has elements.
pub const CAI_ERR_DATA_NULL: cai_status = 210;
/// `data` is not NULL although the array has no elements.
pub const CAI_ERR_DATA_NOT_NULL: cai_status = 211;
/// `strides` is set for packed bit fields, which have none in whole bytes.
pub const CAI_ERR_BIT_STRIDES: cai_status = 212;
/// The elements have a size of 0 bytes.
pub const CAI_ERR_ITEMSIZE: cai_status = 213;
/// `data` or a stride is not a multiple of the element's natural alignment.
///
/// Only `CAI_CHECK_ALIGNMENT` checks this.
pub const CAI_ERR_ALIGNMENT: cai_status = 214;

/// `stream` is 0, which could mean no stream or either default stream.
///
/// Use `CAI_STREAM_LEGACY`, `CAI_STREAM_PER_THREAD`, a `CUstream`, or `CAI_STREAM_NONE` if no work
/// on the data is pending.
pub const CAI_ERR_STREAM_ZERO: cai_status = 220;
/// `stream` is set, but versions below 3 have no streams.
pub const CAI_ERR_STREAM_VERSION: cai_status = 221;
/// `stream_id` is set without a stream that it could identify.
pub const CAI_ERR_STREAM_ID: cai_status = 222;
/// `event` is set although `stream` is `CAI_STREAM_NONE`.
pub const CAI_ERR_EVENT: cai_status = 223;
/// `device.type` is not a device type of DLPack.
pub const CAI_ERR_DEVICE_TYPE: cai_status = 224;
/// `device.id` is negative.
///
/// Only devices other than CUDA's and the host may have -1, which means that it is not known.
pub const CAI_ERR_DEVICE_ID: cai_status = 225;
/// `byte_offset` is set, but `data` is no handle: it is an address or NULL.
///
/// Only handles have an offset. Let `data` point to the element at index zero.
pub const CAI_ERR_BYTE_OFFSET: cai_status = 226;

/// Write access to a read-only array was requested.
///
/// In Python: BufferError.
pub const CAI_ERR_READONLY: cai_status = 227;

/// The array has a mask, but version 0 has none.
pub const CAI_ERR_MASK_VERSION: cai_status = 230;
/// The mask's type is not a boolean, an integer or a bit field.
pub const CAI_ERR_MASK_TYPE: cai_status = 231;
/// The mask's shape does not broadcast to the array's.
pub const CAI_ERR_MASK_SHAPE: cai_status = 232;
/// The chain of masks is a cycle.
pub const CAI_ERR_MASK_CYCLE: cai_status = 233;
/// The chain of masks is longer than `CAI_MAX_MASKS`.
pub const CAI_ERR_MASK_DEPTH: cai_status = 234;
/// The mask is in memory that the array's device cannot read.
///
/// Put the mask on the array's device, or in page-locked or managed memory.
pub const CAI_ERR_MASK_DEVICE: cai_status = 235;

/// `typestr` is empty, or not terminated within its 16 bytes.
pub const CAI_ERR_TYPESTR_LENGTH: cai_status = 240;
/// `typestr` does not begin with a byte order: one of `<`, `>`, `|`.
pub const CAI_ERR_TYPESTR_ORDER: cai_status = 241;
/// `typestr` has an unknown kind.
pub const CAI_ERR_TYPESTR_KIND: cai_status = 242;
/// `typestr` has a malformed size, or one that its kind does not have.
pub const CAI_ERR_TYPESTR_SIZE: cai_status = 243;
/// `typestr` has a malformed time unit, or one on a kind without units.
pub const CAI_ERR_TYPESTR_UNIT: cai_status = 244;
/// `dtype_code` is unknown or contradicts `typestr`.
pub const CAI_ERR_DTYPE_CODE: cai_status = 245;

/// The sizes in a `cai_descr` are of no known version, or it has a count but no rows.
pub const CAI_ERR_DESCR_STRUCT: cai_status = 250;
/// A field's name is missing, not UTF-8, or used twice.
pub const CAI_ERR_DESCR_NAME: cai_status = 251;
/// A field has neither a type nor nested fields, or it has both.
pub const CAI_ERR_DESCR_FIELD: cai_status = 252;
/// A field's sub-array shape is malformed.
pub const CAI_ERR_DESCR_SHAPE: cai_status = 253;
/// The total size of the fields is not the size of `typestr`.
pub const CAI_ERR_DESCR_SIZE: cai_status = 254;
/// Fields are nested deeper than `CAI_MAX_DESCR_DEPTH`.
pub const CAI_ERR_DESCR_DEPTH: cai_status = 255;
/// There are more than `CAI_MAX_FIELDS` fields, nested ones included.
pub const CAI_ERR_DESCR_COUNT: cai_status = 256;
/// The text is not a list of fields as NumPy writes them.
pub const CAI_ERR_DESCR_SYNTAX: cai_status = 257;
/// No field has that name.
pub const CAI_ERR_DESCR_NO_FIELD: cai_status = 258;
/// The field begins inside a byte, after bit fields that fill no whole bytes.
pub const CAI_ERR_DESCR_BIT_OFFSET: cai_status = 259;

/// No driver was found, or it has no device.
///
/// `libcuda.so.1`, or the file that `CAI_CUDA_DRIVER` names, is missing, is a stub for linking, or
/// has no device. For ROCm devices: `libamdhip64.so`, or the file that `CAI_HIP_DRIVER` names.
pub const CAI_ERR_NO_DRIVER: cai_status = 301;
/// The CUDA driver is too old: it lacks a function.
pub const CAI_ERR_DRIVER_FUNCTION: cai_status = 302;
/// The process was forked after the CUDA driver had been started.
///
/// CUDA does not work in such a child. Start processes with `spawn` or `exec`, or fork before the
/// first CUDA call.
pub const CAI_ERR_FORKED: cai_status = 303;
/// The CUDA driver is shutting down, because the process exits.
pub const CAI_ERR_DRIVER_EXIT: cai_status = 304;
/// The CUDA driver refused a call for another reason; see `driver_code`.
pub const CAI_ERR_DRIVER: cai_status = 305;
/// The device or context is lost: work on it failed, and nothing more will run there.
///
/// Usually an earlier kernel failed. End the process, or destroy the context.
pub const CAI_ERR_DEVICE_LOST: cai_status = 306;
/// A default stream is used, but the calling thread has no current context.
///
/// Call `cuCtxSetCurrent` (or `cudaSetDevice`) in this thread first.
pub const CAI_ERR_NO_CONTEXT: cai_status = 307;
/// The context was destroyed.
pub const CAI_ERR_CONTEXT_DESTROYED: cai_status = 308;

/// The CUDA driver reports that a stream, or the event with it, is invalid.
pub const CAI_ERR_STREAM_HANDLE: cai_status = 310;
/// The stream was destroyed, and its handle now belongs to a new stream.
///
/// The producer must keep the stream alive as long as the exported array.
pub const CAI_ERR_STREAM_STALE: cai_status = 311;
/// The array's stream is the per-thread default stream of another thread.
///
/// Call the function in that thread.
pub const CAI_ERR_STREAM_THREAD: cai_status = 312;
/// The stream's green context was destroyed.
pub const CAI_ERR_STREAM_DETACHED: cai_status = 313;
/// The array is on a device whose streams are neither CUDA's nor HIP's, or in host memory.
///
/// Synchronize with the functions of that platform. An array in host memory states no stream.
pub const CAI_ERR_STREAM_DEVICE: cai_status = 314;
/// The stream does not belong to the context in `context`.
pub const CAI_ERR_STREAM_CONTEXT: cai_status = 315;

/// The CUDA driver does not know the memory at `data`.
pub const CAI_ERR_NOT_DEVICE_POINTER: cai_status = 320;
/// The memory is on another device, or of another kind, than `device` specifies.
pub const CAI_ERR_DEVICE_MISMATCH: cai_status = 321;
/// The array extends beyond the allocation that `data` is in.
pub const CAI_ERR_OUT_OF_ALLOCATION: cai_status = 322;
/// The memory is not accessible from the current context.
pub const CAI_ERR_NOT_ACCESSIBLE: cai_status = 323;

/// The producer's stream is capturing, and the consumer's is not.
///
/// `CAI_CAPTURE_JOIN` allows the consumer's stream to join the capture.
pub const CAI_ERR_CAPTURE_PRODUCER: cai_status = 401;
/// The consumer's stream is capturing, and the producer's is not.
///
/// Call begin and end around the launch of the graph instead, with the stream of the launch. Begin
/// is also possible in the capture, with `CAI_UNSTABLE_CAPTURE_EXTERNAL`.
pub const CAI_ERR_CAPTURE_CONSUMER: cai_status = 402;
/// Both streams are capturing, into different graphs.
pub const CAI_ERR_CAPTURE_MERGE: cai_status = 403;
/// A stream's capture was invalidated by an earlier call and must be ended.
pub const CAI_ERR_CAPTURE_INVALIDATED: cai_status = 404;
/// The legacy default stream is used while a stream that it waits for is capturing, or would have to
/// join a capture.
pub const CAI_ERR_CAPTURE_LEGACY: cai_status = 405;
/// The host cannot wait for work that is being captured.
pub const CAI_ERR_CAPTURE_HOST: cai_status = 406;
/// Some of the producer's streams are capturing and some are not.
pub const CAI_ERR_CAPTURE_STREAMS: cai_status = 407;
/// The CUDA driver refused a call because of a stream capture.
pub const CAI_ERR_CAPTURE: cai_status = 408;

/// No CPython interpreter is running in this process.
///
/// The library looks for CPython among the libraries that the process has loaded.
pub const CAI_ERR_NO_PYTHON: cai_status = 501;
/// The CPython in this process is too old, or lacks a function.
///
/// The oldest supported version is 3.9.
pub const CAI_ERR_PYTHON_VERSION: cai_status = 502;
/// The calling thread does not hold the interpreter's lock.
///
/// With `ctypes`, load the library with `PyDLL`, because `CDLL` releases the lock.
pub const CAI_ERR_PYTHON_LOCK: cai_status = 503;
/// A Python function raised an exception, which is still set.
pub const CAI_ERR_PYTHON_EXCEPTION: cai_status = 504;
/// The object offers none of the requested protocols.
///
/// In Python: TypeError.
pub const CAI_ERR_NO_PROTOCOL: cai_status = 505;
/// A required key is missing.
///
/// In Python: KeyError.
pub const CAI_ERR_KEY: cai_status = 506;
/// A value has the wrong type.
///
/// In Python: TypeError.
pub const CAI_ERR_TYPE: cai_status = 507;
/// A value is out of range or malformed.
///
/// In Python: ValueError.
pub const CAI_ERR_VALUE: cai_status = 508;
/// An exchange table on a type is malformed or of another version.
pub const CAI_ERR_EXCHANGE_TABLE: cai_status = 509;

/// Memory allocation failed.
///
/// In Python: MemoryError.
pub const CAI_ERR_NO_MEMORY: cai_status = 601;

/// The background release thread could not be started.
pub const CAI_ERR_THREAD: cai_status = 602;
/// The environment variable `CAI_SYNC` has an unknown value.
pub const CAI_ERR_ENVIRONMENT: cai_status = 603;

/// The array is in host memory, which was not allowed.
///
/// Set `CAI_IMPORT_ALLOW_HOST` to accept it.
pub const CAI_ERR_HOST_MEMORY: cai_status = 701;
/// The array has a mask, which the receiver cannot express or did not allow.
///
/// Set `CAI_IMPORT_ALLOW_MASK` to import it.
pub const CAI_ERR_CONVERT_MASK: cai_status = 702;
/// The type is not the required one, or the other protocol does not have it.
pub const CAI_ERR_CONVERT_TYPE: cai_status = 703;
/// The elements are not in the machine's byte order.
pub const CAI_ERR_CONVERT_BYTE_ORDER: cai_status = 704;
/// A stride is not a whole number of elements, as the other protocol requires.
pub const CAI_ERR_CONVERT_STRIDES: cai_status = 705;
/// The array is not contiguous in the required order.
pub const CAI_ERR_CONVERT_CONTIGUOUS: cai_status = 706;
/// The number of dimensions is not the required one.
pub const CAI_ERR_CONVERT_NDIM: cai_status = 707;
/// The array is read-only, which the other protocol cannot express.
pub const CAI_ERR_CONVERT_READONLY: cai_status = 708;
/// The other protocol cannot express the device or context of the array.
pub const CAI_ERR_CONVERT_DEVICE: cai_status = 709;
/// The tensor requires grad: automatic differentiation would not see what is written to it.
///
/// Pass `tensor.detach()`, or set `CAI_IMPORT_ALLOW_GRAD`.
pub const CAI_ERR_CONVERT_GRAD: cai_status = 711;
/// The tensor has another major version of DLPack than this library knows.
///
/// Call its deleter and nothing else.
pub const CAI_ERR_DLPACK_VERSION: cai_status = 710;
/// An Arrow structure was released, is malformed, or does not match its schema.
pub const CAI_ERR_ARROW: cai_status = 712;
/// Bits begin inside a byte, and only bits in host memory are copied to whole bytes.
///
/// On a device, slice Arrow arrays with booleans or nulls at multiples of 8.
pub const CAI_ERR_CONVERT_BIT_OFFSET: cai_status = 713;
/// The stream on which work may be pending is not known, but required.
///
/// The producer has to export a stream: version 3 of `__cuda_array_interface__`, or DLPack's table.
pub const CAI_ERR_CONVERT_STREAM: cai_status = 714;

/// The memory cannot be shared with other processes, or cannot be opened in this one.
///
/// Use `cuMemAlloc` or `cudaMalloc`. Memory of pools and of `cuMemCreate` needs
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
pub const CAI_ERR_IPC_MEMORY: cai_status = 720;
/// The bytes are not those of an array that `cai_unstable_ipc_export` wrote.
pub const CAI_ERR_IPC_BYTES: cai_status = 721;
/// The bytes were written by a newer library, in a form that this one does not know.
pub const CAI_ERR_IPC_VERSION: cai_status = 722;
/// The device of the memory is not visible in this process.
///
/// Check `CUDA_VISIBLE_DEVICES`.
pub const CAI_ERR_IPC_DEVICE: cai_status = 723;
/// The process that exported the array has ended, or belongs to another user.
///
/// Its data is undefined. Release the array; a restarted exporter has to export it again.
pub const CAI_ERR_IPC_PEER: cai_status = 724;
/// The array was exported on another machine, or in another network namespace.
///
/// Copy it there, for example with MPI, NCCL or NIXL.
pub const CAI_ERR_IPC_NODE: cai_status = 725;
/// The export was withdrawn, or never existed.
pub const CAI_ERR_IPC_SLOT: cai_status = 726;
/// A table of the channel is full.
pub const CAI_ERR_IPC_FULL: cai_status = 727;
/// The exporter has not accepted the connection yet, or not sent a file descriptor.
///
/// It has to call `cai_unstable_channel_poll`. Wait for the descriptor of `cai_unstable_channel_fd`,
/// and import again.
pub const CAI_ERR_IPC_PENDING: cai_status = 728;
/// The operating system refused a call, or lacks it.
///
/// Channels need Linux. Out of descriptors, raise `ulimit -n`.
pub const CAI_ERR_IPC_SYSTEM: cai_status = 729;

/// Internal error. Please report it.
///
/// In Python: SystemError.
pub const CAI_ERR_INTERNAL: cai_status = 901;
