//! References to objects: owned ones, those of an interpreter, and an exception.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::table::New;
use super::{Attached, Obj, Py};
use crate::error::Result;
use crate::python::capi::Object;
use crate::python::interpreter::Here;

/// A reference to an object, released when dropped.
pub struct Owned<'py> {
    pub(super) object: NonNull<Object>,
    pub(super) py: Py<'py>,
}

impl Drop for Owned<'_> {
    #[inline]
    fn drop(&mut self) {
        self.py.give_up(New(Some(self.object)));
    }
}

impl From<Owned<'_>> for New {
    #[inline(always)]
    fn from(object: Owned<'_>) -> Self {
        New(NonNull::new(object.into_raw()))
    }
}

impl<'py> Owned<'py> {
    /// # Safety
    /// NULL, or a reference that the caller gives away.
    #[inline(always)]
    pub unsafe fn from_ptr(py: Py<'py>, object: *mut Object) -> Option<Self> {
        NonNull::new(object).map(|object| Owned { object, py })
    }

    #[inline(always)]
    pub fn obj(&self) -> Obj<'_> {
        // SAFETY: this reference keeps the object alive, and the thread is attached.
        unsafe { Obj::new(self.object) }
    }

    #[inline]
    pub fn get(&self) -> *mut Object {
        self.object.as_ptr()
    }

    #[inline]
    pub fn into_raw(self) -> *mut Object {
        let object = self.object.as_ptr();
        std::mem::forget(self);
        object
    }
}

/// An object that is made at its first use in an interpreter, which keeps it for good.
pub struct Once(AtomicPtr<Object>);

impl Once {
    pub const fn new() -> Self {
        Once(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline(always)]
    pub fn address(&self) -> *mut Object {
        self.0.load(Ordering::Relaxed)
    }

    #[cold]
    fn set(&self, made: Owned) -> *mut Object {
        let (none, new) = (ptr::null_mut(), made.get());
        match self.0.compare_exchange(none, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made.into_raw(),
            // Another thread of a free-threaded build was faster.
            Err(other) => other,
        }
    }
}

impl<'py> Here<'py, Once> {
    /// Returns the object.
    #[inline(always)]
    pub fn get(self, make: impl FnOnce(Py<'py>) -> Result<Owned<'py>>) -> Result<Obj<'py>> {
        let mut object = self.0.load(Ordering::Acquire);
        if object.is_null() {
            object = self.set(make(self.py())?);
        }
        // SAFETY: `set` stored a reference to an object of this interpreter, which is never
        // released.
        Ok(unsafe { Obj::new(NonNull::new_unchecked(object)) })
    }
}

/// An exception that was taken away. Released when dropped.
pub struct Pending<'py> {
    attached: Attached<'py>,
    /// One reference each, or NULL.
    parts: [New; 3],
}

impl<'py> Pending<'py> {
    /// Takes the exception that is set, if there is one.
    pub(super) fn take(attached: Attached<'py>) -> Self {
        let mut parts = [const { New(None) }; 3];
        let [kind, value, trace] = &mut parts;
        (attached.capi().error_fetch)(kind, value, trace);
        Pending { attached, parts }
    }

    /// Sets the exception again.
    pub fn restore(mut self) {
        let [kind, value, trace] = self.parts.each_mut().map(|part| New(part.0.take()));
        (self.attached.capi().error_restore)(kind, value, trace);
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        // CPython may have ended the thread, which does not hold the GIL then.
        let capi = self.attached.capi();
        for part in &mut self.parts {
            if let Some(object) = part.0.take().filter(|_| capi.is_attached()) {
                (capi.decref)(New(Some(object)));
            }
        }
    }
}
