//! `__arrow_c_device_array__` and `__arrow_c_array__` of an exported array.

use std::ffi::CStr;

use crate::abi;
use crate::arrow::{self, Array, CHECKS, DeviceArray, OwnedDeviceArray, Schema};
use crate::device;
use crate::error::{Failure, Result, fail};
use crate::memory;
use crate::python::capi::Object;
use crate::python::capsules::{
    ARROW_ARRAY, ARROW_DEVICE_ARRAY, ARROW_DEVICE_STREAM, ARROW_SCHEMA, ARROW_STREAM,
};
use crate::python::class::{Instance, Method, entry};
use crate::python::export::object::Exported;
use crate::python::py::{Dict, Obj, Owned, Py, Tuple};
use crate::read::Given;
use crate::unwind;
use crate::validate::Valid;

/// Capsules of a schema and of an array with its device. The arguments are a wish for another type,
/// which a producer that cannot cast ignores, and those of later versions.
pub fn device_array<'py>(
    py: Py<'py>,
    this: Instance<'_, Exported>,
    _: Tuple<'_>,
    _: Option<Dict<'_>>,
) -> Result<Owned<'py>> {
    let (schema, array) = structures(py, this)?;
    let array = into_capsule(py, array)?;
    py.pair(schema, array)
}

fn host_array<'py>(
    py: Py<'py>,
    this: Instance<'_, Exported>,
    _: Tuple<'_>,
    _: Option<Dict<'_>>,
) -> Result<Owned<'py>> {
    let (schema, array) = structures(py, this)?;
    let array = into_capsule(py, array.into_array())?;
    py.pair(schema, array)
}

/// The method of arrays in host memory. Others lack it: a consumer that finds it reads the memory.
pub fn host_method<'py>(py: Py<'py>, this: Instance<'_, Exported>) -> Result<Owned<'py>> {
    let found = this.contents().array()?.device.r#type;
    if found != abi::CAI_DEVICE_CPU {
        return fail!(CAI_ERR_CONVERT_DEVICE, "__arrow_c_array__";
            found "an array on device {}", device::Name(found);
            expected "an array in host memory: others have __arrow_c_device_array__");
    }
    HOST_ARRAY.bind(py, this)
}

static HOST_ARRAY: Method<Exported> = Method::with_keywords(
    c"__arrow_c_array__",
    entry!(Exported => host_array, arguments),
    c"__arrow_c_array__($self, /, requested_schema=None)\n--\n\nCapsules of Arrow's structures.",
);

/// Makes the structures of an array, with a reference to its owner, and a capsule of the schema.
fn structures<'py>(
    py: Py<'py>,
    this: Instance<'_, Exported>,
) -> Result<(Owned<'py>, OwnedDeviceArray)> {
    let reading = this.contents().array()?;
    // SAFETY: the array is readable while it is read, and was validated when the object was made.
    let valid = unsafe { Given::new(&raw const *reading) }.valid(CHECKS)?;
    // Other threads may have to run: the host may wait for a function that needs the lock.
    // SAFETY: the structures are made without Python.
    let made = unsafe { py.without_lock(|| arrow::to_arrow(valid, 0, true)) }?;
    let (array, schema) = made.into_owned();
    let schema = into_capsule(py, schema.ok_or_else(Failure::internal)?)?;
    Ok((schema, array))
}

/// A structure in a capsule, which owns it until a consumer moves it out.
trait InCapsule {
    const NAME: &'static CStr;
}

impl InCapsule for arrow::Owned<Schema> {
    const NAME: &'static CStr = ARROW_SCHEMA;
}

impl InCapsule for arrow::Owned<Array> {
    const NAME: &'static CStr = ARROW_ARRAY;
}

impl InCapsule for OwnedDeviceArray {
    const NAME: &'static CStr = ARROW_DEVICE_ARRAY;
}

impl InCapsule for arrow::OwnedStream<DeviceArray> {
    const NAME: &'static CStr = ARROW_DEVICE_STREAM;
}

impl InCapsule for arrow::OwnedStream<Array> {
    const NAME: &'static CStr = ARROW_STREAM;
}

/// Makes a capsule of a stream of batches, as `__arrow_c_stream__` returns it if `is_host`, else
/// `__arrow_c_device_stream__`.
pub fn stream<'py>(
    py: Py<'py>,
    arrays: &[Valid],
    names: &[&CStr],
    flags: u32,
    is_host: bool,
) -> Result<Owned<'py>> {
    // Other threads may have to run: the host may wait for a function that needs the lock.
    // SAFETY: the batches are made without Python.
    let batches = unsafe { py.without_lock(|| arrow::batches(arrays, names, flags)) }?;
    if is_host {
        arrow::in_host_memory(&batches)?;
        return into_capsule(py, arrow::into_stream::<Array>(batches)?);
    }
    into_capsule(py, arrow::into_stream::<DeviceArray>(batches)?)
}

fn into_capsule<T: InCapsule>(py: Py<'_>, structure: T) -> Result<Owned<'_>> {
    let place = Box::into_raw(memory::boxed(structure)?);
    // SAFETY: the box contains the structure that the name states, and `ends` frees such a box.
    let made = unsafe { py.capsule(place.cast(), T::NAME, Some(ends::<T>)) };
    if made.is_err() {
        // SAFETY: there is no capsule that would free it.
        drop(unsafe { Box::from_raw(place) });
    }
    made
}

unsafe extern "C-unwind" fn ends<T: InCapsule>(capsule: *mut Object) {
    let _ = unwind::catch(|| {
        Py::with(|py| {
            // SAFETY: CPython passes a live capsule, which is about to end.
            let Some(capsule) = (unsafe { Obj::from_ptr(capsule) }) else { return Ok(()) };
            if let Some(place) = capsule.capsule(py, Some(T::NAME)) {
                // SAFETY: `into_capsule` made the box. If a consumer moved the structure out, it
                // has no callback, and only the memory is freed.
                py.keeping_exception(|| drop(unsafe { Box::from_raw(place.cast::<T>().as_ptr()) }));
            }
            Ok(())
        })
    });
}
