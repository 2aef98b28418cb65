// The legacy default stream waits for all blocking streams of its context, and they for it; non-blocking
// streams are exempt. [API synchronization behavior]
#include "case.h"

#define LEGACY CU_STREAM_LEGACY

static void legacy_then_blocking(void) {
    CUdeviceptr p = device(N);
    CUstream a = blocking();
    writes(LEGACY, p, N);
    reads(a, p, N);
}

static void blocking_then_legacy(void) {
    CUdeviceptr p = device(N);
    CUstream a = blocking();
    writes(a, p, N);
    reads(LEGACY, p, N);
}

static void null_is_legacy(void) {
    CUdeviceptr p = device(N);
    CUstream a = blocking();
    writes(a, p, N);
    writes(NULL, p, N);
    reads(a, p, N);
}

static void legacy_then_nonblocking(void) {
    CUdeviceptr p = device(N);
    CUstream a = nonblocking();
    writes(LEGACY, p, N);
    reads(a, p, N);
}

static void nonblocking_then_legacy(void) {
    CUdeviceptr p = device(N);
    CUstream a = nonblocking();
    writes(a, p, N);
    reads(LEGACY, p, N);
}

static void nonblocking_and_legacy_with_an_event(void) {
    CUdeviceptr p = device(N);
    CUstream a = nonblocking();
    writes(a, p, N);
    after(LEGACY, a);
    writes(LEGACY, p, N);
    after(a, LEGACY);
    reads(a, p, N);
}

// Whatever the legacy stream does between them orders two blocking streams.
static void legacy_between_two(void) {
    CUdeviceptr p = device(N), q = device(N);
    CUstream a = blocking(), b = blocking();
    writes(a, p, N);
    writes(LEGACY, q, N);
    reads(b, p, N);
}

static void two_blocking_streams(void) {
    CUdeviceptr p = device(N);
    CUstream a = blocking(), b = blocking();
    writes(a, p, N);
    reads(b, p, N);
}

// The barrier was before.
static void legacy_before_both(void) {
    CUdeviceptr p = device(N), q = device(N);
    CUstream a = blocking(), b = blocking();
    writes(LEGACY, q, N);
    writes(a, p, N);
    reads(b, p, N);
}

static void an_event_recorded_on_legacy_covers_blocking(void) {
    CUdeviceptr p = device(N);
    CUstream a = blocking(), b = nonblocking();
    CUevent e = event();
    writes(a, p, N);
    OK(cuEventRecord(e, LEGACY));
    OK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

static void an_event_recorded_on_legacy_does_not_cover_nonblocking(void) {
    CUdeviceptr p = device(N);
    CUstream a = nonblocking(), b = nonblocking();
    CUevent e = event();
    writes(a, p, N);
    OK(cuEventRecord(e, LEGACY));
    OK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

static void a_wait_on_legacy_holds_blocking_streams(void) {
    CUdeviceptr p = device(N);
    CUstream a = nonblocking(), b = blocking();
    writes(a, p, N);
    after(LEGACY, a);
    reads(b, p, N);
}

static void a_wait_on_legacy_does_not_hold_nonblocking_streams(void) {
    CUdeviceptr p = device(N);
    CUstream a = nonblocking(), b = nonblocking();
    writes(a, p, N);
    after(LEGACY, a);
    reads(b, p, N);
}

// The stream was made after the legacy stream's work.
static void a_new_blocking_stream(void) {
    CUdeviceptr p = device(N);
    writes(LEGACY, p, N);
    reads(blocking(), p, N);
}

static void a_new_nonblocking_stream(void) {
    CUdeviceptr p = device(N);
    writes(LEGACY, p, N);
    reads(nonblocking(), p, N);
}

const struct race_case legacy_cases[] = {
    CORRECT(legacy_then_blocking),
    CORRECT(blocking_then_legacy),
    CORRECT(null_is_legacy),
    RACY(legacy_then_nonblocking),
    RACY(nonblocking_then_legacy),
    CORRECT(nonblocking_and_legacy_with_an_event),
    CORRECT(legacy_between_two),
    RACY(two_blocking_streams),
    RACY(legacy_before_both),
    CORRECT(an_event_recorded_on_legacy_covers_blocking),
    RACY(an_event_recorded_on_legacy_does_not_cover_nonblocking),
    CORRECT(a_wait_on_legacy_holds_blocking_streams),
    RACY(a_wait_on_legacy_does_not_hold_nonblocking_streams),
    CORRECT(a_new_blocking_stream),
    RACY(a_new_nonblocking_stream),
    {NULL, 0, NULL},
};
