/*
 * Arrow's event: what is pending on an array's stream is an event of the exported structure, and
 * consumers of an imported one wait for the event, which is all that is known. Whether waits are
 * missing is found by the race checker, and by the data.
 * run: sim asan valgrind refuse; gpu
 * run: omit a_consumer_of_arrow_waits_for_the_event a_mask_on_another_stream an_unknown_stream
 * run: omit an_imported_array a_batch_on_two_streams
 */
#include "sync_test.h"
#include <cai/unstable/arrow.h>

static int destroyed;

/* An array of a producer that has just written it. */
static cai_array produced(CUdeviceptr buffer, CUstream stream, int value) {
    cai_array array = array_of(buffer, as_value(stream));
    array.device.type = CAI_DEVICE_CUDA;
    destroyed = 0;
    array.owner = counting_owner(&destroyed);
    fill(buffer, value, stream);
    return array;
}

static CUevent event_of(const struct ArrowDeviceArray *values) {
    ASSERT(values->sync_event != NULL);
    return *(CUevent *)values->sync_event;
}

static struct ArrowDeviceArray exported(const cai_array *array) {
    struct ArrowDeviceArray values;
    OK(cai_unstable_array_to_arrow(array, 0, &values, NULL, error));
    ASSERT(values.device_type == ARROW_DEVICE_CUDA && values.device_id == 0);
    ASSERT(values.array.length == N && values.array.buffers[1] == array->data);
    return values;
}

static void end(cai_array *array, struct ArrowDeviceArray *values) {
    values->array.release(&values->array);
    ASSERT(destroyed == 0);
    cai_array_release(array);
    ASSERT(destroyed == 1);
}

/* A consumer that knows Arrow alone: it waits for the event. */
CASE(a_consumer_of_arrow_waits_for_the_event) {
    CUstream producer = new_stream(), reader = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    cai_array array = produced(buffer, producer, 1);
    struct ArrowDeviceArray values = exported(&array);
    CU(cuStreamWaitEvent(reader, event_of(&values), 0));
    copy(out, buffer, reader);
    ASSERT(holds(out, 1, reader));
    end(&array, &values);
}

/* The same on the default streams of the array's context, from a thread that has another one. */
CASE(default_streams) {
    CUstream reader = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    for (cai_stream stream = CAI_STREAM_LEGACY; stream <= CAI_STREAM_PER_THREAD; ++stream) {
        cai_array array = produced(buffer, as_stream(stream), (int)stream);
        array.context = context[0];
        if (devices > 1) CU(cuCtxSetCurrent(context[1]));
        struct ArrowDeviceArray values = exported(&array);
        CU(cuCtxSetCurrent(context[0]));
        CU(cuStreamWaitEvent(reader, event_of(&values), 0));
        copy(out, buffer, reader);
        ASSERT(holds(out, (int)stream, reader));
        end(&array, &values);
    }
}

/* Without a context, those of the memory's or of the current one: the event is after both. */
CASE(default_streams_in_either_context) {
    const CUcontext working = working_context();
    const CUstream reader = new_stream();
    const CUdeviceptr buffer = new_buffer(), out = new_buffer(), half = buffer + BYTES / 2;
    if (devices > 1) {
        CU(cuCtxSetCurrent(working));
        CU(cuCtxEnablePeerAccess(context[0], 0));
        CU(cuCtxSetCurrent(context[0]));
    }
    for (cai_stream stream = CAI_STREAM_LEGACY; stream <= CAI_STREAM_PER_THREAD; ++stream) {
        cai_array array = produced(buffer, as_stream(stream), (int)stream);
        CU(cuCtxSynchronize());
        CU(cuMemsetD32Async(buffer, 7, N / 2, as_stream(stream)));
        CU(cuCtxSetCurrent(working));
        CU(cuMemsetD32Async(half, 7, N / 2, as_stream(stream)));
        struct ArrowDeviceArray values = exported(&array);
        CU(cuCtxSetCurrent(context[0]));
        CU(cuStreamWaitEvent(reader, event_of(&values), 0));
        copy(out, buffer, reader);
        ASSERT(holds(out, 7, reader));
        end(&array, &values);
    }
}

/* The event lives as long as any part of the structure, and not longer than all of them. */
CASE(the_event_lives_as_long_as_a_child) {
    static const int64_t shape[2] = {N / 4, 4};
    CUstream producer = new_stream();
    CUdeviceptr buffer = new_buffer();
    cai_array array = produced(buffer, producer, 1);
    struct ArrowDeviceArray values;
    array.shape = shape;
    array.ndim = 2;
    OK(cai_unstable_array_to_arrow(&array, 0, &values, NULL, error));
    CUevent event = event_of(&values);
    struct ArrowArray child = *values.array.children[0];
    values.array.children[0]->release = NULL;
    values.array.release(&values.array);
    CU(cuEventSynchronize(event));
    child.release(&child);
    if (cudasim_present()) ASSERT(cuEventQuery(event) != CUDA_SUCCESS);
    cai_array_release(&array);
    ASSERT(destroyed == 1);
}

/* A read-only array has an event of its own, which its producer records. */
CASE(the_event_of_a_read_only_array) {
    CUstream producer = new_stream(), reader = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    cai_array array = produced(buffer, producer, 1);
    CUevent event;
    array.event = new_event();
    CU(cuEventRecord(array.event, producer));
    /* Of one that may be written, others may have written since. */
    struct ArrowDeviceArray values = exported(&array);
    ASSERT(event_of(&values) != array.event);
    values.array.release(&values.array);
    array.flags = CAI_ARRAY_READONLY;
    values = exported(&array);
    ASSERT(event_of(&values) == array.event);
    CU(cuStreamWaitEvent(reader, event_of(&values), 0));
    copy(out, buffer, reader);
    ASSERT(holds(out, 1, reader));
    event = array.event;
    end(&array, &values);
    CU(cuEventQuery(event)); /* not destroyed */
}

CASE(no_pending_work) {
    CUdeviceptr buffer = new_buffer();
    CUstream producer = new_stream();
    static const int64_t none[1] = {0};
    cai_array array = produced(buffer, producer, 1);
    CU(cuStreamSynchronize(producer));
    array.stream = CAI_STREAM_NONE;
    struct ArrowDeviceArray values = exported(&array);
    ASSERT(values.sync_event == NULL);
    values.array.release(&values.array);
    array.stream = as_value(producer);
    array.data = NULL;
    array.shape = none;
    OK(cai_unstable_array_to_arrow(&array, 0, &values, NULL, error));
    ASSERT(values.sync_event == NULL);
    end(&array, &values);
}

/* Of an unknown stream without an event, the host waits for the whole context. */
CASE(an_unknown_stream) {
    CUstream producer = new_stream(), reader = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    cai_array array = produced(buffer, producer, 1);
    array.stream = CAI_STREAM_UNKNOWN;
    array.context = context[0];
    struct ArrowDeviceArray values = exported(&array);
    ASSERT(values.sync_event == NULL);
    copy(out, buffer, reader);
    ASSERT(holds(out, 1, reader));
    end(&array, &values);
}

CASE(a_stream_that_is_captured) {
    CUstream producer = new_stream();
    CUdeviceptr buffer = new_buffer();
    cai_array array = produced(buffer, producer, 1);
    struct ArrowDeviceArray values;
    CUgraph graph;
    CU(cuStreamBeginCapture(producer, CU_STREAM_CAPTURE_MODE_GLOBAL));
    REFUSED(CAI_ERR_CAPTURE_PRODUCER, "stream",
            cai_unstable_array_to_arrow(&array, 0, &values, NULL, error));
    CU(cuStreamEndCapture(producer, &graph));
    values = exported(&array);
    end(&array, &values);
}

/* The mask is written on another stream than the array. */
CASE(a_mask_on_another_stream) {
    CUstream producer = new_stream(), masker = new_stream(), reader = new_stream();
    CUdeviceptr buffer = new_buffer(), bits = new_buffer(), out = new_buffer(),
                out_bits = new_buffer();
    cai_array array = produced(buffer, producer, 1), mask = array_of(bits, as_value(masker));
    memcpy(mask.typestr, "|t1", 4);
    mask.device.type = CAI_DEVICE_CUDA;
    array.mask = &mask;
    fill(bits, -1, masker);
    struct ArrowDeviceArray values = exported(&array);
    ASSERT(values.array.buffers[0] == mask.data && values.array.null_count == -1);
    CU(cuStreamWaitEvent(reader, event_of(&values), 0));
    copy(out, buffer, reader);
    copy(out_bits, bits, reader);
    ASSERT(holds(out, 1, reader) && holds(out_bits, -1, reader));
    end(&array, &values);
}

/* The same default stream, but of another context of the device: that of the mask's memory. */
CASE(a_mask_in_another_context) {
    const CUstream reader = new_stream();
    const CUdeviceptr buffer = new_buffer(), out = new_buffer(), out_bits = new_buffer();
    const CUcontext other = second_context();
    const CUdeviceptr bits = new_buffer();
    static const cai_stream streams[3] = {CAI_STREAM_LEGACY, CAI_STREAM_PER_THREAD,
                                          CAI_STREAM_UNKNOWN};
    for (int i = 0; i < 3; ++i) {
        const cai_stream stream = streams[i];
        const CUstream written = stream == CAI_STREAM_UNKNOWN ? NULL : as_stream(stream);
        cai_array array, mask = array_of(bits, stream);
        CU(cuCtxSetCurrent(other));
        fill(bits, -1, written);
        CU(cuCtxSetCurrent(context[0]));
        array = produced(buffer, written, 1);
        array.stream = stream;
        memcpy(mask.typestr, "|t1", 4);
        mask.device.type = CAI_DEVICE_CUDA;
        array.mask = &mask;
        struct ArrowDeviceArray values = exported(&array);
        if (values.sync_event != NULL) CU(cuStreamWaitEvent(reader, event_of(&values), 0));
        copy(out, buffer, reader);
        CU(cuStreamSynchronize(reader));
        CU(cuMemcpyDtoD(out_bits, bits, BYTES));
        ASSERT(holds(out, 1, reader) && holds(out_bits, -1, reader));
        end(&array, &values);
        CU(cuMemsetD32(bits, 0, N));
        CU(cuCtxSynchronize());
    }
}

/* The way there and back: a consumer of this library waits for the event. */
CASE(an_imported_array) {
    CUstream producer = new_stream(), reader = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    cai_array array = produced(buffer, producer, 1), back = CAI_ARRAY_INIT;
    struct ArrowDeviceArray values;
    struct ArrowSchema schema;
    OK(cai_unstable_array_to_arrow(&array, 0, &values, &schema, error));
    CUevent event = event_of(&values);
    OK(cai_unstable_array_from_arrow(&values, &schema, &back, error));
    schema.release(&schema);
    ASSERT(back.event == event && back.stream == CAI_STREAM_UNKNOWN);
    ASSERT(back.device.type == CAI_DEVICE_CUDA && back.device.id == 0);
    read_into(out, &back, reader);
    ASSERT(holds(out, 1, reader));
    /* Once more: the event is passed on. */
    OK(cai_unstable_array_to_arrow(&back, 0, &values, NULL, error));
    ASSERT(event_of(&values) == event);
    cai_array_release(&back);
    CU(cuEventSynchronize(event));
    end(&array, &values);
}

CASE(an_imported_array_with_nulls) {
    CUstream producer = new_stream(), reader = new_stream();
    CUdeviceptr buffer = new_buffer(), bits = new_buffer(), out = new_buffer();
    cai_array array = produced(buffer, producer, 1), mask = array_of(bits, as_value(producer));
    cai_array back = CAI_ARRAY_INIT;
    struct ArrowDeviceArray values;
    struct ArrowSchema schema;
    memcpy(mask.typestr, "|t1", 4);
    mask.device.type = CAI_DEVICE_CUDA;
    array.mask = &mask;
    fill(bits, -1, producer);
    /* One event is enough for both. */
    OK(cai_unstable_array_to_arrow(&array, 0, &values, &schema, error));
    OK(cai_unstable_array_from_arrow(&values, &schema, &back, error));
    schema.release(&schema);
    ASSERT(back.mask->event == back.event && back.mask->stream == CAI_STREAM_UNKNOWN);
    ASSERT(back.mask->data == mask.data && back.mask->device.type == CAI_DEVICE_CUDA);
    read_into(out, back.mask, reader);
    ASSERT(holds(out, -1, reader));
    cai_array_release(&back);
    cai_array_release(&array);
    ASSERT(destroyed == 1);
}

/* Page-locked and managed memory keep their types, and an unknown device is looked up. */
CASE(kinds_of_memory) {
    static const int types[3] = {ARROW_DEVICE_CUDA, ARROW_DEVICE_CUDA_HOST,
                                 ARROW_DEVICE_CUDA_MANAGED};
    void *host = NULL;
    CUdeviceptr memory[3] = {new_buffer(), 0, 0};
    CU(cuMemAllocHost(&host, BYTES));
    memory[1] = (CUdeviceptr)(uintptr_t)host;
    CU(cuMemAllocManaged(&memory[2], BYTES, CU_MEM_ATTACH_GLOBAL));
    for (int i = 0; i < 3; ++i) {
        for (int is_known = 0; is_known < 2; ++is_known) {
            cai_array array = array_of(memory[i], CAI_STREAM_NONE), back = CAI_ARRAY_INIT;
            struct ArrowDeviceArray values;
            struct ArrowSchema schema;
            destroyed = 0;
            array.owner = counting_owner(&destroyed);
            array.device.type = is_known ? types[i] : CAI_DEVICE_UNKNOWN;
            OK(cai_unstable_array_to_arrow(&array, 0, &values, &schema, error));
            ASSERT(values.device_type == types[i] && values.device_id == 0);
            OK(cai_unstable_array_from_arrow(&values, &schema, &back, error));
            ASSERT(back.device.type == types[i] && back.device.id == 0);
            OK(cai_array_validate(&back, CAI_CHECK_DEVICE, error));
            schema.release(&schema);
            cai_array_release(&back);
            cai_array_release(&array);
            ASSERT(destroyed == 1);
        }
    }
}

/* A batch has the event of its first array with pending work. The host waits for that of arrays,
 * and masks, on another stream. */
CASE(a_batch_on_two_streams) {
    static const char *const names[3] = {"idle", "x", "y"};
    CUstream streams[3] = {new_stream(), new_stream(), new_stream()};
    CUstream masker = new_stream(), reader = new_stream();
    CUdeviceptr bits = new_buffer(), out_bits = new_buffer(), buffers[3], outs[3];
    cai_array arrays[3], columns[3], mask = array_of(bits, as_value(masker));
    const cai_array *places[3];
    cai_array *back[3];
    memcpy(mask.typestr, "|t1", 4);
    mask.device.type = CAI_DEVICE_CUDA;
    for (int i = 0; i < 3; ++i) {
        buffers[i] = new_buffer();
        outs[i] = new_buffer();
        places[i] = &arrays[i];
        back[i] = &columns[i];
    }
    for (int by_arrow = 0; by_arrow < 2; ++by_arrow) {
        struct ArrowDeviceArray batch;
        struct ArrowSchema schema;
        fill(bits, -1 - by_arrow, masker);
        for (int i = 0; i < 3; ++i) {
            arrays[i] = produced(buffers[i], streams[i], i + by_arrow);
            cai_array_init(&columns[i], sizeof columns[i]);
        }
        CU(cuStreamSynchronize(streams[0]));
        arrays[0].stream = CAI_STREAM_NONE;
        arrays[0].mask = &mask;
        OK(cai_unstable_arrays_to_arrow(places, names, 3, 0, &batch, &schema, error));
        ASSERT(batch.device_type == ARROW_DEVICE_CUDA && batch.device_id == 0);
        if (by_arrow) { /* A consumer that knows Arrow alone. */
            CU(cuStreamWaitEvent(reader, event_of(&batch), 0));
            copy(outs[1], buffers[1], reader);
        } else {
            OK(cai_unstable_arrays_from_arrow(&batch, &schema, 3, back, error));
            read_into(outs[1], &columns[1], reader);
        }
        copy(outs[0], buffers[0], reader);
        copy(outs[2], buffers[2], reader);
        copy(out_bits, bits, reader);
        for (int i = 0; i < 3; ++i)
            ASSERT(holds(outs[i], i + by_arrow, reader));
        ASSERT(holds(out_bits, -1 - by_arrow, reader));
        destroyed = 0;
        for (int i = 0; i < 3; ++i)
            cai_array_release(&arrays[i]);
        ASSERT(destroyed == 0);
        schema.release(&schema);
        if (by_arrow) batch.array.release(&batch.array);
        for (int i = 0; i < 3; ++i)
            cai_array_release(&columns[i]);
        ASSERT(destroyed == 3);
    }
}

CASE(a_batch_of_a_stream_that_is_captured) {
    static const char *const names[2] = {"x", "y"};
    CUstream free_stream = new_stream(), captured = new_stream();
    cai_array x = produced(new_buffer(), free_stream, 1), y = produced(new_buffer(), captured, 2);
    for (int first = 0; first < 2; ++first) {
        const cai_array *const places[2] = {first == 0 ? &y : &x, first == 0 ? &x : &y};
        struct ArrowDeviceArray batch;
        CUgraph graph;
        CU(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        /* An event would have to be recorded on it, or the host to wait for it. */
        REFUSED(first == 0 ? CAI_ERR_CAPTURE_PRODUCER : CAI_ERR_CAPTURE_HOST,
                first == 0 ? "columns[0].stream" : "columns[1].stream",
                cai_unstable_arrays_to_arrow(places, names, 2, 0, &batch, NULL, error));
        CU(cuStreamEndCapture(captured, &graph));
        OK(cai_unstable_arrays_to_arrow(places, names, 2, 0, &batch, NULL, error));
        batch.array.release(&batch.array);
    }
    cai_array_release(&x);
    cai_array_release(&y);
    ASSERT(destroyed == 2);
}

int main(int count, char **words) { return run_cases(count, words); }
