// Numbers in memory that one stream writes and another waits for. [cuStreamWriteValue32,
// cuStreamWaitValue32]
#include "race_test.h"

// The flag is ready before it is used.
static CUdeviceptr flag(void) {
    CUdeviceptr made = alloc(8);
    CHECK(cuMemsetD8(made, 0, 8));
    CHECK(cuCtxSynchronize());
    return made;
}

static void written_and_waited_for(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    writes(a, p, N);
    CHECK(cuStreamWriteValue32(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    CHECK(cuStreamWaitValue32(b, f, 1, CU_STREAM_WAIT_VALUE_GEQ));
    reads(b, p, N);
}

static void written_too_early(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    CHECK(cuStreamWriteValue32(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    writes(a, p, N);
    CHECK(cuStreamWaitValue32(b, f, 1, CU_STREAM_WAIT_VALUE_GEQ));
    reads(b, p, N);
}

static void another_value(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    writes(a, p, N);
    CHECK(cuStreamWriteValue32(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    CHECK(cuStreamWaitValue32(b, f + 4, 0, CU_STREAM_WAIT_VALUE_GEQ));
    reads(b, p, N);
}

static void back_and_forth(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    for (cuuint32_t i = 1; i < 20; i += 2) {
        writes(a, p, N);
        CHECK(cuStreamWriteValue32(a, f, i, CU_STREAM_WRITE_VALUE_DEFAULT));
        CHECK(cuStreamWaitValue32(b, f, i, CU_STREAM_WAIT_VALUE_GEQ));
        reads(b, p, N);
        CHECK(cuStreamWriteValue32(b, f, i + 1, CU_STREAM_WRITE_VALUE_DEFAULT));
        CHECK(cuStreamWaitValue32(a, f, i + 1, CU_STREAM_WAIT_VALUE_GEQ));
    }
}

const struct race_program programs_values[] = {
    CORRECT(written_and_waited_for), RACY(written_too_early), RACY(another_value),
    CORRECT(back_and_forth),         END_OF_PROGRAMS,
};
