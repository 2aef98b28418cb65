// Handles come back: a stream is what it was when it was named, not its number.
#include "case.h"

// The new stream has the old one's handle and none of its past.
static void a_new_stream_under_an_old_handle(void) {
    CUdeviceptr p = device(N);
    CUstream old = nonblocking();
    writes(old, p, N);
    OK(cuStreamDestroy(old));
    CUstream new = nonblocking();
    reads(new, p, N);
}

static void synchronizing_the_new_stream(void) {
    CUdeviceptr p = device(N);
    CUstream old = nonblocking(), other = nonblocking();
    writes(old, p, N);
    OK(cuStreamDestroy(old));
    OK(cuStreamSynchronize(nonblocking()));
    reads(other, p, N);
}

static void an_event_of_the_new_stream(void) {
    CUdeviceptr p = device(N);
    CUstream old = nonblocking(), other = nonblocking();
    writes(old, p, N);
    OK(cuStreamDestroy(old));
    after(other, nonblocking());
    reads(other, p, N);
}

static void an_event_recorded_before_the_stream_went(void) {
    CUdeviceptr p = device(N);
    CUstream old = nonblocking();
    CUevent e = event();
    writes(old, p, N);
    OK(cuEventRecord(e, old));
    OK(cuStreamDestroy(old));
    CUstream new = nonblocking();
    OK(cuStreamWaitEvent(new, e, 0));
    reads(new, p, N);
}

static void a_destroyed_stream_and_its_context(void) {
    CUdeviceptr p = device(N);
    CUstream old = nonblocking();
    writes(old, p, N);
    OK(cuStreamDestroy(old));
    OK(cuCtxSynchronize());
    reads(nonblocking(), p, N);
}

static void synchronized_before_it_went(void) {
    CUdeviceptr p = device(N);
    CUstream old = nonblocking();
    writes(old, p, N);
    OK(cuStreamSynchronize(old));
    OK(cuStreamDestroy(old));
    reads(nonblocking(), p, N);
}

static void many_streams_one_after_another(void) {
    CUdeviceptr p = device(N);
    for (int i = 0; i < 100; ++i) {
        CUstream stream = nonblocking();
        writes(stream, p, N);
        OK(cuStreamSynchronize(stream));
        OK(cuStreamDestroy(stream));
    }
}

static void many_streams_and_no_wait(void) {
    CUdeviceptr p = device(N);
    for (int i = 0; i < 100; ++i) {
        CUstream stream = nonblocking();
        writes(stream, p, N);
        OK(cuStreamDestroy(stream));
    }
}

// A destroyed blocking stream still counts for the legacy stream.
static void legacy_after_a_destroyed_blocking_stream(void) {
    CUdeviceptr p = device(N);
    CUstream old = blocking();
    writes(old, p, N);
    OK(cuStreamDestroy(old));
    reads(CU_STREAM_LEGACY, p, N);
}

static void an_event_under_an_old_handle(void) {
    CUdeviceptr p = device(N);
    CUstream a = nonblocking(), b = nonblocking();
    CUevent old = event();
    writes(a, p, N);
    OK(cuEventRecord(old, a));
    OK(cuEventDestroy(old));
    OK(cuStreamWaitEvent(b, event(), 0));
    reads(b, p, N);
}

const struct race_case handles_cases[] = {
    RACY(a_new_stream_under_an_old_handle),
    RACY(synchronizing_the_new_stream),
    RACY(an_event_of_the_new_stream),
    CORRECT(an_event_recorded_before_the_stream_went),
    CORRECT(a_destroyed_stream_and_its_context),
    CORRECT(synchronized_before_it_went),
    CORRECT(many_streams_one_after_another),
    RACY(many_streams_and_no_wait),
    CORRECT(legacy_after_a_destroyed_blocking_stream),
    RACY(an_event_under_an_old_handle),
    {NULL, 0, NULL},
};
