//! Import and export of Python objects, for C.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use super::guard::{self, guard};
use crate::abi::{
    self, _object, cai_array, cai_error, cai_export_options, cai_import_options, cai_status,
};
use crate::argument::{In, Out, Room, arguments};
use crate::error::{Failure, Result};
use crate::python::{self, Description, ImportOptions, Obj, Owned, Py};

/// Initializes options as `CAI_IMPORT_OPTIONS_INIT` does, for languages that declare
/// `cai_import_options` by themselves.
///
/// `options`: memory, which need not be initialized. All `size` bytes are written.
/// `size`: the size of the caller's own declaration, as for `cai_array_init`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT` or `CAI_ERR_STRUCT_SIZE`.
/// Thread safety: any thread, with or without the interpreter's lock; allocates nothing.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_import_options_init(
    options: *mut c_void,
    size: usize,
) -> cai_status {
    arguments!(options: Room(options, size));
    options.initialize(|options: &mut cai_import_options| {
        options.dlpack_stream = abi::CAI_STREAM_UNKNOWN
    })
}

/// Initializes options as `CAI_EXPORT_OPTIONS_INIT` does, for languages that declare
/// `cai_export_options` by themselves.
///
/// `options`: memory, which need not be initialized. All `size` bytes are written.
/// `size`: the size of the caller's own declaration, as for `cai_array_init`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT` or `CAI_ERR_STRUCT_SIZE`.
/// Thread safety: any thread, with or without the interpreter's lock; allocates nothing.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_export_options_init(
    options: *mut c_void,
    size: usize,
) -> cai_status {
    arguments!(options: Room(options, size));
    options.initialize(|_: &mut cai_export_options| ())
}

/// Describes a Python object that holds an array: of PyTorch, CuPy, Numba, JAX, or any other object
/// with `__cuda_array_interface__`, DLPack or a related protocol. The array keeps the object and
/// its mask alive.
///
/// The protocols are tried in the order of `cai_import_options.protocols`: by default the exchange
/// tables on the object's type first, which take nanoseconds, then the dictionary, then the others.
/// The dictionary is read once and never changed. Without `CAI_IMPORT_STRICT`, what real producers
/// write is accepted if its meaning is unique: any mapping, lists for tuples, no `version`, a
/// `typestr` without byte order. An AttributeError means that the object does not offer the
/// protocol, and the next one is tried. The same holds for a BufferError of `__dlpack__`, for its
/// TypeError if the object has one of Arrow's methods, and for a BufferError or status of this
/// library's exchange table. Any other exception of the producer ends the search and stays set.
/// Requirements are checked of the first array that is found, except that
/// the next protocols are tried as well for one without a mask whose stream is not known
/// (`CAI_IMPORT_REQUIRE_STREAM`), whose elements are opaque (`dtype_code`), or that is read-only
/// because it is Arrow's (`CAI_IMPORT_REQUIRE_WRITABLE`).
///
/// The function orders nothing: `out->stream` is the stream on which the producer's work may be
/// pending, or `CAI_STREAM_UNKNOWN` if the protocol names none (dictionaries before version 3,
/// some DLPack tensors). Call `cai_array_consume_begin` before you use the data.
///
/// `object`: a `PyObject *`; the caller keeps its reference.
/// `options`: requirements, or NULL for none. An array with a mask is refused unless
/// `CAI_IMPORT_ALLOW_MASK` is set, host memory unless `CAI_IMPORT_ALLOW_HOST` is, a tensor that
/// requires grad unless `CAI_IMPORT_ALLOW_GRAD` is, and an object of the buffer interface that does
/// not state what its `_ptr` is unless `CAI_IMPORT_OPENCL_BUFFER_CL_MEM` or `CAI_IMPORT_OPENCL_BUFFER_CUDA_ADDRESS` is.
/// `out`: must be initialized (`CAI_ARRAY_INIT`) and hold no reference, which would be lost. It
/// passes `cai_array_validate` with `CAI_CHECK_LAYOUT`. Written on success only. It may be released
/// on any thread, with or without the interpreter's lock: without it, the object is released by the
/// interpreter's main thread, or by the next import or export of a Python object, and the release
/// never waits. After the interpreter has ended, nothing is released. A tensor imported
/// through `__dlpack__` is released in stream order, on the stream that was passed to `__dlpack__`
/// (a default stream: in the context of the memory and in the current one): that release calls the
/// driver and may start the thread of `cai_owner_release_after`.
///
/// On failure a Python exception is set, unless `CAI_IMPORT_NO_EXCEPTION` is set: KeyError for a
/// missing key, TypeError for a wrong type or an object without a protocol, BufferError for an
/// array that does not meet the options, MemoryError, RuntimeError for the driver, SystemError for
/// an internal error, otherwise ValueError. Its text begins with the key:
/// `__cuda_array_interface__['shape'][1]: found -1, expected at least 0`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT`, `CAI_ERR_NEWER_CALLER`,
/// `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_NO_PYTHON`, `CAI_ERR_PYTHON_VERSION`, `CAI_ERR_PYTHON_LOCK`,
/// `CAI_ERR_PYTHON_EXCEPTION`, `CAI_ERR_NO_PROTOCOL`, `CAI_ERR_KEY`, `CAI_ERR_TYPE`,
/// `CAI_ERR_VALUE`, `CAI_ERR_VERSION`, `CAI_ERR_EXCHANGE_TABLE`, `CAI_ERR_READONLY`,
/// `CAI_ERR_BORROWED`, `CAI_ERR_NO_MEMORY`, `CAI_ERR_HOST_MEMORY`, a `CAI_ERR_CONVERT_` status, a
/// status of `cai_array_validate` or `cai_array_from_dlpack`, any status of a type's `from_object`,
/// or, with `CAI_IMPORT_QUERY_DEVICE` or `CAI_IMPORT_IDENTIFY_STREAM`, of `cai_unstable_array_identify`.
/// Thread safety: any thread that holds the interpreter's lock (is attached, in a free-threaded
/// build). Allocates one block, which is reused after its release. Source: CAI version 3, "Python
/// Interface Specification"; DLPack 1.3; `__sycl_usm_array_interface__` version 1; the proposal
/// "OpenCL/CUDA Buffer Interface".
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_from_python(
    object: *mut _object,
    options: *const cai_import_options,
    out: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    arguments!(given: Obj(object), options: In, out: Out, error: Out);
    Py::with_ready(|ready| {
        if let (Some(py), Some(object)) = (ready, given) {
            if python::share_own(py, object, options, out) {
                return abi::CAI_OK;
            }
        }
        let mut raises = true;
        with_exception(error, &mut raises, |raises| {
            let object = given.ok_or_else(|| Failure::null("object"))?;
            import_with(options, out, raises, |options, to| {
                Py::with_known(ready, |py| python::import(py, object, options, to))
            })
        })
    })
}

/// Describes the array in a dictionary that is passed without its object, as
/// `from_cuda_array_interface(desc, owner)` of Numba takes it. For code that has already read
/// `__cuda_array_interface__`, or has written such a dictionary itself.
///
/// `dictionary`: a `PyObject *`: a dictionary, or, without `CAI_IMPORT_STRICT`, any mapping. It is
/// read during the call and never changed.
/// `owner`: the `PyObject *` that keeps the data alive; the array holds a reference to it. NULL:
/// the array holds a reference to the dictionary only, and the caller must keep the data alive.
/// `options`: as for `cai_array_from_python`. `protocols[0]` names the interface that the
/// dictionary belongs to: 0 or `CAI_PROTOCOL_CUDA_ARRAY_INTERFACE`, `CAI_PROTOCOL_SYCL_USM`, or,
/// with `CAI_IMPORT_ALLOW_HOST`, `CAI_PROTOCOL_ARRAY_INTERFACE`; further protocols are refused. An
/// object in `mask` is imported through any protocol.
/// `out`, exceptions, release and thread safety: as for `cai_array_from_python`.
///
/// Returns a status of `cai_array_from_python`: `CAI_ERR_NO_PROTOCOL` only for an object in `mask`.
/// Source: CAI version 3, "Python Interface Specification"; Numba,
/// `numba.cuda.from_cuda_array_interface`.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_from_python_dict(
    dictionary: *mut _object,
    owner: *mut _object,
    options: *const cai_import_options,
    out: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    arguments!(dictionary: Obj(dictionary), owner: Obj(owner), options: In, out: Out, error: Out);
    Py::with_ready(|ready| {
        let mut raises = true;
        with_exception(error, &mut raises, |raises| {
            let dictionary = dictionary.ok_or_else(|| Failure::null("dictionary"))?;
            let owner = owner.unwrap_or(dictionary);
            import_with(options, out, raises, |options, to| {
                Py::with_known(ready, |py| {
                    python::import_dictionary(py, dictionary, owner, options, to)
                })
            })
        })
    })
}

/// Creates a Python object from an array, for CuPy, Numba, PyTorch, JAX, cuDF and others. It offers
/// `__cuda_array_interface__` (for other devices `__sycl_usm_array_interface__`, for host memory
/// `__array_interface__` and the buffer protocol of PEP 3118), `__dlpack__`, `__dlpack_device__`,
/// and both exchange tables on its type. It holds a reference to the array's owner as long as it
/// lives.
///
/// Each access to a dictionary makes a new one: of version 3, with `strides` None exactly if the
/// array is C-contiguous, and `stream` if one is known. An array with `CAI_STREAM_UNKNOWN` is
/// exported as version 2, which has no stream. The per-thread stream of another thread is exported
/// as the legacy stream of its context, which waits for it. If readers of the dictionary would
/// assume another context for a default stream, or if `stream_id` shows that the stream was
/// destroyed, the dictionary is not offered, and `__dlpack__` fails in the latter case. With
/// `CAI_SYNC_EXPORT_NONE` no stream is exported. A protocol that cannot represent the array is not
/// offered: `hasattr` returns False, and the AttributeError gives the reason; `__dlpack__` and
/// `memoryview` raise BufferError. A read-only array is exported as read-only.
///
/// `array`: must have an owner and pass `cai_array_validate` with `CAI_CHECK_LAYOUT`.
/// `options`: NULL for none. With `CAI_EXPORT_VERSION_2`, the caller must ensure that no work is
/// pending (`cai_array_synchronize`); with `CAI_EXPORT_HIDE_READONLY`, that nothing writes to the
/// data.
/// `out`: a new reference. Written on success only.
///
/// On failure a Python exception is set if there is an interpreter.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT` for flags that exclude each other,
/// `CAI_ERR_NEWER_CALLER`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_BORROWED`, `CAI_ERR_OWNER_OPS`,
/// `CAI_ERR_NO_PYTHON`, `CAI_ERR_PYTHON_VERSION`,
/// `CAI_ERR_PYTHON_LOCK`, `CAI_ERR_PYTHON_EXCEPTION`, `CAI_ERR_NO_MEMORY`, or a status of
/// `cai_array_validate`.
/// Thread safety: any thread that holds the interpreter's lock. Allocates. Source: CAI version 3,
/// "Python Interface Specification", "Lifetime management".
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_to_python(
    array: *const cai_array,
    options: *const cai_export_options,
    out: *mut *mut _object,
    error: *mut cai_error,
) -> cai_status {
    arguments!(array: In, options: In, out: Out, error: Out);
    // Arguments are checked before Python is looked for.
    let export = |ready: Option<Py>| {
        let array = array.given("array")?;
        let out = out.given("out")?;
        let mut scratch = MaybeUninit::uninit();
        let array = array.view(&mut scratch)?;
        let flags = python::export_flags(options)?;
        let object = Py::with_known(ready, |py| {
            // SAFETY: what the array points to is readable by the caller's contract.
            unsafe { python::export(py, array, flags) }.map(Owned::into_raw)
        })?;
        out.write(object);
        Ok(())
    };
    Py::with_ready(|ready| match ready.filter(|py| py.has_exported()) {
        Some(py) => with_local_exception(error, || export(Some(py))),
        None => with_exception(error, &mut true, |_| export(None)),
    })
}

/// Sets the Python exception for a failure of any function of this library: KeyError, TypeError,
/// BufferError, ValueError, MemoryError, or RuntimeError for the driver, with the text of the
/// error. For extensions that pass a failure on: `return cai_python_raise(&error);`.
///
/// `error`: as a function filled it. If an exception is already set, nothing happens. If none is
/// set and `error` names none (NULL, `CAI_OK`, `CAI_ERR_PYTHON_EXCEPTION`), SystemError is raised.
///
/// Returns NULL always. Without an interpreter, or without its lock, it does nothing.
/// Thread safety: any thread that holds the interpreter's lock.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_python_raise(error: *const cai_error) -> *mut _object {
    arguments!(error: In);
    guard(Out::NONE, || {
        match error.optional() {
            Some(error) => python::raise(&error.read()),
            None => python::raise_nothing(),
        }
        Ok(())
    });
    null_mut()
}

/// Runs the body of a function that also sets a Python exception where it fails.
pub(super) fn with_exception<F: FnOnce(&mut bool) -> Result<()>>(
    error: Out<cai_error>,
    raises: &mut bool,
    body: F,
) -> cai_status {
    let result = guard::foreign(|| body(raises));
    guard::end::<F>(error, result.inspect_err(|failure| raise_if(*raises, failure)))
}

/// The same for a body that calls nothing foreign in which a thread could end.
fn with_local_exception<F: FnOnce() -> Result<()>>(error: Out<cai_error>, body: F) -> cai_status {
    let result = guard::local(body);
    guard::end::<F>(error, result.inspect_err(|failure| raise_if(true, failure)))
}

/// Sets the exception for a failure.
#[cold]
#[inline(never)]
fn raise_if(raises: bool, failure: &Failure) {
    if raises {
        guard(Out::NONE, || {
            python::raise(&failure.to_error());
            Ok(())
        });
    }
}

/// Reads a caller's options, imports with them, and writes the array.
#[inline(always)]
fn import_with(
    options: In<cai_import_options>,
    out: Out<cai_array>,
    raises: &mut bool,
    body: impl FnOnce(&ImportOptions, &mut Description) -> Result<()>,
) -> Result<()> {
    let out = out.array("out")?;
    let given;
    let import_options = match options.optional() {
        None => &ImportOptions::NONE,
        Some(options) => {
            given = ImportOptions::new(options)?;
            &given
        }
    };
    *raises = !import_options.has(abi::CAI_IMPORT_NO_EXCEPTION);
    let mut to = Description::new();
    body(import_options, &mut to)?;
    // SAFETY: `taken` gives the reference of the description away.
    unsafe { out.write(&to.array) };
    to.taken();
    Ok(())
}
