// Kernels on one device that access memory of another: they fault until their context may.
#include <cuda.h>
#include <cudasim.h>

#include <stdio.h>
#include <stdlib.h>

enum { N = 64 };

static void expect(int line, CUresult found, CUresult expected) {
    if (found != expected) {
        fprintf(stderr, "peers.c:%d: result %d, expected %d\n", line, found, expected);
        exit(1);
    }
}
#define EXPECT(call, code) expect(__LINE__, (CUresult)(call), code)
#define CHECK(call) EXPECT(call, CUDA_SUCCESS)

static void fill(void *at) {
    for (int i = 0; i < N; ++i) {
        (*(volatile char **)at)[i] = 1;
    }
}

static CUresult write_in(CUstream stream, CUdeviceptr p) {
    const cudasim_access access = {.address = p, .nbytes = N, .mode = CUDASIM_WRITE};
    CHECK(cudasim_launch(stream, "fill", fill, &p, sizeof p, &access, 1));
    return cuStreamSynchronize(stream);
}

int main(int argc, char **argv) {
    (void)argv;
    CUcontext first, second;
    CUdeviceptr p;
    CUstream stream;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&first, 0));
    CHECK(cuDevicePrimaryCtxRetain(&second, 1));
    CHECK(cuCtxSetCurrent(second));
    CHECK(cuMemAlloc(&p, N));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(write_in(stream, p));
    CHECK(cuCtxSetCurrent(first));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemcpyPeerAsync(p, second, p, second, N, stream));
    if (argc > 1) {
        CHECK(cuCtxEnablePeerAccess(second, 0));
        CHECK(write_in(stream, p));
        CHECK(cuCtxDisablePeerAccess(second));
    }
    EXPECT(write_in(stream, p), CUDA_ERROR_ILLEGAL_ADDRESS);
    // The error stays with the context that faulted.
    EXPECT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuCtxSetCurrent(second));
    CHECK(cuCtxSynchronize());
    return 0;
}
