/*
 * cai/nccl.h with the real nccl.h, and a replacement for NCCL: one rank, which sends to itself. The
 * simulated driver checks the order.
 * run: by test_nccl.py
 */
#include <cuda.h>
#include <nccl.h>

#include <cai/nccl.h>

#include "status_asserts.h"

enum { N = 1024, BYTES = N * 4 };

/* In place of NCCL: nccl_sockets.c. */
extern ncclResult_t nccl_fails, nccl_group_fails;
extern int nccl_asked, nccl_enqueued;
extern ncclRedOp_t nccl_op;
static ncclComm_t alone;

/* --- arrays */

static CUdeviceptr memory_of(void) {
    CUdeviceptr memory;
    CU(cuMemAlloc(&memory, BYTES));
    return memory;
}

static CUstream new_stream(void) {
    CUstream stream;
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static cai_stream number(CUstream stream) { return (cai_stream)(uintptr_t)stream; }

static cai_array on(CUdeviceptr memory, CUstream stream, const char *typestr,
                    const int64_t *shape) {
    cai_array array = CAI_ARRAY_INIT;
    array.data = (void *)(uintptr_t)memory;
    array.shape = shape;
    array.ndim = 1;
    array.device.type = CAI_DEVICE_CUDA;
    array.stream = number(stream);
    memcpy(array.typestr, typestr, strlen(typestr) + 1);
    return array;
}

static const int64_t all[1] = {N};

static void order(void) {
    static int values[N], found[N];
    CUdeviceptr a = memory_of(), b = memory_of();
    CUstream first = new_stream(), second = new_stream(), stream = new_stream();
    const cai_array from = on(a, first, "<i4", all), to = on(b, second, "<i4", all);
    for (int i = 0; i < N; ++i)
        values[i] = i;
    CU(cuMemcpyHtoDAsync(a, values, BYTES, first));
    CU(cuMemsetD32Async(b, 7, N, second));
    OK(cai_nccl_exchange(&from, 0, &to, 0, alone, number(stream), error));
    ASSERT(nccl_enqueued == 2);
    /* The next work of both comes after NCCL's. */
    CU(cuMemsetD32Async(a, 9, N, first));
    CU(cuMemcpyDtoHAsync(found, b, BYTES, second));
    CU(cuStreamSynchronize(second));
    ASSERT(memcmp(found, values, BYTES) == 0);

    OK(cai_nccl_all_reduce(&to, CAI_NCCL_MAX, alone, number(stream), error));
    ASSERT(nccl_op == ncclMax && nccl_enqueued == 3);
    CU(cuMemsetD32Async(b, 3, N, second));
    CU(cuStreamSynchronize(second));
    CU(cuStreamSynchronize(first));
}

/* The second array of an exchange is refused: the first one's exchange ends. */
static void half_an_exchange(void) {
    CUdeviceptr a = memory_of();
    CUstream producer = new_stream(), stream = new_stream();
    cai_array from = on(a, producer, "<i4", all), to = from;
    to.flags = CAI_ARRAY_READONLY;
    CU(cuMemsetD32Async(a, 1, N, producer));
    REFUSED(CAI_ERR_READONLY, "flags",
            cai_nccl_exchange(&from, 0, &to, 0, alone, number(stream), error));
    /* What is on the stream by then is ordered before the producer's next work. */
    CU(cuMemsetD32Async(a, 2, N, producer));
    CU(cuStreamSynchronize(producer));
}

/* A group of the caller's: the end comes after ncclGroupEnd. */
static void group(void) {
    CUdeviceptr a = memory_of(), b = memory_of();
    CUstream producer = new_stream(), stream = new_stream();
    const cai_array from = on(a, producer, "<c8", all), to = on(b, producer, "<c8", all);
    const int64_t half[1] = {N / 2};
    cai_array out = from, in = to;
    cai_nccl_buffer sent, received;
    out.shape = in.shape = half;
    CU(cuMemsetD32Async(a, 1, N, producer));
    OK(cai_nccl_begin(&out, CAI_NCCL_MOVE, number(stream), CAI_ACCESS_READ, &sent, error));
    OK(cai_nccl_begin(&in, CAI_NCCL_MOVE, number(stream), CAI_ACCESS_WRITE, &received, error));
    ASSERT(sent.datatype == CAI_NCCL_UINT8 && sent.count == BYTES);
    ncclGroupStart();
    ncclSend(sent.address, sent.count, (ncclDataType_t)sent.datatype, 0, alone,
             (cudaStream_t)stream);
    ncclRecv(received.address, received.count, (ncclDataType_t)received.datatype, 0, alone,
             (cudaStream_t)stream);
    ncclGroupEnd();
    OK(cai_array_consume_end(&out, number(stream), CAI_ACCESS_READ, error));
    OK(cai_array_consume_end(&in, number(stream), CAI_ACCESS_WRITE, error));
    CU(cuMemsetD32Async(a, 2, N, producer));
    CU(cuMemsetD32Async(b, 2, N, producer));
    CU(cuStreamSynchronize(producer));
}

static void failures(void) {
    CUdeviceptr a = memory_of();
    CUstream stream = new_stream();
    const cai_array array = on(a, stream, "<f4", all);
    nccl_enqueued = 0;
    nccl_fails = ncclInvalidUsage;
    REFUSED(CAI_ERR_NCCL, "ncclSend, ncclRecv",
            cai_nccl_send(&array, 0, alone, number(stream), error));
    REFUSED(CAI_ERR_NCCL, "ncclSend, ncclRecv",
            cai_nccl_recv(&array, 0, alone, number(stream), error));
    REFUSED(CAI_ERR_NCCL, "ncclAllReduce",
            cai_nccl_all_reduce(&array, CAI_NCCL_SUM, alone, number(stream), error));
    ASSERT(nccl_enqueued == 0);
    nccl_fails = ncclSuccess;
    nccl_group_fails = ncclInvalidUsage;
    REFUSED(CAI_ERR_NCCL, "ncclGroupEnd", cai_nccl_send(&array, 0, alone, number(stream), error));
    /* A communicator that does not block. */
    nccl_group_fails = ncclInProgress;
    nccl_asked = 0;
    OK(cai_nccl_recv(&array, 0, alone, number(stream), error));
    ASSERT(nccl_asked == 3 && nccl_enqueued == 2); /* what was sent before */
    nccl_group_fails = ncclSuccess;
    CU(cuStreamSynchronize(stream));
}

static void types(void) {
    static const struct {
        const char *typestr;
        uint16_t code;
        int moved, reduced, summed, per_element;
    } rows[] = {
        {"|i1", 0, 0, 0, 0, 1},
        {"|u1", 0, 1, 1, 1, 1},
        {"<i4", 0, 2, 2, 2, 1},
        {"<u4", 0, 3, 3, 3, 1},
        {"<i8", 0, 4, 4, 4, 1},
        {"<u8", 0, 5, 5, 5, 1},
        {"<f2", 0, 6, 6, 6, 1},
        {"<f4", 0, 7, 7, 7, 1},
        {"<f8", 0, 8, 8, 8, 1},
        {"<V2", CAI_DTYPE_BFLOAT16, 1, 9, 9, 2},
        {"|V1", CAI_DTYPE_FLOAT8_E4M3FN, 1, 10, 10, 1},
        {"|V1", CAI_DTYPE_FLOAT8_E5M2, 1, 11, 11, 1},
        {"|V1", CAI_DTYPE_FLOAT8_E4M3, 1, -1, -1, 1},
        {"|b1", 0, 1, -1, -1, 1},
        {"<i2", 0, 1, -1, -1, 2},
        {"<u2", 0, 1, -1, -1, 2},
        {"<c8", 0, 1, -1, 7, 8},
        {"<c16", 0, 1, -1, 8, 16},
        {"<c4", 0, 1, -1, 6, 4},
        {"<M8[s]", 0, 1, -1, -1, 8},
        {"|V12", 0, 1, -1, -1, 12},
        {"<U3", 0, 1, -1, -1, 12},
    };
    static const int64_t shape[1] = {5};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        cai_array array = on(4096, NULL, rows[i].typestr, shape);
        cai_nccl_buffer it;
        array.dtype_code = rows[i].code;
        array.stream = CAI_STREAM_NONE;
        OK(cai_nccl_elements(&array, CAI_NCCL_MOVE, &it, error));
        ASSERT(it.datatype == rows[i].moved && it.address == array.data);
        ASSERT(it.count == 5u * (size_t)rows[i].per_element);
        if (rows[i].reduced < 0) {
            REFUSED(CAI_ERR_CONVERT_TYPE, "typestr",
                    cai_nccl_elements(&array, CAI_NCCL_MAX, &it, error));
        } else {
            OK(cai_nccl_elements(&array, CAI_NCCL_MAX, &it, error));
            ASSERT(it.datatype == rows[i].reduced && it.count == 5);
        }
        if (rows[i].summed >= 0) {
            OK(cai_nccl_elements(&array, CAI_NCCL_SUM, &it, error));
            ASSERT(it.datatype == rows[i].summed && it.count == (rows[i].reduced < 0 ? 10 : 5));
        }
    }
}

static void refusals(void) {
    static const int64_t strides[1] = {8};
    const cai_array good = on(4096, NULL, "<f4", all);
    cai_array array = good, mask = good;
    cai_nccl_buffer it;
    array.stream = CAI_STREAM_NONE;
    REFUSED(CAI_ERR_NULL_ARGUMENT, "out", cai_nccl_elements(&array, 0, NULL, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "array", cai_nccl_elements(NULL, 0, &it, error));
    array.strides = strides;
    REFUSED(CAI_ERR_CONVERT_CONTIGUOUS, "strides", cai_nccl_elements(&array, 0, &it, error));
    array = on(4096, NULL, ">f4", all);
    array.stream = CAI_STREAM_NONE;
    REFUSED(CAI_ERR_CONVERT_BYTE_ORDER, "typestr", cai_nccl_elements(&array, 0, &it, error));
    array = on(4096, NULL, "|O8", all);
    array.stream = CAI_STREAM_NONE;
    REFUSED(CAI_ERR_CONVERT_TYPE, "typestr", cai_nccl_elements(&array, -1, &it, error));
    array = good;
    array.stream = mask.stream = CAI_STREAM_NONE;
    memcpy(mask.typestr, "|b1", sizeof("|b1"));
    array.mask = &mask;
    REFUSED(CAI_ERR_CONVERT_MASK, "mask", cai_nccl_elements(&array, 0, &it, error));
    array.mask = NULL;
    array.device.type = CAI_DEVICE_CPU;
    REFUSED(CAI_ERR_CONVERT_DEVICE, "device.type", cai_nccl_elements(&array, 0, &it, error));
    array = good;
    array.stream = CAI_STREAM_NONE;
    array.flags = CAI_ARRAY_READONLY;
    REFUSED(CAI_ERR_READONLY, "flags", cai_nccl_recv(&array, 0, NULL, CAI_STREAM_LEGACY, error));
    array.flags = 0;
    /* Python objects in a field. */
    const cai_descr *descr;
    cai_owner *owner;
    OK(cai_descr_parse("[('a', '<i8'), ('b', [('c', '|O8')])]", &descr, &owner, error));
    memcpy(array.typestr, "|V16", sizeof("|V16"));
    array.descr = descr;
    REFUSED(CAI_ERR_CONVERT_TYPE, "descr", cai_nccl_elements(&array, -1, &it, error));
    cai_owner_release(owner);
    /* Arguments. What the output held stays. */
    array = good;
    array.stream = CAI_STREAM_NONE;
    it.count = 77;
    REFUSED(CAI_ERR_ARGUMENT, "operation", cai_nccl_elements(&array, -2, &it, error));
    REFUSED(CAI_ERR_ARGUMENT, "operation",
            cai_nccl_all_reduce(&array, CAI_NCCL_MOVE, NULL, CAI_STREAM_LEGACY, error));
    REFUSED(CAI_ERR_READONLY, "flags",
            (array.flags = CAI_ARRAY_READONLY,
             cai_nccl_begin(&array, 0, CAI_STREAM_LEGACY, CAI_ACCESS_WRITE, &it, error)));
    array.flags = 0;
    REFUSED(CAI_ERR_STREAM_ZERO, "consumer_stream",
            cai_nccl_begin(&array, 0, 0, CAI_ACCESS_WRITE, &it, error));
    ASSERT(it.count == 77);
    REFUSED(CAI_ERR_NULL_ARGUMENT, "out",
            cai_nccl_begin(&array, 0, CAI_STREAM_LEGACY, CAI_ACCESS_READ, NULL, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "array", cai_nccl_send(NULL, 0, NULL, CAI_STREAM_LEGACY, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "array", cai_nccl_recv(NULL, 0, NULL, CAI_STREAM_LEGACY, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "array",
            cai_nccl_all_reduce(NULL, CAI_NCCL_SUM, NULL, CAI_STREAM_LEGACY, error));
    OK(cai_nccl_exchange(NULL, 0, NULL, 0, NULL, CAI_STREAM_LEGACY, error));
    /* Memory of another device than the communicator's. */
    array.device.id = 1;
    REFUSED(CAI_ERR_DEVICE_MISMATCH, "device.id",
            cai_nccl_send(&array, 0, alone, CAI_STREAM_LEGACY, error));
    REFUSED(CAI_ERR_DEVICE_MISMATCH, "device.id",
            cai_nccl_all_reduce(&array, CAI_NCCL_SUM, alone, CAI_STREAM_LEGACY, error));
    {
        cai_error why;
        (void)cai_nccl_send(&array, 0, alone, CAI_STREAM_LEGACY, &why);
        ASSERT_CONTAINS(why.message, "found 1, expected 0");
    }
    ASSERT(nccl_enqueued == 0);
}

int main(void) {
    CUcontext context;
    CUdevice device;
    ncclUniqueId id;
    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuDevicePrimaryCtxRetain(&context, device));
    CU(cuCtxSetCurrent(context));
    ASSERT(ncclGetUniqueId(&id) == ncclSuccess);
    ASSERT(ncclCommInitRank(&alone, 1, id, 0) == ncclSuccess);
    types();
    refusals();
    order();
    half_an_exchange();
    group();
    failures();
    ASSERT(ncclCommDestroy(alone) == ncclSuccess);
    puts("passed");
    return 0;
}
