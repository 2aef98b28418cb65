//! Views and streams of Python, for C.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use super::super::python::with_exception;
use crate::abi::{self, _object, cai_array, cai_error, cai_status, cai_stream};
use crate::argument::{In, Out, arguments};
use crate::error::{Failure, fail};
use crate::python::empty::{self, Element, Known, Made, Request};
use crate::python::stream::Accepted;
use crate::python::{self, Description, Obj, Owned, Py};
use crate::sync::names_a_stream;

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
    arguments!(object: Obj(object), out: Out, out_device: Out, error: Out);
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
    arguments!(out: Out, error: Out);
    with_exception(error, &mut true, |_| {
        out.fill("out", || Py::with(|py| python::view_function(py).map(Owned::into_raw)))
    })
}

/// Allocates an array through the library of a Python object, so that a function returns the type
/// that it received: `numpy.empty`, `cupy.empty`, `new_empty` of PyTorch and of libraries that have
/// this method too, or `empty` of the object's `__array_namespace__`. The array is on the device of
/// `prototype`, in C order, and its elements are not set.
///
/// `prototype`: a `PyObject *`. An array of JAX is refused, because nothing may write to arrays of
/// JAX.
/// `like`: NULL for the shape and the type of `prototype`, or an array of which only `ndim`, `shape`,
/// `typestr` and `dtype_code` are read. If its typestr is empty, the type is that of `prototype`.
/// `stream`: 0, or the stream that the memory belongs to. With 0 it belongs to the library's current
/// stream: the right one for a result that the Python caller goes on to use. CuPy and PyTorch
/// allocate with `stream` as their current stream; others do not read it.
/// `allocate`: NULL, or a function that is called if the object's library is none of those, or JAX.
/// `like` describes the wanted array, without data; `out` is initialized, gets a reference of its own
/// to a writable array of that shape and type, and becomes a `libcai.Array`. `context` is passed to
/// it. It is called with the interpreter's lock held, and may set a Python exception if it fails.
/// `out`: a new reference.
/// `out_array`: NULL, or an initialized array that holds no reference. It describes the new array,
/// with a reference of its own; its stream is that of the memory, or `CAI_STREAM_UNKNOWN` if the
/// library does not name it. Call `cai_array_consume_begin` before you write, and
/// `cai_array_consume_end` before you return `out`. If the library's arrays can be read only, the
/// call fails. Both outputs are written on success only.
///
/// On failure a Python exception is set. Exceptions of the library stay set.
///
/// Returns a status of `cai_array_from_python` or of `allocate`: `CAI_ERR_NO_PROTOCOL` if no library
/// is known that allocates for the object, `CAI_ERR_READONLY` for JAX; or `CAI_ERR_CONVERT_TYPE` for a
/// type that the library has no name for, or a status of `cai_array_to_python`.
/// Thread safety: any thread that holds the interpreter's lock. Allocates only what the library does.
/// Source: Python array API standard, `empty`; PyTorch, `Tensor.new_empty`.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_python_empty_like(
    prototype: *mut _object,
    like: *const cai_array,
    stream: cai_stream,
    allocate: Option<
        unsafe extern "C-unwind" fn(
            like: *const cai_array,
            stream: cai_stream,
            context: *mut c_void,
            out: *mut cai_array,
            error: *mut cai_error,
        ) -> cai_status,
    >,
    context: *mut c_void,
    out: *mut *mut _object,
    out_array: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    let is_described = !out_array.is_null();
    arguments!(prototype: Obj(prototype), like: In, out: Out, out_array: Out, error: Out);
    let described = is_described.then_some(out_array);
    with_exception(error, &mut true, |_| {
        let prototype = prototype.ok_or_else(|| Failure::null("prototype"))?;
        let out = out.given("out")?;
        if stream != 0 {
            names_a_stream(stream, format_args!("stream"))?;
        }
        let out_array = described.map(|out| out.array("out_array")).transpose()?;
        let mut scratch = MaybeUninit::uninit();
        let like = like.optional().map(|like| like.unchecked(&mut scratch)).transpose()?;
        let mut to = Description::new();
        let made = Py::with(|py| {
            let shape = match &like {
                None => None,
                Some(like) => Some(py.tuple_of_ints(empty::extents(like)?)?),
            };
            let request = Request {
                shape: shape.as_ref().map(Owned::obj),
                element: match &like {
                    None => None,
                    Some(like) => Known::new(like)?.map(Element::Known),
                },
                stream,
            };
            let made = empty::empty_like(py, prototype, &request, |made| match &out_array {
                Some(_) => empty::describe(py, made, like.as_ref(), stream, &mut to),
                None => Ok(()),
            })?;
            match (made, allocate) {
                (Made::Array(made), _) => Ok(made.into_raw()),
                (Made::Nothing(failure), None) => Err(failure),
                (Made::Nothing(_), Some(allocate)) => {
                    let allocator = (allocate, context);
                    // SAFETY: the caller passes what the header requires.
                    unsafe {
                        empty::by_callback(py, prototype, like.as_ref(), stream, allocator, &mut to)
                    }
                    .map(Owned::into_raw)
                }
            }
        })?;
        out.write(made);
        if let Some(out_array) = out_array {
            // SAFETY: `taken` gives the reference of the description away.
            unsafe { out_array.write(&to.array) };
            to.taken();
        }
        Ok(())
    })
}
