//! Python objects as Rust values: [`Py`] proves that the thread may use them, [`Obj`] borrows one,
//! [`Owned`] holds a reference, and their methods are the safe part of CPython's interface.
//!
//! NULL and -1 become a failure here, and only here: it says that an exception is set.

mod attached;
mod buffer;
mod constants;
mod containers;
mod object;
mod owned;
mod places;
mod table;
mod types;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

pub use attached::Attached;
pub use buffer::{Buffer, Lent, Stated, release_lent};
pub use constants::{Builtin, Exception};
use containers::NewTuple;
pub use containers::{Dict, Dictionary, Tuple};
pub use object::{Int, Name, Obj};
pub use owned::{Once, Owned, Pending};
pub use places::{Places, find_places};
pub use table::{Capi, ObjectLayout};
use table::{New, Saved};
pub use types::{Type, TypeObj};

use crate::abi;
use crate::error::{Failure, Result, failure};
use crate::python::capi::{self, CapsuleDestructor, Object};
use crate::python::interpreter::Interpreter;

/// The proof that the calling thread holds an interpreter's GIL (in a free-threaded build: is
/// attached to it) during `'py`.
#[derive(Clone, Copy)]
pub struct Py<'py> {
    interpreter: &'static Interpreter,
    /// The pointer makes it neither `Send` nor `Sync`.
    thread: PhantomData<(&'py (), *mut ())>,
}

impl Deref for Py<'_> {
    type Target = Interpreter;

    #[inline(always)]
    fn deref(&self) -> &Interpreter {
        self.interpreter
    }
}

impl<'py> Py<'py> {
    /// Runs `body` if the calling thread is in an interpreter; fails otherwise.
    pub fn with<T>(body: impl for<'a> FnOnce(Py<'a>) -> Result<T>) -> Result<T> {
        Attached::entered(|py| body(py?))
    }

    /// Runs `body` with `py`, or, without it, as [`Py::with`] does.
    #[inline(always)]
    pub fn with_known<T>(
        py: Option<Py<'_>>,
        body: impl for<'a> FnOnce(Py<'a>) -> Result<T>,
    ) -> Result<T> {
        match py {
            Some(py) => body(py),
            None => Py::with(body),
        }
    }

    /// Runs `body`, which receives the interpreter that this thread is in, if it was used before
    /// and nothing waits for its release: no code of Python runs then.
    #[inline(always)]
    pub fn with_ready<T>(body: impl for<'a> FnOnce(Option<Py<'a>>) -> T) -> T {
        let Some(capi) = capi::found() else { return body(None) };
        Attached::with(capi, |attached| {
            body(attached.and_then(Attached::current).filter(|py| py.deferred.is_empty()))
        })
    }

    /// Returns true if objects were exported before. Then the next export runs no code of Python
    /// either: it allocates an object that the garbage collector does not know.
    #[inline(always)]
    pub fn has_exported(self) -> bool {
        self.exports().is_made()
    }

    /// The proof for a thread that is attached to `interpreter`.
    ///
    /// # Safety
    /// The calling thread is attached to it during `'py`, except where it calls code that detaches
    /// it and attaches it again.
    #[inline(always)]
    pub unsafe fn attached_to(interpreter: &'static Interpreter) -> Self {
        Py { interpreter, thread: PhantomData }
    }

    /// Returns CPython's functions.
    #[inline(always)]
    pub fn capi(&self) -> &'static Capi {
        &self.interpreter.capi
    }

    pub fn interpreter(&self) -> &'static Interpreter {
        self.interpreter
    }

    /// Runs `body` without the GIL, which other threads may hold meanwhile.
    ///
    /// # Safety
    /// `body` uses no Python: neither this value nor an object.
    pub unsafe fn without_lock<T>(self, body: impl FnOnce() -> T) -> T {
        /// Takes the GIL again when dropped.
        struct Detached(&'static Capi, Option<Saved>);
        impl Drop for Detached {
            fn drop(&mut self) {
                if let Some(saved) = self.1.take() {
                    (self.0.restore_thread)(saved);
                }
            }
        }
        let _detached = Detached(self.capi(), (self.capi().save_thread)());
        body()
    }

    /// Runs `body`, during which no other thread of a free-threaded build changes `object`. Without
    /// free threading the GIL prevents it. If something in `body` runs Python code or blocks,
    /// CPython lets other threads in meanwhile.
    #[inline(always)]
    pub fn locked<T>(self, object: Obj, body: impl FnOnce() -> T) -> T {
        type End = unsafe extern "C-unwind" fn(*mut [usize; 4]);
        /// Ends the section when dropped, if there is one. The memory is that of CPython's
        /// structure, of two words so far, and must not move.
        struct Section<'a>(Option<End>, &'a mut MaybeUninit<[usize; 4]>);
        impl Drop for Section<'_> {
            #[inline(always)]
            fn drop(&mut self) {
                if let Some(end) = self.0 {
                    // SAFETY: the thread is attached, and began this section last.
                    unsafe { end(self.1.as_mut_ptr()) };
                }
            }
        }
        let (capi, mut memory) = (self.capi(), MaybeUninit::uninit());
        let mut section = Section(None, &mut memory);
        if capi.facts.free_threaded {
            if let (Some(begin), end @ Some(_)) = (capi.section_begin, capi.section_end) {
                // SAFETY: the thread is attached, and the object is alive; the memory stays where it
                // is until the section ends.
                unsafe { begin(section.1.as_mut_ptr(), object.as_ptr()) };
                section.0 = end;
            }
        }
        body()
    }

    /// Releases a reference. Runs the object's finalizer.
    ///
    /// # Safety
    /// NULL, or a reference that the caller gives away.
    #[inline]
    pub unsafe fn release(self, object: *mut Object) {
        self.give_up(object.into());
    }

    /// Releases a reference.
    #[inline]
    fn give_up(self, object: New) {
        if object.0.is_some() {
            self.decref.call(object);
        }
    }

    /// Takes over the result of a function of CPython: NULL means that an exception is set.
    ///
    /// # Safety
    /// NULL, or a reference that the caller gives away.
    #[inline(always)]
    pub unsafe fn take(self, object: *mut Object) -> Result<Owned<'py>> {
        self.made(New(NonNull::new(object)))
    }

    /// Takes over the result of a function of CPython.
    #[inline(always)]
    fn made(self, new: New) -> Result<Owned<'py>> {
        match new.0 {
            Some(object) => Ok(Owned { object, py: self }),
            None => raised(),
        }
    }

    /// Returns an object that CPython has itself.
    #[inline(always)]
    pub fn builtin(self, object: Builtin) -> Obj<'py> {
        object.of(self.into())
    }

    #[inline(always)]
    pub fn none(self) -> Obj<'py> {
        self.builtin(Builtin::None)
    }

    #[inline(always)]
    pub fn bool(self, value: bool) -> Obj<'py> {
        self.builtin(if value { Builtin::True } else { Builtin::False })
    }

    pub fn int(self, value: i64) -> Result<Owned<'py>> {
        self.made((self.capi().long_from_signed)(value))
    }

    pub fn unsigned(self, value: u64) -> Result<Owned<'py>> {
        self.made((self.capi().long_from_unsigned)(value))
    }

    pub fn string(self, text: &[u8]) -> Result<Owned<'py>> {
        // SAFETY: the GIL is held, and the text has this length. The result is new.
        unsafe {
            self.take((self.capi().str_from)(text.as_ptr().cast::<c_char>(), text.len() as isize))
        }
    }

    #[inline(always)]
    pub fn tuple(
        self,
        count: usize,
        mut item: impl FnMut(usize) -> Result<Owned<'py>>,
    ) -> Result<Owned<'py>> {
        let tuple = NewTuple::new(self, count)?;
        for index in 0..count {
            tuple.set(index, item(index)?);
        }
        Ok(tuple.into_object())
    }

    #[inline]
    pub fn tuple_of_ints(self, values: &[i64]) -> Result<Owned<'py>> {
        let mut values = values.iter();
        self.tuple(values.len(), |_| values.next().map_or_else(raised, |&value| self.int(value)))
    }

    #[inline(always)]
    pub fn pair(self, first: Owned<'py>, second: Owned<'py>) -> Result<Owned<'py>> {
        let pair = NewTuple::new(self, 2)?;
        pair.set(0, first);
        pair.set(1, second);
        Ok(pair.into_object())
    }

    /// # Safety
    /// `pointer` refers to what consumers of capsules with this name expect, as long as they use
    /// it, and the destructor, if there is one, accepts such a capsule.
    pub unsafe fn capsule(
        self,
        pointer: *mut c_void,
        name: &'static CStr,
        destructor: Option<CapsuleDestructor>,
    ) -> Result<Owned<'py>> {
        // SAFETY: the GIL is held; the capsule refers to the name. The result is new.
        unsafe { self.take((self.capi().capsule_new)(pointer, name.as_ptr(), destructor)) }
    }

    /// Returns a string from the cache, or caches it: for the few typestrs that arrays have.
    pub fn typestr(self, text: &[u8]) -> Result<Owned<'py>> {
        if let Some(known) = self.texts().get(text) {
            return Ok(known.share(self));
        }
        let made = self.string(text)?;
        self.texts().add(text, made.obj());
        Ok(made)
    }

    pub fn import(self, module: &CStr) -> Result<Owned<'py>> {
        self.made((self.capi().import)(module.into()))
    }

    /// Returns a module that was imported before; `None` if it was not.
    pub fn imported(self, module: Obj) -> Result<Option<Owned<'py>>> {
        match (self.capi().imported)(module).0 {
            Some(object) => Ok(Some(Owned { object, py: self })),
            None if self.has_exception() => raised(),
            None => Ok(None),
        }
    }

    pub fn has_exception(self) -> bool {
        (self.capi().error_occurred)().is_some()
    }

    pub fn raised(self, class: Exception) -> bool {
        // An exception has to be set when CPython is asked.
        self.has_exception() && (self.capi().error_matches)(class.object(self)) != 0
    }

    pub fn clear(self) {
        (self.capi().error_clear)();
    }

    /// Clears the exception that is set if it is of this class. Fails otherwise.
    pub fn clear_if(self, class: Exception) -> Result<()> {
        if !self.raised(class) {
            return Err(python_exception());
        }
        self.clear();
        Ok(())
    }

    /// Sets an exception. If there is no memory for the text, CPython has already set MemoryError.
    pub fn set_exception(self, class: Exception, text: &[u8]) {
        if let Ok(text) = self.string(text) {
            (self.capi().error_set)(class.object(self), text.obj());
        }
    }

    /// Runs code of others, which expects no exception, while one may be set that is not its own.
    pub fn keeping_exception(self, run: impl FnOnce()) {
        Attached::from(self).keeping_exception(run);
    }

    pub fn take_exception(self) -> Pending<'py> {
        Pending::take(self.into())
    }
}

/// The function that releases references of an interpreter.
pub struct Release(AtomicPtr<c_void>);

impl Release {
    /// `Py_DecRef`
    pub fn new(capi: &Capi) -> Self {
        Release(AtomicPtr::new(capi.decref as *mut c_void))
    }

    /// Releases nothing any more in a thread without the GIL: the interpreter is about to end.
    ///
    /// Up to 3.13, CPython ends every thread that asks for the GIL then. The destructors of this
    /// library's stack frames run meanwhile, and must not touch an object.
    pub fn only_if_attached(&self) {
        extern "C-unwind" fn release(object: New) {
            if let Some(capi) = capi::found().filter(|capi| capi.is_attached()) {
                (capi.decref)(object);
            }
        }
        self.0.store(release as *mut c_void, Ordering::Relaxed);
    }

    #[inline(always)]
    fn call(&self, object: New) {
        // SAFETY: only these two functions are stored, which have this type.
        let release = unsafe {
            std::mem::transmute::<*mut c_void, extern "C-unwind" fn(New)>(
                self.0.load(Ordering::Relaxed),
            )
        };
        release(object);
    }
}
/// The result of a function that returns 0, or -1 with an exception.
#[inline(always)]
fn done(status: c_int) -> Result<()> {
    if status == 0 { Ok(()) } else { Err(python_exception()) }
}

/// The result of a function that returns a boolean, or -1 with an exception.
#[inline(always)]
fn truth(status: c_int) -> Result<bool> {
    if status < 0 { Err(python_exception()) } else { Ok(status > 0) }
}

/// Fails because an exception is set.
pub fn raised<T>() -> Result<T> {
    Err(python_exception())
}

/// The failure of a function of Python that raised an exception, which is set.
#[cold]
#[inline(never)]
pub fn python_exception() -> Failure {
    failure!(abi::CAI_ERR_PYTHON_EXCEPTION, "python";
        found "an exception, which is set"; expected "no exception")
}
