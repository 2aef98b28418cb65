//! Methods on addresses of objects, for code that does not use [`Obj`] yet.

use std::ptr::NonNull;

use crate::error::{Result, Text};
use crate::python::cache::Version;
use crate::python::capi::Object;
use crate::python::py::{Name, Obj, Owned, Py, Type, raised};
pub use crate::python::values::Number;

/// Borrows an object.
fn obj<'a>(object: *mut Object) -> Obj<'a> {
    // SAFETY: callers pass live objects.
    unsafe { Obj::new(NonNull::new_unchecked(object)) }
}

impl<'py> Py<'py> {
    #[inline(never)]
    pub fn attribute(self, object: *mut Object, name: Name) -> Result<Option<Owned<'py>>> {
        obj(object).optional_attr_inlined(self, name)
    }

    #[inline(always)]
    pub fn attribute_inlined(self, object: *mut Object, name: Name) -> Result<Option<Owned<'py>>> {
        obj(object).optional_attr_inlined(self, name)
    }

    pub fn text<'a>(self, string: *mut Object) -> Option<&'a [u8]> {
        obj(string).text(self)
    }

    pub fn is(self, object: *mut Object, of: *mut Object) -> bool {
        // SAFETY: the GIL is held; the object is alive.
        unsafe { self.capi().is_instance(object, of) }
    }

    #[inline(always)]
    pub fn type_of(self, object: *mut Object) -> *mut Object {
        obj(object).type_address(self)
    }

    #[inline(always)]
    pub fn version_of(self, object: *mut Object) -> Version {
        obj(object).version(self)
    }

    pub fn type_attribute(self, object: *mut Object, name: Name) -> Result<Option<Owned<'py>>> {
        Type::of(self, obj(object)).obj().optional_attr(self, name)
    }

    pub fn type_has(self, object: *mut Object, name: Name) -> Result<bool> {
        Type::of(self, obj(object)).has(self, name)
    }

    pub fn type_name(self, object: *mut Object) -> Text<64> {
        obj(object).type_name(self)
    }
}

pub fn number(py: Py, object: *mut Object, strict: bool) -> Result<Number> {
    obj(object).number(py, strict)
}

#[inline(always)]
pub fn exact_integer(py: Py, object: *mut Object) -> Option<i64> {
    obj(object).exact_int(py)
}

pub fn is_sequence(py: Py, object: *mut Object, strict: bool) -> bool {
    obj(object).is_like_tuple(py, strict)
}

pub fn size(py: Py, sequence: *mut Object) -> Result<usize> {
    obj(sequence).len(py)
}

pub fn item<'py>(py: Py<'py>, sequence: *mut Object, index: usize) -> Result<Owned<'py>> {
    obj(sequence).item(py, index)
}

pub fn shown(py: Py, object: *mut Object) -> Text<64> {
    obj(object).shown(py)
}

pub fn pair(py: Py<'_>, first: i64, second: i64) -> Result<Owned<'_>> {
    py.tuple_of_ints(&[first, second])
}

pub fn two_integers(py: Py, tuple: &Owned, name: &'static str) -> Result<(i64, i64)> {
    tuple.obj().two_ints(py, name)
}

pub fn tuple<'py, const N: usize>(py: Py<'py>, items: [Owned<'py>; N]) -> Result<Owned<'py>> {
    let mut items = items.map(Some);
    py.tuple(N, |index| items[index].take().map_or_else(raised, Ok))
}
