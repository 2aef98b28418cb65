//! `__cuda_array_interface__` of an exported array.

use std::ffi::c_void;
use std::ptr;

use crate::abi::{self, cai_array};
use crate::error::{Result, fail};
use crate::python::capi::Object;
use crate::python::convert::{integer, none, shared, tuple, unsigned};
use crate::python::export::object::{array_of, attribute, wrap};
use crate::python::interpreter::{Owned, Py, raised};
use crate::read::{self, Descr};
use crate::{owner, validate};

pub unsafe extern "C" fn get_cuda(object: *mut Object, _: *mut c_void) -> *mut Object {
    attribute(|py| {
        let (array, flags) = array_of(py, object)?;
        match array.device.r#type {
            abi::CAI_DEVICE_UNKNOWN
            | abi::CAI_DEVICE_CUDA
            | abi::CAI_DEVICE_CUDA_HOST
            | abi::CAI_DEVICE_CUDA_MANAGED => cuda(py, object, array, flags).map(Owned::into_raw),
            other => {
                fail!(
                    CAI_ERR_CONVERT_DEVICE,
                    "__cuda_array_interface__",
                    found = "an array on a device of type {other}",
                    expected = "one of CUDA's"
                )
            }
        }
    })
}

/// A dictionary that is being filled.
pub struct Dictionary(pub Owned, Py);

impl Dictionary {
    pub fn new(py: Py) -> Result<Self> {
        // SAFETY: the lock is held.
        Ok(Dictionary(Owned::new(py, unsafe { (py.capi().dict_new)() })?, py))
    }

    pub fn set(&self, key: *mut Object, value: Owned) -> Result<()> {
        // SAFETY: the lock is held; the dictionary takes references of its own.
        match unsafe { (self.1.capi().dict_set)(self.0.get(), key, value.get()) } {
            0 => Ok(()),
            _ => raised(),
        }
    }
}

/// A tuple of integers.
pub fn row(py: Py, values: &[i64]) -> Result<Owned> {
    let capi = py.capi();
    // SAFETY: the lock is held; what is put into a tuple is given away.
    unsafe {
        let tuple = Owned::new(py, (capi.tuple_new)(values.len() as isize))?;
        for (index, &value) in values.iter().enumerate() {
            (capi.tuple_set)(tuple.get(), index as isize, integer(py, value)?.into_raw());
        }
        Ok(tuple)
    }
}

pub fn typestr(py: Py, array: &cai_array) -> Result<Owned> {
    py.typestr(read::typestr(&array.typestr).unwrap_or_default())
}

/// Address and read-only flag.
pub fn data(py: Py, array: &cai_array, flags: u32) -> Result<Owned> {
    let capi = py.capi();
    let readonly =
        array.flags & abi::CAI_ARRAY_READONLY != 0 && flags & abi::CAI_EXPORT_HIDE_READONLY == 0;
    // SAFETY: the lock is held; what is put into a tuple is given away.
    unsafe {
        let tuple = Owned::new(py, (capi.tuple_new)(2))?;
        (capi.tuple_set)(tuple.get(), 0, unsigned(py, array.data as u64)?.into_raw());
        let flag = shared(py, if readonly { capi.r#true } else { capi.r#false });
        (capi.tuple_set)(tuple.get(), 1, flag.into_raw());
        Ok(tuple)
    }
}

/// What CUDA's and NumPy's dictionaries have in common.
pub fn common(dictionary: &Dictionary, array: &cai_array, flags: u32, version: i64) -> Result<()> {
    let (py, names) = (dictionary.1, &dictionary.1.names);
    // SAFETY: validated when the object was made.
    let (shape, strides) = unsafe { read::shape_and_strides(array) }?;
    dictionary.set(names.shape, row(py, shape)?)?;
    dictionary.set(names.typestr, typestr(py, array)?)?;
    dictionary.set(names.data, data(py, array, flags)?)?;
    let strides = if flags & abi::CAI_EXPORT_STRIDES == 0 && strides.is_none() {
        none(py)
    } else {
        // SAFETY: as above.
        let layout = unsafe { validate::describe(array) }?.layout;
        if layout.is_packed_bits()
            || (flags & abi::CAI_EXPORT_STRIDES == 0 && layout.is_c_contiguous())
        {
            none(py)
        } else {
            let mut steps = [0; abi::CAI_MAX_NDIM as usize];
            let steps = &mut steps[..shape.len()];
            layout.write_strides(steps)?;
            row(py, steps)?
        }
    };
    dictionary.set(names.strides, strides)?;
    dictionary.set(names.version, integer(py, version)?)?;
    if !array.descr.is_null() {
        // SAFETY: as above.
        dictionary.set(names.descr, fields(py, unsafe { Descr::new(array.descr) }?)?)?;
    }
    Ok(())
}

/// `__cuda_array_interface__`
pub fn cuda(py: Py, object: *mut Object, array: &cai_array, flags: u32) -> Result<Owned> {
    let old = flags & abi::CAI_EXPORT_VERSION_2 != 0 || array.stream == abi::CAI_STREAM_UNKNOWN;
    let dictionary = Dictionary::new(py)?;
    common(&dictionary, array, flags, if old { 2 } else { 3 })?;
    if !old {
        let stream = if array.stream == abi::CAI_STREAM_NONE {
            none(py)
        } else {
            unsigned(py, array.stream)?
        };
        dictionary.set(py.names.stream, stream)?;
    }
    if let Some(mask) = mask_of(py, object, array, flags)? {
        dictionary.set(py.names.mask, mask)?;
    }
    Ok(dictionary.0)
}

/// The mask of the array in `object`, as an object of the same type.
pub fn mask_of(
    py: Py,
    object: *mut Object,
    array: &cai_array,
    flags: u32,
) -> Result<Option<Owned>> {
    if array.mask.is_null() {
        return Ok(None);
    }
    // SAFETY: validated when the object was made; the owner of the array covers the mask.
    unsafe {
        let mut mask = read::array(array.mask)?;
        if mask.owner.is_null() {
            mask.owner = array.owner;
        }
        // What is not known of the mask is as for the array.
        if mask.device.r#type == abi::CAI_DEVICE_UNKNOWN {
            mask.device = array.device;
        }
        owner::retain(mask.owner)?;
        Owned::new(py, wrap(py, Ok(py.type_of(object)), mask, flags)?).map(Some)
    }
}

/// A list of fields as NumPy writes `descr`.
pub fn fields(py: Py, descr: Descr) -> Result<Owned> {
    let capi = py.capi();
    let name_of = |field: &read::Field| -> Result<Owned> {
        let name = py.string(field.name()?.as_bytes())?;
        match field.title()? {
            None => Ok(name),
            Some(title) => tuple(py, [py.string(title.as_bytes())?, name]),
        }
    };
    // SAFETY: the lock is held; what is put into a tuple is given away.
    let rows = unsafe { Owned::new(py, (capi.tuple_new)(descr.count as isize))? };
    for (index, field) in descr.fields().enumerate() {
        let name = name_of(&field)?;
        let r#type = match field.nested()? {
            Some(nested) => fields(py, nested)?,
            None => py.string(read::typestr(&field.raw.typestr).unwrap_or_default())?,
        };
        let shape = field.shape()?;
        let made = if shape.is_empty() {
            tuple(py, [name, r#type])?
        } else {
            tuple(py, [name, r#type, row(py, shape)?])?
        };
        // SAFETY: as above.
        unsafe { (capi.tuple_set)(rows.get(), index as isize, made.into_raw()) };
    }
    // SAFETY: the lock is held.
    unsafe {
        let arguments = tuple(py, [rows])?;
        Owned::new(py, (capi.call)(capi.list_type, arguments.get(), ptr::null_mut()))
    }
}
