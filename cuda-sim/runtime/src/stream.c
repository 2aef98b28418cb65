/*
 * stream.c: streams and events, but for what depends on the default stream (default_stream.c).
 */
#include "runtime.h"

CONTEXT_CALL(cudaStreamCreate, (CUstream * stream), (cuStreamCreate, stream, 0))

API cudaError_t cudaStreamDestroy(CUstream stream) {
    NEED(context);
    if (stream == NULL || stream == LEGACY_STREAM || stream == PER_THREAD_STREAM) {
        return record(cudaErrorInvalidResourceHandle); /* default streams cannot be destroyed */
    }
    return record(CALL(cuStreamDestroy_v2, stream));
}

CONTEXT_CALL(cudaEventCreate, (CUevent * event), (cuEventCreate, event, 0))

/* The newer entry point, on drivers that have it. */
API cudaError_t NEWER(cudaEventElapsedTime, _v2)(float *milliseconds, CUevent start, CUevent end) {
    NEED(context);
    if (driver.cuEventElapsedTime_v2 != NULL)
        return record(CALL(cuEventElapsedTime_v2, milliseconds, start, end));
    return record(CALL(cuEventElapsedTime, milliseconds, start, end));
}
