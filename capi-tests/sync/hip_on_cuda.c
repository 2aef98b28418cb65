/*
 * The functions of HIP that the library uses, on a CUDA driver: what stands for an AMD GPU in
 * tests. The streams, events and graphs are the CUDA driver's. Every thread has a current device of
 * its own, which CUDA's current context does not follow. What HIP does otherwise than CUDA is done
 * as ROCm 6.2 does it: stream 0 is the legacy default stream of the current device, and 1 crashes,
 * as before ROCm 6; there are no contexts, and no ids of streams.
 */
#define _GNU_SOURCE
#include <cuda.h>

#include "hip_functions.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES 8

static CUcontext contexts[DEVICES];
static int devices;
/* LeakSanitizer cannot follow the dynamic kind of such variables. */
static _Thread_local int current __attribute__((tls_model("initial-exec")));
static pthread_once_t once = PTHREAD_ONCE_INIT;
static CUresult started;

static void start(void) {
    started = cuInit(0);
    if (started == CUDA_SUCCESS) started = cuDeviceGetCount(&devices);
    if (devices > DEVICES) devices = DEVICES;
    for (int i = 0; i < devices && started == CUDA_SUCCESS; ++i) {
        started = cuDevicePrimaryCtxRetain(&contexts[i], i);
    }
}

/* Every function of HIP starts HIP. */
static CUresult enter(void) {
    pthread_once(&once, start);
    return started == CUDA_SUCCESS ? cuCtxPushCurrent(contexts[current]) : started;
}

static CUresult leave(CUresult result) {
    CUcontext context;
    const CUresult popped = cuCtxPopCurrent(&context);
    return result != CUDA_SUCCESS ? result : popped;
}

/* Makes a call in the context of the current device. */
#define IN_DEVICE(call)                                           \
    do {                                                          \
        const CUresult entered_ = enter();                        \
        return entered_ != CUDA_SUCCESS ? entered_ : leave(call); \
    } while (0)

static CUstream as_cuda(void *stream) {
    if (stream == (void *)1) {
        fprintf(stderr, "HIP got stream 1, which crashes before ROCm 6\n");
        abort();
    }
    return stream == NULL ? CU_STREAM_LEGACY : (CUstream)stream;
}

static CUresult on_hipInit(unsigned flags) {
    (void)flags, pthread_once(&once, start);
    return started;
}

static CUresult on_hipDriverGetVersion(int *out) {
    *out = 60241134;
    return CUDA_SUCCESS;
}

static CUresult on_hipDrvGetErrorName(int code, const char **out) {
    switch (code) {
    case 1: *out = "hipErrorInvalidValue"; break;
    case 101: *out = "hipErrorInvalidDevice"; break;
    case 709: *out = "hipErrorContextIsDestroyed"; break;
    default: *out = NULL; return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult on_hipDrvGetErrorString(int code, const char **out) {
    return on_hipDrvGetErrorName(code, out);
}

static CUresult on_hipGetDeviceCount(int *out) {
    pthread_once(&once, start);
    *out = devices;
    return started;
}

static CUresult on_hipGetDevice(int *out) {
    *out = current;
    return CUDA_SUCCESS;
}

static CUresult on_hipSetDevice(int device) {
    pthread_once(&once, start);
    if (device < 0 || device >= devices) return CUDA_ERROR_INVALID_DEVICE;
    current = device;
    return CUDA_SUCCESS;
}

static CUresult on_hipDeviceSynchronize(void) { IN_DEVICE(cuCtxSynchronize()); }

static CUresult device_of(void *stream, int *out) {
    CUcontext context;
    const CUresult result = cuStreamGetCtx(as_cuda(stream), &context);
    for (int i = 0; i < devices; ++i) {
        if (contexts[i] == context) *out = i;
    }
    return result;
}

static CUresult on_hipStreamGetDevice(void *stream, int *out) { IN_DEVICE(device_of(stream, out)); }

static CUresult on_hipStreamGetFlags(void *stream, unsigned *out) {
    IN_DEVICE(cuStreamGetFlags(as_cuda(stream), out));
}

static CUresult on_hipStreamWaitEvent(void *stream, CUevent event, unsigned flags) {
    IN_DEVICE(cuStreamWaitEvent(as_cuda(stream), event, flags));
}

static CUresult on_hipStreamSynchronize(void *stream) {
    IN_DEVICE(cuStreamSynchronize(as_cuda(stream)));
}

static CUresult on_hipStreamIsCapturing(void *stream, CUstreamCaptureStatus *out) {
    IN_DEVICE(cuStreamIsCapturing(as_cuda(stream), out));
}

static CUresult capture_info(void *stream, CUstreamCaptureStatus *status, unsigned long long *id,
                             CUgraph *graph, const CUgraphNode **nodes, size_t *count) {
    CUresult (*info)(CUstream, CUstreamCaptureStatus *, unsigned long long *, CUgraph *,
                     const CUgraphNode **, size_t *);
    cuuint64_t wide;
    CUresult result;
    *(void **)&info = dlsym(RTLD_DEFAULT, "cuStreamGetCaptureInfo_v2");
    result = info(as_cuda(stream), status, (unsigned long long *)&wide, graph, nodes, count);
    *id = (unsigned long long)wide;
    return result;
}

static CUresult on_hipStreamGetCaptureInfo_v2(void *stream, CUstreamCaptureStatus *status,
                                              unsigned long long *id, CUgraph *graph,
                                              const CUgraphNode **nodes, size_t *count) {
    IN_DEVICE(capture_info(stream, status, id, graph, nodes, count));
}

static CUresult on_hipThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    return cuThreadExchangeStreamCaptureMode(mode);
}

static CUresult on_hipEventCreateWithFlags(CUevent *out, unsigned flags) {
    IN_DEVICE(cuEventCreate(out, flags));
}

static CUresult on_hipEventDestroy(CUevent event) { IN_DEVICE(cuEventDestroy(event)); }

static CUresult on_hipEventRecord(CUevent event, void *stream) {
    IN_DEVICE(cuEventRecord(event, as_cuda(stream)));
}

static CUresult on_hipEventQuery(CUevent event) { IN_DEVICE(cuEventQuery(event)); }

static CUresult on_hipEventSynchronize(CUevent event) { IN_DEVICE(cuEventSynchronize(event)); }

static CUresult on_hipUserObjectCreate(CUuserObject *out, void *pointer, CUhostFn destroy,
                                       unsigned references, unsigned flags) {
    IN_DEVICE(cuUserObjectCreate(out, pointer, destroy, references, flags));
}

static CUresult on_hipUserObjectRelease(CUuserObject object, unsigned count) {
    IN_DEVICE(cuUserObjectRelease(object, count));
}

static CUresult on_hipGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count,
                                            unsigned flags) {
    IN_DEVICE(cuGraphRetainUserObject(graph, object, count, flags));
}

/*
 * The context is not written, only memory that the host can use has an address for it, and a
 * failure of one attribute is none of the call.
 */
static CUresult attributes_of(unsigned count, CUpointer_attribute *attributes, void **data,
                              CUdeviceptr pointer) {
    for (unsigned i = 0; i < count; ++i) {
        CUresult result = CUDA_SUCCESS;
        if (attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER) {
            *(void **)data[i] = NULL;
            (void)cuPointerGetAttribute(data[i], attributes[i], pointer);
        } else if (attributes[i] != CU_POINTER_ATTRIBUTE_CONTEXT) {
            result = cuPointerGetAttributes(1, &attributes[i], &data[i], pointer);
        }
        if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
}

static CUresult on_hipDrvPointerGetAttributes(unsigned count, CUpointer_attribute *attributes,
                                              void **data, CUdeviceptr pointer) {
    IN_DEVICE(attributes_of(count, attributes, data, pointer));
}

/* Returns the function with this name; shim.c passes the calls on. */
void *find_behind(const char *name);
void *find_behind(const char *name) {
#define ONE(function) \
    if (strcmp(name, #function) == 0) return (void *)on_##function;
    FUNCTIONS(ONE)
    return NULL;
}
