//! Pointers of a caller: NULL becomes a status that names the parameter.

use crate::abi::cai_array;
use crate::error::{Failure, Result};
use crate::read;
pub use crate::read::write_array;

/// `Err` if the pointer is NULL.
#[inline]
pub fn given<T>(pointer: *const T, parameter: &str) -> Result<()> {
    if pointer.is_null() { Err(Failure::null(parameter)) } else { Ok(()) }
}

/// A local copy of the array that a parameter points to.
///
/// # Safety
/// `array` is NULL or points to a structure of the size that it states.
#[inline]
pub unsafe fn array(array: *const cai_array, parameter: &str) -> Result<cai_array> {
    given(array, parameter)?;
    // SAFETY: not NULL (checked above), with as many readable bytes as it states (this function's
    // contract).
    unsafe { read::array(array) }
}

/// Returns the size of an array that a function is going to write: how much the caller's header
/// knows.
///
/// # Safety
/// `out` is NULL or points to a structure whose `struct_size` is set.
pub unsafe fn output_size(out: *mut cai_array, parameter: &str) -> Result<usize> {
    given(out, parameter)?;
    // SAFETY: not NULL (checked above), and `struct_size` is readable (this function's contract).
    unsafe { read::array_size(out) }
        .map_err(|failure| failure.within(format_args!("{parameter}->")))
}
