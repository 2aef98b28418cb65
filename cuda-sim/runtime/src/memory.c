/*
 * memory.c: allocation, pools, pointers, sharing between processes, and the translation of copies.
 * Copies and fills themselves are in default_stream.c.
 */
#include "runtime.h"

#include <string.h>

/* An allocation of zero bytes succeeds with NULL; the driver would return an error. */
static cudaError_t nothing_allocated(void **address) {
    *address = NULL;
    return cudaSuccess;
}

API cudaError_t cudaMalloc(void **address, size_t size) {
    NEED(context);
    if (address == NULL) return record(cudaErrorInvalidValue);
    return record(size == 0 ? nothing_allocated(address) : CALL(cuMemAlloc_v2, address, size));
}

API cudaError_t cudaMallocManaged(void **address, size_t size, unsigned flags) {
    NEED(context);
    return record(CALL(cuMemAllocManaged, address, size, flags));
}

static cudaError_t allocate_pitched(void **address, size_t *pitch, size_t width, size_t height) {
    if (address == NULL || pitch == NULL) return cudaErrorInvalidValue;
    if (width == 0 || height == 0) {
        *pitch = 0;
        return nothing_allocated(address);
    }
    return CALL(cuMemAllocPitch_v2, address, pitch, width, height, 4);
}

API cudaError_t cudaMallocPitch(void **address, size_t *pitch, size_t width, size_t height) {
    NEED(context);
    return record(allocate_pitched(address, pitch, width, height));
}

API cudaError_t cudaMalloc3D(struct pitched_pointer *memory, struct extent extent) {
    NEED(context);
    if (memory == NULL) return record(cudaErrorInvalidValue);
    memory->xsize = extent.width;
    memory->ysize = extent.height;
    return record(allocate_pitched(&memory->address, &memory->pitch, extent.width,
                                   extent.height * extent.depth));
}

/* Also the customary way to create a context early: cudaFree(NULL). */
API cudaError_t cudaFree(void *address) {
    NEED(context);
    return record(address == NULL ? cudaSuccess : CALL(cuMemFree_v2, address));
}

API cudaError_t cudaMallocHost(void **address, size_t size) {
    NEED(context);
    if (address == NULL) return record(cudaErrorInvalidValue);
    return record(size == 0 ? nothing_allocated(address) : CALL(cuMemAllocHost_v2, address, size));
}

API cudaError_t cudaHostAlloc(void **address, size_t size, unsigned flags) {
    NEED(context);
    if (address == NULL) return record(cudaErrorInvalidValue);
    return record(size == 0 ? nothing_allocated(address)
                            : CALL(cuMemHostAlloc, address, size, flags));
}

API cudaError_t cudaFreeHost(void *address) {
    NEED(context);
    return record(address == NULL ? cudaSuccess : CALL(cuMemFreeHost, address));
}

CONTEXT_CALL(cudaMemPoolExportToShareableHandle,
             (void *handle, CUmemoryPool pool, int type, unsigned flags),
             (cuMemPoolExportToShareableHandle, handle, pool, type, flags))
CONTEXT_CALL(cudaMemPoolImportFromShareableHandle,
             (CUmemoryPool * pool, void *handle, int type, unsigned flags),
             (cuMemPoolImportFromShareableHandle, pool, handle, type, flags))

/* Unlike the driver's query of one attribute, this succeeds for memory that CUDA does not know. */
API cudaError_t cudaPointerGetAttributes(struct pointer_attributes *attributes,
                                         const void *address) {
    static const int wanted[] = {POINTER_MEMORY_TYPE, POINTER_DEVICE_POINTER, POINTER_HOST_POINTER,
                                 POINTER_IS_MANAGED, POINTER_DEVICE_ORDINAL};
    int type = 0, device = -2; /* cudaInvalidDeviceId */
    unsigned managed = 0;
    void *device_pointer = NULL, *host_pointer = NULL;
    void *values[] = {&type, &device_pointer, &host_pointer, &managed, &device};

    if (attributes == NULL) return record(cudaErrorInvalidValue);
    NEED(context);
    memset(attributes, 0, sizeof *attributes);
    cudaError_t error =
        CALL(cuPointerGetAttributes, sizeof wanted / sizeof wanted[0], wanted, values, address);
    if (error != cudaSuccess) return record(error);
    attributes->device = device;
    attributes->device_pointer = device_pointer;
    attributes->host_pointer = host_pointer;
#if CUDART_MAJOR >= 13
    attributes->locality_domain = -1; /* in none: the driver has no attribute to ask */
#endif
    /* The driver's bool is a byte or a word, depending on the version; the first byte has the
     * value. */
    if ((managed & 0xff) != 0) {
        attributes->type = TYPE_MANAGED;
    } else if (type == DRIVER_TYPE_HOST) {
        attributes->type = TYPE_HOST;
    } else if (type == DRIVER_TYPE_DEVICE) {
        attributes->type = TYPE_DEVICE;
        attributes->host_pointer = NULL;
    } else {
        attributes->type = TYPE_UNREGISTERED;
        attributes->device = -2;
        attributes->device_pointer = NULL;
        attributes->host_pointer = (void *)address;
    }
    return cudaSuccess;
}

/* The two sides' CUmemorytype, of a cudaMemcpyKind. */
static cudaError_t sides_of_kind(int kind, int *dst_type, int *src_type) {
    static const int types[][2] = {
        [MEMCPY_HOST_TO_HOST] = {DRIVER_TYPE_HOST, DRIVER_TYPE_HOST},
        [MEMCPY_HOST_TO_DEVICE] = {DRIVER_TYPE_DEVICE, DRIVER_TYPE_HOST},
        [MEMCPY_DEVICE_TO_HOST] = {DRIVER_TYPE_HOST, DRIVER_TYPE_DEVICE},
        [MEMCPY_DEVICE_TO_DEVICE] = {DRIVER_TYPE_DEVICE, DRIVER_TYPE_DEVICE},
        [MEMCPY_DEFAULT] = {DRIVER_TYPE_UNIFIED, DRIVER_TYPE_UNIFIED},
    };
    if (kind < MEMCPY_HOST_TO_HOST || kind > MEMCPY_DEFAULT) return cudaErrorInvalidMemcpyDirection;
    *dst_type = types[kind][0];
    *src_type = types[kind][1];
    return cudaSuccess;
}

cudaError_t describe_copy2d(struct driver_memcpy2d *out, void *dst, size_t dst_pitch,
                            const void *src, size_t src_pitch, size_t width, size_t height,
                            int kind) {
    memset(out, 0, sizeof *out);
    cudaError_t error = sides_of_kind(kind, &out->dst_type, &out->src_type);
    if (error != cudaSuccess) return error;
    if (width > dst_pitch || width > src_pitch) return cudaErrorInvalidPitchValue;
    /* The type determines which of the two the driver reads. */
    out->src_host = out->src_device = (void *)src;
    out->dst_host = out->dst_device = dst;
    out->src_pitch = src_pitch;
    out->dst_pitch = dst_pitch;
    out->width = width;
    out->height = height;
    return cudaSuccess;
}

/* Everything but types, contexts and arrays, which this library does not have. */
static void place_copy3d(struct driver_memcpy3d *out, struct pitched_pointer dst,
                         struct position dst_position, struct pitched_pointer src,
                         struct position src_position, struct extent extent) {
    out->src_x = src_position.x;
    out->src_y = src_position.y;
    out->src_z = src_position.z;
    out->src_host = out->src_device = src.address;
    out->src_pitch = src.pitch;
    out->src_height = src.ysize;
    out->dst_x = dst_position.x;
    out->dst_y = dst_position.y;
    out->dst_z = dst_position.z;
    out->dst_host = out->dst_device = dst.address;
    out->dst_pitch = dst.pitch;
    out->dst_height = dst.ysize;
    out->width = extent.width;
    out->height = extent.height;
    out->depth = extent.depth;
}

cudaError_t describe_copy3d(struct driver_memcpy3d *out, const struct memcpy3d *copy) {
    memset(out, 0, sizeof *out);
    if (copy == NULL) return cudaErrorInvalidValue;
    if (copy->src_array != NULL || copy->dst_array != NULL) return cudaErrorNotSupported;
    place_copy3d(out, copy->dst, copy->dst_position, copy->src, copy->src_position, copy->extent);
    return sides_of_kind(copy->kind, &out->dst_type, &out->src_type);
}

cudaError_t describe_copy3d_peer(struct driver_memcpy3d *out, const struct memcpy3d_peer *copy) {
    memset(out, 0, sizeof *out);
    if (copy == NULL) return cudaErrorInvalidValue;
    if (copy->src_array != NULL || copy->dst_array != NULL) return cudaErrorNotSupported;
    place_copy3d(out, copy->dst, copy->dst_position, copy->src, copy->src_position, copy->extent);
    out->src_type = out->dst_type = DRIVER_TYPE_DEVICE;
    cudaError_t error = primary_context(copy->src_device, &out->src_context);
    return error != cudaSuccess ? error : primary_context(copy->dst_device, &out->dst_context);
}

struct channel_description {
    int x, y, z, w, kind;
};

/* There are no arrays, but programs describe their elements all the same. */
API struct channel_description cudaCreateChannelDesc(int x, int y, int z, int w, int kind) {
    return (struct channel_description){x, y, z, w, kind};
}
