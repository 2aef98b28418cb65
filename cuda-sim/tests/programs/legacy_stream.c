// The legacy default stream: it waits for all blocking streams of its context, and they wait for
// it. Non-blocking streams are exempt. [stream synchronization behavior]
//
// What a row can say about this is in tests/litmus/legacy_stream.txt.
#include "race_test.h"

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

const struct race_program programs_legacy_stream[] = {
    RACY(nonblocking_with_priority_after_legacy),
    CORRECT(blocking_with_priority_after_legacy),
    END_OF_PROGRAMS,
};
