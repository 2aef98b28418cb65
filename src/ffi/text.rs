//! Text for a caller's buffer.

use std::ffi::c_char;
use std::fmt::{self, Write as _};

use crate::argument::{Buffer, Out};
use crate::error::{Result, fail};

/// Destination of a text: a caller's buffer and length, of which each may be NULL.
pub struct Output<'a> {
    buffer: Buffer<'a, u8>,
    length: Out<'a, usize>,
}

impl<'a> Output<'a> {
    /// # Safety
    /// As for [`Buffer::new`] and [`Out::new`].
    pub unsafe fn new(buffer: *mut c_char, size: usize, length: *mut usize) -> Self {
        // SAFETY: the caller of this function fulfils both contracts.
        unsafe { Output { buffer: Buffer::new(buffer.cast(), size), length: Out::new(length) } }
    }

    /// Writes a text of `length` characters and its NUL, or none of it, and its length.
    pub fn write(
        self,
        length: usize,
        write: impl FnOnce(&mut Characters) -> Result<()>,
    ) -> Result<()> {
        let Output { buffer, length: out_length } = self;
        let size = buffer.size();
        buffer.given(size, "buffer")?;
        if buffer.is_given() {
            if size <= length {
                return fail!(CAI_ERR_BUFFER_SIZE, "size";
                    found "{size}"; expected "at least {}", length + 1);
            }
            let mut characters = Characters { buffer: Some(buffer), count: 0 };
            write(&mut characters)?;
            let _ = characters.write_str("\0");
        }
        out_length.put(length);
        Ok(())
    }
}

/// The characters of a text, which are counted, and written if there is a buffer.
pub struct Characters<'a> {
    buffer: Option<Buffer<'a, u8>>,
    count: usize,
}

/// Returns the number of characters of a text.
pub fn length(write: impl FnOnce(&mut Characters) -> Result<()>) -> Result<usize> {
    let mut measure = Characters { buffer: None, count: 0 };
    write(&mut measure)?;
    Ok(measure.count)
}

impl fmt::Write for Characters<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if let Some(buffer) = &mut self.buffer {
            buffer.append(text.as_bytes());
        }
        self.count += text.len();
        Ok(())
    }
}
