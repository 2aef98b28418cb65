//! The exchange table of Python types, for C.

use super::super::python::with_exception;
use crate::abi::{_object, cai_error, cai_status, cai_unstable_exchange_api};
use crate::argument::{Out, arguments};
use crate::error::Failure;
use crate::python::{self, Obj, Owned, Py};

/// Publishes an exchange table on a Python type, as its attribute `__cai_exchange_api__`. From then
/// on, `cai_array_from_python` of any copy of this library imports objects of the type, and of
/// derived types, through the table.
///
/// `type`: a `PyTypeObject *` that allows new attributes: a heap type, as pybind11, nanobind and
/// `PyType_FromSpec` make them. For others, such as Cython's: `cai_unstable_python_table`.
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
    arguments!(object: Obj(r#type), error: Out);
    with_exception(error, &mut true, |_| {
        let object = object.ok_or_else(|| Failure::null("type"))?;
        if table.is_null() {
            return Err(Failure::null("table"));
        }
        // SAFETY: the header requires a constant table.
        Py::with(|py| unsafe { python::publish(py, object, table) })
    })
}

/// Makes the value of the attribute `__cai_exchange_api__`, for a type that allows no new
/// attributes, a static type: the type has the value in its body (a `cdef class` of Cython), or in
/// `tp_dict` before its first use. It then works as after `cai_unstable_python_publish`. The value is
/// a capsule named `cai_exchange_api_1`, whose number is `CAI_DATA_ABI`.
///
/// `table`: constant as long as the process lives.
/// `out`: a new reference, on success only.
///
/// On failure a Python exception is set if there is an interpreter.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_EXCHANGE_TABLE`, `CAI_ERR_NO_PYTHON`,
/// `CAI_ERR_PYTHON_VERSION`, `CAI_ERR_PYTHON_LOCK`, `CAI_ERR_PYTHON_EXCEPTION` or
/// `CAI_ERR_NO_MEMORY`.
/// Thread safety: any thread that holds the interpreter's lock.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_python_table(
    table: *const cai_unstable_exchange_api,
    out: *mut *mut _object,
    error: *mut cai_error,
) -> cai_status {
    arguments!(out: Out, error: Out);
    with_exception(error, &mut true, |_| {
        let out = out.given("out")?;
        if table.is_null() {
            return Err(Failure::null("table"));
        }
        // SAFETY: the header requires a constant table.
        let made = Py::with(|py| unsafe { python::table_capsule(py, table) }.map(Owned::into_raw));
        out.write(made?);
        Ok(())
    })
}
