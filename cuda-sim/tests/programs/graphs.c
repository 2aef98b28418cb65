// Graphs: nodes are ordered by their dependencies, a launch by its stream and by earlier launches
// of the same executable graph. Capturing runs nothing.
#include "graphs.h"

static CUdeviceptr p, q;
static CUstream a, b, c;

static void prepare(void) {
    p = alloc(N);
    q = alloc(N);
    a = make_nonblocking();
    b = make_nonblocking();
    c = make_nonblocking();
}

// A graph of one kernel that writes.
static CUgraph writer(CUdeviceptr at) {
    begin(c);
    writes(c, at, N);
    return end(c);
}

// --- capture ---

// What one stream captures is a chain.
static void captured_chain(void) {
    prepare();
    begin(a);
    writes(a, p, N);
    reads(a, p, N);
    launch(end(a), a);
}

// A fork inside the capture: the branch reads what the origin writes after the fork.
static void captured_fork_without_order(void) {
    prepare();
    begin(a);
    order(a, b);
    writes(a, p, N);
    reads(b, p, N);
    order(b, a);
    launch(end(a), a);
}

// Here it writes before the fork.
static void captured_fork_after_the_write(void) {
    prepare();
    begin(a);
    writes(a, p, N);
    order(a, b);
    reads(b, p, N);
    order(b, a);
    launch(end(a), a);
}

// And after the join.
static void captured_write_after_the_join(void) {
    prepare();
    begin(a);
    order(a, b);
    reads(b, p, N);
    order(b, a);
    writes(a, p, N);
    launch(end(a), a);
}

// Two branches write the same bytes.
static void captured_branches_that_overlap(void) {
    prepare();
    begin(a);
    order(a, b);
    order(a, c);
    writes(b, p, N);
    writes(c, p, N);
    order(b, a);
    order(c, a);
    launch(end(a), a);
}

// Two branches write different bytes; the end reads both.
static void captured_diamond(void) {
    prepare();
    begin(a);
    order(a, b);
    order(a, c);
    writes(b, p, N);
    writes(c, q, N);
    order(b, a);
    order(c, a);
    reads(a, p, N);
    reads(a, q, N);
    launch(end(a), a);
}

// Captured work is not done: nothing races with a graph that is never launched.
static void captured_and_never_launched(void) {
    prepare();
    writer(p);
    writes(a, p, N);
}

// The stream that captured is not the stream of the launch.
static void launched_in_another_stream_than_captured(void) {
    prepare();
    begin(a);
    writes(a, p, N);
    launch(end(a), b);
    reads(a, p, N);
}

// In the stream of the launch, work comes after it.
static void read_in_the_stream_of_the_launch(void) {
    prepare();
    begin(a);
    writes(a, p, N);
    launch(end(a), b);
    reads(b, p, N);
}

// --- launches ---

// Work before the launch in its stream comes before all its nodes.
static void launch_after_work(void) {
    prepare();
    CUgraph graph = empty_graph();
    fill(graph, p, needs(NULL, NULL));
    fill(graph, q, needs(NULL, NULL));
    reads(a, p, N);
    reads(a, q, N);
    launch(graph, a);
}

// Work in another stream does not.
static void launch_beside_work(void) {
    prepare();
    CUgraph graph = writer(p);
    reads(a, p, N);
    launch(graph, b);
}

// But for an event.
static void launch_after_an_event(void) {
    prepare();
    CUgraph graph = writer(p);
    reads(a, p, N);
    order(a, b);
    launch(graph, b);
}

// Work after the launch in its stream comes after all its nodes, here two without order.
static void work_after_two_leaves(void) {
    prepare();
    CUgraph graph = empty_graph();
    fill(graph, p, needs(NULL, NULL));
    fill(graph, q, needs(NULL, NULL));
    launch(graph, a);
    reads(a, p, N);
    reads(a, q, N);
}

// An event behind the launch covers them, too.
static void event_behind_two_leaves(void) {
    prepare();
    CUgraph graph = empty_graph();
    fill(graph, p, needs(NULL, NULL));
    fill(graph, q, needs(NULL, NULL));
    launch(graph, a);
    order(a, b);
    reads(b, p, N);
    reads(b, q, N);
}

// An event from before the launch covers none.
static void event_before_the_launch(void) {
    prepare();
    CUgraph graph = writer(p);
    order(a, b);
    launch(graph, a);
    reads(b, p, N);
}

// Two different graphs in two streams.
static void two_graphs_in_two_streams(void) {
    prepare();
    CUgraph one = writer(p), other = writer(p);
    launch(one, a);
    launch(other, b);
}

// In one stream.
static void two_graphs_in_one_stream(void) {
    prepare();
    CUgraph one = writer(p), other = writer(p);
    launch(one, a);
    launch(other, a);
}

// Launches of one executable graph come one after the other, whatever the streams. [cuGraphLaunch]
static void one_executable_in_two_streams(void) {
    prepare();
    CUgraphExec exec = instance(writer(p));
    CHECK(cuGraphLaunch(exec, a));
    CHECK(cuGraphLaunch(exec, b));
    CHECK(cuGraphLaunch(exec, a));
}

// Work behind the second launch comes after the first one, and after what came before that in its
// stream.
static void order_through_two_launches(void) {
    prepare();
    CUgraphExec exec = instance(writer(p));
    writes(a, q, N);
    CHECK(cuGraphLaunch(exec, a));
    CHECK(cuGraphLaunch(exec, b));
    reads(b, q, N);
}

// Not after what came behind the first launch in its stream.
static void no_order_behind_the_first_launch(void) {
    prepare();
    CUgraphExec exec = instance(writer(p));
    CHECK(cuGraphLaunch(exec, a));
    writes(a, q, N);
    CHECK(cuGraphLaunch(exec, b));
    reads(b, q, N);
}

// Two executable graphs made from one graph are two.
static void two_executables_of_one_graph(void) {
    prepare();
    CUgraph graph = writer(p);
    launch(graph, a);
    launch(graph, b);
}

// So are a graph and its clone.
static void graph_and_clone(void) {
    prepare();
    CUgraph graph = writer(p), clone;
    CHECK(cuGraphClone(&clone, graph));
    launch(graph, a);
    launch(clone, b);
}

// The executable graph may be destroyed after the launch; the work is still ordered and waited for.
static void executable_destroyed(void) {
    prepare();
    CUgraphExec exec = instance(writer(p));
    CHECK(cuGraphLaunch(exec, a));
    CHECK(cuGraphExecDestroy(exec));
    order(a, b);
    writes(b, p, N);
}

// Launched in the legacy stream: after blocking streams.
static void launched_in_legacy(void) {
    prepare();
    CUgraph graph = writer(p);
    reads(make_stream(), p, N);
    launch(graph, CU_STREAM_LEGACY);
    reads(make_stream(), p, N);
}

// And without order with non-blocking ones.
static void launched_in_legacy_beside_nonblocking(void) {
    prepare();
    CUgraph graph = writer(p);
    launch(graph, CU_STREAM_LEGACY);
    reads(a, p, N);
}

// The host reads what the graph writes: after a wait.
static void host_reads_after_a_launch_and_a_wait(void) {
    char *host = alloc_pinned(N);
    prepare();
    launch(writer(at_device(host)), a);
    CHECK(cuStreamSynchronize(a));
    host_reads(host, N);
}

// Without one.
static void host_reads_after_a_launch(void) {
    char *host = alloc_pinned(N);
    prepare();
    launch(writer(at_device(host)), a);
    host_reads(host, N);
}

// The input of a graph is changed between two launches without waiting for the first.
static void input_changed_between_launches(void) {
    char *host = alloc_pinned(N);
    prepare();
    begin(a);
    CHECK(cuMemcpyHtoDAsync(p, host, N, a));
    CUgraphExec exec = instance(end(a));
    CHECK(cuGraphLaunch(exec, a));
    host_writes(host, N);
    CHECK(cuGraphLaunch(exec, a));
}

// With a wait.
static void input_changed_after_a_wait(void) {
    char *host = alloc_pinned(N);
    prepare();
    begin(a);
    CHECK(cuMemcpyHtoDAsync(p, host, N, a));
    CUgraphExec exec = instance(end(a));
    for (int i = 0; i < 3; ++i) {
        host_writes(host, N);
        CHECK(cuGraphLaunch(exec, a));
        CHECK(cuStreamSynchronize(a));
    }
}

// Work that was in the stream before the capture is not part of the graph.
static void work_before_the_capture(void) {
    prepare();
    writes(a, p, N);
    begin(a);
    reads(a, p, N);
    launch(end(a), b);
}

// It comes before the launch where that is in the same stream.
static void work_before_the_capture_and_the_launch(void) {
    prepare();
    writes(a, p, N);
    begin(a);
    reads(a, p, N);
    launch(end(a), a);
}

// A stream that took part in the capture takes no part in the launch.
static void work_in_a_branch_of_the_capture(void) {
    prepare();
    begin(a);
    order(a, b);
    writes(b, p, N);
    order(b, a);
    launch(end(a), a);
    reads(b, p, N);
}

// A record with the external flag is a node: each launch records the event.
static void event_recorded_by_the_launch(void) {
    CUevent e = make_event();
    prepare();
    begin(a);
    writes(a, p, N);
    CHECK(cuEventRecordWithFlags(e, a, CU_EVENT_RECORD_EXTERNAL));
    launch(end(a), a);
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

// In the graph it comes before the write.
static void event_recorded_by_the_launch_too_early(void) {
    CUevent e = make_event();
    prepare();
    begin(a);
    CHECK(cuEventRecordWithFlags(e, a, CU_EVENT_RECORD_EXTERNAL));
    writes(a, p, N);
    launch(end(a), a);
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

// A wait with the external flag is a node: the launch waits for the event.
static void event_waited_for_by_the_launch(void) {
    CUevent e = make_event();
    prepare();
    begin(a);
    CHECK(cuStreamWaitEvent(a, e, CU_EVENT_WAIT_EXTERNAL));
    writes(a, p, N);
    CUgraph graph = end(a);
    reads(b, p, N);
    CHECK(cuEventRecord(e, b));
    launch(graph, a);
}

// In the graph it comes after the write.
static void event_waited_for_by_the_launch_too_late(void) {
    CUevent e = make_event();
    prepare();
    begin(a);
    writes(a, p, N);
    CHECK(cuStreamWaitEvent(a, e, CU_EVENT_WAIT_EXTERNAL));
    CUgraph graph = end(a);
    reads(b, p, N);
    CHECK(cuEventRecord(e, b));
    launch(graph, a);
}

static CUgraphExec of_threads;

static void *launches_in_b(void *none) {
    CHECK(cuGraphLaunch(of_threads, b));
    return none;
}

// Two threads launch one executable graph, one after the other.
static void one_executable_in_two_threads(void) {
    prepare();
    of_threads = instance(writer(p));
    CHECK(cuGraphLaunch(of_threads, a));
    finish(start(launches_in_b, NULL));
    reads(b, p, N);
}

const struct race_program programs_graphs[] = {
    CORRECT(captured_chain),
    RACY(captured_fork_without_order),
    CORRECT(captured_fork_after_the_write),
    CORRECT(captured_write_after_the_join),
    RACY(captured_branches_that_overlap),
    CORRECT(captured_diamond),
    CORRECT(captured_and_never_launched),
    RACY(launched_in_another_stream_than_captured),
    CORRECT(read_in_the_stream_of_the_launch),
    CORRECT(launch_after_work),
    RACY(launch_beside_work),
    CORRECT(launch_after_an_event),
    CORRECT(work_after_two_leaves),
    CORRECT(event_behind_two_leaves),
    RACY(event_before_the_launch),
    RACY(two_graphs_in_two_streams),
    CORRECT(two_graphs_in_one_stream),
    CORRECT(one_executable_in_two_streams),
    CORRECT(order_through_two_launches),
    RACY(no_order_behind_the_first_launch),
    RACY(two_executables_of_one_graph),
    RACY(graph_and_clone),
    CORRECT(executable_destroyed),
    CORRECT(launched_in_legacy),
    RACY(launched_in_legacy_beside_nonblocking),
    CORRECT(host_reads_after_a_launch_and_a_wait),
    RACY(host_reads_after_a_launch),
    RACY(input_changed_between_launches),
    CORRECT(input_changed_after_a_wait),
    RACY(work_before_the_capture),
    CORRECT(work_before_the_capture_and_the_launch),
    RACY(work_in_a_branch_of_the_capture),
    CORRECT(event_recorded_by_the_launch),
    RACY(event_recorded_by_the_launch_too_early),
    CORRECT(event_waited_for_by_the_launch),
    RACY(event_waited_for_by_the_launch_too_late),
    CORRECT(one_executable_in_two_threads),
    END_OF_PROGRAMS,
};
