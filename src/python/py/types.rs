//! Types: their attributes and versions.

use std::ptr::NonNull;

use super::{Builtin, Name, Obj, Owned, Py, raised};
use crate::error::Result;
use crate::python::cache::Version;
use crate::python::capi::Object;

#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct TypeObj<'a>(Obj<'a>);

impl<'a> From<TypeObj<'a>> for Obj<'a> {
    fn from(r#type: TypeObj<'a>) -> Self {
        r#type.0
    }
}

pub struct Type<'py>(Owned<'py>);

impl<'py> Type<'py> {
    /// Returns the type of an object. Code that runs later may give the object another one.
    pub fn of(py: Py<'py>, object: Obj) -> Self {
        Type(object.with_type(py, |r#type| r#type.0.share(py)))
    }

    pub fn new(py: Py<'py>, r#type: Obj) -> Option<Self> {
        r#type.is_a(py, Builtin::Type).then(|| Type(r#type.share(py)))
    }

    pub fn obj(&self) -> Obj<'_> {
        self.0.obj()
    }

    pub fn type_obj(&self) -> TypeObj<'_> {
        TypeObj(self.0.obj())
    }

    /// Returns the version that the type has now. It gets one if it has none; CPython may deny it.
    pub fn assign_version(&self, py: Py) -> Result<Version> {
        match py.capi().assign_version {
            Some(assign) => drop(assign(self.type_obj())),
            // Looking any attribute up does it.
            None => drop(self.lookup(py, py.names.requires_grad)?),
        }
        Ok(self.type_obj().version(py))
    }

    /// Looks an attribute up as Python looks up special methods: in the type and its bases, without
    /// calling a descriptor. Returns as well whether the version of the type covers the result:
    /// where CPython has no function for it, the attribute of the type is read instead, in which
    /// the metaclass has a part.
    pub fn lookup<'a>(&self, py: Py<'a>, name: Name) -> Result<(Option<Owned<'a>>, bool)> {
        if let Some(lookup) = py.capi().type_lookup_ref {
            let found = lookup(self.type_obj(), name.into());
            return Ok((found.0.map(|object| Owned { object, py }), true));
        }
        if let Some(lookup) = py.capi().type_lookup {
            // SAFETY: NULL, or an object that the type refers to.
            let found = unsafe { Obj::from_ptr(lookup(self.type_obj(), name.into())) };
            return Ok((found.map(|object| object.share(py)), true));
        }
        if py.capi().type_dict.is_none() || py.capi().dict_get_ref.is_none() {
            return Ok((self.obj().optional_attr(py, name)?, false));
        }
        let bases = self.bases(py)?;
        for base in bases.obj().tuple(py).iter().flat_map(|bases| bases.items(py)) {
            let Some(members) = base.type_obj(py).map(|base| base.members(py)).transpose()? else {
                continue;
            };
            let found = members.obj().dict(py).map(|members| members.get(py, name));
            if let Some(found) = found.transpose()?.flatten() {
                return Ok((Some(found), true));
            }
        }
        Ok((None, true))
    }

    pub fn has(&self, py: Py, name: Name) -> Result<bool> {
        match py.capi().type_lookup {
            // The result is borrowed, and not used.
            Some(lookup) => Ok(!lookup(self.type_obj(), name.into()).is_null()),
            None => Ok(self.obj().optional_attr(py, name)?.is_some()),
        }
    }

    /// Returns the type and its bases in the order of look-ups. A metaclass may have another idea
    /// of `__mro__`, so the descriptor of `type` is called.
    fn bases<'a>(&self, py: Py<'a>) -> Result<Owned<'a>> {
        let r#type = self.obj();
        if r#type.is_exactly(py, Builtin::Type) {
            return r#type.attr(py, py.names.mro);
        }
        let Some(metaclass) = py.builtin(Builtin::Type).type_obj(py) else { return raised() };
        let descriptor = metaclass.members(py)?.obj().get_item(py, py.names.mro)?;
        descriptor.obj().attr(py, py.names.get)?.obj().call(py, [r#type])
    }
}

impl<'a> TypeObj<'a> {
    #[inline(always)]
    pub(super) fn of(r#type: Obj<'a>) -> Self {
        TypeObj(r#type)
    }

    /// Returns true for this type and for those derived from it.
    #[inline]
    pub fn is_base_of(self, py: Py, derived: TypeObj) -> bool {
        self.0 == derived.0 || (py.capi().type_is_subtype)(derived, self) != 0
    }

    #[inline(always)]
    pub fn version(self, py: Py) -> Version {
        let r#type = self.0.as_ptr();
        Version { r#type, number: py.capi().type_version(self) }
    }

    /// Returns the dictionary of the type itself. Used where CPython has `PyType_GetDict`.
    fn members(self, py: Py<'_>) -> Result<Owned<'_>> {
        match py.capi().type_dict {
            Some(dict) => py.made(dict(self)),
            None => raised(),
        }
    }
}

impl<'a> Obj<'a> {
    pub fn type_obj(self, py: Py) -> Option<TypeObj<'a>> {
        self.is_a(py, Builtin::Type).then_some(TypeObj(self))
    }

    #[inline(always)]
    pub fn version(self, py: Py) -> Version {
        self.with_type(py, |r#type| r#type.version(py))
    }

    /// Runs `body`, which runs no Python code, with the type of the object.
    #[inline(always)]
    pub(super) fn with_type<R>(self, py: Py, body: impl FnOnce(TypeObj<'_>) -> R) -> R {
        let r#type: *mut Object = self.type_address(py);
        // SAFETY: the object has a type, and keeps it alive until code of Python runs.
        body(TypeObj(unsafe { Obj::new(NonNull::new_unchecked(r#type)) }))
    }
}
