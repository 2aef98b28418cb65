// Batches of operations, and managed memory: advice and what ranges say of it.
#include "conformance.h"

RULE(batches, values, "Writes and waits of a batch run in order", "cuStreamBatchMemOp") {
    const CUdeviceptr p = device(16);
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    CUstreamBatchMemOpParams ops[3] = {{.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32},
                                       {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32},
                                       {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64}};
    OK(cuMemsetD8(p, 0, 16));
    ops[0].writeValue.address = p;
    ops[0].writeValue.value = 5;
    ops[1].waitValue.address = p;
    ops[1].waitValue.value = 5;
    ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    ops[2].writeValue.address = p + 8;
    ops[2].writeValue.value64 = (cuuint64_t)1 << 40;
    OK(cuCtxSynchronize());
    OK(cuStreamBatchMemOp(a, 3, ops, 0));
    OK(cuStreamSynchronize(a));
    cuuint64_t found[2] = {0};
    OK(cuMemcpyDtoH(found, p, 16));
    EXPECT(found[0], 5);
    EXPECT(found[1] == (cuuint64_t)1 << 40, 1);
    EXPECT(cuStreamBatchMemOp(a, 3, ops, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuStreamBatchMemOp(a, 257, ops, 0), CUDA_ERROR_INVALID_VALUE);
}

RULE(batches, copies, "A batch copies each range, and is refused in the legacy stream",
     "cuMemcpyBatchAsync") {
#if CUDA_VERSION >= 13000
    CUdeviceptr from[2] = {device(N), device(N)}, to[2] = {device(N), device(N)};
    size_t sizes[2] = {N, N / 2}, first = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    OK(cuMemsetD8(from[0], 1, N));
    OK(cuMemsetD8(from[1], 2, N));
    OK(cuCtxSynchronize());
    OK(cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 1, a));
    OK(cuStreamSynchronize(a));
    char found[2];
    OK(cuMemcpyDtoH(&found[0], to[0] + N - 1, 1));
    OK(cuMemcpyDtoH(&found[1], to[1] + N / 2 - 1, 1));
    EXPECT(found[0] == 1 && found[1] == 2, 1);
    EXPECT(cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 1, CU_STREAM_LEGACY),
           CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 0, a),
           CUDA_ERROR_INVALID_VALUE);
#else
    skip("needs CUDA 13");
#endif
}

static int range(CUdeviceptr p, CUmem_range_attribute which) {
    int value = 77;
    OK(cuMemRangeGetAttribute(&value, sizeof value, which, p, N));
    return value;
}

static CUresult advise(CUdeviceptr p, CUmem_advise advice, int device) {
#if CUDA_VERSION >= 13000
    const CUmemLocation location = {.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST
                                                                    : CU_MEM_LOCATION_TYPE_DEVICE,
                                    .id = device == CU_DEVICE_CPU ? 0 : device};
    return cuMemAdvise(p, N, advice, location);
#else
    return cuMemAdvise(p, N, advice, device);
#endif
}

RULE(managed, advice, "Ranges remember their advice", "cuMemRangeGetAttribute") {
    CUdeviceptr p;
    OK(cuMemAllocManaged(&p, N, CU_MEM_ATTACH_GLOBAL));
    EXPECT(range(p, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), 0);
    EXPECT(range(p, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION), CU_DEVICE_INVALID);
    EXPECT(range(p, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY), CU_DEVICE_INVALID);
    EXPECT(range(p, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION), CU_DEVICE_INVALID);
    OK(advise(p, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
    OK(advise(p, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU));
    OK(advise(p, CU_MEM_ADVISE_SET_ACCESSED_BY, 0));
    EXPECT(range(p, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), 1);
    EXPECT(range(p, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION), CU_DEVICE_CPU);
    int devices_of[2] = {9, 9};
    OK(cuMemRangeGetAttribute(devices_of, sizeof devices_of, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, p,
                              N));
    EXPECT(devices_of[0], 0);
    EXPECT(devices_of[1], CU_DEVICE_INVALID);
    OK(advise(p, CU_MEM_ADVISE_UNSET_READ_MOSTLY, 0));
    OK(advise(p, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, 0));
    EXPECT(range(p, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), 0);
    EXPECT(range(p, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION), CU_DEVICE_INVALID);
    int value;
    EXPECT(cuMemRangeGetAttribute(&value, 3, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, N),
           CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, N + 1),
           CUDA_ERROR_INVALID_VALUE);
}

RULE(managed, places, "Advice names a device that exists; only devices and the host access memory",
     "cuMemAdvise") {
    CUdeviceptr p;
    OK(cuMemAllocManaged(&p, N, CU_MEM_ATTACH_GLOBAL));
    for (int device = CU_DEVICE_INVALID; device <= devices(); device += devices() + 2) {
        EXPECT(advise(p, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device), CUDA_ERROR_INVALID_DEVICE);
        EXPECT(advise(p, CU_MEM_ADVISE_SET_ACCESSED_BY, device), CUDA_ERROR_INVALID_DEVICE);
        EXPECT(advise(p, CU_MEM_ADVISE_UNSET_ACCESSED_BY, device), CUDA_ERROR_INVALID_DEVICE);
        // The others ignore it.
        OK(advise(p, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
        OK(advise(p, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, device));
    }
#if CUDA_VERSION >= 13000
    const CUmemLocation node = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT};
    EXPECT(cuMemAdvise(p, N, CU_MEM_ADVISE_SET_ACCESSED_BY, node), CUDA_ERROR_INVALID_VALUE);
#endif
    EXPECT(range(p, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION), CU_DEVICE_INVALID);
    EXPECT(range(p, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY), CU_DEVICE_INVALID);
}

RULE(managed, prefetch, "Ranges remember where they were prefetched to", "cuMemPrefetchAsync") {
    CUdeviceptr p;
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    OK(cuMemAllocManaged(&p, N, CU_MEM_ATTACH_GLOBAL));
#if CUDA_VERSION >= 13000
    const CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                        nowhere = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = devices()};
    OK(cuMemPrefetchAsync(p, N, here, 0, a));
    EXPECT(cuMemPrefetchAsync(p, N, nowhere, 0, a), CUDA_ERROR_INVALID_DEVICE);
#else
    OK(cuMemPrefetchAsync(p, N, 0, a));
    EXPECT(cuMemPrefetchAsync(p, N, devices(), a), CUDA_ERROR_INVALID_DEVICE);
#endif
    OK(cuStreamSynchronize(a));
    EXPECT(range(p, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION), 0);
}
