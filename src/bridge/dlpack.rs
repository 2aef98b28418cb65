//! DLPack.
use crate::abi::{DLManagedTensor, DLManagedTensorVersioned, cai_array};
use crate::error::{Result, fail};
pub unsafe fn from_versioned(
    _: *mut DLManagedTensorVersioned,
    _stream: u64,
    _size: usize,
) -> Result<cai_array> {
    fail!(CAI_ERR_INTERNAL, "x"; found "x"; expected "x")
}
pub unsafe fn from_unversioned(_: *mut DLManagedTensor, _stream: u64, _size: usize) -> Result<cai_array> {
    fail!(CAI_ERR_INTERNAL, "x"; found "x"; expected "x")
}
pub unsafe fn to_versioned(_: &cai_array, _flags: u32) -> Result<*mut DLManagedTensorVersioned> {
    fail!(CAI_ERR_INTERNAL, "x"; found "x"; expected "x")
}
pub unsafe fn to_unversioned(_: &cai_array, _flags: u32) -> Result<*mut DLManagedTensor> {
    fail!(CAI_ERR_INTERNAL, "x"; found "x"; expected "x")
}
