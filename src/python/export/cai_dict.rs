//! `__cuda_array_interface__` of an exported array, and what other dictionaries share with it.

use crate::abi::{self, cai_array};
use crate::error::{Result, fail};
use crate::python::class::Instance;
use crate::python::export::object::{Exported, Reading, wrap};
use crate::python::py::{Builtin, Dictionary, Owned, Py};
use crate::read::{self, Descr};
use crate::sync::outgoing;
use crate::{device, dtype};

pub fn cuda_array_interface<'py>(py: Py<'py>, this: Instance<'_, Exported>) -> Result<Owned<'py>> {
    let array = this.array()?;
    let r#type = array.device.r#type;
    if device::may_be_cuda(r#type) {
        return cuda(py, &array, this.flags());
    }
    fail!(CAI_ERR_CONVERT_DEVICE, "__cuda_array_interface__";
        found "an array on device {}", device::Name(r#type); expected "a CUDA device")
}

fn cuda<'py>(py: Py<'py>, array: &Reading, flags: u32) -> Result<Owned<'py>> {
    if flags & abi::CAI_UNSTABLE_EXPORT_VERSION_4 != 0 {
        return version_4(py, array, &outgoing::for_version_4(array.unchecked())?, flags);
    }
    let without_stream = flags & abi::CAI_EXPORT_VERSION_2 != 0;
    let stream =
        if without_stream { array.stream } else { outgoing::for_dictionary(array.unchecked())? };
    let (dictionary, filling) = if without_stream || stream == abi::CAI_STREAM_UNKNOWN {
        (Dictionary::new(py)?, Filling::Empty { version: 2 })
    } else {
        (complete(py)?, Filling::Complete)
    };
    filling.fill(py, &dictionary, array, flags)?;
    if filling == Filling::Complete && stream != abi::CAI_STREAM_NONE {
        dictionary.set(py.names.stream, &py.unsigned(stream)?)?;
    }
    if let Some(mask) = mask_of(py, array, flags)? {
        dictionary.set(py.names.mask, &mask)?;
    }
    Ok(dictionary.into_object())
}

/// Makes a dictionary of version 4, with the stream, its identity and the event of `stated`. Each key
/// that it adds is missing if its value is not known. Without a known stream it has version 2, as
/// readers of version 3 would take the data for ready otherwise.
#[cold]
#[inline(never)]
fn version_4<'py>(
    py: Py<'py>,
    array: &Reading,
    stated: &cai_array,
    flags: u32,
) -> Result<Owned<'py>> {
    let (dictionary, names) = (Dictionary::new(py)?, &py.names);
    let is_known = stated.stream != abi::CAI_STREAM_UNKNOWN;
    let version = if is_known { 4 } else { 2 };
    Filling::Empty { version }.fill(py, &dictionary, array, flags)?;
    match stated.stream {
        abi::CAI_STREAM_NONE => dictionary.set(names.stream, py.none())?,
        stream if is_known => dictionary.set(names.stream, &py.unsigned(stream)?)?,
        _ => {}
    }
    if let Some(mask) = mask_of(py, array, flags)? {
        dictionary.set(names.mask, &mask)?;
    }
    if array.device.r#type != abi::CAI_DEVICE_UNKNOWN {
        let device =
            py.pair(py.int(array.device.r#type.into())?, py.int(array.device.id.into())?)?;
        dictionary.set(names.device, &device)?;
    }
    let (context, event) = (stated.context as u64, stated.event as u64);
    let numbers =
        [(names.context, context), (names.stream_id, stated.stream_id), (names.event, event)];
    for (key, number) in numbers.into_iter().filter(|&(_, number)| number != 0) {
        dictionary.set(key, &py.unsigned(number)?)?;
    }
    if let Some(name) = dtype::code_name(array.dtype_code) {
        dictionary.set(names.dtype, &py.string(name.as_bytes())?)?;
    }
    Ok(dictionary.into_object())
}

/// A copy of a dictionary with the keys of version 3 and the values that most arrays have. It takes
/// half as long as adding six keys to an empty one, because nothing is hashed, compared or resized.
fn complete(py: Py<'_>) -> Result<Dictionary<'_>> {
    let make = |py| {
        let (dictionary, names) = (Dictionary::new(py)?, &py.names);
        for key in [names.shape, names.typestr, names.data, names.strides] {
            dictionary.set(key, py.none())?;
        }
        dictionary.set(names.version, &py.int(3)?)?;
        dictionary.set(names.stream, py.none())?;
        Ok(dictionary.into_object())
    };
    Dictionary::copy(py, py.dictionary().get(make)?)
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Filling {
    /// Nothing; `version` is to be added.
    Empty { version: i64 },
    /// The keys of version 3 of CUDA's interface: `strides` and `stream` are None.
    Complete,
}

impl Filling {
    /// Sets what CUDA's and NumPy's dictionaries have in common.
    pub fn fill(self, py: Py, to: &Dictionary, array: &Reading, flags: u32) -> Result<()> {
        let names = &py.names;
        let (shape, strides) = array.shape_and_strides()?;
        to.set(names.shape, &py.tuple_of_ints(shape)?)?;
        to.set(names.typestr, &typestr(py, array)?)?;
        to.set(names.data, &data(py, array.data.addr(), is_readonly(array, flags))?)?;
        let with_strides = flags & abi::CAI_EXPORT_STRIDES != 0 || strides.is_some();
        let strides = if with_strides { self::strides(py, array, flags)? } else { None };
        match (strides, self) {
            (Some(strides), _) => to.set(names.strides, &strides)?,
            (None, Filling::Empty { .. }) => to.set(names.strides, py.none())?,
            (None, Filling::Complete) => {}
        }
        if let Filling::Empty { version } = self {
            to.set(names.version, &py.int(version)?)?;
        }
        if let Some(descr) = dtype::has_fields(array).then(|| array.valid().fields()).flatten() {
            to.set(names.descr, &fields(py, descr)?)?;
        }
        Ok(())
    }
}

/// Makes the tuple of strides. `None` for packed bits, and where C order needs none.
pub fn strides<'py>(py: Py<'py>, array: &Reading, flags: u32) -> Result<Option<Owned<'py>>> {
    let layout = array.valid().layout();
    let always = flags & abi::CAI_EXPORT_STRIDES != 0;
    if layout.is_packed_bits() || (!always && layout.is_c_contiguous()) {
        return Ok(None);
    }
    let mut steps = [0; abi::CAI_MAX_NDIM as usize];
    let steps = &mut steps[..layout.shape.len()];
    layout.write_strides(steps)?;
    py.tuple_of_ints(steps).map(Some)
}

pub fn typestr<'py>(py: Py<'py>, array: &cai_array) -> Result<Owned<'py>> {
    py.typestr(read::typestr(&array.typestr).unwrap_or_default())
}

pub fn is_readonly(array: &cai_array, flags: u32) -> bool {
    array.flags & abi::CAI_ARRAY_READONLY != 0 && flags & abi::CAI_EXPORT_HIDE_READONLY == 0
}

#[inline]
pub fn data(py: Py<'_>, address: usize, readonly: bool) -> Result<Owned<'_>> {
    py.pair(py.unsigned(address as u64)?, py.bool(readonly).share(py))
}

pub fn mask_of<'py>(py: Py<'py>, array: &Reading, flags: u32) -> Result<Option<Owned<'py>>> {
    if array.mask.is_null() {
        return Ok(None);
    }
    let Some(mask) = array.valid().mask() else { return Ok(None) };
    let owner = if mask.owner.is_null() { array.retain()? } else { mask.retain()? };
    let mut mask = *mask;
    // An unknown mask device means the array's device.
    if mask.device.r#type == abi::CAI_DEVICE_UNKNOWN {
        mask.device = array.device;
    }
    // SAFETY: the mask was validated with its array. Its owner, or that of the array, keeps it
    // alive.
    unsafe { wrap(py, &mask, owner, flags) }.map(Some)
}

pub fn fields<'py>(py: Py<'py>, descr: Descr) -> Result<Owned<'py>> {
    let rows = py.tuple(descr.count as usize, |index| field(py, &descr.field(index as u64)))?;
    py.builtin(Builtin::List).call(py, [rows.obj()])
}

/// Makes the tuple of a field: (name, type) or (name, type, shape). The name may be (title, name).
fn field<'py>(py: Py<'py>, row: &read::Field) -> Result<Owned<'py>> {
    let name = py.string(row.name()?.as_bytes())?;
    let name = match row.title()? {
        None => name,
        Some(title) => py.pair(py.string(title.as_bytes())?, name)?,
    };
    let r#type = match row.nested()? {
        Some(nested) => fields(py, nested)?,
        None => py.string(read::typestr(&row.typestr).unwrap_or_default())?,
    };
    let (shape, objects) = (row.shape()?, [name.obj(), r#type.obj()]);
    py.tuple(if shape.is_empty() { 2 } else { 3 }, |index| match objects.get(index) {
        Some(object) => Ok(object.share(py)),
        None => py.tuple_of_ints(shape),
    })
}
