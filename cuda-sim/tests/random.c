// Random programs, each correct and free of races: nothing may hang, and nothing may be lost.
//
//     random [first-seed programs]
#include <cuda.h>
#include <cudasim.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define OK(call)                                                                                 \
    do {                                                                                         \
        const int result_ = (int)(call);                                                         \
        if (result_ != 0) {                                                                      \
            fprintf(stderr, "%s:%d: program %u: %s = %d\n", __FILE__, __LINE__, seed_now, #call, \
                    result_);                                                                    \
            _exit(2);                                                                            \
        }                                                                                        \
    } while (0)

enum { THREADS = 3, STREAMS = 4, EVENTS = 4, OPERATIONS = 40, BYTES = 1 << 16, SECONDS = 60 };

static unsigned seed_now;
static CUcontext contexts[2];
static int devices;
static atomic_long expected, called;

/* Held for reading by calls that a capture of another thread forbids. */
static pthread_rwlock_t capturing = PTHREAD_RWLOCK_INITIALIZER;

static void hangs(int signal) {
    char text[80];
    const int length = snprintf(text, sizeof text, "program %u hangs\n", seed_now);
    (void)signal;
    if (write(2, text, (size_t)length) != length) _exit(4);
    _exit(3);
}

typedef struct worker {
    unsigned random;
    int device;
    CUstream streams[STREAMS + 2];
    CUdeviceptr memory[STREAMS + 2];
    CUevent events[EVENTS];
    CUdeviceptr words;
    unsigned written[STREAMS + 2]; /* by each stream, into its word */
    pthread_t thread;
} worker;

static unsigned below(worker *it, unsigned n) {
    it->random = it->random * 1664525u + 1013904223u;
    return (it->random >> 8) % n;
}

static void count(void *unused) {
    (void)unused;
    atomic_fetch_add(&called, 1);
}

static void count_back(CUstream stream, CUresult status, void *unused) {
    (void)stream, (void)status, (void)unused;
    atomic_fetch_add(&called, 1);
}

static void set(void *flag) { atomic_store((atomic_int *)flag, 1); }

static CUstream new_stream(worker *it) {
    CUstream stream;
    OK(cuStreamCreate(&stream, below(it, 2) ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    return stream;
}

/* Captures one stream and another one that joins it, and launches the graph on either. */
static void launch_graph(worker *it, int at) {
    CUstream stream, other;
    CUgraph graph;
    CUgraphExec executable;
    CUevent fork, join;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    pthread_rwlock_wrlock(&capturing);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuLaunchHostFunc(stream, count, NULL));
    OK(cuEventRecord(fork, stream));
    OK(cuStreamWaitEvent(other, fork, 0));
    OK(cuLaunchHostFunc(other, count, NULL));
    OK(cuMemsetD8Async(it->memory[at], 1, BYTES, stream));
    OK(cuEventRecord(join, other));
    OK(cuStreamWaitEvent(stream, join, 0));
    OK(cuStreamEndCapture(stream, &graph));
    pthread_rwlock_unlock(&capturing);
    OK(cuGraphInstantiate(&executable, graph, 0));
    OK(cuGraphLaunch(executable, it->streams[at]));
    atomic_fetch_add(&expected, 2);
    if (below(it, 2)) {
        OK(cuGraphLaunch(executable, it->streams[at]));
        atomic_fetch_add(&expected, 2);
    }
    OK(cuGraphDestroy(graph));
    OK(cuGraphExecDestroy(executable));
    OK(cuStreamDestroy(stream));
    OK(cuStreamDestroy(other));
    OK(cuEventDestroy(fork));
    OK(cuEventDestroy(join));
}

static void operation(worker *it) {
    const int at = (int)below(it, STREAMS + 2);
    const CUstream stream = it->streams[at];
    CUevent *event = &it->events[below(it, EVENTS)];
    const int other = (int)below(it, STREAMS + 2);
    CUdeviceptr some;
    int code;
    switch (below(it, 20)) {
    case 0:
    case 1: OK(cuEventRecord(*event, stream)); break;
    case 2:
    case 3: OK(cuStreamWaitEvent(stream, *event, 0)); break;
    case 4: OK(cuMemsetD8Async(it->memory[at], 1, BYTES, stream)); break;
    case 5: OK(cuMemcpyDtoDAsync(it->memory[at], it->memory[at] + BYTES, BYTES, stream)); break;
    case 6:
        OK(cuLaunchHostFunc(stream, count, NULL));
        atomic_fetch_add(&expected, 1);
        break;
    case 7:
        OK(cuStreamAddCallback(stream, count_back, NULL, 0));
        atomic_fetch_add(&expected, 1);
        break;
    case 8:
        OK(cuStreamWriteValue32(stream, it->words + (CUdeviceptr)at * 4, ++it->written[at], 0));
        break;
    case 9:
        /* Written by work that was enqueued before. */
        OK(cuStreamWaitValue32(stream, it->words + (CUdeviceptr)other * 4, it->written[other],
                               CU_STREAM_WAIT_VALUE_GEQ));
        break;
    case 10: OK(cuStreamSynchronize(stream)); break;
    case 11: OK(cuEventSynchronize(*event)); break;
    case 12:
        while ((code = (int)cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY) {
        }
        OK(code);
        break;
    case 13:
        while ((code = (int)cuEventQuery(*event)) == CUDA_ERROR_NOT_READY) {
        }
        OK(code);
        break;
    case 14: OK(cuCtxSynchronize()); break;
    case 15:
        OK(cuMemAllocAsync(&some, BYTES, stream));
        OK(cuMemsetD8Async(some, 1, BYTES, stream));
        OK(cuMemFreeAsync(some, stream));
        break;
    case 16:
        if (at < STREAMS) {
            /* With work that is pending; the memory is used on the next one. */
            CUevent done;
            OK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
            OK(cuEventRecord(done, stream));
            OK(cuStreamDestroy(stream));
            it->streams[at] = new_stream(it);
            OK(cuStreamWaitEvent(it->streams[at], done, 0));
            OK(cuEventDestroy(done));
        }
        break;
    case 17:
        OK(cuEventDestroy(*event));
        OK(cuEventCreate(event, below(it, 2) ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT));
        break;
    case 18: (void)cudasim_step(below(it, 3)); break;
    default:
        /* Calls go on meanwhile, and none of them waits. */
        if (below(it, 200) == 0) {
            atomic_int is_open = 0;
            OK(cuLaunchHostFunc(stream, set, &is_open));
            while (!atomic_load(&is_open)) {
                CUcontext current;
                OK(cuCtxGetCurrent(&current));
            }
        }
    }
}

static void *work(void *argument) {
    worker *it = argument;
    OK(cuCtxSetCurrent(contexts[it->device]));
    for (int i = 0; i < STREAMS; ++i)
        it->streams[i] = new_stream(it);
    it->streams[STREAMS] = CU_STREAM_LEGACY;
    it->streams[STREAMS + 1] = CU_STREAM_PER_THREAD;
    for (int i = 0; i < STREAMS + 2; ++i) {
        OK(cuMemAlloc(&it->memory[i], 2 * BYTES));
        OK(cuMemsetD8Async(it->memory[i], 0, 2 * BYTES, it->streams[i]));
    }
    for (int i = 0; i < EVENTS; ++i)
        OK(cuEventCreate(&it->events[i], CU_EVENT_DISABLE_TIMING));
    OK(cuMemAlloc(&it->words, sizeof it->written));
    OK(cuMemsetD32(it->words, 0, STREAMS + 2));
    pthread_rwlock_rdlock(&capturing);
    OK(cuCtxSynchronize());
    pthread_rwlock_unlock(&capturing);
    for (int i = 0; i < OPERATIONS; ++i) {
        if (below(it, 24) == 0) launch_graph(it, (int)below(it, STREAMS));
        pthread_rwlock_rdlock(&capturing);
        operation(it);
        pthread_rwlock_unlock(&capturing);
    }
    pthread_rwlock_rdlock(&capturing);
    for (int i = 0; i < STREAMS + 2; ++i) {
        OK(cuStreamSynchronize(it->streams[i]));
        OK(cuMemFree(it->memory[i]));
        if (i < STREAMS) OK(cuStreamDestroy(it->streams[i]));
    }
    for (int i = 0; i < EVENTS; ++i)
        OK(cuEventDestroy(it->events[i]));
    OK(cuMemFree(it->words));
    pthread_rwlock_unlock(&capturing);
    return NULL;
}

int main(int argc, char **argv) {
    const unsigned first = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
    const unsigned programs = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 100;
    signal(SIGALRM, hangs);
    OK(cuInit(0));
    OK(cuDeviceGetCount(&devices));
    devices = devices < 2 ? 1 : 2;
    for (int i = 0; i < devices; ++i)
        OK(cuDevicePrimaryCtxRetain(&contexts[i], i));
    for (seed_now = first; seed_now != first + programs; ++seed_now) {
        worker workers[THREADS];
        const int threads = 1 + (int)(seed_now % THREADS);
        atomic_store(&expected, 0);
        atomic_store(&called, 0);
        alarm(SECONDS);
        for (int t = 0; t < threads; ++t) {
            workers[t] = (worker){.random = seed_now * 64 + (unsigned)t, .device = t % devices};
            if (pthread_create(&workers[t].thread, NULL, work, &workers[t]) != 0) return 2;
        }
        for (int t = 0; t < threads; ++t)
            pthread_join(workers[t].thread, NULL);
        for (int i = 0; i < devices; ++i) {
            OK(cuCtxSetCurrent(contexts[i]));
            OK(cuCtxSynchronize());
        }
        if (atomic_load(&called) != atomic_load(&expected)) {
            fprintf(stderr, "program %u: %ld of %ld functions were called\n", seed_now,
                    atomic_load(&called), atomic_load(&expected));
            return 1;
        }
    }
    printf("%u programs\n", programs);
    return 0;
}
