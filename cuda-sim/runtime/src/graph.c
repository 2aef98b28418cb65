/*
 * graph.c: graphs, their nodes, and user objects. Launches are in default_stream.c.
 *
 * Node parameters of the runtime name kernels by host address and copies by kind, and no context;
 * the driver's name functions, memory types, and the context, which is the current one.
 */
#include "runtime.h"

#include <string.h>

CONTEXT_CALL(cudaGraphCreate, (CUgraph * graph, unsigned flags), (cuGraphCreate, graph, flags))
CONTEXT_CALL(cudaGraphDestroy, (CUgraph graph), (cuGraphDestroy, graph))
CONTEXT_CALL(cudaGraphClone, (CUgraph * clone, CUgraph original), (cuGraphClone, clone, original))
CONTEXT_CALL(cudaGraphDebugDotPrint, (CUgraph graph, const char *path, unsigned flags),
             (cuGraphDebugDotPrint, graph, path, flags))

CONTEXT_CALL(cudaGraphInstantiate, (CUgraphExec * exec, CUgraph graph, unsigned long long flags),
             (cuGraphInstantiateWithFlags, exec, graph, flags))
CONTEXT_CALL(cudaGraphInstantiateWithFlags,
             (CUgraphExec * exec, CUgraph graph, unsigned long long flags),
             (cuGraphInstantiateWithFlags, exec, graph, flags))
CONTEXT_CALL(cudaGraphExecDestroy, (CUgraphExec exec), (cuGraphExecDestroy, exec))
CONTEXT_CALL(cudaGraphExecGetFlags, (CUgraphExec exec, unsigned long long *flags),
             (cuGraphExecGetFlags, exec, flags))
CONTEXT_CALL(cudaGraphExecUpdate, (CUgraphExec exec, CUgraph graph, struct update_result *result),
             (cuGraphExecUpdate_v2, exec, graph, result))

CONTEXT_CALL(cudaUserObjectCreate,
             (CUuserObject * object, void *data, host_function destroy, unsigned references,
              unsigned flags),
             (cuUserObjectCreate, object, data, destroy, references, flags))
CONTEXT_CALL(cudaUserObjectRetain, (CUuserObject object, unsigned count),
             (cuUserObjectRetain, object, count))
CONTEXT_CALL(cudaUserObjectRelease, (CUuserObject object, unsigned count),
             (cuUserObjectRelease, object, count))
CONTEXT_CALL(cudaGraphRetainUserObject,
             (CUgraph graph, CUuserObject object, unsigned count, unsigned flags),
             (cuGraphRetainUserObject, graph, object, count, flags))
CONTEXT_CALL(cudaGraphReleaseUserObject, (CUgraph graph, CUuserObject object, unsigned count),
             (cuGraphReleaseUserObject, graph, object, count))

/* Structure. */

CONTEXT_CALL(cudaGraphGetNodes, (CUgraph graph, CUgraphNode *nodes, size_t *count),
             (cuGraphGetNodes, graph, nodes, count))
CONTEXT_CALL(cudaGraphGetRootNodes, (CUgraph graph, CUgraphNode *nodes, size_t *count),
             (cuGraphGetRootNodes, graph, nodes, count))
CONTEXT_CALL(cudaGraphNodeGetType, (CUgraphNode node, int *type), (cuGraphNodeGetType, node, type))
CONTEXT_CALL(cudaGraphNodeFindInClone, (CUgraphNode * node, CUgraphNode original, CUgraph clone),
             (cuGraphNodeFindInClone, node, original, clone))
CONTEXT_CALL(cudaGraphDestroyNode, (CUgraphNode node), (cuGraphDestroyNode, node))
CONTEXT_CALL(cudaGraphNodeSetEnabled, (CUgraphExec exec, CUgraphNode node, unsigned enabled),
             (cuGraphNodeSetEnabled, exec, node, enabled))
CONTEXT_CALL(cudaGraphNodeGetEnabled, (CUgraphExec exec, CUgraphNode node, unsigned *enabled),
             (cuGraphNodeGetEnabled, exec, node, enabled))

#if CUDART_MAJOR == 12
CONTEXT_CALL(cudaGraphGetEdges, (CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count),
             (cuGraphGetEdges, graph, from, to, count))
CONTEXT_CALL(cudaGraphAddDependencies,
             (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count),
             (cuGraphAddDependencies, graph, from, to, count))
CONTEXT_CALL(cudaGraphRemoveDependencies,
             (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count),
             (cuGraphRemoveDependencies, graph, from, to, count))
CONTEXT_CALL(cudaGraphNodeGetDependencies,
             (CUgraphNode node, CUgraphNode *dependencies, size_t *count),
             (cuGraphNodeGetDependencies, node, dependencies, count))
CONTEXT_CALL(cudaGraphNodeGetDependentNodes,
             (CUgraphNode node, CUgraphNode *dependents, size_t *count),
             (cuGraphNodeGetDependentNodes, node, dependents, count))
#else
CONTEXT_CALL(cudaGraphGetId, (CUgraph graph, unsigned *id), (cuGraphGetId, graph, id))
CONTEXT_CALL(cudaGraphExecGetId, (CUgraphExec exec, unsigned *id), (cuGraphExecGetId, exec, id))
CONTEXT_CALL(cudaGraphNodeGetContainingGraph, (CUgraphNode node, CUgraph *graph),
             (cuGraphNodeGetContainingGraph, node, graph))
CONTEXT_CALL(cudaGraphNodeGetLocalId, (CUgraphNode node, unsigned *id),
             (cuGraphNodeGetLocalId, node, id))
CONTEXT_CALL(cudaGraphNodeGetToolsId, (CUgraphNode node, unsigned long long *id),
             (cuGraphNodeGetToolsId, node, id))
#endif
CONTEXT_CALL(NEWER(cudaGraphGetEdges, _v2),
             (CUgraph graph, CUgraphNode *from, CUgraphNode *to, struct graph_edge *edges,
              size_t *count),
             (cuGraphGetEdges_v2, graph, from, to, edges, count))
CONTEXT_CALL(NEWER(cudaGraphAddDependencies, _v2),
             (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
              const struct graph_edge *edges, size_t count),
             (cuGraphAddDependencies_v2, graph, from, to, edges, count))
CONTEXT_CALL(NEWER(cudaGraphRemoveDependencies, _v2),
             (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
              const struct graph_edge *edges, size_t count),
             (cuGraphRemoveDependencies_v2, graph, from, to, edges, count))
CONTEXT_CALL(NEWER(cudaGraphNodeGetDependencies, _v2),
             (CUgraphNode node, CUgraphNode *dependencies, struct graph_edge *edges, size_t *count),
             (cuGraphNodeGetDependencies_v2, node, dependencies, edges, count))
CONTEXT_CALL(NEWER(cudaGraphNodeGetDependentNodes, _v2),
             (CUgraphNode node, CUgraphNode *dependents, struct graph_edge *edges, size_t *count),
             (cuGraphNodeGetDependentNodes_v2, node, dependents, edges, count))

/* Nodes with parameters that are the same in both APIs. NODE_PLACE: where a new node goes. */

#define NODE_PLACE \
    CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t dependency_count
#define PLACE node, graph, dependencies, dependency_count

CONTEXT_CALL(cudaGraphAddEmptyNode, (NODE_PLACE), (cuGraphAddEmptyNode, PLACE))
CONTEXT_CALL(cudaGraphAddChildGraphNode, (NODE_PLACE, CUgraph child),
             (cuGraphAddChildGraphNode, PLACE, child))
CONTEXT_CALL(cudaGraphChildGraphNodeGetGraph, (CUgraphNode node, CUgraph *graph),
             (cuGraphChildGraphNodeGetGraph, node, graph))
CONTEXT_CALL(cudaGraphExecChildGraphNodeSetParams,
             (CUgraphExec exec, CUgraphNode node, CUgraph child),
             (cuGraphExecChildGraphNodeSetParams, exec, node, child))

CONTEXT_CALL(cudaGraphAddEventRecordNode, (NODE_PLACE, CUevent event),
             (cuGraphAddEventRecordNode, PLACE, event))
CONTEXT_CALL(cudaGraphEventRecordNodeGetEvent, (CUgraphNode node, CUevent *event),
             (cuGraphEventRecordNodeGetEvent, node, event))
CONTEXT_CALL(cudaGraphEventRecordNodeSetEvent, (CUgraphNode node, CUevent event),
             (cuGraphEventRecordNodeSetEvent, node, event))
CONTEXT_CALL(cudaGraphExecEventRecordNodeSetEvent,
             (CUgraphExec exec, CUgraphNode node, CUevent event),
             (cuGraphExecEventRecordNodeSetEvent, exec, node, event))
CONTEXT_CALL(cudaGraphAddEventWaitNode, (NODE_PLACE, CUevent event),
             (cuGraphAddEventWaitNode, PLACE, event))
CONTEXT_CALL(cudaGraphEventWaitNodeGetEvent, (CUgraphNode node, CUevent *event),
             (cuGraphEventWaitNodeGetEvent, node, event))
CONTEXT_CALL(cudaGraphEventWaitNodeSetEvent, (CUgraphNode node, CUevent event),
             (cuGraphEventWaitNodeSetEvent, node, event))
CONTEXT_CALL(cudaGraphExecEventWaitNodeSetEvent,
             (CUgraphExec exec, CUgraphNode node, CUevent event),
             (cuGraphExecEventWaitNodeSetEvent, exec, node, event))

CONTEXT_CALL(cudaGraphAddHostNode, (NODE_PLACE, const struct host_node *params),
             (cuGraphAddHostNode, PLACE, params))
CONTEXT_CALL(cudaGraphHostNodeGetParams, (CUgraphNode node, struct host_node *params),
             (cuGraphHostNodeGetParams, node, params))
CONTEXT_CALL(cudaGraphHostNodeSetParams, (CUgraphNode node, const struct host_node *params),
             (cuGraphHostNodeSetParams, node, params))
CONTEXT_CALL(cudaGraphExecHostNodeSetParams,
             (CUgraphExec exec, CUgraphNode node, const struct host_node *params),
             (cuGraphExecHostNodeSetParams, exec, node, params))

CONTEXT_CALL(cudaGraphAddMemAllocNode, (NODE_PLACE, void *params),
             (cuGraphAddMemAllocNode, PLACE, params))
CONTEXT_CALL(cudaGraphMemAllocNodeGetParams, (CUgraphNode node, void *params),
             (cuGraphMemAllocNodeGetParams, node, params))
CONTEXT_CALL(cudaGraphAddMemFreeNode, (NODE_PLACE, void *address),
             (cuGraphAddMemFreeNode, PLACE, address))
CONTEXT_CALL(cudaGraphMemFreeNodeGetParams, (CUgraphNode node, void *address),
             (cuGraphMemFreeNodeGetParams, node, address))

static CUcontext current_context(void) {
    CUcontext context = NULL;
    return CALL(cuCtxGetCurrent, &context) == cudaSuccess ? context : NULL;
}

CONTEXT_CALL(cudaGraphAddMemsetNode, (NODE_PLACE, const struct memset_node *params),
             (cuGraphAddMemsetNode, PLACE, params, current_context()))
CONTEXT_CALL(cudaGraphMemsetNodeGetParams, (CUgraphNode node, struct memset_node *params),
             (cuGraphMemsetNodeGetParams, node, params))
CONTEXT_CALL(cudaGraphMemsetNodeSetParams, (CUgraphNode node, const struct memset_node *params),
             (cuGraphMemsetNodeSetParams, node, params))
CONTEXT_CALL(cudaGraphExecMemsetNodeSetParams,
             (CUgraphExec exec, CUgraphNode node, const struct memset_node *params),
             (cuGraphExecMemsetNodeSetParams, exec, node, params, current_context()))
CONTEXT_CALL(cudaGraphConditionalHandleCreate,
             (unsigned long long *handle, CUgraph graph, unsigned default_value, unsigned flags),
             (cuGraphConditionalHandleCreate, handle, graph, current_context(), default_value,
              flags))

/* Copy nodes. */

API cudaError_t cudaGraphAddMemcpyNode(NODE_PLACE, const struct memcpy3d *params) {
    struct driver_memcpy3d copy;
    NEED(context);
    cudaError_t error = describe_copy3d(&copy, params);
    return record(
        error != cudaSuccess ? error : CALL(cuGraphAddMemcpyNode, PLACE, &copy, current_context()));
}

API cudaError_t cudaGraphMemcpyNodeSetParams(CUgraphNode node, const struct memcpy3d *params) {
    struct driver_memcpy3d copy;
    NEED(context);
    cudaError_t error = describe_copy3d(&copy, params);
    return record(error != cudaSuccess ? error : CALL(cuGraphMemcpyNodeSetParams, node, &copy));
}

API cudaError_t cudaGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                 const struct memcpy3d *params) {
    struct driver_memcpy3d copy;
    NEED(context);
    cudaError_t error = describe_copy3d(&copy, params);
    return record(error != cudaSuccess
                      ? error
                      : CALL(cuGraphExecMemcpyNodeSetParams, exec, node, &copy, current_context()));
}

static struct memcpy3d copy_of_row(void *dst, const void *src, size_t size, int kind) {
    return (struct memcpy3d){
        .src = {(void *)src, size, size, 1},
        .dst = {dst, size, size, 1},
        .extent = {size, 1, 1},
        .kind = kind,
    };
}

API cudaError_t cudaGraphAddMemcpyNode1D(NODE_PLACE, void *dst, const void *src, size_t size,
                                         int kind) {
    struct memcpy3d copy = copy_of_row(dst, src, size, kind);
    return cudaGraphAddMemcpyNode(PLACE, &copy);
}

API cudaError_t cudaGraphMemcpyNodeSetParams1D(CUgraphNode node, void *dst, const void *src,
                                               size_t size, int kind) {
    struct memcpy3d copy = copy_of_row(dst, src, size, kind);
    return cudaGraphMemcpyNodeSetParams(node, &copy);
}

API cudaError_t cudaGraphExecMemcpyNodeSetParams1D(CUgraphExec exec, CUgraphNode node, void *dst,
                                                   const void *src, size_t size, int kind) {
    struct memcpy3d copy = copy_of_row(dst, src, size, kind);
    return cudaGraphExecMemcpyNodeSetParams(exec, node, &copy);
}

/* Kernel nodes. */

static cudaError_t describe_kernel(struct driver_kernel_node *out,
                                   const struct kernel_node *params) {
    memset(out, 0, sizeof *out);
    if (params == NULL) return cudaErrorInvalidValue;
    out->grid = params->grid;
    out->block = params->block;
    out->shared_bytes = params->shared_bytes;
    out->args = params->args;
    out->extra = params->extra;
    return find_function(params->function, &out->function);
}

API cudaError_t cudaGraphAddKernelNode(NODE_PLACE, const struct kernel_node *params) {
    struct driver_kernel_node kernel;
    NEED(context);
    cudaError_t error = describe_kernel(&kernel, params);
    return record(error != cudaSuccess ? error : CALL(cuGraphAddKernelNode_v2, PLACE, &kernel));
}

API cudaError_t cudaGraphKernelNodeSetParams(CUgraphNode node, const struct kernel_node *params) {
    struct driver_kernel_node kernel;
    NEED(context);
    cudaError_t error = describe_kernel(&kernel, params);
    return record(error != cudaSuccess ? error
                                       : CALL(cuGraphKernelNodeSetParams_v2, node, &kernel));
}

API cudaError_t cudaGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                 const struct kernel_node *params) {
    struct driver_kernel_node kernel;
    NEED(context);
    cudaError_t error = describe_kernel(&kernel, params);
    return record(error != cudaSuccess
                      ? error
                      : CALL(cuGraphExecKernelNodeSetParams_v2, exec, node, &kernel));
}

API cudaError_t cudaGraphKernelNodeGetParams(CUgraphNode node, struct kernel_node *params) {
    struct driver_kernel_node kernel;
    NEED(context);
    if (params == NULL) return record(cudaErrorInvalidValue);
    memset(&kernel, 0, sizeof kernel);
    cudaError_t error = CALL(cuGraphKernelNodeGetParams_v2, node, &kernel);
    if (error != cudaSuccess) return record(error);
    const void *host = host_of_function(kernel.function);
    /* A function that this library did not find is the driver's own handle. */
    params->function = host != NULL ? (void *)host : (void *)kernel.function;
    params->grid = kernel.grid;
    params->block = kernel.block;
    params->shared_bytes = kernel.shared_bytes;
    params->args = kernel.args;
    params->extra = kernel.extra;
    return cudaSuccess;
}

CONTEXT_CALL(cudaGraphKernelNodeGetAttribute, (CUgraphNode node, int attribute, void *value),
             (cuGraphKernelNodeGetAttribute, node, attribute, value))
CONTEXT_CALL(cudaGraphKernelNodeSetAttribute, (CUgraphNode node, int attribute, const void *value),
             (cuGraphKernelNodeSetAttribute, node, attribute, value))
/* CUDA 12's header calls the first one the source; as 13's and the driver's do, this copies to the
 * first. */
CONTEXT_CALL(cudaGraphKernelNodeCopyAttributes, (CUgraphNode dst, CUgraphNode src),
             (cuGraphKernelNodeCopyAttributes, dst, src))

/* Nodes of any kind. */

static cudaError_t describe_kernel_of_node(struct driver_kernel_node *out,
                                           const struct node_params *params) {
    cudaError_t error = describe_kernel(out, &params->kernel.params);
#if CUDART_MAJOR >= 13
    out->context = params->kernel.context;
    if (params->kernel.function_type == KERNEL_IS_FUNCTION) {
        out->function = params->kernel.params.function;
        return cudaSuccess;
    }
#endif
    return error;
}

static cudaError_t describe_node(struct driver_node_params *out, const struct node_params *params) {
    memset(out, 0, sizeof *out);
    if (params == NULL) return cudaErrorInvalidValue;
    out->type = params->type;
    switch (params->type) {
    case NODE_KERNEL: return describe_kernel_of_node(&out->kernel, params);
    case NODE_MEMCPY:
        out->memcpy.flags = params->memcpy.flags;
        out->memcpy.context = current_context();
        return describe_copy3d(&out->memcpy.copy, &params->memcpy.copy);
    case NODE_MEMSET:
        out->memset.params = params->memset.params;
        out->memset.context = current_context();
        return cudaSuccess;
    case NODE_CONDITIONAL:
        out->conditional.handle = params->conditional.handle;
        out->conditional.type = params->conditional.type;
        out->conditional.size = params->conditional.size;
        out->conditional.context = current_context();
        return cudaSuccess;
    case NODE_HOST:
    case NODE_GRAPH:
    case NODE_EMPTY:
    case NODE_WAIT_EVENT:
    case NODE_EVENT_RECORD:
    case NODE_MEM_ALLOC:
    case NODE_MEM_FREE:
        memcpy(out->reserved1, params->reserved1, sizeof out->reserved1);
        return cudaSuccess;
    default: return cudaErrorNotSupported;
    }
}

/* Results of the driver in the parameters: the graphs of a conditional node, the address of an
 * allocation.
 */
static void return_node(struct node_params *params, const struct driver_node_params *answer) {
    if (params->type == NODE_CONDITIONAL) params->conditional.graphs = answer->conditional.graphs;
    if (params->type == NODE_MEM_ALLOC)
        memcpy(params->reserved1, answer->reserved1, sizeof params->reserved1);
}

static cudaError_t add_node(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                            const struct graph_edge *edges, size_t dependency_count,
                            struct node_params *params) {
    struct driver_node_params described;
    cudaError_t error = describe_node(&described, params);
    if (error != cudaSuccess) return error;
    error = CALL(cuGraphAddNode_v2, node, graph, dependencies, edges, dependency_count, &described);
    if (error == cudaSuccess) return_node(params, &described);
    return error;
}

#if CUDART_MAJOR == 12
API cudaError_t cudaGraphAddNode(NODE_PLACE, struct node_params *params) {
    NEED(context);
    return record(add_node(node, graph, dependencies, NULL, dependency_count, params));
}
#endif
API cudaError_t NEWER(cudaGraphAddNode, _v2)(CUgraphNode *node, CUgraph graph,
                                             const CUgraphNode *dependencies,
                                             const struct graph_edge *edges,
                                             size_t dependency_count, struct node_params *params) {
    NEED(context);
    return record(add_node(node, graph, dependencies, edges, dependency_count, params));
}

API cudaError_t cudaGraphNodeSetParams(CUgraphNode node, struct node_params *params) {
    struct driver_node_params described;
    NEED(context);
    cudaError_t error = describe_node(&described, params);
    return record(error != cudaSuccess ? error : CALL(cuGraphNodeSetParams, node, &described));
}

API cudaError_t cudaGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                           struct node_params *params) {
    struct driver_node_params described;
    NEED(context);
    cudaError_t error = describe_node(&described, params);
    return record(error != cudaSuccess ? error
                                       : CALL(cuGraphExecNodeSetParams, exec, node, &described));
}
