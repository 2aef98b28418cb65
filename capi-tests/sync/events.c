/*
 * Rule S6: who waits for the event of an array alone, and who for its stream. A writer that follows
 * the CUDA Array Interface on `stream` alone does not record `event` again, so only a read-only
 * array, which only its producer writes, lets readers wait for the event. With
 * CAI_STREAM_UNKNOWN the event is all that is known.
 * run: sim asan valgrind refuse; gpu
 * run: omit readers_and_writers_of_an_unknown_stream graph_of_a_reader_of_a_read_only_array
 */
#include "capture_test.h"
#include <cai/unstable/json.h>

/* Work on a stream that under a lazy schedule runs only when something waits for it. */
static void count_up(void *data) { ++**(int **)data; }

static void slow(CUstream stream, int *runs) {
    if (cudasim_present())
        CU((CUresult)cudasim_launch(stream, "slow", count_up, &runs, sizeof runs, NULL, 0));
}

static int is_lazy(void) {
    const char *schedule = getenv("CUDASIM_SCHEDULE");
    return cudasim_present() && schedule != NULL && strcmp(schedule, "lazy") == 0;
}

/* `to` waits for what is enqueued on `from`. */
static void wait_for(CUstream to, CUstream from) {
    CUevent event = new_event();
    CU(cuEventRecord(event, from));
    CU(cuStreamWaitEvent(to, event, 0));
}

/* A writer that knows version 3 of the interface, and nothing of this library: it looks at the
 * stream only. */
static void write_as_specified(const cai_array *array, int value, CUstream stream) {
    wait_for(stream, as_stream(array->stream));
    fill((CUdeviceptr)(uintptr_t)array->data, value, stream);
    wait_for(as_stream(array->stream), stream);
}

/* An array with an event, filled with 1. */
static cai_array produced(CUdeviceptr buffer, CUstream producer, uint32_t flags) {
    cai_array array = array_of(buffer, 0);
    const cai_stream streams[1] = {as_value(producer)};
    array.flags = flags;
    array.event = new_event();
    fill(buffer, 1, producer);
    OK(cai_array_produce(&array, streams, 1, streams[0], 0, error));
    return array;
}

/* --- an array that may be written */

CASE(reader_after_a_writer_on_the_stream_alone) {
    CUstream producer = new_stream(), writer = new_stream(), reader = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    const cai_array array = produced(buffer, producer, 0);
    write_as_specified(&array, 2, writer);
    read_into(out, &array, reader);
    ASSERT(holds(out, 2, reader));
}

CASE(host_after_a_writer_on_the_stream_alone) {
    CUstream producer = new_stream(), writer = new_stream();
    CUdeviceptr buffer = new_buffer();
    const cai_array array = produced(buffer, producer, 0);
    int host[1] = {0};
    write_as_specified(&array, 2, writer);
    OK(cai_array_synchronize(&array, CAI_ACCESS_READ, error));
    CU(cuMemcpyDtoH(host, buffer, sizeof host));
    ASSERT(host[0] == 2);
}

CASE(reader_after_a_writer_of_this_library) {
    CUstream producer = new_stream(), writer = new_stream(), reader = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    const cai_array array = produced(buffer, producer, 0);
    write_from(&array, 2, writer);
    read_into(out, &array, reader);
    /* On the producer's own stream too. */
    write_from(&array, 3, producer);
    read_into(out, &array, reader);
    ASSERT(holds(out, 3, reader));
}

CASE(writer_after_readers) {
    CUstream producer = new_stream(), one = new_stream(), two = new_stream(), writer = new_stream();
    CUdeviceptr buffer = new_buffer(), first = new_buffer(), second = new_buffer();
    const cai_array array = produced(buffer, producer, 0);
    read_into(first, &array, one);
    read_into(second, &array, two);
    write_from(&array, 2, writer);
    write_as_specified(&array, 3, writer);
    ASSERT(holds(first, 1, one));
    ASSERT(holds(second, 1, two));
    ASSERT(holds(buffer, 3, producer));
}

CASE(mask_after_a_writer_on_the_stream_alone) {
    CUstream producer = new_stream(), masker = new_stream(), writer = new_stream(),
             reader = new_stream();
    CUdeviceptr buffer = new_buffer(), bits = new_buffer(), out = new_buffer(),
                out_bits = new_buffer();
    cai_array array = produced(buffer, producer, CAI_ARRAY_READONLY);
    const cai_array mask = produced(bits, masker, 0);
    array.mask = &mask;
    write_as_specified(&mask, -1, writer);
    OK(cai_array_consume_begin(&array, as_value(reader), CAI_ACCESS_READ, error));
    copy(out, buffer, reader);
    copy(out_bits, bits, reader);
    OK(cai_array_consume_end(&array, as_value(reader), CAI_ACCESS_READ, error));
    ASSERT(holds(out, 1, reader));
    ASSERT(holds(out_bits, -1, reader));
}

/* --- a read-only array */

CASE(readers_of_a_read_only_array_at_once) {
    CUstream producer = new_stream(), one = new_stream(), two = new_stream();
    CUdeviceptr buffer = new_buffer(), first = new_buffer(), second = new_buffer();
    cai_array array = produced(buffer, producer, CAI_ARRAY_READONLY);
    const cai_stream streams[1] = {as_value(producer)};
    int runs = 0;
    OK(cai_array_consume_begin(&array, as_value(one), CAI_ACCESS_READ, error));
    slow(one, &runs);
    copy(first, buffer, one);
    OK(cai_array_consume_end(&array, as_value(one), CAI_ACCESS_READ, error));
    read_into(second, &array, two);
    /* The second reader is done although the first has not begun. */
    CU(cuStreamSynchronize(two));
    ASSERT(!is_lazy() || runs == 0);
    /* The producer's stream waits for both; the producer records the event again. */
    fill(buffer, 2, producer);
    OK(cai_array_produce(&array, streams, 1, streams[0], 0, error));
    ASSERT(holds(first, 1, one));
    ASSERT(holds(second, 1, two));
    read_into(first, &array, one);
    read_into(second, &array, two);
    ASSERT(holds(first, 2, one));
    ASSERT(holds(second, 2, two));
}

CASE(host_reads_a_read_only_array) {
    CUstream producer = new_stream(), reader = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    const cai_array array = produced(buffer, producer, CAI_ARRAY_READONLY);
    int runs = 0, host[1] = {0};
    OK(cai_array_consume_begin(&array, as_value(reader), CAI_ACCESS_READ, error));
    slow(reader, &runs);
    copy(out, buffer, reader);
    OK(cai_array_consume_end(&array, as_value(reader), CAI_ACCESS_READ, error));
    /* The host waits for the producer's work, and not for the other reader. */
    OK(cai_array_synchronize(&array, CAI_ACCESS_READ, error));
    ASSERT(!is_lazy() || runs == 0);
    if (!is_lazy())
        CU(cuStreamSynchronize(reader)); /* the copy below waits for the legacy stream alone */
    CU(cuMemcpyDtoH(host, buffer, sizeof host));
    ASSERT(host[0] == 1);
    ASSERT(holds(out, 1, reader));
}

/* --- a stream that is not known */

static cai_array unknown(CUdeviceptr buffer, CUstream producer, uint32_t flags) {
    cai_array array = produced(buffer, producer, flags);
    array.stream = CAI_STREAM_UNKNOWN;
    array.stream_id = 0;
    return array;
}

CASE(readers_and_writers_of_an_unknown_stream) {
    CUstream producer = new_stream(), reader = new_stream(), writer = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    const cai_array array = unknown(buffer, producer, 0);
    read_into(out, &array, reader);
    ASSERT(holds(out, 1, reader));
    fill(buffer, 2, producer);
    CU(cuEventRecord(array.event, producer));
    write_from(&array, 3, writer);
    ASSERT(holds(buffer, 3, writer));
}

CASE(host_reads_from_an_unknown_stream) {
    CUstream producer = new_stream();
    CUdeviceptr buffer = new_buffer();
    const cai_array array = unknown(buffer, producer, 0),
                    frozen = unknown(buffer, producer, CAI_ARRAY_READONLY);
    int host[1] = {0};
    OK(cai_array_synchronize(&frozen, CAI_ACCESS_READ, error));
    CU(cuMemcpyDtoH(host, buffer, sizeof host));
    ASSERT(host[0] == 1);
    fill(buffer, 2, producer);
    CU(cuEventRecord(array.event, producer));
    OK(cai_array_synchronize(&array, CAI_ACCESS_READ | CAI_ACCESS_WRITE, error));
    CU(cuMemcpyDtoH(host, buffer, sizeof host));
    ASSERT(host[0] == 2);
}

CASE(conservative_reader_of_an_unknown_stream) {
    /* Others may have written since the event: the caller asks to wait for the whole context. */
    const uint32_t reads = CAI_ACCESS_READ | CAI_SYNC_CONSERVATIVE;
    CUstream producer = new_stream(), writer = new_stream(), reader = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    const cai_array array = unknown(buffer, producer, 0);
    int host[1] = {0};
    write_from(&array, 2, writer);
    OK(cai_array_consume_begin(&array, as_value(reader), reads, error));
    copy(out, buffer, reader);
    OK(cai_array_consume_end(&array, as_value(reader), reads, error));
    ASSERT(holds(out, 2, reader));
    fill(buffer, 3, writer);
    OK(cai_array_synchronize(&array, reads, error));
    CU(cuMemcpyDtoH(host, buffer, sizeof host));
    ASSERT(host[0] == 3);
}

/* --- captures */

CASE(graph_of_a_reader_after_a_writer_on_the_stream_alone) {
    CUstream producer = new_stream(), writer = new_stream(), reader = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    const cai_array array = produced(buffer, producer, 0);
    write_as_specified(&array, 2, writer);
    CUgraphExec executable = capture_external_read(out, &array, reader);
    CU(cuGraphLaunch(executable, reader));
    ASSERT(holds(out, 2, reader));
}

CASE(graph_of_a_reader_of_a_read_only_array) {
    CUstream producer = new_stream(), reader = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    const cai_array array = produced(buffer, producer, CAI_ARRAY_READONLY);
    CUgraphExec executable = capture_external_read(out, &array, reader);
    CU(cuGraphLaunch(executable, reader));
    ASSERT(holds(out, 1, reader));
    /* Each launch waits for the newest record. */
    fill(buffer, 2, producer);
    CU(cuEventRecord(array.event, producer));
    CU(cuGraphLaunch(executable, reader));
    ASSERT(holds(out, 2, reader));
}

CASE(writer_and_reader_in_one_capture) {
    CUstream producer = new_stream(), writer = new_stream(), reader = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    const cai_array array = produced(buffer, producer, 0);
    begin_capture(producer);
    fill(buffer, 2, producer);
    wait_for(writer, producer);
    wait_for(reader, producer);
    write_as_specified(&array, 3, writer);
    read_into(out, &array, reader);
    wait_for(producer, writer);
    wait_for(producer, reader);
    CUgraphExec executable = end_capture(producer);
    CU(cuGraphLaunch(executable, producer));
    ASSERT(holds(out, 3, producer));
}

/* --- JSON, in which a mask has no stream */

CASE(json_of_a_mask_on_another_stream) {
    CUstream streams[2] = {new_stream(), new_stream()};
    CUdeviceptr bits = new_buffer();
    cai_array array = array_of(new_buffer(), as_value(streams[0]));
    cai_array mask = array_of(bits, as_value(streams[1])), inner;
    char text[512];
    array.mask = &mask;
    fill(bits, 1, streams[1]);
    OK(cai_unstable_array_to_json(&array, text, sizeof text, NULL, error));
    ASSERT_CU(CUDA_SUCCESS, cuStreamQuery(streams[1]));
    /* The same without a stream of the array, and deeper. */
    array.stream = CAI_STREAM_NONE;
    inner = mask;
    mask.stream = CAI_STREAM_NONE;
    mask.mask = &inner;
    fill(bits, 2, streams[1]);
    OK(cai_unstable_array_to_json(&array, text, sizeof text, NULL, error));
    ASSERT_CU(CUDA_SUCCESS, cuStreamQuery(streams[1]));
    CU(cuStreamSynchronize(streams[1]));
}

/* The same value, but the default stream of another context: that of the mask's memory. */
CASE(json_of_a_mask_in_another_context) {
    const CUdeviceptr buffer = new_buffer();
    cai_array array = array_of(buffer, CAI_STREAM_LEGACY), mask = array;
    char text[512];
    (void)second_context();
    CUdeviceptr bits = new_buffer();
    CUevent written = new_event();
    mask.data = (void *)(uintptr_t)bits;
    array.mask = &mask;
    fill(bits, 1, CU_STREAM_LEGACY);
    CU(cuEventRecord(written, CU_STREAM_LEGACY));
    CU(cuCtxSetCurrent(context[0]));
    OK(cai_unstable_array_to_json(&array, text, sizeof text, NULL, error));
    ASSERT_CU(CUDA_SUCCESS, cuEventQuery(written));
    /* A mask in the array's context is not waited for: its text has the stream. */
    mask.data = (void *)(uintptr_t)new_buffer();
    fill(buffer, 1, CU_STREAM_LEGACY);
    OK(cai_unstable_array_to_json(&array, text, sizeof text, NULL, error));
    ASSERT(strstr(strstr(text, "\"mask\""), "\"stream\": 1") != NULL);
}

CASE(json_of_a_mask_that_is_captured) {
    CUstream streams[2] = {new_stream(), new_stream()};
    cai_array array = array_of(new_buffer(), as_value(streams[0]));
    cai_array mask = array_of(new_buffer(), as_value(streams[1]));
    CUgraph graph;
    char text[512];
    array.mask = &mask;
    CU(cuStreamBeginCapture(streams[1], CU_STREAM_CAPTURE_MODE_RELAXED));
    REFUSED(CAI_ERR_CAPTURE_HOST, "mask.stream",
            cai_unstable_array_to_json(&array, text, sizeof text, NULL, error));
    CU(cuStreamEndCapture(streams[1], &graph));
}

int main(int count, char **words) { return run_cases(count, words); }
