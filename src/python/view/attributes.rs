//! Attributes of views, as those of cuda.core's `StridedMemoryView`.

use crate::abi::{self, cai_array};
use crate::dlpack;
use crate::error::{Count, Result, fail};
use crate::python::class::{Attribute, Instance};
use crate::python::export::attributes::dtype_of;
use crate::python::py::{Name, Owned, Py};
use crate::python::view::object::{View, released};

pub static ATTRIBUTES: [Attribute<View>; 18] = [
    Attribute::new(c"ptr", address, c"The address of the element at index zero."),
    Attribute::new(c"shape", shape, c"The extents."),
    Attribute::new(c"strides", strides, c"The strides in elements; None for C order."),
    Attribute::new(c"dtype", dtype, c"The type as a numpy.dtype; without NumPy, the typestr."),
    Attribute::new(c"device_id", device_id, c"The number of the device; -1 for host memory."),
    Attribute::new(c"is_device_accessible", is_device_accessible, c"False for host memory."),
    Attribute::new(c"readonly", readonly, c"True if the array must not be written."),
    Attribute::new(c"size", size, c"The number of elements."),
    Attribute::new(c"nbytes", nbytes, c"The bytes of all elements, without gaps."),
    Attribute::new(c"c_contiguous", c_contiguous, c"True in C order without gaps."),
    Attribute::new(c"f_contiguous", f_contiguous, c"True in Fortran order without gaps."),
    Attribute::optional(
        c"__cuda_array_interface__",
        |py, this| offered(py, this, py.names.cuda_array_interface),
        c"The CUDA Array Interface.",
    ),
    Attribute::optional(
        c"__sycl_usm_array_interface__",
        |py, this| offered(py, this, py.names.sycl_usm_array_interface),
        c"The SYCL USM array interface.",
    ),
    Attribute::optional(
        c"__array_interface__",
        |py, this| offered(py, this, py.names.array_interface),
        c"NumPy's array interface, for host memory.",
    ),
    Attribute::optional(
        c"__dlpack__",
        |py, this| offered(py, this, py.names.dlpack),
        c"The method of DLPack.",
    ),
    Attribute::optional(
        c"__dlpack_device__",
        |py, this| offered(py, this, py.names.dlpack_device),
        c"The method of DLPack for the device.",
    ),
    Attribute::new(c"exporting_obj", exporting_obj, c"The object that is viewed."),
    Attribute::END,
];

fn address<'py>(py: Py<'py>, this: Instance<'_, View>) -> Result<Owned<'py>> {
    py.unsigned(this.array()?.data.addr() as u64)
}

fn shape<'py>(py: Py<'py>, this: Instance<'_, View>) -> Result<Owned<'py>> {
    py.tuple_of_ints(this.array()?.shape_and_strides()?.0)
}

/// None if the producer states no strides, and for packed bits.
fn strides<'py>(py: Py<'py>, this: Instance<'_, View>) -> Result<Owned<'py>> {
    let array = this.array()?;
    let layout = array.valid().layout();
    let Some(strides) = layout.strides else { return Ok(py.none().share(py)) };
    let itemsize = (layout.bits / 8).max(1);
    py.tuple(strides.len(), |index| {
        let stride = strides[index];
        if stride % itemsize != 0 {
            return fail!(CAI_ERR_CONVERT_STRIDES, "strides[{index}]";
                found "{}", Count(stride, "byte");
                expected "a multiple of the size of an element, {itemsize}");
        }
        py.int(stride / itemsize)
    })
}

fn dtype<'py>(py: Py<'py>, this: Instance<'_, View>) -> Result<Owned<'py>> {
    dtype_of(py, &this.array()?)
}

fn device_id<'py>(py: Py<'py>, this: Instance<'_, View>) -> Result<Owned<'py>> {
    py.int(device_of(&*this.array()?)?.into())
}

/// Returns the number of the device; -1 for memory of the host that no device can access. The
/// driver is asked where the producer states none.
fn device_of(array: &cai_array) -> Result<i32> {
    match array.device.r#type {
        abi::CAI_DEVICE_CPU => Ok(-1),
        abi::CAI_DEVICE_UNKNOWN => Ok(dlpack::device_of(array)?.1),
        _ => Ok(array.device.id),
    }
}

/// Memory of a dictionary for CUDA is device memory, also where the device is not known.
fn is_device_accessible<'py>(py: Py<'py>, this: Instance<'_, View>) -> Result<Owned<'py>> {
    Ok(py.bool(this.array()?.device.r#type != abi::CAI_DEVICE_CPU).share(py))
}

fn readonly<'py>(py: Py<'py>, this: Instance<'_, View>) -> Result<Owned<'py>> {
    Ok(py.bool(this.array()?.flags & abi::CAI_ARRAY_READONLY != 0).share(py))
}

fn size<'py>(py: Py<'py>, this: Instance<'_, View>) -> Result<Owned<'py>> {
    py.int(this.array()?.valid().count())
}

fn nbytes<'py>(py: Py<'py>, this: Instance<'_, View>) -> Result<Owned<'py>> {
    py.int(this.array()?.valid().layout().nbytes()?)
}

fn c_contiguous<'py>(py: Py<'py>, this: Instance<'_, View>) -> Result<Owned<'py>> {
    Ok(py.bool(this.array()?.valid().layout().is_c_contiguous()).share(py))
}

fn f_contiguous<'py>(py: Py<'py>, this: Instance<'_, View>) -> Result<Owned<'py>> {
    Ok(py.bool(this.array()?.valid().layout().is_f_contiguous()).share(py))
}

/// The attribute of the object that offers the view's array to others.
fn offered<'py>(py: Py<'py>, this: Instance<'_, View>, name: Name) -> Result<Owned<'py>> {
    this.offered(py)?.attr(py, name)
}

fn exporting_obj<'py>(py: Py<'py>, this: Instance<'_, View>) -> Result<Owned<'py>> {
    let _array = this.array()?;
    match this.exporter.share(py) {
        Some(exporter) => Ok(exporter),
        None => released(),
    }
}
