//! DLPack's exchange table, which types publish in an attribute.

use std::ffi::{c_char, c_int, c_void};

use super::abi::Tensor;
use crate::abi::DLManagedTensorVersioned;

pub(crate) const MAJOR: u32 = 1;
/// Minor version of the table that this library publishes.
pub(crate) const MINOR: u32 = 3;

/// Reports an error of the allocator: its kind and its message.
pub(crate) type SetError = unsafe extern "C-unwind" fn(*mut c_void, *const c_char, *const c_char);

/// `DLPackExchangeAPI` of DLPack 1.3.
#[repr(C)]
pub(crate) struct ExchangeTable {
    pub major: u32,
    pub minor: u32,
    /// An older version of the table, or NULL.
    pub previous: *const ExchangeTable,
    /// Allocates a tensor like a prototype.
    pub allocator: Option<
        unsafe extern "C-unwind" fn(
            *mut c_void,
            *mut *mut c_void,
            *mut c_void,
            Option<SetError>,
        ) -> c_int,
    >,
    /// Makes an owned tensor from a Python object.
    pub from_object: Option<
        unsafe extern "C-unwind" fn(*mut c_void, *mut *mut DLManagedTensorVersioned) -> c_int,
    >,
    pub to_object: Option<
        unsafe extern "C-unwind" fn(*mut DLManagedTensorVersioned, *mut *mut c_void) -> c_int,
    >,
    /// Makes a borrowed tensor from a Python object.
    pub view: Option<unsafe extern "C-unwind" fn(*mut c_void, *mut Tensor) -> c_int>,
    /// The stream that the producer currently works on.
    pub current_stream: Option<unsafe extern "C-unwind" fn(i32, i32, *mut *mut c_void) -> c_int>,
}

// SAFETY: a table is constant once it is published; nothing writes through a shared reference.
unsafe impl Sync for ExchangeTable {}
