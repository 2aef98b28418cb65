//! Attributes of an exported array for people: `shape`, `strides`, `dtype`, `device`; and
//! `__array__`, which NumPy calls.

use std::ffi::CStr;
use std::iter;

use crate::abi::{self, cai_array};
use crate::device::Name;
use crate::error::{Result, Text, fail};
use crate::python::class::Instance;
use crate::python::export::cai_dict::{self, fields, typestr};
use crate::python::export::object::{Exported, Reading};
use crate::python::py::{Dict, Exception, Obj, Owned, Py, Tuple};
use crate::read;
use crate::{dlpack, dtype};

pub fn shape<'py>(py: Py<'py>, this: Instance<'_, Exported>) -> Result<Owned<'py>> {
    py.tuple_of_ints(this.array()?.shape_and_strides()?.0)
}

/// The strides in bytes, whether or not the array states them. None for packed bits.
pub fn strides<'py>(py: Py<'py>, this: Instance<'_, Exported>) -> Result<Owned<'py>> {
    let strides = cai_dict::strides(py, &this.array()?, abi::CAI_EXPORT_STRIDES)?;
    Ok(strides.unwrap_or_else(|| py.none().share(py)))
}

/// The type as NumPy's, where NumPy is installed and has it; otherwise the typestr, or the fields.
pub fn dtype<'py>(py: Py<'py>, this: Instance<'_, Exported>) -> Result<Owned<'py>> {
    dtype_of(py, &this.array()?)
}

/// Returns the type of an array. NumPy's types of plain typestrs are remembered.
pub fn dtype_of<'py>(py: Py<'py>, array: &Reading) -> Result<Owned<'py>> {
    let plain = (array.descr.is_null() && array.dtype_code == 0)
        .then(|| read::typestr(&array.typestr).unwrap_or_default());
    if let Some(known) = plain.and_then(|text| py.dtypes().get(text)) {
        return Ok(known.share(py));
    }
    let descr = array.valid().fields();
    let text = match descr {
        Some(descr) => fields(py, descr)?,
        None => typestr(py, array)?,
    };
    // Types that NumPy does not have are those of ml_dtypes, which adds them to NumPy.
    let named = match dtype::code_name(array.dtype_code) {
        Some(name) => without_failure(py, attribute_of(py, c"ml_dtypes", name.as_bytes()))?,
        None => None,
    };
    // NumPy's reader of a `descr` leaves out padding, of which `numpy.dtype` would make fields.
    let found = match descr {
        Some(_) => {
            without_failure(py, call(py, c"numpy.lib.format", b"descr_to_dtype", text.obj()))?
        }
        None => None,
    };
    let found = match found {
        Some(found) => Some(found),
        None => {
            let of = named.as_ref().unwrap_or(&text).obj();
            without_failure(py, call(py, c"numpy", b"dtype", of))?
        }
    };
    if let (Some(plain), Some(found)) = (plain, &found) {
        py.dtypes().add(plain, found.obj());
    }
    Ok(found.unwrap_or(text))
}

/// Returns an attribute of a module, which is imported.
fn attribute_of<'py>(py: Py<'py>, module: &CStr, name: &[u8]) -> Result<Owned<'py>> {
    py.import(module)?.obj().attr(py, &py.string(name)?)
}

fn call<'py>(py: Py<'py>, module: &CStr, name: &[u8], argument: Obj) -> Result<Owned<'py>> {
    attribute_of(py, module, name)?.obj().call(py, [argument])
}

/// Returns `None` instead of a failure: the package is not installed, or does not have the type.
/// Missing memory is a failure all the same.
fn without_failure<'py>(py: Py<'py>, made: Result<Owned<'py>>) -> Result<Option<Owned<'py>>> {
    if made.is_err() && !py.raised(Exception::Memory) {
        py.clear();
        return Ok(None);
    }
    made.map(Some)
}

/// The device by name and number: `cuda:0`. None if it is not known.
pub fn device<'py>(py: Py<'py>, this: Instance<'_, Exported>) -> Result<Owned<'py>> {
    match device_text(&*this.array()?) {
        Some(text) => py.string(text.as_str().as_bytes()),
        None => Ok(py.none().share(py)),
    }
}

fn device_text(array: &cai_array) -> Option<Text<32>> {
    let (r#type, id) = match (array.device.r#type, array.device.id) {
        (abi::CAI_DEVICE_UNKNOWN, _) => dlpack::device_of(array).ok()?,
        known => known,
    };
    Some(match r#type {
        abi::CAI_DEVICE_CPU => Text::new(format_args!("cpu")),
        // A negative number is not known.
        _ if id < 0 => Text::new(format_args!("{}", Name(r#type))),
        _ => Text::new(format_args!("{}:{id}", Name(r#type))),
    })
}

/// `__array__`: fails, so that NumPy does not make an array of one Python object. Before it calls
/// this, it reads arrays in host memory through `__array_interface__`.
pub fn array<'py>(
    py: Py<'py>,
    this: Instance<'_, Exported>,
    arguments: Tuple<'_>,
    keywords: Option<Dict<'_>>,
) -> Result<Owned<'py>> {
    let array = this.array()?;
    if array.device.r#type != abi::CAI_DEVICE_CPU {
        let device = device_text(&array).unwrap_or(Text::new(format_args!("unknown")));
        return fail!(CAI_ERR_TYPE, "__array__";
            found "an array on device {device}";
            expected "host memory: copy it with numpy.from_dlpack(x, device=\"cpu\")");
    }
    if this.object().optional_attr(py, py.names.array_interface)?.is_none() {
        return fail!(CAI_ERR_TYPE, "__array__";
            found "an array that __array_interface__ cannot express";
            expected "a type that NumPy has");
    }
    let asarray = attribute_of(py, c"numpy", b"asarray")?;
    let all = iter::once(this.object()).chain(arguments.items(py));
    asarray.obj().call_with(py, 1 + arguments.len(py), all, keywords)
}
