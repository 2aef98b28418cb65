// The least driver that a program can run on: one device, one context, work that is done at once.
// It knows nothing of cudasim.h, as a real one. Some functions are odd on purpose: what is passed
// on must arrive.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

static __thread void *current;
static int context, refused;
static char streams[64];
static unsigned next_stream;
static void *last;

API int cuInit(unsigned flags) { return flags == 0 ? 0 : 1; }
API int cuDeviceGetCount(int *count) { return *count = 1, 0; }
API int cuDevicePrimaryCtxRetain(void **to, int device) { return *to = &context, device; }
API int cuCtxSetCurrent(void *to) { return current = to, 0; }
API int cuCtxGetCurrent(void **to) { return *to = current, 0; }
API int cuCtxGetDevice(int *device) { return *device = 0, current != NULL ? 0 : 201; }

API int cuStreamCreate(void **to, unsigned flags) {
    return flags > 1 ? 1 : (*to = &streams[next_stream++ % sizeof streams], 0);
}
// Every other one is refused.
API int cuStreamDestroy_v2(void *stream) { return stream != NULL && refused++ % 2 ? 0 : 709; }
API int cuStreamQuery(void *stream) { return stream != NULL ? 0 : 600; }
// What another thread does while one waits.
extern void (*meanwhile)(void) __attribute__((weak));
API int cuStreamSynchronize(void *stream) {
    if (&meanwhile != NULL && meanwhile != NULL) {
        void (*run)(void) = meanwhile;
        meanwhile = NULL;
        run();
    }
    return stream != NULL ? 0 : 719;
}

// Nothing is captured, and nothing launched.
API int cuStreamBeginCapture_v2(void *stream, int mode) { return stream != NULL ? 0 : mode; }
API int cuStreamEndCapture(void *stream, void **graph) {
    return *graph = &context, stream != NULL ? 0 : 1;
}
API int cuGraphInstantiateWithFlags(void **exec, void *graph, uint64_t flags) {
    return *exec = graph, (int)flags;
}
API int cuGraphLaunch(void *exec, void *stream) { return exec != NULL && stream != NULL ? 0 : 1; }
API int cuGraphExecMemsetNodeSetParams(void *exec, void *node, const void *params, void *of) {
    return exec != NULL && params != NULL && of == NULL && node == NULL ? 0 : 1;
}

// The same address again as soon as it is free.
API int cuMemAlloc_v2(uint64_t *to, size_t size) {
    void *got = last != NULL ? last : calloc(1, size);
    last = NULL;
    return *to = (uint64_t)(uintptr_t)got, 0;
}
API int cuMemFree_v2(uint64_t address) {
    if (address == 1) return 717;
    last = (void *)(uintptr_t)address;
    return 0;
}
API int cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, void *stream) {
    return memset((void *)(uintptr_t)to, value, count), stream != NULL ? 0 : 400;
}
API int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                       unsigned by, unsigned bz, unsigned shared, void *stream, void **args,
                       void **extra) {
    (void)stream, (void)args, (void)extra;
    return function != NULL ? 0 : (int)(gx + gy + gz + bx + by + bz + shared);
}
API int cuStreamGetId(void *stream, uint64_t *id) { return *id = (uint64_t)(uintptr_t)stream, 0; }

// Never called by themselves: arguments in registers, on the stack, floating, by value.
struct three {
    uint64_t words[3];
};
API int cuTexRefSetAddress2D_v3(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
                                uint64_t f, uint64_t g, uint64_t h, uint64_t i, struct three j) {
    const uint64_t sum = a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i;
    return (int)(sum + 10 * (j.words[0] + j.words[1] + j.words[2]));
}
API int cuTexRefSetMipmapLevelBias(void *texture, float bias, double more) {
    return texture == NULL ? (int)(bias * 2 + (float)more) : 1;
}
