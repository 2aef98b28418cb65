//! Conversion between Arrow's format strings and typestrs.

use std::ffi::{CStr, c_char};

use crate::abi::{self, CAI_TYPESTR_SIZE, cai_dtype};
use crate::dtype::NATIVE;
use crate::dtype::table::{self, TYPES};
use crate::error::Text;

/// Arrow's type of an array or of a child.
pub enum Format {
    /// A fixed-size list of so many elements of the child.
    List(i64),
    Value([c_char; CAI_TYPESTR_SIZE]),
}

/// Formats of times without parameters, and the typestr on a little-endian machine. Days, and times
/// of 4 bytes, are the integers that Arrow stores: the array interface has times of 8 bytes only.
const TIMES: [(&[u8], &str); 10] = [
    (b"tdD", "<i4"),
    (b"tdm", "<M8[ms]"),
    (b"tts", "<i4"),
    (b"ttm", "<i4"),
    (b"ttu", "<m8[us]"),
    (b"ttn", "<m8[ns]"),
    (b"tDs", "<m8[s]"),
    (b"tDm", "<m8[ms]"),
    (b"tDu", "<m8[us]"),
    (b"tDn", "<m8[ns]"),
];

pub const BITS: [c_char; CAI_TYPESTR_SIZE] = {
    let mut text = [0; CAI_TYPESTR_SIZE];
    [text[0], text[1], text[2]] = [b'|' as c_char, b't' as c_char, b'1' as c_char];
    text
};

/// A boolean of one byte each: the extension type `arrow.bool8`.
const BOOL8: &str = "|b1";

fn typestr(text: &str) -> [c_char; CAI_TYPESTR_SIZE] {
    let mut out = [0; CAI_TYPESTR_SIZE];
    for (to, from) in out.iter_mut().zip(text.bytes()) {
        *to = if from == b'<' { NATIVE } else { from } as c_char;
    }
    out
}

/// Reads a format. `None`: the array interface has no such type.
pub fn parse(format: &[u8], is_bool8: bool) -> Option<Format> {
    let value = |text: &str| Some(Format::Value(typestr(text)));
    if is_bool8 {
        return if format == b"c" { value(BOOL8) } else { None };
    }
    if let Some((_, text)) = TIMES.iter().find(|(time, _)| *time == format) {
        return value(text);
    }
    if let Some(of) = TYPES.iter().find(|of| of.arrow.is_some_and(|of| of.to_bytes() == format)) {
        return Some(Format::Value(table::typestr(of.kind, of.size)));
    }
    match format {
        // A time zone follows the colon. The numbers are those of UTC in every zone.
        [b't', b's', b's', b':', ..] => value("<M8[s]"),
        [b't', b's', b'm', b':', ..] => value("<M8[ms]"),
        [b't', b's', b'u', b':', ..] => value("<M8[us]"),
        [b't', b's', b'n', b':', ..] => value("<M8[ns]"),
        // Opaque: text, the other type of so many bytes, ends at its first NUL.
        [b'w', b':', size @ ..] => {
            value(Text::<16>::new(format_args!("|V{}", number(size)?)).as_str())
        }
        [b'+', b'w', b':', size @ ..] => Some(Format::List(number(size)?)),
        _ => None,
    }
}

/// Reads a size: 31 bits in decimal digits.
fn number(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0i64, |value, digit| {
        let digit = i64::from(digit.wrapping_sub(b'0'));
        let next = value * 10 + digit;
        (digit < 10 && next <= i64::from(i32::MAX)).then_some(next)
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// One without parameters.
    Plain(&'static CStr),
    /// Booleans of one byte each.
    Bool8,
    /// So many bytes.
    Binary(i32),
}

/// Returns the format of a type without fields, or `None`.
pub fn element(dtype: &cai_dtype) -> Option<Element> {
    if dtype.code != abi::CAI_DTYPE_NONE {
        return None;
    }
    let is_one = dtype.unit_count == 1;
    Some(Element::Plain(match (dtype.kind as u8, dtype.itemsize, dtype.unit) {
        (b'b', ..) => return Some(Element::Bool8),
        (b'M', _, abi::CAI_UNIT_SECOND) if is_one => c"tss:",
        (b'M', _, abi::CAI_UNIT_MILLISECOND) if is_one => c"tsm:",
        (b'M', _, abi::CAI_UNIT_MICROSECOND) if is_one => c"tsu:",
        (b'M', _, abi::CAI_UNIT_NANOSECOND) if is_one => c"tsn:",
        (b'm', _, abi::CAI_UNIT_SECOND) if is_one => c"tDs",
        (b'm', _, abi::CAI_UNIT_MILLISECOND) if is_one => c"tDm",
        (b'm', _, abi::CAI_UNIT_MICROSECOND) if is_one => c"tDu",
        (b'm', _, abi::CAI_UNIT_NANOSECOND) if is_one => c"tDn",
        (b'S' | b'V', size, _) => return Some(Element::Binary(i32::try_from(size).ok()?)),
        _ => table::of(dtype)?.arrow?,
    }))
}

/// Bytes of a format, the NUL included: `+w:2147483647`.
pub(crate) const SIZE: usize = 16;

/// Writes a format with a size, NUL-padded.
pub fn sized(prefix: &str, size: i64) -> [u8; SIZE] {
    let mut text = Text::<{ SIZE - 1 }>::new(format_args!("{prefix}"));
    // A size of 31 bits fits.
    let _ = write!(text, "{size}");
    let mut out = [0; SIZE];
    out.iter_mut().zip(text.as_str().bytes()).for_each(|(to, from)| *to = from);
    out
}
