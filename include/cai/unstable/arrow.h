/*
 * cai/unstable/arrow.h: arrays of the Arrow C device data interface to arrays and back. The structures are
 * those of Arrow, under its own guards: its headers may be included before or after this file.
 *
 * Unstable: a minor release may change or remove what this header declares; the change log says so.
 * It has not run on a GPU yet, and nobody outside this repository uses it: both are needed before its
 * names become part of the stable interface, without `unstable`.
 *
 *     #include <cai/unstable/arrow.h>
 *     #include <cai/cai.h>
 *
 *     // The first two columns of a record batch; any others are left out.
 *     static cai_status two_columns(struct ArrowDeviceArray *batch, const struct ArrowSchema *schema,
 *                                   cai_array *x, cai_array *y, cai_error *error) {
 *         cai_array *out[16] = {x, y};
 *         if (schema->n_children < 2 || schema->n_children > 16) return CAI_ERR_VALUE;
 *         return cai_unstable_arrays_from_arrow(batch, schema, schema->n_children, out, error);
 *     }
 *
 *     // Two arrays of one length as a record batch, which the caller must release, with its schema.
 *     static cai_status batch_of(const cai_array *x, const cai_array *y, struct ArrowDeviceArray *batch,
 *                                struct ArrowSchema *schema, cai_error *error) {
 *         const cai_array *const arrays[2] = {x, y};
 *         const char *const names[2] = {"x", "y"};
 *         return cai_unstable_arrays_to_arrow(arrays, names, 2, 0, batch, schema, error);
 *     }
 *
 *     static cai_status there_and_back(const cai_array *array, cai_array *out, cai_error *error) {
 *         struct ArrowDeviceArray values;
 *         struct ArrowSchema schema;
 *         cai_status status = cai_unstable_array_to_arrow(array, 0, &values, &schema, error);
 *         if (status != CAI_OK) return status;
 *         status = cai_unstable_array_from_arrow(&values, &schema, out, error); // takes the values over
 *         schema.release(&schema);
 *         if (status != CAI_OK) values.array.release(&values.array);
 *         return status;
 *     }
 *
 *     int main(void) {
 *         float number = 1;
 *         const int64_t shape[1] = {1};
 *         cai_array array = CAI_ARRAY_INIT, out = CAI_ARRAY_INIT;
 *         array.data = &number;
 *         array.ndim = 1;
 *         array.shape = shape;
 *         array.device.type = CAI_DEVICE_CPU;
 *         memcpy(array.typestr, "<f4", sizeof("<f4"));
 *         array.stream = CAI_STREAM_NONE;
 *         struct ArrowSchema none;
 *         memset(&none, 0, sizeof none);
 *         if (two_columns(NULL, &none, &out, &out, NULL) != CAI_ERR_VALUE) return 1;
 *         struct ArrowDeviceArray batch;
 *         if (batch_of(&array, &array, &batch, &none, NULL) != CAI_ERR_BORROWED) return 1; // no owner
 *         struct _object *capsule; // of `__arrow_c_device_stream__`
 *         if (cai_unstable_arrow_stream_to_python(NULL, NULL, 1, 1, 0, &capsule, NULL) !=
 *             CAI_ERR_NULL_ARGUMENT)
 *             return 1;
 *         return there_and_back(&array, &out, NULL) == CAI_ERR_BORROWED ? 0 : 1;
 *     }
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 * Generated from the sources of libcai: do not edit.
 */
#ifndef CAI_UNSTABLE_ARROW_H
#define CAI_UNSTABLE_ARROW_H

#include "../status.h"
#if CAI_ABI_H_VERSION < 0x10000
#error "an older copy of cai/abi.h was included before cai/unstable/arrow.h: include the newest one first"
#endif

struct ArrowDeviceArray;
struct ArrowSchema;
struct _object;

#if defined(__cplusplus)
extern "C" {
#endif

/// For `cai_unstable_array_to_arrow`: an array of two or more dimensions always becomes one of
/// `arrow.fixed_shape_tensor`. Its masks are of whole tensors, or of all elements in the stored order.
#define CAI_UNSTABLE_ARROW_TENSOR 1

/// For `cai_unstable_arrow_stream_to_python`: the stream of `__arrow_c_stream__`, for host memory.
#define CAI_UNSTABLE_ARROW_HOST 2

/// Methods `__arrow_c_device_array__` and, with `CAI_IMPORT_ALLOW_HOST`, `__arrow_c_array__`, of arrays
/// that `cai_unstable_array_from_arrow` accepts: for `cai_import_options.protocols`. In the default
/// order it comes after those for device memory, and after NumPy's interface.
#define CAI_UNSTABLE_PROTOCOL_ARROW 10

/// Creates an array from an Arrow array, which it takes over: `release` is called exactly once,
/// when the last reference to the array is released, on that thread.
///
/// Each level of fixed-size lists becomes a dimension. Nulls become packed masks (`|t1`, the least
/// significant bit first, set for a valid element): those of the innermost level have the shape of
/// the array, and those of a list, with trailing extents of 1, are the mask of that mask. Dates of
/// 4 bytes and times of 4 bytes become the integers that Arrow stores; times of 8 bytes become
/// durations. `fixed_size_binary` becomes opaque bytes (`|V4`), because text would end at its first
/// NUL. Names, time zones and metadata are lost, except that `arrow.bool8` becomes `|b1`, and that
/// `arrow.fixed_shape_tensor` gives its dimensions, in the order of its permutation.
///
/// `array`: if the function succeeds, it was moved, and its `release` is NULL. If it fails, nothing
/// has changed, and the caller must still release it. For an `ArrowArray` in host memory, copy it
/// into the member `array`, with a `device_type` of `ARROW_DEVICE_CPU`.
/// `schema`: only read. The caller must still release it.
/// `out`: must be initialized (`CAI_ARRAY_INIT`) and hold no reference, which would be lost.
/// Always read-only. `event` is the event that `sync_event` points to, and `stream` is then
/// `CAI_STREAM_UNKNOWN`; otherwise it is `CAI_STREAM_NONE`. `data` is NULL if there are no
/// elements. Written on success only; release it with `cai_array_release`.
///
/// Nothing is copied, except booleans and bitmaps in host memory that begin inside a byte.
///
/// `reserved` is not read: producers leave it uninitialized, as pyarrow does.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_ARROW` for a
/// structure that was released, is malformed or does not match its schema, `CAI_ERR_CONVERT_TYPE`
/// for other types than numbers, booleans, dates, times, timestamps, durations, `fixed_size_binary`
/// and lists of a fixed size, `CAI_ERR_CONVERT_DEVICE` for memory that is neither the host's nor of
/// CUDA or ROCm, `CAI_ERR_CONVERT_BIT_OFFSET` for bits on a device that begin inside a byte,
/// `CAI_ERR_CONVERT_STRIDES` for bits whose dimensions are permuted, `CAI_ERR_MASK_DEPTH` for nulls
/// in more than `CAI_MAX_MASKS` levels, `CAI_ERR_EVENT`, `CAI_ERR_NO_MEMORY`, or a status of
/// `cai_array_validate` with `CAI_CHECK_LAYOUT`. `error->field` is a member of the structure
/// (`array.children[0].length`) or of the schema (`schema.format`).
/// Thread safety: any thread; allocates two blocks. Source: Arrow, "The Arrow C Device data
/// interface".
CAI_API
cai_status cai_unstable_array_from_arrow(struct ArrowDeviceArray *array,
                                         const struct ArrowSchema *schema,
                                         cai_array *out,
                                         cai_error *error);

/// Creates an array from each column of a record batch: an Arrow array of structures (`+s`), which
/// it takes over. `release` is called exactly once, when the last reference to any column is
/// released.
///
/// Each column is imported as by `cai_unstable_array_from_arrow`; those of other types make the call
/// fail. Nulls of the batch become a mask of each column. The names are
/// `schema->children[index]->name`.
///
/// `batch`: if the function succeeds, it was moved, and its `release` is NULL. If it fails, nothing
/// has changed, and the caller must still release it.
/// `schema`: only read. The caller must still release it.
/// `count`: `schema->n_children`.
/// `out`: `count` addresses of initialized arrays that hold no reference, or NULL for columns to
/// leave out, which may have any type. Each array has an owner of its own, the event of the batch,
/// and its device. All are written on success only.
///
/// Returns a status of `cai_unstable_array_from_arrow`, or `CAI_ERR_VALUE` for another `count`.
/// `error->field` begins with `columns[1].` for the second column.
/// Thread safety: any thread; allocates four blocks, and two for each column. Source: Arrow, "The
/// Arrow C Device data interface", "Struct arrays".
CAI_API
cai_status cai_unstable_arrays_from_arrow(struct ArrowDeviceArray *batch,
                                          const struct ArrowSchema *schema,
                                          int64_t count,
                                          cai_array *const *out,
                                          cai_error *error);

/// Creates an Arrow array and its schema from an array, with a reference of its own to the owner,
/// which the array's `release` gives up. Both must be released once, from any thread, in any order.
/// Children may be moved out of them.
///
/// The first extent becomes the length; each other dimension becomes a fixed-size list. If those
/// dimensions are stored in another order, they become one list of the type
/// `arrow.fixed_shape_tensor`, whose permutation restores theirs. The mask
/// becomes the bitmap of the level whose extents it has. `|b1` becomes `arrow.bool8` and `|t1`
/// `bool`; times become timestamps without a time zone, and durations; NaT stays a number, and is
/// not null.
///
/// Arrow arrays are not written to: the caller must ensure that nothing writes to the data while
/// the Arrow array exists.
///
/// `array`: must have an owner and pass `cai_array_validate` with `CAI_CHECK_LAYOUT` and
/// `CAI_CHECK_ALIGNMENT`.
/// `flags`: 0, or `CAI_UNSTABLE_ARROW_TENSOR`.
/// `out_array`: `sync_event` points to an event that is recorded on the array's stream by this
/// call, and destroyed with the Arrow array. It is the array's own `event` if the array is
/// read-only or its stream is `CAI_STREAM_UNKNOWN`, and NULL for `CAI_STREAM_NONE`. If neither
/// stream nor event is known, or if a mask has another stream than the array, the host waits for
/// the work instead.
/// `out_schema`: NULL if no schema is needed. Both outputs are written on success only, and
/// overwritten without a release.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_NEWER_CALLER`, `CAI_ERR_BORROWED`,
/// `CAI_ERR_OWNER_OPS`, `CAI_ERR_CONVERT_TYPE` for complex numbers, structures, text of 4-byte
/// characters, objects, numbers above 8 bytes, times of other units, types with a `dtype_code`, and
/// lists above 2^31 - 1 elements, `CAI_ERR_CONVERT_BYTE_ORDER`, `CAI_ERR_CONVERT_NDIM` for an array
/// without dimensions, `CAI_ERR_CONVERT_CONTIGUOUS`, `CAI_ERR_CONVERT_MASK` for a mask that is not
/// `|t1`, on another device, or broadcast along a dimension before its last one,
/// or of some dimensions of tensors,
/// `CAI_ERR_CONVERT_DEVICE`, `CAI_ERR_STREAM_DEVICE` for a stream of a device other than CUDA's,
/// `CAI_ERR_CAPTURE_PRODUCER` if the stream is being captured, `CAI_ERR_ALIGNMENT`,
/// `CAI_ERR_NO_MEMORY`, a status of `cai_array_validate`, or, if the array has a stream, of
/// `cai_array_synchronize`.
/// Thread safety: any thread; allocates one block for each structure. Calls the CUDA driver only
/// for arrays with a stream, or on an unknown device. Source: Arrow, "The Arrow C Device data
/// interface".
CAI_API
cai_status cai_unstable_array_to_arrow(const cai_array *array,
                                       uint32_t flags,
                                       struct ArrowDeviceArray *out_array,
                                       struct ArrowSchema *out_schema,
                                       cai_error *error);

/// Creates a record batch and its schema from named arrays of one length: an Arrow array of structures
/// (`+s`) with a column for each array. Both must be released once, from any thread, in any order.
/// Columns may be moved out of them.
///
/// Each array becomes a column as by `cai_unstable_array_to_arrow`, with a reference of its own to the
/// owner. All have the same first extent and are on one device.
///
/// Arrow arrays are not written to: the caller must ensure that nothing writes to the data while
/// the batch exists.
///
/// `arrays`: `count` addresses of arrays, as for `cai_unstable_array_to_arrow`.
/// `names`: `count` names in UTF-8, which are copied.
/// `count`: at least 1.
/// `flags`: 0, or `CAI_UNSTABLE_ARROW_TENSOR`.
/// `out_batch`: `sync_event` is as for `cai_unstable_array_to_arrow`, and that of the first array with
/// pending work. The host waits for the work of arrays that have another stream.
/// `out_schema`: NULL if no schema is needed. Both outputs are written on success only, and
/// overwritten without a release.
///
/// Returns a status of `cai_unstable_array_to_arrow`, `CAI_ERR_VALUE` for a `count` below 1 and for
/// arrays of another length, or `CAI_ERR_CONVERT_DEVICE` for another device. `error->field` begins
/// with `columns[1].` for the second array.
/// Thread safety: any thread. Allocates. Source: Arrow, "The Arrow C Device data interface", "Struct
/// arrays".
CAI_API
cai_status cai_unstable_arrays_to_arrow(const cai_array *const *arrays,
                                        const char *const *names,
                                        int64_t count,
                                        uint32_t flags,
                                        struct ArrowDeviceArray *out_batch,
                                        struct ArrowSchema *out_schema,
                                        cai_error *error);

/// Creates a capsule with a stream of record batches, as the Python methods `__arrow_c_device_stream__`
/// and, with `CAI_UNSTABLE_ARROW_HOST`, `__arrow_c_stream__` return it.
///
/// Each array becomes a column as by `cai_unstable_array_to_arrow`, with a reference of its own to the
/// owner. All arrays of a batch have the same first extent and are on one device. Its `sync_event` is
/// that of the first array with pending work; the host waits for work of arrays that have another
/// stream.
///
/// `arrays`: `columns` times `batches` addresses of arrays, batch by batch.
/// `names`: `columns` names in UTF-8, which are copied.
/// `flags`: 0, or any of `CAI_UNSTABLE_ARROW_TENSOR` and `CAI_UNSTABLE_ARROW_HOST`.
/// `out`: a new reference to a `PyObject`. Written on success only.
///
/// On failure a Python exception is set if there is an interpreter.
///
/// Returns a status of `cai_unstable_array_to_arrow`, `CAI_ERR_VALUE` for a number of columns or
/// batches below 1, and for arrays of another length, `CAI_ERR_CONVERT_DEVICE` for another device,
/// `CAI_ERR_CONVERT_TYPE` for a column whose type or shape changes, `CAI_ERR_NO_PYTHON`,
/// `CAI_ERR_PYTHON_VERSION`, `CAI_ERR_PYTHON_LOCK` or `CAI_ERR_PYTHON_EXCEPTION`.
/// Thread safety: any thread that holds the interpreter's lock. Allocates. Source: Arrow, "The Arrow
/// PyCapsule Interface".
CAI_API
cai_status cai_unstable_arrow_stream_to_python(const cai_array *const *arrays,
                                               const char *const *names,
                                               int64_t columns,
                                               int64_t batches,
                                               uint32_t flags,
                                               struct _object **out,
                                               cai_error *error);

/* The Arrow C data interface. */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

#endif /* ARROW_C_DATA_INTERFACE */

/* The Arrow C device data interface. */
#ifndef ARROW_C_DEVICE_DATA_INTERFACE
#define ARROW_C_DEVICE_DATA_INTERFACE

typedef int32_t ArrowDeviceType;

#define ARROW_DEVICE_CPU 1
#define ARROW_DEVICE_CUDA 2
#define ARROW_DEVICE_CUDA_HOST 3
#define ARROW_DEVICE_OPENCL 4
#define ARROW_DEVICE_VULKAN 7
#define ARROW_DEVICE_METAL 8
#define ARROW_DEVICE_VPI 9
#define ARROW_DEVICE_ROCM 10
#define ARROW_DEVICE_ROCM_HOST 11
#define ARROW_DEVICE_EXT_DEV 12
#define ARROW_DEVICE_CUDA_MANAGED 13
#define ARROW_DEVICE_ONEAPI 14
#define ARROW_DEVICE_WEBGPU 15
#define ARROW_DEVICE_HEXAGON 16

struct ArrowDeviceArray {
    struct ArrowArray array;
    int64_t device_id;
    ArrowDeviceType device_type;
    void *sync_event;
    int64_t reserved[3];
};

#endif /* ARROW_C_DEVICE_DATA_INTERFACE */
#if defined(__cplusplus)
}
#endif

#endif /* CAI_UNSTABLE_ARROW_H */
