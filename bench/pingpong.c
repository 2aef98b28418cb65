/*
 * Two libraries that work on one buffer by turns, each on a stream of its own: the first fills it,
 * the second copies it out. How many rounds a second, with the host waiting at every hand-over
 * (what a consumer does that knows only cuStreamSynchronize), with events by hand, and with the
 * library. For a GPU.
 *
 *     pingpong [bytes [rounds]]
 */
#define _GNU_SOURCE
#include "timing.h"

#include <cai/cai.h>
#include <cuda.h>

#include <stdio.h>
#include <stdlib.h>
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

static const struct {
    const char *name;
    void (*round)(int i);
} ways[] = {
    {"no order at all (wrong)", unordered},
    {"blocking: cuStreamSynchronize", blocking},
    {"events by hand", by_hand},
    {"libcai", with_library},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]), TURNS = 11 };

int main(int count, char **words) {
    static double seconds[WAYS][TURNS];
    static int64_t shape[1];
    int rounds = 2000;
    CUdevice device;
    CUcontext context;
    char name[128] = "";
    const cai_array init = CAI_ARRAY_INIT;
    if (count > 1) bytes = (size_t)atol(words[1]);
    if (count > 2) rounds = atoi(words[2]);
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
    for (int turn = -1; turn < TURNS; ++turn) { /* the first warms up */
        for (int way = 0; way < WAYS; ++way) {
            const double start = now();
            for (int i = 0; i < rounds; ++i) {
                ways[way].round(i);
            }
            OK(cuCtxSynchronize());
            if (turn >= 0) seconds[way][turn] = (now() - start) * 1e-9 / rounds;
        }
    }
    for (int way = 0; way < WAYS; ++way) {
        sort_times(seconds[way], TURNS);
    }
    printf("%zu bytes to and fro, %s\n", bytes, name);
    for (int way = 0; way < WAYS; ++way) {
        const double median = seconds[way][TURNS / 2];
        printf("%-34s %9.0f rounds a second %9.2f us a round %7.2fx\n", ways[way].name, 1 / median,
               median * 1e6, seconds[1][TURNS / 2] / median);
    }
    return 0;
}
