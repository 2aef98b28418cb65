// Numbers in memory that one stream writes and another waits for. [cuStreamWriteValue32,
// cuStreamWaitValue32]
//
// What a row can say about this is in tests/litmus/values.txt.
#include "race_test.h"

// The flag is ready before it is used.
static CUdeviceptr flag(void) {
    CUdeviceptr made = alloc(8);
    CHECK(cuMemsetD8(made, 0, 8));
    CHECK(cuCtxSynchronize());
    return made;
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

static void written_before_the_wait(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    writes(a, p, N);
    CHECK(cuStreamWaitValue64(b, f, 1, CU_STREAM_WAIT_VALUE_EQ));
    writes(b, p, N);
    CHECK(cuStreamWriteValue64(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
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

// A 32-bit wait for one half of a 64-bit number.
static void half_of_a_number(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    writes(a, p, N);
    CHECK(cuStreamWriteValue64(a, f, 1ull << 32, CU_STREAM_WRITE_VALUE_DEFAULT));
    CHECK(cuStreamWaitValue32(b, f + 4, 1, CU_STREAM_WAIT_VALUE_EQ));
    reads(b, p, N);
}

static void reset_by_the_host(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N);
    volatile uint32_t *f = alloc_pinned(4);
    for (int i = 0; i < 3; ++i) {
        *f = 0;
        writes(a, p, N);
        CHECK(cuStreamWriteValue32(a, at_device((void *)f), 1, CU_STREAM_WRITE_VALUE_DEFAULT));
        CHECK(cuStreamWaitValue32(b, at_device((void *)f), 1, CU_STREAM_WAIT_VALUE_EQ));
        reads(b, p, N);
        CHECK(cuCtxSynchronize());
    }
}

static void operations_of_a_batch(CUstream stream, CUdeviceptr at, unsigned operation,
                                  cuuint32_t value) {
    CUstreamBatchMemOpParams op;
    memset(&op, 0, sizeof op);
    op.operation = (CUstreamBatchMemOpType)operation;
    op.waitValue.address = at;
    op.waitValue.value = value;
    CHECK(cuStreamBatchMemOp(stream, 1, &op, 0));
}

static void ordered_by_batches(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    writes(a, p, N);
    operations_of_a_batch(a, f, CU_STREAM_MEM_OP_WRITE_VALUE_32, 1);
    operations_of_a_batch(b, f, CU_STREAM_MEM_OP_WAIT_VALUE_32, 1);
    reads(b, p, N);
}

static void batch_writes_the_awaited_number_first(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    operations_of_a_batch(a, f, CU_STREAM_MEM_OP_WRITE_VALUE_32, 1);
    writes(a, p, N);
    operations_of_a_batch(b, f, CU_STREAM_MEM_OP_WAIT_VALUE_32, 1);
    reads(b, p, N);
}

static void batch_write_races(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr f = flag();
    operations_of_a_batch(a, f, CU_STREAM_MEM_OP_WRITE_VALUE_32, 1);
    reads(b, f, 4);
}

// A host thread that reads the number in a loop. The checker does not see the loop.
static uint32_t *polled(CUstream a, void *p, int early) {
    uint32_t *f = alloc_pinned(4);
    *f = 0;
    if (early) CHECK(cuStreamWriteValue32(a, at_device(f), 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    writes(a, at_device(p), N);
    CHECK(cuStreamWriteValue32(a, at_device(f), early ? 2 : 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    while (__atomic_load_n(f, __ATOMIC_ACQUIRE) == 0) {
        cudasim_step(1);
    }
    return f;
}

static void host_polls(void) {
    void *p = alloc_pinned(N);
    uint32_t *f = polled(make_nonblocking(), p, 0);
    cudasim_host_waited(f, 4, 1, CU_STREAM_WAIT_VALUE_GEQ);
    host_reads(p, N);
}

static void host_polls_and_enqueues(void) {
    void *p = alloc_pinned(N);
    uint32_t *f = polled(make_nonblocking(), p, 0);
    cudasim_host_waited(f, 4, 1, CU_STREAM_WAIT_VALUE_EQ);
    writes(make_nonblocking(), at_device(p), N);
}

static void host_polls_unseen(void) {
    void *p = alloc_pinned(N);
    polled(make_nonblocking(), p, 0);
    host_reads(p, N);
}

static void host_polls_an_earlier_value(void) {
    void *p = alloc_pinned(N);
    uint32_t *f = polled(make_nonblocking(), p, 1);
    cudasim_host_waited(f, 4, 1, CU_STREAM_WAIT_VALUE_GEQ);
    host_reads(p, N);
}

static void host_polls_the_later_value(void) {
    void *p = alloc_pinned(N);
    uint32_t *f = polled(make_nonblocking(), p, 1);
    cudasim_host_waited(f, 4, 2, CU_STREAM_WAIT_VALUE_GEQ);
    host_reads(p, N);
}

const struct race_program programs_values[] = {
    CORRECT(back_and_forth),
    CORRECT(written_before_the_wait),
    CORRECT(written_by_the_host),
    RACY(written_by_the_host_too_early),
    CORRECT(half_of_a_number),
    CORRECT(reset_by_the_host),
    CORRECT(ordered_by_batches),
    RACY(batch_writes_the_awaited_number_first),
    RACY(batch_write_races),
    CORRECT(host_polls),
    CORRECT(host_polls_and_enqueues),
    RACY(host_polls_unseen),
    RACY(host_polls_an_earlier_value),
    CORRECT(host_polls_the_later_value),
    END_OF_PROGRAMS,
};
