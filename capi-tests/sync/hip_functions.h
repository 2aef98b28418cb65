/* The functions of HIP that the library looks for. */
#ifndef HIP_FUNCTIONS_H
#define HIP_FUNCTIONS_H

#define FUNCTIONS(X)                      \
    X(hipInit)                            \
    X(hipDriverGetVersion)                \
    X(hipDrvGetErrorName)                 \
    X(hipDrvGetErrorString)               \
    X(hipGetDeviceCount)                  \
    X(hipGetDevice)                       \
    X(hipSetDevice)                       \
    X(hipDeviceSynchronize)               \
    X(hipStreamGetDevice)                 \
    X(hipStreamGetFlags)                  \
    X(hipStreamWaitEvent)                 \
    X(hipStreamSynchronize)               \
    X(hipStreamIsCapturing)               \
    X(hipStreamGetCaptureInfo_v2)         \
    X(hipThreadExchangeStreamCaptureMode) \
    X(hipEventCreateWithFlags)            \
    X(hipEventDestroy)                    \
    X(hipEventRecord)                     \
    X(hipEventQuery)                      \
    X(hipEventSynchronize)                \
    X(hipUserObjectCreate)                \
    X(hipUserObjectRelease)               \
    X(hipGraphRetainUserObject)           \
    X(hipDrvPointerGetAttributes)

#endif
