//! Failures as Python exceptions.
//!
//! May use: `abi`, `error`; of this folder `capi`, `interpreter`. `unsafe`: calls CPython with its lock held.

use std::ffi::CStr;

use super::capi::{Capi, Object};
use super::interpreter::{Py, raised};
use crate::abi::{self, cai_error, cai_status};
use crate::error::Failure;

/// The exception that a status belongs to.
fn exception_of(capi: &Capi, status: cai_status) -> *mut Object {
    let place = match status {
        abi::CAI_ERR_KEY => capi.key_error,
        abi::CAI_ERR_TYPE | abi::CAI_ERR_NO_PROTOCOL => capi.type_error,
        abi::CAI_ERR_READONLY | 700..=799 => capi.buffer_error,
        abi::CAI_ERR_NO_MEMORY => capi.memory_error,
        abi::CAI_ERR_INTERNAL => capi.system_error,
        300..=499 | 600..=699 => capi.runtime_error,
        _ => capi.value_error,
    };
    // SAFETY: a place that CPython keeps an exception in.
    unsafe { *place }
}

fn set(py: Py, exception: *mut Object, message: &[u8]) {
    // Where there is no memory for the text, the exception that says so is set already.
    if let Ok(text) = py.string(String::from_utf8_lossy(message).as_bytes()) {
        // SAFETY: the lock is held.
        unsafe { (py.capi().error_set)(exception, text.get()) };
    }
}

/// Sets the exception of a failure that was reported to a caller.
pub fn raise(error: &cai_error) {
    if error.code == abi::CAI_OK || error.code == abi::CAI_ERR_PYTHON_EXCEPTION {
        return;
    }
    let Ok(py) = Py::here() else { return };
    if py.has_exception() {
        return;
    }
    // SAFETY: terminated, by whoever filled it.
    let message = unsafe { CStr::from_ptr(error.message.as_ptr()) };
    set(py, exception_of(py.capi(), error.code), message.to_bytes());
}

/// Sets the exception of a failure.
pub fn raise_failure(failure: &Failure) {
    raise(&failure.to_error());
}

/// Sets another exception with the words of a failure.
pub fn raise_as(py: Py, exception: *mut Object, failure: &Failure) -> Failure {
    let error = failure.to_error();
    // SAFETY: filled just now.
    let message = unsafe { CStr::from_ptr(error.message.as_ptr()) };
    set(py, exception, message.to_bytes());
    match raised::<()>() {
        Err(failure) => failure,
        Ok(()) => Failure::no_memory(0),
    }
}
