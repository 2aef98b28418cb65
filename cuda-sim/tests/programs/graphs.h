// Shared by the programs about graphs: captures, launches and nodes.
#ifndef GRAPHS_H
#define GRAPHS_H

#include "race_test.h"

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

static inline CUgraphNode host_node(CUgraph graph, struct needs on) {
    const CUDA_HOST_NODE_PARAMS how = {.fn = run_nothing};
    CUgraphNode node;
    CHECK(cuGraphAddHostNode(&node, graph, on.nodes, on.count, &how));
    return node;
}

static inline CUgraphNode empty_node(CUgraph graph, struct needs on) {
    CUgraphNode node;
    CHECK(cuGraphAddEmptyNode(&node, graph, on.nodes, on.count));
    return node;
}

static inline CUgraphNode child_node(CUgraph graph, CUgraph child, struct needs on) {
    CUgraphNode node;
    CHECK(cuGraphAddChildGraphNode(&node, graph, on.nodes, on.count, child));
    return node;
}

static inline CUgraphNode record_node(CUgraph graph, CUevent event, struct needs on) {
    CUgraphNode node;
    CHECK(cuGraphAddEventRecordNode(&node, graph, on.nodes, on.count, event));
    return node;
}

static inline CUgraphNode wait_node(CUgraph graph, CUevent event, struct needs on) {
    CUgraphNode node;
    CHECK(cuGraphAddEventWaitNode(&node, graph, on.nodes, on.count, event));
    return node;
}

#endif
