//! Fast path for dictionaries of CUDA's protocol: exact built-in types, read in place.
//!
//! May use: `abi`, `python::capi`, `python::convert`, `python::import::dict_keys`,
//! `python::interpreter`, `python::owner`.
//! Unsafe: calls CPython with the GIL held, and keeps no borrowed reference.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

use crate::abi::{self, CAI_TYPESTR_SIZE};
use crate::python::capi::Object;
use crate::python::convert::exact_integer;
use crate::python::import::dict_keys::{
    DATA, DESCR, KEYS, MASK, SHAPE, STREAM, STRIDES, TEXTS, TYPESTR, VERSION,
};
use crate::python::interpreter::{Owned, Py};
use crate::python::owner::Description;

/// What the fast path made of the values of a dictionary.
pub enum Fast {
    /// An array, and borrowed objects that are still to be read, or NULL.
    Read {
        /// The fields.
        descr: *mut Object,
        /// The mask.
        mask: *mut Object,
    },
    /// The general reader has to start again.
    General,
    /// The same, and the borrowed values are not valid any more.
    Stale,
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
    // SAFETY: the GIL is held; a dictionary that the caller keeps alive.
    let count = unsafe { capi.dict_len(dictionary) };
    let mut next = || {
        // SAFETY: the GIL is held. Nothing between the calls runs Python code, so the dictionary
        // does not change.
        let found = unsafe {
            (capi.dict_next)(dictionary, &raw mut position, &raw mut key, &raw mut value)
        };
        (found != 0).then_some((key, value))
    };
    for _ in 0..count {
        let Some((key, value)) = next() else { break };
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

/// Reads the values into `to` if they are common ones. `strict` leaves to the general reader what
/// the specification forbids.
#[inline]
pub fn read(py: Py, values: &[*mut Object; KEYS], strict: bool, to: &mut Description) -> Fast {
    let capi = py.capi();
    let typestr = values[TYPESTR];
    if typestr.is_null() || py.type_of(typestr) != capi.str_type {
        return Fast::General;
    }
    let mut length = 0;
    // SAFETY: the GIL is held; the object is a string.
    let text = unsafe { (capi.str_utf8)(typestr, &raw mut length) };
    if text.is_null() {
        // As in `entries`, borrowed values are not valid any more.
        py.clear();
        return Fast::Stale;
    }
    // SAFETY: CPython returned the text with this length, and it lives as long as the string.
    let text: &[u8] = unsafe { std::slice::from_raw_parts(text.cast(), length as usize) };
    match read_values(py, values, text, strict, to) {
        None => Fast::General,
        Some((descr, mask)) if descr.is_null() || strict => Fast::Read { descr, mask },
        Some((descr, mask)) => match repeats_type(py, descr, text) {
            Some(true) => Fast::Read { descr: ptr::null_mut(), mask },
            Some(false) => Fast::Read { descr, mask },
            None => Fast::Stale,
        },
    }
}

/// Reads the values, given the text of the type. Runs no Python code. Returns the fields and the
/// mask that are still to be read.
#[inline(always)]
fn read_values(
    py: Py,
    values: &[*mut Object; KEYS],
    text: &[u8],
    strict: bool,
    to: &mut Description,
) -> Option<(*mut Object, *mut Object)> {
    let capi = py.capi();
    let is_none = |object: *mut Object| object.is_null() || object == capi.none;
    let [shape, _, data, version, strides, mut descr, mut mask, stream, ..] = *values;
    if shape.is_null() || data.is_null() || version.is_null() {
        return None;
    }
    let version = exact_integer(py, version).filter(|version| (0..=3).contains(version))?;
    // A list may be changed by another thread of a free-threaded build.
    let lists = !strict && !capi.facts.free_threaded;
    // Shape and strides.
    let ndim = row(py, shape, lists, &mut to.shape)?;
    to.array.ndim = ndim as i32;
    let mut is_empty = false;
    for &extent in to.extents() {
        if extent < 1 {
            if extent < 0 {
                return None;
            }
            is_empty = true;
        }
    }
    to.has_strides = !is_none(strides);
    if to.has_strides && row(py, strides, lists, &mut to.strides)? != ndim {
        return None;
    }
    // Type. One without a byte order needs the general reader.
    if !(3..CAI_TYPESTR_SIZE).contains(&text.len())
        || !matches!(text[0], b'<' | b'>' | b'|')
        || has_nul(text)
    {
        return None;
    }
    to.set_typestr(text);
    // Data.
    let (address, readonly) = pair(py, data, lists)?;
    let address = exact_integer(py, address).filter(|&address| address >= 0)?;
    if is_empty {
        if address != 0 && strict {
            return None;
        }
        to.array.data = ptr::null_mut();
    } else if address == 0 {
        return None;
    } else {
        to.array.data = address as *mut c_void;
    }
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
    } else if strict && version < 3 {
        return None;
    } else {
        to.array.stream = if stream == capi.none {
            abi::CAI_STREAM_NONE
        } else {
            exact_integer(py, stream).filter(|&stream| stream > 0)? as u64
        };
        to.array.version = abi::CAI_INTERFACE_VERSION;
    }
    // Fields and mask.
    if strict {
        if descr == capi.none {
            return None;
        }
    } else if is_none(descr) || text[1] != b'V' {
        descr = ptr::null_mut();
    }
    if is_none(mask) {
        mask = ptr::null_mut();
    }
    Some((descr, mask))
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

/// Returns true for the list of one nameless row that only repeats the type, and `None` if borrowed
/// values are not valid any more.
fn repeats_type(py: Py, descr: *mut Object, text: &[u8]) -> Option<bool> {
    let capi = py.capi();
    if py.type_of(descr) != capi.list_type || capi.facts.free_threaded {
        return Some(false);
    }
    // SAFETY: the GIL is held; a list, and a position below its size.
    let row = unsafe {
        if (capi.list_size)(descr) != 1 {
            return Some(false);
        }
        (capi.list_get)(descr, 0)
    };
    let Some((name, r#type)) = pair(py, row, false) else { return Some(false) };
    // The empty string is interned.
    if name != py.names.empty || py.type_of(r#type) != capi.str_type {
        return Some(false);
    }
    // As in `entries`, an exception may have run code.
    py.text(r#type).map(|found| found == text)
}

/// Returns the two items of an exact tuple or, if allowed, list.
#[inline(always)]
fn pair(py: Py, object: *mut Object, lists: bool) -> Option<(*mut Object, *mut Object)> {
    let capi = py.capi();
    // SAFETY: the GIL is held; the sizes are checked, and the items are borrowed.
    unsafe {
        if py.type_of(object) == capi.tuple_type {
            (capi.tuple_len(object) == 2)
                .then(|| (capi.tuple_item(object, 0), capi.tuple_item(object, 1)))
        } else if lists && py.type_of(object) == capi.list_type {
            ((capi.list_size)(object) == 2)
                .then(|| ((capi.list_get)(object, 0), (capi.list_get)(object, 1)))
        } else {
            None
        }
    }
}

/// Reads an exact tuple or, if allowed, list of exact integers.
#[inline(always)]
fn row(py: Py, object: *mut Object, lists: bool, to: &mut [MaybeUninit<i64>]) -> Option<usize> {
    let capi = py.capi();
    if py.type_of(object) != capi.tuple_type {
        return if lists { list(py, object, to) } else { None };
    }
    // SAFETY: the object is a tuple.
    let size = unsafe { capi.tuple_len(object) };
    for (index, place) in to.get_mut(..size)?.iter_mut().enumerate() {
        // SAFETY: the index is below the tuple's size; the item is borrowed.
        place.write(exact_integer(py, unsafe { capi.tuple_item(object, index) })?);
    }
    Some(size)
}

/// Reads an exact list of exact integers.
#[inline(never)]
fn list(py: Py, object: *mut Object, to: &mut [MaybeUninit<i64>]) -> Option<usize> {
    let capi = py.capi();
    if py.type_of(object) != capi.list_type {
        return None;
    }
    // SAFETY: the object is a list.
    let size = unsafe { (capi.list_size)(object) } as usize;
    for (index, place) in to.get_mut(..size)?.iter_mut().enumerate() {
        // SAFETY: the index is below the list's size, which does not change: no Python code runs,
        // and no other thread holds the GIL. The item is borrowed.
        place.write(exact_integer(py, unsafe { (capi.list_get)(object, index as isize) })?);
    }
    Some(size)
}
