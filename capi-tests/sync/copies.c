/*
 * cai_unstable_array_copy_to_host and cai_unstable_array_copy_from_host of arrays on a device:
 * after the pending work, before the producer's next work, and whether the call returns before the
 * copies are done.
 * run: sim asan valgrind refuse
 * run: omit page_locked_memory_on_a_stream
 */
#include "sync_test.h"
#include <cai/unstable/capture.h>
#include <cai/unstable/copy.h>

static int values[N];

/* Fills a buffer with 0, 1, 2, ..., at last, in stream order. */
static void count_up(CUdeviceptr buffer, CUstream stream) {
    for (int i = 0; i < N; ++i)
        values[i] = i;
    fill(buffer, 0xbad, stream);
    CU(cuMemcpyHtoDAsync(buffer, values, BYTES, stream));
}

/* Every second element, backwards. */
static cai_array backwards(CUdeviceptr buffer, cai_stream stream) {
    static const int64_t shape[1] = {N / 2}, strides[1] = {-8};
    cai_array array = array_of(buffer + BYTES - 4, stream);
    array.shape = shape;
    array.strides = strides;
    return array;
}

static int is_backwards(const cai_array *copy) {
    const int *found = (const int *)copy->data;
    for (int i = 0; i < N / 2; ++i)
        if (found[i] != N - 1 - 2 * i) return 0;
    return copy->strides == NULL && copy->shape[0] == N / 2;
}

static int counts_up(const cai_array *copy, int step) {
    const int *found = (const int *)copy->data;
    for (int i = 0; i < N / step; ++i)
        if (found[i] != step * i) return 0;
    return 1;
}

static int *page_locked(void) {
    void *memory;
    CU(cuMemAllocHost(&memory, BYTES));
    memset(memory, 0, BYTES);
    return (int *)memory;
}

/* Every second element, which a producer writes last, is in host memory when the call returns. */
static cai_array copied_backwards(cai_stream stream, void *host, size_t size) {
    CUdeviceptr buffer = new_buffer();
    CUstream producer = new_stream();
    const cai_array array = backwards(buffer, as_value(producer));
    cai_array copy = CAI_ARRAY_INIT;
    count_up(buffer, producer);
    OK(cai_unstable_array_copy_to_host(&array, stream, 0, host, size, &copy, error));
    ASSERT(is_backwards(&copy) && copy.stream == CAI_STREAM_NONE);
    return copy;
}

CASE(on_a_stream_of_its_own) {
    cai_array copy = copied_backwards(CAI_STREAM_NONE, NULL, 0);
    ASSERT(copy.device.type == CAI_DEVICE_CPU);
    cai_array_release(&copy);
}

CASE(an_unknown_stream) {
    const cai_stream streams[] = {CAI_STREAM_NONE, CAI_STREAM_LEGACY, as_value(new_stream())};
    CUdeviceptr buffer = new_buffer();
    CUstream producer = new_stream();
    cai_array array = array_of(buffer, CAI_STREAM_UNKNOWN);
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; ++i) {
        cai_array copy = CAI_ARRAY_INIT;
        count_up(buffer, producer);
        OK(cai_unstable_array_copy_to_host(&array, streams[i], 0, NULL, 0, &copy, error));
        ASSERT(counts_up(&copy, 1));
        cai_array_release(&copy);
        fill(buffer, 1, producer);
        OK(cai_unstable_array_copy_from_host(&array, streams[i], 0, values, BYTES, error));
        OK(cai_unstable_array_copy_to_host(&array, CAI_STREAM_NONE, 0, NULL, 0, &copy, error));
        ASSERT(counts_up(&copy, 1));
        cai_array_release(&copy);
    }
}

CASE(pageable_memory_on_a_stream) {
    static int host[N];
    CUdeviceptr buffer = new_buffer();
    CUstream producer = new_stream(), stream = new_stream();
    const cai_array array = array_of(buffer, as_value(producer));
    cai_array copy = CAI_ARRAY_INIT;
    count_up(buffer, producer);
    OK(cai_unstable_array_copy_to_host(&array, as_value(stream), 0, host, sizeof host, &copy,
                                       error));
    ASSERT(copy.data == host && copy.stream == CAI_STREAM_NONE && counts_up(&copy, 1));
    cai_array_release(&copy);
}

CASE(a_new_buffer_on_a_stream) {
    cai_array copy = copied_backwards(as_value(new_stream()), NULL, 0);
    cai_array_release(&copy);
}

CASE(page_locked_memory_on_a_stream) {
    int *host = page_locked();
    CUdeviceptr buffer = new_buffer();
    CUstream producer = new_stream(), stream = new_stream();
    const cai_array array = array_of(buffer, as_value(producer));
    cai_array copy = CAI_ARRAY_INIT;
    count_up(buffer, producer);
    OK(cai_unstable_array_copy_to_host(&array, as_value(stream), 0, host, BYTES, &copy, error));
    ASSERT(copy.stream == as_value(stream) && copy.device.type == CAI_DEVICE_CUDA_HOST);
    ASSERT(copy.stream_id != 0);
    /* The producer's next work comes after the copy. */
    fill(buffer, 7, producer);
    OK(cai_array_synchronize(&copy, CAI_ACCESS_READ, error));
    ASSERT(counts_up(&copy, 1));
    cai_array_release(&copy);
    CU(cuStreamSynchronize(producer));
}

/* The producer's stream is that of the memory's context or of the current one; the copy is on one
 * of the memory's. */
CASE(page_locked_memory_and_a_producer_in_either_context) {
    const CUcontext working = working_context();
    int *host = page_locked();
    CUdeviceptr buffer = new_buffer();
    CUstream stream = new_stream();
    const cai_array array = array_of(buffer, CAI_STREAM_LEGACY);
    cai_array copy = CAI_ARRAY_INIT;
    count_up(buffer, stream);
    CU(cuStreamSynchronize(stream));
    CU(cuCtxSetCurrent(working));
    if (devices > 1) CU(cuCtxEnablePeerAccess(context[0], 0));
    OK(cai_unstable_array_copy_to_host(&array, as_value(stream), 0, host, BYTES, &copy, error));
    fill(buffer, 7, CU_STREAM_LEGACY);
    OK(cai_array_synchronize(&copy, CAI_ACCESS_READ, error));
    ASSERT(counts_up(&copy, 1));
    cai_array_release(&copy);
    CU(cuStreamSynchronize(CU_STREAM_LEGACY));
}

CASE(rows_with_gaps_on_a_default_stream) {
    static const int64_t shape[1] = {N / 2}, strides[1] = {8};
    int *host = page_locked();
    CUdeviceptr buffer = new_buffer();
    CUstream producer = new_stream();
    cai_array array = array_of(buffer, as_value(producer)), copy = CAI_ARRAY_INIT;
    array.shape = shape;
    array.strides = strides;
    count_up(buffer, producer);
    OK(cai_unstable_array_copy_to_host(&array, CAI_STREAM_LEGACY, 0, host, BYTES, &copy, error));
    ASSERT(copy.stream == CAI_STREAM_LEGACY && copy.context == context[0]);
    OK(cai_array_synchronize(&copy, CAI_ACCESS_READ, error));
    ASSERT(counts_up(&copy, 2));
    cai_array_release(&copy);
}

CASE(backwards_into_page_locked_memory) {
    cai_array copy = copied_backwards(as_value(new_stream()), page_locked(), BYTES);
    cai_array_release(&copy);
}

CASE(copies_in_a_capture) {
    int *host = page_locked();
    CUdeviceptr buffer = new_buffer();
    CUstream stream = new_stream();
    CUgraph graph;
    CUgraphExec executable;
    const cai_array array = array_of(buffer, as_value(stream));
    cai_array copy = CAI_ARRAY_INIT, other = CAI_ARRAY_INIT;
    count_up(buffer, stream);
    CU(cuStreamSynchronize(stream));
    CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cai_unstable_array_copy_to_host(&array, as_value(stream), 0, host, BYTES, &copy, error));
    REFUSED(CAI_ERR_CAPTURE_HOST, "stream",
            cai_unstable_array_copy_to_host(&array, as_value(stream), 0, NULL, 0, &other, error));
    REFUSED(CAI_ERR_CAPTURE_HOST, "stream",
            cai_unstable_array_copy_to_host(&array, CAI_STREAM_NONE, 0, NULL, 0, &other, error));
    CU(cuStreamEndCapture(stream, &graph));
    CU(cuGraphInstantiate(&executable, graph, 0));
    ASSERT(host[N - 1] == 0);
    CU(cuGraphLaunch(executable, stream));
    CU(cuStreamSynchronize(stream));
    ASSERT(counts_up(&copy, 1));
    cai_array_release(&copy);
}

/* Moves by hand: what the address holds after the wait, and the producer's next work. */
CASE(bytes_of_known_and_unknown_streams) {
    static int host[N];
    CUdeviceptr buffer = new_buffer();
    CUstream producer = new_stream(), stream = new_stream(), other = new_stream();
    CUevent ready;
    CU(cuEventCreate(&ready, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 6; ++i) {
        const cai_array array = array_of(buffer, i % 2 ? CAI_STREAM_UNKNOWN : as_value(producer));
        const cai_stream on = i < 2 ? CAI_STREAM_NONE : as_value(stream);
        void *address;
        int64_t nbytes;
        count_up(buffer, producer);
        OK(cai_unstable_array_bytes(&array, on, i < 4 ? NULL : (void *)ready, CAI_ACCESS_READ,
                                    &address, &nbytes, error));
        ASSERT((CUdeviceptr)address == buffer && nbytes == BYTES);
        if (i >= 4) /* The event says when a move without a stream may begin. */
            CU(cuEventSynchronize(ready));
        memset(host, 0, sizeof host);
        CU(cuMemcpyDtoHAsync(host, buffer, BYTES, i < 4 ? stream : other));
        if (i / 2 == 1) OK(cai_array_consume_end(&array, as_value(stream), CAI_ACCESS_READ, error));
        CU(cuStreamSynchronize(i < 4 ? stream : other));
        fill(buffer, 7, producer);
        for (int k = 0; k < N; ++k)
            ASSERT(host[k] == k);
    }
    CU(cuEventDestroy(ready));
}

CASE(bytes_in_a_capture) {
    CUdeviceptr buffer = new_buffer();
    CUstream stream = new_stream();
    CUgraph graph;
    cai_array array = array_of(buffer, as_value(stream));
    void *address;
    int64_t nbytes;
    CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cai_unstable_array_bytes(&array, as_value(stream), NULL, CAI_ACCESS_READ, &address, &nbytes,
                                error));
    REFUSED(CAI_ERR_CAPTURE_HOST, "stream",
            cai_unstable_array_bytes(&array, CAI_STREAM_NONE, NULL, CAI_ACCESS_READ, &address,
                                     &nbytes, error));
    array.stream = CAI_STREAM_UNKNOWN;
    REFUSED(CAI_ERR_CAPTURE_CONSUMER, "stream",
            cai_unstable_array_bytes(&array, as_value(stream), NULL, CAI_ACCESS_READ, &address,
                                     &nbytes, error));
    CU(cuStreamEndCapture(stream, &graph));
}

/* An event that is recorded in a capture must not be polled, and a record on the legacy stream
 * would invalidate a capture beside it. */
CASE(events_of_bytes_beside_a_capture) {
    static const struct {
        cai_status status;
        uint32_t flags;
        bool is_legacy;
    } rows[] = {{CAI_ERR_CAPTURE_HOST, 0, false},
                {CAI_ERR_CAPTURE_LEGACY, 0, true},
                {CAI_ERR_ARGUMENT, CAI_CAPTURE_JOIN, false},
                {CAI_ERR_ARGUMENT, CAI_UNSTABLE_CAPTURE_EXTERNAL, false}};
    CUstream stream;
    CUevent ready;
    CUgraph graph;
    void *address;
    int64_t nbytes;
    const cai_array array = array_of(new_buffer(), CAI_STREAM_NONE);
    CU(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    CU(cuEventCreate(&ready, CU_EVENT_DISABLE_TIMING));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        const cai_stream on = rows[i].is_legacy ? CAI_STREAM_LEGACY : as_value(stream);
        CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        ASSERT_STATUS(rows[i].status,
                      cai_unstable_array_bytes(&array, on, ready, CAI_ACCESS_READ | rows[i].flags,
                                               &address, &nbytes, NULL));
        CU(cuEventQuery(ready));
        CU(cuStreamEndCapture(stream, &graph));
    }
    /* A refused call does not join the array's stream. */
    CUstream other = new_stream();
    CUdeviceptr buffer = new_buffer();
    const cai_array captured = array_of(buffer, as_value(other));
    CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU(cuEventRecord(ready, stream));
    CU(cuStreamWaitEvent(other, ready, 0));
    CU(cuEventCreate(&ready, CU_EVENT_DISABLE_TIMING));
    fill(buffer, 1, other);
    ASSERT_STATUS(CAI_ERR_CAPTURE_HOST,
                  cai_unstable_array_bytes(&captured, as_value(stream), ready, CAI_ACCESS_READ,
                                           &address, &nbytes, NULL));
    ASSERT(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    OK(cai_unstable_array_bytes(&array, as_value(stream), ready, CAI_ACCESS_READ, &address, &nbytes,
                                error));
    CU(cuEventSynchronize(ready));
}

/* What is on the device, after `stream`. */
static const int *found_on(CUdeviceptr buffer, CUstream stream) {
    static int found[N];
    CU(cuMemcpyDtoHAsync(found, buffer, BYTES, stream));
    CU(cuStreamSynchronize(stream));
    return found;
}

static int is_spread(const int *found) {
    for (int i = 0; i < N; ++i)
        if (found[i] != (i % 2 == 0 ? 7 : N / 2 - 1 - i / 2)) return 0;
    return 1;
}

CASE(back_backwards_on_a_stream_of_its_own) {
    CUdeviceptr buffer = new_buffer();
    CUstream producer = new_stream();
    const cai_array array = backwards(buffer, as_value(producer));
    for (int i = 0; i < N / 2; ++i)
        values[i] = i;
    fill(buffer, 7, producer);
    OK(cai_unstable_array_copy_from_host(&array, CAI_STREAM_NONE, 0, values, BYTES / 2, error));
    ASSERT(is_spread(found_on(buffer, producer)));
}

CASE(back_from_pageable_memory_on_a_stream) {
    CUdeviceptr buffer = new_buffer();
    CUstream producer = new_stream(), stream = new_stream();
    const cai_array array = backwards(buffer, as_value(producer));
    for (int i = 0; i < N / 2; ++i)
        values[i] = i;
    fill(buffer, 7, producer);
    OK(cai_unstable_array_copy_from_host(&array, as_value(stream), 0, values, BYTES / 2, error));
    memset(values, 0, sizeof values); /* the copies are done */
    ASSERT(is_spread(found_on(buffer, stream)));
}

CASE(back_from_page_locked_memory_on_a_stream) {
    static const int64_t shape[1] = {N / 2}, strides[1] = {8};
    int *host = page_locked();
    CUdeviceptr buffer = new_buffer();
    CUstream producer = new_stream(), stream = new_stream();
    cai_array array = array_of(buffer + 4, as_value(producer));
    array.shape = shape;
    array.strides = strides;
    for (int i = 0; i < N / 2; ++i)
        host[i] = i;
    fill(buffer, 7, producer);
    OK(cai_unstable_array_copy_from_host(&array, as_value(stream), 0, host, BYTES / 2, error));
    /* The producer's next work comes after the copy. */
    const int *found = found_on(buffer, producer);
    for (int i = 0; i < N; ++i)
        ASSERT(found[i] == (i % 2 == 0 ? 7 : i / 2));
}

CASE(back_in_a_capture) {
    int *host = page_locked();
    CUdeviceptr buffer = new_buffer();
    CUstream stream = new_stream();
    CUgraph graph;
    CUgraphExec executable;
    const cai_array array = array_of(buffer, as_value(stream));
    host[N - 1] = 3;
    fill(buffer, 7, stream);
    CU(cuStreamSynchronize(stream));
    CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cai_unstable_array_copy_from_host(&array, as_value(stream), 0, host, BYTES, error));
    REFUSED(CAI_ERR_CAPTURE_HOST, "stream",
            cai_unstable_array_copy_from_host(&array, as_value(stream), 0, values, BYTES, error));
    REFUSED(CAI_ERR_CAPTURE_HOST, "stream",
            cai_unstable_array_copy_from_host(&array, CAI_STREAM_NONE, 0, host, BYTES, error));
    CU(cuStreamEndCapture(stream, &graph));
    CU(cuGraphInstantiate(&executable, graph, 0));
    ASSERT(found_on(buffer, stream)[N - 1] == 7);
    CU(cuGraphLaunch(executable, stream));
    ASSERT(found_on(buffer, stream)[N - 1] == 3);
}

int main(int count, char **words) { return run_cases(count, words); }
