// cuMemFree and cuMemFreeHost are writes by the host: they may wait for the device, and need not.
// Work that may run after a free is only claimed.
//
// What a row can say about this is in tests/litmus/memory_free.txt.
#include "race_test.h"

static CUstream a, b;

static CUdeviceptr memory(void) {
    a = make_nonblocking();
    b = make_nonblocking();
    return alloc(N);
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
    RACY(freed_by_another_thread),
    CORRECT(freed_by_another_thread_after_a_wait),
    END_OF_PROGRAMS,
};
