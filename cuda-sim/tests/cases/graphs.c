// Graphs: what is captured is ordered by its dependencies; what is launched, by its stream.
#include "case.h"

static CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec made;
    OK(cuGraphInstantiateWithFlags(&made, graph, 0));
    return made;
}

static void begin(CUstream stream) { OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)); }

static CUgraphExec end(CUstream stream) {
    CUgraph graph;
    OK(cuStreamEndCapture(stream, &graph));
    return instantiate(graph);
}

static void captured_in_one_stream(void) {
    CUstream a = nonblocking();
    CUdeviceptr p = device(N);
    begin(a);
    writes(a, p, N);
    reads(a, p, N);
    CUgraphExec exec = end(a);
    OK(cuGraphLaunch(exec, a));
    OK(cuGraphLaunch(exec, a));
}

static void forked_and_joined(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N), q = device(N);
    begin(a);
    writes(a, p, N);
    after(b, a);
    reads(b, p, N);
    writes(b, q, N);
    reads(a, p, N);
    after(a, b);
    writes(a, p, N);
    reads(a, q, N);
    OK(cuGraphLaunch(end(a), a));
}

// Joined in the end, but the two branches touch the same bytes.
static void branches_that_meet(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    begin(a);
    after(b, a);
    writes(a, p, N);
    writes(b, p, N);
    after(a, b);
    OK(cuGraphLaunch(end(a), a));
}

static void launched_and_read_on_the_stream(void) {
    CUstream a = nonblocking();
    CUdeviceptr p = device(N);
    begin(a);
    writes(a, p, N);
    CUgraphExec exec = end(a);
    OK(cuGraphLaunch(exec, a));
    reads(a, p, N);
}

static void launched_and_read_elsewhere(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    begin(a);
    writes(a, p, N);
    CUgraphExec exec = end(a);
    OK(cuGraphLaunch(exec, a));
    reads(b, p, N);
}

static void launched_and_read_elsewhere_in_order(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    begin(a);
    writes(a, p, N);
    CUgraphExec exec = end(a);
    OK(cuGraphLaunch(exec, a));
    after(b, a);
    reads(b, p, N);
}

static void not_ordered_after_what_it_reads(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    begin(a);
    reads(a, p, N);
    CUgraphExec exec = end(a);
    writes(b, p, N);
    OK(cuGraphLaunch(exec, a));
}

// Capturing does nothing yet.
static void captured_and_never_launched(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    begin(a);
    writes(a, p, N);
    CUgraph graph;
    OK(cuStreamEndCapture(a, &graph));
    writes(b, p, N);
}

// Launches of one executable graph come one after another, wherever they go. [cuGraphLaunch]
static void the_same_graph_on_two_streams(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    begin(a);
    writes(a, p, N);
    CUgraphExec exec = end(a);
    OK(cuGraphLaunch(exec, a));
    OK(cuGraphLaunch(exec, b));
    reads(b, p, N);
}

static void two_graphs_on_two_streams(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    begin(a);
    writes(a, p, N);
    CUgraph graph;
    OK(cuStreamEndCapture(a, &graph));
    OK(cuGraphLaunch(instantiate(graph), a));
    OK(cuGraphLaunch(instantiate(graph), b));
}

static CUgraphNode fill(CUgraph graph, CUdeviceptr p, const CUgraphNode *dependencies, size_t count) {
    CUgraphNode node;
    CUDA_MEMSET_NODE_PARAMS params = {.dst = p, .value = 1, .elementSize = 1, .width = N, .height = 1};
    OK(cuGraphAddMemsetNode(&node, graph, dependencies, count, &params, ctx));
    return node;
}

static void made_by_hand(void) {
    CUgraph graph;
    CUdeviceptr p = device(N);
    OK(cuGraphCreate(&graph, 0));
    const CUgraphNode first = fill(graph, p, NULL, 0);
    fill(graph, p, &first, 1);
    CUstream a = nonblocking();
    OK(cuGraphLaunch(instantiate(graph), a));
    reads(a, p, N);
}

static void made_by_hand_without_the_edge(void) {
    CUgraph graph;
    CUdeviceptr p = device(N);
    OK(cuGraphCreate(&graph, 0));
    fill(graph, p, NULL, 0);
    fill(graph, p, NULL, 0);
    OK(cuGraphLaunch(instantiate(graph), nonblocking()));
}

static void joined_through_an_empty_node(void) {
    CUgraph graph;
    CUdeviceptr p = device(N), q = device(N);
    OK(cuGraphCreate(&graph, 0));
    CUgraphNode two[2] = {fill(graph, p, NULL, 0), fill(graph, q, NULL, 0)}, joined;
    OK(cuGraphAddEmptyNode(&joined, graph, two, 2));
    fill(graph, p, &joined, 1);
    fill(graph, q, &joined, 1);
    OK(cuGraphLaunch(instantiate(graph), nonblocking()));
}

static void a_child_graph_in_order(void) {
    CUgraph child, graph;
    CUdeviceptr p = device(N);
    CUgraphNode node;
    OK(cuGraphCreate(&child, 0));
    fill(child, p, NULL, 0);
    OK(cuGraphCreate(&graph, 0));
    const CUgraphNode first = fill(graph, p, NULL, 0);
    OK(cuGraphAddChildGraphNode(&node, graph, &first, 1, child));
    fill(graph, p, &node, 1);
    OK(cuGraphLaunch(instantiate(graph), nonblocking()));
}

static void a_child_graph_beside(void) {
    CUgraph child, graph;
    CUdeviceptr p = device(N);
    CUgraphNode node;
    OK(cuGraphCreate(&child, 0));
    fill(child, p, NULL, 0);
    OK(cuGraphCreate(&graph, 0));
    fill(graph, p, NULL, 0);
    OK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
    OK(cuGraphLaunch(instantiate(graph), nonblocking()));
}

// A node that records makes an order for streams outside. [cuEventRecordWithFlags]
static void an_event_recorded_by_the_graph(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N), q = device(N);
    CUevent e = event();
    begin(a);
    writes(a, p, N);
    OK(cuEventRecordWithFlags(e, a, CU_EVENT_RECORD_EXTERNAL));
    writes(a, q, N);
    CUgraphExec exec = end(a);
    OK(cuGraphLaunch(exec, a));
    OK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

static void after_the_event_recorded_by_the_graph(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N), q = device(N);
    CUevent e = event();
    begin(a);
    writes(a, p, N);
    OK(cuEventRecordWithFlags(e, a, CU_EVENT_RECORD_EXTERNAL));
    writes(a, q, N);
    CUgraphExec exec = end(a);
    OK(cuGraphLaunch(exec, a));
    OK(cuStreamWaitEvent(b, e, 0));
    reads(b, q, N);
}

static void an_event_waited_for_by_the_graph(void) {
    CUstream a = nonblocking(), b = nonblocking();
    CUdeviceptr p = device(N);
    CUevent e = event();
    begin(a);
    OK(cuStreamWaitEvent(a, e, CU_EVENT_WAIT_EXTERNAL));
    reads(a, p, N);
    CUgraphExec exec = end(a);
    writes(b, p, N);
    OK(cuEventRecord(e, b));
    OK(cuGraphLaunch(exec, a));
}

static void synchronized_after_a_launch(void) {
    CUstream a = nonblocking();
    char *host = pinned(N);
    CUdeviceptr p = device(N);
    begin(a);
    OK(cuMemcpyDtoHAsync(host, p, N, a));
    CUgraphExec exec = end(a);
    OK(cuGraphLaunch(exec, a));
    OK(cuStreamSynchronize(a));
    host_reads(host, N);
}

static void read_after_a_launch(void) {
    CUstream a = nonblocking();
    char *host = pinned(N);
    CUdeviceptr p = device(N);
    begin(a);
    OK(cuMemcpyDtoHAsync(host, p, N, a));
    CUgraphExec exec = end(a);
    OK(cuGraphLaunch(exec, a));
    host_reads(host, N);
}

const struct race_case graphs_cases[] = {
    CORRECT(captured_in_one_stream),
    CORRECT(forked_and_joined),
    RACY(branches_that_meet),
    CORRECT(launched_and_read_on_the_stream),
    RACY(launched_and_read_elsewhere),
    CORRECT(launched_and_read_elsewhere_in_order),
    RACY(not_ordered_after_what_it_reads),
    CORRECT(captured_and_never_launched),
    CORRECT(the_same_graph_on_two_streams),
    RACY(two_graphs_on_two_streams),
    CORRECT(made_by_hand),
    RACY(made_by_hand_without_the_edge),
    CORRECT(joined_through_an_empty_node),
    CORRECT(a_child_graph_in_order),
    RACY(a_child_graph_beside),
    CORRECT(an_event_recorded_by_the_graph),
    RACY(after_the_event_recorded_by_the_graph),
    CORRECT(an_event_waited_for_by_the_graph),
    CORRECT(synchronized_after_a_launch),
    RACY(read_after_a_launch),
    {NULL, 0, NULL},
};
