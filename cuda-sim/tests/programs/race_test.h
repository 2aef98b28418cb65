// Test programs of the race checker: racy or correct under every schedule, by the driver's rules.
//
// A program is a function. It leaves its work pending if the end does not matter: the expected
// result is about what was enqueued, not about what ran. Results are expected with host threads
// observed (`cuda-sim run`) and two devices; those of docs_11 with `--docs=11`.
#ifndef RACE_TEST_H
#define RACE_TEST_H

#include "../ok.h"

#include <cuda.h>
#include <cudasim.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct race_program {
    const char *name;
    void (*run)(void);
    const char *expected; // racy, racy2 for two reports, correct, or remark
};

#define CHECK OK

enum { N = 1024 };

// Blocking and non-blocking streams, and events without timing, of the current context.
static inline CUstream make_stream(void) {
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    return stream;
}

static inline CUstream make_nonblocking(void) {
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static inline CUevent make_event(void) {
    CUevent event;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

static inline CUdeviceptr alloc(size_t n) {
    CUdeviceptr at;
    CHECK(cuMemAlloc(&at, n));
    return at;
}

static inline CUdeviceptr alloc_managed(size_t n) {
    CUdeviceptr at;
    CHECK(cuMemAllocManaged(&at, n, CU_MEM_ATTACH_GLOBAL));
    return at;
}

// Portable and mapped, at the same address for the device.
static inline void *alloc_pinned(size_t n) {
    void *at;
    CHECK(cuMemHostAlloc(&at, n, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    return at;
}

// Kernels that touch the bytes that they declare.
enum { MAX_ACCESSES = 4 };
static inline cudasim_access range(CUdeviceptr at, size_t n, unsigned mode) {
    return (cudasim_access){.address = at, .nbytes = n, .mode = mode};
}

struct touch {
    size_t count;
    cudasim_access accesses[MAX_ACCESSES];
};

static inline void touch_block(volatile unsigned char *bytes, uint64_t n, uint32_t mode) {
    for (uint64_t i = 0; i < n; ++i) {
        const unsigned char old = mode & CUDASIM_READ ? bytes[i] : 7;
        if (mode & CUDASIM_WRITE) bytes[i] = (unsigned char)(old + 1);
    }
}

static inline void run_touch(void *data) {
    const struct touch *touch = data;
    for (size_t a = 0; a < touch->count; ++a) {
        const cudasim_access *access = &touch->accesses[a];
        const int64_t rows = access->ndim == 0 ? 1 : access->count[0];
        unsigned char *first = cudasim_host_address((const void *)(uintptr_t)access->address);
        for (int64_t row = 0; row < rows; ++row)
            touch_block(first + row * access->stride[0], access->nbytes, access->mode);
    }
}

static inline void run_nothing(void *data) { (void)data; }

static inline void touches(CUstream stream, const char *label, const cudasim_access *accesses,
                           size_t count) {
    struct touch touch = {.count = count};
    if (count > MAX_ACCESSES) abort();
    memcpy(touch.accesses, accesses, count * sizeof *accesses);
    CHECK(cudasim_launch(stream, label, run_touch, &touch, sizeof touch, accesses, count));
}

static inline void touches_strided(CUstream stream, CUdeviceptr at, size_t n, int64_t count,
                                   int64_t stride, unsigned mode) {
    cudasim_access access = range(at, n, mode);
    access.ndim = 1;
    access.count[0] = count;
    access.stride[0] = stride;
    touches(stream, mode == CUDASIM_WRITE ? "strided writer" : "strided reader", &access, 1);
}

static inline void writes_strided(CUstream stream, CUdeviceptr at, size_t n, int64_t count,
                                  int64_t stride) {
    touches_strided(stream, at, n, count, stride, CUDASIM_WRITE);
}

static inline void reads_strided(CUstream stream, CUdeviceptr at, size_t n, int64_t count,
                                 int64_t stride) {
    touches_strided(stream, at, n, count, stride, CUDASIM_READ);
}

static inline void writes(CUstream stream, CUdeviceptr at, size_t n) {
    const cudasim_access access = range(at, n, CUDASIM_WRITE);
    touches(stream, "writer", &access, 1);
}

static inline void reads(CUstream stream, CUdeviceptr at, size_t n) {
    const cudasim_access access = range(at, n, CUDASIM_READ);
    touches(stream, "reader", &access, 1);
}

// Kernels that declare an access and touch nothing: the memory may be gone when they run.
static inline void claims_write(CUstream stream, CUdeviceptr at, size_t n) {
    const cudasim_access access = range(at, n, CUDASIM_WRITE);
    CHECK(cudasim_launch(stream, "claimed write", run_nothing, NULL, 0, &access, 1));
}

static inline void claims_read(CUstream stream, CUdeviceptr at, size_t n) {
    const cudasim_access access = range(at, n, CUDASIM_READ);
    CHECK(cudasim_launch(stream, "claimed read", run_nothing, NULL, 0, &access, 1));
}

// Accesses of this host thread.
static inline void host_writes(void *at, size_t n) {
    cudasim_host_write(at, n);
    touch_block(at, n, CUDASIM_WRITE);
}

static inline void host_reads(const void *at, size_t n) {
    cudasim_host_read(at, n);
    touch_block((unsigned char *)(uintptr_t)at, n, CUDASIM_READ);
}

// An event of its own for each edge: record in `from`, wait in `to`.
static inline void order(CUstream from, CUstream to) {
    CUevent event = make_event();
    CHECK(cuEventRecord(event, from));
    CHECK(cuStreamWaitEvent(to, event, 0));
    CHECK(cuEventDestroy(event));
}

static inline void use(CUcontext context) { CHECK(cuCtxSetCurrent(context)); }

struct begin {
    CUcontext context;
    void *(*run)(void *);
    void *data;
};

static inline void *begin_thread(void *data) {
    struct begin begin = *(struct begin *)data;
    free(data);
    use(begin.context);
    return begin.run(begin.data);
}

// A host thread with the context of the caller current.
static inline pthread_t start(void *(*run)(void *), void *data) {
    struct begin *how = malloc(sizeof *how);
    pthread_t thread;
    CHECK(how == NULL);
    how->run = run;
    how->data = data;
    CHECK(cuCtxGetCurrent(&how->context));
    CHECK(pthread_create(&thread, NULL, begin_thread, how));
    return thread;
}

static inline void finish(pthread_t thread) { CHECK(pthread_join(thread, NULL)); }

// Retained, not made current.
static inline CUcontext primary(int device) {
    CUcontext context;
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    return context;
}

// Of device 0, made current.
static inline CUcontext second_context(void) {
    CUcontext context;
#if CUDA_VERSION >= 13000
    CHECK(cuCtxCreate(&context, NULL, 0, 0));
#else
    CHECK(cuCtxCreate(&context, 0, 0));
#endif
    return context;
}

// Waits for a flag in real time, which the checker does not observe.
static inline void raise_flag(atomic_int *flag) {
    atomic_store_explicit(flag, 1, memory_order_relaxed);
}

static inline void await_flag(atomic_int *flag) {
    while (!atomic_load_explicit(flag, memory_order_relaxed))
        sched_yield();
}

#endif
