// The rules that are reported by the call that refused or waited: R8, R9 and R10. They are run with
// --rules=strict.
#include "exchange.h"

// Statuses of cai_array_consume_begin and others.
enum { STREAM_ZERO = 220, STREAM_THREAD = 221, DRIVER = 301 };

static CUstream s, blocking;

static struct array prepare(void) {
    s = make_nonblocking();
    blocking = make_stream();
    return make_array(alloc(N), make_nonblocking());
}

static void begin_capture(CUstream stream) {
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

static void end_capture(CUstream stream) {
    CUgraph graph;
    CHECK(cuStreamEndCapture(stream, &graph));
}

static void must_be(CUresult found, CUresult expected) {
    CHECK(found == expected ? 0 : 1000 + (int)found);
}

// --- R8: a name that means the same to both sides

static void r8_begin_on_stream_0(void) {
    struct array a = prepare();
    exports(&a);
    notify_refused(CUDASIM_CAI_BEGIN, &a, 0, STREAM_ZERO, "R8");
}

static void r8_exported_with_stream_0(void) {
    struct array a = prepare();
    a.stream = 0;
    notify_refused(CUDASIM_CAI_EXPORT, &a, 0, STREAM_ZERO, "R8");
}

static void r8_per_thread_stream_of_another_thread(void) {
    struct array a = prepare();
    a.stream = 2;
    exports(&a);
    notify_refused(CUDASIM_CAI_BEGIN, &a, (uint64_t)(uintptr_t)s, STREAM_THREAD, "R8");
}

static void refused_by_the_driver(void) {
    struct array a = prepare();
    exports(&a);
    notify_refused(CUDASIM_CAI_BEGIN, &a, (uint64_t)(uintptr_t)s, DRIVER, NULL);
}

static void per_thread_stream_of_this_thread(void) {
    struct array a = prepare();
    a.stream = 2;
    writes(CU_STREAM_PER_THREAD, a.at, N);
    exports(&a);
    reads_properly(&a, s);
}

static void legacy_stream_by_its_name(void) {
    struct array a = prepare();
    a.stream = 1;
    writes(CU_STREAM_LEGACY, a.at, N);
    exports(&a);
    reads_properly(&a, s);
}

// What was refused did nothing: it is no begin, so it needs no end.
static void r3_refused_begin_is_none(void) {
    struct array a = prepare();
    writes(stream_of(&a), a.at, N);
    exports(&a);
    notify_refused(CUDASIM_CAI_BEGIN, &a, (uint64_t)(uintptr_t)s, DRIVER, NULL);
    reads(s, a.at, N);
}

// --- R9: an event does not block the host

static void r9_host_waits_for_the_producer(void) {
    struct array a = prepare();
    writes(stream_of(&a), a.at, N);
    exports(&a);
    CHECK(cuStreamSynchronize(stream_of(&a)));
    notify(CUDASIM_CAI_SYNCHRONIZE, &a, NULL, CUDASIM_READ);
    reads(s, a.at, N);
    CHECK(cuStreamSynchronize(s));
}

static void r9_host_waits_for_the_legacy_stream(void) {
    struct array a = prepare();
    a.stream = 1;
    exports(&a);
    CHECK(cuStreamSynchronize(CU_STREAM_LEGACY));
    notify(CUDASIM_CAI_SYNCHRONIZE, &a, NULL, CUDASIM_READ);
}

static void r9_of_a_borrowed_array(void) {
    struct array a = prepare();
    a.owner = NULL;
    CHECK(cuStreamSynchronize(stream_of(&a)));
    notify(CUDASIM_CAI_SYNCHRONIZE, &a, NULL, CUDASIM_READ);
}

static void event_instead(void) {
    struct array a = prepare();
    writes(stream_of(&a), a.at, N);
    exports(&a);
    reads_properly(&a, s);
}

static void nothing_to_wait_for(void) {
    struct array a = prepare();
    a.stream = NO_STREAM;
    exports(&a);
    notify(CUDASIM_CAI_SYNCHRONIZE, &a, NULL, CUDASIM_READ);
}

static void refused_while_waiting(void) {
    struct array a = prepare();
    exports(&a);
    notify_refused(CUDASIM_CAI_SYNCHRONIZE, &a, 0, DRIVER, NULL);
}

// --- R10: what is illegal while a stream is being captured

static void r10_wait_for_the_stream_that_is_captured(void) {
    prepare();
    begin_capture(s);
    must_be(cuStreamSynchronize(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

static void r10_allocation_in_between(void) {
    CUdeviceptr p;
    prepare();
    begin_capture(s);
    must_be(cuMemAlloc(&p, N), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

static void r10_work_in_the_legacy_stream(void) {
    struct array a = prepare();
    begin_capture(blocking);
    must_be(cuMemsetD8Async(a.at, 1, N, CU_STREAM_LEGACY), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

static void r10_wait_for_an_event_from_outside(void) {
    CUevent event = make_event();
    prepare();
    CHECK(cuEventRecord(event, blocking));
    begin_capture(s);
    must_be(cuStreamWaitEvent(s, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
}

static void r10_the_library_refused(void) {
    struct array a = prepare();
    exports(&a);
    begin_capture(s);
    notify_refused(CUDASIM_CAI_BEGIN, &a, (uint64_t)(uintptr_t)s, DRIVER, "R10");
    end_capture(s);
}

static void waited_after_the_capture(void) {
    CUdeviceptr p;
    prepare();
    begin_capture(s);
    end_capture(s);
    CHECK(cuMemAlloc(&p, N));
    CHECK(cuStreamSynchronize(s));
}

static void asked_while_capturing(void) {
    CUstreamCaptureStatus status;
    prepare();
    begin_capture(blocking);
    CHECK(cuStreamIsCapturing(blocking, &status));
    must_be(cuStreamIsCapturing(CU_STREAM_LEGACY, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    end_capture(blocking);
}

static void relaxed(void) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUdeviceptr p;
    prepare();
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuThreadExchangeStreamCaptureMode(&mode));
    CHECK(cuMemAlloc(&p, N));
    CHECK(cuThreadExchangeStreamCaptureMode(&mode));
    end_capture(s);
}

// The capture is broken by the end of a stream whose work did not join it, which is allowed; what
// is refused then broke nothing.
static void refused_after_it_was_broken(void) {
    CUevent event = make_event();
    CUgraph graph;
    const CUdeviceptr p = alloc(N);
    prepare();
    begin_capture(s);
    CHECK(cuEventRecord(event, s));
    CHECK(cuStreamWaitEvent(blocking, event, 0));
    writes(blocking, p, N);
    CHECK(cuStreamDestroy(blocking));
    must_be(cuEventRecord(event, s), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    must_be(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

const struct race_program programs_rules_calls[] = {
    RACY(r8_begin_on_stream_0),
    RACY(r8_exported_with_stream_0),
    RACY(r8_per_thread_stream_of_another_thread),
    CORRECT(refused_by_the_driver),
    CORRECT(per_thread_stream_of_this_thread),
    CORRECT(legacy_stream_by_its_name),
    RACY(r3_refused_begin_is_none),
    REMARK(r9_host_waits_for_the_producer),
    REMARK(r9_host_waits_for_the_legacy_stream),
    REMARK(r9_of_a_borrowed_array),
    CORRECT(event_instead),
    CORRECT(nothing_to_wait_for),
    CORRECT(refused_while_waiting),
    RACY(r10_wait_for_the_stream_that_is_captured),
    RACY(r10_allocation_in_between),
    RACY(r10_work_in_the_legacy_stream),
    RACY(r10_wait_for_an_event_from_outside),
    RACY(r10_the_library_refused),
    CORRECT(waited_after_the_capture),
    CORRECT(asked_while_capturing),
    CORRECT(relaxed),
    CORRECT(refused_after_it_was_broken),
    END_OF_PROGRAMS,
};
