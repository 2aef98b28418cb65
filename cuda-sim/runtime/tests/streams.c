/*
 * streams.c: streams, events, callbacks, and the two default streams.
 */
#include "test.h"

#include <stdatomic.h>

static atomic_int called;
static cudaStream_t called_with;

static void host_work(void *data) { atomic_fetch_add(&called, *(int *)data); }

static void callback(cudaStream_t stream, cudaError_t status, void *data) {
    called_with = stream;
    if (status == cudaSuccess) host_work(data);
}

static void events(cudaStream_t stream, cudaStream_t other) {
    cudaEvent_t start, end, untimed;
    float milliseconds = -1;
    OK(cudaEventCreate(&start));
    OK(cudaEventCreate(&end));
    OK(cudaEventCreateWithFlags(&untimed, 2));
    OK(cudaEventQuery(start)); /* nothing recorded: nothing to wait for */
    OK(cudaEventRecord(start, stream));
    OK(cudaStreamWaitEvent(other, start, 0));
    OK(cudaEventRecord(end, other));
    OK(cudaEventSynchronize(end));
    OK(cudaEventQuery(start));
    OK(cudaEventElapsedTime(&milliseconds, start, end));
    EXPECT(milliseconds >= 0);
    OK(cudaEventRecord(untimed, NULL));
    OK(cudaEventSynchronize(untimed));
    ANSWERS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&milliseconds, start, untimed));
    OK(cudaEventDestroy(start));
    OK(cudaEventDestroy(end));
    OK(cudaEventDestroy(untimed));
}

int main(void) {
    cudaStream_t stream, other;
    unsigned flags;
    unsigned long long id, other_id;
    int device, least, greatest, one = 1;
    void *memory;
    char out[64];

    require_driver();
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamCreateWithFlags(&other, 1));
    OK(cudaStreamGetFlags(other, &flags));
    EXPECT(flags == 1);
    OK(cudaStreamGetDevice(other, &device));
    EXPECT(device == 0);
    OK(cudaStreamGetId(stream, &id));
    OK(cudaStreamGetId(other, &other_id));
    EXPECT(id != other_id);
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    EXPECT(greatest <= least);

    events(stream, other);

    OK(cudaLaunchHostFunc(stream, host_work, &one));
    OK(cudaStreamAddCallback(stream, callback, &one, 0));
    OK(cudaStreamSynchronize(stream));
    EXPECT(atomic_load(&called) == 2 && called_with == stream);
    OK(cudaStreamAddCallback(NULL, callback, &one, 0));
    OK(cudaStreamSynchronize(NULL));
    EXPECT(atomic_load(&called) == 3 && called_with == NULL);

    OK(cudaMalloc(&memory, sizeof out));
    OK(cudaMemsetAsync(memory, 1, sizeof out, NULL));
    OK(cudaMemcpyAsync_ptsz(out, memory, sizeof out, cudaMemcpyDeviceToHost, NULL));
    OK(cudaStreamSynchronize_ptsz(NULL));
    EXPECT(out[63] ==
           1); /* the thread's stream waits for the legacy stream, as every blocking one does */
    OK(cudaStreamQuery(NULL));
    OK(cudaFree(memory));
    OK(cudaStreamDestroy(stream));
    OK(cudaStreamDestroy(other));
    OK(cudaDeviceSynchronize());
    return 0;
}
