// Memory, and attributes of pointers.
#include "conformance.h"

#include <sys/wait.h>

RULE(memory, zero_bytes, "An allocation of nothing is invalid", "cuMemAlloc") {
    CUdeviceptr p;
    EXPECT(cuMemAlloc(&p, 0), CUDA_ERROR_INVALID_VALUE);
}

RULE(memory, too_much, "More than there is gives out of memory, and nothing breaks", "cuMemAlloc") {
    CUdeviceptr p;
    EXPECT(cuMemAlloc(&p, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&p, 16));
}

RULE(memory, free_null, "Freeing NULL does nothing", "observed") {
    OBSERVE("cuMemFree(0)", cuMemFree(0));
}

RULE(memory, free_inside, "Only the beginning of an allocation can be freed", "cuMemFree") {
    const CUdeviceptr p = device(N);
    EXPECT(cuMemFree(p + 16), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(p));
    EXPECT(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
}

static void CUDA_CB set_late(void *done) {
    usleep(20000);
    atomic_store((atomic_int *)done, 1);
}

RULE(memory, free_waits, "Freeing memory waits for the work of all streams",
     "allocation 13.5; cuMemFree: may wait") {
    static atomic_int done;
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    const CUdeviceptr p = device(N);
    atomic_store(&done, 0);
    OK(cuLaunchHostFunc(a, set_late, &done));
    OK(cuMemFree(p));
    OBSERVE("done after cuMemFree", atomic_load(&done));
    OK(cuStreamSynchronize(a));
}

RULE(memory, aligned, "Allocations are aligned to 256 bytes at least", "cuMemAlloc") {
    for (int i = 0; i < 10; ++i)
        EXPECT(device(1) % 256, 0);
}

RULE(memory, address_range, "Every address of an allocation gives its beginning and size",
     "cuMemGetAddressRange") {
    const CUdeviceptr p = device(1000);
    CUdeviceptr base = 0;
    size_t size = 0;
    OK(cuMemGetAddressRange(&base, &size, p + 999));
    EXPECT(base == p, 1);
    EXPECT(size, 1000);
    OK(cuMemGetAddressRange(NULL, &size, p));
    OK(cuMemGetAddressRange(&base, NULL, p));
}

RULE(memory, pitch, "A pitched allocation has rows at least as long as requested",
     "cuMemAllocPitch") {
    CUdeviceptr p;
    size_t pitch = 0;
    OK(cuMemAllocPitch(&p, &pitch, 1000, 10, 4));
    EXPECT(pitch >= 1000 && pitch % 4 == 0, 1);
    EXPECT(cuMemAllocPitch(&p, &pitch, 1000, 10, 3), CUDA_ERROR_INVALID_VALUE);
}

RULE(memory, info, "What is free is at most what there is", "cuMemGetInfo") {
    size_t available = 0, total = 0;
    OK(cuMemGetInfo(&available, &total));
    EXPECT(available <= total && total > 0, 1);
}

// --- attributes ---

static long long attribute(CUdeviceptr p, CUpointer_attribute which) {
    uint64_t value = 0;
    const CUresult code = cuPointerGetAttribute(&value, which, p);
    return code == CUDA_SUCCESS ? (long long)value : -(long long)code;
}

RULE(attributes, device_memory, "cuMemAlloc returns device memory of the current context",
     "cuPointerGetAttribute") {
    const CUdeviceptr p = device(1000);
    EXPECT(attribute(p + 5, CU_POINTER_ATTRIBUTE_MEMORY_TYPE), CU_MEMORYTYPE_DEVICE);
    EXPECT(attribute(p + 5, CU_POINTER_ATTRIBUTE_CONTEXT) == (long long)(uintptr_t)ctx, 1);
    EXPECT(attribute(p + 5, CU_POINTER_ATTRIBUTE_DEVICE_POINTER) == (long long)(p + 5), 1);
    EXPECT(attribute(p + 5, CU_POINTER_ATTRIBUTE_HOST_POINTER), -CUDA_ERROR_INVALID_VALUE);
    EXPECT(attribute(p + 5, CU_POINTER_ATTRIBUTE_IS_MANAGED), 0);
    EXPECT(attribute(p + 5, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL), 0);
    EXPECT(attribute(p + 5, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) == (long long)p, 1);
    EXPECT(attribute(p + 5, CU_POINTER_ATTRIBUTE_RANGE_SIZE), 1000);
    EXPECT(attribute(p + 5, CU_POINTER_ATTRIBUTE_MAPPED), 1);
}

RULE(attributes, pinned, "Pinned memory is host memory with an address on the device",
     "cuPointerGetAttribute") {
    void *host;
    OK(cuMemAllocHost(&host, N));
    const CUdeviceptr p = (CUdeviceptr)(uintptr_t)host;
    EXPECT(attribute(p, CU_POINTER_ATTRIBUTE_MEMORY_TYPE), CU_MEMORYTYPE_HOST);
    EXPECT(attribute(p, CU_POINTER_ATTRIBUTE_HOST_POINTER) == (long long)p, 1);
    CUdeviceptr on_device = 0;
    OK(cuMemHostGetDevicePointer(&on_device, host, 0));
    EXPECT(attribute(p, CU_POINTER_ATTRIBUTE_DEVICE_POINTER) == (long long)on_device, 1);
}

RULE(attributes, registered, "Registered memory may have another address on the device",
     "cuMemHostRegister") {
    static char memory[2 * N];
    OK(cuMemHostRegister(memory, sizeof memory, CU_MEMHOSTREGISTER_DEVICEMAP));
    const CUdeviceptr p = (CUdeviceptr)(uintptr_t)memory;
    CUdeviceptr on_device = 0;
    OK(cuMemHostGetDevicePointer(&on_device, memory + 10, 0));
    OBSERVE("the same address", on_device == p + 10);
    EXPECT(attribute(p + 10, CU_POINTER_ATTRIBUTE_MEMORY_TYPE), CU_MEMORYTYPE_HOST);
    EXPECT(attribute(p + 10, CU_POINTER_ATTRIBUTE_DEVICE_POINTER) == (long long)on_device, 1);
    EXPECT(attribute(p + 10, CU_POINTER_ATTRIBUTE_HOST_POINTER) == (long long)(p + 10), 1);
    OBSERVE("device ordinal", attribute(p, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL));
    EXPECT(cuMemHostRegister(memory, 16, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK(cuMemHostUnregister(memory));
    EXPECT(cuMemHostUnregister(memory), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

RULE(attributes, managed, "Managed memory counts as device memory and has a host address",
     "cuMemAllocManaged") {
    CUdeviceptr p;
    OK(cuMemAllocManaged(&p, N, CU_MEM_ATTACH_GLOBAL));
    EXPECT(attribute(p, CU_POINTER_ATTRIBUTE_MEMORY_TYPE), CU_MEMORYTYPE_DEVICE);
    EXPECT(attribute(p, CU_POINTER_ATTRIBUTE_IS_MANAGED), 1);
    EXPECT(attribute(p, CU_POINTER_ATTRIBUTE_HOST_POINTER) == (long long)p, 1);
    *(volatile char *)(uintptr_t)p = 1;
}

RULE(attributes, pool_memory, "Memory of pools belongs to no context", "observed") {
    CUdeviceptr p;
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    OK(cuMemAllocAsync(&p, N, a));
    EXPECT(attribute(p, CU_POINTER_ATTRIBUTE_CONTEXT), 0);
    EXPECT(attribute(p, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL), 0);
    EXPECT(attribute(p, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE) != 0, 1);
    OBSERVE("IPC capable", attribute(p, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE));
    OK(cuMemFreeAsync(p, a));
}

RULE(attributes, unknown_alone, "A single query of an unknown pointer returns an invalid value",
     "cuPointerGetAttribute") {
    static char memory[16];
    EXPECT(attribute((CUdeviceptr)(uintptr_t)memory, CU_POINTER_ATTRIBUTE_MEMORY_TYPE),
           -CUDA_ERROR_INVALID_VALUE);
    EXPECT(attribute(0, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL), -CUDA_ERROR_INVALID_VALUE);
}

static void batch(CUdeviceptr p, long long found[6]) {
    CUpointer_attribute which[] = {
        CU_POINTER_ATTRIBUTE_CONTEXT,        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    uint64_t words[6] = {0};
    void *data[6];
    for (int i = 0; i < 6; ++i)
        data[i] = &words[i];
    OK(cuPointerGetAttributes(6, which, data, p));
    for (int i = 0; i < 6; ++i) {
        found[i] = i == 1 || i == 5 ? (long long)(int32_t)words[i]
                   : i == 4         ? (long long)(words[i] & 0xff)
                                    : (long long)words[i];
    }
}

RULE(attributes, unknown_in_a_batch,
     "A batch of queries of an unknown pointer succeeds and returns defaults", "observed") {
    static char memory[16];
    long long found[6];
    const CUdeviceptr p = (CUdeviceptr)(uintptr_t)memory;
    batch(p, found);
    EXPECT(found[0], 0);
    EXPECT(found[1], 0);
    EXPECT(found[2], 0);
    EXPECT(found[3] == (long long)p, 1);
    EXPECT(found[4], 0);
    EXPECT(found[5], -2);
}

RULE(attributes, freed, "A freed pointer is an unknown pointer", "cuPointerGetAttributes") {
    long long found[6];
    const CUdeviceptr p = device((size_t)64 << 20);
    OK(cuMemFree(p));
    batch(p, found);
    EXPECT(found[1], 0);
    EXPECT(found[5], -2);
}

RULE(attributes, not_in_a_batch, "Some attributes cannot be queried in a batch",
     "cuPointerGetAttributes") {
    const CUdeviceptr p = device(16);
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_ACCESS_FLAGS};
    uint64_t word = 0;
    void *data[] = {&word};
    OBSERVE("ACCESS_FLAGS in a batch", cuPointerGetAttributes(1, which, data, p));
    EXPECT(cuPointerGetAttributes(0, which, data, p), CUDA_ERROR_INVALID_VALUE);
}

RULE(attributes, buffer_ids, "Each allocation has an id that is never reused",
     "CU_POINTER_ATTRIBUTE_BUFFER_ID") {
    const CUdeviceptr p = device(N);
    const long long first = attribute(p, CU_POINTER_ATTRIBUTE_BUFFER_ID);
    EXPECT(attribute(p + 100, CU_POINTER_ATTRIBUTE_BUFFER_ID), first);
    OK(cuMemFree(p));
    const CUdeviceptr q = device(N);
    OBSERVE("the address came back", p == q);
    EXPECT(attribute(q, CU_POINTER_ATTRIBUTE_BUFFER_ID) != first, 1);
}

RULE(attributes, sync_memops, "SYNC_MEMOPS can be set and read", "cuPointerSetAttribute") {
    const CUdeviceptr p = device(N);
    unsigned on = 1;
    EXPECT(attribute(p, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) & 0xff, 0);
    OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
    EXPECT(attribute(p, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) & 0xff, 1);
}

// --- copies ---

RULE(copies, beyond_the_end, "A copy must stay inside its allocation", "observed") {
    static char host[2 * N];
    const CUdeviceptr p = device(N);
    OBSERVE("one byte too many", cuMemcpyDtoH(host, p, N + 1));
    OK(cuMemcpyDtoH(host, p, N));
    OK(cuMemcpyDtoH(host, p, 0));
}

RULE(copies, round_trip, "Bytes come back as they went", "cuMemcpyHtoD") {
    static char out[N], back[N];
    const CUdeviceptr p = device(N), q = device(N);
    for (int i = 0; i < N; ++i)
        out[i] = (char)(i * 7);
    OK(cuMemcpyHtoD(p, out, N));
    OK(cuMemcpyDtoD(q, p, N));
    OK(cuMemcpy((CUdeviceptr)(uintptr_t)back, q, N));
    EXPECT(memcmp(out, back, N), 0);
}

RULE(copies, two_dimensions, "Rows are copied at their pitches", "cuMemcpy2D") {
    static char out[8 * 16], back[8 * 16];
    const CUdeviceptr p = device(N);
    for (int i = 0; i < 8 * 16; ++i)
        out[i] = (char)i;
    CUDA_MEMCPY2D in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = out,
                        .srcPitch = 16,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = p,
                        .dstPitch = 512,
                        .WidthInBytes = 10,
                        .Height = 8};
    OK(cuMemcpy2D(&in));
    CUDA_MEMCPY2D from = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = p,
                          .srcPitch = 512,
                          .srcXInBytes = 2,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = back,
                          .dstPitch = 16,
                          .WidthInBytes = 8,
                          .Height = 8};
    OK(cuMemcpy2D(&from));
    for (int row = 0; row < 8; ++row)
        EXPECT(memcmp(back + 16 * row, out + 16 * row + 2, 8), 0);
}

RULE(copies, fills, "Fills write elements of 1, 2 and 4 bytes", "cuMemsetD32") {
    static unsigned char back[16];
    const CUdeviceptr p = device(16);
    OK(cuMemsetD8(p, 1, 16));
    OK(cuMemsetD16(p + 2, 0x0302, 2));
    OK(cuMemsetD32(p + 8, 0x07060504, 1));
    OK(cuMemcpyDtoH(back, p, 16));
    const unsigned char expected[16] = {1, 1, 2, 3, 2, 3, 1, 1, 4, 5, 6, 7, 1, 1, 1, 1};
    EXPECT(memcmp(back, expected, 16), 0);
    EXPECT(cuMemsetD32(p + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
}

RULE(copies, device_to_pageable_waits,
     "A copy to pageable memory is done when it returns, also asynchronously",
     "synchronization 11.0; 13.5: may be") {
    static char back[N];
    const CUdeviceptr p = device(N);
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    OK(cuMemsetD8Async(p, 9, N, a));
    OK(cuMemcpyDtoHAsync(back, p, N, a));
    EXPECT(back[N - 1], 9);
}

RULE(copies, pageable_to_device_is_read_at_once,
     "Pageable memory may be changed after an asynchronous copy from it",
     "observed; synchronization 13.5: may be") {
    static char out[N], back[N];
    const CUdeviceptr p = device(N);
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    memset(out, 1, N);
    close_gate(a);
    OK(cuMemcpyHtoDAsync(p, out, N, a));
    memset(out, 2, N);
    open_gate();
    OK(cuMemcpyDtoHAsync(back, p, N, a));
    OK(cuStreamSynchronize(a));
    EXPECT(back[0], 1);
}

RULE(copies, pinned_does_not_wait, "A copy to pinned memory does not wait for its stream",
     "synchronization") {
    const CUdeviceptr p = device(N);
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    void *host;
    OK(cuMemAllocHost(&host, N));
    close_gate(a);
    OK(cuMemcpyDtoHAsync(host, p, N, a));
    EXPECT(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    open_gate();
    OK(cuStreamSynchronize(a));
}

// --- virtual memory ---

RULE(virtual_memory, map_and_use,
     "Reserved addresses are used once memory is mapped there with access", "cuMemMap") {
    CUmemAllocationProp props = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    size_t step = 0;
    OK(cuMemGetAllocationGranularity(&step, &props, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CUmemGenericAllocationHandle memory;
    CUdeviceptr p = 0;
    OK(cuMemCreate(&memory, step, &props, 0));
    OK(cuMemAddressReserve(&p, 2 * step, 0, 0, 0));
    OK(cuMemMap(p, step, 0, memory, 0));
    CUmemAccessDesc access = {.location = props.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cuMemSetAccess(p, step, &access, 1));
    OK(cuMemsetD8(p + step - 1, 5, 1));
    EXPECT(first_byte(p + step - 1), 5);
    EXPECT(attribute(p, CU_POINTER_ATTRIBUTE_CONTEXT), 0);
    EXPECT(attribute(p, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) == (long long)p, 1);
    OBSERVE("RANGE_SIZE is the reservation's",
            attribute(p, CU_POINTER_ATTRIBUTE_RANGE_SIZE) == (long long)(2 * step));
    int file = -1;
    OK(cuMemExportToShareableHandle(&file, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EXPECT(file >= 0, 1);
    CUmemGenericAllocationHandle again;
    CUdeviceptr q = 0;
    OK(cuMemImportFromShareableHandle(&again, (void *)(uintptr_t)file,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    OK(cuMemAddressReserve(&q, step, 0, 0, 0));
    OK(cuMemMap(q, step, 0, again, 0));
    OK(cuMemSetAccess(q, step, &access, 1));
    EXPECT(first_byte(q + step - 1), 5);
    OK(cuMemUnmap(q, step));
    OK(cuMemAddressFree(q, step));
    OK(cuMemUnmap(p, step));
    OK(cuMemAddressFree(p, 2 * step));
    OK(cuMemRelease(memory));
    OK(cuMemRelease(again));
}

RULE(virtual_memory, adjacent_mappings, "Copies and fills may cross from one mapping to the next",
     "cuMemMap") {
    static unsigned char back[N];
    CUmemAllocationProp props = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = props.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle memory[2];
    size_t step = 0;
    CUdeviceptr p = 0;
    OK(cuMemGetAllocationGranularity(&step, &props, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    OK(cuMemAddressReserve(&p, 2 * step, 0, 0, 0));
    for (int i = 0; i < 2; ++i) {
        OK(cuMemCreate(&memory[i], step, &props, 0));
        OK(cuMemMap(p + i * step, step, 0, memory[i], 0));
    }
    OK(cuMemSetAccess(p, 2 * step, &access, 1));
    OK(cuMemsetD8(p + step - N / 2, 5, N));
    OK(cuMemcpyDtoH(back, p + step - N / 2, N));
    EXPECT(back[0], 5);
    EXPECT(back[N - 1], 5);
    EXPECT(cuMemsetD8(p + 2 * step - N / 2, 5, N), CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < 2; ++i) {
        OK(cuMemUnmap(p + i * step, step));
        OK(cuMemRelease(memory[i]));
    }
    OK(cuMemAddressFree(p, 2 * step));
}

// --- between processes ---

RULE(ipc, own_memory, "A process cannot open its own memory handle", "cuIpcOpenMemHandle") {
    CUipcMemHandle handle;
    CUdeviceptr p = device(N), q;
    OK(cuIpcGetMemHandle(&handle, p));
    OBSERVE("opening one's own",
            cuIpcOpenMemHandle(&q, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

RULE(ipc, events_need_flags, "Only events for several processes have handles",
     "cuIpcGetEventHandle") {
    CUevent plain, shared, timed = NULL;
    CUipcEventHandle handle;
    OK(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
    OBSERVE("handle of a plain event", cuIpcGetEventHandle(&handle, plain));
    OK(cuEventCreate(&shared, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    OK(cuIpcGetEventHandle(&handle, shared));
    EXPECT(cuEventCreate(&timed, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
}

struct message {
    CUipcMemHandle memory;
    CUipcEventHandle done;
};

RULE(ipc, two_processes,
     "Another process sees the memory, ordered by a shared event or a number in it",
     "cuIpcOpenMemHandle, cuStreamWaitValue64") {
    // The child is a program of its own: a driver does not survive fork.
    const char *role = getenv("CONFORMANCE_IPC");
    if (role != NULL) {
        struct message message;
        EXPECT(read(atoi(role), &message, sizeof message), sizeof message);
        CUdeviceptr p = 0;
        CUevent done;
        char back[N] = {0};
        CUstream a = stream(CU_STREAM_NON_BLOCKING);
        OK(cuIpcOpenMemHandle(&p, message.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        OK(cuIpcOpenEventHandle(&done, message.done));
        OK(cuStreamWaitEvent(a, done, 0));
        OK(cuMemcpyDtoHAsync(back, p, N, a));
        EXPECT(back[0], 42);
        EXPECT(back[N - 1], 42);
        OK(cuMemsetD8(p, 43, N));
        OK(cuCtxSynchronize());
        OK(cuStreamWaitValue64(a, p + N, 7, CU_STREAM_WAIT_VALUE_GEQ));
        OK(cuStreamWriteValue64(a, p + N + 8, 8, CU_STREAM_WRITE_VALUE_DEFAULT));
        OK(cuStreamSynchronize(a));
        // A handle that is open gives the same address again, until it is closed as often.
        CUdeviceptr again = 0;
        OK(cuIpcOpenMemHandle(&again, message.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        EXPECT(again == p, 1);
        OK(cuIpcCloseMemHandle(again));
        OK(cuMemsetD8(p, 43, N));
        OK(cuCtxSynchronize());
        OK(cuIpcCloseMemHandle(p));
        return;
    }
    int fds[2];
    char text[16];
    OK(pipe(fds));
    snprintf(text, sizeof text, "%d", fds[0]);
    setenv("CONFORMANCE_IPC", text, 1);
    const pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "conformance", "run", "ipc/two_processes", (char *)NULL);
        _exit(126);
    }
    struct message message;
    CUevent done;
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    const CUdeviceptr p = device(N + 16);
    OK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    OK(cuMemsetD8Async(p + N, 0, 16, a));
    OK(cuMemsetD8Async(p, 42, N, a));
    OK(cuEventRecord(done, a));
    OK(cuStreamWriteValue64(a, p + N, 7, CU_STREAM_WRITE_VALUE_DEFAULT));
    OK(cuIpcGetMemHandle(&message.memory, p));
    OK(cuIpcGetEventHandle(&message.done, done));
    EXPECT(write(fds[1], &message, sizeof message), sizeof message);
    int status = -1;
    EXPECT(waitpid(child, &status, 0), child);
    EXPECT(status, 0);
    if (status == 0) OK(cuStreamWaitValue64(a, p + N + 8, 8, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuStreamSynchronize(a));
    EXPECT(first_byte(p + N - 1), 43);
}

struct pool_message {
    CUmemPoolPtrExportData pointer;
};

RULE(ipc, pools, "Another process uses memory of a pool by its shared handle",
     "cuMemPoolImportPointer") {
    const char *role = getenv("CONFORMANCE_POOL");
    if (role != NULL) {
        int input, file;
        EXPECT(sscanf(role, "%d %d", &input, &file), 2);
        struct pool_message message;
        EXPECT(read(input, &message, sizeof message), sizeof message);
        CUmemoryPool pool = NULL;
        CUdeviceptr p = 0;
        char back = 0;
        CUstream a = stream(CU_STREAM_NON_BLOCKING);
        OK(cuMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)file,
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        OK(cuMemPoolImportPointer(&p, pool, &message.pointer));
        OK(cuMemcpyDtoHAsync(&back, p + N - 1, 1, a));
        EXPECT(back, 11);
        OK(cuMemFreeAsync(p, a));
        OK(cuStreamSynchronize(a));
        EXPECT(cuMemAllocFromPoolAsync(&p, N, pool, a), CUDA_ERROR_INVALID_VALUE);
        return;
    }
    CUmemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemoryPool pool;
    int file = -1, fds[2];
    char text[32];
    OK(pipe(fds));
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemPoolExportToShareableHandle(&file, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    // It has to outlive exec.
    const int kept = dup(file);
    snprintf(text, sizeof text, "%d %d", fds[0], kept);
    setenv("CONFORMANCE_POOL", text, 1);
    const pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "conformance", "run", "ipc/pools", (char *)NULL);
        _exit(126);
    }
    struct pool_message message;
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = 0;
    OK(cuMemAllocFromPoolAsync(&p, N, pool, a));
    OK(cuMemsetD8Async(p, 11, N, a));
    OK(cuStreamSynchronize(a));
    OK(cuMemPoolExportPointer(&message.pointer, p));
    EXPECT(write(fds[1], &message, sizeof message), sizeof message);
    int status = -1;
    EXPECT(waitpid(child, &status, 0), child);
    EXPECT(status, 0);
    OK(cuMemFreeAsync(p, a));
    OK(cuStreamSynchronize(a));
    OK(cuMemPoolDestroy(pool));
}

RULE(ipc, recorded_by_the_other,
     "The creator of a shared event waits for the records of the other process",
     "cuIpcOpenEventHandle") {
    const char *role = getenv("CONFORMANCE_ANSWER");
    char byte = 0;
    if (role != NULL) {
        int input, output;
        EXPECT(sscanf(role, "%d %d", &input, &output), 2);
        CUipcEventHandle handle;
        EXPECT(read(input, &handle, sizeof handle), sizeof handle);
        CUevent done;
        CUstream a = stream(CU_STREAM_NON_BLOCKING);
        OK(cuIpcOpenEventHandle(&done, handle));
        close_gate(a);
        OK(cuEventRecord(done, a));
        EXPECT(write(output, &byte, 1), 1);
        EXPECT(read(input, &byte, 1), 1);
        open_gate();
        OK(cuStreamSynchronize(a));
        return;
    }
    int to[2], from[2];
    char text[32];
    CUevent done;
    CUipcEventHandle handle;
    OK(pipe(to));
    OK(pipe(from));
    snprintf(text, sizeof text, "%d %d", to[0], from[1]);
    setenv("CONFORMANCE_ANSWER", text, 1);
    OK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    OK(cuIpcGetEventHandle(&handle, done));
    const pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "conformance", "run", "ipc/recorded_by_the_other", (char *)NULL);
        _exit(126);
    }
    EXPECT(write(to[1], &handle, sizeof handle), sizeof handle);
    EXPECT(read(from[0], &byte, 1), 1);
    EXPECT(cuEventQuery(done), CUDA_ERROR_NOT_READY);
    CUstream b = stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamWaitEvent(b, done, 0));
    EXPECT(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
    EXPECT(write(to[1], &byte, 1), 1);
    OK(cuEventSynchronize(done));
    OK(cuStreamSynchronize(b));
    int status = -1;
    EXPECT(waitpid(child, &status, 0), child);
    EXPECT(status, 0);
}
