//! Attributes of views, as those of cuda.core's `StridedMemoryView`.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use crate::abi::{self, cai_array};
use crate::error::{Failure, Result, fail};
use crate::python::capi::Object;
use crate::python::convert::{integer, none, shared, unsigned};
use crate::python::export::attributes::dtype_of;
use crate::python::export::cai_dict::row;
use crate::python::export::object::{Reading, run_for_python};
use crate::python::py::{Owned, Py};
use crate::python::view::object::{contents, released};
use crate::{dlpack, layout, read, validate};

/// The attributes. One function gets them all, which is smaller than one for each.
#[derive(Clone, Copy)]
pub enum Attribute {
    Address,
    Shape,
    Strides,
    Dtype,
    Device,
    IsDeviceAccessible,
    Readonly,
    Size,
    Exporter,
}

impl Attribute {
    /// Every attribute, at the place that is its number.
    pub const ALL: [Attribute; 9] = [
        Attribute::Address,
        Attribute::Shape,
        Attribute::Strides,
        Attribute::Dtype,
        Attribute::Device,
        Attribute::IsDeviceAccessible,
        Attribute::Readonly,
        Attribute::Size,
        Attribute::Exporter,
    ];
}

/// The getter of all attributes. `number` is the number of one, in the place of an address.
pub unsafe extern "C-unwind" fn get(object: *mut Object, number: *mut c_void) -> *mut Object {
    run_for_python(|py| {
        // SAFETY: CPython keeps the object alive during the call.
        match unsafe { Reading::of(&(*contents(py, object)).body) } {
            Some(array) => value(py, object, &array, number.addr()).map(Owned::into_raw),
            None => released(),
        }
    })
}

/// Returns the value of an attribute.
fn value<'py>(
    py: Py<'py>,
    object: *mut Object,
    array: &cai_array,
    number: usize,
) -> Result<Owned<'py>> {
    let Some(attribute) = Attribute::ALL.get(number) else { return released() };
    let boolean = |value| shared(py, if value { py.capi().r#true } else { py.capi().r#false });
    // SAFETY: the array was imported, and so validated.
    let shape = || Ok::<_, Failure>(unsafe { read::shape_and_strides(array) }?.0);
    match attribute {
        Attribute::Address => unsigned(py, array.data as u64),
        Attribute::Shape => row(py, shape()?),
        Attribute::Strides => strides(py, array),
        Attribute::Dtype => dtype_of(py, array),
        Attribute::Device => integer(py, device(array)?.into()),
        // Memory of a dictionary for CUDA is device memory, also where the device is not known.
        Attribute::IsDeviceAccessible => Ok(boolean(array.device.r#type != abi::CAI_DEVICE_CPU)),
        Attribute::Readonly => Ok(boolean(array.flags & abi::CAI_ARRAY_READONLY != 0)),
        Attribute::Size => integer(py, layout::count(shape()?)?),
        Attribute::Exporter => {
            // SAFETY: CPython keeps the object alive during the call.
            let exporter = unsafe { (*contents(py, object)).exporter.load(Ordering::Acquire) };
            // The view holds a reference as long as it is not released, and longer in free-threaded
            // builds.
            if exporter.is_null() { released() } else { Ok(shared(py, exporter)) }
        }
    }
}

/// Returns the strides in elements; None if the producer states none, and for packed bits.
fn strides<'py>(py: Py<'py>, array: &cai_array) -> Result<Owned<'py>> {
    // SAFETY: the array was imported, and so validated.
    let layout = unsafe { validate::describe(array) }?.layout;
    let Some(strides) = layout.strides else { return Ok(none(py)) };
    let itemsize = (layout.bits / 8).max(1);
    let mut steps = [0; abi::CAI_MAX_NDIM as usize];
    for (index, (step, &stride)) in steps.iter_mut().zip(strides).enumerate() {
        if stride % itemsize != 0 {
            return fail!(
                CAI_ERR_CONVERT_STRIDES,
                "strides[{index}]",
                found = "{stride} bytes",
                expected = "a multiple of the size of an element, {itemsize}"
            );
        }
        *step = stride / itemsize;
    }
    row(py, &steps[..strides.len()])
}

/// Returns the number of the device; -1 for memory of the host that no device can access. The
/// driver is asked where the producer states none.
fn device(array: &cai_array) -> Result<i32> {
    match array.device.r#type {
        abi::CAI_DEVICE_CPU => Ok(-1),
        abi::CAI_DEVICE_UNKNOWN => Ok(dlpack::device_of(array)?.1),
        _ => Ok(array.device.id),
    }
}
