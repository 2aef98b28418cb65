//! Import through this library's exchange table.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use crate::abi::{self, cai_error, cai_exchange_api};
use crate::error::{Failure, Result, fail};
use crate::python::capi::Object;
use crate::python::interpreter::{Py, raised};
use crate::python::owner::Description;
use crate::validate;

/// Through a table of this library's.
#[inline]
pub fn from_table(
    py: Py,
    object: NonNull<Object>,
    table: &cai_exchange_api,
    to: &mut Description,
) -> Result<bool> {
    const NAME: &str = "__cai_exchange_api__";
    let Some(from_object) = table.from_object else { return raised() };
    // As `CAI_ARRAY_INIT` leaves it: a table that forgets the stream is told so.
    to.array.stream = 0;
    let mut error = MaybeUninit::<cai_error>::uninit();
    // A table that fails without a word has said nothing.
    // SAFETY: inside the structure.
    unsafe {
        (&raw mut (*error.as_mut_ptr()).field).cast::<c_char>().write(0);
        (&raw mut (*error.as_mut_ptr()).message).cast::<c_char>().write(0);
    }
    // SAFETY: published under the contract of `cai_exchange_api`; the object is alive and of a type
    // with this table.
    let status =
        unsafe { from_object(object.as_ptr().cast(), &raw mut to.array, error.as_mut_ptr()) };
    if status != abi::CAI_OK {
        // Whatever it wrote, it says that it gave no reference.
        to.taken();
        // SAFETY: filled where the function failed, by the same contract.
        return Err(unsafe { foreign(py, status, error.as_ptr()) });
    }
    // SAFETY: as it says, filled in by the table's function.
    unsafe { validate::array(&raw const to.array, abi::CAI_CHECK_LAYOUT) }
        .map_err(|failure| failure.within(format_args!("{NAME}.")))?;
    if to.array.owner.is_null() {
        return fail!(
            CAI_ERR_BORROWED,
            "{NAME}.owner",
            found = "NULL",
            expected = "an owner that keeps the data alive"
        );
    }
    Ok(true)
}

/// A failure in another library's words.
///
/// # Safety
/// `error` was filled in.
#[cold]
unsafe fn foreign(py: Py, status: abi::cai_status, error: *const cai_error) -> Failure {
    if py.has_exception() {
        return match raised::<()>() {
            Err(failure) => failure,
            Ok(()) => Failure::no_memory(0),
        };
    }
    if matches!(status, abi::CAI_ERR_PYTHON_EXCEPTION | abi::CAI_OK) {
        return Failure::new(
            abi::CAI_ERR_EXCHANGE_TABLE,
            format_args!("__cai_exchange_api__.from_object"),
            format_args!("a failure that says that an exception is set, and none is"),
            format_args!("one"),
        );
    }
    // SAFETY: `from_table` terminated it before the function was called.
    if unsafe { (&raw const (*error).message).cast::<c_char>().read() } == 0 {
        return Failure::new(
            status,
            format_args!("__cai_exchange_api__.from_object"),
            format_args!("a failure without a word"),
            format_args!("an array"),
        );
    }
    // SAFETY: by contract, with terminated texts.
    let (field, message) = unsafe {
        (
            CStr::from_ptr((&raw const (*error).field).cast()),
            CStr::from_ptr((&raw const (*error).message).cast()),
        )
    };
    Failure::new(
        status,
        format_args!("{}", field.to_string_lossy()),
        format_args!(""),
        format_args!("{}", message.to_string_lossy()),
    )
}
