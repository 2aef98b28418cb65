//! The inner error: a status, the path of the field, what was found and what was expected.
//!
//! May use: `abi`. `unsafe`: one allocation that may fail.
//!
//! A failure is built where the rule is broken; the levels above prefix the path on the way out
//! (`shape[2]`, then `mask.shape[2]`). It is no more than a pointer, so that functions which
//! succeed return in a register and copy nothing. The price is an allocation on the failing path;
//! where memory has run out, that is what the failure says instead.

use std::alloc::{Layout, alloc};
use std::ffi::c_char;
use std::fmt::{self, Write};

use crate::abi::{self, cai_error, cai_status};

/// Text in a fixed array; what does not fit is cut off at a character and marked by "...".
#[derive(Clone, Copy)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Text<N> {
    /// Formats into a new text: `Text::new(format_args!("{x}"))`.
    pub fn new(args: fmt::Arguments) -> Self {
        let mut text = Text { bytes: [0; N], len: 0 };
        // An error means that the text is full, which is what the mark says.
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

/// Why a function failed; `None` where there was no memory to say it, which is then the reason.
pub struct Failure(Option<Box<Details>>);

/// What a failure says.
pub struct Details {
    /// The status that the caller gets.
    pub status: cai_status,
    /// `mask.shape[2]`, or the name of a parameter.
    pub field: Text<{ abi::CAI_ERROR_FIELD_SIZE - 1 }>,
    /// The value that was found; empty where `expected` says it all, in another library's words.
    pub found: Text<96>,
    /// The value that was expected.
    pub expected: Text<240>,
    /// The driver's own code where the driver refused, else 0.
    pub driver_code: i32,
}

/// What every fallible function of the inner rooms returns.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// `Failure::new(CAI_ERR_NDIM, format_args!("ndim"), format_args!("-1"), format_args!("0 to
    /// 64"))`.
    #[cold]
    #[inline(never)]
    pub fn new(
        status: cai_status,
        field: fmt::Arguments,
        found: fmt::Arguments,
        expected: fmt::Arguments,
    ) -> Self {
        let layout = Layout::new::<Details>();
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc(layout) }.cast::<Details>();
        if memory.is_null() {
            return Failure(None);
        }
        let (field, found, expected) = (Text::new(field), Text::new(found), Text::new(expected));
        // SAFETY: fresh memory from the global allocator, of the layout that a `Box` of this type
        // has.
        Failure(Some(unsafe {
            memory.write(Details { status, field, found, expected, driver_code: 0 });
            Box::from_raw(memory)
        }))
    }

    /// The details, unless there was no memory for them.
    pub fn details(&self) -> Option<&Details> {
        self.0.as_deref()
    }

    /// What the caller's error says.
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
                        "found no memory, expected some for the description of an error"
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

    /// The status that the caller gets.
    pub fn status(&self) -> cai_status {
        self.details().map_or(abi::CAI_ERR_NO_MEMORY, |details| details.status)
    }

    /// The same failure, with the code that the driver answered.
    #[cold]
    pub fn driver(mut self, code: i32) -> Self {
        if let Some(details) = &mut self.0 {
            details.driver_code = code;
        }
        self
    }

    /// The same failure, of another field.
    #[cold]
    pub fn at(mut self, field: impl fmt::Display) -> Self {
        if let Some(details) = &mut self.0 {
            details.field = Text::new(format_args!("{field}"));
        }
        self
    }

    /// A required pointer parameter is NULL.
    #[cold]
    pub fn null(parameter: &str) -> Self {
        Failure::new(
            abi::CAI_ERR_NULL_ARGUMENT,
            format_args!("{parameter}"),
            format_args!("NULL"),
            format_args!("a pointer"),
        )
    }

    /// Memory ran out.
    #[cold]
    pub fn no_memory(bytes: usize) -> Self {
        Failure::new(
            abi::CAI_ERR_NO_MEMORY,
            format_args!(""),
            format_args!("no memory"),
            format_args!("{bytes} bytes"),
        )
    }

    /// The same failure, of a field that has another name to those who see it.
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

    /// The same failure, of a field of something that is itself a field: `within("mask.")`.
    #[cold]
    pub fn within(mut self, prefix: impl fmt::Display) -> Self {
        if let Some(details) = &mut self.0 {
            details.field = Text::new(format_args!("{prefix}{}", details.field));
        }
        self
    }
}

/// The text, cut if need be, with NULs behind it.
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

/// Format arguments of a literal, or of a literal with arguments in parentheses.
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
