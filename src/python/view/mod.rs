//! Views: objects that describe the array of another object, for code that uses it on one stream.

mod attributes;
pub mod object;

use std::ffi::CStr;

use crate::abi::{self, cai_import_options};
use crate::device;
use crate::driver;
use crate::error::{Result, fail};
use crate::python::class::{Arguments, Function, entry};
use crate::python::import::import;
use crate::python::import::options::ImportOptions;
use crate::python::owner::Description;
use crate::python::py::{Name, Obj, Owned, Py};
use crate::python::stream::{self, Accepted};
use crate::python::view::object::{Ordered, View};

const DOC: &CStr = c"view($self, obj, /, stream=None, *, readonly=False)\n--\n\n\
    Returns a view of the array of `obj`, ordered on `stream`: an object with ptr, shape, strides, \
    dtype, size, device_id, is_device_accessible, readonly, exporting_obj. Release it after the \
    work is enqueued, with release() or at the end of a with block.\n\n\
    `stream`: the stream on which the array will be used: an object of cuda.core, PyTorch, CuPy or \
    Numba, 1, 2 or a cudaStream_t; -1 to order nothing. None is for host memory only.\n\
    `readonly`: the array will only be read.";

static FUNCTION: Function = Function::with_keywords(c"view", entry!(view, arguments), DOC);

/// Returns the function `view`. Its `__self__` is the class of its results.
pub fn function(py: Py<'_>) -> Result<Owned<'_>> {
    let function = py.view().get(|py| {
        let module = py.string(b"libcai")?;
        FUNCTION.make(py, Some(py.views().get()?), Some(module.obj()))
    })?;
    Ok(function.share(py))
}

struct Request<'a> {
    object: Obj<'a>,
    stream: Option<Obj<'a>>,
    readonly: bool,
}

impl<'a> Request<'a> {
    #[inline]
    fn read(py: Py, arguments: Arguments<'a>) -> Result<Self> {
        let (object, stream) = match *arguments.positional {
            [object] => (object, None),
            [object, stream] => (object, Some(stream)),
            _ => {
                return fail!(CAI_ERR_TYPE, "view";
                    found "{} positional arguments", arguments.positional.len();
                    expected "an object, and a stream");
            }
        };
        let mut request = Request { object, stream, readonly: false };
        for (name, value) in arguments.keywords(py) {
            request.keyword(py, name, value)?;
        }
        Ok(request)
    }

    fn keyword(&mut self, py: Py, name: Obj, value: Obj<'a>) -> Result<()> {
        let is = |known: Name| {
            let known = Obj::from(known);
            name == known || name.text(py) == known.text(py)
        };
        if is(py.names.stream) && self.stream.is_none() {
            self.stream = Some(value);
        } else if is(py.names.readonly) {
            self.readonly = value.is_true(py)?;
        } else {
            return fail!(CAI_ERR_TYPE, "view";
                found "a keyword {}", name.text(py).unwrap_or_default().escape_ascii();
                expected "stream, if it is not passed by position, or readonly");
        }
        Ok(())
    }

    /// Returns the stream; `CAI_STREAM_NONE` for -1, and `CAI_STREAM_UNKNOWN` for None.
    #[inline]
    fn stream(&self, py: Py) -> Result<u64> {
        let Some(given) = self.stream else { return Ok(abi::CAI_STREAM_UNKNOWN) };
        match given.exact_int(py) {
            Some(-1) => Ok(abi::CAI_STREAM_NONE),
            Some(value @ 1..) => Ok(value as u64),
            _ => stream_of_object(py, given),
        }
    }
}

#[inline(never)]
fn stream_of_object(py: Py, given: Obj) -> Result<u64> {
    let accepted = Accepted { none: abi::CAI_STREAM_UNKNOWN, zero: false };
    let stream = stream::of_object(py, given, accepted)?;
    if stream == abi::CAI_STREAM_LEGACY || stream == abi::CAI_STREAM_PER_THREAD {
        check_device(stream::device_of(py, given)?)?;
    }
    Ok(stream)
}

/// Fails for a default stream of another device than the current context's, which it would mean.
fn check_device(stated: i32) -> Result<()> {
    let Some(current) = (stated >= 0).then(driver::current_device).flatten() else {
        return Ok(());
    };
    if current == stated {
        return Ok(());
    }
    fail!(CAI_ERR_VALUE, "stream";
        found "a default stream of device {stated}, while the current context is of {current}";
        expected "a stream of device {current}; or make device {stated} the current one first")
}

fn view<'py>(py: Py<'py>, arguments: Arguments<'_>) -> Result<Owned<'py>> {
    let request = Request::read(py, arguments)?;
    let stream = request.stream(py)?;
    let options = ImportOptions {
        raw: cai_import_options {
            flags: abi::CAI_IMPORT_ALLOW_HOST,
            dlpack_stream: stream,
            ..ImportOptions::NONE.raw
        },
    };
    let mut to = Description::new();
    import(py, request.object, &options, &mut to)?;
    if stream == abi::CAI_STREAM_UNKNOWN && device::may_be_cuda(to.array.device.r#type) {
        return fail!(CAI_ERR_VALUE, "stream";
            found "None, for an array in device memory";
            expected "the stream on which the array will be used, or -1 to order nothing");
    }
    if device::is_opaque(to.array.device.r#type) {
        return fail!(CAI_ERR_CONVERT_DEVICE, "device.type";
            found "memory behind a handle, {}", device::Name(to.array.device.r#type);
            expected "memory at an address");
    }
    let stream = match stream {
        abi::CAI_STREAM_UNKNOWN => abi::CAI_STREAM_NONE,
        stream => stream,
    };
    let ordered = Ordered { stream, object: request.stream, exporter: request.object };
    // SAFETY: the array was imported.
    unsafe { View::make(py, to, ordered, request.readonly) }
}
