// Green contexts: their streams are streams of their own, memory and events are the primary
// context's. Events of all streams of a context, and waits of all of them.
#include "race_test.h"

#if CUDA_VERSION >= 12080
static CUgreenCtx make_green_on(int device) {
    CUdevResource all;
    CUdevResourceDesc desc;
    CUgreenCtx green;
    CHECK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    CHECK(cuDevResourceGenerateDesc(&desc, &all, 1));
    CHECK(cuGreenCtxCreate(&green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM));
    return green;
}

static CUgreenCtx make_green(void) { return make_green_on(0); }

static CUstream make_in(CUgreenCtx green) {
    CUstream stream;
    CHECK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    return stream;
}

static CUcontext as_context(CUgreenCtx green) {
    CUcontext context;
    CHECK(cuCtxFromGreenCtx(&context, green));
    return context;
}

// Multiprocessors that are divided order nothing.
static void green_and_primary(void) {
    CUdeviceptr p = alloc(N);
    writes(make_in(make_green()), p, N);
    reads(make_nonblocking(), p, N);
}

static void two_green_contexts(void) {
    CUdeviceptr p = alloc(N);
    writes(make_in(make_green()), p, N);
    reads(make_in(make_green()), p, N);
}

static void two_streams_of_one(void) {
    CUdeviceptr p = alloc(N);
    CUgreenCtx green = make_green();
    writes(make_in(green), p, N);
    reads(make_in(green), p, N);
}

static void one_stream(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_in(make_green());
    writes(a, p, N);
    reads(a, p, N);
}

// They are non-blocking: the primary context's legacy stream does not wait for them.
static void green_and_legacy(void) {
    CUdeviceptr p = alloc(N);
    writes(make_in(make_green()), p, N);
    reads(CU_STREAM_LEGACY, p, N);
}

static void ordered_by_an_event(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_in(make_green()), b = make_nonblocking();
    writes(a, p, N);
    order(a, b);
    reads(b, p, N);
}

static void green_to_green_by_an_event(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_in(make_green()), b = make_in(make_green());
    writes(a, p, N);
    order(a, b);
    writes(b, p, N);
    order(b, a);
    reads(a, p, N);
}

// The way back is missing.
static void green_to_green_one_way(void) {
    CUdeviceptr p = alloc(N);
    CUstream a = make_in(make_green()), b = make_in(make_green());
    writes(a, p, N);
    order(a, b);
    writes(b, p, N);
    reads(a, p, N);
}

// An event that was made while the green context was current.
static void event_made_inside(void) {
    CUdeviceptr p = alloc(N);
    CUgreenCtx green = make_green();
    CUcontext first = primary(0);
    CUstream a = make_in(green), b = make_nonblocking();
    use(as_context(green));
    CUevent e = make_event();
    use(first);
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

// Memory that was made there is the primary context's, and outlives the green one.
static void memory_made_inside(void) {
    CUgreenCtx green = make_green();
    CUcontext first = primary(0);
    CUstream a = make_in(green);
    CUevent e = make_event();
    use(as_context(green));
    CUdeviceptr p = alloc(N);
    use(first);
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CHECK(cuGreenCtxDestroy(green));
    CHECK(cuStreamWaitEvent(CU_STREAM_LEGACY, e, 0));
    reads(CU_STREAM_LEGACY, p, N);
}

// NULL is the same stream as long as the green context is current.
static void null_inside_twice(void) {
    CUdeviceptr p = alloc(N);
    use(as_context(make_green()));
    CHECK(cuMemsetD8Async(p, 1, N, NULL));
    CHECK(cuMemsetD8Async(p, 2, N, NULL));
}

// A stream made inside is not one of the primary context: nothing orders it after that one's legacy
// stream.
static void stream_made_inside(void) {
    CUdeviceptr p = alloc(N);
    writes(CU_STREAM_LEGACY, p, N);
    use(as_context(make_green()));
    reads(make_nonblocking(), p, N);
}

static void host_waits_for_the_primary(void) {
    char *host = alloc_pinned(N);
    writes(make_in(make_green()), at_device(host), N);
    CHECK(cuCtxSynchronize());
    host_reads(host, N);
}

// With the green context current, only its own streams are waited for.
static void host_waits_for_the_green(void) {
    char *host = alloc_pinned(N);
    CUgreenCtx green = make_green();
    writes(make_in(green), at_device(host), N);
    use(as_context(green));
    CHECK(cuCtxSynchronize());
    host_reads(host, N);
}

static void host_waits_for_too_little(void) {
    char *host = alloc_pinned(N);
    writes(make_nonblocking(), at_device(host), N);
    use(as_context(make_green()));
    CHECK(cuCtxSynchronize());
    host_reads(host, N);
}

// Destroying a green context is not documented to wait.
static void destroyed_with_work(void) {
    CUdeviceptr p = alloc(N);
    CUgreenCtx green = make_green();
    writes(make_in(green), p, N);
    CHECK(cuGreenCtxDestroy(green));
    reads(make_nonblocking(), p, N);
}

static void destroyed_after_the_record(void) {
    CUdeviceptr p = alloc(N);
    CUgreenCtx green = make_green();
    CUstream a = make_in(green), b = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CHECK(cuGreenCtxDestroy(green));
    CHECK(cuStreamDestroy(a));
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

static void of_another_device(void) {
    CUdeviceptr p = alloc_managed(N);
    primary(1);
    writes(make_nonblocking(), p, N);
    reads(make_in(make_green_on(1)), p, N);
}

static void of_another_device_ordered(void) {
    CUdeviceptr p = alloc_managed(N);
    CUstream a = make_nonblocking();
    CUevent e = make_event();
    primary(1);
    CUgreenCtx green = make_green_on(1);
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CHECK(cuGreenCtxWaitEvent(green, e));
    reads(make_in(green), p, N);
}

// --- events of all streams ---

static void event_of_all_streams(void) {
    CUdeviceptr p = alloc(2 * N);
    CUgreenCtx green = make_green();
    CUstream b = make_nonblocking();
    CUevent e = make_event();
    writes(make_in(green), p, N);
    writes(make_in(green), p + N, N);
    CHECK(cuGreenCtxRecordEvent(green, e));
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, 2 * N);
}

// A stream that is gone was one of its activities.
static void event_of_a_destroyed_stream(void) {
    CUdeviceptr p = alloc(N);
    CUgreenCtx green = make_green();
    CUstream a = make_in(green), b = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuStreamDestroy(a));
    CHECK(cuGreenCtxRecordEvent(green, e));
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

// What comes after the record is not part of it.
static void early_event_of_all_streams(void) {
    CUdeviceptr p = alloc(N);
    CUgreenCtx green = make_green();
    CUstream a = make_in(green), b = make_nonblocking();
    CUevent e = make_event();
    CHECK(cuGreenCtxRecordEvent(green, e));
    writes(a, p, N);
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

static void event_of_another_green(void) {
    CUdeviceptr p = alloc(N);
    CUgreenCtx green = make_green(), other = make_green();
    CUstream b = make_nonblocking();
    CUevent e = make_event();
    writes(make_in(green), p, N);
    CHECK(cuGreenCtxRecordEvent(other, e));
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

// The primary context's event covers its green ones. [cuCtxRecordEvent]
static void event_of_the_primary(void) {
    CUdeviceptr p = alloc(N);
    CUgreenCtx green = make_green();
    CUstream b = make_nonblocking();
    CUevent e = make_event();
    writes(make_in(green), p, N);
    CHECK(cuCtxRecordEvent(primary(0), e));
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

// The one of the context that represents a green context covers only that.
static void event_of_the_green_as_a_context(void) {
    CUdeviceptr p = alloc(N);
    CUgreenCtx green = make_green();
    CUstream b = make_in(green);
    CUevent e = make_event();
    writes(make_nonblocking(), p, N);
    CHECK(cuCtxRecordEvent(as_context(green), e));
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

static void host_waits_for_the_event(void) {
    char *host = alloc_pinned(N);
    CUgreenCtx green = make_green();
    CUevent e = make_event();
    writes(make_in(green), at_device(host), N);
    CHECK(cuGreenCtxRecordEvent(green, e));
    CHECK(cuEventSynchronize(e));
    host_reads(host, N);
}

static void host_does_not_wait_for_the_event(void) {
    char *host = alloc_pinned(N);
    CUgreenCtx green = make_green();
    CUevent e = make_event();
    writes(make_in(green), at_device(host), N);
    CHECK(cuGreenCtxRecordEvent(green, e));
    host_reads(host, N);
}

// --- waits of all streams ---

static void all_streams_wait(void) {
    CUdeviceptr p = alloc(N);
    CUgreenCtx green = make_green();
    CUstream a = make_nonblocking(), b = make_in(green), c = make_in(green);
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CHECK(cuGreenCtxWaitEvent(green, e));
    reads(b, p, N);
    reads(c, p, N);
}

// All future work waits, that of streams that are made later too.
static void later_streams_wait(void) {
    CUdeviceptr p = alloc(N);
    CUgreenCtx green = make_green();
    CUstream a = make_nonblocking();
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CHECK(cuGreenCtxWaitEvent(green, e));
    reads(make_in(green), p, N);
}

static void earlier_work_does_not_wait(void) {
    CUdeviceptr p = alloc(N);
    CUgreenCtx green = make_green();
    CUstream a = make_nonblocking(), b = make_in(green);
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    reads(b, p, N);
    CHECK(cuGreenCtxWaitEvent(green, e));
}

static void another_green_waits(void) {
    CUdeviceptr p = alloc(N);
    CUgreenCtx green = make_green(), other = make_green();
    CUstream a = make_nonblocking(), b = make_in(green);
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CHECK(cuGreenCtxWaitEvent(other, e));
    reads(b, p, N);
}

// Where the primary context waits, its green ones do. [cuCtxWaitEvent]
static void the_primary_waits(void) {
    CUdeviceptr p = alloc(N);
    CUgreenCtx green = make_green();
    CUstream a = make_in(make_green()), b = make_in(green);
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CHECK(cuCtxWaitEvent(primary(0), e));
    reads(b, p, N);
    reads(make_in(green), p, N);
    reads(make_in(make_green()), p, N);
}

static void only_the_green_waits(void) {
    CUdeviceptr p = alloc(N);
    CUgreenCtx green = make_green();
    CUstream a = make_in(make_green());
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuEventRecord(e, a));
    CHECK(cuCtxWaitEvent(as_context(green), e));
    reads(make_nonblocking(), p, N);
}

// Streams that wait for the same event do not wait for each other.
static void waiting_together(void) {
    CUdeviceptr p = alloc(N);
    CUgreenCtx green = make_green();
    CUstream a = make_nonblocking(), b = make_in(green), c = make_in(green);
    CUevent e = make_event();
    CHECK(cuEventRecord(e, a));
    writes(b, p, N);
    CHECK(cuGreenCtxWaitEvent(green, e));
    reads(c, p, N);
}

// All of one green context, then all of another.
static void from_all_to_all(void) {
    CUdeviceptr p = alloc(2 * N);
    CUgreenCtx green = make_green(), other = make_green();
    CUstream c = make_in(other);
    CUevent e = make_event();
    writes(make_in(green), p, N);
    writes(make_in(green), p + N, N);
    CHECK(cuGreenCtxRecordEvent(green, e));
    CHECK(cuGreenCtxWaitEvent(other, e));
    writes(c, p, 2 * N);
}

// A barrier for the streams of one green context: an event of all, for which all wait.
static void barrier_of_all(void) {
    CUdeviceptr p = alloc(N);
    CUgreenCtx green = make_green();
    CUstream a = make_in(green), b = make_in(green);
    CUevent e = make_event();
    writes(a, p, N);
    CHECK(cuGreenCtxRecordEvent(green, e));
    CHECK(cuGreenCtxWaitEvent(green, e));
    reads(b, p, N);
}

// The event was recorded again, elsewhere, before any stream waited.
static void recorded_again_elsewhere(void) {
    CUdeviceptr p = alloc(N);
    CUgreenCtx green = make_green();
    CUstream b = make_nonblocking();
    CUevent e = make_event();
    writes(make_in(green), p, N);
    CHECK(cuGreenCtxRecordEvent(green, e));
    CHECK(cuEventRecord(e, make_nonblocking()));
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

// --- graphs ---

static CUgraphExec captured_write(CUstream stream, CUdeviceptr p) {
    CUgraph graph;
    CUgraphExec exec;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemsetD8Async(p, 1, N, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphDestroy(graph));
    return exec;
}

static void graph_in_a_green_stream(void) {
    CUdeviceptr p = alloc(N);
    CUgreenCtx green = make_green();
    CUstream a = make_in(green);
    CUevent e = make_event();
    CHECK(cuGraphLaunch(captured_write(a, p), a));
    CHECK(cuGreenCtxRecordEvent(green, e));
    CHECK(cuStreamWaitEvent(CU_STREAM_LEGACY, e, 0));
    reads(CU_STREAM_LEGACY, p, N);
}

static void graph_launched_elsewhere(void) {
    CUdeviceptr p = alloc(N);
    CUgreenCtx green = make_green();
    CUevent e = make_event();
    CHECK(cuGraphLaunch(captured_write(make_in(green), p), make_nonblocking()));
    CHECK(cuGreenCtxRecordEvent(green, e));
    CHECK(cuStreamWaitEvent(CU_STREAM_LEGACY, e, 0));
    reads(CU_STREAM_LEGACY, p, N);
}
#endif

const struct race_program programs_green_contexts[] = {
#if CUDA_VERSION >= 12080
    RACY(green_and_primary),
    RACY(two_green_contexts),
    RACY(two_streams_of_one),
    CORRECT(one_stream),
    RACY(green_and_legacy),
    CORRECT(ordered_by_an_event),
    CORRECT(green_to_green_by_an_event),
    RACY(green_to_green_one_way),
    CORRECT(event_made_inside),
    CORRECT(memory_made_inside),
    CORRECT(null_inside_twice),
    RACY(stream_made_inside),
    CORRECT(host_waits_for_the_primary),
    CORRECT(host_waits_for_the_green),
    RACY(host_waits_for_too_little),
    RACY(destroyed_with_work),
    CORRECT(destroyed_after_the_record),
    RACY(of_another_device),
    CORRECT(of_another_device_ordered),
    CORRECT(event_of_all_streams),
    CORRECT(event_of_a_destroyed_stream),
    RACY(early_event_of_all_streams),
    RACY(event_of_another_green),
    CORRECT(event_of_the_primary),
    RACY(event_of_the_green_as_a_context),
    CORRECT(host_waits_for_the_event),
    RACY(host_does_not_wait_for_the_event),
    CORRECT(all_streams_wait),
    CORRECT(later_streams_wait),
    RACY(earlier_work_does_not_wait),
    RACY(another_green_waits),
    CORRECT(the_primary_waits),
    RACY(only_the_green_waits),
    RACY(waiting_together),
    CORRECT(from_all_to_all),
    CORRECT(barrier_of_all),
    RACY(recorded_again_elsewhere),
    CORRECT(graph_in_a_green_stream),
    RACY(graph_launched_elsewhere),
#endif
    END_OF_PROGRAMS,
};
