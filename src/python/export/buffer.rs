//! The OpenCL/CUDA buffer interface of an exported array in an OpenCL buffer: `buffer`, `_ptr`,
//! `int_ptr`, `offset` and `release()`, beside `dtype`, `shape` and `strides`, which every array
//! has.
//!
//! The object is its own `buffer`: consumers that keep that keep the memory alive, too. For CUDA
//! arrays there are better protocols, and a `_ptr` does not state which of the two it is.
//! `int_ptr`, as pyopencl's objects have it, states that it is a `cl_mem`.

use std::ffi::c_void;
use std::ptr;

use crate::abi::{self, cai_array};
use crate::device;
use crate::error::{Result, fail};
use crate::python::capi::{METH_NOARGS, MethodDef, Object};
use crate::python::convert::{none, unsigned};
use crate::python::export::object::{array_of, attribute, body, run_for_python};
use crate::python::py::{Owned, Py};

/// Fails for an array that the interface cannot express.
fn check(array: &cai_array, flags: u32, name: &'static str) -> Result<()> {
    if array.device.r#type != abi::CAI_DEVICE_OPENCL {
        return fail!(
            CAI_ERR_CONVERT_DEVICE,
            "{name}",
            found = ("an array on device {}", device::Name(array.device.r#type)),
            expected = "an OpenCL buffer"
        );
    }
    if !array.mask.is_null() {
        return fail!(
            CAI_ERR_CONVERT_MASK,
            "{name}",
            found = "an array with a mask",
            expected = "an array without a mask"
        );
    }
    if array.flags & abi::CAI_ARRAY_READONLY != 0 && flags & abi::CAI_EXPORT_HIDE_READONLY == 0 {
        return fail!(
            CAI_ERR_CONVERT_READONLY,
            "{name}",
            found = "a read-only array",
            expected = "a writable array: the buffer interface has no read-only flag"
        );
    }
    if array.dtype_code != 0 || array.typestr[1] as u8 == b't' {
        return fail!(
            CAI_ERR_CONVERT_TYPE,
            "{name}",
            found = "a type that NumPy does not have",
            expected = "one that numpy.dtype can express"
        );
    }
    Ok(())
}

pub unsafe extern "C-unwind" fn get_buffer(object: *mut Object, _: *mut c_void) -> *mut Object {
    attribute(|py| {
        let (array, flags) = array_of(py, object)?;
        check(&array, flags, "buffer")?;
        // SAFETY: the GIL is held; the object is alive.
        unsafe { (py.capi().incref)(object) };
        Ok(object)
    })
}

pub unsafe extern "C-unwind" fn get_ptr(object: *mut Object, _: *mut c_void) -> *mut Object {
    attribute(|py| {
        let (array, flags) = array_of(py, object)?;
        check(&array, flags, "_ptr")?;
        unsigned(py, array.data as u64).map(Owned::into_raw)
    })
}

pub unsafe extern "C-unwind" fn get_int_ptr(object: *mut Object, _: *mut c_void) -> *mut Object {
    attribute(|py| {
        let (array, flags) = array_of(py, object)?;
        check(&array, flags, "int_ptr")?;
        unsigned(py, array.data as u64).map(Owned::into_raw)
    })
}

pub unsafe extern "C-unwind" fn get_offset(object: *mut Object, _: *mut c_void) -> *mut Object {
    attribute(|py| {
        let (array, flags) = array_of(py, object)?;
        check(&array, flags, "offset")?;
        unsigned(py, array.byte_offset).map(Owned::into_raw)
    })
}

/// The method, of arrays that have the interface. Others are read through protocols whose consumers
/// rely on the object to keep the memory alive. After a release it stays, and does nothing.
pub unsafe extern "C-unwind" fn get_release(object: *mut Object, _: *mut c_void) -> *mut Object {
    attribute(|py| {
        if let Ok((array, flags)) = array_of(py, object) {
            check(&array, flags, "release")?;
        }
        method(py, object).map(Owned::into_raw)
    })
}

static RELEASE: MethodDef = MethodDef {
    name: c"release".as_ptr(),
    function: release as *const c_void,
    flags: METH_NOARGS,
    doc: c"release($self, /)\n--\n\nGives up the buffer: the object has no array afterwards."
        .as_ptr(),
};

fn method<'py>(py: Py<'py>, object: *mut Object) -> Result<Owned<'py>> {
    // SAFETY: the GIL is held; the definition is constant, and the function keeps the object.
    Owned::new(py, unsafe { (py.capi().function_new)(&RELEASE, object, ptr::null_mut()) })
}

unsafe extern "C-unwind" fn release(object: *mut Object, _: *mut Object) -> *mut Object {
    run_for_python(|py| {
        // SAFETY: `method` bound an object of this type, which the function keeps alive.
        unsafe { (*body(py.capi(), object)).release() };
        Ok(none(py).into_raw())
    })
}
