// Nodes of graphs: their parameters, updates of executable graphs, and memory of graphs.
#include "conformance.h"

RULE(graphs, memset_params, "The parameters of a memset node can be read and changed",
     "cuGraphMemsetNodeSetParams") {
    CUgraph graph = new_graph();
    const CUdeviceptr p = device(N);
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    CUgraphNode node = add_memset(graph, p, 1), other;
    CUDA_MEMSET_NODE_PARAMS params = {0};
    OK(cuGraphMemsetNodeGetParams(node, &params));
    EXPECT(params.dst == p && params.value == 1 && params.elementSize == 1, 1);
    EXPECT(params.width == N && params.height == 1, 1);
    CUgraphExec exec = instantiate(graph);
    params.value = 2;
    OK(cuGraphMemsetNodeSetParams(node, &params));
    // What was instantiated before keeps its parameters.
    launch(exec, a);
    EXPECT(first_byte(p), 1);
    launch(instantiate(graph), a);
    EXPECT(first_byte(p), 2);
    OK(cuGraphAddEmptyNode(&other, graph, NULL, 0));
    EXPECT(cuGraphMemsetNodeGetParams(other, &params), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuGraphMemsetNodeSetParams(other, &params), CUDA_ERROR_INVALID_VALUE);
}

RULE(graphs, memcpy_params, "The parameters of a memcpy node can be read and changed",
     "cuGraphMemcpyNodeSetParams") {
    CUgraph graph = new_graph();
    const CUdeviceptr from = device(N), to = device(N);
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    CUDA_MEMCPY3D params = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                            .srcDevice = from,
                            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                            .dstDevice = to,
                            .WidthInBytes = N,
                            .Height = 1,
                            .Depth = 1},
                  found = {0};
    CUgraphNode node;
    OK(cuMemsetD8(from, 3, N));
    OK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &params, ctx));
    OK(cuGraphMemcpyNodeGetParams(node, &found));
    EXPECT(found.srcDevice == from && found.dstDevice == to && found.WidthInBytes == N, 1);
    params.dstDevice = from;
    params.srcDevice = to;
    OK(cuMemsetD8(to, 4, N));
    OK(cuCtxSynchronize());
    OK(cuGraphMemcpyNodeSetParams(node, &params));
    launch(instantiate(graph), a);
    EXPECT(first_byte(from), 4);
}

static void CUDA_CB count_call(void *data) { atomic_fetch_add((atomic_int *)data, 1); }

RULE(graphs, host_params, "The parameters of a host node can be read and changed",
     "cuGraphHostNodeSetParams") {
    static atomic_int first, second;
    CUgraph graph = new_graph();
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    CUDA_HOST_NODE_PARAMS params = {.fn = count_call, .userData = &first}, found = {0};
    CUgraphNode node;
    OK(cuGraphAddHostNode(&node, graph, NULL, 0, &params));
    OK(cuGraphHostNodeGetParams(node, &found));
    EXPECT(found.fn == count_call && found.userData == &first, 1);
    CUgraphExec exec = instantiate(graph);
    params.userData = &second;
    OK(cuGraphExecHostNodeSetParams(exec, node, &params));
    launch(exec, a);
    EXPECT(atomic_load(&first), 0);
    EXPECT(atomic_load(&second), 1);
    OK(cuGraphHostNodeGetParams(node, &found));
    EXPECT(found.userData == &first, 1);
}

RULE(graphs, exec_params, "A node of an executable graph changes from the next launch on",
     "cuGraphExecMemsetNodeSetParams") {
    CUgraph graph = new_graph();
    const CUdeviceptr p = device(N);
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    CUgraphNode node = add_memset(graph, p, 1);
    CUgraphExec exec = instantiate(graph);
    CUDA_MEMSET_NODE_PARAMS params = {
        .dst = p, .value = 5, .elementSize = 1, .width = N, .height = 1};
    close_gate(a);
    OK(cuGraphLaunch(exec, a));
    OK(cuGraphExecMemsetNodeSetParams(exec, node, &params, ctx));
    open_gate();
    OK(cuStreamSynchronize(a));
    EXPECT(first_byte(p), 1);
    launch(exec, a);
    EXPECT(first_byte(p), 5);
}

RULE(graphs, enabled, "A node of an executable graph can be disabled and enabled",
     "cuGraphNodeSetEnabled") {
    CUgraph graph = new_graph();
    const CUdeviceptr p = device(N);
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    CUgraphNode node = add_memset(graph, p, 1), empty;
    OK(cuGraphAddEmptyNode(&empty, graph, NULL, 0));
    CUgraphExec exec = instantiate(graph);
    unsigned enabled = 0;
    OK(cuGraphNodeGetEnabled(exec, node, &enabled));
    EXPECT(enabled, 1);
    OK(cuMemsetD8(p, 9, N));
    OK(cuGraphNodeSetEnabled(exec, node, 0));
    launch(exec, a);
    EXPECT(first_byte(p), 9);
    OK(cuGraphNodeSetEnabled(exec, node, 1));
    launch(exec, a);
    EXPECT(first_byte(p), 1);
    EXPECT(cuGraphNodeSetEnabled(exec, empty, 0), CUDA_ERROR_INVALID_VALUE);
}

RULE(graphs, update, "An executable graph takes the work of a graph of the same form",
     "cuGraphExecUpdate") {
    CUgraph graph = new_graph(), same = new_graph(), longer = new_graph(), other = new_graph();
    const CUdeviceptr p = device(N);
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    CUgraphNode empty;
    add_memset(graph, p, 1);
    add_memset(same, p, 2);
    add_memset(longer, p, 3);
    add_memset(longer, p, 4);
    OK(cuGraphAddEmptyNode(&empty, other, NULL, 0));
    CUgraphExec exec = instantiate(graph);
    CUgraphExecUpdateResultInfo info;
    OK(cuGraphExecUpdate(exec, same, &info));
    EXPECT(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    launch(exec, a);
    EXPECT(first_byte(p), 2);
    EXPECT(cuGraphExecUpdate(exec, longer, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EXPECT(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    EXPECT(cuGraphExecUpdate(exec, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EXPECT(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
    launch(exec, a);
    EXPECT(first_byte(p), 2);
}

static CUgraphNode add_alloc(CUgraph graph, CUdeviceptr *p) {
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
        .bytesize = N};
    CUgraphNode node = NULL;
    OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    *p = params.dptr;
    return node;
}

RULE(graphs, instantiate_flags, "A graph for launches by the device cannot free memory by itself",
     "cuGraphInstantiate: CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH") {
    CUgraph graph = new_graph();
    CUgraphExec exec = NULL;
    const unsigned both =
        CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
    EXPECT(cuGraphInstantiate(&exec, graph, both), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuGraphInstantiate(&exec, graph, 1u << 20), CUDA_ERROR_INVALID_VALUE);
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = both};
    EXPECT(cuGraphInstantiateWithParams(&exec, graph, &params), CUDA_ERROR_INVALID_VALUE);
    EXPECT(params.result_out, CUDA_GRAPH_INSTANTIATE_ERROR);
    params.flags = 1u << 20;
    EXPECT(cuGraphInstantiateWithParams(&exec, graph, &params), CUDA_ERROR_INVALID_VALUE);
    params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    OK(cuGraphInstantiateWithParams(&exec, graph, &params));
    EXPECT(params.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
}

RULE(graphs, allocation, "Memory of a graph has one address in all launches, and must be freed",
     "cuGraphAddMemAllocNode") {
    CUgraph graph = new_graph();
    CUdeviceptr p = 0, freed = 0;
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    CUgraphNode alloc = add_alloc(graph, &p), fill;
    EXPECT(p != 0, 1);
    const CUDA_MEMSET_NODE_PARAMS params = {
        .dst = p, .value = 6, .elementSize = 1, .width = N, .height = 1};
    OK(cuGraphAddMemsetNode(&fill, graph, &alloc, 1, &params, ctx));
    CUgraphNodeType type;
    OK(cuGraphNodeGetType(alloc, &type));
    EXPECT(type, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    CUgraphExec exec = instantiate(graph);
    launch(exec, a);
    EXPECT(first_byte(p), 6);
    // Not freed yet: the next launch has no memory.
    EXPECT(cuGraphLaunch(exec, a), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFreeAsync(p, a));
    launch(exec, a);
    OK(cuMemFree(p));
    CUgraph frees = new_graph();
    CUgraphNode node;
    OK(cuGraphAddMemFreeNode(&node, frees, NULL, 0, p));
    OK(cuGraphMemFreeNodeGetParams(node, &freed));
    EXPECT(freed == p, 1);
    launch(exec, a);
    launch(instantiate(frees), a);
    launch(exec, a);
    CUgraph copy;
    OBSERVE("a clone of a graph that allocates", cuGraphClone(&copy, graph));
}

RULE(graphs, freed_on_launch, "A graph may free what its last launch allocated",
     "CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH") {
    CUgraph graph = new_graph();
    CUdeviceptr p = 0;
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    add_alloc(graph, &p);
    CUgraphExec exec;
    cuuint64_t flags = 0;
    OK(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    OK(cuGraphExecGetFlags(exec, &flags));
    EXPECT(flags, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    launch(exec, a);
    launch(exec, a);
}

RULE(graphs, allocation_outlives_its_graph, "Destroying a graph does not free what it allocated",
     "CUDA programming guide") {
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    CUgraph graph;
    CUdeviceptr p = 0;
    unsigned char found = 0;
    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemAllocAsync(&p, N, a));
    OK(cuMemsetD8Async(p, 7, N, a));
    OK(cuStreamEndCapture(a, &graph));
    CUgraphExec exec = instantiate(graph);
    OK(cuGraphLaunch(exec, a));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuMemcpyDtoHAsync(&found, p + N - 1, 1, a));
    OK(cuStreamSynchronize(a));
    EXPECT(found, 7);
    OK(cuMemFreeAsync(p, a));
    OK(cuStreamSynchronize(a));
}

RULE(graphs, captured_allocation, "Allocations and frees of a capture become nodes",
     "cuMemAllocAsync") {
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = 0;
    CUgraph graph;
    const CUdeviceptr to = device(N);
    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemAllocAsync(&p, N, a));
    OK(cuMemsetD8Async(p, 7, N, a));
    OK(cuMemcpyDtoDAsync(to, p, N, a));
    OK(cuMemFreeAsync(p, a));
    OK(cuStreamEndCapture(a, &graph));
    size_t count = 0;
    OK(cuGraphGetNodes(graph, NULL, &count));
    EXPECT(count, 4);
    CUgraphExec exec = instantiate(graph);
    launch(exec, a);
    launch(exec, a);
    EXPECT(first_byte(to), 7);
    cuuint64_t used = 1, reserved = 0;
    OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
    OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved));
    EXPECT(used, 0);
    EXPECT(reserved >= N, 1);
    OK(cuDeviceGraphMemTrim(0));
    OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved));
    EXPECT(reserved, 0);
}

RULE(graphs, any_node, "Nodes of any type are added by one function", "cuGraphAddNode") {
    CUgraph graph = new_graph();
    const CUdeviceptr p = device(N);
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    params.memset.dst = p;
    params.memset.value = 8;
    params.memset.elementSize = 1;
    params.memset.width = N;
    params.memset.height = 1;
    params.memset.ctx = ctx;
    CUgraphNode node;
#if CUDA_VERSION >= 13000
    OK(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
#else
    OK(cuGraphAddNode(&node, graph, NULL, 0, &params));
#endif
    CUgraphExec exec = instantiate(graph);
    launch(exec, a);
    EXPECT(first_byte(p), 8);
    params.memset.value = 9;
    OK(cuGraphExecNodeSetParams(exec, node, &params));
    launch(exec, a);
    EXPECT(first_byte(p), 9);
}
