/*
 * cai/frameworks.h: what cai/torch.h, cai/xla_ffi.h and cai/tvm_ffi.h have in common. Include one
 * of those instead. C99 and C++; link the library as for cai.h.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef CAI_FRAMEWORKS_H
#define CAI_FRAMEWORKS_H

#include "cai.h"

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

/* Writes a type in the byte order of this machine. `code` is CAI_DTYPE_NONE or of an opaque type.
 */
static inline void cai_private_type(cai_array *array, char kind, int bytes, uint16_t code) {
    const uint16_t probe = 1;
    unsigned char first;
    memcpy(&first, &probe, 1);
    array->typestr[0] = '|';
    if (bytes > 1 || code != CAI_DTYPE_NONE) array->typestr[0] = first == 1 ? '<' : '>';
    snprintf(array->typestr + 1, CAI_TYPESTR_SIZE - 1, "%c%d", kind, bytes);
    array->dtype_code = code;
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

/* What every framework requires of an array: valid, no mask, the byte order of this machine, and a
   number of dimensions, elements and location that are known. Finds the location of an array whose
   device is not known; `location->type` is CAI_DEVICE_CPU, CAI_DEVICE_CUDA or CAI_DEVICE_ROCM. */
static inline cai_status cai_private_require(const cai_array *array, cai_dtype *dtype,
                                             cai_device *location, cai_error *error) {
    bool native = false;
    cai_status status = cai_array_validate(array, CAI_CHECK_LAYOUT, error);
    if (status == CAI_OK) status = cai_array_dtype(array, dtype, error);
    if (status == CAI_OK) status = cai_array_is_native(array, &native, error);
    if (status != CAI_OK) return status;
    if (array->mask != NULL) {
        return cai_private_refuse(error, CAI_ERR_CONVERT_MASK, "mask", "a mask", "none");
    }
    if (!native) {
        return cai_private_refuse(error, CAI_ERR_CONVERT_BYTE_ORDER, "typestr", array->typestr,
                                  "the byte order of this machine");
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
    if (location->type != CAI_DEVICE_CPU && location->type != CAI_DEVICE_CUDA &&
        location->type != CAI_DEVICE_ROCM) {
        return cai_private_refuse_number(error, CAI_ERR_CONVERT_DEVICE, "device.type",
                                         location->type, "memory of the host or of a GPU");
    }
    return CAI_OK;
}

/* A reference to the owner of an array, which is released after the work on a stream. */
typedef struct cai_private_later {
    cai_array array;
    cai_stream stream;
} cai_private_later;

static inline void cai_private_release_later(void *context) {
    cai_private_later *later = CAI_PRIVATE_CAST(cai_private_later *, context);
    /* Fails if the context is gone, where nothing runs any more, or if no thread can be started.
       Releasing at once is then the only way not to leak. */
    if (cai_array_release_after(&later->array, later->stream, NULL) != CAI_OK) {
        cai_array_release(&later->array);
    }
    free(later);
}

/* Adds a reference to the owner of an array, in a form that `cai_private_release_later` ends. */
static inline cai_status cai_private_keep(const cai_array *array, cai_device location,
                                          cai_stream stream, cai_private_later **out,
                                          cai_error *error) {
    const cai_array fresh = CAI_ARRAY_INIT;
    cai_private_later *later;
    cai_status status = cai_array_retain(array, error);
    if (status != CAI_OK) return status;
    later = CAI_PRIVATE_CAST(cai_private_later *, malloc(sizeof(*later)));
    if (later == NULL) {
        cai_owner_release(array->owner);
        return cai_error_set(error, CAI_ERR_NO_MEMORY, "owner", "no memory for a reference");
    }
    later->array = fresh;
    later->array.owner = array->owner;
    later->array.device = location; /* whose stream it is: of CUDA or of HIP */
    later->stream = stream;
    *out = later;
    return CAI_OK;
}

#endif /* CAI_FRAMEWORKS_H */
