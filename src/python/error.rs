//! Failures as Python exceptions.

use std::ffi::CStr;

use crate::abi::{self, cai_error, cai_status};
use crate::error::{Failure, Shown, Text};
use crate::python::capi::{Capi, Object};
use crate::python::interpreter::{Py, python_exception};

/// Returns the exception for a status.
fn kind_of(capi: &Capi, status: cai_status) -> *mut Object {
    let place = match status {
        abi::CAI_ERR_KEY => capi.key_error,
        abi::CAI_ERR_TYPE | abi::CAI_ERR_NO_PROTOCOL => capi.type_error,
        abi::CAI_ERR_READONLY | abi::CAI_ERR_UNSUPPORTED | 700..=799 => capi.buffer_error,
        abi::CAI_ERR_NO_MEMORY => capi.memory_error,
        abi::CAI_ERR_INTERNAL => capi.system_error,
        300..=499 | 600..=699 => capi.runtime_error,
        _ => capi.value_error,
    };
    // SAFETY: a variable that CPython keeps an exception in.
    unsafe { *place }
}

fn set(py: Py, exception: *mut Object, message: &[u8]) {
    // If there is no memory for the text, CPython has already set MemoryError.
    let text: Text<{ abi::CAI_ERROR_MESSAGE_SIZE }> = Text::new(format_args!("{}", Shown(message)));
    if let Ok(text) = py.string(text.as_str().as_bytes()) {
        // SAFETY: the GIL is held.
        unsafe { (py.capi().error_set)(exception, text.get()) };
    }
}

/// Sets the exception for a failure that was reported to a caller.
pub fn raise(error: &cai_error) {
    let Ok(py) = Py::here() else { return };
    if py.has_exception() {
        return;
    }
    // A function that returns NULL must have set an exception.
    if error.code == abi::CAI_OK || error.code == abi::CAI_ERR_PYTHON_EXCEPTION {
        return nothing_to_raise(py);
    }
    // SAFETY: the message is NUL-terminated by the contract of `cai_error`.
    let message = unsafe { CStr::from_ptr(error.message.as_ptr()) };
    set(py, kind_of(py.capi(), error.code), message.to_bytes());
}

/// Sets SystemError: an exception was requested without a failure.
pub fn raise_nothing() {
    if let Ok(py) = Py::here() {
        if !py.has_exception() {
            nothing_to_raise(py);
        }
    }
}

fn nothing_to_raise(py: Py) {
    // SAFETY: a variable that CPython keeps an exception in.
    set(
        py,
        unsafe { *py.capi().system_error },
        b"an exception was requested for a call of libcai that did not fail",
    );
}

/// Sets the exception for a failure.
pub fn raise_failure(failure: &Failure) {
    raise(&failure.to_error());
}

/// Sets another exception with the message of a failure.
pub fn raise_as(py: Py, exception: *mut Object, failure: &Failure) -> Failure {
    let error = failure.to_error();
    // SAFETY: `to_error` terminates the message.
    let message = unsafe { CStr::from_ptr(error.message.as_ptr()) };
    set(py, exception, message.to_bytes());
    python_exception()
}
