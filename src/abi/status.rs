//! Status codes. The first paragraph of each comment is the text that `cai_status_message` answers
//! and that the error table prints; `build.rs` reads it from here.
//!
//! Numbers are pinned for good: a retired one is never given out again. Families: 1xx arguments,
//! 2xx the array, 3xx the CUDA driver, 4xx stream capture, 5xx Python, 6xx resources, 7xx what a receiver cannot
//! take, 9xx the library.

/// What a function answers: `CAI_OK` or one of the `CAI_ERR_` numbers. A caller must expect numbers
/// that its header does not know yet: every non-zero value is a failure.
pub type cai_status = i32;

/// Success.
pub const CAI_OK: cai_status = 0;

/// A required pointer argument is NULL.
///
/// The caller's mistake; `field` names the parameter.
pub const CAI_ERR_NULL_ARGUMENT: cai_status = 101;
/// An argument has a value that the function does not take.
pub const CAI_ERR_ARGUMENT: cai_status = 102;
/// The caller's buffer is too small for the answer.
pub const CAI_ERR_BUFFER_SIZE: cai_status = 103;
/// A bit, a mode or the tail of a structure is not known to this library.
///
/// The caller was compiled with a newer header and requires something that this library cannot do.
pub const CAI_ERR_NEWER_CALLER: cai_status = 104;
/// What was given is sound, but whoever it was given to does not support it.
///
/// The library never says this of an array. It is for consumers, to refuse a type, a device or a mask that they
/// cannot handle, and for `cai.hpp`.
pub const CAI_ERR_UNSUPPORTED: cai_status = 105;

/// `struct_size` is not the size of any version of the structure.
///
/// Most often the structure was never initialized: start from `CAI_ARRAY_INIT`.
pub const CAI_ERR_STRUCT_SIZE: cai_status = 201;
/// `flags` has a bit that this library does not know.
///
/// Fields that may not be ignored are announced by a flag, so an unknown one cannot be skipped.
pub const CAI_ERR_FLAGS: cai_status = 202;
/// `version` is not a version of the CUDA Array Interface (0 to 3).
pub const CAI_ERR_VERSION: cai_status = 203;
/// `ndim` is negative or above `CAI_MAX_NDIM`.
pub const CAI_ERR_NDIM: cai_status = 204;
/// `shape` is NULL although the array has dimensions.
pub const CAI_ERR_SHAPE_NULL: cai_status = 205;
/// An extent in `shape` is negative.
pub const CAI_ERR_SHAPE_NEGATIVE: cai_status = 206;
/// The number of elements, or of their bytes, is above 2^63 - 1.
pub const CAI_ERR_SIZE_OVERFLOW: cai_status = 207;
/// The bytes that the strides reach from `data` do not fit in 63 bits on one side.
pub const CAI_ERR_SPAN_OVERFLOW: cai_status = 208;
/// The bytes that the array reaches run out of the address space, or begin before the buffer.
pub const CAI_ERR_ADDRESS_RANGE: cai_status = 209;
/// `data` is NULL although the array has elements.
pub const CAI_ERR_DATA_NULL: cai_status = 210;
/// `data` is not NULL although the array has no elements.
pub const CAI_ERR_DATA_NOT_NULL: cai_status = 211;
/// `strides` are given for packed bit fields, whose steps are no whole number of bytes.
pub const CAI_ERR_BIT_STRIDES: cai_status = 212;
/// The elements have no bytes.
pub const CAI_ERR_ITEMSIZE: cai_status = 213;
/// `data` or a stride is not a multiple of the element's natural alignment.
///
/// Reported only where `CAI_CHECK_ALIGNMENT` asks for it.
pub const CAI_ERR_ALIGNMENT: cai_status = 214;
/// The array or a copy of it is needed beyond this call, but it has no owner.
pub const CAI_ERR_BORROWED: cai_status = 215;
/// The owner's table of operations is missing, too short or incomplete.
pub const CAI_ERR_OWNER_OPS: cai_status = 216;

/// `stream` is 0, which could mean either default stream or none.
///
/// Say `CAI_STREAM_NONE` when no work is pending on the data, 1 for the legacy and 2 for the
/// per-thread default stream, or a `CUstream`.
pub const CAI_ERR_STREAM_ZERO: cai_status = 220;
/// A stream is given, but versions below 3 have none.
pub const CAI_ERR_STREAM_VERSION: cai_status = 221;
/// `stream_id` is given without a stream that it could identify.
pub const CAI_ERR_STREAM_ID: cai_status = 222;
/// `event` is given although `stream` says that nothing is pending.
pub const CAI_ERR_EVENT: cai_status = 223;
/// `device.type` is not a device type of DLPack.
pub const CAI_ERR_DEVICE_TYPE: cai_status = 224;
/// `device.id` is negative.
pub const CAI_ERR_DEVICE_ID: cai_status = 225;
/// `byte_offset` is given, but `data` is an address.
///
/// An offset belongs to opaque handles only; an address already points to the element with index zero.
pub const CAI_ERR_BYTE_OFFSET: cai_status = 226;

/// The array is to be written, but it is read-only.
pub const CAI_ERR_READONLY: cai_status = 227;

/// A mask is given, but version 0 has none.
pub const CAI_ERR_MASK_VERSION: cai_status = 230;
/// The mask's type cannot say true or not true: it is neither a boolean, an integer nor a bit field.
pub const CAI_ERR_MASK_TYPE: cai_status = 231;
/// The mask's shape does not broadcast to the array's.
pub const CAI_ERR_MASK_SHAPE: cai_status = 232;
/// The chain of masks comes back to itself.
pub const CAI_ERR_MASK_CYCLE: cai_status = 233;
/// The chain of masks is longer than `CAI_MAX_MASKS`.
pub const CAI_ERR_MASK_DEPTH: cai_status = 234;

/// `typestr` is empty, or not terminated within its 16 bytes.
pub const CAI_ERR_TYPESTR_LENGTH: cai_status = 240;
/// `typestr` does not begin with a byte order: one of `<`, `>`, `|`.
pub const CAI_ERR_TYPESTR_ORDER: cai_status = 241;
/// `typestr` has an unknown kind: not one of `t b i u f c m M O S U V`.
pub const CAI_ERR_TYPESTR_KIND: cai_status = 242;
/// `typestr` has a size that is malformed or that its kind does not come in.
pub const CAI_ERR_TYPESTR_SIZE: cai_status = 243;
/// `typestr` has a malformed time unit, or one on a kind without units.
pub const CAI_ERR_TYPESTR_UNIT: cai_status = 244;
/// `dtype_code` is unknown or contradicts `typestr`.
pub const CAI_ERR_DTYPE_CODE: cai_status = 245;

/// A `cai_descr` has sizes that are not of any version of the structures, or no rows where it counts some.
pub const CAI_ERR_DESCR_STRUCT: cai_status = 250;
/// A field's name is missing, not UTF-8, or used twice.
pub const CAI_ERR_DESCR_NAME: cai_status = 251;
/// A field has neither a type nor nested fields, or both.
pub const CAI_ERR_DESCR_FIELD: cai_status = 252;
/// A field's sub-array shape is malformed.
pub const CAI_ERR_DESCR_SHAPE: cai_status = 253;
/// The fields together do not have the size that `typestr` says.
pub const CAI_ERR_DESCR_SIZE: cai_status = 254;
/// Fields are nested deeper than `CAI_MAX_DESCR_DEPTH`.
pub const CAI_ERR_DESCR_DEPTH: cai_status = 255;
/// There are more than `CAI_MAX_FIELDS` fields, nested ones included.
pub const CAI_ERR_DESCR_COUNT: cai_status = 256;
/// The text is not a list of fields as NumPy writes them.
pub const CAI_ERR_DESCR_SYNTAX: cai_status = 257;
/// No field has that name.
pub const CAI_ERR_DESCR_NO_FIELD: cai_status = 258;
/// The field begins inside a byte, behind bit fields that fill no whole bytes.
pub const CAI_ERR_DESCR_BIT_OFFSET: cai_status = 259;

/// No CUDA driver was found, or what was found drives no device.
///
/// `libcuda.so.1` (or what `CAI_CUDA_DRIVER` names) is missing, is a stub to link against, or found no device.
pub const CAI_ERR_NO_DRIVER: cai_status = 301;
/// The CUDA driver is too old: it lacks a function.
pub const CAI_ERR_DRIVER_FUNCTION: cai_status = 302;
/// The process was forked after the CUDA driver had been started.
///
/// CUDA does not work in such a child: start processes anew (`spawn`, `exec`) or fork before the first CUDA call.
pub const CAI_ERR_FORKED: cai_status = 303;
/// The CUDA driver is shutting down, because the process exits.
pub const CAI_ERR_DRIVER_EXIT: cai_status = 304;
/// The CUDA driver refused a call for a reason that has no status of its own; see `driver_code`.
pub const CAI_ERR_DRIVER: cai_status = 305;
/// The device, or the context, is lost: work on it failed, and nothing more will run there.
///
/// Most often an earlier kernel failed. The process has to be ended, or the context destroyed.
pub const CAI_ERR_DEVICE_LOST: cai_status = 306;
/// A default stream is named, but the calling thread has no current context to give it a meaning.
pub const CAI_ERR_NO_CONTEXT: cai_status = 307;
/// The context was destroyed.
pub const CAI_ERR_CONTEXT_DESTROYED: cai_status = 308;

/// The driver says that a stream, or the event beside it, is not valid.
pub const CAI_ERR_STREAM_HANDLE: cai_status = 310;
/// The stream was destroyed and its handle given to a new one: `stream_id` is another.
///
/// A producer must keep the exported stream alive for as long as the exported array.
pub const CAI_ERR_STREAM_STALE: cai_status = 311;
/// The per-thread default stream of another thread is named, which cannot be reached from this one.
pub const CAI_ERR_STREAM_THREAD: cai_status = 312;
/// The stream's green context was destroyed.
pub const CAI_ERR_STREAM_DETACHED: cai_status = 313;
/// The array is on a device whose streams are not CUDA's.
pub const CAI_ERR_STREAM_DEVICE: cai_status = 314;
/// The stream belongs to another context than `context`.
pub const CAI_ERR_STREAM_CONTEXT: cai_status = 315;

/// `data` is no memory that the CUDA driver knows.
pub const CAI_ERR_NOT_DEVICE_POINTER: cai_status = 320;
/// The memory is on another device, or of another kind, than `device` says.
pub const CAI_ERR_DEVICE_MISMATCH: cai_status = 321;
/// The array reaches bytes outside of the allocation that `data` is in.
pub const CAI_ERR_OUT_OF_ALLOCATION: cai_status = 322;
/// The memory cannot be reached from the current context.
pub const CAI_ERR_NOT_ACCESSIBLE: cai_status = 323;

/// The producer's stream is being captured, and the consumer's is not.
///
/// Ordering them would draw the consumer's stream into the capture. `CAI_CAPTURE_JOIN` allows that.
pub const CAI_ERR_CAPTURE_PRODUCER: cai_status = 401;
/// The consumer's stream is being captured, and the producer's is not.
///
/// Call begin and end around the launch of the graph, on the stream of the launch. See `CAI_CAPTURE_EXTERNAL`.
pub const CAI_ERR_CAPTURE_CONSUMER: cai_status = 402;
/// Both streams are being captured, into two graphs.
pub const CAI_ERR_CAPTURE_MERGE: cai_status = 403;
/// A stream's capture was broken by an earlier call and has to be ended.
pub const CAI_ERR_CAPTURE_INVALIDATED: cai_status = 404;
/// The legacy default stream is named while another stream of its context, which it would wait for, is being captured.
pub const CAI_ERR_CAPTURE_LEGACY: cai_status = 405;
/// The host cannot wait for work that is only being captured.
pub const CAI_ERR_CAPTURE_HOST: cai_status = 406;
/// Of the producer's streams some are being captured and some are not.
pub const CAI_ERR_CAPTURE_STREAMS: cai_status = 407;
/// The driver refused a call because of a stream capture.
pub const CAI_ERR_CAPTURE: cai_status = 408;

/// No CPython is running in this process.
///
/// Its functions are looked for among what the process has loaded. A function that needs them says this where there
/// is no Python, or none that was started.
pub const CAI_ERR_NO_PYTHON: cai_status = 501;
/// The CPython in this process is too old, or lacks a function.
///
/// Python 3.9 is the oldest that is supported.
pub const CAI_ERR_PYTHON_VERSION: cai_status = 502;
/// The calling thread does not hold the interpreter's lock.
///
/// From Python by `ctypes`, use `PyDLL`: `CDLL` gives the lock up.
pub const CAI_ERR_PYTHON_LOCK: cai_status = 503;
/// A Python function raised an exception, which is set and passed on untouched.
pub const CAI_ERR_PYTHON_EXCEPTION: cai_status = 504;
/// The object offers none of the protocols that were asked for.
///
/// Python: TypeError.
pub const CAI_ERR_NO_PROTOCOL: cai_status = 505;
/// A required key is missing.
///
/// Python: KeyError.
pub const CAI_ERR_KEY: cai_status = 506;
/// A value has the wrong type.
///
/// Python: TypeError.
pub const CAI_ERR_TYPE: cai_status = 507;
/// A value is out of range or malformed.
///
/// Python: ValueError.
pub const CAI_ERR_VALUE: cai_status = 508;
/// An exchange table, published on a type, is malformed or of another version.
pub const CAI_ERR_EXCHANGE_TABLE: cai_status = 509;

/// Memory for the library's own bookkeeping could not be had.
pub const CAI_ERR_NO_MEMORY: cai_status = 601;

/// The thread that lets owners go could not be started.
pub const CAI_ERR_THREAD: cai_status = 602;
/// `CAI_SYNC` in the environment has a word that this library does not know.
pub const CAI_ERR_ENVIRONMENT: cai_status = 603;

/// The array is in host memory, which was not asked for.
pub const CAI_ERR_HOST_MEMORY: cai_status = 701;
/// The array has a mask, which the receiver cannot express or does not take.
pub const CAI_ERR_CONVERT_MASK: cai_status = 702;
/// The array's type is not the one that is demanded, or has no counterpart in the other protocol.
pub const CAI_ERR_CONVERT_TYPE: cai_status = 703;
/// The elements are not in the machine's byte order.
pub const CAI_ERR_CONVERT_BYTE_ORDER: cai_status = 704;
/// A stride is not a whole number of elements, which is what the other protocol counts in.
pub const CAI_ERR_CONVERT_STRIDES: cai_status = 705;
/// The array is not contiguous in the order that is demanded.
pub const CAI_ERR_CONVERT_CONTIGUOUS: cai_status = 706;
/// The number of dimensions is not the one that is demanded.
pub const CAI_ERR_CONVERT_NDIM: cai_status = 707;
/// The array is read-only, which the other protocol cannot say.
pub const CAI_ERR_CONVERT_READONLY: cai_status = 708;
/// The array is on a device, or in a context, that the other protocol cannot name.
pub const CAI_ERR_CONVERT_DEVICE: cai_status = 709;
/// The structure follows a version of DLPack that this library does not know.
///
/// Another major number: nothing of it but the deleter may be used.
pub const CAI_ERR_DLPACK_VERSION: cai_status = 710;

/// The library contradicted itself: please report it.
pub const CAI_ERR_INTERNAL: cai_status = 901;
