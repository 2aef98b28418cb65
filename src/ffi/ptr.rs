//! A caller's pointers: NULL becomes a status that names the parameter.

use std::mem::size_of;
use std::ptr;

use crate::abi::cai_array;
use crate::error::{Failure, Result};
use crate::read;

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
    // SAFETY: not NULL; the caller vouches for the structure.
    unsafe { read::array(array) }
}

/// The size of an array that a function is going to write: how much the caller's header knows.
///
/// # Safety
/// `out` is NULL or points to a structure whose `struct_size` is set.
pub unsafe fn output_size(out: *mut cai_array, parameter: &str) -> Result<usize> {
    given(out, parameter)?;
    // SAFETY: not NULL; a structure begins with its size.
    unsafe { read::array_size(out) }
        .map_err(|failure| failure.within(format_args!("{parameter}->")))
}

/// Writes an array into a caller's structure of `size` bytes, which keeps that size: as much as the
/// caller's header knows, and zeros where that knows more than this library.
///
/// # Safety
/// `size` bytes at `out` are writable, and `size` is legal for an array.
#[inline]
pub unsafe fn write_array(out: *mut cai_array, size: usize, array: &cai_array) {
    // SAFETY: `size` bytes are writable, and no more than those are written. The size is the first
    // member of every structure.
    unsafe {
        if size == size_of::<cai_array>() {
            // Of a size that the compiler knows: a few instructions instead of two calls.
            out.write(*array);
        } else {
            let known = size.min(size_of::<cai_array>());
            ptr::copy_nonoverlapping(ptr::from_ref(array).cast::<u8>(), out.cast::<u8>(), known);
            out.cast::<u8>().add(known).write_bytes(0, size - known);
        }
        (&raw mut (*out).struct_size).write(size as u32);
    }
}
