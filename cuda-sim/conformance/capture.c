// Stream capture, graphs and user objects.
#include "conformance.h"

static CUstream capturing(CUstreamCaptureMode mode) {
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamBeginCapture(a, mode));
    return a;
}

static size_t nodes(CUgraph graph) {
    size_t count = 0;
    OK(cuGraphGetNodes(graph, NULL, &count));
    return count;
}

RULE(capture, states, "A stream is capturing between begin and end", "cuStreamIsCapturing") {
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    CUgraph graph = NULL;
    EXPECT(status(a), CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT(status(a), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cuStreamEndCapture(a, &graph));
    EXPECT(status(a), CU_STREAM_CAPTURE_STATUS_NONE);
    EXPECT(nodes(graph), 0);
    OK(cuGraphDestroy(graph));
}

RULE(capture, not_the_legacy_stream, "The legacy stream cannot capture", "cuStreamBeginCapture") {
    EXPECT(cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_GLOBAL),
           CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

RULE(capture, nothing_runs,
     "Captured work does not run during the capture, and runs at each launch", "capture") {
    const CUdeviceptr p = device(N);
    OK(cuMemsetD8(p, 0, N));
    OK(cuCtxSynchronize());
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuMemsetD8Async(p, 1, N, a));
    OK(cuMemsetD8Async(p + 1, 2, 1, a));
    CUgraph graph;
    OK(cuStreamEndCapture(a, &graph));
    EXPECT(nodes(graph), 2);
    EXPECT(first_byte(p), 0);
    CUgraphExec exec = instantiate(graph);
    launch(exec, a);
    EXPECT(first_byte(p + 1), 2);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

RULE(capture, synchronizing_breaks_it,
     "Waiting for a capturing stream is refused and invalidates the capture", "observed") {
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUgraph graph = (CUgraph)1;
    EXPECT(cuStreamSynchronize(a), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT(status(a), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EXPECT(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT(graph == NULL, 1);
    EXPECT(status(a), CU_STREAM_CAPTURE_STATUS_NONE);
}

RULE(capture, querying_breaks_it,
     "Querying a capturing stream is refused and invalidates the capture", "capture") {
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT(cuStreamQuery(a), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT(status(a), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
}

RULE(capture, allocating_breaks_a_global_one, "An unsafe call during a global capture is refused",
     "observed") {
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUdeviceptr p;
    EXPECT(cuMemAlloc(&p, 16), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT(status(a), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
}

RULE(capture, allocating_in_a_relaxed_one, "Unsafe calls are allowed during a relaxed capture",
     "cuStreamBeginCapture") {
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUdeviceptr p;
    OK(cuMemAlloc(&p, 16));
    EXPECT(status(a), CU_STREAM_CAPTURE_STATUS_ACTIVE);
}

RULE(capture, relaxed_thread, "A thread in relaxed mode may make unsafe calls",
     "cuThreadExchangeStreamCaptureMode") {
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    EXPECT(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUdeviceptr p;
    OK(cuMemAlloc(&p, 16));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    EXPECT(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT(status(a), CU_STREAM_CAPTURE_STATUS_ACTIVE);
}

static CUdeviceptr shared_memory;

static void *call(void *run) {
    ((void (*)(void))run)();
    return NULL;
}

static void in_another_thread(void (*run)(void)) {
    pthread_t thread;
    OK(pthread_create(&thread, NULL, call, (void *)run));
    OK(pthread_join(thread, NULL));
}

static void query_memory(void) {
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
    CUcontext owner = NULL;
    CUmemorytype type = 0;
    void *out[] = {&owner, &type};
    OK(cuPointerGetAttributes(2, which, out, shared_memory));
    EXPECT(owner == ctx, 1);
    EXPECT(type, CU_MEMORYTYPE_DEVICE);
}

RULE(capture, querying_memory, "A pointer's attributes may be queried during a global capture",
     "observed") {
    OK(cuMemAlloc(&shared_memory, 16));
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    query_memory();
    in_another_thread(query_memory);
    EXPECT(status(a), CU_STREAM_CAPTURE_STATUS_ACTIVE);
}

static CUevent shared_event;
static CUstream shared_stream;
static CUresult from_thread;

static void query_event(void) {
    OK(cuCtxSetCurrent(ctx));
    from_thread = cuEventQuery(shared_event);
}

RULE(capture, a_query_in_another_thread,
     "An event query in another thread invalidates a global capture", "observed") {
    shared_event = event();
    OK(cuEventRecord(shared_event, stream(CU_STREAM_NON_BLOCKING)));
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    in_another_thread(query_event);
    OBSERVE("the query", from_thread);
    OBSERVE("the capture", status(a));
}

RULE(capture, a_query_in_another_thread_when_local,
     "A thread-local capture is not affected by other threads", "cuStreamBeginCapture") {
    shared_event = event();
    OK(cuEventRecord(shared_event, stream(CU_STREAM_NON_BLOCKING)));
    OK(cuEventSynchronize(shared_event));
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    in_another_thread(query_event);
    OK(from_thread);
    EXPECT(status(a), CU_STREAM_CAPTURE_STATUS_ACTIVE);
}

static void synchronize_stream(void) {
    OK(cuCtxSetCurrent(ctx));
    from_thread = cuStreamSynchronize(shared_stream);
}

RULE(capture, a_synchronize_in_another_thread,
     "The result of waiting for another stream in another thread during a global capture",
     "undocumented") {
    shared_stream = stream(CU_STREAM_NON_BLOCKING);
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    in_another_thread(synchronize_stream);
    OBSERVE("the wait", from_thread);
    OBSERVE("the capture", status(a));
}

static void end_elsewhere(void) {
    CUgraph graph;
    OK(cuCtxSetCurrent(ctx));
    from_thread = cuStreamEndCapture(shared_stream, &graph);
}

RULE(capture, ended_by_the_wrong_thread,
     "Only the thread that began a capture may end it, unless it is relaxed", "observed") {
    CUgraph graph;
    shared_stream = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    in_another_thread(end_elsewhere);
    EXPECT(from_thread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    EXPECT(cuStreamEndCapture(shared_stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
}

RULE(capture, fork_and_join,
     "A stream that waits for a captured event joins the capture, and must be joined again",
     "capture") {
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_RELAXED), b = stream(CU_STREAM_NON_BLOCKING);
    CUevent fork_event = event(), join_event = event();
    const CUdeviceptr p = device(N);
    OK(cuMemsetD8Async(p, 1, N, a));
    OK(cuEventRecord(fork_event, a));
    OK(cuStreamWaitEvent(b, fork_event, 0));
    EXPECT(status(b), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    cuuint64_t one = 0, two = 1;
    CUstreamCaptureStatus found;
#if CUDA_VERSION >= 13000
    OK(cuStreamGetCaptureInfo(a, &found, &one, NULL, NULL, NULL, NULL));
    OK(cuStreamGetCaptureInfo(b, &found, &two, NULL, NULL, NULL, NULL));
#else
    OK(cuStreamGetCaptureInfo(a, &found, &one, NULL, NULL, NULL));
    OK(cuStreamGetCaptureInfo(b, &found, &two, NULL, NULL, NULL));
#endif
    EXPECT(one == two && one != 0, 1);
    OK(cuMemsetD8Async(p, 2, N, b));
    OK(cuEventRecord(join_event, b));
    OK(cuStreamWaitEvent(a, join_event, 0));
    CUgraph graph;
    OK(cuStreamEndCapture(a, &graph));
    EXPECT(nodes(graph), 2);
    EXPECT(status(b), CU_STREAM_CAPTURE_STATUS_NONE);
}

RULE(capture, unjoined, "A branch that does not join is an error", "capture") {
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_RELAXED), b = stream(CU_STREAM_NON_BLOCKING);
    CUevent e = event();
    CUgraph graph = (CUgraph)1;
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuMemsetD8Async(device(N), 2, N, b));
    EXPECT(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    EXPECT(graph == NULL, 1);
}

RULE(capture, joined_and_destroyed, "A stream may be destroyed once its work has joined",
     "observed") {
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_RELAXED), b = stream(CU_STREAM_NON_BLOCKING);
    CUevent e = event();
    const CUdeviceptr p = device(N);
    CUgraph graph;
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuMemsetD8Async(p, 1, N, b));
    OK(cuEventRecord(e, b));
    OK(cuStreamWaitEvent(a, e, 0));
    OK(cuStreamDestroy(b));
    EXPECT(status(a), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cuMemsetD8Async(p, 2, N, a));
    OK(cuStreamEndCapture(a, &graph));
    EXPECT(nodes(graph), 2);
}

RULE(capture, destroyed_before_joining, "The result of destroying a stream that has not joined",
     "undocumented") {
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_RELAXED), b = stream(CU_STREAM_NON_BLOCKING);
    CUevent e = event();
    CUgraph graph;
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuMemsetD8Async(device(N), 1, N, b));
    OBSERVE("destroy", cuStreamDestroy(b));
    OBSERVE("status", status(a));
    OBSERVE("end", cuStreamEndCapture(a, &graph));
}

RULE(capture, unmatched, "A capture ends in the stream where it began", "cuStreamEndCapture") {
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_RELAXED), b = stream(CU_STREAM_NON_BLOCKING);
    CUevent e = event();
    CUgraph graph;
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    EXPECT(cuStreamEndCapture(b, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
}

RULE(capture, isolation, "A capture cannot wait for an event from outside", "capture") {
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUevent e = event();
    OK(cuEventRecord(e, stream(CU_STREAM_NON_BLOCKING)));
    EXPECT(cuStreamWaitEvent(a, e, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    OBSERVE("the capture", status(a));
}

RULE(capture, never_recorded_inside,
     "The result of waiting for an event that was never recorded, during a capture",
     "undocumented") {
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    OBSERVE("the wait", cuStreamWaitEvent(a, event(), 0));
    OBSERVE("the capture", status(a));
}

RULE(capture, merge, "Two captures cannot be merged", "capture") {
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_RELAXED),
             b = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUevent e = event();
    OK(cuEventRecord(e, a));
    EXPECT(cuStreamWaitEvent(b, e, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    EXPECT(status(a), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EXPECT(status(b), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
}

RULE(capture, captured_event, "The host cannot wait for or query an event of a capture",
     "capture") {
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUevent e = event();
    OK(cuEventRecord(e, a));
    EXPECT(cuEventQuery(e), CUDA_ERROR_CAPTURED_EVENT);
    OBSERVE("the capture", status(a));
}

RULE(capture, legacy_while_blocking_captures,
     "The legacy stream cannot be used while a blocking stream captures", "capture") {
    CUstream a = stream(CU_STREAM_DEFAULT);
    const CUdeviceptr p = device(N);
    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUstreamCaptureStatus found;
    EXPECT(cuStreamIsCapturing(CU_STREAM_LEGACY, &found), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    EXPECT(status(a), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT(cuMemsetD8Async(p, 1, N, CU_STREAM_LEGACY), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    OBSERVE("the capture", status(a));
}

RULE(capture, legacy_while_nonblocking_captures,
     "The legacy stream can be used while a non-blocking stream captures", "capture") {
    const CUdeviceptr p = device(N);
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT(status(CU_STREAM_LEGACY), CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuMemsetD8Async(p, 1, N, CU_STREAM_LEGACY));
    EXPECT(status(a), CU_STREAM_CAPTURE_STATUS_ACTIVE);
}

static void getters(CUstreamCaptureMode mode, const char *name) {
    CUstream a = capturing(mode);
    unsigned long long id;
    char key[64];
    snprintf(key, sizeof key, "cuStreamGetId, %s", name);
    OBSERVE(key, cuStreamGetId(a, &id));
    snprintf(key, sizeof key, "the capture, %s", name);
    OBSERVE(key, status(a));
    CUgraph graph;
    (void)cuStreamEndCapture(a, &graph);
}

RULE(capture, getters, "The results of queries while a stream captures", "undocumented") {
    getters(CU_STREAM_CAPTURE_MODE_GLOBAL, "global");
    getters(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, "thread-local");
    getters(CU_STREAM_CAPTURE_MODE_RELAXED, "relaxed");
}

RULE(capture, external_record_and_wait, "With the external flags, events become nodes",
     "cuEventRecordWithFlags") {
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_RELAXED), b = stream(CU_STREAM_NON_BLOCKING);
    CUevent out = event(), in = event();
    OK(cuStreamWaitEvent(a, in, CU_EVENT_WAIT_EXTERNAL));
    OK(cuEventRecordWithFlags(out, a, CU_EVENT_RECORD_EXTERNAL));
    CUgraph graph;
    OK(cuStreamEndCapture(a, &graph));
    EXPECT(nodes(graph), 2);
    CUgraphExec exec = instantiate(graph);
    close_gate(b);
    OK(cuEventRecord(in, b));
    OK(cuGraphLaunch(exec, a));
    EXPECT(cuEventQuery(out), CUDA_ERROR_NOT_READY);
    open_gate();
    OK(cuEventSynchronize(out));
    // Again: what is waited for now is long done.
    launch(exec, a);
}

RULE(graphs, types_and_edges, "Captured work becomes nodes with dependencies",
     "cuGraphNodeGetType") {
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    const CUdeviceptr p = device(N), q = device(N);
    OK(cuMemsetD8Async(p, 1, N, a));
    OK(cuMemcpyDtoDAsync(q, p, N, a));
    CUgraph graph;
    OK(cuStreamEndCapture(a, &graph));
    CUgraphNode found[4] = {NULL}, root = NULL;
    size_t count = 4, one = 1;
    OK(cuGraphGetNodes(graph, found, &count));
    EXPECT(count, 2);
    OK(cuGraphGetRootNodes(graph, &root, &one));
    EXPECT(one, 1);
    CUgraphNodeType type;
    OK(cuGraphNodeGetType(root, &type));
    EXPECT(type, CU_GRAPH_NODE_TYPE_MEMSET);
    EXPECT(found[2] == NULL, 1);
}

RULE(graphs, no_edge_to_itself, "A node cannot depend on itself, nor twice on another",
     "cuGraphAddDependencies") {
    CUgraph graph = new_graph();
    CUgraphNode first, second;
    OK(cuGraphAddEmptyNode(&first, graph, NULL, 0));
    OK(cuGraphAddEmptyNode(&second, graph, &first, 1));
#if CUDA_VERSION >= 13000
    EXPECT(cuGraphAddDependencies(graph, &first, &first, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuGraphAddDependencies(graph, &first, &second, NULL, 1), CUDA_ERROR_INVALID_VALUE);
#else
    EXPECT(cuGraphAddDependencies(graph, &first, &first, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuGraphAddDependencies(graph, &first, &second, 1), CUDA_ERROR_INVALID_VALUE);
#endif
    OK(cuGraphDestroy(graph));
}

RULE(graphs, launches_of_one_are_ordered, "Launches of one executable graph come one after another",
     "cuGraphLaunch") {
    CUstream a = stream(CU_STREAM_NON_BLOCKING), b = stream(CU_STREAM_NON_BLOCKING);
    CUstream c = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuMemsetD8Async(device(N), 1, N, c));
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamEndCapture(c, &graph));
    exec = instantiate(graph);
    close_gate(a);
    OK(cuGraphLaunch(exec, a));
    OK(cuGraphLaunch(exec, b));
    EXPECT(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
    open_gate();
    OK(cuStreamSynchronize(b));
}

static atomic_int destroyed;
static void CUDA_CB destroy(void *data) {
    (void)data;
    atomic_fetch_add(&destroyed, 1);
}

static void wait_until_destroyed(int wanted) {
    for (int i = 0; i < 5000 && atomic_load(&destroyed) < wanted; ++i)
        usleep(1000);
    EXPECT(atomic_load(&destroyed), wanted);
}

RULE(user_objects, kept_by_graphs, "A graph keeps its objects; so does what was made from it",
     "cuGraphRetainUserObject") {
    CUuserObject object;
    CUgraph graph;
    CUgraphExec exec;
    OK(cuUserObjectCreate(&object, NULL, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    graph = new_graph();
    OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    exec = instantiate(graph);
    OK(cuGraphDestroy(graph));
    usleep(20000);
    EXPECT(atomic_load(&destroyed), 0);
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    launch(exec, a);
    OK(cuGraphExecDestroy(exec));
    wait_until_destroyed(1);
}

RULE(user_objects, kept_by_a_launch, "A launch that is not done keeps them, too",
     "cuGraphRetainUserObject") {
    CUuserObject object;
    CUgraph graph;
    CUgraphExec exec;
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    OK(cuUserObjectCreate(&object, NULL, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    graph = new_graph();
    OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    exec = instantiate(graph);
    OK(cuGraphDestroy(graph));
    close_gate(a);
    OK(cuGraphLaunch(exec, a));
    OK(cuGraphExecDestroy(exec));
    usleep(20000);
    EXPECT(atomic_load(&destroyed), 0);
    open_gate();
    OK(cuStreamSynchronize(a));
    wait_until_destroyed(1);
}

RULE(user_objects, counted, "Retain and release count", "cuUserObjectRetain") {
    CUuserObject object;
    OK(cuUserObjectCreate(&object, NULL, destroy, 2, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(cuUserObjectRetain(object, 3));
    OK(cuUserObjectRelease(object, 4));
    usleep(10000);
    EXPECT(atomic_load(&destroyed), 0);
    OK(cuUserObjectRelease(object, 1));
    wait_until_destroyed(1);
    EXPECT(cuUserObjectCreate(&object, NULL, destroy, 1, 0), CUDA_ERROR_INVALID_VALUE);
}
