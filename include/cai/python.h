/*
 * cai/python.h: Python objects to arrays and back. CPython's headers are not needed: a PyObject *
 * is a struct _object *. The functions need a running interpreter and its lock.
 *
 *     #include <cai/cai.h>
 *
 *     static cai_status rows(struct _object *object, int64_t *out, cai_error *error) {
 *         cai_import_options options = CAI_IMPORT_OPTIONS_INIT;
 *         cai_array array = CAI_ARRAY_INIT;
 *         cai_status status;
 *         options.flags = CAI_IMPORT_REQUIRE_NDIM | CAI_IMPORT_REQUIRE_C_CONTIGUOUS;
 *         options.ndim = 2;
 *         status = cai_array_from_python(object, &options, &array, error);
 *         if (status != CAI_OK) return status; // a Python exception is set
 *         *out = array.shape[0];
 *         cai_array_release(&array);
 *         return CAI_OK;
 *     }
 *
 *     // An object for other libraries of a dictionary whose memory `owner` holds.
 *     static cai_status wrap(struct _object *dictionary, struct _object *owner, struct _object **out,
 *                            cai_error *error) {
 *         cai_import_options in;
 *         cai_export_options as;
 *         cai_array array = CAI_ARRAY_INIT;
 *         cai_status status = cai_import_options_init(&in, sizeof in);
 *         if (status == CAI_OK) status = cai_export_options_init(&as, sizeof as);
 *         if (status == CAI_OK)
 *             status = cai_array_from_python_dict(dictionary, owner, &in, &array, error);
 *         if (status == CAI_OK) status = cai_array_to_python(&array, &as, out, error);
 *         cai_array_release(&array);
 *         return status;
 *     }
 *
 *     int main(void) {
 *         int64_t count;
 *         struct _object *object;
 *         if (wrap(NULL, NULL, &object, NULL) != CAI_ERR_NULL_ARGUMENT) return 1;
 *         return rows(NULL, &count, NULL) == CAI_ERR_NULL_ARGUMENT ? 0 : 1;
 *     }
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 * Generated from the sources of libcai: do not edit.
 */
#ifndef CAI_PYTHON_H
#define CAI_PYTHON_H

#include "status.h"
#if CAI_ABI_H_VERSION < 0x10000
#error "an older copy of cai/abi.h was included before cai/python.h: include the newest one first"
#endif

struct _object;

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct cai_import_options cai_import_options;
typedef struct cai_export_options cai_export_options;

/// Exchange table of this library on the object's type: `__cai_exchange_api__`.
#define CAI_PROTOCOL_EXCHANGE 1

/// Exchange table of DLPack on the object's type: `__dlpack_c_exchange_api__`.
#define CAI_PROTOCOL_DLPACK_EXCHANGE 2

/// Dictionary `__cuda_array_interface__`, versions 0 to 3.
#define CAI_PROTOCOL_CUDA_ARRAY_INTERFACE 3

/// Method `__dlpack__`.
#define CAI_PROTOCOL_DLPACK 4

/// Dictionary `__sycl_usm_array_interface__`, version 1.
#define CAI_PROTOCOL_SYCL_USM 5

/// Buffer interface of OpenCL: attributes `buffer` or `base_data`, `offset`, `dtype`, `shape`, `strides` of OpenCL arrays.
#define CAI_PROTOCOL_OPENCL_BUFFER 6

/// Capsule `__array_struct__` of NumPy, for host memory.
#define CAI_PROTOCOL_ARRAY_STRUCT 7

/// Dictionary `__array_interface__` of NumPy, version 3, for host memory.
#define CAI_PROTOCOL_ARRAY_INTERFACE 8

/// `Py_buffer` of PEP 3118, for host memory: `bytes`, `bytearray`, `array`, `mmap`, `memoryview`.
#define CAI_PROTOCOL_PEP3118 9

/// Accepts only what the specification allows to the letter.
#define CAI_IMPORT_STRICT 1

/// Accepts a `stream` of 0, which the specification forbids, as the legacy default stream.
#define CAI_IMPORT_ALLOW_STREAM_ZERO 2

/// Refuses read-only arrays.
#define CAI_IMPORT_REQUIRE_WRITABLE 4

/// Refuses arrays that are not C-contiguous. With the next bit too, either order is accepted.
#define CAI_IMPORT_REQUIRE_C_CONTIGUOUS 8

/// Refuses arrays that are not Fortran-contiguous.
#define CAI_IMPORT_REQUIRE_F_CONTIGUOUS 16

/// Refuses elements that are not in the machine's byte order.
#define CAI_IMPORT_REQUIRE_NATIVE 32

/// Refuses arrays whose number of dimensions is not `ndim` of the options.
#define CAI_IMPORT_REQUIRE_NDIM 64

/// Accepts arrays with a mask, which the caller must not ignore.
#define CAI_IMPORT_ALLOW_MASK 128

/// Accepts host memory (`CAI_DEVICE_CPU`), and tries the protocols for it after the others.
#define CAI_IMPORT_ALLOW_HOST 256

/// Asks CUDA, and HIP if it is loaded, for what the protocol does not specify of the location.
#define CAI_IMPORT_QUERY_DEVICE 512

/// Sets no Python exception for a failure of this library. Exceptions of the producer stay set.
#define CAI_IMPORT_NO_EXCEPTION 1024

/// Refuses Python objects (`O`) as elements and in fields, which mean nothing on a device.
#define CAI_IMPORT_REFUSE_OBJECTS 2048

/// Accepts tensors that require grad: automatic differentiation does not see what is written.
#define CAI_IMPORT_ALLOW_GRAD 4096

/// Takes `_ptr` of OpenCL's buffer interface as a `cl_mem` if the object does not state its kind.
#define CAI_IMPORT_OPENCL_BUFFER_CL_MEM 8192

/// Takes `_ptr` of OpenCL's buffer interface as a CUDA address if the object does not state its
/// kind.
#define CAI_IMPORT_OPENCL_BUFFER_CUDA_ADDRESS 16384

/// Asks the CUDA driver for the context and the id of any stream, not only of 2.
#define CAI_IMPORT_IDENTIFY_STREAM 32768

/// Refuses arrays whose stream is not known (`CAI_STREAM_UNKNOWN`) and that have no event, and
/// arrays with such a mask: `cai_array_consume_begin` could not order them.
#define CAI_IMPORT_REQUIRE_STREAM 65536

/// Accepts a mask of bytes (`|u1`) that hold one bit for each element, as cuDF's.
#define CAI_IMPORT_ALLOW_PACKED_MASK 131072

/// Exports version 2 of the interface, which has no stream.
#define CAI_EXPORT_VERSION_2 1

/// Always exports `strides` as a tuple, for consumers that do not accept None.
#define CAI_EXPORT_STRIDES 2

/// Exports a read-only array as writable, for consumers that reject read-only arrays.
#define CAI_EXPORT_HIDE_READONLY 4

/// Options of `cai_array_from_python`. Start from `CAI_IMPORT_OPTIONS_INIT`, which requires
/// nothing.
///
/// A newer caller may pass a longer structure. If its tail is not zero, the call is refused with
/// `CAI_ERR_NEWER_CALLER`: no requirement is ignored.
struct cai_import_options {
    /// `sizeof(cai_import_options)` of the caller's header; at least 64.
    uint32_t struct_size;
    /// `CAI_IMPORT_` bits.
    uint32_t flags;
    /// Protocols to try, `CAI_PROTOCOL_` numbers in this order, up to the first 0. All 0: the
    /// default order: that of the numbers, but SYCL before DLPack for oneAPI, and Arrow before 9.
    uint8_t protocols[16];
    /// Argument of `__dlpack__`: the stream that the caller will work on. Other protocols do not
    /// use it, and no import waits: `cai_array_consume_begin` does. The producer orders its work
    /// before it, and the array is released on it: it must live until then.
    /// `CAI_STREAM_UNKNOWN`: the legacy default stream. `CAI_STREAM_NONE`: the producer orders
    /// nothing. 0 is refused. A producer that raises RuntimeError (TensorFlow) is asked again
    /// without a stream, which means the legacy default stream.
    cai_stream dlpack_stream;
    /// Number of dimensions that `CAI_IMPORT_REQUIRE_NDIM` requires.
    int32_t ndim;
    /// Required `dtype_code`; considered only if `typestr` is not empty.
    uint16_t dtype_code;
    /// Meaning of an opaque 1-byte type (`CAI_DTYPE_FLOAT8_E4M3FN`, ...), or 0 if not known.
    uint16_t opaque_8bit;
    /// Meaning of an opaque 2-byte type (`CAI_DTYPE_BFLOAT16`), or 0 if not known.
    uint16_t opaque_16bit;
    /// Zero.
    uint16_t reserved[3];
    /// Required type, as in `cai_array`. Empty: any type.
    char typestr[CAI_TYPESTR_SIZE];
};

/// Options of `cai_array_to_python`. Start from `CAI_EXPORT_OPTIONS_INIT`.
///
/// A longer structure of a newer caller is refused with `CAI_ERR_NEWER_CALLER` if its tail is not
/// zero.
struct cai_export_options {
    /// `sizeof(cai_export_options)` of the caller's header; at least 8.
    uint32_t struct_size;
    /// `CAI_EXPORT_` bits.
    uint32_t flags;
};

/// Initializes options as `CAI_IMPORT_OPTIONS_INIT` does, for languages that declare
/// `cai_import_options` by themselves.
///
/// `options`: memory, which need not be initialized. All `size` bytes are written.
/// `size`: the size of the caller's own declaration, as for `cai_array_init`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT` or `CAI_ERR_STRUCT_SIZE`.
/// Thread safety: any thread, with or without the interpreter's lock; allocates nothing.
CAI_API cai_status cai_import_options_init(void *options, size_t size);

/// Initializes options as `CAI_EXPORT_OPTIONS_INIT` does, for languages that declare
/// `cai_export_options` by themselves.
///
/// `options`: memory, which need not be initialized. All `size` bytes are written.
/// `size`: the size of the caller's own declaration, as for `cai_array_init`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT` or `CAI_ERR_STRUCT_SIZE`.
/// Thread safety: any thread, with or without the interpreter's lock; allocates nothing.
CAI_API cai_status cai_export_options_init(void *options, size_t size);

/// Describes a Python object that holds an array: of PyTorch, CuPy, Numba, JAX, or any other object
/// with `__cuda_array_interface__`, DLPack or a related protocol. The array keeps the object and
/// its mask alive.
///
/// The protocols are tried in the order of `cai_import_options.protocols`: by default the exchange
/// tables on the object's type first, which take nanoseconds, then the dictionary, then the others.
/// The dictionary is read once and never changed. Without `CAI_IMPORT_STRICT`, what real producers
/// write is accepted if its meaning is unique: any mapping, lists for tuples, no `version`, a
/// `typestr` without byte order. An AttributeError means that the object does not offer the
/// protocol, and the next one is tried. The same holds for a BufferError of `__dlpack__`, for its
/// TypeError if the object has one of Arrow's methods, and for a BufferError or status of this
/// library's exchange table. Any other exception of the producer ends the search and stays set.
/// Requirements are checked of the first array that is found, except that
/// the next protocols are tried as well for one without a mask whose stream is not known
/// (`CAI_IMPORT_REQUIRE_STREAM`), whose elements are opaque (`dtype_code`), or that is read-only
/// because it is Arrow's (`CAI_IMPORT_REQUIRE_WRITABLE`).
///
/// The function orders nothing: `out->stream` is the stream on which the producer's work may be
/// pending, or `CAI_STREAM_UNKNOWN` if the protocol names none (dictionaries before version 3,
/// some DLPack tensors). Call `cai_array_consume_begin` before you use the data.
///
/// `object`: a `PyObject *`; the caller keeps its reference.
/// `options`: requirements, or NULL for none. An array with a mask is refused unless
/// `CAI_IMPORT_ALLOW_MASK` is set, host memory unless `CAI_IMPORT_ALLOW_HOST` is, a tensor that
/// requires grad unless `CAI_IMPORT_ALLOW_GRAD` is, and an object of the buffer interface that does
/// not state what its `_ptr` is unless `CAI_IMPORT_OPENCL_BUFFER_CL_MEM` or `CAI_IMPORT_OPENCL_BUFFER_CUDA_ADDRESS` is.
/// `out`: must be initialized (`CAI_ARRAY_INIT`) and hold no reference, which would be lost. It
/// passes `cai_array_validate` with `CAI_CHECK_LAYOUT`. Written on success only. It may be released
/// on any thread, with or without the interpreter's lock: without it, the object is released by the
/// interpreter's main thread, or by the next import or export of a Python object, and the release
/// never waits. After the interpreter has ended, nothing is released. A tensor imported
/// through `__dlpack__` is released in stream order, on the stream that was passed to `__dlpack__`
/// (a default stream: in the context of the memory and in the current one): that release calls the
/// driver and may start the thread of `cai_owner_release_after`.
///
/// On failure a Python exception is set, unless `CAI_IMPORT_NO_EXCEPTION` is set: KeyError for a
/// missing key, TypeError for a wrong type or an object without a protocol, BufferError for an
/// array that does not meet the options, MemoryError, RuntimeError for the driver, SystemError for
/// an internal error, otherwise ValueError. Its text begins with the key:
/// `__cuda_array_interface__['shape'][1]: found -1, expected at least 0`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT`, `CAI_ERR_NEWER_CALLER`,
/// `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_NO_PYTHON`, `CAI_ERR_PYTHON_VERSION`, `CAI_ERR_PYTHON_LOCK`,
/// `CAI_ERR_PYTHON_EXCEPTION`, `CAI_ERR_NO_PROTOCOL`, `CAI_ERR_KEY`, `CAI_ERR_TYPE`,
/// `CAI_ERR_VALUE`, `CAI_ERR_VERSION`, `CAI_ERR_EXCHANGE_TABLE`, `CAI_ERR_READONLY`,
/// `CAI_ERR_BORROWED`, `CAI_ERR_NO_MEMORY`, `CAI_ERR_HOST_MEMORY`, a `CAI_ERR_CONVERT_` status, a
/// status of `cai_array_validate` or `cai_array_from_dlpack`, any status of a type's `from_object`,
/// or, with `CAI_IMPORT_QUERY_DEVICE` or `CAI_IMPORT_IDENTIFY_STREAM`, of `cai_unstable_array_identify`.
/// Thread safety: any thread that holds the interpreter's lock (is attached, in a free-threaded
/// build). Allocates one block, which is reused after its release. Source: CAI version 3, "Python
/// Interface Specification"; DLPack 1.3; `__sycl_usm_array_interface__` version 1; the proposal
/// "OpenCL/CUDA Buffer Interface".
CAI_API
cai_status cai_array_from_python(struct _object *object,
                                 const cai_import_options *options,
                                 cai_array *out,
                                 cai_error *error);

/// Describes the array in a dictionary that is passed without its object, as
/// `from_cuda_array_interface(desc, owner)` of Numba takes it. For code that has already read
/// `__cuda_array_interface__`, or has written such a dictionary itself.
///
/// `dictionary`: a `PyObject *`: a dictionary, or, without `CAI_IMPORT_STRICT`, any mapping. It is
/// read during the call and never changed.
/// `owner`: the `PyObject *` that keeps the data alive; the array holds a reference to it. NULL:
/// the array holds a reference to the dictionary only, and the caller must keep the data alive.
/// `options`: as for `cai_array_from_python`. `protocols[0]` names the interface that the
/// dictionary belongs to: 0 or `CAI_PROTOCOL_CUDA_ARRAY_INTERFACE`, `CAI_PROTOCOL_SYCL_USM`, or,
/// with `CAI_IMPORT_ALLOW_HOST`, `CAI_PROTOCOL_ARRAY_INTERFACE`; further protocols are refused. An
/// object in `mask` is imported through any protocol.
/// `out`, exceptions, release and thread safety: as for `cai_array_from_python`.
///
/// Returns a status of `cai_array_from_python`: `CAI_ERR_NO_PROTOCOL` only for an object in `mask`.
/// Source: CAI version 3, "Python Interface Specification"; Numba,
/// `numba.cuda.from_cuda_array_interface`.
CAI_API
cai_status cai_array_from_python_dict(struct _object *dictionary,
                                      struct _object *owner,
                                      const cai_import_options *options,
                                      cai_array *out,
                                      cai_error *error);

/// Creates a Python object from an array, for CuPy, Numba, PyTorch, JAX, cuDF and others. It offers
/// `__cuda_array_interface__` (for other devices `__sycl_usm_array_interface__`, for host memory
/// `__array_interface__` and the buffer protocol of PEP 3118), `__dlpack__`, `__dlpack_device__`,
/// and both exchange tables on its type. It holds a reference to the array's owner as long as it
/// lives.
///
/// Each access to a dictionary makes a new one: of version 3, with `strides` None exactly if the
/// array is C-contiguous, and `stream` if one is known. An array with `CAI_STREAM_UNKNOWN` is
/// exported as version 2, which has no stream. The per-thread stream of another thread is exported
/// as the legacy stream of its context, which waits for it. If readers of the dictionary would
/// assume another context for a default stream, or if `stream_id` shows that the stream was
/// destroyed, the dictionary is not offered, and `__dlpack__` fails in the latter case. With
/// `CAI_SYNC_EXPORT_NONE` no stream is exported. A protocol that cannot represent the array is not
/// offered: `hasattr` returns False, and the AttributeError gives the reason; `__dlpack__` and
/// `memoryview` raise BufferError. A read-only array is exported as read-only.
///
/// `array`: must have an owner and pass `cai_array_validate` with `CAI_CHECK_LAYOUT`.
/// `options`: NULL for none. With `CAI_EXPORT_VERSION_2`, the caller must ensure that no work is
/// pending (`cai_array_synchronize`); with `CAI_EXPORT_HIDE_READONLY`, that nothing writes to the
/// data.
/// `out`: a new reference. Written on success only.
///
/// On failure a Python exception is set if there is an interpreter.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT` for flags that exclude each other,
/// `CAI_ERR_NEWER_CALLER`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_BORROWED`, `CAI_ERR_OWNER_OPS`,
/// `CAI_ERR_NO_PYTHON`, `CAI_ERR_PYTHON_VERSION`,
/// `CAI_ERR_PYTHON_LOCK`, `CAI_ERR_PYTHON_EXCEPTION`, `CAI_ERR_NO_MEMORY`, or a status of
/// `cai_array_validate`.
/// Thread safety: any thread that holds the interpreter's lock. Allocates. Source: CAI version 3,
/// "Python Interface Specification", "Lifetime management".
CAI_API
cai_status cai_array_to_python(const cai_array *array,
                               const cai_export_options *options,
                               struct _object **out,
                               cai_error *error);

/// Sets the Python exception for a failure of any function of this library: KeyError, TypeError,
/// BufferError, ValueError, MemoryError, or RuntimeError for the driver, with the text of the
/// error. For extensions that pass a failure on: `return cai_python_raise(&error);`.
///
/// `error`: as a function filled it. If an exception is already set, nothing happens. If none is
/// set and `error` names none (NULL, `CAI_OK`, `CAI_ERR_PYTHON_EXCEPTION`), SystemError is raised.
///
/// Returns NULL always. Without an interpreter, or without its lock, it does nothing.
/// Thread safety: any thread that holds the interpreter's lock.
CAI_API struct _object *cai_python_raise(const cai_error *error);

/// Initial value of cai_import_options: no requirements.
#define CAI_IMPORT_OPTIONS_INIT                                                                    \
    {sizeof(cai_import_options), 0, {0}, CAI_STREAM_UNKNOWN, 0, 0, 0, 0, {0}, {0}}
/// Initial value of cai_export_options.
#define CAI_EXPORT_OPTIONS_INIT {sizeof(cai_export_options), 0}
#if defined(__cplusplus)
}
#endif

#endif /* CAI_PYTHON_H */
