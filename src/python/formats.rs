//! Formats of PEP 3118, which are those of the module `struct`: one item of a fixed size.

use std::ffi::c_long;

use crate::dtype::NATIVE;

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

/// Reads a count, which is 1 if there is none. Its digits fit into a typestr.
fn read_count(text: &[u8]) -> Option<i64> {
    match text {
        [] => Some(1),
        [b'+', ..] => None,
        text => Some(std::str::from_utf8(text).ok()?.parse::<u32>().ok()?.into()),
    }
}
