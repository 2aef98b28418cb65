/*
 * cai/driver.h: what the CUDA driver knows about itself and about memory.
 *
 *     #include <cai/cai.h>
 *     #include <stdio.h>
 *
 *     int main(void) {
 *         cai_driver_info driver;
 *         cai_pointer_info memory;
 *         cai_error error;
 *         if (cai_driver_info_get(&driver, &error) == CAI_OK) {
 *             printf("CUDA %d, devices: %d\n", driver.version / 1000, driver.devices);
 *         } else {
 *             puts(error.message); // without a driver, everything that needs none still works
 *         }
 *         if (cai_pointer_info_get(&driver, &memory, &error) == CAI_OK) {
 *             printf("device type %d\n", memory.device.type);
 *         } else {
 *             puts(error.message); // memory of the host that CUDA does not know
 *         }
 *         return 0;
 *     }
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 * Generated from the sources of libcai: do not edit.
 */
#ifndef CAI_DRIVER_H
#define CAI_DRIVER_H

#include "status.h"
#if CAI_ABI_H_VERSION < 0x10000
#error "an older copy of cai/abi.h was included before cai/driver.h: include the newest one first"
#endif

#include <stdbool.h>

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct cai_driver_info cai_driver_info;
typedef struct cai_pointer_info cai_pointer_info;

/// Bytes of `cai_driver_info.path`, the terminating NUL included.
#define CAI_DRIVER_PATH_SIZE 448

/// The CUDA driver that the library found, filled by `cai_driver_info_get`.
///
/// The size never changes: later versions use reserved space, which is zero until then.
struct cai_driver_info {
    /// Result of `cuDriverGetVersion`: 1000 times the major plus 10 times the minor version of
    /// CUDA.
    int32_t version;
    /// Number of devices.
    int32_t devices;
    /// Zero.
    uint64_t reserved[7];
    /// File of the driver, NUL-terminated; empty if the system does not know it.
    char path[CAI_DRIVER_PATH_SIZE];
};

/// Attributes of an address in the CUDA driver, filled by `cai_pointer_info_get`.
///
/// Memory that the driver does not know (`malloc`, the stack) is reported as host memory: its
/// device is `CAI_DEVICE_CPU`, and its allocation is not known.
///
/// The size never changes: later versions use reserved space, which is zero until then.
struct cai_pointer_info {
    /// Kind of memory (`CAI_DEVICE_CUDA`, `CAI_DEVICE_CUDA_HOST`, `CAI_DEVICE_CUDA_MANAGED` or
    /// `CAI_DEVICE_CPU`), and ordinal of the device that it was allocated for.
    cai_device device;
    /// `CUcontext` that owns the memory. NULL for memory that belongs to a device: from pools and
    /// from the virtual memory functions.
    void *context;
    /// Address for kernels of the calling thread's current context, or NULL if they have none. It
    /// differs from the queried address for some registered host memory.
    void *device_pointer;
    /// Address for the host, or NULL if the host cannot access the memory.
    void *host_pointer;
    /// Start of the allocation, or NULL if not known.
    void *base;
    /// Bytes of the allocation, or 0 if not known.
    uint64_t size;
    /// Number that no other allocation of this process ever has, or 0 if there is none. It
    /// distinguishes an allocation from a later one at the same address.
    uint64_t buffer_id;
    /// `CUmemoryPool` of the memory, or NULL.
    void *pool;
    /// True if the host can access the memory.
    bool host_accessible;
    /// True for managed memory, which migrates.
    bool managed;
    /// True if the address is backed by memory. A reserved address range need not be.
    bool mapped;
    /// Zero.
    uint8_t reserved[61];
};

/// Reports which CUDA driver the library uses: `libcuda.so.1`, or the file that the environment
/// variable `CAI_CUDA_DRIVER` names. Loads and starts it (`cuInit`) if no function has done so, and
/// creates no context.
///
/// No call is required: every function that needs the driver finds it. Without a driver, such
/// functions return `CAI_ERR_NO_DRIVER` and search again at the next call; all other functions
/// work.
///
/// `out`: needs no initialization; written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or a status that any call of the driver can cause:
/// `CAI_ERR_NO_DRIVER`, `CAI_ERR_DRIVER_FUNCTION`, `CAI_ERR_FORKED` in a child of `fork`,
/// `CAI_ERR_DRIVER_EXIT`, `CAI_ERR_DEVICE_LOST`, `CAI_ERR_CONTEXT_DESTROYED`, `CAI_ERR_NO_CONTEXT`,
/// `CAI_ERR_STREAM_HANDLE`, `CAI_ERR_STREAM_DETACHED`, `CAI_ERR_CAPTURE_INVALIDATED`,
/// `CAI_ERR_CAPTURE_MERGE`, `CAI_ERR_CAPTURE_LEGACY`, `CAI_ERR_CAPTURE`, `CAI_ERR_NO_MEMORY`, or
/// `CAI_ERR_DRIVER`, each with the driver's code in `driver_code`.
/// Thread safety: any thread; allocates while it loads the driver.
CAI_API cai_status cai_driver_info_get(cai_driver_info *out, cai_error *error);

/// Reports what the CUDA driver knows about an address, which may be inside an allocation: kind of
/// memory, device, owning context, addresses for the device and the host, and the allocation.
///
/// Memory that the driver does not know is reported as host memory (`CAI_DEVICE_CPU`), not as a
/// failure. Memory that was passed to `cuMemFreeAsync` must not be queried.
///
/// `out`: needs no initialization; written on success only.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, or a status of `cai_driver_info_get`.
/// Thread safety: any thread; needs no current context; allocates nothing. Source: CAI version 3,
/// "Pointer Attributes"; `cuPointerGetAttributes`, `cuMemGetAddressRange`.
CAI_API
cai_status cai_pointer_info_get(const void *pointer,
                                cai_pointer_info *out,
                                cai_error *error);

#if defined(__cplusplus)
}
#endif

#endif /* CAI_DRIVER_H */
