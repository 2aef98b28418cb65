/* The producer's side, lifetime on streams, and what the driver knows about memory.
 * run: sim asan valgrind refuse; gpu
 * run: omit join_7_9_15_into_3 release_after_work */
#include "sync_test.h"

#include <cai/frameworks.h>
#include <cai/unstable/release.h>

CASE(join_7_9_15_into_3) {
    CUstream s7 = new_stream(), s9 = new_stream(), s15 = new_stream(), s3 = new_stream(),
             consumer = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    cai_array array = array_of(buffer, 0);
    cai_stream streams[5];
    streams[0] = streams[3] = as_value(s7);
    streams[1] = as_value(s9);
    streams[2] = as_value(s15);
    streams[4] = as_value(s3);
    /* Each fills a part. */
    CU(cuMemsetD32Async(buffer, 1, N / 4, s7));
    CU(cuMemsetD32Async(buffer + BYTES / 4, 1, N / 4, s9));
    CU(cuMemsetD32Async(buffer + BYTES / 2, 1, N / 4, s15));
    CU(cuMemsetD32Async(buffer + BYTES * 3 / 4, 1, N / 4, s3));
    the_shim.reset();
    OK(cai_array_produce(&array, streams, 5, as_value(s3), 0, error));
    /* A stream that is named twice, and the exported one, need no event. */
    ASSERT(
        COUNTED(the_shim.count("cuEventRecord") == 3 && the_shim.count("cuStreamWaitEvent") == 3));
    ASSERT(array.stream == as_value(s3) && array.stream_id != 0 && array.context == context[0]);
    ASSERT_STATUS(CAI_OK, cai_array_validate(&array, CAI_CHECK_STREAM | CAI_CHECK_DEVICE, NULL));
    read_into(out, &array, consumer);
    fill(buffer, 2, s3);
    ASSERT(holds(out, 1, consumer));
    ASSERT(holds(buffer, 2, s3));
}

CASE(join_default_streams) {
    CUstream side = new_stream(), consumer = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    cai_array array = array_of(buffer, 0);
    cai_stream streams[3] = {CAI_STREAM_LEGACY, CAI_STREAM_PER_THREAD, 0};
    streams[2] = as_value(side);
    CU(cuMemsetD32Async(buffer, 1, N / 2, side));
    CU(cuMemsetD32Async(buffer + BYTES / 2, 1, N / 2, CU_STREAM_PER_THREAD));
    OK(cai_array_produce(&array, streams, 3, CAI_STREAM_LEGACY, 0, error));
    ASSERT(array.stream == CAI_STREAM_LEGACY && array.context == context[0] &&
           array.stream_id != 0);
    read_into(out, &array, consumer);
    ASSERT(holds(out, 1, consumer));
}

CASE(join_across_devices) {
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    cai_array array = array_of(buffer, 0);
    CU(cuCtxSetCurrent(context[devices - 1]));
    CUstream there = new_stream();
    CU(cuCtxSetCurrent(context[0]));
    CUstream here = new_stream();
    CUstream consumer = new_stream();
    const cai_stream streams[] = {as_value(there), as_value(here)};
    CU(cuMemsetD32Async(buffer, 5, N / 2, here));
    CU(cuCtxSetCurrent(context[devices - 1]));
    CU(cuMemsetD32Async(buffer + BYTES / 2, 5, N / 2, there));
    CU(cuCtxSetCurrent(context[0]));
    OK(cai_array_produce(&array, streams, 2, as_value(here), 0, error));
    read_into(out, &array, consumer);
    ASSERT(holds(out, 5, consumer));
}

CASE(nothing_pending) {
    cai_array array = array_of(new_buffer(), 0);
    the_shim.reset();
    array.event = (void *)1;
    OK(cai_array_produce(&array, NULL, 0, CAI_STREAM_NONE, 0, error));
    ASSERT(array.stream == CAI_STREAM_NONE && array.stream_id == 0 && array.event == NULL);
    ASSERT(the_shim.count(NULL) == 0);
    ASSERT_STATUS(CAI_OK, cai_array_validate(&array, CAI_CHECK_STREAM, NULL));
}

#define PRODUCE(...) cai_array_produce(&array, __VA_ARGS__, error)
CASE(refused) {
    CUstream stream = new_stream();
    cai_array array = array_of(new_buffer(), 0), before = array;
    cai_stream streams[] = {as_value(stream), 0};
    ASSERT_STATUS(CAI_ERR_NULL_ARGUMENT, cai_array_produce(NULL, streams, 1, streams[0], 0, NULL));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "streams", PRODUCE(NULL, 1, streams[0], 0));
    REFUSED(CAI_ERR_STREAM_ZERO, "streams[1]", PRODUCE(streams, 2, streams[0], 0));
    REFUSED(CAI_ERR_STREAM_ZERO, "export_stream", PRODUCE(streams, 1, 0, 0));
    REFUSED(CAI_ERR_STREAM_ZERO, "export_stream", PRODUCE(NULL, 0, 0, 0));
    REFUSED(CAI_ERR_ARGUMENT, "export_stream", PRODUCE(streams, 1, CAI_STREAM_NONE, 0));
    REFUSED(CAI_ERR_ARGUMENT, "flags", PRODUCE(streams, 1, streams[0], CAI_SYNC_IGNORE));
    REFUSED(CAI_ERR_NEWER_CALLER, "flags", PRODUCE(streams, 1, streams[0], 0x40000000u));
    streams[1] = CAI_STREAM_UNKNOWN;
    REFUSED(CAI_ERR_ARGUMENT, "streams[1]", PRODUCE(streams, 2, streams[0], 0));
    array.version = before.version = 2;
    REFUSED(CAI_ERR_VERSION, "version", PRODUCE(streams, 1, streams[0], 0));
    array.struct_size = before.struct_size = 3;
    REFUSED(CAI_ERR_STRUCT_SIZE, "struct_size", PRODUCE(streams, 1, streams[0], 0));
    ASSERT(memcmp(&array, &before, sizeof array) == 0);
}

/* --- identities of arrays that a program fills itself */

static void *cannot_use(void *argument) {
    CU(cuCtxSetCurrent(context[0]));
    REFUSED(CAI_ERR_STREAM_THREAD, "stream",
            cai_array_consume_begin(argument, CAI_STREAM_LEGACY, CAI_ACCESS_READ, error));
    return NULL;
}

CASE(identity_of_default_streams) {
    cai_array array = array_of(new_buffer(), CAI_STREAM_PER_THREAD), before;
    OK(cai_unstable_array_identify(&array, error));
    ASSERT(array.stream_id != 0 && array.context == context[0]);
    OK(cai_array_consume_begin(&array, CAI_STREAM_LEGACY, CAI_ACCESS_READ, error));
    in_thread(cannot_use, &array);
    /* The memory's context or the current one; and again, which changes nothing. */
    array.stream = CAI_STREAM_LEGACY;
    array.stream_id = 0;
    array.context = NULL;
    CU(cuCtxSetCurrent(context[devices - 1]));
    OK(cai_unstable_array_identify(&array, error));
    ASSERT(array.stream_id != 0 && array.context == (devices > 1 ? NULL : context[0]));
    before = array;
    the_shim.reset();
    OK(cai_unstable_array_identify(&array, error));
    ASSERT(the_shim.count(NULL) == 0 && memcmp(&array, &before, sizeof array) == 0);
}

CASE(identity_of_handles) {
    CUstream producer = new_stream(), consumer = new_stream();
    CUcontext other = second_context();
    CUstream elsewhere = new_stream();
    CU(cuCtxSetCurrent(context[0]));
    cai_array array = array_of(new_buffer(), as_value(elsewhere));
    OK(cai_unstable_array_identify(&array, error));
    ASSERT(array.context == other);
    array.stream = as_value(producer);
    array.stream_id = 0;
    array.context = NULL;
    cai_array named = array;
    CU(cuStreamBeginCapture(producer, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cai_unstable_array_identify(&named, error));
    CU(cuStreamEndCapture(producer, &(CUgraph){NULL}));
    OK(cai_unstable_array_identify(&array, error));
    ASSERT(array.stream_id != 0 && array.context == context[0]);
    ASSERT(named.stream_id == array.stream_id && named.context == array.context);
    OK(cai_array_consume_begin(&array, as_value(consumer), CAI_ACCESS_READ, error));
    CU(cuStreamDestroy(producer));
    if (new_stream() != producer) return; /* a driver that takes its time with handles */
    REFUSED(CAI_ERR_STREAM_STALE, "stream",
            cai_array_consume_begin(&array, as_value(consumer), CAI_ACCESS_READ, error));
}

CASE(no_identity) {
    cai_array array = array_of(new_buffer(), CAI_STREAM_NONE), before = array;
    the_shim.reset();
    OK(cai_unstable_array_identify(&array, error));
    array.stream = before.stream = CAI_STREAM_UNKNOWN;
    OK(cai_unstable_array_identify(&array, error));
    array.stream = before.stream = CAI_STREAM_LEGACY;
    array.data = before.data = NULL;
    OK(cai_unstable_array_identify(&array, error));
    ASSERT(the_shim.count(NULL) == 0);
    array = before = array_of(new_buffer(), 0);
    REFUSED(CAI_ERR_STREAM_ZERO, "stream", cai_unstable_array_identify(&array, error));
    array.stream = before.stream = CAI_STREAM_LEGACY;
    array.version = before.version = 2;
    REFUSED(CAI_ERR_STREAM_VERSION, "stream", cai_unstable_array_identify(&array, error));
    array.version = before.version = 3;
    array.device.type = before.device.type = CAI_DEVICE_ONEAPI;
    REFUSED(CAI_ERR_STREAM_DEVICE, "device.type", cai_unstable_array_identify(&array, error));
    ASSERT(memcmp(&array, &before, sizeof array) == 0);
    array.struct_size = 5;
    REFUSED(CAI_ERR_STRUCT_SIZE, "struct_size", cai_unstable_array_identify(&array, error));
}

/* --- what the owner keeps */

static int order_of_destruction[2], destroyed_so_far;
static void destroy_first(void *unused) {
    (void)unused, order_of_destruction[0] = ++destroyed_so_far;
}
static void destroy_stream(void *stream) {
    order_of_destruction[1] = ++destroyed_so_far;
    CU(cuStreamSynchronize(stream));
    CU(cuStreamDestroy(stream));
}

CASE(array_keeps_its_stream) {
    CUstream stream = new_stream();
    cai_array array = array_of(new_buffer(), as_value(stream)), copy;
    REFUSED(CAI_ERR_BORROWED, "owner", cai_array_attach(&array, stream, destroy_stream, error));
    ASSERT_STATUS(CAI_ERR_NULL_ARGUMENT, cai_array_attach(NULL, stream, destroy_stream, NULL));
    OK(cai_owner_create(NULL, destroy_first, &array.owner, error));
    OK(cai_array_attach(&array, stream, destroy_stream, error));
    copy = array;
    OK(cai_array_retain(&copy, error));
    cai_array_release(&array);
    ASSERT(destroyed_so_far == 0);
    cai_array_release(&copy);
    /* The data first: its memory may be freed in the order of the stream. */
    ASSERT(order_of_destruction[0] == 1 && order_of_destruction[1] == 2);
}

/* --- release after */

typedef struct held {
    CUdeviceptr buffer;
    atomic_int destroyed;
} held;

static void free_held(void *argument) {
    held *it = argument;
    CU(cuCtxSetCurrent(context[0]));
    CU(cuMemFree(it->buffer));
    atomic_fetch_add(&it->destroyed, 1);
}

static cai_array held_array(held *it, cai_stream stream) {
    it->buffer = new_buffer();
    atomic_store(&it->destroyed, 0);
    cai_array array = array_of(it->buffer, stream);
    OK(cai_owner_create(it, free_held, &array.owner, error));
    return array;
}

CASE(release_after_work) {
    CUstream consumer = new_stream();
    CUdeviceptr out = new_buffer();
    for (int i = 0; i < 3; ++i) {
        held it;
        cai_array array = held_array(&it, CAI_STREAM_NONE);
        fill(it.buffer, 9, consumer);
        copy(out, it.buffer, consumer);
        OK(cai_owner_release_after(array.owner, as_value(consumer), error));
        ASSERT(comes_true(is_one, &it.destroyed));
        ASSERT(holds(out, 9, consumer));
    }
}

CASE(release_of_an_array_after_work) {
    CUstream consumer = new_stream();
    CUdeviceptr out = new_buffer();
    held it;
    cai_array array = held_array(&it, CAI_STREAM_NONE), kept = array,
              borrowed = array_of(out, CAI_STREAM_NONE);
    OK(cai_array_retain(&kept, error));
    fill(it.buffer, 9, CU_STREAM_PER_THREAD);
    OK(cai_array_release_after(&kept, CAI_STREAM_PER_THREAD, error));
    ASSERT(kept.owner == NULL && kept.data == NULL);
    copy(out, it.buffer, CU_STREAM_PER_THREAD);
    OK(cai_array_release_after(&array, CAI_STREAM_PER_THREAD, error));
    ASSERT(array.owner == NULL && array.struct_size == sizeof array);
    OK(cai_array_release_after(&array, as_value(consumer), error));
    ASSERT(comes_true(is_one, &it.destroyed));
    ASSERT(holds(out, 9, CU_STREAM_PER_THREAD));
    OK(cai_array_release_after(&borrowed, as_value(consumer), error));
    ASSERT(borrowed.data == NULL);
}

CASE(release_after_without_work) {
    held it;
    cai_array array = held_array(&it, CAI_STREAM_NONE);
    REFUSED(CAI_ERR_STREAM_ZERO, "stream", cai_owner_release_after(array.owner, 0, error));
    REFUSED(CAI_ERR_ARGUMENT, "stream",
            cai_owner_release_after(array.owner, CAI_STREAM_UNKNOWN, error));
    ASSERT_STATUS(CAI_ERR_NULL_ARGUMENT, cai_owner_release_after(NULL, 1, NULL));
    ASSERT(atomic_load(&it.destroyed) == 0);
    the_shim.reset();
    OK(cai_owner_release_after(array.owner, CAI_STREAM_NONE, error));
    ASSERT(atomic_load(&it.destroyed) == 1 && the_shim.count(NULL) == 0);
}

static atomic_int gate;

static void wait_until_open(void *unused) {
    (void)unused;
    while (!atomic_load(&gate))
        usleep(100);
}

/* Work that goes on until the gate is open. */
static void held_at_gate(CUstream stream) {
    atomic_store(&gate, 0);
    CU(cuLaunchHostFunc(stream, wait_until_open, NULL));
}

/* What was released stays until that work is done. */
static void stays_until_open(held *it) {
    usleep(20000);
    ASSERT(atomic_load(&it->destroyed) == 0);
    atomic_store(&gate, 1);
    ASSERT(comes_true(is_one, &it->destroyed));
}

static void *release_in_order(void *array) {
    CUcontext none;
    CU(cuCtxGetCurrent(&none));
    ASSERT(none == NULL);
    cai_unstable_array_release_in_order(array);
    return NULL;
}

CASE(release_in_order_on_a_thread_without_a_context) {
    CUstream streams[3] = {new_stream(), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
    for (int i = 0; i < 3; ++i) {
        held it;
        cai_array array = held_array(&it, as_value(streams[i]));
        OK(cai_unstable_array_identify(&array, error));
        if (i == 1) array.context = NULL; /* found by the memory */
        held_at_gate(streams[i]);
        in_thread(release_in_order, &array);
        ASSERT(array.owner == NULL && array.data == NULL && array.struct_size == sizeof array);
        stays_until_open(&it);
    }
}

CASE(release_in_order_with_another_context) {
    held it;
    cai_array array = held_array(&it, CAI_STREAM_LEGACY);
    held_at_gate(CU_STREAM_LEGACY);
    CU(cuCtxSetCurrent(context[devices - 1]));
    cai_unstable_array_release_in_order(&array);
    stays_until_open(&it);
}

/* Its work goes on. The legacy default stream does not wait for it. */
CASE(release_in_order_of_a_destroyed_stream) {
    for (int i = 0; i < 2; ++i) {
        const CUstream stream = i == 0 ? new_stream() : blocking_stream();
        held it;
        cai_array array = held_array(&it, as_value(stream));
        held_at_gate(stream);
        CU(cuStreamDestroy(stream));
        cai_unstable_array_release_in_order(&array);
        stays_until_open(&it);
    }
}

/* A framework's tensor is released by any thread, whose current context may be another one. */
CASE(tensor_on_a_default_stream_of_the_current_context) {
    const CUstream streams[] = {CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
    for (int i = 0; i < 2; ++i) {
        held it;
        cai_array array = held_array(&it, CAI_STREAM_NONE), *kept = NULL;
        const cai_device location = array.device;
        CU(cuCtxSetCurrent(working_context()));
        OK(cai_private_keep(&array, location, &kept, error));
        OK(cai_private_begin(&array, as_value(streams[i]), CAI_ACCESS_READ, kept, error));
        held_at_gate(streams[i]);
        CU(cuCtxSetCurrent(context[0]));
        cai_private_release_kept(kept);
        cai_array_release(&array);
        stays_until_open(&it);
    }
}

CASE(release_in_order_after_the_context) {
    CUcontext own;
    atomic_int destroyed = 0;
    CU(cuCtxCreate(&own, NULL, 0, device[0]));
    CUstream stream = new_stream();
    cai_array array = array_of(new_buffer(), as_value(stream));
    OK(cai_owner_create(&destroyed, count_destroyed, &array.owner, error));
    OK(cai_unstable_array_identify(&array, error));
    CU(cuCtxDestroy(own));
    cai_unstable_array_release_in_order(&array);
    ASSERT(comes_true(is_one, &destroyed));
    CU(cuCtxSetCurrent(context[0]));
}

CASE(release_in_order_without_work) {
    held it;
    cai_array array = held_array(&it, CAI_STREAM_NONE), borrowed = array_of(it.buffer, 1);
    the_shim.reset();
    cai_unstable_array_release_in_order(NULL);
    cai_unstable_array_release_in_order(&borrowed);
    ASSERT(borrowed.data == NULL);
    array.struct_size = 7;
    cai_unstable_array_release_in_order(&array);
    ASSERT(atomic_load(&it.destroyed) == 0 && array.owner != NULL);
    array.struct_size = sizeof array;
    cai_unstable_array_release_in_order(&array);
    ASSERT(atomic_load(&it.destroyed) == 1 && the_shim.count(NULL) == 0);
    array = held_array(&it, CAI_STREAM_LEGACY);
    array.data = NULL;
    the_shim.reset();
    cai_unstable_array_release_in_order(&array);
    ASSERT(atomic_load(&it.destroyed) == 1 && the_shim.count("cuEventRecord") == 0);
}

static int all_gone(void *argument) {
    held *all = argument;
    for (int i = 0; i < 64; ++i) {
        if (atomic_load(&all[i].destroyed) != 1) return 0;
    }
    return 1;
}

CASE(release_after_many) {
    CUstream streams[4];
    static held all[64];
    for (int i = 0; i < 4; ++i) {
        CU(cuCtxSetCurrent(context[i % devices]));
        streams[i] = new_stream();
    }
    for (int i = 0; i < 64; ++i) {
        CU(cuCtxSetCurrent(context[0]));
        cai_array array = held_array(&all[i], CAI_STREAM_NONE);
        CU(cuCtxSetCurrent(context[i % 4 % devices]));
        fill(all[i].buffer, i, streams[i % 4]);
        OK(cai_owner_release_after(array.owner, as_value(streams[i % 4]), error));
    }
    ASSERT(comes_true(all_gone, all));
}

CASE(release_after_a_context_is_gone) {
    static atomic_int destroyed;
    cai_owner *owner;
    CUcontext other = second_context();
    CUstream stream = new_stream();
    OK(cai_owner_create(&destroyed, count_destroyed, &owner, error));
    OK(cai_owner_release_after(owner, as_value(stream), error));
    CU(cuCtxDestroy(other));
    ASSERT(comes_true(is_one, &destroyed));
}

static void fails(void *unused) {
    (void)unused;
    cudasim_fail_kernel(CUDA_ERROR_LAUNCH_FAILED);
}

CASE(release_after_the_device_is_lost) {
    /* A kernel fails, and nothing after it runs any more. */
    CUstream stream = new_stream();
    static atomic_int destroyed;
    cai_owner *owner;
    if (!cudasim_present()) return;
    OK(cai_owner_create(&destroyed, count_destroyed, &owner, error));
    CU((CUresult)cudasim_launch(stream, "fails", fails, NULL, 0, NULL, 0));
    cai_status status = cai_owner_release_after(owner, as_value(stream), NULL);
    if (status != CAI_OK) {
        /* Known already: the reference is still the caller's. */
        ASSERT_STATUS(CAI_ERR_DEVICE_LOST, status);
        ASSERT(atomic_load(&destroyed) == 0);
        cai_owner_release(owner);
    }
    ASSERT(cuStreamSynchronize(stream) == CUDA_ERROR_LAUNCH_FAILED);
    ASSERT(comes_true(is_one, &destroyed));
    {
        cai_array array = array_of(1, as_value(stream));
        REFUSED(CAI_ERR_DEVICE_LOST, "driver",
                cai_array_consume_begin(&array, 1, CAI_ACCESS_READ, error));
    }
}

/* Runs on the library's thread, maybe when the driver of the ending process has shut down. */
static void free_at_exit(void *argument) {
    held *it = argument;
    CUresult result = cuCtxSetCurrent(context[0]);
    if (result == CUDA_SUCCESS) result = cuMemFree(it->buffer);
    if (result != CUDA_ERROR_DEINITIALIZED) CU(result);
}

CASE(still_pending_at_exit) {
    /* Nothing to see here but that the process ends well. */
    CUstream stream = new_stream();
    static held it;
    cai_array array = array_of(it.buffer = new_buffer(), CAI_STREAM_NONE);
    OK(cai_owner_create(&it, free_at_exit, &array.owner, error));
    for (int i = 0; i < 200; ++i)
        fill(it.buffer, i, stream);
    OK(cai_owner_release_after(array.owner, as_value(stream), error));
}

/* --- memory */

CASE(pointer_attributes) {
    CUdeviceptr buffer = new_buffer(), pool, managed;
    cai_pointer_info info;
    void *host;
    int local = 0;
    OK(cai_pointer_info_get((void *)(uintptr_t)(buffer + 8), &info, error));
    ASSERT(info.device.type == CAI_DEVICE_CUDA && info.device.id == 0 &&
           info.context == context[0]);
    ASSERT(info.base == (void *)(uintptr_t)buffer && info.size == BYTES && info.buffer_id != 0);
    ASSERT(info.device_pointer == (void *)(uintptr_t)(buffer + 8) && info.host_pointer == NULL);
    ASSERT(!info.host_accessible && !info.managed && info.mapped && info.pool == NULL);

    CU(cuMemAllocHost(&host, 256));
    OK(cai_pointer_info_get((char *)host + 4, &info, error));
    ASSERT(info.device.type == CAI_DEVICE_CUDA_HOST && info.host_accessible && !info.managed);
    ASSERT(info.host_pointer == (char *)host + 4 && info.context == context[0]);

    CU(cuMemAllocManaged(&managed, 256, CU_MEM_ATTACH_GLOBAL));
    OK(cai_pointer_info_get((void *)(uintptr_t)managed, &info, error));
    ASSERT(info.device.type == CAI_DEVICE_CUDA_MANAGED && info.host_accessible && info.managed);

    CU(cuMemAllocAsync(&pool, 256, CU_STREAM_LEGACY));
    CU(cuCtxSynchronize());
    OK(cai_pointer_info_get((void *)(uintptr_t)pool, &info, error));
    ASSERT(info.device.type == CAI_DEVICE_CUDA && info.context == NULL && info.pool != NULL);
    ASSERT(info.base == (void *)(uintptr_t)pool && info.size >= 256);

    OK(cai_pointer_info_get(&local, &info, error));
    ASSERT(info.device.type == CAI_DEVICE_CPU && info.host_accessible &&
           info.host_pointer == &local);
    ASSERT(info.base == NULL && info.size == 0 && info.buffer_id == 0 &&
           info.device_pointer == NULL);

    REFUSED(CAI_ERR_NULL_ARGUMENT, "pointer", cai_pointer_info_get(NULL, &info, error));
    REFUSED(CAI_ERR_NULL_ARGUMENT, "out", cai_pointer_info_get(&local, NULL, error));

    CU(cuCtxSetCurrent(NULL));
    OK(cai_pointer_info_get((void *)(uintptr_t)buffer, &info, error));
    ASSERT(info.base == (void *)(uintptr_t)buffer && info.context == context[0]);
}

CASE(device_pointer_of_registered_memory) {
    static char memory[8192] __attribute__((aligned(4096)));
    CUdeviceptr expected;
    cai_pointer_info info;
    CU(cuMemHostRegister(memory, sizeof memory, CU_MEMHOSTREGISTER_DEVICEMAP));
    CU(cuMemHostGetDevicePointer(&expected, memory, 0));
    OK(cai_pointer_info_get(memory + 16, &info, error));
    ASSERT(info.device_pointer == (void *)(uintptr_t)(expected + 16));
}

/* So many bytes behind where it was. */
static void shift(cai_array *array, ptrdiff_t by) { array->data = (char *)array->data + by; }

CASE(checks_of_memory) {
    static const int64_t dense[1] = {4}, gaps[1] = {8}, backwards[1] = {-4}, half[1] = {N / 2};
    static int host[N];
    cai_array good = array_of(new_buffer(), CAI_STREAM_NONE), mask;
    good.device.type = CAI_DEVICE_CUDA;
    mask = good;
    shift(&mask, 4);
#define CHECK cai_array_validate(&array, CAI_CHECK_DEVICE, error)
#define CHECKED(change)         \
    do {                        \
        cai_array array = good; \
        test_row = #change;     \
        (void)(change);         \
        OK(CHECK);              \
        test_row = NULL;        \
    } while (0)
    /* Every byte that it can touch has to be there. */
    CHECKED(array.strides = dense);
    REFUSED_ARRAY(shift(&array, 4), CAI_ERR_OUT_OF_ALLOCATION, "data", CHECK);
    REFUSED_ARRAY(array.strides = gaps, CAI_ERR_OUT_OF_ALLOCATION, "data", CHECK);
    CHECKED((array.strides = gaps, array.shape = half));
    REFUSED_ARRAY((array.strides = backwards, array.shape = half), CAI_ERR_OUT_OF_ALLOCATION,
                  "data", CHECK);
    CHECKED((array.strides = backwards, array.shape = half, shift(&array, (N / 2 - 1) * 4)));
    REFUSED_ARRAY((array.strides = backwards, array.shape = half, shift(&array, (N / 2 - 2) * 4)),
                  CAI_ERR_OUT_OF_ALLOCATION, "data", CHECK);
    /* The right device and kind. */
    REFUSED_ARRAY(array.device.id = 1, CAI_ERR_DEVICE_MISMATCH, "device.id", CHECK);
    REFUSED_ARRAY(array.device.type = CAI_DEVICE_CUDA_HOST, CAI_ERR_DEVICE_MISMATCH, "device.type",
                  CHECK);
    CHECKED(array.device.type = CAI_DEVICE_UNKNOWN);
    REFUSED_ARRAY((array.device.type = CAI_DEVICE_UNKNOWN, array.data = host),
                  CAI_ERR_NOT_DEVICE_POINTER, "data", CHECK);
    CHECKED((array.device.type = CAI_DEVICE_CPU, array.data = host));
    /* A mask is an array too. */
    REFUSED_ARRAY(array.mask = &mask, CAI_ERR_OUT_OF_ALLOCATION, "mask.data", CHECK);
}

/* Memory that is mapped piece by piece, as growing allocators do it. */
CASE(checks_of_pieces) {
    CUmemAllocationProp kind = {0};
    CUmemGenericAllocationHandle pieces[2];
    CUmemAccessDesc access;
    CUdeviceptr base;
    size_t piece;
    int64_t shape[1];
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    kind.location.id = device[0];
    CU(cuMemGetAllocationGranularity(&piece, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CU(cuMemAddressReserve(&base, 4 * piece, 0, 0, 0));
    access.location = kind.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    for (int i = 0; i < 2; ++i) {
        CU(cuMemCreate(&pieces[i], piece, &kind, 0));
        CU(cuMemMap(base + i * piece, piece, 0, pieces[i], 0));
    }
    CU(cuMemSetAccess(base, 2 * piece, &access, 1));
    cai_array array = array_of(base, CAI_STREAM_NONE);
    array.shape = shape;
    shape[0] = (int64_t)(2 * piece / sizeof(int));
    OK(cai_array_validate(&array, CAI_CHECK_DEVICE, error));
    ++shape[0];
    REFUSED(CAI_ERR_OUT_OF_ALLOCATION, "data", cai_array_validate(&array, CAI_CHECK_DEVICE, error));
}

CASE(checks_of_streams) {
    CUstream stream = new_stream();
    cai_array array = array_of(new_buffer(), as_value(stream));
    OK(cai_array_validate(&array, CAI_CHECK_STREAM, error));
    array.context = context[0];
    OK(cai_array_validate(&array, CAI_CHECK_STREAM, error));
    if (devices > 1) {
        array.context = context[1];
        REFUSED(CAI_ERR_STREAM_CONTEXT, "stream",
                cai_array_validate(&array, CAI_CHECK_STREAM, error));
        array.stream = CAI_STREAM_LEGACY;
        OK(cai_array_validate(&array, CAI_CHECK_STREAM, error));
    }
}

CASE(which_driver) {
    cai_driver_info info;
    OK(cai_driver_info_get(&info, error));
    ASSERT(info.version >= 11000 && info.devices >= 1 && info.path[0] == '/');
    REFUSED(CAI_ERR_NULL_ARGUMENT, "out", cai_driver_info_get(NULL, error));
}

int main(int count, char **words) { return run_cases(count, words); }
