//! `Py_buffer` of PEP 3118: memory that `bytes`, `mmap`, `memoryview` and others lend.

use std::ffi::c_long;

use crate::abi::{self, CAI_TYPESTR_SIZE};
use crate::dtype::NATIVE;
use crate::error::{Result, Text, fail, failure};
use crate::python::import::exchange_table::Answer;
use crate::python::import::host_memory;
use crate::python::owner::{Description, attach_buffer};
use crate::python::py::{Buffer, Obj, Py};

const NAME: &str = "Py_buffer";

/// Imports an array of numbers, booleans or texts of a fixed size. `None` if the object does not
/// lend memory. Other types, and rows behind pointers, are left to other protocols, as the object is
/// after an exception of the request.
pub fn import(py: Py, object: Obj, to: &mut Description) -> Result<Option<Answer>> {
    let buffer = match Buffer::request(py, object) {
        Ok(Some(buffer)) => buffer,
        Ok(None) => return Ok(None),
        Err(failure) => return Ok(Some(Answer::Refused(failure))),
    };
    let view = buffer.view();
    if !view.suboffsets.is_null() {
        return Ok(Some(Answer::Refused(failure!(
            abi::CAI_ERR_CONVERT_STRIDES,
            "{NAME}.suboffsets",
            found = "rows behind pointers",
            expected = "NULL: elements at strides from the first one"
        ))));
    }
    let Some(element) = Element::parse(buffer.format(), view.itemsize) else {
        return Ok(Some(Answer::Refused(failure!(
            abi::CAI_ERR_CONVERT_TYPE,
            "{NAME}.format",
            found = ("'{}'", buffer.format().escape_ascii()),
            expected = "one of ? b B h H i I l L q Q n N e f d g Zf Zd Zg c s w, the last two with \
                        a count, and @ ^ = < > or ! before it"
        ))));
    };
    if element.size != view.itemsize as i64 {
        return fail!(
            CAI_ERR_VALUE,
            "{NAME}.itemsize",
            found = ("{}", view.itemsize),
            expected = ("the size of the format '{}'", buffer.format().escape_ascii())
        );
    }
    host_memory::check_ndim(NAME, "ndim", view.ndim, !view.shape.is_null())?;
    to.reset();
    to.array.ndim = view.ndim;
    for (to, from) in to.shape.iter_mut().zip(buffer.shape().unwrap_or_default()) {
        to.write(*from as i64);
    }
    if let Some(strides) = buffer.strides() {
        to.has_strides = true;
        for (to, from) in to.strides.iter_mut().zip(strides) {
            to.write(*from as i64);
        }
    }
    host_memory::complete(to, NAME, element.typestr.as_str(), view.readonly != 0, view.buf)?;
    attach_buffer(py, &mut to.array, buffer)?;
    Ok(Some(Answer::Array))
}

struct Element {
    typestr: Text<CAI_TYPESTR_SIZE>,
    /// Bytes that the format states.
    size: i64,
}

impl Element {
    /// Reads a format of the module `struct`. Only `itemsize` states the size of `long double`.
    fn parse(format: &[u8], itemsize: isize) -> Option<Self> {
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
            [count @ .., b's'] => (b'S', Self::count(count)?, 1),
            [count @ .., b'w'] => (b'U', Self::count(count)?, 4),
            _ => return None,
        };
        let has_no_order = kind == b'S' || count * unit == 1;
        let order = if has_no_order { b'|' } else { order };
        let text = format_args!("{}{}{count}", char::from(order), char::from(kind));
        Some(Element { typestr: Text::new(text), size: count * unit })
    }

    /// Reads a count, which is 1 if there is none. Its digits fit into a typestr.
    fn count(text: &[u8]) -> Option<i64> {
        match text {
            [] => Some(1),
            [b'+', ..] => None,
            text => Some(std::str::from_utf8(text).ok()?.parse::<u32>().ok()?.into()),
        }
    }
}
