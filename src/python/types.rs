//! Attributes and versions of types.

use crate::error::Result;
use crate::python::cache::Version;
use crate::python::py::{Builtin, Name, Obj, Owned, Py, raised};

/// A type, kept alive.
pub struct Type<'py>(Owned<'py>);

impl<'py> Type<'py> {
    /// Returns the type of an object. Code that runs later may give the object another one.
    pub fn of(py: Py<'py>, object: Obj) -> Self {
        Type(object.r#type(py))
    }

    /// Returns one of CPython's own types.
    pub fn builtin(py: Py<'py>, r#type: Builtin) -> Self {
        Type(py.builtin(r#type).share(py))
    }

    /// Borrows the type as an object.
    pub fn obj(&self) -> Obj<'_> {
        self.0.obj()
    }

    /// Returns the version that the type has now. It gets one if it has none; CPython may deny it.
    pub fn assign_version(&self, py: Py) -> Result<Version> {
        match py.capi().assign_version {
            // SAFETY: the GIL is held; a live type.
            Some(assign) => drop(unsafe { assign(self.0.get()) }),
            // Looking any attribute up does it.
            None => drop(self.lookup(py, py.names.requires_grad)?),
        }
        let r#type = self.0.get();
        // SAFETY: the GIL is held; a live type.
        Ok(Version { r#type, number: unsafe { py.capi().type_version(r#type) } })
    }

    /// Looks an attribute up as Python looks up special methods: in the type and its bases, without
    /// calling a descriptor. Returns as well whether the version of the type covers the result:
    /// where CPython has no function for it, the attribute of the type is read instead, in which
    /// the metaclass has a part.
    pub fn lookup(&self, py: Py<'py>, name: Name) -> Result<(Option<Owned<'py>>, bool)> {
        let (capi, r#type, key) = (py.capi(), self.0.get(), name.as_ptr());
        if let Some(lookup) = capi.type_lookup_ref {
            // SAFETY: the GIL is held; both objects are alive. The result is new.
            return Ok((unsafe { Owned::from_ptr(py, lookup(r#type, key)) }, true));
        }
        if let Some(lookup) = capi.type_lookup {
            // SAFETY: the GIL is held; both objects are alive. The result belongs to the type.
            let found = unsafe { Obj::from_ptr(lookup(r#type, key)) };
            return Ok((found.map(|object| object.share(py)), true));
        }
        if capi.type_dict.is_none() || capi.dict_get_ref.is_none() {
            return Ok((self.obj().optional_attr(py, name)?, false));
        }
        let bases = self.bases(py)?;
        for base in bases.obj().tuple(py).iter().flat_map(|bases| bases.items(py)) {
            let Some(members) = members(py, base)? else { continue };
            let found = members.obj().dict(py).map(|members| members.get(py, name));
            if let Some(found) = found.transpose()?.flatten() {
                return Ok((Some(found), true));
            }
        }
        Ok((None, true))
    }

    /// Returns true if the type, or one that it derives from, has an attribute.
    pub fn has(&self, py: Py, name: Name) -> Result<bool> {
        match py.capi().type_lookup {
            // SAFETY: the GIL is held; both objects are alive. The result is borrowed, and not
            // used.
            Some(lookup) => Ok(!unsafe { lookup(self.0.get(), name.as_ptr()) }.is_null()),
            None => Ok(self.obj().optional_attr(py, name)?.is_some()),
        }
    }

    /// Returns the type and its bases in the order of look-ups. A metaclass may have another idea
    /// of `__mro__`, so the descriptor of `type` is called.
    fn bases(&self, py: Py<'py>) -> Result<Owned<'py>> {
        let r#type = self.obj();
        if r#type.is_exactly(py, Builtin::Type) {
            return r#type.attr(py, py.names.mro);
        }
        let Some(members) = members(py, py.builtin(Builtin::Type))? else { return raised() };
        let descriptor = members.obj().get_item(py, py.names.mro)?;
        descriptor.obj().attr(py, py.names.get)?.obj().call(py, [r#type])
    }
}

impl Obj<'_> {
    /// Returns the object's type and the version that it has now.
    #[inline(always)]
    pub fn version(self, py: Py) -> Version {
        let r#type = self.type_address(py);
        // SAFETY: the GIL is held; the object keeps its type alive.
        Version { r#type, number: unsafe { py.capi().type_version(r#type) } }
    }
}

/// Returns the dictionary of a type itself. `None` for an object that is no type.
fn members<'py>(py: Py<'py>, r#type: Obj) -> Result<Option<Owned<'py>>> {
    match py.capi().type_dict.filter(|_| r#type.is_a(py, Builtin::Type)) {
        // SAFETY: the GIL is held; a live type. The result is new.
        Some(dict) => unsafe { py.take(dict(r#type.as_ptr())) }.map(Some),
        None => Ok(None),
    }
}
