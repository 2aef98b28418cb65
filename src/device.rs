//! Properties of device types: streams of CUDA or HIP, an address or a handle.

use std::fmt;

use crate::abi::{self, cai_device};

// Sets of device types and their names, made by the build script from `src/abi/devices.txt`.
include!(concat!(env!("OUT_DIR"), "/device_table.rs"));

const fn is_in(set: u32, device_type: i32) -> bool {
    matches!(device_type, 0..32) && set >> device_type & 1 == 1
}

/// Returns true for the unknown device and for the device types of DLPack.
pub fn is_type(device_type: i32) -> bool {
    (0..=LAST).contains(&device_type)
}

/// Returns true if work on the data of this device type is enqueued on CUDA streams.
pub fn is_cuda(device_type: i32) -> bool {
    is_in(CUDA, device_type)
}

/// Returns true if the data of this device type is certainly at an address, or the device unknown.
pub fn is_addressed(device_type: i32) -> bool {
    is_in(ADDRESSES, device_type)
}

/// Returns true if work on the data of this device type is enqueued on HIP streams.
pub fn is_rocm(device_type: i32) -> bool {
    is_in(HIP, device_type)
}

/// Returns true if this library can order the streams of this device type.
pub fn has_streams(device_type: i32) -> bool {
    is_in(CUDA | HIP | 1 << abi::CAI_DEVICE_UNKNOWN, device_type)
}

/// Returns true for the devices of CUDA and for the unknown device, which CUDA may know.
pub fn may_be_cuda(device_type: i32) -> bool {
    is_in(CUDA | 1 << abi::CAI_DEVICE_UNKNOWN, device_type)
}

/// Returns true if a negative number is a valid one: any number of an unknown device, and -1 for a
/// device whose number is not known. The numbers of CUDA's devices are known, and the host has one.
pub fn may_have_id(device: cai_device) -> bool {
    device.r#type == abi::CAI_DEVICE_UNKNOWN
        || (device.id == -1 && !is_in(CUDA | 1 << abi::CAI_DEVICE_CPU, device.r#type))
}

/// Returns true if code on the device of an array can read memory on another device, such as that
/// of the array's mask. That of another CUDA device is refused, because the array does not state
/// whether peer access is enabled. Memory on an unknown device is the producer's responsibility; an array on
/// an unknown device is in memory that CUDA's devices can read.
pub fn can_read(array: cai_device, memory: cai_device) -> bool {
    match (array.r#type, memory.r#type) {
        (_, abi::CAI_DEVICE_UNKNOWN) => true,
        (abi::CAI_DEVICE_CPU, abi::CAI_DEVICE_CUDA_HOST | abi::CAI_DEVICE_CUDA_MANAGED) => true,
        (abi::CAI_DEVICE_CUDA, abi::CAI_DEVICE_CUDA) => array.id == memory.id,
        (of, to) if may_be_cuda(of) => is_cuda(to),
        // A number that is not known may be that of the same device.
        (of, to) => of == to && (array.id == memory.id || array.id < 0 || memory.id < 0),
    }
}

/// Returns true if the data of this device type is behind a handle instead of at an address.
pub fn is_opaque(device_type: i32) -> bool {
    is_in(HANDLES, device_type)
}

/// Returns true if the host can read the data of this device type, which belongs to no device.
pub const fn is_host(device_type: i32) -> bool {
    is_in(HOST, device_type)
}

/// A device type by name, for messages and attributes.
pub struct Name(pub i32);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match usize::try_from(self.0).ok().and_then(|index| NAMES.get(index)) {
            Some(name) if !name.is_empty() => f.write_str(name),
            _ => write!(f, "device type {}", self.0),
        }
    }
}
