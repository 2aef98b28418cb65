//! The inner error: a status, the path of the field, the value found and the value expected.
//!
//! May use: `abi`.
//! Unsafe: one allocation that may fail.
//!
//! A failure is built where the rule is broken. Callers prefix the path (`shape[2]`,
//! then `mask.shape[2]`). A failure is one pointer wide, so that functions which succeed return in
//! a register. The price is an allocation on the failing path. If that allocation fails, the
//! failure is `CAI_ERR_NO_MEMORY`.

use std::alloc::{Layout, alloc};
use std::ffi::c_char;
use std::fmt::{self, Write};

use crate::abi::{self, cai_error, cai_status};

/// Text in a fixed array. A text that does not fit is cut off at a character boundary and ends in
/// "...".
#[derive(Clone, Copy)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Text<N> {
    /// Formats into a new text: `Text::new(format_args!("{x}"))`.
    pub fn new(args: fmt::Arguments) -> Self {
        let mut text = Text { bytes: [0; N], len: 0 };
        // An error means that the text is full, which its mark shows.
        let _ = text.write_fmt(args);
        text
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl<const N: usize> Write for Text<N> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let free = N - self.len;
        if s.len() <= free {
            self.bytes[self.len..self.len + s.len()].copy_from_slice(s.as_bytes());
            self.len += s.len();
            return Ok(());
        }
        const MARK: &str = "...";
        let mut cut = free;
        while !s.is_char_boundary(cut) {
            cut -= 1;
        }
        self.bytes[self.len..self.len + cut].copy_from_slice(&s.as_bytes()[..cut]);
        self.len += cut;
        // The mark replaces whole characters at the end.
        let mut end = N.saturating_sub(MARK.len()).min(self.len);
        while !self.as_str().is_char_boundary(end) {
            end -= 1;
        }
        self.bytes[end..end + MARK.len()].copy_from_slice(MARK.as_bytes());
        self.len = end + MARK.len();
        Err(fmt::Error)
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The reason why a function failed. `None` if there was no memory for the details.
pub struct Failure(Option<Box<Details>>);

/// The details of a failure.
pub struct Details {
    /// The status that the caller receives.
    pub status: cai_status,
    /// A path such as `mask.shape[2]`, or the name of a parameter.
    pub field: Text<{ abi::CAI_ERROR_FIELD_SIZE - 1 }>,
    /// The value found. Empty if `expected` is the complete message of another library.
    pub found: Text<96>,
    /// The value expected.
    pub expected: Text<240>,
    /// The driver's error code, or 0 if the driver was not involved.
    pub driver_code: i32,
}

/// The result of every fallible function inside the library.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// Builds a failure: `Failure::new(CAI_ERR_NDIM, format_args!("ndim"), format_args!("-1"),
    /// format_args!("0 to 64"))`.
    #[cold]
    #[inline(never)]
    pub fn new(
        status: cai_status,
        field: fmt::Arguments,
        found: fmt::Arguments,
        expected: fmt::Arguments,
    ) -> Self {
        let layout = Layout::new::<Details>();
        // SAFETY: `Details` is not zero-sized.
        let memory = unsafe { alloc(layout) }.cast::<Details>();
        if memory.is_null() {
            return Failure(None);
        }
        let (field, found, expected) = (Text::new(field), Text::new(found), Text::new(expected));
        // SAFETY: `memory` is not NULL (checked above), fresh from the global allocator, and has
        // the layout that a `Box` of this type frees.
        Failure(Some(unsafe {
            memory.write(Details { status, field, found, expected, driver_code: 0 });
            Box::from_raw(memory)
        }))
    }

    /// Returns the details, unless there was no memory for them.
    pub fn details(&self) -> Option<&Details> {
        self.0.as_deref()
    }

    /// Returns the error structure for the caller.
    #[cold]
    pub fn to_error(&self) -> cai_error {
        let (field, message, driver_code): (&str, Text<{ abi::CAI_ERROR_MESSAGE_SIZE - 1 }>, i32) =
            match self.details() {
                Some(Details { field, found, expected, driver_code, .. }) => {
                    let colon = if field.as_str().is_empty() { "" } else { ": " };
                    let message = if found.as_str().is_empty() {
                        Text::new(format_args!("{expected}"))
                    } else {
                        Text::new(format_args!("{field}{colon}found {found}, expected {expected}"))
                    };
                    (field.as_str(), message, *driver_code)
                }
                None => (
                    "",
                    Text::new(format_args!(
                        "found no memory, expected memory for the error message"
                    )),
                    0,
                ),
            };
        cai_error {
            code: self.status(),
            driver_code,
            field: terminated(field),
            message: terminated(message.as_str()),
        }
    }

    /// Returns the status for the caller.
    pub fn status(&self) -> cai_status {
        self.details().map_or(abi::CAI_ERR_NO_MEMORY, |details| details.status)
    }

    /// Adds the driver's error code.
    #[cold]
    pub fn driver(mut self, code: i32) -> Self {
        if let Some(details) = &mut self.0 {
            details.driver_code = code;
        }
        self
    }

    /// Appends a hint to the value expected.
    #[cold]
    pub fn hint(mut self, hint: fmt::Arguments) -> Self {
        if let Some(details) = &mut self.0 {
            // A full text ends in a mark.
            let _ = details.expected.write_fmt(hint);
        }
        self
    }

    /// Replaces the field.
    #[cold]
    pub fn at(mut self, field: impl fmt::Display) -> Self {
        if let Some(details) = &mut self.0 {
            details.field = Text::new(format_args!("{field}"));
        }
        self
    }

    /// A defect of this library.
    #[cold]
    pub fn internal() -> Self {
        Failure::new(
            abi::CAI_ERR_INTERNAL,
            format_args!(""),
            format_args!(""),
            format_args!("internal error: please report it"),
        )
    }

    /// Returns the failure for a required pointer parameter that is NULL.
    #[cold]
    pub fn null(parameter: &str) -> Self {
        Failure::new(
            abi::CAI_ERR_NULL_ARGUMENT,
            format_args!("{parameter}"),
            format_args!("NULL"),
            format_args!("a pointer"),
        )
    }

    /// Returns the failure for an allocation of `bytes` bytes.
    #[cold]
    pub fn no_memory(bytes: usize) -> Self {
        Failure::new(
            abi::CAI_ERR_NO_MEMORY,
            format_args!(""),
            format_args!("no memory"),
            format_args!("{bytes} bytes"),
        )
    }

    /// Replaces the path by one that the caller knows it by.
    #[cold]
    pub fn rename(
        mut self,
        name: impl FnOnce(&str) -> Text<{ abi::CAI_ERROR_FIELD_SIZE - 1 }>,
    ) -> Self {
        if let Some(details) = &mut self.0 {
            details.field = name(details.field.as_str());
        }
        self
    }

    /// Prefixes the path: `within("mask.")` for a field of the mask. A message that was complete
    /// without a path begins with the prefix.
    #[cold]
    pub fn within(mut self, prefix: impl fmt::Display) -> Self {
        if let Some(details) = &mut self.0 {
            details.field = Text::new(format_args!("{prefix}{}", details.field));
            if details.found.as_str().is_empty() {
                // A complete message, which does not begin with the field.
                let path: Text<{ abi::CAI_ERROR_FIELD_SIZE - 1 }> =
                    Text::new(format_args!("{prefix}"));
                let path = path.as_str().trim_end_matches('.');
                details.expected = Text::new(format_args!("{path}: {}", details.expected));
            }
        }
        self
    }
}

/// Copies a text into an array, cut if necessary and padded with NULs.
pub fn terminated<const N: usize>(text: &str) -> [c_char; N] {
    let mut out = [0; N];
    for (to, from) in out[..N - 1].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
    out
}

/// Builds an `Err(Failure)`: `fail!(STATUS, FIELD, found = TEXT, expected = TEXT)`. A text is a
/// format literal, or a format literal with its arguments in parentheses: `("{} items", count)`.
macro_rules! fail {
    ($status:ident, $field:tt, found = $found:tt, expected = $expected:tt $(,)?) => {
        Err($crate::error::Failure::new(
            $crate::abi::$status,
            $crate::error::text!($field),
            $crate::error::text!($found),
            $crate::error::text!($expected),
        ))
    };
}
pub(crate) use fail;

/// Builds format arguments from a literal, or from a literal with arguments in parentheses.
macro_rules! text {
    (($($text:tt)*)) => {
        format_args!($($text)*)
    };
    ($text:literal) => {
        format_args!($text)
    };
}
pub(crate) use text;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_fits_is_kept() {
        let text: Text<5> = Text::new(format_args!("ab{}", "cde"));
        assert_eq!(text.as_str(), "abcde");
    }

    #[test]
    fn text_that_does_not_fit_is_marked_and_stays_utf8() {
        for text in ["abcdefghijkl", "ääääääääääää", "😀😀😀😀😀"] {
            let cut: Text<8> = Text::new(format_args!("{text}"));
            assert!(cut.as_str().ends_with("..."), "{}", cut.as_str());
            assert!(cut.as_str().len() <= 8);
            let kept = cut.as_str().trim_end_matches('.');
            assert!(text.starts_with(kept));
        }
    }

    #[test]
    fn a_full_text_is_marked_when_more_comes() {
        let mut text: Text<4> = Text::new(format_args!("abcd"));
        assert!(text.write_str("e").is_err());
        assert_eq!(text.as_str(), "a...");
    }
}
