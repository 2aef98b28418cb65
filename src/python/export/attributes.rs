//! Attributes of an exported array for people: `shape`, `strides`, `dtype`, `device`; and
//! `__array__`, which NumPy calls.

use std::ffi::{CStr, c_void};
use std::ptr;

use crate::abi::{self, cai_array};
use crate::device::Name;
use crate::error::{Result, Text, fail};
use crate::python::capi::Object;
use crate::python::convert::{none, tuple};
use crate::python::export::cai_dict::{fields, row, typestr};
use crate::python::export::object::{array_of, attribute, run_for_python};
use crate::python::py::{Owned, Py};
use crate::read::{self, Descr};
use crate::{dlpack, dtype, validate};

pub unsafe extern "C-unwind" fn get_shape(object: *mut Object, _: *mut c_void) -> *mut Object {
    attribute(|py| {
        let (array, _) = array_of(py, object)?;
        // SAFETY: the array was validated when the object was made.
        let (shape, _) = unsafe { read::shape_and_strides(&array) }?;
        row(py, shape).map(Owned::into_raw)
    })
}

/// The strides in bytes, whether or not the array states them. None for packed bits.
pub unsafe extern "C-unwind" fn get_strides(object: *mut Object, _: *mut c_void) -> *mut Object {
    attribute(|py| {
        let (array, _) = array_of(py, object)?;
        // SAFETY: the array was validated when the object was made.
        let layout = unsafe { validate::describe(&array) }?.layout;
        if layout.is_packed_bits() {
            return Ok(none(py).into_raw());
        }
        let mut steps = [0; abi::CAI_MAX_NDIM as usize];
        let steps = &mut steps[..layout.shape.len()];
        layout.write_strides(steps)?;
        row(py, steps).map(Owned::into_raw)
    })
}

/// The type as NumPy's, where NumPy is installed and has it; otherwise the typestr, or the fields.
pub unsafe extern "C-unwind" fn get_dtype(object: *mut Object, _: *mut c_void) -> *mut Object {
    attribute(|py| {
        let (array, _) = array_of(py, object)?;
        dtype_of(py, &array).map(Owned::into_raw)
    })
}

/// Returns the type of an array that was validated. NumPy's types of plain typestrs are remembered.
pub fn dtype_of<'py>(py: Py<'py>, array: &cai_array) -> Result<Owned<'py>> {
    let plain = (array.descr.is_null() && array.dtype_code == 0)
        .then(|| read::typestr(&array.typestr).unwrap_or_default());
    // SAFETY: the GIL is held.
    if let Some(known) = plain.and_then(|text| unsafe { py.dtypes.get(py.capi(), text) }) {
        return Ok(Owned::share(py, known));
    }
    let text = if array.descr.is_null() {
        typestr(py, array)?
    } else {
        // SAFETY: the array was validated (this function's contract).
        fields(py, unsafe { Descr::new(array.descr) }?)?
    };
    // Types that NumPy does not have are those of ml_dtypes, which adds them to NumPy.
    let named = match dtype::code_name(array.dtype_code) {
        Some(name) => without_failure(py, attribute_of(py, c"ml_dtypes", name.as_bytes()))?,
        None => None,
    };
    // NumPy's reader of a `descr` leaves out padding, of which `numpy.dtype` would make fields.
    let found = match array.descr.is_null() {
        true => None,
        false => without_failure(py, numpy_dtype_of_descr(py, &text))?,
    };
    let found = match found {
        Some(found) => Some(found),
        None => without_failure(py, numpy_dtype(py, named.as_ref().unwrap_or(&text)))?,
    };
    if let (Some(plain), Some(found)) = (plain, &found) {
        // SAFETY: the GIL is held.
        unsafe { py.dtypes.add(py.capi(), plain, found.get()) };
    }
    Ok(found.unwrap_or(text))
}

/// Returns an attribute of a module, which is imported.
fn attribute_of<'py>(py: Py<'py>, module: &CStr, name: &[u8]) -> Result<Owned<'py>> {
    let capi = py.capi();
    // SAFETY: the GIL is held; the name of the module is terminated.
    let module = Owned::new(py, unsafe { (capi.import)(module.as_ptr()) })?;
    let name = py.string(name)?;
    // SAFETY: the GIL is held; both objects are alive.
    Owned::new(py, unsafe { (capi.get_attr)(module.get(), name.get()) })
}

/// Returns NumPy's type for a typestr, a list of fields or a type.
fn numpy_dtype<'py>(py: Py<'py>, of: &Owned) -> Result<Owned<'py>> {
    call_with(py, &attribute_of(py, c"numpy", b"dtype")?, of)
}

/// Returns NumPy's type for a list of fields, in which nameless bytes are padding.
fn numpy_dtype_of_descr<'py>(py: Py<'py>, of: &Owned) -> Result<Owned<'py>> {
    call_with(py, &attribute_of(py, c"numpy.lib.format", b"descr_to_dtype")?, of)
}

/// Calls a function of one argument.
fn call_with<'py>(py: Py<'py>, function: &Owned, argument: &Owned) -> Result<Owned<'py>> {
    let arguments = tuple(py, [Owned::share(py, argument.object)])?;
    // SAFETY: the GIL is held; a tuple of arguments.
    Owned::new(py, unsafe { (py.capi().call)(function.get(), arguments.get(), ptr::null_mut()) })
}

/// Returns `None` instead of a failure: the package is not installed, or does not have the type.
/// Missing memory is a failure all the same.
fn without_failure<'py>(py: Py<'py>, made: Result<Owned<'py>>) -> Result<Option<Owned<'py>>> {
    // SAFETY: the GIL is held; a variable that CPython keeps an exception in.
    let memory_error = || unsafe { (py.capi().error_matches)(*py.capi().memory_error) } != 0;
    if made.is_err() && !memory_error() {
        py.clear();
        return Ok(None);
    }
    made.map(Some)
}

/// The device by name and number: `cuda:0`. None if it is not known.
pub unsafe extern "C-unwind" fn get_device(object: *mut Object, _: *mut c_void) -> *mut Object {
    attribute(|py| {
        let (array, _) = array_of(py, object)?;
        match device_text(&array) {
            Some(text) => py.string(text.as_str().as_bytes()).map(Owned::into_raw),
            None => Ok(none(py).into_raw()),
        }
    })
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

/// `__array__`: fails for memory that is not the host's, so that NumPy does not make an array of
/// one Python object. NumPy reads arrays in host memory through `__array_interface__` before it
/// calls this.
pub unsafe extern "C-unwind" fn array_method(
    object: *mut Object,
    arguments: *mut Object,
    keywords: *mut Object,
) -> *mut Object {
    run_for_python(|py| {
        let capi = py.capi();
        let (array, _) = array_of(py, object)?;
        if array.device.r#type != abi::CAI_DEVICE_CPU {
            let device = device_text(&array).unwrap_or(Text::new(format_args!("unknown")));
            return fail!(
                CAI_ERR_TYPE,
                "__array__",
                found = "an array on device {device}",
                expected = "host memory: copy it with numpy.from_dlpack(x, device=\"cpu\")"
            );
        }
        if py.attribute(object, py.names.array_interface)?.is_none() {
            return fail!(
                CAI_ERR_TYPE,
                "__array__",
                found = "an array that __array_interface__ cannot express",
                expected = "a type that NumPy has"
            );
        }
        // SAFETY: the GIL is held. CPython passes a tuple, and NULL or a dictionary. `tuple_set`
        // takes over the reference that is added to an item.
        unsafe {
            let count = (capi.tuple_size)(arguments);
            let all = Owned::new(py, (capi.tuple_new)(count + 1))?;
            for index in 0..=count {
                let item = if index == 0 { object } else { (capi.tuple_get)(arguments, index - 1) };
                (capi.incref)(item);
                (capi.tuple_set)(all.get(), index, item);
            }
            let asarray = attribute_of(py, c"numpy", b"asarray")?;
            Owned::new(py, (capi.call)(asarray.get(), all.get(), keywords)).map(Owned::into_raw)
        }
    })
}
