//! The proof that a thread is attached to an interpreter, whichever that is.

use std::ffi::c_void;
use std::marker::PhantomData;

use super::table::{New, State};
use super::{Capi, Pending, Py};
use crate::error::Result;
use crate::python::capi::{self, Object};

/// The proof that the calling thread is attached to some interpreter during `'py`, except where it
/// calls code that detaches it and attaches it again.
#[derive(Clone, Copy)]
pub struct Attached<'py> {
    capi: &'py Capi,
    /// The pointer makes it neither `Send` nor `Sync`.
    thread: PhantomData<*mut ()>,
}

impl<'py> From<Py<'py>> for Attached<'py> {
    #[inline(always)]
    fn from(py: Py<'py>) -> Self {
        Attached { capi: py.capi(), thread: PhantomData }
    }
}

impl<'py> Attached<'py> {
    /// Runs `body` with the proof, if the thread is attached. May be called by any thread.
    #[inline(always)]
    pub fn with<T>(capi: &Capi, body: impl for<'a> FnOnce(Option<Attached<'a>>) -> T) -> T {
        let attached = Attached { capi, thread: PhantomData };
        body(capi.is_attached().then_some(attached))
    }

    /// Runs `body` with the interpreter that the thread is in. May be called by any thread.
    #[inline(always)]
    pub fn entered<T>(body: impl for<'a> FnOnce(Result<Py<'a>>) -> T) -> T {
        /// Limits the lifetime of the proof.
        struct Frame;
        // Not inlined, so that the check is not repeated in the code of each caller.
        #[inline(never)]
        fn enter(_: &Frame) -> Result<Py<'_>> {
            let capi = capi::capi()?;
            if !capi.is_attached() {
                return Err(capi::not_attached());
            }
            Attached { capi, thread: PhantomData }.enter()
        }
        body(enter(&Frame))
    }

    /// The proof in a function that CPython calls with the GIL held.
    ///
    /// # Safety
    /// The thread stays attached during `'py`, as the type requires.
    #[inline(always)]
    pub unsafe fn assume(capi: &'py Capi) -> Self {
        Attached { capi, thread: PhantomData }
    }

    /// Returns CPython's functions.
    #[inline(always)]
    pub fn capi(self) -> &'py Capi {
        self.capi
    }

    /// Returns the address of CPython's structure of the interpreter that the thread is in.
    #[inline(always)]
    pub fn state(self) -> *mut c_void {
        self.structure().0
    }

    #[inline(always)]
    fn structure(self) -> State {
        (self.capi.interpreter)()
    }

    /// Returns the id of that interpreter.
    pub fn id(self) -> i64 {
        (self.capi.interpreter_id)(self.structure())
    }

    /// Has a function called after the last interpreter has ended, if CPython can store one more.
    pub fn at_exit(self, function: extern "C-unwind" fn()) {
        (self.capi.at_exit)(function);
    }

    /// Releases a reference.
    ///
    /// # Safety
    /// NULL, or a reference that the caller gives away.
    #[inline(always)]
    pub unsafe fn release(self, object: *mut Object) {
        if !object.is_null() {
            (self.capi.decref)(New::from(object));
        }
    }

    /// Runs code of others, which expects no exception, while one may be set that is not its own:
    /// CPython may call the destructor of an object with an exception set.
    #[inline(always)]
    pub fn keeping_exception(self, run: impl FnOnce()) {
        if (self.capi.error_occurred)().is_none() {
            return run();
        }
        let kept = Pending::take(self);
        run();
        kept.restore();
    }
}
