//! The exchange tables of the type: this library's and DLPack's.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::abi::{
    self, DLManagedTensorVersioned, cai_array, cai_error, cai_exchange_api, cai_status,
};
use crate::dlpack::exchange_table::{ExchangeTable, MAJOR, MINOR, SetError};
use crate::error::{Failure, Result, fail};
use crate::python::export::dlpack::{Capsule, DlpackRequest, cannot};
use crate::python::export::type_object::{answer, array_of, body, is_ours, not_ours};
use crate::python::export::{export, wrap};
use crate::python::interpreter::Py;
use crate::{dlpack, owner, read};

/// This library's table for its own objects.
pub static EXCHANGE: cai_exchange_api = cai_exchange_api {
    struct_size: size_of::<cai_exchange_api>() as u32,
    abi_major: abi::CAI_ABI_MAJOR,
    from_object: Some(table_from_object),
    to_object: Some(table_to_object),
};

/// The body of a function in a table: failures become exceptions and a status.
fn status(error: *mut cai_error, body: impl FnOnce(Py) -> Result<()>) -> cai_status {
    let result = catch_unwind(AssertUnwindSafe(|| Py::here().and_then(body)));
    let failure = match result {
        Ok(Ok(())) => return abi::CAI_OK,
        Ok(Err(failure)) => failure,
        Err(payload) => {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
            Failure::no_memory(0)
        }
    };
    if !error.is_null() {
        // SAFETY: not NULL; the caller's.
        unsafe { error.write(failure.to_error()) };
    }
    failure.status()
}

unsafe extern "C" fn table_from_object(
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
    // SAFETY: an object of our type; `out` has the size that it says.
    unsafe {
        let array = &(*body(capi, object.cast())).array;
        let size = (&raw const (*out).struct_size).read() as usize;
        if size != size_of::<cai_array>() || array.owner.is_null() {
            return status(error, |_| {
                fail!(
                    CAI_ERR_STRUCT_SIZE,
                    "out->struct_size",
                    found = "{size}",
                    expected = ("{}, and an object with an array", size_of::<cai_array>())
                )
            });
        }
        if let Err(failure) = owner::retain(array.owner) {
            return status(error, |_| Err(failure));
        }
        out.write(*array);
    }
    abi::CAI_OK
}

unsafe extern "C" fn table_to_object(
    array: *const cai_array,
    out: *mut *mut c_void,
    error: *mut cai_error,
) -> cai_status {
    status(error, |_| {
        if array.is_null() || out.is_null() {
            return fail!(CAI_ERR_NULL_ARGUMENT, "array", found = "NULL", expected = "a pointer");
        }
        // SAFETY: not NULL; by contract of the table.
        unsafe {
            let array = read::array(array)?;
            out.write(export(&array, 0)?.cast());
        }
        Ok(())
    })
}

/// DLPack's table asks for the producer's current stream without saying for which array. So each
/// array is ordered before the legacy default stream when it is taken, and that stream is the
/// answer.
pub static DLPACK_EXCHANGE: ExchangeTable = ExchangeTable {
    major: MAJOR,
    minor: MINOR,
    previous: ptr::null(),
    allocator: Some(dlpack_allocate),
    from_object: Some(dlpack_from_object),
    to_object: Some(dlpack_to_object),
    // A borrowed tensor has its strides in the producer's memory, and ours are in bytes.
    view: None,
    current_stream: Some(dlpack_current_stream),
};

unsafe extern "C" fn dlpack_allocate(
    _: *mut c_void,
    _: *mut *mut c_void,
    context: *mut c_void,
    set_error: Option<SetError>,
) -> c_int {
    if let Some(set_error) = set_error {
        // SAFETY: the caller's function, with its own context.
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

/// 0, or -1 with an exception.
fn code(body: impl FnOnce(Py) -> Result<()>) -> c_int {
    let mut done = false;
    answer(|py| {
        body(py)?;
        done = true;
        Ok(ptr::null_mut())
    });
    if done { 0 } else { -1 }
}

unsafe extern "C" fn dlpack_from_object(
    object: *mut c_void,
    out: *mut *mut DLManagedTensorVersioned,
) -> c_int {
    code(|py| {
        if !is_ours(py.capi(), object.cast()) {
            return not_ours(py, object.cast());
        }
        let (array, flags) = array_of(py, object.cast())?;
        let mut array = *array;
        if flags & abi::CAI_EXPORT_HIDE_READONLY != 0 {
            array.flags &= !abi::CAI_ARRAY_READONLY;
        }
        let device = dlpack::device_of(&array).map_err(|failure| cannot(py, failure))?;
        // SAFETY: validated when the object was made.
        let tensor =
            unsafe { dlpack::to_versioned(&array, 0) }.map_err(|failure| cannot(py, failure))?;
        let tensor = Capsule::Versioned(tensor);
        DlpackRequest { stream: None, max_version: None, device: None }
            .order(py, &array, device.0)?;
        if let Capsule::Versioned(tensor) = tensor {
            // SAFETY: the caller's.
            unsafe { out.write(tensor) };
        }
        std::mem::forget(tensor);
        Ok(())
    })
}

unsafe extern "C" fn dlpack_to_object(
    tensor: *mut DLManagedTensorVersioned,
    out: *mut *mut c_void,
) -> c_int {
    code(|py| {
        // SAFETY: a tensor that the caller gives away, whatever becomes of it.
        unsafe {
            let made = dlpack::inside_versioned(tensor).and_then(|(inside, _)| {
                let cpu = (*inside).device().0 == abi::CAI_DEVICE_CPU;
                let stream = if cpu { abi::CAI_STREAM_NONE } else { abi::CAI_STREAM_UNKNOWN };
                dlpack::from_versioned(tensor, stream, size_of::<cai_array>())
            });
            let array = made.inspect_err(|_| dlpack::delete_versioned(tensor))?;
            out.write(wrap(py, array, 0)?.cast());
        }
        Ok(())
    })
}

unsafe extern "C" fn dlpack_current_stream(_: i32, _: i32, out: *mut *mut c_void) -> c_int {
    if out.is_null() {
        return -1;
    }
    // SAFETY: the caller's.
    unsafe { out.write(ptr::null_mut()) };
    0
}
