//! Failures as Python exceptions.

use std::ffi::CStr;

use crate::abi::{self, cai_error, cai_status};
use crate::error::{Failure, Shown, Text};
use crate::python::py::{Exception, Py, python_exception};

// EXCEPTIONS: those that the comments of statuses name.
include!(concat!(env!("OUT_DIR"), "/exceptions.rs"));

/// Returns the exception for a status: its own, or that of its hundred.
fn exception_of(status: cai_status) -> Exception {
    if let Some(&(_, own)) = EXCEPTIONS.iter().find(|(of, _)| *of == status) {
        return own;
    }
    match status / 100 {
        7 => Exception::Buffer,
        3 | 4 | 6 => Exception::Runtime,
        _ => Exception::Value,
    }
}

fn set(py: Py, exception: Exception, error: &cai_error) {
    // SAFETY: the message is NUL-terminated by the contract of `cai_error`.
    let message = unsafe { CStr::from_ptr(error.message.as_ptr()) };
    let text: Text<{ abi::CAI_ERROR_MESSAGE_SIZE }> =
        Text::new(format_args!("{}", Shown(message.to_bytes())));
    py.set_exception(exception, text.as_str().as_bytes());
}

/// Sets the exception for a failure that was reported to a caller.
pub fn raise(error: &cai_error) {
    // A function that returns NULL must have set an exception.
    if error.code == abi::CAI_OK || error.code == abi::CAI_ERR_PYTHON_EXCEPTION {
        return raise_nothing();
    }
    // Without an interpreter there is no exception to set.
    let _ = Py::with(|py| {
        if !py.has_exception() {
            set(py, exception_of(error.code), error);
        }
        Ok(())
    });
}

/// Sets SystemError: an exception was requested without a failure.
pub fn raise_nothing() {
    const TEXT: &[u8] = b"an exception was requested for a call of libcai that did not fail";
    let _ = Py::with(|py| {
        if !py.has_exception() {
            py.set_exception(Exception::System, TEXT);
        }
        Ok(())
    });
}

pub fn raise_failure(failure: &Failure) {
    raise(&failure.to_error());
}

/// Sets another exception with a failure's message, unless one is set already or memory is missing.
#[cold]
pub fn raise_as(py: Py, exception: Exception, failure: Failure) -> Failure {
    if matches!(failure.status(), abi::CAI_ERR_PYTHON_EXCEPTION | abi::CAI_ERR_NO_MEMORY) {
        return failure;
    }
    set(py, exception, &failure.to_error());
    python_exception()
}
