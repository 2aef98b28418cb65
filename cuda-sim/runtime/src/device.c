/*
 * device.c: versions, devices, and the choice of one per thread.
 *
 * The current device is the device of the driver's current context. A thread without one gets the
 * primary context of the device that it chose, on the first call that needs a context.
 */
#include "runtime.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEVICES 64

static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary[MAX_DEVICES];

/* Counts cudaDeviceReset: a thread must look up again the contexts that it received before. */
static atomic_uint reset_epoch;

static atomic_int
    first_choice; /* what threads that choose no device get; see cudaSetValidDevices */

static _Thread_local struct {
    bool chosen;
    int device;
    CUcontext given; /* the primary context that this library made current in this thread */
    unsigned epoch;
} thread_device;

static int device_of_thread(void) {
    return thread_device.chosen ? thread_device.device : atomic_load(&first_choice);
}

cudaError_t device_handle(int ordinal, CUdevice *device) {
    cudaError_t error = need_driver();
    return error != cudaSuccess ? error : CALL(cuDeviceGet, device, ordinal);
}

cudaError_t primary_context(int ordinal, CUcontext *context) {
    CUdevice device;
    cudaError_t error = device_handle(ordinal, &device);
    if (error != cudaSuccess) return error;
    if (ordinal >= MAX_DEVICES) return cudaErrorInvalidDevice;
    pthread_mutex_lock(&primary_lock);
    if (primary[ordinal] == NULL) error = CALL(cuDevicePrimaryCtxRetain, &primary[ordinal], device);
    *context = primary[ordinal];
    pthread_mutex_unlock(&primary_lock);
    return error;
}

/* Makes a device's primary context current in this thread. */
static cudaError_t enter_device(int ordinal) {
    CUcontext context;
    unsigned epoch = atomic_load(&reset_epoch);
    cudaError_t error = primary_context(ordinal, &context);
    if (error == cudaSuccess) error = CALL(cuCtxSetCurrent, context);
    if (error == cudaSuccess) {
        thread_device.given = context;
        thread_device.epoch = epoch;
    }
    return error;
}

/* The current context, or NULL where there is none or it was reset since this library made it
 * current. */
static cudaError_t usable_context(CUcontext *context) {
    cudaError_t error = CALL(cuCtxGetCurrent, context);
    if (error == cudaSuccess && *context == thread_device.given &&
        thread_device.epoch != atomic_load(&reset_epoch)) {
        *context = NULL;
    }
    return error;
}

cudaError_t need_context(void) {
    CUcontext context = NULL;
    cudaError_t error = need_driver();
    if (error == cudaSuccess) error = usable_context(&context);
    if (error != cudaSuccess || context != NULL) return error;
    return enter_device(device_of_thread());
}

static cudaError_t current_device(int *ordinal) {
    CUcontext context = NULL;
    cudaError_t error = need_driver();
    if (error == cudaSuccess) error = usable_context(&context);
    if (error != cudaSuccess) return error;
    if (context != NULL) return CALL(cuCtxGetDevice, ordinal);
    *ordinal = device_of_thread();
    return cudaSuccess;
}

API cudaError_t cudaRuntimeGetVersion(int *version) {
    if (version == NULL) return record(cudaErrorInvalidValue);
    *version = RUNTIME_VERSION;
    return cudaSuccess;
}

API cudaError_t cudaDriverGetVersion(int *version) {
    if (version == NULL) return record(cudaErrorInvalidValue);
    *version = 0; /* without a driver, that is the answer, not an error */
    return need_library() == cudaSuccess ? record(CALL(cuDriverGetVersion, version)) : cudaSuccess;
}

API cudaError_t cudaGetDeviceCount(int *count) {
    if (count == NULL) return record(cudaErrorInvalidValue);
    *count = 0;
    NEED(driver);
    cudaError_t error = record(CALL(cuDeviceGetCount, count));
    return error == cudaSuccess && *count == 0 ? record(cudaErrorNoDevice) : error;
}

API cudaError_t cudaGetDevice(int *device) {
    if (device == NULL) return record(cudaErrorInvalidValue);
    return record(current_device(device));
}

API cudaError_t cudaSetDevice(int device) {
    cudaError_t error = enter_device(device);
    if (error != cudaSuccess) return record(error);
    thread_device.chosen = true;
    thread_device.device = device;
    return cudaSuccess;
}

API cudaError_t cudaSetValidDevices(int *devices, int count) {
    if (count < 0 || (count > 0 && devices == NULL)) return record(cudaErrorInvalidValue);
    for (int i = 0; i < count; i++) {
        CUdevice device;
        cudaError_t error = device_handle(devices[i], &device);
        if (error != cudaSuccess) return record(error);
    }
    atomic_store(&first_choice, count > 0 ? devices[0] : 0);
    return cudaSuccess;
}

API cudaError_t cudaChooseDevice(int *device, const struct device_properties *wanted) {
    if (device == NULL || wanted == NULL) return record(cudaErrorInvalidValue);
    return record(current_device(device));
}

static cudaError_t set_flags(int ordinal, unsigned flags) {
    CUdevice device;
    cudaError_t error = device_handle(ordinal, &device);
    if (error != cudaSuccess) return error;
    if ((flags & ~(DEVICE_SCHEDULE_FLAGS | DEVICE_MAP_HOST)) != 0) return cudaErrorInvalidValue;
    return CALL(cuDevicePrimaryCtxSetFlags_v2, device, flags & DEVICE_SCHEDULE_FLAGS);
}

API cudaError_t cudaSetDeviceFlags(unsigned flags) {
    int device;
    cudaError_t error = current_device(&device);
    return record(error != cudaSuccess ? error : set_flags(device, flags));
}

API cudaError_t cudaGetDeviceFlags(unsigned *flags) {
    int ordinal, active;
    CUdevice device;
    if (flags == NULL) return record(cudaErrorInvalidValue);
    cudaError_t error = current_device(&ordinal);
    if (error == cudaSuccess) error = device_handle(ordinal, &device);
    if (error == cudaSuccess) error = CALL(cuDevicePrimaryCtxGetState, device, flags, &active);
    if (error == cudaSuccess) *flags |= DEVICE_MAP_HOST;
    return record(error);
}

API cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags) {
    CUcontext context;
    if ((flags & ~INIT_DEVICE_FLAGS_VALID) != 0) return record(cudaErrorInvalidValue);
    if (flags & INIT_DEVICE_FLAGS_VALID) {
        cudaError_t error = set_flags(device, device_flags);
        if (error != cudaSuccess) return record(error);
    }
    return record(primary_context(device, &context));
}

API cudaError_t cudaDeviceReset(void) {
    int ordinal;
    CUdevice device;
    cudaError_t error = current_device(&ordinal);
    if (error == cudaSuccess) error = device_handle(ordinal, &device);
    if (error != cudaSuccess) return record(error);
    if (ordinal >= MAX_DEVICES) return record(cudaErrorInvalidDevice);
    pthread_mutex_lock(&primary_lock);
    CUcontext old = primary[ordinal];
    primary[ordinal] = NULL;
    error = CALL(cuDevicePrimaryCtxReset_v2, device);
    /* The reset leaves the count of retains as it was, and the one that belonged to `primary` is
     * over. */
    if (old != NULL) CALL(cuDevicePrimaryCtxRelease_v2, device);
    atomic_fetch_add(&reset_epoch, 1);
    pthread_mutex_unlock(&primary_lock);
    if (old != NULL) forget_context(old);
    end_sticky_errors();
    return record(error);
}

static void read_attribute(CUdevice device, int attribute, int *value) {
    if (CALL(cuDeviceGetAttribute, value, attribute, device) != cudaSuccess) *value = 0;
}

static void read_properties(struct device_properties *properties, CUdevice device) {
    int value;
    memset(properties, 0, sizeof *properties);
    CALL(cuDeviceGetName, properties->name, sizeof properties->name, device);
    CALL(cuDeviceGetUuid_v2, &properties->uuid, device);
    CALL(cuDeviceGetLuid, properties->luid, &properties->luidDeviceNodeMask, device);
    CALL(cuDeviceTotalMem_v2, &properties->totalGlobalMem, device);
#define PROPERTY(field, number, attribute)  \
    read_attribute(device, number, &value); \
    properties->field = value;
#include "device_properties.h"
#undef PROPERTY
}

static cudaError_t get_properties(struct device_properties *properties, int ordinal) {
    CUdevice device;
    if (properties == NULL) return cudaErrorInvalidValue;
    cudaError_t error = device_handle(ordinal, &device);
    if (error == cudaSuccess) read_properties(properties, device);
    return error;
}

API cudaError_t NEWER(cudaGetDeviceProperties, _v2)(struct device_properties *properties,
                                                    int device) {
    return record(get_properties(properties, device));
}

#if CUDART_MAJOR == 12
/* Programs built with CUDA 11 know a shorter structure: this one, up to and without
 * hostRegisterSupported. */
API cudaError_t cudaGetDeviceProperties(struct device_properties *properties, int device) {
    struct device_properties all;
    if (properties == NULL) return record(cudaErrorInvalidValue);
    cudaError_t error = get_properties(&all, device);
    if (error == cudaSuccess)
        memcpy(properties, &all, offsetof(struct device_properties, hostRegisterSupported));
    return record(error);
}
#endif

API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    CUcontext context;
    CUdevice current;
    NEED(context);
    cudaError_t error = primary_context(peer, &context);
    /* The driver reports the context, not the device, as invalid. */
    if (error == cudaSuccess) error = CALL(cuCtxGetDevice, &current);
    if (error == cudaSuccess && current == peer) error = cudaErrorInvalidDevice;
    return record(error != cudaSuccess ? error : CALL(cuCtxEnablePeerAccess, context, flags));
}

API cudaError_t cudaDeviceDisablePeerAccess(int peer) {
    CUcontext context;
    NEED(context);
    cudaError_t error = primary_context(peer, &context);
    return record(error != cudaSuccess ? error : CALL(cuCtxDisablePeerAccess, context));
}

/* Bank sizes of shared memory are fixed on every GPU that CUDA 12 supports. */
API cudaError_t cudaDeviceGetSharedMemConfig(int *config) {
    if (config == NULL) return record(cudaErrorInvalidValue);
    *config = 1; /* four bytes */
    return cudaSuccess;
}

API cudaError_t cudaDeviceSetSharedMemConfig(int config) {
    (void)config;
    return cudaSuccess;
}

#if CUDART_MAJOR == 12
/* The old name, from when what belongs to a device belonged to a thread. */
API cudaError_t cudaThreadExit(void) { return cudaDeviceReset(); }

/* From GPUs without doubles: nothing to convert. */
API cudaError_t cudaSetDoubleForDevice(double *value) {
    (void)value;
    return cudaSuccess;
}
API cudaError_t cudaSetDoubleForHost(double *value) {
    (void)value;
    return cudaSuccess;
}
#endif

/* Profiling is never on, so that there is nothing to start and stop. */
API cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
API cudaError_t cudaProfilerStop(void) { return cudaSuccess; }
