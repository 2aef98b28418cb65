// Kernels by name, with arguments that determine their accesses, and kernels of several accesses.
#ifndef KERNELS_H
#define KERNELS_H

#include "race_test.h"

// add(to, from, n): to[i] += from[i], bytes.
static void run_add(const cudasim_grid *grid, void **args) {
    volatile unsigned char *to = cudasim_host_address(*(void **)args[0]);
    const volatile unsigned char *from = cudasim_host_address(*(void **)args[1]);
    (void)grid;
    for (int i = 0; i < *(int *)args[2]; ++i)
        to[i] = (unsigned char)(to[i] + from[i]);
}

static size_t accesses_of_add(const cudasim_grid *grid, void **args, cudasim_access *out,
                              size_t capacity) {
    const size_t n = (size_t)*(int *)args[2];
    (void)grid;
    if (capacity >= 2) {
        out[0] = range(*(CUdeviceptr *)args[0], n, CUDASIM_READ | CUDASIM_WRITE);
        out[1] = range(*(CUdeviceptr *)args[1], n, CUDASIM_READ);
    }
    return 2;
}

// fill_blocks(to): each block of the grid writes as many bytes as it has threads.
static void run_fill_blocks(const cudasim_grid *grid, void **args) {
    volatile unsigned char *to = cudasim_host_address(*(void **)args[0]);
    for (unsigned i = 0; i < grid->grid[0] * grid->block[0]; ++i)
        to[i] = 1;
}

static size_t accesses_of_fill_blocks(const cudasim_grid *grid, void **args, cudasim_access *out,
                                      size_t capacity) {
    if (capacity >= 1) {
        out[0] =
            range(*(CUdeviceptr *)args[0], (size_t)grid->grid[0] * grid->block[0], CUDASIM_WRITE);
    }
    return 1;
}

static CUfunction kernel(const char *name) {
    static const size_t add_sizes[] = {sizeof(CUdeviceptr), sizeof(CUdeviceptr), sizeof(int)};
    static const size_t fill_sizes[] = {sizeof(CUdeviceptr)};
    static const cudasim_kernel kernels[] = {
        {"add", run_add, accesses_of_add, 3, add_sizes},
        {"fill_blocks", run_fill_blocks, accesses_of_fill_blocks, 1, fill_sizes},
    };
    static CUmodule module;
    CUfunction function;
    if (module == NULL) {
        cudasim_register(kernels, 2);
        CHECK(cuModuleLoadData(&module, "kernels of the host"));
    }
    CHECK(cuModuleGetFunction(&function, module, name));
    return function;
}

// The arguments change with the next launch.
static void add(CUstream stream, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    static CUdeviceptr now_to, now_from;
    static int n;
    void *arguments[] = {&now_to, &now_from, &n};
    now_to = to;
    now_from = from;
    n = (int)bytes;
    CHECK(cuLaunchKernel(kernel("add"), 1, 1, 1, N, 1, 1, 0, stream, arguments, NULL));
}

static void fill_blocks(CUstream stream, CUdeviceptr to, unsigned blocks, unsigned threads) {
    void *arguments[] = {&to};
    CHECK(cuLaunchKernel(kernel("fill_blocks"), blocks, 1, 1, threads, 1, 1, 0, stream, arguments,
                         NULL));
}

// Launched by a structure.
static void fill_blocks_as(CUstream stream, CUdeviceptr to, unsigned blocks, unsigned threads) {
    void *arguments[] = {&to};
    const CUlaunchConfig how = {.gridDimX = blocks,
                                .gridDimY = 1,
                                .gridDimZ = 1,
                                .blockDimX = threads,
                                .blockDimY = 1,
                                .blockDimZ = 1,
                                .hStream = stream};
    CHECK(cuLaunchKernelEx(&how, kernel("fill_blocks"), arguments, NULL));
}

static void in_place(CUstream stream, CUdeviceptr at) {
    const cudasim_access both[] = {range(at, N, CUDASIM_READ), range(at, N, CUDASIM_WRITE)};
    touches(stream, "in place", both, 2);
}

// 8 bytes of every N.
static void four(CUstream stream, CUdeviceptr at, unsigned mode) {
    cudasim_access accesses[4];
    for (unsigned i = 0; i < 4; ++i)
        accesses[i] = range(at + i * N, 8, mode);
    touches(stream, "four", accesses, 4);
}

#endif
