//! `__array_interface__` of an exported array.

use crate::abi;
use crate::device;
use crate::error::{Result, fail};
use crate::python::class::Instance;
use crate::python::export::cai_dict::{Filling, mask_of};
use crate::python::export::object::Exported;
use crate::python::py::{Dictionary, Owned, Py};

pub fn array_interface<'py>(py: Py<'py>, this: Instance<'_, Exported>) -> Result<Owned<'py>> {
    let array = this.array()?;
    if array.device.r#type != abi::CAI_DEVICE_CPU {
        return fail!(CAI_ERR_CONVERT_DEVICE, "__array_interface__";
            found "an array on device {}", device::Name(array.device.r#type);
            expected "an array in host memory");
    }
    if array.typestr[1] as u8 == b't' {
        return fail!(CAI_ERR_CONVERT_TYPE, "__array_interface__";
            found "packed bits"; expected "a type that NumPy has");
    }
    let dictionary = Dictionary::new(py)?;
    Filling::Empty { version: 3 }.fill(py, &dictionary, &array, this.flags())?;
    if let Some(mask) = mask_of(py, &array, this.flags())? {
        dictionary.set(py.names.mask, &mask)?;
    }
    Ok(dictionary.into_object())
}
