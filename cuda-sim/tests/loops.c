// A conditional node that repeats its body until a kernel has run three times. What the body writes
// is read behind the node or, with the argument `beside`, by an unordered node: a race. Prints how
// often the kernel ran in each of two launches.
#include "ok.h"

#include <cuda.h>
#include <cudasim.h>

enum { N = 64 };

struct loop {
    CUgraphConditionalHandle handle;
    int *runs;
};

static void count_to_three(void *data) {
    const struct loop *loop = data;
    ++*loop->runs;
    cudasim_set_condition(loop->handle, *loop->runs < 3);
}

int main(int argc, char **argv) {
    (void)argv;
    CUcontext context;
    CUstream a, c;
    CUdeviceptr p, q;
    CUgraph graph;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&c, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&p, N));
    OK(cuMemAlloc(&q, N));
    OK(cuGraphCreate(&graph, 0));

    int runs = 0;
    struct loop loop = {.runs = &runs};
    OK(cuGraphConditionalHandleCreate(&loop.handle, graph, context, 1,
                                      CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    params.conditional.handle = loop.handle;
    params.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
    params.conditional.size = 1;
    params.conditional.ctx = context;
    CUgraphNode node, reader;
    OK(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    CUgraph body = params.conditional.phGraph_out[0];
    const cudasim_access writes = {.address = p, .nbytes = N, .mode = CUDASIM_WRITE};
    OK(cuStreamBeginCaptureToGraph(c, body, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cudasim_launch(c, "count", count_to_three, &loop, sizeof loop, &writes, 1));
    OK(cuStreamEndCapture(c, &body));
    const CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = p,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = q,
                                .WidthInBytes = N,
                                .Height = 1,
                                .Depth = 1};
    OK(cuGraphAddMemcpyNode(&reader, graph, &node, argc < 2, &copy, context));

    CUgraphExec exec;
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    for (int i = 0; i < 2; ++i) {
        runs = 0;
        OK(cuGraphLaunch(exec, a));
        OK(cuStreamSynchronize(a));
        printf("%d\n", runs);
    }
    return 0;
}
