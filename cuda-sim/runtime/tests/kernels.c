/*
 * kernels.c: registration as nvcc's code does it, and launches. On the simulated driver a host
 * function replaces one of the kernels; the other has none, and its launch fails.
 */
#include "test.h"

#include "../../include/cudasim.h"

static int add_one_host, unknown_host, unregistered_host; /* addresses that stand for kernels */

static void add_one(const cudasim_grid *grid, void **args) {
    int *values = *(int **)args[0];
    const cudasim_api *sim = cudasim_find();
    if (sim->host_address != NULL) values = sim->host_address(values);
    for (unsigned i = 0; i < grid->grid[0] * grid->block[0]; i++)
        values[i]++;
}

static void register_all(void) {
    static const struct {
        unsigned magic, version;
        const void *image;
    } wrapper = {0x466243b1u, 1, "an image that no driver looks into"};
    static const size_t sizes[] = {sizeof(int *)};
    cudasim_kernel kernel = {.name = "add_one", .run = add_one, .nargs = 1, .arg_sizes = sizes};
    cudasim_register(&kernel, 1);
    void **binary = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(binary, (char *)&add_one_host, NULL, "add_one", -1, NULL, NULL, NULL,
                           NULL, NULL);
    __cudaRegisterFunction(binary, (char *)&unknown_host, NULL, "unknown", -1, NULL, NULL, NULL,
                           NULL, NULL);
    __cudaRegisterFatBinaryEnd(binary);
}

static void configurations(void) {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    EXPECT(__cudaPushCallConfiguration((dim3){1, 2, 3}, (dim3){4, 5, 6}, 7, NULL) == 0);
    EXPECT(__cudaPushCallConfiguration((dim3){8, 1, 1}, (dim3){1, 1, 1}, 0, NULL) == 0);
    OK(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    EXPECT(grid.x == 8);
    OK(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    EXPECT(grid.z == 3 && block.y == 5 && shared == 7 && stream == NULL);
}

int main(void) {
    dim3 grid = {2, 1, 1}, block = {4, 1, 1}, too_many = {2048, 1, 1}, none = {0, 1, 1};
    int values[8] = {0}, blocks = 0;
    void *device, *args[] = {&device};
    cudaKernel_t kernel;
    struct cudaFuncAttributes attributes;

    require_driver();
    OK(cudaFree(NULL)); /* loads the driver, if nothing did */
    if (!cudasim_present()) {
        fprintf(stderr, "skipped: needs the simulated driver\n");
        return SKIPPED;
    }
    register_all();
    configurations();
    OK(cudaMalloc(&device, sizeof values));
    OK(cudaMemset(device, 0, sizeof values));
    OK(cudaLaunchKernel(&add_one_host, grid, block, args, 0, NULL));
    OK(__cudaGetKernel(&kernel, &add_one_host));
    OK(__cudaLaunchKernel(kernel, grid, block, args, 0, NULL));
    cudaLaunchConfig_t config = {.gridDim = grid, .blockDim = block};
    OK(cudaLaunchKernelExC(&config, &add_one_host, args));
    OK(cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost));
    EXPECT(values[0] == 3 && values[7] == 3);

    ANSWERS(cudaErrorNotSupported, cudaLaunchKernel(&unknown_host, grid, block, args, 0, NULL));
    ANSWERS(cudaErrorInvalidDeviceFunction,
            cudaLaunchKernel(&unregistered_host, grid, block, args, 0, NULL));
    ANSWERS(cudaErrorInvalidDeviceFunction, __cudaGetKernel(&kernel, &unregistered_host));
    ANSWERS(cudaErrorInvalidConfiguration,
            cudaLaunchKernel(&add_one_host, grid, too_many, args, 0, NULL));
    ANSWERS(cudaErrorInvalidConfiguration,
            cudaLaunchKernel(&add_one_host, none, block, args, 0, NULL));
    OK(cudaFuncGetAttributes(&attributes, &unknown_host));
    EXPECT(attributes.maxThreadsPerBlock == 1024);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &unknown_host, 128, 0));
    EXPECT(blocks >= 1);

    /* Modules go with the context that they were loaded into. */
    OK(cudaDeviceReset());
    OK(cudaMalloc(&device, sizeof values));
    OK(cudaMemset(device, 0, sizeof values));
    OK(cudaLaunchKernel(&add_one_host, grid, block, args, 0, NULL));
    OK(cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost));
    EXPECT(values[0] == 1);
    OK(cudaFree(device));
    return 0;
}
