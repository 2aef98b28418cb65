/*
 * A context is destroyed while arrays of it are exported, imported or waited for. What belonged to
 * it is gone, and what has the same handles afterwards belongs to others: releasing the arrays
 * destroys and frees none of it.
 * run: sim lazy threads; devices 2
 */
#include "channel_test.h"
#include <cai/unstable/arrow.h>
#include <cai/unstable/capture.h>

static CUcontext ended_context;
static CUstream producer;
static CUdeviceptr buffer;
static atomic_int destroyed;

/* An array of a context that will end, on which work was done. */
static cai_array array_to_lose(void) {
    cai_array array;
    ended_context = second_context();
    producer = new_stream();
    buffer = new_buffer();
    array = array_of(buffer, as_value(producer));
    array.device.type = CAI_DEVICE_CUDA;
    OK(cai_owner_create(&destroyed, count_destroyed, &array.owner, error));
    fill(buffer, 1, producer);
    return array;
}

/* --- what gets the handles */

static CUevent events[256];
static CUstream streams[16];
static CUdeviceptr memory[16];

static void end_context(void) {
    CU(cuCtxDestroy(ended_context));
    ended_context = second_context();
    for (size_t i = 0; i < sizeof events / sizeof *events; ++i)
        events[i] = new_event();
    for (size_t i = 0; i < sizeof streams / sizeof *streams; ++i) {
        streams[i] = new_stream();
        memory[i] = new_buffer();
    }
}

static void nothing_was_lost(void) {
    CU(cuCtxSetCurrent(ended_context));
    for (size_t i = 0; i < sizeof events / sizeof *events; ++i) {
        ASSERT_CU(CUDA_SUCCESS, cuEventQuery(events[i]));
    }
    for (size_t i = 0; i < sizeof streams / sizeof *streams; ++i) {
        ASSERT_CU(CUDA_SUCCESS, cuStreamQuery(streams[i]));
        ASSERT(holds(memory[i], 0, streams[i]));
    }
}

/* --- this process alone */

CASE(an_event_for_arrow) {
    cai_array array = array_to_lose();
    struct ArrowDeviceArray values;
    struct ArrowSchema schema;
    CUevent of_the_array;
    int is_reused = 0;
    OK(cai_unstable_array_to_arrow(&array, 0, &values, &schema, error));
    of_the_array = *(CUevent *)values.sync_event;
    CU(cuStreamSynchronize(producer));
    end_context();
    for (size_t i = 0; i < sizeof events / sizeof *events; ++i)
        is_reused |= events[i] == of_the_array;
    ASSERT(is_reused); /* or this tests nothing */
    values.array.release(&values.array);
    schema.release(&schema);
    nothing_was_lost();
    cai_array_release(&array);
    ASSERT(destroyed == 1);
}

CASE(an_event_for_a_batch) {
    cai_array array = array_to_lose();
    const cai_array *const arrays[2] = {&array, &array};
    static const char *const names[2] = {"x", "y"};
    struct ArrowDeviceArray values;
    struct ArrowSchema schema;
    OK(cai_unstable_arrays_to_arrow(arrays, names, 2, 0, &values, &schema, error));
    CU(cuStreamSynchronize(producer));
    end_context();
    values.array.release(&values.array);
    schema.release(&schema);
    nothing_was_lost();
    cai_array_release(&array);
    ASSERT(destroyed == 1);
}

CASE(an_event_for_a_graph) {
    cai_array array = array_to_lose();
    cai_owner *last;
    CUstream consumer;
    CUgraph graph;
    CU(cuCtxSetCurrent(context[0]));
    consumer = new_stream();
    CU(cuStreamBeginCapture(consumer, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cai_array_consume_begin(&array, as_value(consumer),
                               CAI_ACCESS_READ | CAI_UNSTABLE_CAPTURE_EXTERNAL, error));
    CU(cuStreamEndCapture(consumer, &graph));
    CU(cuStreamSynchronize(producer));
    end_context();
    CU(cuCtxSetCurrent(context[0]));
    CU(cuGraphDestroy(graph));
    /* After this one, the library's thread has seen the end of the graph. */
    cai_array_release(&array);
    for (int i = 1; i <= 2; ++i) {
        atomic_store(&destroyed, 0);
        OK(cai_owner_create(&destroyed, count_destroyed, &last, error));
        OK(cai_owner_release_after(last, as_value(consumer), error));
        ASSERT(comes_true(is_one, &destroyed));
    }
    nothing_was_lost();
}

static atomic_int gate;
static void wait_until_open(void *unused) {
    (void)unused;
    while (!atomic_load(&gate))
        usleep(100);
}

static int are_all(void *number) { return atomic_load((atomic_int *)number) == 100; }

/* More of them than the library keeps events of a context. */
CASE(releases_of_many_arrays) {
    cai_array array = array_to_lose();
    CU(cuLaunchHostFunc(producer, wait_until_open, NULL));
    for (int i = 0; i < 99; ++i) {
        cai_owner *owner;
        OK(cai_owner_create(&destroyed, count_destroyed, &owner, error));
        OK(cai_owner_release_after(owner, as_value(producer), error));
    }
    OK(cai_array_release_after(&array, as_value(producer), error));
    ASSERT(atomic_load(&destroyed) == 0);
    atomic_store(&gate, 1);
    end_context();
    ASSERT(comes_true(are_all, &destroyed));
    nothing_was_lost();
}

CASE(an_event_for_another_process) {
    cai_array array = array_to_lose();
    static unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
    cai_owner *kept;
    int fd;
    OK(cai_unstable_ipc_export(&array, 0, bytes, sizeof bytes, NULL, &fd, &kept, error));
    cai_array_release(&array);
    CU(cuStreamSynchronize(producer));
    end_context();
    ASSERT(destroyed == 0);
    cai_owner_release(kept);
    ASSERT(destroyed == 1);
    nothing_was_lost();
}

static void an_exporter_of_a_channel(unsigned with, cai_stream stream) {
    cai_array array = array_to_lose();
    static unsigned char bytes[CAI_UNSTABLE_IPC_SIZE];
    uint64_t made;
    flags = with;
    create(0);
    if (stream != 0) array.stream = stream;
    OK(cai_unstable_channel_export(the_channel, 0, &array, bytes, sizeof bytes, NULL, &made,
                                   error));
    cai_array_release(&array);
    CU(cuCtxSynchronize());
    end_context();
    CU(cuCtxSetCurrent(context[0]));
    (void)cai_unstable_channel_withdraw(the_channel, made, NULL);
    OK(cai_unstable_channel_release(the_channel, error));
    ASSERT(comes_true(is_one, &destroyed));
    nothing_was_lost();
}

CASE(a_channel) { an_exporter_of_a_channel(0, 0); }
CASE(a_channel_on_a_default_stream) { an_exporter_of_a_channel(0, CAI_STREAM_LEGACY); }
CASE(a_channel_with_numbers_on_a_default_stream) {
    an_exporter_of_a_channel(CAI_UNSTABLE_CHANNEL_NUMBERS, CAI_STREAM_LEGACY);
}
CASE(a_channel_with_numbers) { an_exporter_of_a_channel(CAI_UNSTABLE_CHANNEL_NUMBERS, 0); }

/* --- two processes: the importer loses its context */

static void lose_and_release(cai_array *array) {
    CU(cuCtxSynchronize());
    end_context();
    CU(cuCtxSetCurrent(context[0]));
    cai_array_release(array);
    nothing_was_lost();
}

PART(imports) {
    cai_array array;
    ended_context = second_context();
    array = import_from(from);
    lose_and_release(&array);
    tell(from, 'd');
}

CASE(an_import) {
    CUstream stream = new_stream();
    cai_array array = owned(new_buffer(), as_value(stream));
    fill((CUdeviceptr)(uintptr_t)array.data, 1, stream);
    pass_to("imports", &array);
}

PART(imports_through_a_channel) {
    cai_array array;
    flags = getenv("NUMBERS") != NULL ? CAI_UNSTABLE_CHANNEL_NUMBERS : 0;
    create(0);
    ended_context = second_context();
    array = import_array(from);
    tell(from, 'i');
    lose_and_release(&array);
    (void)cai_unstable_channel_release(the_channel, NULL);
    nothing_was_lost();
    tell(from, 'd');
}

static void an_importer_of_a_channel(unsigned with) {
    CUstream stream = new_stream();
    cai_array array = owned(new_buffer(), as_value(stream));
    uint64_t made;
    flags = with;
    if (with != 0) setenv("NUMBERS", "1", 1);
    create(0);
    fill((CUdeviceptr)(uintptr_t)array.data, 1, stream);
    start_peer("imports_through_a_channel");
    made = export_array(&array);
    ASSERT(word_from(peer_socket) == 'i');
    withdraw(made);
    ASSERT(word_from(peer_socket) == 'd');
    wait_until(0);
    ASSERT(freed == 1);
    end_peer();
    end_channel();
}

CASE(an_import_through_a_channel) { an_importer_of_a_channel(0); }
CASE(an_import_through_a_channel_with_numbers) {
    an_importer_of_a_channel(CAI_UNSTABLE_CHANNEL_NUMBERS);
}

int main(int count, char **words) { return ipc_main(count, words); }
