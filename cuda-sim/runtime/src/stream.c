/*
 * stream.c: streams and events, but for what depends on the default stream (default_stream.c).
 */
#include "runtime.h"

CONTEXT_CALL(cudaStreamCreate, (CUstream * stream), (cuStreamCreate, stream, 0))
CONTEXT_CALL(cudaStreamCreateWithFlags, (CUstream * stream, unsigned flags),
             (cuStreamCreate, stream, flags))
CONTEXT_CALL(cudaStreamCreateWithPriority, (CUstream * stream, unsigned flags, int priority),
             (cuStreamCreateWithPriority, stream, flags, priority))

API cudaError_t cudaStreamDestroy(CUstream stream) {
    NEED(context);
    if (stream == NULL || stream == LEGACY_STREAM || stream == PER_THREAD_STREAM) {
        return record(cudaErrorInvalidResourceHandle); /* default streams cannot be destroyed */
    }
    return record(CALL(cuStreamDestroy_v2, stream));
}

CONTEXT_CALL(cudaThreadExchangeStreamCaptureMode, (int *mode),
             (cuThreadExchangeStreamCaptureMode, mode))

CONTEXT_CALL(cudaEventCreate, (CUevent * event), (cuEventCreate, event, 0))
CONTEXT_CALL(cudaEventCreateWithFlags, (CUevent * event, unsigned flags),
             (cuEventCreate, event, flags))
CONTEXT_CALL(cudaEventDestroy, (CUevent event), (cuEventDestroy_v2, event))
CONTEXT_CALL(cudaEventQuery, (CUevent event), (cuEventQuery, event))
CONTEXT_CALL(cudaEventSynchronize, (CUevent event), (cuEventSynchronize, event))
CONTEXT_CALL(cudaIpcGetEventHandle, (struct ipc_handle * handle, CUevent event),
             (cuIpcGetEventHandle, handle, event))
CONTEXT_CALL(cudaIpcOpenEventHandle, (CUevent * event, struct ipc_handle handle),
             (cuIpcOpenEventHandle, event, handle))

/* The newer entry point, on drivers that have it. */
static cudaError_t elapsed_time(float *milliseconds, CUevent start, CUevent end) {
    if (driver.cuEventElapsedTime_v2 != NULL)
        return CALL(cuEventElapsedTime_v2, milliseconds, start, end);
    return CALL(cuEventElapsedTime, milliseconds, start, end);
}

#if CUDART_MAJOR == 12
CONTEXT_CALL(cudaEventElapsedTime, (float *milliseconds, CUevent start, CUevent end),
             (cuEventElapsedTime, milliseconds, start, end))
API cudaError_t cudaEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) {
    NEED(context);
    return record(elapsed_time(milliseconds, start, end));
}
#else
API cudaError_t cudaEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    NEED(context);
    return record(elapsed_time(milliseconds, start, end));
}
#endif
