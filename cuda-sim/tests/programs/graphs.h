// Shared by the programs about graphs: two buffers, three streams, captures and launches.
#ifndef GRAPHS_H
#define GRAPHS_H

#include "race_test.h"

static CUdeviceptr p, q;
static CUstream a, b, c;

static inline void prepare(void) {
    p = alloc(N);
    q = alloc(N);
    a = make_nonblocking();
    b = make_nonblocking();
    c = make_nonblocking();
}

static inline void begin(CUstream stream) {
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

static inline CUgraph end(CUstream stream) {
    CUgraph graph;
    CHECK(cuStreamEndCapture(stream, &graph));
    return graph;
}

static inline CUgraphExec instance(CUgraph graph) {
    CUgraphExec made;
    CHECK(cuGraphInstantiate(&made, graph, 0));
    return made;
}

static inline void launch(CUgraph graph, CUstream stream) {
    CHECK(cuGraphLaunch(instance(graph), stream));
}

// A graph of one kernel that writes.
static inline CUgraph writer(CUdeviceptr at) {
    begin(c);
    writes(c, at, N);
    return end(c);
}

static inline CUgraph empty_graph(void) {
    CUgraph graph;
    CHECK(cuGraphCreate(&graph, 0));
    return graph;
}

// Nodes that programs add. `first` and `second` are their dependencies, or NULL.
struct needs {
    CUgraphNode nodes[2];
    size_t count;
};

static inline struct needs needs(CUgraphNode first, CUgraphNode second) {
    struct needs made = {{first, second}, (first != NULL) + (size_t)(second != NULL)};
    return made;
}

static inline CUgraphNode fill(CUgraph graph, CUdeviceptr at, struct needs on) {
    const CUDA_MEMSET_NODE_PARAMS how = {
        .dst = at, .value = 1, .elementSize = 1, .width = N, .height = 1};
    CUgraphNode node;
    CHECK(cuGraphAddMemsetNode(&node, graph, on.nodes, on.count, &how, primary(0)));
    return node;
}

static inline CUgraphNode copy(CUgraph graph, CUdeviceptr to, CUdeviceptr from, struct needs on) {
    const CUDA_MEMCPY3D how = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                               .srcDevice = from,
                               .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                               .dstDevice = to,
                               .WidthInBytes = N,
                               .Height = 1,
                               .Depth = 1};
    CUgraphNode node;
    CHECK(cuGraphAddMemcpyNode(&node, graph, on.nodes, on.count, &how, primary(0)));
    return node;
}

static inline void do_nothing(void *data) { (void)data; }

static inline CUgraphNode host_node(CUgraph graph, struct needs on) {
    const CUDA_HOST_NODE_PARAMS how = {.fn = do_nothing};
    CUgraphNode node;
    CHECK(cuGraphAddHostNode(&node, graph, on.nodes, on.count, &how));
    return node;
}

#endif
