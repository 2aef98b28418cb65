// The legacy default stream: it waits for all blocking streams of its context, and they wait for
// it. Non-blocking streams are exempt. [stream synchronization behavior]
#include "race_test.h"

// Work in the legacy stream waits for what blocking streams were given before.
static void legacy_after_blocking(void) {
    CUdeviceptr p = alloc(N);
    writes(make_stream(), p, N);
    reads(CU_STREAM_LEGACY, p, N);
}

// Blocking streams wait for what the legacy stream was given before.
static void blocking_after_legacy(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_stream();
    writes(CU_STREAM_LEGACY, p, N);
    reads(a, p, N);
}

// The same for a stream that did not exist yet when the legacy work was enqueued.
static void blocking_stream_made_after_legacy_work(void) {
    CUdeviceptr p = alloc(N);
    writes(CU_STREAM_LEGACY, p, N);
    reads(make_stream(), p, N);
}

// The legacy stream does not wait for non-blocking streams.
static void legacy_after_nonblocking(void) {
    CUdeviceptr p = alloc(N);
    writes(make_nonblocking(), p, N);
    reads(CU_STREAM_LEGACY, p, N);
}

// Non-blocking streams do not wait for the legacy stream.
static void nonblocking_after_legacy(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking();
    writes(CU_STREAM_LEGACY, p, N);
    reads(a, p, N);
}

// The same for streams with a priority: the flag decides.
static void nonblocking_with_priority_after_legacy(void) {
    CUdeviceptr p = alloc(N);
    CUstream a;
    CHECK(cuStreamCreateWithPriority(&a, CU_STREAM_NON_BLOCKING, 0));
    writes(CU_STREAM_LEGACY, p, N);
    reads(a, p, N);
}

// A priority does not exempt a blocking stream.
static void blocking_with_priority_after_legacy(void) {
    CUdeviceptr p = alloc(N);
    CUstream a;
    CHECK(cuStreamCreateWithPriority(&a, CU_STREAM_DEFAULT, 0));
    writes(CU_STREAM_LEGACY, p, N);
    reads(a, p, N);
}

// "Blocking" is about the legacy stream only: two blocking streams do not wait for each other.
static void two_blocking_streams(void) {
    CUdeviceptr p = alloc(N);
    writes(make_stream(), p, N);
    reads(make_stream(), p, N);
}

// Any legacy work between orders two blocking streams, also such that touches other bytes.
static void legacy_work_between(void) {
    CUdeviceptr p = alloc(N), q = alloc(N);
    CUstream a = make_stream(), b = make_stream();
    writes(a, p, N);
    writes(CU_STREAM_LEGACY, q, N);
    reads(b, p, N);
}

// Legacy work that was enqueued before the write orders nothing.
static void legacy_work_before(void) {
    CUdeviceptr p = alloc(N), q = alloc(N);
    CUstream a = make_stream(), b = make_stream();
    writes(CU_STREAM_LEGACY, q, N);
    writes(a, p, N);
    reads(b, p, N);
}

// Legacy work that was enqueued after the read orders nothing.
static void legacy_work_afterwards(void) {
    CUdeviceptr p = alloc(N), q = alloc(N);
    CUstream a = make_stream(), b = make_stream();
    writes(a, p, N);
    reads(b, p, N);
    writes(CU_STREAM_LEGACY, q, N);
}

// Legacy work between does not order a non-blocking producer.
static void legacy_work_between_nonblocking_and_blocking(void) {
    CUdeviceptr p = alloc(N), q = alloc(N);
    CUstream a = make_nonblocking(), b = make_stream();
    writes(a, p, N);
    writes(CU_STREAM_LEGACY, q, N);
    reads(b, p, N);
}

// Legacy work between does not hold up a non-blocking consumer.
static void legacy_work_between_blocking_and_nonblocking(void) {
    CUdeviceptr p = alloc(N), q = alloc(N);
    CUstream a = make_stream(), b = make_nonblocking();
    writes(a, p, N);
    writes(CU_STREAM_LEGACY, q, N);
    reads(b, p, N);
}

// NULL and the handle 1 are the same stream.
static void null_is_the_legacy_stream(void) {
    CUdeviceptr p = alloc(N);
    writes(CU_STREAM_LEGACY, p, N);
    CHECK(cuMemsetD8Async(p, 0, N, NULL));
    reads(CU_STREAM_LEGACY, p, N);
}

// NULL as the stream of an asynchronous fill is a barrier for blocking streams as well.
static void null_as_a_barrier(void) {
    CUdeviceptr p = alloc(N), q = alloc(N);
    CUstream a = make_stream(), b = make_stream();
    writes(a, p, N);
    CHECK(cuMemsetD8Async(q, 0, N, NULL));
    writes(b, p, N);
}

// cuMemsetD8 without a stream runs in the legacy stream: a barrier.
static void synchronous_fill_as_a_barrier(void) {
    CUdeviceptr p = alloc(N), q = alloc(N);
    CUstream a = make_stream(), b = make_stream();
    writes(a, p, N);
    CHECK(cuMemsetD8(q, 0, N));
    writes(b, p, N);
}

// It does not wait for the host or for non-blocking streams: no order for those.
static void synchronous_fill_and_nonblocking_streams(void) {
    CUdeviceptr p = alloc(N), q = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    writes(a, p, N);
    CHECK(cuMemsetD8(q, 0, N));
    writes(b, p, N);
}

// An event recorded in the legacy stream comes after all blocking streams.
static void event_in_legacy_after_blocking(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_stream(), b = make_nonblocking();
    writes(a, p, N);
    order(CU_STREAM_LEGACY, b);
    reads(b, p, N);
}

// It does not come after non-blocking streams.
static void event_in_legacy_after_nonblocking(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    writes(a, p, N);
    order(CU_STREAM_LEGACY, b);
    reads(b, p, N);
}

// The legacy stream waits for the event, and blocking streams wait for the legacy work that
// follows.
static void legacy_waits_for_an_event(void) {
    CUdeviceptr p = alloc(N), q = alloc(N);
    CUstream a = make_nonblocking(), b = make_stream();
    writes(a, p, N);
    order(a, CU_STREAM_LEGACY);
    writes(CU_STREAM_LEGACY, q, N);
    reads(b, p, N);
}

// Non-blocking and legacy, with an event as between any other two streams.
static void event_from_nonblocking_to_legacy(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking();
    writes(a, p, N);
    order(a, CU_STREAM_LEGACY);
    reads(CU_STREAM_LEGACY, p, N);
}

// And the other way.
static void event_from_legacy_to_nonblocking(void) {
    CUdeviceptr p = alloc(N);
    CUstream b = make_nonblocking();
    writes(CU_STREAM_LEGACY, p, N);
    order(CU_STREAM_LEGACY, b);
    reads(b, p, N);
}

// blocking -> legacy -> event -> non-blocking: the legacy work carries what the blocking stream
// did.
static void chain_through_legacy(void) {
    CUdeviceptr p = alloc(N), q = alloc(N);
    CUstream a = make_stream(), b = make_nonblocking();
    writes(a, p, N);
    writes(CU_STREAM_LEGACY, q, N);
    order(CU_STREAM_LEGACY, b);
    writes(b, p, N);
}

// The legacy read must be over before a blocking stream writes, but nothing orders a non-blocking
// one.
static void nonblocking_writes_what_legacy_reads(void) {
    CUdeviceptr p = alloc(N);
    reads(CU_STREAM_LEGACY, p, N);
    writes(make_nonblocking(), p, N);
}

// Waiting for the legacy stream on the host: its work is done, and what it waited for.
static void host_waits_for_legacy(void) {
    char *host = alloc_pinned(N);
    CUdeviceptr q = alloc(N);
    CUstream a = make_stream();
    writes(a, at_device(host), N);
    writes(CU_STREAM_LEGACY, q, N);
    CHECK(cuStreamSynchronize(CU_STREAM_LEGACY));
    host_reads(host, N);
}

// Waiting for the legacy stream does not wait for non-blocking streams.
static void host_waits_for_legacy_instead_of_nonblocking(void) {
    char *host = alloc_pinned(N);
    CUdeviceptr q = alloc(N);
    CUstream a = make_nonblocking();
    writes(a, at_device(host), N);
    writes(CU_STREAM_LEGACY, q, N);
    CHECK(cuStreamSynchronize(CU_STREAM_LEGACY));
    host_reads(host, N);
}

// The host is not held up by legacy work: what it enqueued for a blocking stream is, what it does
// itself is not.
static void host_reads_after_legacy_work(void) {
    char *host = alloc_pinned(N);
    writes(CU_STREAM_LEGACY, at_device(host), N);
    host_reads(host, N);
}

// Many blocking streams, legacy work, many blocking streams: all pairs are ordered.
static void barrier_for_many_streams(void) {
    CUdeviceptr p = alloc(4 * N), q = alloc(N);
    CUstream streams[4];
    for (unsigned i = 0; i < 4; ++i)
        writes(streams[i] = make_stream(), p + i * N, N);
    writes(CU_STREAM_LEGACY, q, N);
    for (unsigned i = 0; i < 4; ++i)
        writes(streams[i], p + (3 - i) * N, N);
}

// One of them is non-blocking and swaps its part with another.
static void barrier_for_many_streams_but_one(void) {
    CUdeviceptr p = alloc(4 * N), q = alloc(N);
    CUstream streams[4];
    for (unsigned i = 0; i < 4; ++i) {
        streams[i] = i == 2 ? make_nonblocking() : make_stream();
        writes(streams[i], p + i * N, N);
    }
    writes(CU_STREAM_LEGACY, q, N);
    for (unsigned i = 0; i < 4; ++i)
        writes(streams[i], p + (3 - i) * N, N);
}

// An event recorded in a blocking stream comes after the legacy work before it.
static void event_in_blocking_after_legacy(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_stream(), b = make_nonblocking();
    writes(CU_STREAM_LEGACY, p, N);
    order(a, b);
    reads(b, p, N);
}

// The event is of a non-blocking stream, which knows nothing of the legacy work.
static void event_in_nonblocking_after_legacy(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_nonblocking();
    writes(CU_STREAM_LEGACY, p, N);
    order(a, b);
    reads(b, p, N);
}

// A blocking stream waits for an event, and the legacy stream for the blocking stream with its
// wait.
static void legacy_after_a_wait_in_blocking(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_stream();
    writes(a, p, N);
    order(a, b);
    reads(CU_STREAM_LEGACY, p, N);
}

// The blocking stream waits after the legacy work was enqueued.
static void legacy_before_a_wait_in_blocking(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_nonblocking(), b = make_stream();
    writes(a, p, N);
    reads(CU_STREAM_LEGACY, p, N);
    order(a, b);
}

const struct race_program programs_legacy_stream[] = {
    CORRECT(legacy_after_blocking),
    CORRECT(blocking_after_legacy),
    CORRECT(blocking_stream_made_after_legacy_work),
    RACY(legacy_after_nonblocking),
    RACY(nonblocking_after_legacy),
    RACY(nonblocking_with_priority_after_legacy),
    CORRECT(blocking_with_priority_after_legacy),
    RACY(two_blocking_streams),
    CORRECT(legacy_work_between),
    RACY(legacy_work_before),
    RACY(legacy_work_afterwards),
    RACY(legacy_work_between_nonblocking_and_blocking),
    RACY(legacy_work_between_blocking_and_nonblocking),
    CORRECT(null_is_the_legacy_stream),
    CORRECT(null_as_a_barrier),
    CORRECT(synchronous_fill_as_a_barrier),
    RACY(synchronous_fill_and_nonblocking_streams),
    CORRECT(event_in_legacy_after_blocking),
    RACY(event_in_legacy_after_nonblocking),
    CORRECT(legacy_waits_for_an_event),
    CORRECT(event_from_nonblocking_to_legacy),
    CORRECT(event_from_legacy_to_nonblocking),
    CORRECT(chain_through_legacy),
    RACY(nonblocking_writes_what_legacy_reads),
    CORRECT(host_waits_for_legacy),
    RACY(host_waits_for_legacy_instead_of_nonblocking),
    RACY(host_reads_after_legacy_work),
    CORRECT(barrier_for_many_streams),
    RACY(barrier_for_many_streams_but_one),
    CORRECT(event_in_blocking_after_legacy),
    RACY(event_in_nonblocking_after_legacy),
    CORRECT(legacy_after_a_wait_in_blocking),
    RACY(legacy_before_a_wait_in_blocking),
    END_OF_PROGRAMS,
};
