//! The OpenCL/CUDA buffer interface: objects with `buffer`, `offset`, `dtype`, `shape` and
//! `strides`.
//!
//! The arrays of pyopencl have `base_data` instead of `buffer`, and `int_ptr` instead of `_ptr`. A
//! `_ptr` is a `cl_mem` or a CUDA address, and the interface does not specify which. It is a
//! `cl_mem` if the object or its buffer is of pyopencl, or if the object has a queue or a context
//! with a handle. Otherwise the caller's options have to state what it is.

use std::ffi::c_int;
use std::ptr::NonNull;

use crate::abi::{self, cai_device};
use crate::error::{Failure, Result, Text, fail, failure};
use crate::python::capi::Object;
use crate::python::convert::pair;
use crate::python::import::dict_keys::Protocol;
use crate::python::import::options::ImportOptions;
use crate::python::import::{dict, dict_reader};
use crate::python::owner::Description;
use crate::python::py::{Name, Owned, Py};

const NAME: &str = "buffer interface";

/// Converts an object to an integer, as far as 64 bits reach. `None` if it is none.
fn integer(py: Py, object: *mut Object) -> Result<Option<i128>> {
    let capi = py.capi();
    // A boolean is an integer in Python, but neither a handle nor an offset.
    if py.is(object, capi.bool_type) {
        return Ok(None);
    }
    // SAFETY: the GIL is held.
    unsafe {
        let number = (capi.index)(object);
        if number.is_null() && (capi.error_matches)(*capi.type_error) != 0 {
            (capi.error_clear)();
            return Ok(None);
        }
        let number = Owned::new(py, number)?;
        let mut overflow: c_int = 0;
        let value = (capi.long_as_signed)(number.get(), &raw mut overflow);
        match overflow {
            0 => Ok(Some(value.into())),
            1.. => {
                let value = (capi.long_as_unsigned)(number.get());
                if py.has_exception() {
                    py.clear();
                    return Ok(Some(i128::MAX));
                }
                Ok(Some(value.into()))
            }
            _ => Ok(Some(i128::MIN)),
        }
    }
}

/// Returns an attribute that is a handle or an address. An attribute of that name that is no number
/// is unrelated.
fn handle_in(py: Py, object: *mut Object, name: Name, text: &'static str) -> Result<Option<u64>> {
    let Some(value) = py.attribute(object, name)? else { return Ok(None) };
    let Some(value) = integer(py, value.get())? else { return Ok(None) };
    match u64::try_from(value) {
        Ok(value) => Ok(Some(value)),
        Err(_) => fail!(
            CAI_ERR_VALUE,
            "{NAME}['{text}']",
            found = ("{}", in_64_bits(value)),
            expected = "an address or a handle of 64 bits"
        ),
    }
}

fn in_64_bits(value: i128) -> Text<48> {
    match value {
        i128::MAX | i128::MIN => Text::new(format_args!("an integer of more than 64 bits")),
        value => Text::new(format_args!("{value}")),
    }
}

/// Returns the handle of an attribute: that of a queue or of a context.
fn handle_of(py: Py, object: *mut Object, name: Name) -> Result<Option<u64>> {
    match py.attribute(object, name)? {
        Some(value) => handle_in(py, value.get(), py.names.int_ptr, "int_ptr"),
        None => Ok(None),
    }
}

fn is_of_pyopencl(py: Py, object: *mut Object) -> Result<bool> {
    let Some(module) = py.type_attribute(object, py.names.module)? else { return Ok(false) };
    let text = if py.is(module.get(), py.capi().str_type) { py.text(module.get()) } else { None };
    Ok(text.is_some_and(|text| text == b"pyopencl" || text.starts_with(b"pyopencl.")))
}

/// Reads the offset. An object without one begins at the start of its buffer.
fn offset(py: Py, object: *mut Object, options: &ImportOptions) -> Result<u64> {
    let value = py.attribute(object, py.names.offset)?;
    let value = match &value {
        Some(value) if options.strict() || value.get() != py.capi().none => value,
        None if options.strict() => {
            return fail!(
                CAI_ERR_KEY,
                "{NAME}['offset']",
                found = "no such attribute",
                expected = "this attribute, which is required"
            );
        }
        _ => return Ok(0),
    };
    let Some(bytes) = integer(py, value.get())? else {
        return fail!(
            CAI_ERR_TYPE,
            "{NAME}['offset']",
            found = ("an object of type {}", py.type_name(value.get())),
            expected = "an integer, in bytes"
        );
    };
    match u64::try_from(bytes) {
        Ok(bytes) => Ok(bytes),
        Err(_) => fail!(
            CAI_ERR_VALUE,
            "{NAME}['offset']",
            found = ("{}", in_64_bits(bytes)),
            expected = "at least 0, because the array begins in the buffer"
        ),
    }
}

/// Returns the typestr of a `dtype`, which is one of NumPy's or a text, and its fields.
fn element_type<'py>(py: Py<'py>, dtype: Owned<'py>) -> Result<(Owned<'py>, Option<Owned<'py>>)> {
    let capi = py.capi();
    if py.is(dtype.get(), capi.str_type) {
        return Ok((dtype, None));
    }
    let is_class = py.is(dtype.get(), capi.type_type);
    let typestr = if is_class { None } else { py.attribute(dtype.get(), py.names.str)? };
    let Some(typestr) = typestr.filter(|text| py.is(text.get(), capi.str_type)) else {
        return Err(no_type(py, &dtype, is_class));
    };
    if py.text(typestr.get()).and_then(|text| text.get(1)) != Some(&b'V') {
        return Ok((typestr, None));
    }
    // Types whose fields overlap have no `descr`: NumPy's exception says so.
    if let Some(descr) = py.attribute(dtype.get(), py.names.descr)? {
        return Ok((typestr, Some(descr)));
    }
    match py.attribute(dtype.get(), py.names.fields)? {
        Some(fields) if fields.get() != capi.none => fail!(
            CAI_ERR_CONVERT_TYPE,
            "{NAME}['dtype']",
            found = "fields, but no descr",
            expected = "a descr, as the types of NumPy have"
        ),
        _ => Ok((typestr, None)),
    }
}

#[cold]
fn no_type(py: Py, dtype: &Owned, is_class: bool) -> Failure {
    let found: Text<80> = match py.attribute(dtype.get(), py.names.name) {
        Ok(Some(name)) if is_class && py.is(name.get(), py.capi().str_type) => {
            let name = py.text(name.get()).unwrap_or_default().escape_ascii();
            Text::new(format_args!("the class {name}"))
        }
        Ok(_) => Text::new(format_args!("an object of type {}", py.type_name(dtype.get()))),
        Err(failure) => return failure,
    };
    failure!(
        abi::CAI_ERR_TYPE,
        "{NAME}['dtype']",
        found = "{found}",
        expected = "an instance, such as numpy.dtype('float32'), or a typestr, such as '<f4'"
    )
}

/// Imports such an object. Returns false if it is something else.
pub fn import(
    py: Py,
    object: NonNull<Object>,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<bool> {
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
    // An array without elements may have no buffer.
    let (int_ptr, ptr) = if buffer.get() == capi.none {
        (None, Some(0))
    } else {
        let int_ptr = handle_in(py, buffer.get(), names.int_ptr, "int_ptr")?;
        (int_ptr, handle_in(py, buffer.get(), names.ptr, "_ptr")?)
    };
    let Some(value) = int_ptr.or(ptr) else { return Ok(false) };
    let (queue, context) = (handle_of(py, this, names.queue)?, handle_of(py, this, names.context)?);
    let is_opencl = int_ptr.is_some()
        || queue.is_some()
        || context.is_some()
        || is_of_pyopencl(py, this)?
        || is_of_pyopencl(py, buffer.get())?;
    if !is_opencl && !options.opencl() && !options.cuda() {
        return fail!(
            CAI_ERR_CONVERT_DEVICE,
            "{NAME}['buffer']",
            found = "_ptr, which may be a cl_mem or a CUDA address",
            expected = "CAI_IMPORT_BUFFER_OPENCL or CAI_IMPORT_BUFFER_CUDA in the options, because \
             the object does not state which"
        );
    }
    let is_opencl = is_opencl || options.opencl();
    let offset = offset(py, this, options)?;
    if !is_opencl && offset != 0 {
        return fail!(
            CAI_ERR_VALUE,
            "{NAME}['offset']",
            found = "{offset}",
            expected = "0, because a CUDA address needs no offset"
        );
    }
    let (typestr, descr) = element_type(py, dtype)?;

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
    let extras = dict_reader::read_buffer(py, shape, typestr, descr, data, strides, options, to)
        .map_err(as_attribute)?;
    to.array.stream = abi::CAI_STREAM_UNKNOWN;
    if is_opencl {
        // Neither the interface nor pyopencl numbers devices.
        to.array.device = cai_device { r#type: abi::CAI_DEVICE_OPENCL, id: -1 };
        to.array.context = context.unwrap_or(0) as *mut _;
        to.array.stream = queue.filter(|&queue| queue > 2).unwrap_or(abi::CAI_STREAM_UNKNOWN);
        to.array.byte_offset = if to.array.data.is_null() { 0 } else { offset };
    }
    dict::finish(py, object, Protocol::Buffer, options, extras, None, to).map_err(as_attribute)?;
    Ok(true)
}

/// Renames what the reader of dictionaries reports to what the attributes are called.
fn as_attribute(failure: Failure) -> Failure {
    const NAMES: [(&str, &str); 4] = [
        ("['typestr']", "dtype"),
        ("['descr']", "dtype"),
        ("['data']", "buffer"),
        ("['byte_offset']", "offset"),
    ];
    let Some(field) = failure.details().map(|details| details.field) else { return failure };
    let Some(path) = field.as_str().strip_prefix(NAME) else { return failure };
    for (key, name) in NAMES {
        if let Some(rest) = path.strip_prefix(key) {
            return failure.at(format_args!("{NAME}['{name}']{rest}"));
        }
    }
    failure
}
