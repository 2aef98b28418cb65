//! Per-interpreter state: names, what types offer, and objects that are made once.
//!
//! The state is leaked when the interpreter ends: its objects are gone, and arrays may outlive it.

use std::ffi::c_void;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::error::{Failure, Result};
use crate::memory;
use crate::python::at_exit;
use crate::python::cache::Types;
use crate::python::class::Class;
use crate::python::deferred::Queue;
use crate::python::export::object::Exported;
use crate::python::free_list::FreeList;
use crate::python::names::Names;
use crate::python::ndarray::Arrays;
use crate::python::py::{Attached, Capi, Once, Py, Release};
use crate::python::texts::Texts;
use crate::python::view::object::View;

pub struct Interpreter {
    /// CPython's functions, a copy beside the rest.
    pub capi: Capi,
    /// The id, which CPython counts from 0, the main interpreter.
    pub id: i64,
    /// CPython's own structure. That of a sub-interpreter may be reused for a new one.
    state: *mut c_void,
    pub names: Names,
    pub types: Types,
    /// The class of exported objects.
    exports: Class<Exported>,
    /// The class of views.
    views: Class<View>,
    /// The dictionary that those of exported arrays are copied from.
    dictionary: Once,
    /// The function that makes views.
    view: Once,
    /// The version and the names of keywords for `__dlpack__`.
    dlpack_keywords: Once,
    /// Typestrs as Python strings.
    texts: Texts,
    /// NumPy's types of typestrs.
    dtypes: Texts,
    /// What is known of NumPy's arrays.
    arrays: Arrays,
    /// Memory for owners.
    free_list: FreeList,
    /// Contents of owners that threads without the GIL left to release.
    pub deferred: Queue,
    /// Releases references.
    pub decref: Release,
    next: Link,
}

/// Something of the interpreter that the calling thread is attached to.
pub struct Here<'py, T> {
    value: &'py T,
    py: Py<'py>,
}

impl<T> Clone for Here<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Here<'_, T> {}

impl<T> Deref for Here<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.value
    }
}

impl<'py, T> Here<'py, T> {
    /// Returns the proof that the thread is attached to this interpreter.
    #[inline(always)]
    pub fn py(self) -> Py<'py> {
        self.py
    }

    /// Returns a part.
    ///
    /// # Safety
    /// `part` returns a part of its argument.
    #[inline(always)]
    pub unsafe fn part<U>(self, part: impl FnOnce(&'py T) -> &'py U) -> Here<'py, U> {
        Here { value: part(self.value), py: self.py }
    }
}

macro_rules! here {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {
        impl<'py> Py<'py> {
            $($(#[$doc])*
            #[inline(always)]
            pub fn $name(self) -> Here<'py, $type> {
                Here { value: &self.interpreter().$name, py: self }
            })*
        }
    };
}

here! {
    /// Returns the class of exported objects.
    exports: Class<Exported>;
    /// Returns the class of views.
    views: Class<View>;
    /// Returns the dictionary that those of exported arrays are copied from.
    dictionary: Once;
    /// Returns the function that makes views.
    view: Once;
    /// Returns the version and the names of keywords for `__dlpack__`.
    dlpack_keywords: Once;
    /// Returns typestrs as Python strings.
    texts: Texts;
    /// Returns NumPy's types of typestrs.
    dtypes: Texts;
    /// Returns what is known of NumPy's arrays.
    arrays: Arrays;
    /// Returns memory for owners.
    free_list: FreeList;
}

// SAFETY: an interpreter is used with its GIL held: other threads do not reach what is private here
// (`Here`). In free-threaded builds `Texts` is not used, `Arrays` is not written, and the rest are
// atomics.
unsafe impl Sync for Interpreter {}

/// The interpreters: the first one, from which the others follow. Each is leaked.
static INTERPRETERS: Link = Link(AtomicPtr::new(ptr::null_mut()));

struct Link(AtomicPtr<Interpreter>);

impl Link {
    #[inline(always)]
    fn get(&self) -> Option<&'static Interpreter> {
        // SAFETY: NULL or leaked; not changed after it was added.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Adds an interpreter before that of `new.next`. Gives it back if another thread was faster.
    fn add(
        &self,
        new: Box<Interpreter>,
    ) -> std::result::Result<&'static Interpreter, Box<Interpreter>> {
        let next = new.next.0.load(Ordering::Relaxed);
        let new = Box::into_raw(new);
        match self.0.compare_exchange(next, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: leaked from here on.
            Ok(_) => Ok(unsafe { &*new }),
            // SAFETY: published nowhere.
            Err(_) => Err(unsafe { Box::from_raw(new) }),
        }
    }
}

/// Returns an interpreter that was used before. May be called by any thread.
pub fn known(id: i64) -> Option<&'static Interpreter> {
    let mut all = std::iter::successors(INTERPRETERS.get(), |interpreter| interpreter.next.get());
    all.find(|interpreter| interpreter.id == id)
}

impl<'py> Attached<'py> {
    /// Returns the interpreter that the thread is in, if it was used before.
    #[inline(always)]
    pub fn current(self) -> Option<Py<'py>> {
        let state = self.state();
        let interpreter = match INTERPRETERS.get()? {
            // The main interpreter ends last, so its structure is not reused before `forget_all`.
            first if first.state == state && first.id == 0 => first,
            _ => known(self.id())?,
        };
        // SAFETY: the thread is attached to this interpreter.
        Some(unsafe { Py::attached_to(interpreter) })
    }

    /// Returns the thread's interpreter, made at first use. Releases what other threads left.
    #[inline]
    pub fn enter(self) -> Result<Py<'py>> {
        let Some(py) = self.current() else { return make(self) };
        if !py.deferred.is_empty() {
            py.release_deferred();
        }
        Ok(py)
    }
}

#[cold]
#[inline(never)]
fn make<'py>(attached: Attached<'py>) -> Result<Py<'py>> {
    let (capi, state, id) = (*attached.capi(), attached.state(), attached.id());
    let Some(names) = Names::new(attached) else {
        return Err(Failure::no_memory(size_of::<Interpreter>()));
    };
    let mut new = memory::boxed(Interpreter {
        capi,
        id,
        state,
        names,
        types: Types::new(),
        exports: Class::new(),
        views: Class::new(),
        dictionary: Once::new(),
        view: Once::new(),
        dlpack_keywords: Once::new(),
        texts: Texts::new(),
        dtypes: Texts::new(),
        arrays: Arrays::new(),
        free_list: FreeList::new(),
        deferred: Queue::default(),
        decref: Release::new(&capi),
        next: Link(AtomicPtr::new(ptr::null_mut())),
    })?;
    let is_first = loop {
        // Another thread of a free-threaded build may be faster.
        let first = INTERPRETERS.get();
        // The first place is the fast one; nearly always it belongs to the main interpreter.
        let place = first.map_or(&INTERPRETERS, |first| &first.next);
        let next = first.and(place.get()).map_or(ptr::null(), ptr::from_ref);
        // Nothing is added after this look, or `add` fails: all places but the first are added
        // where `place` is.
        if known(id).is_some() {
            return attached.current().ok_or_else(Failure::internal);
        }
        new.next = Link(AtomicPtr::new(next.cast_mut()));
        match place.add(new) {
            Ok(_) => break first.is_none(),
            Err(again) => new = again,
        }
    };
    if is_first {
        // If CPython cannot store one more function, an interpreter that is started again in this
        // process is taken for the old one.
        attached.at_exit(forget_all);
    }
    let py = attached.current().ok_or_else(Failure::internal)?;
    if capi.facts.version < THREADS_NEVER_END {
        at_exit::register(py);
    }
    Ok(py)
}

/// From this version on, CPython suspends a thread that it would have ended before.
const THREADS_NEVER_END: u32 = 0x030e;

/// Forgets every interpreter: the runtime has ended.
extern "C-unwind" fn forget_all() {
    INTERPRETERS.0.store(ptr::null_mut(), Ordering::Release);
}
