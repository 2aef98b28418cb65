// Handles come back: a stream or event made after one was destroyed may have its handle, and is
// another. Work of a destroyed stream is still done.
#include "race_test.h"

// The new stream may have the handle of the old one; waiting for it does not wait for the old one's
// work.
static void wait_for_a_new_stream(void) {
    char *host = alloc_pinned(N);
    CUstream a = make_nonblocking();
    writes(a, at_device(host), N);
    CHECK(cuStreamDestroy(a));
    CUstream b = make_nonblocking();
    CHECK(cuStreamSynchronize(b));
    host_reads(host, N);
}

// Waiting for the old one before it is destroyed does.
static void wait_before_destroying(void) {
    char *host = alloc_pinned(N);
    CUstream a = make_nonblocking();
    writes(a, at_device(host), N);
    CHECK(cuStreamSynchronize(a));
    CHECK(cuStreamDestroy(a));
    host_reads(host, N);
}

// The context still knows of the work of a destroyed stream.
static void wait_for_the_context_after_destroying(void) {
    char *host = alloc_pinned(N);
    CUstream a = make_nonblocking();
    writes(a, at_device(host), N);
    CHECK(cuStreamDestroy(a));
    CHECK(cuCtxSynchronize());
    host_reads(host, N);
}

// The same with a new stream in between.
static void wait_for_the_context_after_a_new_stream(void) {
    char *host = alloc_pinned(N);
    CUstream a = make_nonblocking();
    writes(a, at_device(host), N);
    CHECK(cuStreamDestroy(a));
    writes(make_nonblocking(), alloc(N), N);
    CHECK(cuCtxSynchronize());
    host_reads(host, N);
}

// Destroying a stream does not wait for its work.
static void destroying_does_not_wait(void) {
    char *host = alloc_pinned(N);
    CUstream a = make_nonblocking();
    writes(a, at_device(host), N);
    CHECK(cuStreamDestroy(a));
    host_reads(host, N);
}

// Work in the old stream and work in the new one are not in one stream.
static void old_and_new_stream(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking();
    writes(a, p, N);
    CHECK(cuStreamDestroy(a));
    writes(make_nonblocking(), p, N);
}

// They are ordered by an event that was recorded in time.
static void old_and_new_stream_with_an_event(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CHECK(cuStreamDestroy(a));
    CUstream b = make_nonblocking();
    CHECK(cuStreamWaitEvent(b, e, 0));
    writes(b, p, N);
}

// An event recorded in the new stream knows nothing of the old one.
static void event_in_the_new_stream(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), c = make_nonblocking();
    writes(a, p, N);
    CHECK(cuStreamDestroy(a));
    order(make_nonblocking(), c);
    reads(c, p, N);
}

// Old and new stream on different bytes.
static void old_and_new_stream_apart(void) {
    CUdeviceptr p = alloc(2 * N);
    CUstream a = make_nonblocking();
    writes(a, p, N);
    CHECK(cuStreamDestroy(a));
    writes(make_nonblocking(), p + N, N);
}

// What the old stream had waited for, the new one has not.
static void waits_do_not_come_back(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    writes(a, p, N);
    order(a, b);
    CHECK(cuStreamDestroy(b));
    reads(make_nonblocking(), p, N);
}

// The new stream is blocking; the old one, whose handle it may have, was not.
static void flags_do_not_come_back(void) {
    CUdeviceptr p = alloc(N);
    CHECK(cuStreamDestroy(make_nonblocking()));
    CUstream b = make_stream();
    writes(CU_STREAM_LEGACY, p, N);
    reads(b, p, N);
}

// The other way round: the new one is exempt.
static void exemption_of_the_new_stream(void) {
    CUdeviceptr p = alloc(N);
    CHECK(cuStreamDestroy(make_stream()));
    CUstream b = make_nonblocking();
    writes(CU_STREAM_LEGACY, p, N);
    reads(b, p, N);
}

// A new event was never recorded, also when it has the handle of one that was.
static void wait_for_a_new_event(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUevent old = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(old, a));
    CHECK(cuEventDestroy(old));
    CHECK(cuStreamWaitEvent(b, make_event(), 0));
    reads(b, p, N);
}

// The wait for the old event stays when a new event has its handle and is recorded elsewhere.
static void new_event_after_the_wait(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking(), other = make_nonblocking();
    CUevent old = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(old, a));
    CHECK(cuStreamWaitEvent(b, old, 0));
    CHECK(cuEventDestroy(old));
    CHECK(cuEventRecord(make_event(), other));
    reads(b, p, N);
}

// The host waits for a new event instead of the old one.
static void host_waits_for_a_new_event(void) {
    char *host = alloc_pinned(N);
    CUstream a = make_nonblocking();
    CUevent old = make_event();
    writes(a, at_device(host), N);
    CHECK(cuEventRecord(old, a));
    CHECK(cuEventDestroy(old));
    CHECK(cuEventSynchronize(make_event()));
    host_reads(host, N);
}

// A pool of streams: each is waited for before it is given back and used again.
static void stream_used_again(void) {
    CUdeviceptr p = alloc(N);
    for (int i = 0; i < 3; ++i) {
        CUstream a = make_nonblocking();
        writes(a, p, N);
        CHECK(cuStreamSynchronize(a));
        CHECK(cuStreamDestroy(a));
    }
}

// Without waiting, three streams.
static void stream_made_again_without_waiting(void) {
    CUdeviceptr p = alloc(N);
    for (int i = 0; i < 3; ++i) {
        CUstream a = make_nonblocking();
        writes(a, p, N);
        CHECK(cuStreamDestroy(a));
    }
}

const struct race_program programs_handles[] = {
    RACY(wait_for_a_new_stream),
    CORRECT(wait_before_destroying),
    CORRECT(wait_for_the_context_after_destroying),
    CORRECT(wait_for_the_context_after_a_new_stream),
    RACY(destroying_does_not_wait),
    RACY(old_and_new_stream),
    CORRECT(old_and_new_stream_with_an_event),
    RACY(event_in_the_new_stream),
    CORRECT(old_and_new_stream_apart),
    RACY(waits_do_not_come_back),
    CORRECT(flags_do_not_come_back),
    RACY(exemption_of_the_new_stream),
    RACY(wait_for_a_new_event),
    CORRECT(new_event_after_the_wait),
    RACY(host_waits_for_a_new_event),
    CORRECT(stream_used_again),
    RACY(stream_made_again_without_waiting),
    END_OF_PROGRAMS,
};
