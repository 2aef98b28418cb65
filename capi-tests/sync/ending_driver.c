/*
 * A small CUDA driver for what no real one does on demand: ENDING_DRIVER names a function that ends
 * the thread that calls it, by pthread_exit ("cuStreamSynchronize:exit") or by being cancelled
 * ("cuStreamSynchronize:cancel"); "cuInit:wait" makes cuInit wait until ending_driver_go() is
 * called. All else succeeds at once and does nothing.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In the block that every thread has: no memory is needed for its first use. */
#define THREAD static __thread __attribute__((tls_model("initial-exec")))

THREAD void *current;
static int a_context, an_event;
static atomic_int waits;
static sem_t go;

/* Whether a thread waits in cuInit. */
int ending_driver_waits(void);
int ending_driver_waits(void) { return atomic_load(&waits); }
void ending_driver_go(void);
void ending_driver_go(void) { sem_post(&go); }

static int is(const char *function, const char *what) {
    const char *text = getenv("ENDING_DRIVER");
    size_t length = strlen(function);
    return text != NULL && strncmp(text, function, length) == 0 && text[length] == ':' &&
           strcmp(text + length + 1, what) == 0;
}

static int call(const char *function) {
    if (is(function, "exit")) pthread_exit(NULL);
    if (is(function, "cancel")) {
        pthread_cancel(pthread_self());
        for (;;)
            pause();
    }
    return 0;
}

/* Calls a function in a thread of its own. Returns whether that ended the thread. */
typedef int (*library_call)(uintptr_t, uintptr_t, uintptr_t, uintptr_t);
typedef struct {
    library_call function;
    uintptr_t a, b, c, d;
} job;

static void *run(void *argument) {
    job *it = argument;
    it->function(it->a, it->b, it->c, it->d);
    return it;
}

int ending_driver_run(library_call function, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d);
int ending_driver_run(library_call function, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d) {
    job it = {function, a, b, c, d};
    pthread_t thread;
    void *result;
    if (pthread_create(&thread, NULL, run, &it) != 0 || pthread_join(thread, &result) != 0) abort();
    return result != &it;
}

#define FUNCTION(name, ...) \
    int name(__VA_ARGS__);  \
    int name(__VA_ARGS__)

FUNCTION(cuInit, unsigned flags) {
    if (is("cuInit", "wait")) {
        sem_init(&go, 0, 0);
        atomic_store(&waits, 1);
        sem_wait(&go);
    }
    return (int)flags;
}
FUNCTION(cuDriverGetVersion, int *version) { return *version = 12090, 0; }
FUNCTION(cuDeviceGetCount, int *count) { return *count = 1, 0; }
FUNCTION(cuCtxGetCurrent, void **context) {
    *context = current;
    return call("cuCtxGetCurrent");
}
FUNCTION(cuCtxSetCurrent, void *context) { return current = context, 0; }
FUNCTION(cuCtxPushCurrent_v2, void *context) {
    current = context;
    return call("cuCtxPushCurrent_v2");
}
FUNCTION(cuCtxPopCurrent_v2, void **context) {
    *context = current;
    current = NULL;
    return 0;
}
FUNCTION(cuCtxGetId, void *context, uint64_t *id) { return *id = (uintptr_t)context, 0; }
FUNCTION(cuStreamGetCtx_v2, void *stream, void **context, void **green) {
    (void)stream;
    *context = &a_context;
    *green = NULL;
    return call("cuStreamGetCtx_v2");
}
FUNCTION(cuStreamGetId, void *stream, uint64_t *id) {
    *id = (uintptr_t)stream;
    return call("cuStreamGetId");
}
FUNCTION(cuStreamIsCapturing, void *stream, int *status) {
    (void)stream;
    *status = 0;
    return call("cuStreamIsCapturing");
}
FUNCTION(cuThreadExchangeStreamCaptureMode, int *mode) {
    THREAD int before;
    int swapped = before;
    before = *mode;
    *mode = swapped;
    return 0;
}
FUNCTION(cuEventCreate, void **event, unsigned flags) {
    (void)flags;
    *event = &an_event;
    return call("cuEventCreate");
}
FUNCTION(cuEventDestroy_v2, void *event) { return (void)event, 0; }
FUNCTION(cuEventRecord, void *event, void *stream) {
    (void)event;
    (void)stream;
    return call("cuEventRecord");
}
FUNCTION(cuEventQuery, void *event) { return (void)event, 0; }
FUNCTION(cuEventSynchronize, void *event) { return (void)event, 0; }
FUNCTION(cuStreamWaitEvent, void *stream, void *event, unsigned flags) {
    (void)stream;
    (void)event;
    (void)flags;
    return call("cuStreamWaitEvent");
}
FUNCTION(cuStreamSynchronize, void *stream) {
    (void)stream;
    return call("cuStreamSynchronize");
}
FUNCTION(cuPointerGetAttributes, unsigned count, int *attributes, void **data, uint64_t pointer) {
    (void)count;
    (void)attributes;
    (void)data;
    (void)pointer;
    return call("cuPointerGetAttributes");
}
