//! What a device type implies: CUDA streams, an address or a handle.
//!
//! May use: `abi`.
//! Unsafe: none.

use crate::abi;

/// Types of device whose data has an address that CUDA may know.
const CUDA: u32 =
    1 << abi::CAI_DEVICE_CUDA | 1 << abi::CAI_DEVICE_CUDA_HOST | 1 << abi::CAI_DEVICE_CUDA_MANAGED;

#[inline]
fn is_in(set: u32, device_type: i32) -> bool {
    matches!(device_type, 0..32) && set >> device_type & 1 == 1
}

/// Returns true if work on the data of this device type is enqueued on CUDA streams.
#[inline]
pub fn is_cuda(device_type: i32) -> bool {
    is_in(CUDA, device_type)
}

/// Returns true for the unknown device and those that DLPack defines, 1 to 18.
#[inline]
pub fn is_defined(device_type: i32) -> bool {
    matches!(device_type, 0..=18)
}

/// Returns true for the devices of CUDA and for the unknown device, which CUDA may know.
#[inline]
pub fn may_be_cuda(device_type: i32) -> bool {
    is_in(CUDA | 1 << abi::CAI_DEVICE_UNKNOWN, device_type)
}

/// Returns true if the data of this device type is behind a handle instead of at an address.
pub fn is_opaque(device_type: i32) -> bool {
    const VULKAN: i32 = 7;
    const METAL: i32 = 8;
    const WEBGPU: i32 = 15;
    matches!(device_type, abi::CAI_DEVICE_OPENCL | VULKAN | METAL | WEBGPU)
}
