/*
 * runtime.h: declarations that the files of this library share. The runtime has little state of its
 * own: the device of each thread, its last error, the primary contexts that it retained, and the
 * kernels that programs registered. Everything else is in the driver.
 */
#ifndef CUDART_RUNTIME_H
#define CUDART_RUNTIME_H

#include "types.h"

#include <stdbool.h>

#define API __attribute__((visibility("default")))

typedef int cudaError_t;

enum {
#define ERROR(name, number, description) name = number,
#include "errors.h"
#undef ERROR
};

/* The driver's functions, of ../../entry_points.txt. A function that this driver lacks is NULL:
 * CALL returns cudaErrorNotSupported for it.
 */
struct driver {
#define CUdeviceptr const void *
#define DRIVER_FUNCTION(name, parameters) int(*name) parameters;
#include "driver_functions.h"
#undef DRIVER_FUNCTION
#undef CUdeviceptr
};
extern struct driver driver;

#define CALL(name, ...) (driver.name != NULL ? driver.name(__VA_ARGS__) : cudaErrorNotSupported)

/* Each returns the runtime's error that stops the caller, or cudaSuccess, and records none. */
cudaError_t need_library(void);                               /* libcuda.so.1 is loaded */
cudaError_t need_driver(void);                                /* and new enough, and initialised */
cudaError_t need_context(void);                               /* and a context is current */
cudaError_t device_handle(int ordinal, CUdevice *device);     /* the driver's name of a device */
cudaError_t primary_context(int ordinal, CUcontext *context); /* retained until cudaDeviceReset */
void forget_context(CUcontext context);                       /* its modules are gone */

/* Maps a CUresult to the runtime's number, makes it the thread's last error, and returns it. */
cudaError_t record(int result);

/* A context was reset: errors that had corrupted it are over. */
void end_sticky_errors(void);

/* At the head of most functions. */
#define NEED(what)                                                \
    do {                                                          \
        cudaError_t need_error = need_##what();                   \
        if (need_error != cudaSuccess) return record(need_error); \
    } while (0)

/* A function that calls one of the driver's, in the current context. `call`: (callee,
 * arguments...). */
#define CONTEXT_CALL(name, parameters, call) \
    API cudaError_t name parameters {        \
        NEED(context);                       \
        return record(CALL call);            \
    }

/* The same, of a function with `params` that the driver wants in another form, as `described`. */
#define DESCRIBED_CALL(name, parameters, type, describe, call)   \
    API cudaError_t name parameters {                            \
        struct type described;                                   \
        NEED(context);                                           \
        cudaError_t error = describe(&described, params);        \
        return record(error != cudaSuccess ? error : CALL call); \
    }

/* A function of unsupported.txt. It reads no argument, so its parameters need no declaration. */
#define NOT_SUPPORTED(name) \
    API cudaError_t name(void) { return record(cudaErrorNotSupported); }

#define JOIN_EXPANDED(a, b) a##b
#define JOIN(a, b) JOIN_EXPANDED(a, b)

/* Names whose meaning changed: 12 has old and new, 13 the new one under the old name. */
#if CUDART_MAJOR == 12
#define NEWER(name, suffix) JOIN(name, suffix)
#define ONLY_12(...) __VA_ARGS__
#define ONLY_13(...)
#else
#define NEWER(name, suffix) name
#define ONLY_12(...)
#define ONLY_13(...) __VA_ARGS__
#endif
#define ONLY_ANY(...) __VA_ARGS__

/* Copies, as the runtime describes them and as the driver takes them. */
cudaError_t describe_copy2d(struct driver_memcpy2d *out, void *dst, size_t dst_pitch,
                            const void *src, size_t src_pitch, size_t width, size_t height,
                            int kind);
cudaError_t describe_copy3d(struct driver_memcpy3d *out, const struct memcpy3d *copy);
cudaError_t describe_copy3d_peer(struct driver_memcpy3d *out, const struct memcpy3d_peer *copy);

/* Registered kernels and variables, by the address of their host side, in the current context. */
cudaError_t find_function(const void *host, CUfunction *function);
cudaError_t find_variable(const void *host, void **address, size_t *size);
const char *name_of_symbol(const void *host); /* NULL: not registered, or a handle */
cudaError_t find_kernel(const void *host, CUkernel *kernel);
const void *host_of_function(CUfunction function);
void remember_kernel(CUkernel kernel); /* may be launched by its handle from now on */

#endif
