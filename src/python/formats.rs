//! Formats of PEP 3118, which are those of the module `struct`: one item of a fixed size.

use std::ffi::c_long;

use crate::abi::cai_dtype;
use crate::dtype::NATIVE;
use crate::error::Text;

/// Type of an element, as a typestr states it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Element {
    /// `<`, `>` or `|`.
    pub order: u8,
    pub kind: u8,
    /// Number behind the kind.
    pub count: i64,
    /// Bytes of the element.
    pub size: i64,
}

impl Element {
    /// Reads a format. Only `itemsize` states the size of `long double`.
    pub fn parse(format: &[u8], itemsize: isize) -> Option<Self> {
        let (order, is_native, item) = match format {
            [b'@' | b'^', item @ ..] => (NATIVE, true, item),
            [b'=', item @ ..] => (NATIVE, false, item),
            [b'<', item @ ..] => (b'<', false, item),
            [b'>' | b'!', item @ ..] => (b'>', false, item),
            item => (NATIVE, true, item),
        };
        let long = if is_native { size_of::<c_long>() as i64 } else { 4 };
        let (kind, count, unit) = match item {
            b"?" => (b'b', 1, 1),
            b"b" => (b'i', 1, 1),
            b"B" => (b'u', 1, 1),
            b"h" => (b'i', 2, 1),
            b"H" => (b'u', 2, 1),
            b"i" => (b'i', 4, 1),
            b"I" => (b'u', 4, 1),
            b"l" => (b'i', long, 1),
            b"L" => (b'u', long, 1),
            b"q" => (b'i', 8, 1),
            b"Q" => (b'u', 8, 1),
            b"n" if is_native => (b'i', size_of::<isize>() as i64, 1),
            b"N" if is_native => (b'u', size_of::<usize>() as i64, 1),
            b"e" => (b'f', 2, 1),
            b"f" => (b'f', 4, 1),
            b"d" => (b'f', 8, 1),
            b"g" => (b'f', itemsize as i64, 1),
            b"Zf" => (b'c', 8, 1),
            b"Zd" => (b'c', 16, 1),
            b"Zg" => (b'c', itemsize as i64, 1),
            b"c" => (b'S', 1, 1),
            [count @ .., b's'] => (b'S', read_count(count)?, 1),
            [count @ .., b'w'] => (b'U', read_count(count)?, 4),
            _ => return None,
        };
        let has_no_order = kind == b'S' || count * unit == 1;
        let order = if has_no_order { b'|' } else { order };
        Some(Element { order, kind, count, size: count * unit })
    }
}

/// Items of one size each, the first of those that mean the same. [`Element::parse`] says what they
/// mean.
const ITEMS: [&str; 16] =
    ["?", "b", "B", "h", "H", "i", "I", "q", "Q", "e", "f", "d", "Zf", "Zd", "g", "Zg"];

const SWAPPED: &str = if NATIVE == b'<' { ">" } else { "<" };

impl Element {
    /// Returns the element type of an array. The kind of others than numbers, booleans and texts
    /// has no format.
    pub fn of(dtype: &cai_dtype) -> Self {
        let (order, kind) = (dtype.byte_order as u8, dtype.kind as u8);
        let count = if kind == b'U' { dtype.itemsize / 4 } else { dtype.itemsize };
        Element { order, kind, count, size: dtype.itemsize }
    }

    /// Returns the format that [`parse`](Self::parse) reads as this type. `None` if there is none.
    pub fn format(&self) -> Option<Format> {
        let is_native = self.order == NATIVE || self.order == b'|';
        let prefix = if is_native { "" } else { SWAPPED };
        let text = match self.kind {
            b'S' => Format::new(format_args!("{}s", self.count)),
            b'U' => Format::new(format_args!("{prefix}{}w", self.count)),
            _ => {
                let means_this = |item: &&&str| {
                    Self::parse(item.as_bytes(), self.size as isize)
                        .is_some_and(|found| (found.kind, found.size) == (self.kind, self.size))
                };
                // Only the machine's own `long double` has a format.
                let items = if prefix.is_empty() { &ITEMS[..] } else { &ITEMS[..14] };
                Format::new(format_args!("{prefix}{}", items.iter().find(means_this)?))
            }
        };
        let found = Self::parse(text.as_str().as_bytes(), self.size as isize)?;
        (found.kind == self.kind && found.size == self.size).then_some(text)
    }
}

/// A format: an order, ten digits and a letter at most.
pub type Format = Text<15>;

/// Reads a count, which is 1 if there is none. Its digits fit into a typestr.
fn read_count(text: &[u8]) -> Option<i64> {
    match text {
        [] => Some(1),
        [b'+', ..] => None,
        text => Some(std::str::from_utf8(text).ok()?.parse::<u32>().ok()?.into()),
    }
}
