//! DLPack's structures.

use std::ffi::c_void;
use std::mem::size_of;

use crate::abi;

pub(crate) const DIMENSIONS: usize = abi::CAI_MAX_NDIM as usize;

/// `DLDataType`: the element type.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataType {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}

/// `DLTensor`: a tensor without an owner.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Tensor {
    pub data: *mut c_void,
    pub device_type: i32,
    pub device_id: i32,
    pub ndim: i32,
    pub dtype: DataType,
    pub shape: *mut i64,
    /// In elements.
    pub strides: *mut i64,
    pub byte_offset: u64,
}

/// `DLPackVersion`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
}

/// A deleter, which takes the managed tensor itself, or any function like it.
pub type Deleter = Option<unsafe extern "C-unwind" fn(*mut c_void)>;

/// `DLManagedTensorVersioned`.
#[repr(C)]
pub struct Versioned {
    pub version: Version,
    pub manager_ctx: *mut c_void,
    pub deleter: Deleter,
    pub flags: u64,
    pub tensor: Tensor,
}

/// `DLManagedTensor`.
#[repr(C)]
pub struct Unversioned {
    pub tensor: Tensor,
    pub manager_ctx: *mut c_void,
    pub deleter: Deleter,
}

const _: () = assert!(size_of::<DataType>() == 4);
const _: () = assert!(size_of::<Tensor>() == 48);
const _: () = assert!(size_of::<Versioned>() == 80);
const _: () = assert!(size_of::<Unversioned>() == 64);

/// The version that this file implements. Other minor versions have the same layout.
pub(crate) const VERSION: Version = Version { major: 1, minor: 3 };

pub(crate) const READ_ONLY: u64 = 1;

/// Only the consumer uses the data: set for copies. Has no effect on import.
pub(crate) const IS_COPIED: u64 = 2;

/// Elements of less than a byte occupy one byte each.
pub(crate) const PADDED: u64 = 4;

impl Tensor {
    pub fn has_data(&self) -> bool {
        !self.data.is_null()
    }

    pub fn device(&self) -> (i32, i32) {
        (self.device_type, self.device_id)
    }
}
