// Stream-ordered memory: it exists from the allocation to the free, in the order of the streams.
// Reads of work that may run after the free are only claimed.
#include "race_test.h"

static CUdeviceptr alloc_in(CUstream stream) {
    CUdeviceptr at;
    CHECK(cuMemAllocAsync(&at, N, stream));
    return at;
}

// Allocation, use and free in one stream.
static void all_in_one_stream(void) {
    CUstream a = make_nonblocking();
    CUdeviceptr p = alloc_in(a);
    writes(a, p, N);
    CHECK(cuMemFreeAsync(p, a));
}

// Another stream uses the memory before the allocation has happened.
static void used_before_the_allocation(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc_in(a);
    writes(b, p, N);
}

// It waits for an event behind the allocation.
static void used_after_the_allocation(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc_in(a);
    order(a, b);
    writes(b, p, N);
}

// The event is from before the allocation.
static void event_before_the_allocation(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    order(a, b);
    CUdeviceptr p = alloc_in(a);
    writes(b, p, N);
}

// The host waits for the stream of the allocation; then every stream may use it.
static void host_waits_for_the_allocation(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc_in(a);
    CHECK(cuStreamSynchronize(a));
    writes(b, p, N);
}

// Allocated in the legacy stream, used in a blocking one: ordered.
static void allocated_in_legacy_used_in_blocking(void) {
    CUdeviceptr p = alloc_in(CU_STREAM_LEGACY);
    writes(make_stream(), p, N);
}

// Allocated in the legacy stream, used in a non-blocking one.
static void allocated_in_legacy_used_in_nonblocking(void) {
    CUdeviceptr p = alloc_in(CU_STREAM_LEGACY);
    writes(make_nonblocking(), p, N);
}

// Freed in its stream while another stream may still read: what record_stream is for.
static void freed_while_another_stream_reads(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc_in(a);
    writes(a, p, N);
    order(a, b);
    claims_read(b, p, N);
    CHECK(cuMemFreeAsync(p, a));
}

// The stream that frees waits for the reader.
static void freed_after_another_stream_reads(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc_in(a);
    writes(a, p, N);
    order(a, b);
    reads(b, p, N);
    order(b, a);
    CHECK(cuMemFreeAsync(p, a));
}

// Two readers; the free waits for one.
static void freed_after_one_of_two_readers(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking(), c = make_nonblocking();
    CUdeviceptr p = alloc_in(a);
    order(a, b);
    order(a, c);
    claims_read(b, p, N);
    claims_read(c, p, N);
    order(b, a);
    CHECK(cuMemFreeAsync(p, a));
}

// Freed in the stream that used it last, not in that of the allocation.
static void freed_in_the_stream_of_the_last_use(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc_in(a);
    writes(a, p, N);
    order(a, b);
    reads(b, p, N);
    CHECK(cuMemFreeAsync(p, b));
}

// Freed in a stream that has not waited for the last use.
static void freed_in_an_unrelated_stream(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc_in(a);
    order(a, b);
    claims_write(a, p, N);
    CHECK(cuMemFreeAsync(p, b));
}

// A use in another stream after the free, without order.
static void used_elsewhere_after_the_free(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc_in(a);
    order(a, b);
    CHECK(cuMemFreeAsync(p, a));
    claims_write(b, p, N);
}

// The pool hands the memory out again in the same stream.
static void handed_out_again_in_the_stream(void) {
    CUstream a = make_nonblocking();
    for (int i = 0; i < 4; ++i) {
        CUdeviceptr p = alloc_in(a);
        writes(a, p, N);
        CHECK(cuMemFreeAsync(p, a));
    }
}

// In another stream: if it is the same memory, the allocator orders the new life after the old one.
static void handed_out_again_in_another_stream(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc_in(a);
    writes(a, p, N);
    CHECK(cuMemFreeAsync(p, a));
    CUdeviceptr q = alloc_in(b);
    writes(b, q, N);
    CHECK(cuMemFreeAsync(q, b));
}

// The same after an event, which allows the pool to reuse the memory without a wait of its own.
static void handed_out_again_after_an_event(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc_in(a);
    writes(a, p, N);
    CHECK(cuMemFreeAsync(p, a));
    order(a, b);
    CUdeviceptr q = alloc_in(b);
    writes(b, q, N);
    CHECK(cuMemFreeAsync(q, b));
}

// The allocator orders the two lives; a third stream that uses the second life has to wait itself.
static void second_life_used_elsewhere(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking(), c = make_nonblocking();
    CUdeviceptr p = alloc_in(a);
    writes(a, p, N);
    CHECK(cuMemFreeAsync(p, a));
    CUdeviceptr q = alloc_in(b);
    writes(c, q, N);
}

// Ping-pong of allocations between two streams, each with its own memory.
static void two_streams_with_memory_of_their_own(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    for (int i = 0; i < 3; ++i) {
        CUdeviceptr p = alloc_in(a), q = alloc_in(b);
        writes(a, p, N);
        writes(b, q, N);
        CHECK(cuMemFreeAsync(p, a));
        CHECK(cuMemFreeAsync(q, b));
    }
}

// A pool of one's own has the same rules.
static void pool_used_before_the_allocation(void) {
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUmemoryPool pool;
    CUdeviceptr p;
    CHECK(cuMemPoolCreate(&pool, &properties));
    CHECK(cuMemAllocFromPoolAsync(&p, N, pool, a));
    writes(b, p, N);
}

// And is as quiet where there is order.
static void pool_used_after_the_allocation(void) {
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUmemoryPool pool;
    CUdeviceptr p;
    CHECK(cuMemPoolCreate(&pool, &properties));
    CHECK(cuMemAllocFromPoolAsync(&p, N, pool, a));
    order(a, b);
    writes(b, p, N);
    CHECK(cuMemFreeAsync(p, b));
}

// cuMemFree takes such memory, too; the host has waited for the last use.
static void freed_by_the_host_after_a_wait(void) {
    CUstream a = make_nonblocking();
    CUdeviceptr p = alloc_in(a);
    writes(a, p, N);
    CHECK(cuStreamSynchronize(a));
    CHECK(cuMemFree(p));
}

// Memory of cuMemAlloc freed in stream order, while another stream may read it.
static void plain_memory_freed_in_order_too_early(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N);
    claims_read(b, p, N);
    CHECK(cuMemFreeAsync(p, a));
}

// The same after the reader.
static void plain_memory_freed_in_order(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N);
    reads(b, p, N);
    order(b, a);
    CHECK(cuMemFreeAsync(p, a));
}

// Blocking streams: the legacy stream frees after all of them.
static void freed_in_legacy_after_blocking_streams(void) {
    CUstream a = make_stream(), b = make_stream();
    CUdeviceptr p = alloc_in(CU_STREAM_LEGACY);
    reads(a, p, N);
    reads(b, p, N);
    CHECK(cuMemFreeAsync(p, CU_STREAM_LEGACY));
}

// The legacy stream does not wait for the non-blocking reader.
static void freed_in_legacy_before_a_nonblocking_reader(void) {
    CUstream a = make_nonblocking();
    CUdeviceptr p = alloc_in(CU_STREAM_LEGACY);
    order(CU_STREAM_LEGACY, a);
    claims_read(a, p, N);
    CHECK(cuMemFreeAsync(p, CU_STREAM_LEGACY));
}

// A reader of the first life comes late, when the memory may have a second one in the first stream.
static void late_reader_of_the_first_life(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc_in(a);
    order(a, b);
    CHECK(cuMemFreeAsync(p, a));
    claims_write(a, alloc_in(a), N);
    claims_read(b, p, N);
}

const struct race_program programs_stream_ordered[] = {
    CORRECT(all_in_one_stream),
    RACY(used_before_the_allocation),
    CORRECT(used_after_the_allocation),
    RACY(event_before_the_allocation),
    CORRECT(host_waits_for_the_allocation),
    CORRECT(allocated_in_legacy_used_in_blocking),
    RACY(allocated_in_legacy_used_in_nonblocking),
    RACY(freed_while_another_stream_reads),
    CORRECT(freed_after_another_stream_reads),
    RACY(freed_after_one_of_two_readers),
    CORRECT(freed_in_the_stream_of_the_last_use),
    RACY(freed_in_an_unrelated_stream),
    RACY(used_elsewhere_after_the_free),
    CORRECT(handed_out_again_in_the_stream),
    CORRECT(handed_out_again_in_another_stream),
    CORRECT(handed_out_again_after_an_event),
    RACY(second_life_used_elsewhere),
    CORRECT(two_streams_with_memory_of_their_own),
    RACY(pool_used_before_the_allocation),
    CORRECT(pool_used_after_the_allocation),
    CORRECT(freed_by_the_host_after_a_wait),
    RACY(plain_memory_freed_in_order_too_early),
    CORRECT(plain_memory_freed_in_order),
    CORRECT(freed_in_legacy_after_blocking_streams),
    RACY(freed_in_legacy_before_a_nonblocking_reader),
    RACY(late_reader_of_the_first_life),
    END_OF_PROGRAMS,
};
