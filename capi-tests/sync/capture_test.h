/* Captures of streams. */
#ifndef CAPTURE_TEST_H
#define CAPTURE_TEST_H

#include "sync_test.h"
#include <cai/unstable/capture.h>

static inline void begin_capture(CUstream stream) {
    CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

static inline CUgraphExec end_capture(CUstream stream) {
    CUgraph graph;
    CUgraphExec executable;
    CU(cuStreamEndCapture(stream, &graph));
    CU(cuGraphInstantiate(&executable, graph, 0));
    CU(cuGraphDestroy(graph));
    return executable;
}

/* A graph that waits for live work on the array, and copies it. */
static inline CUgraphExec capture_external_read(CUdeviceptr out, const cai_array *array,
                                                CUstream reader) {
    begin_capture(reader);
    OK(cai_array_consume_begin(array, as_value(reader),
                               CAI_ACCESS_READ | CAI_UNSTABLE_CAPTURE_EXTERNAL, error));
    copy(out, (CUdeviceptr)(uintptr_t)array->data, reader);
    return end_capture(reader);
}

#endif
