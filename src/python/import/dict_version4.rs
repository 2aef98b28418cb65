//! The keys that version 4 of CUDA's dictionary adds, as the page "Version 4" proposes them.

use std::ffi::c_void;

use crate::abi::{self, cai_device};
use crate::dtype;
use crate::error::{Result, fail};
use crate::python::import::dict_keys::{Protocol, in_dictionary};
use crate::python::import::mapping::{item, makes_up};
use crate::python::owner::Description;
use crate::python::py::{Builtin, Name, Obj, Py};
use crate::python::values::Number;
use crate::validate;

/// Reads the keys into an array that the other keys describe. Producers that do not know their stream
/// write them into dictionaries of version 2. Version 3 is left to the fast path.
#[cold]
#[inline(never)]
pub fn read(py: Py, dictionary: Obj, to: &mut Description) -> Result<()> {
    let (names, makes_up) = (&py.names, makes_up(py, dictionary)?);
    let value = |key: Name| -> Result<_> {
        let found = item(py, dictionary, key, makes_up)?;
        Ok(found.filter(|found| !found.obj().is_none(py)))
    };
    if let Some(version) = value(names.version)? {
        if matches!(version.obj().number(py, false)?, Number::Value(3)) {
            return Ok(());
        }
    }
    if let Some(device) = value(names.device)? {
        to.array.device = self::device(py, device.obj())?;
    }
    let handle = |key: Name, text: &str| match value(key)? {
        Some(found) => number(py, found.obj(), text),
        None => Ok(0),
    };
    to.array.context = handle(names.context, "context")? as *mut c_void;
    to.array.stream_id = handle(names.stream_id, "stream_id")?;
    to.array.event = handle(names.event, "event")? as *mut c_void;
    if let Some(name) = value(names.dtype)? {
        to.array.dtype_code = code(py, name.obj(), to)?;
    }
    // SAFETY: the array was described, with as many extents and strides as it says, and has neither
    // fields nor a mask yet.
    unsafe { validate::array(to.array(), abi::CAI_CHECK_LAYOUT) }
        .map_err(|failure| in_dictionary(Protocol::Cuda, failure))
}

/// Reads a number of 64 bits that is not 0.
fn number(py: Py, object: Obj, key: &str) -> Result<u64> {
    match object.number(py, false)? {
        Number::Value(value @ 1..) => Ok(value as u64),
        Number::Value(value) => fail!(CAI_ERR_VALUE, "__cuda_array_interface__['{key}']";
            found "{value}"; expected "a number above 0, or None if it is not known"),
        Number::Wide => fail!(CAI_ERR_VALUE, "__cuda_array_interface__['{key}']";
            found "an integer of more than 64 bits"; expected "at most 64 bits"),
        Number::Other => fail!(CAI_ERR_TYPE, "__cuda_array_interface__['{key}']";
            found "{}", object.shown(py); expected "an integer or None"),
    }
}

const TYPES: &str = "2 (CUDA), 3 (page-locked host memory) or 13 (managed memory)";

fn device(py: Py, object: Obj) -> Result<cai_device> {
    let pair = object.tuple(py).map(|pair| [pair.get(py, 0), pair.get(py, 1), pair.get(py, 2)]);
    let Some([Some(r#type), Some(id), None]) = pair else {
        return fail!(CAI_ERR_TYPE, "__cuda_array_interface__['device']";
            found "{}", object.shown(py);
            expected "a tuple of two integers, the device's type and number, as __dlpack_device__ returns it");
    };
    let mut values = [0; 2];
    for (index, (object, to)) in [r#type, id].into_iter().zip(&mut values).enumerate() {
        let found = match object.number(py, false)? {
            Number::Value(value) if i32::try_from(value).is_ok() => {
                *to = value as i32;
                continue;
            }
            Number::Value(value) => value.to_string(),
            Number::Wide => "an integer of more than 64 bits".to_owned(),
            Number::Other => {
                return fail!(CAI_ERR_TYPE, "__cuda_array_interface__['device'][{index}]";
                    found "{}", object.shown(py); expected "an integer");
            }
        };
        return if index == 0 {
            fail!(CAI_ERR_DEVICE_TYPE, "__cuda_array_interface__['device'][0]";
                found "{found}"; expected "{TYPES}")
        } else {
            fail!(CAI_ERR_DEVICE_ID, "__cuda_array_interface__['device'][1]";
                found "{found}"; expected "the number of a device")
        };
    }
    let [r#type, id] = values;
    if !matches!(
        r#type,
        abi::CAI_DEVICE_CUDA | abi::CAI_DEVICE_CUDA_HOST | abi::CAI_DEVICE_CUDA_MANAGED
    ) {
        return fail!(CAI_ERR_DEVICE_TYPE, "__cuda_array_interface__['device'][0]";
            found "{type}"; expected "{TYPES}");
    }
    Ok(cai_device { r#type, id })
}

/// Returns the code of a type's name. A name that this version does not know leaves the type as its
/// typestr says, as readers of version 3 take it.
fn code(py: Py, object: Obj, of: &Description) -> Result<u16> {
    if !object.is_a(py, Builtin::Str) {
        return fail!(CAI_ERR_TYPE, "__cuda_array_interface__['dtype']";
            found "{}", object.shown(py); expected "a name such as \"bfloat16\", or None");
    }
    let name = object.text(py).unwrap_or_default();
    let stated = dtype::of_array(&of.array)?;
    match dtype::code_of_name(name, &stated) {
        Some(code) => code.map_err(|failure| in_dictionary(Protocol::Cuda, failure)),
        None => Ok(abi::CAI_DTYPE_NONE),
    }
}
