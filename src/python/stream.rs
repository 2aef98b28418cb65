//! Streams of Python objects: of CuPy, PyTorch, Numba, cuda.core, and integers.

use crate::abi;
use crate::error::{Result, fail, failure};
use crate::python::py::{Builtin, Name, Obj, Owned, Py};
use crate::python::values::Number;

/// Values that a caller accepts as a stream, besides a handle.
#[derive(Clone, Copy)]
pub struct Accepted {
    /// The stream that None means; 0 if None is refused.
    pub none: u64,
    /// The integer 0 is the legacy default stream.
    pub zero: bool,
}

/// Handles of streams; values from here on mean something else.
const HANDLES: i128 = abi::CAI_STREAM_UNKNOWN as i128;

/// Returns the stream of an object.
///
/// 0 of an object that is a stream is the legacy default stream, as its library means it. As an
/// integer it is refused, unless it is accepted: it may mean any default stream, or none.
#[inline]
pub fn of_object(py: Py, given: Obj, accepted: Accepted) -> Result<u64> {
    if given.is_none(py) {
        return match accepted.none {
            0 => refused(py, given, accepted),
            stream => Ok(stream),
        };
    }
    if !given.is_a(py, Builtin::Int) {
        if let Some(handle) = attributes(py, given)? {
            return match handle {
                Handle::Stream(0) => Ok(abi::CAI_STREAM_LEGACY),
                Handle::Stream(stream) => Ok(stream),
                Handle::Wrong => refused(py, given, accepted),
            };
        }
    }
    // CUstream and cudaStream_t of cuda-bindings, and NumPy's integers, have `__index__`.
    match handle(py, given)? {
        Handle::Stream(0) if accepted.zero => Ok(abi::CAI_STREAM_LEGACY),
        Handle::Stream(0) => fail!(CAI_ERR_STREAM_ZERO, "stream";
            found "0, which may be any default stream, or none";
            expected "1 (legacy default stream), 2 (per-thread default stream), a cudaStream_t, or \
                the stream object itself instead of its number"),
        Handle::Stream(stream) => Ok(stream),
        Handle::Wrong => refused(py, given, accepted),
    }
}

/// Value read as the handle of a stream.
enum Handle {
    Stream(u64),
    /// No integer, or one that is no handle.
    Wrong,
}

fn handle(py: Py, object: Obj) -> Result<Handle> {
    Ok(match object.number(py, false)? {
        Number::Value(value @ 0..HANDLES) => Handle::Stream(value as u64),
        _ => Handle::Wrong,
    })
}

/// Converts an object's handle: an integer, or a `ctypes.c_void_p`, whose `value` is None for 0.
fn stored_handle(py: Py, stored: Obj) -> Result<Handle> {
    let found = handle(py, stored)?;
    if matches!(found, Handle::Stream(_)) {
        return Ok(found);
    }
    match stored.optional_attr(py, py.names.value)? {
        Some(value) if value.obj().is_none(py) => Ok(Handle::Stream(0)),
        Some(value) => handle(py, value.obj()),
        None => Ok(Handle::Wrong),
    }
}

/// Returns the handle of an object that is a stream of some library; `None` for others.
fn attributes(py: Py, object: Obj) -> Result<Option<Handle>> {
    if let Some(method) = object.optional_attr(py, py.names.cuda_stream)? {
        return protocol(py, method).map(Some);
    }
    // PyTorch.
    if let Some(stored) = object.optional_attr(py, py.names.torch_stream)? {
        return stored_handle(py, stored.obj()).map(Some);
    }
    // Events, buffers and pointers have these attributes too: their handles would crash the driver.
    let name = object.type_name(py);
    if !name.as_str().as_bytes().windows(6).any(|part| part == b"Stream") {
        return Ok(None);
    }
    // CuPy, and Numba.
    for attribute in [py.names.stream_ptr, py.names.handle] {
        if let Some(stored) = object.optional_attr(py, attribute)? {
            return stored_handle(py, stored.obj()).map(Some);
        }
    }
    Ok(None)
}

/// Reads what `__cuda_stream__` is: a method that returns (version, handle), or, in the first
/// releases of cuda.core, the pair itself.
fn protocol(py: Py, method: Owned) -> Result<Handle> {
    const FIELD: &str = "stream.__cuda_stream__()";
    let pair = if method.obj().is_callable(py) { method.obj().call(py, [])? } else { method };
    let pair = pair.obj();
    let is_pair = pair.is_sequence(py) && pair.len(py)? == 2;
    if !is_pair {
        return fail!(CAI_ERR_TYPE, "{FIELD}";
            found "{}", pair.shown(py); expected "a tuple of the protocol's version and a handle");
    }
    let version = pair.item(py, 0)?;
    if !matches!(version.obj().number(py, false)?, Number::Value(0)) {
        return fail!(CAI_ERR_VERSION, "{FIELD}[0]";
            found "{}", version.obj().shown(py);
            expected "0, the version of the protocol that is known here");
    }
    let stored = pair.item(py, 1)?;
    match stored_handle(py, stored.obj())? {
        Handle::Wrong => fail!(CAI_ERR_VALUE, "{FIELD}[1]";
            found "{}", stored.obj().shown(py); expected "a cudaStream_t as an integer"),
        found => Ok(found),
    }
}

#[cold]
fn refused(py: Py, object: Obj, accepted: Accepted) -> Result<u64> {
    let found = object.shown(py);
    let none = if accepted.none == 0 { "" } else { "None, " };
    // An integer out of range is a wrong value, everything else a wrong type.
    let is_integer = object.is_a(py, Builtin::Int) && !object.is_exactly(py, Builtin::Bool);
    let status = match is_integer {
        true => abi::CAI_ERR_VALUE,
        false => abi::CAI_ERR_TYPE,
    };
    Err(failure!(status, "stream";
        found "{found}";
        expected "{none}1 (legacy default stream), 2 (per-thread default stream), a cudaStream_t \
            or an object with __cuda_stream__"))
}

/// Returns the number of the CUDA device that a stream object states; -1 if it states none.
pub fn device_of(py: Py, stream: Obj) -> Result<i32> {
    if stream.is_none(py) || stream.is_a(py, Builtin::Int) {
        return Ok(-1);
    }
    let ordinal = |of: Obj, names: &[Name]| -> Result<Option<i32>> {
        for &name in names {
            let Some(stated) = of.optional_attr(py, name)? else { continue };
            if let Number::Value(value) = stated.obj().number(py, false)? {
                return Ok(Some(i32::try_from(value).unwrap_or(-1).max(-1)));
            }
        }
        Ok(None)
    };
    let names = &py.names;
    // PyTorch, and CuPy.
    if let Some(device) = ordinal(stream, &[names.device_index, names.device_id])? {
        return Ok(device);
    }
    // cuda.core, and Numba before it had a device of its own.
    let inside = match stream.optional_attr(py, names.device)? {
        Some(device) => Some(device),
        None => match stream.optional_attr(py, names.context)? {
            Some(context) => context.obj().optional_attr(py, names.device)?,
            None => None,
        },
    };
    match inside {
        Some(device) => {
            let names = [names.device_id, names.index, names.id];
            Ok(ordinal(device.obj(), &names)?.unwrap_or(-1))
        }
        None => Ok(-1),
    }
}
