// Graphs whose nodes programs add: the order of nodes is their dependencies.
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

// A copy depends on the fill of its source.
static void copy_after_fill(void) {
    prepare();
    CUgraph graph = empty_graph();
    copy(graph, q, p, needs(fill(graph, p, needs(NULL, NULL)), NULL));
    launch(graph, a);
}

// The dependency is missing: the order in which nodes are added means nothing.
static void copy_beside_fill(void) {
    prepare();
    CUgraph graph = empty_graph();
    fill(graph, p, needs(NULL, NULL));
    copy(graph, q, p, needs(NULL, NULL));
    launch(graph, a);
}

// Over a host node.
static void order_over_a_host_node(void) {
    prepare();
    CUgraph graph = empty_graph();
    CUgraphNode first = fill(graph, p, needs(NULL, NULL));
    copy(graph, q, p, needs(host_node(graph, needs(first, NULL)), NULL));
    launch(graph, a);
}

// Over an empty node that joins two fills.
static void join_by_an_empty_node(void) {
    prepare();
    CUgraph graph = empty_graph();
    CUgraphNode fills[] = {fill(graph, p, needs(NULL, NULL)), fill(graph, q, needs(NULL, NULL))},
                join;
    CHECK(cuGraphAddEmptyNode(&join, graph, fills, 2));
    copy(graph, q, p, needs(join, NULL));
    launch(graph, a);
}

// The empty node joins one of them only.
static void join_of_one_by_an_empty_node(void) {
    prepare();
    CUgraph graph = empty_graph();
    CUgraphNode fills[] = {fill(graph, p, needs(NULL, NULL)), fill(graph, q, needs(NULL, NULL))},
                join;
    CHECK(cuGraphAddEmptyNode(&join, graph, fills, 1));
    copy(graph, q, p, needs(join, NULL));
    launch(graph, a);
}

// A diamond: the last copy depends on both sides.
static void diamond_by_hand(void) {
    prepare();
    CUdeviceptr r = alloc(N);
    CUgraph graph = empty_graph();
    CUgraphNode top = fill(graph, p, needs(NULL, NULL));
    CUgraphNode left = copy(graph, q, p, needs(top, NULL)),
                right = copy(graph, r, p, needs(top, NULL));
    copy(graph, q, r, needs(left, right));
    launch(graph, a);
}

// The last copy depends on one side, and writes where the other writes.
static void diamond_by_hand_without_one_edge(void) {
    prepare();
    CUdeviceptr r = alloc(N);
    CUgraph graph = empty_graph();
    CUgraphNode top = fill(graph, p, needs(NULL, NULL));
    CUgraphNode right = copy(graph, r, p, needs(top, NULL));
    copy(graph, q, p, needs(top, NULL));
    copy(graph, q, r, needs(right, NULL));
    launch(graph, a);
}

// A graph inside a graph, behind the fill of what it reads.
static void child_graph(void) {
    prepare();
    CUgraph child = empty_graph(), graph = empty_graph();
    CUgraphNode node;
    copy(child, q, p, needs(NULL, NULL));
    CUgraphNode first = fill(graph, p, needs(NULL, NULL));
    CHECK(cuGraphAddChildGraphNode(&node, graph, &first, 1, child));
    fill(graph, q, needs(node, NULL));
    launch(graph, a);
}

// Beside it.
static void child_graph_without_dependency(void) {
    prepare();
    CUgraph child = empty_graph(), graph = empty_graph();
    CUgraphNode node;
    copy(child, q, p, needs(NULL, NULL));
    fill(graph, p, needs(NULL, NULL));
    CHECK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
    launch(graph, a);
}

// A node records an event behind the fill; another stream waits for it after the launch.
static void event_recorded_by_a_node(void) {
    prepare();
    CUgraph graph = empty_graph();
    CUevent e = make_event();
    CUgraphNode first = fill(graph, p, needs(NULL, NULL)), record;
    CHECK(cuGraphAddEventRecordNode(&record, graph, &first, 1, e));
    launch(graph, a);
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

// The recording node does not depend on the fill.
static void event_recorded_by_an_unrelated_node(void) {
    prepare();
    CUgraph graph = empty_graph();
    CUevent e = make_event();
    CUgraphNode record;
    fill(graph, p, needs(NULL, NULL));
    CHECK(cuGraphAddEventRecordNode(&record, graph, NULL, 0, e));
    launch(graph, a);
    CHECK(cuStreamWaitEvent(b, e, 0));
    reads(b, p, N);
}

// A node waits for an event of another stream; the fill depends on it.
static void event_waited_for_by_a_node(void) {
    prepare();
    CUgraph graph = empty_graph();
    CUevent e = make_event();
    CUgraphNode wait;
    CHECK(cuGraphAddEventWaitNode(&wait, graph, NULL, 0, e));
    fill(graph, p, needs(wait, NULL));
    reads(b, p, N);
    CHECK(cuEventRecord(e, b));
    launch(graph, a);
}

// The fill does not depend on the node that waits.
static void event_waited_for_by_an_unrelated_node(void) {
    prepare();
    CUgraph graph = empty_graph();
    CUevent e = make_event();
    CUgraphNode wait;
    CHECK(cuGraphAddEventWaitNode(&wait, graph, NULL, 0, e));
    fill(graph, p, needs(NULL, NULL));
    reads(b, p, N);
    CHECK(cuEventRecord(e, b));
    launch(graph, a);
}

// The event is recorded after the launch: the node waited for what there was before.
static void event_recorded_after_the_launch(void) {
    prepare();
    CUgraph graph = empty_graph();
    CUevent e = make_event();
    CUgraphNode wait;
    CHECK(cuGraphAddEventWaitNode(&wait, graph, NULL, 0, e));
    fill(graph, p, needs(wait, NULL));
    reads(b, p, N);
    launch(graph, a);
    CHECK(cuEventRecord(e, b));
}

const struct race_program programs_graph_nodes[] = {
    CORRECT(copy_after_fill),
    RACY(copy_beside_fill),
    CORRECT(order_over_a_host_node),
    CORRECT(join_by_an_empty_node),
    RACY(join_of_one_by_an_empty_node),
    CORRECT(diamond_by_hand),
    RACY(diamond_by_hand_without_one_edge),
    CORRECT(child_graph),
    RACY(child_graph_without_dependency),
    CORRECT(event_recorded_by_a_node),
    RACY(event_recorded_by_an_unrelated_node),
    CORRECT(event_waited_for_by_a_node),
    RACY(event_waited_for_by_an_unrelated_node),
    RACY(event_recorded_after_the_launch),
    END_OF_PROGRAMS,
};
