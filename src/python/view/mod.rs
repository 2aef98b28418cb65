//! Views: objects that describe the array of another object, for code that uses it on one stream.

mod attributes;
mod object;
mod type_object;

use std::ffi::CStr;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use crate::abi::{self, cai_import_options};
use crate::device;
use crate::driver;
use crate::error::{Result, fail};
use crate::python::capi::{METH_FASTCALL_KEYWORDS, MethodDef, Object};
use crate::python::convert::{exact_integer, shared};
use crate::python::export::object::run_for_python;
use crate::python::import::import;
use crate::python::import::options::ImportOptions;
use crate::python::owner::Description;
use crate::python::py::{Name, Owned, Py, raised};
use crate::python::stream::{self, Accepted};
use crate::python::view::object::{Ordered, make};
use crate::python::view::type_object::make_type;

const DOC: &CStr = c"view($self, obj, /, stream=None, *, readonly=False)\n--\n\n\
    Returns a view of the array of `obj`, ordered on `stream`: an object with ptr, shape, strides, \
    dtype, size, device_id, is_device_accessible, readonly, exporting_obj. Release it after the \
    work is enqueued, with release() or at the end of a with block.\n\n\
    `stream`: the stream on which the array will be used: an object of cuda.core, PyTorch, CuPy or \
    Numba, 1, 2 or a cudaStream_t; -1 to order nothing. None is for host memory only.\n\
    `readonly`: the array will only be read.";

static FUNCTION: MethodDef = MethodDef {
    name: c"view".as_ptr(),
    function: view as *const std::ffi::c_void,
    flags: METH_FASTCALL_KEYWORDS,
    doc: DOC.as_ptr(),
};

/// Returns the function `view`, which is made at its first use in an interpreter: a new reference.
/// Its `__self__` is the type of its results.
pub fn function(py: Py) -> Result<*mut Object> {
    let known = py.view.load(Ordering::Acquire);
    let function = if known.is_null() { make_function(py)? } else { known };
    Ok(shared(py, function).into_raw())
}

#[cold]
fn make_function(py: Py) -> Result<*mut Object> {
    let r#type = make_type(py)?;
    let module = py.string(b"libcai")?;
    // SAFETY: the GIL is held; the definition is constant. The function takes references of its
    // own.
    let made = Owned::new(py, unsafe {
        (py.capi().function_new)(&raw const FUNCTION, r#type.get(), module.get())
    })?;
    let (new, order) = (made.get(), Ordering::AcqRel);
    match py.view.compare_exchange(ptr::null_mut(), new, order, Ordering::Acquire) {
        // The interpreter keeps it for good.
        Ok(_) => Ok(made.into_raw()),
        // Another thread of a free-threaded build was faster.
        Err(other) => Ok(other),
    }
}

/// The arguments of a call.
struct Request {
    object: NonNull<Object>,
    /// NULL: not passed.
    stream: *mut Object,
    readonly: bool,
}

impl Request {
    /// # Safety
    /// `arguments` are `count` objects, and then one for each name of the tuple `names`, which may
    /// be NULL: CPython's convention.
    #[inline]
    unsafe fn read(
        py: Py,
        arguments: *const *mut Object,
        count: isize,
        names: *mut Object,
    ) -> Result<Self> {
        if !(1..=2).contains(&count) {
            return fail!(
                CAI_ERR_TYPE,
                "view",
                found = "{count} positional arguments",
                expected = "an object, and a stream"
            );
        }
        // SAFETY: `count` objects, at least one, and CPython passes no NULL.
        let (object, stream) = unsafe {
            let second = if count == 2 { arguments.add(1).read() } else { ptr::null_mut() };
            (NonNull::new_unchecked(arguments.read()), second)
        };
        let mut request = Request { object, stream, readonly: false };
        if !names.is_null() {
            // SAFETY: the arguments behind the positional ones belong to the names.
            unsafe { request.keywords(py, arguments.offset(count), names) }?;
        }
        Ok(request)
    }

    /// # Safety
    /// `values` are as many objects as the tuple `names` has.
    unsafe fn keywords(
        &mut self,
        py: Py,
        values: *const *mut Object,
        names: *mut Object,
    ) -> Result<()> {
        let capi = py.capi();
        // SAFETY: the GIL is held; a tuple of strings, which the caller keeps alive, as it does the
        // values.
        unsafe {
            for index in 0..(capi.tuple_size)(names) {
                let (name, value) = ((capi.tuple_get)(names, index), values.offset(index).read());
                let is = |known: Name| {
                    name == known.as_ptr() || py.text(name) == py.text(known.as_ptr())
                };
                if is(py.names.stream) && self.stream.is_null() {
                    self.stream = value;
                } else if is(py.names.readonly) {
                    self.readonly = match (capi.is_true)(value) {
                        ..0 => return raised(),
                        truth => truth > 0,
                    };
                } else {
                    return fail!(
                        CAI_ERR_TYPE,
                        "view",
                        found = ("a keyword {}", py.text(name).unwrap_or_default().escape_ascii()),
                        expected = "stream, if it is not passed by position, or readonly"
                    );
                }
            }
        }
        Ok(())
    }

    /// Returns the stream; `CAI_STREAM_NONE` for -1, and `CAI_STREAM_UNKNOWN` for None.
    #[inline]
    fn stream(&self, py: Py) -> Result<u64> {
        let Some(given) = NonNull::new(self.stream) else { return Ok(abi::CAI_STREAM_UNKNOWN) };
        match exact_integer(py, given.as_ptr()) {
            Some(-1) => Ok(abi::CAI_STREAM_NONE),
            Some(value @ 1..) => Ok(value as u64),
            _ => self.stream_of_object(py, given),
        }
    }

    #[inline(never)]
    fn stream_of_object(&self, py: Py, given: NonNull<Object>) -> Result<u64> {
        let accepted = Accepted { none: abi::CAI_STREAM_UNKNOWN, zero: false };
        // SAFETY: the caller of the function keeps its arguments alive.
        let stream = unsafe { stream::of_object(py, given, accepted) }?;
        if stream == abi::CAI_STREAM_LEGACY || stream == abi::CAI_STREAM_PER_THREAD {
            // SAFETY: as above.
            check_device(unsafe { stream::device_of(py, given) }?)?;
        }
        Ok(stream)
    }
}

/// Fails for a default stream of another device than that of the current context, in which it
/// would be looked for.
fn check_device(stated: i32) -> Result<()> {
    let Some(current) = (stated >= 0).then(driver::current_device).flatten() else {
        return Ok(());
    };
    if current == stated {
        return Ok(());
    }
    fail!(
        CAI_ERR_VALUE,
        "stream",
        found = "a default stream of device {stated}, while the current context is of {current}",
        expected = "a stream of device {current}; or make device {stated} the current one first"
    )
}

/// The function that Python calls.
unsafe extern "C-unwind" fn view(
    r#type: *mut Object,
    arguments: *const *mut Object,
    count: isize,
    names: *mut Object,
) -> *mut Object {
    run_for_python(|py| {
        // SAFETY: CPython calls a function with these flags in this way.
        let request = unsafe { Request::read(py, arguments, count, names) }?;
        let stream = request.stream(py)?;
        let options = ImportOptions {
            raw: cai_import_options {
                flags: abi::CAI_IMPORT_ALLOW_HOST,
                stream,
                ..ImportOptions::NONE.raw
            },
        };
        let mut to = Description::new();
        // SAFETY: the caller of the function keeps its arguments alive.
        unsafe { import(py, request.object, &options, &mut to) }?;
        if stream == abi::CAI_STREAM_UNKNOWN && device::may_be_cuda(to.array.device.r#type) {
            return fail!(
                CAI_ERR_VALUE,
                "stream",
                found = "None, for an array in device memory",
                expected = "the stream on which the array will be used, or -1 to order nothing"
            );
        }
        if device::is_opaque(to.array.device.r#type) {
            return fail!(
                CAI_ERR_CONVERT_DEVICE,
                "device.type",
                found = ("memory behind a handle, {}", device::Name(to.array.device.r#type)),
                expected = "memory at an address"
            );
        }
        let stream = match stream {
            abi::CAI_STREAM_UNKNOWN => abi::CAI_STREAM_NONE,
            stream => stream,
        };
        let ordered = Ordered { stream, object: request.stream, exporter: request.object.as_ptr() };
        // SAFETY: the type of this function; the array was imported, and the objects are alive.
        unsafe { make(py, r#type, to, ordered, request.readonly) }
    })
}
