/*
 * cai/status.h: statuses and errors, and the version of the library.
 *
 *     #include <cai/cai.h>
 *     #include <stdio.h>
 *
 *     int main(void) {
 *         cai_array array = CAI_ARRAY_INIT; // its stream is 0, which is invalid
 *         cai_error error;
 *         if (cai_array_validate(&array, CAI_CHECK_LAYOUT, &error) != CAI_OK) {
 *             printf("%s: %s\n", cai_status_name(error.code), error.message);
 *         }
 *         if (CAI_STATUS_FAMILY(error.code) != 2) return 1; // that of the array
 *         printf("libcai %s\n", cai_version());
 *         return cai_abi_version() >> 16 == CAI_ABI_MAJOR ? 0 : 1;
 *     }
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 * Generated from the sources of libcai: do not edit.
 */
#ifndef CAI_STATUS_H
#define CAI_STATUS_H

#include "abi.h"
#if CAI_ABI_H_VERSION < 0x10000
#error "an older copy of cai/abi.h was included before cai/status.h: include the newest one first"
#endif

/* Linkage. Define CAI_STATIC before including if you link the static library on Windows. */
#if defined(_WIN32) && !defined(CAI_STATIC)
#define CAI_API __declspec(dllimport)
#elif defined(__GNUC__)
#define CAI_API __attribute__((visibility("default")))
#else
#define CAI_API
#endif

/* The version of the ABI that a program needs, such as 0x10002 for 1.2: functions of later ones are
 * not declared then, and the program runs with every library from that version on. */
#if !defined(CAI_TARGET_ABI)
#define CAI_TARGET_ABI CAI_ABI_H_VERSION
#endif

#if defined(__GNUC__)
#define CAI_DEPRECATED(text) __attribute__((deprecated(text)))
#else
#define CAI_DEPRECATED(text)
#endif

/// Family of a status: 2 for the 2xx. A status may be split later, but stays in its family.
///
/// - 1xx: arguments.
/// - 2xx: the array.
/// - 3xx: the CUDA driver.
/// - 4xx: stream capture.
/// - 5xx: Python.
/// - 6xx: resources.
/// - 7xx: conversions, and requirements that an array does not meet.
/// - 9xx: the library itself.
#define CAI_STATUS_FAMILY(status) ((status) / 100)

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct cai_error cai_error;

/// Major version of the binary interface, and the number in `libcai.so.1`.
#define CAI_ABI_MAJOR 1

/// Minor version: grows with every added function, member or status.
#define CAI_ABI_MINOR 0

/// Bytes of `cai_error.field`, the terminating NUL included.
#define CAI_ERROR_FIELD_SIZE 96

/// Bytes of `cai_error.message`, the terminating NUL included.
#define CAI_ERROR_MESSAGE_SIZE 408

/// Details of a failure, in the caller's memory. It needs no initialization and no release, and its
/// layout never changes. A function that fails writes all of it; one that succeeds writes nothing.
struct cai_error {
    /// Status that the function returned.
    cai_status code;
    /// `CUresult` of the CUDA driver if the driver refused, otherwise 0.
    int32_t driver_code;
    /// Path of a member (`mask.shape[2]`, `descr[1].typestr`) or name of a parameter.
    /// NUL-terminated; a path that is too long ends in "...".
    char field[CAI_ERROR_FIELD_SIZE];
    /// One line with the field, the value found and the value expected:
    /// `ndim: found -1, expected 0 to 64`. NUL-terminated UTF-8.
    char message[CAI_ERROR_MESSAGE_SIZE];
};

/// First number that this library never uses; for statuses of other libraries.
#define CAI_STATUS_THIRD_PARTY 65536

/// An argument has a value that the function does not accept.
#define CAI_ERR_ARGUMENT 102

/// The caller's buffer is too small for the result.
#define CAI_ERR_BUFFER_SIZE 103

/// A bit, a mode or the tail of a structure is not known to this library.
///
/// The caller was compiled with a newer header. Use a newer library, or leave the feature out.
#define CAI_ERR_NEWER_CALLER 104

/// The argument is valid, but the receiver does not support it.
///
/// Consumers may report it for a type, a device or a mask. The C functions never return it.
///
/// In Python: BufferError.
#define CAI_ERR_UNSUPPORTED 105

/// The array's `version` is one that the function cannot use.
#define CAI_ERR_VERSION 203

/// `ndim` is negative or above `CAI_MAX_NDIM`.
#define CAI_ERR_NDIM 204

/// `shape` is NULL although the array has dimensions.
#define CAI_ERR_SHAPE_NULL 205

/// An extent in `shape` is negative.
#define CAI_ERR_SHAPE_NEGATIVE 206

/// The number of elements or bytes is above 2^63 - 1.
#define CAI_ERR_SIZE_OVERFLOW 207

/// The strides span more than 2^63 - 1 bytes on one side of `data`.
#define CAI_ERR_SPAN_OVERFLOW 208

/// The array extends beyond the address space, or begins before its buffer.
#define CAI_ERR_ADDRESS_RANGE 209

/// `data` is NULL although the array has elements.
#define CAI_ERR_DATA_NULL 210

/// `data` is not NULL although the array has no elements.
#define CAI_ERR_DATA_NOT_NULL 211

/// `strides` is set for packed bit fields, which have none in whole bytes.
#define CAI_ERR_BIT_STRIDES 212

/// The elements have a size of 0 bytes.
#define CAI_ERR_ITEMSIZE 213

/// `data` or a stride is not a multiple of the element's natural alignment.
///
/// Only `CAI_CHECK_ALIGNMENT` checks this.
#define CAI_ERR_ALIGNMENT 214

/// `stream` is 0, which could mean no stream or either default stream.
///
/// Use `CAI_STREAM_LEGACY`, `CAI_STREAM_PER_THREAD`, a `CUstream`, or `CAI_STREAM_NONE` if no work
/// on the data is pending.
#define CAI_ERR_STREAM_ZERO 220

/// `stream` is set, but versions below 3 have no streams.
#define CAI_ERR_STREAM_VERSION 221

/// `stream_id` is set without a stream that it could identify.
#define CAI_ERR_STREAM_ID 222

/// `event` is set although `stream` is `CAI_STREAM_NONE`.
#define CAI_ERR_EVENT 223

/// `device.type` is not a device type of DLPack.
#define CAI_ERR_DEVICE_TYPE 224

/// `device.id` is negative.
///
/// Only devices other than CUDA's and the host may have -1, which means that it is not known.
#define CAI_ERR_DEVICE_ID 225

/// `byte_offset` is set, but `data` is no handle: it is an address or NULL.
///
/// Only handles have an offset. Let `data` point to the element at index zero.
#define CAI_ERR_BYTE_OFFSET 226

/// Write access to a read-only array was requested.
///
/// In Python: BufferError.
#define CAI_ERR_READONLY 227

/// The array has a mask, but version 0 has none.
#define CAI_ERR_MASK_VERSION 230

/// The mask's type is not a boolean, an integer or a bit field.
#define CAI_ERR_MASK_TYPE 231

/// The mask's shape does not broadcast to the array's.
#define CAI_ERR_MASK_SHAPE 232

/// The chain of masks is a cycle.
#define CAI_ERR_MASK_CYCLE 233

/// The chain of masks is longer than `CAI_MAX_MASKS`.
#define CAI_ERR_MASK_DEPTH 234

/// The mask is in memory that the array's device cannot read.
///
/// Put the mask on the array's device, or in page-locked or managed memory.
#define CAI_ERR_MASK_DEVICE 235

/// `typestr` is empty, or not terminated within its 16 bytes.
#define CAI_ERR_TYPESTR_LENGTH 240

/// `typestr` does not begin with a byte order: one of `<`, `>`, `|`.
#define CAI_ERR_TYPESTR_ORDER 241

/// `typestr` has an unknown kind.
#define CAI_ERR_TYPESTR_KIND 242

/// `typestr` has a malformed size, or one that its kind does not have.
#define CAI_ERR_TYPESTR_SIZE 243

/// `typestr` has a malformed time unit, or one on a kind without units.
#define CAI_ERR_TYPESTR_UNIT 244

/// `dtype_code` is unknown or contradicts `typestr`.
#define CAI_ERR_DTYPE_CODE 245

/// The sizes in a `cai_descr` are of no known version, or it has a count but no rows.
#define CAI_ERR_DESCR_STRUCT 250

/// A field's name is missing, not UTF-8, or used twice.
#define CAI_ERR_DESCR_NAME 251

/// A field has neither a type nor nested fields, or it has both.
#define CAI_ERR_DESCR_FIELD 252

/// A field's sub-array shape is malformed.
#define CAI_ERR_DESCR_SHAPE 253

/// The total size of the fields is not the size of `typestr`.
#define CAI_ERR_DESCR_SIZE 254

/// Fields are nested deeper than `CAI_MAX_DESCR_DEPTH`.
#define CAI_ERR_DESCR_DEPTH 255

/// There are more than `CAI_MAX_FIELDS` fields, nested ones included.
#define CAI_ERR_DESCR_COUNT 256

/// The text is not a list of fields as NumPy writes them.
#define CAI_ERR_DESCR_SYNTAX 257

/// No field has that name.
#define CAI_ERR_DESCR_NO_FIELD 258

/// The field begins inside a byte, after bit fields that fill no whole bytes.
#define CAI_ERR_DESCR_BIT_OFFSET 259

/// No driver was found, or it has no device.
///
/// `libcuda.so.1`, or the file that `CAI_CUDA_DRIVER` names, is missing, is a stub for linking, or
/// has no device. For ROCm devices: `libamdhip64.so`, or the file that `CAI_HIP_DRIVER` names.
#define CAI_ERR_NO_DRIVER 301

/// The CUDA driver is too old: it lacks a function.
#define CAI_ERR_DRIVER_FUNCTION 302

/// The process was forked after the CUDA driver had been started.
///
/// CUDA does not work in such a child. Start processes with `spawn` or `exec`, or fork before the
/// first CUDA call.
#define CAI_ERR_FORKED 303

/// The CUDA driver is shutting down, because the process exits.
#define CAI_ERR_DRIVER_EXIT 304

/// The CUDA driver refused a call for another reason; see `driver_code`.
#define CAI_ERR_DRIVER 305

/// The device or context is lost: work on it failed, and nothing more will run there.
///
/// Usually an earlier kernel failed. End the process, or destroy the context.
#define CAI_ERR_DEVICE_LOST 306

/// A default stream is used, but the calling thread has no current context.
///
/// Call `cuCtxSetCurrent` (or `cudaSetDevice`) in this thread first.
#define CAI_ERR_NO_CONTEXT 307

/// The context was destroyed.
#define CAI_ERR_CONTEXT_DESTROYED 308

/// The CUDA driver reports that a stream, or the event with it, is invalid.
#define CAI_ERR_STREAM_HANDLE 310

/// The stream was destroyed, and its handle now belongs to a new stream.
///
/// The producer must keep the stream alive as long as the exported array.
#define CAI_ERR_STREAM_STALE 311

/// The array's stream is the per-thread default stream of another thread.
///
/// Call the function in that thread.
#define CAI_ERR_STREAM_THREAD 312

/// The stream's green context was destroyed.
#define CAI_ERR_STREAM_DETACHED 313

/// The array is on a device whose streams are neither CUDA's nor HIP's, or in host memory.
///
/// Synchronize with the functions of that platform. An array in host memory states no stream.
#define CAI_ERR_STREAM_DEVICE 314

/// The stream does not belong to the context in `context`.
#define CAI_ERR_STREAM_CONTEXT 315

/// The CUDA driver does not know the memory at `data`.
#define CAI_ERR_NOT_DEVICE_POINTER 320

/// The memory is on another device, or of another kind, than `device` specifies.
#define CAI_ERR_DEVICE_MISMATCH 321

/// The array extends beyond the allocation that `data` is in.
#define CAI_ERR_OUT_OF_ALLOCATION 322

/// The memory is not accessible from the current context.
#define CAI_ERR_NOT_ACCESSIBLE 323

/// The producer's stream is capturing, and the consumer's is not.
///
/// `CAI_CAPTURE_JOIN` allows the consumer's stream to join the capture.
#define CAI_ERR_CAPTURE_PRODUCER 401

/// The consumer's stream is capturing, and the producer's is not.
///
/// Call begin and end around the launch of the graph instead, with the stream of the launch. Begin
/// is also possible in the capture, with `CAI_UNSTABLE_CAPTURE_EXTERNAL`.
#define CAI_ERR_CAPTURE_CONSUMER 402

/// Both streams are capturing, into different graphs.
#define CAI_ERR_CAPTURE_MERGE 403

/// A stream's capture was invalidated by an earlier call and must be ended.
#define CAI_ERR_CAPTURE_INVALIDATED 404

/// The legacy default stream is used while a stream that it waits for is capturing, or would have to
/// join a capture.
#define CAI_ERR_CAPTURE_LEGACY 405

/// The host cannot wait for work that is being captured.
#define CAI_ERR_CAPTURE_HOST 406

/// Some of the producer's streams are capturing and some are not.
#define CAI_ERR_CAPTURE_STREAMS 407

/// The CUDA driver refused a call because of a stream capture.
#define CAI_ERR_CAPTURE 408

/// No CPython interpreter is running in this process.
///
/// The library looks for CPython among the libraries that the process has loaded.
#define CAI_ERR_NO_PYTHON 501

/// The CPython in this process is too old, or lacks a function.
///
/// The oldest supported version is 3.9.
#define CAI_ERR_PYTHON_VERSION 502

/// The calling thread does not hold the interpreter's lock.
///
/// With `ctypes`, load the library with `PyDLL`, because `CDLL` releases the lock.
#define CAI_ERR_PYTHON_LOCK 503

/// A Python function raised an exception, which is still set.
#define CAI_ERR_PYTHON_EXCEPTION 504

/// The object offers none of the requested protocols.
///
/// In Python: TypeError.
#define CAI_ERR_NO_PROTOCOL 505

/// A required key is missing.
///
/// In Python: KeyError.
#define CAI_ERR_KEY 506

/// A value has the wrong type.
///
/// In Python: TypeError.
#define CAI_ERR_TYPE 507

/// A value is out of range or malformed.
///
/// In Python: ValueError.
#define CAI_ERR_VALUE 508

/// An exchange table on a type is malformed or of another version.
#define CAI_ERR_EXCHANGE_TABLE 509

/// Memory allocation failed.
///
/// In Python: MemoryError.
#define CAI_ERR_NO_MEMORY 601

/// The background release thread could not be started.
#define CAI_ERR_THREAD 602

/// The environment variable `CAI_SYNC` has an unknown value.
#define CAI_ERR_ENVIRONMENT 603

/// The array is in host memory, which was not allowed.
///
/// Set `CAI_IMPORT_ALLOW_HOST` to accept it.
#define CAI_ERR_HOST_MEMORY 701

/// The array has a mask, which the receiver cannot express or did not allow.
///
/// Set `CAI_IMPORT_ALLOW_MASK` to import it.
#define CAI_ERR_CONVERT_MASK 702

/// The type is not the required one, or the other protocol does not have it.
#define CAI_ERR_CONVERT_TYPE 703

/// The elements are not in the machine's byte order.
#define CAI_ERR_CONVERT_BYTE_ORDER 704

/// A stride is not a whole number of elements, as the other protocol requires.
#define CAI_ERR_CONVERT_STRIDES 705

/// The array is not contiguous in the required order.
#define CAI_ERR_CONVERT_CONTIGUOUS 706

/// The number of dimensions is not the required one.
#define CAI_ERR_CONVERT_NDIM 707

/// The array is read-only, which the other protocol cannot express.
#define CAI_ERR_CONVERT_READONLY 708

/// The other protocol cannot express the device or context of the array.
#define CAI_ERR_CONVERT_DEVICE 709

/// The tensor requires grad: automatic differentiation would not see what is written to it.
///
/// Pass `tensor.detach()`, or set `CAI_IMPORT_ALLOW_GRAD`.
#define CAI_ERR_CONVERT_GRAD 711

/// The tensor has another major version of DLPack than this library knows.
///
/// Call its deleter and nothing else.
#define CAI_ERR_DLPACK_VERSION 710

/// An Arrow structure was released, is malformed, or does not match its schema.
#define CAI_ERR_ARROW 712

/// Bits begin inside a byte, and only bits in host memory are copied to whole bytes.
///
/// On a device, slice Arrow arrays with booleans or nulls at multiples of 8.
#define CAI_ERR_CONVERT_BIT_OFFSET 713

/// The stream on which work may be pending is not known, but required.
///
/// The producer has to export a stream: version 3 of `__cuda_array_interface__`, or DLPack's table.
#define CAI_ERR_CONVERT_STREAM 714

/// The memory cannot be shared with other processes, or cannot be opened in this one.
///
/// Use `cuMemAlloc` or `cudaMalloc`. Memory of pools and of `cuMemCreate` needs
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
#define CAI_ERR_IPC_MEMORY 720

/// The bytes are not those of an array that `cai_unstable_ipc_export` wrote.
#define CAI_ERR_IPC_BYTES 721

/// The bytes were written by a newer library, in a form that this one does not know.
#define CAI_ERR_IPC_VERSION 722

/// The device of the memory is not visible in this process.
///
/// Check `CUDA_VISIBLE_DEVICES`.
#define CAI_ERR_IPC_DEVICE 723

/// The process that exported the array has ended, or belongs to another user.
///
/// Its data is undefined. Release the array; a restarted exporter has to export it again.
#define CAI_ERR_IPC_PEER 724

/// The array was exported on another machine, or in another network namespace.
///
/// Copy it there, for example with MPI, NCCL or NIXL.
#define CAI_ERR_IPC_NODE 725

/// The export was withdrawn, or never existed.
#define CAI_ERR_IPC_SLOT 726

/// A table of the channel is full.
#define CAI_ERR_IPC_FULL 727

/// The exporter has not accepted the connection yet, or not sent a file descriptor.
///
/// It has to call `cai_unstable_channel_poll`. Wait for the descriptor of `cai_unstable_channel_fd`,
/// and import again.
#define CAI_ERR_IPC_PENDING 728

/// The operating system refused a call, or lacks it.
///
/// Channels need Linux. Out of descriptors, raise `ulimit -n`.
#define CAI_ERR_IPC_SYSTEM 729

/// Internal error. Please report it.
///
/// In Python: SystemError.
#define CAI_ERR_INTERNAL 901

/// Returns the version of the binary interface of the loaded library: `major << 16 | minor`. The
/// major number must equal `CAI_ABI_MAJOR`. The library serves callers that were compiled with the
/// same or a lower `CAI_ABI_MINOR`.
///
/// Cannot fail. Thread safety: any thread.
CAI_API uint32_t cai_abi_version(void);

/// Returns the version of the loaded library as text: `"0.10.0"`. The text is constant; do not free
/// it.
///
/// Cannot fail. Thread safety: any thread.
CAI_API const char *cai_version(void);

/// Returns the name of a status: `"CAI_ERR_NDIM"`, or `"CAI_ERR_UNKNOWN"` for a number that this
/// library does not know. Never NULL. The text is constant; do not free it.
///
/// Cannot fail. Thread safety: any thread.
CAI_API const char *cai_status_name(cai_status status);

/// Returns the meaning of a status in one sentence. Details of a single failure are in
/// `cai_error.message`. Never NULL. The text is constant; do not free it.
///
/// Cannot fail. Thread safety: any thread.
CAI_API const char *cai_status_message(cai_status status);

/// Fills an error and returns `code`, for functions of other libraries that report failures as this
/// library does: `return cai_error_set(error, MY_STATUS, "shape", "found 3, expected 2");`. Your
/// own statuses begin at `CAI_STATUS_THIRD_PARTY`.
///
/// `error`: may be NULL, then nothing is written. `driver_code` becomes 0.
/// `field`: NUL-terminated UTF-8, or NULL.
/// `message`: NUL-terminated UTF-8 that follows the field in `error->message`, or NULL.
///
/// Cannot fail; text that is too long is cut, and control characters are escaped. Thread safety:
/// any thread; allocates nothing.
CAI_API
cai_status cai_error_set(cai_error *error,
                         cai_status code,
                         const char *field,
                         const char *message);

#if defined(__cplusplus)
}
#endif

#endif /* CAI_STATUS_H */
