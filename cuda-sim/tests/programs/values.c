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

// The wait is enqueued first: what comes after it comes after the write nevertheless.
static void waited_for_first(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    CHECK(cuStreamWaitValue32(b, f, 1, CU_STREAM_WAIT_VALUE_GEQ));
    reads(b, p, N);
    writes(a, p, N);
    CHECK(cuStreamWriteValue32(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    reads(b, p, N);
}

static void written_before_the_wait(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    writes(a, p, N);
    CHECK(cuStreamWaitValue64(b, f, 1, CU_STREAM_WAIT_VALUE_EQ));
    writes(b, p, N);
    CHECK(cuStreamWriteValue64(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
}

static void waited_for_first_written_too_early(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    CHECK(cuStreamWaitValue32(b, f, 1, CU_STREAM_WAIT_VALUE_GEQ));
    reads(b, p, N);
    CHECK(cuStreamWriteValue32(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    writes(a, p, N);
}

static void waited_for_another_value_first(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    CHECK(cuStreamWaitValue32(b, f, 2, CU_STREAM_WAIT_VALUE_GEQ));
    reads(b, p, N);
    writes(a, p, N);
    CHECK(cuStreamWriteValue32(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
}

static void work_before_the_wait(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    reads(b, p, N);
    CHECK(cuStreamWaitValue32(b, f, 1, CU_STREAM_WAIT_VALUE_GEQ));
    writes(a, p, N);
    CHECK(cuStreamWriteValue32(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
}

// A wait that nothing ends rules nothing out.
static void never_written(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    CHECK(cuStreamWaitValue32(b, f, 1, CU_STREAM_WAIT_VALUE_GEQ));
    reads(b, p, N);
    writes(a, p, N);
}

static void third_stream_is_not_ordered(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    CHECK(cuStreamWaitValue32(b, f, 1, CU_STREAM_WAIT_VALUE_GEQ));
    reads(b, p, N);
    writes(make_nonblocking(), p, N);
    CHECK(cuStreamWriteValue32(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
}

static void rounds_with_a_reset(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    for (int i = 0; i < 3; ++i) {
        CHECK(cuStreamWaitValue32(b, f, 1, CU_STREAM_WAIT_VALUE_EQ));
        reads(b, p, N);
        CHECK(cuMemsetD32Async(f, 0, 1, b));
        writes(a, p, N);
        CHECK(cuStreamWriteValue32(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
        order(b, a);
    }
}

static void written_by_a_kernel(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    CHECK(cuStreamWaitValue32(b, f, 1, CU_STREAM_WAIT_VALUE_GEQ));
    reads(b, p, N);
    writes(a, p, N);
    writes(a, f, 4);
}

static void written_by_the_host(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N);
    uint32_t *f = alloc_pinned(4);
    cudasim_host_write(f, 4);
    *f = 0;
    CHECK(cuStreamWaitValue32(b, at_device(f), 1, CU_STREAM_WAIT_VALUE_GEQ));
    reads(b, p, N);
    writes(a, p, N);
    CHECK(cuStreamSynchronize(a));
    cudasim_host_write(f, 4);
    __atomic_store_n(f, 1, __ATOMIC_RELEASE);
}

static void written_by_the_host_too_early(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N);
    uint32_t *f = alloc_pinned(4);
    cudasim_host_write(f, 4);
    *f = 0;
    CHECK(cuStreamWaitValue32(b, at_device(f), 1, CU_STREAM_WAIT_VALUE_GEQ));
    reads(b, p, N);
    writes(a, p, N);
    cudasim_host_write(f, 4);
    __atomic_store_n(f, 1, __ATOMIC_RELEASE);
}

const struct race_program programs_values[] = {
    CORRECT(written_and_waited_for),
    RACY(written_too_early),
    RACY(another_value),
    CORRECT(back_and_forth),
    CORRECT(waited_for_first),
    CORRECT(written_before_the_wait),
    RACY(waited_for_first_written_too_early),
    RACY(waited_for_another_value_first),
    RACY(work_before_the_wait),
    RACY(never_written),
    RACY(third_stream_is_not_ordered),
    CORRECT(rounds_with_a_reset),
    CORRECT(written_by_a_kernel),
    CORRECT(written_by_the_host),
    RACY(written_by_the_host_too_early),
    END_OF_PROGRAMS,
};
