/*
 * graph.c: graphs, their nodes, and user objects. Launches are in default_stream.c.
 *
 * Node parameters of the runtime name kernels by host address and copies by kind, and no context;
 * the driver's name functions, memory types, and the context, which is the current one.
 */
#include "runtime.h"

#include <string.h>

/* Where a new node goes. */
#define NODE_PLACE \
    CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t dependency_count
#define PLACE node, graph, dependencies, dependency_count

static CUcontext current_context(void) {
    CUcontext context = NULL;
    return CALL(cuCtxGetCurrent, &context) == cudaSuccess ? context : NULL;
}

CONTEXT_CALL(cudaGraphAddMemsetNode, (NODE_PLACE, const struct memset_node *params),
             (cuGraphAddMemsetNode, PLACE, params, current_context()))
CONTEXT_CALL(cudaGraphExecMemsetNodeSetParams,
             (CUgraphExec exec, CUgraphNode node, const struct memset_node *params),
             (cuGraphExecMemsetNodeSetParams, exec, node, params, current_context()))
CONTEXT_CALL(cudaGraphConditionalHandleCreate,
             (unsigned long long *handle, CUgraph graph, unsigned default_value, unsigned flags),
             (cuGraphConditionalHandleCreate, handle, graph, current_context(), default_value,
              flags))

/* Copy nodes. */

DESCRIBED_CALL(cudaGraphAddMemcpyNode, (NODE_PLACE, const struct memcpy3d *params), driver_memcpy3d,
               describe_copy3d, (cuGraphAddMemcpyNode, PLACE, &described, current_context()))
DESCRIBED_CALL(cudaGraphMemcpyNodeSetParams, (CUgraphNode node, const struct memcpy3d *params),
               driver_memcpy3d, describe_copy3d, (cuGraphMemcpyNodeSetParams, node, &described))
DESCRIBED_CALL(cudaGraphExecMemcpyNodeSetParams,
               (CUgraphExec exec, CUgraphNode node, const struct memcpy3d *params), driver_memcpy3d,
               describe_copy3d,
               (cuGraphExecMemcpyNodeSetParams, exec, node, &described, current_context()))

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

DESCRIBED_CALL(cudaGraphAddKernelNode, (NODE_PLACE, const struct kernel_node *params),
               driver_kernel_node, describe_kernel, (cuGraphAddKernelNode_v2, PLACE, &described))
DESCRIBED_CALL(cudaGraphKernelNodeSetParams, (CUgraphNode node, const struct kernel_node *params),
               driver_kernel_node, describe_kernel,
               (cuGraphKernelNodeSetParams_v2, node, &described))
DESCRIBED_CALL(cudaGraphExecKernelNodeSetParams,
               (CUgraphExec exec, CUgraphNode node, const struct kernel_node *params),
               driver_kernel_node, describe_kernel,
               (cuGraphExecKernelNodeSetParams_v2, exec, node, &described))

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

DESCRIBED_CALL(cudaGraphNodeSetParams, (CUgraphNode node, struct node_params *params),
               driver_node_params, describe_node, (cuGraphNodeSetParams, node, &described))
DESCRIBED_CALL(cudaGraphExecNodeSetParams,
               (CUgraphExec exec, CUgraphNode node, struct node_params *params), driver_node_params,
               describe_node, (cuGraphExecNodeSetParams, exec, node, &described))
