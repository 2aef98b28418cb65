/*
 * Two libraries that work on one buffer by turns, each on a stream of its own: the first fills it,
 * the second copies it out. What a hundred rounds take, with the host waiting at every hand-over
 * (what a consumer does that knows only cuStreamSynchronize), with events by hand, and with the
 * library. For a GPU.
 *
 *     pingpong BYTES
 */
#define _GNU_SOURCE
#define BENCH_CLOCK CLOCK_MONOTONIC
#include "timing.h"

#include <cai/cai.h>
#include <cuda.h>

#include <string.h>

#define OK(call)                                                                    \
    do {                                                                            \
        const int result_ = (int)(call);                                            \
        if (result_ != 0) {                                                         \
            fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, result_); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

static CUdeviceptr buffer, out;
static size_t bytes = 1 << 20;
static CUstream first, second;
static CUevent event;
static cai_array array;

static void fill(int value) { OK(cuMemsetD8Async(buffer, (unsigned char)value, bytes, first)); }
static void take(void) { OK(cuMemcpyDtoDAsync(out, buffer, bytes, second)); }

static void unordered(int i) {
    fill(i);
    take();
}

static void blocking(int i) {
    fill(i);
    OK(cuStreamSynchronize(first));
    take();
    OK(cuStreamSynchronize(second));
}

static void by_hand(int i) {
    fill(i);
    OK(cuEventRecord(event, first));
    OK(cuStreamWaitEvent(second, event, 0));
    take();
    OK(cuEventRecord(event, second));
    OK(cuStreamWaitEvent(first, event, 0));
}

static void with_library(int i) {
    fill(i);
    OK(cai_array_consume_begin(&array, cai_inline_stream(second), CAI_ACCESS_READ, NULL));
    take();
    OK(cai_array_consume_end(&array, cai_inline_stream(second), CAI_ACCESS_READ, NULL));
}

/* `with`: one round. */
typedef void (*const way)(int i);
static way ways[] = {blocking, by_hand, with_library, unordered};

static int hundred(const void *with) {
    for (int i = 0; i < 100; ++i)
        (*(way *)with)(i);
    OK(cuCtxSynchronize());
    return 0;
}

static const bench_row rows[] = {
    {"blocking: cuStreamSynchronize", hundred, 0, &ways[0]},
    {"events by hand", hundred, 0, &ways[1]},
    {"libcai", hundred, 0, &ways[2]},
    {"no order at all (wrong)", hundred, 0, &ways[3]},
};

int main(int count, char **words) {
    static int64_t shape[1];
    CUdevice device;
    CUcontext context;
    char name[128] = "", group[256];
    const cai_array init = CAI_ARRAY_INIT;
    if (count > 1) bytes = (size_t)atol(words[1]);
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDeviceGetName(name, sizeof name, device));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAlloc(&buffer, bytes));
    OK(cuMemAlloc(&out, bytes));
    array = init;
    array.data = (void *)(size_t)buffer;
    shape[0] = (int64_t)bytes;
    array.shape = shape;
    array.ndim = 1;
    memcpy(array.typestr, "|u1", 4);
    array.device.type = CAI_DEVICE_CUDA;
    array.stream = cai_inline_stream(first);
    snprintf(group, sizeof group, "100 times %zu bytes to and fro, %s", bytes, name);
    BENCH(group, rows, NULL, NULL);
    return 0;
}
