//! The OpenCL/CUDA buffer interface: objects with `buffer`, `offset`, `dtype`, `shape` and
//! `strides`.
//!
//! May use: `abi`, `error`, `python::capi`, `python::convert`, `python::import::dict_keys`,
//! `python::import::dict_reader`, `python::import::options`, `python::interpreter`,
//! `python::owner`, `validate`.
//! Unsafe: calls CPython with the GIL held.
//!
//! The arrays of pyopencl have `base_data` instead of `buffer`, and `int_ptr` instead of `_ptr`. A
//! `_ptr` is a `cl_mem` or a CUDA address, and the interface does not specify which. It is taken
//! for a `cl_mem` if the object or its buffer is of pyopencl, or if the object has a queue or a
//! context with a handle. Otherwise it is an address.

use std::ptr::NonNull;

use crate::abi::{self, cai_device};
use crate::error::{Result, fail};
use crate::python::capi::Object;
use crate::python::convert::pair;
use crate::python::import::dict_keys::{Protocol, in_dictionary};
use crate::python::import::dict_reader;
use crate::python::import::options::ImportOptions;
use crate::python::interpreter::{Owned, Py, raised};
use crate::python::owner::{Description, attach};
use crate::validate;

/// Returns an attribute that is an integer.
fn number(py: Py, object: *mut Object, name: *mut Object) -> Result<Option<u64>> {
    let Some(value) = py.attribute(object, name)? else { return Ok(None) };
    let capi = py.capi();
    if value.get() == capi.none {
        return Ok(None);
    }
    // SAFETY: the GIL is held.
    unsafe {
        let number = (capi.index)(value.get());
        if number.is_null() && (capi.error_matches)(*capi.type_error) != 0 {
            // An unrelated attribute of that name.
            (capi.error_clear)();
            return Ok(None);
        }
        let number = Owned::new(py, number)?;
        let value = (capi.long_as_unsigned)(number.get());
        if py.has_exception() { raised() } else { Ok(Some(value)) }
    }
}

/// Returns the handle in an attribute: that of a queue or of a context.
fn handle(py: Py, object: *mut Object, name: *mut Object) -> Result<Option<u64>> {
    match py.attribute(object, name)? {
        Some(value) => number(py, value.get(), py.names.int_ptr),
        None => Ok(None),
    }
}

fn is_of_pyopencl(py: Py, object: *mut Object) -> Result<bool> {
    let Some(module) = py.type_attribute(object, py.names.module)? else { return Ok(false) };
    let text = if py.is(module.get(), py.capi().str_type) { py.text(module.get()) } else { None };
    Ok(text.is_some_and(|text| text == b"pyopencl" || text.starts_with(b"pyopencl.")))
}

/// Imports such an object. Returns false if it is something else.
pub fn import(
    py: Py,
    object: NonNull<Object>,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<bool> {
    const NAME: &str = "buffer interface";
    let (capi, names, this) = (py.capi(), &py.names, object.as_ptr());
    let buffer = match py.attribute(this, names.base_data)? {
        Some(buffer) => buffer,
        None => match py.attribute(this, names.buffer)? {
            Some(buffer) => buffer,
            None => return Ok(false),
        },
    };
    // Other objects have buffers too; only arrays have these attributes.
    let Some(dtype) = py.attribute(this, names.dtype)? else { return Ok(false) };
    let Some(shape) = py.attribute(this, names.shape)? else { return Ok(false) };
    let strides = py.attribute(this, names.strides)?;
    let typestr = if py.is(dtype.get(), capi.str_type) {
        Some(dtype)
    } else {
        py.attribute(dtype.get(), names.str)?
    };
    // An array without elements may have no buffer.
    let empty_handed = buffer.get() == capi.none;
    let (int_ptr, ptr) = if empty_handed {
        (None, None)
    } else {
        let int_ptr = number(py, buffer.get(), names.int_ptr)?;
        (int_ptr, if int_ptr.is_none() { number(py, buffer.get(), names.ptr)? } else { None })
    };
    let Some(value) = int_ptr.or(ptr).or(empty_handed.then_some(0)) else { return Ok(false) };
    let offset = number(py, this, names.offset)?.unwrap_or(0);
    let (queue, context) = (handle(py, this, names.queue)?, handle(py, this, names.context)?);
    let opencl = int_ptr.is_some()
        || queue.is_some()
        || context.is_some()
        || is_of_pyopencl(py, this)?
        || is_of_pyopencl(py, buffer.get())?;

    // SAFETY: the GIL is held. `tuple_set` takes over the reference to the item.
    let data = unsafe {
        let data = pair(py, 0, 0)?;
        let value = Owned::new(py, (capi.long_from_unsigned)(value))?;
        (capi.tuple_set)(data.get(), 0, value.into_raw());
        (capi.incref)(capi.r#false);
        (capi.tuple_set)(data.get(), 1, capi.r#false);
        data
    };
    to.reset();
    dict_reader::read_buffer(py, shape, typestr, data, strides, options, to)?;
    if opencl {
        to.array.device = cai_device { r#type: abi::CAI_DEVICE_OPENCL, id: 0 };
        to.array.context = context.unwrap_or(0) as *mut _;
        to.array.stream = queue.filter(|&queue| queue > 2).unwrap_or(abi::CAI_STREAM_UNKNOWN);
        to.array.byte_offset = if to.array.data.is_null() { 0 } else { offset };
    } else {
        if offset != 0 {
            return fail!(
                CAI_ERR_VALUE,
                "{NAME}['offset']",
                found = "{offset}",
                expected = "0, because a CUDA address needs no offset"
            );
        }
        to.array.stream = abi::CAI_STREAM_UNKNOWN;
    }
    // SAFETY: the array was described above, with `ndim` values.
    unsafe { validate::array(to.array(), abi::CAI_CHECK_LAYOUT) }
        .map_err(|failure| in_dictionary(Protocol::Buffer, failure))?;
    attach(py, &mut to.array, Owned::share(py, object), None)?;
    Ok(true)
}
