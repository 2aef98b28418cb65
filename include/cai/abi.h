/*
 * cai/abi.h: the data that programs exchange through the CUDA Array Interface in C. It needs no
 * library: copy this file into your tree, or include the installed one. C99 to C23, C++11 to C++23.
 *
 * A producer fills a cai_array. A consumer reads it, keeps it with cai_inline_share, and releases
 * it with cai_inline_release, on any thread.
 *
 *     #include <cai/abi.h>
 *
 *     typedef struct { cai_owner owner; int count; float data[12]; } buffer; // the producer's
 *     static void retain(cai_owner *owner) { ((buffer *)(void *)owner)->count++; }
 *     static void release(cai_owner *owner) { ((buffer *)(void *)owner)->count--; }
 *     static const cai_owner_ops ops = {sizeof(cai_owner_ops), 0, retain, release};
 *     static const int64_t shape[2] = {3, 4};
 *
 *     int main(void) {
 *         buffer numbers = {{&ops}, 1, {0}};
 *         cai_array array = CAI_ARRAY_INIT, kept = CAI_ARRAY_INIT;
 *         array.owner = &numbers.owner;
 *         array.data = numbers.data;
 *         array.ndim = 2;
 *         array.shape = shape;
 *         memcpy(array.typestr, "<f4", sizeof("<f4"));
 *         array.stream = CAI_STREAM_NONE; // no work on the data is pending
 *         array.device.type = CAI_DEVICE_CPU;
 *         if (cai_inline_share(&array, &kept) != CAI_OK) return 1; // the consumer's
 *         cai_inline_release(&array);
 *         cai_inline_release(&kept);
 *         return numbers.count; // 0
 *     }
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 * Generated from the sources of libcai: do not edit.
 */
#ifndef CAI_ABI_H
#define CAI_ABI_H

/// Version of this file. If several copies meet in one translation unit, the first one counts.
#define CAI_ABI_H_VERSION 0x10000

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if UINTPTR_MAX != 0xffffffffffffffffu
#error "cai/abi.h describes 64-bit platforms only"
#endif

/*
 * CAI_DEVICE_, values of cai_device.type: those of DLPack. What the members of cai_array mean by
 * device type:
 *
 *   device type            data     stream           stream_id      event          context
 *   ---------------------  -------  ---------------  -------------  -------------  ---------------
 *   UNKNOWN, CUDA, CUDA_*  address  CUstream         cuStreamGetId  CUevent        CUcontext
 *   CPU                    address  CAI_STREAM_NONE  0              NULL           NULL
 *   ROCM, ROCM_HOST        address  hipStream_t      0              hipEvent_t     device plus one
 *   ONEAPI                 address  sycl::queue *    not specified  not specified  sycl::context *
 *   OPENCL                 cl_mem   not specified    not specified  not specified  cl_context
 *   VULKAN, METAL, WEBGPU  handle   not specified    not specified  not specified  not specified
 *   all others             address  not specified    not specified  not specified  not specified
 *
 * The library orders work for UNKNOWN, CUDA's types and ROCm's. For others its functions refuse to
 * wait for a stream (CAI_ERR_STREAM_DEVICE): synchronize by the means of that platform instead.
 *
 * All lists of numbers are open: a library may accept later what it refused before. Treat a number
 * that you do not know as not supported, and not as an error of the producer.
 */

/*
 * CAI_DTYPE_, values of cai_array.dtype_code, for types that NumPy's grammar cannot name. Their
 * typestr is opaque bytes, such as <V1 or, for bfloat16, <V2 (u of that size and <f1 are valid
 * too). Types below 8 bits use one byte each, except CAI_DTYPE_FLOAT4_E2M1FN_X2, whose extents
 * count bytes. Numbers below 256 are DLPack's.
 */

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct cai_device cai_device;
typedef struct cai_owner cai_owner;
typedef struct cai_owner_ops cai_owner_ops;
typedef struct cai_array cai_array;
typedef struct cai_descr cai_descr;
typedef struct cai_field cai_field;

/// Version of the layouts of arrays, owners and fields. A new layout would get new names.
#define CAI_DATA_ABI 1

/// Highest version of the CUDA Array Interface that this header describes.
#define CAI_INTERFACE_VERSION 3

/// Bytes of a `typestr`, the terminating NUL included.
#define CAI_TYPESTR_SIZE 16

/// Maximum number of dimensions.
#define CAI_MAX_NDIM 64

/// Maximum mask nesting depth (the mask of a mask, and so on).
#define CAI_MAX_MASKS 8

/// Maximum number of fields, nested fields included.
#define CAI_MAX_FIELDS 65536

/// Maximum field nesting depth, the outermost list included.
#define CAI_MAX_DESCR_DEPTH 16

/// The data must not be written through this array.
#define CAI_ARRAY_READONLY 1

/// Not known; the CUDA driver may know it.
#define CAI_DEVICE_UNKNOWN 0

/// Host memory.
#define CAI_DEVICE_CPU 1

/// Memory of a CUDA device.
#define CAI_DEVICE_CUDA 2

/// Host memory that CUDA allocated or registered.
#define CAI_DEVICE_CUDA_HOST 3

/// OpenCL buffer.
#define CAI_DEVICE_OPENCL 4

/// Vulkan buffer.
#define CAI_DEVICE_VULKAN 7

/// Metal buffer.
#define CAI_DEVICE_METAL 8

/// Verilog simulator buffer.
#define CAI_DEVICE_VPI 9

/// Memory of a ROCm device.
#define CAI_DEVICE_ROCM 10

/// Host memory that ROCm allocated.
#define CAI_DEVICE_ROCM_HOST 11

/// Device of an extension.
#define CAI_DEVICE_EXT_DEV 12

/// CUDA managed memory.
#define CAI_DEVICE_CUDA_MANAGED 13

/// oneAPI unified shared memory.
#define CAI_DEVICE_ONEAPI 14

/// WebGPU buffer.
#define CAI_DEVICE_WEBGPU 15

/// Qualcomm Hexagon DSP.
#define CAI_DEVICE_HEXAGON 16

/// Microsoft MAIA device.
#define CAI_DEVICE_MAIA 17

/// AWS Trainium.
#define CAI_DEVICE_TRN 18

/// Memory of a TPU.
#define CAI_DEVICE_TPU 19

/// Host memory of a TPU.
#define CAI_DEVICE_TPU_HOST 20

/// Huawei Ascend.
#define CAI_DEVICE_ASCEND 21

/// None: `typestr` describes the type completely.
#define CAI_DTYPE_NONE 0

/// bfloat16, 2 bytes.
#define CAI_DTYPE_BFLOAT16 4

/// 8-bit float, IEEE-like, 3 exponent bits.
#define CAI_DTYPE_FLOAT8_E3M4 7

/// 8-bit float, IEEE-like, 4 exponent bits.
#define CAI_DTYPE_FLOAT8_E4M3 8

/// 8-bit float, finite, unsigned zero, bias 11.
#define CAI_DTYPE_FLOAT8_E4M3B11FNUZ 9

/// 8-bit float, finite, 4 exponent bits.
#define CAI_DTYPE_FLOAT8_E4M3FN 10

/// 8-bit float, finite, unsigned zero.
#define CAI_DTYPE_FLOAT8_E4M3FNUZ 11

/// 8-bit float, IEEE-like, 5 exponent bits.
#define CAI_DTYPE_FLOAT8_E5M2 12

/// 8-bit float, finite, unsigned zero.
#define CAI_DTYPE_FLOAT8_E5M2FNUZ 13

/// 8-bit power of two without a sign.
#define CAI_DTYPE_FLOAT8_E8M0FNU 14

/// 6-bit float, finite, 2 exponent bits.
#define CAI_DTYPE_FLOAT6_E2M3FN 15

/// 6-bit float, finite, 3 exponent bits.
#define CAI_DTYPE_FLOAT6_E3M2FN 16

/// 4-bit float, finite, 2 exponent bits.
#define CAI_DTYPE_FLOAT4_E2M1FN 17

/// Complex number of two bfloat16, 4 bytes.
#define CAI_DTYPE_BCOMPLEX32 18

/// 4-bit signed integer.
#define CAI_DTYPE_INT4 256

/// 4-bit unsigned integer.
#define CAI_DTYPE_UINT4 257

/// 2-bit signed integer.
#define CAI_DTYPE_INT2 258

/// 2-bit unsigned integer.
#define CAI_DTYPE_UINT2 259

/// Two 4-bit floats in a byte.
#define CAI_DTYPE_FLOAT4_E2M1FN_X2 260

/// 1-bit signed integer (0 or -1).
#define CAI_DTYPE_INT1 261

/// 1-bit unsigned integer.
#define CAI_DTYPE_UINT1 262

/// A CUDA stream: a `CUstream` (`cudaStream_t`) as an integer, or one of the `CAI_STREAM_` values.
/// 0 is invalid, so that a zeroed structure never passes for "no synchronization needed".
typedef uint64_t cai_stream;

/// Result of a function: `CAI_OK`, or a failure, which this header need not name.
typedef int32_t cai_status;

/// Location of data.
struct cai_device {
    /// A `CAI_DEVICE_` number: DLPack's `DLDeviceType`, or `CAI_DEVICE_UNKNOWN`.
    int32_t type;
    /// Ordinal of the device; -1: not known (not for CUDA). Ignored if the type is unknown.
    int32_t id;
};

/// Operations of an owner: a constant table in the library that made the owner.
///
/// Both functions may be called from any thread at any time, by several threads at once, with or
/// without an interpreter's lock, with any CUDA context current or none, and during a stream
/// capture. They must not throw. Later versions append operations: use only what `struct_size`
/// covers.
struct cai_owner_ops {
    /// `sizeof(cai_owner_ops)` of the producer's header; at least 24.
    uint32_t struct_size;
    /// Zero.
    uint32_t reserved;
    /// Adds a reference.
    void (*retain)(struct cai_owner *owner);
    /// Releases a reference; the last one destroys the owner. It should not block, and must not
    /// make a CUDA call that synchronizes: `cudaFree` waits for the device and fails during a
    /// capture.
    void (*release)(struct cai_owner *owner);
};

/// Reference count of what keeps an array alive. It carries its own operations, so that an array
/// from one library is released correctly through any other.
///
/// Embed `cai_owner` as the first member of your own reference-counted object. The other members
/// are private to you. `cai_owner_create` makes one if you have no such object.
///
/// An owner keeps alive everything that is reachable from the `cai_array`: the data, `shape`,
/// `strides`, `descr` and `mask`, the event, and the stream, which must live at least as long as
/// the exported array (CAI version 3, "Lifetime management", "Streams").
struct cai_owner {
    /// Operations. They stay valid, and their code stays loaded, until the last release has
    /// returned.
    const struct cai_owner_ops *ops;
};

/// One row of a `cai_descr`.
struct cai_field {
    /// Name, NUL-terminated UTF-8. Empty for padding and for the single row of a plain type.
    const char *name;
    /// Title (the first of the two names in NumPy's `(title, name)`), or NULL.
    const char *title;
    /// Type of the field, or of one element of its sub-array. Empty if `nested` is set.
    char typestr[CAI_TYPESTR_SIZE];
    /// NULL, or the fields that this field consists of.
    const struct cai_descr *nested;
    /// `ndim` extents of a sub-array in C order without gaps. May be NULL if `ndim` is 0.
    const int64_t *shape;
    /// Number of dimensions of the sub-array; 0 for a single element.
    int32_t ndim;
    /// As in `cai_array`.
    uint16_t dtype_code;
    /// Zero.
    uint16_t reserved;
};

/// Fields of a structured type: NumPy's `descr` with a count. The array's owner keeps it alive.
struct cai_descr {
    /// `sizeof(cai_descr)` of the producer's header; at least 24.
    uint32_t struct_size;
    /// `sizeof(cai_field)` of the producer's header, at least 56: the distance between two rows.
    uint32_t field_size;
    /// Number of rows.
    uint64_t count;
    /// Rows in memory order; `cai_inline_field` returns one. May be NULL if `count` is 0.
    const struct cai_field *fields;
};

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
struct cai_array {
    /// `sizeof(cai_array)` of the header that the writer was compiled with: 128 to 512, a multiple
    /// of 8.
    uint32_t struct_size;
    /// `CAI_ARRAY_` bits. An array with an unknown bit must be refused.
    uint32_t flags;
    /// Keeps everything that is reachable from this structure alive. NULL: a borrowed array, which
    /// is valid only during the call that it was passed to.
    struct cai_owner *owner;
    /// Address of the element at index zero, or a handle. NULL exactly if there are no elements.
    /// With negative strides it is not the lowest address.
    void *data;
    /// `ndim` extents in elements, each at least 0. May be NULL if `ndim` is 0.
    const int64_t *shape;
    /// `ndim` strides in bytes, which may be 0 or negative. NULL: C-contiguous.
    const int64_t *strides;
    /// Number of dimensions, 0 to `CAI_MAX_NDIM`.
    int32_t ndim;
    /// Version of the CUDA Array Interface that the contents follow. Values above 3 mean "at least
    /// 3".
    uint16_t version;
    /// Meaning of an opaque type (`CAI_DTYPE_BFLOAT16`, ...), or `CAI_DTYPE_NONE`.
    uint16_t dtype_code;
    /// Type of an element in the grammar of NumPy's array interface, NUL-terminated: `<f4`.
    char typestr[CAI_TYPESTR_SIZE];
    /// Fields of a structured type, or NULL. Their size is that of `typestr`.
    const struct cai_descr *descr;
    /// NULL, or an array that broadcasts to this one: a non-zero element marks a valid element. If
    /// the mask has a mask of its own, an element must be valid in both. Its `owner` may be NULL.
    const struct cai_array *mask;
    /// Stream on which the producer's work on the data may be pending. On ROCm devices, of HIP.
    cai_stream stream;
    /// Identity of the stream (`cuStreamGetId`), or 0 if not known. It distinguishes a destroyed
    /// stream from a new one with the same handle.
    uint64_t stream_id;
    /// A `CUevent` (`cudaEvent_t`), not a pointer to one; on ROCm devices a `hipEvent_t`. NULL, or
    /// recorded on `stream` after the last write. Readers wait for the event alone only if the
    /// array is read-only; otherwise they wait for the stream, because a writer that follows the
    /// specification on `stream` alone does not record the event again. If `stream` is
    /// `CAI_STREAM_UNKNOWN`, readers and writers wait for the event.
    void *event;
    /// Location of the data.
    struct cai_device device;
    /// Context of `stream` (of the data, if there is no stream), or NULL if not known; on ROCm, the
    /// number of the device plus one. Streams 1 and 2 have a meaning only within a context.
    void *context;
    /// For handles, bytes from the start of the buffer to the element at index zero. Otherwise 0.
    uint64_t byte_offset;
};

/// Legacy default stream of `context`.
#define CAI_STREAM_LEGACY 1

/// Per-thread default stream of the producer.
#define CAI_STREAM_PER_THREAD 2

/// No work is pending: no synchronization needed.
#define CAI_STREAM_NONE UINT64_MAX

/// Not known: the protocol has no streams.
#define CAI_STREAM_UNKNOWN (UINT64_MAX - 1)

/// Success.
#define CAI_OK 0

/// A required pointer argument is NULL.
///
/// `field` names the parameter.
#define CAI_ERR_NULL_ARGUMENT 101

/// `struct_size` is not the size of any version of the structure.
///
/// Initialize the structure with `CAI_ARRAY_INIT`.
#define CAI_ERR_STRUCT_SIZE 201

/// `flags` of the array has a bit that this library does not know.
///
/// The bit announces a member that must not be ignored. Use a newer library.
#define CAI_ERR_FLAGS 202

/// The array has no owner, so it cannot be kept beyond this call.
#define CAI_ERR_BORROWED 215

/// The owner's table of operations is missing, too short or incomplete.
#define CAI_ERR_OWNER_OPS 216

/// Initial value of a cai_array.
#define CAI_ARRAY_INIT                                                                             \
    {                                                                                              \
        sizeof(cai_array), 0, NULL, NULL, NULL, NULL, 0, CAI_INTERFACE_VERSION, 0, {0}, NULL,      \
            NULL, 0, 0, NULL, {0, 0}, NULL, 0                                                      \
    }

/* Layouts, as every compiler must see them. */
#if defined(__cplusplus)
#define CAI_PRIVATE_ASSERT(name, condition) static_assert(condition, #name)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define CAI_PRIVATE_ASSERT(name, condition) _Static_assert(condition, #name)
#else
#define CAI_PRIVATE_ASSERT(name, condition) typedef char cai_private_##name[(condition) ? 1 : -1]
#endif
#define CAI_PRIVATE_AT(type, member, offset)                                                       \
    CAI_PRIVATE_ASSERT(type##_##member, offsetof(type, member) == (offset))
CAI_PRIVATE_ASSERT(cai_device, sizeof(cai_device) == 8);
CAI_PRIVATE_ASSERT(cai_owner, sizeof(cai_owner) == 8);
CAI_PRIVATE_ASSERT(cai_owner_ops, sizeof(cai_owner_ops) == 24);
CAI_PRIVATE_AT(cai_owner_ops, release, 16);
CAI_PRIVATE_ASSERT(cai_array, sizeof(cai_array) == 128);
CAI_PRIVATE_AT(cai_array, owner, 8);
CAI_PRIVATE_AT(cai_array, ndim, 40);
CAI_PRIVATE_AT(cai_array, typestr, 48);
CAI_PRIVATE_AT(cai_array, stream, 80);
CAI_PRIVATE_AT(cai_array, device, 104);
CAI_PRIVATE_AT(cai_array, byte_offset, 120);
CAI_PRIVATE_ASSERT(cai_descr, sizeof(cai_descr) == 24);
CAI_PRIVATE_ASSERT(cai_field, sizeof(cai_field) == 56);
CAI_PRIVATE_AT(cai_field, nested, 32);
CAI_PRIVATE_AT(cai_field, dtype_code, 52);

/* A cast that no compiler warns about in C or in C++. */
#if defined(__cplusplus)
#define CAI_PRIVATE_CAST(type, value) static_cast<type>(value)
#else
#define CAI_PRIVATE_CAST(type, value) ((type)(value))
#endif

/* Sizes that some version of a cai_array can have. Never initialized memory rarely passes. */
#define CAI_PRIVATE_SIZE_OK(size) ((size) >= 128 && (size) <= 512 && (size) % 8 == 0)

/* An owner's table as the first version had it, which later versions only make longer. */
#define CAI_PRIVATE_OPS_OK(ops)                                                                    \
    ((ops) != NULL && (ops)->struct_size >= 24 && (ops)->retain != NULL && (ops)->release != NULL)

/* Zeroes the bytes that every version has. In halves, because compilers clear them all with one
 * instruction, `rep stos`, which takes longer than all else in a release. */
#define CAI_PRIVATE_CLEAR(array)                                                                   \
    do {                                                                                           \
        memset((array), 0, 64);                                                                    \
        memset(CAI_PRIVATE_CAST(char *, CAI_PRIVATE_CAST(void *, (array))) + 64, 0, 64);           \
    } while (0)

/// Adds a reference to the owner of an array. Does what cai_array_retain does.
///
/// Returns CAI_OK, or, if nothing is kept alive, CAI_ERR_NULL_ARGUMENT, CAI_ERR_STRUCT_SIZE,
/// CAI_ERR_BORROWED for an array without an owner, or CAI_ERR_OWNER_OPS. Thread safety: any thread.
static inline cai_status cai_inline_retain(const cai_array *array) {
    const cai_owner_ops *ops;
    if (array == NULL) return CAI_ERR_NULL_ARGUMENT;
    if (!CAI_PRIVATE_SIZE_OK(array->struct_size)) return CAI_ERR_STRUCT_SIZE;
    if (array->owner == NULL) return CAI_ERR_BORROWED;
    ops = array->owner->ops;
    if (!CAI_PRIVATE_OPS_OK(ops)) return CAI_ERR_OWNER_OPS;
    ops->retain(array->owner);
    return CAI_OK;
}

/// Makes a second structure for the same array, with a reference of its own. Does what
/// cai_array_share does: copies the members that both structures have, and zeroes the rest of `out`.
///
/// `out` is initialized (CAI_ARRAY_INIT), holds no reference, and is not `array`. It is written on
/// success only. Returns a status of cai_inline_retain, or CAI_ERR_FLAGS. Thread safety: any thread.
static inline cai_status cai_inline_share(const cai_array *array, cai_array *out) {
    cai_status status;
    uint32_t size, common;
    if (array == NULL || out == NULL) return CAI_ERR_NULL_ARGUMENT;
    size = out->struct_size;
    if (!CAI_PRIVATE_SIZE_OK(array->struct_size)) return CAI_ERR_STRUCT_SIZE;
    if (!CAI_PRIVATE_SIZE_OK(size)) return CAI_ERR_STRUCT_SIZE;
    if (array->flags > CAI_ARRAY_READONLY) return CAI_ERR_FLAGS;
    status = cai_inline_retain(array);
    if (status != CAI_OK) return status;
    common = array->struct_size < size ? array->struct_size : size;
    memcpy(out, array, common);
    memset(CAI_PRIVATE_CAST(char *, CAI_PRIVATE_CAST(void *, out)) + common, 0, size - common);
    out->struct_size = size;
    return CAI_OK;
}

/// Releases the reference of a structure and clears its first 128 bytes, which every version has,
/// except `struct_size`. Does what cai_array_release does.
///
/// A borrowed array is only cleared. Does nothing for NULL, CAI_ARRAY_INIT and a released array.
/// Cannot fail. Thread safety: any thread, but not two on one structure at once.
static inline void cai_inline_release(cai_array *array) {
    cai_owner *owner;
    uint32_t size;
    if (array == NULL) return;
    owner = array->owner;
    size = array->struct_size;
    /* Not `size` bytes: an assigned copy of a longer structure has fewer than it states. */
    memset(array, 0, 16);
    if (CAI_PRIVATE_SIZE_OK(size)) CAI_PRIVATE_CLEAR(array);
    array->struct_size = size;
    if (owner != NULL && CAI_PRIVATE_OPS_OK(owner->ops)) owner->ops->release(owner);
}

/// Returns row `index` of a list of fields, or NULL if there is none. Rows can be longer than this
/// header describes: they are `field_size` bytes apart, and `descr->fields[index]` would miss them.
static inline const cai_field *cai_inline_field(const cai_descr *descr, uint64_t index) {
    const void *rows;
    if (descr == NULL || index >= descr->count || descr->fields == NULL) return NULL;
    rows = CAI_PRIVATE_CAST(const char *, CAI_PRIVATE_CAST(const void *, descr->fields)) +
           index * descr->field_size;
    return CAI_PRIVATE_CAST(const cai_field *, rows);
}

/// Returns a CUstream, cudaStream_t or hipStream_t as a cai_stream. For 0 it returns the default
/// stream that the compiler options choose: the per-thread one for nvcc --default-stream per-thread
/// (CUDA_API_PER_THREAD_DEFAULT_STREAM) and hipcc -fgpu-default-stream=per-thread, else the legacy.
static inline cai_stream cai_inline_stream(const void *cuda_stream) {
    size_t handle;
    memcpy(&handle, &cuda_stream, sizeof(handle));
    if (handle != 0) return handle;
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || \
    defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM) || \
    defined(HIP_API_PER_THREAD_DEFAULT_STREAM) || defined(__HIP_API_PER_THREAD_DEFAULT_STREAM__)
    return CAI_STREAM_PER_THREAD;
#else
    return CAI_STREAM_LEGACY;
#endif
}
#if defined(__cplusplus)
}
#endif

#endif /* CAI_ABI_H */
