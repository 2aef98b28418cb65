// Initialization, devices, contexts, errors, and finding functions.
#include "conformance.h"

RULE(init, nothing_before, "Every call before cuInit returns CUDA_ERROR_NOT_INITIALIZED",
     "cuInit") {
    int n;
    CUcontext current;
    EXPECT(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT(cuCtxGetCurrent(&current), CUDA_ERROR_NOT_INITIALIZED);
}

RULE(init, version_before, "The version is available before cuInit", "cuDriverGetVersion") {
    int version = 0;
    OK(cuDriverGetVersion(&version));
    EXPECT(version >= 11000, 1);
    EXPECT(cuDriverGetVersion(NULL), CUDA_ERROR_INVALID_VALUE);
}

RULE(init, flags, "The flags of cuInit must be 0", "cuInit") {
    EXPECT(cuInit(1), CUDA_ERROR_INVALID_VALUE);
    OK(cuInit(0));
    OK(cuInit(0));
}

RULE(init, after_fork, "A child of a process that initialized the driver cannot use it",
     "observed") {
    OK(cuInit(0));
    int fds[2];
    OK(pipe(fds));
    if (fork() == 0) {
        int n, code = cuDeviceGetCount(&n);
        _exit(write(fds[1], &code, sizeof code) == sizeof code ? 0 : 1);
    }
    int code = -1;
    EXPECT(read(fds[0], &code, sizeof code), sizeof code);
    EXPECT(code, CUDA_ERROR_NOT_INITIALIZED);
}

static void at_exit(void) {
    int n;
    OBSERVE("cuDeviceGetCount at exit", cuDeviceGetCount(&n));
    fflush(stdout);
}

RULE(init, at_exit, "What calls answer at exit, after the driver's own handlers", "observed") {
    atexit(at_exit); // before the driver's, so it runs after them
    OK(cuInit(0));
    int n;
    OK(cuDeviceGetCount(&n));
}

RULE(errors, names, "Results have names; an unknown one gives NULL and an error",
     "cuGetErrorName") {
    const char *text = NULL;
    OK(cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &text));
    EXPECT(strcmp(text, "CUDA_ERROR_INVALID_VALUE"), 0);
    OK(cuGetErrorString(CUDA_ERROR_NOT_READY, &text));
    EXPECT(text != NULL, 1);
    EXPECT(cuGetErrorName((CUresult)123456, &text), CUDA_ERROR_INVALID_VALUE);
    EXPECT(text == NULL, 1);
}

RULE(errors, texts, "Results have descriptions, those of the runtime library for the same number",
     "cudaGetErrorString") {
    static const struct {
        CUresult code;
        const char *text;
    } known[] = {
        {CUDA_SUCCESS, "no error"},
        {CUDA_ERROR_INVALID_VALUE, "invalid argument"},
        {CUDA_ERROR_NOT_INITIALIZED, "initialization error"},
        {CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"},
        {CUDA_ERROR_INVALID_CONTEXT, "invalid device context"},
        {CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"},
        {CUDA_ERROR_NOT_FOUND, "named symbol not found"},
        {CUDA_ERROR_NOT_READY, "device not ready"},
        {CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"},
        {CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"},
        {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"},
        {CUDA_ERROR_UNKNOWN, "unknown error"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i) {
        const char *text = NULL;
        OK(cuGetErrorString(known[i].code, &text));
        EXPECT(strcmp(text, known[i].text), 0);
    }
}

RULE(errors, function_name, "The name of no function is an invalid value", "cuFuncGetName") {
    const char *name = NULL;
    EXPECT(cuFuncGetName(&name, NULL), CUDA_ERROR_INVALID_VALUE);
}

RULE(errors, null_outputs, "NULL for a result that is needed is an invalid value", "cuda.h") {
    EXPECT(cuMemAlloc(NULL, 16), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuStreamCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuEventCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuDeviceGetCount(NULL), CUDA_ERROR_INVALID_VALUE);
}

RULE(devices, ordinals, "Ordinals run from 0 to below the count", "cuDeviceGet") {
    CUdevice found;
    OK(cuDeviceGet(&found, 0));
    EXPECT(cuDeviceGet(&found, devices()), CUDA_ERROR_INVALID_DEVICE);
    EXPECT(cuDeviceGet(&found, -1), CUDA_ERROR_INVALID_DEVICE);
}

RULE(devices, unified_addressing, "64-bit Linux has unified addressing and pools",
     "cuDeviceGetAttribute") {
    int value = 0;
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0));
    EXPECT(value, 1);
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
    EXPECT(value, 1);
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
    EXPECT(value, 32);
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
                            0));
    OBSERVE("CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM", value);
}

RULE(contexts, one_primary, "A device has one primary context, and each retain returns it",
     "cuDevicePrimaryCtxRetain") {
    CUcontext again;
    OK(cuDevicePrimaryCtxRetain(&again, 0));
    EXPECT(again == ctx, 1);
    OK(cuDevicePrimaryCtxRelease(0));
    unsigned flags;
    int active = 0;
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT(active, 1);
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT(active, 0);
}

RULE(contexts, a_stack_for_each_thread, "Push and pop work on the calling thread's stack",
     "cuCtxPushCurrent") {
    CUcontext other = another_context(), found = NULL;
    OK(cuCtxPushCurrent(other));
    OK(cuCtxGetCurrent(&found));
    EXPECT(found == other, 1);
    OK(cuCtxPopCurrent(&found));
    EXPECT(found == other, 1);
    OK(cuCtxGetCurrent(&found));
    EXPECT(found == ctx, 1);
    OK(cuCtxDestroy(other));
}

RULE(contexts, pop_of_nothing, "An empty stack cannot be popped", "cuCtxPopCurrent") {
    CUcontext found;
    OK(cuCtxSetCurrent(NULL));
    EXPECT(cuCtxPopCurrent(&found), CUDA_ERROR_INVALID_CONTEXT);
    CUdeviceptr p;
    EXPECT(cuMemAlloc(&p, 16), CUDA_ERROR_INVALID_CONTEXT);
}

static void *look(void *found) {
    OK(cuCtxGetCurrent(found));
    return NULL;
}

RULE(contexts, other_threads_have_none, "A new thread has no current context", "cuCtxGetCurrent") {
    pthread_t thread;
    CUcontext found = ctx;
    OK(pthread_create(&thread, NULL, look, &found));
    OK(pthread_join(thread, NULL));
    EXPECT(found == NULL, 1);
}

RULE(contexts, primary_is_not_destroyed, "cuCtxDestroy refuses a primary context", "observed") {
    OBSERVE("cuCtxDestroy of a primary context", cuCtxDestroy(ctx));
}

RULE(contexts, unique_ids, "Each context has its own id", "cuCtxGetId") {
    unsigned long long a = 0, b = 0;
    CUcontext other = another_context();
    OK(cuCtxGetId(ctx, &a));
    OK(cuCtxGetId(other, &b));
    EXPECT(a != b, 1);
    OK(cuCtxDestroy(other));
}

RULE(contexts, priorities, "Smaller numbers are greater priorities",
     "cuCtxGetStreamPriorityRange") {
    int least = 1, greatest = 1;
    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    EXPECT(least, 0);
    EXPECT(greatest <= least, 1);
    OK(cuCtxGetStreamPriorityRange(NULL, NULL));
}

typedef CUresult (*get_proc)(const char *, void **, int, cuuint64_t,
                             CUdriverProcAddressQueryResult *);

RULE(entry_points, found_by_version, "A function is found in the form that a version had",
     "cuGetProcAddress") {
    void *old = NULL, *new = NULL;
    CUdriverProcAddressQueryResult status;
    OK(cuGetProcAddress("cuStreamGetCaptureInfo", &old, 10010, CU_GET_PROC_ADDRESS_DEFAULT,
                        &status));
    OK(cuGetProcAddress("cuStreamGetCaptureInfo", &new, 11030, CU_GET_PROC_ADDRESS_DEFAULT,
                        &status));
    EXPECT(old != NULL && new != NULL && old != new, 1);
}

RULE(entry_points, missing,
     "An unknown name is no error: the pointer is NULL and the status is not found",
     "cuGetProcAddress") {
    void *found = &found;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    const CUresult answer =
        cuGetProcAddress("cuNoSuchThing", &found, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status);
    OBSERVE("answer", answer);
    EXPECT(found == NULL, 1);
    EXPECT(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

RULE(entry_points, too_old_a_version, "A version from before the function finds nothing",
     "cuGetProcAddress") {
    void *found = &found;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    OBSERVE("answer", cuGetProcAddress("cuMemAllocAsync", &found, 10000,
                                       CU_GET_PROC_ADDRESS_DEFAULT, &status));
    EXPECT(found == NULL, 1);
    EXPECT(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}

RULE(entry_points, version_above_the_driver, "A version above the driver's own is invalid",
     "cuGetProcAddress") {
    int version;
    void *found;
    CUdriverProcAddressQueryResult status;
    OK(cuDriverGetVersion(&version));
    EXPECT(cuGetProcAddress("cuInit", &found, version + 1000, CU_GET_PROC_ADDRESS_DEFAULT, &status),
           CUDA_ERROR_INVALID_VALUE);
}

RULE(entry_points, per_thread_twins,
     "A flag selects the form whose stream 0 is the per-thread default stream",
     "cuGetProcAddress") {
    void *legacy = NULL, *own = NULL, *direct;
    CUdriverProcAddressQueryResult status;
    OK(cuGetProcAddress("cuStreamQuery", &legacy, 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM,
                        &status));
    OK(cuGetProcAddress("cuStreamQuery", &own, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
                        &status));
    EXPECT(legacy != own, 1);
    direct = dlsym(RTLD_DEFAULT, "cuStreamQuery_ptsz");
    EXPECT(direct == own, 1);
}
