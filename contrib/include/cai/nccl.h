/*
 * cai/nccl.h (unstable: may change in any minor release): NCCL's collectives and messages on
 * arrays, in stream order. Include it yourself: cai/cai.h does not. The library does not use NCCL:
 * these functions are compiled into your program. C99 and C++11.
 *
 * To get the functions that call NCCL, include <nccl.h> (2.7 or later) first. Programs that load
 * NCCL at run time use the checks and NCCL's integer codes, which do not need <nccl.h>:
 *
 *     #include <cai/nccl.h>
 *
 *     static cai_status add_up(const cai_array *array, cai_stream stream, cai_error *error) {
 *         const uint32_t access = CAI_ACCESS_READ | CAI_ACCESS_WRITE;
 *         cai_nccl_buffer it;
 *         cai_status status =
 *             cai_nccl_begin(array, CAI_NCCL_SUM, stream, access, &it, error);
 *         if (status != CAI_OK) return status;
 *         // ... ncclAllReduce(it.address, it.address, it.count, it.datatype, ...), and the end of
 *         // the group if there is one ...
 *         return cai_array_consume_end(array, stream, access, error);
 *     }
 *
 *     // Checks alone. A type that NCCL 2.7 does not have is moved as bytes.
 *     static int can_move(const cai_array *array, int *as_bytes) {
 *         cai_nccl_buffer it;
 *         cai_dtype dtype;
 *         if (cai_nccl_elements(array, CAI_NCCL_MOVE, &it, NULL) != CAI_OK) return 0;
 *         if (cai_array_dtype(array, &dtype, NULL) != CAI_OK) return 0;
 *         *as_bytes = cai_nccl_type(&dtype) != it.datatype;
 *         return 1;
 *     }
 *
 *     #ifdef NCCL_MAJOR // <nccl.h> was included: functions that call NCCL
 *     static cai_status step(const cai_array *mine, const cai_array *theirs, int rank, int ranks,
 *                            ncclComm_t communicator, cai_stream stream, cai_error *error) {
 *         // In a ring: to the next rank, from the one before.
 *         int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
 *         cai_status status =
 *             cai_nccl_exchange(mine, to, theirs, from, communicator, stream, error);
 *         if (status == CAI_OK)
 *             status = cai_nccl_all_reduce(theirs, CAI_NCCL_SUM, communicator, stream, error);
 *         // From rank 0 to rank 1 alone.
 *         if (status == CAI_OK && rank == 0)
 *             status = cai_nccl_send(mine, 1, communicator, stream, error);
 *         if (status == CAI_OK && rank == 1)
 *             status = cai_nccl_recv(theirs, 0, communicator, stream, error);
 *         return status;
 *     }
 *     #endif
 *
 * Order: `stream` waits for the work that is pending on the array, NCCL enqueues its work on
 * `stream`, and the array's stream then waits for that work. The host does not wait. For
 * `CAI_STREAM_UNKNOWN`, `stream` waits for the array's event only.
 *
 * Ownership: the functions hold no reference. To release an array before NCCL's work is done, call
 * `cai_array_release_after` with the same `stream`.
 *
 * Cost: nothing is allocated. If the array's stream is `stream` or `CAI_STREAM_NONE`, there is no
 * driver call besides NCCL's own; otherwise there are those of `cai_array_consume_begin` and
 * `cai_array_consume_end`.
 *
 * Thread safety of all functions: any thread that NCCL allows for the communicator.
 *
 * Streams: pass a `cudaStream_t` as `cai_inline_stream(stream)`, also for 0, and the result to NCCL
 * if you call it yourself: NCCL takes 0 for the legacy default stream, also in programs with
 * per-thread default streams. Default streams are those of the current device, and in NCCL those of
 * the communicator's: make that device current.
 *
 * Failures: NCCL may have enqueued work, for which the array's stream may not wait. Synchronize
 * `stream`, or abort the communicator, before you use or release the array.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef CAI_NCCL_H
#define CAI_NCCL_H

#include <cai/array.h>
#include <cai/dtype.h>
#include "messages.h"
#include <cai/sync.h>

#include <stdio.h>

/* Codes of ncclDataType_t. */
#define CAI_NCCL_INT8 0         /**< `i1`. */
#define CAI_NCCL_UINT8 1        /**< `u1`; bytes of types that NCCL 2.7 does not have. */
#define CAI_NCCL_INT32 2        /**< `i4`. */
#define CAI_NCCL_UINT32 3       /**< `u4`. */
#define CAI_NCCL_INT64 4        /**< `i8`. */
#define CAI_NCCL_UINT64 5       /**< `u8`. */
#define CAI_NCCL_FLOAT16 6      /**< `f2`. */
#define CAI_NCCL_FLOAT32 7      /**< `f4`. */
#define CAI_NCCL_FLOAT64 8      /**< `f8`. */
#define CAI_NCCL_BFLOAT16 9     /**< `CAI_DTYPE_BFLOAT16`; NCCL 2.10. */
#define CAI_NCCL_FLOAT8_E4M3 10 /**< `CAI_DTYPE_FLOAT8_E4M3FN`; NCCL 2.24. */
#define CAI_NCCL_FLOAT8_E5M2 11 /**< `CAI_DTYPE_FLOAT8_E5M2`; NCCL 2.24. */

/* Codes of ncclRedOp_t, and a code for no reduction. */
#define CAI_NCCL_MOVE (-1) /**< No reduction: messages, broadcasts, gathers. */
#define CAI_NCCL_SUM 0     /**< Sum. */
#define CAI_NCCL_PROD 1    /**< Product. */
#define CAI_NCCL_MAX 2     /**< Greatest. */
#define CAI_NCCL_MIN 3     /**< Least. */
#define CAI_NCCL_AVG 4     /**< Average; NCCL 2.10. */

/** A function of NCCL failed: `error->field` names it, and `error->message` has NCCL's text. */
#define CAI_ERR_NCCL (CAI_STATUS_THIRD_PARTY + 0x4e43)

/** Elements of an array as NCCL accepts them. */
typedef struct {
    /** Address of the first element; NULL if there are none. */
    void *address;
    /** Number of elements of `datatype`. */
    size_t count;
    /** Code of the type. */
    int datatype;
} cai_nccl_buffer;

/** Returns NCCL's code of a type, or -1 if NCCL does not have it. */
static inline int cai_nccl_type(const cai_dtype *dtype) {
#define CAI_PRIVATE_RETURN(kind, bytes, code, type) \
    if (CAI_PRIVATE_IS_TYPE(dtype, kind, bytes, code)) return type;
    CAI_PRIVATE_NCCL_TYPES(CAI_PRIVATE_RETURN)
#undef CAI_PRIVATE_RETURN
    return -1;
}

/**
 * Checks an array, and reports its elements as NCCL takes them. Makes no driver call.
 *
 * `operation`: `CAI_NCCL_MOVE`, or a reduction, also one of `ncclRedOpCreatePreMulSum`. A move
 * accepts every type except Python objects, and moves types that NCCL 2.7 does not have as bytes. A
 * reduction needs a type that NCCL has. Complex numbers can be summed and averaged, as twice as
 * many real numbers. `out`: needs no initialization; written on success only.
 *
 * Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT` for an `operation` below
 * `CAI_NCCL_MOVE`, a status of `cai_array_layout`, `CAI_ERR_CONVERT_MASK`, `CAI_ERR_CONVERT_DEVICE`
 * for memory that no CUDA device can access, `CAI_ERR_CONVERT_CONTIGUOUS` for an array with gaps or
 * not in C order, `CAI_ERR_CONVERT_BYTE_ORDER` or `CAI_ERR_CONVERT_TYPE`.
 */
static inline cai_status cai_nccl_elements(const cai_array *array, int operation,
                                           cai_nccl_buffer *out, cai_error *error) {
    cai_layout layout;
    cai_dtype dtype;
    cai_nccl_buffer made;
    cai_status status;
    int type;
    if (array == NULL || out == NULL)
        return cai_error_set(error, CAI_ERR_NULL_ARGUMENT, array == NULL ? "array" : "out",
                             "found NULL");
    if (operation < CAI_NCCL_MOVE)
        return cai_error_set(error, CAI_ERR_ARGUMENT, "operation",
                             "expected CAI_NCCL_MOVE or a reduction");
    status = cai_private_message(array, &layout, &dtype, error); /* validates */
    if (status != CAI_OK) return status;
    if (array->device.type != CAI_DEVICE_CUDA && array->device.type != CAI_DEVICE_CUDA_MANAGED &&
        array->device.type != CAI_DEVICE_CUDA_HOST && array->device.type != CAI_DEVICE_UNKNOWN)
        return cai_error_set(error, CAI_ERR_CONVERT_DEVICE, "device.type",
                             "found memory that is not CUDA's, expected CAI_DEVICE_CUDA, "
                             "CAI_DEVICE_CUDA_MANAGED or CAI_DEVICE_CUDA_HOST");
    if ((layout.flags & CAI_LAYOUT_C_CONTIGUOUS) == 0)
        return cai_error_set(error, CAI_ERR_CONVERT_CONTIGUOUS, "strides",
                             "found gaps or another order, expected C order without gaps: copy the "
                             "array first");
    type = cai_nccl_type(&dtype);
    made.address = array->data;
    made.count = CAI_PRIVATE_CAST(size_t, layout.count);
    if (operation == CAI_NCCL_MOVE && (type < 0 || type > CAI_NCCL_FLOAT64)) {
        type = CAI_NCCL_UINT8;
        made.count = CAI_PRIVATE_CAST(size_t, layout.nbytes);
    } else if (type < 0 && dtype.kind == 'c' &&
               (operation == CAI_NCCL_SUM || operation == CAI_NCCL_AVG)) {
        dtype.kind = 'f'; /* of the two parts */
        dtype.itemsize /= 2;
        type = cai_nccl_type(&dtype);
        made.count *= 2;
    }
    if (type < 0)
        return cai_error_set(error, CAI_ERR_CONVERT_TYPE, "typestr",
                             "found elements that NCCL cannot reduce with this operation");
    made.datatype = type;
    *out = made;
    return CAI_OK;
}

/**
 * Checks an array as `cai_nccl_elements` does, and makes `stream` wait for the work that is pending
 * on it. Then call NCCL with the result, `ncclGroupEnd` if there is a group, and
 * `cai_array_consume_end` with the same `stream` and `flags`, even if NCCL failed.
 *
 * `array`: its memory must belong to the communicator's device; this is not checked. No reference
 * is held.
 * `stream`, `flags`: as in `cai_array_consume_begin`, with `CAI_ACCESS_READ` to send,
 * `CAI_ACCESS_WRITE` to receive, and both to reduce in place.
 * `out`: needs no initialization; written on success only.
 *
 * Returns a status of `cai_nccl_elements` or `cai_array_consume_begin`.
 */
static inline cai_status cai_nccl_begin(const cai_array *array, int operation, cai_stream stream,
                                        uint32_t flags, cai_nccl_buffer *out, cai_error *error) {
    cai_nccl_buffer made;
    cai_status status;
    if (out == NULL) return cai_error_set(error, CAI_ERR_NULL_ARGUMENT, "out", "found NULL");
    status = cai_nccl_elements(array, operation, &made, error);
    if (status == CAI_OK) status = cai_array_consume_begin(array, stream, flags, error);
    if (status == CAI_OK) *out = made;
    return status;
}

#if defined(NCCL_MAJOR)
/* --- functions that call NCCL */

CAI_PRIVATE_ASSERT(nccl_int8, ncclInt8 == CAI_NCCL_INT8 && ncclUint8 == CAI_NCCL_UINT8);
CAI_PRIVATE_ASSERT(nccl_int32, ncclInt32 == CAI_NCCL_INT32 && ncclUint32 == CAI_NCCL_UINT32);
CAI_PRIVATE_ASSERT(nccl_int64, ncclInt64 == CAI_NCCL_INT64 && ncclUint64 == CAI_NCCL_UINT64);
CAI_PRIVATE_ASSERT(nccl_float16, ncclFloat16 == CAI_NCCL_FLOAT16);
CAI_PRIVATE_ASSERT(nccl_float, ncclFloat32 == CAI_NCCL_FLOAT32 && ncclFloat64 == CAI_NCCL_FLOAT64);
CAI_PRIVATE_ASSERT(nccl_sum, ncclSum == CAI_NCCL_SUM && ncclProd == CAI_NCCL_PROD);
CAI_PRIVATE_ASSERT(nccl_max, ncclMax == CAI_NCCL_MAX && ncclMin == CAI_NCCL_MIN);
#if NCCL_VERSION_CODE >= 21000
CAI_PRIVATE_ASSERT(nccl_avg, ncclAvg == CAI_NCCL_AVG);
#endif
#if NCCL_VERSION_CODE >= 22400
CAI_PRIVATE_ASSERT(nccl_bfloat16, ncclBfloat16 == CAI_NCCL_BFLOAT16);
CAI_PRIVATE_ASSERT(nccl_e4m3, ncclFloat8e4m3 == CAI_NCCL_FLOAT8_E4M3);
CAI_PRIVATE_ASSERT(nccl_e5m2, ncclFloat8e5m2 == CAI_NCCL_FLOAT8_E5M2);
#endif

#if defined(__cplusplus)
#define CAI_PRIVATE_NCCL_STREAM(stream) reinterpret_cast<cudaStream_t>(stream)
#else
#define CAI_PRIVATE_NCCL_STREAM(stream) ((cudaStream_t)(uintptr_t)(stream))
#endif
/* ncclInProgress, which versions before 2.14 lack, counts as well. */
#define CAI_PRIVATE_NCCL_STARTED(result) \
    ((result) == ncclSuccess || CAI_PRIVATE_CAST(int, result) == 7)
#define CAI_PRIVATE_NCCL_TYPE(code) CAI_PRIVATE_CAST(ncclDataType_t, code)

/**
 * Returns CAI_OK for `ncclSuccess`; otherwise `CAI_ERR_NCCL`, with NCCL's text in the error. For
 * `ncclInProgress`, which non-blocking communicators return, it polls the communicator until the
 * work is enqueued.
 *
 * `function`: name of the function that returned `result`, for `error->field`.
 */
static inline cai_status cai_nccl_result(ncclResult_t result, ncclComm_t communicator,
                                         const char *function, cai_error *error) {
#if NCCL_VERSION_CODE >= 21400
    while (result == ncclInProgress) {
        const ncclResult_t asked = ncclCommGetAsyncError(communicator, &result);
        if (asked != ncclSuccess) result = asked;
    }
#else
    (void)communicator;
#endif
    if (result == ncclSuccess) return CAI_OK;
    return cai_error_set(error, CAI_ERR_NCCL, function, ncclGetErrorString(result));
}

/* Begins, if the memory is of the communicator's device: kernels of another one fault there. */
static inline cai_status cai_private_nccl_start(const cai_array *array, int operation,
                                                ncclComm_t communicator, cai_stream stream,
                                                uint32_t flags, cai_nccl_buffer *out,
                                                cai_error *error) {
    int device = 0;
    cai_status status = cai_nccl_elements(array, operation, out, error);
    if (status != CAI_OK) return status;
    if (array->device.type == CAI_DEVICE_CUDA && array->data != NULL &&
        ncclCommCuDevice(communicator, &device) == ncclSuccess && device != array->device.id) {
        char text[80];
        (void)snprintf(text, sizeof(text), "found %d, expected %d, the communicator's device",
                       array->device.id, device);
        return cai_error_set(error, CAI_ERR_DEVICE_MISMATCH, "device.id", text);
    }
    return cai_array_consume_begin(array, stream, flags, error);
}

/**
 * Sends an array and receives into another one, at the same time. If either is NULL, nothing is
 * sent or received. They must not overlap. Do not call it inside a group, which would enqueue the
 * work later: use `cai_nccl_begin` there.
 *
 * `stream`: a stream of the communicator's device, for which the arrays' streams then wait.
 *
 * Returns `CAI_OK`, `CAI_ERR_DEVICE_MISMATCH` for memory of another device than the communicator's,
 * `CAI_ERR_NCCL`, or a status of `cai_nccl_begin` or `cai_array_consume_end`.
 */
static inline cai_status cai_nccl_exchange(const cai_array *sent, int to, const cai_array *received,
                                           int from, ncclComm_t communicator, cai_stream stream,
                                           cai_error *error) {
    const cudaStream_t on = CAI_PRIVATE_NCCL_STREAM(stream);
    cai_nccl_buffer out = {NULL, 0, 0}, in = {NULL, 0, 0};
    cai_status status = CAI_OK, end;
    ncclResult_t result;
    int sending = 0, receiving = 0;
    if (sent != NULL) {
        status = cai_private_nccl_start(sent, CAI_NCCL_MOVE, communicator, stream, CAI_ACCESS_READ,
                                        &out, error);
        sending = status == CAI_OK;
    }
    if (status == CAI_OK && received != NULL) {
        status = cai_private_nccl_start(received, CAI_NCCL_MOVE, communicator, stream,
                                        CAI_ACCESS_WRITE, &in, error);
        receiving = status == CAI_OK;
    }
    if (status == CAI_OK)
        status = cai_nccl_result(ncclGroupStart(), communicator, "ncclGroupStart", error);
    if (status == CAI_OK) {
        result = ncclSuccess;
        if (sent != NULL)
            result = ncclSend(out.address, out.count, CAI_PRIVATE_NCCL_TYPE(out.datatype), to,
                              communicator, on);
        if (received != NULL && CAI_PRIVATE_NCCL_STARTED(result))
            result = ncclRecv(in.address, in.count, CAI_PRIVATE_NCCL_TYPE(in.datatype), from,
                              communicator, on);
        /* The group ends in any case. The first failure counts. */
        if (CAI_PRIVATE_NCCL_STARTED(result)) {
            status = cai_nccl_result(ncclGroupEnd(), communicator, "ncclGroupEnd", error);
        } else {
            (void)cai_nccl_result(ncclGroupEnd(), communicator, "ncclGroupEnd", NULL);
            status = cai_nccl_result(result, communicator, "ncclSend, ncclRecv", error);
        }
    }
    /* What was begun ends, also after a failure: NCCL may have enqueued something. */
    if (sending) {
        end = cai_array_consume_end(sent, stream, CAI_ACCESS_READ, status == CAI_OK ? error : NULL);
        if (status == CAI_OK) status = end;
    }
    if (receiving) {
        end = cai_array_consume_end(received, stream, CAI_ACCESS_WRITE,
                                    status == CAI_OK ? error : NULL);
        if (status == CAI_OK) status = end;
    }
    return status;
}

/** Sends an array. Returns a status of `cai_nccl_exchange`, or `CAI_ERR_NULL_ARGUMENT`. */
static inline cai_status cai_nccl_send(const cai_array *array, int to, ncclComm_t communicator,
                                       cai_stream stream, cai_error *error) {
    if (array == NULL) return cai_error_set(error, CAI_ERR_NULL_ARGUMENT, "array", "found NULL");
    return cai_nccl_exchange(array, to, NULL, 0, communicator, stream, error);
}

/** Receives into an array. Returns a status of `cai_nccl_exchange`, or `CAI_ERR_NULL_ARGUMENT`. */
static inline cai_status cai_nccl_recv(const cai_array *array, int from, ncclComm_t communicator,
                                       cai_stream stream, cai_error *error) {
    if (array == NULL) return cai_error_set(error, CAI_ERR_NULL_ARGUMENT, "array", "found NULL");
    return cai_nccl_exchange(NULL, 0, array, from, communicator, stream, error);
}

/**
 * Reduces the arrays of all ranks in place, as `ncclAllReduce`. Inside a group, use
 * `cai_nccl_begin` instead.
 *
 * `operation`: `CAI_NCCL_SUM` and so on; `CAI_ERR_ARGUMENT` for `CAI_NCCL_MOVE`.
 * `stream`: as in `cai_nccl_exchange`.
 *
 * Returns a status of `cai_nccl_exchange`.
 */
static inline cai_status cai_nccl_all_reduce(const cai_array *array, int operation,
                                             ncclComm_t communicator, cai_stream stream,
                                             cai_error *error) {
    const uint32_t access = CAI_ACCESS_READ | CAI_ACCESS_WRITE;
    cai_nccl_buffer it;
    ncclResult_t result;
    cai_status status, end;
    if (operation == CAI_NCCL_MOVE)
        return cai_error_set(error, CAI_ERR_ARGUMENT, "operation",
                             "found CAI_NCCL_MOVE, expected a reduction");
    status = cai_private_nccl_start(array, operation, communicator, stream, access, &it, error);
    if (status != CAI_OK) return status;
    result = ncclAllReduce(it.address, it.address, it.count, CAI_PRIVATE_NCCL_TYPE(it.datatype),
                           CAI_PRIVATE_CAST(ncclRedOp_t, operation), communicator,
                           CAI_PRIVATE_NCCL_STREAM(stream));
    status = cai_nccl_result(result, communicator, "ncclAllReduce", error);
    end = cai_array_consume_end(array, stream, access, status == CAI_OK ? error : NULL);
    return status != CAI_OK ? status : end;
}
#endif

#endif /* CAI_NCCL_H */
