//! DLPack's structures, and access to the tensor and the deleter inside them.

use std::ffi::c_void;
use std::mem::{offset_of, size_of};

use crate::abi::{self, DLManagedTensor, DLManagedTensorVersioned};
use crate::error::{Result, fail};

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

const _: () = assert!(offset_of!(Tensor, device_type) == 8);

const _: () = assert!(offset_of!(Tensor, ndim) == 16);

const _: () = assert!(offset_of!(Tensor, dtype) == 20);

const _: () = assert!(offset_of!(Tensor, shape) == 24);

const _: () = assert!(offset_of!(Tensor, strides) == 32);

const _: () = assert!(offset_of!(Tensor, byte_offset) == 40);

const _: () = assert!(size_of::<Versioned>() == 80);

const _: () = assert!(offset_of!(Versioned, manager_ctx) == 8);

const _: () = assert!(offset_of!(Versioned, deleter) == 16);

const _: () = assert!(offset_of!(Versioned, flags) == 24);

const _: () = assert!(offset_of!(Versioned, tensor) == 32);

const _: () = assert!(size_of::<Unversioned>() == 64);

const _: () = assert!(offset_of!(Unversioned, manager_ctx) == 48);

const _: () = assert!(offset_of!(Unversioned, deleter) == 56);

/// The version that this file implements. Other minor versions have the same layout.
pub(crate) const VERSION: Version = Version { major: 1, minor: 3 };

pub(crate) const READ_ONLY: u64 = 1;

/// Only the consumer uses the data: set for copies. Has no effect on import.
pub(crate) const IS_COPIED: u64 = 2;

/// Elements of less than a byte occupy one byte each.
pub(crate) const PADDED: u64 = 4;

impl Tensor {
    /// Returns true if the tensor has an address.
    pub fn has_data(&self) -> bool {
        !self.data.is_null()
    }

    /// Returns device type and id.
    pub fn device(&self) -> (i32, i32) {
        (self.device_type, self.device_id)
    }
}

/// Returns the tensor inside a versioned one, and its flags.
///
/// # Safety
/// `tensor` points to a live managed tensor.
#[inline(always)]
pub unsafe fn inside_versioned(
    tensor: *const DLManagedTensorVersioned,
) -> Result<(*const Tensor, u64)> {
    let managed = tensor.cast::<Versioned>();
    // SAFETY: the version is the first member in every version of the structure; no reference to
    // the whole is made.
    let version = unsafe { (&raw const (*managed).version).read() };
    if version.major != VERSION.major {
        return other_version(version);
    }
    // SAFETY: the major version, checked above, has these members at these offsets.
    Ok(unsafe { (&raw const (*managed).tensor, (&raw const (*managed).flags).read()) })
}

#[cold]
#[inline(never)]
fn other_version<T>(version: Version) -> Result<T> {
    fail!(
        CAI_ERR_DLPACK_VERSION,
        "version",
        found = ("{}.{}", version.major, version.minor),
        expected = ("{}, with any minor number", VERSION.major)
    )
}

/// Returns the tensor inside one without a version.
///
/// # Safety
/// `tensor` points to a live managed tensor.
pub unsafe fn inside_unversioned(tensor: *const DLManagedTensor) -> *const Tensor {
    // SAFETY: the tensor is live (this function's contract); only an address is computed.
    unsafe { &raw const (*tensor.cast::<Unversioned>()).tensor }
}

/// States that the tensor is a copy that only its consumer uses.
///
/// # Safety
/// `tensor` points to a live managed tensor that the caller owns.
pub unsafe fn mark_copied(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: the tensor is live and owned (this function's contract).
    unsafe { (*tensor.cast::<Versioned>()).flags |= IS_COPIED };
}

/// Returns the deleter of a versioned tensor.
///
/// # Safety
/// `tensor` points to a live managed tensor.
pub unsafe fn deleter_versioned(tensor: *const DLManagedTensorVersioned) -> Deleter {
    // SAFETY: the deleter has this offset in every version, and the tensor is live (this function's
    // contract).
    unsafe { (&raw const (*tensor.cast::<Versioned>()).deleter).read() }
}

/// Returns the deleter of a tensor without a version.
///
/// # Safety
/// As for [`deleter_versioned`].
pub unsafe fn deleter_unversioned(tensor: *const DLManagedTensor) -> Deleter {
    // SAFETY: the tensor is live (this function's contract).
    unsafe { (&raw const (*tensor.cast::<Unversioned>()).deleter).read() }
}

/// Calls the deleter of a versioned tensor.
///
/// # Safety
/// `tensor` points to a live managed tensor that the caller owns. It must not be used afterwards.
pub unsafe fn delete_versioned(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: the tensor is live (this function's contract).
    if let Some(deleter) = unsafe { deleter_versioned(tensor) } {
        // SAFETY: the deleter belongs to this tensor, and the caller gives the tensor up (this
        // function's contract).
        unsafe { deleter(tensor.cast()) };
    }
}

/// Calls the deleter of a tensor without a version.
///
/// # Safety
/// As for [`delete_versioned`].
pub unsafe fn delete_unversioned(tensor: *mut DLManagedTensor) {
    // SAFETY: the tensor is live (this function's contract).
    if let Some(deleter) = unsafe { deleter_unversioned(tensor) } {
        // SAFETY: the deleter belongs to this tensor, and the caller gives the tensor up (this
        // function's contract).
        unsafe { deleter(tensor.cast()) };
    }
}
