//! What `cai/driver.h` reports about the CUDA driver and about memory.

use std::ffi::{c_char, c_void};

use super::core::cai_device;

/// Bytes of `cai_driver_info.path`, the terminating NUL included.
pub const CAI_DRIVER_PATH_SIZE: usize = 448;

/// The CUDA driver that the library found, filled by `cai_driver_info_get`.
///
/// The size never changes: later versions use reserved space, which is zero until then.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct cai_driver_info {
    /// Result of `cuDriverGetVersion`: 1000 times the major plus 10 times the minor version of
    /// CUDA.
    pub version: i32,
    /// Number of devices.
    pub devices: i32,
    /// Zero.
    pub reserved: [u64; 7],
    /// File of the driver, NUL-terminated; empty if the system does not know it.
    pub path: [c_char; CAI_DRIVER_PATH_SIZE],
}

/// Attributes of an address in the CUDA driver, filled by `cai_pointer_info_get`.
///
/// Memory that the driver does not know (`malloc`, the stack) is reported as host memory: its
/// device is `CAI_DEVICE_CPU`, and its allocation is not known.
///
/// The size never changes: later versions use reserved space, which is zero until then.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cai_pointer_info {
    /// Kind of memory (`CAI_DEVICE_CUDA`, `CAI_DEVICE_CUDA_HOST`, `CAI_DEVICE_CUDA_MANAGED` or
    /// `CAI_DEVICE_CPU`), and ordinal of the device that it was allocated for.
    pub device: cai_device,
    /// `CUcontext` that owns the memory. NULL for memory that belongs to a device: from pools and
    /// from the virtual memory functions.
    pub context: *mut c_void,
    /// Address for kernels of the calling thread's current context, or NULL if they have none. It
    /// differs from the queried address for some registered host memory.
    pub device_pointer: *mut c_void,
    /// Address for the host, or NULL if the host cannot access the memory.
    pub host_pointer: *mut c_void,
    /// Start of the allocation, or NULL if not known.
    pub base: *mut c_void,
    /// Bytes of the allocation, or 0 if not known.
    pub size: u64,
    /// Number that no other allocation of this process ever has, or 0 if there is none. It
    /// distinguishes an allocation from a later one at the same address.
    pub buffer_id: u64,
    /// `CUmemoryPool` of the memory, or NULL.
    pub pool: *mut c_void,
    /// True if the host can access the memory.
    pub host_accessible: bool,
    /// True for managed memory, which migrates.
    pub managed: bool,
    /// True if the address is backed by memory. A reserved address range need not be.
    pub mapped: bool,
    /// Zero.
    pub reserved: [u8; 61],
}

layout! { cai_driver_info: 512; path 64 }
layout! { cai_pointer_info: 128; context 8, device_pointer 16, host_accessible 64 }
