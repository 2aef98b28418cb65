//! Fast path for dictionaries of CUDA's protocol: exact built-in types, read in place.
//!
//! Nothing here runs Python code. `STANDARD` means that objects store their values where nearly all
//! builds do, so that the places are constants.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

use crate::abi::{self, CAI_TYPESTR_SIZE};
use crate::python::capi::{Capi, Object, standard};
use crate::python::import::dict_keys::{
    DATA, DESCR, KEYS, MASK, SHAPE, STREAM, STRIDES, TEXTS, TYPESTR, VERSION,
};
use crate::python::owner::Description;
use crate::python::py::{Owned, Py};

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

/// Returns true for an exact dictionary whose entries and values may be read in place.
#[inline(always)]
pub fn is_in_place(py: Py, dictionary: &Owned) -> bool {
    let objects = InPlace::<true> { capi: py.capi() };
    py.capi().facts.is_standard && objects.is(dictionary.get(), py.capi().dict_type)
}

/// Returns true if the entries do not change while they are read.
pub fn stays_as_it_is(py: Py, dictionary: &Owned) -> bool {
    py.type_of(dictionary.get()) == py.capi().dict_type && !py.capi().facts.free_threaded
}

/// Reads the values of the known keys, borrowed from an exact dictionary, into `values`, which
/// contains NULLs. Returns false for a key whose type may define comparison, or that is not valid
/// UTF-8. In the latter case CPython sets an exception, which may collect garbage and so run code:
/// borrowed values are not valid any more.
#[inline(always)]
pub fn entries(py: Py, dictionary: *mut Object, values: &mut [*mut Object; KEYS]) -> bool {
    let capi = py.capi();
    let keys = py.names.keys();
    let (mut position, mut key, mut value) = (0, ptr::null_mut(), ptr::null_mut());
    // Entries often have the order of the specification.
    let mut guess = 0;
    // SAFETY: the GIL is held; a dictionary that the caller keeps alive.
    let count = unsafe { capi.dict_len(dictionary) };
    for _ in 0..count {
        // SAFETY: the GIL is held. Nothing between the calls runs Python code, so the dictionary
        // does not change.
        let found = unsafe {
            (capi.dict_next)(dictionary, &raw mut position, &raw mut key, &raw mut value)
        };
        if found == 0 {
            break;
        }
        let index = if keys.get(guess) == Some(&key) {
            guess
        } else if let Some(index) = keys.iter().position(|known| *known == key) {
            index
        } else {
            match key_of_text(py, key) {
                Some(Some(index)) => index,
                Some(None) => continue,
                None => return false,
            }
        };
        if let Some(place) = values.get_mut(index) {
            *place = value;
        }
        guess = index + 1;
    }
    true
}

/// Returns the number of a key that is not the interned string. Fails as [`entries`] does.
#[cold]
#[inline(never)]
fn key_of_text(py: Py, key: *mut Object) -> Option<Option<usize>> {
    if py.type_of(key) != py.capi().str_type {
        return None;
    }
    let text = py.text(key)?;
    Some(TEXTS.iter().position(|known| known.as_bytes() == text))
}

/// Reads the values into `to` if they are common ones. `strict` leaves to the general reader what
/// the specification forbids.
#[inline(always)]
pub fn read<const STANDARD: bool>(
    py: Py,
    values: &[*mut Object; KEYS],
    strict: bool,
    to: &mut Description,
) -> Fast {
    let objects = InPlace::<STANDARD> { capi: py.capi() };
    let typestr = values[TYPESTR];
    if typestr.is_null() || !objects.is(typestr, objects.capi.str_type) {
        return Fast::General;
    }
    let mut length = 0;
    // SAFETY: the GIL is held; the object is a string.
    let text = unsafe { (objects.capi.str_utf8)(typestr, &raw mut length) };
    if text.is_null() {
        // As in `entries`, borrowed values are not valid any more.
        py.clear();
        return Fast::Stale;
    }
    // SAFETY: CPython returned the text with this length, and it lives as long as the string.
    let text: &[u8] = unsafe { std::slice::from_raw_parts(text.cast(), length as usize) };
    match objects.read(values, text, strict, to) {
        None => Fast::General,
        Some((descr, mask)) if descr.is_null() || strict => Fast::Read { descr, mask },
        Some((descr, mask)) => match objects.repeats_type(py, descr, text) {
            Some(true) => Fast::Read { descr: ptr::null_mut(), mask },
            Some(false) => Fast::Read { descr, mask },
            None => Fast::Stale,
        },
    }
}

/// Reads objects of exact types in place.
#[derive(Clone, Copy)]
struct InPlace<const STANDARD: bool> {
    capi: &'static Capi,
}

impl<const STANDARD: bool> InPlace<STANDARD> {
    /// Reads the values, given the text of the type. Returns the fields and the mask that are still
    /// to be read.
    #[inline(always)]
    fn read(
        self,
        values: &[*mut Object; KEYS],
        text: &[u8],
        strict: bool,
        to: &mut Description,
    ) -> Option<(*mut Object, *mut Object)> {
        let capi = self.capi;
        let is_none = |object: *mut Object| object.is_null() || object == capi.none;
        // Type. One without a byte order needs the general reader.
        if !(3..CAI_TYPESTR_SIZE).contains(&text.len())
            || !matches!(text[0], b'<' | b'>' | b'|')
            || has_nul(text)
        {
            return None;
        }
        to.set_typestr(text);
        // Shape and strides.
        let ndim = self.row(values[SHAPE], !strict, &mut to.shape)?;
        to.array.ndim = ndim as i32;
        to.has_strides = !is_none(values[STRIDES]);
        if to.has_strides && self.row(values[STRIDES], !strict, &mut to.strides)? != ndim {
            return None;
        }
        // Data.
        let (address, readonly) = self.pair(values[DATA], !strict)?;
        let address = self.integer(address).filter(|&address| address >= 0)?;
        to.array.data = address as *mut c_void;
        if to.extents().iter().any(|&extent| extent < 1) {
            // The rules of the layout refuse a negative extent.
            if address != 0 && strict {
                return None;
            }
            to.array.data = ptr::null_mut();
        } else if address == 0 {
            return None;
        }
        to.array.flags = if readonly == capi.r#false {
            0
        } else if readonly == capi.r#true {
            abi::CAI_ARRAY_READONLY
        } else {
            return None;
        };
        // Version and stream.
        let version = self.integer(values[VERSION]).filter(|version| (0..=3).contains(version))?;
        let stream = values[STREAM];
        if stream.is_null() {
            to.array.stream =
                if version < 3 { abi::CAI_STREAM_UNKNOWN } else { abi::CAI_STREAM_NONE };
            to.array.version = version as u16;
        } else if strict && version < 3 {
            return None;
        } else {
            to.array.stream = if stream == capi.none {
                abi::CAI_STREAM_NONE
            } else {
                self.integer(stream).filter(|&stream| stream > 0)? as u64
            };
            to.array.version = abi::CAI_INTERFACE_VERSION;
        }
        // Fields and mask.
        let (mut descr, mut mask) = (values[DESCR], values[MASK]);
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

    /// Returns true for an object of exactly this type. The object is not NULL.
    #[inline(always)]
    fn is(self, object: *mut Object, r#type: *mut Object) -> bool {
        // SAFETY: a live object, which stores its type there if the places are standard.
        unsafe {
            if STANDARD {
                object.byte_add(standard::TYPE).cast::<*mut Object>().read() == r#type
            } else {
                self.capi.type_of(object) == r#type
            }
        }
    }

    /// Returns an exact integer of nearly any size.
    #[inline(always)]
    fn integer(self, object: *mut Object) -> Option<i64> {
        if object.is_null() || !self.is(object, self.capi.long_type) {
            return None;
        }
        let head = if STANDARD { standard::SIZE } else { self.capi.facts.head };
        // SAFETY: a live integer, and the head that was probed.
        unsafe { self.capi.short_integer(object, head) }
    }

    /// Returns the items of an exact tuple or, if allowed, of an exact list, borrowed.
    #[inline(always)]
    fn items(self, object: *mut Object, lists: bool) -> Option<&'static [*mut Object]> {
        let capi = self.capi;
        if object.is_null() {
            return None;
        }
        let items = capi.facts.tuple_items;
        let (size, list_items) = if STANDARD {
            (standard::SIZE, standard::ITEMS)
        } else {
            (capi.facts.tuple_size, capi.facts.list_items)
        };
        // SAFETY: a live tuple or list, which stores its items there, as was probed. Nothing
        // changes it while the slice is in use: no Python code runs, and lists of a free-threaded
        // build are left to the general reader.
        unsafe {
            let count = object.byte_add(size).cast::<usize>();
            if self.is(object, capi.tuple_type) {
                if !STANDARD && size == 0 {
                    return None;
                }
                let items = object.byte_add(items).cast::<*mut Object>();
                return Some(std::slice::from_raw_parts(items, count.read()));
            }
            let known = STANDARD || (list_items != 0 && !capi.facts.free_threaded);
            if !lists || !known || !self.is(object, capi.list_type) {
                return None;
            }
            match count.read() {
                0 => Some(&[]),
                count => {
                    let items = object.byte_add(list_items).cast::<*mut *mut Object>().read();
                    Some(std::slice::from_raw_parts(items, count))
                }
            }
        }
    }

    /// Reads a row of integers, and returns their number.
    #[inline(always)]
    fn row(self, row: *mut Object, lists: bool, to: &mut [MaybeUninit<i64>]) -> Option<usize> {
        let items = self.items(row, lists)?;
        for (place, &item) in to.get_mut(..items.len())?.iter_mut().zip(items) {
            place.write(self.integer(item)?);
        }
        Some(items.len())
    }

    /// Returns two items.
    #[inline(always)]
    fn pair(self, pair: *mut Object, lists: bool) -> Option<(*mut Object, *mut Object)> {
        match *self.items(pair, lists)? {
            [first, second] => Some((first, second)),
            _ => None,
        }
    }

    /// Returns true for the list of one nameless row that only repeats the type, and `None` if
    /// borrowed values are not valid any more.
    fn repeats_type(self, py: Py, descr: *mut Object, text: &[u8]) -> Option<bool> {
        let row = match self.items(descr, true) {
            Some(&[row]) => row,
            _ => return Some(false),
        };
        let Some((name, r#type)) = self.pair(row, false) else { return Some(false) };
        // The empty string is interned.
        if name != py.names.empty.as_ptr()
            || r#type.is_null()
            || !self.is(r#type, self.capi.str_type)
        {
            return Some(false);
        }
        // As in `entries`, an exception may have run code.
        py.text(r#type).map(|found| found == text)
    }
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
