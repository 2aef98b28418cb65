/* Many arrays at once: what the data and the race checker say, and how many calls of the driver it
 * takes.
 * run: sim asan valgrind refuse; gpu
 * run: omit streams_of_many default_streams_of_many unknown_streams_of_many
 * run: omit waits_of_the_host
 */
#include "capture_test.h"
#include <cai/unstable/many.h>

enum { MOST = 32 };

/* Arrays that a case exchanges, in its own order, and where their data is read to. */
static cai_array arrays[MOST];
static const cai_array *pointers[MOST];
static CUstream producers[MOST];
static CUcontext contexts[MOST];
static CUdeviceptr copies[MOST];
static size_t used;

/* Adds an array over a new buffer, which a stream of the current context fills. */
static cai_array *add(CUstream producer, cai_stream stated) {
    cai_array *array = &arrays[used];
    CU(cuCtxGetCurrent(&contexts[used]));
    *array = array_of(new_buffer(), stated);
    array->context = contexts[used];
    pointers[used] = array;
    producers[used] = producer;
    used++;
    return array;
}

static CUdeviceptr buffer_of(const cai_array *array) { return (CUdeviceptr)(uintptr_t)array->data; }

static void fill_all(int value) {
    for (size_t i = 0; i < used; ++i) {
        CU(cuCtxSetCurrent(contexts[i]));
        fill(buffer_of(&arrays[i]), value, producers[i]);
    }
    CU(cuCtxSetCurrent(context[0]));
}

/* All producers write, the consumer reads, all producers write again. */
static void exchange_all(CUstream consumer, uint32_t flags) {
    const cai_stream stream = as_value(consumer);
    CU(cuCtxSetCurrent(context[0]));
    for (size_t i = 0; i < used; ++i)
        copies[i] = new_buffer();
    fill_all(1);
    OK(cai_unstable_arrays_consume_begin(pointers, used, stream, flags, error));
    for (size_t i = 0; i < used; ++i)
        copy(copies[i], buffer_of(&arrays[i]), consumer);
    OK(cai_unstable_arrays_consume_end(pointers, used, stream, flags, error));
    fill_all(2);
    for (size_t i = 0; i < used; ++i)
        ASSERT(holds(copies[i], 1, consumer));
}

CASE(streams_of_many) {
    CUstream some[3] = {new_stream(), blocking_stream(), new_stream()}, of_mask = new_stream();
    for (int i = 0; i < 6; ++i)
        add(some[i % 3], as_value(some[i % 3]));
    /* The mask has a stream of its own, and is read as well. */
    arrays[4].mask = add(of_mask, as_value(of_mask));
    pointers[6] = &arrays[4];
    exchange_all(new_stream(), CAI_ACCESS_READ);
}

/* One value, a stream of each context. */
CASE(default_streams_of_many) {
    CUcontext other = second_context();
    for (int i = 0; i < 4; ++i) {
        CU(cuCtxSetCurrent(i % 2 ? other : context[0]));
        add(CU_STREAM_LEGACY, CAI_STREAM_LEGACY);
    }
    exchange_all(new_stream(), CAI_ACCESS_READ);
}

/* The library asks whose memory it is. */
CASE(default_streams_by_memory) {
    CUcontext other = second_context();
    for (int i = 0; i < 4; ++i) {
        CU(cuCtxSetCurrent(i % 2 ? other : context[0]));
        add(CU_STREAM_LEGACY, CAI_STREAM_LEGACY)->context = NULL;
    }
    exchange_all(new_stream(), CAI_ACCESS_READ);
    exchange_all(CU_STREAM_PER_THREAD, CAI_ACCESS_READ);
}

CASE(unknown_streams_of_many) {
    CUstream some[2] = {new_stream(), new_stream()};
    CUstream consumer = new_stream();
    CUevent events[2] = {new_event(), new_event()};
    for (int i = 0; i < 4; ++i) {
        cai_array *array = add(some[i % 2], CAI_STREAM_UNKNOWN);
        array->version = 2;
        array->event = events[i % 2];
        copies[i] = new_buffer();
    }
    fill_all(1);
    CU(cuEventRecord(events[0], some[0]));
    CU(cuEventRecord(events[1], some[1]));
    OK(cai_unstable_arrays_consume_begin(pointers, used, as_value(consumer), CAI_ACCESS_READ,
                                         error));
    for (size_t i = 0; i < used; ++i)
        copy(copies[i], buffer_of(&arrays[i]), consumer);
    for (size_t i = 0; i < used; ++i)
        ASSERT(holds(copies[i], 1, consumer));
}

CASE(contexts_of_unknown_streams) {
    for (int i = 0; i < 4; ++i)
        add(new_stream(), CAI_STREAM_UNKNOWN)->version = 2;
    exchange_all(new_stream(), CAI_ACCESS_READ | CAI_SYNC_CONSERVATIVE);
}

/* Readers of read-only arrays wait for the event, and for each event of a stream. */
CASE(events_of_read_only_arrays) {
    CUstream producer = new_stream(), consumer = new_stream();
    cai_stream stream = as_value(producer);
    for (int i = 0; i < 4; ++i) {
        cai_array *array = add(producer, stream);
        copies[i] = new_buffer();
        fill(buffer_of(array), 1, producer);
        array->event = new_event();
        OK(cai_array_produce(array, &stream, 1, stream, 0, error));
        array->flags = CAI_ARRAY_READONLY;
    }
    the_shim.reset();
    OK(cai_unstable_arrays_consume_begin(pointers, used, as_value(consumer), CAI_ACCESS_READ,
                                         error));
    ASSERT(COUNTED(the_shim.count("cuEventRecord") == 0));
    ASSERT(COUNTED(the_shim.count("cuStreamWaitEvent") == 4));
    for (size_t i = 0; i < used; ++i)
        copy(copies[i], buffer_of(&arrays[i]), consumer);
    for (size_t i = 0; i < used; ++i)
        ASSERT(holds(copies[i], 1, consumer));
}

/* What was forgotten is ordered again. */
CASE(more_streams_than_are_remembered) {
    enum { STREAMS = 12 };
    CUstream some[STREAMS];
    for (int i = 0; i < STREAMS; ++i)
        some[i] = new_stream();
    for (int i = 0; i < 2 * STREAMS; ++i)
        add(some[i % STREAMS], as_value(some[i % STREAMS]));
    exchange_all(new_stream(), CAI_ACCESS_READ);
    exchange_all(new_stream(), CAI_ACCESS_READ | CAI_ACCESS_WRITE);
}

/* A thousand pages of one stream cost as many calls of the driver as one does. */
static void as_many_calls(cai_array *array, cai_stream consumer) {
    enum { PAGES = 1000 };
    static const cai_array *pages[PAGES];
    for (int i = 0; i < PAGES; ++i)
        pages[i] = array;
    for (int with_end = 0; with_end < 2; ++with_end) {
        /* The first exchange makes more calls. */
        OK(cai_array_consume_begin(array, consumer, CAI_ACCESS_READ, error));
        OK(cai_array_consume_end(array, consumer, CAI_ACCESS_READ, error));
        the_shim.reset();
        OK(with_end ? cai_array_consume_end(array, consumer, CAI_ACCESS_READ, error)
                    : cai_array_consume_begin(array, consumer, CAI_ACCESS_READ, error));
        long one = the_shim.count(NULL);
        ASSERT(COUNTED(one > 0));
        the_shim.reset();
        OK(with_end
               ? cai_unstable_arrays_consume_end(pages, PAGES, consumer, CAI_ACCESS_READ, error)
               : cai_unstable_arrays_consume_begin(pages, PAGES, consumer, CAI_ACCESS_READ, error));
        ASSERT(COUNTED(the_shim.count(NULL) == one));
    }
    the_shim.reset();
    OK(cai_unstable_arrays_synchronize(pages, PAGES, CAI_ACCESS_READ, error));
    ASSERT(COUNTED(the_shim.count("cuStreamSynchronize") == 1));
}

CASE(a_thousand_pages) {
    cai_array array = array_of(new_buffer(), as_value(new_stream()));
    cai_stream consumer = as_value(new_stream());
    as_many_calls(&array, consumer);
    as_many_calls(&array, CAI_STREAM_LEGACY);
    array.stream = CAI_STREAM_LEGACY;
    array.context = context[0];
    as_many_calls(&array, consumer);
}

CASE(a_thousand_pages_by_memory) {
    enum { PAGES = 1000 };
    static const cai_array *pages[PAGES];
    cai_array array = array_of(new_buffer(), CAI_STREAM_LEGACY);
    cai_stream consumer = as_value(new_stream());
    for (int i = 0; i < PAGES; ++i)
        pages[i] = &array;
    the_shim.reset();
    OK(cai_unstable_arrays_consume_begin(pages, PAGES, consumer, CAI_ACCESS_READ, error));
    OK(cai_unstable_arrays_consume_end(pages, PAGES, consumer, CAI_ACCESS_READ, error));
    /* Each may be the memory of another context. */
    ASSERT(COUNTED(the_shim.count("cuEventRecord") == 2));
    ASSERT(COUNTED(the_shim.count("cuStreamWaitEvent") == 2));
}

CASE(nothing_to_order) {
    CUstream producer = new_stream(), consumer = new_stream();
    add(producer, CAI_STREAM_NONE);
    add(producer, as_value(consumer));
    add(producer, as_value(producer))->data = NULL;
    the_shim.reset();
    for (int i = 0; i < 2; ++i) {
        OK(cai_unstable_arrays_consume_begin(pointers, i ? used : 0, as_value(consumer),
                                             CAI_ACCESS_READ, error));
        OK(cai_unstable_arrays_consume_end(pointers, i ? used : 0, as_value(consumer),
                                           CAI_ACCESS_READ, error));
    }
    OK(cai_unstable_arrays_consume_begin(NULL, 0, as_value(consumer), CAI_ACCESS_READ, error));
    OK(cai_unstable_arrays_synchronize(NULL, 0, CAI_ACCESS_READ, error));
    ASSERT(the_shim.count(NULL) == 0);
}

CASE(waits_of_the_host) {
    CUstream some[3] = {new_stream(), new_stream(), new_stream()};
    static int host[N];
    for (int i = 0; i < 6; ++i)
        add(some[i % 3], as_value(some[i % 3]));
    fill_all(1);
    OK(cai_unstable_arrays_synchronize(pointers, used, CAI_ACCESS_READ, error));
    for (size_t i = 0; i < used; ++i) {
        CU(cuMemcpyDtoH(host, buffer_of(&arrays[i]), BYTES));
        ASSERT(host[0] == 1 && host[N - 1] == 1);
    }
}

/* --- refused */

CASE(the_first_failure) {
    CUstream producer = new_stream(), consumer = new_stream(), captured = new_stream();
    CUevent joined = new_event();
    const cai_stream c = as_value(consumer);
    CUdeviceptr out = new_buffer();
    for (int i = 0; i < 3; ++i)
        add(producer, as_value(producer));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "arrays",
            cai_unstable_arrays_consume_begin(NULL, 1, c, CAI_ACCESS_READ, error));
    REFUSED(CAI_ERR_ARGUMENT, "flags", cai_unstable_arrays_consume_begin(pointers, 3, c, 0, error));
    REFUSED(CAI_ERR_STREAM_ZERO, "consumer_stream",
            cai_unstable_arrays_consume_end(pointers, 3, 0, CAI_ACCESS_READ, error));
    REFUSED(
        CAI_ERR_ARGUMENT, "flags",
        cai_unstable_arrays_synchronize(pointers, 0, CAI_ACCESS_READ | CAI_CAPTURE_JOIN, error));
    pointers[1] = NULL;
    REFUSED(CAI_ERR_NULL_ARGUMENT, "arrays[1]",
            cai_unstable_arrays_consume_begin(pointers, 3, c, CAI_ACCESS_READ, error));
    pointers[1] = &arrays[1];
    arrays[2].flags = CAI_ARRAY_READONLY;
    REFUSED(CAI_ERR_READONLY, "arrays[2].flags",
            cai_unstable_arrays_consume_begin(pointers, 3, c, CAI_ACCESS_WRITE, error));
    arrays[2].flags = 0;
    arrays[2].mask = &arrays[1];
    arrays[1].stream = 0;
    pointers[1] = &arrays[0];
    REFUSED(CAI_ERR_STREAM_ZERO, "arrays[2].mask.stream",
            cai_unstable_arrays_synchronize(pointers, 3, CAI_ACCESS_READ, error));
    /* The consumer has joined a capture since it waited for the first one. */
    arrays[2].mask = NULL;
    arrays[1].stream = as_value(captured);
    pointers[1] = &arrays[1];
    pointers[2] = &arrays[0];
    begin_capture(captured);
    REFUSED(CAI_ERR_CAPTURE_CONSUMER, "arrays[2].stream",
            cai_unstable_arrays_consume_begin(pointers, 3, c, CAI_ACCESS_READ | CAI_CAPTURE_JOIN,
                                              error));
    CU(cuEventRecord(joined, consumer));
    CU(cuStreamWaitEvent(captured, joined, 0));
    CU(cuGraphExecDestroy(end_capture(captured)));
    arrays[1].stream = 0;
    /* The consumer has written to two arrays. The end fails for the first, and is done for the
     * other one. */
    pointers[0] = &arrays[1];
    pointers[1] = &arrays[2];
    fill(buffer_of(&arrays[2]), 1, producer);
    OK(cai_array_consume_begin(&arrays[2], c, CAI_ACCESS_WRITE, error));
    fill(buffer_of(&arrays[2]), 2, consumer);
    REFUSED(CAI_ERR_STREAM_ZERO, "arrays[0].stream",
            cai_unstable_arrays_consume_end(pointers, 2, c, CAI_ACCESS_WRITE, error));
    copy(out, buffer_of(&arrays[2]), producer);
    ASSERT(holds(out, 2, producer));
}

int main(int count, char **words) { return run_cases(count, words); }
