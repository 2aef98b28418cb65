/*
 * cai.h: the C side of the CUDA Array Interface.
 *
 * A producer fills a cai_array and hands it out; a consumer checks it with cai_array_validate, keeps it
 * with cai_array_share or cai_array_retain, and lets it go with cai_array_release. Whoever links nothing
 * uses cai_inline_retain and cai_inline_release at the end of this file.
 *
 *     cai_array a = CAI_ARRAY_INIT;
 *     cai_error why;
 *     if (produce(&a, &why) != CAI_OK || cai_array_validate(&a, CAI_CHECK_LAYOUT, &why) != CAI_OK) {
 *         puts(why.message);
 *     }
 *     ...
 *     cai_array_release(&a);
 *
 * Rules without exception:
 *   - A function that can fail returns a cai_status (0 is success) and takes, last, a cai_error * that may
 *     be NULL. There is no other place where errors are kept.
 *   - Outputs are written on success only. The error is written on failure only.
 *   - NULL for a required pointer is a status, never a crash. Any other pointer must be what it is said to be.
 *   - No function throws, aborts, prints, starts a thread, or calls CUDA unless its comment says so.
 *   - A function that allocates nothing does so when it succeeds. The words of an error take some memory for a
 *     moment; where there is none, the status is CAI_ERR_NO_MEMORY instead.
 *   - Sizes, strides and offsets are in bytes, extents in elements.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 * This file is generated from the sources of the library: do not edit it.
 */

#ifndef CAI_H
#define CAI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Linkage. Define CAI_STATIC when you link the static library on Windows. */
#if defined(_WIN32) && !defined(CAI_STATIC)
#define CAI_API __declspec(dllimport)
#elif defined(__GNUC__)
#define CAI_API __attribute__((visibility("default")))
#else
#define CAI_API
#endif

/* The structures that point to one another. */
struct cai_owner;
struct cai_descr;
struct cai_array;

/* CPython's PyObject and DLPack's structures, under the names that their own headers give them. */
struct _object;
struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* Options that demand nothing. */
#define CAI_IMPORT_OPTIONS_INIT                                                                              \
    { sizeof(cai_import_options), 0, {0}, 0, 0, 0, 0, 0, {0}, {0} }
#define CAI_EXPORT_OPTIONS_INIT                                                                              \
    { sizeof(cai_export_options), 0 }

/*
 * What every cai_array starts from. stream is 0, which cai_array_validate refuses: a producer must say
 * CAI_STREAM_NONE or name the stream that its work is on.
 */
#define CAI_ARRAY_INIT                                                                                       \
    {                                                                                                        \
        sizeof(cai_array), 0, NULL, NULL, NULL, NULL, 0, CAI_INTERFACE_VERSION, 0, {0}, NULL, NULL, 0, 0,     \
            NULL, {0, 0}, NULL, 0                                                                            \
    }

/**
 * Major version of the binary interface. It is also the number in the shared library's SONAME
 * (`libcai.so.1`). Libraries of one major version load each other's arrays.
 */
#define CAI_ABI_MAJOR 1

/**
 * Minor version of the binary interface: grows with every added function, field or status.
 * A library of a higher minor version serves callers of every lower one.
 */
#define CAI_ABI_MINOR 0

/**
 * Bytes of `cai_error.field`, the terminating NUL included.
 */
#define CAI_ERROR_FIELD_SIZE 96

/**
 * Bytes of `cai_error.message`, the terminating NUL included.
 */
#define CAI_ERROR_MESSAGE_SIZE 408

/**
 * Bytes of a `typestr`, the terminating NUL included.
 */
#define CAI_TYPESTR_SIZE 16

/**
 * How many fields a `cai_descr` may have in all, the nested ones included.
 */
#define CAI_MAX_FIELDS 65536

/**
 * How deep fields may be nested: a `cai_descr` in a field in a `cai_descr` is two deep.
 */
#define CAI_MAX_DESCR_DEPTH 16

/**
 * Time units of `cai_dtype.unit`: 0 is generic, or not a time.
 */
#define CAI_UNIT_GENERIC 0

/**
 * Years.
 */
#define CAI_UNIT_YEAR 1

/**
 * Months.
 */
#define CAI_UNIT_MONTH 2

/**
 * Weeks.
 */
#define CAI_UNIT_WEEK 3

/**
 * Days.
 */
#define CAI_UNIT_DAY 4

/**
 * Hours.
 */
#define CAI_UNIT_HOUR 5

/**
 * Minutes.
 */
#define CAI_UNIT_MINUTE 6

/**
 * Seconds.
 */
#define CAI_UNIT_SECOND 7

/**
 * Milliseconds.
 */
#define CAI_UNIT_MILLISECOND 8

/**
 * Microseconds.
 */
#define CAI_UNIT_MICROSECOND 9

/**
 * Nanoseconds.
 */
#define CAI_UNIT_NANOSECOND 10

/**
 * Picoseconds.
 */
#define CAI_UNIT_PICOSECOND 11

/**
 * Femtoseconds.
 */
#define CAI_UNIT_FEMTOSECOND 12

/**
 * Attoseconds.
 */
#define CAI_UNIT_ATTOSECOND 13

/**
 * What `dtype_code` says about an opaque type: nothing, the typestr says it all. The other codes are
 * for types that NumPy's grammar cannot name and that travel as opaque bytes of the right size. The
 * numbers of floating types are those of DLPack's `DLDataTypeCode`.
 */
#define CAI_DTYPE_NONE 0

/**
 * bfloat16: two bytes, travels as `<V2`.
 */
#define CAI_DTYPE_BFLOAT16 4

/**
 * 8-bit float with 3 exponent and 4 mantissa bits: one byte, travels as `<V1`, as all the 8-bit
 * floats do (some producers write `<f1` for e5m2; that is taken too).
 */
#define CAI_DTYPE_FLOAT8_E3M4 7

/**
 * 8-bit float, IEEE-like, 4 exponent and 3 mantissa bits.
 */
#define CAI_DTYPE_FLOAT8_E4M3 8

/**
 * 8-bit float, 4 exponent and 3 mantissa bits, bias 11, finite, unsigned zero.
 */
#define CAI_DTYPE_FLOAT8_E4M3B11FNUZ 9

/**
 * 8-bit float, 4 exponent and 3 mantissa bits, finite.
 */
#define CAI_DTYPE_FLOAT8_E4M3FN 10

/**
 * 8-bit float, 4 exponent and 3 mantissa bits, finite, unsigned zero.
 */
#define CAI_DTYPE_FLOAT8_E4M3FNUZ 11

/**
 * 8-bit float, IEEE-like, 5 exponent and 2 mantissa bits.
 */
#define CAI_DTYPE_FLOAT8_E5M2 12

/**
 * 8-bit float, 5 exponent and 2 mantissa bits, finite, unsigned zero.
 */
#define CAI_DTYPE_FLOAT8_E5M2FNUZ 13

/**
 * 8-bit power of two, 8 exponent bits, no sign.
 */
#define CAI_DTYPE_FLOAT8_E8M0FNU 14

/**
 * 6-bit float, one in a byte, 2 exponent and 3 mantissa bits.
 */
#define CAI_DTYPE_FLOAT6_E2M3FN 15

/**
 * 6-bit float, one in a byte, 3 exponent and 2 mantissa bits.
 */
#define CAI_DTYPE_FLOAT6_E3M2FN 16

/**
 * 4-bit float, one in a byte, 2 exponent bits and 1 mantissa bit.
 */
#define CAI_DTYPE_FLOAT4_E2M1FN 17

/**
 * 4-bit signed integer, one in a byte.
 */
#define CAI_DTYPE_INT4 256

/**
 * 4-bit unsigned integer, one in a byte.
 */
#define CAI_DTYPE_UINT4 257

/**
 * 2-bit signed integer, one in a byte.
 */
#define CAI_DTYPE_INT2 258

/**
 * 2-bit unsigned integer, one in a byte.
 */
#define CAI_DTYPE_UINT2 259

/**
 * 4-bit floats as `CAI_DTYPE_FLOAT4_E2M1FN`, two in a byte: extents and strides count bytes.
 */
#define CAI_DTYPE_FLOAT4_E2M1FN_X2 260

/**
 * 1-bit signed integer (0 or -1), one in a byte.
 */
#define CAI_DTYPE_INT1 261

/**
 * 1-bit unsigned integer, one in a byte.
 */
#define CAI_DTYPE_UINT1 262

/**
 * The most dimensions an array may have.
 */
#define CAI_MAX_NDIM 64

/**
 * How many masks may hang on one another: an array's mask, that mask's mask, and so on.
 */
#define CAI_MAX_MASKS 8

/**
 * The highest version of the CUDA Array Interface that this header describes.
 */
#define CAI_INTERFACE_VERSION 3

/**
 * Bit of `cai_array.flags`: the data must not be written through this array.
 */
#define CAI_ARRAY_READONLY 1

/**
 * `cai_device.type`: not known; ask the CUDA driver about the address.
 */
#define CAI_DEVICE_UNKNOWN 0

/**
 * `cai_device.type`: host memory. This and the following numbers are DLPack's `DLDeviceType`; those
 * of DLPack that are not named here are valid too.
 */
#define CAI_DEVICE_CPU 1

/**
 * `cai_device.type`: memory of a CUDA device.
 */
#define CAI_DEVICE_CUDA 2

/**
 * `cai_device.type`: host memory that CUDA allocated or registered.
 */
#define CAI_DEVICE_CUDA_HOST 3

/**
 * `cai_device.type`: an OpenCL buffer; `data` is a `cl_mem`, not an address.
 */
#define CAI_DEVICE_OPENCL 4

/**
 * `cai_device.type`: CUDA managed memory.
 */
#define CAI_DEVICE_CUDA_MANAGED 13

/**
 * `cai_device.type`: oneAPI unified shared memory.
 */
#define CAI_DEVICE_ONEAPI 14

/**
 * Bit of the `checks` of `cai_array_validate`: the structure and all that it points to, by what it
 * says alone. Reads the structure, shape, strides, descr and masks; never the data; asks no driver.
 */
#define CAI_CHECK_LAYOUT 1

/**
 * Bit of the `checks` of `cai_array_validate`: `data` and every stride that is used are multiples of
 * the element's natural alignment. Reads what `CAI_CHECK_LAYOUT` reads.
 */
#define CAI_CHECK_ALIGNMENT 2

/**
 * Bit of the `checks` of `cai_array_validate`: asks the CUDA driver whether `data` is memory that it knows, of
 * the kind and on the device that `device` says, reachable from the current context if there is one, and
 * whether every byte that the array can touch lies in the allocation. Arrays without elements, in host memory
 * or behind handles pass.
 */
#define CAI_CHECK_DEVICE 4

/**
 * Bit of the `checks` of `cai_array_validate`: asks the CUDA driver whether `stream` is alive, is the one that
 * `stream_id` names and belongs to `context`. A handle that was destroyed and not given out again is the one
 * thing that cannot be asked about: it must not be passed.
 */
#define CAI_CHECK_STREAM 8

/**
 * Bytes of `cai_driver_info.path`, the terminating NUL included.
 */
#define CAI_DRIVER_PATH_SIZE 240

/**
 * Bit of the `flags` of `cai_array_consume_begin`, `cai_array_consume_end` and `cai_array_synchronize`: the consumer reads the data.
 */
#define CAI_ACCESS_READ 1

/**
 * Bit of the same: the consumer writes the data.
 */
#define CAI_ACCESS_WRITE 2

/**
 * Bit of the same, and of `cai_sync_policy_set`: the stream of the array is ignored, as if it were `CAI_STREAM_NONE`.
 * Whoever sets it answers for the absence of data races (CAI version 3, "Synchronization", "Design
 * Motivations", 3).
 */
#define CAI_SYNC_IGNORE 16

/**
 * Bit of the `flags` of `cai_array_produce`, and of `cai_sync_policy_set`: the producer always exports
 * `CAI_STREAM_NONE`. Whoever sets it answers for the absence of data races.
 */
#define CAI_SYNC_EXPORT_NONE 32

/**
 * Bit of the `flags` of `cai_array_consume_begin`, `cai_array_consume_end` and `cai_array_synchronize`, and of `cai_sync_policy_set`:
 * an array whose stream is `CAI_STREAM_UNKNOWN` is taken to have work pending on every stream of its context,
 * and its producer to go on on any of them. The whole context is made to wait. Not while a stream of that context is being captured:
 * that breaks the capture. Without it, nothing is done for such an array.
 */
#define CAI_SYNC_CONSERVATIVE 64

/**
 * Bit of the `flags` of the functions that take any `CAI_SYNC_` bit: in this call only the call's own bits
 * count, not what `cai_sync_policy_set` or the environment says.
 */
#define CAI_SYNC_THIS_CALL 128

/**
 * Bit of the `flags` of `cai_array_consume_begin`, `cai_array_consume_end` and `cai_array_produce`: where one of two streams is
 * being captured and the one that has to wait is not, the latter is drawn into the capture, to which it
 * belongs until `cuStreamEndCapture`.
 */
#define CAI_CAPTURE_JOIN 256

/**
 * Bit of the `flags` of `cai_array_consume_begin`, `cai_array_consume_end` and `cai_array_produce`: where the stream that has
 * to wait is being captured and the other is not, the graph gets a node that waits, at each launch, for the work
 * that was pending on the other stream when this function was called. Where the array has an `event`, readers'
 * graphs wait for that one: it must outlive them, so let the graph keep the owner, by `cai_owner_release_after`.
 */
#define CAI_CAPTURE_EXTERNAL 512

/**
 * A way in: the exchange table of this library, published on the object's type (`__cai_exchange_api__`).
 */
#define CAI_PROTOCOL_EXCHANGE 1

/**
 * A way in: DLPack's exchange table, published on the object's type (`__dlpack_c_exchange_api__`). It
 * names the producer's current stream, which becomes the array's.
 */
#define CAI_PROTOCOL_DLPACK_EXCHANGE 2

/**
 * A way in: the dictionary `__cuda_array_interface__`, versions 0 to 3.
 */
#define CAI_PROTOCOL_CUDA_ARRAY_INTERFACE 3

/**
 * A way in: the method `__dlpack__`. The producer is asked to order its work before `stream` of the options, or
 * before the legacy default stream where that is 0; that stream becomes the array's. After the last release, the tensor
 * goes once the work that was enqueued there is done.
 */
#define CAI_PROTOCOL_DLPACK 4

/**
 * A way in: the dictionary `__sycl_usm_array_interface__`, version 1. A SYCL queue becomes the array's
 * `stream`, a SYCL context its `context`.
 */
#define CAI_PROTOCOL_SYCL_USM 5

/**
 * A way in: an object with `buffer` (or `base_data`, as pyopencl's arrays call it), `offset`, `dtype`, `shape` and
 * `strides`: the OpenCL/CUDA buffer interface. The array is a `cl_mem` with a `byte_offset`, or CUDA memory.
 */
#define CAI_PROTOCOL_BUFFER 6

/**
 * A way in, for host memory: the capsule `__array_struct__` of NumPy. Tried by default only with
 * `CAI_IMPORT_ALLOW_HOST`.
 */
#define CAI_PROTOCOL_ARRAY_STRUCT 7

/**
 * A way in, for host memory: the dictionary `__array_interface__` of NumPy, version 3. Tried by default only
 * with `CAI_IMPORT_ALLOW_HOST`.
 */
#define CAI_PROTOCOL_ARRAY_INTERFACE 8

/**
 * Bit of `cai_import_options.flags`: takes only what the specification allows to the letter. Without it, what
 * real producers write is taken where it can mean one thing only: any mapping, lists for tuples, no `version`, a
 * `typestr` without byte order.
 */
#define CAI_IMPORT_STRICT 1

/**
 * Bit of `cai_import_options.flags`: also takes a `stream` of 0, which the specification forbids, as the legacy
 * default stream.
 */
#define CAI_IMPORT_ALLOW_STREAM_ZERO 2

/**
 * Bit of `cai_import_options.flags`: refuses read-only arrays.
 */
#define CAI_IMPORT_REQUIRE_WRITABLE 4

/**
 * Bit of `cai_import_options.flags`: refuses what is not C-contiguous. Together with
 * `CAI_IMPORT_REQUIRE_F_CONTIGUOUS`, either will do.
 */
#define CAI_IMPORT_REQUIRE_C_CONTIGUOUS 8

/**
 * Bit of `cai_import_options.flags`: refuses what is not Fortran-contiguous.
 */
#define CAI_IMPORT_REQUIRE_F_CONTIGUOUS 16

/**
 * Bit of `cai_import_options.flags`: refuses elements that are not in the machine's byte order.
 */
#define CAI_IMPORT_REQUIRE_NATIVE 32

/**
 * Bit of `cai_import_options.flags`: refuses arrays that have not `ndim` of the options for a number of dimensions.
 */
#define CAI_IMPORT_REQUIRE_NDIM 64

/**
 * Bit of `cai_import_options.flags`: refuses arrays with a mask. Without it, whoever imports must look at `mask`.
 */
#define CAI_IMPORT_NO_MASK 128

/**
 * Bit of `cai_import_options.flags`: also takes arrays in host memory (`CAI_DEVICE_CPU`), and tries NumPy's two
 * protocols at the end of the default order. Without it they are refused.
 */
#define CAI_IMPORT_ALLOW_HOST 256

/**
 * Bit of `cai_import_options.flags`: asks the CUDA driver for the device and the context of the data where the
 * protocol does not say.
 */
#define CAI_IMPORT_QUERY_DEVICE 512

/**
 * Bit of `cai_import_options.flags`: sets no Python exception for a refusal of this library's; `cai_error` says it
 * all. Exceptions of the producer's are passed on as ever.
 */
#define CAI_IMPORT_NO_EXCEPTION 1024

/**
 * Bit of `cai_export_options.flags`: the dictionary says version 2, which has no stream.
 * Whoever sets it has made sure that no work on the data is pending (`cai_array_synchronize`).
 */
#define CAI_EXPORT_VERSION_2 1

/**
 * Bit of `cai_export_options.flags`: `strides` is always a tuple, for consumers that know no None.
 */
#define CAI_EXPORT_STRIDES 2

/**
 * Bit of `cai_export_options.flags`: calls a read-only array writable, for consumers that refuse the truth
 * (PyTorch does). Whoever sets it answers for nobody writing.
 */
#define CAI_EXPORT_HIDE_READONLY 4

/**
 * What a function answers: `CAI_OK` or one of the `CAI_ERR_` numbers. A caller must expect numbers
 * that its header does not know yet: every non-zero value is a failure.
 */
typedef int32_t cai_status;

/**
 * What went wrong, in the caller's memory.
 *
 * Every function that can fail takes a `cai_error *` as its last argument, and takes NULL there
 * from whoever needs the status only. It is written when the function fails, all of it, and not
 * touched when the function succeeds; it needs no initialization and no release. There is no last
 * error anywhere, global or per thread.
 *
 * Its layout never changes.
 */
typedef struct cai_error {
    /**
     * The status that the function returned.
     */
    cai_status code;
    /**
     * The CUDA driver's own `CUresult` where the driver refused, else 0.
     */
    int32_t driver_code;
    /**
     * What was wrong: the path of a field (`mask.shape[2]`, `descr[1].typestr`) or the name of a
     * parameter. NUL-terminated; a path that is too long ends in "...".
     */
    char field[CAI_ERROR_FIELD_SIZE];
    /**
     * A line with the field, the value that was found and the value that was expected:
     * `ndim: found -1, expected 0 to 64`. NUL-terminated UTF-8.
     */
    char message[CAI_ERROR_MESSAGE_SIZE];
} cai_error;

/**
 * A typestr, taken apart. Its layout never changes.
 *
 * The grammar is that of `typestr` in NumPy's array interface protocol: byte order, kind, size in
 * bytes (characters for `U`, bits for `t`), and for `m` and `M` the unit in brackets.
 */
typedef struct cai_dtype {
    /**
     * One of `t b i u f c m M O S U V`: bit field, boolean, signed integer, unsigned integer, float,
     * complex, time difference, point in time, Python object, bytes, UCS-4 text, opaque bytes.
     */
    char kind;
    /**
     * `<` little-endian, `>` big-endian, `|` not relevant. As written: `<V2` and `|V2` differ here,
     * and `|i8`, which some producers write, means the machine's own order.
     */
    char byte_order;
    /**
     * What an opaque type means (`CAI_DTYPE_BFLOAT16`, ...), or `CAI_DTYPE_NONE`.
     */
    uint16_t code;
    /**
     * Time unit of the kinds `m` and `M` (`CAI_UNIT_SECOND`, ...), else `CAI_UNIT_GENERIC`.
     */
    int32_t unit;
    /**
     * How many units a step of the kinds `m` and `M` has (25 in `<M8[25us]`), else 1.
     */
    int64_t unit_count;
    /**
     * Bytes of one element; 0 for bit fields that are no whole number of bytes.
     */
    int64_t itemsize;
    /**
     * Bits of one element.
     */
    int64_t bits;
} cai_dtype;

/**
 * An owner's operations: a constant table in the library that made the owner.
 *
 * The functions are called from any thread, at any time, with or without an interpreter's lock,
 * several at once. They must not throw. A table may be longer than this header says: use only what
 * `struct_size` covers.
 */
typedef struct cai_owner_ops {
    /**
     * `sizeof(cai_owner_ops)` as the maker of the owner compiled it.
     */
    uint32_t struct_size;
    /**
     * Zero.
     */
    uint32_t reserved;
    /**
     * Adds one reference.
     */
    void (*retain)(struct cai_owner *owner);
    /**
     * Takes one reference away; the last one destroys the owner. Must not block on other threads'
     * work and must not make CUDA calls that could synchronize.
     */
    void (*release)(struct cai_owner *owner);
} cai_owner_ops;

/**
 * What keeps an array alive: a counted handle that carries its own operations, so that an array
 * made by one library, or by one of several copies of this library, is released through any other.
 *
 * Whoever makes an owner puts this structure first in an object of its own; the rest of the object
 * is nobody else's business. `cai_owner_create` makes one for those who have no counted object.
 *
 * An owner keeps alive all that is reachable from the `cai_array` that names it: the data, the
 * shape, strides, descr and mask, and the exported stream, which must live at least as long as the
 * exported array (CAI version 3, "Lifetime management", "Streams").
 *
 * Thread safety: retain and release may be called from any thread at any time.
 */
typedef struct cai_owner {
    /**
     * The owner's operations. Must stay valid, and the code behind it loaded, until the last release
     * has returned.
     */
    const struct cai_owner_ops *ops;
} cai_owner;

/**
 * One row of a `cai_descr`.
 */
typedef struct cai_field {
    /**
     * The field's name, NUL-terminated UTF-8. Empty for padding and for the one row of a plain type.
     */
    const char *name;
    /**
     * The field's title (the first of the two names in NumPy's `(title, name)`), or NULL.
     */
    const char *title;
    /**
     * The type of the field, or of one element of its sub-array; empty when `nested` is set.
     */
    char typestr[CAI_TYPESTR_SIZE];
    /**
     * NULL, or the fields that this field is made of.
     */
    const struct cai_descr *nested;
    /**
     * `ndim` extents of a sub-array, in C order without gaps; may be NULL when `ndim` is 0.
     */
    const int64_t *shape;
    /**
     * Number of dimensions of the sub-array; 0 for a single element.
     */
    int32_t ndim;
    /**
     * What an opaque type means, as in `cai_array`.
     */
    uint16_t dtype_code;
    /**
     * Zero.
     */
    uint16_t reserved;
} cai_field;

/**
 * The fields of a structured type: NumPy's `descr`, counted. Names, sub-array shapes and padding
 * rows are kept as the producer wrote them.
 *
 * The array's owner keeps it alive. Thread safety: constant.
 */
typedef struct cai_descr {
    /**
     * `sizeof(cai_descr)` as the filler compiled it.
     */
    uint32_t struct_size;
    /**
     * `sizeof(cai_field)` as the filler compiled it: the step from one row to the next.
     */
    uint32_t field_size;
    /**
     * Number of rows.
     */
    uint64_t count;
    /**
     * The rows, in the order of memory. May be NULL when `count` is 0.
     */
    const struct cai_field *fields;
} cai_descr;

/**
 * A CUDA stream as the CUDA Array Interface writes it: `CAI_STREAM_LEGACY`, `CAI_STREAM_PER_THREAD`,
 * `CAI_STREAM_NONE`, `CAI_STREAM_UNKNOWN`, or a `CUstream` (`cudaStream_t`) as an integer. 0 is
 * refused, so that a zeroed structure never passes for "no synchronization needed".
 */
typedef uint64_t cai_stream;

/**
 * Where data lives.
 */
typedef struct cai_device {
    /**
     * `CAI_DEVICE_CUDA`, ..., or `CAI_DEVICE_UNKNOWN`.
     */
    int32_t type;
    /**
     * The device's ordinal; not looked at when the type is not known.
     */
    int32_t id;
} cai_device;

/**
 * A GPU array: all that `__cuda_array_interface__` versions 0 to 3 say, and what its relatives for
 * other devices need, in 128 bytes. Plain data: whoever has this header reads an array, keeps it
 * alive and lets it go without linking anything.
 *
 * Start from `CAI_ARRAY_INIT`, which fills `struct_size` and `version` and leaves `stream` 0: a
 * producer must say which stream its work is on, or `CAI_STREAM_NONE`. To start over, assign
 * `(cai_array)CAI_ARRAY_INIT` (in C++ `cai_array(CAI_ARRAY_INIT)`); other languages set the two fields.
 *
 * Ownership: copying the structure copies no reference. `cai_array_retain` and `cai_array_release`
 * act on `owner`, which keeps alive all that is reachable from the structure, the mask included.
 * What `shape`, `strides`, `descr` and `mask` point to is constant while any reference is held.
 *
 * Growth: later versions of this header may append fields. A reader uses only what `struct_size`
 * covers and takes the rest for zero; a field that may not be ignored is announced by a flag. The
 * first 16 bytes never change.
 *
 * Thread safety: plain data; several threads may read one structure at once.
 */
typedef struct cai_array {
    /**
     * `sizeof(cai_array)` as the filler compiled it.
     */
    uint32_t struct_size;
    /**
     * `CAI_ARRAY_READONLY` or 0. An unknown bit is an error.
     */
    uint32_t flags;
    /**
     * Keeps everything reachable from this structure alive. NULL: borrowed, valid only during the call
     * that it was passed to.
     */
    struct cai_owner *owner;
    /**
     * Device address of the element with index zero, or an opaque handle (`cl_mem`). NULL exactly when
     * the array has no elements. With negative strides it is not the lowest address.
     */
    void *data;
    /**
     * `ndim` extents, each at least 0. May be NULL when `ndim` is 0.
     */
    const int64_t *shape;
    /**
     * `ndim` steps in bytes, which may be 0 or negative. NULL: C-contiguous.
     */
    const int64_t *strides;
    /**
     * Number of dimensions, 0 to `CAI_MAX_NDIM`.
     */
    int32_t ndim;
    /**
     * Version of the CUDA Array Interface that the contents follow, 0 to 3.
     */
    uint16_t version;
    /**
     * 0: the type is what `typestr` says. Else what an opaque type means: `CAI_DTYPE_BFLOAT16`, ...
     */
    uint16_t dtype_code;
    /**
     * The element's type in the grammar of NumPy's array interface, NUL-terminated: `<f4`.
     */
    char typestr[CAI_TYPESTR_SIZE];
    /**
     * NULL, or the fields of a structured type. Its size must be the one that `typestr` says.
     */
    const struct cai_descr *descr;
    /**
     * NULL, or an array that says which elements are valid: a true element marks a valid one. Where the mask
     * has a mask of its own that calls its element invalid, the array's element is not valid either. Its
     * own `owner` may be NULL: this array's owner covers it.
     */
    const struct cai_array *mask;
    /**
     * The stream on which the producer may have work on the data pending.
     */
    cai_stream stream;
    /**
     * What `cuStreamGetId` says of that stream, 0 when not known: tells a destroyed stream from a new
     * one with the same handle.
     */
    uint64_t stream_id;
    /**
     * NULL, or a `CUevent` recorded on `stream` after the last work that writes the data. It lets several
     * consumers read at once: each waits for the event alone, not for what the others do. It belongs to the
     * context of `stream`, and the owner keeps it alive. Whoever writes the data records it again, as
     * `cai_array_produce` and `cai_array_consume_end` do.
     */
    void *event;
    /**
     * Where the data lives.
     */
    struct cai_device device;
    /**
     * The `CUcontext` of `stream` (where that names none, of the data), a `cl_context` or a SYCL context;
     * NULL: not known. Streams 1 and 2 mean something only together with it.
     */
    void *context;
    /**
     * Only for opaque handles: bytes from the start of the buffer to the element with index zero. Else 0.
     */
    uint64_t byte_offset;
} cai_array;

/**
 * The CUDA driver that the library found. Its layout never changes.
 */
typedef struct cai_driver_info {
    /**
     * What `cuDriverGetVersion` says: 1000 times the major plus 10 times the minor version of CUDA.
     */
    int32_t version;
    /**
     * Number of devices.
     */
    int32_t devices;
    /**
     * Whether it is the simulated driver of this project.
     */
    bool simulated;
    /**
     * Zero.
     */
    uint8_t reserved[7];
    /**
     * The file, NUL-terminated; empty where the system does not say.
     */
    char path[CAI_DRIVER_PATH_SIZE];
} cai_driver_info;

/**
 * What the CUDA driver knows about an address: what "Pointer Attributes" of the specification names, and what
 * goes with it. Its layout never changes.
 *
 * Memory of another kind than the driver's own (`malloc`, the stack) is a host address: its device is
 * `CAI_DEVICE_CPU` and its allocation is not known.
 */
typedef struct cai_pointer_info {
    /**
     * The kind of memory: `CAI_DEVICE_CUDA`, `CAI_DEVICE_CUDA_HOST` (page-locked or registered),
     * `CAI_DEVICE_CUDA_MANAGED` or `CAI_DEVICE_CPU`; and the ordinal of the device that it was allocated for.
     */
    struct cai_device device;
    /**
     * The `CUcontext` that owns it. NULL where none does: memory from pools and from the virtual memory
     * functions belongs to a device.
     */
    void *context;
    /**
     * The address for kernels of the current context; NULL where they have none. It differs from the host's
     * only for some registered memory.
     */
    void *device_pointer;
    /**
     * The address for the host; NULL where the host cannot reach it.
     */
    void *host_pointer;
    /**
     * Where the allocation begins; NULL where that is not known.
     */
    void *base;
    /**
     * Bytes of the allocation; 0 where that is not known.
     */
    uint64_t size;
    /**
     * A number that no other allocation of this process ever has; 0 where there is none. It tells an allocation from a later one at the
     * same address.
     */
    uint64_t buffer_id;
    /**
     * The `CUmemoryPool` that it came from, or NULL.
     */
    void *pool;
    /**
     * Whether the host can reach it.
     */
    bool host_accessible;
    /**
     * Whether it is managed memory, which migrates.
     */
    bool managed;
    /**
     * Whether the address is backed by memory (reserved addresses without any are not).
     */
    bool mapped;
    /**
     * Zero.
     */
    uint8_t reserved[5];
} cai_pointer_info;

/**
 * What `cai_array_from_python` shall take. Start from `CAI_IMPORT_OPTIONS_INIT`, which demands nothing; NULL
 * instead of it means the same.
 */
typedef struct cai_import_options {
    /**
     * `sizeof(cai_import_options)` as the caller compiled it.
     */
    uint32_t struct_size;
    /**
     * `CAI_IMPORT_` bits.
     */
    uint32_t flags;
    /**
     * The ways in that are tried, `CAI_PROTOCOL_` numbers, in this order up to the first 0. All 0: the
     * default order, which is that of their numbers (but `CAI_PROTOCOL_SYCL_USM` before `CAI_PROTOCOL_DLPACK` for oneAPI).
     */
    uint8_t protocols[8];
    /**
     * The stream that the caller is going to work on, or 0: not known. Needed by `CAI_PROTOCOL_DLPACK` only.
     * `CAI_STREAM_NONE`: the producer shall order nothing; the array's stream is then `CAI_STREAM_UNKNOWN`.
     */
    cai_stream stream;
    /**
     * The number of dimensions that `CAI_IMPORT_REQUIRE_NDIM` demands.
     */
    int32_t ndim;
    /**
     * The `dtype_code` that is demanded beside `typestr`.
     */
    uint16_t dtype_code;
    /**
     * What an opaque type of one byte means, a `CAI_DTYPE_` code (`CAI_DTYPE_FLOAT8_E4M3FN`): it becomes the
     * array's `dtype_code`. 0: not known.
     */
    uint16_t opaque_8bit;
    /**
     * What an opaque type of two bytes means: `CAI_DTYPE_BFLOAT16` or 0.
     */
    uint16_t opaque_16bit;
    /**
     * Zero.
     */
    uint16_t reserved[3];
    /**
     * The type that is demanded, as in `cai_array`; empty: any type.
     */
    char typestr[CAI_TYPESTR_SIZE];
} cai_import_options;

/**
 * How `cai_array_to_python` presents an array. Start from `CAI_EXPORT_OPTIONS_INIT`; NULL instead of it means
 * the same.
 */
typedef struct cai_export_options {
    /**
     * `sizeof(cai_export_options)` as the caller compiled it.
     */
    uint32_t struct_size;
    /**
     * `CAI_EXPORT_` bits.
     */
    uint32_t flags;
} cai_export_options;

/**
 * A table of functions that a type of a host language publishes, so that compiled code passes its objects on
 * without going through the language. In Python: a capsule with the name `cai_exchange_api` in the attribute
 * `__cai_exchange_api__` of the type (`cai_python_publish`).
 *
 * The table is constant and lives as long as the process. The functions are called with the interpreter's lock
 * held. They may set a Python exception where they fail, which is then passed on.
 */
typedef struct cai_exchange_api {
    /**
     * `sizeof(cai_exchange_api)` as the publisher compiled it.
     */
    uint32_t struct_size;
    /**
     * `CAI_ABI_MAJOR` as the publisher compiled it. A table of another number is not used.
     */
    int32_t abi_major;
    /**
     * Describes an object of the type, or of a type derived from it, in `out`, which comes initialized
     * (`CAI_ARRAY_INIT`) and gets a reference of its own. Orders nothing: `out` names the stream.
     */
    cai_status (*from_object)(void *object,
                              struct cai_array *out,
                              struct cai_error *error);
    /**
     * NULL, or makes a new object of the type that holds a reference of its own to the array.
     */
    cai_status (*to_object)(const struct cai_array *array,
                            void **out,
                            struct cai_error *error);
} cai_exchange_api;

/**
 * Success.
 */
#define CAI_OK 0

/**
 * A required pointer argument is NULL.
 *
 * The caller's mistake; `field` names the parameter.
 */
#define CAI_ERR_NULL_ARGUMENT 101

/**
 * An argument has a value that the function does not take.
 */
#define CAI_ERR_ARGUMENT 102

/**
 * The caller's buffer is too small for the answer.
 */
#define CAI_ERR_BUFFER_SIZE 103

/**
 * `checks` has a bit that this library does not know.
 *
 * A caller compiled against a newer header asks for a check that this library cannot make.
 */
#define CAI_ERR_CHECKS 104

/**
 * What was given is sound, but whoever it was given to does not support it.
 *
 * The library never says this of an array. It is for consumers, to refuse a type, a device or a mask that they
 * cannot handle, and for `cai.hpp`.
 */
#define CAI_ERR_UNSUPPORTED 105

/**
 * `struct_size` is not the size of any version of the structure.
 *
 * Most often the structure was never initialized: start from `CAI_ARRAY_INIT`.
 */
#define CAI_ERR_STRUCT_SIZE 201

/**
 * `flags` has a bit that this library does not know.
 *
 * Fields that may not be ignored are announced by a flag, so an unknown one cannot be skipped.
 */
#define CAI_ERR_FLAGS 202

/**
 * `version` is not a version of the CUDA Array Interface (0 to 3).
 */
#define CAI_ERR_VERSION 203

/**
 * `ndim` is negative or above `CAI_MAX_NDIM`.
 */
#define CAI_ERR_NDIM 204

/**
 * `shape` is NULL although the array has dimensions.
 */
#define CAI_ERR_SHAPE_NULL 205

/**
 * An extent in `shape` is negative.
 */
#define CAI_ERR_SHAPE_NEGATIVE 206

/**
 * The number of elements, or of their bytes, is above 2^63 - 1.
 */
#define CAI_ERR_SIZE_OVERFLOW 207

/**
 * The bytes that the strides reach from `data` do not fit in 63 bits on one side.
 */
#define CAI_ERR_SPAN_OVERFLOW 208

/**
 * The bytes that the array reaches run out of the address space, or begin before the buffer.
 */
#define CAI_ERR_ADDRESS_RANGE 209

/**
 * `data` is NULL although the array has elements.
 */
#define CAI_ERR_DATA_NULL 210

/**
 * `data` is not NULL although the array has no elements.
 */
#define CAI_ERR_DATA_NOT_NULL 211

/**
 * `strides` are given for packed bit fields, whose steps are no whole number of bytes.
 */
#define CAI_ERR_BIT_STRIDES 212

/**
 * The elements have no bytes.
 */
#define CAI_ERR_ITEMSIZE 213

/**
 * `data` or a stride is not a multiple of the element's natural alignment.
 *
 * Reported only where `CAI_CHECK_ALIGNMENT` asks for it.
 */
#define CAI_ERR_ALIGNMENT 214

/**
 * The array or a copy of it is needed beyond this call, but it has no owner.
 */
#define CAI_ERR_BORROWED 215

/**
 * The owner's table of operations is missing, too short or incomplete.
 */
#define CAI_ERR_OWNER_OPS 216

/**
 * `stream` is 0, which could mean either default stream or none.
 *
 * Say `CAI_STREAM_NONE` when no work is pending on the data, 1 for the legacy and 2 for the
 * per-thread default stream, or a `CUstream`.
 */
#define CAI_ERR_STREAM_ZERO 220

/**
 * A stream is given, but versions below 3 have none.
 */
#define CAI_ERR_STREAM_VERSION 221

/**
 * `stream_id` is given without a stream that it could identify.
 */
#define CAI_ERR_STREAM_ID 222

/**
 * `event` is given although `stream` says that nothing is pending.
 */
#define CAI_ERR_EVENT 223

/**
 * `device.type` is not a device type of DLPack.
 */
#define CAI_ERR_DEVICE_TYPE 224

/**
 * `device.id` is negative.
 */
#define CAI_ERR_DEVICE_ID 225

/**
 * `byte_offset` is given, but `data` is an address.
 *
 * An offset belongs to opaque handles only; an address already points to the element with index zero.
 */
#define CAI_ERR_BYTE_OFFSET 226

/**
 * The array is to be written, but it is read-only.
 */
#define CAI_ERR_READONLY 227

/**
 * A mask is given, but version 0 has none.
 */
#define CAI_ERR_MASK_VERSION 230

/**
 * The mask's type cannot say true or not true: it is neither a boolean, an integer nor a bit field.
 */
#define CAI_ERR_MASK_TYPE 231

/**
 * The mask's shape does not broadcast to the array's.
 */
#define CAI_ERR_MASK_SHAPE 232

/**
 * The chain of masks comes back to itself.
 */
#define CAI_ERR_MASK_CYCLE 233

/**
 * The chain of masks is longer than `CAI_MAX_MASKS`.
 */
#define CAI_ERR_MASK_DEPTH 234

/**
 * `typestr` is empty, or not terminated within its 16 bytes.
 */
#define CAI_ERR_TYPESTR_LENGTH 240

/**
 * `typestr` does not begin with a byte order: one of `<`, `>`, `|`.
 */
#define CAI_ERR_TYPESTR_ORDER 241

/**
 * `typestr` has an unknown kind: not one of `t b i u f c m M O S U V`.
 */
#define CAI_ERR_TYPESTR_KIND 242

/**
 * `typestr` has a size that is malformed or that its kind does not come in.
 */
#define CAI_ERR_TYPESTR_SIZE 243

/**
 * `typestr` has a malformed time unit, or one on a kind without units.
 */
#define CAI_ERR_TYPESTR_UNIT 244

/**
 * `dtype_code` is unknown or contradicts `typestr`.
 */
#define CAI_ERR_DTYPE_CODE 245

/**
 * A `cai_descr` has sizes that are not of any version of the structures, or no rows where it counts some.
 */
#define CAI_ERR_DESCR_STRUCT 250

/**
 * A field's name is missing, not UTF-8, or used twice.
 */
#define CAI_ERR_DESCR_NAME 251

/**
 * A field has neither a type nor nested fields, or both.
 */
#define CAI_ERR_DESCR_FIELD 252

/**
 * A field's sub-array shape is malformed.
 */
#define CAI_ERR_DESCR_SHAPE 253

/**
 * The fields together do not have the size that `typestr` says.
 */
#define CAI_ERR_DESCR_SIZE 254

/**
 * Fields are nested deeper than `CAI_MAX_DESCR_DEPTH`.
 */
#define CAI_ERR_DESCR_DEPTH 255

/**
 * There are more than `CAI_MAX_FIELDS` fields, nested ones included.
 */
#define CAI_ERR_DESCR_COUNT 256

/**
 * The text is not a list of fields as NumPy writes them.
 */
#define CAI_ERR_DESCR_SYNTAX 257

/**
 * No field has that name.
 */
#define CAI_ERR_DESCR_NO_FIELD 258

/**
 * The field begins inside a byte, behind bit fields that fill no whole bytes.
 */
#define CAI_ERR_DESCR_BIT_OFFSET 259

/**
 * No CUDA driver was found, or what was found drives no device.
 *
 * `libcuda.so.1` (or what `CAI_CUDA_DRIVER` names) is missing, is a stub to link against, or found no device.
 */
#define CAI_ERR_NO_DRIVER 301

/**
 * The CUDA driver is too old: it lacks a function.
 */
#define CAI_ERR_DRIVER_FUNCTION 302

/**
 * The process was forked after the CUDA driver had been started.
 *
 * CUDA does not work in such a child: start processes anew (`spawn`, `exec`) or fork before the first CUDA call.
 */
#define CAI_ERR_FORKED 303

/**
 * The CUDA driver is shutting down, because the process exits.
 */
#define CAI_ERR_DRIVER_EXIT 304

/**
 * The CUDA driver refused a call for a reason that has no status of its own; see `driver_code`.
 */
#define CAI_ERR_DRIVER 305

/**
 * The device, or the context, is lost: work on it failed, and nothing more will run there.
 *
 * Most often an earlier kernel failed. The process has to be ended, or the context destroyed.
 */
#define CAI_ERR_DEVICE_LOST 306

/**
 * A default stream is named, but the calling thread has no current context to give it a meaning.
 */
#define CAI_ERR_NO_CONTEXT 307

/**
 * The context was destroyed.
 */
#define CAI_ERR_CONTEXT_DESTROYED 308

/**
 * The driver says that a stream, or the event beside it, is not valid.
 */
#define CAI_ERR_STREAM_HANDLE 310

/**
 * The stream was destroyed and its handle given to a new one: `stream_id` is another.
 *
 * A producer must keep the exported stream alive for as long as the exported array.
 */
#define CAI_ERR_STREAM_STALE 311

/**
 * The per-thread default stream of another thread is named, which cannot be reached from this one.
 */
#define CAI_ERR_STREAM_THREAD 312

/**
 * The stream's green context was destroyed.
 */
#define CAI_ERR_STREAM_DETACHED 313

/**
 * The array is on a device whose streams are not CUDA's.
 */
#define CAI_ERR_STREAM_DEVICE 314

/**
 * The stream belongs to another context than `context`.
 */
#define CAI_ERR_STREAM_CONTEXT 315

/**
 * `data` is no memory that the CUDA driver knows.
 */
#define CAI_ERR_NOT_DEVICE_POINTER 320

/**
 * The memory is on another device, or of another kind, than `device` says.
 */
#define CAI_ERR_DEVICE_MISMATCH 321

/**
 * The array reaches bytes outside of the allocation that `data` is in.
 */
#define CAI_ERR_OUT_OF_ALLOCATION 322

/**
 * The memory cannot be reached from the current context.
 */
#define CAI_ERR_NOT_ACCESSIBLE 323

/**
 * The producer's stream is being captured, and the consumer's is not.
 *
 * Ordering them would draw the consumer's stream into the capture. `CAI_CAPTURE_JOIN` allows that.
 */
#define CAI_ERR_CAPTURE_PRODUCER 401

/**
 * The consumer's stream is being captured, and the producer's is not.
 *
 * Call begin and end around the launch of the graph, on the stream of the launch. See `CAI_CAPTURE_EXTERNAL`.
 */
#define CAI_ERR_CAPTURE_CONSUMER 402

/**
 * Both streams are being captured, into two graphs.
 */
#define CAI_ERR_CAPTURE_MERGE 403

/**
 * A stream's capture was broken by an earlier call and has to be ended.
 */
#define CAI_ERR_CAPTURE_INVALIDATED 404

/**
 * The legacy default stream is named while another stream of its context, which it would wait for, is being captured.
 */
#define CAI_ERR_CAPTURE_LEGACY 405

/**
 * The host cannot wait for work that is only being captured.
 */
#define CAI_ERR_CAPTURE_HOST 406

/**
 * Of the producer's streams some are being captured and some are not.
 */
#define CAI_ERR_CAPTURE_STREAMS 407

/**
 * The driver refused a call because of a stream capture.
 */
#define CAI_ERR_CAPTURE 408

/**
 * No CPython is running in this process.
 *
 * Its functions are looked for among what the process has loaded. A function that needs them says this where there
 * is no Python, or none that was started.
 */
#define CAI_ERR_NO_PYTHON 501

/**
 * The CPython in this process is too old, or lacks a function.
 *
 * Python 3.9 is the oldest that is supported.
 */
#define CAI_ERR_PYTHON_VERSION 502

/**
 * The calling thread does not hold the interpreter's lock.
 *
 * From Python by `ctypes`, use `PyDLL`: `CDLL` gives the lock up.
 */
#define CAI_ERR_PYTHON_LOCK 503

/**
 * A Python function raised an exception, which is set and passed on untouched.
 */
#define CAI_ERR_PYTHON_EXCEPTION 504

/**
 * The object offers none of the protocols that were asked for.
 *
 * Python: TypeError.
 */
#define CAI_ERR_NO_PROTOCOL 505

/**
 * A required key is missing.
 *
 * Python: KeyError.
 */
#define CAI_ERR_KEY 506

/**
 * A value has the wrong type.
 *
 * Python: TypeError.
 */
#define CAI_ERR_TYPE 507

/**
 * A value is out of range or malformed.
 *
 * Python: ValueError.
 */
#define CAI_ERR_VALUE 508

/**
 * An exchange table, published on a type, is malformed or of another version.
 */
#define CAI_ERR_EXCHANGE_TABLE 509

/**
 * Memory for the library's own bookkeeping could not be had.
 */
#define CAI_ERR_NO_MEMORY 601

/**
 * The thread that lets owners go could not be started.
 */
#define CAI_ERR_THREAD 602

/**
 * `CAI_SYNC` in the environment has a word that this library does not know.
 */
#define CAI_ERR_ENVIRONMENT 603

/**
 * The array is in host memory, which was not asked for.
 */
#define CAI_ERR_HOST_MEMORY 701

/**
 * The array has a mask, which the receiver cannot express or does not take.
 */
#define CAI_ERR_CONVERT_MASK 702

/**
 * The array's type is not the one that is demanded, or has no counterpart in the other protocol.
 */
#define CAI_ERR_CONVERT_TYPE 703

/**
 * The elements are not in the machine's byte order.
 */
#define CAI_ERR_CONVERT_BYTE_ORDER 704

/**
 * A stride is not a whole number of elements, which is what the other protocol counts in.
 */
#define CAI_ERR_CONVERT_STRIDES 705

/**
 * The array is not contiguous in the order that is demanded.
 */
#define CAI_ERR_CONVERT_CONTIGUOUS 706

/**
 * The number of dimensions is not the one that is demanded.
 */
#define CAI_ERR_CONVERT_NDIM 707

/**
 * The array is read-only, which the other protocol cannot say.
 */
#define CAI_ERR_CONVERT_READONLY 708

/**
 * The array is on a device, or in a context, that the other protocol cannot name.
 */
#define CAI_ERR_CONVERT_DEVICE 709

/**
 * The structure follows a version of DLPack that this library does not know.
 *
 * Another major number: nothing of it but the deleter may be used.
 */
#define CAI_ERR_DLPACK_VERSION 710

/**
 * The library contradicted itself: please report it.
 */
#define CAI_ERR_INTERNAL 901

/**
 * The legacy default stream of `context`.
 */
#define CAI_STREAM_LEGACY 1

/**
 * The calling thread's per-thread default stream of `context`.
 */
#define CAI_STREAM_PER_THREAD 2

/**
 * No synchronization is needed: no work on the data is pending. What `None`, or no `stream` entry,
 * says in version 3.
 */
#define CAI_STREAM_NONE UINT64_MAX

/**
 * The producer could not say whether work is pending: its protocol has no streams (CAI before
 * version 3).
 */
#define CAI_STREAM_UNKNOWN (UINT64_MAX - 1)



#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The major version of the binary interface that the loaded library has. Compare it with
 * `CAI_ABI_MAJOR`, which is what your program was compiled against: they must be equal.
 *
 * Cannot fail. Thread safety: any thread, any time.
 */
CAI_API
int32_t cai_abi_major(void);

/**
 * The minor version of the binary interface that the loaded library has. It serves callers that were
 * compiled against the same or a lower `CAI_ABI_MINOR`.
 *
 * Cannot fail. Thread safety: any thread, any time.
 */
CAI_API
int32_t cai_abi_minor(void);

/**
 * The version of the loaded library as text: `"0.9.0"`. A constant; do not free it.
 *
 * Cannot fail. Thread safety: any thread, any time.
 */
CAI_API
const char *cai_version(void);

/**
 * The name of a status: `"CAI_ERR_NDIM"`; of a number that this library does not know,
 * `"CAI_ERR_UNKNOWN"`. Never NULL. A constant; do not free it.
 *
 * Cannot fail. Thread safety: any thread, any time.
 */
CAI_API
const char *cai_status_name(cai_status status);

/**
 * What a status means, in one sentence, for every error of this status. What was wrong in one case says
 * `cai_error.message`. Never NULL. A constant; do not free it.
 *
 * Cannot fail. Thread safety: any thread, any time.
 */
CAI_API
const char *cai_status_message(cai_status status);

/**
 * Fills an error of your own, for functions that report as this library does: plug-ins, consumers, wrappers.
 * Returns `code`, so that it can be returned on: `return cai_error_set(error, CAI_ERR_UNSUPPORTED, ...)`.
 *
 * `error`: may be NULL; then nothing happens. `driver_code` becomes 0.
 * `field`: NUL-terminated UTF-8; may be NULL. `message`: what comes after the field, the same.
 *
 * Cannot fail; what is too long is cut. Thread safety: any thread; allocates nothing.
 */
CAI_API
cai_status cai_error_set(struct cai_error *error,
                         cai_status code,
                         const char *field,
                         const char *message);

/**
 * Takes a typestr apart.
 *
 * The grammar is that of NumPy's array interface: byte order (`<`, `>` or `|`), kind (one of
 * `t b i u f c m M O S U V`), size in bytes (characters for `U`, bits for `t`), for `m` and `M` a unit:
 * `<f4`, `|b1`, `<U16`, `|V12`, `<M8[25us]`. `|O` needs no size. Beyond NumPy's own types it takes those
 * that GPU libraries write: `<f1`, `<c4`, 16-byte integers, `|i8` for the machine's order.
 *
 * `typestr`: read up to its NUL, 16 characters at most; stays the caller's.
 * `out`: the type, `out->code` is `CAI_DTYPE_NONE`. Written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_TYPESTR_LENGTH`, `CAI_ERR_TYPESTR_ORDER`,
 * `CAI_ERR_TYPESTR_KIND`, `CAI_ERR_TYPESTR_SIZE` or `CAI_ERR_TYPESTR_UNIT`.
 * Thread safety: any thread; allocates nothing.
 */
CAI_API
cai_status cai_dtype_parse(const char *typestr,
                           struct cai_dtype *out,
                           struct cai_error *error);

/**
 * Writes the typestr of a type: the inverse of `cai_dtype_parse`. A multiple of one is left out of the
 * unit, and so is the size of `O`.
 *
 * `dtype->code` is not part of a typestr and is not looked at. All other fields must agree as
 * `cai_dtype_parse` leaves them: `bits` is 8 times `itemsize`, `unit_count` is 1 where there is no multiple.
 * `out`: `CAI_TYPESTR_SIZE` characters, filled up with NULs. Written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_TYPESTR_LENGTH` if it does not fit, or the status of
 * the part that makes no type: `CAI_ERR_TYPESTR_ORDER`, `CAI_ERR_TYPESTR_KIND`, `CAI_ERR_TYPESTR_SIZE`,
 * `CAI_ERR_TYPESTR_UNIT`.
 * Thread safety: any thread; allocates nothing.
 */
CAI_API
cai_status cai_dtype_format(const struct cai_dtype *dtype,
                            char *out,
                            struct cai_error *error);

/**
 * Do two types describe the same bytes? Byte orders are compared only where they make a difference:
 * `|u1` equals `<u1`, and `|i8` equals the machine's own order. Codes are compared.
 *
 * False if either is NULL. Cannot fail. Thread safety: any thread; allocates nothing.
 */
CAI_API
bool cai_dtype_equal(const struct cai_dtype *a,
                     const struct cai_dtype *b);

/**
 * Is the type in the machine's own byte order, or one to which order makes no difference? Opaque bytes
 * (`V` without a code) count as native: nothing is known to swap.
 *
 * False if `dtype` is NULL. Cannot fail. Thread safety: any thread; allocates nothing.
 */
CAI_API
bool cai_dtype_is_native(const struct cai_dtype *dtype);

/**
 * The type of an array's elements: what `typestr` says, and `dtype_code` where it says more.
 *
 * `out`: written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, a `CAI_ERR_TYPESTR_` status or
 * `CAI_ERR_DTYPE_CODE`.
 * Thread safety: any thread; allocates nothing.
 */
CAI_API
cai_status cai_array_dtype(const struct cai_array *array,
                           struct cai_dtype *out,
                           struct cai_error *error);

/**
 * Can this machine use the elements as they are? Looks at the type and, where there are fields, at each
 * of them. Masks are arrays of their own.
 *
 * `out`: written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or what `cai_array_validate` says of a malformed type.
 * Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
 */
CAI_API
cai_status cai_array_is_native(const struct cai_array *array,
                               bool *out,
                               struct cai_error *error);

/**
 * The size of one element of a structured type: the sum of its fields, padding rows included. Checks
 * every rule about fields on the way.
 *
 * `out`: bytes. Written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, a `CAI_ERR_DESCR_` or `CAI_ERR_TYPESTR_` status,
 * `CAI_ERR_DTYPE_CODE`, `CAI_ERR_SIZE_OVERFLOW`, `CAI_ERR_DESCR_BIT_OFFSET` if bit fields make up no whole
 * number of bytes, or, where a list has more than 32 fields, `CAI_ERR_NO_MEMORY`.
 * Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
 */
CAI_API
cai_status cai_descr_itemsize(const struct cai_descr *descr,
                              int64_t *out,
                              struct cai_error *error);

/**
 * Do two lists describe the same fields: the same names, titles, types and shapes in the same order?
 *
 * `out`: written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or what `cai_descr_itemsize` says of a malformed list.
 * Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
 */
CAI_API
cai_status cai_descr_equal(const struct cai_descr *a,
                           const struct cai_descr *b,
                           bool *out,
                           struct cai_error *error);

/**
 * Finds a field by its name, or else by its title, and where it begins.
 *
 * `name`: NUL-terminated UTF-8.
 * `out_field`: the row, inside `descr`; what `nested` of it points to can be searched in turn.
 * `out_offset`: bytes from the start of the element. Both are written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_DESCR_NO_FIELD`, `CAI_ERR_DESCR_BIT_OFFSET`, or what
 * `cai_descr_itemsize` says of a malformed list.
 * Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
 */
CAI_API
cai_status cai_descr_find(const struct cai_descr *descr,
                          const char *name,
                          const struct cai_field **out_field,
                          int64_t *out_offset,
                          struct cai_error *error);

/**
 * The type of one element of a field: what its typestr and code say, or for nested fields opaque bytes (`V`) of
 * their size.
 *
 * `field`: a row of a list, by `cai_descr_find` or `cai_inline_field`.
 * `out`: written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or what `cai_descr_itemsize` says of a malformed field.
 * Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
 */
CAI_API
cai_status cai_field_dtype(const struct cai_field *field,
                           struct cai_dtype *out,
                           struct cai_error *error);

/**
 * The bytes that a field takes, all elements of its sub-array together. Adding them up row by row gives the
 * offset of each.
 *
 * `field`: a row of a list, by `cai_descr_find` or `cai_inline_field`.
 * `out`: bytes. Written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_DESCR_BIT_OFFSET` for bit fields that are no whole bytes,
 * or what `cai_descr_itemsize` says of a malformed field.
 * Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
 */
CAI_API
cai_status cai_field_nbytes(const struct cai_field *field,
                            int64_t *out,
                            struct cai_error *error);

/**
 * Reads a list of fields the way NumPy prints `dtype.descr`: `[('x', '<f4'), ('m', '<i4', (2, 3))]`, with
 * nested lists, `(title, name)` pairs and padding rows `('', '|V4')`. JSON's brackets and quotes are
 * taken as well. Every rule about fields is checked.
 *
 * `text`: NUL-terminated UTF-8.
 * `out_descr`: the list. `out_owner`: its owner, with one reference, which the caller must release; the
 * list is gone with it. Both are written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_DESCR_SYNTAX`, `CAI_ERR_NO_MEMORY`, or what
 * `cai_descr_itemsize` says of the list that it reads.
 * Thread safety: any thread; allocates.
 */
CAI_API
cai_status cai_descr_parse(const char *text,
                           const struct cai_descr **out_descr,
                           struct cai_owner **out_owner,
                           struct cai_error *error);

/**
 * Writes a list of fields the way NumPy prints `dtype.descr`.
 *
 * `buffer`: `size` characters, gets a NUL-terminated text; or NULL with a `size` of 0, to ask for the length.
 * `out_length`: characters without the NUL; may be NULL. Both are written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_BUFFER_SIZE`, or what `cai_descr_itemsize` says of a
 * malformed list.
 * Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
 */
CAI_API
cai_status cai_descr_format(const struct cai_descr *descr,
                            char *buffer,
                            size_t size,
                            size_t *out_length,
                            struct cai_error *error);

/**
 * The number of elements: the product of all extents, 1 for no dimensions, 0 if any extent is 0.
 *
 * `out`: written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_SIZE_OVERFLOW`, or what `cai_array_validate` says of a
 * malformed type, shape or strides.
 * Thread safety: any thread; allocates nothing.
 */
CAI_API
cai_status cai_array_count(const struct cai_array *array,
                           int64_t *out,
                           struct cai_error *error);

/**
 * The bytes that all elements take when laid out without gaps: what a buffer for a dense copy needs.
 * Bit fields are packed and rounded up once. The bytes that the array itself reaches are those of
 * `cai_array_span`.
 *
 * `out`: written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_SIZE_OVERFLOW`, or what `cai_array_validate` says of a
 * malformed type, shape or strides.
 * Thread safety: any thread; allocates nothing.
 */
CAI_API
cai_status cai_array_nbytes(const struct cai_array *array,
                            int64_t *out,
                            struct cai_error *error);

/**
 * The bytes that the array can touch, counted from `data` (from `data` plus `byte_offset` for opaque
 * handles): from `*out_lower`, 0 or negative, up to but not including `*out_upper`. Both are 0 for an
 * empty array. Strides of any sign and size are taken for what they are.
 *
 * `out_lower`, `out_upper`: bytes, written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_SPAN_OVERFLOW`, `CAI_ERR_SIZE_OVERFLOW`, or what
 * `cai_array_validate` says of a malformed type, shape or strides.
 * Thread safety: any thread; allocates nothing.
 */
CAI_API
cai_status cai_array_span(const struct cai_array *array,
                          int64_t *out_lower,
                          int64_t *out_upper,
                          struct cai_error *error);

/**
 * Do the elements lie in C order (last dimension fastest) without gaps? Strides of extents of at most
 * one do not matter, nor do any strides of an empty array.
 *
 * `out`: written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or what `cai_array_validate` says of a malformed type, shape or
 * strides.
 * Thread safety: any thread; allocates nothing.
 */
CAI_API
cai_status cai_array_is_c_contiguous(const struct cai_array *array,
                                     bool *out,
                                     struct cai_error *error);

/**
 * Do the elements lie in Fortran order (first dimension fastest) without gaps? Strides of extents of at
 * most one do not matter, nor do any strides of an empty array. An array can be both.
 *
 * `out`: written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or what `cai_array_validate` says of a malformed type, shape or
 * strides.
 * Thread safety: any thread; allocates nothing.
 */
CAI_API
cai_status cai_array_is_f_contiguous(const struct cai_array *array,
                                     bool *out,
                                     struct cai_error *error);

/**
 * The steps in bytes of an array, also where it leaves them out (`strides` NULL). Extents of 0 count as 1.
 *
 * `out`: room for `capacity` steps, of which `array->ndim` are written, on success only. May be NULL if
 * the array has no dimensions.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_BUFFER_SIZE` if `capacity` is below `array->ndim`,
 * `CAI_ERR_BIT_STRIDES` for bit fields that are no whole bytes, `CAI_ERR_SIZE_OVERFLOW`, or what
 * `cai_array_validate` says of a malformed type, shape or strides.
 * Thread safety: any thread; allocates nothing.
 */
CAI_API
cai_status cai_array_strides(const struct cai_array *array,
                             int32_t capacity,
                             int64_t *out,
                             struct cai_error *error);

/**
 * The steps in bytes that a dense array of this shape has: what a producer writes into `strides`.
 *
 * `order`: `'C'` (last dimension fastest) or `'F'` (first dimension fastest).
 * `ndim`: 0 to `CAI_MAX_NDIM`. `shape`: `ndim` extents; may be NULL if `ndim` is 0. Extents of 0 count as 1.
 * `itemsize`: bytes of one element, at least 1.
 * `out`: gets `ndim` steps, on success only; may be NULL if `ndim` is 0.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT` (`order` or `itemsize`), `CAI_ERR_NDIM`,
 * `CAI_ERR_SHAPE_NULL`, `CAI_ERR_SHAPE_NEGATIVE` or `CAI_ERR_SIZE_OVERFLOW`.
 * Thread safety: any thread; allocates nothing.
 */
CAI_API
cai_status cai_layout_strides(char order,
                              int32_t ndim,
                              const int64_t *shape,
                              int64_t itemsize,
                              int64_t *out,
                              struct cai_error *error);

/**
 * May two arrays share bytes? `false` is certain: the spans do not meet. `true` may be a false alarm:
 * interleaved arrays have overlapping spans, and different opaque handles may be windows of one buffer.
 * Memory that is mapped at two addresses is seen at neither through the other. Masks are not looked at.
 *
 * `out`: written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or what `cai_array_validate` says of a malformed type, shape,
 * strides, device or address; the error's `field` begins with `a.` or `b.`.
 * Thread safety: any thread; allocates nothing.
 */
CAI_API
cai_status cai_array_may_overlap(const struct cai_array *a,
                                 const struct cai_array *b,
                                 bool *out,
                                 struct cai_error *error);

/**
 * Makes an owner with one reference, for producers that have no counted object of their own.
 *
 * `context`: handed to `destroy`; may be NULL.
 * `destroy`: called once with `context` when the last reference is gone, on whatever thread that happens,
 * with or without an interpreter's lock. It must not throw. NULL: nothing needs to be done, because the
 * data lives as long as the program.
 * `out`: the owner; the caller holds its reference. Written on success only; on failure `context` is
 * still the caller's.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT` or `CAI_ERR_NO_MEMORY`.
 * Thread safety: any thread.
 */
CAI_API
cai_status cai_owner_create(void *context,
                            void (*destroy)(void *context),
                            struct cai_owner **out,
                            struct cai_error *error);

/**
 * Adds a reference to an owner of any library, through its table.
 *
 * The caller must hold a reference, or know that somebody does for the length of this call.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT` or `CAI_ERR_OWNER_OPS`.
 * Thread safety: any thread; allocates nothing.
 */
CAI_API
cai_status cai_owner_retain(struct cai_owner *owner,
                            struct cai_error *error);

/**
 * Gives up a reference to an owner of any library, through its table. The last one destroys the owner,
 * on this thread.
 *
 * Does nothing with NULL. An owner whose table is broken cannot be released and is leaked.
 *
 * Cannot fail. Thread safety: any thread; allocates nothing.
 */
CAI_API
void cai_owner_release(struct cai_owner *owner);

/**
 * Adds a reference to the owner of an array: from now on the data, and all that the structure points to,
 * stays alive until `cai_array_release` of this structure or of a copy of it.
 *
 * An array without an owner is borrowed: nothing can be kept alive, and the function says so.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_BORROWED` or
 * `CAI_ERR_OWNER_OPS`.
 * Thread safety: any thread; allocates nothing.
 */
CAI_API
cai_status cai_array_retain(const struct cai_array *array,
                            struct cai_error *error);

/**
 * Gives up the reference that this structure holds on its owner, and clears the structure: all fields but
 * `struct_size` become 0. So a second release does nothing, and neither does one of `CAI_ARRAY_INIT`, of
 * a zeroed structure, of a borrowed array, or of NULL.
 *
 * Works on arrays of every version of this header, past and future.
 *
 * Cannot fail. Thread safety: any thread, but not two on one structure at once; allocates nothing.
 */
CAI_API
void cai_array_release(struct cai_array *array);

/**
 * Makes a second structure for the same array: copies it, whatever header the other side was compiled
 * with, and adds a reference. A consumer that keeps an array it was handed uses this instead of `*out =
 * *array`, which reads past the end of a shorter structure.
 *
 * `out`: must be initialized (`CAI_ARRAY_INIT`) and hold no reference, which would be lost. Gets as much
 * as its `struct_size` covers, on success only; release it with `cai_array_release`.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_FLAGS`, `CAI_ERR_BORROWED` or
 * `CAI_ERR_OWNER_OPS`.
 * Thread safety: any thread; allocates nothing.
 */
CAI_API
cai_status cai_array_share(const struct cai_array *array,
                           struct cai_array *out,
                           struct cai_error *error);

/**
 * Copies a description into memory of its own: shape, strides, fields and masks go into one block, which
 * becomes the new array's owner and takes over `description->owner`. For producers whose shape and strides
 * live on the stack. The data is not copied.
 *
 * `description`: must have an owner and pass `cai_array_validate` with `CAI_CHECK_LAYOUT`; mind that `data` is
 * NULL where slicing left no elements. On success its reference has moved to `out` and `description->owner` is
 * NULL; on failure nothing has changed. So it may be released in either case. Owners of masks get one more
 * reference each, and `out`'s masks hang on the new block: each can be kept by itself.
 * `out`: must be initialized (`CAI_ARRAY_INIT`); may be the same structure as `description`. Gets as much
 * as its `struct_size` covers, on success only; release it with `cai_array_release`.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_BORROWED`, `CAI_ERR_OWNER_OPS`, `CAI_ERR_NO_MEMORY`,
 * `CAI_ERR_STRUCT_SIZE`, or what `cai_array_validate` says.
 * Thread safety: any thread; allocates one block.
 */
CAI_API
cai_status cai_array_create(struct cai_array *description,
                            struct cai_array *out,
                            struct cai_error *error);

/**
 * Finds the CUDA driver, if no function needed it before, and says which one it is: `libcuda.so.1`, or the
 * file that the environment variable `CAI_CUDA_DRIVER` names. Starts it (`cuInit`) but makes no context.
 *
 * Nobody has to call it: every function that needs the driver finds it by itself. Where there is none, those
 * functions answer `CAI_ERR_NO_DRIVER` and look again the next time; all others work.
 *
 * `out`: written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or what the driver may answer to any call: `CAI_ERR_NO_DRIVER`,
 * `CAI_ERR_DRIVER_FUNCTION`, `CAI_ERR_FORKED`, `CAI_ERR_DRIVER_EXIT`, `CAI_ERR_DEVICE_LOST`,
 * `CAI_ERR_CONTEXT_DESTROYED`, `CAI_ERR_DRIVER` with its own code in `driver_code`.
 * Thread safety: any thread. After `fork` the child is answered `CAI_ERR_FORKED`.
 */
CAI_API
cai_status cai_driver_info_get(struct cai_driver_info *out,
                               struct cai_error *error);

/**
 * What the CUDA driver knows about an address, which may point into the middle of an allocation: kind of
 * memory, device, owning context, whether the host can reach it, whether it is managed, and the allocation
 * that it lies in.
 *
 * Memory that the driver does not know is answered as host memory (`CAI_DEVICE_CPU`), not as a failure.
 * Must not be asked about memory that was given to `cuMemFreeAsync`.
 *
 * `out`: written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or what the driver may answer to any call (`cai_driver_info_get`).
 * Thread safety: any thread; needs no current context. Source: CAI version 3, "Pointer Attributes";
 * `cuPointerGetAttributes`, `cuMemGetAddressRange`.
 */
CAI_API
cai_status cai_pointer_info_get(const void *pointer,
                                struct cai_pointer_info *out,
                                struct cai_error *error);

/**
 * The address by which kernels of the calling thread's current context reach memory. It differs from
 * `pointer` for some host memory that was registered with the driver.
 *
 * `out`: written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_NO_CONTEXT`, `CAI_ERR_NOT_DEVICE_POINTER` for memory that
 * the driver does not know, `CAI_ERR_NOT_ACCESSIBLE` for memory that this context cannot reach, or what the
 * driver may answer to any call (`cai_driver_info_get`).
 * Thread safety: any thread. Source: `CU_POINTER_ATTRIBUTE_DEVICE_POINTER`.
 */
CAI_API
cai_status cai_device_pointer(const void *pointer,
                              void **out,
                              struct cai_error *error);

/**
 * Checks an array and its masks against every rule of the CUDA Array Interface and of this header. A
 * consumer calls it first; it costs nanoseconds.
 *
 * `checks`: `CAI_CHECK_LAYOUT`, and what is wanted of `CAI_CHECK_ALIGNMENT`, `CAI_CHECK_DEVICE` and
 * `CAI_CHECK_STREAM`. The layout is always checked: 0 means `CAI_CHECK_LAYOUT`.
 *
 * Reads the structure, shape, strides, fields and masks; never the data. Only the last two ask the driver. Every NULL is found; other
 * pointers must be what they are said to be.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_CHECKS`, or the status of the first broken rule:
 * `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_FLAGS`, `CAI_ERR_VERSION`, a `CAI_ERR_TYPESTR_` status,
 * `CAI_ERR_DTYPE_CODE`, `CAI_ERR_NDIM`, `CAI_ERR_SHAPE_NULL`, `CAI_ERR_SHAPE_NEGATIVE`, `CAI_ERR_ITEMSIZE`,
 * `CAI_ERR_BIT_STRIDES`, `CAI_ERR_SIZE_OVERFLOW`, `CAI_ERR_SPAN_OVERFLOW`, `CAI_ERR_DEVICE_TYPE`,
 * `CAI_ERR_DEVICE_ID`, `CAI_ERR_DATA_NULL`, `CAI_ERR_DATA_NOT_NULL`, `CAI_ERR_BYTE_OFFSET`,
 * `CAI_ERR_ADDRESS_RANGE`, `CAI_ERR_STREAM_ZERO`, `CAI_ERR_STREAM_VERSION`, `CAI_ERR_STREAM_ID`,
 * `CAI_ERR_EVENT`, a `CAI_ERR_DESCR_` status, `CAI_ERR_ALIGNMENT`, `CAI_ERR_MASK_VERSION`,
 * `CAI_ERR_MASK_TYPE`, `CAI_ERR_MASK_SHAPE`, `CAI_ERR_MASK_CYCLE`, `CAI_ERR_MASK_DEPTH` or, where a list has
 * more than 32 fields, `CAI_ERR_NO_MEMORY`. `CAI_CHECK_DEVICE` adds `CAI_ERR_NOT_DEVICE_POINTER`,
 * `CAI_ERR_DEVICE_MISMATCH`, `CAI_ERR_NOT_ACCESSIBLE` and `CAI_ERR_OUT_OF_ALLOCATION`; `CAI_CHECK_STREAM` adds
 * `CAI_ERR_STREAM_STALE`, `CAI_ERR_STREAM_THREAD`, `CAI_ERR_STREAM_CONTEXT` and `CAI_ERR_NO_CONTEXT`; both add
 * what the driver may answer to any call (see `cai_driver_info_get`). What is wrong inside a mask has a `field` that
 * begins with `mask.`.
 * Thread safety: any thread; allocates nothing unless a list has more than 32 fields.
 */
CAI_API
cai_status cai_array_validate(const struct cai_array *array,
                              uint32_t checks,
                              struct cai_error *error);

/**
 * Before a consumer's work: makes `consumer_stream` wait for the work that the producer has pending on the
 * array, its masks included. Call it, enqueue the work on `consumer_stream`, call `cai_array_consume_end`.
 *
 * It enqueues an event and a wait and never blocks the host. It does nothing at all where the two streams are
 * the same, where the array's stream is `CAI_STREAM_NONE`, or where the array has no elements. Where the array
 * has an `event`, a reader waits for that alone, so that several read at once; a writer waits for them all.
 *
 * `consumer_stream`: 1 (legacy default), 2 (per-thread default), both of the calling thread's current context,
 * or a `CUstream`; it may be of another context or device than the producer's. 0 is refused, for it could mean
 * either default stream: see `cai_inline_stream`.
 * `flags`: `CAI_ACCESS_READ`, `CAI_ACCESS_WRITE` or both; and `CAI_SYNC_IGNORE`, `CAI_SYNC_CONSERVATIVE`,
 * `CAI_SYNC_THIS_CALL`, `CAI_CAPTURE_JOIN`, `CAI_CAPTURE_EXTERNAL` as wanted.
 *
 * The context of the array's default stream is its `context`; where that is NULL, the one that owns the memory;
 * else the primary one of its device; else the current one. The per-thread stream of another thread is found
 * out by `stream_id`. A stream that is being captured is never asked or told anything that could break its
 * capture.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_FLAGS`,
 * `CAI_ERR_READONLY`, `CAI_ERR_STREAM_ZERO`, `CAI_ERR_STREAM_VERSION`, `CAI_ERR_STREAM_DEVICE`,
 * `CAI_ERR_STREAM_HANDLE`, `CAI_ERR_STREAM_STALE`, `CAI_ERR_STREAM_THREAD`, `CAI_ERR_STREAM_DETACHED`,
 * `CAI_ERR_NO_CONTEXT`, `CAI_ERR_CAPTURE_PRODUCER`, `CAI_ERR_CAPTURE_CONSUMER`, `CAI_ERR_CAPTURE_MERGE`,
 * `CAI_ERR_CAPTURE_INVALIDATED`, `CAI_ERR_CAPTURE_LEGACY`, `CAI_ERR_CAPTURE`, `CAI_ERR_MASK_DEPTH`,
 * `CAI_ERR_ENVIRONMENT`, or what the driver may answer to any call (`cai_driver_info_get`). With
 * `CAI_CAPTURE_EXTERNAL` also `CAI_ERR_THREAD`. On failure the consumer must not touch the data.
 * Thread safety: any thread, also several on one array; allocates nothing. Source: CAI version 3, "Interface
 * Requirements"; `cuEventRecord`, `cuStreamWaitEvent`.
 */
CAI_API
cai_status cai_array_consume_begin(const struct cai_array *array,
                                   cai_stream consumer_stream,
                                   uint32_t flags,
                                   struct cai_error *error);

/**
 * After a consumer's work: makes the array's stream wait for all that was enqueued on `consumer_stream`, so
 * that whatever the producer enqueues next comes after it. Call it before control goes back to whoever may make
 * the producer go on. After a write, the array's `event`, if it has one, is recorded again.
 *
 * Never blocks the host. Does nothing where the streams are the same, and nothing for `CAI_STREAM_NONE`: such
 * an array has no stream that could wait. Its owner still has to outlive the work: `cai_owner_release_after`.
 *
 * `consumer_stream`, `flags`: as for `cai_array_consume_begin`, and the same as there.
 *
 * Returns what `cai_array_consume_begin` returns. On failure the producer is not held back: synchronize
 * `consumer_stream` before going on.
 * Thread safety: any thread, also several on one array; allocates nothing. Source: CAI version 3, "Interface
 * Requirements": "Placing a wait on an event in the provided stream".
 */
CAI_API
cai_status cai_array_consume_end(const struct cai_array *array,
                                 cai_stream consumer_stream,
                                 uint32_t flags,
                                 struct cai_error *error);

/**
 * Blocks the host until the work that the producer has pending on the array and its masks is done: for
 * consumers that read on the host. Where an event would do, `cai_array_consume_begin` is faster.
 *
 * Release an interpreter's lock before: the work that it waits for may need it.
 *
 * `flags`: as for `cai_array_consume_begin`, without the bits about captures.
 *
 * Returns what `cai_array_consume_begin` returns, and `CAI_ERR_CAPTURE_HOST` where the stream is being captured, which
 * no host can wait for.
 * Thread safety: any thread; allocates nothing. Source: CAI version 3, "Interface Requirements";
 * `cuStreamSynchronize`, `cuEventSynchronize`.
 */
CAI_API
cai_status cai_array_synchronize(const struct cai_array *array,
                                 uint32_t flags,
                                 struct cai_error *error);

/**
 * Before a producer hands out an array: makes waiting for `export_stream` enough to wait for all work that is
 * pending on the data, and writes into the array what consumers need to know.
 *
 * `array`: `stream`, `stream_id` and `context` are written, on success only. With no streams nothing is
 * pending: `stream` becomes `CAI_STREAM_NONE`, `stream_id` 0 and `event` NULL. An `event` that is set beforehand is recorded on
 * `export_stream` (unless that is being captured): then consumers can read at once. The event is the producer's:
 * made in the context of `export_stream`, kept alive by the owner.
 * `streams`, `count`: the streams on which work on the data may be pending, in any order; where consumers may
 * write, reads count too. 1 and 2 are those of the calling thread's current context. `export_stream` may be
 * among them.
 * `export_stream`: the stream that consumers are told. It waits for the others by events; the host never blocks.
 * Looked at only where `count` is not 0. The array's owner must keep it alive: see `cai_array_attach`.
 * `flags`: 0, or `CAI_SYNC_EXPORT_NONE`, `CAI_SYNC_THIS_CALL`, `CAI_CAPTURE_JOIN`, `CAI_CAPTURE_EXTERNAL`.
 *
 * An idle buffer that will be reused on a stream is better exported with that stream than with none: consumers
 * then hold the stream back until they are done.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_VERSION`,
 * `CAI_ERR_STREAM_ZERO`, `CAI_ERR_STREAM_HANDLE`, `CAI_ERR_STREAM_DETACHED`, `CAI_ERR_NO_CONTEXT`,
 * `CAI_ERR_CAPTURE_STREAMS`, `CAI_ERR_CAPTURE_MERGE`, `CAI_ERR_CAPTURE_INVALIDATED`,
 * `CAI_ERR_CAPTURE_LEGACY`, `CAI_ERR_CAPTURE`, `CAI_ERR_ENVIRONMENT`, with `CAI_CAPTURE_EXTERNAL` also
 * `CAI_ERR_THREAD`, or what the driver may answer to any call (`cai_driver_info_get`).
 * Thread safety: any thread, but not two on one structure at once; allocates nothing. Source: CAI version 3,
 * "Interface Requirements": streams 7, 9 and 15 into 3.
 */
CAI_API
cai_status cai_array_produce(struct cai_array *array,
                             const cai_stream *streams,
                             size_t count,
                             cai_stream export_stream,
                             uint32_t flags,
                             struct cai_error *error);

/**
 * Gives up a reference to an owner once the work enqueued on `stream` so far is done, without blocking: for
 * consumers that are finished with an array while their kernels still read it.
 *
 * A thread of the library, started by the first call, asks the driver for an event and then releases the
 * owner, so its destroy function runs on that thread, on which no context is current; a slow one delays the others. It
 * never runs inside a callback of the driver. Where `stream` is
 * being captured, the graph keeps the owner, until it and every executable graph made from it are gone. Where the
 * device is lost or the context destroyed, the owner is released: nothing runs any more. What is still
 * pending when the process exits is not released.
 *
 * `stream`: as the `consumer_stream` of `cai_array_consume_begin`; with `CAI_STREAM_NONE` the owner is released at once.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_OWNER_OPS`, `CAI_ERR_ARGUMENT`, `CAI_ERR_STREAM_ZERO`,
 * `CAI_ERR_STREAM_HANDLE`, `CAI_ERR_STREAM_DETACHED`, `CAI_ERR_NO_CONTEXT`, `CAI_ERR_CAPTURE_INVALIDATED`,
 * `CAI_ERR_CAPTURE_LEGACY`, `CAI_ERR_CAPTURE`, `CAI_ERR_THREAD`, `CAI_ERR_NO_MEMORY`, or what the driver may
 * answer to any call (`cai_driver_info_get`). On failure the reference is still the caller's.
 * Thread safety: any thread; allocates nothing once the library's lists are long enough, but for a captured
 * stream. Source: CAI version 3, "Lifetime management"; `cuUserObjectCreate`.
 */
CAI_API
cai_status cai_owner_release_after(struct cai_owner *owner,
                                   cai_stream stream,
                                   struct cai_error *error);

/**
 * The same for the reference that an array holds, and clears the structure as `cai_array_release` does. An
 * array without an owner is just cleared.
 *
 * Returns what `cai_owner_release_after` returns, and `CAI_ERR_STRUCT_SIZE`. On failure the structure is as it was.
 * Thread safety: any thread, but not two on one structure at once.
 */
CAI_API
cai_status cai_array_release_after(struct cai_array *array,
                                   cai_stream stream,
                                   struct cai_error *error);

/**
 * Sets for the whole process what synchronization leaves out, in place of what the environment variable
 * `CAI_SYNC` said. Whoever sets a bit answers for the absence of data races (CAI version 3, "Design
 * Motivations", 3).
 *
 * `policy`: 0, the default, follows the specification; else bits out of `CAI_SYNC_IGNORE`,
 * `CAI_SYNC_EXPORT_NONE` and `CAI_SYNC_CONSERVATIVE`. In the environment they are called `ignore`, `export-none`
 * and `conservative`, with commas between them; `0` stands for the first two.
 *
 * Each copy of the library in a process has a setting of its own; the environment speaks to all of them.
 *
 * Returns `CAI_OK` or `CAI_ERR_ARGUMENT`. Thread safety: any thread; calls under way may still follow the old one.
 */
CAI_API
cai_status cai_sync_policy_set(uint32_t policy,
                               struct cai_error *error);

/**
 * What `cai_sync_policy_set`, or the environment, has set for the process.
 *
 * `out`: written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT` or `CAI_ERR_ENVIRONMENT`. Thread safety: any thread.
 */
CAI_API
cai_status cai_sync_policy_get(uint32_t *out,
                               struct cai_error *error);

/**
 * Makes an array keep something else alive as well: the stream that it is exported with, an event, a pool. The
 * array's owner is replaced by one that first lets the old one go and then calls `destroy(context)`. So the
 * data may still be freed in stream order on a stream that is kept in this way.
 *
 * `array`: must have an owner; holds the only reference to the new one on success, and is unchanged on failure.
 * `destroy`: as in `cai_owner_create`; not called on failure.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_BORROWED`, `CAI_ERR_OWNER_OPS` or
 * `CAI_ERR_NO_MEMORY`.
 * Thread safety: any thread, but not two on one structure at once; allocates one block. Source: CAI version 3,
 * "Lifetime management", "Streams".
 */
CAI_API
cai_status cai_array_attach(struct cai_array *array,
                            void *context,
                            void (*destroy)(void *context),
                            struct cai_error *error);

/**
 * Makes an array of a DLPack tensor, and takes the tensor over: its deleter runs exactly once, when the last
 * reference to the array is gone, on the thread where that happens.
 *
 * `tensor`: belongs to the array from success on. On failure nothing has changed: the caller still has to call
 * its deleter, also after `CAI_ERR_DLPACK_VERSION`.
 * `stream`: DLPack does not say which stream work on the data is pending on; the caller does. The stream that
 * it passed to `__dlpack__`, the one that `current_work_stream` of an exchange table answered (0 there is
 * `CAI_STREAM_LEGACY`), `CAI_STREAM_NONE` or `CAI_STREAM_UNKNOWN`. For host memory (`CAI_DEVICE_CPU`) it is not looked
 * at: that has `CAI_STREAM_NONE`.
 * `out`: must be initialized (`CAI_ARRAY_INIT`) and hold no reference, which would be lost. Strides are in bytes;
 * `byte_offset` of the tensor goes into `data`, except for devices whose data is a handle. `data` is NULL where there
 * are no elements, whatever the tensor says. Read-only if the tensor says so. Release it with `cai_array_release`.
 *
 * Types that DLPack knows and the array interface does not get a `dtype_code`. Handles, floats of more than 64 bits,
 * packed elements of less than a byte other than bits, and vectors (`lanes` above 1) other than two 4-bit floats in a
 * byte are refused with `CAI_ERR_CONVERT_TYPE`.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_DLPACK_VERSION` for another major
 * number, `CAI_ERR_FLAGS` for a flag that DLPack 1.3 does not have, `CAI_ERR_CONVERT_TYPE`, `CAI_ERR_NO_MEMORY`, or
 * what `cai_array_validate` with `CAI_CHECK_LAYOUT` says; `field` is then the name in the tensor
 * (`device.device_type`, `strides[1]`).
 * Thread safety: any thread; allocates one block. Source: DLPack 1.3, `dlpack.h`.
 */
CAI_API
cai_status cai_array_from_dlpack(struct DLManagedTensorVersioned *tensor,
                                 cai_stream stream,
                                 struct cai_array *out,
                                 struct cai_error *error);

/**
 * The same for DLPack's older structure, which has no version and cannot say that it is read-only. Nor does it say
 * whether elements of less than a byte are packed, so they are refused with `CAI_ERR_CONVERT_TYPE`, bits too.
 *
 * Parameters, statuses and thread safety: as `cai_array_from_dlpack`, without `CAI_ERR_DLPACK_VERSION` and
 * `CAI_ERR_FLAGS`.
 */
CAI_API
cai_status cai_array_from_dlpack_unversioned(struct DLManagedTensor *tensor,
                                             cai_stream stream,
                                             struct cai_array *out,
                                             struct cai_error *error);

/**
 * Makes a DLPack tensor of an array. The tensor holds a reference of its own; calling its deleter, once, from any
 * thread, gives it up.
 *
 * DLPack has no streams: whoever hands the tensor out first makes the receiver's stream wait for the array's work
 * (`cai_array_consume_begin` with that stream), or says that it works on the array's stream.
 *
 * `array`: must have an owner and pass `cai_array_validate` with `CAI_CHECK_LAYOUT`. Where `device` is not known,
 * the CUDA driver is asked; an array without elements is then on CUDA device 0.
 * `flags`: 0.
 * `out`: written on success only. Its version is 1.3; `strides` are never NULL, but for no dimensions. The id of host
 * memory and managed memory is 0, as DLPack demands.
 *
 * What does not convert says so: a mask (`CAI_ERR_CONVERT_MASK`); structures, texts, times, objects, floats of more than
 * 8 bytes and opaque types without a `dtype_code` (`CAI_ERR_CONVERT_TYPE`); strides that are no whole number of elements
 * (`CAI_ERR_CONVERT_STRIDES`), unless nothing takes that step; foreign byte order (`CAI_ERR_CONVERT_BYTE_ORDER`); an
 * address whose device neither the array nor the driver knows (`CAI_ERR_CONVERT_DEVICE`).
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT`, `CAI_ERR_BORROWED`, `CAI_ERR_OWNER_OPS`, the five
 * above, `CAI_ERR_NO_MEMORY`, what `cai_array_validate` says, or what the driver may answer to any call.
 * Thread safety: any thread; allocates one block. Source: DLPack 1.3, `dlpack.h`.
 */
CAI_API
cai_status cai_array_to_dlpack(const struct cai_array *array,
                               uint32_t flags,
                               struct DLManagedTensorVersioned **out,
                               struct cai_error *error);

/**
 * The same as DLPack's older structure, which cannot say that it is read-only: read-only arrays are refused with
 * `CAI_ERR_CONVERT_READONLY`. Nor can it say how elements of less than a byte lie: `CAI_ERR_CONVERT_TYPE`.
 *
 * Parameters, other statuses and thread safety: as `cai_array_to_dlpack`.
 */
CAI_API
cai_status cai_array_to_dlpack_unversioned(const struct cai_array *array,
                                           uint32_t flags,
                                           struct DLManagedTensor **out,
                                           struct cai_error *error);

/**
 * Describes a Python object that holds an array: of PyTorch, CuPy, Numba, JAX, or anything else that offers
 * `__cuda_array_interface__`, DLPack or one of their relatives. The array keeps the object, and its mask, alive.
 *
 * The ways in are tried in order (`cai_import_options.protocols`): first the tables on the object's type, which
 * take nanoseconds, then the dictionary, then the others. The dictionary is read once and never changed. Only
 * AttributeError means that an object does not offer a protocol: any other exception of the producer's ends the
 * search and is passed on untouched; but a BufferError of `__dlpack__` only where no later protocol says more.
 *
 * Nothing is ordered: the array says on which stream the producer's work may be pending, or that this is
 * unknown (`CAI_STREAM_UNKNOWN`: dictionaries of version 2 and earlier without `stream`). Call `cai_array_consume_begin`.
 *
 * `object`: a `PyObject *`; the reference stays the caller's.
 * `options`: NULL: no demands.
 * `out`: must be initialized (`CAI_ARRAY_INIT`) and hold no reference, which would be lost. It passes
 * `cai_array_validate` with `CAI_CHECK_LAYOUT`. The reference may be released from any thread, with or without the
 * interpreter's lock. Without it, the object is handed to the interpreter, which lets it go when its main thread gets
 * to it, or at the next call of this function on any thread; so a release never waits. After the interpreter has ended,
 * nothing is done.
 *
 * On failure a Python exception is set where there is an interpreter (not with `CAI_IMPORT_NO_EXCEPTION`): KeyError
 * for a missing key, TypeError for a wrong type, BufferError for what the options exclude, ValueError for the rest.
 * Its text begins with the key: `__cuda_array_interface__['shape'][1]: found -1, expected at least 0`.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_NO_PYTHON`,
 * `CAI_ERR_PYTHON_VERSION`, `CAI_ERR_PYTHON_LOCK`, `CAI_ERR_PYTHON_EXCEPTION`, `CAI_ERR_NO_PROTOCOL`,
 * `CAI_ERR_KEY`, `CAI_ERR_TYPE`, `CAI_ERR_VALUE`, `CAI_ERR_EXCHANGE_TABLE`, `CAI_ERR_READONLY`, `CAI_ERR_NO_MEMORY`,
 * a status of the 7xx family, what `cai_array_validate` or `cai_array_from_dlpack` say, or, with `CAI_IMPORT_QUERY_DEVICE`, what
 * the driver may answer to any call.
 * Thread safety: any thread that holds the interpreter's lock (in a free-threaded build: that is attached);
 * another is answered `CAI_ERR_PYTHON_LOCK`. Allocates one block, and none where an earlier array's can be used again.
 * Source: CAI version 3, "Python Interface Specification"; DLPack 1.3; `__sycl_usm_array_interface__` version 1.
 */
CAI_API
cai_status cai_array_from_python(struct _object *object,
                                 const struct cai_import_options *options,
                                 struct cai_array *out,
                                 struct cai_error *error);

/**
 * Makes a Python object of an array, for CuPy, Numba, PyTorch, JAX, cuDF and whoever else takes one: it offers
 * `__cuda_array_interface__` (or, by device, `__sycl_usm_array_interface__`, `__array_interface__` for host memory),
 * `__dlpack__` and `__dlpack_device__`, and the two exchange tables on its type. It holds a reference to the array's
 * owner until it is let go itself.
 *
 * Each reading of a dictionary makes a new one: version 3, `strides` None exactly when the array is
 * C-contiguous, `stream` where one is known. An array that says `CAI_STREAM_UNKNOWN` is presented as version 2,
 * which cannot say either. A protocol that cannot express the array raises AttributeError with the reason, so
 * `hasattr` is False; `__dlpack__` raises BufferError. Read-only stays read-only.
 *
 * `array`: must have an owner and pass `cai_array_validate` with `CAI_CHECK_LAYOUT`.
 * `options`: NULL: none.
 *
 * Returns a new reference, or NULL with a Python exception set (where there is an interpreter) and `error` filled:
 * `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_BORROWED`, `CAI_ERR_OWNER_OPS`,
 * `CAI_ERR_NO_PYTHON`, `CAI_ERR_PYTHON_VERSION`, `CAI_ERR_PYTHON_LOCK`, `CAI_ERR_PYTHON_EXCEPTION`,
 * `CAI_ERR_NO_MEMORY`, or what `cai_array_validate` says.
 * Thread safety: as `cai_array_from_python`. Source: CAI version 3, "Python Interface Specification", "Lifetime management".
 */
CAI_API
struct _object *cai_array_to_python(const struct cai_array *array,
                                    const struct cai_export_options *options,
                                    struct cai_error *error);

/**
 * Sets the Python exception that belongs to a failure of any function of this library, in an extension that
 * wants to hand it on: KeyError, TypeError, BufferError, ValueError, MemoryError, or RuntimeError for the driver,
 * with the words of the error.
 *
 * `error`: what the function filled in. Where an exception is set already, nothing happens. Where none is and
 * `error` names none (NULL, `CAI_OK`, `CAI_ERR_PYTHON_EXCEPTION`), SystemError says so.
 *
 * Returns NULL always, so that a function can end in `return cai_python_raise(&why);`. Without an interpreter, or
 * without its lock, it does nothing.
 * Thread safety: any thread that holds the interpreter's lock.
 */
CAI_API
struct _object *cai_python_raise(const struct cai_error *error);

/**
 * Publishes an exchange table on a Python type: sets its attribute `__cai_exchange_api__`. From then on
 * `cai_array_from_python`, of any copy of this library, takes objects of the type, and of types derived from it, through
 * the table: also where they offer other protocols.
 *
 * `type`: a `PyTypeObject *` that allows new attributes (a heap type, as pybind11, nanobind and
 * `PyType_FromSpec` make them).
 * `table`: constant, for the life of the process.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_TYPE`, `CAI_ERR_EXCHANGE_TABLE`, `CAI_ERR_NO_PYTHON`,
 * `CAI_ERR_PYTHON_VERSION`, `CAI_ERR_PYTHON_LOCK` or `CAI_ERR_PYTHON_EXCEPTION`; on failure a Python exception is
 * set where there is an interpreter.
 * Thread safety: any thread that holds the interpreter's lock.
 */
CAI_API
cai_status cai_python_publish(struct _object *type,
                              const struct cai_exchange_api *table,
                              struct cai_error *error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CAI_H */

#ifndef CAI_INLINE_H
#define CAI_INLINE_H

/* A cast that no compiler warns about in C or in C++. */
#ifdef __cplusplus
#define CAI_CAST(type, pointer) static_cast<type>(static_cast<const void *>(pointer))
#else
#define CAI_CAST(type, pointer) ((type)(const void *)(pointer))
#endif

/*
 * For those who link nothing: the lifetime of arrays through the owner's own table. They do what
 * cai_array_retain and cai_array_release do.
 */

/*
 * Adds a reference. Returns 0, or CAI_ERR_BORROWED for an array without an owner, or CAI_ERR_OWNER_OPS for
 * one whose table is broken; then nothing is kept alive.
 */
static inline cai_status cai_inline_retain(const cai_array *array) {
    const cai_owner_ops *ops;
    if (array == NULL) {
        return CAI_ERR_NULL_ARGUMENT;
    }
    if (array->owner == NULL) {
        return CAI_ERR_BORROWED;
    }
    ops = array->owner->ops;
    if (ops == NULL || ops->struct_size < sizeof(*ops) || ops->retain == NULL || ops->release == NULL) {
        return CAI_ERR_OWNER_OPS;
    }
    ops->retain(array->owner);
    return CAI_OK;
}

/*
 * Row `index` of a list of fields, NULL if there is none. Rows may be longer than this header says: they lie
 * `field_size` bytes apart, and `descr->fields[index]` would miss them.
 */
static inline const cai_field *cai_inline_field(const cai_descr *descr, uint64_t index) {
    if (descr == NULL || index >= descr->count || descr->fields == NULL) {
        return NULL;
    }
    return CAI_CAST(const cai_field *, CAI_CAST(const char *, descr->fields) + index * descr->field_size);
}

/*
 * Gives up the reference and clears the structure, as far as its struct_size says, to zeros. A second call
 * does nothing, nor does one of a zeroed structure, of a borrowed array, or of NULL.
 */
static inline void cai_inline_release(cai_array *array) {
    cai_owner *owner;
    uint32_t size;
    if (array == NULL) {
        return;
    }
    owner = array->owner;
    size = array->struct_size;
    if (size == sizeof(*array)) {
        memset(array, 0, sizeof(*array)); /* of a size that the compiler knows: a few stores */
    } else {
        /* Never initialized: touch no more than what every version begins with. */
        memset(array, 0, size < 16 || size > 4096 ? 16 : size);
    }
    array->struct_size = size;
    if (owner != NULL && owner->ops != NULL && owner->ops->struct_size >= sizeof(*owner->ops) &&
        owner->ops->retain != NULL && owner->ops->release != NULL) {
        owner->ops->release(owner);
    }
}

/*
 * A CUstream or cudaStream_t as a cai_stream. 0 is the default stream that this file's compiler options choose:
 * the per-thread one under CUDA_API_PER_THREAD_DEFAULT_STREAM (nvcc --default-stream per-thread), else the
 * legacy one.
 */
static inline cai_stream cai_inline_stream(const void *cuda_stream) {
    if (cuda_stream != NULL) {
#ifdef __cplusplus
        return static_cast<cai_stream>(reinterpret_cast<size_t>(cuda_stream));
#else
        return (cai_stream)(size_t)cuda_stream;
#endif
    }
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
    return CAI_STREAM_PER_THREAD;
#else
    return CAI_STREAM_LEGACY;
#endif
}

#endif /* CAI_INLINE_H */
