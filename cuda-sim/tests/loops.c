// A conditional node that repeats its body until a kernel has run three times. What the body writes
// is read behind the node or, with the argument `beside`, by an unordered node: a race. Prints how
// often the kernel ran in each of two launches.
#include "programs/graphs.h"

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
    OK(cuInit(0));
    use(primary(0));
    CUstream a = make_nonblocking(), c = make_nonblocking();
    CUdeviceptr p = alloc(N), q = alloc(N);
    CUgraph graph = empty_graph();

    int runs = 0;
    struct loop loop = {.runs = &runs};
    OK(cuGraphConditionalHandleCreate(&loop.handle, graph, primary(0), 1,
                                      CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    params.conditional.handle = loop.handle;
    params.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
    params.conditional.size = 1;
    params.conditional.ctx = primary(0);
    CUgraphNode node;
    OK(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    CUgraph body = params.conditional.phGraph_out[0];
    const cudasim_access access = range(p, N, CUDASIM_WRITE);
    OK(cuStreamBeginCaptureToGraph(c, body, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cudasim_launch(c, "count", count_to_three, &loop, sizeof loop, &access, 1));
    OK(cuStreamEndCapture(c, &body));
    copy(graph, q, p, needs(argc < 2 ? node : NULL, NULL));

    CUgraphExec exec = instance(graph);
    OK(cuGraphDestroy(graph));
    for (int i = 0; i < 2; ++i) {
        runs = 0;
        OK(cuGraphLaunch(exec, a));
        OK(cuStreamSynchronize(a));
        printf("%d\n", runs);
    }
    return 0;
}
