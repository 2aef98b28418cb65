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

// Not every write ends the wait: the first one that may does.
static void ended_by_an_earlier_value(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    CHECK(cuStreamWriteValue32(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    writes(a, p, N);
    CHECK(cuStreamWriteValue32(a, f, 2, CU_STREAM_WRITE_VALUE_DEFAULT));
    CHECK(cuStreamWaitValue32(b, f, 1, CU_STREAM_WAIT_VALUE_GEQ));
    reads(b, p, N);
}

static void work_before_the_earlier_value(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), q = alloc(N), f = flag();
    writes(a, p, N);
    CHECK(cuStreamWriteValue32(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    writes(a, q, N);
    CHECK(cuStreamWriteValue32(a, f, 2, CU_STREAM_WRITE_VALUE_DEFAULT));
    CHECK(cuStreamWaitValue32(b, f, 1, CU_STREAM_WAIT_VALUE_GEQ));
    reads(b, p, N);
    CHECK(cuStreamWaitValue32(b, f, 2, CU_STREAM_WAIT_VALUE_GEQ));
    reads(b, q, N);
}

static void left_from_the_last_round(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    for (int i = 0; i < 2; ++i) {
        writes(a, p, N);
        CHECK(cuStreamWriteValue32(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
        CHECK(cuStreamWaitValue32(b, f, 1, CU_STREAM_WAIT_VALUE_EQ));
        reads(b, p, N);
        order(b, a);
    }
}

static void reset_between_rounds(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    for (int i = 0; i < 3; ++i) {
        writes(a, p, N);
        CHECK(cuStreamWriteValue32(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
        CHECK(cuStreamWaitValue32(b, f, 1, CU_STREAM_WAIT_VALUE_EQ));
        reads(b, p, N);
        CHECK(cuMemsetD32Async(f, 0, 1, b));
        order(b, a);
    }
}

static void reset_after_the_wait_may_start(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    CHECK(cuMemsetD32(f, 1, 1));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemsetD32Async(f, 0, 1, a));
    writes(a, p, N);
    CHECK(cuStreamWriteValue32(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    CHECK(cuStreamWaitValue32(b, f, 1, CU_STREAM_WAIT_VALUE_EQ));
    reads(b, p, N);
}

static void reset_before_the_wait_starts(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    CHECK(cuMemsetD32(f, 1, 1));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemsetD32Async(f, 0, 1, a));
    order(a, b);
    writes(a, p, N);
    CHECK(cuStreamWriteValue32(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    CHECK(cuStreamWaitValue32(b, f, 1, CU_STREAM_WAIT_VALUE_EQ));
    reads(b, p, N);
}

static void another_bit(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    CHECK(cuStreamWriteValue32(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    writes(a, p, N);
    CHECK(cuStreamWriteValue32(a, f, 3, CU_STREAM_WRITE_VALUE_DEFAULT));
    CHECK(cuStreamWaitValue32(b, f, 1, CU_STREAM_WAIT_VALUE_AND));
    reads(b, p, N);
}

static void the_awaited_bit(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    CHECK(cuStreamWriteValue32(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    writes(a, p, N);
    CHECK(cuStreamWriteValue32(a, f, 3, CU_STREAM_WRITE_VALUE_DEFAULT));
    CHECK(cuStreamWaitValue32(b, f, 2, CU_STREAM_WAIT_VALUE_AND));
    reads(b, p, N);
}

// NOR ends when a bit is neither in the number nor in the value: 0 ends it at once here.
static void nor_of_the_first_number(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    writes(a, p, N);
    CHECK(cuStreamWriteValue32(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    CHECK(cuStreamWaitValue32(b, f, 1, CU_STREAM_WAIT_VALUE_NOR));
    reads(b, p, N);
}

static void nor_of_a_later_number(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    CHECK(cuMemsetD32(f, 0xffffffff, 1));
    CHECK(cuCtxSynchronize());
    writes(a, p, N);
    CHECK(cuStreamWriteValue32(a, f, 0xfffffffe, CU_STREAM_WRITE_VALUE_DEFAULT));
    CHECK(cuStreamWaitValue32(b, f, 0xfffffff0, CU_STREAM_WAIT_VALUE_NOR));
    reads(b, p, N);
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

// What a third stream learned from the waiting one before the write is known counts too.
static void waited_for_first_and_passed_on(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking(), c = make_nonblocking();
    CUdeviceptr p = alloc(N), f = flag();
    CHECK(cuStreamWaitValue32(b, f, 1, CU_STREAM_WAIT_VALUE_GEQ));
    order(b, c);
    writes(a, p, N);
    CHECK(cuStreamWriteValue32(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    reads(c, p, N);
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

// Values in a graph order as those in a stream do.
static void value_graph(CUstream a, CUstream b, CUdeviceptr p, CUdeviceptr f, int early) {
    CUgraph graph;
    CUgraphExec exec;
    CHECK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    if (early) {
        CHECK(cuStreamWriteValue32(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    }
    writes(a, p, N);
    if (!early) {
        CHECK(cuStreamWriteValue32(a, f, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    }
    CHECK(cuStreamEndCapture(a, &graph));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, a));
    CHECK(cuStreamBeginCapture(b, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuStreamWaitValue32(b, f, 1, CU_STREAM_WAIT_VALUE_GEQ));
    reads(b, p, N);
    CHECK(cuStreamEndCapture(b, &graph));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, b));
}

static void ordered_by_graphs(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    value_graph(a, b, alloc(N), flag(), 0);
}

static void not_ordered_by_graphs(void) {
    CUstream a = make_nonblocking(), b = make_nonblocking();
    value_graph(a, b, alloc(N), flag(), 1);
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
    RACY(ended_by_an_earlier_value),
    CORRECT(work_before_the_earlier_value),
    RACY(left_from_the_last_round),
    CORRECT(reset_between_rounds),
    RACY(reset_after_the_wait_may_start),
    CORRECT(reset_before_the_wait_starts),
    RACY(another_bit),
    CORRECT(the_awaited_bit),
    RACY(nor_of_the_first_number),
    CORRECT(nor_of_a_later_number),
    CORRECT(half_of_a_number),
    CORRECT(waited_for_first_and_passed_on),
    CORRECT(reset_by_the_host),
    CORRECT(ordered_by_batches),
    RACY(batch_writes_the_awaited_number_first),
    RACY(batch_write_races),
    CORRECT(ordered_by_graphs),
    RACY(not_ordered_by_graphs),
    CORRECT(host_polls),
    CORRECT(host_polls_and_enqueues),
    RACY(host_polls_unseen),
    RACY(host_polls_an_earlier_value),
    CORRECT(host_polls_the_later_value),
    END_OF_PROGRAMS,
};
