/*
 * test.h: assertions, and the functions that NVIDIA's headers do not declare.
 */
#ifndef TEST_H
#define TEST_H

#define _GNU_SOURCE
#include <cuda_runtime_api.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if CUDART_MAJOR == 12
#define GetCaptureInfo cudaStreamGetCaptureInfo_v3
#else
#define GetCaptureInfo cudaStreamGetCaptureInfo
#endif

/* Symbols that compilers refer to. */
cudaError_t cudaMemcpy_ptds(void *, const void *, size_t, enum cudaMemcpyKind);
cudaError_t cudaMemcpyAsync_ptsz(void *, const void *, size_t, enum cudaMemcpyKind, cudaStream_t);
cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t);
void **__cudaRegisterFatBinary(const void *);
void __cudaRegisterFatBinaryEnd(void **), __cudaUnregisterFatBinary(void **);
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *,
                            void *, void *, int *);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, cudaStream_t);
cudaError_t __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, cudaStream_t *);
cudaError_t __cudaGetKernel(cudaKernel_t *, const void *);
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void **, size_t, cudaStream_t);

#define EXPECT(condition)                                                                 \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

/* The call returns this error, which then is the last one; reading it clears it. */
#define ANSWERS(expected, call)                                                          \
    do {                                                                                 \
        cudaError_t answer = (call);                                                     \
        if (answer != (expected)) {                                                      \
            fprintf(stderr, "%s:%d: %s is %s and not %s\n", __FILE__, __LINE__, #call,   \
                    cudaGetErrorName(answer), cudaGetErrorName(expected));               \
            exit(1);                                                                     \
        }                                                                                \
        EXPECT(cudaPeekAtLastError() == (expected) && cudaGetLastError() == (expected)); \
        EXPECT(cudaGetLastError() == cudaSuccess);                                       \
    } while (0)
#define OK(call) ANSWERS(cudaSuccess, call)

#define SKIPPED 77

/* At the head of every test that needs a driver. */
static inline void require_driver(void) {
    int count;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice) {
        fprintf(stderr, "skipped: %s\n", cudaGetErrorString(error));
        exit(SKIPPED);
    }
    OK(error);
}

#endif
