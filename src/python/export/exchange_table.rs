//! The exchange tables of the class: this library's and DLPack's.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::abi::{
    self, _object, DLManagedTensorVersioned, cai_array, cai_error, cai_status,
    cai_unstable_exchange_api,
};
use crate::argument::{ArrayOutput, In, Out, arguments};
use crate::dlpack::exchange_table::{ExchangeTable, MAJOR, MINOR, SetError};
use crate::dlpack::{self, Lanes, ManagedTensor};
use crate::error::{Failure, Result, fail};
use crate::python::capi;
use crate::python::class::{Instance, raise};
use crate::python::export::dlpack::{cannot, tensor};
use crate::python::export::export;
use crate::python::export::object::{Exported, Reading, wrap};
use crate::python::py::{Obj, Py};
use crate::sync::outgoing;
use crate::unwind;

/// This library's table for its own objects.
pub static EXCHANGE: cai_unstable_exchange_api = cai_unstable_exchange_api {
    struct_size: size_of::<cai_unstable_exchange_api>() as u32,
    data_abi: abi::CAI_DATA_ABI,
    from_object: Some(from_object),
    to_object: Some(to_object),
};

/// DLPack's table returns the producer's current stream without naming an array. So each array is
/// ordered before the legacy default stream when it is taken, and that stream is returned.
pub static DLPACK_EXCHANGE: ExchangeTable = ExchangeTable {
    major: MAJOR,
    minor: MINOR,
    previous: ptr::null(),
    allocator: Some(dlpack_allocate),
    from_object: Some(dlpack_from_object),
    to_object: Some(dlpack_to_object),
    // A borrowed tensor needs strides in elements, in the producer's memory; these are in bytes.
    view: None,
    current_stream: Some(dlpack_current_stream),
};

/// Runs the body of a function in a table: failures become exceptions and a status.
fn status(error: Out<cai_error>, body: impl for<'py> FnOnce(Py<'py>) -> Result<()>) -> cai_status {
    let Err(failure) = unwind::guarded(|| Py::with(body)) else { return abi::CAI_OK };
    if let Some(error) = error.optional() {
        error.write(failure.to_error());
    }
    failure.status()
}

unsafe extern "C-unwind" fn from_object(
    object: *mut _object,
    out: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    arguments!(object: Obj(object), out: Out, error: Out);
    // The usual caller is this library itself, with a structure of the same size.
    let Some(capi) = capi::found() else { return abi::CAI_ERR_NO_PYTHON };
    let Some(object) = object else { return status(error, |_| Err(Failure::null("object"))) };
    let Some(this) = Instance::<Exported>::of(capi, object) else {
        return status(error, |py| not_ours(py, object));
    };
    match share(&this, out) {
        Ok(()) => abi::CAI_OK,
        Err(failure) => status(error, |_| Err(failure)),
    }
}

fn not_ours<T>(py: Py, object: Obj) -> Result<T> {
    fail!(CAI_ERR_TYPE, "object";
        found "an object of type {}", object.type_name(py); expected "a libcai.Array")
}

/// Writes the array of an object, with a reference of its own, into `out` of any version.
#[inline(always)]
fn share(exported: &Exported, out: Out<cai_array>) -> Result<()> {
    let out = out.array("out")?;
    let Some(reading) = exported.read() else {
        return fail!(CAI_ERR_VALUE, "object";
            found "an object without an array";
            expected "one that cai_array_to_python made and that was not released");
    };
    if !outgoing::is_final(&reading) {
        return share_replaced(&reading, out);
    }
    out.give_copy(&reading, reading.retain()?);
    Ok(())
}

/// The same for an array that consumers may have to see with another stream.
#[cold]
#[inline(never)]
fn share_replaced(array: &Reading, out: ArrayOutput) -> Result<()> {
    let replaced = outgoing::replaced(array)?;
    out.give_copy(replaced.as_ref().unwrap_or(array), array.retain()?);
    Ok(())
}

/// Does the same if any import takes the array as it is: in device memory, without a mask, and if it
/// `fits` this one. Returns false where there is more to do, and has done nothing then.
#[inline(always)]
pub fn share_as_is(
    exported: &Exported,
    out: Out<cai_array>,
    fits: impl FnOnce(&cai_array) -> bool,
) -> bool {
    let (Some((array, owner)), Some(out)) = (exported.lasting_array(), out.of_this_size()) else {
        return false;
    };
    if !array.mask.is_null()
        || array.device.r#type == abi::CAI_DEVICE_CPU
        || !outgoing::is_final(array)
        || !fits(array)
    {
        return false;
    }
    let Ok(owner) = owner.retain() else { return false };
    out.give_copy(array, owner);
    true
}

unsafe extern "C-unwind" fn to_object(
    array: *const cai_array,
    out: *mut *mut _object,
    error: *mut cai_error,
) -> cai_status {
    arguments!(array: In, out: Out, error: Out);
    status(error, |py| {
        let (array, out) = (array.given("array")?.array()?, out.given("out")?);
        // SAFETY: a copy of the caller's array, which is readable with all that it points to.
        out.write(unsafe { export(py, &array, 0) }?.into_raw());
        Ok(())
    })
}

unsafe extern "C-unwind" fn dlpack_allocate(
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
    match unwind::guarded(|| Py::with(body)) {
        Ok(()) => 0,
        Err(failure) => raise(&failure, -1),
    }
}

unsafe extern "C-unwind" fn dlpack_from_object(
    object: *mut c_void,
    out: *mut *mut DLManagedTensorVersioned,
) -> c_int {
    // SAFETY: DLPack requires a live object, a place for the tensor, and the GIL.
    let (object, out) = unsafe { (Obj::from_ptr(object.cast()), Out::new(out)) };
    code(|py| {
        let (object, out) = (object.ok_or_else(|| Failure::null("object"))?, out.given("out")?);
        let Some(this) = Instance::<Exported>::of(py.capi(), object) else {
            return not_ours(py, object);
        };
        let array = this.array()?;
        let device = dlpack::device_of(&array).map_err(|failure| cannot(py, failure))?;
        let tensor = tensor(py, &array, this.flags(), device.0, true, None)?;
        out.write(tensor.into_raw().cast());
        Ok(())
    })
}

unsafe extern "C-unwind" fn dlpack_to_object(
    tensor: *mut DLManagedTensorVersioned,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: DLPack requires a tensor, which the caller gives away, also on failure, and a place
    // for the object.
    let (tensor, out) = unsafe { (ManagedTensor::versioned(tensor), Out::new(out)) };
    code(|py| {
        let cpu = tensor.view()?.device().0 == abi::CAI_DEVICE_CPU;
        let stream = if cpu { abi::CAI_STREAM_NONE } else { abi::CAI_STREAM_UNKNOWN };
        let array = tensor.into_array(stream, Lanes::Refused).map_err(|(failure, _)| failure)?;
        let (out, raw) = (out.given("out")?, *array);
        // SAFETY: `into_array` validated the array, and made the owner.
        out.write(unsafe { wrap(py, &raw, array.into_owner(), 0) }?.into_raw().cast());
        Ok(())
    })
}

unsafe extern "C-unwind" fn dlpack_current_stream(_: i32, _: i32, out: *mut *mut c_void) -> c_int {
    // SAFETY: DLPack requires a place for the stream.
    let Some(out) = unsafe { Out::new(out) }.optional() else { return -1 };
    out.write(ptr::null_mut());
    0
}
