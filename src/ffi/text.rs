//! Text for a caller's buffer.

use std::ffi::c_char;
use std::fmt;
use std::ptr;

use super::ptr::given;
use crate::error::{Result, fail};

/// Writes a text of `length` characters and its NUL, or none of it, and its length.
///
/// # Safety
/// `buffer` is NULL, or `size` characters are writable there; `out_length` is NULL or writable;
/// `write` writes `length` characters.
pub unsafe fn write_text(
    buffer: *mut c_char,
    size: usize,
    out_length: *mut usize,
    length: usize,
    write: impl FnOnce(&mut Buffer) -> Result<()>,
) -> Result<()> {
    if size > 0 {
        given(buffer, "buffer")?;
    }
    if !buffer.is_null() {
        if size <= length {
            return fail!(
                CAI_ERR_BUFFER_SIZE,
                "size",
                found = "{size}",
                expected = ("at least {}", length + 1)
            );
        }
        write(&mut Buffer { to: buffer.cast(), used: 0 })?;
        // SAFETY: `size` characters are writable, and `length` is below that.
        unsafe { buffer.add(length).write(0) };
    }
    if !out_length.is_null() {
        // SAFETY: not NULL; writable by the contract above.
        unsafe { out_length.write(length) };
    }
    Ok(())
}

/// A caller's buffer that is known to be large enough, or none, to measure.
pub struct Buffer {
    to: *mut u8,
    used: usize,
}

/// Returns the number of characters of a text.
pub fn length(write: impl FnOnce(&mut Buffer) -> Result<()>) -> Result<usize> {
    let mut measure = Buffer { to: ptr::null_mut(), used: 0 };
    write(&mut measure)?;
    Ok(measure.used)
}

impl fmt::Write for Buffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if !self.to.is_null() {
            // SAFETY: only `write_text` makes one with a buffer, in which the whole text fits.
            unsafe { self.to.add(self.used).copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        }
        self.used += text.len();
        Ok(())
    }
}
