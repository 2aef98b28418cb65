/*
 * forward.c: the functions that ../../entry_points.txt names beside those of the driver which they
 * call with the same arguments. Those that take a stream are in default_stream.c.
 */
#include "runtime.h"

#define CUdeviceptr const void *
#define FORWARD CONTEXT_CALL
/* Devices are named by ordinals. */
#define ON_DEVICE(device) \
    if (error == cudaSuccess) error = device_handle(device, &device);
#define DEVICE_FORWARD(name, parameters, call, devices)                  \
    API cudaError_t name parameters {                                    \
        cudaError_t error = need_driver();                               \
        devices return record(error != cudaSuccess ? error : CALL call); \
    }
#define STREAM_FORWARD(name, parameters, call)
#include "forwards.h"
