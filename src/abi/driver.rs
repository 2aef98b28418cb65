//! What the CUDA driver says about itself and about memory.

use std::ffi::{c_char, c_void};
use std::mem::{offset_of, size_of};

use super::array::cai_device;

/// Bytes of `cai_driver_info.path`, the terminating NUL included.
pub const CAI_DRIVER_PATH_SIZE: usize = 240;

/// The CUDA driver that the library found. Its layout never changes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct cai_driver_info {
    /// What `cuDriverGetVersion` says: 1000 times the major plus 10 times the minor version of CUDA.
    pub version: i32,
    /// Number of devices.
    pub devices: i32,
    /// Whether it is the simulated driver of this project.
    pub simulated: bool,
    /// Zero.
    pub reserved: [u8; 7],
    /// The file, NUL-terminated; empty where the system does not say.
    pub path: [c_char; CAI_DRIVER_PATH_SIZE],
}

/// What the CUDA driver knows about an address: what "Pointer Attributes" of the specification names, and what
/// goes with it. Its layout never changes.
///
/// Memory of another kind than the driver's own (`malloc`, the stack) is a host address: its device is
/// `CAI_DEVICE_CPU` and its allocation is not known.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cai_pointer_info {
    /// The kind of memory: `CAI_DEVICE_CUDA`, `CAI_DEVICE_CUDA_HOST` (page-locked or registered),
    /// `CAI_DEVICE_CUDA_MANAGED` or `CAI_DEVICE_CPU`; and the ordinal of the device that it was allocated for.
    pub device: cai_device,
    /// The `CUcontext` that owns it. NULL where none does: memory from pools and from the virtual memory
    /// functions belongs to a device.
    pub context: *mut c_void,
    /// The address for kernels of the current context; NULL where they have none. It differs from the host's
    /// only for some registered memory.
    pub device_pointer: *mut c_void,
    /// The address for the host; NULL where the host cannot reach it.
    pub host_pointer: *mut c_void,
    /// Where the allocation begins; NULL where that is not known.
    pub base: *mut c_void,
    /// Bytes of the allocation; 0 where that is not known.
    pub size: u64,
    /// A number that no other allocation of this process ever has; 0 where there is none. It tells an allocation from a later one at the
    /// same address.
    pub buffer_id: u64,
    /// The `CUmemoryPool` that it came from, or NULL.
    pub pool: *mut c_void,
    /// Whether the host can reach it.
    pub host_accessible: bool,
    /// Whether it is managed memory, which migrates.
    pub managed: bool,
    /// Whether the address is backed by memory (reserved addresses without any are not).
    pub mapped: bool,
    /// Zero.
    pub reserved: [u8; 5],
}

const _: () = assert!(size_of::<cai_driver_info>() == 256);
const _: () = assert!(offset_of!(cai_driver_info, path) == 16);
const _: () = assert!(size_of::<cai_pointer_info>() == 72);
const _: () = assert!(offset_of!(cai_pointer_info, host_accessible) == 64);
