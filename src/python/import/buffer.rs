//! The OpenCL/CUDA buffer interface: `buffer`, `offset`, `dtype`, `shape` and `strides`.
//!
//! The arrays of pyopencl have `base_data` instead of `buffer`, and `int_ptr` instead of `_ptr`. A
//! `_ptr` is a `cl_mem` or a CUDA address, and the interface does not specify which. It is a
//! `cl_mem` if the object or its buffer is of pyopencl, or if the object has a queue or a context
//! with a handle. Otherwise the caller's options have to state what it is.

use crate::abi::{self, cai_device};
use crate::error::{Failure, Result, Text, fail, failure};
use crate::python::import::dict_keys::{DATA, DESCR, Held, Protocol, SHAPE, STRIDES, TYPESTR};
use crate::python::import::options::ImportOptions;
use crate::python::import::{dict, dict_explained};
use crate::python::owner::Description;
use crate::python::py::{Builtin, Int, Name, Obj, Owned, Py, Type};

const NAME: &str = "buffer interface";

/// Converts an object to an integer, as far as 64 bits reach. `None` if it is none.
fn integer(py: Py, object: Obj) -> Result<Option<i128>> {
    // A boolean is an integer in Python, but neither a handle nor an offset.
    if object.is_a(py, Builtin::Bool) {
        return Ok(None);
    }
    let Some(number) = object.optional_index(py)? else { return Ok(None) };
    Ok(Some(match number.obj().int(py)? {
        Int::Value(value) => value.into(),
        Int::Above => number.obj().unsigned(py).map_or(i128::MAX, i128::from),
        Int::Below => i128::MIN,
    }))
}

/// Returns an attribute that is a handle or an address. One that is no number is unrelated.
fn handle_in(py: Py, object: Obj, name: Name, text: &'static str) -> Result<Option<u64>> {
    let Some(value) = object.optional_attr(py, name)? else { return Ok(None) };
    let Some(value) = integer(py, value.obj())? else { return Ok(None) };
    match u64::try_from(value) {
        Ok(value) => Ok(Some(value)),
        Err(_) => fail!(CAI_ERR_VALUE, "{NAME}['{text}']";
            found "{}", in_64_bits(value); expected "an address or a handle of 64 bits"),
    }
}

fn in_64_bits(value: i128) -> Text<48> {
    match value {
        i128::MAX | i128::MIN => Text::new(format_args!("an integer of more than 64 bits")),
        value => Text::new(format_args!("{value}")),
    }
}

/// Returns the handle of an attribute: that of a queue or of a context.
fn handle_of(py: Py, object: Obj, name: Name) -> Result<Option<u64>> {
    match object.optional_attr(py, name)? {
        Some(value) => handle_in(py, value.obj(), py.names.int_ptr, "int_ptr"),
        None => Ok(None),
    }
}

fn is_of_pyopencl(py: Py, object: Obj) -> Result<bool> {
    let Some(module) = Type::of(py, object).obj().optional_attr(py, py.names.module)? else {
        return Ok(false);
    };
    let is_text = module.obj().is_a(py, Builtin::Str);
    let text = if is_text { module.obj().text(py) } else { None };
    Ok(text.is_some_and(|text| text == b"pyopencl" || text.starts_with(b"pyopencl.")))
}

/// Reads the offset. An object without one begins at the start of its buffer.
fn offset(py: Py, object: Obj, options: &ImportOptions) -> Result<u64> {
    let value = object.optional_attr(py, py.names.offset)?;
    let value = match &value {
        Some(value) if options.strict() || !value.obj().is_none(py) => value,
        None if options.strict() => {
            return fail!(CAI_ERR_KEY, "{NAME}['offset']";
                found "no such attribute"; expected "this attribute, which is required");
        }
        _ => return Ok(0),
    };
    let Some(bytes) = integer(py, value.obj())? else {
        return fail!(CAI_ERR_TYPE, "{NAME}['offset']";
            found "an object of type {}", value.obj().type_name(py);
            expected "an integer, in bytes");
    };
    match u64::try_from(bytes) {
        Ok(bytes) => Ok(bytes),
        Err(_) => fail!(CAI_ERR_VALUE, "{NAME}['offset']";
            found "{}", in_64_bits(bytes);
            expected "at least 0, because the array begins in the buffer"),
    }
}

/// Returns the typestr of a `dtype`, which is one of NumPy's or a text, and its fields.
fn element_type<'py>(py: Py<'py>, dtype: Owned<'py>) -> Result<(Owned<'py>, Option<Owned<'py>>)> {
    if dtype.obj().is_a(py, Builtin::Str) {
        return Ok((dtype, None));
    }
    let is_class = dtype.obj().is_a(py, Builtin::Type);
    let typestr = if is_class { None } else { dtype.obj().optional_attr(py, py.names.str)? };
    let Some(typestr) = typestr.filter(|text| text.obj().is_a(py, Builtin::Str)) else {
        return Err(no_type(py, &dtype, is_class));
    };
    if typestr.obj().text(py).and_then(|text| text.get(1)) != Some(&b'V') {
        return Ok((typestr, None));
    }
    // Types whose fields overlap have no `descr`: NumPy's exception says so.
    if let Some(descr) = dtype.obj().optional_attr(py, py.names.descr)? {
        return Ok((typestr, Some(descr)));
    }
    match dtype.obj().optional_attr(py, py.names.fields)? {
        Some(fields) if !fields.obj().is_none(py) => fail!(CAI_ERR_CONVERT_TYPE, "{NAME}['dtype']";
            found "fields, but no descr"; expected "a descr, as the types of NumPy have"),
        _ => Ok((typestr, None)),
    }
}

#[cold]
fn no_type(py: Py, dtype: &Owned, is_class: bool) -> Failure {
    let found: Text<80> = match dtype.obj().optional_attr(py, py.names.name) {
        Ok(Some(name)) if is_class && name.obj().is_a(py, Builtin::Str) => {
            let name = name.obj().text(py).unwrap_or_default().escape_ascii();
            Text::new(format_args!("the class {name}"))
        }
        Ok(_) => Text::new(format_args!("an object of type {}", dtype.obj().type_name(py))),
        Err(failure) => return failure,
    };
    failure!(abi::CAI_ERR_TYPE, "{NAME}['dtype']";
        found "{found}";
        expected "an instance, such as numpy.dtype('float32'), or a typestr, such as '<f4'")
}

pub fn import(py: Py, object: Obj, options: &ImportOptions, to: &mut Description) -> Result<bool> {
    let names = &py.names;
    let buffer = match object.optional_attr(py, names.base_data)? {
        Some(buffer) => buffer,
        None => match object.optional_attr(py, names.buffer)? {
            Some(buffer) => buffer,
            None => return Ok(false),
        },
    };
    // Other objects have buffers too; only arrays have these attributes.
    let Some(dtype) = object.optional_attr(py, names.dtype)? else { return Ok(false) };
    let Some(shape) = object.optional_attr(py, names.shape)? else { return Ok(false) };
    let strides = object.optional_attr(py, names.strides)?;
    // An array without elements may have no buffer.
    let (int_ptr, ptr) = if buffer.obj().is_none(py) {
        (None, Some(0))
    } else {
        let int_ptr = handle_in(py, buffer.obj(), names.int_ptr, "int_ptr")?;
        (int_ptr, handle_in(py, buffer.obj(), names.ptr, "_ptr")?)
    };
    let Some(value) = int_ptr.or(ptr) else { return Ok(false) };
    let (queue, context) =
        (handle_of(py, object, names.queue)?, handle_of(py, object, names.context)?);
    let is_opencl = int_ptr.is_some()
        || queue.is_some()
        || context.is_some()
        || is_of_pyopencl(py, object)?
        || is_of_pyopencl(py, buffer.obj())?;
    const STATED: u32 =
        abi::CAI_IMPORT_OPENCL_BUFFER_CL_MEM | abi::CAI_IMPORT_OPENCL_BUFFER_CUDA_ADDRESS;
    if !is_opencl && !options.has(STATED) {
        return fail!(CAI_ERR_CONVERT_DEVICE, "{NAME}['buffer']";
            found "_ptr, which may be a cl_mem or a CUDA address";
            expected "CAI_IMPORT_OPENCL_BUFFER_CL_MEM or CAI_IMPORT_OPENCL_BUFFER_CUDA_ADDRESS in \
                the options, because the object does not state which");
    }
    let is_opencl = is_opencl || options.has(abi::CAI_IMPORT_OPENCL_BUFFER_CL_MEM);
    let offset = offset(py, object, options)?;
    if !is_opencl && offset != 0 {
        return fail!(CAI_ERR_VALUE, "{NAME}['offset']";
            found "{offset}"; expected "0, because a CUDA address needs no offset");
    }
    let (typestr, descr) = element_type(py, dtype)?;

    let data = py.pair(py.unsigned(value)?, py.bool(false).share(py))?;
    to.reset();
    let mut values = Held::default();
    values[SHAPE] = Some(shape);
    values[TYPESTR] = Some(typestr);
    values[DESCR] = descr;
    values[DATA] = Some(data);
    values[STRIDES] = strides;
    let extras = dict_explained::read_values(py, &values, Protocol::Buffer, options, to)
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
