/*
 * A libcuda.so.1 that does nothing and says that all is well: what is left is the library's own
 * share. It has the functions that ordering two streams takes, and counts their calls; a handle is
 * whatever it was asked for.
 */
#include <stddef.h>
#include <stdint.h>

static __thread void *current, *before;
static int an_event;
static long calls;

/* Returns how many calls there were since this was last asked. */
__attribute__((visibility("default"))) long null_driver_calls(void);
long null_driver_calls(void) {
    long counted = calls;
    calls = 0;
    return counted;
}

#define CALL(name, arguments, body)                            \
    __attribute__((visibility("default"))) int name arguments; \
    int name arguments {                                       \
        calls++;                                               \
        body;                                                  \
        return 0;                                              \
    }

CALL(cuInit, (unsigned flags), (void)flags)
CALL(cuCtxGetCurrent, (void **context), *context = current)
CALL(cuCtxSetCurrent, (void *context), current = context)
CALL(cuCtxPushCurrent_v2, (void *context), (before = current, current = context))
CALL(cuCtxPopCurrent_v2, (void **context), (*context = current, current = before))
CALL(cuCtxGetId, (void *context, uint64_t *id), *id = (uintptr_t)context)
CALL(cuDevicePrimaryCtxRetain, (void **context, int device),
     *context = (void *)(uintptr_t)(0x1000 + device))
CALL(cuDevicePrimaryCtxRelease_v2, (int device), (void)device)
CALL(cuStreamGetCtx_v2, (void *stream, void **context, void **green),
     ((void)stream, *context = current, *green = NULL))
CALL(cuStreamGetId, (void *stream, uint64_t *id), *id = (uintptr_t)stream)
CALL(cuStreamIsCapturing, (void *stream, int *status), ((void)stream, *status = 0))
CALL(cuThreadExchangeStreamCaptureMode, (int *mode), *mode = 0)
CALL(cuEventCreate, (void **event, unsigned flags), ((void)flags, *event = &an_event))
CALL(cuEventDestroy_v2, (void *event), (void)event)
CALL(cuEventQuery, (void *event), (void)event)
CALL(cuEventRecord, (void *event, void *stream), ((void)event, (void)stream))
CALL(cuStreamWaitEvent, (void *stream, void *event, unsigned flags),
     ((void)stream, (void)event, (void)flags))

/* All memory is of a device and context 0x1000. CONTEXT is 1, MEMORY_TYPE 2, DEVICE_ORDINAL 9. */
CALL(cuPointerGetAttributes,
     (unsigned count, const int *attributes, void **results, uint64_t address), {
         (void)address;
         for (unsigned i = 0; i < count; ++i) {
             if (attributes[i] == 1) *(void **)results[i] = (void *)0x1000;
             if (attributes[i] == 2) *(unsigned *)results[i] = 2;
             if (attributes[i] == 9) *(int *)results[i] = 0;
         }
     })
