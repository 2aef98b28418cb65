// Access of one device to the memory of another.
#include "conformance.h"

// The primary context of device 1, or the end of the rule if there is no second device.
static CUcontext other_device(void) {
    if (devices() < 2) skip("needs two devices");
    CUcontext other = NULL;
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    return other;
}

// The context of device 0 can access memory of device 1 if this is allowed.
static CUcontext capable_peer(void) {
    CUcontext other = other_device();
    int can = 0;
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    if (!can) skip("needs two devices that can access each other");
    return other;
}

static CUdeviceptr memory_of(CUcontext context) {
    OK(cuCtxPushCurrent(context));
    const CUdeviceptr made = device(N);
    CUcontext popped;
    OK(cuCtxPopCurrent(&popped));
    return made;
}

static CUresult device_pointer(CUdeviceptr p) {
    CUdeviceptr found = 0;
    const CUresult code = cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p);
    if (code == CUDA_SUCCESS) EXPECT(found == p, 1);
    return code;
}

RULE(peers, can_access, "A device is not its own peer", "cuDeviceCanAccessPeer") {
    int can = 1;
    OK(cuDeviceCanAccessPeer(&can, 0, 0));
    EXPECT(can, 0);
    EXPECT(cuDeviceCanAccessPeer(&can, 0, devices()), CUDA_ERROR_INVALID_DEVICE);
    EXPECT(cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0),
           CUDA_ERROR_INVALID_DEVICE);
}

RULE(peers, not_with_itself, "A context is not its own peer", "cuCtxEnablePeerAccess") {
    EXPECT(cuCtxEnablePeerAccess(ctx, 0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT(cuCtxEnablePeerAccess(NULL, 0), CUDA_ERROR_INVALID_CONTEXT);
    CUcontext other = another_context();
    OBSERVE("another context of the device", cuCtxEnablePeerAccess(other, 0));
    OK(cuCtxDestroy(other));
}

RULE(peers, unsupported, "Devices that cannot access each other cannot be enabled to",
     "cuCtxEnablePeerAccess") {
    CUcontext other = other_device();
    int can = 1;
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    EXPECT(cuCtxEnablePeerAccess(other, 0),
           can ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    EXPECT(cuCtxDisablePeerAccess(other), can ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
}

RULE(peers, enabled_once, "Access is enabled once, and disabled once", "cuCtxEnablePeerAccess") {
    CUcontext other = capable_peer();
    EXPECT(cuCtxEnablePeerAccess(other, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuCtxDisablePeerAccess(other), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    OK(cuCtxEnablePeerAccess(other, 0));
    EXPECT(cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    OK(cuCtxDisablePeerAccess(other));
    EXPECT(cuCtxDisablePeerAccess(other), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    OK(cuCtxSetCurrent(NULL));
    EXPECT(cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_INVALID_CONTEXT);
}

RULE(peers, device_pointer, "Memory out of reach has no device pointer in the current context",
     "cuPointerGetAttribute") {
    CUcontext other = capable_peer();
    const CUdeviceptr p = memory_of(other);
    EXPECT(device_pointer(p), CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxEnablePeerAccess(other, 0));
    OK(device_pointer(p));
    OK(cuCtxDisablePeerAccess(other));
    EXPECT(device_pointer(p), CUDA_ERROR_INVALID_VALUE);
    // The other attributes do not depend on it.
    int ordinal = -1;
    OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    EXPECT(ordinal, 1);
    OK(cuCtxSetCurrent(other));
    OK(device_pointer(p));
    OK(cuCtxSetCurrent(NULL));
    EXPECT(device_pointer(p), CUDA_ERROR_INVALID_CONTEXT);
}

RULE(peers, one_direction, "Access is of one direction", "cuCtxEnablePeerAccess") {
    CUcontext other = capable_peer();
    const CUdeviceptr here = device(N), there = memory_of(other);
    OK(cuCtxEnablePeerAccess(other, 0));
    OK(device_pointer(there));
    OK(cuCtxSetCurrent(other));
    EXPECT(device_pointer(here), CUDA_ERROR_INVALID_VALUE);
}

RULE(peers, host_memory, "Memory of the host is in reach of all devices", "cuMemHostAlloc") {
    CUcontext other = other_device();
    void *host = NULL;
    OK(cuMemHostAlloc(&host, N, 0));
    OK(cuCtxSetCurrent(other));
    OK(device_pointer((CUdeviceptr)(uintptr_t)host));
}

RULE(peers, copies, "Copies between devices need no access", "cuMemcpyPeer") {
    CUcontext other = other_device();
    const CUdeviceptr here = device(N), there = memory_of(other);
    static char bytes[N];
    memset(bytes, 7, N);
    OK(cuMemcpyHtoD(here, bytes, N));
    OK(cuMemcpyPeer(there, other, here, ctx, N));
    OK(cuMemsetD8(here, 0, N));
    OK(cuMemcpyDtoD(here, there, N));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(bytes, here, N));
    EXPECT(bytes[N - 1], 7);
}

RULE(peers, serialized,
     "A copy between devices comes after the work of all streams of both, and "
     "before their later work; the host does not wait",
     "cuMemcpyPeer") {
    CUcontext other = other_device();
    const CUdeviceptr here = device(N), there = memory_of(other);
    OK(cuCtxSetCurrent(other));
    CUstream b = stream(CU_STREAM_NON_BLOCKING);
    OK(cuCtxSetCurrent(ctx));
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    OK(cuMemsetD8(here, 1, N));
    OK(cuCtxSynchronize());
    close_gate(a);
    OK(cuMemsetD8Async(here, 7, N, a));
    OK(cuMemcpyPeer(there, other, here, ctx, N));
    OK(cuMemsetD8Async(here, 2, N, a));
    OK(cuCtxSetCurrent(other));
    char back = 0;
    CUevent done;
    OK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(done, b));
    OBSERVE("cuEventQuery behind the copy", cuEventQuery(done));
    open_gate();
    OK(cuStreamSynchronize(b));
    OK(cuMemcpyDtoHAsync(&back, there, 1, b));
    OK(cuStreamSynchronize(b));
    EXPECT(back, 7);
    OK(cuCtxSetCurrent(ctx));
}

RULE(peers, pools, "A pool's memory is in reach of its device, and of others by its access",
     "cuMemPoolSetAccess") {
    CUcontext other = capable_peer();
    CUmemoryPool pool;
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}};
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuCtxSetCurrent(other));
    CUdeviceptr p;
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    OK(cuMemAllocFromPoolAsync(&p, N, pool, a));
    OK(cuStreamSynchronize(a));
    OK(cuCtxSetCurrent(ctx));
    // Only the access of the pool counts, not that of the contexts.
    OK(cuCtxEnablePeerAccess(other, 0));
    EXPECT(device_pointer(p), CUDA_ERROR_INVALID_VALUE);
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cuMemPoolSetAccess(pool, &access, 1));
    OK(device_pointer(p));
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    OK(cuMemPoolSetAccess(pool, &access, 1));
    EXPECT(device_pointer(p), CUDA_ERROR_INVALID_VALUE);
    // The owner cannot be shut out.
    access.location.id = 1;
    EXPECT(cuMemPoolSetAccess(pool, &access, 1), CUDA_ERROR_INVALID_VALUE);
}
