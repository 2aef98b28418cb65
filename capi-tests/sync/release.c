/*
 * A release never comes before the work. Each case releases a reference in one way, in one state of
 * captures, while work is held at a gate: nothing is destroyed until the gate is open, whatever the
 * driver answers meanwhile, and afterwards exactly once.
 * run: sim asan valgrind refuse documented
 */
#include "sync_test.h"
#include <cai/unstable/release.h>

typedef enum way { IN_ORDER, OWNER_AFTER, ARRAY_AFTER } way;
typedef enum where {
    HANDLE,
    BLOCKING,
    LEGACY,
    PER_THREAD,
    PER_THREAD_OF_ANOTHER,
    /* of the current context, which is not that of the memory, and the array states none */
    LEGACY_IN_CURRENT,
    PER_THREAD_IN_CURRENT
} where;
typedef enum state {
    NO_CAPTURE,
    OWN,
    /* the work is before the capture, whose graph is never launched */
    OWN_UNUSED,
    /* the same, and the stream is destroyed at once */
    OWN_DESTROYED,
    OWN_INVALIDATED,
    /* then the stream is destroyed, and another one gets its handle */
    OWN_REPLACED,
    FOREIGN,
    FOREIGN_INVALIDATED
} state;

static atomic_int gate, destroyed;

static void wait_until_open(void *unused) {
    (void)unused;
    while (!atomic_load(&gate))
        usleep(100);
}

static void held_at_gate(CUstream stream) { CU(cuLaunchHostFunc(stream, wait_until_open, NULL)); }

/* The gate is closed: nothing may be destroyed, however long the library waits. */
static void nothing_is_destroyed(void) {
    for (int i = 0; i < 8; ++i) {
        usleep(500);
        ASSERT(atomic_load(&destroyed) == 0);
    }
}

#ifndef WITHOUT
static void take_away(int on) { (void)on; }
static cai_owner *new_owner(void) {
    cai_owner *owner;
    OK(cai_owner_create(&destroyed, count_destroyed, &owner, error));
    return owner;
}
#else
static void take_away(int on);
static cai_owner *new_owner(void);
#endif

/* Calls of the library go on, one of which may have to do the work of its thread. */
static int is_destroyed(void *number) {
    cai_owner_release(NULL);
    return is_one(number);
}

/* --- another thread, which captures a blocking stream */

typedef struct other {
    CUstreamCaptureMode mode;
    int invalidates;
    atomic_int begun, may_end;
    pthread_t thread;
} other;

static void *capture_there(void *argument) {
    other *it = argument;
    CUgraph graph = NULL;
    CU(cuCtxSetCurrent(context[0]));
    CUstream stream = blocking_stream();
    CU(cuStreamBeginCapture(stream, it->mode));
    if (it->invalidates) ASSERT(cuStreamSynchronize(stream) != CUDA_SUCCESS);
    atomic_store(&it->begun, 1);
    while (!atomic_load(&it->may_end))
        usleep(100);
    CUresult ended = cuStreamEndCapture(stream, &graph);
    /* The library has not broken it. */
    ASSERT((ended == CUDA_SUCCESS) == !it->invalidates);
    return NULL;
}

/* --- a thread whose per-thread default stream has the work */

static void *work_there(void *argument) {
    cai_array *array = argument;
    CU(cuCtxSetCurrent(context[0]));
    OK(cai_unstable_array_identify(array, error));
    held_at_gate(CU_STREAM_PER_THREAD);
    return NULL;
}

static CUstream stream_of(where place) {
    switch (place) {
    case HANDLE: return new_stream();
    case BLOCKING: return blocking_stream();
    case LEGACY:
    case LEGACY_IN_CURRENT: return CU_STREAM_LEGACY;
    default: return CU_STREAM_PER_THREAD;
    }
}

/* Returns true if the reference was given up. */
static int release(way how, cai_array *array) {
    const cai_owner *owner = array->owner;
    cai_status status = CAI_OK;
    switch (how) {
    case IN_ORDER: cai_unstable_array_release_in_order(array); break;
    case OWNER_AFTER: status = cai_owner_release_after(array->owner, array->stream, NULL); break;
    case ARRAY_AFTER: status = cai_array_release_after(array, array->stream, NULL); break;
    }
    ASSERT(status == CAI_OK || array->owner == owner);
    return status == CAI_OK;
}

static void run(way how, where place, state captured, CUstreamCaptureMode mode) {
    CUstream stream = stream_of(place);
    cai_array array = array_of(new_buffer(), as_value(stream));
    other foreign = {.mode = mode, .invalidates = captured == FOREIGN_INVALIDATED};
    CUgraph graph;
    CUgraphExec launchable = NULL;
    array.owner = new_owner();
    if (place >= LEGACY_IN_CURRENT) CU(cuCtxSetCurrent(working_context()));
    if (place == PER_THREAD_OF_ANOTHER) {
        in_thread(work_there, &array);
    } else if (captured != OWN) {
        held_at_gate(stream);
    }
    if (captured == FOREIGN || captured == FOREIGN_INVALIDATED) {
        ASSERT(pthread_create(&foreign.thread, NULL, capture_there, &foreign) == 0);
        ASSERT(comes_true(is_one, &foreign.begun));
    } else if (captured != NO_CAPTURE) {
        CU(cuStreamBeginCapture(stream, mode));
        if (captured == OWN) held_at_gate(stream);
        if (captured == OWN_INVALIDATED || captured == OWN_REPLACED)
            ASSERT(cuStreamSynchronize(stream) != CUDA_SUCCESS);
    }

    the_shim.arm(1);
    take_away(1);
    int given_up = release(how, &array);
    nothing_is_destroyed();

    /* What is in the way goes away. */
    take_away(0);
    if (captured == FOREIGN || captured == FOREIGN_INVALIDATED) {
        atomic_store(&foreign.may_end, 1);
        ASSERT(pthread_join(foreign.thread, NULL) == 0);
    } else if (captured == OWN) {
        if (!given_up) given_up = release(how, &array);
        ASSERT(given_up);
        CU(cuStreamEndCapture(stream, &graph));
        CU(cuGraphInstantiate(&launchable, graph, 0));
        CU(cuGraphLaunch(launchable, stream));
        CU(cuGraphDestroy(graph));
        CU(cuGraphExecDestroy(launchable));
    } else if (captured == OWN_UNUSED || captured == OWN_DESTROYED) {
        /* A stream that is gone cannot be named again. */
        for (int i = 0; captured == OWN_DESTROYED && i < 3 && !given_up; ++i)
            given_up = release(how, &array);
        CU(cuStreamEndCapture(stream, &graph));
        if (captured == OWN_DESTROYED) CU(cuStreamDestroy(stream));
        CU(cuGraphDestroy(graph));
    } else if (captured == OWN_INVALIDATED || captured == OWN_REPLACED) {
        ASSERT(cuStreamEndCapture(stream, &graph) != CUDA_SUCCESS);
    }
    if (captured == OWN_REPLACED) {
        CU(cuStreamDestroy(stream));
        ASSERT(new_stream() == stream);
    }
    nothing_is_destroyed();
    /* The call that fails may be one of the second release. */
    for (int i = 0; i < 3 && !given_up; ++i)
        given_up = release(how, &array);
    ASSERT(given_up);
    nothing_is_destroyed();

    atomic_store(&gate, 1);
    ASSERT(comes_true(is_destroyed, &destroyed));
    CU(cuCtxSynchronize());
    ASSERT(atomic_load(&destroyed) == 1);
    the_shim.arm(0);
}

#define ONE(way, where, state, mode)                           \
    CASE(way##_##where##_##state##_##mode) {                   \
        run(way, where, state, CU_STREAM_CAPTURE_MODE_##mode); \
    }
#define OTHERS(way, where)              \
    ONE(way, where, NO_CAPTURE, GLOBAL) \
    ONE(way, where, FOREIGN, GLOBAL)    \
    ONE(way, where, FOREIGN_INVALIDATED, GLOBAL)
#define OWNS(way, where)         \
    ONE(way, where, OWN, GLOBAL) \
    ONE(way, where, OWN_INVALIDATED, GLOBAL)
#define MORE_MODES(way, where, state)    \
    ONE(way, where, state, THREAD_LOCAL) \
    ONE(way, where, state, RELAXED)

OTHERS(IN_ORDER, HANDLE)
OWNS(IN_ORDER, HANDLE)
MORE_MODES(IN_ORDER, HANDLE, OWN)
ONE(IN_ORDER, HANDLE, OWN_UNUSED, GLOBAL)
ONE(IN_ORDER, HANDLE, OWN_REPLACED, GLOBAL)
OTHERS(IN_ORDER, BLOCKING)
MORE_MODES(IN_ORDER, BLOCKING, FOREIGN)
OTHERS(IN_ORDER, PER_THREAD)
OWNS(IN_ORDER, PER_THREAD)
ONE(IN_ORDER, PER_THREAD, OWN_UNUSED, GLOBAL)
OTHERS(IN_ORDER, LEGACY)
MORE_MODES(IN_ORDER, LEGACY, FOREIGN)
OTHERS(IN_ORDER, PER_THREAD_OF_ANOTHER)
OTHERS(IN_ORDER, LEGACY_IN_CURRENT)
OTHERS(IN_ORDER, PER_THREAD_IN_CURRENT)
OTHERS(OWNER_AFTER, HANDLE)
OWNS(OWNER_AFTER, HANDLE)
ONE(OWNER_AFTER, HANDLE, OWN_UNUSED, GLOBAL)
ONE(OWNER_AFTER, BLOCKING, OWN_DESTROYED, GLOBAL)
OTHERS(ARRAY_AFTER, LEGACY)
OWNS(ARRAY_AFTER, PER_THREAD)
ONE(ARRAY_AFTER, PER_THREAD, OWN_UNUSED, GLOBAL)

#ifndef WITHOUT
int main(int count, char **words) { return run_cases(count, words); }
#endif
