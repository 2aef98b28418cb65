// Calls that the driver refuses while a stream is being captured, by the rule R10, and such that
// are no reason for a report. They are run with --rules=strict.
//
// What a row can say about these rules is in tests/litmus/rules_calls.txt.
#include "race_test.h"

static CUstream s, blocking;

static void prepare(void) {
    s = make_nonblocking();
    blocking = make_stream();
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
    const CUdeviceptr p = alloc(N);
    prepare();
    begin_capture(blocking);
    must_be(cuMemsetD8Async(p, 1, N, CU_STREAM_LEGACY), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

static void r10_wait_for_an_event_from_outside(void) {
    CUevent event = make_event();
    prepare();
    CHECK(cuEventRecord(event, blocking));
    begin_capture(s);
    must_be(cuStreamWaitEvent(s, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
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
    RACY(r10_wait_for_the_stream_that_is_captured),
    RACY(r10_allocation_in_between),
    RACY(r10_work_in_the_legacy_stream),
    RACY(r10_wait_for_an_event_from_outside),
    CORRECT(asked_while_capturing),
    CORRECT(relaxed),
    CORRECT(refused_after_it_was_broken),
    END_OF_PROGRAMS,
};
