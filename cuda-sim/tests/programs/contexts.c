// Several contexts of one device. Managed memory is used, which is at home in all of them.
//
// What a row can say about this is in tests/litmus/contexts.txt.
#include "race_test.h"

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

const struct race_program programs_contexts[] = {
    CORRECT(pushed_and_popped),
    RACY(pushed_and_not_popped),
    END_OF_PROGRAMS,
};
