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
    for (int i = 0; i < devices && started == CUDA_SUCCESS; ++i)
        started = cuDevicePrimaryCtxRetain(&contexts[i], i);
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

/* A function of HIP that is a call in the context of the current device. */
#define IN_DEVICE(name, parameters, call)                       \
    static CUresult on_##name parameters {                      \
        const CUresult entered = enter();                       \
        return entered != CUDA_SUCCESS ? entered : leave(call); \
    }

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

IN_DEVICE(hipDeviceSynchronize, (void), cuCtxSynchronize())

static CUresult device_of(void *stream, int *out) {
    CUcontext context;
    const CUresult result = cuStreamGetCtx(as_cuda(stream), &context);
    for (int i = 0; i < devices; ++i) {
        if (contexts[i] == context) *out = i;
    }
    return result;
}

IN_DEVICE(hipStreamGetDevice, (void *stream, int *out), device_of(stream, out))
IN_DEVICE(hipStreamGetFlags, (void *stream, unsigned *out), cuStreamGetFlags(as_cuda(stream), out))
IN_DEVICE(hipStreamWaitEvent, (void *stream, CUevent event, unsigned flags),
          cuStreamWaitEvent(as_cuda(stream), event, flags))
IN_DEVICE(hipStreamSynchronize, (void *stream), cuStreamSynchronize(as_cuda(stream)))
IN_DEVICE(hipStreamIsCapturing, (void *stream, CUstreamCaptureStatus *out),
          cuStreamIsCapturing(as_cuda(stream), out))

static CUresult capture_info(void *stream, CUstreamCaptureStatus *status, unsigned long long *id,
                             CUgraph *graph, const CUgraphNode **nodes, size_t *count) {
    CUresult (*info)(CUstream, CUstreamCaptureStatus *, unsigned long long *, CUgraph *,
                     const CUgraphNode **, size_t *);
    cuuint64_t wide;
    *(void **)&info = dlsym(RTLD_DEFAULT, "cuStreamGetCaptureInfo_v2");
    CUresult result =
        info(as_cuda(stream), status, (unsigned long long *)&wide, graph, nodes, count);
    *id = (unsigned long long)wide;
    return result;
}

IN_DEVICE(hipStreamGetCaptureInfo_v2,
          (void *stream, CUstreamCaptureStatus *status, unsigned long long *id, CUgraph *graph,
           const CUgraphNode **nodes, size_t *count),
          capture_info(stream, status, id, graph, nodes, count))

static CUresult on_hipThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    return cuThreadExchangeStreamCaptureMode(mode);
}

IN_DEVICE(hipEventCreateWithFlags, (CUevent * out, unsigned flags), cuEventCreate(out, flags))
IN_DEVICE(hipEventDestroy, (CUevent event), cuEventDestroy(event))
IN_DEVICE(hipEventRecord, (CUevent event, void *stream), cuEventRecord(event, as_cuda(stream)))
IN_DEVICE(hipEventQuery, (CUevent event), cuEventQuery(event))
IN_DEVICE(hipEventSynchronize, (CUevent event), cuEventSynchronize(event))
IN_DEVICE(hipUserObjectCreate,
          (CUuserObject * out, void *pointer, CUhostFn destroy, unsigned references,
           unsigned flags),
          cuUserObjectCreate(out, pointer, destroy, references, flags))
IN_DEVICE(hipUserObjectRelease, (CUuserObject object, unsigned count),
          cuUserObjectRelease(object, count))
IN_DEVICE(hipGraphRetainUserObject,
          (CUgraph graph, CUuserObject object, unsigned count, unsigned flags),
          cuGraphRetainUserObject(graph, object, count, flags))

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

IN_DEVICE(hipDrvPointerGetAttributes,
          (unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr pointer),
          attributes_of(count, attributes, data, pointer))

/* Returns the function with this name; shim.c passes the calls on. */
void *find_behind(const char *name);
void *find_behind(const char *name) {
#define ONE(function) \
    if (strcmp(name, #function) == 0) return (void *)on_##function;
    FUNCTIONS(ONE)
    return NULL;
}
