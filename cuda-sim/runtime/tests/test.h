/*
 * test.h: the functions that the tests call, declared without NVIDIA's headers, and assertions.
 */
#ifndef TEST_H
#define TEST_H

#define _GNU_SOURCE
#include "types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int cudaError_t;

enum {
#define ERROR(name, number, description) name = number,
#include "errors.h"
#undef ERROR
};

const char *cudaGetErrorName(cudaError_t), *cudaGetErrorString(cudaError_t);
cudaError_t cudaGetLastError(void), cudaPeekAtLastError(void);
cudaError_t cudaRuntimeGetVersion(int *), cudaDriverGetVersion(int *);
cudaError_t cudaGetDeviceCount(int *), cudaGetDevice(int *), cudaSetDevice(int),
    cudaDeviceReset(void);
cudaError_t cudaDeviceSynchronize(void), cudaDeviceGetAttribute(int *, int, int);
cudaError_t cudaDeviceGetStreamPriorityRange(int *, int *), cudaDeviceGetPCIBusId(char *, int, int);
cudaError_t cudaDeviceGetByPCIBusId(int *, const char *),
    cudaDeviceGetDefaultMemPool(CUmemoryPool *, int);
cudaError_t cudaGetDeviceFlags(unsigned *),
    cudaGetDriverEntryPoint(const char *, void **, unsigned long long, int *);
#if CUDART_MAJOR == 12
#define cudaGetDeviceProperties cudaGetDeviceProperties_v2
#define GetCaptureInfo cudaStreamGetCaptureInfo_v3
#else
#define GetCaptureInfo cudaStreamGetCaptureInfo
#endif
cudaError_t cudaGetDeviceProperties(struct device_properties *, int);

cudaError_t cudaMalloc(void **, size_t), cudaFree(void *), cudaMallocHost(void **, size_t),
    cudaFreeHost(void *);
cudaError_t cudaMallocManaged(void **, size_t, unsigned),
    cudaMallocPitch(void **, size_t *, size_t, size_t);
cudaError_t cudaHostRegister(void *, size_t, unsigned), cudaHostUnregister(void *),
    cudaMemGetInfo(size_t *, size_t *);
cudaError_t cudaPointerGetAttributes(struct pointer_attributes *, const void *);
cudaError_t cudaMemcpy(void *, const void *, size_t, int), cudaMemset(void *, int, size_t);
cudaError_t cudaMemcpy_ptds(void *, const void *, size_t, int);
cudaError_t cudaMemcpyAsync(void *, const void *, size_t, int, CUstream);
cudaError_t cudaMemcpyAsync_ptsz(void *, const void *, size_t, int, CUstream);
cudaError_t cudaMemsetAsync(void *, int, size_t, CUstream);
cudaError_t cudaMemcpy2D(void *, size_t, const void *, size_t, size_t, size_t, int);
cudaError_t cudaMemset2D(void *, size_t, int, size_t, size_t);
cudaError_t cudaMalloc3D(struct pitched_pointer *, struct extent),
    cudaMemcpy3D(const struct memcpy3d *);
cudaError_t cudaMallocAsync(void **, size_t, CUstream), cudaFreeAsync(void *, CUstream);
cudaError_t cudaMallocArray(void **, const void *, size_t, size_t, unsigned);

cudaError_t cudaStreamCreate(CUstream *), cudaStreamCreateWithFlags(CUstream *, unsigned),
    cudaStreamDestroy(CUstream);
cudaError_t cudaStreamQuery(CUstream), cudaStreamSynchronize(CUstream),
    cudaStreamSynchronize_ptsz(CUstream);
cudaError_t cudaStreamWaitEvent(CUstream, CUevent, unsigned),
    cudaStreamGetFlags(CUstream, unsigned *);
cudaError_t cudaStreamGetDevice(CUstream, int *), cudaStreamGetId(CUstream, unsigned long long *);
cudaError_t cudaStreamAddCallback(CUstream, void (*)(CUstream, cudaError_t, void *), void *,
                                  unsigned);
cudaError_t cudaLaunchHostFunc(CUstream, host_function, void *);
cudaError_t cudaEventCreate(CUevent *), cudaEventCreateWithFlags(CUevent *, unsigned),
    cudaEventDestroy(CUevent);
cudaError_t cudaEventRecord(CUevent, CUstream), cudaEventQuery(CUevent),
    cudaEventSynchronize(CUevent);
cudaError_t cudaEventElapsedTime(float *, CUevent, CUevent);

cudaError_t cudaStreamBeginCapture(CUstream, int), cudaStreamEndCapture(CUstream, CUgraph *);
cudaError_t cudaStreamIsCapturing(CUstream, int *), cudaThreadExchangeStreamCaptureMode(int *);
cudaError_t GetCaptureInfo(CUstream, int *, unsigned long long *, CUgraph *, const CUgraphNode **,
                           const struct graph_edge **, size_t *);
cudaError_t cudaGraphCreate(CUgraph *, unsigned),
    cudaGraphGetNodes(CUgraph, CUgraphNode *, size_t *);
cudaError_t cudaGraphInstantiate(CUgraphExec *, CUgraph, unsigned long long),
    cudaGraphLaunch(CUgraphExec, CUstream);
cudaError_t cudaGraphDestroy(CUgraph), cudaGraphExecDestroy(CUgraphExec),
    cudaGraphNodeGetType(CUgraphNode, int *);
cudaError_t cudaGraphAddMemsetNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                                   const struct memset_node *);
cudaError_t cudaGraphAddMemcpyNode1D(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, void *,
                                     const void *, size_t, int);
cudaError_t cudaUserObjectCreate(CUuserObject *, void *, host_function, unsigned, unsigned);
cudaError_t cudaGraphRetainUserObject(CUgraph, CUuserObject, unsigned, unsigned);

void **__cudaRegisterFatBinary(const void *);
void __cudaRegisterFatBinaryEnd(void **), __cudaUnregisterFatBinary(void **);
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *,
                            void *, void *, int *);
unsigned __cudaPushCallConfiguration(struct grid_size, struct grid_size, size_t, CUstream);
cudaError_t __cudaPopCallConfiguration(struct grid_size *, struct grid_size *, size_t *,
                                       CUstream *);
cudaError_t __cudaGetKernel(CUkernel *, const void *);
cudaError_t __cudaLaunchKernel(CUkernel, struct grid_size, struct grid_size, void **, size_t,
                               CUstream);
cudaError_t cudaLaunchKernel(const void *, struct grid_size, struct grid_size, void **, size_t,
                             CUstream);
cudaError_t cudaLaunchKernelExC(const struct launch_config *, const void *, void **);
cudaError_t cudaFuncGetAttributes(struct function_attributes *, const void *);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *, const void *, int, size_t);

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
