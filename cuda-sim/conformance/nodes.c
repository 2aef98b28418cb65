// Nodes that consist of other work: conditional nodes, batches of operations on values, child
// graphs; copies of boxes.
#include "conformance.h"

static CUdeviceptr cleared(void) {
    CUdeviceptr p = device(N);
    OK(cuMemsetD8(p, 0, N));
    OK(cuCtxSynchronize());
    return p;
}

#if CUDA_VERSION >= 13020
static void CUDA_CB do_nothing(void *data) { (void)data; }
#endif

#if CUDA_VERSION >= 13000
// Adds a conditional node and returns its bodies.
static CUgraph *conditional(CUgraph graph, unsigned value, CUgraphConditionalNodeType type,
                            unsigned bodies, CUresult expected) {
    CUgraphConditionalHandle handle = 0;
    OK(cuGraphConditionalHandleCreate(&handle, graph, ctx, value, CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = bodies;
    params.conditional.ctx = ctx;
    CUgraphNode node = NULL;
    EXPECT(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params), expected);
    if (expected == CUDA_SUCCESS) {
        CUgraphNodeType found = CU_GRAPH_NODE_TYPE_EMPTY;
        OK(cuGraphNodeGetType(node, &found));
        EXPECT(found, CU_GRAPH_NODE_TYPE_CONDITIONAL);
    }
    return params.conditional.phGraph_out;
}

// Launches a graph with one conditional node whose bodies write 1, 2, 3. Returns what was written.
static int chosen(unsigned value, CUgraphConditionalNodeType type, unsigned count) {
    const CUdeviceptr p = cleared();
    CUgraph graph = new_graph();
    CUgraph *bodies = conditional(graph, value, type, count, CUDA_SUCCESS);
    for (unsigned i = 0; bodies != NULL && i < count; ++i)
        add_memset(bodies[i], p, i + 1);
    CUgraphExec exec = instantiate(graph);
    launch(exec, CU_STREAM_PER_THREAD);
    const int found = first_byte(p);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    return found;
}
#endif

RULE(nodes, conditional_default, "The default value of a condition selects the body",
     "CUgraphConditionalNodeType") {
#if CUDA_VERSION >= 13000
    EXPECT(chosen(0, CU_GRAPH_COND_TYPE_IF, 1), 0);
    EXPECT(chosen(5, CU_GRAPH_COND_TYPE_IF, 1), 1);
    EXPECT(chosen(0, CU_GRAPH_COND_TYPE_IF, 2), 2);
    EXPECT(chosen(5, CU_GRAPH_COND_TYPE_IF, 2), 1);
    EXPECT(chosen(0, CU_GRAPH_COND_TYPE_WHILE, 1), 0);
    EXPECT(chosen(1, CU_GRAPH_COND_TYPE_SWITCH, 3), 2);
    EXPECT(chosen(3, CU_GRAPH_COND_TYPE_SWITCH, 3), 0);
#else
    skip("needs CUDA 13");
#endif
}

RULE(nodes, conditional_arguments, "The type of a conditional node limits the number of bodies",
     "CUDA_CONDITIONAL_NODE_PARAMS") {
#if CUDA_VERSION >= 13000
    CUgraph graph = new_graph(), copy;
    CUgraphConditionalHandle handle;
    EXPECT(cuGraphConditionalHandleCreate(&handle, graph, ctx, 0, 2), CUDA_ERROR_INVALID_VALUE);
    conditional(graph, 0, CU_GRAPH_COND_TYPE_IF, 3, CUDA_ERROR_INVALID_VALUE);
    conditional(graph, 0, CU_GRAPH_COND_TYPE_WHILE, 2, CUDA_ERROR_INVALID_VALUE);
    conditional(graph, 0, CU_GRAPH_COND_TYPE_SWITCH, 0, CUDA_ERROR_INVALID_VALUE);
    conditional(graph, 0, CU_GRAPH_COND_TYPE_IF, 1, CUDA_SUCCESS);
    EXPECT(cuGraphClone(&copy, graph) != CUDA_SUCCESS, 1);
#else
    skip("needs CUDA 13");
#endif
}

RULE(nodes, any_params, "The parameters of a node of any type can be read",
     "cuGraphNodeGetParams") {
#if CUDA_VERSION >= 13020
    const CUdeviceptr p = cleared();
    CUgraph graph = new_graph(), child = new_graph();
    CUgraphNode node = add_memset(graph, p, 7);
    CUgraphNodeParams found;
    memset(&found, 0xff, sizeof found);
    OK(cuGraphNodeGetParams(node, &found));
    EXPECT(found.type, CU_GRAPH_NODE_TYPE_MEMSET);
    EXPECT(found.reserved0[2] == 0 && found.reserved2 == 0, 1);
    EXPECT(found.memset.dst == p && found.memset.value == 7 && found.memset.width == N, 1);
    // The parameters of a memset node can be used again.
    found.memset.value = 9;
    OK(cuGraphNodeSetParams(node, &found));
    CUgraphExec exec = instantiate(graph);
    launch(exec, CU_STREAM_PER_THREAD);
    EXPECT(first_byte(p), 9);

    const CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = p,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = p + N / 2,
                                .WidthInBytes = N / 2,
                                .Height = 1,
                                .Depth = 1};
    OK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, ctx));
    OK(cuGraphNodeGetParams(node, &found));
    EXPECT(found.type, CU_GRAPH_NODE_TYPE_MEMCPY);
    EXPECT(found.memcpy.copyParams.srcDevice == p, 1);
    EXPECT(found.memcpy.copyParams.WidthInBytes, N / 2);

    const CUDA_HOST_NODE_PARAMS host = {.fn = do_nothing, .userData = &found};
    OK(cuGraphAddHostNode(&node, graph, NULL, 0, &host));
    OK(cuGraphNodeGetParams(node, &found));
    EXPECT(found.type, CU_GRAPH_NODE_TYPE_HOST);
    EXPECT(found.host.fn == do_nothing && found.host.userData == &found, 1);

    OK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
    CUgraph inner = NULL;
    OK(cuGraphChildGraphNodeGetGraph(node, &inner));
    OK(cuGraphNodeGetParams(node, &found));
    EXPECT(found.type, CU_GRAPH_NODE_TYPE_GRAPH);
    EXPECT(found.graph.graph == inner, 1);

    CUevent e = event();
    OK(cuGraphAddEventRecordNode(&node, graph, NULL, 0, e));
    OK(cuGraphNodeGetParams(node, &found));
    EXPECT(found.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD && found.eventRecord.event == e, 1);

    CUDA_MEM_ALLOC_NODE_PARAMS memory = {.bytesize = N};
    memory.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    memory.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &memory));
    CUgraphNode after;
    OK(cuGraphAddMemFreeNode(&after, graph, &node, 1, memory.dptr));
    OK(cuGraphNodeGetParams(node, &found));
    EXPECT(found.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && found.alloc.dptr == memory.dptr, 1);
    EXPECT(found.alloc.bytesize, N);
    OK(cuGraphNodeGetParams(after, &found));
    EXPECT(found.type == CU_GRAPH_NODE_TYPE_MEM_FREE && found.free.dptr == memory.dptr, 1);

    OK(cuGraphAddEmptyNode(&node, graph, NULL, 0));
    OK(cuGraphNodeGetParams(node, &found));
    EXPECT(found.type, CU_GRAPH_NODE_TYPE_EMPTY);
    EXPECT(cuGraphNodeGetParams(NULL, &found), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuGraphNodeGetParams(node, NULL), CUDA_ERROR_INVALID_VALUE);

    CUgraph other = new_graph();
    CUgraph *bodies = conditional(other, 0, CU_GRAPH_COND_TYPE_SWITCH, 3, CUDA_SUCCESS);
    size_t count = 1;
    OK(cuGraphGetNodes(other, &node, &count));
    OK(cuGraphNodeGetParams(node, &found));
    EXPECT(found.type, CU_GRAPH_NODE_TYPE_CONDITIONAL);
    EXPECT(found.conditional.type, CU_GRAPH_COND_TYPE_SWITCH);
    EXPECT(found.conditional.size, 3);
    EXPECT(found.conditional.phGraph_out[2] == bodies[2], 1);
#else
    skip("needs CUDA 13.2");
#endif
}

RULE(nodes, clones, "A node is found in the clones of its graph, as long as it is there",
     "cuGraphNodeFindInClone") {
    const CUdeviceptr p = cleared();
    CUgraph graph = new_graph(), clone = NULL, twice = NULL;
    CUgraphNode one = add_memset(graph, p, 1), two = add_memset(graph, p, 2), found = NULL,
                again = NULL;
    OK(cuGraphClone(&clone, graph));
    OK(cuGraphNodeFindInClone(&found, two, clone));
    CUDA_MEMSET_NODE_PARAMS params = {0};
    OK(cuGraphMemsetNodeGetParams(found, &params));
    EXPECT(found != two && params.value == 2, 1);
    OK(cuGraphClone(&twice, clone));
    OK(cuGraphNodeFindInClone(&again, found, twice));
    EXPECT(again != found, 1);
    EXPECT(cuGraphNodeFindInClone(&again, two, graph), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphDestroyNode(found));
    EXPECT(cuGraphNodeFindInClone(&again, two, clone), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphNodeFindInClone(&again, one, clone));
    // A node that was added later has no copy, whatever its handle is.
    OK(cuGraphDestroyNode(one));
    one = add_memset(graph, p, 3);
    EXPECT(cuGraphNodeFindInClone(&again, one, clone), CUDA_ERROR_INVALID_VALUE);
}

RULE(nodes, dot, "A graph is written in the language DOT", "cuGraphDebugDotPrint") {
    char path[] = "/tmp/conformance_dot_XXXXXX";
    const int file = mkstemp(path);
    CUgraph graph = new_graph();
    add_memset(graph, cleared(), 1);
    OK(cuGraphDebugDotPrint(graph, path, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
    char found[8] = {0};
    EXPECT(read(file, found, 7), 7);
    EXPECT(strcmp(found, "digraph"), 0);
    EXPECT(cuGraphDebugDotPrint(graph, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuGraphDebugDotPrint(graph, "/nonexistent/graph.dot", 0), CUDA_ERROR_OPERATING_SYSTEM);
    close(file);
    unlink(path);
}

RULE(nodes, mem_ops, "The operations of a batch node are in order, and can be replaced",
     "cuGraphAddBatchMemOpNode") {
    const CUdeviceptr p = cleared();
    CUstreamBatchMemOpParams ops[2] = {{.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32},
                                       {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32}};
    ops[0].writeValue.address = ops[1].waitValue.address = p;
    ops[0].writeValue.value = ops[1].waitValue.value = 5;
    ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    CUDA_BATCH_MEM_OP_NODE_PARAMS how = {.ctx = ctx, .count = 2, .paramArray = ops}, found;
    CUgraph graph = new_graph();
    CUgraphNode node;
    OK(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &how));
    CUgraphNodeType type;
    OK(cuGraphNodeGetType(node, &type));
    EXPECT(type, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    OK(cuGraphBatchMemOpNodeGetParams(node, &found));
    EXPECT(found.count, 2);
    EXPECT(found.paramArray[1].waitValue.value, 5);
    CUgraphExec exec = instantiate(graph);
    launch(exec, CU_STREAM_PER_THREAD);
    EXPECT(first_byte(p), 5);
    ops[0].writeValue.value = ops[1].waitValue.value = 6;
    OK(cuGraphExecBatchMemOpNodeSetParams(exec, node, &how));
    launch(exec, CU_STREAM_PER_THREAD);
    EXPECT(first_byte(p), 6);
    how.count = 1;
    EXPECT(cuGraphExecBatchMemOpNodeSetParams(exec, node, &how), CUDA_ERROR_INVALID_VALUE);
    how.count = 257;
    EXPECT(cuGraphBatchMemOpNodeSetParams(node, &how), CUDA_ERROR_INVALID_VALUE);
}

RULE(nodes, exec_child, "The work of a child graph can be replaced in an executable graph",
     "cuGraphExecChildGraphNodeSetParams") {
    const CUdeviceptr p = cleared();
    CUgraph graph = new_graph(), child = new_graph(), other = new_graph(), longer = new_graph();
    add_memset(child, p, 1);
    add_memset(other, p, 2);
    add_memset(longer, p, 3);
    add_memset(longer, p, 3);
    CUgraphNode node;
    OK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
    CUgraphExec exec = instantiate(graph);
    launch(exec, CU_STREAM_PER_THREAD);
    EXPECT(first_byte(p), 1);
    OK(cuGraphExecChildGraphNodeSetParams(exec, node, other));
    launch(exec, CU_STREAM_PER_THREAD);
    EXPECT(first_byte(p), 2);
    EXPECT(cuGraphExecChildGraphNodeSetParams(exec, node, longer) != CUDA_SUCCESS, 1);
    launch(exec, CU_STREAM_PER_THREAD);
    EXPECT(first_byte(p), 2);
}

RULE(nodes, boxes, "Copies of boxes in a batch, not in the legacy stream", "cuMemcpy3DBatchAsync") {
#if CUDA_VERSION >= 13000
    const CUdeviceptr from = cleared(), to = cleared();
    OK(cuMemsetD8(from, 7, N));
    OK(cuCtxSynchronize());
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    CUDA_MEMCPY3D_BATCH_OP op = {.extent = {4, 2, 1},
                                 .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    op.src.op.ptr.ptr = from;
    op.dst.op.ptr.ptr = to;
    op.dst.op.ptr.rowLength = 8;
    OK(cuMemcpy3DBatchAsync(1, &op, 0, a));
    OK(cuStreamSynchronize(a));
    unsigned char found[16];
    OK(cuMemcpyDtoH(found, to, sizeof found));
    EXPECT(found[3] == 7 && found[4] == 0 && found[8] == 7 && found[12] == 0, 1);
    EXPECT(cuMemcpy3DBatchAsync(1, &op, 1, a), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemcpy3DBatchAsync(1, &op, 0, CU_STREAM_LEGACY), CUDA_ERROR_INVALID_VALUE);
    op.dst.op.ptr.rowLength = 2;
    EXPECT(cuMemcpy3DBatchAsync(1, &op, 0, a), CUDA_ERROR_INVALID_VALUE);
    op.dst.op.ptr.rowLength = 0;
    op.extent.depth = 0;
    EXPECT(cuMemcpy3DBatchAsync(1, &op, 0, a), CUDA_ERROR_INVALID_VALUE);
#else
    skip("needs CUDA 13");
#endif
}

RULE(nodes, split, "Multiprocessors are divided into groups of unequal size",
     "cuDevSmResourceSplit") {
#if CUDA_VERSION >= 13010
    CUdevResource all, parts[2], rest;
    OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    CU_DEV_SM_RESOURCE_GROUP_PARAMS groups[2] = {
        {.smCount = 8, .coscheduledSmCount = 4},
        {.coscheduledSmCount = 2, .flags = CU_DEV_SM_RESOURCE_GROUP_BACKFILL}};
    OK(cuDevSmResourceSplit(parts, 2, &all, &rest, 0, groups));
    EXPECT(parts[0].sm.smCount, 8);
    EXPECT(parts[0].sm.smCount + parts[1].sm.smCount, all.sm.smCount);
    EXPECT(groups[1].smCount, parts[1].sm.smCount);
    EXPECT(rest.type, CU_DEV_RESOURCE_TYPE_INVALID);
    groups[0].smCount = 3;
    EXPECT(cuDevSmResourceSplit(parts, 1, &all, &rest, 0, groups), CUDA_ERROR_INVALID_VALUE);
    groups[0].smCount = 8;
    EXPECT(cuDevSmResourceSplit(parts, 1, &all, &rest, 1, groups), CUDA_ERROR_INVALID_VALUE);
#else
    skip("needs CUDA 13.1");
#endif
}
