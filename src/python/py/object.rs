//! Borrowed objects: what Python code does with them.

use std::ffi::{CStr, c_int, c_void};
use std::iter;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::table::{New, Text};
use super::{
    Attached, Builtin, Capi, Dict, Dictionary, Exception, Owned, Py, Tuple, TypeObj, done,
    python_exception, raised, truth,
};
use crate::error::{Failure, Result};
use crate::python::capi::Object;

/// A borrowed object. During `'a` it is alive, and the thread is attached.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Obj<'a> {
    pub(super) object: NonNull<Object>,
    alive: PhantomData<&'a ()>,
}

/// An interned string that the interpreter keeps for good: the name of an attribute, or a key.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Name(NonNull<Object>);

impl Name {
    /// Interns a string. `None` if there is no memory. The reference is never released.
    pub fn new(attached: Attached, text: &'static CStr) -> Option<Self> {
        let name = (attached.capi().str_intern)(text.into()).0.map(Name);
        if name.is_none() {
            (attached.capi().error_clear)();
        }
        name
    }

    #[inline(always)]
    pub fn as_ptr(self) -> *mut Object {
        self.0.as_ptr()
    }
}

impl From<Name> for Obj<'_> {
    #[inline(always)]
    fn from(name: Name) -> Self {
        Obj { object: name.0, alive: PhantomData }
    }
}

impl<'a> From<&'a Owned<'_>> for Obj<'a> {
    #[inline(always)]
    fn from(object: &'a Owned<'_>) -> Self {
        object.obj()
    }
}

impl<'a> Obj<'a> {
    /// # Safety
    /// During `'a` the object is alive, and the thread attached.
    #[inline(always)]
    pub unsafe fn new(object: NonNull<Object>) -> Self {
        Obj { object, alive: PhantomData }
    }

    /// # Safety
    /// NULL, or as for [`Obj::new`].
    #[inline(always)]
    pub unsafe fn from_ptr(object: *mut Object) -> Option<Self> {
        NonNull::new(object).map(|object| Obj { object, alive: PhantomData })
    }

    #[inline(always)]
    pub fn as_ptr(self) -> *mut Object {
        self.object.as_ptr()
    }

    #[inline(always)]
    pub fn share<'py>(self, py: Py<'py>) -> Owned<'py> {
        (py.capi().incref)(self);
        Owned { object: self.object, py }
    }

    #[inline(always)]
    pub fn is_none(self, py: Py<'_>) -> bool {
        self == py.none()
    }

    /// Returns the address of the type, which may change when Python code runs.
    #[inline(always)]
    pub fn type_address(self, py: Py<'_>) -> *mut Object {
        py.capi().type_of(self)
    }

    /// Returns a slot of the object's type, or NULL.
    #[inline]
    pub fn type_slot(self, capi: &Capi, slot: c_int) -> *const c_void {
        // SAFETY: the GIL is held, and the object, which is alive (`Obj`), has a type.
        let found = unsafe { (capi.type_slot)(capi.type_of(self), slot) };
        if found.is_null() {
            // Before 3.10, static types set an exception here.
            (capi.error_clear)();
        }
        found
    }

    /// Returns true for an object of this very type.
    #[inline(always)]
    pub fn is_exactly(self, py: Py<'_>, r#type: Builtin) -> bool {
        self.type_address(py) == r#type.address(py.capi())
    }

    #[inline]
    pub fn is_a(self, py: Py<'_>, r#type: Builtin) -> bool {
        let base = TypeObj::of(py.builtin(r#type));
        self.with_type(py, |found| base.is_base_of(py, found))
    }

    pub fn attr<'py>(self, py: Py<'py>, name: impl Into<Obj<'a>>) -> Result<Owned<'py>> {
        py.made((py.capi().get_attr)(self, name.into()))
    }

    /// Returns an attribute, or `None` after an AttributeError. Other exceptions stay set.
    #[inline(never)]
    pub fn optional_attr<'py>(
        self,
        py: Py<'py>,
        name: impl Into<Obj<'a>>,
    ) -> Result<Option<Owned<'py>>> {
        self.optional_attr_inlined(py, name)
    }

    /// As [`Obj::optional_attr`], for the path that most imports take.
    #[inline(always)]
    pub fn optional_attr_inlined<'py>(
        self,
        py: Py<'py>,
        name: impl Into<Obj<'a>>,
    ) -> Result<Option<Owned<'py>>> {
        let name = name.into();
        match py.capi().optional_attr.or(py.capi().optional_attr_before) {
            Some(get) => {
                let mut found = New(None);
                match get(self, name, &mut found) {
                    ..0 => raised(),
                    _ => Ok(found.0.map(|object| Owned { object, py })),
                }
            }
            None => match self.attr(py, name) {
                Ok(found) => Ok(Some(found)),
                Err(_) => py.clear_if(Exception::Attribute).map(|()| None),
            },
        }
    }

    pub fn set_attr(self, py: Py<'_>, name: Name, value: Obj<'_>) -> Result<()> {
        done((py.capi().set_attr)(self, name.into(), value))
    }

    pub fn call<'py, const N: usize>(
        self,
        py: Py<'py>,
        arguments: [Obj<'_>; N],
    ) -> Result<Owned<'py>> {
        self.call_with(py, N, arguments.into_iter(), None)
    }

    pub fn call_with<'py, 'b>(
        self,
        py: Py<'py>,
        count: usize,
        mut arguments: impl Iterator<Item = Obj<'b>>,
        keywords: Option<Dict<'_>>,
    ) -> Result<Owned<'py>> {
        let next = |_| arguments.next().map(|next| next.share(py)).ok_or_else(Failure::internal);
        let arguments = py.tuple(count, next)?;
        py.made((py.capi().call)(self, Tuple::of(arguments.obj()), keywords))
    }

    /// Calls with keywords only: `names` is a tuple of their names, `values` has one for each.
    pub fn call_keywords<'py>(
        self,
        py: Py<'py>,
        names: Tuple,
        values: &[Obj],
    ) -> Result<Owned<'py>> {
        assert!(names.len(py) == values.len());
        if let Some(call) = py.capi().vectorcall {
            let names = Obj::from(names).as_ptr();
            // SAFETY: the GIL is held. `Obj` is a pointer to an object; there are as many as names
            // (checked above), and no others. The result is new.
            return unsafe { py.take(call(self.as_ptr(), values.as_ptr().cast(), 0, names)) };
        }
        let keywords = Dictionary::new(py)?;
        for (name, &value) in names.items(py).zip(values) {
            keywords.set(name, value)?;
        }
        self.call_with(py, 0, iter::empty(), Some(keywords.dict()))
    }

    pub fn call_method<'py>(self, py: Py<'py>, name: Name) -> Result<Owned<'py>> {
        match py.capi().call_method {
            // SAFETY: the GIL is held; the arguments are one object. The result is new.
            Some(call) => unsafe {
                py.take(call(name.as_ptr(), &self.as_ptr(), 1, ptr::null_mut()))
            },
            None => self.attr(py, name)?.obj().call(py, []),
        }
    }

    pub fn is_callable(self, py: Py<'_>) -> bool {
        (py.capi().callable_check)(self) != 0
    }

    pub fn is_sequence(self, py: Py<'_>) -> bool {
        (py.capi().sequence_check)(self) != 0
    }

    pub fn is_mapping(self, py: Py<'_>) -> bool {
        (py.capi().mapping_check)(self) != 0
    }

    /// Returns the number of items of a sequence. May run Python code.
    pub fn len(self, py: Py<'_>) -> Result<usize> {
        // A negative result is an exception of the producer.
        usize::try_from((py.capi().sequence_size)(self)).map_err(|_| python_exception())
    }

    /// Returns an item of a sequence. May run Python code.
    pub fn item<'py>(self, py: Py<'py>, index: usize) -> Result<Owned<'py>> {
        py.made((py.capi().sequence_item)(self, index as isize))
    }

    /// Returns the item of a mapping. May run Python code.
    pub fn get_item<'py>(self, py: Py<'py>, key: impl Into<Obj<'a>>) -> Result<Owned<'py>> {
        py.made((py.capi().get_item)(self, key.into()))
    }

    /// Returns the item of a mapping, or `None` after a KeyError. Other exceptions stay set. May run
    /// Python code.
    pub fn optional_item<'py>(
        self,
        py: Py<'py>,
        key: impl Into<Obj<'a>>,
    ) -> Result<Option<Owned<'py>>> {
        let key = key.into();
        let Some(get) = py.capi().optional_item else {
            return match self.get_item(py, key) {
                Ok(found) => Ok(Some(found)),
                Err(_) => py.clear_if(Exception::Key).map(|()| None),
            };
        };
        let mut found = New(None);
        match get(self, key, &mut found) {
            ..0 => raised(),
            _ => Ok(found.0.map(|object| Owned { object, py })),
        }
    }

    /// Returns true if the object has this item, or a mapping this key. May run Python code.
    pub fn contains(self, py: Py<'_>, key: impl Into<Obj<'a>>) -> Result<bool> {
        truth((py.capi().contains)(self, key.into()))
    }

    /// Returns the value as a boolean. May run Python code.
    pub fn is_true(self, py: Py<'_>) -> Result<bool> {
        truth((py.capi().is_true)(self))
    }

    /// Converts the object to an integer of Python, as `operator.index` does. May run Python code.
    pub fn index<'py>(self, py: Py<'py>) -> Result<Owned<'py>> {
        py.made((py.capi().index)(self))
    }

    /// Returns the value of an integer as [`Obj::index`] returns it. Runs no Python code then.
    #[inline]
    pub fn int(self, py: Py<'_>) -> Result<Int> {
        let mut overflow: c_int = 0;
        let value = (py.capi().long_as_signed)(self, &mut overflow);
        match (overflow, value) {
            (0, -1) if py.has_exception() => Err(python_exception()),
            (0, value) => Ok(Int::Value(value)),
            (1.., _) => Ok(Int::Above),
            _ => Ok(Int::Below),
        }
    }

    /// Returns the value of an integer from 0 on, as [`Obj::index`] returns it. `None` for one of
    /// more than 64 bits, and for a negative one.
    pub fn unsigned(self, py: Py<'_>) -> Option<u64> {
        let value = (py.capi().long_as_unsigned)(self);
        if value == u64::MAX && py.has_exception() {
            py.clear();
            return None;
        }
        Some(value)
    }

    /// Returns the text that `repr` makes. May run Python code.
    pub fn repr<'py>(self, py: Py<'py>) -> Result<Owned<'py>> {
        py.made((py.capi().repr)(self))
    }

    /// Returns a string's characters. `None` for any other object, and if they are not valid UTF-8.
    pub fn text(self, py: Py<'_>) -> Option<&'a [u8]> {
        let mut length = 0;
        // SAFETY: the GIL is held. CPython checks that the object is a string, in which the
        // characters live.
        unsafe {
            let text = (py.capi().str_utf8)(self.as_ptr(), &raw mut length);
            if text.is_null() {
                py.clear();
                return None;
            }
            Some(std::slice::from_raw_parts(text.cast(), length as usize))
        }
    }

    /// Copies the characters of a short string of ASCII. `None` for other objects. Does not block:
    /// [`Obj::text`] may wait for another thread that encodes the same string.
    #[inline(always)]
    pub fn characters<'b>(self, py: Py<'_>, to: &'b mut [u8]) -> Option<&'b [u8]> {
        let length = (py.capi().str_length)(self);
        let text = to.get_mut(..usize::try_from(length).ok()?)?;
        for (index, place) in text.iter_mut().enumerate() {
            let character = (py.capi().str_char)(self, index as isize);
            *place = u8::try_from(character).ok().filter(u8::is_ascii)?;
        }
        Some(text)
    }

    /// Returns the pointer in a capsule of this name. `None` for any other object.
    pub fn capsule(self, py: Py<'_>, name: Option<&CStr>) -> Option<NonNull<c_void>> {
        match (py.capi().capsule_is)(self, name.map(Text::from)) {
            0 => None,
            _ => (py.capi().capsule_pointer)(self, name.map(Text::from)),
        }
    }

    pub fn rename_capsule(self, py: Py<'_>, name: &'static CStr) -> Result<()> {
        done((py.capi().capsule_rename)(self, name.into()))
    }

    #[inline(always)]
    pub fn exact_tuple(self, py: Py<'_>) -> Option<Tuple<'a>> {
        self.is_exactly(py, Builtin::Tuple).then(|| Tuple::of(self))
    }

    #[inline]
    pub fn tuple(self, py: Py<'_>) -> Option<Tuple<'a>> {
        self.is_a(py, Builtin::Tuple).then(|| Tuple::of(self))
    }

    pub fn dict(self, py: Py<'_>) -> Option<Dict<'a>> {
        self.is_a(py, Builtin::Dict).then(|| Dict::of(self))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Int {
    /// At most 64 bits, signed.
    Value(i64),
    /// More than `i64::MAX`.
    Above,
    /// Less than `i64::MIN`.
    Below,
}
