// The per-thread default stream: one for each thread and context, and a blocking one. In this file
// the functions of cuda.h are the `_ptsz` and `_ptds` ones, for which 0 is that stream.
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "race_test.h"

static CUdeviceptr p, q;
static char *pinned;

static void *writes_in_own(void *none) {
    writes(CU_STREAM_PER_THREAD, p, N);
    return none;
}

static void *fills_in_zero(void *none) {
    CHECK(cuMemsetD8Async(p, 1, N, 0));
    return none;
}

static void *writes_and_waits(void *none) {
    CHECK(cuMemsetD8Async(p, 1, N, 0));
    CHECK(cuStreamSynchronize(0));
    return none;
}

static void *writes_pinned_in_own(void *none) {
    writes(CU_STREAM_PER_THREAD, at_device(pinned), N);
    return none;
}

static void *writes_and_records(void *event) {
    writes(CU_STREAM_PER_THREAD, p, N);
    CHECK(cuEventRecord(event, 0));
    return NULL;
}

static void *writes_in_legacy(void *none) {
    writes(CU_STREAM_LEGACY, p, N);
    return none;
}

// 0 and the handle 2 are one stream in a thread.
static void zero_is_handle_2(void) {
    p = alloc(N);
    CHECK(cuMemsetD8Async(p, 1, N, 0));
    writes(CU_STREAM_PER_THREAD, p, N);
    CHECK(cuMemsetD8Async(p, 1, N, CU_STREAM_PER_THREAD));
}

// The handle 2 of another thread is another stream. The join orders the hosts, not the streams.
static void handle_2_of_two_threads(void) {
    p = alloc(N);
    finish(start(writes_in_own, NULL));
    reads(CU_STREAM_PER_THREAD, p, N);
}

// So is 0.
static void zero_of_two_threads(void) {
    p = alloc(N);
    finish(start(fills_in_zero, NULL));
    CHECK(cuMemsetD8Async(p, 2, N, 0));
}

// A thread that comes after another has a stream of its own, also where the system uses the
// thread's id again.
static void zero_of_two_threads_after_each_other(void) {
    p = alloc(N);
    finish(start(fills_in_zero, NULL));
    finish(start(fills_in_zero, NULL));
}

// The first thread waits for its stream before it ends.
static void waited_for_before_the_join(void) {
    p = alloc(N);
    finish(start(writes_and_waits, NULL));
    CHECK(cuMemsetD8Async(p, 2, N, 0));
}

// The main thread waits for its own stream, which is not that of the other thread.
static void waits_for_its_own(void) {
    pinned = alloc_pinned(N);
    finish(start(writes_pinned_in_own, NULL));
    CHECK(cuStreamSynchronize(0));
    host_reads(pinned, N);
}

// Waiting for the context waits for the per-thread streams of all threads.
static void waits_for_the_context(void) {
    pinned = alloc_pinned(N);
    finish(start(writes_pinned_in_own, NULL));
    CHECK(cuCtxSynchronize());
    host_reads(pinned, N);
}

// An event orders the per-thread streams of two threads.
static void event_between_threads(void) {
    CUevent e = make_event();
    p = alloc(N);
    finish(start(writes_and_records, e));
    CHECK(cuStreamWaitEvent(0, e, 0));
    reads(CU_STREAM_PER_THREAD, p, N);
}

// Nothing waits for the event.
static void event_between_threads_not_waited_for(void) {
    CUevent e = make_event();
    p = alloc(N);
    finish(start(writes_and_records, e));
    reads(CU_STREAM_PER_THREAD, p, N);
}

// Legacy work between orders the per-thread streams of two threads: both are blocking.
static void legacy_work_between_threads(void) {
    p = alloc(N);
    q = alloc(N);
    finish(start(writes_in_own, NULL));
    writes(CU_STREAM_LEGACY, q, N);
    reads(CU_STREAM_PER_THREAD, p, N);
}

// The legacy stream waits for the per-thread stream.
static void legacy_after_per_thread(void) {
    p = alloc(N);
    writes(CU_STREAM_PER_THREAD, p, N);
    reads(CU_STREAM_LEGACY, p, N);
}

// The per-thread stream waits for the legacy stream.
static void per_thread_after_legacy(void) {
    p = alloc(N);
    writes(CU_STREAM_LEGACY, p, N);
    CHECK(cuMemsetD8Async(p, 0, N, 0));
}

// The legacy stream is the same in all threads.
static void legacy_of_two_threads(void) {
    p = alloc(N);
    finish(start(writes_in_legacy, NULL));
    reads(CU_STREAM_LEGACY, p, N);
}

// It waits for the per-thread stream of another thread, too.
static void legacy_after_per_thread_of_another_thread(void) {
    p = alloc(N);
    finish(start(writes_in_own, NULL));
    reads(CU_STREAM_LEGACY, p, N);
}

// And the per-thread stream of one thread waits for what another thread gave the legacy stream.
static void per_thread_after_legacy_of_another_thread(void) {
    p = alloc(N);
    finish(start(writes_in_legacy, NULL));
    reads(CU_STREAM_PER_THREAD, p, N);
}

// The per-thread stream and a blocking stream do not wait for each other.
static void per_thread_and_blocking(void) {
    p = alloc(N);
    writes(make_stream(), p, N);
    CHECK(cuMemsetD8Async(p, 0, N, 0));
}

// Nor do the per-thread stream and a non-blocking one.
static void per_thread_and_nonblocking(void) {
    p = alloc(N);
    CHECK(cuMemsetD8Async(p, 0, N, 0));
    reads(make_nonblocking(), p, N);
}

// With an event they do.
static void per_thread_and_nonblocking_with_an_event(void) {
    CUstream a = make_nonblocking();
    p = alloc(N);
    CHECK(cuMemsetD8Async(p, 0, N, 0));
    order(CU_STREAM_PER_THREAD, a);
    reads(a, p, N);
}

// cuMemsetD8 runs in the per-thread stream here: no barrier for two blocking streams.
static void synchronous_fill_is_no_barrier(void) {
    CUstream a = make_stream(), b = make_stream();
    p = alloc(N);
    q = alloc(N);
    writes(a, p, N);
    CHECK(cuMemsetD8(q, 0, N));
    reads(b, p, N);
}

// An asynchronous fill in 0 neither.
static void zero_is_no_barrier(void) {
    CUstream a = make_stream(), b = make_stream();
    p = alloc(N);
    q = alloc(N);
    writes(a, p, N);
    CHECK(cuMemsetD8Async(q, 0, N, 0));
    reads(b, p, N);
}

// In the legacy stream it is one.
static void legacy_is_a_barrier(void) {
    CUstream a = make_stream(), b = make_stream();
    p = alloc(N);
    q = alloc(N);
    writes(a, p, N);
    CHECK(cuMemsetD8Async(q, 0, N, CU_STREAM_LEGACY));
    reads(b, p, N);
}

// A synchronous copy to the host waits for the per-thread stream in which it runs.
static void synchronous_copy_waits(void) {
    p = alloc(N);
    pinned = alloc_pinned(N);
    writes(CU_STREAM_PER_THREAD, p, N);
    CHECK(cuMemcpyDtoH(pinned, p, N));
    host_reads(pinned, N);
}

// It does not wait for a blocking stream, as it does without per-thread default streams.
static void synchronous_copy_does_not_wait_for_blocking(void) {
    CUstream a = make_stream();
    p = alloc(N);
    pinned = alloc_pinned(N);
    writes(a, p, N);
    CHECK(cuMemcpyDtoH(pinned, p, N));
}

// One thread, two contexts: two per-thread streams.
static void per_thread_streams_of_two_contexts(void) {
    CUcontext first = primary(0);
    p = alloc_managed(N);
    CHECK(cuMemsetD8Async(p, 1, N, 0));
    second_context();
    CHECK(cuMemsetD8Async(p, 2, N, 0));
    use(first);
}

// One thread changes to the second context and back: its first stream is still the same.
static void back_to_the_first_context(void) {
    CUcontext first = primary(0);
    p = alloc_managed(N);
    q = alloc_managed(N);
    CHECK(cuMemsetD8Async(p, 1, N, 0));
    second_context();
    CHECK(cuMemsetD8Async(q, 2, N, 0));
    use(first);
    CHECK(cuMemsetD8Async(p, 3, N, 0));
}

const struct race_program programs_per_thread[] = {
    CORRECT(zero_is_handle_2),
    RACY(handle_2_of_two_threads),
    RACY(zero_of_two_threads),
    RACY(zero_of_two_threads_after_each_other),
    CORRECT(waited_for_before_the_join),
    RACY(waits_for_its_own),
    CORRECT(waits_for_the_context),
    CORRECT(event_between_threads),
    RACY(event_between_threads_not_waited_for),
    CORRECT(legacy_work_between_threads),
    CORRECT(legacy_after_per_thread),
    CORRECT(per_thread_after_legacy),
    CORRECT(legacy_of_two_threads),
    CORRECT(legacy_after_per_thread_of_another_thread),
    CORRECT(per_thread_after_legacy_of_another_thread),
    RACY(per_thread_and_blocking),
    RACY(per_thread_and_nonblocking),
    CORRECT(per_thread_and_nonblocking_with_an_event),
    RACY(synchronous_fill_is_no_barrier),
    RACY(zero_is_no_barrier),
    CORRECT(legacy_is_a_barrier),
    CORRECT(synchronous_copy_waits),
    RACY(synchronous_copy_does_not_wait_for_blocking),
    RACY(per_thread_streams_of_two_contexts),
    CORRECT(back_to_the_first_context),
    END_OF_PROGRAMS,
};
