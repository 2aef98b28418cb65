/*
 * What begin and end cost. Run with a driver that does nothing, it shows the library's own share
 * beside a program that makes the same calls by hand; run with a real or simulated one, what the
 * whole exchange costs. Every variant runs in every round, in turn, on one core; the figure is the
 * median of the rounds. Allocations are counted by standing in for malloc.
 */
#define _GNU_SOURCE
#include "timing.h"

#include <cai/cai.h>

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 41, MOST = 16 };
static long times_per_round = 100000;

static unsigned long allocations;
void *__libc_malloc(size_t size);
void *malloc(size_t size) {
    allocations++;
    return __libc_malloc(size);
}

/* The same functions as the library uses, found as it finds them. */
#define FUNCTIONS(X)                                                  \
    X(cuInit, (unsigned flags))                                       \
    X(cuCtxSetCurrent, (void *context))                               \
    X(cuStreamGetId, (void *stream, uint64_t *id))                    \
    X(cuStreamIsCapturing, (void *stream, int *status))               \
    X(cuEventCreate, (void **event, unsigned flags))                  \
    X(cuEventRecord, (void *event, void *stream))                     \
    X(cuStreamWaitEvent, (void *stream, void *event, unsigned flags)) \
    X(cuStreamSynchronize, (void *stream))                            \
    X(cuStreamCreate, (void **stream, unsigned flags))                \
    X(cuDevicePrimaryCtxRetain, (void **context, int device))

#define DECLARE(name, arguments) static int(*name) arguments;
FUNCTIONS(DECLARE)

static long failed;
static cai_array array, none, read_only;
static void *producer, *consumer, *event;

static void nothing_to_order_one_stream(void) {
    failed += cai_array_consume_begin(&array, array.stream, CAI_ACCESS_READ, NULL);
    failed += cai_array_consume_end(&array, array.stream, CAI_ACCESS_READ, NULL);
}

static void nothing_to_order_none(void) {
    failed +=
        cai_array_consume_begin(&none, (cai_stream)(uintptr_t)consumer, CAI_ACCESS_READ, NULL);
    failed += cai_array_consume_end(&none, (cai_stream)(uintptr_t)consumer, CAI_ACCESS_READ, NULL);
}

static void order_by_hand(void *from, void *to) {
    int status = 0, other = 0;
    uint64_t id = 0;
    failed += cuStreamIsCapturing(from, &status);
    failed += cuStreamIsCapturing(to, &other);
    if (status != 0 || other != 0) return;
    failed += cuStreamGetId(from, &id);
    failed += cuEventRecord(event, from);
    failed += cuStreamWaitEvent(to, event, 0);
}

static void same_calls_by_hand(void) {
    order_by_hand(producer, consumer);
    order_by_hand(consumer, producer);
}

static void with_library(void) {
    failed +=
        cai_array_consume_begin(&array, (cai_stream)(uintptr_t)consumer, CAI_ACCESS_READ, NULL);
    failed += cai_array_consume_end(&array, (cai_stream)(uintptr_t)consumer, CAI_ACCESS_READ, NULL);
}

static void least_calls_by_hand(void) {
    failed += cuEventRecord(event, producer);
    failed += cuStreamWaitEvent(consumer, event, 0);
    failed += cuEventRecord(event, consumer);
    failed += cuStreamWaitEvent(producer, event, 0);
}

static void by_the_arrays_event(void) {
    failed +=
        cai_array_consume_begin(&read_only, (cai_stream)(uintptr_t)consumer, CAI_ACCESS_READ, NULL);
    failed +=
        cai_array_consume_end(&read_only, (cai_stream)(uintptr_t)consumer, CAI_ACCESS_READ, NULL);
}

static void join_three(void) {
    cai_stream streams[3];
    cai_array out = array;
    streams[0] = (cai_stream)(uintptr_t)producer;
    streams[1] = (cai_stream)(uintptr_t)consumer;
    streams[2] = (cai_stream)(uintptr_t)producer;
    failed += cai_array_produce(&out, streams, 3, streams[0], 0, NULL);
}

static const struct {
    const char *name;
    void (*run)(void);
} variants[] = {
    {"nothing to order: one stream", nothing_to_order_one_stream},
    {"nothing to order: CAI_STREAM_NONE", nothing_to_order_none},
    {"the same calls by hand", same_calls_by_hand},
    {"libcai: begin and end", with_library},
    {"libcai: begin and end, read-only array with an event", by_the_arrays_event},
    {"by hand, unchecked: record, wait, record, wait", least_calls_by_hand},
    {"libcai: produce, one stream joined", join_three},
};
enum { VARIANTS = sizeof(variants) / sizeof(variants[0]) };

int main(int count, char **words) {
    static double times[VARIANTS][ROUNDS];
    static const int64_t shape[1] = {1024};
    unsigned long allocated[VARIANTS];
    const char *file = getenv("CAI_CUDA_DRIVER");
    void *driver = dlopen(file != NULL ? file : "libcuda.so.1", RTLD_NOW);
    void *context = (void *)0x1000;
    int v, round;
    long i;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    (void)sched_setaffinity(0, sizeof(one), &one);
    if (driver == NULL) {
        puts("no driver");
        return 1;
    }
#define FIND(name, arguments) *(void **)&name = dlsym(driver, #name);
    FUNCTIONS(FIND)
    failed += cuInit(0);
    producer = (void *)0x2000;
    consumer = (void *)0x3000;
    if (cuStreamCreate != NULL) { /* a driver with streams */
        failed += cuDevicePrimaryCtxRetain(&context, 0);
        failed += cuCtxSetCurrent(context);
        failed += cuStreamCreate(&producer, 1);
        failed += cuStreamCreate(&consumer, 1);
        times_per_round = 2000;
    }
    failed += cuCtxSetCurrent(context);
    failed += cuEventCreate(&event, 2);
    failed += cuEventRecord(event, producer);
    {
        const cai_array init = CAI_ARRAY_INIT;
        array = init;
    }
    array.data = (void *)(uintptr_t)0x7f0000000000;
    array.shape = shape;
    array.ndim = 1;
    memcpy(array.typestr, "<f4", 4);
    array.device.type = CAI_DEVICE_CUDA;
    none = array;
    none.stream = CAI_STREAM_NONE;
    array.stream = (cai_stream)(uintptr_t)producer;
    read_only = array;
    read_only.event = event;
    read_only.flags = CAI_ARRAY_READONLY;
    for (round = -1; round < ROUNDS; round++) { /* the first warms up */
        for (v = 0; v < VARIANTS; v++) {
            unsigned long before = allocations;
            double start = now();
            for (i = 0; i < times_per_round; i++) {
                variants[v].run();
            }
            if (round >= 0) times[v][round] = (now() - start) / (double)times_per_round;
            allocated[v] = allocations - before;
            if (cuStreamSynchronize != NULL) {
                failed += cuStreamSynchronize(producer) + cuStreamSynchronize(consumer);
            }
        }
    }
    if (failed != 0) {
        printf("%ld calls failed\n", failed);
        return 1;
    }
    printf("%-58s %9s %9s  %s\n", count > 1 ? words[1] : "begin and end", "median ns", "least ns",
           "allocations");
    for (v = 0; v < VARIANTS; v++) {
        sort_times(times[v], ROUNDS);
        printf("%-58s %9.1f %9.1f %12lu\n", variants[v].name, times[v][ROUNDS / 2], times[v][0],
               allocated[v]);
    }
    return 0;
}
