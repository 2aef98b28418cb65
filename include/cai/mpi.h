/*
 * cai/mpi.h: MPI messages from and to arrays. It is not part of cai/cai.h: include it where you
 * include <mpi.h>. It adds nothing to the library; its functions are compiled into your program,
 * which links the library and MPI (3.0 or later). C99 and C++11.
 *
 *     #include <cai/mpi.h>
 *
 *     // Sends an array of any layout; the receiver's array may have another layout.
 *     static cai_status pass_on(const cai_array *array, int to, cai_error *error) {
 *         return cai_mpi_send(array, to, 0, MPI_COMM_WORLD, 0, error);
 *     }
 *
 *     // Any other function of MPI, here in place.
 *     static cai_status sum(const cai_array *array, cai_error *error) {
 *         cai_mpi_buffer it = CAI_MPI_BUFFER_INIT;
 *         const uint32_t flags = CAI_ACCESS_READ | CAI_ACCESS_WRITE | CAI_MPI_PLAIN;
 *         cai_status status = cai_mpi_begin(array, flags, &it, error);
 *         int code;
 *         if (status != CAI_OK) return status;
 *         code = MPI_Allreduce(MPI_IN_PLACE, it.address, it.count, it.datatype, MPI_SUM,
 *                              MPI_COMM_WORLD);
 *         if (code == MPI_SUCCESS) return cai_mpi_end(&it, error);
 *         cai_mpi_discard(&it);
 *         return cai_mpi_failure(code, "MPI_Allreduce", error);
 *     }
 *
 * What a message contains: the elements in C order, whatever the strides are, of the MPI type that
 * `cai_mpi_type` returns. Arrays without gaps use that type itself; the strides of others,
 * negative ones included, become a derived datatype. Counts above INT_MAX become one as well.
 *
 * Order: MPI knows no CUDA streams. The functions block the host until the array's pending work is
 * done, before MPI reads or writes; when MPI has completed, everything that is enqueued later comes
 * after it.
 *
 * Memory: host memory is passed to MPI as it is. So is device memory if MPI reports that it accepts
 * it (`cai_mpi_is_cuda_aware`) or with `CAI_MPI_DIRECT`; otherwise it is copied through the host.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef CAI_MPI_H
#define CAI_MPI_H

#include "array.h"
#include "copy.h"
#include "driver.h"
#include "dtype.h"
#include "sync.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#if defined(OPEN_MPI) && defined(__has_include)
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#endif

#if MPI_VERSION < 3
#error "cai/mpi.h needs MPI 3.0 or later"
#endif

/** A function of MPI failed: `error->field` names it, and `error->message` has MPI's text. */
#define CAI_ERR_MPI (CAI_STATUS_THIRD_PARTY + 0x4d50)

/* Flags, beside CAI_ACCESS_ and CAI_SYNC_ bits. */
/** Passes device memory to MPI as it is. The caller knows that MPI accepts it. */
#define CAI_MPI_DIRECT 0x10000
/** Copies through the host, wherever the memory is. */
#define CAI_MPI_STAGE 0x20000
/** Uses no derived datatype, as reductions require: an array with gaps is copied. */
#define CAI_MPI_PLAIN 0x40000

#define CAI_PRIVATE_MPI_SYNC (CAI_SYNC_IGNORE | CAI_SYNC_CONSERVATIVE | CAI_SYNC_THIS_CALL)

/** The elements of an array as MPI takes them, from `cai_mpi_begin` to `cai_mpi_end`. */
typedef struct {
    /** Address of the element at index zero, or of the copy. NULL if there are no elements. */
    void *address;
    /** Number of `datatype`s. */
    int count;
    /** Type of all elements together, or of one of them. Committed; do not free it. */
    MPI_Datatype datatype;
    /** The MPI type of one element, or `MPI_BYTE`. */
    MPI_Datatype element;
    /** Bytes of all elements without gaps. */
    int64_t nbytes;
    /* The rest is private. */
    cai_array array;
    void *stage;
    uint32_t flags;
    int is_derived;
} cai_mpi_buffer;

/** Initial value of a cai_mpi_buffer. */
#define CAI_MPI_BUFFER_INIT \
    {NULL, 0, MPI_DATATYPE_NULL, MPI_DATATYPE_NULL, 0, CAI_ARRAY_INIT, NULL, 0, 0}

/** A message in transit, from `cai_mpi_isend` or `cai_mpi_irecv` to `cai_mpi_wait`. */
typedef struct {
    /** MPI's request, for `MPI_Waitany` and the like; then call `cai_mpi_finish`. */
    MPI_Request request;
    /** The array's elements. */
    cai_mpi_buffer buffer;
} cai_mpi_request;

/** Initial value of a cai_mpi_request. */
#define CAI_MPI_REQUEST_INIT {MPI_REQUEST_NULL, CAI_MPI_BUFFER_INIT}

/** Returns CAI_OK for `MPI_SUCCESS`; otherwise fills the error with MPI's text for `code`. */
static inline cai_status cai_mpi_failure(int code, const char *function, cai_error *error) {
    char text[MPI_MAX_ERROR_STRING + 1];
    int length = 0;
    if (code == MPI_SUCCESS) return CAI_OK;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
    text[length] = 0;
    return cai_error_set(error, CAI_ERR_MPI, function, text);
}

/**
 * Returns whether MPI accepts device memory, as far as it can be asked: `MPIX_Query_cuda_support`
 * of Open MPI, MPICH and what derives from them. 0 for all others: use `CAI_MPI_DIRECT`.
 */
static inline int cai_mpi_is_cuda_aware(void) {
#if defined(OMPI_HAVE_MPI_EXT_CUDA) || (defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 40000000)
    return MPIX_Query_cuda_support();
#else
    return 0;
#endif
}

/**
 * Returns the MPI type of a type: the integer, float, complex or boolean type of that size;
 * `MPI_INT64_T` for times. `MPI_BYTE` for what MPI has no type for, which is passed as bytes:
 * 2-byte floats, bfloat16, 8-bit floats, text, structures, bit fields.
 */
static inline MPI_Datatype cai_mpi_type(const cai_dtype *dtype) {
    const MPI_Datatype integers[4] = {MPI_INT8_T, MPI_INT16_T, MPI_INT32_T, MPI_INT64_T};
    const MPI_Datatype naturals[4] = {MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T};
    const MPI_Datatype complexes[2] = {MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX};
    const int64_t size = dtype->itemsize;
    const int log2 = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : size == 8 ? 3 : 4;
    if (dtype->code != CAI_DTYPE_NONE) return MPI_BYTE;
    switch (dtype->kind) {
    case 'b': return size == 1 ? MPI_C_BOOL : MPI_BYTE;
    case 'i':
    case 'm':
    case 'M': return log2 < 4 ? integers[log2] : MPI_BYTE;
    case 'u': return log2 < 4 ? naturals[log2] : MPI_BYTE;
    case 'f': return size == 4 ? MPI_FLOAT : size == 8 ? MPI_DOUBLE : MPI_BYTE;
    case 'c': return size == 8 ? complexes[0] : size == 16 ? complexes[1] : MPI_BYTE;
    default: return MPI_BYTE;
    }
}

/* --- derived datatypes */

/* MPI_Type_create_hvector. Open MPI 5.0 gives some vectors with negative strides a wrong layout;
 * elements with a negative extent are right everywhere. */
static inline int cai_private_mpi_hvector(int count, int block, int64_t stride, MPI_Datatype old,
                                          MPI_Datatype *out) {
    MPI_Datatype row = old, step = MPI_DATATYPE_NULL;
    int code = MPI_SUCCESS;
    if (stride >= 0) return MPI_Type_create_hvector(count, block, stride, old, out);
    if (block != 1) code = MPI_Type_contiguous(block, old, &row);
    if (code != MPI_SUCCESS) return code;
    code = MPI_Type_create_resized(row, 0, stride, &step);
    if (block != 1) (void)MPI_Type_free(&row);
    if (code != MPI_SUCCESS) return code;
    code = MPI_Type_contiguous(count, step, out);
    (void)MPI_Type_free(&step);
    return code;
}

/* The same for any counts: more than 2^30 blocks become types of 2^30 blocks, and one of the
 * rest. `type` is replaced by the result, and freed if `*made`. */
static inline int cai_private_mpi_vector(int64_t count, int64_t block, int64_t stride,
                                         int64_t itemsize, MPI_Datatype *type, int *made) {
    const int64_t most = CAI_PRIVATE_CAST(int64_t, 1) << 30;
    const int rest = CAI_PRIVATE_CAST(int, count % most);
    MPI_Datatype old = *type, out = MPI_DATATYPE_NULL;
    int code = MPI_SUCCESS, inner = 0, blocks = 1;
    if (block > INT_MAX) code = cai_private_mpi_vector(block, 1, itemsize, itemsize, &old, &inner);
    else blocks = CAI_PRIVATE_CAST(int, block);
    if (code == MPI_SUCCESS && count <= INT_MAX) {
        code = cai_private_mpi_hvector(CAI_PRIVATE_CAST(int, count), blocks, stride, old, &out);
    } else if (code == MPI_SUCCESS) {
        const int one[2] = {1, 1};
        const MPI_Aint at[2] = {0, stride * (count / most * most)};
        MPI_Datatype chunk = MPI_DATATYPE_NULL, parts[2];
        parts[0] = parts[1] = MPI_DATATYPE_NULL;
        code = cai_private_mpi_hvector(CAI_PRIVATE_CAST(int, most), blocks, stride, old, &chunk);
        if (code == MPI_SUCCESS) {
            code = cai_private_mpi_hvector(CAI_PRIVATE_CAST(int, count / most), 1, stride * most,
                                           chunk, &parts[0]);
            (void)MPI_Type_free(&chunk);
        }
        if (code == MPI_SUCCESS && rest > 0)
            code = cai_private_mpi_hvector(rest, blocks, stride, old, &parts[1]);
        if (code == MPI_SUCCESS)
            code = MPI_Type_create_struct(rest > 0 ? 2 : 1, one, at, parts, &out);
        if (parts[0] != MPI_DATATYPE_NULL) (void)MPI_Type_free(&parts[0]);
        if (parts[1] != MPI_DATATYPE_NULL) (void)MPI_Type_free(&parts[1]);
    }
    if (inner) (void)MPI_Type_free(&old);
    if (code != MPI_SUCCESS) return code;
    if (*made) (void)MPI_Type_free(type);
    *type = out;
    *made = 1;
    return MPI_SUCCESS;
}

/* The dimensions that matter: extents above 1, those that continue each other merged. Returns their
 * number; outermost first. */
static inline int cai_private_mpi_axes(const cai_array *array, const int64_t *strides,
                                       int64_t *extents, int64_t *steps) {
    int used = 0, i;
    for (i = 0; i < array->ndim; ++i) {
        if (array->shape[i] == 1) continue;
        if (used > 0 && steps[used - 1] == strides[i] * array->shape[i]) {
            extents[used - 1] *= array->shape[i];
            steps[used - 1] = strides[i];
            continue;
        }
        extents[used] = array->shape[i];
        steps[used] = strides[i];
        ++used;
    }
    return used;
}

/* Whether two elements share bytes for certain, as with a stride of 0. */
static inline int cai_private_mpi_repeats(int used, const int64_t *extents, const int64_t *steps,
                                          int64_t itemsize) {
    int64_t pitch[CAI_MAX_NDIM], extent[CAI_MAX_NDIM], row = itemsize;
    int i, j;
    for (i = 0; i < used; ++i) {
        const int64_t step = steps[i] < 0 ? -steps[i] : steps[i];
        for (j = i; j > 0 && pitch[j - 1] > step; --j) {
            pitch[j] = pitch[j - 1];
            extent[j] = extent[j - 1];
        }
        pitch[j] = step;
        extent[j] = extents[i];
    }
    for (i = 0; i < used && pitch[i] <= row; ++i) {
        if (pitch[i] < row) return 1;
        row = pitch[i] * extent[i];
    }
    return 0;
}

/* Sets count and datatype for elements in C order without gaps, or with these strides. */
static inline cai_status cai_private_mpi_elements(cai_mpi_buffer *it, int used,
                                                  const int64_t *extents, const int64_t *steps,
                                                  int64_t itemsize, int64_t unit,
                                                  cai_error *error) {
    const int64_t per = itemsize / unit; /* `element`s in an element: 1, or its bytes */
    int64_t block = per;
    int code = MPI_SUCCESS, i = used;
    if (i > 0 && steps[i - 1] == itemsize) block *= extents[--i];
    it->datatype = it->element;
    it->count = 1;
    if (i == 0 && block <= INT_MAX) {
        it->count = CAI_PRIVATE_CAST(int, block);
        return CAI_OK;
    }
    if (i == 0) code = cai_private_mpi_vector(block, 1, unit, unit, &it->datatype, &it->is_derived);
    while (i > 0 && code == MPI_SUCCESS) {
        --i;
        code = cai_private_mpi_vector(extents[i], block, steps[i], unit, &it->datatype,
                                      &it->is_derived);
        block = 1;
    }
    if (code != MPI_SUCCESS) return cai_mpi_failure(code, "MPI_Type_create_hvector", error);
    return cai_mpi_failure(MPI_Type_commit(&it->datatype), "MPI_Type_commit", error);
}

/* Whether MPI can use the memory as it is: 1 or 0, or a status. */
static inline cai_status cai_private_mpi_direct(const cai_array *array, uint32_t flags, int *direct,
                                                cai_error *error) {
    int32_t type = array->device.type;
    *direct = 1;
    if (array->data == NULL) return CAI_OK;
    if (type == CAI_DEVICE_UNKNOWN) {
        cai_pointer_info info;
        const cai_status status = cai_pointer_info_get(array->data, &info, error);
        if (status != CAI_OK) return status;
        type = info.device.type;
    }
    switch (type) {
    case CAI_DEVICE_CPU:
    case CAI_DEVICE_CUDA_HOST: *direct = (flags & CAI_MPI_STAGE) == 0; return CAI_OK;
    case CAI_DEVICE_CUDA:
    case CAI_DEVICE_CUDA_MANAGED:
        *direct = (flags & CAI_MPI_STAGE) == 0 &&
                  ((flags & CAI_MPI_DIRECT) != 0 || cai_mpi_is_cuda_aware());
        return CAI_OK;
    case CAI_DEVICE_OPENCL:
    case CAI_DEVICE_VULKAN:
    case CAI_DEVICE_METAL:
    case CAI_DEVICE_WEBGPU:
        return cai_error_set(error, CAI_ERR_CONVERT_DEVICE, "device.type",
                             "found a handle, expected an address");
    default:
        if ((flags & (CAI_MPI_DIRECT | CAI_MPI_STAGE)) == CAI_MPI_DIRECT) return CAI_OK;
        return cai_error_set(error, CAI_ERR_CONVERT_DEVICE, "device.type",
                             "not the host's or CUDA's: use CAI_MPI_DIRECT if MPI accepts it");
    }
}

/** Frees what `cai_mpi_begin` made, without writing a copy back. Cannot fail. */
static inline void cai_mpi_discard(cai_mpi_buffer *it) {
    if (it->is_derived && it->datatype != MPI_DATATYPE_NULL) (void)MPI_Type_free(&it->datatype);
    free(it->stage);
    cai_array_release(&it->array);
    it->address = it->stage = NULL;
    it->count = it->is_derived = 0;
    it->nbytes = 0;
    it->datatype = it->element = MPI_DATATYPE_NULL;
}

/* Fills a buffer whose array is set. */
static inline cai_status cai_private_mpi_prepare(cai_mpi_buffer *it, cai_error *error) {
    const uint32_t flags = it->flags;
    const uint32_t sync = flags & CAI_PRIVATE_MPI_SYNC;
    int64_t strides[CAI_MAX_NDIM], extents[CAI_MAX_NDIM], steps[CAI_MAX_NDIM], itemsize, unit;
    const cai_array *array = &it->array;
    cai_layout layout;
    cai_dtype dtype;
    cai_status status;
    bool native = true;
    int direct = 1, used = 0;
    status = cai_array_layout(array, &layout, error); /* validates */
    if (status == CAI_OK) status = cai_array_dtype(array, &dtype, error);
    if (status == CAI_OK) status = cai_array_is_native(array, &native, error);
    if (status != CAI_OK) return status;
    if (array->mask != NULL)
        return cai_error_set(error, CAI_ERR_CONVERT_MASK, "mask",
                             "found a mask, expected none: send it as an array of its own");
    if (!native)
        return cai_error_set(error, CAI_ERR_CONVERT_BYTE_ORDER, "typestr",
                             "MPI sends the machine's byte order only");
    if (dtype.kind == 'O')
        return cai_error_set(error, CAI_ERR_CONVERT_TYPE, "typestr",
                             "Python objects cannot be sent");
    status = cai_private_mpi_direct(array, flags, &direct, error);
    if (status != CAI_OK) return status;
    it->element = it->datatype = cai_mpi_type(&dtype);
    it->nbytes = layout.nbytes;
    itemsize = dtype.itemsize;
    unit = it->element == MPI_BYTE ? 1 : itemsize;
    if (layout.nbytes == 0) return CAI_OK;
    if (itemsize == 0) { /* packed bits: bytes without strides */
        itemsize = 1;
        extents[0] = layout.nbytes;
        steps[0] = 1;
        used = 1;
    } else {
        status = cai_array_strides(array, CAI_MAX_NDIM, strides, error);
        if (status != CAI_OK) return status;
        used = cai_private_mpi_axes(array, strides, extents, steps);
    }
    if ((flags & CAI_ACCESS_WRITE) != 0 && cai_private_mpi_repeats(used, extents, steps, itemsize))
        return cai_error_set(error, CAI_ERR_ARGUMENT, "strides",
                             "found elements that share bytes, which cannot be written");
    if (direct && (flags & CAI_MPI_PLAIN) != 0 && (layout.flags & CAI_LAYOUT_C_CONTIGUOUS) == 0)
        direct = 0;
    if (direct) {
        it->address = array->data;
        status = cai_private_mpi_elements(it, used, extents, steps, itemsize, unit, error);
        if (status != CAI_OK) return status;
        return cai_array_synchronize(array, sync | (flags & (CAI_ACCESS_READ | CAI_ACCESS_WRITE)),
                                     error);
    }
    if ((flags & CAI_ACCESS_WRITE) != 0 && (array->flags & CAI_ARRAY_READONLY) != 0)
        return cai_error_set(error, CAI_ERR_READONLY, "flags", "found CAI_ARRAY_READONLY");
    extents[0] = layout.nbytes / itemsize;
    steps[0] = itemsize;
    status = cai_private_mpi_elements(it, 1, extents, steps, itemsize, unit, error);
    if (status != CAI_OK) return status;
    it->stage = malloc(CAI_PRIVATE_CAST(size_t, layout.nbytes));
    if (it->stage == NULL)
        return cai_error_set(error, CAI_ERR_NO_MEMORY, "shape", "no memory for a copy");
    it->address = it->stage;
    if ((flags & CAI_ACCESS_READ) != 0) {
        cai_array copy = CAI_ARRAY_INIT;
        status = cai_array_copy_to_host(array, CAI_STREAM_NONE, sync, it->stage,
                                        CAI_PRIVATE_CAST(size_t, layout.nbytes), &copy, error);
        cai_array_release(&copy);
    }
    return status;
}

/**
 * Prepares the elements of an array for any function of MPI: waits for the work that is pending on
 * it, makes and commits a datatype if the array has gaps, and copies device memory to the host if
 * MPI does not accept it. Blocks the host for the pending work.
 *
 * `array`: a borrowed one must live, with its shape and strides, until `cai_mpi_end`; of others a
 * reference is held.
 * `flags`: `CAI_ACCESS_READ` if MPI sends, `CAI_ACCESS_WRITE` if it receives all elements, both
 * otherwise; `CAI_MPI_` bits; any of `CAI_SYNC_IGNORE`, `CAI_SYNC_CONSERVATIVE`,
 * `CAI_SYNC_THIS_CALL`.
 * `out`: initialized (`CAI_MPI_BUFFER_INIT`), and not in use. Call `cai_mpi_end` or
 * `cai_mpi_discard` when MPI is done. After a failure there is nothing to free.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT` for other flags, and if MPI would
 * write elements that share bytes, `CAI_ERR_CONVERT_MASK`, `CAI_ERR_CONVERT_BYTE_ORDER`,
 * `CAI_ERR_CONVERT_TYPE` for Python objects, `CAI_ERR_CONVERT_DEVICE` for memory that neither the
 * host nor MPI can use, `CAI_ERR_READONLY`, `CAI_ERR_NO_MEMORY`, `CAI_ERR_MPI`, or a status of
 * `cai_array_layout`, `cai_array_synchronize`, `cai_array_copy_to_host` or `cai_pointer_info_get`.
 */
static inline cai_status cai_mpi_begin(const cai_array *array, uint32_t flags, cai_mpi_buffer *out,
                                       cai_error *error) {
    const uint32_t access = CAI_ACCESS_READ | CAI_ACCESS_WRITE;
    const uint32_t known =
        access | CAI_PRIVATE_MPI_SYNC | CAI_MPI_DIRECT | CAI_MPI_STAGE | CAI_MPI_PLAIN;
    cai_status status;
    if (array == NULL || out == NULL)
        return cai_error_set(error, CAI_ERR_NULL_ARGUMENT, array == NULL ? "array" : "out",
                             "found NULL");
    if ((flags & ~known) != 0 || (flags & access) == 0)
        return cai_error_set(error, CAI_ERR_ARGUMENT, "flags",
                             "expected CAI_ACCESS_ bits and CAI_MPI_ bits");
    if (array->struct_size < sizeof(cai_array)) return cai_array_validate(array, 0, error);
    if (array->owner != NULL) {
        status = cai_array_retain(array, error);
        if (status != CAI_OK) return status;
    }
    /* The members of the first version; an unknown flag says that others matter, and is refused. */
    memcpy(&out->array, array, sizeof(cai_array));
    out->array.struct_size = sizeof(cai_array);
    out->flags = flags;
    status = cai_private_mpi_prepare(out, error);
    if (status != CAI_OK) cai_mpi_discard(out);
    return status;
}

/* Writes the first `received` bytes of the copy back. */
static inline cai_status cai_private_mpi_end(cai_mpi_buffer *it, int64_t received,
                                             cai_error *error) {
    const uint32_t sync = it->flags & CAI_PRIVATE_MPI_SYNC;
    const size_t nbytes = CAI_PRIVATE_CAST(size_t, it->nbytes);
    cai_status status = CAI_OK;
    if (it->stage != NULL && (it->flags & CAI_ACCESS_WRITE) != 0 && received > 0) {
        if (received < it->nbytes) { /* a short message: the other elements stay as they are */
            cai_array before = CAI_ARRAY_INIT;
            status =
                cai_array_copy_to_host(&it->array, CAI_STREAM_NONE, sync, NULL, 0, &before, error);
            if (status == CAI_OK) {
                memcpy(before.data, it->stage, CAI_PRIVATE_CAST(size_t, received));
                memcpy(it->stage, before.data, nbytes);
                cai_array_release(&before);
            }
        }
        if (status == CAI_OK)
            status = cai_array_copy_from_host(&it->array, CAI_STREAM_NONE, sync, it->stage, nbytes,
                                              error);
    }
    cai_mpi_discard(it);
    return status;
}

/**
 * Writes a copy back to an array that MPI has written, and frees what `cai_mpi_begin` made. Call it
 * when MPI has completed.
 *
 * Returns `CAI_OK` or a status of `cai_array_copy_from_host`. Everything is freed in any case.
 */
static inline cai_status cai_mpi_end(cai_mpi_buffer *it, cai_error *error) {
    return cai_private_mpi_end(it, it->nbytes, error);
}

/* --- messages */

/**
 * Completes a message whose MPI request has completed, by `MPI_Waitany` or `MPI_Test` for example.
 * If the message is shorter than the array, the other elements stay as they are.
 *
 * `status`: what MPI reported about the request.
 *
 * Returns a status of `cai_mpi_end`. Everything is freed in any case.
 */
static inline cai_status cai_mpi_finish(cai_mpi_request *it, const MPI_Status *status,
                                        cai_error *error) {
    int64_t received = it->buffer.nbytes;
    it->request = MPI_REQUEST_NULL;
    if (it->buffer.stage != NULL && (it->buffer.flags & CAI_ACCESS_WRITE) != 0) {
        MPI_Count elements = 0;
        int size = 1;
        int code = MPI_Get_elements_x(status, it->buffer.element, &elements);
        if (code == MPI_SUCCESS) code = MPI_Type_size(it->buffer.element, &size);
        if (code != MPI_SUCCESS) {
            cai_mpi_discard(&it->buffer);
            return cai_mpi_failure(code, "MPI_Get_elements", error);
        }
        received = CAI_PRIVATE_CAST(int64_t, elements) * size;
    }
    return cai_private_mpi_end(&it->buffer, received, error);
}

/**
 * Waits for a message, and completes it as `cai_mpi_finish`. Does nothing for a request that is not
 * in use.
 *
 * `out_status`: gets MPI's status; may be NULL or `MPI_STATUS_IGNORE`.
 *
 * Returns `CAI_OK`, `CAI_ERR_MPI` or a status of `cai_mpi_end`. Everything is freed in any case.
 */
static inline cai_status cai_mpi_wait(cai_mpi_request *it, MPI_Status *out_status,
                                      cai_error *error) {
    MPI_Status status;
    int code;
    if (it->buffer.datatype == MPI_DATATYPE_NULL) return CAI_OK;
    code = MPI_Wait(&it->request, &status);
    if (out_status != NULL && out_status != MPI_STATUS_IGNORE) *out_status = status;
    if (code == MPI_SUCCESS) return cai_mpi_finish(it, &status, error);
    cai_mpi_discard(&it->buffer);
    return cai_mpi_failure(code, "MPI_Wait", error);
}

/**
 * Waits for all of `count` messages.
 *
 * Returns the first failure, after all of them were waited for, or `CAI_OK`.
 */
static inline cai_status cai_mpi_wait_all(int count, cai_mpi_request *requests, cai_error *error) {
    cai_status first = CAI_OK;
    int i;
    for (i = 0; i < count; ++i) {
        const cai_status status = cai_mpi_wait(&requests[i], NULL, first == CAI_OK ? error : NULL);
        if (first == CAI_OK) first = status;
    }
    return first;
}

/**
 * Starts to send an array, as `MPI_Isend`, after the work that is pending on it. Until the message
 * was waited for, nothing may write the data.
 *
 * `flags`: `CAI_MPI_` and `CAI_SYNC_` bits, as in `cai_mpi_begin`.
 * `out`: initialized (`CAI_MPI_REQUEST_INIT`), and not in use. Complete it with `cai_mpi_wait`.
 *
 * Returns a status of `cai_mpi_begin`.
 */
static inline cai_status cai_mpi_isend(const cai_array *array, int destination, int tag,
                                       MPI_Comm communicator, uint32_t flags, cai_mpi_request *out,
                                       cai_error *error) {
    cai_mpi_buffer *it = &out->buffer;
    cai_status status = cai_mpi_begin(array, flags | CAI_ACCESS_READ, it, error);
    if (status != CAI_OK) return status;
    status = cai_mpi_failure(MPI_Isend(it->address, it->count, it->datatype, destination, tag,
                                       communicator, &out->request),
                             "MPI_Isend", error);
    if (status != CAI_OK) cai_mpi_discard(it);
    return status;
}

/**
 * Starts to receive into an array, as `MPI_Irecv`, after the work that is pending on it. Until the
 * message was waited for, nothing may read or write the data.
 *
 * `flags`, `out`: as in `cai_mpi_isend`.
 *
 * Returns a status of `cai_mpi_begin`.
 */
static inline cai_status cai_mpi_irecv(const cai_array *array, int source, int tag,
                                       MPI_Comm communicator, uint32_t flags, cai_mpi_request *out,
                                       cai_error *error) {
    cai_mpi_buffer *it = &out->buffer;
    cai_status status = cai_mpi_begin(array, flags | CAI_ACCESS_WRITE, it, error);
    if (status != CAI_OK) return status;
    status = cai_mpi_failure(
        MPI_Irecv(it->address, it->count, it->datatype, source, tag, communicator, &out->request),
        "MPI_Irecv", error);
    if (status != CAI_OK) cai_mpi_discard(it);
    return status;
}

/** Sends an array, as `MPI_Send`. Returns a status of `cai_mpi_begin`. */
static inline cai_status cai_mpi_send(const cai_array *array, int destination, int tag,
                                      MPI_Comm communicator, uint32_t flags, cai_error *error) {
    cai_mpi_request it = CAI_MPI_REQUEST_INIT;
    const cai_status status =
        cai_mpi_isend(array, destination, tag, communicator, flags, &it, error);
    return status != CAI_OK ? status : cai_mpi_wait(&it, NULL, error);
}

/** Receives into an array, as `MPI_Recv`. Returns a status of `cai_mpi_begin` or `cai_mpi_end`. */
static inline cai_status cai_mpi_recv(const cai_array *array, int source, int tag,
                                      MPI_Comm communicator, uint32_t flags, MPI_Status *out_status,
                                      cai_error *error) {
    cai_mpi_request it = CAI_MPI_REQUEST_INIT;
    const cai_status status = cai_mpi_irecv(array, source, tag, communicator, flags, &it, error);
    return status != CAI_OK ? status : cai_mpi_wait(&it, out_status, error);
}

#endif /* CAI_MPI_H */
