/* A runtime library with hidden functions, as a static one leaves them in a module: each returns
 * NOT_REPLACED. Included by programs and plug-ins. Not redirected, `carried` fails. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_REPLACED ((cudaError_t)12345)
/* Long enough for a jump, and not known to the compiler. */
#define INSIDE(name, ...)                                                                  \
    __attribute__((noinline, noipa, visibility("hidden"))) cudaError_t name(__VA_ARGS__) { \
        static volatile int called;                                                        \
        called = called + 1;                                                               \
        return NOT_REPLACED;                                                               \
    }

#pragma GCC diagnostic ignored "-Wunused-parameter"
INSIDE(cudaMalloc, void **to, size_t bytes)
INSIDE(cudaFree, void *memory)
INSIDE(cudaMemcpy, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
INSIDE(cudaGetDeviceCount, int *count)
INSIDE(cudaGetLastError, void)
INSIDE(cudaRuntimeGetVersion, int *version)
#ifdef OLD
INSIDE(cudaBindTexture, void)
#elif !defined(UNKNOWN)
#if CUDART_VERSION >= 13000
INSIDE(cudaMemGetMemPool, cudaMemPool_t *pool, struct cudaMemLocation *location,
       enum cudaMemAllocationType type)
#else
INSIDE(cudaSetDoubleForDevice, double *value)
#endif
#endif
/* No function of the runtime. */
INSIDE(cudaOfTheProgram, int value)

__attribute__((noinline, noipa, visibility("hidden"))) const char *
cudaGetErrorString(cudaError_t error) {
    static volatile int called;
    called = called + 1;
    return "not replaced";
}

#ifndef LOADS
/* A text that NVIDIA's library has. */
__attribute__((used)) static const char cudart_text[] = "/cudart.shm.%x";
#endif

/* Whether the functions of this module are the replacement's. */
static inline int carried(int round_trips) {
    int version = 0, count = 0, value = 7;
    void *memory = NULL;
    if (cudaRuntimeGetVersion(&version) != cudaSuccess) return 0;
    if (version / 1000 != CUDART_VERSION / 1000) return 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count != 1) return 0;
    for (int round = 0; round < round_trips; round++) {
        int found = 0;
        if (cudaMalloc(&memory, sizeof(value)) != cudaSuccess) return 0;
        if (cudaMemcpy(memory, &value, sizeof(value), cudaMemcpyHostToDevice) != cudaSuccess)
            return 0;
        if (cudaMemcpy(&found, memory, sizeof(value), cudaMemcpyDeviceToHost) != cudaSuccess)
            return 0;
        if (found != value || cudaFree(memory) != cudaSuccess) return 0;
    }
    return cudaOfTheProgram(1) == NOT_REPLACED &&
           strcmp(cudaGetErrorString(cudaSuccess), "no error") == 0;
}
