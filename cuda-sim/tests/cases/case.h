// Small programs with a verdict: racy or correct. Each is a function; `cases list` names them all, and
// `cases run theme/name` runs one in this process and compares what the checker says with what the name says.
//
// A racy program is one whose calls leave two accesses unordered, whatever the device does. The verdict must
// not depend on the schedule.
#ifndef CASE_H
#define CASE_H

#include <cuda.h>
#include <cudasim.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct race_case {
    const char *name;
    int racy;
    void (*run)(void);
};

#define RACY(name) {#name, 1, name}
#define CORRECT(name) {#name, 0, name}

#define OK(call)                                                                     \
    do {                                                                             \
        const int result_ = (int)(call);                                             \
        if (result_ != 0) {                                                          \
            fprintf(stderr, "%s:%d: %s = %d\n", __FILE__, __LINE__, #call, result_); \
            exit(2);                                                                 \
        }                                                                            \
    } while (0)

enum { N = 4096 };

// --- what the cases are made of; defined in main.c ---

extern CUcontext ctx; // device 0's primary context, current in the main thread

CUstream blocking(void);
CUstream nonblocking(void);
CUevent event(void);
CUdeviceptr device(size_t n);
CUdeviceptr managed(size_t n);
char *pinned(size_t n);

// Kernels that really touch the bytes.
void writes(CUstream stream, CUdeviceptr at, size_t n);
void reads(CUstream stream, CUdeviceptr at, size_t n);
void touches(CUstream stream, CUdeviceptr at, size_t width, int64_t count, int64_t stride, unsigned mode);
// The same on an address of the host.
void host_reads(const void *at, size_t n);
void host_writes(void *at, size_t n);
// `to` waits for what `from` was given so far, through an event of its own.
void after(CUstream to, CUstream from);
void spawn(pthread_t *thread, void *(*run)(void *), void *data);
void join(pthread_t thread);
void use(CUcontext context);

#endif
