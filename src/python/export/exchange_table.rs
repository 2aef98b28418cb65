//! Functions of the exchange tables of the type: this library's and DLPack's.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::abi::{self, DLManagedTensorVersioned, cai_array, cai_error, cai_status};
use crate::dlpack::exchange_table::SetError;
use crate::error::{Result, fail};
use crate::python::capi::Object;
use crate::python::export::dlpack::{DlpackRequest, cannot};
use crate::python::export::object::{
    Body, Reading, array_of, body, export, is_ours, not_ours, run_for_python, wrap,
};
use crate::python::py::Py;
use crate::sync::outgoing;
use crate::{device, dlpack, owner, read, unwind};

/// Runs the body of a function in a table: failures become exceptions and a status.
fn status(error: *mut cai_error, body: impl for<'py> FnOnce(Py<'py>) -> Result<()>) -> cai_status {
    let Err(failure) = unwind::guarded(|| Py::with(body)) else { return abi::CAI_OK };
    if !error.is_null() {
        // SAFETY: not NULL, and writable by the contract of the table.
        unsafe { error.write(failure.to_error()) };
    }
    failure.status()
}

pub unsafe extern "C-unwind" fn table_from_object(
    object: *mut c_void,
    out: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    // The usual caller is this library itself, with a structure of the same size.
    let Some(capi) = crate::python::capi::found() else { return abi::CAI_ERR_NO_PYTHON };
    if object.is_null() || out.is_null() {
        return status(error, |_| {
            fail!(CAI_ERR_NULL_ARGUMENT, "object", found = "NULL", expected = "a pointer")
        });
    }
    if !is_ours(capi, object.cast()) {
        return status(error, |py| not_ours(py, object.cast()));
    }
    // SAFETY: an object of this library's type has a body, and `out` is an initialized array of the
    // caller's by the contract of the table.
    match unsafe { share(body(capi, object.cast()), out) } {
        Ok(()) => abi::CAI_OK,
        Err(failure) => status(error, |_| Err(failure)),
    }
}

/// Writes the array of an object, with a reference of its own, into `out` of any age.
///
/// # Safety
/// `body` is that of a live object, and `out` points to a structure of the size that it states.
#[inline(always)]
unsafe fn share(body: *const Body, out: *mut cai_array) -> Result<()> {
    // SAFETY: a structure begins with its size.
    let size = unsafe { read::array_size(out) }
        .map_err(|failure| failure.within(format_args!("out->")))?;
    // SAFETY: the object is alive (this function's contract).
    let Some(reading) = (unsafe { Reading::of(body) }) else {
        return fail!(
            CAI_ERR_VALUE,
            "object",
            found = "an object without an array",
            expected = "one that cai_array_to_python made and that was not released"
        );
    };
    // SAFETY: the object holds a reference to this owner; `array_size` found `size` legal, and the
    // caller vouches for as many bytes.
    unsafe {
        if !outgoing::is_final(&reading) {
            return share_replaced(&reading, out, size);
        }
        owner::retain(reading.owner)?;
        read::write_array(out, size, &reading);
    }
    Ok(())
}

/// Does the same if any import takes the array as it is: in device memory, without a mask. Returns
/// false where there is more to do, and has done nothing then.
///
/// # Safety
/// `object` is alive and of this copy's type. `out` points to a structure of the size that it
/// states.
#[inline(always)]
pub unsafe fn share_as_is(py: Py, object: *mut Object, out: *mut cai_array) -> bool {
    // SAFETY: a structure begins with its size; the object is alive (this function's contract).
    let (size, array) =
        unsafe { ((&raw const (*out).struct_size).read(), &(*body(py.capi(), object)).array) };
    let as_is = size as usize == size_of::<cai_array>()
        && !array.owner.is_null()
        && array.mask.is_null()
        && array.device.r#type != abi::CAI_DEVICE_CPU
        && !device::is_opaque(array.device.r#type)
        && outgoing::is_final(array);
    // SAFETY: the object holds a reference to this owner, which it never gives up for memory that
    // is not opaque; `out` is writable, and as long as an array (checked above).
    unsafe {
        if !as_is || owner::retain(array.owner).is_err() {
            return false;
        }
        out.write(*array);
    }
    true
}

/// The same for an array that consumers may have to see with another stream.
///
/// # Safety
/// `array` has a live owner, and `size` bytes at `out` are writable.
#[cold]
#[inline(never)]
unsafe fn share_replaced(array: &cai_array, out: *mut cai_array, size: usize) -> Result<()> {
    let replaced = outgoing::replaced(array)?;
    let array = replaced.as_ref().unwrap_or(array);
    // SAFETY: as this function's contract.
    unsafe {
        owner::retain(array.owner)?;
        read::write_array(out, size, array);
    }
    Ok(())
}

/// `to_object` of this library's table. `export_type` returns the type of the new object.
///
/// # Safety
/// As for `cai_exchange_api.to_object`.
pub unsafe fn to_object(
    array: *const cai_array,
    out: *mut *mut c_void,
    error: *mut cai_error,
    export_type: fn(Py) -> Result<*mut Object>,
) -> cai_status {
    status(error, |py| {
        if array.is_null() || out.is_null() {
            return fail!(CAI_ERR_NULL_ARGUMENT, "array", found = "NULL", expected = "a pointer");
        }
        // SAFETY: not NULL, and readable or writable by the contract of the table.
        unsafe {
            let array = read::array(array)?;
            out.write(export(py, export_type(py), &array, 0)?.cast());
        }
        Ok(())
    })
}

pub unsafe extern "C-unwind" fn dlpack_allocate(
    _: *mut c_void,
    _: *mut *mut c_void,
    context: *mut c_void,
    set_error: Option<SetError>,
) -> c_int {
    if let Some(set_error) = set_error {
        // SAFETY: the consumer's function is called with its own context.
        unsafe {
            set_error(
                context,
                c"BufferError".as_ptr(),
                c"libcai allocates no device memory".as_ptr(),
            )
        };
    }
    -1
}

/// Runs the body of a function in DLPack's table: returns 0, or -1 with an exception.
fn code(body: impl for<'py> FnOnce(Py<'py>) -> Result<()>) -> c_int {
    let mut result = -1;
    run_for_python(|py| {
        body(py)?;
        result = 0;
        Ok(ptr::null_mut())
    });
    result
}

pub unsafe extern "C-unwind" fn dlpack_from_object(
    object: *mut c_void,
    out: *mut *mut DLManagedTensorVersioned,
) -> c_int {
    code(|py| {
        if !is_ours(py.capi(), object.cast()) {
            return not_ours(py, object.cast());
        }
        let (reading, flags) = array_of(py, object.cast())?;
        let mut array = *reading;
        if flags & abi::CAI_EXPORT_HIDE_READONLY != 0 {
            array.flags &= !abi::CAI_ARRAY_READONLY;
        }
        let device = dlpack::device_of(&array).map_err(|failure| cannot(py, failure))?;
        // SAFETY: the array was validated when the object was made.
        let tensor =
            unsafe { dlpack::to_versioned(&array, 0) }.map_err(|failure| cannot(py, failure))?;
        DlpackRequest { stream: None, max_version: None, device: None, copy: None }
            .order(py, &array, device.0)?;
        // SAFETY: `out` is writable by the contract of the table.
        unsafe { out.write(tensor.into_raw().cast()) };
        Ok(())
    })
}

/// `to_object` of DLPack's table. `export_type` returns the type of the new object.
///
/// # Safety
/// As for `managed_tensor_to_py_object_no_sync` of DLPack.
pub unsafe fn dlpack_to_object(
    tensor: *mut DLManagedTensorVersioned,
    out: *mut *mut c_void,
    export_type: fn(Py) -> Result<*mut Object>,
) -> c_int {
    code(|py| {
        // SAFETY: the caller gives the tensor away, also on failure, by the contract of the table.
        unsafe {
            let tensor = dlpack::ManagedTensor::versioned(tensor);
            let cpu = tensor.view()?.device().0 == abi::CAI_DEVICE_CPU;
            let stream = if cpu { abi::CAI_STREAM_NONE } else { abi::CAI_STREAM_UNKNOWN };
            let array = tensor.into_array(stream).map_err(|(failure, _)| failure)?.into_raw();
            out.write(wrap(py, export_type(py), &array, 0)?.cast());
        }
        Ok(())
    })
}

pub unsafe extern "C-unwind" fn dlpack_current_stream(
    _: i32,
    _: i32,
    out: *mut *mut c_void,
) -> c_int {
    if out.is_null() {
        return -1;
    }
    // SAFETY: not NULL, and writable by the contract of the table.
    unsafe { out.write(ptr::null_mut()) };
    0
}
