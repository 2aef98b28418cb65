// Several contexts of one device. Managed memory is used, which is at home in all of them.
#include "race_test.h"

// Each context has a legacy stream of its own; they do not wait for each other.
static void legacy_streams_of_two_contexts(void) {
    CUdeviceptr p = alloc_managed(N);
    writes(CU_STREAM_LEGACY, p, N);
    second_context();
    reads(CU_STREAM_LEGACY, p, N);
}

// NULL means the stream of the context that is current at the call.
static void null_in_two_contexts(void) {
    CUdeviceptr p = alloc_managed(N);
    CHECK(cuMemsetD8Async(p, 1, N, NULL));
    second_context();
    CHECK(cuMemsetD8Async(p, 2, N, NULL));
}

// Back in the first context, its legacy stream is the same as before.
static void null_in_one_context_twice(void) {
    CUcontext first = primary(0);
    CUdeviceptr p = alloc_managed(N);
    CHECK(cuMemsetD8Async(p, 1, N, NULL));
    second_context();
    use(first);
    CHECK(cuMemsetD8Async(p, 2, N, NULL));
}

// The legacy stream of one context does not wait for blocking streams of another.
static void legacy_and_blocking_of_another_context(void) {
    CUdeviceptr p = alloc_managed(N);
    writes(make_stream(), p, N);
    second_context();
    reads(CU_STREAM_LEGACY, p, N);
}

// Nor do blocking streams wait for the legacy stream of another context.
static void blocking_after_legacy_of_another_context(void) {
    CUdeviceptr p = alloc_managed(N);
    writes(CU_STREAM_LEGACY, p, N);
    second_context();
    reads(make_stream(), p, N);
}

// Legacy work of the second context is no barrier for streams of the first.
static void barrier_of_the_wrong_context(void) {
    CUcontext first = primary(0);
    CUdeviceptr p = alloc_managed(N), q = alloc_managed(N);
    CUstream a = make_stream(), b = make_stream();
    writes(a, p, N);
    second_context();
    writes(CU_STREAM_LEGACY, q, N);
    use(first);
    reads(b, p, N);
}

// Legacy work of their own context is one.
static void barrier_of_the_right_context(void) {
    CUcontext first = primary(0);
    CUdeviceptr p = alloc_managed(N), q = alloc_managed(N);
    CUstream a = make_stream(), b = make_stream();
    writes(a, p, N);
    second_context();
    use(first);
    writes(CU_STREAM_LEGACY, q, N);
    reads(b, p, N);
}

// A stream may wait for an event of another context.
static void event_between_contexts(void) {
    CUdeviceptr p = alloc_managed(N);
    CUevent e = make_event();
    writes(CU_STREAM_LEGACY, p, N);
    CHECK(cuEventRecord(e, CU_STREAM_LEGACY));
    second_context();
    CHECK(cuStreamWaitEvent(CU_STREAM_LEGACY, e, 0));
    reads(CU_STREAM_LEGACY, p, N);
}

// There and back again by two events.
static void events_there_and_back(void) {
    CUcontext first = primary(0);
    CUdeviceptr p = alloc_managed(N);
    CUstream a = make_nonblocking();
    CUevent to = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(to, a));
    second_context();
    CUstream b = make_nonblocking();
    CUevent back = make_event();
    CHECK(cuStreamWaitEvent(b, to, 0));
    writes(b, p, N);
    CHECK(cuEventRecord(back, b));
    use(first);
    CHECK(cuStreamWaitEvent(a, back, 0));
    writes(a, p, N);
}

// There, but not back.
static void event_there_and_none_back(void) {
    CUcontext first = primary(0);
    CUdeviceptr p = alloc_managed(N);
    CUstream a = make_nonblocking();
    CUevent to = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(to, a));
    second_context();
    CUstream b = make_nonblocking();
    CHECK(cuStreamWaitEvent(b, to, 0));
    reads(b, p, N);
    use(first);
    writes(a, p, N);
}

// The host waits for the first context before it enqueues work in the second.
static void host_waits_for_the_right_context(void) {
    CUdeviceptr p = alloc_managed(N);
    writes(make_nonblocking(), p, N);
    CHECK(cuCtxSynchronize());
    second_context();
    reads(CU_STREAM_LEGACY, p, N);
}

// cuCtxSynchronize waits for the current context only.
static void host_waits_for_the_wrong_context(void) {
    CUdeviceptr p = alloc_managed(N);
    writes(make_nonblocking(), p, N);
    second_context();
    CHECK(cuCtxSynchronize());
    reads(CU_STREAM_LEGACY, p, N);
}

// A stream can be waited for by the host whatever context is current.
static void stream_waited_for_from_another_context(void) {
    CUdeviceptr p = alloc_managed(N);
    CUstream a = make_nonblocking();
    writes(a, p, N);
    second_context();
    CHECK(cuStreamSynchronize(a));
    reads(CU_STREAM_LEGACY, p, N);
}

// cuStreamSynchronize(NULL) waits for the legacy stream of the current context.
static void legacy_waited_for_in_the_wrong_context(void) {
    char *host = alloc_pinned(N);
    writes(CU_STREAM_LEGACY, at_device(host), N);
    second_context();
    CHECK(cuStreamSynchronize(NULL));
    host_reads(host, N);
}

// Pushing and popping: the work belongs to the context on top.
static void pushed_and_popped(void) {
    CUdeviceptr p = alloc_managed(N);
    CUcontext first = primary(0), second = second_context();
    use(first);
    CHECK(cuCtxPushCurrent(second));
    CHECK(cuCtxPopCurrent(&second));
    CHECK(cuMemsetD8Async(p, 1, N, NULL));
    reads(CU_STREAM_LEGACY, p, N);
}

// Missing pop: the second fill is on another legacy stream.
static void pushed_and_not_popped(void) {
    CUdeviceptr p = alloc_managed(N);
    CUcontext first = primary(0), second = second_context();
    use(first);
    CHECK(cuMemsetD8Async(p, 1, N, NULL));
    CHECK(cuCtxPushCurrent(second));
    CHECK(cuMemsetD8Async(p, 2, N, NULL));
}

// Retaining the primary context again gives the same one, with the same legacy stream.
static void primary_context_retained_twice(void) {
    CUdeviceptr p = alloc(N);
    writes(CU_STREAM_LEGACY, p, N);
    use(primary(0));
    reads(CU_STREAM_LEGACY, p, N);
}

#if CUDA_VERSION >= 12050
// An event can be recorded for all streams of a context, non-blocking ones too. [cuCtxRecordEvent]
static void event_of_a_whole_context(void) {
    CUcontext first = primary(0);
    CUdeviceptr p = alloc_managed(2 * N);
    CUevent e = make_event();
    writes(make_nonblocking(), p, N);
    writes(make_stream(), p + N, N);
    CHECK(cuCtxRecordEvent(first, e));
    second_context();
    CHECK(cuStreamWaitEvent(CU_STREAM_LEGACY, e, 0));
    reads(CU_STREAM_LEGACY, p, 2 * N);
}

// Recorded before the write.
static void early_event_of_a_whole_context(void) {
    CUcontext first = primary(0);
    CUdeviceptr p = alloc_managed(N);
    CUevent e = make_event();
    CHECK(cuCtxRecordEvent(first, e));
    writes(make_nonblocking(), p, N);
    second_context();
    CHECK(cuStreamWaitEvent(CU_STREAM_LEGACY, e, 0));
    reads(CU_STREAM_LEGACY, p, N);
}

// A whole context waits for an event: each of its streams does. [cuCtxWaitEvent]
static void whole_context_waits(void) {
    CUdeviceptr p = alloc_managed(N);
    CUstream a = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CUcontext second = second_context();
    CUstream b = make_nonblocking();
    CHECK(cuCtxWaitEvent(second, e));
    reads(b, p, N);
    reads(CU_STREAM_LEGACY, p, N);
}

// The other context waits.
static void wrong_context_waits(void) {
    CUcontext first = primary(0);
    CUdeviceptr p = alloc_managed(N);
    CUstream a = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    second_context();
    CHECK(cuCtxWaitEvent(first, e));
    reads(make_nonblocking(), p, N);
}

// All future work of the context waits, that of streams that are made later too. [cuCtxWaitEvent]
static void later_streams_of_the_context_wait(void) {
    CUdeviceptr p = alloc_managed(N);
    CUstream a = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CHECK(cuCtxWaitEvent(second_context(), e));
    reads(make_stream(), p, N);
    reads(make_nonblocking(), p, N);
    reads(CU_STREAM_PER_THREAD, p, N);
}

// Streams that wait for the same event do not wait for each other, blocking ones either.
static void streams_of_a_waiting_context(void) {
    CUcontext first = primary(0);
    CUdeviceptr p = alloc(N);
    CUstream a = make_stream(), b = make_stream();
    CUevent e = make_event();
    CHECK(cuEventRecord(e, make_nonblocking()));
    writes(a, p, N);
    CHECK(cuCtxWaitEvent(first, e));
    reads(b, p, N);
}

// A stream that is gone was one of the context's activities. [cuCtxRecordEvent]
static void event_of_a_whole_context_with_a_destroyed_stream(void) {
    CUcontext first = primary(0);
    CUdeviceptr p = alloc_managed(N);
    CUstream a = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuStreamDestroy(a));
    CHECK(cuCtxRecordEvent(first, e));
    second_context();
    CHECK(cuStreamWaitEvent(CU_STREAM_LEGACY, e, 0));
    reads(CU_STREAM_LEGACY, p, N);
}
#endif

const struct race_program programs_contexts[] = {
    RACY(legacy_streams_of_two_contexts),
    RACY(null_in_two_contexts),
    CORRECT(null_in_one_context_twice),
    RACY(legacy_and_blocking_of_another_context),
    RACY(blocking_after_legacy_of_another_context),
    RACY(barrier_of_the_wrong_context),
    CORRECT(barrier_of_the_right_context),
    CORRECT(event_between_contexts),
    CORRECT(events_there_and_back),
    RACY(event_there_and_none_back),
    CORRECT(host_waits_for_the_right_context),
    RACY(host_waits_for_the_wrong_context),
    CORRECT(stream_waited_for_from_another_context),
    RACY(legacy_waited_for_in_the_wrong_context),
    CORRECT(pushed_and_popped),
    RACY(pushed_and_not_popped),
    CORRECT(primary_context_retained_twice),
#if CUDA_VERSION >= 12050
    CORRECT(event_of_a_whole_context),
    RACY(early_event_of_a_whole_context),
    CORRECT(whole_context_waits),
    RACY(wrong_context_waits),
    CORRECT(later_streams_of_the_context_wait),
    RACY(streams_of_a_waiting_context),
    CORRECT(event_of_a_whole_context_with_a_destroyed_stream),
#endif
    END_OF_PROGRAMS,
};
