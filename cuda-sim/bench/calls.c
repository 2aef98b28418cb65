// What the simulated driver costs: for each operation enqueued, and how that grows with streams and
// with the number of ranges that the checker remembers. Run once with CUDASIM_RACES=off and once
// with it on.
#include "../tests/ok.h"

#include <cuda.h>
#include <cudasim.h>

#include <time.h>

enum { ROUNDS = 9, MOST = 1000 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}

static void nothing(void *data) { (void)data; }

static CUstream streams[MOST];
static CUevent events[MOST];

// The median over rounds of nanoseconds an operation.
static double measure(void (*run)(long n, long size), long n, long size) {
    double found[ROUNDS];
    run(n, size);
    for (int i = 0; i < ROUNDS; ++i) {
        OK(cuCtxSynchronize());
        const double start = now();
        run(n, size);
        found[i] = (now() - start) / (double)n;
    }
    OK(cuCtxSynchronize());
    qsort(found, ROUNDS, sizeof found[0], ascending);
    return found[ROUNDS / 2];
}

static CUdeviceptr memory;

// Kernels that write and read one buffer; the queue is emptied before it is full.
static void enqueue(long n, long size) {
    (void)size;
    for (long i = 0; i < n; ++i) {
        const cudasim_access access = {
            .address = memory, .nbytes = 4096, .mode = i % 2 ? CUDASIM_READ : CUDASIM_WRITE};
        OK(cudasim_launch(streams[0], "bench", nothing, &memory, sizeof memory, &access, 1));
    }
}

static void fill(long n, long size) {
    (void)size;
    for (long i = 0; i < n; ++i)
        OK(cuMemsetD8Async(memory, 1, 64, streams[0]));
}

// A relay: each stream waits for the one before it and writes what all write.
static void relay(long n, long size) {
    for (long i = 0; i < n / 3; ++i) {
        CUstream before = streams[i % size], next = streams[(i + 1) % size];
        OK(cuEventRecord(events[i % size], before));
        OK(cuStreamWaitEvent(next, events[i % size], 0));
        const cudasim_access access = {.address = memory, .nbytes = 4096, .mode = CUDASIM_WRITE};
        OK(cudasim_launch(next, "bench", nothing, &memory, sizeof memory, &access, 1));
    }
}

// Writes of `size` different ranges, in an order that jumps.
static void ranges(long n, long size) {
    for (long i = 0; i < n; ++i) {
        const CUdeviceptr at =
            memory + (CUdeviceptr)(((unsigned long)i * 2654435761ul) % (unsigned long)size) * 32;
        const cudasim_access access = {.address = at, .nbytes = 16, .mode = CUDASIM_WRITE};
        OK(cudasim_launch(streams[0], "bench", nothing, &memory, sizeof memory, &access, 1));
    }
}

int main(int argc, char **argv) {
    const char *title = argc > 1 ? argv[1] : "";
    CUcontext context;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    for (int i = 0; i < MOST; ++i) {
        OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        OK(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
    }
    OK(cuMemAlloc(&memory, 64 << 20));
    printf("%s\n", title);
    printf("  a kernel enqueued                     %6.0f ns\n", measure(enqueue, 1000, 0));
    printf("  a fill enqueued                       %6.0f ns\n", measure(fill, 1000, 0));
    for (long n = 10; n <= MOST; n *= 10) {
        printf("  record, wait, kernel, %4ld streams    %6.0f ns each\n", n,
               measure(relay, 3000, n));
    }
    for (long n = 100; n <= 1000000; n *= 100) {
        printf("  a kernel on one of %7ld ranges     %6.0f ns\n", n,
               measure(ranges, n < 1000 ? 1000 : n, n));
    }
    return 0;
}
