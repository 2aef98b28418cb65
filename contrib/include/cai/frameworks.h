/*
 * cai/frameworks.h (unstable: may change in any minor release): the common part of cai/torch.h,
 * cai/xla_ffi.h and cai/tvm_ffi.h. Include one of those instead. C99 and C++; link the library as
 * for cai.h. It declares nothing public.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef CAI_FRAMEWORKS_H
#define CAI_FRAMEWORKS_H

#include <cai/cai.h>
#include <cai/type_table.h>
#include <cai/unstable/release.h>

#include <stdio.h>
#include <stdlib.h>

/* Reports "found ..., expected ..." for a field. */
static inline cai_status cai_private_refuse(cai_error *error, cai_status status, const char *field,
                                            const char *found, const char *expected) {
    char text[300];
    snprintf(text, sizeof(text), "found %s, expected %s", found, expected);
    return cai_error_set(error, status, field, text);
}
static inline cai_status cai_private_refuse_number(cai_error *error, cai_status status,
                                                   const char *field, int64_t found,
                                                   const char *expected) {
    char text[32];
    snprintf(text, sizeof(text), "%lld", CAI_PRIVATE_CAST(long long, found));
    return cai_private_refuse(error, status, field, text, expected);
}

/* Element type in a framework and in an array. A list of types ends with the kind 0. */
typedef struct cai_private_type {
    int32_t number; /* the framework's */
    char kind;
    uint8_t bytes;
    uint16_t code; /* CAI_DTYPE_NONE, or that of an opaque type */
} cai_private_type;
/* A row of such a list, from cai/type_table.h. */
#define CAI_PRIVATE_TYPE(kind, bytes, code, number) {number, kind, bytes, code},

/* Writes a type in the byte order of this machine. */
static inline void cai_private_write_type(cai_array *array, const cai_private_type *type) {
    const uint16_t probe = 1;
    unsigned char first;
    memcpy(&first, &probe, 1);
    array->typestr[0] = '|';
    if (type->bytes > 1 || type->code != CAI_DTYPE_NONE) array->typestr[0] = first == 1 ? '<' : '>';
    snprintf(array->typestr + 1, CAI_TYPESTR_SIZE - 1, "%c%d", type->kind, type->bytes);
    array->dtype_code = type->code;
}

/* Finds the type of a framework's number, and writes it to `array`. */
static inline cai_status cai_private_set_type(cai_array *array, const cai_private_type *types,
                                              int32_t number, const cai_private_type **out,
                                              cai_error *error) {
    for (; types->kind != 0; ++types) {
        if (types->number != number) continue;
        cai_private_write_type(array, types);
        *out = types;
        return CAI_OK;
    }
    return cai_private_refuse_number(error, CAI_ERR_CONVERT_TYPE, "dtype", number,
                                     "a type of whole bytes that NumPy or DLPack has");
}

/* Writes the shape of an array. `steps`: strides in elements, which are written to `strides` in
   bytes; NULL for C order. Without elements, `data` becomes NULL. */
static inline cai_status cai_private_shape(cai_array *array, const cai_private_type *type,
                                           int64_t ndim, const int64_t *shape, const int64_t *steps,
                                           int64_t *strides, cai_error *error) {
    const int64_t size = type->bytes;
    int64_t d;
    if (ndim < 0 || ndim > CAI_MAX_NDIM) {
        return cai_private_refuse_number(error, CAI_ERR_NDIM, "ndim", ndim, "0 to 64");
    }
    if (shape == NULL && ndim > 0)
        return cai_error_set(error, CAI_ERR_SHAPE_NULL, "shape", "found NULL");
    for (d = 0; d < ndim; ++d) {
        if (shape[d] == 0) array->data = NULL;
    }
    for (d = 0; steps != NULL && d < ndim; ++d) {
        const bool fits = steps[d] <= INT64_MAX / size && steps[d] >= INT64_MIN / size;
        if (!fits && shape[d] > 1 && array->data != NULL) {
            return cai_private_refuse_number(error, CAI_ERR_SPAN_OVERFLOW, "strides", steps[d],
                                             "strides that fit in memory");
        }
        strides[d] = fits ? steps[d] * size : size; /* or it is not used */
    }
    array->ndim = CAI_PRIVATE_CAST(int32_t, ndim);
    array->shape = shape;
    array->strides = steps == NULL ? NULL : strides;
    return CAI_OK;
}

/* Writes the strides of an array in elements of `size` bytes, which must not be negative. */
static inline cai_status cai_private_steps(const cai_array *array, int64_t size, int64_t *steps,
                                           cai_error *error) {
    int32_t d;
    cai_status status = cai_array_strides(array, steps, CAI_MAX_NDIM, error);
    for (d = 0; status == CAI_OK && d < array->ndim; ++d) {
        const bool used = array->data != NULL && array->shape[d] > 1;
        if (used && (steps[d] < 0 || steps[d] % size != 0)) {
            return cai_private_refuse_number(error, CAI_ERR_CONVERT_STRIDES, "strides", steps[d],
                                             "0 or a positive multiple of the element's size");
        }
        steps[d] = used ? steps[d] / size : 1;
    }
    return status;
}

/* Writes a borrowed array to `out`, which may have another size, after checking it. */
static inline cai_status cai_private_lend(const cai_array *made, cai_array *out, cai_error *error) {
    uint32_t size;
    cai_status status = cai_array_validate(made, CAI_CHECK_LAYOUT, error);
    if (status != CAI_OK) return status;
    if (out == NULL) return cai_error_set(error, CAI_ERR_NULL_ARGUMENT, "out", "found NULL");
    size = out->struct_size;
    if (!CAI_PRIVATE_SIZE_OK(size)) {
        return cai_error_set(error, CAI_ERR_STRUCT_SIZE, "out.struct_size", "initialize it");
    }
    memset(CAI_PRIVATE_CAST(void *, out), 0, size);
    memcpy(out, made, size < sizeof(*made) ? size : sizeof(*made));
    out->struct_size = size;
    return CAI_OK;
}

/* Checks what every framework requires of an array: valid, no mask, the byte order of this machine,
   a type of the list (any type if it is NULL), and memory of the host or of the GPUs `gpu`
   (CAI_DEVICE_CUDA or CAI_DEVICE_ROCM; 0: both). Writes the type, and the location, which is one of
   these three. `out`: where the caller will write its result; must not be NULL. */
static inline cai_status cai_private_require(const cai_array *array, const void *out,
                                             const cai_private_type *types,
                                             const cai_private_type **type, int32_t gpu,
                                             cai_device *location, cai_error *error) {
    cai_dtype dtype;
    cai_status status = cai_array_validate(array, CAI_CHECK_NATIVE, error);
    if (status == CAI_OK) status = cai_array_dtype(array, &dtype, error);
    if (status != CAI_OK) return status;
    if (out == NULL) return cai_error_set(error, CAI_ERR_NULL_ARGUMENT, "out", "found NULL");
    if (array->mask != NULL) {
        return cai_private_refuse(error, CAI_ERR_CONVERT_MASK, "mask", "a mask", "none");
    }
    for (; types != NULL; ++types) {
        if (types->kind == 0) {
            return cai_private_refuse(error, CAI_ERR_CONVERT_TYPE, "typestr", array->typestr,
                                      "a type that the framework has");
        }
        *type = types;
        if (types->code == dtype.code && types->bytes == dtype.itemsize &&
            (types->code != CAI_DTYPE_NONE || types->kind == dtype.kind)) {
            break;
        }
    }
    *location = array->device;
    if (location->type == CAI_DEVICE_UNKNOWN && array->data != NULL) {
        cai_pointer_info info;
        status = cai_pointer_info_get(array->data, &info, error);
        if (status != CAI_OK) return status;
        *location = info.device;
    } else if (location->type == CAI_DEVICE_UNKNOWN) {
        location->type = CAI_DEVICE_CUDA; /* without elements, any device will do */
        location->id = 0;
    }
    if (location->type == CAI_DEVICE_CUDA_MANAGED) location->type = CAI_DEVICE_CUDA;
    if (location->type != CAI_DEVICE_CPU &&
        (gpu != 0 ? location->type != gpu
                  : location->type != CAI_DEVICE_CUDA && location->type != CAI_DEVICE_ROCM)) {
        return cai_private_refuse_number(error, CAI_ERR_CONVERT_DEVICE, "device.type",
                                         location->type,
                                         "memory of the host or of the framework's GPUs");
    }
    return CAI_OK;
}

/* Releases the result of cai_private_keep, on any thread. */
static inline void cai_private_release_kept(void *kept) {
    cai_unstable_array_release_in_order(CAI_PRIVATE_CAST(cai_array *, kept));
    free(kept);
}

/* Makes a reference to the owner of an array, which cai_private_release_kept releases: at once
   until cai_private_begin has succeeded, then after the work on the stream. */
static inline cai_status cai_private_keep(const cai_array *array, cai_device location,
                                          cai_array **out, cai_error *error) {
    const cai_array fresh = CAI_ARRAY_INIT;
    cai_array *kept;
    cai_status status = cai_array_retain(array, error);
    if (status != CAI_OK) return status;
    kept = CAI_PRIVATE_CAST(cai_array *, malloc(sizeof(*kept)));
    if (kept == NULL) {
        cai_owner_release(array->owner);
        return cai_error_set(error, CAI_ERR_NO_MEMORY, "owner", "no memory for a reference");
    }
    *kept = fresh;
    kept->owner = array->owner;
    kept->data = array->data;
    kept->device = location; /* whose stream it is: of CUDA or of HIP */
    kept->stream = CAI_STREAM_NONE;
    *out = kept;
    return CAI_OK;
}

/* Makes `stream` wait for the work on an array. In host memory, where `stream` is CAI_STREAM_NONE,
   checks `access` only. `kept`: a result of cai_private_keep, or NULL. */
static inline cai_status cai_private_begin(const cai_array *array, cai_stream stream,
                                           uint32_t access, cai_array *kept, cai_error *error) {
    const cai_stream consumer = stream == CAI_STREAM_NONE ? CAI_STREAM_LEGACY : stream;
    cai_status status = cai_array_consume_begin(array, consumer, access, error);
    if (status != CAI_OK || kept == NULL) return status;
    kept->stream = stream;
    if (stream > CAI_STREAM_PER_THREAD || kept->data == NULL) return CAI_OK;
    /* In another thread, this number is another stream: state its context and its identity. */
    status = cai_array_produce(kept, &stream, 1, stream, CAI_SYNC_THIS_CALL, error);
    if (status != CAI_OK && stream == CAI_STREAM_LEGACY) {
        /* A capture may forbid it. The other default stream is of the same context. */
        const cai_stream other = CAI_STREAM_PER_THREAD;
        status = cai_array_produce(kept, &other, 1, other, CAI_SYNC_THIS_CALL, error);
        kept->stream_id = 0;
    }
    kept->stream = stream;
    return status;
}

#endif /* CAI_FRAMEWORKS_H */
