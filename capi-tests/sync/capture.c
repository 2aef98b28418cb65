/* Streams that are being captured: what is possible, what is refused, and that no capture is ever
 * broken.
 * run: sim asan valgrind refuse; gpu
 * run: omit both_in_one_capture joining_a_capture waiting_from_inside_a_capture around_a_launch
 * run: omit producers_in_a_capture */
#include "capture_test.h"

static void capture_alone_is_fine(CUstream stream, CUdeviceptr buffer) {
    fill(buffer, 77, stream);
    CUgraphExec executable = end_capture(stream);
    CU(cuGraphLaunch(executable, stream));
    ASSERT(holds(buffer, 77, stream));
}

static void begin_refused(const cai_array *array, CUstream consumer, uint32_t flags,
                          cai_status status, const char *field) {
    REFUSED(status, field,
            cai_array_consume_begin(array, as_value(consumer), CAI_ACCESS_READ | flags, error));
}

/* Neither half of an exchange is possible. */
static void both_refused(const cai_array *array, CUstream consumer, uint32_t flags,
                         cai_status status, const char *field) {
    begin_refused(array, consumer, flags, status, field);
    REFUSED(status, field,
            cai_array_consume_end(array, as_value(consumer), CAI_ACCESS_READ | flags, error));
}

/* With a stream that is not known, and with the whole context. */
static void conservative_refused(cai_array array, CUstream consumer, cai_status status,
                                 const char *field) {
    array.stream = CAI_STREAM_UNKNOWN;
    array.version = 2;
    begin_refused(&array, consumer, CAI_SYNC_CONSERVATIVE, status, field);
}

CASE(both_in_one_capture) {
    CUstream producer = new_stream(), consumer = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    cai_array array = array_of(buffer, as_value(producer));
    CUevent fork_point = new_event(), join_point = new_event();
    begin_capture(producer);
    CU(cuEventRecord(fork_point, producer));
    CU(cuStreamWaitEvent(consumer, fork_point, 0));
    fill(buffer, 1, producer);
    read_into(out, &array, consumer);
    fill(buffer, 2, producer);
    CU(cuEventRecord(join_point, consumer));
    CU(cuStreamWaitEvent(producer, join_point, 0));
    CUgraphExec executable = end_capture(producer);
    for (int i = 0; i < 2; ++i) {
        CU(cuGraphLaunch(executable, producer));
        ASSERT(holds(out, 1, producer));
        ASSERT(holds(buffer, 2, producer));
    }
}

CASE(event_is_left_alone_in_a_capture) {
    CUstream producer = new_stream(), consumer = new_stream(), reader = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    cai_array array = array_of(buffer, as_value(producer));
    CUevent fork_point = new_event(), join_point = new_event();
    const cai_stream streams[] = {as_value(producer)};
    array.event = new_event();
    OK(cai_array_produce(&array, streams, 1, streams[0], 0, error));
    begin_capture(producer);
    CU(cuEventRecord(fork_point, producer));
    CU(cuStreamWaitEvent(consumer, fork_point, 0));
    fill(buffer, 1, producer);
    OK(cai_array_produce(&array, streams, 1, streams[0], 0, error));
    read_into(out, &array, consumer);
    write_from(&array, 3, consumer);
    CU(cuEventRecord(join_point, consumer));
    CU(cuStreamWaitEvent(producer, join_point, 0));
    CUgraphExec executable = end_capture(producer);
    /* Outside, the event says what it said before. */
    read_into(out, &array, reader);
    CU(cuGraphLaunch(executable, producer));
    /* The producer says that there is new work. */
    OK(cai_array_produce(&array, streams, 1, streams[0], 0, error));
    read_into(out, &array, reader);
    ASSERT(holds(out, 3, reader));
}

CASE(producer_alone) {
    CUstream producer = new_stream(), consumer = new_stream();
    CUdeviceptr buffer = new_buffer();
    cai_array array = array_of(buffer, as_value(producer));
    begin_capture(producer);
    both_refused(&array, consumer, 0, CAI_ERR_CAPTURE_PRODUCER, "stream");
    begin_refused(&array, consumer, CAI_UNSTABLE_CAPTURE_EXTERNAL, CAI_ERR_CAPTURE_PRODUCER,
                  "stream");
    REFUSED(CAI_ERR_CAPTURE_HOST, "stream", cai_array_synchronize(&array, CAI_ACCESS_READ, error));
    OK(cai_array_validate(&array, CAI_CHECK_STREAM | CAI_CHECK_DEVICE, error));
    capture_alone_is_fine(producer, buffer);
}

CASE(consumer_alone) {
    CUstream producer = new_stream(), consumer = new_stream();
    CUdeviceptr buffer = new_buffer();
    cai_array array = array_of(buffer, as_value(producer));
    begin_capture(consumer);
    both_refused(&array, consumer, 0, CAI_ERR_CAPTURE_CONSUMER, "stream");
    begin_refused(&array, consumer, CAI_CAPTURE_JOIN, CAI_ERR_CAPTURE_CONSUMER, "stream");
    conservative_refused(array, consumer, CAI_ERR_CAPTURE_CONSUMER, "stream");
    array.event = new_event();
    begin_refused(&array, consumer, 0, CAI_ERR_CAPTURE_CONSUMER, "stream");
    /* The host may wait for the producer meanwhile, although another stream is being captured
     * globally. */
    array = array_of(buffer, as_value(producer));
    OK(cai_array_synchronize(&array, CAI_ACCESS_READ, error));
    capture_alone_is_fine(consumer, buffer);
}

CASE(two_captures) {
    CUstream producer = new_stream(), consumer = new_stream();
    CUdeviceptr buffer = new_buffer();
    cai_array array = array_of(buffer, as_value(producer));
    begin_capture(producer);
    begin_capture(consumer);
    both_refused(&array, consumer, 0, CAI_ERR_CAPTURE_MERGE, "stream");
    begin_refused(&array, consumer, CAI_CAPTURE_JOIN | CAI_UNSTABLE_CAPTURE_EXTERNAL,
                  CAI_ERR_CAPTURE_MERGE, "stream");
    fill(buffer, 5, consumer);
    CU(cuGraphExecDestroy(end_capture(consumer)));
    capture_alone_is_fine(producer, buffer);
}

CASE(legacy_beside_a_capture) {
    /* The legacy stream would wait for the blocking stream, which is being captured. */
    CUstream producer = blocking_stream(), consumer = new_stream();
    CUdeviceptr buffer = new_buffer();
    cai_array array = array_of(buffer, CAI_STREAM_LEGACY);
    begin_capture(producer);
    cai_error why;
    both_refused(&array, consumer, 0, CAI_ERR_CAPTURE_LEGACY, "driver");
    ASSERT_STATUS(CAI_ERR_CAPTURE_LEGACY, cai_array_synchronize(&array, CAI_ACCESS_READ, &why));
    ASSERT_TEXT("driver", why.field);
    ASSERT_CONTAINS(why.message, "CU_STREAM_NON_BLOCKING");
    conservative_refused(array, consumer, CAI_ERR_CAPTURE_LEGACY, "driver");
    capture_alone_is_fine(producer, buffer);
}

/* It cannot be captured, and the attempt would invalidate the capture that it was to join. */
CASE(legacy_joins_no_capture) {
    const cai_stream legacy = CAI_STREAM_LEGACY;
    CUstream producer = new_stream();
    CUdeviceptr buffer = new_buffer();
    cai_array array = array_of(buffer, as_value(producer));
    const cai_stream streams[] = {as_value(producer)};
    begin_capture(producer);
    both_refused(&array, CU_STREAM_LEGACY, 0, CAI_ERR_CAPTURE_PRODUCER, "stream");
    begin_refused(&array, CU_STREAM_LEGACY, CAI_CAPTURE_JOIN, CAI_ERR_CAPTURE_LEGACY, "stream");
    REFUSED(CAI_ERR_CAPTURE_LEGACY, "streams[0]",
            cai_array_produce(&array, streams, 1, legacy, CAI_CAPTURE_JOIN, error));
    capture_alone_is_fine(producer, buffer);
}

/* The flag that a message names must be one that helps in that call. */
static void advice(cai_status status, const cai_error *error, int join, int external) {
    ASSERT(status == CAI_ERR_CAPTURE_PRODUCER || status == CAI_ERR_CAPTURE_CONSUMER);
    ASSERT((strstr(error->message, "CAI_CAPTURE_JOIN") != NULL) == join);
    ASSERT((strstr(error->message, "CAI_UNSTABLE_CAPTURE_EXTERNAL") != NULL) == external);
}

CASE(advice_of_messages) {
    CUstream producer = new_stream(), consumer = new_stream();
    cai_stream mine = as_value(consumer);
    CUdeviceptr buffer = new_buffer();
    cai_array array = array_of(buffer, as_value(producer));
    const uint32_t flags = CAI_ACCESS_READ;
    cai_error error;
    begin_capture(producer);
    advice(cai_array_consume_begin(&array, mine, flags, &error), &error, 1, 0);
    advice(cai_array_consume_end(&array, mine, flags, &error), &error, 0, 1);
    capture_alone_is_fine(producer, buffer);
    begin_capture(consumer);
    advice(cai_array_consume_begin(&array, mine, flags, &error), &error, 0, 1);
    advice(cai_array_consume_end(&array, mine, flags, &error), &error, 0, 0);
    capture_alone_is_fine(consumer, buffer);
}

/* Begin in the capture, end after each launch. */
CASE(end_after_an_external_begin) {
    CUstream producer = new_stream(), consumer = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    cai_array array = array_of(buffer, as_value(producer));
    fill(buffer, 1, producer);
    CUgraphExec executable = capture_external_read(out, &array, consumer);
    for (int i = 0; i < 2; ++i) {
        CU(cuGraphLaunch(executable, consumer));
        OK(cai_array_consume_end(&array, as_value(consumer), CAI_ACCESS_READ, error));
    }
    fill(buffer, 2, producer);
    ASSERT(holds(out, 1, consumer));
}

CASE(broken_capture) {
    CUstream producer = new_stream(), consumer = new_stream();
    cai_array array = array_of(new_buffer(), as_value(producer));
    cai_owner *owner;
    static atomic_int destroyed;
    CUgraph graph;
    begin_capture(producer);
    ASSERT(cuStreamSynchronize(producer) != CUDA_SUCCESS);
    both_refused(&array, consumer, 0, CAI_ERR_CAPTURE_INVALIDATED, "stream");
    REFUSED(CAI_ERR_CAPTURE_INVALIDATED, "stream",
            cai_array_synchronize(&array, CAI_ACCESS_READ, error));
    OK(cai_owner_create(&destroyed, count_destroyed, &owner, error));
    REFUSED(CAI_ERR_CAPTURE_INVALIDATED, "stream",
            cai_owner_release_after(owner, as_value(producer), error));
    ASSERT(atomic_load(&destroyed) == 0);
    cai_owner_release(owner);
    ASSERT(atomic_load(&destroyed) == 1);
    ASSERT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(producer, &graph));
    OK(cai_array_consume_begin(&array, as_value(consumer), CAI_ACCESS_READ, error));
}

CASE(joining_a_capture) {
    /* The consumer is drawn in, and comes back with the end. */
    CUstream producer = new_stream(), consumer = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    cai_array array = array_of(buffer, as_value(producer));
    begin_capture(producer);
    fill(buffer, 1, producer);
    OK(cai_array_consume_begin(&array, as_value(consumer), CAI_ACCESS_READ | CAI_CAPTURE_JOIN,
                               error));
    copy(out, buffer, consumer);
    OK(cai_array_consume_end(&array, as_value(consumer), CAI_ACCESS_READ, error));
    fill(buffer, 2, producer);
    CUgraphExec executable = end_capture(producer);
    CU(cuGraphLaunch(executable, producer));
    ASSERT(holds(out, 1, producer));
    ASSERT(holds(buffer, 2, producer));
}

CASE(waiting_from_inside_a_capture) {
    /* The graph waits for work that was live when it was captured. */
    CUstream producer = new_stream(), consumer = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    cai_array array = array_of(buffer, as_value(producer));
    const cai_stream streams[] = {as_value(producer)};
    fill(buffer, 1, producer);
    CUgraphExec executable = capture_external_read(out, &array, consumer);
    CU(cuGraphLaunch(executable, consumer));
    ASSERT(holds(out, 1, consumer));
    CU(cuGraphExecDestroy(executable));
    /* With an event of the array's own, for which readers wait if only the producer writes. */
    array.flags = CAI_ARRAY_READONLY;
    fill(buffer, 2, producer);
    array.event = new_event();
    OK(cai_array_produce(&array, streams, 1, streams[0], 0, error));
    executable = capture_external_read(out, &array, consumer);
    CU(cuGraphLaunch(executable, consumer));
    ASSERT(holds(out, 2, consumer));
}

CASE(around_a_launch) {
    /* What the refusals recommend. */
    CUstream producer = new_stream(), consumer = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    cai_array array = array_of(buffer, as_value(producer));
    begin_capture(consumer);
    copy(out, buffer, consumer);
    CUgraphExec executable = end_capture(consumer);
    for (int i = 1; i < 4; ++i) {
        fill(buffer, i, producer);
        OK(cai_array_consume_begin(&array, as_value(consumer), CAI_ACCESS_READ, error));
        CU(cuGraphLaunch(executable, consumer));
        OK(cai_array_consume_end(&array, as_value(consumer), CAI_ACCESS_READ, error));
        fill(buffer, -i, producer);
        ASSERT(holds(out, i, consumer));
    }
    CU(cuStreamSynchronize(producer));
}

/* Without a context, a default stream is that of the memory's context or of the current one. */
CASE(capture_in_one_of_two_contexts) {
    static const uint32_t flags[] = {0, CAI_CAPTURE_JOIN, CAI_UNSTABLE_CAPTURE_EXTERNAL};
    const CUstream mine = CU_STREAM_PER_THREAD;
    const CUcontext working = working_context();
    const cai_array array = array_of(new_buffer(), CAI_STREAM_PER_THREAD);
    const cai_array legacy = array_of(new_buffer(), CAI_STREAM_LEGACY);
    CUstream consumer, blocking;
    CUdeviceptr buffer;
    for (int captured = 0; captured < 2; ++captured) {
        CU(cuCtxSetCurrent(captured == 0 ? context[0] : working));
        consumer = new_stream(), blocking = blocking_stream(), buffer = new_buffer();
        begin_capture(mine);
        CU(cuCtxSetCurrent(working));
        for (int i = 0; i < 3; ++i)
            both_refused(&array, consumer, flags[i], CAI_ERR_CAPTURE_PRODUCER, "stream");
        REFUSED(CAI_ERR_CAPTURE_PRODUCER, "stream",
                cai_array_synchronize(&array, CAI_ACCESS_READ, error));
        CU(cuCtxSetCurrent(captured == 0 ? context[0] : working));
        capture_alone_is_fine(mine, buffer);
        begin_capture(blocking);
        CU(cuCtxSetCurrent(working));
        REFUSED(CAI_ERR_CAPTURE_LEGACY, "driver",
                cai_array_consume_begin(&legacy, as_value(consumer), CAI_ACCESS_READ, error));
        capture_alone_is_fine(blocking, buffer);
    }
}

CASE(capture_of_both_contexts) {
    const CUstream mine = CU_STREAM_PER_THREAD;
    const CUcontext working = working_context();
    const CUdeviceptr buffer = new_buffer(), half = buffer + BYTES / 2, out = new_buffer();
    const CUevent joined = new_event();
    const uint32_t reads = CAI_ACCESS_READ | CAI_CAPTURE_JOIN;
    const cai_array array = array_of(buffer, CAI_STREAM_PER_THREAD);
    CU(cuCtxSetCurrent(working));
    if (devices > 1) CU(cuCtxEnablePeerAccess(context[0], 0));
    const CUstream consumer = new_stream();
    const CUevent forked = new_event();
    begin_capture(mine);
    CU(cuEventRecord(forked, mine));
    CU(cuMemsetD32Async(half, 7, N / 2, mine));
    CU(cuCtxSetCurrent(context[0]));
    CU(cuStreamWaitEvent(mine, forked, 0));
    CU(cuMemsetD32Async(buffer, 7, N / 2, mine));
    CU(cuCtxSetCurrent(working));
    OK(cai_array_consume_begin(&array, as_value(consumer), reads, error));
    copy(out, buffer, consumer);
    OK(cai_array_consume_end(&array, as_value(consumer), reads, error));
    CU(cuCtxSetCurrent(context[0]));
    CU(cuMemsetD32Async(buffer, 8, N / 2, mine));
    CU(cuEventRecord(joined, mine));
    CU(cuCtxSetCurrent(working));
    CU(cuStreamWaitEvent(mine, joined, 0));
    CU(cuMemsetD32Async(half, 8, N / 2, mine));
    CUgraphExec executable = end_capture(mine);
    CU(cuGraphLaunch(executable, mine));
    ASSERT(holds(out, 7, mine));
}

CASE(producers_in_a_capture) {
    CUstream one = new_stream(), two = new_stream(), live = new_stream();
    CUdeviceptr buffer = new_buffer();
    cai_array array = array_of(buffer, 0), before = array;
    CUevent fork_point = new_event();
    begin_capture(one);
    CU(cuEventRecord(fork_point, one));
    CU(cuStreamWaitEvent(two, fork_point, 0));
    CU(cuMemsetD32Async(buffer, 1, N / 2, one));
    CU(cuMemsetD32Async(buffer + BYTES / 2, 1, N / 2, two));
    cai_stream streams[] = {as_value(one), as_value(live)};
    REFUSED(CAI_ERR_CAPTURE_STREAMS, "streams[1]",
            cai_array_produce(&array, streams, 2, streams[0], 0, error));
    REFUSED(CAI_ERR_CAPTURE_STREAMS, "streams[0]",
            cai_array_produce(&array, streams, 1, streams[1], 0, error));
    ASSERT(memcmp(&array, &before, sizeof array) == 0);
    streams[1] = as_value(two);
    OK(cai_array_produce(&array, streams, 2, streams[0], 0, error));
    ASSERT(array.stream == streams[0] && array.context == context[0]);
    CU(cuMemsetD32Async(buffer, 2, N, one));
    CUgraphExec executable = end_capture(one);
    CU(cuGraphLaunch(executable, one));
    ASSERT(holds(buffer, 2, one));
}

CASE(graph_keeps_an_owner) {
    CUstream stream = new_stream();
    static atomic_int destroyed;
    CUdeviceptr buffer = new_buffer();
    cai_owner *owner;
    OK(cai_owner_create(&destroyed, count_destroyed, &owner, error));
    begin_capture(stream);
    fill(buffer, 1, stream);
    OK(cai_owner_release_after(owner, as_value(stream), error));
    CUgraphExec executable = end_capture(stream);
    for (int i = 0; i < 3; ++i) {
        CU(cuGraphLaunch(executable, stream));
        CU(cuStreamSynchronize(stream));
    }
    /* Long enough for the reference that waits for the stream alone. */
    for (int i = 0; i < 30; ++i) {
        usleep(1000);
        ASSERT(atomic_load(&destroyed) == 0);
    }
    CU(cuGraphExecDestroy(executable));
    ASSERT(comes_true(is_one, &destroyed));
}

static CUdeviceptr graphs_buffer;

static void free_the_graphs_buffer(void *destroyed) {
    CU(cuCtxSetCurrent(context[0]));
    CU(cuMemFree(graphs_buffer));
    atomic_fetch_add((atomic_int *)destroyed, 1);
}

CASE(graph_keeps_memory) {
    /* The last launch happens before the memory is freed, although nothing waits for it. */
    CUstream stream = new_stream();
    static atomic_int destroyed;
    cai_owner *owner;
    graphs_buffer = new_buffer();
    OK(cai_owner_create(&destroyed, free_the_graphs_buffer, &owner, error));
    begin_capture(stream);
    fill(graphs_buffer, 1, stream);
    OK(cai_owner_release_after(owner, as_value(stream), error));
    CUgraphExec executable = end_capture(stream);
    CU(cuGraphLaunch(executable, stream));
    CU(cuGraphExecDestroy(executable));
    CU(cuStreamSynchronize(new_stream()));
    ASSERT(comes_true(is_one, &destroyed));
}

static void *captures_meanwhile(void *argument) {
    /* A capture that forbids every other thread what could break it. */
    CUgraphExec executable;
    CUdeviceptr buffer = *(CUdeviceptr *)argument;
    CU(cuCtxSetCurrent(context[0]));
    CUstream stream = new_stream();
    for (int i = 0; i < 50; ++i) {
        begin_capture(stream);
        for (int k = 0; k < 10; ++k) {
            CU(cuMemsetD32Async(buffer, (unsigned)i, N, stream));
            usleep(100);
        }
        executable = end_capture(stream);
        CU(cuGraphExecDestroy(executable));
    }
    return NULL;
}

CASE(captures_of_other_threads_survive) {
    CUstream producer = new_stream(), consumer = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer(), other = new_buffer();
    cai_array array = array_of(buffer, as_value(producer)),
              legacy = array_of(buffer, CAI_STREAM_LEGACY);
    static atomic_int destroyed;
    static int released;
    pthread_t thread;
    ASSERT(pthread_create(&thread, NULL, captures_meanwhile, &other) == 0);
    for (int i = 0; i < 50; ++i) {
        cai_owner *owner;
        cai_pointer_info info;
        fill(buffer, i, producer);
        read_into(out, &array, consumer);
        OK(cai_array_consume_begin(&legacy, as_value(consumer), CAI_ACCESS_READ, error));
        OK(cai_owner_create(&destroyed, count_destroyed, &owner, error));
        OK(cai_owner_release_after(owner, as_value(consumer), error));
        ++released;
        OK(cai_array_synchronize(&array, CAI_ACCESS_WRITE, error));
        OK(cai_pointer_info_get(array.data, &info, error));
    }
    ASSERT(pthread_join(thread, NULL) == 0);
    for (int i = 0; i < 10000 && atomic_load(&destroyed) < released; ++i) {
        CU(cuStreamSynchronize(consumer));
        usleep(1000);
    }
    ASSERT(atomic_load(&destroyed) == released);
    ASSERT(holds(out, 49, consumer));
}

int main(int count, char **words) { return run_cases(count, words); }
