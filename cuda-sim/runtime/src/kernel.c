/*
 * kernel.c: the kernels and variables that compiled programs register, and what can be asked about them.
 *
 * Code from nvcc registers its device code ("fat binaries") and the addresses that stand for kernels and
 * variables on the host, before main. The device code is loaded into a context on the first use in it.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include "runtime.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Something loaded into a context: a module, or a function or variable of one. */
struct loaded {
    CUcontext context;
    void *handle;
    size_t size;
    struct loaded *next;
};

struct symbol {
    const void *host;
    const char *name; /* the program's string; NULL: `host` is itself the handle of a kernel */
    struct fat_binary *binary;
    struct loaded *loaded;
    struct symbol *next_in_bucket, *next_of_binary;
};

struct fat_binary {
    const void *image;
    CUlibrary library;
    struct loaded *modules;
    struct symbol *symbols;
    struct fat_binary *next;
};

/* What nvcc's code passes to __cudaRegisterFatBinary: a wrapper around the image. */
#define WRAPPER_MAGIC 0x466243b1u
struct wrapper {
    unsigned magic, version;
    const void *image;
};

/* A hash table of symbols by host address, and the list of binaries. One lock for both: a lookup is short,
 * and a load happens once. */
static struct {
    pthread_mutex_t lock;
    struct symbol **buckets;
    size_t bucket_count, count;
    struct fat_binary *binaries;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t bucket_of(const void *host, size_t bucket_count) {
    return (size_t)(((uint64_t)(uintptr_t)host * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (bucket_count - 1);
}

static struct symbol *lookup(const void *host) {
    if (registry.bucket_count == 0) return NULL;
    struct symbol *symbol = registry.buckets[bucket_of(host, registry.bucket_count)];
    while (symbol != NULL && symbol->host != host)
        symbol = symbol->next_in_bucket;
    return symbol;
}

static void link_symbol(struct symbol **buckets, size_t bucket_count, struct symbol *symbol) {
    size_t bucket = bucket_of(symbol->host, bucket_count);
    symbol->next_in_bucket = buckets[bucket];
    buckets[bucket] = symbol;
}

static bool grow(void) {
    size_t new_count = registry.bucket_count == 0 ? 256 : 2 * registry.bucket_count;
    struct symbol **buckets = calloc(new_count, sizeof *buckets);
    if (buckets == NULL) return false;
    for (size_t i = 0; i < registry.bucket_count; i++) {
        struct symbol *next;
        for (struct symbol *symbol = registry.buckets[i]; symbol != NULL; symbol = next) {
            next = symbol->next_in_bucket;
            link_symbol(buckets, new_count, symbol);
        }
    }
    free(registry.buckets);
    registry.buckets = buckets;
    registry.bucket_count = new_count;
    return true;
}

static void add_symbol(struct fat_binary *binary, const void *host, const char *name) {
    pthread_mutex_lock(&registry.lock);
    struct symbol *symbol = NULL;
    bool room = registry.count < registry.bucket_count || grow();
    if (room && lookup(host) == NULL) symbol = calloc(1, sizeof *symbol);
    if (symbol != NULL) {
        symbol->host = host;
        symbol->name = name;
        symbol->binary = binary;
        link_symbol(registry.buckets, registry.bucket_count, symbol);
        registry.count++;
        if (binary != NULL) {
            symbol->next_of_binary = binary->symbols;
            binary->symbols = symbol;
        }
    }
    pthread_mutex_unlock(&registry.lock);
}

static void free_loaded(struct loaded *loaded) {
    while (loaded != NULL) {
        struct loaded *next = loaded->next;
        free(loaded);
        loaded = next;
    }
}

static void remove_symbol(struct symbol *symbol) {
    struct symbol **link = &registry.buckets[bucket_of(symbol->host, registry.bucket_count)];
    while (*link != symbol)
        link = &(*link)->next_in_bucket;
    *link = symbol->next_in_bucket;
    registry.count--;
    free_loaded(symbol->loaded);
    free(symbol);
}

static struct loaded *loaded_in(struct loaded *list, CUcontext context) {
    while (list != NULL && list->context != context)
        list = list->next;
    return list;
}

static struct loaded *remember(struct loaded **list, CUcontext context, void *handle, size_t size) {
    struct loaded *loaded = malloc(sizeof *loaded);
    if (loaded == NULL) return NULL;
    *loaded = (struct loaded){context, handle, size, *list};
    *list = loaded;
    return loaded;
}

static void forget(struct loaded **list, CUcontext context) {
    while (*list != NULL) {
        struct loaded *loaded = *list;
        if (loaded->context == context) {
            *list = loaded->next;
            free(loaded);
        } else {
            list = &loaded->next;
        }
    }
}

void forget_context(CUcontext context) {
    pthread_mutex_lock(&registry.lock);
    for (struct fat_binary *binary = registry.binaries; binary != NULL; binary = binary->next) {
        forget(&binary->modules, context);
        for (struct symbol *symbol = binary->symbols; symbol != NULL; symbol = symbol->next_of_binary) {
            forget(&symbol->loaded, context);
        }
    }
    pthread_mutex_unlock(&registry.lock);
}

static cudaError_t load_module(struct fat_binary *binary, CUcontext context, CUmodule *module) {
    struct loaded *loaded = loaded_in(binary->modules, context);
    if (loaded == NULL) {
        cudaError_t error = CALL(cuModuleLoadData, module, binary->image);
        if (error != cudaSuccess) return error;
        loaded = remember(&binary->modules, context, *module, 0);
        if (loaded == NULL) return cudaErrorMemoryAllocation;
    }
    *module = loaded->handle;
    return cudaSuccess;
}

/* A driver that loads the module but does not know the name, as a simulated one may, cannot run the kernel.
 */
static cudaError_t name_error(cudaError_t error) {
    return error == cudaErrorSymbolNotFound ? cudaErrorNotSupported : error;
}

/* Called with the lock held, as is the next. */
static cudaError_t load_function(struct symbol *symbol, CUcontext context, struct loaded **loaded) {
    CUmodule module;
    CUfunction function;
    *loaded = loaded_in(symbol->loaded, context);
    if (*loaded != NULL) return cudaSuccess;
    cudaError_t error = load_module(symbol->binary, context, &module);
    if (error == cudaSuccess) error = CALL(cuModuleGetFunction, &function, module, symbol->name);
    if (error != cudaSuccess) return name_error(error);
    *loaded = remember(&symbol->loaded, context, function, 0);
    return *loaded == NULL ? cudaErrorMemoryAllocation : cudaSuccess;
}

static cudaError_t load_variable(struct symbol *symbol, CUcontext context, struct loaded **loaded) {
    CUmodule module;
    void *address;
    size_t size;
    *loaded = loaded_in(symbol->loaded, context);
    if (*loaded != NULL) return cudaSuccess;
    cudaError_t error = load_module(symbol->binary, context, &module);
    if (error == cudaSuccess) error = CALL(cuModuleGetGlobal_v2, &address, &size, module, symbol->name);
    if (error != cudaSuccess) return name_error(error);
    *loaded = remember(&symbol->loaded, context, address, size);
    return *loaded == NULL ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t find_function(const void *host, CUfunction *function) {
    CUcontext context;
    struct loaded *loaded;
    cudaError_t error = CALL(cuCtxGetCurrent, &context);
    if (error != cudaSuccess) return error;
    pthread_mutex_lock(&registry.lock);
    struct symbol *symbol = lookup(host);
    if (symbol == NULL) {
        error = cudaErrorInvalidDeviceFunction;
    } else if (symbol->name == NULL) {
        error = CALL(cuKernelGetFunction, function, (CUkernel)host);
    } else {
        error = load_function(symbol, context, &loaded);
        if (error == cudaSuccess) *function = loaded->handle;
    }
    pthread_mutex_unlock(&registry.lock);
    return error;
}

cudaError_t find_variable(const void *host, void **address, size_t *size) {
    CUcontext context;
    struct loaded *loaded;
    cudaError_t error = CALL(cuCtxGetCurrent, &context);
    if (error != cudaSuccess) return error;
    pthread_mutex_lock(&registry.lock);
    struct symbol *symbol = lookup(host);
    if (symbol == NULL || symbol->name == NULL) {
        error = cudaErrorInvalidSymbol;
    } else {
        error = load_variable(symbol, context, &loaded);
        if (error == cudaSuccess) {
            *address = loaded->handle;
            *size = loaded->size;
        }
    }
    pthread_mutex_unlock(&registry.lock);
    return error;
}

const void *host_of_function(CUfunction function) {
    const void *host = NULL;
    pthread_mutex_lock(&registry.lock);
    for (struct fat_binary *binary = registry.binaries; binary != NULL; binary = binary->next) {
        for (struct symbol *symbol = binary->symbols; symbol != NULL; symbol = symbol->next_of_binary) {
            for (struct loaded *loaded = symbol->loaded; loaded != NULL; loaded = loaded->next) {
                if (loaded->handle == function) host = symbol->host;
            }
        }
    }
    pthread_mutex_unlock(&registry.lock);
    return host;
}

void remember_kernel(CUkernel kernel) { add_symbol(NULL, kernel, NULL); }

/* Registration. None of this asks for a driver: it runs before main, on machines without a GPU too. */

API void **__cudaRegisterFatBinary(const void *description) {
    const struct wrapper *wrapper = description;
    struct fat_binary *binary = calloc(1, sizeof *binary);
    if (binary == NULL) return NULL;
    binary->image = wrapper->magic == WRAPPER_MAGIC ? wrapper->image : description;
    pthread_mutex_lock(&registry.lock);
    binary->next = registry.binaries;
    registry.binaries = binary;
    pthread_mutex_unlock(&registry.lock);
    return (void **)binary;
}

API void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }

/* Modules stay loaded: this runs at exit, when the driver may be gone, or when a library is closed, whose
 * kernels may still be running. */
API void __cudaUnregisterFatBinary(void **handle) {
    struct fat_binary *binary = (struct fat_binary *)handle;
    if (binary == NULL) return;
    pthread_mutex_lock(&registry.lock);
    struct fat_binary **link = &registry.binaries;
    while (*link != NULL && *link != binary)
        link = &(*link)->next;
    if (*link == binary) {
        *link = binary->next;
        while (binary->symbols != NULL) {
            struct symbol *symbol = binary->symbols;
            binary->symbols = symbol->next_of_binary;
            remove_symbol(symbol);
        }
        free_loaded(binary->modules);
        free(binary);
    }
    pthread_mutex_unlock(&registry.lock);
}

API void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                                int thread_limit, void *thread, void *block, void *block_size,
                                void *grid_size, int *warp_size) {
    (void)device, (void)thread_limit, (void)thread, (void)block, (void)block_size, (void)grid_size,
        (void)warp_size;
    if (handle != NULL) add_symbol((struct fat_binary *)handle, host, name);
}

API void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external,
                           size_t size, int constant, int global) {
    (void)device, (void)external, (void)size, (void)constant, (void)global;
    if (handle != NULL) add_symbol((struct fat_binary *)handle, host, name);
}

/* Known by name like other variables; its address on the host is not filled in. */
API void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int external,
                                  size_t size, int constant, int global) {
    __cudaRegisterVar(handle, (char *)host, device, name, external, size, constant, global);
}

API void __cudaRegisterHostVar(void **handle, const char *name, char *host, size_t size) {
    (void)handle, (void)name, (void)host, (void)size;
}

API void __cudaRegisterUnifiedTable(void) {}

API char __cudaInitModule(void **handle) {
    (void)handle;
    return 1;
}

/* The handle that compiled code launches its own kernel by: here, the host address again. */
API cudaError_t __cudaGetKernel(CUkernel *kernel, const void *host) {
    pthread_mutex_lock(&registry.lock);
    bool known = lookup(host) != NULL;
    pthread_mutex_unlock(&registry.lock);
    if (!known) return record(cudaErrorInvalidDeviceFunction);
    *kernel = (CUkernel)host;
    return cudaSuccess;
}

/* The configuration between <<< and >>>, from the call to the stub that launches. Arguments may launch too.
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

API unsigned __cudaPushCallConfiguration(struct grid_size grid, struct grid_size block, size_t shared_bytes,
                                         CUstream stream) {
    if (configurations.count == MAX_CONFIGURATIONS) return (unsigned)record(cudaErrorInvalidConfiguration);
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

/* Attributes and occupancy. Libraries ask these before they launch, of kernels that a simulated driver cannot
 * run: where the driver has no answer, the answer is that of an undemanding kernel. */

static bool no_answer(cudaError_t error) { return error == cudaErrorNotSupported; }

static void read_function_attribute(CUfunction function, int attribute, int *value) {
    int answer;
    if (CALL(cuFuncGetAttribute, &answer, attribute, function) == cudaSuccess) *value = answer;
}

static void read_function_attributes(struct function_attributes *attributes, CUfunction function) {
    int shared = 0, constant = 0, local = 0;
    read_function_attribute(function, FUNCTION_SHARED_SIZE, &shared);
    read_function_attribute(function, FUNCTION_CONST_SIZE, &constant);
    read_function_attribute(function, FUNCTION_LOCAL_SIZE, &local);
    attributes->shared_bytes = (size_t)shared;
    attributes->const_bytes = (size_t)constant;
    attributes->local_bytes = (size_t)local;
    read_function_attribute(function, FUNCTION_MAX_THREADS_PER_BLOCK, &attributes->max_threads_per_block);
    read_function_attribute(function, FUNCTION_NUM_REGS, &attributes->registers);
    read_function_attribute(function, FUNCTION_PTX_VERSION, &attributes->ptx_version);
    read_function_attribute(function, FUNCTION_BINARY_VERSION, &attributes->binary_version);
    read_function_attribute(function, FUNCTION_CACHE_MODE_CA, &attributes->cache_mode_ca);
    read_function_attribute(function, FUNCTION_MAX_DYNAMIC_SHARED, &attributes->max_dynamic_shared_bytes);
    read_function_attribute(function, FUNCTION_SHARED_CARVEOUT, &attributes->shared_carveout);
    read_function_attribute(function, FUNCTION_CLUSTER_MUST_BE_SET, &attributes->cluster_must_be_set);
    read_function_attribute(function, FUNCTION_CLUSTER_WIDTH, &attributes->cluster_width);
    read_function_attribute(function, FUNCTION_CLUSTER_HEIGHT, &attributes->cluster_height);
    read_function_attribute(function, FUNCTION_CLUSTER_DEPTH, &attributes->cluster_depth);
    read_function_attribute(function, FUNCTION_CLUSTER_SCHEDULING, &attributes->cluster_scheduling_policy);
    read_function_attribute(function, FUNCTION_NON_PORTABLE_CLUSTER,
                            &attributes->non_portable_cluster_allowed);
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
    pthread_mutex_lock(&registry.lock);
    struct symbol *symbol = lookup(host);
    const char *found = symbol != NULL ? symbol->name : NULL;
    pthread_mutex_unlock(&registry.lock);
    if (name == NULL) return record(cudaErrorInvalidValue);
    if (found == NULL) return record(cudaErrorInvalidDeviceFunction);
    *name = found;
    return cudaSuccess;
}

API cudaError_t cudaFuncGetParamInfo(const void *host, size_t index, size_t *offset, size_t *size) {
    CUfunction function;
    NEED(context);
    cudaError_t error = find_function(host, &function);
    return record(error != cudaSuccess ? error : CALL(cuFuncGetParamInfo, function, index, offset, size));
}

#if CUDART_MAJOR >= 13
API cudaError_t cudaFuncGetParamCount(const void *host, size_t *count) {
    CUfunction function;
    NEED(context);
    cudaError_t error = find_function(host, &function);
    return record(error != cudaSuccess ? error : CALL(cuFuncGetParamCount, function, count));
}
#endif

API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *host,
                                                                       int block_size, size_t shared_bytes,
                                                                       unsigned flags) {
    CUfunction function;
    NEED(context);
    if (blocks == NULL || block_size <= 0) return record(cudaErrorInvalidValue);
    cudaError_t error = find_function(host, &function);
    if (error == cudaSuccess) {
        error = CALL(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, blocks, function, block_size,
                     shared_bytes, flags);
    }
    if (!no_answer(error)) return record(error);
    *blocks = block_size <= 1024 ? 1 : 0;
    return cudaSuccess;
}

API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host, int block_size,
                                                              size_t shared_bytes) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, block_size, shared_bytes, 0);
}

API cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *size, const void *host, int blocks,
                                                          int block_size) {
    CUfunction function;
    NEED(context);
    cudaError_t error = find_function(host, &function);
    if (error == cudaSuccess) {
        error = CALL(cuOccupancyAvailableDynamicSMemPerBlock, size, function, blocks, block_size);
    }
    return record(error);
}

static struct driver_launch_config describe_launch(const struct launch_config *config) {
    return (struct driver_launch_config){config->grid,   config->block,      (unsigned)config->shared_bytes,
                                         config->stream, config->attributes, config->attribute_count};
}

API cudaError_t cudaOccupancyMaxPotentialClusterSize(int *size, const void *host,
                                                     const struct launch_config *config) {
    CUfunction function;
    NEED(context);
    if (config == NULL) return record(cudaErrorInvalidValue);
    struct driver_launch_config launch = describe_launch(config);
    cudaError_t error = find_function(host, &function);
    return record(error != cudaSuccess ? error
                                       : CALL(cuOccupancyMaxPotentialClusterSize, size, function, &launch));
}

API cudaError_t cudaOccupancyMaxActiveClusters(int *count, const void *host,
                                               const struct launch_config *config) {
    CUfunction function;
    NEED(context);
    if (config == NULL) return record(cudaErrorInvalidValue);
    struct driver_launch_config launch = describe_launch(config);
    cudaError_t error = find_function(host, &function);
    return record(error != cudaSuccess ? error
                                       : CALL(cuOccupancyMaxActiveClusters, count, function, &launch));
}

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

static cudaError_t kernel_of_symbol(struct symbol *symbol, CUkernel *kernel) {
    struct fat_binary *binary = symbol->binary;
    cudaError_t error = cudaSuccess;
    if (binary->library == NULL) {
        error = CALL(cuLibraryLoadData, &binary->library, binary->image, NULL, NULL, 0, NULL, NULL, 0);
    }
    if (error == cudaSuccess) error = CALL(cuLibraryGetKernel, kernel, binary->library, symbol->name);
    return name_error(error);
}

API cudaError_t cudaGetKernel(CUkernel *kernel, const void *host) {
    cudaError_t error;
    NEED(context);
    if (kernel == NULL) return record(cudaErrorInvalidValue);
    pthread_mutex_lock(&registry.lock);
    struct symbol *symbol = lookup(host);
    if (symbol == NULL) {
        error = cudaErrorInvalidDeviceFunction;
    } else if (symbol->name == NULL) {
        *kernel = (CUkernel)host;
        error = cudaSuccess;
    } else {
        error = kernel_of_symbol(symbol, kernel);
    }
    pthread_mutex_unlock(&registry.lock);
    if (error == cudaSuccess) remember_kernel(*kernel);
    return record(error);
}

CONTEXT_CALL(cudaLibraryLoadData,
             (CUlibrary * library, const void *image, int *jit_options, void **jit_values, unsigned jit_count,
              int *library_options, void **library_values, unsigned library_count),
             (cuLibraryLoadData, library, image, jit_options, jit_values, jit_count, library_options,
              library_values, library_count))
CONTEXT_CALL(cudaLibraryLoadFromFile,
             (CUlibrary * library, const char *path, int *jit_options, void **jit_values, unsigned jit_count,
              int *library_options, void **library_values, unsigned library_count),
             (cuLibraryLoadFromFile, library, path, jit_options, jit_values, jit_count, library_options,
              library_values, library_count))
CONTEXT_CALL(cudaLibraryUnload, (CUlibrary library), (cuLibraryUnload, library))
CONTEXT_CALL(cudaLibraryGetGlobal, (void **address, size_t *size, CUlibrary library, const char *name),
             (cuLibraryGetGlobal, address, size, library, name))
CONTEXT_CALL(cudaLibraryGetManaged, (void **address, size_t *size, CUlibrary library, const char *name),
             (cuLibraryGetManaged, address, size, library, name))
CONTEXT_CALL(cudaLibraryGetUnifiedFunction, (void **function, CUlibrary library, const char *name),
             (cuLibraryGetUnifiedFunction, function, library, name))
CONTEXT_CALL(cudaLibraryGetKernelCount, (unsigned *count, CUlibrary library),
             (cuLibraryGetKernelCount, count, library))

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

API cudaError_t cudaKernelSetAttributeForDevice(CUkernel kernel, int attribute, int value, int ordinal) {
    CUdevice device;
    cudaError_t error = device_handle(ordinal, &device);
    return record(error != cudaSuccess ? error
                                       : CALL(cuKernelSetAttribute, attribute, value, kernel, device));
}
