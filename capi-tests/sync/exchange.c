/* Begin and end, between every kind of stream: what the data and the race checker say.
 * run: sim asan valgrind refuse; gpu
 * run: omit handles blocking_handles two_devices two_contexts legacy_producer legacy_consumer
 * run: omit legacy_of_two_devices per_thread_producer legacy_in_either per_thread_mask_in_either
 * run: omit conservative_in_either_context event_of_an_unknown_stream
 * run: omit events_of_a_context_that_came_back another_context_is_current_at_the_end
 * run: omit another_thread_ends one_owner_of_two_memories registered_in_another_context */
#include "sync_test.h"
#include <cai/unstable/release.h>

/* The library has left HIP's device, which only it changes, and the context as they were. */
static void check_current(CUcontext wanted) {
#ifdef ON_HIP
    CUcontext current;
    int current_device = -1;
    CU(cuCtxGetCurrent(&current));
    ASSERT(get_device(&current_device) == 0);
    ASSERT(current == wanted && context[current_device] == wanted);
#else
    (void)wanted;
#endif
}

/* Write, read, write, write by the consumer, read: each has to wait for the one before. */
static void exchange_between(CUstream producer, CUstream consumer, cai_array *array,
                             CUcontext producers, CUcontext consumers) {
    CUdeviceptr buffer = (CUdeviceptr)(uintptr_t)array->data, first, last;
    use(consumers);
    first = new_buffer();
    use(producers);
    last = new_buffer();
    fill(buffer, 1, producer);

    use(consumers);
    read_into(first, array, consumer);

    use(producers);
    fill(buffer, 2, producer);

    use(consumers);
    write_from(array, 3, consumer);
    check_current(consumers);

    use(producers);
    copy(last, buffer, producer);
    ASSERT(holds(last, 3, producer));

    use(consumers);
    ASSERT(holds(first, 1, consumer));
    use(producers);
}

SHARED_CASE(handles) {
    CUstream producer = new_stream(), consumer = new_stream();
    cai_array array = array_of(new_buffer(), as_value(producer));
    exchange_between(producer, consumer, &array, context[0], context[0]);
}

SHARED_CASE(blocking_handles) {
    CUstream producer = blocking_stream(), consumer = blocking_stream();
    cai_array array = array_of(new_buffer(), as_value(producer));
    exchange_between(producer, consumer, &array, context[0], context[0]);
}

CASE(many_rounds) {
    CUstream producer = new_stream(), consumer = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    cai_array array = array_of(buffer, as_value(producer));
    for (int round = 1; round <= 20; ++round) {
        fill(buffer, round, producer);
        read_into(out, &array, consumer);
        write_from(&array, -round, consumer);
    }
    ASSERT(holds(out, 20, consumer));
    ASSERT(holds(buffer, -20, producer));
    /* Events are used again. */
    ASSERT(
        COUNTED(the_shim.count("cuEventCreate") == 1 && the_shim.count("cuEventDestroy_v2") == 0));
}

SHARED_CASE(two_devices) {
    CUcontext second = context[devices - 1];
    use(second);
    CUstream consumer = new_stream();
    use(context[0]);
    CUstream producer = new_stream();
    cai_array array = array_of(new_buffer(), as_value(producer));
    exchange_between(producer, consumer, &array, context[0], second);
    exchange_between(producer, consumer, &array, context[0], second);
}

CASE(two_contexts) {
    CUcontext other = second_context();
    CUstream consumer = new_stream(), producer;
    CU(cuCtxSetCurrent(context[0]));
    producer = new_stream();
    cai_array array = array_of(new_buffer(), as_value(producer));
    exchange_between(producer, consumer, &array, context[0], other);
    ASSERT_STATUS(CAI_OK, cai_array_validate(&array, CAI_CHECK_STREAM, NULL));
}

/* The library knows streams by their ids, of which its table holds a part. */
CASE(more_streams_than_the_library_remembers) {
    enum { STREAMS = 400 };
    CUcontext contexts[2] = {context[0], second_context()};
    CUstream consumer = new_stream(), producers[STREAMS];
    cai_array array;
    for (int i = 0; i < STREAMS; ++i) {
        CU(cuCtxSetCurrent(contexts[i % 2]));
        producers[i] = new_stream();
    }
    CUdeviceptr buffer = new_buffer();
    for (int round = 0; round < 2; ++round) {
        for (int i = 0; i < STREAMS; ++i) {
            array = array_of(buffer, as_value(producers[i]));
            OK(cai_array_consume_begin(&array, as_value(consumer), CAI_ACCESS_READ, error));
        }
    }
}

/* A thread that never made a context current may order streams: their handles say it all. */
static void *without_context(void *pair) {
    cai_array *array = pair;
    CUcontext current = (CUcontext)1;
    CUstream consumer = (CUstream)array->context;
    cai_array plain = *array;
    plain.context = NULL;
    OK(cai_array_consume_begin(&plain, as_value(consumer), CAI_ACCESS_READ, error));
    OK(cai_array_consume_end(&plain, as_value(consumer), CAI_ACCESS_READ, error));
    CU(cuCtxGetCurrent(&current));
    ASSERT(current == NULL);
    REFUSED(CAI_ERR_NO_CONTEXT, "stream",
            cai_array_consume_begin(&plain, 1, CAI_ACCESS_READ, error));
    return NULL;
}

CASE(no_current_context) {
    CUstream producer = new_stream(), consumer = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    cai_array array = array_of(buffer, as_value(producer));
    fill(buffer, 1, producer);
    array.context = consumer;
    in_thread(without_context, &array);
    /* What the thread ordered holds here too. */
    copy(out, buffer, consumer);
    ASSERT(holds(out, 1, consumer));
}

/* --- green contexts */

/* NULL where the driver or the device has none. */
static CUgreenCtx green_context(void) {
    CUdevResource all, part;
    CUdevResourceDesc description;
    CUgreenCtx green;
    unsigned groups = 1;
    if (cuDeviceGetDevResource(device[0], &all, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS ||
        cuDevSmResourceSplitByCount(&part, &groups, &all, NULL, 0, 8) != CUDA_SUCCESS ||
        cuDevResourceGenerateDesc(&description, &part, 1) != CUDA_SUCCESS ||
        cuGreenCtxCreate(&green, description, device[0], CU_GREEN_CTX_DEFAULT_STREAM) !=
            CUDA_SUCCESS) {
        return NULL;
    }
    return green;
}

CASE(green_contexts) {
    CUgreenCtx green = green_context();
    CUstream producer, consumer = new_stream();
    CUcontext as_context;
    cai_owner *owner;
    static atomic_int destroyed;
    if (green == NULL) return;
    CU(cuGreenCtxStreamCreate(&producer, green, CU_STREAM_NON_BLOCKING, 0));
    CU(cuCtxFromGreenCtx(&as_context, green));
    cai_array array = array_of(new_buffer(), as_value(producer));
    exchange_between(producer, consumer, &array, context[0], context[0]);
    exchange_between(producer, consumer, &array, as_context, context[devices - 1]);
    array.stream = as_value(consumer);
    exchange_between(consumer, producer, &array, context[0], context[0]);
    /* Its own events are used: nothing says that others' may be. */
    ASSERT(COUNTED(the_shim.count("cuCtxFromGreenCtx") > 0));
    const cai_stream streams[] = {as_value(producer)};
    OK(cai_array_produce(&array, streams, 1, streams[0], 0, error));
    OK(cai_array_validate(&array, CAI_CHECK_STREAM, error));
    CU(cuCtxSynchronize());
    CU(cuGreenCtxDestroy(green));
    REFUSED(CAI_ERR_STREAM_DETACHED, "driver",
            cai_array_consume_begin(&array, as_value(consumer), CAI_ACCESS_READ, error));
    REFUSED(CAI_ERR_STREAM_DETACHED, "driver",
            cai_array_synchronize(&array, CAI_ACCESS_READ, error));
    REFUSED(CAI_ERR_STREAM_DETACHED, "driver", cai_array_validate(&array, CAI_CHECK_STREAM, error));
    OK(cai_owner_create(&destroyed, count_destroyed, &owner, error));
    REFUSED(CAI_ERR_STREAM_DETACHED, "driver",
            cai_owner_release_after(owner, as_value(producer), error));
    cai_owner_release(owner);
    ASSERT(atomic_load(&destroyed) == 1);
}

/* --- default streams */

SHARED_CASE(legacy_producer) {
    CUstream consumer = new_stream();
    cai_array array = array_of(new_buffer(), CAI_STREAM_LEGACY);
    array.context = context_on(0);
    exchange_between(CU_STREAM_LEGACY, consumer, &array, context[0], context[0]);
    if (devices > 1) {
        use(context[1]);
        consumer = new_stream();
        exchange_between(CU_STREAM_LEGACY, consumer, &array, context[0], context[1]);
    }
}

SHARED_CASE(legacy_producer_found_by_its_memory) {
    /* The dictionary carries no context: the memory's is the one. */
    CUdeviceptr buffer = new_buffer();
    cai_array array = array_by_memory(buffer, CAI_STREAM_LEGACY);
    use(context[devices - 1]);
    exchange_between(CU_STREAM_LEGACY, new_stream(), &array, context[0], context[devices - 1]);
}

CASE(legacy_producer_with_pool_memory) {
    /* Memory of a pool belongs to no context: its device's primary one is meant. */
    CUdeviceptr buffer;
    CU(cuMemAllocAsync(&buffer, BYTES, CU_STREAM_LEGACY));
    CU(cuCtxSynchronize());
    cai_array array = array_of(buffer, CAI_STREAM_LEGACY);
    CU(cuCtxSetCurrent(context[devices - 1]));
    exchange_between(CU_STREAM_LEGACY, new_stream(), &array, context[0], context[devices - 1]);
    ASSERT(COUNTED(the_shim.count("cuDevicePrimaryCtxRetain") == 4 &&
                   the_shim.count("cuDevicePrimaryCtxRelease_v2") == 4));
}

CASE(legacy_of_a_second_context) {
    /* Neither the current context nor the primary one, but the array's, or the memory's. */
    CUcontext other = second_context();
    CUdeviceptr own = new_buffer(), pool;
    cai_array array = array_of(own, CAI_STREAM_LEGACY);
    CU(cuMemAllocAsync(&pool, BYTES, CU_STREAM_LEGACY));
    CU(cuCtxSynchronize());
    CU(cuCtxSetCurrent(context[0]));
    CUstream consumer = new_stream();
    exchange_between(CU_STREAM_LEGACY, consumer, &array, other, context[0]);
    array = array_of(pool, CAI_STREAM_LEGACY);
    array.context = other;
    exchange_between(CU_STREAM_LEGACY, consumer, &array, other, context[0]);
}

SHARED_CASE(legacy_of_two_devices) {
    /* One value, two streams. */
    cai_array array = array_of(new_buffer(), CAI_STREAM_LEGACY);
    array.context = context_on(0);
    exchange_between(CU_STREAM_LEGACY, CU_STREAM_LEGACY, &array, context[0], context[devices - 1]);
    array.context = NULL;
    exchange_between(CU_STREAM_LEGACY, CU_STREAM_LEGACY, &array, context[0], context[devices - 1]);
}

/* --- default streams of a context that the array does not state */

/* The memory belongs to the first context, or to the first device. */
static CUdeviceptr device_memory(CUcontext user) {
    CUdeviceptr buffer = new_buffer();
    CU(cuCtxSetCurrent(user));
    CUresult enabled = cuCtxEnablePeerAccess(context[0], 0);
    ASSERT(enabled == CUDA_SUCCESS || devices == 1);
    CU(cuCtxSetCurrent(context[0]));
    return buffer;
}
static CUdeviceptr managed_memory(CUcontext user) {
    CUdeviceptr buffer;
    (void)user;
    CU(cuMemAllocManaged(&buffer, BYTES, CU_MEM_ATTACH_GLOBAL));
    return buffer;
}
static CUdeviceptr page_locked_memory(CUcontext user) {
    void *buffer;
    (void)user;
    CU(cuMemHostAlloc(&buffer, BYTES, CU_MEMHOSTALLOC_PORTABLE));
    return (CUdeviceptr)(uintptr_t)buffer;
}
/* It belongs to no context: its device's primary one is meant. */
static CUdeviceptr pool_memory(CUcontext user) {
    CUmemAccessDesc access;
    CUmemoryPool pool;
    CUdeviceptr buffer;
    (void)user;
    CU(cuDeviceGetMemPool(&pool, device[0]));
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device[devices - 1];
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (devices > 1) CU(cuMemPoolSetAccess(pool, &access, 1));
    CU(cuMemAllocAsync(&buffer, BYTES, CU_STREAM_LEGACY));
    CU(cuCtxSynchronize());
    return buffer;
}
static CUdeviceptr mapped_memory(CUcontext user) {
    CUmemAllocationProp wanted = {0};
    CUmemAccessDesc access[2];
    CUmemGenericAllocationHandle memory;
    CUdeviceptr buffer;
    size_t size;
    (void)user;
    wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    wanted.location.id = device[0];
    CU(cuMemGetAllocationGranularity(&size, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    size = (BYTES + size - 1) / size * size;
    CU(cuMemCreate(&memory, size, &wanted, 0));
    CU(cuMemAddressReserve(&buffer, size, 0, 0, 0));
    CU(cuMemMap(buffer, size, 0, memory, 0));
    for (int i = 0; i < devices; ++i) {
        access[i].location = wanted.location;
        access[i].location.id = device[i];
        access[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    CU(cuMemSetAccess(buffer, size, access, (size_t)devices));
    return buffer;
}

typedef CUdeviceptr memory_maker(CUcontext user);

/* The first half is written in the memory's context, the other half in the working one. */
static void fill_halves(CUdeviceptr buffer, int value, CUstream stream, CUcontext working) {
    use(context[0]);
    for (int i = 0; i < 8; ++i)
        CU(cuMemsetD32Async(buffer, i < 7 ? 0xbad : (unsigned)value, N / 2, stream));
    use(working);
    for (int i = 0; i < 8; ++i)
        CU(cuMemsetD32Async(buffer + BYTES / 2, i < 7 ? 0xbad : (unsigned)value, N / 2, stream));
}

/*
 * The producer's stream is the default one of either context. `seen` is what the consumer and the
 * host are given: the array, or one whose mask it is. The working context is current throughout.
 */
static void exchange_in_either(CUdeviceptr buffer, const cai_array *seen, CUstream producer,
                               CUstream consumer, CUcontext working) {
    const CUdeviceptr first = new_buffer(), second = new_buffer();
    const CUstream reader = new_stream();
    const cai_stream stream = as_value(consumer);
    fill_halves(buffer, 1, producer, working);
    OK(cai_array_consume_begin(seen, stream, CAI_ACCESS_READ, error));
    copy(first, buffer, consumer);
    OK(cai_array_consume_end(seen, stream, CAI_ACCESS_READ, error));
    fill_halves(buffer, 2, producer, working);
    OK(cai_array_consume_begin(seen, stream, CAI_ACCESS_WRITE, error));
    fill(buffer, 3, consumer);
    OK(cai_array_consume_end(seen, stream, CAI_ACCESS_WRITE, error));
    fill_halves(buffer, 4, producer, working);
    OK(cai_array_synchronize(seen, CAI_ACCESS_READ, error));
    copy(second, buffer, reader);
    ASSERT(holds(second, 4, reader));
    ASSERT(holds(first, 1, consumer));
}

/* The array with an owner of the library, which remembers what it finds out about the memory. */
static cai_array owned(cai_array array) {
    static atomic_int destroyed;
    OK(cai_owner_create(&destroyed, count_destroyed, &array.owner, error));
    return array;
}

/* HIP's arrays state a device, which may be that of the memory or open. */
static void in_either(CUstream producer, int is_mask, int id) {
    static memory_maker *const makers[] = {device_memory, managed_memory, page_locked_memory,
                                           pool_memory, mapped_memory};
    const CUcontext working = working_context();
    for (size_t i = 0; i < sizeof makers / sizeof *makers; ++i) {
        cai_array array, around;
        use(context[0]);
        CUdeviceptr buffer = makers[i](working);
        use(working);
        array = array_of(buffer, as_value(producer));
        array.device.id = id;
#ifdef ON_HIP
        if (makers[i] == page_locked_memory) array.device.type = CAI_DEVICE_ROCM_HOST;
#endif
        around = array_of(new_buffer(), CAI_STREAM_NONE);
        around.mask = &array;
        exchange_in_either(buffer, is_mask ? &around : &array, producer, new_stream(), working);
        /* The consumer's own stream may be one of the two. */
        array = owned(array);
        exchange_in_either(buffer, is_mask ? &around : &array, producer, producer, working);
        exchange_in_either(buffer, is_mask ? &around : &array, producer, new_stream(), working);
        cai_array_release(&array);
    }
}

SHARED_CASE(legacy_in_either) { in_either(CU_STREAM_LEGACY, 0, 0); }
SHARED_CASE(legacy_mask_in_either) { in_either(CU_STREAM_LEGACY, 1, 0); }
SHARED_CASE(per_thread_in_either) { in_either(CU_STREAM_PER_THREAD, 0, 0); }
SHARED_CASE(per_thread_mask_in_either) { in_either(CU_STREAM_PER_THREAD, 1, 0); }

/* Where a context is stated, it alone counts. */
CASE(stated_context_of_a_default_stream) {
    const CUcontext working = working_context();
    const CUdeviceptr buffer = device_memory(working);
    cai_array array = array_of(buffer, CAI_STREAM_LEGACY);
    CU(cuCtxSetCurrent(working));
    CUstream consumer = new_stream();
    array.context = context[0];
    exchange_between(CU_STREAM_LEGACY, consumer, &array, context[0], working);
    the_shim.reset();
    CU(cuCtxSetCurrent(working));
    OK(cai_array_consume_begin(&array, as_value(consumer), CAI_ACCESS_READ, error));
    ASSERT(COUNTED(the_shim.count("cuEventRecord") == 1));
}

CASE(default_stream_of_a_green_context) {
    CUgreenCtx green = green_context();
    CUstream consumer = new_stream();
    CUdeviceptr buffer = new_buffer();
    cai_array array = array_of(buffer, CAI_STREAM_LEGACY);
    CUcontext working;
    if (green == NULL) return;
    CU(cuCtxFromGreenCtx(&working, green));
    exchange_in_either(buffer, &array, CU_STREAM_LEGACY, consumer, working);
    /* It has no per-thread default stream, so the memory's context is meant. */
    array.stream = CAI_STREAM_PER_THREAD;
    CU(cuCtxSetCurrent(context[0]));
    exchange_between(CU_STREAM_PER_THREAD, consumer, &array, context[0], working);
}

/* Nothing but the memory says which context is meant. */
static void *legacy_without_context(void *pair) {
    cai_array *array = pair;
    CUstream consumer = (CUstream)array->context;
    cai_array plain = *array;
    CUcontext current = (CUcontext)1;
    plain.context = NULL;
    OK(cai_array_consume_begin(&plain, as_value(consumer), CAI_ACCESS_READ, error));
    OK(cai_array_consume_end(&plain, as_value(consumer), CAI_ACCESS_READ, error));
    OK(cai_array_synchronize(&plain, CAI_ACCESS_READ, error));
    CU(cuCtxGetCurrent(&current));
    ASSERT(current == NULL);
    return NULL;
}

CASE(legacy_producer_without_a_current_context) {
    CUdeviceptr buffers[2] = {new_buffer(), pool_memory(context[0])}, out = new_buffer();
    CUstream consumer = new_stream();
    for (int i = 0; i < 2; ++i) {
        cai_array array = array_of(buffers[i], CAI_STREAM_LEGACY);
        array.context = consumer;
        fill(buffers[i], 1, CU_STREAM_LEGACY);
        in_thread(legacy_without_context, &array);
        copy(out, buffers[i], consumer);
        ASSERT(holds(out, 1, consumer));
    }
}

/* The owner of an array knows the context of its memory, once the driver was asked. That counts
 * while it is the current one, which is asked for in each call. */
CASE(another_context_is_current_at_the_end) {
    const CUcontext working = working_context();
    const CUstream legacy = CU_STREAM_LEGACY;
    CUdeviceptr buffer = device_memory(working), out;
    cai_array array = owned(array_of(buffer, CAI_STREAM_LEGACY));
    use(working);
    out = new_buffer();
    for (int round = 1; round <= 2; ++round) {
        use(context[0]);
        fill(buffer, round, legacy);
        CU(cuStreamSynchronize(legacy));
        the_shim.reset();
        OK(cai_array_consume_begin(&array, CAI_STREAM_LEGACY, CAI_ACCESS_READ, error));
        ASSERT(COUNTED(the_shim.count("cuPointerGetAttributes") == (round == 1)));
        ASSERT(COUNTED(the_shim.count("cuCtxGetCurrent") == 1));
        use(working);
        copy(out, buffer, legacy);
        OK(cai_array_consume_end(&array, CAI_STREAM_LEGACY, CAI_ACCESS_READ, error));
        ASSERT(COUNTED(the_shim.count("cuPointerGetAttributes") == (round == 1) + 1));
        use(context[0]);
        fill(buffer, -1, legacy);
        use(working);
        ASSERT(holds(out, round, legacy));
    }
    cai_array_release(&array);
}

static CUcontext working_of_a_thread;
static CUdeviceptr out_of_a_thread;

static void *end_of_a_read(void *array) {
    CU(cuCtxSetCurrent(working_of_a_thread));
    copy(out_of_a_thread, (CUdeviceptr)(uintptr_t)((cai_array *)array)->data, CU_STREAM_LEGACY);
    OK(cai_array_consume_end(array, CAI_STREAM_LEGACY, CAI_ACCESS_READ, error));
    return NULL;
}

/* A thread with another current context ends what this one has begun. */
CASE(another_thread_ends) {
    const CUcontext working = working_context();
    const CUstream legacy = CU_STREAM_LEGACY;
    CUdeviceptr buffer = device_memory(working);
    cai_array array = owned(array_of(buffer, CAI_STREAM_LEGACY));
    use(working);
    working_of_a_thread = working;
    out_of_a_thread = new_buffer();
    use(context[0]);
    fill(buffer, 1, legacy);
    CU(cuStreamSynchronize(legacy));
    OK(cai_array_consume_begin(&array, CAI_STREAM_LEGACY, CAI_ACCESS_READ, error));
    in_thread(end_of_a_read, &array);
    fill(buffer, 2, legacy);
    use(working);
    ASSERT(holds(out_of_a_thread, 1, legacy));
    cai_array_release(&array);
}

/* An owner may know a context that is gone, with the memory. Then there is nothing to order. */
CASE(the_known_context_is_destroyed) {
    const CUcontext other = second_context();
    cai_array array = owned(array_of(new_buffer(), CAI_STREAM_LEGACY));
    const uint64_t streams[] = {CAI_STREAM_LEGACY, 0};
    use(context[0]);
    for (int round = 1; round <= 2; ++round) {
        for (int i = 0; i < 2; ++i) {
            const uint64_t mine = streams[i] ? streams[i] : as_value(new_stream());
            OK(cai_array_consume_begin(&array, mine, CAI_ACCESS_READ, error));
            OK(cai_array_consume_end(&array, mine, CAI_ACCESS_READ, error));
        }
        OK(cai_array_synchronize(&array, CAI_ACCESS_READ, error));
        if (round == 1) CU(cuCtxDestroy(other));
    }
    cai_array_release(&array);
}

/* What an owner knows is the context of one address. */
CASE(one_owner_of_two_memories) {
    const CUcontext working = working_context();
    const CUstream legacy = CU_STREAM_LEGACY;
    const CUdeviceptr first = new_buffer(), out = new_buffer();
    cai_array array = owned(array_of(first, CAI_STREAM_LEGACY)), other = array;
    use(working);
    CUdeviceptr second = managed_memory(working);
    other.data = (void *)(uintptr_t)second;
    for (int round = 1; round <= 2; ++round) {
        use(context[0]);
        OK(cai_array_consume_begin(&array, CAI_STREAM_LEGACY, CAI_ACCESS_READ, error));
        use(working);
        fill(second, round, legacy);
        use(context[0]);
        OK(cai_array_consume_begin(&other, CAI_STREAM_LEGACY, CAI_ACCESS_READ, error));
        copy(out, second, legacy);
        OK(cai_array_consume_end(&other, CAI_STREAM_LEGACY, CAI_ACCESS_READ, error));
        OK(cai_array_consume_end(&array, CAI_STREAM_LEGACY, CAI_ACCESS_READ, error));
        use(working);
        fill(second, -1, legacy);
        use(context[0]);
        ASSERT(holds(out, round, legacy));
    }
    cai_array_release(&array);
}

/* Memory of the host has the context that registered it last, so owners remember none. */
CASE(registered_in_another_context) {
    const CUcontext contexts[] = {context[0], working_context()};
    const CUstream legacy = CU_STREAM_LEGACY;
    const CUdeviceptr out = new_buffer();
    void *host = aligned_alloc(4096, (BYTES + 4095) / 4096 * 4096);
    cai_array array = owned(array_of((CUdeviceptr)1, CAI_STREAM_LEGACY));
    ASSERT(host != NULL);
    array.device.type = CAI_DEVICE_UNKNOWN;
    for (int round = 1; round <= 2; ++round) {
        CUdeviceptr buffer;
        use(contexts[round - 1]);
        CU(cuMemHostRegister(host, BYTES,
                             CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
        CU(cuMemHostGetDevicePointer(&buffer, host, 0));
        ASSERT(round == 1 || buffer == (CUdeviceptr)(uintptr_t)array.data);
        array.data = (void *)(uintptr_t)buffer;
        fill(buffer, round, legacy);
        use(context[0]);
        OK(cai_array_consume_begin(&array, CAI_STREAM_LEGACY, CAI_ACCESS_READ, error));
        copy(out, buffer, legacy);
        OK(cai_array_consume_end(&array, CAI_STREAM_LEGACY, CAI_ACCESS_READ, error));
        use(contexts[round - 1]);
        fill(buffer, -1, legacy);
        use(context[0]);
        ASSERT(holds(out, round, legacy));
        use(contexts[round - 1]);
        CU(cuStreamSynchronize(legacy));
        CU(cuMemHostUnregister(host));
    }
    cai_array_release(&array);
    free(host);
}

/* The array and its mask are of different contexts, and neither is of the current one. */
CASE(array_and_mask_of_two_contexts) {
    const CUcontext other = second_context(), working = working_context();
    const CUstream legacy = CU_STREAM_LEGACY;
    CU(cuCtxSetCurrent(other));
    const CUdeviceptr bits = new_buffer();
    CU(cuCtxSetCurrent(context[0]));
    const CUdeviceptr buffer = device_memory(working);
    CU(cuCtxSetCurrent(working));
    const CUstream consumer = new_stream();
    const CUdeviceptr first = new_buffer(), second = new_buffer();
    cai_array array = array_of(buffer, CAI_STREAM_LEGACY), mask = array_of(bits, CAI_STREAM_LEGACY);
    array.mask = &mask;
    for (int round = 1; round <= 3; ++round) {
        CU(cuCtxSetCurrent(other));
        fill(bits, -round, legacy);
        fill_halves(buffer, round, legacy, working);
        OK(cai_array_consume_begin(&array, as_value(consumer), CAI_ACCESS_READ, error));
        copy(first, buffer, consumer);
        copy(second, bits, consumer);
        OK(cai_array_consume_end(&array, as_value(consumer), CAI_ACCESS_READ, error));
    }
    ASSERT(holds(first, 3, consumer));
    ASSERT(holds(second, -3, consumer));
}

/* Nothing is known of the stream, so the context of the memory and the current one count. */
SHARED_CASE(conservative_in_either_context) {
    const uint32_t reads = CAI_ACCESS_READ | CAI_SYNC_CONSERVATIVE;
    const CUcontext working = working_context();
    const CUdeviceptr one = device_memory(working), first = new_buffer(), second = new_buffer();
    const CUstream in_memorys = new_stream();
    CUstream in_working, consumer, reader;
    cai_array array = array_of(one, CAI_STREAM_UNKNOWN);
    array.version = 2;
    use(working);
    CUdeviceptr two = new_buffer();
    in_working = new_stream(), consumer = new_stream(), reader = new_stream();
    fill(one, 1, in_memorys);
    fill(two, 1, in_working);
    OK(cai_array_consume_begin(&array, as_value(consumer), reads, error));
    copy(first, one, consumer);
    copy(second, two, consumer);
    OK(cai_array_consume_end(&array, as_value(consumer), reads, error));
    fill(one, 2, in_memorys);
    fill(two, 2, in_working);
    ASSERT(holds(first, 1, consumer));
    ASSERT(holds(second, 1, consumer));
    OK(cai_array_synchronize(&array, reads, error));
    copy(first, one, reader);
    copy(second, two, reader);
    ASSERT(holds(first, 2, reader));
    ASSERT(holds(second, 2, reader));
}

static void *identified_elsewhere(void *argument) {
    CU(cuCtxSetCurrent(working_context()));
    REFUSED(CAI_ERR_STREAM_THREAD, "stream",
            cai_array_consume_begin(argument, CAI_STREAM_LEGACY, CAI_ACCESS_READ, error));
    return NULL;
}

/* Which context is meant stays open; which thread is meant does not. */
CASE(identity_in_either_context) {
    const CUcontext working = working_context();
    const CUdeviceptr buffer = device_memory(working);
    cai_array array = array_of(buffer, CAI_STREAM_PER_THREAD), own;
    CU(cuCtxSetCurrent(working));
    OK(cai_unstable_array_identify(&array, error));
    ASSERT(array.stream_id != 0 && array.context == NULL);
    OK(cai_array_validate(&array, CAI_CHECK_STREAM, error));
    exchange_in_either(buffer, &array, CU_STREAM_PER_THREAD, new_stream(), working);
    in_thread(identified_elsewhere, &array);
    /* An id of the current context shows that this one is meant. */
    own = array_of(buffer, CAI_STREAM_PER_THREAD);
    own.context = working;
    OK(cai_unstable_array_identify(&own, error));
    ASSERT(own.context == working && own.stream_id != array.stream_id);
    own.context = NULL;
    OK(cai_array_validate(&own, CAI_CHECK_STREAM, error));
    CU(cuCtxSetCurrent(working));
    the_shim.reset();
    OK(cai_array_consume_begin(&own, as_value(new_stream()), CAI_ACCESS_READ, error));
    ASSERT(COUNTED(the_shim.count("cuEventRecord") == 1));
}

SHARED_CASE(legacy_consumer) {
    CUstream producer = new_stream();
    cai_array array = array_of(new_buffer(), as_value(producer));
    exchange_between(producer, CU_STREAM_LEGACY, &array, context[0], context[0]);
    exchange_between(producer, CU_STREAM_PER_THREAD, &array, context[0], context[devices - 1]);
}

SHARED_CASE(per_thread_producer) {
    CUstream consumer = new_stream();
    cai_array array = array_of(new_buffer(), CAI_STREAM_PER_THREAD);
    array.context = context_on(0);
    exchange_between(CU_STREAM_PER_THREAD, consumer, &array, context[0], context[0]);
    exchange_between(CU_STREAM_PER_THREAD, CU_STREAM_LEGACY, &array, context[0],
                     context[devices - 1]);
}

static void *in_another_thread(void *argument) {
    cai_array *array = argument;
    CU(cuCtxSetCurrent(context[0]));
    REFUSED(CAI_ERR_STREAM_THREAD, "stream",
            cai_array_consume_begin(array, CAI_STREAM_PER_THREAD, CAI_ACCESS_READ, error));
    REFUSED(CAI_ERR_STREAM_THREAD, "stream",
            cai_array_consume_begin(array, CAI_STREAM_LEGACY, CAI_ACCESS_READ, error));
    REFUSED(CAI_ERR_STREAM_THREAD, "stream", cai_array_validate(array, CAI_CHECK_STREAM, error));
    return NULL;
}

CASE(per_thread_stream_of_another_thread) {
    cai_array array = array_of(new_buffer(), 0);
    cai_stream own = CAI_STREAM_PER_THREAD;
    OK(cai_array_produce(&array, &own, 1, own, 0, error));
    ASSERT(array.stream == own && array.stream_id != 0 && array.context == context[0]);
    OK(cai_array_consume_begin(&array, CAI_STREAM_PER_THREAD, CAI_ACCESS_READ, error));
    OK(cai_array_consume_begin(&array, CAI_STREAM_LEGACY, CAI_ACCESS_READ, error));
    in_thread(in_another_thread, &array);
}

/* --- nothing to do */

static void no_calls(const cai_array *array, cai_stream stream, uint32_t flags) {
    the_shim.reset();
    OK(cai_array_consume_begin(array, stream, flags, error));
    OK(cai_array_consume_end(array, stream, flags, error));
    ASSERT(the_shim.count(NULL) == 0);
}

SHARED_CASE(nothing_to_order) {
    CUstream producer = new_stream(), consumer = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    cai_array array = array_of(buffer, as_value(producer)), empty = array, unknown = array,
              none = array;
    /* One stream. */
    fill(buffer, 1, producer);
    no_calls(&array, as_value(producer), CAI_ACCESS_READ | CAI_ACCESS_WRITE);
    copy(out, buffer, producer);
    fill(buffer, 2, producer);
    ASSERT(holds(out, 1, producer));
    /* Nothing pending. */
    none.stream = CAI_STREAM_NONE;
    no_calls(&none, as_value(consumer), CAI_ACCESS_WRITE);
    /* No elements. */
    empty.data = NULL;
    no_calls(&empty, as_value(consumer), CAI_ACCESS_WRITE);
    /* A protocol without streams. */
    unknown.stream = CAI_STREAM_UNKNOWN;
    unknown.version = 2;
    no_calls(&unknown, as_value(consumer), CAI_ACCESS_WRITE);
    /* The user answers for it. */
    no_calls(&array, as_value(consumer), CAI_ACCESS_WRITE | CAI_SYNC_IGNORE);
}

CASE(policy_of_the_process) {
    CUstream producer = new_stream(), consumer = new_stream();
    cai_array array = array_of(new_buffer(), as_value(producer));
    uint32_t policy = 99;
    const cai_stream streams[] = {as_value(producer)};
    OK(cai_sync_policy_get(&policy, error));
    ASSERT(policy == 0);
    REFUSED(CAI_ERR_ARGUMENT, "policy", cai_sync_policy_set(CAI_ACCESS_READ, error));
    REFUSED(CAI_ERR_NEWER_CALLER, "policy", cai_sync_policy_set(0x40000000u, error));
    OK(cai_sync_policy_set(CAI_SYNC_IGNORE | CAI_SYNC_EXPORT_NONE, error));
    no_calls(&array, as_value(consumer), CAI_ACCESS_READ);
    OK(cai_array_synchronize(&array, CAI_ACCESS_READ, error));
    ASSERT(the_shim.count(NULL) == 0);
    OK(cai_array_produce(&array, streams, 1, streams[0], 0, error));
    ASSERT(array.stream == CAI_STREAM_NONE);
    /* One call follows the specification all the same. */
    OK(cai_array_produce(&array, streams, 1, streams[0], CAI_SYNC_THIS_CALL, error));
    ASSERT(array.stream == streams[0]);
    the_shim.reset();
    OK(cai_array_consume_begin(&array, as_value(consumer), CAI_ACCESS_READ | CAI_SYNC_THIS_CALL,
                               error));
    ASSERT(COUNTED(the_shim.count("cuStreamWaitEvent") == 1));
    OK(cai_sync_policy_set(0, error));
    OK(cai_array_produce(&array, streams, 1, streams[0], CAI_SYNC_EXPORT_NONE, error));
    ASSERT(array.stream == CAI_STREAM_NONE);
}

/* --- refused */

CASE(refused) {
    CUstream producer = new_stream(), consumer = new_stream();
    cai_stream c = as_value(consumer);
    cai_array good = array_of(new_buffer(), as_value(producer));
    ASSERT_STATUS(CAI_ERR_NULL_ARGUMENT, cai_array_consume_begin(NULL, c, CAI_ACCESS_READ, NULL));
    REFUSED(CAI_ERR_ARGUMENT, "flags", cai_array_consume_begin(&good, c, 0, error));
    REFUSED(CAI_ERR_NEWER_CALLER, "flags",
            cai_array_consume_end(&good, c, CAI_ACCESS_READ | 4, error));
    REFUSED(CAI_ERR_NEWER_CALLER, "flags", cai_array_synchronize(&good, 0x40000000u, error));
    REFUSED(CAI_ERR_ARGUMENT, "flags", cai_array_synchronize(&good, 0, error));
    REFUSED(CAI_ERR_ARGUMENT, "flags",
            cai_array_synchronize(&good, CAI_ACCESS_READ | CAI_CAPTURE_JOIN, error));
    REFUSED(CAI_ERR_STREAM_ZERO, "consumer_stream",
            cai_array_consume_begin(&good, 0, CAI_ACCESS_READ, error));
    REFUSED(CAI_ERR_ARGUMENT, "consumer_stream",
            cai_array_consume_begin(&good, CAI_STREAM_NONE, CAI_ACCESS_READ, error));
    REFUSED(CAI_ERR_ARGUMENT, "consumer_stream",
            cai_array_consume_end(&good, CAI_STREAM_UNKNOWN, CAI_ACCESS_READ, error));
#define BEGIN(flags) cai_array_consume_begin(&array, c, flags, error)
#define END(flags) cai_array_consume_end(&array, c, flags, error)
    REFUSED_ARRAY(array.stream = 0, CAI_ERR_STREAM_ZERO, "stream", BEGIN(CAI_ACCESS_READ));
    REFUSED_ARRAY(array.stream = 0, CAI_ERR_STREAM_ZERO, "stream",
                  cai_array_synchronize(&array, CAI_ACCESS_READ, error));
    /* Also if nothing is pending. */
    REFUSED_ARRAY(array.stream = CAI_STREAM_NONE, CAI_ERR_ARGUMENT, "flags",
                  cai_array_synchronize(&array, CAI_ACCESS_READ | CAI_CAPTURE_JOIN, error));
    REFUSED_ARRAY(array.stream = CAI_STREAM_NONE, CAI_ERR_ARGUMENT, "flags",
                  cai_array_synchronize(&array, 0, error));
    REFUSED_ARRAY((array.stream = CAI_STREAM_NONE, array.flags = CAI_ARRAY_READONLY),
                  CAI_ERR_READONLY, "flags",
                  cai_array_synchronize(&array, CAI_ACCESS_WRITE, error));
    REFUSED_ARRAY(array.flags = CAI_ARRAY_READONLY, CAI_ERR_READONLY, "flags",
                  BEGIN(CAI_ACCESS_WRITE));
    REFUSED_ARRAY(array.flags = CAI_ARRAY_READONLY, CAI_ERR_READONLY, "flags",
                  END(CAI_ACCESS_READ | CAI_ACCESS_WRITE));
    REFUSED_ARRAY(array.flags = 2, CAI_ERR_FLAGS, "flags", BEGIN(CAI_ACCESS_READ));
    REFUSED_ARRAY(array.version = 2, CAI_ERR_STREAM_VERSION, "stream", BEGIN(CAI_ACCESS_READ));
    REFUSED_ARRAY(array.device.type = CAI_DEVICE_OPENCL, CAI_ERR_STREAM_DEVICE, "device.type",
                  BEGIN(CAI_ACCESS_READ));
    REFUSED_ARRAY(array.struct_size = 7, CAI_ERR_STRUCT_SIZE, "struct_size",
                  BEGIN(CAI_ACCESS_READ));
}

/* Nothing has to be ordered for the array itself: its rules hold all the same. */
CASE(refused_without_work_to_order) {
    const cai_stream c = as_value(new_stream());
    const cai_array good = array_of(new_buffer(), c);
    cai_array array = good;
    array.flags = CAI_ARRAY_READONLY;
    OK(BEGIN(CAI_ACCESS_READ));
    array.stream = CAI_STREAM_NONE;
    OK(END(CAI_ACCESS_READ));
    REFUSED_ARRAY(array.flags = CAI_ARRAY_READONLY, CAI_ERR_READONLY, "flags",
                  BEGIN(CAI_ACCESS_WRITE));
    REFUSED_ARRAY(array.flags = CAI_ARRAY_READONLY, CAI_ERR_READONLY, "flags",
                  END(CAI_ACCESS_WRITE));
    REFUSED_ARRAY((array.flags = CAI_ARRAY_READONLY, array.stream = CAI_STREAM_NONE),
                  CAI_ERR_READONLY, "flags", BEGIN(CAI_ACCESS_WRITE));
    REFUSED_ARRAY((array.flags = 2, array.stream = CAI_STREAM_NONE), CAI_ERR_FLAGS, "flags",
                  BEGIN(CAI_ACCESS_READ));
    REFUSED_ARRAY(array.version = 2, CAI_ERR_STREAM_VERSION, "stream", BEGIN(CAI_ACCESS_READ));
    REFUSED_ARRAY(array.device.type = CAI_DEVICE_OPENCL, CAI_ERR_STREAM_DEVICE, "device.type",
                  END(CAI_ACCESS_READ));
    REFUSED_ARRAY(array = good, CAI_ERR_ARGUMENT, "flags", BEGIN(0));
    REFUSED_ARRAY(array = good, CAI_ERR_NEWER_CALLER, "flags", BEGIN(CAI_ACCESS_READ | 4));
    REFUSED_ARRAY(array.stream = CAI_STREAM_NONE, CAI_ERR_STREAM_ZERO, "consumer_stream",
                  cai_array_consume_begin(&array, 0, CAI_ACCESS_READ, error));
    REFUSED_ARRAY(array.stream = CAI_STREAM_NONE, CAI_ERR_ARGUMENT, "consumer_stream",
                  cai_array_consume_begin(&array, CAI_STREAM_UNKNOWN, CAI_ACCESS_READ, error));
}

/* --- events, masks */

static void count_up(void *data) { ++**(int **)data; }

SHARED_CASE(readers_at_once_then_a_writer) {
    CUstream producer = new_stream(), one = new_stream(), two = new_stream(), writer = new_stream();
    CUdeviceptr buffer = new_buffer(), first = new_buffer(), second = new_buffer();
    /* Only a read-only array lets its readers read at once: only the producer writes it. */
    cai_array array = array_of(buffer, as_value(producer));
    CUevent readers_ended = new_event();
    int runs = 0, *counter = &runs;
    const cai_stream streams[] = {as_value(producer), as_value(writer)};
    array.flags = CAI_ARRAY_READONLY;
    array.event = new_event();
    fill(buffer, 1, producer);
    OK(cai_array_produce(&array, streams, 1, streams[0], 0, error));

    OK(cai_array_consume_begin(&array, as_value(one), CAI_ACCESS_READ, error));
    if (cudasim_present())
        CU((CUresult)cudasim_launch(one, "slow reader", count_up, &counter, sizeof counter, NULL,
                                    0));
    copy(first, buffer, one);
    OK(cai_array_consume_end(&array, as_value(one), CAI_ACCESS_READ, error));
    read_into(second, &array, two);
    /* The second reader is done although the first has not begun: nothing forced it to run. */
    CU(cuStreamSynchronize(two));
    const char *schedule = getenv("CUDASIM_SCHEDULE");
    ASSERT(schedule == NULL || strcmp(schedule, "lazy") != 0 || runs == 0);

    /* The producer's writer waits for both. The event is recorded again, for which later readers
     * wait. */
    CU(cuEventRecord(readers_ended, producer));
    CU(cuStreamWaitEvent(writer, readers_ended, 0));
    fill(buffer, 2, writer);
    OK(cai_array_produce(&array, streams, 2, streams[0], 0, error));
    read_into(second, &array, two);
    ASSERT(holds(first, 1, one));
    ASSERT(holds(second, 2, two));
    /* The producer itself writes again: it says so by producing again. */
    fill(buffer, 3, producer);
    OK(cai_array_produce(&array, streams, 1, streams[0], 0, error));
    read_into(first, &array, one);
    read_into(second, &array, two);
    fill(buffer, 4, producer);
    ASSERT(holds(first, 3, one));
    ASSERT(holds(second, 3, two));
    ASSERT(holds(buffer, 4, producer));
}

SHARED_CASE(event_follows_a_write_on_the_same_stream) {
    CUstream producer = new_stream(), reader = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    cai_array array = array_of(buffer, as_value(producer));
    cai_stream streams[] = {as_value(producer)};
    array.event = new_event();
    fill(buffer, 1, producer);
    OK(cai_array_produce(&array, streams, 1, streams[0], 0, error));
    write_from(&array, 2, producer);
    read_into(out, &array, reader);
    ASSERT(holds(out, 2, reader));
    /* The same with a default stream. */
    streams[0] = CAI_STREAM_LEGACY;
    OK(cai_array_produce(&array, streams, 1, streams[0], 0, error));
    write_from(&array, 3, CU_STREAM_LEGACY);
    read_into(out, &array, reader);
    ASSERT(holds(out, 3, reader));
}

SHARED_CASE(event_of_an_unknown_stream) {
    CUstream producer = new_stream(), reader = new_stream();
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    cai_array array = array_of(buffer, CAI_STREAM_UNKNOWN);
    CUevent event = new_event();
    array.version = 2;
    array.event = event;
    fill(buffer, 1, producer);
    CU(cuEventRecord(event, producer));
    read_into(out, &array, reader);
    ASSERT(holds(out, 1, reader));
    fill(buffer, 2, producer);
    CU(cuEventRecord(event, producer));
    OK(cai_array_synchronize(&array, CAI_ACCESS_READ, error));
    CU(cuMemcpyDtoH((int[1]){0}, buffer, sizeof(int)));
    fill(buffer, 3, producer);
    CU(cuEventRecord(event, producer));
    write_from(&array, 4, reader);
    ASSERT(holds(buffer, 4, reader));
}

SHARED_CASE(masks_are_ordered_too) {
    CUstream producer = new_stream(), masker = new_stream(), consumer = new_stream();
    CUdeviceptr buffer = new_buffer(), bits = new_buffer(), out = new_buffer(),
                out_bits = new_buffer();
    cai_array array = array_of(buffer, as_value(producer)), mask = array_of(bits, as_value(masker));
    array.mask = &mask;
    fill(buffer, 1, producer);
    fill(bits, -1, masker);
    OK(cai_array_consume_begin(&array, as_value(consumer), CAI_ACCESS_READ, error));
    copy(out, buffer, consumer);
    copy(out_bits, bits, consumer);
    OK(cai_array_consume_end(&array, as_value(consumer), CAI_ACCESS_READ, error));
    fill(buffer, 2, producer);
    fill(bits, 0, masker);
    ASSERT(holds(out, 1, consumer));
    ASSERT(holds(out_bits, -1, consumer));
    CU(cuStreamSynchronize(producer));
    fill(bits, 7, masker);
    OK(cai_array_synchronize(&array, CAI_ACCESS_READ, error));
    CU(cuMemcpyDtoH((int[1]){0}, bits, sizeof(int)));
    mask.stream = 0;
    REFUSED(CAI_ERR_STREAM_ZERO, "mask.stream",
            cai_array_consume_begin(&array, as_value(consumer), CAI_ACCESS_READ, error));
    mask.stream = CAI_STREAM_NONE;
    mask.mask = &mask;
    REFUSED(CAI_ERR_MASK_DEPTH, "mask.mask.mask.mask.mask.mask.mask.mask.mask",
            cai_array_consume_begin(&array, as_value(consumer), CAI_ACCESS_READ, error));
}

/* The array is in order, its mask is not. */
static void mask_of_a_settled_array(cai_stream stream, CUstream consumer) {
    CUstream masker = new_stream();
    CUdeviceptr buffer = new_buffer(), bits = new_buffer(), out_bits = new_buffer();
    cai_array array = array_of(buffer, stream), mask = array_of(bits, as_value(masker));
    array.mask = &mask;
    fill(bits, -1, masker);
    OK(cai_array_consume_begin(&array, as_value(consumer), CAI_ACCESS_READ, error));
    copy(out_bits, bits, consumer);
    OK(cai_array_consume_end(&array, as_value(consumer), CAI_ACCESS_READ, error));
    fill(bits, 0, masker);
    ASSERT(holds(out_bits, -1, consumer));
    CU(cuStreamSynchronize(masker));
}

SHARED_CASE(masks_of_arrays_without_work_to_order) {
    CUstream consumer = new_stream();
    mask_of_a_settled_array(CAI_STREAM_NONE, consumer);
    mask_of_a_settled_array(as_value(consumer), consumer);
}

/* --- unknown streams */

static void conservatively(CUstream producer, CUstream consumer) {
    CUdeviceptr buffer = new_buffer(), out = new_buffer();
    cai_array array = array_of(buffer, CAI_STREAM_UNKNOWN);
    uint32_t reads = CAI_ACCESS_READ | CAI_SYNC_CONSERVATIVE;
    array.version = 2;
    fill(buffer, 1, producer);
    OK(cai_array_consume_begin(&array, as_value(consumer), reads, error));
    copy(out, buffer, consumer);
    OK(cai_array_consume_end(&array, as_value(consumer), reads, error));
    fill(buffer, 2, producer);
    ASSERT(holds(out, 1, consumer));
    ASSERT(holds(buffer, 2, producer));
    fill(buffer, 3, producer);
    OK(cai_array_synchronize(&array, reads, error));
    CU(cuMemcpyDtoH((int[1]){0}, buffer, sizeof(int)));
}

/* The host waits for whatever may be pending, unless the caller answers for it. */
CASE(host_and_an_unknown_stream) {
    CUstream producer = new_stream();
    CUdeviceptr buffer = new_buffer();
    cai_array array = array_of(buffer, CAI_STREAM_UNKNOWN);
    array.version = 2;
    the_shim.reset();
    OK(cai_array_synchronize(&array, CAI_ACCESS_READ | CAI_SYNC_IGNORE, error));
    ASSERT(the_shim.count(NULL) == 0);
    fill(buffer, 1, producer);
    OK(cai_array_synchronize(&array, CAI_ACCESS_READ, error));
    CU(cuMemcpyDtoH((int[1]){0}, buffer, sizeof(int)));
    ASSERT(COUNTED(the_shim.count("cuCtxSynchronize") == 1));
    fill(buffer, 2, producer);
    OK(cai_array_synchronize(&array, CAI_ACCESS_READ | CAI_SYNC_CONSERVATIVE, error));
    CU(cuMemcpyDtoH((int[1]){0}, buffer, sizeof(int)));
    ASSERT(COUNTED(the_shim.count("cuCtxSynchronize") == 2));
    /* Host memory has no stream, and no other device has one that could be waited for. */
    array.device.type = CAI_DEVICE_CPU;
    OK(cai_array_synchronize(&array, CAI_ACCESS_READ, error));
    array.device.type = CAI_DEVICE_ONEAPI;
    REFUSED(CAI_ERR_STREAM_DEVICE, "device.type",
            cai_array_synchronize(&array, CAI_ACCESS_READ, error));
}

SHARED_CASE(conservative) {
    CUstream consumer = new_stream();
    conservatively(new_stream(), consumer);
    conservatively(blocking_stream(), consumer);
    conservatively(CU_STREAM_LEGACY, consumer);
    conservatively(new_stream(), CU_STREAM_PER_THREAD);
}

/* --- the host waits */

SHARED_CASE(host_waits) {
    CUstream producer = new_stream();
    CUdeviceptr buffer = new_buffer();
    cai_array array = array_of(buffer, as_value(producer));
    int host[1] = {0};
    const cai_stream streams[] = {as_value(producer)};
    fill(buffer, 1, producer);
    OK(cai_array_synchronize(&array, CAI_ACCESS_READ, error));
    CU(cuMemcpyDtoH(host, buffer, sizeof host));
    ASSERT(host[0] == 1);
    array.event = new_event();
    fill(buffer, 2, producer);
    OK(cai_array_produce(&array, streams, 1, streams[0], 0, error));
    OK(cai_array_synchronize(&array, CAI_ACCESS_READ, error));
    CU(cuMemcpyDtoH(host, buffer, sizeof host));
    ASSERT(host[0] == 2);
    array = array_of(buffer, CAI_STREAM_LEGACY);
    fill(buffer, 3, CU_STREAM_LEGACY);
    use(context[devices - 1]);
    OK(cai_array_synchronize(&array, CAI_ACCESS_WRITE, error));
    use(context[0]);
    CU(cuMemcpyDtoH(host, buffer, sizeof host));
    ASSERT(host[0] == 3);
}

/* --- streams that are gone */

CASE(stale_handle) {
    /* Handles are reused; the id distinguishes the streams. */
    CUstream consumer = new_stream(), producer = new_stream(), again;
    cai_array array = array_of(new_buffer(), 0);
    const cai_stream streams[] = {as_value(producer)};
    OK(cai_array_produce(&array, streams, 1, streams[0], 0, error));
    ASSERT(array.stream_id != 0 && array.context == context[0]);
    OK(cai_array_consume_begin(&array, as_value(consumer), CAI_ACCESS_READ, error));
    CU(cuStreamDestroy(producer));
    again = new_stream();
    if (again != producer) return; /* a driver that takes its time with handles */
    REFUSED(CAI_ERR_STREAM_STALE, "stream",
            cai_array_consume_begin(&array, as_value(consumer), CAI_ACCESS_READ, error));
    REFUSED(CAI_ERR_STREAM_STALE, "stream",
            cai_array_consume_end(&array, as_value(consumer), CAI_ACCESS_READ, error));
    REFUSED(CAI_ERR_STREAM_STALE, "stream", cai_array_synchronize(&array, CAI_ACCESS_READ, error));
    REFUSED(CAI_ERR_STREAM_STALE, "stream", cai_array_validate(&array, CAI_CHECK_STREAM, error));
}

CASE(events_of_a_context_that_came_back) {
    /* After a reset the primary context has the same handle, and none of the events from before. */
    for (int round = 0; round < 3; ++round) {
        CUstream producer = new_stream(), consumer = new_stream();
        cai_array array = array_of(new_buffer(), as_value(producer));
        exchange_between(producer, consumer, &array, context[0], context[0]);
        CU(cuCtxSynchronize());
        CU(cuDevicePrimaryCtxReset(device[0]));
        CU(cuDevicePrimaryCtxRetain(&context[0], device[0]));
        CU(cuCtxSetCurrent(context[0]));
    }
}

#ifndef ON_HIP
int main(int count, char **words) { return run_cases(count, words); }
#endif
