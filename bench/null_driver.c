/*
 * A libcuda.so.1 that does nothing and says that all is well: what is left is the library's own
 * share. It has the functions that ordering two streams takes; a handle is whatever it was asked
 * for.
 */
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

static __thread void *current;
static int an_event;

EXPORT int cuInit(unsigned flags);
int cuInit(unsigned flags) { return (int)flags; }
EXPORT int cuCtxGetCurrent(void **context);
int cuCtxGetCurrent(void **context) { return *context = current, 0; }
EXPORT int cuCtxSetCurrent(void *context);
int cuCtxSetCurrent(void *context) { return current = context, 0; }
EXPORT int cuCtxPushCurrent_v2(void *context);
int cuCtxPushCurrent_v2(void *context) { return (void)context, 0; }
EXPORT int cuCtxPopCurrent_v2(void **context);
int cuCtxPopCurrent_v2(void **context) { return *context = current, 0; }
EXPORT int cuCtxGetId(void *context, uint64_t *id);
int cuCtxGetId(void *context, uint64_t *id) { return *id = (uintptr_t)context, 0; }
EXPORT int cuStreamGetCtx_v2(void *stream, void **context, void **green);
int cuStreamGetCtx_v2(void *stream, void **context, void **green) {
    (void)stream;
    *context = current;
    *green = NULL;
    return 0;
}
EXPORT int cuStreamGetId(void *stream, uint64_t *id);
int cuStreamGetId(void *stream, uint64_t *id) { return *id = (uintptr_t)stream, 0; }
EXPORT int cuStreamIsCapturing(void *stream, int *status);
int cuStreamIsCapturing(void *stream, int *status) { return (void)stream, *status = 0, 0; }
EXPORT int cuEventCreate(void **event, unsigned flags);
int cuEventCreate(void **event, unsigned flags) { return (void)flags, *event = &an_event, 0; }
EXPORT int cuEventDestroy_v2(void *event);
int cuEventDestroy_v2(void *event) { return (void)event, 0; }
EXPORT int cuEventRecord(void *event, void *stream);
int cuEventRecord(void *event, void *stream) { return (void)event, (void)stream, 0; }
EXPORT int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    return (void)stream, (void)event, (int)flags;
}
