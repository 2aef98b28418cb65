//! Pointers of a caller: NULL becomes a status that names the parameter.
//!
//! May use: `abi`, `error`, `read`.
//! Unsafe: reads and writes through a caller's pointers.

use std::mem::size_of;
use std::ptr;

use crate::abi::cai_array;
use crate::error::{Failure, Result};
use crate::read;
pub use crate::read::fits;

/// `Err` if the pointer is NULL.
#[inline]
pub fn given<T>(pointer: *const T, parameter: &str) -> Result<()> {
    if pointer.is_null() { Err(Failure::null(parameter)) } else { Ok(()) }
}

/// A local copy of the array that a parameter points to.
///
/// # Safety
/// `array` is NULL or points to a structure of the size it says.
#[inline]
pub unsafe fn array(array: *const cai_array, parameter: &str) -> Result<cai_array> {
    given(array, parameter)?;
    // SAFETY: not NULL (checked above), with as many readable bytes as it states (this function's
    // contract).
    unsafe { read::array(array) }
}

/// The size of an array that a function is going to write. It tells how much the caller's header knows.
///
/// # Safety
/// `out` is NULL or points to a structure whose `struct_size` is set.
pub unsafe fn output_size(out: *mut cai_array, parameter: &str) -> Result<usize> {
    given(out, parameter)?;
    // SAFETY: not NULL (checked above), with as many readable bytes as it states (this function's
    // contract).
    unsafe { read::array_size(out) }
        .map_err(|failure| failure.within(format_args!("{parameter}->")))
}

/// Writes an array into a caller's structure of `size` bytes: as much of it as the caller's header knows,
/// and zeros where that knows more than this library.
///
/// # Safety
/// `size` bytes at `out` are writable.
#[inline]
pub unsafe fn write_array(out: *mut cai_array, size: usize, array: &cai_array) {
    // For a size that the compiler knows, that is a few instructions instead of two calls.
    if size == size_of::<cai_array>() {
        // SAFETY: `size` bytes are writable (this function's contract).
        unsafe { out.write(*array) };
        return;
    }
    let mut array = *array;
    array.struct_size = size as u32;
    let known = size.min(size_of::<cai_array>());
    // SAFETY: `size` bytes are writable (this function's contract), and `known` is not more than
    // either side has.
    unsafe {
        ptr::copy_nonoverlapping((&raw const array).cast::<u8>(), out.cast::<u8>(), known);
        out.cast::<u8>().add(known).write_bytes(0, size - known);
    }
}
