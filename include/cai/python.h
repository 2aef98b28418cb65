/*
 * cai/python.h: Python objects to arrays and back. CPython's headers are not needed: a PyObject *
 * is a struct _object *. The functions need a running interpreter and its lock.
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
typedef struct cai_exchange_api cai_exchange_api;

/** Initial values of the options: no requirements. */
#define CAI_IMPORT_OPTIONS_INIT                                                                    \
    {sizeof(cai_import_options), 0, {0}, CAI_STREAM_UNKNOWN, 0, 0, 0, 0, {0}, {0}}
#define CAI_EXPORT_OPTIONS_INIT {sizeof(cai_export_options), 0}

/**
 * Describes a Python object that holds an array: of PyTorch, CuPy, Numba, JAX, or anything else
 * that offers `__cuda_array_interface__`, DLPack or one of their relatives. The array keeps the
 * object, and its mask, alive.
 *
 * The ways in are tried in order (`cai_import_options.protocols`): first the tables on the object's
 * type, which take nanoseconds, then the dictionary, then the others. The dictionary is read once
 * and never changed. Only AttributeError means that an object does not offer a protocol: any other
 * exception of the producer's ends the search and is passed on untouched; but a BufferError of
 * `__dlpack__` only where no later protocol says more.
 *
 * Nothing is ordered: the array says on which stream the producer's work may be pending, or that
 * this is unknown (`CAI_STREAM_UNKNOWN`: dictionaries of version 2 and earlier without `stream`).
 * Call `cai_array_consume_begin`.
 *
 * `object`: a `PyObject *`; the reference stays the caller's.
 * `options`: NULL: no demands.
 * `out`: must be initialized (`CAI_ARRAY_INIT`) and hold no reference, which would be lost. It
 * passes `cai_array_validate` with `CAI_CHECK_LAYOUT`. The reference may be released from any
 * thread, with or without the interpreter's lock. Without it, the object is handed to the
 * interpreter, which lets it go when its main thread gets to it, or at the next call of this
 * function on any thread; so a release never waits. After the interpreter has ended, nothing is
 * done.
 *
 * On failure a Python exception is set where there is an interpreter (not with
 * `CAI_IMPORT_NO_EXCEPTION`): KeyError for a missing key, TypeError for a wrong type, BufferError
 * for what the options exclude, ValueError for the rest. Its text begins with the key:
 * `__cuda_array_interface__['shape'][1]: found -1, expected at least 0`.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`,
 * `CAI_ERR_NO_PYTHON`, `CAI_ERR_PYTHON_VERSION`, `CAI_ERR_PYTHON_LOCK`, `CAI_ERR_PYTHON_EXCEPTION`,
 * `CAI_ERR_NO_PROTOCOL`, `CAI_ERR_KEY`, `CAI_ERR_TYPE`, `CAI_ERR_VALUE`, `CAI_ERR_EXCHANGE_TABLE`,
 * `CAI_ERR_READONLY`, `CAI_ERR_NO_MEMORY`, a status of the 7xx family, what `cai_array_validate` or
 * `cai_array_from_dlpack` say, or, with `CAI_IMPORT_QUERY_DEVICE`, what the driver may answer to
 * any call.
 * Thread safety: any thread that holds the interpreter's lock (in a free-threaded build: that is
 * attached); another is answered `CAI_ERR_PYTHON_LOCK`. Allocates one block, and none where an
 * earlier array's can be used again.
 * Source: CAI version 3, "Python Interface Specification"; DLPack 1.3;
 * `__sycl_usm_array_interface__` version 1.
 */
CAI_API cai_status cai_array_from_python(
    struct _object *object, const cai_import_options *options, cai_array *out, cai_error *error);

/**
 * Makes a Python object of an array, for CuPy, Numba, PyTorch, JAX, cuDF and whoever else takes
 * one: it offers `__cuda_array_interface__` (or, by device, `__sycl_usm_array_interface__`,
 * `__array_interface__` for host memory), `__dlpack__` and `__dlpack_device__`, and the two
 * exchange tables on its type. It holds a reference to the array's owner until it is let go itself.
 *
 * Each reading of a dictionary makes a new one: version 3, `strides` None exactly when the array is
 * C-contiguous, `stream` where one is known. An array that says `CAI_STREAM_UNKNOWN` is presented
 * as version 2, which cannot say either. A protocol that cannot express the array raises
 * AttributeError with the reason, so `hasattr` is False; `__dlpack__` raises BufferError. Read-only
 * stays read-only.
 *
 * `array`: must have an owner and pass `cai_array_validate` with `CAI_CHECK_LAYOUT`.
 * `options`: NULL: none.
 * `out`: a new reference. Written on success only.
 *
 * On failure a Python exception is set where there is an interpreter.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_NEWER_CALLER`, `CAI_ERR_STRUCT_SIZE`,
 * `CAI_ERR_BORROWED`, `CAI_ERR_OWNER_OPS`, `CAI_ERR_NO_PYTHON`, `CAI_ERR_PYTHON_VERSION`,
 * `CAI_ERR_PYTHON_LOCK`, `CAI_ERR_PYTHON_EXCEPTION`, `CAI_ERR_NO_MEMORY`, or what
 * `cai_array_validate` returns.
 * Thread safety: as `cai_array_from_python`. Source: CAI version 3, "Python Interface
 * Specification", "Lifetime management".
 */
CAI_API cai_status cai_array_to_python(
    const cai_array *array, const cai_export_options *options, struct _object **out,
    cai_error *error);

/**
 * Sets the Python exception that belongs to a failure of any function of this library, in an
 * extension that wants to hand it on: KeyError, TypeError, BufferError, ValueError, MemoryError, or
 * RuntimeError for the driver, with the words of the error.
 *
 * `error`: what the function filled in. Where an exception is set already, nothing happens. Where
 * none is and `error` names none (NULL, `CAI_OK`, `CAI_ERR_PYTHON_EXCEPTION`), SystemError says so.
 *
 * Returns NULL always, so that a function can end in `return cai_python_raise(&why);`. Without an
 * interpreter, or without its lock, it does nothing.
 * Thread safety: any thread that holds the interpreter's lock.
 */
CAI_API struct _object *cai_python_raise(const cai_error *error);

/**
 * Publishes an exchange table on a Python type: sets its attribute `__cai_exchange_api__`. From
 * then on `cai_array_from_python`, of any copy of this library, takes objects of the type, and of
 * types derived from it, through the table: also where they offer other protocols.
 *
 * `type`: a `PyTypeObject *` that allows new attributes (a heap type, as pybind11, nanobind and
 * `PyType_FromSpec` make them).
 * `table`: constant, for the life of the process.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_TYPE`, `CAI_ERR_EXCHANGE_TABLE`,
 * `CAI_ERR_NO_PYTHON`, `CAI_ERR_PYTHON_VERSION`, `CAI_ERR_PYTHON_LOCK` or
 * `CAI_ERR_PYTHON_EXCEPTION`; on failure a Python exception is set where there is an interpreter.
 * Thread safety: any thread that holds the interpreter's lock.
 */
CAI_API cai_status cai_python_publish(
    struct _object *type, const cai_exchange_api *table, cai_error *error);

/**
 * Options of `cai_array_from_python`. Start from `CAI_IMPORT_OPTIONS_INIT`, which requires nothing.
 *
 * A newer caller may pass a longer structure. If its tail is not zero, the call is refused with
 * `CAI_ERR_NEWER_CALLER`: no requirement is ignored.
 */
struct cai_import_options {
    /** `sizeof(cai_import_options)` of the caller's header; at least 56. */
    uint32_t struct_size;
    /** `CAI_IMPORT_` bits. */
    uint32_t flags;
    /** Protocols to try, `CAI_PROTOCOL_` numbers in this order, up to the first 0. All 0: the
     *  default order, which is that of the numbers, but SYCL before DLPack for oneAPI. */
    uint8_t protocols[8];
    /** Stream that the caller will work on; only `CAI_PROTOCOL_DLPACK` uses it. The producer
     *  orders its work before it. `CAI_STREAM_UNKNOWN`: the legacy default stream.
     *  `CAI_STREAM_NONE`: the producer orders nothing. 0 is refused. */
    cai_stream stream;
    /** Number of dimensions that `CAI_IMPORT_REQUIRE_NDIM` requires. */
    int32_t ndim;
    /** Required `dtype_code`; considered only if `typestr` is not empty. */
    uint16_t dtype_code;
    /** Meaning of an opaque 1-byte type (`CAI_DTYPE_FLOAT8_E4M3FN`, ...), or 0 if not known. */
    uint16_t opaque_8bit;
    /** Meaning of an opaque 2-byte type (`CAI_DTYPE_BFLOAT16`), or 0 if not known. */
    uint16_t opaque_16bit;
    /** Zero. */
    uint16_t reserved[3];
    /** Required type, as in `cai_array`. Empty: any type. */
    char typestr[CAI_TYPESTR_SIZE];
};

/* Bits of cai_import_options.flags. */
/** Accepts only what the specification allows to the letter. */
#define CAI_IMPORT_STRICT 1
/** Accepts a `stream` of 0, which the specification forbids, as the legacy default stream. */
#define CAI_IMPORT_ALLOW_STREAM_ZERO 2
/** Refuses read-only arrays. */
#define CAI_IMPORT_REQUIRE_WRITABLE 4
/** Refuses arrays that are not C-contiguous. With the next bit too, either order is accepted. */
#define CAI_IMPORT_REQUIRE_C_CONTIGUOUS 8
/** Refuses arrays that are not Fortran-contiguous. */
#define CAI_IMPORT_REQUIRE_F_CONTIGUOUS 16
/** Refuses elements that are not in the machine's byte order. */
#define CAI_IMPORT_REQUIRE_NATIVE 32
/** Refuses arrays whose number of dimensions is not `ndim` of the options. */
#define CAI_IMPORT_REQUIRE_NDIM 64
/** Accepts arrays with a mask, which the caller must not ignore. */
#define CAI_IMPORT_ALLOW_MASK 128
/** Accepts host memory (`CAI_DEVICE_CPU`), and tries NumPy's protocols after the others. */
#define CAI_IMPORT_ALLOW_HOST 256
/** Asks the CUDA driver for the device and context that the protocol does not specify. */
#define CAI_IMPORT_QUERY_DEVICE 512
/** Sets no Python exception for a failure of this library. Exceptions of the producer stay set. */
#define CAI_IMPORT_NO_EXCEPTION 1024

/* Values of cai_import_options.protocols. */
/** Exchange table of this library on the object's type: `__cai_exchange_api__`. */
#define CAI_PROTOCOL_EXCHANGE 1
/** Exchange table of DLPack on the object's type: `__dlpack_c_exchange_api__`. */
#define CAI_PROTOCOL_DLPACK_EXCHANGE 2
/** Dictionary `__cuda_array_interface__`, versions 0 to 3. */
#define CAI_PROTOCOL_CUDA_ARRAY_INTERFACE 3
/** Method `__dlpack__`. */
#define CAI_PROTOCOL_DLPACK 4
/** Dictionary `__sycl_usm_array_interface__`, version 1. */
#define CAI_PROTOCOL_SYCL_USM 5
/** Attributes `buffer` or `base_data`, `offset`, `dtype`, `shape`, `strides` of OpenCL arrays. */
#define CAI_PROTOCOL_BUFFER 6
/** Capsule `__array_struct__` of NumPy, for host memory. */
#define CAI_PROTOCOL_ARRAY_STRUCT 7
/** Dictionary `__array_interface__` of NumPy, version 3, for host memory. */
#define CAI_PROTOCOL_ARRAY_INTERFACE 8

/**
 * Options of `cai_array_to_python`. Start from `CAI_EXPORT_OPTIONS_INIT`.
 *
 * A longer structure of a newer caller is refused with `CAI_ERR_NEWER_CALLER` if its tail is not
 * zero.
 */
struct cai_export_options {
    /** `sizeof(cai_export_options)` of the caller's header; at least 8. */
    uint32_t struct_size;
    /** `CAI_EXPORT_` bits. */
    uint32_t flags;
};

/* Bits of cai_export_options.flags. */
/** Exports version 2 of the interface, which has no stream. */
#define CAI_EXPORT_VERSION_2 1
/** Always exports `strides` as a tuple, for consumers that do not accept None. */
#define CAI_EXPORT_STRIDES 2
/** Exports a read-only array as writable, for consumers that reject read-only arrays. */
#define CAI_EXPORT_HIDE_READONLY 4

/**
 * Table of functions that a Python type publishes with `cai_python_publish`, so that compiled code
 * exchanges its objects without Python calls. It is constant and lives as long as the process.
 *
 * The functions are called with the interpreter's lock held. If they fail they may set a Python
 * exception, which is then passed on.
 */
struct cai_exchange_api {
    /** `sizeof(cai_exchange_api)` of the publisher's header; at least 24. */
    uint32_t struct_size;
    /** `CAI_DATA_ABI` of the publisher's header. A table with another number is not used. */
    uint32_t data_abi;
    /** Describes an object of the type, or of a derived type, in `out`, which is initialized
     *  (`CAI_ARRAY_INIT`) and gets a reference of its own. It orders nothing: `out` names the
     *  stream. */
    cai_status (*from_object)(void *object, cai_array *out, cai_error *error);
    /** NULL, or makes a new object of the type that holds a reference of its own to the array. */
    cai_status (*to_object)(const cai_array *array, void **out, cai_error *error);
};

#if defined(__cplusplus)
}
#endif

#endif /* CAI_PYTHON_H */
