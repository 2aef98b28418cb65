/*
 * capture.c: capturing a stream, building a graph by hand, and launching both.
 */
#include "test.h"

#include <stdatomic.h>
#include <unistd.h>

static atomic_int destroyed;

static void destroy(void *data) { atomic_store((atomic_int *)data, 1); }

static void captured(cudaStream_t stream, char *device) {
    cudaGraph_t graph, again = NULL;
    cudaGraphExec_t exec;
    enum cudaStreamCaptureStatus status;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    unsigned long long id = 0;
    const cudaGraphNode_t *dependencies;
    const cudaGraphEdgeData *edges;
    size_t count = 0;
    cudaUserObject_t object;
    char out[16] = {0};

    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    EXPECT(mode == 0);
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    OK(cudaStreamIsCapturing(stream, &status));
    EXPECT(status == 0);
    OK(cudaStreamBeginCapture(stream, 1));
    OK(cudaMemsetAsync(device, 'c', sizeof out, stream));
    OK(GetCaptureInfo(stream, &status, &id, &again, &dependencies, &edges, &count));
    EXPECT(status == 1 && id != 0 && again != NULL && count == 1);
    OK(cudaUserObjectCreate(&object, &destroyed, destroy, 1, 1));
    OK(cudaGraphRetainUserObject(again, object, 1, 1));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    OK(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
    EXPECT(out[0] == 0); /* captured, not run */
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
    EXPECT(out[0] == 'c' && out[15] == 'c');
    EXPECT(atomic_load(&destroyed) == 0); /* the executable graph keeps it */
    OK(cudaGraphExecDestroy(exec));
    for (int i = 0; i < 1000 && atomic_load(&destroyed) == 0; i++)
        usleep(1000);
    EXPECT(atomic_load(&destroyed) == 1);
}

static void wrong_captures(cudaStream_t stream) {
    cudaGraph_t graph = NULL;
    enum cudaStreamCaptureStatus status;
    ANSWERS(cudaErrorIllegalState, cudaStreamEndCapture(stream, &graph));
    OK(cudaStreamBeginCapture(stream, 2));
    ANSWERS(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(stream));
    OK(cudaStreamIsCapturing(stream, &status));
    EXPECT(status == 2);
    ANSWERS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
    EXPECT(graph == NULL);
    ANSWERS(cudaErrorStreamCaptureUnsupported, cudaStreamBeginCapture(NULL, 2));
}

static void built(cudaStream_t stream, char *device) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t fill, copy, nodes[2];
    size_t count = 2;
    enum cudaGraphNodeType type;
    char out[16] = {0};
    struct cudaMemsetParams params = {device, 0, 'b', 1, sizeof out, 1};

    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemsetNode(&fill, graph, NULL, 0, &params));
    OK(cudaGraphAddMemcpyNode1D(&copy, graph, &fill, 1, out, device, sizeof out,
                                cudaMemcpyDeviceToHost));
    OK(cudaGraphGetNodes(graph, nodes, &count));
    EXPECT(count == 2);
    OK(cudaGraphNodeGetType(copy, &type));
    EXPECT(type == cudaGraphNodeTypeMemcpy);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    EXPECT(out[0] == 'b' && out[15] == 'b');
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
}

int main(void) {
    cudaStream_t stream;
    void *device;
    require_driver();
    OK(cudaStreamCreate(&stream));
    OK(cudaMalloc(&device, 16));
    OK(cudaMemset(device, 0, 16));
    captured(stream, device);
    wrong_captures(stream);
    built(stream, device);
    OK(cudaFree(device));
    OK(cudaStreamDestroy(stream));
    return 0;
}
