//! The exchange table of Python types, for C.

use super::super::python::with_exception;
use crate::abi::{_object, cai_error, cai_status, cai_unstable_exchange_api};
use crate::argument::Out;
use crate::error::Failure;
use crate::python::{self, Obj, Py};

/// Publishes an exchange table on a Python type, as its attribute `__cai_exchange_api__`. From then
/// on, `cai_array_from_python` of any copy of this library imports objects of the type, and of
/// derived types, through the table.
///
/// `type`: a `PyTypeObject *` that allows new attributes: a heap type, as pybind11, nanobind and
/// `PyType_FromSpec` make them.
/// `table`: constant as long as the process lives.
///
/// On failure a Python exception is set if there is an interpreter.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_TYPE`, `CAI_ERR_EXCHANGE_TABLE`,
/// `CAI_ERR_NO_PYTHON`, `CAI_ERR_PYTHON_VERSION`, `CAI_ERR_PYTHON_LOCK`, `CAI_ERR_PYTHON_EXCEPTION`
/// or `CAI_ERR_NO_MEMORY`.
/// Thread safety: any thread that holds the interpreter's lock.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_python_publish(
    r#type: *mut _object,
    table: *const cai_unstable_exchange_api,
    error: *mut cai_error,
) -> cai_status {
    // SAFETY: the caller passes what the header requires.
    let (object, error) = unsafe { (Obj::from_ptr(r#type), Out::new(error)) };
    with_exception(error, &mut true, |_| {
        let object = object.ok_or_else(|| Failure::null("type"))?;
        if table.is_null() {
            return Err(Failure::null("table"));
        }
        // SAFETY: the header requires a constant table.
        Py::with(|py| unsafe { python::publish(py, object, table) })
    })
}
