//! The metadata of a schema.

use std::ffi::c_char;
use std::slice;

use crate::error::{Result, fail};

/// Returns the name and the metadata of the extension type that metadata name; empty texts if none.
///
/// # Safety
/// `metadata` is NULL or points to metadata as Arrow encodes it, which stay unchanged for `'a`.
pub unsafe fn extension<'a>(metadata: *const c_char) -> Result<[&'a [u8]; 2]> {
    let mut found = [&[][..]; 2];
    if metadata.is_null() {
        return Ok(found);
    }
    let mut at = metadata.cast::<u8>();
    let number = |at: &mut *const u8| {
        // SAFETY: each text, and the list, begins with a number of 4 bytes that need not be aligned
        // (this function's contract).
        let value = unsafe { at.cast::<i32>().read_unaligned() };
        *at = at.wrapping_add(4);
        match usize::try_from(value) {
            Ok(value) => Ok(value),
            Err(_) => fail!(CAI_ERR_ARROW, "metadata";
                found "a size of {value}"; expected "at least 0"),
        }
    };
    for _ in 0..number(&mut at)? {
        let mut pair = [&[][..]; 2];
        for text in &mut pair {
            let size = number(&mut at)?;
            // SAFETY: as many bytes follow their number (this function's contract).
            *text = unsafe { slice::from_raw_parts(at, size) };
            at = at.wrapping_add(size);
        }
        match pair {
            [b"ARROW:extension:name", name] => found[0] = name,
            [b"ARROW:extension:metadata", text] => found[1] = text,
            _ => {}
        }
    }
    Ok(found)
}
