/*
 * registry.c: the kernels and variables that compiled programs register.
 *
 * Code from nvcc registers its device code ("fat binaries") and the host addresses of its kernels
 * and variables, before main. The device code is loaded into a context at the first use in it.
 */
#include "runtime.h"

#include <pthread.h>
#include <stdlib.h>

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

/* A hash table of symbols by host address, and the list of binaries. One lock for both: a lookup is
 * short, and a load happens once. */
static struct {
    pthread_mutex_t lock;
    struct symbol **buckets;
    size_t bucket_count, count;
    struct fat_binary *binaries;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t bucket_of(const void *host, size_t bucket_count) {
    return (size_t)(((uint64_t)(uintptr_t)host * UINT64_C(0x9E3779B97F4A7C15)) >> 32) &
           (bucket_count - 1);
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
    bool has_space = registry.count < registry.bucket_count || grow();
    if (has_space && lookup(host) == NULL) symbol = calloc(1, sizeof *symbol);
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
        for (struct symbol *symbol = binary->symbols; symbol != NULL;
             symbol = symbol->next_of_binary) {
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

/* A driver that loads the module but does not know the name, as a simulated one may, cannot run the
 * kernel.
 */
static cudaError_t name_error(cudaError_t error) {
    return error == cudaErrorSymbolNotFound ? cudaErrorNotSupported : error;
}

/* Called with the lock held. */
static cudaError_t load(struct symbol *symbol, CUcontext context, bool is_function,
                        struct loaded **loaded) {
    CUmodule module;
    CUfunction function = NULL;
    void *address;
    size_t size = 0;
    *loaded = loaded_in(symbol->loaded, context);
    if (*loaded != NULL) return cudaSuccess;
    cudaError_t error = load_module(symbol->binary, context, &module);
    if (error == cudaSuccess && is_function) {
        error = CALL(cuModuleGetFunction, &function, module, symbol->name);
        address = function;
    } else if (error == cudaSuccess) {
        error = CALL(cuModuleGetGlobal_v2, &address, &size, module, symbol->name);
    }
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
        error = load(symbol, context, true, &loaded);
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
        error = load(symbol, context, false, &loaded);
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
        for (struct symbol *symbol = binary->symbols; symbol != NULL;
             symbol = symbol->next_of_binary) {
            for (struct loaded *loaded = symbol->loaded; loaded != NULL; loaded = loaded->next) {
                if (loaded->handle == function) host = symbol->host;
            }
        }
    }
    pthread_mutex_unlock(&registry.lock);
    return host;
}

static cudaError_t kernel_of_symbol(struct symbol *symbol, CUkernel *kernel) {
    struct fat_binary *binary = symbol->binary;
    cudaError_t error = cudaSuccess;
    if (binary->library == NULL) {
        error =
            CALL(cuLibraryLoadData, &binary->library, binary->image, NULL, NULL, 0, NULL, NULL, 0);
    }
    if (error == cudaSuccess)
        error = CALL(cuLibraryGetKernel, kernel, binary->library, symbol->name);
    return name_error(error);
}

const char *name_of_symbol(const void *host) {
    pthread_mutex_lock(&registry.lock);
    struct symbol *symbol = lookup(host);
    const char *name = symbol != NULL ? symbol->name : NULL;
    pthread_mutex_unlock(&registry.lock);
    return name;
}

cudaError_t find_kernel(const void *host, CUkernel *kernel) {
    cudaError_t error;
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
    return error;
}

void remember_kernel(CUkernel kernel) { add_symbol(NULL, kernel, NULL); }

/* Registration. It needs no driver: it runs before main, also on machines without a GPU. */

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

/* Modules stay loaded: this runs at exit, when the driver may be gone, or when a library is closed,
 * whose kernels may still be running. */
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
API void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name,
                                  int external, size_t size, int constant, int global) {
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
