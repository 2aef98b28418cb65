// Pools: what they reserve, use and release, their places, and how processes share them.
#include "conformance.h"

enum { MIB = 1 << 20 };

static cuuint64_t get(CUmemoryPool pool, CUmemPool_attribute which) {
    cuuint64_t value = 0;
    OK(cuMemPoolGetAttribute(pool, which, &value));
    return value;
}

static CUmemoryPool new_pool(CUmemAllocationHandleType handles) {
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .handleTypes = handles,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool = NULL;
    OK(cuMemPoolCreate(&pool, &props));
    return pool;
}

static CUdeviceptr allocate(CUmemoryPool pool, size_t size, CUstream a) {
    CUdeviceptr p = 0;
    OK(cuMemAllocFromPoolAsync(&p, size, pool, a));
    return p;
}

static void keep_everything(CUmemoryPool pool) {
    cuuint64_t most = UINT64_MAX;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most));
}

RULE(pools, current_is_default, "A device's current pool is its default pool at first",
     "cuDeviceGetMemPool") {
    CUmemoryPool current, standard;
    OK(cuDeviceGetMemPool(&current, 0));
    OK(cuDeviceGetDefaultMemPool(&standard, 0));
    EXPECT(current == standard, 1);
    EXPECT(cuMemPoolDestroy(standard), CUDA_ERROR_INVALID_VALUE);
}

RULE(pools, reused_on_the_stream, "What a stream freed comes back on it at once", "observed") {
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p, q;
    OK(cuMemAllocAsync(&p, N, a));
    OK(cuMemFreeAsync(p, a));
    OK(cuMemAllocAsync(&q, N, a));
    EXPECT(p == q, 1);
    OK(cuMemFreeAsync(q, a));
}

RULE(pools, used, "A pool counts what is in use", "cuMemPoolGetAttribute") {
    CUmemoryPool pool;
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    cuuint64_t before = 0, within = 0;
    CUdeviceptr p;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &before));
    OK(cuMemAllocAsync(&p, (size_t)1 << 20, a));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &within));
    EXPECT(within - before >= (1 << 20), 1);
    OK(cuMemFreeAsync(p, a));
    OK(cuStreamSynchronize(a));
}

RULE(pools, released_by_cuMemFree, "cuMemFree takes memory of pools, too", "cuMemFree") {
    CUdeviceptr p;
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    OK(cuMemAllocAsync(&p, N, a));
    OK(cuStreamSynchronize(a));
    OK(cuMemFree(p));
}

RULE(pools, released_when_synchronized,
     "What a pool has above its threshold, 0 at first, is released when the host synchronizes",
     "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD") {
    CUmemoryPool pool = new_pool(CU_MEM_HANDLE_TYPE_NONE);
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    EXPECT(get(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 0);
    EXPECT(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
    const CUdeviceptr p = allocate(pool, MIB, a);
    EXPECT(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= MIB, 1);
    OBSERVE("reserved for one MiB", get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    OK(cuStreamSynchronize(a));
    EXPECT(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= MIB, 1);
    OK(cuMemFreeAsync(p, a));
    OK(cuStreamSynchronize(a));
    EXPECT(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    EXPECT(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
}

RULE(pools, kept_below_the_threshold, "Below its threshold a pool keeps what was freed",
     "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD") {
    CUmemoryPool pool = new_pool(CU_MEM_HANDLE_TYPE_NONE);
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    keep_everything(pool);
    OK(cuMemFreeAsync(allocate(pool, MIB, a), a));
    OK(cuStreamSynchronize(a));
    EXPECT(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= MIB, 1);
    EXPECT(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
}

RULE(pools, keeps_its_memory, "Memory that a pool keeps serves no other allocation",
     "cuMemFreeAsync") {
    CUmemoryPool pool = new_pool(CU_MEM_HANDLE_TYPE_NONE);
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    keep_everything(pool);
    const CUdeviceptr p = allocate(pool, MIB, a);
    OK(cuMemFreeAsync(p, a));
    OK(cuStreamSynchronize(a));
    size_t before = 0, within = 0, total;
    OK(cuMemGetInfo(&before, &total));
    const CUdeviceptr q = device(MIB);
    EXPECT(p == q, 0);
    EXPECT(allocate(new_pool(CU_MEM_HANDLE_TYPE_NONE), MIB, a) == p, 0);
    OK(cuMemGetInfo(&within, &total));
    EXPECT(within < before, 1);
}

RULE(pools, trimmed, "Trimming releases what is not in use, down to a size", "cuMemPoolTrimTo") {
    CUmemoryPool pool = new_pool(CU_MEM_HANDLE_TYPE_NONE);
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    keep_everything(pool);
    OK(cuMemFreeAsync(allocate(pool, MIB, a), a));
    OK(cuStreamSynchronize(a));
    OK(cuMemPoolTrimTo(pool, MIB));
    EXPECT(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= MIB, 1);
    OK(cuMemPoolTrimTo(pool, 0));
    EXPECT(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
    const CUdeviceptr p = allocate(pool, MIB, a);
    OK(cuMemPoolTrimTo(pool, 0));
    EXPECT(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= MIB, 1);
    OK(cuMemFreeAsync(p, a));
}

RULE(pools, high_marks, "The high marks remember the most, and can only be reset to 0",
     "CU_MEMPOOL_ATTR_USED_MEM_HIGH") {
    CUmemoryPool pool = new_pool(CU_MEM_HANDLE_TYPE_NONE);
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    OK(cuMemFreeAsync(allocate(pool, MIB, a), a));
    OK(cuStreamSynchronize(a));
    EXPECT(get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= MIB, 1);
    EXPECT(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) >= MIB, 1);
    cuuint64_t value = 5;
    EXPECT(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value),
           CUDA_ERROR_INVALID_VALUE);
    value = 0;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
    EXPECT(get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0);
    EXPECT(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) >= MIB, 1);
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &value));
    EXPECT(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 0);
}

RULE(pools, zero_bytes, "An allocation of nothing is allowed, captured or not", "observed") {
    CUmemoryPool pool = new_pool(CU_MEM_HANDLE_TYPE_NONE);
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = 0, q = 0;
    CUgraph graph;
    OK(cuMemAllocFromPoolAsync(&p, 0, pool, a));
    OBSERVE("has an address", p != 0);
    if (p) OK(cuMemFreeAsync(p, a));
    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemAllocAsync(&q, 0, a));
    OBSERVE("has an address in a capture", q != 0);
    if (q) OK(cuMemFreeAsync(q, a));
    OK(cuStreamEndCapture(a, &graph));
}

RULE(pools, destroyed_with_allocations, "A pool may be destroyed before its allocations",
     "cuMemPoolDestroy") {
    CUmemoryPool pool = new_pool(CU_MEM_HANDLE_TYPE_NONE);
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    const CUdeviceptr p = allocate(pool, N, a);
    OK(cuMemPoolDestroy(pool));
    OK(cuMemsetD8Async(p, 1, N, a));
    OK(cuMemFreeAsync(p, a));
    OK(cuStreamSynchronize(a));
}

RULE(pools, not_by_ipc_handle, "Memory of pools has no handle of cuIpcGetMemHandle",
     "cuIpcGetMemHandle") {
    CUmemoryPool pool = new_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    CUipcMemHandle handle;
    const CUdeviceptr p = allocate(pool, N, a);
    OK(cuStreamSynchronize(a));
    EXPECT(cuIpcGetMemHandle(&handle, p), CUDA_ERROR_INVALID_VALUE);
    unsigned capable = 1;
    OK(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, p));
    EXPECT((unsigned char)capable, 0);
}

RULE(pools, export, "Only pools made for it are exported; imported pools do not allocate",
     "cuMemPoolExportToShareableHandle") {
    CUmemoryPool own = new_pool(CU_MEM_HANDLE_TYPE_NONE), imported;
    CUmemoryPool shared = new_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    const CUmemAllocationHandleType file = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    int fd = -1;
    CUmemPoolPtrExportData data;
    EXPECT(cuMemPoolExportToShareableHandle(&fd, own, file, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemPoolExportPointer(&data, allocate(own, N, a)), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemPoolExportToShareableHandle(&fd, shared, file, 0));
    OK(cuMemPoolExportPointer(&data, allocate(shared, N, a)));
    OK(cuMemPoolImportFromShareableHandle(&imported, (void *)(uintptr_t)fd, file, 0));
    CUdeviceptr p;
    EXPECT(cuMemAllocFromPoolAsync(&p, N, imported, a), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuDeviceSetMemPool(0, imported), CUDA_ERROR_INVALID_VALUE);
    close(fd);
}

RULE(pools, of_places, "Places other than devices have default pools, too",
     "cuMemGetDefaultMemPool") {
#if CUDA_VERSION >= 13000
    CUmemoryPool standard, current, of_device;
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    OK(cuMemGetDefaultMemPool(&standard, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
    OK(cuDeviceGetDefaultMemPool(&of_device, 0));
    EXPECT(standard == of_device, 1);
    CUmemoryPool made = new_pool(CU_MEM_HANDLE_TYPE_NONE);
    OK(cuMemSetMemPool(&location, CU_MEM_ALLOCATION_TYPE_PINNED, made));
    OK(cuMemGetMemPool(&current, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
    EXPECT(current == made, 1);
    OK(cuDeviceGetMemPool(&current, 0));
    EXPECT(current == made, 1);
    location.type = CU_MEM_LOCATION_TYPE_HOST;
    OK(cuMemGetDefaultMemPool(&standard, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
    EXPECT(standard != of_device, 1);
    // The place must be that of the pool.
    EXPECT(cuMemSetMemPool(&location, CU_MEM_ALLOCATION_TYPE_PINNED, made),
           CUDA_ERROR_INVALID_VALUE);
    location.type = CU_MEM_LOCATION_TYPE_NONE;
    EXPECT(cuMemGetDefaultMemPool(&standard, &location, CU_MEM_ALLOCATION_TYPE_PINNED),
           CUDA_ERROR_INVALID_VALUE);
    OK(cuMemGetDefaultMemPool(&standard, &location, CU_MEM_ALLOCATION_TYPE_MANAGED));
#else
    skip("needs CUDA 13");
#endif
}

RULE(pools, of_the_host, "A pool of the host has host memory, which devices reach if it says so",
     "cuMemPoolCreate") {
#if CUDA_VERSION >= 13000
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_HOST}};
    CUmemoryPool pool;
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    OK(cuMemPoolCreate(&pool, &props));
    const CUdeviceptr p = allocate(pool, N, a);
    OK(cuStreamSynchronize(a));
    ((volatile char *)(uintptr_t)p)[N - 1] = 1;
    unsigned type = 0;
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    EXPECT(type, CU_MEMORYTYPE_HOST);
    CUdeviceptr found;
    OBSERVE("reached at first",
            cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p));
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cuMemPoolSetAccess(pool, &access, 1));
    OK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p));
    EXPECT(cuMemFreeHost((void *)(uintptr_t)p), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFreeAsync(p, a));
#else
    skip("needs CUDA 13");
#endif
}
