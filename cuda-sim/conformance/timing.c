// What calls cost the host: measured and printed, compared with nothing.
#include "conformance.h"

#include <time.h>

enum { CALLS = 2000, ROUNDS = 7 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}

// The median over rounds of nanoseconds a call that begin with empty streams.
#define COST(name, call)                                            \
    do {                                                            \
        double costs_[ROUNDS];                                      \
        for (int round_ = 0; round_ < ROUNDS; ++round_) {           \
            OK(cuCtxSynchronize());                                 \
            const double start_ = now();                            \
            for (int i_ = 0; i_ < CALLS; ++i_) {                    \
                (void)(call);                                       \
            }                                                       \
            costs_[round_] = (now() - start_) / CALLS;              \
        }                                                           \
        OK(cuCtxSynchronize());                                     \
        qsort(costs_, ROUNDS, sizeof costs_[0], ascending);         \
        printf("measured %s: %.0f ns\n", name, costs_[ROUNDS / 2]); \
    } while (0)

RULE(timing, calls, "What calls cost the host", "measured") {
    CUstream a = stream(CU_STREAM_NON_BLOCKING), b = stream(CU_STREAM_NON_BLOCKING);
    CUevent e = event(), timed;
    const CUdeviceptr p = device(N);
    CUcontext popped;
    CUstreamCaptureStatus status;
    unsigned long long id;
    OK(cuEventCreate(&timed, CU_EVENT_DEFAULT));
    COST("cuEventRecord", cuEventRecord(e, a));
    COST("cuEventRecord with timing", cuEventRecord(timed, a));
    COST("cuStreamWaitEvent, done", cuStreamWaitEvent(b, e, 0));
    COST("cuEventRecord and cuStreamWaitEvent", cuEventRecord(e, a) || cuStreamWaitEvent(b, e, 0));
    COST("cuEventQuery", cuEventQuery(e));
    COST("cuStreamQuery, idle", cuStreamQuery(a));
    COST("cuStreamSynchronize, idle", cuStreamSynchronize(a));
    COST("cuStreamIsCapturing", cuStreamIsCapturing(a, &status));
#if CUDA_VERSION >= 13000
    COST("cuStreamGetCaptureInfo",
         cuStreamGetCaptureInfo(a, &status, NULL, NULL, NULL, NULL, NULL));
#else
    COST("cuStreamGetCaptureInfo", cuStreamGetCaptureInfo(a, &status, NULL, NULL, NULL, NULL));
#endif
    COST("cuStreamGetId", cuStreamGetId(a, &id));
    COST("cuStreamGetCtx", cuStreamGetCtx(a, &popped));
    COST("cuCtxGetCurrent", cuCtxGetCurrent(&popped));
    COST("cuCtxPushCurrent and cuCtxPopCurrent", cuCtxPushCurrent(ctx) || cuCtxPopCurrent(&popped));
    CUevent made;
    COST("cuEventCreate and cuEventDestroy",
         cuEventCreate(&made, CU_EVENT_DISABLE_TIMING) || cuEventDestroy(made));
    CUpointer_attribute which[10] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_CONTEXT,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_BUFFER_ID,      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE,     CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_HOST_POINTER,   CU_POINTER_ATTRIBUTE_MAPPED};
    uint64_t words[10];
    void *data[10];
    for (int i = 0; i < 10; ++i)
        data[i] = &words[i];
    COST("cuPointerGetAttribute",
         cuPointerGetAttribute(words, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    COST("cuPointerGetAttributes, 1", cuPointerGetAttributes(1, which, data, p));
    COST("cuPointerGetAttributes, 4", cuPointerGetAttributes(4, which, data, p));
    COST("cuPointerGetAttributes, 10", cuPointerGetAttributes(10, which, data, p));
    COST("cuMemsetD8Async", cuMemsetD8Async(p, 1, 64, a));
}
