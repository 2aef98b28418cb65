/* Arrays of ROCm devices: cases of exchange.c on HIP, and HIP beside CUDA. HIP is hip_on_cuda.c.
 * run: sim asan valgrind refuse
 * run: omit handles two_devices legacy_producer legacy_consumer legacy_of_two_devices
 * run: omit legacy_in_either per_thread_producer legacy_in_either_by_memory per_thread_in_either
 * run: omit event_of_an_unknown_stream both_streams_in_one_capture an_event_for_arrow */
#define ON_HIP
#include "sync_test.h"

#include <cai/unstable/arrow.h>
#include <cai/unstable/arrow.h>
#include <cai/unstable/release.h>

#include <signal.h>

/* The cases of CUDA alone are compiled and not run. */
#undef CASE
#define CASE(case_name) __attribute__((unused)) static void case_name(void)
#include "exchange.c"
#undef CASE
#define CASE(case_name) SHARED_CASE(case_name)

static int current_device(void) {
    int device_number = -1;
    ASSERT(get_device(&device_number) == 0);
    return device_number;
}

static CUcontext current_context(void) {
    CUcontext current;
    CU(cuCtxGetCurrent(&current));
    return current;
}

static cai_array rocm_array(CUdeviceptr buffer, int id, cai_stream stream) {
    cai_array array = array_of(buffer, stream);
    array.device.id = id;
    return array;
}

/* An array that CUDA orders. */
static cai_array cuda_array(CUdeviceptr buffer, cai_stream stream) {
    cai_array array = array_of(buffer, stream);
    array.device.type = CAI_DEVICE_UNKNOWN;
    array.device.id = 0;
    return array;
}

static CUdeviceptr address_of(const cai_array *array) {
    return (CUdeviceptr)(uintptr_t)array->data;
}

static cai_stream stream_on(int id) {
    CU(cuCtxSetCurrent(context[id]));
    return as_value(new_stream());
}

static CUdeviceptr buffer_on(int id) {
    CU(cuCtxSetCurrent(context[id]));
    return new_buffer();
}

CASE(legacy_producer_of_another_device) {
    const int other = devices - 1;
    const CUstream consumer = as_stream(stream_on(0));
    cai_array array = rocm_array(buffer_on(other), other, CAI_STREAM_LEGACY);
    exchange_between(CU_STREAM_LEGACY, consumer, &array, context[other], context[0]);
    array.device.id = -1; /* HIP knows that of the memory */
    exchange_between(CU_STREAM_LEGACY, consumer, &array, context[other], context[0]);
}

CASE(page_locked_memory_of_another_device) {
    const int other = devices - 1;
    const cai_stream consumer = stream_on(0);
    void *host;
    CU(cuCtxSetCurrent(context[other]));
    CU(cuMemAllocHost(&host, BYTES));
    cai_array array = rocm_array((CUdeviceptr)(uintptr_t)host, 0, CAI_STREAM_LEGACY);
    array.device.type = CAI_DEVICE_ROCM_HOST;
    exchange_between(CU_STREAM_LEGACY, as_stream(consumer), &array, context[other], context[0]);
}

CASE(legacy_in_either_by_memory) { in_either(CU_STREAM_LEGACY, 0, -1); }

/* nothing_to_order has the same handle, which needs no call at all. */
CASE(the_same_default_stream) {
    const cai_array array = rocm_array(buffer_on(0), 0, CAI_STREAM_LEGACY);
    OK(cai_array_consume_begin(&array, CAI_STREAM_LEGACY, CAI_ACCESS_READ, error));
    ASSERT(COUNTED(the_shim.count("hipEventRecord") == 0));
}

/* CUDA needs 5: events of HIP are not pooled. */
CASE(number_of_calls) {
    const cai_stream producer = stream_on(0), consumer = stream_on(0);
    const cai_array array = rocm_array(buffer_on(0), 0, producer);
    OK(cai_array_consume_begin(&array, consumer, CAI_ACCESS_READ, error));
    the_shim.reset();
    OK(cai_array_consume_begin(&array, consumer, CAI_ACCESS_READ, error));
    ASSERT(COUNTED(the_shim.count(NULL) == 8 && the_shim.count("hipStreamIsCapturing") == 2));
    ASSERT(COUNTED(the_shim.count("hipEventCreateWithFlags") == 1 &&
                   the_shim.count("hipEventDestroy") == 1 && the_shim.count("hipSetDevice") == 0));
}

CASE(streams_are_joined_and_identified) {
    const int other = devices - 1;
    const cai_stream streams[] = {stream_on(other), stream_on(other), CAI_STREAM_LEGACY};
    const cai_stream reader = stream_on(0);
    CUdeviceptr one = buffer_on(other), out = buffer_on(0);
    cai_array array = rocm_array(one, other, 0);
    use(context[other]);
    fill(one, 5, as_stream(streams[0]));
    OK(cai_array_produce(&array, streams, 3, streams[1], 0, error));
    ASSERT(array.stream == streams[1] && array.stream_id == 0);
    /* The number of the device plus one. */
    ASSERT(array.context == (void *)(uintptr_t)(other + 1));
    use(context[0]);
    read_into(out, &array, as_stream(reader));
    ASSERT(holds(out, 5, as_stream(reader)));
    array.context = NULL;
    OK(cai_unstable_array_identify(&array, error));
    ASSERT(array.context == (void *)(uintptr_t)(other + 1) && array.stream_id == 0);
    array.stream = CAI_STREAM_LEGACY, array.context = NULL;
    OK(cai_unstable_array_identify(&array, error));
    /* That of the memory's device or of the current one. */
    ASSERT(array.context == (void *)(uintptr_t)(other == 0 ? 1 : 0));
    ASSERT(array.stream == CAI_STREAM_LEGACY);
    ASSERT(current_device() == 0);
}

/* Arrow has events instead of streams. */
CASE(an_event_for_arrow) {
    const cai_stream producer = stream_on(devices - 1), consumer = stream_on(0);
    cai_array array = rocm_array(buffer_on(devices - 1), devices - 1, producer);
    const CUdeviceptr out = buffer_on(0);
    struct ArrowDeviceArray values;
    struct ArrowSchema schema;
    OK(cai_owner_create(NULL, NULL, &array.owner, error));
    fill(address_of(&array), 7, as_stream(producer));
    OK(cai_unstable_array_to_arrow(&array, 0, &values, &schema, error));
    ASSERT(values.device_type == ARROW_DEVICE_ROCM && values.device_id == devices - 1);
    CU(cuStreamWaitEvent(as_stream(consumer), *(CUevent *)values.sync_event, 0));
    copy(out, address_of(&array), as_stream(consumer));
    ASSERT(holds(out, 7, as_stream(consumer)));
    values.array.release(&values.array);
    schema.release(&schema);
    cai_array_release(&array);
}

CASE(release_after_work) {
    static atomic_int released;
    const cai_stream stream = stream_on(devices - 1);
    const CUdeviceptr one = buffer_on(devices - 1), two = new_buffer();
    cai_array array = rocm_array(one, devices - 1, stream);
    for (int round = 0; round < 3; ++round) {
        atomic_store(&released, 0);
        if (round == 2) array.device.type = CAI_DEVICE_ROCM, array.stream = CAI_STREAM_LEGACY;
        OK(cai_owner_create(&released, count_destroyed, &array.owner, error));
        fill(one, 1, as_stream(array.stream));
        copy(two, one, as_stream(array.stream));
        use(context[round == 2 ? devices - 1 : 0]);
        {
            cai_array given = array;
            OK(cai_array_release_after(&given, array.stream, error));
            ASSERT(given.owner == NULL);
        }
        use(context[devices - 1]);
        CU(cuStreamSynchronize(as_stream(array.stream)));
        ASSERT(comes_true(is_one, &released));
    }
}

CASE(both_streams_in_one_capture) {
    static atomic_int released;
    const cai_stream producer = stream_on(0), consumer = stream_on(0);
    cai_array array = rocm_array(buffer_on(0), 0, producer);
    const CUdeviceptr out = new_buffer();
    const CUevent fork = new_event();
    CUgraph graph;
    CUgraphExec launchable;
    OK(cai_owner_create(&released, count_destroyed, &array.owner, error));
    CU(cuStreamBeginCapture(as_stream(producer), CU_STREAM_CAPTURE_MODE_GLOBAL));
    CU(cuEventRecord(fork, as_stream(producer)));
    CU(cuStreamWaitEvent(as_stream(consumer), fork, 0));
    fill(address_of(&array), 9, as_stream(producer));
    read_into(out, &array, as_stream(consumer));
    OK(cai_array_release_after(&array, consumer, error));
    CU(cuStreamEndCapture(as_stream(producer), &graph));
    CU(cuGraphInstantiate(&launchable, graph, 0));
    CU(cuGraphLaunch(launchable, as_stream(producer)));
    ASSERT(holds(out, 9, as_stream(producer)));
    ASSERT(atomic_load(&released) == 0);
    CU(cuGraphDestroy(graph));
    CU(cuGraphExecDestroy(launchable));
    ASSERT(comes_true(is_one, &released));
}

CASE(one_stream_in_a_capture_is_refused) {
    const cai_stream producer = stream_on(0), consumer = stream_on(0);
    cai_array array = rocm_array(buffer_on(0), 0, producer);
    CUgraph graph;
    CU(cuStreamBeginCapture(as_stream(consumer), CU_STREAM_CAPTURE_MODE_GLOBAL));
    REFUSED(CAI_ERR_CAPTURE_CONSUMER, "stream",
            cai_array_consume_begin(&array, consumer, CAI_ACCESS_READ, error));
    CU(cuStreamEndCapture(as_stream(consumer), &graph));
}

/* A context of HIP, which is an address, is that of no device. */
CASE(a_context_is_refused) {
    const cai_stream consumer = stream_on(0);
    cai_array array = rocm_array(buffer_on(0), 0, CAI_STREAM_LEGACY);
    array.context = (void *)(uintptr_t)0x7f0000000001;
    REFUSED(CAI_ERR_DRIVER, "driver",
            cai_array_consume_begin(&array, consumer, CAI_ACCESS_READ, error));
}

/* Each array is ordered with its own library, whichever context and device are current. */
CASE(cuda_and_rocm_in_one_process) {
    const int other = devices - 1;
    const cai_stream producer = stream_on(0), consumer = stream_on(0);
    const CUdeviceptr buffer = new_buffer(), out = new_buffer();
    const cai_array of_cuda = cuda_array(buffer, producer);
    const cai_array of_rocm = rocm_array(buffer, 0, producer);
    ASSERT(set_device(other) == 0);
    for (int round = 0; round < 4; ++round) {
        fill(buffer, round, as_stream(producer));
        the_shim.reset();
        read_into(out, round % 2 == 0 ? &of_cuda : &of_rocm, as_stream(consumer));
        ASSERT(COUNTED((the_shim.count(NULL) == 0) == (round % 2 == 0)));
        ASSERT(current_device() == other && current_context() == context[0]);
        ASSERT(holds(out, round, as_stream(consumer)));
    }
}

/* The masks of an array may be of another kind of memory. */
CASE(a_mask_of_the_other_library) {
    const cai_stream producer = stream_on(0), masks = stream_on(0), consumer = stream_on(0);
    const CUdeviceptr out = new_buffer();
    cai_array mask = cuda_array(new_buffer(), masks);
    cai_array array = rocm_array(new_buffer(), 0, producer);
    array.mask = &mask;
    fill(address_of(&array), 1, as_stream(producer));
    fill(address_of(&mask), 2, as_stream(masks));
    OK(cai_array_consume_begin(&array, consumer, CAI_ACCESS_READ, error));
    copy(out, address_of(&array), as_stream(consumer));
    ASSERT(holds(out, 1, as_stream(consumer)));
    copy(out, address_of(&mask), as_stream(consumer));
    ASSERT(holds(out, 2, as_stream(consumer)));
}

CASE(without_cuda) {
    const cai_stream producer = stream_on(0), consumer = stream_on(0);
    static atomic_int released;
    cai_array array = rocm_array(new_buffer(), 0, producer);
    const cai_array other = cuda_array(new_buffer(), producer);
    const CUdeviceptr out = new_buffer();
    setenv("CAI_CUDA_DRIVER", "/nonexistent/libcuda.so.1", 1);
    fill(address_of(&array), 4, as_stream(producer));
    read_into(out, &array, as_stream(consumer));
    ASSERT(holds(out, 4, as_stream(consumer)));
    OK(cai_owner_create(&released, count_destroyed, &array.owner, error));
    OK(cai_array_release_after(&array, producer, error));
    ASSERT(comes_true(is_one, &released));
    REFUSED(CAI_ERR_NO_DRIVER, "driver",
            cai_array_consume_begin(&other, consumer, CAI_ACCESS_READ, error));
}

CASE(without_hip) {
    const cai_stream producer = stream_on(0), consumer = stream_on(0);
    const cai_array array = rocm_array(new_buffer(), 0, producer);
    const cai_array other = cuda_array(new_buffer(), producer);
    cai_error why;
    setenv("CAI_HIP_DRIVER", "/nonexistent/libamdhip64.so", 1);
    ASSERT_STATUS(CAI_ERR_NO_DRIVER,
                  cai_array_consume_begin(&array, consumer, CAI_ACCESS_READ, &why));
    ASSERT(strstr(why.message, "ROCm") != NULL && strstr(why.message, "libamdhip64.so") != NULL);
    ASSERT_STATUS(CAI_OK, cai_array_consume_begin(&other, consumer, CAI_ACCESS_READ, &why));
}

CASE(a_child_of_fork) {
    const cai_stream producer = stream_on(0), consumer = stream_on(0);
    const cai_array array = rocm_array(new_buffer(), 0, producer);
    int status;
    OK(cai_array_consume_begin(&array, consumer, CAI_ACCESS_READ, error));
    pid_t child = fork();
    if (child == 0) {
        /* Killed, so that no tool looks for leaks in a copy of a running process. */
        if (cai_array_consume_begin(&array, consumer, CAI_ACCESS_READ, NULL) == CAI_ERR_FORKED)
            raise(SIGKILL);
        _exit(1);
    }
    ASSERT(child > 0 && waitpid(child, &status, 0) == child);
    ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

int main(int count, char **words) { return run_cases(count, words); }
