//! `__array_interface__` of an exported array.

use std::ffi::c_void;

use crate::abi;
use crate::device;
use crate::error::fail;
use crate::python::capi::Object;
use crate::python::export::cai_dict::{Dictionary, common, mask_of};
use crate::python::export::object::{array_of, attribute};

pub unsafe extern "C-unwind" fn get_host(object: *mut Object, _: *mut c_void) -> *mut Object {
    attribute(|py| {
        let (array, flags) = array_of(py, object)?;
        if array.device.r#type != abi::CAI_DEVICE_CPU {
            return fail!(
                CAI_ERR_CONVERT_DEVICE,
                "__array_interface__",
                found = ("an array on device {}", device::Name(array.device.r#type)),
                expected = "an array in host memory"
            );
        }
        if array.typestr[1] as u8 == b't' {
            return fail!(
                CAI_ERR_CONVERT_TYPE,
                "__array_interface__",
                found = "packed bits",
                expected = "a type that NumPy has"
            );
        }
        let dictionary = Dictionary::new(py)?;
        common(&dictionary, &array, flags, 3)?;
        if let Some(mask) = mask_of(py, object, &array, flags)? {
            dictionary.set(py.names.mask, mask)?;
        }
        Ok(dictionary.into_object().into_raw())
    })
}
