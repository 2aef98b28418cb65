// cuMemFree and cuMemFreeHost are writes by the host: they may wait for the device, and need not.
// Work that may run after a free is only claimed.
#include "race_test.h"

static CUstream a, b;

static CUdeviceptr memory(void) {
    a = make_nonblocking();
    b = make_nonblocking();
    return alloc(N);
}

// A kernel may still read what is freed.
static void freed_while_read(void) {
    CUdeviceptr p = memory();
    claims_read(a, p, N);
    CHECK(cuMemFree(p));
}

// Or write it.
static void freed_while_written(void) {
    CUdeviceptr p = memory();
    claims_write(a, p, N);
    CHECK(cuMemFree(p));
}

// One byte in use is enough.
static void freed_while_one_byte_is_read(void) {
    CUdeviceptr p = memory();
    claims_read(a, p + N - 1, 1);
    CHECK(cuMemFree(p));
}

// The stream was waited for.
static void freed_after_the_stream(void) {
    CUdeviceptr p = memory();
    writes(a, p, N);
    CHECK(cuStreamSynchronize(a));
    CHECK(cuMemFree(p));
}

// Another stream was waited for.
static void freed_after_another_stream(void) {
    CUdeviceptr p = memory();
    claims_write(a, p, N);
    CHECK(cuStreamSynchronize(b));
    CHECK(cuMemFree(p));
}

// An event was waited for.
static void freed_after_the_event(void) {
    CUdeviceptr p = memory();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CHECK(cuEventSynchronize(e));
    CHECK(cuMemFree(p));
}

// The stream waits for the event, but the host does not.
static void freed_after_an_event_of_the_streams(void) {
    CUdeviceptr p = memory();
    claims_write(a, p, N);
    order(a, b);
    CHECK(cuMemFree(p));
}

// The context was waited for.
static void freed_after_the_context(void) {
    CUdeviceptr p = memory();
    writes(a, p, N);
    reads(make_stream(), alloc(N), N);
    CHECK(cuCtxSynchronize());
    CHECK(cuMemFree(p));
}

// A query said that all was done.
static void freed_after_a_query(void) {
    CUdeviceptr p = memory();
    CUresult result;
    writes(a, p, N);
    while ((result = cuStreamQuery(a)) == CUDA_ERROR_NOT_READY) {
    }
    CHECK(result);
    CHECK(cuMemFree(p));
}

// Two readers; one was waited for.
static void freed_after_one_of_two_readers(void) {
    CUdeviceptr p = memory();
    claims_read(a, p, N);
    claims_read(b, p, N);
    CHECK(cuStreamSynchronize(a));
    CHECK(cuMemFree(p));
}

// Both were.
static void freed_after_both_readers(void) {
    CUdeviceptr p = memory();
    reads(a, p, N);
    reads(b, p, N);
    CHECK(cuStreamSynchronize(a));
    CHECK(cuStreamSynchronize(b));
    CHECK(cuMemFree(p));
}

// A synchronous copy to the host waits for blocking streams.
static void freed_after_a_synchronous_copy(void) {
    static char host[N];
    CUdeviceptr p = memory();
    writes(make_stream(), p, N);
    CHECK(cuMemcpyDtoH(host, p, N));
    CHECK(cuMemFree(p));
}

// A synchronous copy between other memory does not wait for the non-blocking stream.
static void freed_after_an_unrelated_copy(void) {
    static char host[N];
    CUdeviceptr p = memory();
    claims_write(a, p, N);
    CHECK(cuMemcpyDtoH(host, alloc(N), N));
    CHECK(cuMemFree(p));
}

// Another allocation is freed.
static void another_allocation_freed(void) {
    CUdeviceptr p = memory(), q = alloc(N);
    writes(a, p, N);
    CHECK(cuMemFree(q));
}

// Allocated, used, waited for, freed; the next allocation may have the same address and no history.
static void address_used_again(void) {
    CUdeviceptr p = memory();
    writes(a, p, N);
    CHECK(cuStreamSynchronize(a));
    CHECK(cuMemFree(p));
    writes(b, alloc(N), N);
}

// The pending read of a freed allocation is a race once, and none with the next owner of the
// address.
static void freed_too_early_and_used_again(void) {
    CUdeviceptr p = memory();
    claims_write(a, p, N);
    CHECK(cuMemFree(p));
    claims_write(b, alloc(N), N);
}

// A stream destroyed with work pending has not been waited for.
static void freed_after_the_stream_was_destroyed(void) {
    CUdeviceptr p = memory();
    claims_write(a, p, N);
    CHECK(cuStreamDestroy(a));
    CHECK(cuMemFree(p));
}

// Memory of another context's work.
static void freed_after_the_wrong_context(void) {
    CUdeviceptr p = alloc_managed(N);
    claims_write(make_nonblocking(), p, N);
    second_context();
    CHECK(cuCtxSynchronize());
    CHECK(cuMemFree(p));
}

// Managed memory.
static void managed_freed_while_written(void) {
    CUdeviceptr p = alloc_managed(N);
    claims_write(make_nonblocking(), p, N);
    CHECK(cuMemFree(p));
}

// Pinned memory that a kernel may still read.
static void pinned_freed_while_read(void) {
    char *host = alloc_pinned(N);
    claims_read(make_nonblocking(), at_device(host), N);
    CHECK(cuMemFreeHost(host));
}

// Pinned memory that was waited for.
static void pinned_freed_after_the_stream(void) {
    char *host = alloc_pinned(N);
    CUstream stream = make_nonblocking();
    CHECK(cuMemcpyHtoDAsync(alloc(N), host, N, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemFreeHost(host));
}

static void *frees(void *at) {
    CHECK(cuMemFree(*(CUdeviceptr *)at));
    return NULL;
}

// Another thread frees what this one's stream may use.
static void freed_by_another_thread(void) {
    CUdeviceptr p = memory();
    claims_write(a, p, N);
    finish(start(frees, &p));
}

// This thread waited before it started the other.
static void freed_by_another_thread_after_a_wait(void) {
    CUdeviceptr p = memory();
    writes(a, p, N);
    CHECK(cuStreamSynchronize(a));
    finish(start(frees, &p));
}

const struct race_program programs_memory_free[] = {
    RACY(freed_while_read),
    RACY(freed_while_written),
    RACY(freed_while_one_byte_is_read),
    CORRECT(freed_after_the_stream),
    RACY(freed_after_another_stream),
    CORRECT(freed_after_the_event),
    RACY(freed_after_an_event_of_the_streams),
    CORRECT(freed_after_the_context),
    CORRECT(freed_after_a_query),
    RACY(freed_after_one_of_two_readers),
    CORRECT(freed_after_both_readers),
    CORRECT(freed_after_a_synchronous_copy),
    RACY(freed_after_an_unrelated_copy),
    CORRECT(another_allocation_freed),
    CORRECT(address_used_again),
    RACY(freed_too_early_and_used_again),
    RACY(freed_after_the_stream_was_destroyed),
    RACY(freed_after_the_wrong_context),
    RACY(managed_freed_while_written),
    RACY(pinned_freed_while_read),
    CORRECT(pinned_freed_after_the_stream),
    RACY(freed_by_another_thread),
    CORRECT(freed_by_another_thread_after_a_wait),
    END_OF_PROGRAMS,
};
