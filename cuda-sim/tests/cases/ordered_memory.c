// Memory that begins and ends in the order of a stream. [cuMemAllocAsync, cuMemFreeAsync]
#include "case.h"

static CUdeviceptr begin(CUstream stream) {
    CUdeviceptr made;
    OK(cuMemAllocAsync(&made, N, stream));
    return made;
}

static void used_on_its_stream(void) {
    CUstream a = nonblocking();
    CUdeviceptr p = begin(a);
    writes(a, p, N);
    reads(a, p, N);
    OK(cuMemFreeAsync(p, a));
}

static void used_elsewhere_before_it_began(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = begin(a);
    writes(b, p, N);
}

static void used_elsewhere_in_order(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = begin(a);
    after(b, a);
    writes(b, p, N);
    after(a, b);
    OK(cuMemFreeAsync(p, a));
}

static void used_after_a_synchronize(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = begin(a);
    OK(cuStreamSynchronize(a));
    writes(b, p, N);
    OK(cuStreamSynchronize(b));
    OK(cuMemFreeAsync(p, a));
}

// What recording the other stream with the allocator is for.
static void freed_before_another_stream_was_done(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = begin(a);
    after(b, a);
    reads(b, p, N);
    OK(cuMemFreeAsync(p, a));
}

static void freed_on_the_other_stream(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = begin(a);
    writes(a, p, N);
    after(b, a);
    reads(b, p, N);
    OK(cuMemFreeAsync(p, b));
}

static void freed_on_the_other_stream_too_early(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = begin(a);
    after(b, a);
    writes(a, p, N);
    OK(cuMemFreeAsync(p, b));
}

// The same bytes again on the same stream: a new allocation, ordered by the stream.
static void taken_again_on_the_same_stream(void) {
    CUstream a = nonblocking();
    for (int i = 0; i < 5; ++i) {
        CUdeviceptr p = begin(a);
        writes(a, p, N);
        OK(cuMemFreeAsync(p, a));
    }
}

// Whoever gets the bytes on another stream gets them in order: that is the allocator's work.
static void taken_again_on_another_stream(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = begin(a);
    writes(a, p, N);
    OK(cuMemFreeAsync(p, a));
    OK(cuStreamSynchronize(a));
    CUdeviceptr q = begin(b);
    writes(b, q, N);
    OK(cuMemFreeAsync(q, b));
}

// The reader of the first allocation is not ordered before its end, whoever has the bytes now.
static void a_late_reader_of_reused_memory(void) {
    CUstream a = nonblocking(), late = nonblocking();
    CUdeviceptr p = begin(a);
    writes(a, p, N);
    after(late, a);
    reads(late, p, N);
    OK(cuMemFreeAsync(p, a));
    CUdeviceptr q = begin(a);
    writes(a, q, N);
}

static void from_a_pool(void) {
    CUmemoryPool pool;
    CUmemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    OK(cuMemPoolCreate(&pool, &props));
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p;
    OK(cuMemAllocFromPoolAsync(&p, N, pool, a));
    after(b, a);
    writes(b, p, N);
    OK(cuMemFreeAsync(p, b));
    OK(cuStreamSynchronize(b));
    OK(cuMemPoolDestroy(pool));
}

// cuMemFree of such memory does not wait for anything. [cuMemFree]
static void freed_at_once_while_in_use(void) {
    CUstream a = nonblocking();
    CUdeviceptr p = begin(a);
    writes(a, p, N);
    OK(cuMemFree(p));
}

static void freed_at_once_after_a_synchronize(void) {
    CUstream a = nonblocking();
    CUdeviceptr p = begin(a);
    writes(a, p, N);
    OK(cuStreamSynchronize(a));
    OK(cuMemFree(p));
}

// After its end the memory is nobody's, in whatever order the device comes to it.
static void used_after_its_end(void) {
    CUstream a = nonblocking();
    CUdeviceptr p = begin(a);
    writes(a, p, N);
    OK(cuMemFreeAsync(p, a));
    reads(a, p, N);
}

const struct race_case ordered_memory_cases[] = {
    CORRECT(used_on_its_stream),
    RACY(used_elsewhere_before_it_began),
    CORRECT(used_elsewhere_in_order),
    CORRECT(used_after_a_synchronize),
    RACY(freed_before_another_stream_was_done),
    CORRECT(freed_on_the_other_stream),
    RACY(freed_on_the_other_stream_too_early),
    CORRECT(taken_again_on_the_same_stream),
    CORRECT(taken_again_on_another_stream),
    RACY(a_late_reader_of_reused_memory),
    CORRECT(from_a_pool),
    RACY(freed_at_once_while_in_use),
    CORRECT(freed_at_once_after_a_synchronize),
    RACY(used_after_its_end),
    {NULL, 0, NULL},
};
