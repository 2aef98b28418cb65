//! Structure of `cai/unstable/exchange.h`.

use super::super::core::{cai_array, cai_status};
use super::super::python::_object;
use super::super::status::cai_error;

/// Table of functions that a Python type publishes with `cai_unstable_python_publish` or
/// `cai_unstable_python_table`, so that compiled code exchanges its objects without Python calls. It
/// is constant and lives as long as the process.
///
/// The functions are called with the interpreter's lock held. If they fail they may set a Python
/// exception, which is then passed on.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct cai_unstable_exchange_api {
    /// `sizeof(cai_unstable_exchange_api)` of the publisher's header; at least 24.
    pub struct_size: u32,
    /// `CAI_DATA_ABI` of the publisher's header. A table with another number is not used.
    pub data_abi: u32,
    /// Describes an object of the type, or of a derived type, in `out`, which is initialized
    /// (`CAI_ARRAY_INIT`) and gets a reference of its own. It orders nothing: `out` names the
    /// stream.
    pub from_object: Option<
        unsafe extern "C-unwind" fn(
            object: *mut _object,
            out: *mut cai_array,
            error: *mut cai_error,
        ) -> cai_status,
    >,
    /// NULL, or makes a new object of the type that holds a reference of its own to the array.
    pub to_object: Option<
        unsafe extern "C-unwind" fn(
            array: *const cai_array,
            out: *mut *mut _object,
            error: *mut cai_error,
        ) -> cai_status,
    >,
}

layout! { cai_unstable_exchange_api: 24 }
