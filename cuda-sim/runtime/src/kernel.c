/*
 * kernel.c: launch configurations, attributes of kernels, variables and libraries.
 */
#include "runtime.h"

#include <string.h>

/* The configuration between <<< and >>>, from the call to the stub that launches. Arguments may
 * launch too.
 */

#define MAX_CONFIGURATIONS 32

static _Thread_local struct {
    struct {
        struct grid_size grid, block;
        size_t shared_bytes;
        CUstream stream;
    } pushed[MAX_CONFIGURATIONS];
    size_t count;
} configurations;

API unsigned __cudaPushCallConfiguration(struct grid_size grid, struct grid_size block,
                                         size_t shared_bytes, CUstream stream) {
    if (configurations.count == MAX_CONFIGURATIONS)
        return (unsigned)record(cudaErrorInvalidConfiguration);
    size_t top = configurations.count++;
    configurations.pushed[top].grid = grid;
    configurations.pushed[top].block = block;
    configurations.pushed[top].shared_bytes = shared_bytes;
    configurations.pushed[top].stream = stream;
    return 0;
}

API cudaError_t __cudaPopCallConfiguration(struct grid_size *grid, struct grid_size *block,
                                           size_t *shared_bytes, CUstream *stream) {
    if (configurations.count == 0) return record(cudaErrorMissingConfiguration);
    size_t top = --configurations.count;
    *grid = configurations.pushed[top].grid;
    *block = configurations.pushed[top].block;
    *shared_bytes = configurations.pushed[top].shared_bytes;
    *stream = configurations.pushed[top].stream;
    return cudaSuccess;
}

/* Attributes and occupancy. Libraries ask these before they launch, of kernels that a simulated
 * driver cannot run: where the driver has no answer, the answer is that of an undemanding kernel.
 */

static bool no_answer(cudaError_t error) { return error == cudaErrorNotSupported; }

static void read_function_attributes(struct function_attributes *attributes, CUfunction function) {
    int answer;
#define ATTRIBUTE(field, number, nvidia_field, name)                        \
    if (CALL(cuFuncGetAttribute, &answer, number, function) == cudaSuccess) \
        attributes->field = answer;
#include "function_attributes.h"
#undef ATTRIBUTE
}

/* Ten times the major number of the current device's compute capability, plus the minor. */
static int compute_capability(void) {
    CUdevice device;
    int major = 0, minor = 0;
    if (CALL(cuCtxGetDevice, &device) != cudaSuccess) return 0;
    CALL(cuDeviceGetAttribute, &major, 75, device);
    CALL(cuDeviceGetAttribute, &minor, 76, device);
    return 10 * major + minor;
}

API cudaError_t cudaFuncGetAttributes(struct function_attributes *attributes, const void *host) {
    CUfunction function;
    NEED(context);
    if (attributes == NULL) return record(cudaErrorInvalidValue);
    memset(attributes, 0, sizeof *attributes);
    attributes->max_threads_per_block = 1024;
    attributes->registers = 32;
    attributes->ptx_version = attributes->binary_version = compute_capability();
    attributes->max_dynamic_shared_bytes = 48 << 10;
    attributes->shared_carveout = -1;
    cudaError_t error = find_function(host, &function);
    if (error == cudaSuccess) read_function_attributes(attributes, function);
    return no_answer(error) ? cudaSuccess : record(error);
}

API cudaError_t cudaFuncSetAttribute(const void *host, int attribute, int value) {
    CUfunction function;
    NEED(context);
    cudaError_t error = find_function(host, &function);
    if (error == cudaSuccess) error = CALL(cuFuncSetAttribute, function, attribute, value);
    return no_answer(error) ? cudaSuccess : record(error);
}

API cudaError_t cudaFuncSetCacheConfig(const void *host, int config) {
    CUfunction function;
    NEED(context);
    cudaError_t error = find_function(host, &function);
    if (error == cudaSuccess) error = CALL(cuFuncSetCacheConfig, function, config);
    return no_answer(error) ? cudaSuccess : record(error);
}

API cudaError_t cudaFuncSetSharedMemConfig(const void *host, int config) {
    (void)host, (void)config;
    return cudaSuccess; /* see cudaDeviceSetSharedMemConfig */
}

API cudaError_t cudaFuncGetName(const char **name, const void *host) {
    const char *found = name_of_symbol(host);
    if (name == NULL) return record(cudaErrorInvalidValue);
    if (found == NULL) return record(cudaErrorInvalidDeviceFunction);
    *name = found;
    return cudaSuccess;
}

/* A function that calls one of the driver's, of the kernel of `host`. */
#define KERNEL_CALL(name, parameters, call)                      \
    API cudaError_t name parameters {                            \
        CUfunction function;                                     \
        NEED(context);                                           \
        cudaError_t error = find_function(host, &function);      \
        return record(error != cudaSuccess ? error : CALL call); \
    }

KERNEL_CALL(cudaFuncGetParamInfo, (const void *host, size_t index, size_t *offset, size_t *size),
            (cuFuncGetParamInfo, function, index, offset, size))
#if CUDART_MAJOR >= 13
KERNEL_CALL(cudaFuncGetParamCount, (const void *host, size_t *count),
            (cuFuncGetParamCount, function, count))
#endif

API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *host, int block_size, size_t shared_bytes, unsigned flags) {
    CUfunction function;
    NEED(context);
    if (blocks == NULL || block_size <= 0) return record(cudaErrorInvalidValue);
    cudaError_t error = find_function(host, &function);
    if (error == cudaSuccess) {
        error = CALL(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, blocks, function,
                     block_size, shared_bytes, flags);
    }
    if (!no_answer(error)) return record(error);
    *blocks = block_size <= 1024 ? 1 : 0;
    return cudaSuccess;
}

API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host,
                                                              int block_size, size_t shared_bytes) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, block_size,
                                                                  shared_bytes, 0);
}

KERNEL_CALL(cudaOccupancyAvailableDynamicSMemPerBlock,
            (size_t *size, const void *host, int blocks, int block_size),
            (cuOccupancyAvailableDynamicSMemPerBlock, size, function, blocks, block_size))

static struct driver_launch_config describe_launch(const struct launch_config *config) {
    return (struct driver_launch_config){
        config->grid,   config->block,      (unsigned)config->shared_bytes,
        config->stream, config->attributes, config->attribute_count};
}

#define CLUSTER_CALL(name, driver_name)                                                            \
    API cudaError_t name(int *found, const void *host, const struct launch_config *config) {       \
        CUfunction function;                                                                       \
        NEED(context);                                                                             \
        if (config == NULL) return record(cudaErrorInvalidValue);                                  \
        struct driver_launch_config launch = describe_launch(config);                              \
        cudaError_t error = find_function(host, &function);                                        \
        return record(error != cudaSuccess ? error : CALL(driver_name, found, function, &launch)); \
    }
CLUSTER_CALL(cudaOccupancyMaxPotentialClusterSize, cuOccupancyMaxPotentialClusterSize)
CLUSTER_CALL(cudaOccupancyMaxActiveClusters, cuOccupancyMaxActiveClusters)

/* Variables. */

API cudaError_t cudaGetSymbolAddress(void **address, const void *host) {
    size_t size;
    NEED(context);
    if (address == NULL) return record(cudaErrorInvalidValue);
    return record(find_variable(host, address, &size));
}

API cudaError_t cudaGetSymbolSize(size_t *size, const void *host) {
    void *address;
    NEED(context);
    if (size == NULL) return record(cudaErrorInvalidValue);
    return record(find_variable(host, &address, size));
}

/* The driver's handles of kernels, and libraries that programs load themselves. */

API cudaError_t cudaGetFuncBySymbol(CUfunction *function, const void *host) {
    NEED(context);
    if (function == NULL) return record(cudaErrorInvalidValue);
    return record(find_function(host, function));
}

API cudaError_t cudaGetKernel(CUkernel *kernel, const void *host) {
    NEED(context);
    if (kernel == NULL) return record(cudaErrorInvalidValue);
    cudaError_t error = find_kernel(host, kernel);
    if (error == cudaSuccess) remember_kernel(*kernel);
    return record(error);
}

API cudaError_t cudaLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    NEED(context);
    cudaError_t error = CALL(cuLibraryGetKernel, kernel, library, name);
    if (error == cudaSuccess) remember_kernel(*kernel);
    return record(error);
}

API cudaError_t cudaLibraryEnumerateKernels(CUkernel *kernels, unsigned count, CUlibrary library) {
    unsigned available = 0;
    NEED(context);
    cudaError_t error = CALL(cuLibraryGetKernelCount, &available, library);
    if (error == cudaSuccess) error = CALL(cuLibraryEnumerateKernels, kernels, count, library);
    for (unsigned i = 0; error == cudaSuccess && i < count && i < available; i++)
        remember_kernel(kernels[i]);
    return record(error);
}

API cudaError_t cudaKernelSetAttributeForDevice(CUkernel kernel, int attribute, int value,
                                                int ordinal) {
    CUdevice device;
    cudaError_t error = device_handle(ordinal, &device);
    return record(error != cudaSuccess
                      ? error
                      : CALL(cuKernelSetAttribute, attribute, value, kernel, device));
}
