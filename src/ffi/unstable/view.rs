//! Views and streams of Python, for C.

use super::super::python::with_exception;
use crate::abi::{self, _object, cai_error, cai_status, cai_stream};
use crate::argument::Out;
use crate::error::{Failure, fail};
use crate::python::stream::Accepted;
use crate::python::{self, Obj, Owned, Py};

/// Returns the CUDA stream of a Python object: of cuda.core, PyTorch, CuPy, Numba, of any other
/// object with `__cuda_stream__`, or of an integer.
///
/// `object`: a `PyObject *`. In this order: None; an integer, 1 (`CAI_STREAM_LEGACY`), 2
/// (`CAI_STREAM_PER_THREAD`) or a `cudaStream_t`; an object with the method `__cuda_stream__`, or
/// the attribute in the first releases of cuda.core, whose value is (0, handle); with `cuda_stream`
/// (PyTorch); with `ptr` (CuPy) or `handle` (older Numba), if the name of its type contains
/// "Stream", because events and buffers have these attributes as well; an object with `__index__`
/// (`CUstream` of cuda-bindings). A handle of 0 in a stream object is the legacy default stream; in
/// Numba, whose default stream NUMBA_CUDA_PER_THREAD_DEFAULT_STREAM changes, pass 2 then.
/// `none`: the value to return for None, for example a stream. 0: None is refused.
/// `flags`: 0, or any of `CAI_IMPORT_ALLOW_STREAM_ZERO` (the integer 0 is the legacy default stream
/// as well) and `CAI_IMPORT_NO_EXCEPTION`. Without the first one the integer 0 is refused.
/// `out`: the stream. It is no reference: the object must live as long as the stream is used.
/// `out_device`: NULL, or the number of the device that the object states; -1 if it states none, as
/// for integers. A default stream is that of the calling thread's current context: if the context
/// is of another device, set a context of this device first. Both are written on success only.
///
/// On failure a Python exception is set, unless `CAI_IMPORT_NO_EXCEPTION` is set: TypeError for an
/// object that is no stream, ValueError for a wrong integer. Exceptions of the object stay set.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_NEWER_CALLER`, `CAI_ERR_TYPE`, `CAI_ERR_VALUE`,
/// `CAI_ERR_VERSION`, `CAI_ERR_STREAM_ZERO`, `CAI_ERR_NO_PYTHON`, `CAI_ERR_PYTHON_VERSION`,
/// `CAI_ERR_PYTHON_LOCK`, `CAI_ERR_PYTHON_EXCEPTION` or `CAI_ERR_NO_MEMORY`.
/// Thread safety: any thread that holds the interpreter's lock. Makes no driver call. Source:
/// cuda.core, "CUDA stream protocol".
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_stream_from_python(
    object: *mut _object,
    none: cai_stream,
    flags: u32,
    out: *mut cai_stream,
    out_device: *mut i32,
    error: *mut cai_error,
) -> cai_status {
    // SAFETY: the caller passes what the header requires.
    let (object, out, out_device, error) =
        unsafe { (Obj::from_ptr(object), Out::new(out), Out::new(out_device), Out::new(error)) };
    let mut raises = flags & abi::CAI_IMPORT_NO_EXCEPTION == 0;
    with_exception(error, &mut raises, |_| {
        const FLAGS: u32 = abi::CAI_IMPORT_ALLOW_STREAM_ZERO | abi::CAI_IMPORT_NO_EXCEPTION;
        let object = object.ok_or_else(|| Failure::null("object"))?;
        let out = out.given("out")?;
        if flags & !FLAGS != 0 {
            return fail!(CAI_ERR_NEWER_CALLER, "flags";
                found "{:#x}", flags & !FLAGS;
                expected "CAI_IMPORT_ALLOW_STREAM_ZERO or CAI_IMPORT_NO_EXCEPTION");
        }
        let accepted = Accepted { none, zero: flags & abi::CAI_IMPORT_ALLOW_STREAM_ZERO != 0 };
        Py::with(|py| {
            let stream = python::stream::of_object(py, object, accepted)?;
            if let Some(out_device) = out_device.optional() {
                out_device.write(python::stream::device_of(py, object)?);
            }
            out.write(stream);
            Ok(())
        })
    })
}

/// Returns the Python function `view(obj, /, stream=None, *, readonly=False)`, which makes objects
/// of the type `libcai.View`: the attributes of cuda.core's StridedMemoryView, and `release()`. The
/// Python package has it as `libcai.view`; its `__self__` is the type.
///
/// A view holds a reference to the array of `obj`, which it imports as `cai_array_from_python` does
/// with `CAI_IMPORT_ALLOW_HOST`. It makes `stream` wait for the producer's pending work, and keeps
/// the stream object alive. `release()`, or the end of a `with` block, makes the producer wait for
/// `stream` and releases the array. A view that is destroyed without `release()` makes no driver
/// call.
///
/// `out`: a new reference. Each interpreter has one function.
///
/// On failure a Python exception is set if there is an interpreter.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_NO_PYTHON`, `CAI_ERR_PYTHON_VERSION`,
/// `CAI_ERR_PYTHON_LOCK`, `CAI_ERR_PYTHON_EXCEPTION` or `CAI_ERR_NO_MEMORY`.
/// Thread safety: any thread that holds the interpreter's lock. Allocates.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_python_view(
    out: *mut *mut _object,
    error: *mut cai_error,
) -> cai_status {
    // SAFETY: the caller passes what the header requires.
    let (out, error) = unsafe { (Out::new(out), Out::new(error)) };
    with_exception(error, &mut true, |_| {
        let out = out.given("out")?;
        out.write(Py::with(|py| python::view_function(py).map(Owned::into_raw))?);
        Ok(())
    })
}
