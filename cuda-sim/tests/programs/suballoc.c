// Allocators that divide a large allocation, with a stream for each part, and report it.
#include "race_test.h"

static CUstream a, b;

static CUdeviceptr pool(void) {
    a = make_nonblocking();
    b = make_nonblocking();
    return alloc(4 * N);
}

static void take(CUdeviceptr at, CUstream stream) {
    cudasim_suballoc((void *)(uintptr_t)at, N, stream);
}
static void give(CUdeviceptr at, CUstream stream) {
    cudasim_subfree((void *)(uintptr_t)at, N, stream);
}

// Taken, used and returned in one stream, several times.
static void one_stream(void) {
    CUdeviceptr p = pool();
    for (int i = 0; i < 3; ++i) {
        take(p, a);
        writes(a, p, N);
        give(p, a);
    }
}

// Returned in its stream while another one may still read it: the allocator does not know of that
// stream.
static void returned_while_another_stream_reads(void) {
    CUdeviceptr p = pool();
    take(p, a);
    writes(a, p, N);
    order(a, b);
    reads(b, p, N);
    give(p, a);
}

// The owner's stream waits for the reader first.
static void returned_after_another_stream_reads(void) {
    CUdeviceptr p = pool();
    take(p, a);
    writes(a, p, N);
    order(a, b);
    reads(b, p, N);
    order(b, a);
    give(p, a);
}

// The host waits for the reader before the return.
static void returned_after_the_host_waits(void) {
    CUdeviceptr p = pool();
    take(p, a);
    order(a, b);
    reads(b, p, N);
    CHECK(cuStreamSynchronize(b));
    give(p, a);
}

// The host waits for the owner's stream, not for the reader's.
static void returned_after_the_host_waits_for_the_wrong_stream(void) {
    CUdeviceptr p = pool();
    take(p, a);
    order(a, b);
    reads(b, p, N);
    CHECK(cuStreamSynchronize(a));
    give(p, a);
}

// Allocated for one stream and used in another, without order.
static void used_in_a_stream_that_does_not_wait(void) {
    CUdeviceptr p = pool();
    take(p, a);
    writes(b, p, N);
}

// With order.
static void used_in_a_stream_that_waits(void) {
    CUdeviceptr p = pool();
    take(p, a);
    order(a, b);
    writes(b, p, N);
}

// Used in another stream after the return, and before anything else happens to it.
static void used_elsewhere_after_the_return(void) {
    CUdeviceptr p = pool();
    take(p, a);
    order(a, b);
    give(p, a);
    writes(b, p, N);
}

// The next user of the stream has it when the late user comes.
static void used_elsewhere_by_the_last_user_but_one(void) {
    CUdeviceptr p = pool();
    take(p, a);
    order(a, b);
    give(p, a);
    take(p, a);
    reads(b, p, N);
}

// Two parts for two streams.
static void two_parts(void) {
    CUdeviceptr p = pool();
    take(p, a);
    take(p + N, b);
    writes(a, p, N);
    writes(b, p + N, N);
    give(p, a);
    give(p + N, b);
}

// One user writes a byte too many, into the part of the other.
static void overrun_into_the_next_part(void) {
    CUdeviceptr p = pool();
    take(p, a);
    take(p + N, b);
    writes(a, p, N + 1);
    writes(b, p + N, N);
}

// Handed from stream to stream; the allocator lets the new stream wait for the old one.
static void handed_on_with_an_event(void) {
    CUdeviceptr p = pool();
    take(p, a);
    writes(a, p, N);
    give(p, a);
    order(a, b);
    take(p, b);
    writes(b, p, N);
    give(p, b);
}

// An allocator without reports: two users in two streams race, as they do for the driver.
static void handed_on_without_a_word(void) {
    CUdeviceptr p = pool();
    writes(a, p, N);
    writes(b, p, N);
}

// An allocator without reports that orders its users is correct.
static void handed_on_without_a_word_with_an_event(void) {
    CUdeviceptr p = pool();
    writes(a, p, N);
    order(a, b);
    writes(b, p, N);
}

// Parts of pinned memory for the host: returned while a copy may still read them.
static void pinned_part_returned_too_early(void) {
    char *host = alloc_pinned(2 * N);
    pool();
    cudasim_suballoc(host, N, CUDASIM_HOST);
    host_writes(host, N);
    CHECK(cuMemcpyHtoDAsync(alloc(N), host, N, a));
    cudasim_subfree(host, N, CUDASIM_HOST);
}

// Returned after the stream was waited for.
static void pinned_part_returned_after_a_wait(void) {
    char *host = alloc_pinned(2 * N);
    pool();
    cudasim_suballoc(host, N, CUDASIM_HOST);
    host_writes(host, N);
    CHECK(cuMemcpyHtoDAsync(alloc(N), host, N, a));
    CHECK(cuStreamSynchronize(a));
    cudasim_subfree(host, N, CUDASIM_HOST);
}

// Returned in the order of the stream of the copy.
static void pinned_part_returned_in_the_stream(void) {
    char *host = alloc_pinned(2 * N);
    pool();
    cudasim_suballoc(host, N, a);
    CHECK(cuMemcpyHtoDAsync(alloc(N), host, N, a));
    cudasim_subfree(host, N, a);
}

// The whole pool is returned to the driver while a part is in use.
static void pool_freed_while_a_part_is_in_use(void) {
    CUdeviceptr p = pool();
    take(p + N, a);
    claims_write(a, p + N, N);
    CHECK(cuMemFree(p));
}

// All parts came back and were waited for.
static void pool_freed_after_all_parts(void) {
    CUdeviceptr p = pool();
    take(p, a);
    take(p + N, b);
    writes(a, p, N);
    writes(b, p + N, N);
    give(p, a);
    give(p + N, b);
    CHECK(cuCtxSynchronize());
    CHECK(cuMemFree(p));
}

const struct race_program programs_suballoc[] = {
    CORRECT(one_stream),
    RACY(returned_while_another_stream_reads),
    CORRECT(returned_after_another_stream_reads),
    CORRECT(returned_after_the_host_waits),
    RACY(returned_after_the_host_waits_for_the_wrong_stream),
    RACY(used_in_a_stream_that_does_not_wait),
    CORRECT(used_in_a_stream_that_waits),
    RACY(used_elsewhere_after_the_return),
    RACY(used_elsewhere_by_the_last_user_but_one),
    CORRECT(two_parts),
    RACY(overrun_into_the_next_part),
    CORRECT(handed_on_with_an_event),
    RACY(handed_on_without_a_word),
    CORRECT(handed_on_without_a_word_with_an_event),
    RACY(pinned_part_returned_too_early),
    CORRECT(pinned_part_returned_after_a_wait),
    CORRECT(pinned_part_returned_in_the_stream),
    RACY(pool_freed_while_a_part_is_in_use),
    CORRECT(pool_freed_after_all_parts),
    END_OF_PROGRAMS,
};
