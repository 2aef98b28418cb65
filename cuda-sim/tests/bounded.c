/* Streams, threads, captures and events that are gone cost nothing: after a first part, many more
 * of them need no more memory. One line for each kind: its name and by how many kB the process
 * grew. */

#include "ok.h"

#include <cuda.h>
#include <pthread.h>
#include <sys/resource.h>

enum { SIZE = 512 };

static CUcontext context;
static CUdeviceptr buffer;
static CUevent event;

/* Each stream waits for the one before it, and writes the same buffer. */
static void chained_streams(void) {
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWaitEvent(stream, event, 0));
    OK(cuMemsetD8Async(buffer, 1, SIZE, stream));
    OK(cuEventRecord(event, stream));
    OK(cuStreamDestroy(stream));
}

/* Nothing orders the streams, which read what no stream writes. */
static void reading_streams(void) {
    CUstream stream;
    CUdeviceptr own;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAllocAsync(&own, SIZE, stream));
    OK(cuMemcpyDtoDAsync(own, buffer + SIZE, SIZE, stream));
    OK(cuMemFreeAsync(own, stream));
    OK(cuStreamDestroy(stream));
}

static void events(void) {
    CUevent made;
    OK(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(made, CU_STREAM_PER_THREAD));
    OK(cuEventDestroy(made));
}

static void captures(void) {
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

static void threads(void) {
    pthread_t thread;
    OK(pthread_create(&thread, NULL, in_thread, NULL));
    OK(pthread_join(thread, NULL));
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
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&buffer, 2 * SIZE));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    run("chained streams", chained_streams, 2000);
    run("reading streams", reading_streams, 2000);
    run("events", events, 2000);
    run("captures", captures, 2000);
    run("threads", threads, 500);
    return 0;
}
