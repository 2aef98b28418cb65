// Stream-ordered memory: it exists from the allocation to the free, in the order of the streams.
// Reads of work that may run after the free are only claimed.
//
// What a row can say about this is in tests/litmus/stream_ordered.txt.
#include "race_test.h"

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

const struct race_program programs_stream_ordered[] = {
    RACY(pool_used_before_the_allocation),
    CORRECT(pool_used_after_the_allocation),
    END_OF_PROGRAMS,
};
