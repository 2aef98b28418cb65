//! Streams of Python objects: of CuPy, PyTorch, Numba, cuda.core, and integers.

use std::ptr::{self, NonNull};

use crate::abi::{self, _object};
use crate::error::{Result, fail, failure};
use crate::python::convert::{Number, item, number, shown, size};
use crate::python::py::{Name, Owned, Py};

/// What a caller accepts as a stream, besides a handle.
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
///
/// # Safety
/// `object` is alive.
#[inline]
pub unsafe fn of_object(py: Py, object: NonNull<_object>, accepted: Accepted) -> Result<u64> {
    let capi = py.capi();
    let given = object.as_ptr();
    if given == capi.none {
        return match accepted.none {
            0 => refused(py, given, accepted),
            stream => Ok(stream),
        };
    }
    if !py.is(given, capi.long_type) {
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
        Handle::Stream(0) => fail!(
            CAI_ERR_STREAM_ZERO,
            "stream",
            found = "0, which may be any default stream, or none",
            expected = "1 (legacy default stream), 2 (per-thread default stream), a cudaStream_t, \
             or the stream object itself instead of its number"
        ),
        Handle::Stream(stream) => Ok(stream),
        Handle::Wrong => refused(py, given, accepted),
    }
}

/// What a value is as the handle of a stream.
enum Handle {
    Stream(u64),
    /// No integer, or one that is no handle.
    Wrong,
}

/// Converts an integer.
fn handle(py: Py, object: *mut _object) -> Result<Handle> {
    Ok(match number(py, object, false)? {
        Number::Value(value @ 0..HANDLES) => Handle::Stream(value as u64),
        _ => Handle::Wrong,
    })
}

/// Converts the handle that an object has: an integer, or a `ctypes.c_void_p`, whose `value` is
/// None for 0.
fn stored_handle(py: Py, stored: &Owned) -> Result<Handle> {
    let found = handle(py, stored.get())?;
    if matches!(found, Handle::Stream(_)) {
        return Ok(found);
    }
    match py.attribute(stored.get(), py.names.value)? {
        Some(value) if value.get() == py.capi().none => Ok(Handle::Stream(0)),
        Some(value) => handle(py, value.get()),
        None => Ok(Handle::Wrong),
    }
}

/// Returns the handle of an object that is a stream of some library; `None` if it is no such
/// object.
fn attributes(py: Py, object: *mut _object) -> Result<Option<Handle>> {
    if let Some(method) = py.attribute(object, py.names.cuda_stream)? {
        return protocol(py, &method).map(Some);
    }
    // PyTorch.
    if let Some(stored) = py.attribute(object, py.names.torch_stream)? {
        return stored_handle(py, &stored).map(Some);
    }
    // Events, buffers and pointers have these attributes as well: another handle there would crash
    // the driver.
    let name = py.type_name(object);
    if !name.as_str().as_bytes().windows(6).any(|part| part == b"Stream") {
        return Ok(None);
    }
    // CuPy, and Numba.
    for attribute in [py.names.stream_ptr, py.names.handle] {
        if let Some(stored) = py.attribute(object, attribute)? {
            return stored_handle(py, &stored).map(Some);
        }
    }
    Ok(None)
}

/// Reads what `__cuda_stream__` is: a method that returns (version, handle), or, in the first
/// releases of cuda.core, the pair itself.
fn protocol(py: Py, method: &Owned) -> Result<Handle> {
    const FIELD: &str = "stream.__cuda_stream__()";
    let capi = py.capi();
    // SAFETY: the GIL is held; the object is alive.
    let pair = unsafe {
        if (capi.callable_check)(method.get()) == 0 {
            Owned::share(py, method.object)
        } else {
            let nothing = Owned::new(py, (capi.tuple_new)(0))?;
            Owned::new(py, (capi.call)(method.get(), nothing.get(), ptr::null_mut()))?
        }
    };
    // SAFETY: the GIL is held; any object may be passed.
    let is_pair = unsafe { (capi.sequence_check)(pair.get()) } != 0 && size(py, pair.get())? == 2;
    if !is_pair {
        return fail!(
            CAI_ERR_TYPE,
            "{FIELD}",
            found = ("{}", shown(py, pair.get())),
            expected = "a tuple of the protocol's version and a handle"
        );
    }
    let version = item(py, pair.get(), 0)?;
    if !matches!(number(py, version.get(), false)?, Number::Value(0)) {
        return fail!(
            CAI_ERR_VERSION,
            "{FIELD}[0]",
            found = ("{}", shown(py, version.get())),
            expected = "0, the version of the protocol that is known here"
        );
    }
    let stored = item(py, pair.get(), 1)?;
    match stored_handle(py, &stored)? {
        Handle::Wrong => fail!(
            CAI_ERR_VALUE,
            "{FIELD}[1]",
            found = ("{}", shown(py, stored.get())),
            expected = "a cudaStream_t as an integer"
        ),
        found => Ok(found),
    }
}

#[cold]
fn refused(py: Py, object: *mut _object, accepted: Accepted) -> Result<u64> {
    let found = shown(py, object);
    let none = if accepted.none == 0 { "" } else { "None, " };
    // An integer out of range is a wrong value, everything else a wrong type.
    let is_integer = py.is(object, py.capi().long_type);
    let status = match py.type_of(object) != py.capi().bool_type && is_integer {
        true => abi::CAI_ERR_VALUE,
        false => abi::CAI_ERR_TYPE,
    };
    Err(failure!(
        status,
        "stream",
        found = "{found}",
        expected = "{none}1 (legacy default stream), 2 (per-thread default stream), a \
                    cudaStream_t or an object with __cuda_stream__"
    ))
}

/// Returns the number of the CUDA device that a stream object states; -1 if it states none.
///
/// # Safety
/// `object` is alive.
pub unsafe fn device_of(py: Py, object: NonNull<_object>) -> Result<i32> {
    let given = object.as_ptr();
    if given == py.capi().none || py.is(given, py.capi().long_type) {
        return Ok(-1);
    }
    let ordinal = |of: *mut _object, names: &[Name]| -> Result<Option<i32>> {
        for &name in names {
            let Some(stated) = py.attribute(of, name)? else { continue };
            if let Number::Value(value) = number(py, stated.get(), false)? {
                return Ok(Some(i32::try_from(value).unwrap_or(-1).max(-1)));
            }
        }
        Ok(None)
    };
    let names = &py.names;
    // PyTorch, and CuPy.
    if let Some(device) = ordinal(given, &[names.device_index, names.device_id])? {
        return Ok(device);
    }
    // cuda.core, and Numba before it had a device of its own.
    let inside = match py.attribute(given, names.device)? {
        Some(device) => Some(device),
        None => match py.attribute(given, names.context)? {
            Some(context) => py.attribute(context.get(), names.device)?,
            None => None,
        },
    };
    match inside {
        Some(device) => {
            Ok(ordinal(device.get(), &[names.device_id, names.index, names.id])?.unwrap_or(-1))
        }
        None => Ok(-1),
    }
}
