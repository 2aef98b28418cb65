// The rules where more than one array has the same bytes, where work comes from graphs and host
// functions, and where streams, threads and contexts end.
#include "exchange.h"

static CUdeviceptr p;
static CUstream mine, other;

static struct array prepare(void) {
    p = alloc(N);
    mine = make_nonblocking();
    other = make_nonblocking();
    return make_array(p, make_nonblocking());
}

static CUgraphExec captured(CUstream stream, void (*touch)(CUstream, CUdeviceptr, size_t)) {
    CUgraph graph;
    CUgraphExec made;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    touch(stream, p, N);
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&made, graph, 0));
    return made;
}

// One of two interleaved columns of 4 bytes.
static struct array column(struct array whole, int which) {
    whole.at += (CUdeviceptr)which * 4;
    whole.owner = &owners[which];
    whole.n = 4;
    whole.rows = N / 8;
    whole.pitch = 8;
    return whole;
}

static void reads_column(CUstream s, const struct array *a) {
    reads_strided(s, a->at, a->n, a->rows, a->pitch);
}
static void writes_column(CUstream s, const struct array *a) {
    writes_strided(s, a->at, a->n, a->rows, a->pitch);
}

// --- R3 and R4: which side of a race lacks a call

static void r3_read_by_a_stranger_then_written(void) {
    struct array a = prepare();
    exports(&a);
    reads(mine, p, N);
    writes(stream_of(&a), p, N);
}

static void r3_begun_before_the_newer_export(void) {
    struct array a = prepare();
    exports(&a);
    reads_properly(&a, mine);
    writes(stream_of(&a), p, N);
    exports(&a);
    reads(mine, p, N);
}

static void r3_again_after_the_end(void) {
    struct array a = prepare();
    exports(&a);
    reads_properly(&a, mine);
    writes(stream_of(&a), p, N);
    reads(mine, p, N);
}

static void r3_graph_without_begin(void) {
    struct array a = prepare();
    CUgraphExec graph = captured(mine, reads);
    writes(stream_of(&a), p, N);
    exports(&a);
    CHECK(cuGraphLaunch(graph, mine));
}

static void r4_used_after_the_end(void) {
    struct array a = prepare();
    exports(&a);
    begins(&a, mine, CUDASIM_READ);
    ends(&a, mine, CUDASIM_READ);
    reads(mine, p, N);
    writes(stream_of(&a), p, N);
}

static void r4_graph_without_end(void) {
    struct array a = prepare();
    CUgraphExec graph = captured(mine, reads);
    exports(&a);
    begins(&a, mine, CUDASIM_READ);
    CHECK(cuGraphLaunch(graph, mine));
    writes(stream_of(&a), p, N);
}

static void r4_slice_without_end(void) {
    struct array a = prepare(), slice = a;
    slice.n = N / 2;
    exports(&a);
    begins(&slice, mine, CUDASIM_READ);
    reads(mine, p, N / 2);
    writes(stream_of(&a), p, N);
}

// Begun through another view of the same bytes: what is missing is the producer's join of `other`.
static void r2_and_a_consumer_of_a_slice(void) {
    struct array a = prepare(), slice = a;
    slice.n = N / 2;
    writes(other, p, N);
    exports(&a);
    begins(&slice, mine, CUDASIM_READ);
    reads(mine, p, N / 2);
}

// --- several exports of the same bytes

static void two_owners_of_one_tensor(void) {
    struct array a = prepare(), b = a;
    b.owner = &owners[1];
    writes(stream_of(&a), p, N);
    exports(&a);
    begins(&a, mine, CUDASIM_READ);
    reads(mine, p, N);
    exports(&b);
    begins(&b, other, CUDASIM_READ);
    reads(other, p, N);
    ends(&a, mine, CUDASIM_READ);
    ends(&b, other, CUDASIM_READ);
    destroys(&a);
    destroys(&b);
    writes(stream_of(&a), p, N);
}

static void slice_exported_while_the_whole_is_read(void) {
    struct array a = prepare(), slice = a;
    slice.n = N / 2;
    exports(&a);
    begins(&a, mine, CUDASIM_READ);
    reads(mine, p, N);
    exports(&slice);
    reads_properly(&slice, other);
    ends(&a, mine, CUDASIM_READ);
    writes(stream_of(&a), p, N);
}

static void first_owner_gone_while_the_second_is_read(void) {
    struct array a = prepare(), b = a;
    b.owner = &owners[1];
    exports(&a);
    reads_properly(&a, mine);
    exports(&b);
    begins(&b, mine, CUDASIM_READ);
    reads(mine, p, N);
    destroys(&a);
    ends(&b, mine, CUDASIM_READ);
    destroys(&b);
}

static void in_place_through_two_views(void) {
    struct array in = prepare(), out = in;
    in.flags = CUDASIM_CAI_READONLY;
    out.owner = &owners[1];
    exports(&in);
    exports(&out);
    begins(&in, mine, CUDASIM_READ);
    begins(&out, mine, CUDASIM_WRITE);
    writes(mine, p, N);
    ends(&out, mine, CUDASIM_WRITE);
    ends(&in, mine, CUDASIM_READ);
    writes(stream_of(&in), p, N);
}

static void r7_more_than_the_writable_view(void) {
    struct array in = prepare(), out = in;
    out.owner = &owners[1];
    out.n = N / 2;
    exports(&in);
    exports(&out);
    begins(&in, mine, CUDASIM_READ);
    begins(&out, mine, CUDASIM_WRITE);
    writes(mine, p, N / 2 + 1);
}

static void column_written_beside_one_that_is_read(void) {
    struct array whole = prepare(), in = column(whole, 0), out = column(whole, 1);
    in.flags = CUDASIM_CAI_READONLY;
    exports(&in);
    begins(&in, mine, CUDASIM_READ);
    reads_column(mine, &in);
    writes_column(mine, &out);
    ends(&in, mine, CUDASIM_READ);
}

static void r7_column_that_is_read(void) {
    struct array whole = prepare(), in = column(whole, 0);
    exports(&in);
    begins(&in, mine, CUDASIM_READ);
    writes_column(mine, &in);
    ends(&in, mine, CUDASIM_READ);
}

static void columns_exported_from_different_streams(void) {
    struct array whole = prepare(), left = column(whole, 0), right = column(whole, 1);
    right.stream = (uint64_t)(uintptr_t)other;
    writes_column(stream_of(&left), &left);
    writes_column(stream_of(&right), &right);
    exports(&left);
    exports(&right);
}

static void r2_column_of_another_stream(void) {
    struct array whole = prepare(), left = column(whole, 0), right = column(whole, 1);
    writes_column(stream_of(&left), &left);
    writes_column(other, &right);
    exports(&left);
    exports(&right);
}

static void mask_with_an_owner_of_its_own(void) {
    struct array a = prepare(), mask = make_array(alloc(N), other);
    mask.owner = &owners[1];
    writes(stream_of(&a), p, N);
    writes(other, mask.at, N);
    exports(&a);
    exports(&mask);
    begins(&a, mine, CUDASIM_WRITE);
    begins(&mask, mine, CUDASIM_READ);
    reads(mine, mask.at, N);
    writes(mine, p, N);
    ends(&mask, mine, CUDASIM_READ);
    ends(&a, mine, CUDASIM_WRITE);
    destroys(&mask);
    destroys(&a);
    writes(other, mask.at, N);
}

// Without a stream, nothing waits for readers, and nothing has to.
static void readers_of_an_array_without_a_stream(void) {
    struct array a = prepare();
    writes(stream_of(&a), p, N);
    CHECK(cuStreamSynchronize(stream_of(&a)));
    a.stream = NO_STREAM;
    exports(&a);
    reads_properly(&a, mine);
    exports(&a);
    reads_properly(&a, other);
}

static void r1_consumers_write_of_an_array_without_a_stream(void) {
    struct array a = prepare();
    a.stream = NO_STREAM;
    exports(&a);
    begins(&a, mine, CUDASIM_WRITE);
    writes(mine, p, N);
    ends(&a, mine, CUDASIM_WRITE);
    exports(&a);
}

static void exported_again_while_streams_of_a_consumer_read(void) {
    struct array a = prepare(), b = a;
    CUstream inner = make_nonblocking();
    b.owner = &owners[1];
    exports(&a);
    begins(&a, mine, CUDASIM_READ);
    order(mine, inner);
    reads(inner, p, N);
    exports(&b);
    reads_properly(&b, other);
    order(inner, mine);
    ends(&a, mine, CUDASIM_READ);
    writes(stream_of(&a), p, N);
}

static void *write_in_the_legacy_stream(void *data) {
    const struct array *a = data;
    writes(CU_STREAM_LEGACY, a->at, N);
    return NULL;
}

// Another thread in the same stream is not the consumer.
static void producer_in_the_consumers_default_stream(void) {
    struct array a = prepare();
    a.stream = NO_STREAM;
    exports(&a);
    begins(&a, CU_STREAM_LEGACY, CUDASIM_READ);
    reads(CU_STREAM_LEGACY, p, N);
    finish(start(write_in_the_legacy_stream, &a));
    ends(&a, CU_STREAM_LEGACY, CUDASIM_READ);
}

// --- graphs

static void launched_between_begin_and_end(void) {
    struct array a = prepare();
    CUgraphExec graph = captured(mine, reads);
    for (int i = 0; i < 3; ++i) {
        writes(stream_of(&a), p, N);
        exports(&a);
        begins(&a, mine, CUDASIM_READ);
        CHECK(cuGraphLaunch(graph, mine));
        ends(&a, mine, CUDASIM_READ);
    }
    destroys(&a);
}

static void exported_again_while_a_graph_reads(void) {
    struct array a = prepare(), b = a;
    CUgraphExec graph = captured(mine, reads);
    b.owner = &owners[1];
    exports(&a);
    begins(&a, mine, CUDASIM_READ);
    CHECK(cuGraphLaunch(graph, mine));
    exports(&b);
    ends(&a, mine, CUDASIM_READ);
}

// The launch orders it: nothing is known of that yet.
static void exported_inside_a_capture(void) {
    struct array a = prepare();
    CUgraph graph;
    CUgraphExec exec;
    writes(other, p, N);
    CHECK(cuStreamBeginCapture(stream_of(&a), CU_STREAM_CAPTURE_MODE_GLOBAL));
    writes(stream_of(&a), p, N);
    exports(&a);
    CHECK(cuStreamEndCapture(stream_of(&a), &graph));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    order(other, stream_of(&a));
    CHECK(cuGraphLaunch(exec, stream_of(&a)));
}

static void r5_graph_still_reads(void) {
    struct array a = prepare();
    CUgraphExec graph = captured(mine, reads);
    exports(&a);
    begins(&a, mine, CUDASIM_READ);
    CHECK(cuGraphLaunch(graph, mine));
    destroys(&a);
}

static void r7_graph_writes(void) {
    struct array a = prepare();
    CUgraphExec graph = captured(mine, writes);
    exports(&a);
    begins(&a, mine, CUDASIM_READ);
    CHECK(cuGraphLaunch(graph, mine));
    ends(&a, mine, CUDASIM_READ);
}

// --- ends of streams, threads and contexts

static void r5_consumers_stream_destroyed(void) {
    struct array a = prepare();
    exports(&a);
    begins(&a, mine, CUDASIM_READ);
    reads(mine, p, N);
    CHECK(cuStreamDestroy(mine));
    destroys(&a);
}

static void stream_with_the_number_of_an_older_one(void) {
    struct array a = prepare();
    exports(&a);
    begins(&a, mine, CUDASIM_READ);
    reads(mine, p, N);
    CHECK(cuStreamSynchronize(mine));
    CHECK(cuStreamDestroy(mine));
    // Not the consumer, whatever its handle is: its writes elsewhere are its own.
    mine = make_nonblocking();
    writes(mine, p, N);
    order(mine, stream_of(&a));
    destroys(&a);
}

static void let_go(void *data) { destroys(data); }

static void let_go_in_a_host_function(void) {
    static struct array a;
    a = prepare();
    exports(&a);
    reads_properly(&a, mine);
    CHECK(cuLaunchHostFunc(mine, let_go, &a));
    CHECK(cuStreamSynchronize(mine));
    CHECK(cuStreamDestroy(stream_of(&a)));
}

static void destroyed_with_its_context(void) {
    CUcontext context = second_context();
    struct array a = prepare();
    exports(&a);
    CHECK(cuCtxDestroy(context));
    use(primary(0));
    destroys(&a);
}

static void *export_from_here(void *data) {
    struct array *a = data;
    a->stream = 2;
    writes(CU_STREAM_PER_THREAD, a->at, N);
    exports(a);
    CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return NULL;
}

static void per_thread_stream_ends_with_its_thread(void) {
    struct array a = prepare();
    finish(start(export_from_here, &a));
    destroys(&a);
}

// An event is sent after the calls of the driver. It makes none: nothing has waited for the legacy
// stream.
static void note_is_no_wait(void) {
    char *host = alloc_pinned(N);
    struct array a = make_array(alloc(N), make_stream());
    writes(CU_STREAM_LEGACY, at_device(host), N);
    exports(&a);
    CHECK(cuStreamSynchronize(stream_of(&a)));
    host_reads(host, N);
}

const struct race_program programs_rules_views[] = {
    RACY(r3_read_by_a_stranger_then_written),
    RACY(r3_begun_before_the_newer_export),
    RACY(r3_again_after_the_end),
    RACY(r3_graph_without_begin),
    RACY(r4_used_after_the_end),
    RACY(r4_graph_without_end),
    RACY(r4_slice_without_end),
    RACY(r2_and_a_consumer_of_a_slice),
    CORRECT(two_owners_of_one_tensor),
    CORRECT(slice_exported_while_the_whole_is_read),
    CORRECT(first_owner_gone_while_the_second_is_read),
    CORRECT(in_place_through_two_views),
    RACY(r7_more_than_the_writable_view),
    CORRECT(column_written_beside_one_that_is_read),
    RACY(r7_column_that_is_read),
    CORRECT(columns_exported_from_different_streams),
    RACY(r2_column_of_another_stream),
    CORRECT(mask_with_an_owner_of_its_own),
    CORRECT(readers_of_an_array_without_a_stream),
    RACY(r1_consumers_write_of_an_array_without_a_stream),
    CORRECT(exported_again_while_streams_of_a_consumer_read),
    CORRECT(producer_in_the_consumers_default_stream),
    CORRECT(launched_between_begin_and_end),
    CORRECT(exported_again_while_a_graph_reads),
    CORRECT(exported_inside_a_capture),
    RACY(r5_graph_still_reads),
    RACY(r7_graph_writes),
    RACY(r5_consumers_stream_destroyed),
    CORRECT(stream_with_the_number_of_an_older_one),
    CORRECT(let_go_in_a_host_function),
    CORRECT(destroyed_with_its_context),
    CORRECT(per_thread_stream_ends_with_its_thread),
    RACY(note_is_no_wait),
    END_OF_PROGRAMS,
};
