//! Fast path for dictionaries of CUDA's protocol: exact built-in types, read in place.
//!
//! May use: `abi`, `python::capi`, `python::import::dict_keys`, `python::interpreter`,
//! `python::owner`.
//! Unsafe: calls CPython with the GIL held, and keeps no borrowed reference.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

use crate::abi::{self, CAI_TYPESTR_SIZE};
use crate::python::capi::Object;
use crate::python::import::dict_keys::{
    DATA, DESCR, KEYS, MASK, SHAPE, STREAM, STRIDES, TEXTS, TYPESTR, VERSION,
};
use crate::python::interpreter::{Owned, Py};
use crate::python::owner::Description;

/// Reads a dictionary of CUDA's protocol into `to`, if it has only common values. If not, returns
/// false; the general reader starts again.
#[inline]
pub fn is_fast_path(py: Py, dictionary: &Owned, to: &mut Description) -> bool {
    let mut values = [ptr::null_mut(); KEYS];
    stays_as_it_is(py, dictionary)
        && entries(py, dictionary.get(), &mut values)
        && read_entries(py, &values, to).is_some()
}

/// Returns true if its entries may be read in place.
pub fn stays_as_it_is(py: Py, dictionary: &Owned) -> bool {
    py.type_of(dictionary.get()) == py.capi().dict_type && !py.capi().facts.free_threaded
}

/// Reads the values of the known keys, borrowed from an exact dictionary, into `values`, which
/// contains NULLs. Returns false for a key whose type may define comparison, or that is not valid
/// UTF-8. In the latter case CPython sets an exception, which may collect garbage and so run code:
/// borrowed values are not valid any more.
#[inline]
pub fn entries(py: Py, dictionary: *mut Object, values: &mut [*mut Object; KEYS]) -> bool {
    let capi = py.capi();
    let names = &py.names;
    let (mut position, mut key, mut value) = (0, ptr::null_mut(), ptr::null_mut());
    // SAFETY: the GIL is held. Nothing between the calls runs Python code, so the dictionary does
    // not change.
    while unsafe { (capi.dict_next)(dictionary, &raw mut position, &raw mut key, &raw mut value) }
        != 0
    {
        let index = if key == names.shape {
            SHAPE
        } else if key == names.typestr {
            TYPESTR
        } else if key == names.data {
            DATA
        } else if key == names.version {
            VERSION
        } else if key == names.strides {
            STRIDES
        } else if key == names.stream {
            STREAM
        } else if key == names.descr {
            DESCR
        } else if key == names.mask {
            MASK
        } else if py.type_of(key) != capi.str_type {
            return false;
        } else {
            let Some(text) = py.text(key) else { return false };
            match TEXTS.iter().position(|known| known.as_bytes() == text) {
                Some(index) => index,
                None => continue,
            }
        };
        values[index] = value;
    }
    true
}

/// Reads the values if they are common ones.
#[inline]
fn read_entries(py: Py, values: &[*mut Object; KEYS], to: &mut Description) -> Option<()> {
    let capi = py.capi();
    let typestr = values[TYPESTR];
    if typestr.is_null() || py.type_of(typestr) != capi.str_type {
        return None;
    }
    let mut length = 0;
    // SAFETY: the GIL is held; the object is a string.
    let text = unsafe { (capi.str_utf8)(typestr, &raw mut length) };
    if text.is_null() {
        // As in `entries`, borrowed values are not valid any more.
        py.clear();
        return None;
    }
    // SAFETY: CPython returned the text with this length, and it lives as long as the string.
    let text: &[u8] = unsafe { std::slice::from_raw_parts(text.cast(), length as usize) };
    read_values(py, values, text, to)
}

/// Reads the values, given the text of the type. Runs no Python code.
#[inline]
fn read_values(
    py: Py,
    values: &[*mut Object; KEYS],
    text: &[u8],
    to: &mut Description,
) -> Option<()> {
    let capi = py.capi();
    let is_none = |object: *mut Object| object.is_null() || object == capi.none;
    let [shape, _, data, version, strides, descr, mask, stream, ..] = *values;
    if shape.is_null() || data.is_null() || version.is_null() || !is_none(mask) {
        return None;
    }
    let version = small(py, version).filter(|version| (0..=3).contains(version))?;
    // Shape and strides.
    let ndim = row(py, shape, &mut to.shape)?;
    to.array.ndim = ndim as i32;
    if to.extents().iter().any(|&extent| extent < 1) {
        return None;
    }
    to.has_strides = !is_none(strides);
    if to.has_strides && row(py, strides, &mut to.strides)? != ndim {
        return None;
    }
    // Type.
    if !(3..CAI_TYPESTR_SIZE).contains(&text.len()) {
        return None;
    }
    // Opaque types may have fields, and a type without a byte order needs the general reader.
    let fields = !is_none(descr) && text[1] == b'V';
    if !matches!(text[0], b'<' | b'>' | b'|') || fields || has_nul(text) {
        return None;
    }
    to.set_typestr(text);
    // Data.
    if py.type_of(data) != capi.tuple_type {
        return None;
    }
    // SAFETY: a tuple; the items are borrowed.
    let (address, readonly) = unsafe {
        if capi.tuple_len(data) != 2 {
            return None;
        }
        (capi.tuple_item(data, 0), capi.tuple_item(data, 1))
    };
    let address = small(py, address).filter(|&address| address > 0)?;
    to.array.data = address as *mut c_void;
    to.array.flags = if readonly == capi.r#true {
        abi::CAI_ARRAY_READONLY
    } else if readonly == capi.r#false {
        0
    } else {
        return None;
    };
    // Stream.
    if stream.is_null() {
        to.array.stream = if version < 3 { abi::CAI_STREAM_UNKNOWN } else { abi::CAI_STREAM_NONE };
        to.array.version = version as u16;
    } else {
        to.array.stream = if stream == capi.none {
            abi::CAI_STREAM_NONE
        } else {
            small(py, stream).filter(|&stream| stream > 0)? as u64
        };
        to.array.version = abi::CAI_INTERFACE_VERSION;
    }
    Some(())
}

/// Returns true if a typestr contains a NUL. Nearly all have three characters, for which no call is
/// needed.
#[inline(always)]
fn has_nul(text: &[u8]) -> bool {
    match *text {
        [order, kind, size] => order == 0 || kind == 0 || size == 0,
        _ => text.contains(&0),
    }
}

/// Returns an exact integer that fits.
#[inline(always)]
fn small(py: Py, object: *mut Object) -> Option<i64> {
    let capi = py.capi();
    if py.type_of(object) != capi.long_type {
        return None;
    }
    let mut overflow = 0;
    // SAFETY: the object is an exact integer: no Python code runs, and no exception is set.
    let value = unsafe { (capi.long_as_signed)(object, &raw mut overflow) };
    (overflow == 0).then_some(value)
}

/// Reads an exact tuple of such integers.
#[inline(always)]
pub fn row(py: Py, tuple: *mut Object, to: &mut [MaybeUninit<i64>]) -> Option<usize> {
    let capi = py.capi();
    if py.type_of(tuple) != capi.tuple_type {
        return None;
    }
    // SAFETY: the object is a tuple.
    let size = unsafe { capi.tuple_len(tuple) };
    for (index, place) in to.get_mut(..size)?.iter_mut().enumerate() {
        // SAFETY: the index is below the tuple's size; the item is borrowed.
        place.write(small(py, unsafe { capi.tuple_item(tuple, index) })?);
    }
    Some(size)
}
