//! Reads the dictionaries that nearly all producers make, of exact built-in types, without adding
//! references and without running Python code.
//!
//! The values are borrowed from the dictionary, so nothing here may run Python code, and in
//! free-threaded builds nothing may block either: then CPython would suspend the critical section
//! that keeps other threads from changing the dictionary. Before an extent of another type is
//! converted, which may run such code, a reference to each value is added. Whatever is not accepted
//! is left to [`Explaining`], which starts again.
//!
//! [`Explaining`]: crate::python::import::dict_explained::Explaining

use std::cell::OnceCell;
use std::ffi::CStr;
use std::fmt::Display;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use crate::abi::{self, CAI_TYPESTR_SIZE, cai_array, cai_status};
use crate::error::{self, Failure};
use crate::owner::description::CommonField;
use crate::python::capi::{Capi, Object};
use crate::python::import::dict_keys::{
    DATA, Held, KEYS, OtherObjects, Protocol, SHAPE, STRIDES, TEXTS, Values,
};
use crate::python::import::dict_reader::{Entry, Reader, describe};
use crate::python::import::options::ImportOptions;
use crate::python::owner::{Description, attach_with_common_fields, write_typestr};
use crate::python::py::{Builtin, Obj, Places, Py, raised};
use crate::read;

/// Why something is not accepted.
pub enum Refused {
    /// It is not common, or wrong.
    Uncommon,
    /// CPython set an exception, which is cleared. It may have run code, so that borrowed values
    /// are not valid any more.
    Stale,
    /// Code of a type raised an exception, which is set.
    Raised,
}

impl From<Failure> for Refused {
    #[inline(always)]
    fn from(_: Failure) -> Self {
        Refused::Uncommon
    }
}

/// Reads a dictionary of CUDA's protocol into `to`. If it is not accepted, `rest` receives the values
/// for [`Explaining`], unless they have to be looked up.
///
/// [`Explaining`]: crate::python::import::dict_explained::Explaining
#[inline(always)]
pub fn read<'py>(
    py: Py<'py>,
    dictionary: Obj,
    options: &ImportOptions,
    to: &mut Description,
    rest: &mut Option<Held<'py>>,
) -> error::Result<Option<OtherObjects<'py>>> {
    if !is_readable(py, dictionary) {
        return Ok(None);
    }
    py.locked(dictionary, || {
        let (mut values, held) = ([None; KEYS], OnceCell::new());
        // SAFETY: as was checked above; what is called here runs no Python code and does not block,
        // until `held` holds the values.
        let mut reader = unsafe { InPlace::new(py, !options.strict()) };
        if reader.entries(dictionary, &mut values).is_err() {
            return Ok(None);
        }
        reader.hold = Some((&values, &held));
        match describe(py, &reader, &values, Protocol::Cuda, options, to) {
            Ok(extras) => Ok(Some(extras)),
            Err(Refused::Raised) => raised(),
            Err(refused) => {
                hold(py, &values, refused, rest);
                Ok(None)
            }
        }
    })
}

/// Returns the values of an exact dictionary, unless a key's type may define comparison.
pub fn exact_values<'py>(py: Py<'py>, dictionary: Obj) -> Option<Held<'py>> {
    if !is_readable(py, dictionary) {
        return None;
    }
    py.locked(dictionary, || {
        // SAFETY: as was checked above; what is called here runs no Python code and does not block.
        let reader = unsafe { InPlace::new(py, false) };
        let mut values = [None; KEYS];
        reader.entries(dictionary, &mut values).ok()?;
        Some(held(py, &values))
    })
}

/// Gives an array an owner of `object` that also holds the fields in a list of NumPy's. Returns false,
/// and has done nothing, if they are not common.
pub fn attach_fields(
    py: Py,
    array: &mut cai_array,
    object: Obj,
    descr: Obj,
) -> error::Result<bool> {
    let capi = py.capi();
    let places = capi.facts.places.filter(|_| !capi.facts.free_threaded);
    let Some(count) = places.and_then(|places| places.list_len(descr)) else { return Ok(false) };
    // SAFETY: the places are known. What is called here runs no Python code, except where a row is
    // refused, and then no other is read.
    let reader = unsafe { InPlace::new(py, true) };
    attach_with_common_fields(py, array, object, count, |index| {
        let field = reader.field(descr, index).ok()?;
        // It may only repeat the type of the array.
        let is_trivial = count == 1 && field.name.is_empty() && field.ndim == 0;
        (!is_trivial).then_some(field)
    })
}

/// Returns true for an exact dictionary, if the places of what is in it are known.
#[inline(always)]
fn is_readable(py: Py, dictionary: Obj) -> bool {
    let capi = py.capi();
    capi.facts.places.is_some_and(|places| places.type_of(dictionary) == capi.dict_type)
}

/// Adds a reference to each value that was refused, if they are still valid.
#[cold]
#[inline(never)]
fn hold<'py>(py: Py<'py>, values: &Values, refused: Refused, to: &mut Option<Held<'py>>) {
    if matches!(refused, Refused::Uncommon) {
        *to = Some(held(py, values));
    }
}

/// Adds a reference to each value.
fn held<'py>(py: Py<'py>, values: &Values) -> Held<'py> {
    values.map(|value| value.map(|value| value.share(py)))
}

/// Reads objects of exact types in place. During `'a` no Python code runs, and the dictionary does
/// not change: borrowed objects stay alive.
struct InPlace<'a, 'py> {
    py: Py<'py>,
    capi: &'static Capi,
    /// Exact lists are accepted instead of tuples, and integers of any type.
    lenient: bool,
    /// The values that are read, and the place of a reference to each: filled before code of a type
    /// runs.
    hold: Option<(&'a Values<'a>, &'a OnceCell<Held<'py>>)>,
}

impl<'a, 'py> InPlace<'a, 'py> {
    /// Reads lists only if `lenient` is true, and not in free-threaded builds, where other threads may
    /// change them.
    ///
    /// # Safety
    /// The places are known. During `'a` no Python code runs, and no other thread changes the
    /// dictionary.
    #[inline(always)]
    unsafe fn new(py: Py<'py>, lenient: bool) -> Self {
        InPlace { py, capi: py.capi(), lenient, hold: None }
    }

    /// Returns the places of what is read.
    #[inline(always)]
    fn places(&self) -> &'static Places {
        // SAFETY: they are known (`InPlace::new`).
        unsafe { self.capi.facts.places.as_ref().unwrap_unchecked() }
    }

    /// Finds the values of the known keys of an exact dictionary. Refuses a key whose type may define
    /// comparison.
    #[inline(always)]
    fn entries(&self, dictionary: Obj<'a>, values: &mut Values<'a>) -> Result<(), Refused> {
        let (keys, size, next) = (self.py.names.keys(), self.capi.dict_size, self.capi.dict_next);
        let (mut position, mut key, mut value) = (0, ptr::null_mut(), ptr::null_mut());
        // Entries often have the order of the specification.
        let mut guess = 0;
        // The last call of `next` would find nothing, and takes longer than this one.
        // SAFETY: the GIL is held; a dictionary that is alive.
        for _ in 0..unsafe { size(dictionary.as_ptr()) } {
            // SAFETY: the GIL is held; a dictionary, which does not change during `'a`.
            if unsafe { next(dictionary.as_ptr(), &raw mut position, &raw mut key, &raw mut value) }
                == 0
            {
                break;
            }
            let index = if keys.get(guess).is_some_and(|known| known.as_ptr() == key) {
                guess
            } else if let Some(index) = keys.iter().position(|known| known.as_ptr() == key) {
                index
            } else {
                match self.key_of_text(key)? {
                    Some(index) => index,
                    None => continue,
                }
            };
            if let Some(place) = values.get_mut(index) {
                // SAFETY: an entry was found, so the value is not NULL. The dictionary keeps it alive.
                *place = Some(unsafe { Obj::new(NonNull::new_unchecked(value)) });
            }
            guess = index + 1;
        }
        Ok(())
    }

    /// Returns the number of a key that is not the interned string. Refuses as [`InPlace::entries`]
    /// does.
    #[cold]
    #[inline(never)]
    fn key_of_text(&self, key: *mut Object) -> Result<Option<usize>, Refused> {
        // SAFETY: a key of the dictionary, which keeps it alive.
        let key = unsafe { Obj::from_ptr(key) }.filter(|&key| self.is(key, self.capi.str_type));
        let key = key.ok_or(Refused::Uncommon)?;
        Ok(TEXTS.iter().position(|text| self.is_text(key, text)))
    }

    /// Returns true for an object of this very type.
    #[inline(always)]
    fn is(&self, object: Obj, r#type: *mut Object) -> bool {
        self.places().type_of(object) == r#type
    }

    /// Returns true for a string of these characters. Sets no exception, and does not block.
    fn is_text(&self, object: Obj, text: &CStr) -> bool {
        // SAFETY: the GIL is held; a string, as is checked first, and a terminated text.
        self.is(object, self.capi.str_type)
            && unsafe { (self.capi.str_compare)(object.as_ptr(), text.as_ptr()) } == 0
    }

    /// Returns the items of an exact tuple.
    #[inline(always)]
    fn tuple(&self, tuple: Obj<'a>) -> Option<&'a [Option<Obj<'a>>]> {
        let places = self.places();
        places.exact_tuple(tuple).map(|tuple| places.items(tuple))
    }

    /// Returns the number of items of an exact list, if lists are allowed.
    #[inline(always)]
    fn list(&self, list: Obj) -> Result<usize, Refused> {
        if !self.lenient || self.capi.facts.free_threaded {
            return Err(Refused::Uncommon);
        }
        self.places().list_len(list).ok_or(Refused::Uncommon)
    }

    /// Returns an item of a list.
    fn list_item(&self, list: Obj<'a>, index: usize) -> Option<Obj<'a>> {
        // SAFETY: the GIL is held; CPython checks the object and the index. The list keeps the item
        // alive, and does not change during `'a`.
        unsafe { Obj::from_ptr((self.capi.list_get)(list.as_ptr(), index as isize)) }
    }

    /// Returns an exact integer of nearly any size.
    #[inline(always)]
    fn short_int(&self, object: Option<Obj>) -> Result<i64, Refused> {
        object.and_then(|object| self.places().integer(object)).ok_or(Refused::Uncommon)
    }

    /// Returns an integer of any type but `bool`.
    #[inline(always)]
    fn any_int(&self, object: Option<Obj>) -> Result<i64, Refused> {
        self.short_int(object).or_else(|_| self.index(object))
    }

    /// Converts an object as `operator.index` does. Its type's code may change the dictionary, so all
    /// values are held from here on.
    #[cold]
    #[inline(never)]
    fn index(&self, object: Option<Obj>) -> Result<i64, Refused> {
        let py = self.py;
        let is_other = |object: &Obj| self.lenient && !object.is_exactly(py, Builtin::Bool);
        let object = object.filter(is_other).ok_or(Refused::Uncommon)?;
        let (values, place) = self.hold.ok_or(Refused::Uncommon)?;
        if place.get().is_none() && !self.reads_sequences(values) {
            return Err(Refused::Uncommon);
        }
        let _values = place.get_or_init(|| held(py, values));
        // A list may drop it.
        let object = object.share(py);
        match object.obj().optional_index(py) {
            Ok(index) => index.and_then(|index| index.obj().exact_int(py)).ok_or(Refused::Uncommon),
            Err(_) => Err(Refused::Raised),
        }
    }

    /// Returns true if the sequences have types that are read here. Otherwise everything is read again:
    /// code of a type that had run before would run twice.
    fn reads_sequences(&self, values: &Values<'a>) -> bool {
        [SHAPE, STRIDES, DATA].into_iter().filter_map(|key| values[key]).all(|value| {
            self.tuple(value).is_some() || self.list(value).is_ok() || value.is_none(self.py)
        })
    }

    /// Reads a list as [`Reader::row`] does.
    #[inline(never)]
    fn row_of_list(&self, list: Obj<'a>, to: &mut [MaybeUninit<i64>]) -> Result<usize, Refused> {
        let to = to.get_mut(..self.list(list)?).ok_or(Refused::Uncommon)?;
        let (count, mut may_differ) = (to.len(), false);
        for (index, place) in to.iter_mut().enumerate() {
            if may_differ && self.list(list)? != count {
                return Err(Refused::Uncommon);
            }
            let item = self.list_item(list, index);
            place.write(match self.short_int(item) {
                Ok(value) => value,
                Err(_) => {
                    // Code of a type may change the list.
                    may_differ = true;
                    self.index(item)?
                }
            });
        }
        Ok(count)
    }

    /// Reads what may be a typestr without blocking.
    #[inline(never)]
    fn typestr_by_characters(&self, object: Obj, to: &mut Description) -> Result<(), Refused> {
        set_typestr(object.characters(self.py, &mut [0; CAI_TYPESTR_SIZE]), to)
    }

    /// Returns true for the list of one nameless row with this type.
    #[inline(never)]
    fn is_row_of(&self, descr: Obj<'a>, typestr: &[u8]) -> Result<bool, Refused> {
        if !matches!(self.list(descr), Ok(1)) {
            return Ok(false);
        }
        let Some(&[Some(name), Some(kind)]) = self.row_of_field(descr, 0) else { return Ok(false) };
        // Nearly all empty strings are the interned one.
        let is_nameless = name == self.py.names.empty.into() || self.is_text(name, c"");
        if !is_nameless || !self.is(kind, self.capi.str_type) {
            return Ok(false);
        }
        kind.text(self.py).map(|text| text == typestr).ok_or(Refused::Stale)
    }

    /// Returns the items of a row of a list of fields, if it is an exact tuple.
    #[inline(always)]
    fn row_of_field(&self, descr: Obj<'a>, index: usize) -> Option<&'a [Option<Obj<'a>>]> {
        self.list_item(descr, index).and_then(|row| self.tuple(row))
    }

    /// Reads a row of an exact list of fields.
    #[inline(always)]
    fn field(&self, descr: Obj<'a>, index: usize) -> Result<CommonField<'a>, Refused> {
        let (name, kind, shape) = match self.row_of_field(descr, index) {
            Some(&[Some(name), Some(kind)]) => (name, kind, None),
            Some(&[Some(name), Some(kind), Some(shape)]) => (name, kind, Some(shape)),
            _ => return Err(Refused::Uncommon),
        };
        if !self.is(name, self.capi.str_type) || !self.is(kind, self.capi.str_type) {
            return Err(Refused::Uncommon);
        }
        let name = name.text(self.py).ok_or(Refused::Stale)?;
        if !name.iter().all(|&byte| byte != 0) {
            return Err(Refused::Uncommon);
        }
        let mut field =
            CommonField { name, typestr: [0; CAI_TYPESTR_SIZE], extents: [0; 4], ndim: 0 };
        write_typestr(common_typestr(kind.text(self.py))?, &mut field.typestr);
        if let Some(shape) = shape {
            let single = [Some(shape)];
            let items = self.tuple(shape).unwrap_or(&single);
            let extents = field.extents.get_mut(..items.len()).ok_or(Refused::Uncommon)?;
            for (extent, &item) in extents.iter_mut().zip(items) {
                *extent = self.short_int(item)?;
            }
            field.ndim = items.len();
        }
        Ok(field)
    }
}

impl<'a> Reader<'a> for InPlace<'a, '_> {
    type Refusal = Refused;

    #[inline(always)]
    fn reads_more(options: &ImportOptions) -> bool {
        !options.has(abi::CAI_UNSTABLE_IMPORT_VERSION_4)
    }

    #[inline(always)]
    fn refuse(&self, _: cai_status, _: Entry, _: &dyn Display, _: &dyn Display) -> Refused {
        Refused::Uncommon
    }

    #[inline(always)]
    fn integer(&self, object: Obj<'a>, _: Entry) -> Result<i64, Refused> {
        self.any_int(Some(object))
    }

    #[inline(always)]
    fn wide_integer(&self, object: Obj<'a>, _: Entry) -> Result<i128, Refused> {
        self.any_int(Some(object)).map(i128::from)
    }

    #[inline(always)]
    fn row(
        &self,
        object: Obj<'a>,
        _: usize,
        to: &mut [MaybeUninit<i64>],
    ) -> Result<usize, Refused> {
        let Some(items) = self.tuple(object) else { return self.row_of_list(object, to) };
        let to = to.get_mut(..items.len()).ok_or(Refused::Uncommon)?;
        for (place, &item) in to.iter_mut().zip(items) {
            place.write(self.any_int(item)?);
        }
        Ok(items.len())
    }

    #[inline(always)]
    fn data(&self, object: Obj<'a>, _: bool) -> Result<(u64, bool), Refused> {
        let [address, readonly] = match self.tuple(object) {
            Some(&[address, readonly]) => [address, readonly],
            Some(_) => return Err(Refused::Uncommon),
            None if self.list(object)? == 2 => [0, 1].map(|index| self.list_item(object, index)),
            None => return Err(Refused::Uncommon),
        };
        // Before the address, whose type's code may change a list.
        let is_readonly = match readonly {
            Some(flag) if flag.as_ptr() == self.capi.r#false => false,
            Some(flag) if flag.as_ptr() == self.capi.r#true => true,
            _ => return Err(Refused::Uncommon),
        };
        let address = u64::try_from(self.any_int(address)?).map_err(|_| Refused::Uncommon)?;
        Ok((address, is_readonly))
    }

    /// Reads what may be a typestr: the rules of the array tell whether it is one.
    #[inline(always)]
    fn typestr(&self, object: Obj<'a>, to: &mut Description) -> Result<(), Refused> {
        if !self.is(object, self.capi.str_type) {
            return Err(Refused::Uncommon);
        }
        if self.capi.facts.free_threaded {
            return self.typestr_by_characters(object, to);
        }
        set_typestr(object.text(self.py), to)
    }

    #[inline(always)]
    fn repeats_type(&self, descr: Obj<'a>, array: &Description) -> Result<bool, Refused> {
        self.is_row_of(descr, read::typestr(&array.array.typestr).unwrap_or_default())
    }
}

/// Sets what may be a typestr.
#[inline(always)]
fn set_typestr(text: Option<&[u8]>, to: &mut Description) -> Result<(), Refused> {
    to.set_typestr(common_typestr(text)?);
    Ok(())
}

/// Returns what may be a typestr. One without a byte order needs the general reader.
#[inline(always)]
fn common_typestr(text: Option<&[u8]>) -> Result<&[u8], Refused> {
    let text = text.ok_or(Refused::Stale)?;
    if !(3..CAI_TYPESTR_SIZE).contains(&text.len())
        || !matches!(text[0], b'<' | b'>' | b'|')
        || has_nul(text)
    {
        return Err(Refused::Uncommon);
    }
    Ok(text)
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
