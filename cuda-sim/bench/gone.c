// What the simulated driver keeps of streams, captures, threads and owners of streams that are
// gone: by how much the process grew, and the time for each, for a quarter of them and for all. Run
// once with CUDASIM_RACES=off and once with it on. Arguments: a title, the number of streams (a
// tenth as many threads), and the seconds of the last part. Without arguments, one line for each
// kind: its name, and by how many kB ten times as many grow the process; the last kind stays.
#include "../tests/ok.h"

#include <cuda.h>

#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

enum { SIZE = 512, THREADS = 16 };

static CUcontext context;
static CUdeviceptr buffer;
static CUevent event;
static double end_of_all;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

// Each stream waits for the one before it and writes the same buffer; the host waits for none.
static void stream_in_chain(void) {
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWaitEvent(stream, event, 0));
    OK(cuMemsetD8Async(buffer, 1, SIZE, stream));
    OK(cuEventRecord(event, stream));
    OK(cuStreamDestroy(stream));
}

// A stream that nothing orders, with memory of its own.
static void stream_alone(void) {
    CUstream stream;
    CUdeviceptr own;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAllocAsync(&own, SIZE, stream));
    OK(cuMemcpyDtoDAsync(own, buffer + SIZE, SIZE, stream));
    OK(cuMemFreeAsync(own, stream));
    OK(cuStreamDestroy(stream));
}

static void stream_that_stays(void) {
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWaitEvent(stream, event, 0));
    OK(cuMemsetD8Async(buffer, 1, SIZE, stream));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(event, stream));
}

static void event_alone(void) {
    CUevent made;
    OK(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(made, CU_STREAM_PER_THREAD));
    OK(cuEventDestroy(made));
}

static void capture(void) {
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWaitEvent(stream, event, 0));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemsetD8Async(buffer, 2, SIZE, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuEventRecord(event, stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy(stream));
}

static void *in_thread(void *unused) {
    (void)unused;
    CUdeviceptr own;
    OK(cuCtxSetCurrent(context));
    OK(cuMemAllocAsync(&own, SIZE, CU_STREAM_PER_THREAD));
    OK(cuMemcpyDtoDAsync(own, buffer + SIZE, SIZE, CU_STREAM_PER_THREAD));
    OK(cuMemFreeAsync(own, CU_STREAM_PER_THREAD));
    return NULL;
}

static void thread(void) {
    pthread_t id;
    OK(pthread_create(&id, NULL, in_thread, NULL));
    OK(pthread_join(id, NULL));
}

// New streams until the time is over.
static void *soak(void *count) {
    OK(cuCtxSetCurrent(context));
    while (now() < end_of_all) {
        stream_alone();
        *(long *)count += 1;
    }
    return NULL;
}

static long kilobytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static double peak(void) { return (double)kilobytes() / 1024; }

static void grow(const char *name, void (*body)(void), int times) {
    long before = 0;
    for (int i = 0; i < 10 * times; ++i) {
        if (i == times) before = kilobytes();
        body();
    }
    printf("%s %ld\n", name, kilobytes() - before);
}

static void measure(const char *name, void (*body)(void), long times) {
    const double grown = peak();
    double start = now();
    for (long i = 0; i < times / 4; ++i)
        body();
    const double quarter = now() - start;
    start = now();
    for (long i = times / 4; i < times; ++i)
        body();
    const double rest = now() - start;
    printf("  %8ld %-34s %6.2f us each at first, %6.2f later, %5.1f MB\n", times, name,
           quarter * 1e6 / ((double)times / 4), rest * 1e6 / ((double)times * 3 / 4),
           peak() - grown);
}

int main(int argc, char **argv) {
    const long times = argc > 2 ? atol(argv[2]) : 100000;
    const double seconds = argc > 3 ? atof(argv[3]) : 2;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&buffer, 2 * SIZE));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    if (argc == 1) {
        grow("chained streams", stream_in_chain, 2000);
        grow("reading streams", stream_alone, 2000);
        grow("events", event_alone, 2000);
        grow("captures", capture, 2000);
        grow("threads", thread, 500);
        grow("live streams", stream_that_stays, 1000);
        return 0;
    }
    printf("%s\n", argv[1]);
    measure("streams, each after the one before", stream_in_chain, times);
    measure("streams that nothing orders", stream_alone, times);
    measure("captures", capture, times);
    measure("short threads", thread, times / 10);

    const double grown = peak();
    pthread_t threads[THREADS];
    long counts[THREADS] = {0}, all = 0;
    end_of_all = now() + seconds;
    for (int i = 0; i < THREADS; ++i)
        OK(pthread_create(&threads[i], NULL, soak, &counts[i]));
    for (int i = 0; i < THREADS; ++i) {
        OK(pthread_join(threads[i], NULL));
        all += counts[i];
    }
    printf("  %8ld streams of %d threads in %.0f s    %38.1f MB\n", all, THREADS, seconds,
           peak() - grown);
    return 0;
}
