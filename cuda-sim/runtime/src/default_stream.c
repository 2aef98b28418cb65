/*
 * default_stream.c: every function whose meaning depends on what stream 0 is. It is compiled twice:
 * once with PER_THREAD_DEFAULT_STREAM 0, for the plain names, where 0 is the legacy stream; and
 * once with 1, for the names ending in _ptsz and _ptds that programs built with
 * CUDA_API_PER_THREAD_DEFAULT_STREAM call, where 0 is the thread's own stream.
 */
#include "runtime.h"

#include <stdlib.h>

#if PER_THREAD_DEFAULT_STREAM
#define DEFAULT_STREAM PER_THREAD_STREAM
#define ASYNC(name) JOIN(name, _ptsz)       /* takes a stream */
#define SYNC(name) JOIN(name, _ptds)        /* takes none, and uses the default stream */
#define DRIVER_SYNC(name) JOIN(name, _ptds) /* the driver's function of that kind */
#else
#define DEFAULT_STREAM LEGACY_STREAM
#define ASYNC(name) name
#define SYNC(name) name
#define DRIVER_SYNC(name) name
#endif

/* Never 0 to the driver: the explicit handles mean the same in all of its functions. */
#define STREAM(stream) ((stream) != NULL ? (stream) : DEFAULT_STREAM)

/* Copies. */

static cudaError_t copy(void *dst, const void *src, size_t size, int kind) {
    if (size == 0) return cudaSuccess;
    switch (kind) {
    case MEMCPY_HOST_TO_DEVICE: return CALL(DRIVER_SYNC(cuMemcpyHtoD_v2), dst, src, size);
    case MEMCPY_DEVICE_TO_HOST: return CALL(DRIVER_SYNC(cuMemcpyDtoH_v2), dst, src, size);
    case MEMCPY_DEVICE_TO_DEVICE: return CALL(DRIVER_SYNC(cuMemcpyDtoD_v2), dst, src, size);
    case MEMCPY_HOST_TO_HOST:
    case MEMCPY_DEFAULT: return CALL(DRIVER_SYNC(cuMemcpy), dst, src, size);
    default: return cudaErrorInvalidMemcpyDirection;
    }
}

static cudaError_t copy_async(void *dst, const void *src, size_t size, int kind, CUstream stream) {
    if (size == 0) return cudaSuccess;
    switch (kind) {
    case MEMCPY_HOST_TO_DEVICE: return CALL(cuMemcpyHtoDAsync_v2, dst, src, size, STREAM(stream));
    case MEMCPY_DEVICE_TO_HOST: return CALL(cuMemcpyDtoHAsync_v2, dst, src, size, STREAM(stream));
    case MEMCPY_DEVICE_TO_DEVICE: return CALL(cuMemcpyDtoDAsync_v2, dst, src, size, STREAM(stream));
    case MEMCPY_HOST_TO_HOST:
    case MEMCPY_DEFAULT: return CALL(cuMemcpyAsync, dst, src, size, STREAM(stream));
    default: return cudaErrorInvalidMemcpyDirection;
    }
}

API cudaError_t SYNC(cudaMemcpy)(void *dst, const void *src, size_t size, int kind) {
    NEED(context);
    return record(copy(dst, src, size, kind));
}

API cudaError_t ASYNC(cudaMemcpyAsync)(void *dst, const void *src, size_t size, int kind,
                                       CUstream stream) {
    NEED(context);
    return record(copy_async(dst, src, size, kind, stream));
}

API cudaError_t SYNC(cudaMemcpy2D)(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                                   size_t width, size_t height, int kind) {
    struct driver_memcpy2d copy2d;
    NEED(context);
    cudaError_t error =
        describe_copy2d(&copy2d, dst, dst_pitch, src, src_pitch, width, height, kind);
    if (error != cudaSuccess || width == 0 || height == 0) return record(error);
    return record(CALL(DRIVER_SYNC(cuMemcpy2D_v2), &copy2d));
}

API cudaError_t ASYNC(cudaMemcpy2DAsync)(void *dst, size_t dst_pitch, const void *src,
                                         size_t src_pitch, size_t width, size_t height, int kind,
                                         CUstream stream) {
    struct driver_memcpy2d copy2d;
    NEED(context);
    cudaError_t error =
        describe_copy2d(&copy2d, dst, dst_pitch, src, src_pitch, width, height, kind);
    if (error != cudaSuccess || width == 0 || height == 0) return record(error);
    return record(CALL(cuMemcpy2DAsync_v2, &copy2d, STREAM(stream)));
}

DESCRIBED_CALL(SYNC(cudaMemcpy3D), (const struct memcpy3d *params), driver_memcpy3d,
               describe_copy3d, (DRIVER_SYNC(cuMemcpy3D_v2), &described))
DESCRIBED_CALL(ASYNC(cudaMemcpy3DAsync), (const struct memcpy3d *params, CUstream stream),
               driver_memcpy3d, describe_copy3d, (cuMemcpy3DAsync_v2, &described, STREAM(stream)))
DESCRIBED_CALL(SYNC(cudaMemcpy3DPeer), (const struct memcpy3d_peer *params), driver_memcpy3d,
               describe_copy3d_peer, (DRIVER_SYNC(cuMemcpy3DPeer), &described))
DESCRIBED_CALL(ASYNC(cudaMemcpy3DPeerAsync), (const struct memcpy3d_peer *params, CUstream stream),
               driver_memcpy3d, describe_copy3d_peer,
               (cuMemcpy3DPeerAsync, &described, STREAM(stream)))

#if !PER_THREAD_DEFAULT_STREAM /* These have no twin: they use the legacy stream, or take any. */
API cudaError_t cudaMemcpyPeer(void *dst, int dst_device, const void *src, int src_device,
                               size_t size) {
    CUcontext dst_context, src_context;
    NEED(context);
    cudaError_t error = primary_context(dst_device, &dst_context);
    if (error == cudaSuccess) error = primary_context(src_device, &src_context);
    if (error != cudaSuccess || size == 0) return record(error);
    return record(CALL(cuMemcpyPeer, dst, dst_context, src, src_context, size));
}

API cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device,
                                    size_t size, CUstream stream) {
    CUcontext dst_context, src_context;
    NEED(context);
    cudaError_t error = primary_context(dst_device, &dst_context);
    if (error == cudaSuccess) error = primary_context(src_device, &src_context);
    if (error != cudaSuccess || size == 0) return record(error);
    return record(
        CALL(cuMemcpyPeerAsync, dst, dst_context, src, src_context, size, STREAM(stream)));
}
#endif

API cudaError_t ASYNC(cudaMemcpyBatchAsync)(void **dsts, void **srcs, size_t *sizes, size_t count,
                                            void *attributes, size_t *attribute_indices,
                                            size_t attribute_count,
#if CUDART_MAJOR == 12
                                            size_t *failed_index,
#endif
                                            CUstream stream) {
    NEED(context);
#if CUDART_MAJOR == 12
    return record(CALL(cuMemcpyBatchAsync, dsts, srcs, sizes, count, attributes, attribute_indices,
                       attribute_count, failed_index, STREAM(stream)));
#else
    return record(CALL(cuMemcpyBatchAsync_v2, dsts, srcs, sizes, count, attributes,
                       attribute_indices, attribute_count, STREAM(stream)));
#endif
}

/* Copies to and from variables of kernels. */

static cudaError_t address_in_symbol(const void *symbol, size_t offset, size_t size,
                                     char **address) {
    void *base;
    size_t all;
    cudaError_t error = find_variable(symbol, &base, &all);
    if (error != cudaSuccess) return error;
    if (offset > all || size > all - offset) return cudaErrorInvalidValue;
    *address = (char *)base + offset;
    return cudaSuccess;
}

#define SYMBOL_COPY(name, parameters, call)                               \
    API cudaError_t name parameters {                                     \
        char *at;                                                         \
        NEED(context);                                                    \
        cudaError_t error = address_in_symbol(symbol, offset, size, &at); \
        return record(error != cudaSuccess ? error : call);               \
    }
SYMBOL_COPY(SYNC(cudaMemcpyToSymbol),
            (const void *symbol, const void *src, size_t size, size_t offset, int kind),
            copy(at, src, size, kind))
SYMBOL_COPY(SYNC(cudaMemcpyFromSymbol),
            (void *dst, const void *symbol, size_t size, size_t offset, int kind),
            copy(dst, at, size, kind))
SYMBOL_COPY(ASYNC(cudaMemcpyToSymbolAsync),
            (const void *symbol, const void *src, size_t size, size_t offset, int kind,
             CUstream stream),
            copy_async(at, src, size, kind, stream))
SYMBOL_COPY(ASYNC(cudaMemcpyFromSymbolAsync),
            (void *dst, const void *symbol, size_t size, size_t offset, int kind, CUstream stream),
            copy_async(dst, at, size, kind, stream))

/* Fills. */

API cudaError_t SYNC(cudaMemset)(void *address, int value, size_t size) {
    NEED(context);
    if (size == 0) return cudaSuccess;
    return record(CALL(DRIVER_SYNC(cuMemsetD8_v2), address, (unsigned char)value, size));
}

API cudaError_t ASYNC(cudaMemsetAsync)(void *address, int value, size_t size, CUstream stream) {
    NEED(context);
    if (size == 0) return cudaSuccess;
    return record(CALL(cuMemsetD8Async, address, (unsigned char)value, size, STREAM(stream)));
}

/* `stream`: NULL for functions that take none. */
static cudaError_t fill2d(void *address, size_t pitch, int value, size_t width, size_t height,
                          const CUstream *stream) {
    const unsigned char byte = (unsigned char)value;
    if (width == 0 || height == 0) return cudaSuccess;
    if (stream == NULL) {
        return CALL(DRIVER_SYNC(cuMemsetD2D8_v2), address, pitch, byte, width, height);
    }
    return CALL(cuMemsetD2D8Async, address, pitch, byte, width, height, STREAM(*stream));
}

API cudaError_t SYNC(cudaMemset2D)(void *address, size_t pitch, int value, size_t width,
                                   size_t height) {
    NEED(context);
    return record(fill2d(address, pitch, value, width, height, NULL));
}

API cudaError_t ASYNC(cudaMemset2DAsync)(void *address, size_t pitch, int value, size_t width,
                                         size_t height, CUstream stream) {
    NEED(context);
    return record(fill2d(address, pitch, value, width, height, &stream));
}

/* The driver has no fill in three dimensions: one fill where the slices are adjacent, else one for
 * each. */
static cudaError_t fill3d(struct pitched_pointer memory, int value, struct extent extent,
                          const CUstream *stream) {
    cudaError_t error = cudaSuccess;
    if (memory.ysize == extent.height) {
        extent.height *= extent.depth;
        extent.depth = 1;
    }
    for (size_t z = 0; z < extent.depth && error == cudaSuccess; z++) {
        char *slice = (char *)memory.address + z * memory.pitch * memory.ysize;
        error = fill2d(slice, memory.pitch, value, extent.width, extent.height, stream);
    }
    return error;
}

API cudaError_t SYNC(cudaMemset3D)(struct pitched_pointer memory, int value, struct extent extent) {
    NEED(context);
    return record(fill3d(memory, value, extent, NULL));
}

API cudaError_t ASYNC(cudaMemset3DAsync)(struct pitched_pointer memory, int value,
                                         struct extent extent, CUstream stream) {
    NEED(context);
    return record(fill3d(memory, value, extent, &stream));
}

/* Functions of the driver that take a stream. */

#define CUdeviceptr const void *
#define FORWARD(name, parameters, call)
#define DEVICE_FORWARD(name, parameters, call, devices)
#define STREAM_FORWARD(name, parameters, call) CONTEXT_CALL(ASYNC(name), parameters, call)
#include "forwards.h"
#undef CUdeviceptr

API cudaError_t ASYNC(cudaFreeAsync)(void *address, CUstream stream) {
    NEED(context);
    return record(address == NULL ? cudaSuccess : CALL(cuMemFreeAsync, address, STREAM(stream)));
}

/* Drivers older than 12.8 know only the context of a stream. */
static cudaError_t device_of_stream(CUstream stream, CUdevice *device) {
    CUcontext context, popped;
    if (driver.cuStreamGetDevice != NULL) return CALL(cuStreamGetDevice, stream, device);
    cudaError_t error = CALL(cuStreamGetCtx, stream, &context);
    if (error == cudaSuccess) error = CALL(cuCtxPushCurrent_v2, context);
    if (error != cudaSuccess) return error;
    error = CALL(cuCtxGetDevice, device);
    cudaError_t pop_error = CALL(cuCtxPopCurrent_v2, &popped);
    return error != cudaSuccess ? error : pop_error;
}

API cudaError_t ASYNC(cudaStreamGetDevice)(CUstream stream, int *device) {
    NEED(context);
    if (device == NULL) return record(cudaErrorInvalidValue);
    return record(device_of_stream(STREAM(stream), device));
}

/* A callback gets the stream as the program named it, and the runtime's number of the error. */
struct callback {
    void (*run)(CUstream stream, cudaError_t status, void *data);
    CUstream stream;
    void *data;
};

static void run_callback(CUstream stream, int result, void *data) {
    struct callback callback = *(struct callback *)data;
    (void)stream;
    free(data);
    callback.run(callback.stream, result, callback.data);
}

API cudaError_t ASYNC(cudaStreamAddCallback)(CUstream stream,
                                             void (*run)(CUstream stream, cudaError_t status,
                                                         void *data),
                                             void *data, unsigned flags) {
    NEED(context);
    if (run == NULL) return record(cudaErrorInvalidValue);
    struct callback *callback = malloc(sizeof *callback);
    if (callback == NULL) return record(cudaErrorMemoryAllocation);
    *callback = (struct callback){run, stream, data};
    cudaError_t error = CALL(cuStreamAddCallback, STREAM(stream), run_callback, callback, flags);
    if (error != cudaSuccess) free(callback);
    return record(error);
}

/* Capture. */

static cudaError_t capture_info(CUstream stream, int *status, unsigned long long *id,
                                CUgraph *graph, const CUgraphNode **dependencies,
                                const struct graph_edge **edges, size_t *count) {
    if (edges == NULL || driver.cuStreamGetCaptureInfo_v3 == NULL) {
        if (edges != NULL)
            *edges = NULL; /* a driver without edge data has only edges of the default kind */
        return CALL(cuStreamGetCaptureInfo_v2, stream, status, id, graph, dependencies, count);
    }
    return CALL(cuStreamGetCaptureInfo_v3, stream, status, id, graph, dependencies, edges, count);
}

#if CUDART_MAJOR == 12
API cudaError_t ASYNC(cudaStreamGetCaptureInfo)(CUstream stream, int *status,
                                                unsigned long long *id) {
    NEED(context);
    return record(capture_info(STREAM(stream), status, id, NULL, NULL, NULL, NULL));
}
API cudaError_t ASYNC(cudaStreamGetCaptureInfo_v2)(CUstream stream, int *status,
                                                   unsigned long long *id, CUgraph *graph,
                                                   const CUgraphNode **dependencies,
                                                   size_t *count) {
    NEED(context);
    return record(capture_info(STREAM(stream), status, id, graph, dependencies, NULL, count));
}
#endif
API cudaError_t ASYNC(NEWER(cudaStreamGetCaptureInfo,
                            _v3))(CUstream stream, int *status, unsigned long long *id,
                                  CUgraph *graph, const CUgraphNode **dependencies,
                                  const struct graph_edge **edges, size_t *count) {
    NEED(context);
    return record(capture_info(STREAM(stream), status, id, graph, dependencies, edges, count));
}

API cudaError_t ASYNC(cudaGraphInstantiateWithParams)(CUgraphExec *exec, CUgraph graph,
                                                      struct instantiate_params *params) {
    NEED(context);
    if (params == NULL) return record(cudaErrorInvalidValue);
    struct instantiate_params copied = *params;
    copied.upload_stream = STREAM(params->upload_stream);
    cudaError_t error = CALL(cuGraphInstantiateWithParams, exec, graph, &copied);
    params->error_node = copied.error_node;
    params->result = copied.result;
    return record(error);
}

/* Launches. */

#define MAX_THREADS_PER_BLOCK 1024 /* of every GPU so far */

static bool possible_launch(struct grid_size grid, struct grid_size block, size_t shared_bytes) {
    unsigned long long threads = (unsigned long long)block.x * block.y * block.z;
    return grid.x != 0 && grid.y != 0 && grid.z != 0 && threads != 0 &&
           block.x <= MAX_THREADS_PER_BLOCK && block.y <= MAX_THREADS_PER_BLOCK &&
           block.z <= MAX_THREADS_PER_BLOCK && threads <= MAX_THREADS_PER_BLOCK &&
           shared_bytes <= UINT32_MAX;
}

API cudaError_t ASYNC(cudaLaunchKernel)(const void *host, struct grid_size grid,
                                        struct grid_size block, void **args, size_t shared_bytes,
                                        CUstream stream) {
    CUfunction function;
    NEED(context);
    if (!possible_launch(grid, block, shared_bytes)) return record(cudaErrorInvalidConfiguration);
    cudaError_t error = find_function(host, &function);
    if (error != cudaSuccess) return record(error);
    return record(CALL(cuLaunchKernel, function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                       (unsigned)shared_bytes, STREAM(stream), args, NULL));
}

/* What code compiled by nvcc 13 calls, with the handle that __cudaGetKernel gave it. */
API cudaError_t ASYNC(__cudaLaunchKernel)(const void *kernel, struct grid_size grid,
                                          struct grid_size block, void **args, size_t shared_bytes,
                                          CUstream stream) {
    return ASYNC(cudaLaunchKernel)(kernel, grid, block, args, shared_bytes, stream);
}

API cudaError_t ASYNC(cudaLaunchCooperativeKernel)(const void *host, struct grid_size grid,
                                                   struct grid_size block, void **args,
                                                   size_t shared_bytes, CUstream stream) {
    CUfunction function;
    NEED(context);
    if (!possible_launch(grid, block, shared_bytes)) return record(cudaErrorInvalidConfiguration);
    cudaError_t error = find_function(host, &function);
    if (error != cudaSuccess) return record(error);
    return record(CALL(cuLaunchCooperativeKernel, function, grid.x, grid.y, grid.z, block.x,
                       block.y, block.z, (unsigned)shared_bytes, STREAM(stream), args));
}

API cudaError_t ASYNC(cudaLaunchKernelExC)(const struct launch_config *config, const void *host,
                                           void **args) {
    CUfunction function;
    NEED(context);
    if (config == NULL) return record(cudaErrorInvalidValue);
    if (!possible_launch(config->grid, config->block, config->shared_bytes)) {
        return record(cudaErrorInvalidConfiguration);
    }
    cudaError_t error = find_function(host, &function);
    if (error != cudaSuccess) return record(error);
    struct driver_launch_config launch = {
        config->grid,           config->block,      (unsigned)config->shared_bytes,
        STREAM(config->stream), config->attributes, config->attribute_count,
    };
    return record(CALL(cuLaunchKernelEx, &launch, function, args, NULL));
}

/* The driver's functions by name: by default, those of this file's default stream. */

API cudaError_t ASYNC(cudaGetDriverEntryPointByVersion)(const char *symbol, void **function,
                                                        unsigned version, unsigned long long flags,
                                                        int *status) {
    NEED(driver);
    if (symbol == NULL || function == NULL) return record(cudaErrorInvalidValue);
    if (flags == 0) flags = PER_THREAD_DEFAULT_STREAM ? 2 : 1;
    return record(CALL(cuGetProcAddress_v2, symbol, function, (int)version, flags, status));
}

API cudaError_t ASYNC(cudaGetDriverEntryPoint)(const char *symbol, void **function,
                                               unsigned long long flags, int *status) {
    return ASYNC(cudaGetDriverEntryPointByVersion)(symbol, function, RUNTIME_VERSION, flags,
                                                   status);
}
