// Test programs of the race checker: racy or correct under every schedule, by the driver's rules.
//
// A program is a function. It leaves its work pending if the end does not matter: the expected
// result is about what was enqueued, not about what ran. Results are expected with host threads
// observed (`cuda-sim run`) and two devices; those of docs_11 with `--docs=11`.
#ifndef RACE_TEST_H
#define RACE_TEST_H

#include <cuda.h>
#include <cudasim.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct race_program {
    const char *name;
    void (*run)(void);
    const char *expected; // racy, racy2 for two reports, correct, or remark
};

#define CHECK(call)                                                                             \
    do {                                                                                        \
        const int check_result = (int)(call);                                                   \
        if (check_result != 0) {                                                                \
            fprintf(stderr, "%s:%d: %s: result %d\n", __FILE__, __LINE__, #call, check_result); \
            exit(2);                                                                            \
        }                                                                                       \
    } while (0)

enum { N = 1024 };

// Blocking and non-blocking streams, and events without timing, of the current context.
CUstream make_stream(void);
CUstream make_nonblocking(void);
CUevent make_event(void);

CUdeviceptr alloc(size_t n);
CUdeviceptr alloc_managed(size_t n);
void *alloc_pinned(size_t n); // portable and mapped, at the same address for the device

// Kernels that touch the bytes that they declare.
void writes(CUstream stream, CUdeviceptr at, size_t n);
void reads(CUstream stream, CUdeviceptr at, size_t n);
void writes_strided(CUstream stream, CUdeviceptr at, size_t n, int64_t count, int64_t stride);
void reads_strided(CUstream stream, CUdeviceptr at, size_t n, int64_t count, int64_t stride);
enum { MAX_ACCESSES = 4 };
void touches(CUstream stream, const char *label, const cudasim_access *accesses, size_t count);
static inline cudasim_access range(CUdeviceptr at, size_t n, unsigned mode) {
    return (cudasim_access){.address = at, .nbytes = n, .mode = mode};
}
// Kernels that declare an access and touch nothing: the memory may be gone when they run.
void claims_write(CUstream stream, CUdeviceptr at, size_t n);
void claims_read(CUstream stream, CUdeviceptr at, size_t n);

// Accesses of this host thread.
void host_writes(void *at, size_t n);
void host_reads(const void *at, size_t n);

// An event of its own for each edge: record in `from`, wait in `to`.
void order(CUstream from, CUstream to);

// Host threads with the context of the caller current.
pthread_t start(void *(*run)(void *), void *data);
void finish(pthread_t thread);

CUcontext primary(int device);  // retained, not made current
CUcontext second_context(void); // of device 0, made current
void use(CUcontext context);

// Waits for a flag in real time, which the checker does not observe.
void raise_flag(atomic_int *flag);
void await_flag(atomic_int *flag);

#endif
