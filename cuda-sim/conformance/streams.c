// Streams, events, host functions: what is ordered, what waits, what is refused.
#include "conformance.h"

RULE(streams, flags, "Streams know their flags and priority", "cuStreamGetFlags") {
    unsigned flags = 9;
    OK(cuStreamGetFlags(stream(CU_STREAM_NON_BLOCKING), &flags));
    EXPECT(flags, CU_STREAM_NON_BLOCKING);
    OK(cuStreamGetFlags(stream(CU_STREAM_DEFAULT), &flags));
    EXPECT(flags, CU_STREAM_DEFAULT);
    CUstream made;
    EXPECT(cuStreamCreate(&made, 2), CUDA_ERROR_INVALID_VALUE);
    int priority = 1;
    OK(cuStreamCreateWithPriority(&made, CU_STREAM_NON_BLOCKING, -1000));
    OK(cuStreamGetPriority(made, &priority));
    int least, greatest;
    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    EXPECT(priority, greatest);
}

RULE(streams, ids, "Ids are unique for the life of the program, also where handles come back",
     "cuStreamGetId") {
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    unsigned long long first = 0, second = 0;
    OK(cuStreamGetId(a, &first));
    OK(cuStreamDestroy(a));
    CUstream b = stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamGetId(b, &second));
    EXPECT(first != second, 1);
    OBSERVE("the handle came back", a == b);
}

RULE(streams, ids_of_tokens, "The default streams have ids, too", "cuStreamGetId") {
    unsigned long long null = 0, legacy = 0, own = 0;
    OK(cuStreamGetId(NULL, &null));
    OK(cuStreamGetId(CU_STREAM_LEGACY, &legacy));
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &own));
    EXPECT(null == legacy, 1);
    EXPECT(legacy != own, 1);
}

RULE(streams, context_of_tokens, "The default streams are of the calling thread's current context",
     "cuStreamGetCtx") {
    CUcontext found = NULL, other = another_context();
    OK(cuStreamGetCtx(CU_STREAM_LEGACY, &found));
    EXPECT(found == ctx, 1);
    OK(cuCtxPushCurrent(other));
    OK(cuStreamGetCtx(CU_STREAM_LEGACY, &found));
    EXPECT(found == other, 1);
    OK(cuCtxPopCurrent(&found));
    OK(cuCtxSetCurrent(NULL));
    EXPECT(cuStreamGetCtx(CU_STREAM_LEGACY, &found), CUDA_ERROR_INVALID_CONTEXT);
}

RULE(streams, destroy_does_not_wait, "A stream is destroyed with work pending, which is still done",
     "cuStreamDestroy") {
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    const CUdeviceptr p = device(N);
    close_gate(a);
    OK(cuMemsetD8Async(p, 6, N, a));
    OK(cuStreamDestroy(a));
    open_gate();
    OK(cuCtxSynchronize());
    EXPECT(first_byte(p), 6);
}

RULE(streams, query, "A query returns whether everything is done", "cuStreamQuery") {
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamQuery(a));
    close_gate(a);
    EXPECT(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    open_gate();
    OK(cuStreamSynchronize(a));
    OK(cuStreamQuery(a));
}

RULE(streams, querying_progresses, "Asking again and again ends some day", "cuStreamQuery") {
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    const CUdeviceptr p = device(N);
    for (int i = 0; i < 50; ++i)
        OK(cuMemsetD8Async(p, 1, N, a));
    CUresult answer;
    while ((answer = cuStreamQuery(a)) == CUDA_ERROR_NOT_READY) {
    }
    OK(answer);
}

RULE(streams, wait_without_a_context, "A wait can be enqueued without a current context",
     "undocumented") {
    CUstream a = stream(CU_STREAM_NON_BLOCKING), b = stream(CU_STREAM_NON_BLOCKING);
    CUevent e = event();
    OK(cuEventRecord(e, a));
    OK(cuCtxSetCurrent(NULL));
    OBSERVE("cuStreamWaitEvent", cuStreamWaitEvent(b, e, 0));
    OBSERVE("cuEventRecord", cuEventRecord(e, a));
    OBSERVE("cuStreamSynchronize", cuStreamSynchronize(a));
}

// --- default streams ---

static void order(CUstream first, CUstream second, int ordered) {
    close_gate(first);
    const CUdeviceptr p = device(N);
    OK(cuMemsetD8Async(p, 1, N, second));
    CUevent e = event();
    OK(cuEventRecord(e, second));
    if (ordered) {
        EXPECT(cuEventQuery(e), CUDA_ERROR_NOT_READY);
    } else {
        OK(cuEventSynchronize(e));
    }
    open_gate();
    OK(cuCtxSynchronize());
}

RULE(default_streams, blocking_waits_for_legacy, "A blocking stream waits for the legacy stream",
     "synchronization") {
    order(CU_STREAM_LEGACY, stream(CU_STREAM_DEFAULT), 1);
}
RULE(default_streams, legacy_waits_for_blocking, "The legacy stream waits for blocking streams",
     "synchronization") {
    order(stream(CU_STREAM_DEFAULT), CU_STREAM_LEGACY, 1);
}
RULE(default_streams, nonblocking_is_exempt,
     "A non-blocking stream does not wait for the legacy stream", "synchronization") {
    order(CU_STREAM_LEGACY, stream(CU_STREAM_NON_BLOCKING), 0);
}
RULE(default_streams, legacy_ignores_nonblocking,
     "The legacy stream does not wait for non-blocking streams", "synchronization") {
    order(stream(CU_STREAM_NON_BLOCKING), CU_STREAM_LEGACY, 0);
}
RULE(default_streams, per_thread_is_blocking, "The per-thread stream waits for the legacy stream",
     "synchronization") {
    order(CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, 1);
}
RULE(default_streams, two_blocking_streams, "Blocking streams do not wait for each other",
     "synchronization") {
    order(stream(CU_STREAM_DEFAULT), stream(CU_STREAM_DEFAULT), 0);
}
RULE(default_streams, of_another_context, "The legacy stream of one context is not that of another",
     "synchronization") {
    CUcontext other = another_context(), popped;
    close_gate(CU_STREAM_LEGACY);
    OK(cuCtxPushCurrent(other));
    const CUdeviceptr p = device(N);
    OK(cuMemsetD8Async(p, 1, N, CU_STREAM_LEGACY));
    OK(cuStreamSynchronize(CU_STREAM_LEGACY));
    OK(cuCtxPopCurrent(&popped));
    open_gate();
    OK(cuCtxSynchronize());
}
RULE(default_streams, waiting_for_legacy,
     "Waiting for the legacy stream waits for blocking streams", "observed") {
    CUstream a = stream(CU_STREAM_DEFAULT);
    close_gate(a);
    OBSERVE("query of the legacy stream while a blocking stream works",
            cuStreamQuery(CU_STREAM_LEGACY));
    open_gate();
    OK(cuCtxSynchronize());
}

// --- events ---

RULE(events, never_recorded,
     "An event that was never recorded is done, and waiting for it is nothing", "cuEventRecord") {
    CUevent e = event();
    OK(cuEventQuery(e));
    OK(cuEventSynchronize(e));
    OK(cuStreamWaitEvent(stream(CU_STREAM_NON_BLOCKING), e, 0));
}

RULE(events, same_context, "Event and stream must be of the same context", "cuEventRecord") {
    CUcontext other = another_context(), popped;
    CUevent e = event();
    OK(cuCtxPushCurrent(other));
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    EXPECT(cuEventRecord(e, a), CUDA_ERROR_INVALID_HANDLE);
    // Waiting is allowed across contexts and devices.
    OK(cuStreamWaitEvent(a, e, 0));
    OK(cuCtxPopCurrent(&popped));
}

RULE(events, waits_for_the_newest_record, "A wait is for the newest record at the time of the wait",
     "cuStreamWaitEvent") {
    CUstream a = stream(CU_STREAM_NON_BLOCKING), b = stream(CU_STREAM_NON_BLOCKING);
    CUstream idle = stream(CU_STREAM_NON_BLOCKING);
    CUevent e = event(), done = event();
    close_gate(a);
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuEventRecord(e, idle)); // too late to matter for the wait
    OK(cuEventSynchronize(e));
    OK(cuEventRecord(done, b));
    EXPECT(cuEventQuery(done), CUDA_ERROR_NOT_READY);
    open_gate();
    OK(cuEventSynchronize(done));
}

RULE(events, recorded_elsewhere_before_the_wait, "A new record takes the place of the old one",
     "cuEventRecord") {
    CUstream a = stream(CU_STREAM_NON_BLOCKING), b = stream(CU_STREAM_NON_BLOCKING);
    CUstream idle = stream(CU_STREAM_NON_BLOCKING);
    CUevent e = event();
    close_gate(a);
    OK(cuEventRecord(e, a));
    OK(cuEventRecord(e, idle));
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuStreamSynchronize(b));
    open_gate();
    OK(cuStreamSynchronize(a));
}

RULE(events, destroyed_while_waited_for, "An event may be destroyed right after the wait",
     "cuEventDestroy") {
    CUstream a = stream(CU_STREAM_NON_BLOCKING), b = stream(CU_STREAM_NON_BLOCKING);
    CUevent e = event(), done = event();
    close_gate(a);
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuEventDestroy(e));
    OK(cuEventRecord(done, b));
    EXPECT(cuEventQuery(done), CUDA_ERROR_NOT_READY);
    open_gate();
    OK(cuEventSynchronize(done));
}

RULE(events, timing, "Only events with timing measure, and only when done", "cuEventElapsedTime") {
    CUevent start, end, plain = event();
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    float milliseconds = -1;
    OK(cuEventCreate(&start, CU_EVENT_DEFAULT));
    OK(cuEventCreate(&end, CU_EVENT_DEFAULT));
    EXPECT(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventRecord(start, a));
    close_gate(a);
    OK(cuEventRecord(end, a));
    EXPECT(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_NOT_READY);
    OK(cuEventRecord(plain, a));
    EXPECT(cuEventElapsedTime(&milliseconds, end, plain), CUDA_ERROR_INVALID_HANDLE);
    open_gate();
    OK(cuEventSynchronize(end));
    OK(cuEventElapsedTime(&milliseconds, start, end));
    EXPECT(milliseconds >= 0, 1);
    OK(cuEventRecord(plain, a));
    OK(cuEventSynchronize(plain));
    EXPECT(cuEventElapsedTime(&milliseconds, plain, end), CUDA_ERROR_INVALID_HANDLE);
}

RULE(events, flags, "Unknown flags are invalid", "cuEventCreate") {
    CUevent e;
    EXPECT(cuEventCreate(&e, 8), CUDA_ERROR_INVALID_VALUE);
    OK(cuEventCreate(&e, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING));
    EXPECT(cuStreamWaitEvent(stream(0), e, CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
}

RULE(events, across_devices, "A stream of one device waits for an event of another",
     "cuStreamWaitEvent") {
    if (devices() < 2) skip("one device");
    CUcontext other;
    CUevent e = event();
    OK(cuEventRecord(e, stream(CU_STREAM_NON_BLOCKING)));
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    OK(cuCtxSetCurrent(other));
    OK(cuStreamWaitEvent(stream(CU_STREAM_NON_BLOCKING), e, 0));
}

// --- host functions ---

static int seen[8], seen_count;
static pthread_t host_thread;
static int answer_inside = -1;

static void CUDA_CB note(void *data) {
    seen[seen_count++] = (int)(intptr_t)data;
    host_thread = pthread_self();
    int n;
    answer_inside = cuDeviceGetCount(&n);
}

static void CUDA_CB note_callback(CUstream of, CUresult status, void *data) {
    (void)of;
    seen[seen_count++] = (int)(intptr_t)data + (int)status;
}

RULE(host_functions, in_order, "Host functions and callbacks run in the order of their stream",
     "cuLaunchHostFunc") {
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    OK(cuLaunchHostFunc(a, note, (void *)1));
    OK(cuStreamAddCallback(a, note_callback, (void *)2, 0));
    OK(cuLaunchHostFunc(a, note, (void *)3));
    OK(cuStreamSynchronize(a));
    EXPECT(seen_count, 3);
    EXPECT(seen[0] * 100 + seen[1] * 10 + seen[2], 123);
}

RULE(host_functions, on_another_thread, "They run on a thread of the driver", "observed") {
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    OK(cuLaunchHostFunc(a, note, NULL));
    OK(cuStreamSynchronize(a));
    OBSERVE("the same thread", pthread_equal(host_thread, pthread_self()) != 0);
}

RULE(host_functions, no_calls_inside, "Inside, the driver may not be called", "cuLaunchHostFunc") {
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    OK(cuLaunchHostFunc(a, note, NULL));
    OK(cuStreamSynchronize(a));
    OBSERVE("cuDeviceGetCount inside", answer_inside);
}

static atomic_int signalled;
static void CUDA_CB signal_done(void *data) {
    (void)data;
    atomic_store(&signalled, 1);
}

RULE(host_functions, without_a_call, "They also run while no thread calls the driver",
     "cuLaunchHostFunc") {
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    OK(cuMemsetD8Async(device(N), 1, N, a));
    OK(cuLaunchHostFunc(a, signal_done, NULL));
    for (int i = 0; i < 10000 && !atomic_load(&signalled); ++i)
        usleep(1000);
    EXPECT(atomic_load(&signalled), 1);
}

RULE(streams, values_in_memory, "A stream waits until a number in memory is large enough",
     "cuStreamWaitValue32") {
    void *host;
    CUdeviceptr p = 0;
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    OK(cuMemHostAlloc(&host, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cuMemHostGetDevicePointer(&p, host, 0));
    atomic_uint *number = host;
    atomic_store(number, 0);
    OK(cuStreamWaitValue32(a, p, 5, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuStreamWriteValue32(a, p + 4, 7, CU_STREAM_WRITE_VALUE_DEFAULT));
    EXPECT(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    atomic_store(number, 5);
    OK(cuStreamSynchronize(a));
    EXPECT(atomic_load(number + 1), 7);
}

RULE(host_functions, null, "A host function must be given", "cuLaunchHostFunc") {
    EXPECT(cuLaunchHostFunc(stream(0), NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

// --- undefined ---
// Using a handle after its object is gone is the program's mistake; whatever happens is only noted.

RULE(undefined, id_of_a_destroyed_stream, "What the id of a destroyed stream is", "undocumented") {
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    unsigned long long id = 0;
    OK(cuStreamDestroy(a));
    OBSERVE("cuStreamGetId", cuStreamGetId(a, &id));
}

RULE(undefined, waiting_for_a_destroyed_stream, "The result of waiting for a destroyed stream",
     "undocumented") {
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamDestroy(a));
    OBSERVE("cuStreamSynchronize", cuStreamSynchronize(a));
}

RULE(undefined, recording_a_destroyed_event, "The result of recording a destroyed event",
     "undocumented") {
    CUevent e = event();
    OK(cuEventDestroy(e));
    OBSERVE("cuEventRecord", cuEventRecord(e, stream(CU_STREAM_NON_BLOCKING)));
}
