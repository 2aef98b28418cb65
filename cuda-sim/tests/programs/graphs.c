// Graphs: nodes are ordered by their dependencies, a launch by its stream and by earlier launches
// of the same executable graph. Capturing runs nothing.
//
// What a row can say about this is in tests/litmus/graphs.txt.
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

// --- launches ---

// So are a graph and its clone.
static void graph_and_clone(void) {
    prepare();
    CUgraph graph = writer(p), clone;
    CHECK(cuGraphClone(&clone, graph));
    launch(graph, a);
    launch(clone, b);
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
    RACY(graph_and_clone),
    CORRECT(one_executable_in_two_threads),
    END_OF_PROGRAMS,
};
