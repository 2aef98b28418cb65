//! Import through this library's exchange table.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;

use crate::abi::{self, cai_error};
use crate::error::{Failure, Result, Shown, fail, failure};
use crate::python::cache::FromObject;
use crate::python::import::options::ImportOptions;
use crate::python::import::requirements::refuse_mask;
use crate::python::owner::Description;
use crate::python::py::{Obj, Py, python_exception};
use crate::validate;

const NAME: &str = "__cai_exchange_api__";
const FROM_OBJECT: &str = "__cai_exchange_api__.from_object";

/// Answer of a table, or of a structure, to the request for an object's array.
pub enum Answer {
    /// Described it.
    Array,
    /// Refused it. Another protocol may offer it.
    Refused(Failure),
}

/// Imports through a table of this library, of any age.
#[inline]
pub fn from_table(
    py: Py,
    object: Obj,
    from_object: FromObject,
    options: &ImportOptions,
    to: &mut Description,
) -> Result<Answer> {
    // As `CAI_ARRAY_INIT` leaves it: a table that does not set the stream causes a failure.
    to.array.stream = 0;
    let mut error = MaybeUninit::<cai_error>::uninit();
    // A table may fail without a message. Its error must be terminated then.
    // SAFETY: both fields are inside the structure.
    unsafe {
        (&raw mut (*error.as_mut_ptr()).field).cast::<c_char>().write(0);
        (&raw mut (*error.as_mut_ptr()).message).cast::<c_char>().write(0);
    }
    // SAFETY: published under the contract of `cai_unstable_exchange_api`; the object is alive and of a type
    // with this table.
    let status = unsafe { from_object(object.as_ptr(), &raw mut to.array, error.as_mut_ptr()) };
    if status != abi::CAI_OK {
        // A function that fails gives no reference, whatever it wrote.
        to.taken();
        // SAFETY: terminated above, or filled by the function, by the same contract.
        let failure = unsafe { foreign(py, status, error.as_ptr(), FROM_OBJECT) };
        return Ok(Answer::Refused(failure));
    }
    // SAFETY: the function filled the array by the contract of the table.
    unsafe { validate::array(&raw const to.array, abi::CAI_CHECK_LAYOUT) }
        .map_err(|failure| failure.within(format_args!("{NAME}.")))?;
    if to.array.owner.is_null() {
        return fail!(CAI_ERR_BORROWED, "{NAME}.owner";
            found "NULL"; expected "an owner that keeps the data alive");
    }
    if !to.array.mask.is_null() && !options.has(abi::CAI_IMPORT_ALLOW_MASK) {
        return Err(refuse_mask(format_args!("{NAME}.mask")));
    }
    Ok(Answer::Array)
}

/// Returns a failure with the message of another library's `function`.
///
/// # Safety
/// `error` was filled in, or its texts are empty.
#[cold]
pub unsafe fn foreign(
    py: Py,
    status: abi::cai_status,
    error: *const cai_error,
    function: &str,
) -> Failure {
    if py.has_exception() {
        return python_exception();
    }
    if matches!(status, abi::CAI_ERR_PYTHON_EXCEPTION | abi::CAI_OK) {
        return failure!(abi::CAI_ERR_EXCHANGE_TABLE, "{function}";
            found "CAI_ERR_PYTHON_EXCEPTION without an exception"; expected "an exception");
    }
    // SAFETY: its texts are terminated (this function's contract).
    if unsafe { (&raw const (*error).message).cast::<c_char>().read() } == 0 {
        return failure!(status, "{function}";
            found ""; expected "{function}: found a failure without a message, expected an array");
    }
    // SAFETY: filled in, with terminated texts (this function's contract).
    let (field, message) = unsafe {
        (
            CStr::from_ptr((&raw const (*error).field).cast()),
            CStr::from_ptr((&raw const (*error).message).cast()),
        )
    };
    failure!(status, "{}", Shown(field.to_bytes());
        found ""; expected "{}", Shown(message.to_bytes()))
}
