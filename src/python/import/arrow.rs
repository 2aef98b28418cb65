//! `__arrow_c_device_array__` and, for host memory, `__arrow_c_array__`: capsules with Arrow's
//! structures.

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use crate::abi;
use crate::arrow::{self, DeviceArray, Schema};
use crate::error::{Result, fail};
use crate::python::capsules::{ARROW_ARRAY, ARROW_DEVICE_ARRAY, ARROW_SCHEMA};
use crate::python::import::exchange_table::Answer;
use crate::python::import::options::ImportOptions;
use crate::python::import::requirements::refuse_mask;
use crate::python::owner::Description;
use crate::python::py::{Obj, Py};

const DEVICE: &str = "__arrow_c_device_array__";
const HOST: &str = "__arrow_c_array__";

/// Imports an array that consists of numbers, and perhaps of lists of a fixed size. `None` if the
/// object offers none. Other types are left to other protocols.
pub fn import(
    py: Py,
    object: Obj,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<Option<Answer>> {
    let mut name = DEVICE;
    let mut method = object.optional_attr(py, py.names.arrow_device_array)?;
    if method.is_none() && options.host() {
        name = HOST;
        method = object.optional_attr(py, py.names.arrow_array)?;
    }
    let Some(method) = method else { return Ok(None) };
    let pair = method.obj().call(py, [])?;
    let items = pair.obj().tuple(py).map(|pair| [pair.get(py, 0), pair.get(py, 1)]);
    let Some([Some(schema), Some(array)]) = items else {
        return fail!(CAI_ERR_TYPE, "{name}";
            found "an object of type {}", pair.obj().type_name(py);
            expected "a tuple of two capsules");
    };
    let schema = pointer(py, name, schema, ARROW_SCHEMA)?.cast::<Schema>();
    let array_name = if name == DEVICE { ARROW_DEVICE_ARRAY } else { ARROW_ARRAY };
    let source = pointer(py, name, array, array_name)?;
    // SAFETY: the names of the capsules state the types of the structures, which live as long as
    // the pair. Code that has a capsule may move the array out of it.
    let made = unsafe {
        if name == DEVICE {
            arrow::from_arrow(source.cast().as_ptr(), schema.as_ptr())
        } else {
            let place = source.cast::<arrow::Array>().as_ptr();
            let mut array = DeviceArray {
                array: place.read(),
                device_id: -1,
                device_type: abi::CAI_DEVICE_CPU,
                sync_event: ptr::null_mut(),
                reserved: [MaybeUninit::new(0); 3],
            };
            let made = arrow::from_arrow(&raw mut array, schema.as_ptr());
            if made.is_ok() {
                (*place).release = None;
            }
            made
        }
    };
    match made {
        Ok(array) if array.mask.is_null() || options.has(abi::CAI_IMPORT_ALLOW_MASK) => {
            to.set(array.into_raw());
            Ok(Some(Answer::Array))
        }
        Ok(_) => Err(refuse_mask(format_args!("{name}.array.buffers[0]"))),
        Err(failure) if failure.status() == abi::CAI_ERR_CONVERT_TYPE => {
            Ok(Some(Answer::Refused(failure.within(format_args!("{name}.")))))
        }
        Err(failure) => Err(failure.within(format_args!("{name}."))),
    }
}

fn pointer(py: Py, protocol: &str, capsule: Obj, name: &'static CStr) -> Result<NonNull<c_void>> {
    match capsule.capsule(py, Some(name)) {
        Some(pointer) => Ok(pointer),
        None => fail!(CAI_ERR_TYPE, "{protocol}";
            found "an object of type {}", capsule.type_name(py);
            expected "a capsule named {}", name.to_bytes().escape_ascii()),
    }
}
