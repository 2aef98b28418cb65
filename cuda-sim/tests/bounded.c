/* Streams, threads, captures and events that are gone cost nothing: after a first part, many more
 * of them need no more memory. One line for each kind: its name and by how many kB the process
 * grew. */

#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#define CHECK(call)                            \
    do {                                       \
        int result = (call);                   \
        if (result != 0) {                     \
            printf("%s: %d\n", #call, result); \
            exit(1);                           \
        }                                      \
    } while (0)

enum { SIZE = 512 };

static CUcontext context;
static CUdeviceptr buffer;
static CUevent event;

/* Each stream waits for the one before it, and writes the same buffer. */
static void chained_streams(void) {
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamWaitEvent(stream, event, 0));
    CHECK(cuMemsetD8Async(buffer, 1, SIZE, stream));
    CHECK(cuEventRecord(event, stream));
    CHECK(cuStreamDestroy(stream));
}

/* Nothing orders the streams, which read what no stream writes. */
static void reading_streams(void) {
    CUstream stream;
    CUdeviceptr own;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocAsync(&own, SIZE, stream));
    CHECK(cuMemcpyDtoDAsync(own, buffer + SIZE, SIZE, stream));
    CHECK(cuMemFreeAsync(own, stream));
    CHECK(cuStreamDestroy(stream));
}

static void events(void) {
    CUevent made;
    CHECK(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventRecord(made, CU_STREAM_PER_THREAD));
    CHECK(cuEventDestroy(made));
}

static void captures(void) {
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamWaitEvent(stream, event, 0));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemsetD8Async(buffer, 2, SIZE, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuEventRecord(event, stream));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuStreamDestroy(stream));
}

static void *in_thread(void *unused) {
    (void)unused;
    CUdeviceptr own;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAllocAsync(&own, SIZE, CU_STREAM_PER_THREAD));
    CHECK(cuMemcpyDtoDAsync(own, buffer + SIZE, SIZE, CU_STREAM_PER_THREAD));
    CHECK(cuMemFreeAsync(own, CU_STREAM_PER_THREAD));
    return NULL;
}

static void threads(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, NULL));
    CHECK(pthread_join(thread, NULL));
}

static long peak(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static void run(const char *name, void (*body)(void), int times) {
    long before;
    int i;
    for (i = 0; i < times; i++)
        body();
    before = peak();
    for (i = 0; i < 9 * times; i++)
        body();
    printf("%s %ld\n", name, peak() - before);
}

int main(void) {
    CUdevice device;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc(&buffer, 2 * SIZE));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    run("chained streams", chained_streams, 2000);
    run("reading streams", reading_streams, 2000);
    run("events", events, 2000);
    run("captures", captures, 2000);
    run("threads", threads, 500);
    return 0;
}
