//! The inner error: a status, the path of the field, the value found and the value expected.
//!
//! A failure is built where the rule is broken. Callers prefix the path (`shape[2]`,
//! then `mask.shape[2]`). A failure is one pointer wide, so that functions which succeed return in
//! a register. The price is an allocation on the failing path. If that allocation fails, the
//! failure is `CAI_ERR_NO_MEMORY`.

use std::ffi::c_char;
use std::fmt::{self, Write};

use crate::abi::{self, cai_error, cai_status};
use crate::memory;

/// Text in a fixed array. A text that does not fit is cut off at a character boundary and ends in
/// "...". Control characters and those that change the direction of text are escaped: names of
/// others must not act on the terminal or the log that shows a message.
#[derive(Clone, Copy)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Text<N> {
    /// No text.
    pub const EMPTY: Self = Text { bytes: [0; N], len: 0 };

    /// Formats into a new text: `Text::new(format_args!("{x}"))`.
    #[inline(never)]
    pub fn new(args: fmt::Arguments) -> Self {
        let mut text = Self::EMPTY;
        // An error means that the text is full, which its mark shows.
        let _ = text.write_fmt(args);
        text
    }

    /// Appends to the text, for `write!`. Fails if the text is full.
    pub fn write_fmt(&mut self, args: fmt::Arguments) -> fmt::Result {
        self.end().append(args)
    }

    pub fn as_str(&self) -> &str {
        valid(&self.bytes, self.len)
    }

    fn end(&mut self) -> End<'_> {
        End { bytes: &mut self.bytes, len: &mut self.len }
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[inline(never)]
fn valid(bytes: &[u8], len: usize) -> &str {
    bytes.get(..len).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default()
}

/// The end of a text of any size: the machine code of formatting does not depend on the size.
struct End<'a> {
    bytes: &'a mut [u8],
    len: &'a mut usize,
}

impl End<'_> {
    #[inline(never)]
    fn append(mut self, args: fmt::Arguments) -> fmt::Result {
        fmt::write(&mut self, args)
    }
}

impl Write for End<'_> {
    fn write_str(&mut self, mut s: &str) -> fmt::Result {
        // Nearly all texts, at a tenth of the cost.
        if s.bytes().fold(true, |plain, byte| plain & (b' '..=b'~').contains(&byte)) {
            return self.put(s);
        }
        while let Some((at, found)) = s.char_indices().find(|(_, found)| acts_on_a_terminal(*found))
        {
            self.put(&s[..at])?;
            let escape: Text<10> = Text::new(format_args!("\\u{{{:x}}}", u32::from(found)));
            self.put(escape.as_str())?;
            s = &s[at + found.len_utf8()..];
        }
        self.put(s)
    }
}

/// Returns true for control characters (C0, DEL, C1), and for those of Unicode that are not shown
/// but change what is: direction, line ends, joiners, tags.
fn acts_on_a_terminal(found: char) -> bool {
    found.is_control()
        || matches!(
            u32::from(found),
            0x61c | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff
                | 0xfff9..=0xfffb | 0xe0000..=0xe007f
        )
}

/// A number of things: "1 byte", "2 bytes".
pub struct Count<N>(pub N, pub &'static str);

impl<N: fmt::Display + PartialEq + From<u8>> fmt::Display for Count<N> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Count(number, thing) = self;
        write!(f, "{number} {thing}{}", if *number == N::from(1) { "" } else { "s" })
    }
}

/// Bytes of others that may be no UTF-8, which is escaped.
pub struct Shown<'a>(pub &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.utf8_chunks().try_for_each(|chunk| {
            f.write_str(chunk.valid())?;
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))
        })
    }
}

impl End<'_> {
    fn put(&mut self, s: &str) -> fmt::Result {
        const MARK: &str = "...";
        let used = *self.len;
        if let Some(to) = self.bytes.get_mut(used..used + s.len()) {
            to.copy_from_slice(s.as_bytes());
            *self.len += s.len();
            return Ok(());
        }
        for (to, from) in self.bytes.iter_mut().skip(used).zip(s.bytes()) {
            *to = from;
        }
        // The mark replaces whole characters at the end. All bytes are used here.
        let last = self.bytes.len().saturating_sub(MARK.len());
        let begins = |at: usize| self.bytes.get(at).is_some_and(|byte| byte & 0xc0 != 0x80);
        let end = (0..=last).rev().find(|&at| begins(at)).unwrap_or_default();
        for (to, from) in self.bytes.iter_mut().skip(end).zip(MARK.bytes()) {
            *to = from;
        }
        *self.len = self.bytes.len().min(end + MARK.len());
        Err(fmt::Error)
    }
}

/// The reason why a function failed. `None` if there was no memory for the details.
pub struct Failure(Option<Box<Details>>);

pub struct Details {
    pub status: cai_status,
    /// A path such as `mask.shape[2]`, or the name of a parameter.
    pub field: Text<{ abi::CAI_ERROR_FIELD_SIZE - 1 }>,
    /// The value found. Empty if `expected` is the complete message of another library.
    pub found: Text<96>,
    pub expected: Text<240>,
    /// The driver's error code, or 0 if the driver was not involved.
    pub driver_code: i32,
}

/// The result of every fallible function inside the library.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// Builds a failure from its three texts, of which each but the last ends in a NUL: `field`,
    /// `expected` and `found`. [`failure!`] writes them. One format for all takes the least code at
    /// each failure. Texts of others are escaped where they could have a NUL, or are `found`.
    #[cold]
    pub fn new(status: cai_status, texts: fmt::Arguments) -> Self {
        let details = Details {
            status,
            field: Text::EMPTY,
            found: Text::EMPTY,
            expected: Text::EMPTY,
            driver_code: 0,
        };
        let Some(mut details) = memory::try_boxed(details) else { return Failure(None) };
        // What writes the texts returns no error, and formatting itself has none.
        let _ = Texts { details: &mut details, index: 0, is_full: false }.write_fmt(texts);
        Failure(Some(details))
    }

    /// Returns the details, unless there was no memory for them.
    pub fn details(&self) -> Option<&Details> {
        self.0.as_deref()
    }

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

    pub fn status(&self) -> cai_status {
        self.details().map_or(abi::CAI_ERR_NO_MEMORY, |details| details.status)
    }

    /// Returns true if the message is that of another library, complete.
    #[cfg(debug_assertions)]
    pub fn is_foreign(&self) -> bool {
        self.details().is_some_and(|details| details.found.as_str().is_empty())
    }

    #[cold]
    pub fn driver(mut self, code: i32) -> Self {
        if let Some(details) = &mut self.0 {
            details.driver_code = code;
        }
        self
    }

    #[cold]
    pub fn hint(mut self, hint: fmt::Arguments) -> Self {
        if let Some(details) = &mut self.0 {
            // A full text ends in a mark.
            let _ = details.expected.write_fmt(hint);
        }
        self
    }

    #[cold]
    pub fn at(mut self, field: fmt::Arguments) -> Self {
        if let Some(details) = &mut self.0 {
            details.field = Text::new(field);
        }
        self
    }

    #[cold]
    #[inline(never)]
    pub fn internal() -> Self {
        failure!(abi::CAI_ERR_INTERNAL, ""; found ""; expected "internal error: please report it")
    }

    #[cold]
    #[inline(never)]
    pub fn null(parameter: &str) -> Self {
        failure!(abi::CAI_ERR_NULL_ARGUMENT, "{parameter}"; found "NULL"; expected "a pointer")
    }

    #[cold]
    #[inline(never)]
    pub fn no_memory(bytes: usize) -> Self {
        failure!(abi::CAI_ERR_NO_MEMORY, ""; found "no memory"; expected "{}", Count(bytes, "byte"))
    }

    /// Prefixes the path: `within(format_args!("mask."))` for a field of the mask. A message that
    /// was complete without a path begins with the prefix.
    #[cold]
    #[inline(never)]
    pub fn within(mut self, prefix: fmt::Arguments) -> Self {
        if let Some(details) = &mut self.0 {
            details.field = Text::new(format_args!("{prefix}{}", details.field));
            if details.found.as_str().is_empty() {
                // A complete message, which does not begin with the field.
                let path: Text<{ abi::CAI_ERROR_FIELD_SIZE - 1 }> = Text::new(prefix);
                let path = path.as_str().trim_end_matches('.');
                details.expected = Text::new(format_args!("{path}: {}", details.expected));
            }
        }
        self
    }

    /// Prefixes the path of a mask, with `mask.` as often as masks lie between it and the array.
    #[cold]
    #[inline(never)]
    pub fn in_mask(self, depth: usize) -> Self {
        (0..depth).fold(self, |failure, _| failure.within(format_args!("mask.")))
    }

    /// Prefixes the path of an item of a list of arrays.
    pub fn in_array(self, index: usize) -> Self {
        let is_whole = self.0.as_ref().is_some_and(|details| details.field.as_str().is_empty());
        self.within(format_args!("arrays[{index}]{}", if is_whole { "" } else { "." }))
    }
}

/// Writes the texts of a failure one after another, as [`Failure::new`] describes.
struct Texts<'a> {
    details: &'a mut Details,
    /// The text that is being written, of the three.
    index: usize,
    /// It ends in a mark.
    is_full: bool,
}

impl Write for Texts<'_> {
    fn write_str(&mut self, mut s: &str) -> fmt::Result {
        loop {
            let (text, rest) = match s.split_once('\0') {
                Some((text, rest)) if self.index < 2 => (text, Some(rest)),
                _ => (s, None),
            };
            if !self.is_full {
                let mut to = match self.index {
                    0 => self.details.field.end(),
                    1 => self.details.expected.end(),
                    _ => self.details.found.end(),
                };
                self.is_full = to.write_str(text).is_err();
            }
            let Some(rest) = rest else { return Ok(()) };
            (s, self.index, self.is_full) = (rest, self.index + 1, false);
        }
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

/// Builds an `Err(Failure)`: `fail!(STATUS, FIELD; found TEXT; expected TEXT)`. A text is a format
/// literal and its arguments: `"{} items", count`. rustfmt, which would write each on a line of its
/// own, leaves alone what is no list of expressions.
macro_rules! fail {
    ($status:ident, $($texts:tt)*) => {
        Err($crate::error::failure!($crate::abi::$status, $($texts)*))
    };
}
pub(crate) use fail;

/// Builds a [`Failure`], as [`fail!`] does. The status is an expression.
macro_rules! failure {
    (
        $status:expr, $field:literal $(, $of_field:expr)*;
        found $found:literal $(, $of_found:expr)*;
        expected $expected:literal $(, $of_expected:expr)*
    ) => {
        $crate::error::Failure::new(
            $status,
            // The compiler makes one format of all.
            format_args!(
                "{}\0{}\0{}",
                format_args!($field $(, $of_field)*),
                format_args!($expected $(, $of_expected)*),
                format_args!($found $(, $of_found)*),
            ),
        )
    };
}
pub(crate) use failure;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_fits_is_kept() {
        let text: Text<5> = Text::new(format_args!("ab{}", "cde"));
        assert_eq!(text.as_str(), "abcde");
    }

    #[test]
    fn one_thing_is_singular() {
        let text = |number: i64| format!("{}", Count(number, "byte"));
        assert_eq!([-1, 0, 1, 2].map(text), ["-1 bytes", "0 bytes", "1 byte", "2 bytes"]);
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
        assert!(write!(text, "e").is_err());
        assert_eq!(text.as_str(), "a...");
    }
}
