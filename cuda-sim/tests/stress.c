// Several host threads, each with its streams, enqueue very many operations. Nothing may be lost,
// nothing may deadlock, and memory may not grow with the number of operations.
//
//     stress [threads streams operations]
#include "ok.h"

#include <cuda.h>
#include <cudasim.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>

enum { MOST_STREAMS = 64, BYTES = 64 };

static int streams = 16;
static long operations;
static CUcontext context;
static atomic_long ran;

static void count(void *data) {
    const CUdeviceptr at = *(const CUdeviceptr *)data;
    ++*(volatile long *)at;
    atomic_fetch_add(&ran, 1);
}

static void *work(void *seed) {
    unsigned random = (unsigned)(size_t)seed * 7919u + 1u;
    CUstream mine[MOST_STREAMS];
    CUevent events[MOST_STREAMS];
    CUdeviceptr memory[MOST_STREAMS];
    long launched[MOST_STREAMS] = {0};
    OK(cuCtxSetCurrent(context));
    for (int i = 0; i < streams; ++i) {
        OK(cuStreamCreate(&mine[i], CU_STREAM_NON_BLOCKING));
        OK(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
        OK(cuMemAlloc(&memory[i], BYTES));
        OK(cuMemsetD8Async(memory[i], 0, BYTES, mine[i]));
    }
    for (long n = 0; n < operations; ++n) {
        random = random * 1664525u + 1013904223u;
        const int i = (int)((random >> 16) % (unsigned)streams);
        const int other = (int)((random >> 8) % (unsigned)streams);
        switch ((random >> 24) % 8) {
        case 0: OK(cuEventRecord(events[i], mine[i])); break;
        case 1: OK(cuStreamWaitEvent(mine[i], events[other], 0)); break;
        case 2: OK(cuMemsetD8Async(memory[i] + BYTES / 2, 1, BYTES / 2, mine[i])); break;
        case 3:
            if (n % 64 == 0) OK(cuStreamSynchronize(mine[i]));
            break;
        default: {
            const cudasim_access access = {
                .address = memory[i], .nbytes = 8, .mode = CUDASIM_WRITE};
            OK(cudasim_launch(mine[i], "count", count, &memory[i], sizeof memory[i], &access, 1));
            ++launched[i];
        }
        }
    }
    long total = 0;
    for (int i = 0; i < streams; ++i) {
        long counted;
        OK(cuStreamSynchronize(mine[i]));
        OK(cuMemcpyDtoHAsync(&counted, memory[i], sizeof counted, mine[i]));
        if (counted != launched[i]) {
            fprintf(stderr, "stream %d: %ld launched, %ld counted\n", i, launched[i], counted);
            exit(1);
        }
        total += counted;
        OK(cuMemFree(memory[i]));
        OK(cuEventDestroy(events[i]));
        OK(cuStreamDestroy(mine[i]));
    }
    return (void *)(size_t)total;
}

int main(int argc, char **argv) {
    const int threads = argc > 1 ? atoi(argv[1]) : 8;
    streams = argc > 2 ? atoi(argv[2]) : 16;
    operations = (argc > 3 ? atol(argv[3]) : 1000000) / threads;
    if (threads < 1 || threads > 64 || streams < 1 || streams > MOST_STREAMS) return 2;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    pthread_t running[64];
    long expected = 0;
    for (int t = 0; t < threads; ++t)
        OK(pthread_create(&running[t], NULL, work, (void *)(size_t)t));
    for (int t = 0; t < threads; ++t) {
        void *total;
        OK(pthread_join(running[t], &total));
        expected += (long)(size_t)total;
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%ld operations, %ld kernels, %ld MB at most\n", operations * threads, expected,
           usage.ru_maxrss / 1024);
    if (atomic_load(&ran) != expected || usage.ru_maxrss > 400 * 1024) {
        fprintf(stderr, "%ld ran\n", atomic_load(&ran));
        return 1;
    }
    return 0;
}
