/*
 * cai/mpi.h (unstable: may change in any minor release): MPI messages from and to arrays. Include
 * it yourself: cai/cai.h does not. The library does not use MPI: these functions are compiled into
 * your program, which links the library and MPI (3.0 or later). C99 and C++11.
 *
 *     #include <cai/mpi.h>
 *
 *     // Receives an array and sends it on. The arrays of the three ranks may differ in layout.
 *     static cai_status pass_on(const cai_array *array, int from, int to, cai_error *error) {
 *         cai_status status = cai_mpi_recv(array, from, 0, MPI_COMM_WORLD, 0, NULL, error);
 *         if (status != CAI_OK) return status;
 *         return cai_mpi_send(array, to, 0, MPI_COMM_WORLD, 0, error);
 *     }
 *
 *     // Sends a prepared message once more.
 *     static cai_status again(cai_mpi_request *it, cai_error *error) {
 *         const cai_status status = cai_mpi_start(it, error);
 *         return status == CAI_OK ? cai_mpi_wait(it, NULL, error) : status;
 *     }
 *
 *     // Completes a message of cai_mpi_irecv if it has arrived.
 *     static cai_status poll(cai_mpi_request *it, int *done, cai_error *error) {
 *         MPI_Status status;
 *         const int code = MPI_Test(&it->request, done, &status);
 *         if (code == MPI_SUCCESS) return *done ? cai_mpi_finish(it, &status, error) : CAI_OK;
 *         if (it->request == MPI_REQUEST_NULL) cai_mpi_discard(&it->buffer);
 *         return cai_mpi_failure(code, "MPI_Test", error);
 *     }
 *
 *     // Any other function of MPI: here a reduction in place.
 *     static cai_status sum(const cai_array *array, cai_error *error) {
 *         cai_mpi_buffer it = CAI_MPI_BUFFER_INIT;
 *         const uint32_t flags = CAI_ACCESS_READ | CAI_ACCESS_WRITE | CAI_MPI_PLAIN;
 *         cai_dtype dtype;
 *         cai_status status = cai_array_dtype(array, &dtype, error);
 *         int code;
 *         if (status == CAI_OK && cai_mpi_type(&dtype) == MPI_BYTE)
 *             status = cai_error_set(error, CAI_ERR_CONVERT_TYPE, "typestr", "expected numbers");
 *         if (status == CAI_OK) status = cai_mpi_begin(array, flags, &it, error);
 *         if (status != CAI_OK) return status;
 *         code = MPI_Allreduce(MPI_IN_PLACE, it.address, it.count, it.datatype, MPI_SUM,
 *                              MPI_COMM_WORLD);
 *         if (code == MPI_SUCCESS) return cai_mpi_end(&it, error);
 *         cai_mpi_discard(&it);
 *         return cai_mpi_failure(code, "MPI_Allreduce", error);
 *     }
 *
 *     // Whether MPI takes the memory of a device, without a copy through the host.
 *     static int is_direct(const cai_array *array) {
 *         const int rocm = array->device.type == CAI_DEVICE_ROCM;
 *         return rocm ? cai_mpi_is_rocm_aware() : cai_mpi_is_cuda_aware();
 *     }
 *
 * What a message contains: the elements in C order, whatever the strides are, of the MPI type that
 * `cai_mpi_type` returns. Arrays without gaps use that type itself; other strides, also negative
 * ones, become a derived datatype. So do counts above INT_MAX.
 *
 * Order: MPI does not know CUDA streams. Before MPI reads or writes, the functions block the host
 * until the array's pending work is done. When MPI has completed, no work of MPI is pending. For
 * `CAI_STREAM_UNKNOWN` the functions wait for the array's event, and without one for the array's
 * context.
 *
 * Memory: MPI gets the address of host memory. It gets the address of device memory if it reports
 * that it accepts it (`cai_mpi_is_cuda_aware`) or with `CAI_MPI_DIRECT`; otherwise the data is
 * copied through the host.
 *
 * Cost: no allocation for an array without gaps that MPI accepts. Gaps cost one derived datatype
 * for each message, or one for all messages that `cai_mpi_send_init` or `cai_mpi_recv_init`
 * prepares. A copy through the host costs pageable memory of its size, as often, and a blocking
 * copy, on a stream of its own, for each message.
 *
 * Thread safety of all functions: any thread if MPI was initialized with `MPI_THREAD_MULTIPLE`, but
 * one thread at a time for one buffer or request. Otherwise as MPI's own functions.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef CAI_MPI_H
#define CAI_MPI_H

#include <cai/array.h>
#include <cai/driver.h>
#include <cai/dtype.h>
#include "messages.h"
#include <cai/sync.h>
#include <cai/unstable/copy.h>

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

#include "mpi_check.h"
#include "mpi_types.h"

/** A function of MPI failed: `error->field` names it, and `error->message` has MPI's text. */
#define CAI_ERR_MPI (CAI_STATUS_THIRD_PARTY + 0x4d50)

/* Flags, beside CAI_ACCESS_ and CAI_SYNC_ bits. */
/** Passes device memory to MPI as it is. The caller knows that MPI accepts it. */
#define CAI_MPI_DIRECT 0x10000
/** Copies through pageable host memory, wherever the array is. Overrides `CAI_MPI_DIRECT`. */
#define CAI_MPI_STAGE 0x20000
/** Uses no derived datatype, as reductions require: an array with gaps is copied through the host,
 *  and one of more than INT_MAX elements is refused. */
#define CAI_MPI_PLAIN 0x40000
/** For messages, while you look for a mistake: the sender states type and shape in front of the
 *  elements, and the receiver compares them with its array, which stays as it is if they differ
 *  (`CAI_ERR_MPI_MISMATCH`). Both sides set it: a receiver alone reports that, and a sender alone
 *  sends 808 bytes too many, which MPI reports unless the receiver has room for them. Messages that
 *  are shorter than the array, or have another shape, are mismatches. All data is copied through
 *  the host. */
#define CAI_MPI_CHECK 0x80000

#define CAI_PRIVATE_MPI_SYNC (CAI_SYNC_IGNORE | CAI_SYNC_CONSERVATIVE | CAI_SYNC_THIS_CALL)

/** Elements of an array as MPI accepts them, from `cai_mpi_begin` to `cai_mpi_end`. */
typedef struct {
    /** Address of the element at index zero, or of the copy. NULL if there are no elements. */
    void *address;
    /** Number of `datatype`s. 0 if there are no elements. */
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

/** A message in transit, from `cai_mpi_isend` or `cai_mpi_irecv` to `cai_mpi_wait`; or one that is
 *  sent many times, from `cai_mpi_send_init` or `cai_mpi_recv_init` to `cai_mpi_request_free`. */
typedef struct {
    /** MPI's request, for `MPI_Test` and others. When it is done, call `cai_mpi_finish`. */
    MPI_Request request;
    /** The array's elements. */
    cai_mpi_buffer buffer;
    /* The rest is private. */
    MPI_Comm communicator;
    int peer, tag;
    int is_prepared; /* it can be started again */
    int is_idle;     /* and is not in transit */
} cai_mpi_request;

/** Initial value of a cai_mpi_request. */
#define CAI_MPI_REQUEST_INIT {MPI_REQUEST_NULL, CAI_MPI_BUFFER_INIT, MPI_COMM_NULL, 0, 0, 0, 0}

/**
 * Converts a code of MPI to a status: `CAI_OK` for `MPI_SUCCESS`, otherwise `CAI_ERR_MPI` with
 * MPI's text in the error. MPI returns codes if the communicator has the error handler
 * `MPI_ERRORS_RETURN`; with MPI's default handler, a failure ends the program.
 *
 * `function`: name of the function that returned `code`, for `error->field`.
 */
static inline cai_status cai_mpi_failure(int code, const char *function, cai_error *error) {
    char text[MPI_MAX_ERROR_STRING + 1];
    int length = 0;
    if (code == MPI_SUCCESS) return CAI_OK;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
    text[length] = 0;
    return cai_error_set(error, CAI_ERR_MPI, function, text);
}

/**
 * Returns whether MPI reports that it accepts device memory, with `MPIX_Query_cuda_support` of Open
 * MPI, MPICH and MPIs that derive from them. Returns 0 for others: use `CAI_MPI_DIRECT`.
 */
static inline int cai_mpi_is_cuda_aware(void) {
#if defined(OMPI_HAVE_MPI_EXT_CUDA) || (defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 40000000)
    return MPIX_Query_cuda_support();
#else
    return 0;
#endif
}

/** Returns whether MPI reports that it accepts memory of ROCm devices. */
static inline int cai_mpi_is_rocm_aware(void) {
#if defined(OMPI_HAVE_MPI_EXT_ROCM)
    return MPIX_Query_rocm_support();
#elif defined(MPIX_GPU_SUPPORT_HIP)
    int is_supported = 0;
    const int code = MPIX_GPU_query_support(MPIX_GPU_SUPPORT_HIP, &is_supported);
    return code == MPI_SUCCESS && is_supported;
#else
    return 0;
#endif
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
    if ((it->flags & CAI_MPI_PLAIN) != 0)
        return cai_error_set(error, CAI_ERR_ARGUMENT, "flags",
                             "found CAI_MPI_PLAIN and more than INT_MAX elements: pass parts");
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
    const int stage = (flags & CAI_MPI_STAGE) != 0, known = (flags & CAI_MPI_DIRECT) != 0;
    int32_t type = array->device.type;
    *direct = 1;
    if (array->data == NULL) return CAI_OK;
    if (type == CAI_DEVICE_UNKNOWN) {
        cai_pointer_info info;
        const cai_status status = cai_pointer_info_get(array->data, &info, error);
        if (status == CAI_ERR_NO_DRIVER)
            return cai_error_set(error, status, "device.type",
                                 "found CAI_DEVICE_UNKNOWN, and no CUDA driver that knows the "
                                 "memory: state CAI_DEVICE_CPU if it is the host's");
        if (status != CAI_OK) return status;
        type = info.device.type;
    }
    if (CAI_PRIVATE_IS_IN(CAI_PRIVATE_HANDLES, type))
        return cai_error_set(error, CAI_ERR_CONVERT_DEVICE, "device.type",
                             "found a handle, expected an address");
    switch (type) {
    case CAI_DEVICE_CPU:
    case CAI_DEVICE_CUDA_HOST:
    case CAI_DEVICE_ROCM_HOST: *direct = !stage; return CAI_OK;
    case CAI_DEVICE_CUDA:
    case CAI_DEVICE_CUDA_MANAGED:
        *direct = !stage && (known || cai_mpi_is_cuda_aware());
        return CAI_OK;
    default:
        if (stage)
            return cai_error_set(error, CAI_ERR_CONVERT_DEVICE, "device.type",
                                 "found memory that cannot be copied through the host, expected "
                                 "the host's or CUDA's");
        if (known || (type == CAI_DEVICE_ROCM && cai_mpi_is_rocm_aware())) return CAI_OK;
        return cai_error_set(error, CAI_ERR_CONVERT_DEVICE, "device.type",
                             "found memory of neither the host nor CUDA: use CAI_MPI_DIRECT if MPI "
                             "accepts it");
    }
}

/**
 * Frees what `cai_mpi_begin` allocated and releases its reference, without writing a copy back.
 * Call it if MPI failed. Does nothing for NULL and for a buffer that is not in use. Cannot fail.
 */
static inline void cai_mpi_discard(cai_mpi_buffer *it) {
    if (it == NULL) return;
    if (it->is_derived && it->datatype != MPI_DATATYPE_NULL) (void)MPI_Type_free(&it->datatype);
    free(it->stage);
    cai_array_release(&it->array);
    it->address = it->stage = NULL;
    it->count = it->is_derived = 0;
    it->nbytes = 0;
    it->datatype = it->element = MPI_DATATYPE_NULL;
}

/* Bytes in front of the elements in a message. */
static inline size_t cai_private_mpi_stated(const cai_mpi_buffer *it) {
    return (it->flags & CAI_MPI_CHECK) != 0 ? sizeof(cai_private_mpi_header) : 0;
}

/* Fills a buffer whose array is set, but for the contents of a copy. */
static inline cai_status cai_private_mpi_prepare(cai_mpi_buffer *it, cai_error *error) {
    const uint32_t flags = it->flags;
    const int64_t stated = CAI_PRIVATE_CAST(int64_t, cai_private_mpi_stated(it));
    int64_t strides[CAI_MAX_NDIM], extents[CAI_MAX_NDIM], steps[CAI_MAX_NDIM], itemsize, unit;
    const cai_array *array = &it->array;
    cai_layout layout;
    cai_dtype dtype;
    cai_status status;
    int direct = 1, used = 0;
    status = cai_private_message(array, &layout, &dtype, error); /* validates */
    if (status != CAI_OK) return status;
    if ((flags & CAI_ACCESS_WRITE) != 0 && (array->flags & CAI_ARRAY_READONLY) != 0)
        return cai_error_set(error, CAI_ERR_READONLY, "flags",
                             "found CAI_ARRAY_READONLY, expected an array that MPI may write");
    status = cai_private_mpi_direct(array, flags, &direct, error);
    if (status != CAI_OK) return status;
    it->element = it->datatype = cai_mpi_type(&dtype);
    it->nbytes = layout.nbytes;
    itemsize = dtype.itemsize;
    unit = it->element == MPI_BYTE ? 1 : itemsize;
    if (layout.nbytes == 0 && stated == 0) return CAI_OK;
    if (layout.nbytes == 0) {
        direct = 0;
    } else if (itemsize == 0) { /* packed bits: bytes without strides */
        itemsize = 1;
        extents[0] = layout.nbytes;
        steps[0] = 1;
        used = 1;
    } else {
        status = cai_array_strides(array, strides, CAI_MAX_NDIM, error);
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
        return cai_private_mpi_elements(it, used, extents, steps, itemsize, unit, error);
    }
    if (stated != 0) {
        it->element = MPI_BYTE;
        it->count = 1;
        status = cai_mpi_failure(cai_private_mpi_stated_type(layout.nbytes, &it->datatype),
                                 "MPI_Type_create_struct", error);
        it->is_derived = status == CAI_OK;
        if (status == CAI_OK)
            status = cai_mpi_failure(MPI_Type_commit(&it->datatype), "MPI_Type_commit", error);
    } else {
        extents[0] = layout.nbytes / itemsize;
        steps[0] = itemsize;
        status = cai_private_mpi_elements(it, 1, extents, steps, itemsize, unit, error);
    }
    if (status != CAI_OK) return status;
    it->stage = malloc(CAI_PRIVATE_CAST(size_t, stated + layout.nbytes));
    if (it->stage == NULL)
        return cai_error_set(error, CAI_ERR_NO_MEMORY, "shape", "no memory for a copy on the host");
    it->address = it->stage;
    return CAI_OK;
}

/* The copy's elements. */
static inline void *cai_private_mpi_copy(const cai_mpi_buffer *it) {
    return CAI_PRIVATE_CAST(char *, it->stage) + cai_private_mpi_stated(it);
}

/* Waits for the work that is pending on the array, and fills a copy that MPI reads. */
static inline cai_status cai_private_mpi_load(cai_mpi_buffer *it, cai_error *error) {
    const uint32_t sync = it->flags & CAI_PRIVATE_MPI_SYNC;
    if (cai_private_mpi_stated(it) != 0) {
        cai_private_mpi_header header;
        memset(&header, 0, sizeof(header));
        if ((it->flags & CAI_ACCESS_READ) != 0) cai_private_mpi_state(&it->array, &header);
        memcpy(it->stage, &header, sizeof(header));
    }
    if (it->nbytes == 0) return CAI_OK;
    if (it->stage != NULL && (it->flags & CAI_ACCESS_READ) != 0) {
        cai_array copy = CAI_ARRAY_INIT;
        const cai_status status = cai_unstable_array_copy_to_host(
            &it->array, CAI_STREAM_NONE, sync, cai_private_mpi_copy(it),
            CAI_PRIVATE_CAST(size_t, it->nbytes), &copy, error);
        cai_array_release(&copy);
        return status;
    }
    /* Of a copy that MPI writes, only the copy back would have to wait. But a stream that cannot be
     * waited for is refused before a message is taken from MPI. */
    return cai_array_synchronize(&it->array,
                                 sync | (it->flags & (CAI_ACCESS_READ | CAI_ACCESS_WRITE)), error);
}

/* `cai_mpi_begin`, but for the wait and the contents of a copy. `check`: CAI_MPI_CHECK or 0. */
static inline cai_status cai_private_mpi_open(const cai_array *array, uint32_t flags,
                                              uint32_t check, cai_mpi_buffer *out,
                                              cai_error *error) {
    const cai_mpi_buffer unused = CAI_MPI_BUFFER_INIT;
    const uint32_t access = CAI_ACCESS_READ | CAI_ACCESS_WRITE;
    const uint32_t known =
        access | CAI_PRIVATE_MPI_SYNC | CAI_MPI_DIRECT | CAI_MPI_STAGE | CAI_MPI_PLAIN;
    cai_status status;
    if (out != NULL) *out = unused;
    if (array == NULL || out == NULL)
        return cai_error_set(error, CAI_ERR_NULL_ARGUMENT, array == NULL ? "array" : "out",
                             "found NULL");
    if ((flags & ~known) != 0 || (flags & access) == 0)
        return cai_error_set(error, CAI_ERR_ARGUMENT, "flags",
                             "expected CAI_ACCESS_ bits, and any of the CAI_MPI_ bits (of "
                             "messages alone: CAI_MPI_CHECK), CAI_SYNC_IGNORE, "
                             "CAI_SYNC_CONSERVATIVE and CAI_SYNC_THIS_CALL");
    if (array->struct_size < sizeof(cai_array)) return cai_array_validate(array, 0, error);
    if (array->owner != NULL) {
        status = cai_array_retain(array, error);
        if (status != CAI_OK) return status;
    }
    /* The members of the first version; an unknown flag says that others matter, and is refused. */
    memcpy(&out->array, array, sizeof(cai_array));
    out->array.struct_size = sizeof(cai_array);
    out->flags = flags | check | (check != 0 ? CAI_MPI_STAGE : 0);
    status = cai_private_mpi_prepare(out, error);
    if (status != CAI_OK) cai_mpi_discard(out);
    return status;
}

/**
 * Prepares the elements of an array for any function of MPI: blocks the host until the work that is
 * pending on the array is done, makes and commits a datatype if the array has gaps, and copies
 * device memory to the host if MPI does not accept it.
 *
 * `array`: if it has an owner, the buffer holds a reference until `cai_mpi_end` or
 * `cai_mpi_discard`, and the caller may release its own earlier. A borrowed array must live until
 * then, with its shape and strides.
 * `flags`: `CAI_ACCESS_READ` if MPI sends, `CAI_ACCESS_WRITE` if it receives all elements, both
 * otherwise; `CAI_MPI_` bits except `CAI_MPI_CHECK`; any of `CAI_SYNC_IGNORE`,
 * `CAI_SYNC_CONSERVATIVE`, `CAI_SYNC_THIS_CALL`. `out`: overwritten; a buffer that is in use would
 * be lost. Call `cai_mpi_end` when MPI is done, or `cai_mpi_discard` if MPI failed. If this
 * function fails, `out` is `CAI_MPI_BUFFER_INIT`, and there is nothing to free.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT` for other flags, if MPI would write
 * elements that share bytes, and for `CAI_MPI_PLAIN` with more than INT_MAX elements,
 * `CAI_ERR_CONVERT_MASK`, `CAI_ERR_CONVERT_BYTE_ORDER`, `CAI_ERR_CONVERT_TYPE` for Python objects,
 * `CAI_ERR_CONVERT_DEVICE` for memory that neither the host nor MPI can use, `CAI_ERR_READONLY`,
 * `CAI_ERR_NO_MEMORY`, `CAI_ERR_MPI`, or a status of `cai_array_layout`, `cai_array_synchronize`,
 * `cai_unstable_array_copy_to_host` or `cai_pointer_info_get`.
 */
static inline cai_status cai_mpi_begin(const cai_array *array, uint32_t flags, cai_mpi_buffer *out,
                                       cai_error *error) {
    cai_status status = cai_private_mpi_open(array, flags, 0, out, error);
    if (status != CAI_OK) return status;
    status = cai_private_mpi_load(out, error);
    if (status != CAI_OK) cai_mpi_discard(out);
    return status;
}

/* Writes the first `received` bytes of the copy back. */
static inline cai_status cai_private_mpi_store(cai_mpi_buffer *it, int64_t received,
                                               cai_error *error) {
    const uint32_t sync = it->flags & CAI_PRIVATE_MPI_SYNC;
    const size_t nbytes = CAI_PRIVATE_CAST(size_t, it->nbytes);
    cai_status status = CAI_OK;
    if (it->stage != NULL && (it->flags & CAI_ACCESS_WRITE) != 0 && received > 0) {
        if (received < it->nbytes) { /* a short message: the other elements stay as they are */
            cai_array before = CAI_ARRAY_INIT;
            status = cai_unstable_array_copy_to_host(&it->array, CAI_STREAM_NONE, sync, NULL, 0,
                                                     &before, error);
            if (status == CAI_OK) {
                memcpy(before.data, cai_private_mpi_copy(it), CAI_PRIVATE_CAST(size_t, received));
                memcpy(cai_private_mpi_copy(it), before.data, nbytes);
                cai_array_release(&before);
            }
        }
        if (status == CAI_OK)
            status = cai_unstable_array_copy_from_host(&it->array, CAI_STREAM_NONE, sync,
                                                       cai_private_mpi_copy(it), nbytes, error);
    }
    return status;
}

/**
 * Writes a copy back to an array that MPI has written, frees what `cai_mpi_begin` allocated, and
 * releases its reference. Call it when MPI has completed. Does nothing for a buffer that is not in
 * use.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT` or a status of `cai_unstable_array_copy_from_host`.
 * Everything is freed in any case.
 */
static inline cai_status cai_mpi_end(cai_mpi_buffer *it, cai_error *error) {
    cai_status status;
    if (it == NULL) return cai_error_set(error, CAI_ERR_NULL_ARGUMENT, "it", "found NULL");
    status = cai_private_mpi_store(it, it->nbytes, error);
    cai_mpi_discard(it);
    return status;
}

/* --- messages */

/* Number of bytes that arrived, for a message that goes through a copy; -1 if there was none. */
static inline cai_status cai_private_mpi_received(const cai_mpi_buffer *it,
                                                  const MPI_Status *status, int64_t *bytes,
                                                  cai_error *error) {
    MPI_Count elements = 0;
    int size = 1, is_cancelled = 0;
    int code = MPI_Test_cancelled(status, &is_cancelled);
    *bytes = -1;
    if (code == MPI_SUCCESS && (is_cancelled || status->MPI_SOURCE == MPI_PROC_NULL)) return CAI_OK;
    if (code == MPI_SUCCESS) code = MPI_Get_elements_x(status, it->element, &elements);
    if (code == MPI_SUCCESS) code = MPI_Type_size(it->element, &size);
    if (code != MPI_SUCCESS) return cai_mpi_failure(code, "MPI_Get_elements", error);
    if (elements == MPI_UNDEFINED)
        return cai_error_set(error, CAI_ERR_MPI, "MPI_Get_elements",
                             "found a message that ends within an element");
    *bytes = elements;
    *bytes *= size;
    return CAI_OK;
}

/* MPI is done with the message. */
static inline void cai_private_mpi_done(cai_mpi_request *it) {
    it->request = MPI_REQUEST_NULL;
    if (it->is_prepared) it->is_idle = 1;
    else cai_mpi_discard(&it->buffer);
}

/**
 * Completes a message whose MPI request has completed successfully, for example with `MPI_Waitany`
 * or `MPI_Test`: writes a copy back, and frees what the message needed unless it was prepared to be
 * sent many times. If the message is shorter than the array, the other elements do not change. For
 * a request that failed, and that MPI has set to `MPI_REQUEST_NULL`, call
 * `cai_mpi_discard(&it->buffer)` instead.
 *
 * `status`: what MPI reported about the request. NULL or `MPI_STATUS_IGNORE` only if it is a send.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, after which nothing has changed, `CAI_ERR_MPI`,
 * `CAI_ERR_MPI_MISMATCH` or a status of `cai_mpi_end`. In all other cases, the message is complete.
 */
static inline cai_status cai_mpi_finish(cai_mpi_request *it, const MPI_Status *status,
                                        cai_error *error) {
    int64_t received;
    cai_status result = CAI_OK;
    if (it == NULL) return cai_error_set(error, CAI_ERR_NULL_ARGUMENT, "it", "found NULL");
    if (it->is_idle) return CAI_OK;
    received = it->buffer.nbytes;
    if ((it->buffer.flags & CAI_ACCESS_WRITE) != 0 &&
        (status == NULL || status == MPI_STATUS_IGNORE))
        return cai_error_set(error, CAI_ERR_NULL_ARGUMENT, "status",
                             "found none, expected what MPI reported: a message may be shorter "
                             "than the array");
    if (it->buffer.stage != NULL && (it->buffer.flags & CAI_ACCESS_WRITE) != 0)
        result = cai_private_mpi_received(&it->buffer, status, &received, error);
    if (result == CAI_OK && received >= 0 && (it->buffer.flags & CAI_MPI_CHECK) != 0 &&
        (it->buffer.flags & CAI_ACCESS_WRITE) != 0) {
        result = cai_private_mpi_compare(&it->buffer.array, it->buffer.stage, received,
                                         status->MPI_SOURCE, status->MPI_TAG, error);
        received = it->buffer.nbytes;
    }
    if (result == CAI_OK) result = cai_private_mpi_store(&it->buffer, received, error);
    cai_private_mpi_done(it);
    return result;
}

/**
 * Waits for a message, and completes it as `cai_mpi_finish` does. Does nothing for a request that
 * is not in use, or prepared and not started.
 *
 * `out_status`: gets MPI's status; may be NULL or `MPI_STATUS_IGNORE`.
 *
 * If MPI fails and keeps the request, as a receive of `MPI_ANY_SOURCE` when a process has ended,
 * the message is cancelled. If that fails too, it remains in transit, because MPI may use the
 * memory.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_MPI`, `CAI_ERR_MPI_MISMATCH` or a status of
 * `cai_mpi_end`. Otherwise everything is freed, or the prepared request can be started again.
 */
static inline cai_status cai_mpi_wait(cai_mpi_request *it, MPI_Status *out_status,
                                      cai_error *error) {
    MPI_Status status;
    cai_status result;
    int code, kind = MPI_SUCCESS;
    if (it == NULL) return cai_error_set(error, CAI_ERR_NULL_ARGUMENT, "it", "found NULL");
    if (it->is_idle || it->buffer.datatype == MPI_DATATYPE_NULL) return CAI_OK;
    code = MPI_Wait(&it->request, &status);
    if (out_status != NULL && out_status != MPI_STATUS_IGNORE) *out_status = status;
    if (code == MPI_SUCCESS) return cai_mpi_finish(it, &status, error);
    result = cai_mpi_failure(code, "MPI_Wait", error);
    if ((it->buffer.flags & CAI_MPI_CHECK) != 0 && (it->buffer.flags & CAI_ACCESS_WRITE) != 0 &&
        MPI_Error_class(code, &kind) == MPI_SUCCESS && kind == MPI_ERR_TRUNCATE &&
        cai_private_mpi_is_stated(it->buffer.stage)) {
        /* MPI has no room for the elements, but what the sender states about them may be there. */
        const cai_status mismatch =
            cai_private_mpi_compare(&it->buffer.array, it->buffer.stage,
                                    CAI_PRIVATE_CAST(int64_t, sizeof(cai_private_mpi_header)),
                                    status.MPI_SOURCE, status.MPI_TAG, error);
        if (mismatch != CAI_OK) result = mismatch;
    }
    if (it->request != MPI_REQUEST_NULL) { /* MPI has not given the memory back */
        (void)MPI_Cancel(&it->request);
        if (MPI_Wait(&it->request, MPI_STATUS_IGNORE) != MPI_SUCCESS &&
            it->request != MPI_REQUEST_NULL)
            return result;
    }
    cai_private_mpi_done(it);
    return result;
}

/**
 * Waits for `count` messages, one after the other.
 *
 * Returns the first failure, after it has waited for all messages, or `CAI_OK`.
 */
static inline cai_status cai_mpi_wait_all(int count, cai_mpi_request *requests, cai_error *error) {
    cai_status first = CAI_OK;
    int i;
    if (count < 0) return cai_error_set(error, CAI_ERR_ARGUMENT, "count", "found less than 0");
    if (count > 0 && requests == NULL)
        return cai_error_set(error, CAI_ERR_NULL_ARGUMENT, "requests", "found NULL");
    for (i = 0; i < count; ++i) {
        const cai_status status = cai_mpi_wait(&requests[i], NULL, first == CAI_OK ? error : NULL);
        if (first == CAI_OK) first = status;
    }
    return first;
}

/* Makes `out` a request for messages of an array. */
static inline cai_status cai_private_mpi_request(const cai_array *array, uint32_t access, int peer,
                                                 int tag, MPI_Comm communicator, uint32_t flags,
                                                 cai_mpi_request *out, cai_error *error) {
    const cai_mpi_request unused = CAI_MPI_REQUEST_INIT;
    if (out == NULL) return cai_error_set(error, CAI_ERR_NULL_ARGUMENT, "out", "found NULL");
    *out = unused;
    if ((flags & (CAI_ACCESS_READ | CAI_ACCESS_WRITE)) != 0)
        return cai_error_set(error, CAI_ERR_ARGUMENT, "flags",
                             "found CAI_ACCESS_ bits, which a message determines itself");
    out->communicator = communicator;
    out->peer = peer;
    out->tag = tag;
    return cai_private_mpi_open(array,
                                (flags & ~CAI_PRIVATE_CAST(uint32_t, CAI_MPI_CHECK)) | access,
                                flags & CAI_MPI_CHECK, &out->buffer, error);
}

/* Starts the message of a request that is not in transit and whose copy is filled. */
static inline cai_status cai_private_mpi_post(cai_mpi_request *it, cai_error *error) {
    const cai_mpi_buffer *from = &it->buffer;
    cai_status status;
    if ((from->flags & CAI_ACCESS_READ) != 0)
        status = cai_mpi_failure(MPI_Isend(from->address, from->count, from->datatype, it->peer,
                                           it->tag, it->communicator, &it->request),
                                 "MPI_Isend", error);
    else
        status = cai_mpi_failure(MPI_Irecv(from->address, from->count, from->datatype, it->peer,
                                           it->tag, it->communicator, &it->request),
                                 "MPI_Irecv", error);
    if (status != CAI_OK) it->request = MPI_REQUEST_NULL;
    return status;
}

/* A request for one message, which is started. */
static inline cai_status cai_private_mpi_once(const cai_array *array, uint32_t access, int peer,
                                              int tag, MPI_Comm communicator, uint32_t flags,
                                              cai_mpi_request *out, cai_error *error) {
    cai_status status =
        cai_private_mpi_request(array, access, peer, tag, communicator, flags, out, error);
    if (status != CAI_OK) return status;
    status = cai_private_mpi_load(&out->buffer, error);
    if (status == CAI_OK) status = cai_private_mpi_post(out, error);
    if (status != CAI_OK) cai_mpi_discard(&out->buffer);
    return status;
}

/* A request for many messages, which is not started. */
static inline cai_status cai_private_mpi_init(const cai_array *array, uint32_t access, int peer,
                                              int tag, MPI_Comm communicator, uint32_t flags,
                                              cai_mpi_request *out, cai_error *error) {
    cai_status status =
        cai_private_mpi_request(array, access, peer, tag, communicator, flags, out, error);
    if (status != CAI_OK) return status;
    /* The event was recorded before work that is pending when the request is started. Of an unknown
     * stream, it is all that is known: then its work is waited for now. */
    if (array->stream == CAI_STREAM_UNKNOWN && array->event != NULL) {
        status = cai_array_synchronize(array, access | (flags & CAI_PRIVATE_MPI_SYNC), error);
        if (status != CAI_OK) {
            cai_mpi_discard(&out->buffer);
            return status;
        }
    }
    out->is_prepared = out->is_idle = 1;
    out->buffer.array.event = NULL;
    return CAI_OK;
}

/**
 * Starts to send an array, as `MPI_Isend`, after the work that is pending on it. Nothing may write
 * the data before `cai_mpi_wait` has returned. If the array has an owner, the request holds a
 * reference, and the caller may release its own.
 *
 * `flags`: 0, or any of the bits of `cai_mpi_begin` but `CAI_ACCESS_`, and `CAI_MPI_CHECK`.
 * `out`: overwritten; it must not be in use. Complete it with `cai_mpi_wait`. If this function
 * fails, `out` is not in use, and need not be completed.
 *
 * Returns a status of `cai_mpi_begin`.
 */
static inline cai_status cai_mpi_isend(const cai_array *array, int destination, int tag,
                                       MPI_Comm communicator, uint32_t flags, cai_mpi_request *out,
                                       cai_error *error) {
    return cai_private_mpi_once(array, CAI_ACCESS_READ, destination, tag, communicator, flags, out,
                                error);
}

/**
 * Starts to receive into an array, as `MPI_Irecv`, after the work that is pending on it. Nothing
 * may read or write the data before `cai_mpi_wait` has returned.
 *
 * `flags`, `out`, and the reference: as in `cai_mpi_isend`.
 *
 * Returns a status of `cai_mpi_begin`.
 */
static inline cai_status cai_mpi_irecv(const cai_array *array, int source, int tag,
                                       MPI_Comm communicator, uint32_t flags, cai_mpi_request *out,
                                       cai_error *error) {
    return cai_private_mpi_once(array, CAI_ACCESS_WRITE, source, tag, communicator, flags, out,
                                error);
}

/**
 * Prepares to send an array many times, as `MPI_Send_init`, and sends nothing yet: makes the
 * datatype, and the memory for a copy. Each message is `cai_mpi_start` and `cai_mpi_wait`. Each
 * start waits for the work that is then pending on the array's stream, or of an unknown stream, in
 * its context; an `event` of the array is waited for here if its stream is unknown, else not at
 * all.
 *
 * `array`: if it has an owner, the request holds a reference until `cai_mpi_request_free`, and the
 * caller may release its own. A borrowed array must live until then, with its shape and strides.
 * `flags`: as in `cai_mpi_isend`.
 * `communicator`: must live until the last message.
 * `out`: overwritten; it must not be in use. Free it with `cai_mpi_request_free`. If this function
 * fails, `out` is not in use.
 *
 * Returns a status of `cai_mpi_begin`.
 */
static inline cai_status cai_mpi_send_init(const cai_array *array, int destination, int tag,
                                           MPI_Comm communicator, uint32_t flags,
                                           cai_mpi_request *out, cai_error *error) {
    return cai_private_mpi_init(array, CAI_ACCESS_READ, destination, tag, communicator, flags, out,
                                error);
}

/**
 * Prepares to receive into an array many times, as `MPI_Recv_init`. Parameters and statuses: as in
 * `cai_mpi_send_init`.
 */
static inline cai_status cai_mpi_recv_init(const cai_array *array, int source, int tag,
                                           MPI_Comm communicator, uint32_t flags,
                                           cai_mpi_request *out, cai_error *error) {
    return cai_private_mpi_init(array, CAI_ACCESS_WRITE, source, tag, communicator, flags, out,
                                error);
}

/**
 * Starts `count` messages that `cai_mpi_send_init` or `cai_mpi_recv_init` has prepared, as
 * `MPI_Startall`, after the work that is pending on their arrays. Until `cai_mpi_wait_all` has
 * returned, nothing may write the data, or read it if it is received.
 *
 * Waits for the work of all arrays before it starts a message: if that fails, none has started.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT` if `count` is negative, if a
 * request is not prepared, or if its last message was not completed, `CAI_ERR_MPI`, after which
 * those before the one that failed are in transit, or a status of `cai_array_synchronize` or
 * `cai_unstable_array_copy_to_host`. A request that has not started can be started again.
 */
static inline cai_status cai_mpi_start_all(int count, cai_mpi_request *requests, cai_error *error) {
    cai_status status = CAI_OK;
    int i;
    if (count < 0) return cai_error_set(error, CAI_ERR_ARGUMENT, "count", "found less than 0");
    if (count > 0 && requests == NULL)
        return cai_error_set(error, CAI_ERR_NULL_ARGUMENT, "requests", "found NULL");
    for (i = 0; i < count; ++i) {
        if (!requests[i].is_prepared || requests[i].buffer.datatype == MPI_DATATYPE_NULL)
            return cai_error_set(error, CAI_ERR_ARGUMENT, "requests",
                                 "found a request that is not prepared: call cai_mpi_send_init or "
                                 "cai_mpi_recv_init first");
        if (!requests[i].is_idle)
            return cai_error_set(error, CAI_ERR_ARGUMENT, "requests",
                                 "found a message in transit: call cai_mpi_wait first");
    }
    for (i = 0; i < count && status == CAI_OK; ++i)
        status = cai_private_mpi_load(&requests[i].buffer, error);
    for (i = 0; i < count && status == CAI_OK; ++i) {
        status = cai_private_mpi_post(&requests[i], error);
        requests[i].is_idle = status != CAI_OK;
    }
    return status;
}

/** Starts a prepared message. As `cai_mpi_start_all` for one request. */
static inline cai_status cai_mpi_start(cai_mpi_request *it, cai_error *error) {
    return cai_mpi_start_all(1, it, error);
}

/**
 * Frees what `cai_mpi_send_init` or `cai_mpi_recv_init` has prepared, and releases the reference.
 * Does nothing for NULL and for a request that is not in use.
 *
 * Returns `CAI_OK`, or `CAI_ERR_ARGUMENT` for a message in transit, after which nothing has
 * changed.
 */
static inline cai_status cai_mpi_request_free(cai_mpi_request *it, cai_error *error) {
    const cai_mpi_request unused = CAI_MPI_REQUEST_INIT;
    if (it == NULL) return CAI_OK;
    if (!it->is_idle && it->buffer.datatype != MPI_DATATYPE_NULL)
        return cai_error_set(error, CAI_ERR_ARGUMENT, "it",
                             "found a message in transit: call cai_mpi_wait first");
    cai_mpi_discard(&it->buffer);
    *it = unused;
    return CAI_OK;
}

/**
 * Sends an array, as `MPI_Send`, and blocks until that is done. `flags`: as in `cai_mpi_isend`.
 *
 * Returns a status of `cai_mpi_isend` or `cai_mpi_wait`.
 */
static inline cai_status cai_mpi_send(const cai_array *array, int destination, int tag,
                                      MPI_Comm communicator, uint32_t flags, cai_error *error) {
    cai_mpi_request it = CAI_MPI_REQUEST_INIT;
    const cai_status status =
        cai_mpi_isend(array, destination, tag, communicator, flags, &it, error);
    return status != CAI_OK ? status : cai_mpi_wait(&it, NULL, error);
}

/**
 * Receives into an array, as `MPI_Recv`, and blocks until that is done. `flags`: as in
 * `cai_mpi_isend`. `out_status`: as in `cai_mpi_wait`.
 *
 * Returns a status of `cai_mpi_irecv` or `cai_mpi_wait`.
 */
static inline cai_status cai_mpi_recv(const cai_array *array, int source, int tag,
                                      MPI_Comm communicator, uint32_t flags, MPI_Status *out_status,
                                      cai_error *error) {
    cai_mpi_request it = CAI_MPI_REQUEST_INIT;
    const cai_status status = cai_mpi_irecv(array, source, tag, communicator, flags, &it, error);
    return status != CAI_OK ? status : cai_mpi_wait(&it, out_status, error);
}

/* --- failures on other ranks */

/**
 * Makes the ranks of a communicator fail together. A rank whose call fails before MPI is called
 * sends nothing, and the others would wait for it. So each rank prepares what it needs
 * (`cai_mpi_begin`, `cai_mpi_send_init`, `cai_mpi_recv_init`), then all ranks call this function,
 * and go on (`cai_mpi_start_all`, or a collective function of MPI) only if it returns `CAI_OK`.
 * Blocks until all ranks have called it, as `MPI_Allreduce` with an int.
 *
 * `communicator`: not an intercommunicator.
 * `status`: that of this rank, `CAI_OK` or the failure that `error` describes.
 * `error`: not changed if `status` is a failure; otherwise gets the rank that failed.
 *
 * Returns `status` if it is a failure. Otherwise that of the lowest rank that failed, `CAI_OK` if
 * none has, or `CAI_ERR_MPI`.
 */
static inline cai_status cai_mpi_agree(MPI_Comm communicator, cai_status status, cai_error *error) {
    int mine[2] = {INT_MAX, CAI_OK}, first[2] = {INT_MAX, CAI_OK};
    char text[CAI_ERROR_MESSAGE_SIZE];
    int code = MPI_SUCCESS;
    if (status != CAI_OK) {
        code = MPI_Comm_rank(communicator, &mine[0]);
        if (code != MPI_SUCCESS) mine[0] = 0; /* the others must not wait */
        mine[1] = status;
    }
    code = MPI_Allreduce(mine, first, 1, MPI_2INT, MPI_MINLOC, communicator);
    if (status != CAI_OK) return status;
    if (code != MPI_SUCCESS) return cai_mpi_failure(code, "MPI_Allreduce", error);
    if (first[1] == CAI_OK) return CAI_OK;
    (void)snprintf(text, sizeof(text), "found %s on rank %d",
                   first[1] == CAI_ERR_MPI            ? "CAI_ERR_MPI"
                   : first[1] == CAI_ERR_MPI_MISMATCH ? "CAI_ERR_MPI_MISMATCH"
                                                      : cai_status_name(first[1]),
                   first[0]);
    return cai_error_set(error, first[1], "rank", text);
}

#endif /* CAI_MPI_H */
