//! Tuples and dictionaries.

use std::ptr;

use super::table::New;
use super::{Name, Obj, Owned, Py, done, raised};
use crate::error::Result;

/// A borrowed tuple, which does not change.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Tuple<'a>(Obj<'a>);

impl<'a> From<Tuple<'a>> for Obj<'a> {
    #[inline(always)]
    fn from(tuple: Tuple<'a>) -> Self {
        tuple.0
    }
}

impl<'a> Tuple<'a> {
    #[inline(always)]
    pub(super) fn of(tuple: Obj<'a>) -> Self {
        Tuple(tuple)
    }

    #[inline]
    pub fn len(self, py: Py<'_>) -> usize {
        match &py.capi().facts.places {
            Some(places) => places.items(self).len(),
            None => (py.capi().tuple_size)(self) as usize,
        }
    }

    #[inline]
    pub fn get(self, py: Py<'_>, index: usize) -> Option<Obj<'a>> {
        match &py.capi().facts.places {
            Some(places) => places.items(self).get(index).copied().flatten(),
            None if index < self.len(py) => (py.capi().tuple_get)(self, index as isize),
            None => None,
        }
    }

    pub fn items<'py>(self, py: Py<'py>) -> impl Iterator<Item = Obj<'a>> + use<'a, 'py> {
        (0..).map_while(move |index| self.get(py, index))
    }
}

/// A tuple that is being filled, to which nothing else refers.
pub(super) struct NewTuple<'py>(Owned<'py>);

impl<'py> NewTuple<'py> {
    #[inline(always)]
    pub(super) fn new(py: Py<'py>, count: usize) -> Result<Self> {
        py.made((py.capi().tuple_new)(count as isize)).map(NewTuple)
    }

    /// Sets an item, once.
    #[inline(always)]
    pub(super) fn set(&self, index: usize, item: Owned<'py>) {
        let NewTuple(tuple) = self;
        match &tuple.py.capi().facts.places {
            Some(places) => places.set_item(self, index, item),
            None => {
                (tuple.py.capi().tuple_set)(tuple.obj(), index as isize, item.into());
            }
        }
    }

    #[inline(always)]
    pub(super) fn obj(&self) -> Obj<'_> {
        self.0.obj()
    }

    #[inline(always)]
    pub(super) fn into_object(self) -> Owned<'py> {
        self.0
    }
}

#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Dict<'a>(Obj<'a>);

impl<'a> Dict<'a> {
    #[inline(always)]
    pub(super) fn of(dictionary: Obj<'a>) -> Self {
        Dict(dictionary)
    }

    /// Returns the value of a key. Used where CPython has `PyDict_GetItemRef`.
    pub fn get<'py>(self, py: Py<'py>, key: Name) -> Result<Option<Owned<'py>>> {
        let Some(get) = py.capi().dict_get_ref else { return Ok(None) };
        let mut found = New(None);
        match get(self, key.into(), &mut found) {
            ..0 => raised(),
            _ => Ok(found.0.map(|object| Owned { object, py })),
        }
    }

    /// Returns the next entry. `position` begins at 0, and is only used here. References are added:
    /// code that looks at an entry, or another thread, may change the dictionary.
    pub fn next<'py>(self, py: Py<'py>, position: &mut isize) -> Option<(Owned<'py>, Owned<'py>)> {
        let (mut key, mut value) = (ptr::null_mut(), ptr::null_mut());
        let next = py.capi().dict_next;
        // SAFETY: the GIL is held; a dictionary. CPython accepts any position. The dictionary keeps
        // both objects alive until the references are added: it does not change while it is locked,
        // because nothing here runs Python code or blocks.
        py.locked(self.0, || unsafe {
            if next(self.0.as_ptr(), position, &raw mut key, &raw mut value) == 0 {
                return None;
            }
            Some((Obj::from_ptr(key)?.share(py), Obj::from_ptr(value)?.share(py)))
        })
    }
}

/// A dictionary that is being filled.
pub struct Dictionary<'py>(Owned<'py>);

impl<'py> Dictionary<'py> {
    pub fn new(py: Py<'py>) -> Result<Self> {
        py.made((py.capi().dict_new)()).map(Dictionary)
    }

    /// A copy of a dictionary. CPython raises SystemError for any other object.
    pub fn copy(py: Py<'py>, original: Obj) -> Result<Self> {
        py.made((py.capi().dict_copy)(original)).map(Dictionary)
    }

    #[inline]
    pub fn set<'a, 'b>(&self, key: impl Into<Obj<'a>>, value: impl Into<Obj<'b>>) -> Result<()> {
        let set = self.0.py.capi().dict_set;
        done(set(self.0.obj(), key.into(), value.into()))
    }

    pub fn dict(&self) -> Dict<'_> {
        Dict::of(self.0.obj())
    }

    pub fn into_object(self) -> Owned<'py> {
        self.0
    }
}
