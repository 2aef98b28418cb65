//! Import and export of Python objects, for C.
//!
//! May use: `abi`, `error`, `ffi::guard`, `ffi::ptr`, `python`.
//! Unsafe: follows a caller's pointers, whose contract the C documentation states.

use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};

use super::guard::guard;
use super::ptr::{array, given, output_size, write_array};
use crate::abi::{
    self, _object, cai_array, cai_error, cai_exchange_api, cai_export_options, cai_import_options,
    cai_status,
};
use crate::error::{Failure, Result};
use crate::python::{self, Description, ImportOptions};

/// Describes a Python object that holds an array: of PyTorch, CuPy, Numba, JAX, or anything else that offers
/// `__cuda_array_interface__`, DLPack or one of their relatives. The array keeps the object, and its mask, alive.
///
/// The ways in are tried in order (`cai_import_options.protocols`): first the tables on the object's type, which
/// take nanoseconds, then the dictionary, then the others. The dictionary is read once and never changed. Only
/// AttributeError means that an object does not offer a protocol: any other exception of the producer's ends the
/// search and is passed on untouched; but a BufferError of `__dlpack__` only where no later protocol says more.
///
/// Nothing is ordered: the array says on which stream the producer's work may be pending, or that this is
/// unknown (`CAI_STREAM_UNKNOWN`: dictionaries of version 2 and earlier without `stream`). Call `cai_array_consume_begin`.
///
/// `object`: a `PyObject *`; the reference stays the caller's.
/// `options`: NULL: no demands.
/// `out`: must be initialized (`CAI_ARRAY_INIT`) and hold no reference, which would be lost. It passes
/// `cai_array_validate` with `CAI_CHECK_LAYOUT`. The reference may be released from any thread, with or without the
/// interpreter's lock. Without it, the object is handed to the interpreter, which lets it go when its main thread gets
/// to it, or at the next call of this function on any thread; so a release never waits. After the interpreter has ended,
/// nothing is done.
///
/// On failure a Python exception is set where there is an interpreter (not with `CAI_IMPORT_NO_EXCEPTION`): KeyError
/// for a missing key, TypeError for a wrong type, BufferError for what the options exclude, ValueError for the rest.
/// Its text begins with the key: `__cuda_array_interface__['shape'][1]: found -1, expected at least 0`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_NO_PYTHON`,
/// `CAI_ERR_PYTHON_VERSION`, `CAI_ERR_PYTHON_LOCK`, `CAI_ERR_PYTHON_EXCEPTION`, `CAI_ERR_NO_PROTOCOL`,
/// `CAI_ERR_KEY`, `CAI_ERR_TYPE`, `CAI_ERR_VALUE`, `CAI_ERR_EXCHANGE_TABLE`, `CAI_ERR_READONLY`, `CAI_ERR_NO_MEMORY`,
/// a status of the 7xx family, what `cai_array_validate` or `cai_array_from_dlpack` say, or, with `CAI_IMPORT_QUERY_DEVICE`, what
/// the driver may answer to any call.
/// Thread safety: any thread that holds the interpreter's lock (in a free-threaded build: that is attached);
/// another is answered `CAI_ERR_PYTHON_LOCK`. Allocates one block, and none where an earlier array's can be used again.
/// Source: CAI version 3, "Python Interface Specification"; DLPack 1.3; `__sycl_usm_array_interface__` version 1.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_from_python(
    object: *mut _object,
    options: *const cai_import_options,
    out: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    let mut raises = true;
    with_exception(error, &mut raises, |raises| {
        let Some(object) = NonNull::new(object) else { return Err(Failure::null("object")) };
        // SAFETY: the header requires of the caller what this function requires.
        let size = unsafe { output_size(out, "out") }?;
        let given;
        let import_options = if options.is_null() {
            &ImportOptions::NONE
        } else {
            // SAFETY: not NULL (checked above), with as many readable bytes as it states, as the
            // header requires.
            given = unsafe { ImportOptions::new(options) }?;
            &given
        };
        *raises = !import_options.quiet();
        let mut to = Description::new();
        // SAFETY: not NULL (checked above), and alive as the header requires.
        unsafe { python::import(object, import_options, size, &mut to) }?;
        // SAFETY: the caller's structure has `size` writable bytes, which it stated.
        unsafe { write_array(out, size, &to.array) };
        to.taken();
        Ok(())
    })
}

/// Makes a Python object of an array, for CuPy, Numba, PyTorch, JAX, cuDF and whoever else takes one: it offers
/// `__cuda_array_interface__` (or, by device, `__sycl_usm_array_interface__`, `__array_interface__` for host memory),
/// `__dlpack__` and `__dlpack_device__`, and the two exchange tables on its type. It holds a reference to the array's
/// owner until it is let go itself.
///
/// Each reading of a dictionary makes a new one: version 3, `strides` None exactly when the array is
/// C-contiguous, `stream` where one is known. An array that says `CAI_STREAM_UNKNOWN` is presented as version 2,
/// which cannot say either. A protocol that cannot express the array raises AttributeError with the reason, so
/// `hasattr` is False; `__dlpack__` raises BufferError. Read-only stays read-only.
///
/// `array`: must have an owner and pass `cai_array_validate` with `CAI_CHECK_LAYOUT`.
/// `options`: NULL: none.
/// `out`: a new reference. Written on success only.
///
/// On failure a Python exception is set where there is an interpreter.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_NEWER_CALLER`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_BORROWED`,
/// `CAI_ERR_OWNER_OPS`, `CAI_ERR_NO_PYTHON`, `CAI_ERR_PYTHON_VERSION`, `CAI_ERR_PYTHON_LOCK`,
/// `CAI_ERR_PYTHON_EXCEPTION`, `CAI_ERR_NO_MEMORY`, or what `cai_array_validate` returns.
/// Thread safety: as `cai_array_from_python`. Source: CAI version 3, "Python Interface Specification", "Lifetime
/// management".
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_to_python(
    array: *const cai_array,
    options: *const cai_export_options,
    out: *mut *mut _object,
    error: *mut cai_error,
) -> cai_status {
    with_exception(error, &mut true, |_| {
        // SAFETY: NULL, or a structure of the size that it specifies, by the caller's contract.
        let local = unsafe { self::array(array, "array") }?;
        given(out, "out")?;
        // SAFETY: NULL, or a structure of the size that it specifies, by the caller's contract.
        let flags = unsafe { python::export_flags(options) }?;
        // SAFETY: what the array points to is readable by the caller's contract.
        let object = unsafe { python::export(&local, flags) }?;
        // SAFETY: `given` found that it is not NULL; writable by the caller's contract.
        unsafe { out.write(object) };
        Ok(())
    })
}

/// Sets the Python exception that belongs to a failure of any function of this library, in an extension that
/// wants to hand it on: KeyError, TypeError, BufferError, ValueError, MemoryError, or RuntimeError for the driver,
/// with the words of the error.
///
/// `error`: what the function filled in. Where an exception is set already, nothing happens. Where none is and
/// `error` names none (NULL, `CAI_OK`, `CAI_ERR_PYTHON_EXCEPTION`), SystemError says so.
///
/// Returns NULL always, so that a function can end in `return cai_python_raise(&why);`. Without an interpreter, or
/// without its lock, it does nothing.
/// Thread safety: any thread that holds the interpreter's lock.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_python_raise(error: *const cai_error) -> *mut _object {
    guard(null_mut(), || {
        // SAFETY: NULL, or filled in as the header requires.
        match unsafe { error.as_ref() } {
            Some(error) => python::raise(error),
            None => python::raise_nothing(),
        }
        Ok(())
    });
    null_mut()
}

/// Publishes an exchange table on a Python type: sets its attribute `__cai_exchange_api__`. From then on
/// `cai_array_from_python`, of any copy of this library, takes objects of the type, and of types derived from it, through
/// the table: also where they offer other protocols.
///
/// `type`: a `PyTypeObject *` that allows new attributes (a heap type, as pybind11, nanobind and
/// `PyType_FromSpec` make them).
/// `table`: constant, for the life of the process.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_TYPE`, `CAI_ERR_EXCHANGE_TABLE`, `CAI_ERR_NO_PYTHON`,
/// `CAI_ERR_PYTHON_VERSION`, `CAI_ERR_PYTHON_LOCK` or `CAI_ERR_PYTHON_EXCEPTION`; on failure a Python exception is
/// set where there is an interpreter.
/// Thread safety: any thread that holds the interpreter's lock.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_python_publish(
    r#type: *mut _object,
    table: *const cai_exchange_api,
    error: *mut cai_error,
) -> cai_status {
    with_exception(error, &mut true, |_| {
        given(r#type, "type")?;
        given(table, "table")?;
        // SAFETY: neither is NULL (checked above). The header requires a live type and a constant
        // table.
        unsafe { python::publish(r#type, table) }
    })
}

/// Runs the body of a function that also sets a Python exception where it fails.
fn with_exception(
    error: *mut cai_error,
    raises: &mut bool,
    body: impl FnOnce(&mut bool) -> Result<()>,
) -> cai_status {
    let mut local = MaybeUninit::<cai_error>::uninit();
    let error = if error.is_null() { local.as_mut_ptr() } else { error };
    let status = guard(error, || body(raises));
    if status != abi::CAI_OK && *raises {
        guard(null_mut(), || {
            // SAFETY: `guard` filled it.
            python::raise(unsafe { &*error });
            Ok(())
        });
    }
    status
}
