// How the simulated driver grows with a program: processor time for each turn and peak memory, of
// programs of different sizes, each in a process of its own. Run once with CUDASIM_RACES=off and
// once with it on. Arguments: a title, the largest size, a part of the name of what to run.
#include "../tests/ok.h"

#include <cuda.h>

#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 512, FEW = 16 };

static CUcontext context;
static CUdeviceptr buffer;
static CUevent event, *events;
static CUstream *streams;

static CUstream stream(void) {
    CUstream made;
    OK(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
    return made;
}

// Streams that stay, each after the one before, with an event each.
static void chain(long n) {
    for (long i = 0; i < n; ++i) {
        streams[i] = stream();
        OK(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
        if (i > 0) OK(cuStreamWaitEvent(streams[i], events[i - 1], 0));
        OK(cuMemsetD8Async(buffer, 1, SIZE, streams[i]));
        OK(cuEventRecord(events[i], streams[i]));
    }
}

// Streams that stay: all wait for one, and one for all.
static void star(long n) {
    CUstream center = stream();
    for (long i = 0; i < n; ++i) {
        streams[i] = stream();
        OK(cuEventRecord(event, streams[i]));
        OK(cuStreamWaitEvent(center, event, 0));
    }
    OK(cuMemsetD8Async(buffer, 1, SIZE, center));
    OK(cuEventRecord(event, center));
    for (long i = 0; i < n; ++i) {
        OK(cuStreamWaitEvent(streams[i], event, 0));
        OK(cuMemcpyDtoDAsync(buffer + SIZE + SIZE * (CUdeviceptr)i, buffer, SIZE, streams[i]));
    }
}

// Rounds of a ring of streams that stay.
static void ring(long n) {
    const long size = n / 8;
    for (long i = 0; i < n; ++i) {
        const long at = i % size;
        if (i < size) streams[i] = stream();
        if (i > 0) OK(cuStreamWaitEvent(streams[at], event, 0));
        OK(cuMemsetD8Async(buffer, 1, SIZE, streams[at]));
        OK(cuEventRecord(event, streams[at]));
    }
}

// Streams that stay, each with memory of its own.
static void apart(long n) {
    for (long i = 0; i < n; ++i) {
        CUdeviceptr own;
        streams[i] = stream();
        OK(cuMemAlloc(&own, SIZE));
        OK(cuMemsetD8Async(own, 1, SIZE, streams[i]));
    }
}

static void stream_in_chain(long n) {
    for (long i = 0; i < n; ++i) {
        CUstream own = stream();
        OK(cuStreamWaitEvent(own, event, 0));
        OK(cuMemsetD8Async(buffer, 1, SIZE, own));
        OK(cuEventRecord(event, own));
        OK(cuStreamDestroy(own));
    }
}

static void stream_alone(long n) {
    for (long i = 0; i < n; ++i) {
        CUstream own = stream();
        OK(cuMemsetD8Async(buffer + SIZE * (CUdeviceptr)i, 1, SIZE, own));
        OK(cuStreamDestroy(own));
    }
}

static void capture(long n) {
    for (long i = 0; i < n; ++i) {
        CUstream own = stream();
        CUgraph graph;
        CUgraphExec exec;
        OK(cuStreamBeginCapture(own, CU_STREAM_CAPTURE_MODE_RELAXED));
        OK(cuMemsetD8Async(buffer + SIZE * (CUdeviceptr)i, 2, SIZE, own));
        OK(cuStreamEndCapture(own, &graph));
        OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
        OK(cuGraphLaunch(exec, own));
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
        OK(cuStreamDestroy(own));
    }
}

static void *in_thread(void *at) {
    OK(cuCtxSetCurrent(context));
    OK(cuMemsetD8Async(buffer + SIZE * (CUdeviceptr)(long)at, 1, SIZE, CU_STREAM_PER_THREAD));
    return NULL;
}

static void thread(long n) {
    for (long i = 0; i < n; ++i) {
        pthread_t id;
        OK(pthread_create(&id, NULL, in_thread, (void *)i));
        OK(pthread_join(id, NULL));
    }
}

// Records and waits of a few streams.
static void loop(long n) {
    for (long i = 0; i < FEW; ++i) {
        streams[i] = stream();
        OK(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
    }
    for (long i = 0; i < n; ++i) {
        const long at = i % FEW, next = (i + 1) % FEW;
        OK(cuEventRecord(events[at], streams[at]));
        OK(cuStreamWaitEvent(streams[next], events[at], 0));
        OK(cuMemsetD8Async(buffer, 1, SIZE, streams[next]));
    }
}

// Operations that each have bytes and an event of their own.
static void bytes(long n) {
    for (long i = 0; i < FEW; ++i)
        streams[i] = stream();
    for (long i = 0; i < n; ++i) {
        CUevent own;
        OK(cuEventCreate(&own, CU_EVENT_DISABLE_TIMING));
        OK(cuMemsetD8Async(buffer + SIZE * (CUdeviceptr)i, 1, 8, streams[i % FEW]));
        OK(cuEventRecord(own, streams[i % FEW]));
        OK(cuStreamWaitEvent(streams[(i + 1) % FEW], own, 0));
        OK(cuEventDestroy(own));
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static long kilobytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static void measure(const char *name, void (*body)(long n), long n) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        OK(cuInit(0));
        OK(cuDevicePrimaryCtxRetain(&context, 0));
        OK(cuCtxSetCurrent(context));
        OK(cuMemAlloc(&buffer, SIZE * ((size_t)n + 1)));
        OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        streams = calloc((size_t)n + FEW, sizeof *streams);
        events = calloc((size_t)n + FEW, sizeof *events);
        const long before = kilobytes();
        const double start = now();
        body(n);
        const double enqueued = now();
        OK(cuCtxSynchronize());
        printf("  %-34s %8ld %8.2f us each %6.2f to end %8.1f MB\n", name, n,
               (enqueued - start) / 1e3 / (double)n, (now() - enqueued) / 1e3 / (double)n,
               (double)(kilobytes() - before) / 1024);
        fflush(stdout);
        _exit(0);
    }
    int status;
    OK(waitpid(child, &status, 0) != child);
    OK(status);
}

int main(int argc, char **argv) {
    const long most = argc > 2 ? atol(argv[2]) : 20000;
    const struct {
        const char *name;
        void (*body)(long n);
        long times, parts;
    } rows[] = {
        {"live streams in a chain", chain, 1, 1},
        {"live streams in a star", star, 1, 1},
        {"rounds of live streams in a ring", ring, 1, 1},
        {"live streams with own memory", apart, 1, 1},
        {"destroyed streams in a chain", stream_in_chain, 1, 1},
        {"destroyed streams", stream_alone, 1, 1},
        {"captures", capture, 1, 2},
        {"short threads", thread, 1, 5},
        {"records, waits and fills", loop, 50, 1},
        {"the same, each of other bytes", bytes, 50, 1},
    };
    printf("%s\n", argc > 1 ? argv[1] : "");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        if (argc > 3 && strstr(rows[i].name, argv[3]) == NULL) continue;
        for (long size = 8; size > 0; size /= 2)
            measure(rows[i].name, rows[i].body, most * rows[i].times / rows[i].parts / size);
    }
    return 0;
}
