// Green contexts: what they divide, their streams, and events of all streams of a context.
#include "conformance.h"

#if CUDA_VERSION >= 12080

static CUdevResource all_of_device(void) {
    CUdevResource all;
    if (cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS)
        skip("no green contexts");
    return all;
}

static CUgreenCtx green_of(CUdevResource *resources, unsigned count) {
    CUdevResourceDesc desc;
    CUgreenCtx green;
    if (cuDevResourceGenerateDesc(&desc, resources, count) != CUDA_SUCCESS ||
        cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM) != CUDA_SUCCESS) {
        skip("no green contexts");
    }
    return green;
}

static CUgreenCtx green(void) {
    CUdevResource all = all_of_device();
    return green_of(&all, 1);
}

static CUcontext context_of(CUgreenCtx of) {
    CUcontext inside = NULL;
    OK(cuCtxFromGreenCtx(&inside, of));
    return inside;
}

static CUstream stream_in(CUgreenCtx of) {
    CUstream made = NULL;
    OK(cuGreenCtxStreamCreate(&made, of, CU_STREAM_NON_BLOCKING, 0));
    return made;
}

// What not every header declares, or not in the same version.
static void *driver_function(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    if (found == NULL) skip("an older driver");
    return found;
}

// The error is not in every header; drivers before those know nothing of it.
enum { STREAM_DETACHED = 917 };
static void streams_are_detached(void) {
    int version = 0;
    OK(cuDriverGetVersion(&version));
    if (version < 13000) skip("an older driver");
}

// --- resources ---

RULE(green_contexts, resources, "A device and its primary context have the same multiprocessors",
     "cuCtxGetDevResource") {
    CUdevResource all = all_of_device(), found;
    int count = 0;
    OK(cuCtxGetDevResource(ctx, &found, CU_DEV_RESOURCE_TYPE_SM));
    EXPECT(found.type, CU_DEV_RESOURCE_TYPE_SM);
    EXPECT(found.sm.smCount, all.sm.smCount);
    OK(cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    EXPECT(found.sm.smCount, count);
    EXPECT(cuDeviceGetDevResource(0, &found, CU_DEV_RESOURCE_TYPE_INVALID),
           CUDA_ERROR_INVALID_RESOURCE_TYPE);
    EXPECT(cuDeviceGetDevResource(99, &found, CU_DEV_RESOURCE_TYPE_SM), CUDA_ERROR_INVALID_DEVICE);
}

RULE(green_contexts, split, "A split makes equal groups of at least so many, and leaves the rest",
     "cuDevSmResourceSplitByCount") {
    CUdevResource all = all_of_device(), groups[2], rest;
    unsigned possible = 0, made = 2;
    OK(cuDevSmResourceSplitByCount(NULL, &possible, &all, NULL, 0, 1));
    if (possible < 2) skip("few multiprocessors");
    OK(cuDevSmResourceSplitByCount(groups, &made, &all, &rest, 0, 1));
    EXPECT(made, 2);
    EXPECT(groups[0].sm.smCount >= 1, 1);
    EXPECT(groups[0].sm.smCount, groups[1].sm.smCount);
    EXPECT(2 * groups[0].sm.smCount + (rest.type == CU_DEV_RESOURCE_TYPE_SM ? rest.sm.smCount : 0),
           all.sm.smCount);
    OBSERVE("the smallest group", groups[0].sm.smCount);
    // Fewer groups than fit.
    CUdevResource one[2];
    made = 2;
    OK(cuDevSmResourceSplitByCount(one, &made, &all, NULL, 0, all.sm.smCount / 2 + 1));
    EXPECT(made, 1);
    EXPECT(one[0].sm.smCount > all.sm.smCount / 2, 1);
    OBSERVE("splitting a part again",
            cuDevSmResourceSplitByCount(one, &made, &groups[0], NULL, 0, 1));
    made = 1;
    OK(cuDevSmResourceSplitByCount(one, &made, &all, NULL,
                                   CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING, 1));
    OBSERVE("the smallest group without co-scheduling", one[0].sm.smCount);
}

RULE(green_contexts, split_refuses, "A split needs multiprocessors, and as many as requested",
     "cuDevSmResourceSplitByCount") {
    CUdevResource all = all_of_device(), group;
    unsigned made = 1;
    EXPECT(cuDevSmResourceSplitByCount(&group, &made, &all, NULL, 0, all.sm.smCount + 1),
           CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuDevSmResourceSplitByCount(&group, NULL, &all, NULL, 0, 1), CUDA_ERROR_INVALID_VALUE);
    all.type = CU_DEV_RESOURCE_TYPE_INVALID;
    EXPECT(cuDevSmResourceSplitByCount(&group, &made, &all, NULL, 0, 1),
           CUDA_ERROR_INVALID_RESOURCE_TYPE);
}

RULE(green_contexts, descriptors, "Several resources of a descriptor come from the same split",
     "cuDevResourceGenerateDesc") {
    CUdevResource all = all_of_device(), first[2], second[2];
    CUdevResourceDesc desc;
    unsigned made = 2;
    OK(cuDevSmResourceSplitByCount(first, &made, &all, NULL, 0, 1));
    EXPECT(made, 2);
    made = 2;
    OK(cuDevSmResourceSplitByCount(second, &made, &all, NULL, 0, 1));
    OK(cuDevResourceGenerateDesc(&desc, first, 2));
    first[1] = second[1];
    EXPECT(cuDevResourceGenerateDesc(&desc, first, 2), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    EXPECT(cuDevResourceGenerateDesc(NULL, first, 1), CUDA_ERROR_INVALID_VALUE);
}

RULE(green_contexts, provisioned,
     "A green context, its context and its streams have what it was given",
     "cuGreenCtxGetDevResource") {
    CUdevResource all = all_of_device(), groups[2], found;
    unsigned made = 2;
    OK(cuDevSmResourceSplitByCount(groups, &made, &all, NULL, 0, 1));
    EXPECT(made, 2);
    CUgreenCtx of_one = green_of(groups, 1), of_both = green_of(groups, 2);
    OK(cuGreenCtxGetDevResource(of_one, &found, CU_DEV_RESOURCE_TYPE_SM));
    EXPECT(found.sm.smCount, groups[0].sm.smCount);
    OK(cuCtxGetDevResource(context_of(of_one), &found, CU_DEV_RESOURCE_TYPE_SM));
    EXPECT(found.sm.smCount, groups[0].sm.smCount);
    OK(cuGreenCtxGetDevResource(of_both, &found, CU_DEV_RESOURCE_TYPE_SM));
    EXPECT(found.sm.smCount, 2 * groups[0].sm.smCount);
    // What a green context has can be split again.
    unsigned possible = 0;
    OK(cuDevSmResourceSplitByCount(NULL, &possible, &found, NULL, 0, 1));
    EXPECT(possible, 2);
}

// --- contexts ---

RULE(green_contexts, retains,
     "A green context retains its primary context, and does not become current",
     "cuGreenCtxCreate") {
    CUgreenCtx made = green();
    CUcontext current = NULL;
    unsigned flags;
    int active = 0;
    OK(cuCtxGetCurrent(&current));
    EXPECT(current == ctx, 1);
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT(active, 1);
    OK(cuGreenCtxDestroy(made));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT(active, 0);
}

RULE(green_contexts, creation_flags, "Flags that are not supported are invalid",
     "cuGreenCtxCreate") {
    CUdevResource all = all_of_device();
    CUdevResourceDesc desc;
    CUgreenCtx made;
    OK(cuDevResourceGenerateDesc(&desc, &all, 1));
    EXPECT(cuGreenCtxCreate(&made, desc, 0, 1u << 20), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuGreenCtxCreate(NULL, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuGreenCtxCreate(&made, desc, 99, CU_GREEN_CTX_DEFAULT_STREAM),
           CUDA_ERROR_INVALID_DEVICE);
    OBSERVE("without a default stream", cuGreenCtxCreate(&made, desc, 0, 0));
}

RULE(green_contexts, as_a_context, "Its context can be current; memory is the primary context's",
     "cuCtxFromGreenCtx") {
    CUgreenCtx made = green();
    CUcontext inside = context_of(made), found = NULL;
    OBSERVE("the same each time", inside == context_of(made));
    OK(cuCtxPushCurrent(inside));
    OK(cuCtxGetCurrent(&found));
    EXPECT(found == inside, 1);
    const CUdeviceptr p = device(N);
    OK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_CONTEXT, p));
    OBSERVE("memory belongs to the primary context", found == ctx);
    OK(cuCtxPopCurrent(&found));
    OK(cuMemsetD8(p, 5, N));
    EXPECT(first_byte(p), 5);
    OK(cuGreenCtxDestroy(made));
    EXPECT(first_byte(p), 5);
    OK(cuMemFree(p));
}

RULE(green_contexts, not_a_context, "A green context itself is no context", "cuCtxFromGreenCtx") {
    EXPECT(cuCtxPushCurrent((CUcontext)green()), CUDA_ERROR_INVALID_CONTEXT);
}

RULE(green_contexts, synchronize, "Waiting for the primary context waits for its green ones",
     "cuCtxSynchronize") {
    CUstream a = stream_in(green());
    const CUdeviceptr p = device(N);
    CUevent e = event();
    OK(cuMemsetD8Async(p, 1, N, a));
    OK(cuEventRecord(e, a));
    OK(cuCtxSynchronize());
    OK(cuEventQuery(e));
    OK(cuStreamQuery(a));
}

RULE(green_contexts, ids, "Green contexts have ids, unique for the life of the program",
     "cuGreenCtxGetId") {
    CUgreenCtx made = green();
    CUcontext popped;
    unsigned long long first = 0, current = 0, second = 0, of_context = 0;
    CUresult (*id_of)(CUgreenCtx, unsigned long long *) = NULL;
    *(void **)&id_of = driver_function("cuGreenCtxGetId");
    OK(id_of(made, &first));
    EXPECT(id_of(NULL, &current), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxPushCurrent(context_of(made)));
    OK(id_of(NULL, &current));
    EXPECT(current == first, 1);
    OK(cuCtxGetId(NULL, &of_context));
    OBSERVE("its context has the same", of_context == first);
    OK(cuCtxPopCurrent(&popped));
    OK(cuGreenCtxDestroy(made));
    made = green();
    OK(id_of(made, &second));
    EXPECT(first != second, 1);
}

// --- streams ---

RULE(green_contexts, streams, "Streams must be non-blocking", "cuGreenCtxStreamCreate") {
    CUgreenCtx made = green();
    CUstream a;
    unsigned flags = 9;
    EXPECT(cuGreenCtxStreamCreate(&a, made, CU_STREAM_DEFAULT, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuGreenCtxStreamCreate(&a, made, CU_STREAM_NON_BLOCKING, 0));
    OK(cuStreamGetFlags(a, &flags));
    EXPECT(flags, CU_STREAM_NON_BLOCKING);
}

RULE(green_contexts, contexts_of_streams, "A stream knows its green context and the primary one",
     "cuStreamGetCtx") {
    CUgreenCtx made = green(), found_green = NULL;
    CUcontext inside = context_of(made), found = NULL, popped;
    CUstream a = stream_in(made), b = stream(CU_STREAM_NON_BLOCKING);
    CUresult (*both)(CUstream, CUcontext *, CUgreenCtx *) = NULL;
    OK(cuStreamGetGreenCtx(a, &found_green));
    EXPECT(found_green == made, 1);
    OK(cuStreamGetGreenCtx(b, &found_green));
    EXPECT(found_green == NULL, 1);
    CUresult (*one)(CUstream, CUcontext *) = NULL;
    *(void **)&one = driver_function("cuStreamGetCtx");
    *(void **)&both = driver_function("cuStreamGetCtx_v2");
    OK(one(a, &found));
    EXPECT(found == inside, 1);
    OK(both(a, &found, &found_green));
    EXPECT(found == ctx && found_green == made, 1);
    OK(both(b, &found, &found_green));
    EXPECT(found == ctx && found_green == NULL, 1);
    OK(cuCtxPushCurrent(inside));
    CUstream c = stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamGetGreenCtx(CU_STREAM_LEGACY, &found_green));
    EXPECT(found_green == made, 1);
    OK(both(CU_STREAM_LEGACY, &found, &found_green));
    EXPECT(found == ctx && found_green == made, 1);
    EXPECT(both(CU_STREAM_PER_THREAD, &found, &found_green), CUDA_ERROR_INVALID_HANDLE);
    OBSERVE("work on the per-thread stream", cuStreamQuery(CU_STREAM_PER_THREAD));
    OK(cuCtxPopCurrent(&popped));
    OK(cuStreamGetGreenCtx(c, &found_green));
    EXPECT(found_green == made, 1);
}

RULE(green_contexts, default_streams,
     "Whether its default stream and the primary context's know each other", "undocumented") {
    CUgreenCtx made = green();
    CUcontext popped;
    CUevent e = event();
    const CUdeviceptr p = device(N);
    close_gate(CU_STREAM_LEGACY);
    OK(cuCtxPushCurrent(context_of(made)));
    OK(cuMemsetD8Async(p, 1, N, CU_STREAM_LEGACY));
    OK(cuEventRecord(e, CU_STREAM_LEGACY));
    CUresult answer = CUDA_ERROR_NOT_READY;
    for (int i = 0; i < 100 && answer == CUDA_ERROR_NOT_READY; ++i) {
        usleep(1000);
        answer = cuEventQuery(e);
    }
    OBSERVE("the default stream of the green one waits", answer == CUDA_ERROR_NOT_READY);
    OK(cuCtxPopCurrent(&popped));
    open_gate();
    OK(cuCtxSynchronize());
}

RULE(green_contexts, detached, "Streams outlive their green context and can only be destroyed",
     "cuGreenCtxDestroy") {
    streams_are_detached();
    CUgreenCtx made = green();
    CUstream a = stream_in(made), b;
    CUcontext popped;
    CUevent e = event();
    unsigned long long id;
    const CUdeviceptr p = device(N);
    OK(cuCtxPushCurrent(context_of(made)));
    b = stream(CU_STREAM_DEFAULT);
    OK(cuCtxPopCurrent(&popped));
    OK(cuMemsetD8Async(p, 1, N, a));
    OK(cuGreenCtxDestroy(made));
    EXPECT(cuStreamQuery(a), STREAM_DETACHED);
    EXPECT(cuStreamSynchronize(a), STREAM_DETACHED);
    EXPECT(cuStreamGetId(a, &id), STREAM_DETACHED);
    EXPECT(cuMemsetD8Async(p, 1, N, a), STREAM_DETACHED);
    EXPECT(cuEventRecord(e, a), STREAM_DETACHED);
    EXPECT(cuStreamWaitEvent(a, e, 0), STREAM_DETACHED);
    EXPECT(cuStreamQuery(b), STREAM_DETACHED);
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
    OK(cuCtxSynchronize());
    OBSERVE("destroying it again", cuGreenCtxDestroy(made));
}

RULE(green_contexts, detached_captures, "Captures of its streams are invalidated",
     "cuGreenCtxDestroy") {
    streams_are_detached();
    CUgreenCtx made = green();
    CUstream a = stream(CU_STREAM_NON_BLOCKING), fork = stream_in(made);
    CUevent e = event();
    CUgraph graph;
    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(fork, e, 0));
    OK(cuGreenCtxDestroy(made));
    EXPECT(status(a), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EXPECT(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuStreamDestroy(fork));
    // One that began there can no longer be ended.
    made = green();
    fork = stream_in(made);
    OK(cuStreamBeginCapture(fork, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuGreenCtxDestroy(made));
    EXPECT(cuStreamEndCapture(fork, &graph), STREAM_DETACHED);
    OBSERVE("a call that captures forbid", cuStreamQuery(a));
    OK(cuStreamDestroy(fork));
    OBSERVE("after the stream is destroyed", cuStreamQuery(a));
}

RULE(green_contexts, events, "Events of the primary context on streams of a green one, and back",
     "undocumented") {
    CUgreenCtx made = green();
    CUcontext popped;
    CUstream on_green = stream_in(made);
    CUevent e = event(), of_green;
    OBSERVE("an event of the primary context", cuEventRecord(e, on_green));
    OK(cuCtxPushCurrent(context_of(made)));
    of_green = event();
    OK(cuCtxPopCurrent(&popped));
    OBSERVE("an event of the green context", cuEventRecord(of_green, on_green));
    OBSERVE("on a stream of the primary one",
            cuEventRecord(of_green, stream(CU_STREAM_NON_BLOCKING)));
    OK(cuStreamWaitEvent(stream(CU_STREAM_NON_BLOCKING), of_green, 0));
    OK(cuGreenCtxDestroy(made));
    OBSERVE("an event of a destroyed one", cuEventQuery(of_green));
}

// --- events of all streams of a context ---

RULE(green_contexts, record, "An event can be recorded for all streams of a green context",
     "cuGreenCtxRecordEvent") {
    CUgreenCtx made = green();
    CUstream a = stream_in(made);
    CUevent e = event(), of_context = event(), of_primary = event();
    stream_in(made);
    close_gate(a);
    OK(cuGreenCtxRecordEvent(made, e));
    OK(cuCtxRecordEvent(context_of(made), of_context));
    OK(cuCtxRecordEvent(ctx, of_primary));
    EXPECT(cuEventQuery(e), CUDA_ERROR_NOT_READY);
    EXPECT(cuEventQuery(of_context), CUDA_ERROR_NOT_READY);
    EXPECT(cuEventQuery(of_primary), CUDA_ERROR_NOT_READY);
    open_gate();
    OK(cuEventSynchronize(e));
    OK(cuEventSynchronize(of_context));
    OK(cuEventSynchronize(of_primary));
}

RULE(green_contexts, record_is_of_one,
     "It has nothing to do with streams outside, nor with later work", "cuGreenCtxRecordEvent") {
    CUgreenCtx made = green(), other = green();
    CUstream a = stream(CU_STREAM_NON_BLOCKING), b = stream_in(other), c = stream_in(made);
    CUevent e = event(), of_context = event(), pending = event();
    close_gate(a);
    OK(cuEventRecord(pending, a));
    OK(cuStreamWaitEvent(b, pending, 0));
    OK(cuGreenCtxRecordEvent(made, e));
    OK(cuCtxRecordEvent(context_of(made), of_context));
    OK(cuStreamWaitEvent(c, pending, 0));
    OK(cuEventSynchronize(e));
    OK(cuEventSynchronize(of_context));
    open_gate();
    OK(cuCtxSynchronize());
}

RULE(green_contexts, record_same_context, "Event and context must be of the same primary context",
     "cuGreenCtxRecordEvent") {
    CUgreenCtx made = green();
    CUcontext other = another_context(), popped;
    OK(cuCtxPushCurrent(other));
    CUevent e = event();
    OK(cuCtxPopCurrent(&popped));
    EXPECT(cuGreenCtxRecordEvent(made, e), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cuCtxRecordEvent(ctx, e), CUDA_ERROR_INVALID_HANDLE);
    OK(cuCtxRecordEvent(other, e));
}

static void waits(CUstream of, int held) {
    CUevent done = event();
    OK(cuMemsetD8Async(device(N), 1, N, of));
    OK(cuEventRecord(done, of));
    if (held) {
        EXPECT(cuEventQuery(done), CUDA_ERROR_NOT_READY);
    } else {
        OK(cuEventSynchronize(done));
    }
}

RULE(green_contexts, wait, "All streams of a green context wait for an event, and no other",
     "cuGreenCtxWaitEvent") {
    CUgreenCtx made = green(), other = green();
    CUstream a = stream(CU_STREAM_NON_BLOCKING), b = stream_in(made), c = stream_in(made);
    CUevent e = event();
    close_gate(a);
    OK(cuEventRecord(e, a));
    OK(cuGreenCtxWaitEvent(made, e));
    waits(b, 1);
    waits(c, 1);
    waits(stream_in(made), 1);
    waits(stream_in(other), 0);
    waits(stream(CU_STREAM_NON_BLOCKING), 0);
    open_gate();
    OK(cuCtxSynchronize());
}

RULE(green_contexts, wait_of_the_primary,
     "Where the primary context waits, its green ones wait, too", "cuCtxWaitEvent") {
    CUgreenCtx made = green(), other = green();
    CUstream a, b = stream_in(made), c = stream_in(other), d = stream(CU_STREAM_NON_BLOCKING);
    CUcontext popped;
    CUevent e;
    OK(cuCtxPushCurrent(another_context()));
    a = stream(CU_STREAM_NON_BLOCKING);
    e = event();
    close_gate(a);
    OK(cuEventRecord(e, a));
    OK(cuCtxPopCurrent(&popped));
    OK(cuCtxWaitEvent(context_of(other), e));
    waits(c, 1);
    waits(b, 0);
    waits(d, 0);
    OK(cuCtxWaitEvent(ctx, e));
    waits(b, 1);
    waits(d, 1);
    waits(stream(CU_STREAM_NON_BLOCKING), 1);
    waits(stream_in(made), 1);
    open_gate();
    OK(cuCtxSynchronize());
}

RULE(green_contexts, whole_contexts_while_capturing,
     "A context with a capturing stream neither records nor waits", "cuGreenCtxRecordEvent") {
    CUgreenCtx made = green();
    CUstream a = stream_in(made);
    CUevent e = event();
    CUgraph graph;
    for (int i = 0; i < 4; ++i) {
        OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
        const CUresult answer = i == 0   ? cuGreenCtxRecordEvent(made, e)
                                : i == 1 ? cuGreenCtxWaitEvent(made, e)
                                : i == 2 ? cuCtxRecordEvent(context_of(made), e)
                                         : cuCtxWaitEvent(context_of(made), e);
        EXPECT(answer, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        EXPECT(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
}

RULE(green_contexts, wait_for_a_captured_event,
     "A whole context cannot wait for an event of a capture", "cuGreenCtxWaitEvent") {
    CUgreenCtx made = green();
    CUstream a = stream(CU_STREAM_NON_BLOCKING);
    CUevent e = event();
    CUgraph graph;
    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(e, a));
    EXPECT(cuGreenCtxWaitEvent(made, e), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

#endif
