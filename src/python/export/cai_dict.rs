//! `__cuda_array_interface__` of an exported array, and what other dictionaries have in common with
//! it.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::Ordering;

use crate::abi::{self, cai_array};
use crate::error::{Result, fail};
use crate::python::capi::Object;
use crate::python::convert::{integer, none, shared, tuple, unsigned};
use crate::python::export::object::{array_of, attribute, wrap};
use crate::python::py::{Name, Owned, Py, raised};
use crate::read::{self, Descr};
use crate::sync::outgoing;
use crate::{device, dtype, owner, validate};

pub unsafe extern "C-unwind" fn get_cuda(object: *mut Object, _: *mut c_void) -> *mut Object {
    attribute(|py| {
        let (array, flags) = array_of(py, object)?;
        let r#type = array.device.r#type;
        if device::may_be_cuda(r#type) {
            return cuda(py, object, &array, flags).map(Owned::into_raw);
        }
        fail!(
            CAI_ERR_CONVERT_DEVICE,
            "__cuda_array_interface__",
            found = ("an array on device {}", device::Name(r#type)),
            expected = "a CUDA device"
        )
    })
}

/// A dictionary that is being filled.
pub struct Dictionary<'py> {
    object: Owned<'py>,
    py: Py<'py>,
    /// It has the keys of version 3 of CUDA's interface, with the values that most arrays have:
    /// `strides` and `stream` are None.
    is_complete: bool,
}

impl<'py> Dictionary<'py> {
    /// An empty dictionary.
    pub fn new(py: Py<'py>) -> Result<Self> {
        // SAFETY: the GIL is held.
        let object = Owned::new(py, unsafe { (py.capi().dict_new)() })?;
        Ok(Dictionary { object, py, is_complete: false })
    }

    /// A copy of a complete dictionary, which takes half as long as adding six keys to an empty
    /// one, because nothing is hashed, compared or resized.
    fn complete(py: Py<'py>) -> Result<Self> {
        let known = py.dictionary.load(Ordering::Acquire);
        let original = if known.is_null() { make_complete(py)? } else { known };
        // SAFETY: the GIL is held; the interpreter keeps the original for good.
        let object = Owned::new(py, unsafe { (py.capi().dict_copy)(original) })?;
        Ok(Dictionary { object, py, is_complete: true })
    }

    /// Sets the value of a key.
    pub fn set(&self, key: Name, value: Owned<'py>) -> Result<()> {
        // SAFETY: the GIL is held. The dictionary adds references of its own.
        match unsafe { (self.py.capi().dict_set)(self.object.get(), key.as_ptr(), value.get()) } {
            0 => Ok(()),
            _ => raised(),
        }
    }

    /// Returns the object.
    pub fn into_object(self) -> Owned<'py> {
        self.object
    }
}

/// Makes the dictionary that [`Dictionary::complete`] copies.
#[cold]
#[inline(never)]
fn make_complete(py: Py) -> Result<*mut Object> {
    let (dictionary, names) = (Dictionary::new(py)?, &py.names);
    for key in [names.shape, names.typestr, names.data, names.strides] {
        dictionary.set(key, none(py))?;
    }
    dictionary.set(names.version, integer(py, 3)?)?;
    dictionary.set(names.stream, none(py))?;
    let made = dictionary.into_object();
    let empty = ptr::null_mut();
    let slot = &py.dictionary;
    match slot.compare_exchange(empty, made.get(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(made.into_raw()),
        // Another thread of a free-threaded build was faster.
        Err(other) => Ok(other),
    }
}

/// Makes a tuple of integers.
pub fn row<'py>(py: Py<'py>, values: &[i64]) -> Result<Owned<'py>> {
    let capi = py.capi();
    // SAFETY: the GIL is held. `tuple_set` takes over the reference to the item.
    unsafe {
        let tuple = Owned::new(py, (capi.tuple_new)(values.len() as isize))?;
        for (index, &value) in values.iter().enumerate() {
            (capi.tuple_set)(tuple.get(), index as isize, integer(py, value)?.into_raw());
        }
        Ok(tuple)
    }
}

pub fn typestr<'py>(py: Py<'py>, array: &cai_array) -> Result<Owned<'py>> {
    py.typestr(read::typestr(&array.typestr).unwrap_or_default())
}

/// Makes the tuple of address and read-only flag.
pub fn data<'py>(py: Py<'py>, array: &cai_array, flags: u32) -> Result<Owned<'py>> {
    let capi = py.capi();
    let readonly =
        array.flags & abi::CAI_ARRAY_READONLY != 0 && flags & abi::CAI_EXPORT_HIDE_READONLY == 0;
    // SAFETY: the GIL is held. `tuple_set` takes over the reference to the item.
    unsafe {
        let tuple = Owned::new(py, (capi.tuple_new)(2))?;
        (capi.tuple_set)(tuple.get(), 0, unsigned(py, array.data as u64)?.into_raw());
        let flag = shared(py, if readonly { capi.r#true } else { capi.r#false });
        (capi.tuple_set)(tuple.get(), 1, flag.into_raw());
        Ok(tuple)
    }
}

/// Sets what CUDA's and NumPy's dictionaries have in common. `version` is that of a dictionary that
/// has none yet.
pub fn common(dictionary: &Dictionary, array: &cai_array, flags: u32, version: i64) -> Result<()> {
    let (py, names) = (dictionary.py, &dictionary.py.names);
    // SAFETY: the array was validated when the object was made.
    let (shape, strides) = unsafe { read::shape_and_strides(array) }?;
    dictionary.set(names.shape, row(py, shape)?)?;
    dictionary.set(names.typestr, typestr(py, array)?)?;
    dictionary.set(names.data, data(py, array, flags)?)?;
    let strides = if flags & abi::CAI_EXPORT_STRIDES == 0 && strides.is_none() {
        None
    } else {
        // SAFETY: the array was validated when the object was made.
        let layout = unsafe { validate::describe(array) }?.layout;
        if layout.is_packed_bits()
            || (flags & abi::CAI_EXPORT_STRIDES == 0 && layout.is_c_contiguous())
        {
            None
        } else {
            let mut steps = [0; abi::CAI_MAX_NDIM as usize];
            let steps = &mut steps[..shape.len()];
            layout.write_strides(steps)?;
            Some(row(py, steps)?)
        }
    };
    if strides.is_some() || !dictionary.is_complete {
        dictionary.set(names.strides, strides.unwrap_or_else(|| none(py)))?;
    }
    if !dictionary.is_complete {
        dictionary.set(names.version, integer(py, version)?)?;
    }
    if dtype::has_fields(array) {
        // SAFETY: not NULL, because the array has fields, and validated when the object was made.
        dictionary.set(names.descr, fields(py, unsafe { Descr::new(array.descr) }?)?)?;
    }
    Ok(())
}

/// Makes the dictionary of `__cuda_array_interface__`.
pub fn cuda<'py>(
    py: Py<'py>,
    object: *mut Object,
    array: &cai_array,
    flags: u32,
) -> Result<Owned<'py>> {
    let without_stream = flags & abi::CAI_EXPORT_VERSION_2 != 0;
    let stream = if without_stream { array.stream } else { outgoing::for_dictionary(array)? };
    let old = without_stream || stream == abi::CAI_STREAM_UNKNOWN;
    let dictionary = if old { Dictionary::new(py)? } else { Dictionary::complete(py)? };
    common(&dictionary, array, flags, 2)?;
    if !old && stream != abi::CAI_STREAM_NONE {
        dictionary.set(py.names.stream, unsigned(py, stream)?)?;
    }
    if let Some(mask) = mask_of(py, object, array, flags)? {
        dictionary.set(py.names.mask, mask)?;
    }
    Ok(dictionary.into_object())
}

/// Makes an object for the mask of the array in `object`, of the same type.
pub fn mask_of<'py>(
    py: Py<'py>,
    object: *mut Object,
    array: &cai_array,
    flags: u32,
) -> Result<Option<Owned<'py>>> {
    if array.mask.is_null() {
        return Ok(None);
    }
    // SAFETY: the array was validated when the object was made; its owner keeps the mask alive.
    unsafe {
        let mut mask = read::array(array.mask)?;
        if mask.owner.is_null() {
            mask.owner = array.owner;
        }
        // What the mask leaves unknown is the same as for the array.
        if mask.device.r#type == abi::CAI_DEVICE_UNKNOWN {
            mask.device = array.device;
        }
        owner::retain(mask.owner)?;
        Owned::new(py, wrap(py, Ok(py.type_of(object)), &mask, flags)?).map(Some)
    }
}

/// Makes a list of fields as NumPy writes `descr`.
pub fn fields<'py>(py: Py<'py>, descr: Descr) -> Result<Owned<'py>> {
    let capi = py.capi();
    let name_of = |field: &read::Field| -> Result<Owned> {
        let name = py.string(field.name()?.as_bytes())?;
        match field.title()? {
            None => Ok(name),
            Some(title) => tuple(py, [py.string(title.as_bytes())?, name]),
        }
    };
    // SAFETY: the GIL is held. `tuple_set` takes over the reference to the item.
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
        // SAFETY: the GIL is held. `list_append` adds a reference of its own.
        unsafe { (capi.tuple_set)(rows.get(), index as isize, made.into_raw()) };
    }
    // SAFETY: the GIL is held.
    unsafe {
        let arguments = tuple(py, [rows])?;
        Owned::new(py, (capi.call)(capi.list_type, arguments.get(), ptr::null_mut()))
    }
}
