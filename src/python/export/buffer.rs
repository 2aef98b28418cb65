//! The OpenCL/CUDA buffer interface of an exported array in an OpenCL buffer: `buffer`, `_ptr`,
//! `int_ptr`, `offset` and `release()`, beside `dtype`, `shape` and `strides` of every array.
//!
//! The object is its own `buffer`: consumers that keep that keep the memory alive, too. For CUDA
//! arrays there are better protocols, and a `_ptr` does not state which of the two it is.
//! `int_ptr`, as pyopencl's objects have it, states that it is a `cl_mem`.

use crate::abi;
use crate::device;
use crate::error::{Result, fail};
use crate::python::class::{Instance, Method, entry};
use crate::python::export::object::{Exported, Reading};
use crate::python::py::{Owned, Py};

/// Fails for an array that the interface cannot express.
fn check(array: &Reading, flags: u32, name: &'static str) -> Result<()> {
    if array.device.r#type != abi::CAI_DEVICE_OPENCL {
        return fail!(CAI_ERR_CONVERT_DEVICE, "{name}";
            found "an array on device {}", device::Name(array.device.r#type);
            expected "an OpenCL buffer");
    }
    if !array.mask.is_null() {
        return fail!(CAI_ERR_CONVERT_MASK, "{name}";
            found "an array with a mask"; expected "an array without a mask");
    }
    if array.flags & abi::CAI_ARRAY_READONLY != 0 && flags & abi::CAI_EXPORT_HIDE_READONLY == 0 {
        return fail!(CAI_ERR_CONVERT_READONLY, "{name}";
            found "a read-only array";
            expected "a writable array: the buffer interface has no read-only flag");
    }
    if array.dtype_code != 0 || array.typestr[1] as u8 == b't' {
        return fail!(CAI_ERR_CONVERT_TYPE, "{name}";
            found "a type that NumPy does not have"; expected "one that numpy.dtype can express");
    }
    Ok(())
}

/// Returns the array of an object if it has the interface.
fn array_of<'a>(this: Instance<'a, Exported>, name: &'static str) -> Result<Reading<'a>> {
    let array = this.contents().array()?;
    check(&array, this.flags(), name)?;
    Ok(array)
}

pub fn buffer<'py>(py: Py<'py>, this: Instance<'_, Exported>) -> Result<Owned<'py>> {
    array_of(this, "buffer")?;
    Ok(this.object().share(py))
}

pub fn ptr<'py>(py: Py<'py>, this: Instance<'_, Exported>) -> Result<Owned<'py>> {
    py.unsigned(array_of(this, "_ptr")?.data.addr() as u64)
}

pub fn int_ptr<'py>(py: Py<'py>, this: Instance<'_, Exported>) -> Result<Owned<'py>> {
    py.unsigned(array_of(this, "int_ptr")?.data.addr() as u64)
}

pub fn offset<'py>(py: Py<'py>, this: Instance<'_, Exported>) -> Result<Owned<'py>> {
    py.unsigned(array_of(this, "offset")?.byte_offset)
}

/// The method, of arrays that have the interface. Others are read through protocols whose consumers
/// rely on the object to keep the memory alive. After a release it stays, and does nothing.
pub fn release<'py>(py: Py<'py>, this: Instance<'_, Exported>) -> Result<Owned<'py>> {
    if let Ok(array) = this.array() {
        check(&array, this.flags(), "release")?;
    }
    RELEASE.bind(py, this)
}

static RELEASE: Method<Exported> = Method::new(
    c"release",
    entry!(Exported => call_release),
    c"release($self, /)\n--\n\nGives up the buffer: the object has no array afterwards.",
);

fn call_release<'py>(py: Py<'py>, this: Instance<'_, Exported>) -> Result<Owned<'py>> {
    this.release();
    Ok(py.none().share(py))
}
