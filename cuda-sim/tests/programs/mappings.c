// Physical memory at several addresses, and operations on several ranges in one call. [cuMemMap,
// cuMemDiscardBatchAsync, cuMemcpyBatchAsync]
#include "race_test.h"

static size_t size_of_mapping(const CUmemAllocationProp *props) {
    size_t size;
    CHECK(cuMemGetAllocationGranularity(&size, props, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    return size;
}

static CUmemAllocationProp on_device(void) {
    CUmemAllocationProp props;
    memset(&props, 0, sizeof props);
    props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return props;
}

static CUdeviceptr map(CUmemGenericAllocationHandle memory) {
    const CUmemAllocationProp props = on_device();
    const size_t size = size_of_mapping(&props);
    const CUmemAccessDesc access = {.location = props.location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at;
    CHECK(cuMemAddressReserve(&at, size, 0, 0, 0));
    CHECK(cuMemMap(at, size, 0, memory, 0));
    CHECK(cuMemSetAccess(at, size, &access, 1));
    return at;
}

static CUmemGenericAllocationHandle physical(void) {
    const CUmemAllocationProp props = on_device();
    CUmemGenericAllocationHandle memory;
    CHECK(cuMemCreate(&memory, size_of_mapping(&props), &props, 0));
    return memory;
}

static void one_memory_at_two_addresses(void) {
    CUmemGenericAllocationHandle memory = physical();
    CUdeviceptr p = map(memory), q = map(memory);
    writes(make_nonblocking(), p, N);
    reads(make_nonblocking(), q, N);
}

static void one_memory_at_two_addresses_in_order(void) {
    CUmemGenericAllocationHandle memory = physical();
    CUdeviceptr p = map(memory), q = map(memory);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    writes(a, p, N);
    order(a, b);
    reads(b, q, N);
    writes(b, p, N);
}

static void parts_at_two_addresses(void) {
    CUmemGenericAllocationHandle memory = physical();
    CUdeviceptr p = map(memory), q = map(memory);
    writes(make_nonblocking(), p, N);
    writes(make_nonblocking(), q + N, N);
}

static void two_memories(void) {
    CUdeviceptr p = map(physical()), q = map(physical());
    writes(make_nonblocking(), p, N);
    writes(make_nonblocking(), q, N);
}

static void imported_again(void) {
    CUmemGenericAllocationHandle memory = physical(), again;
    int file;
    CHECK(cuMemExportToShareableHandle(&file, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CHECK(cuMemImportFromShareableHandle(&again, (void *)(uintptr_t)file,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    CUdeviceptr p = map(memory), q = map(again);
    writes(make_nonblocking(), p, N);
    reads(make_nonblocking(), q, N);
}

// The end of one mapping concerns only work that uses its address.
static void the_other_address_is_unmapped(void) {
    const CUmemAllocationProp props = on_device();
    CUmemGenericAllocationHandle memory = physical();
    CUdeviceptr p = map(memory), q = map(memory);
    writes(make_nonblocking(), p, N);
    CHECK(cuMemUnmap(q, size_of_mapping(&props)));
}

static void mapped_again_during_work(void) {
    CUmemGenericAllocationHandle memory = physical();
    CUdeviceptr p = map(memory);
    CUstream a = make_nonblocking();
    writes(a, p, N);
    CUdeviceptr q = map(memory);
    reads(a, q, N);
}

static void number_at_two_addresses(int early) {
    CUmemGenericAllocationHandle memory = physical();
    CUdeviceptr f = map(memory), g = map(memory), p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CHECK(cuMemsetD32(f, 0, 1));
    CHECK(cuCtxSynchronize());
    if (early) CHECK(cuStreamWaitValue32(b, g, 1, CU_STREAM_WAIT_VALUE_GEQ));
    writes(a, p, N);
    CHECK(cuStreamWriteValue32(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    if (!early) CHECK(cuStreamWaitValue32(b, g, 1, CU_STREAM_WAIT_VALUE_GEQ));
    reads(b, p, N);
}

static void number_waited_for_at_another_address(void) { number_at_two_addresses(0); }
static void number_written_at_another_address(void) { number_at_two_addresses(1); }

#if CUDA_VERSION >= 13000
static void discard(CUstream stream, CUdeviceptr at, size_t n, int prefetch) {
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    size_t first = 0;
    if (prefetch) {
        CHECK(cuMemDiscardAndPrefetchBatchAsync(&at, &n, 1, &here, &first, 1, 0, stream));
    } else {
        CHECK(cuMemDiscardBatchAsync(&at, &n, 1, 0, stream));
    }
}

static void discarded_during_a_read(void) {
    CUdeviceptr p = alloc_managed(N);
    reads(make_nonblocking(), p, N);
    discard(make_nonblocking(), p, N, 0);
}

static void discarded_and_prefetched_during_a_read(void) {
    CUdeviceptr p = alloc_managed(N);
    reads(make_nonblocking(), p, N);
    discard(make_nonblocking(), p, N, 1);
}

static void discarded_after_a_read(void) {
    CUdeviceptr p = alloc_managed(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    reads(a, p, N);
    discard(a, p, N, 0);
    discard(a, p, N, 1);
    order(a, b);
    writes(b, p, N);
}

static void other_bytes_discarded(void) {
    CUdeviceptr p = alloc_managed(2 * N);
    reads(make_nonblocking(), p, N);
    discard(make_nonblocking(), p + N, N, 0);
}

static void batch(CUstream stream, CUdeviceptr to, CUdeviceptr from, CUmemcpySrcAccessOrder when) {
    CUmemcpyAttributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.srcAccessOrder = when;
    size_t n = N, first = 0;
    CHECK(cuMemcpyBatchAsync(&to, &from, &n, 1, &attributes, &first, 1, stream));
}

// The source is read before the call returns, so the host may change it afterwards.
static void source_read_during_the_call(void) {
    void *from = alloc_pinned(N);
    batch(make_nonblocking(), alloc(N), at_device(from),
          CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
    host_writes(from, N);
}

static void source_read_in_stream_order(void) {
    void *from = alloc_pinned(N);
    batch(make_nonblocking(), alloc(N), at_device(from), CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
    host_writes(from, N);
}

static void source_read_at_any_time(void) {
    void *from = alloc_pinned(N);
    batch(make_nonblocking(), alloc(N), at_device(from), CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
    host_writes(from, N);
}

// It does not wait for earlier work of the stream then.
static void source_written_in_the_stream(CUmemcpySrcAccessOrder when) {
    CUdeviceptr from = alloc(N);
    CUstream a = make_nonblocking();
    writes(a, from, N);
    batch(a, alloc(N), from, when);
}

static void source_pending_during_the_call(void) {
    source_written_in_the_stream(CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
}
static void source_pending_at_any_time(void) {
    source_written_in_the_stream(CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
}
static void source_pending_in_stream_order(void) {
    source_written_in_the_stream(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
}

static void source_changed_after_the_batch(void) {
    CUdeviceptr from = alloc(N);
    CUstream a = make_nonblocking();
    batch(a, alloc(N), from, CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
    writes(a, from, N);
}

static void target_is_written_in_stream_order(void) {
    void *from = alloc_pinned(N);
    CUdeviceptr to = alloc(N);
    batch(make_nonblocking(), to, at_device(from), CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
    reads(make_nonblocking(), to, N);
}
#endif

const struct race_program programs_mappings[] = {
    RACY(one_memory_at_two_addresses),
    CORRECT(one_memory_at_two_addresses_in_order),
    CORRECT(parts_at_two_addresses),
    CORRECT(two_memories),
    RACY(imported_again),
    CORRECT(the_other_address_is_unmapped),
    CORRECT(mapped_again_during_work),
    CORRECT(number_waited_for_at_another_address),
    CORRECT(number_written_at_another_address),
#if CUDA_VERSION >= 13000
    RACY(discarded_during_a_read),
    RACY(discarded_and_prefetched_during_a_read),
    CORRECT(discarded_after_a_read),
    CORRECT(other_bytes_discarded),
    CORRECT(source_read_during_the_call),
    RACY(source_read_in_stream_order),
    RACY(source_read_at_any_time),
    RACY(source_pending_during_the_call),
    RACY(source_pending_at_any_time),
    CORRECT(source_pending_in_stream_order),
    CORRECT(source_changed_after_the_batch),
    RACY(target_is_written_in_stream_order),
#endif
    END_OF_PROGRAMS,
};
