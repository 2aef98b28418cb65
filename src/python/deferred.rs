//! Releases what owners of Python objects hold, from any thread.
//!
//! A thread that is in the interpreter of the objects releases them at once. Any other thread adds
//! them to a list of the interpreter, without waiting and without memory of its own.

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use crate::observer;
use crate::owner::Destructor;
use crate::python::capi::Object;
use crate::python::interpreter::{Interpreter, known};
use crate::python::py::{Attached, Owned, Py};
use crate::unwind;

/// Contents of an owner that are released with the GIL held. No Drop: release takes a [`Py`].
pub struct Held {
    /// One reference each, or NULL.
    objects: [*mut Object; 2],
    /// The deleter of a tensor, which may run Python code.
    destructor: Destructor,
}

impl Held {
    #[inline(always)]
    pub fn objects(object: Owned, more: Option<Owned>) -> Self {
        let objects = [object.into_raw(), more.map_or(ptr::null_mut(), Owned::into_raw)];
        Held { objects, destructor: Destructor::NONE }
    }

    /// Takes the argument of a destructor over.
    #[inline(always)]
    pub fn destructor(destructor: Destructor) -> Self {
        Held { objects: [ptr::null_mut(); 2], destructor }
    }

    #[inline]
    pub fn release(self, py: Py) {
        for object in self.objects {
            // SAFETY: NULL, or a reference that `objects` took over. This value ends.
            unsafe { py.release(object) };
        }
        self.destructor.run();
    }
}

/// Contents of an owner, in the owner's own memory.
pub struct Deferred {
    next: *mut Deferred,
    held: Held,
    /// Frees the memory that contains this.
    free: unsafe fn(Py<'_>, NonNull<Deferred>),
}

impl Deferred {
    /// # Safety
    /// `free` may be called with the address of this value once nothing else uses its memory.
    #[inline(always)]
    pub unsafe fn new(held: Held, free: unsafe fn(Py, NonNull<Deferred>)) -> Self {
        Deferred { next: ptr::null_mut(), held, free }
    }
}

/// Contents of a destroyed owner, in memory that nothing else uses. It is leaked if it is dropped.
pub struct Ended(NonNull<Deferred>);

impl Ended {
    /// # Safety
    /// The owner was destroyed, and nothing else uses its memory.
    #[inline(always)]
    pub unsafe fn new(deferred: NonNull<Deferred>) -> Self {
        Ended(deferred)
    }

    #[inline(always)]
    fn release(self, py: Py) {
        // SAFETY: nothing else uses the memory (the contract of `new`), which is read and then
        // freed. The memory is free before code of others runs, which may end the thread.
        let held = unsafe {
            let Deferred { held, free, .. } = self.0.read();
            free(py, self.0);
            held
        };
        held.release(py);
    }

    /// Releases everything: at once if the thread is in `interpreter`, otherwise when the
    /// interpreter gets to it. After the end of the interpreter nothing is done: the memory leaks;
    /// the objects were lost before. May be called by any thread.
    #[inline]
    pub fn release_from_anywhere(self, interpreter: &'static Interpreter) {
        Attached::with(&interpreter.capi, |attached| match attached.and_then(Attached::current) {
            Some(py) if ptr::eq(py.interpreter(), interpreter) => self.release(py),
            _ => queue(interpreter, self),
        });
    }
}

/// Adds to the list of an interpreter, and asks CPython to call back.
#[cold]
#[inline(never)]
fn queue(interpreter: &'static Interpreter, ended: Ended) {
    let (capi, queue) = (&interpreter.capi, &interpreter.deferred);
    if capi.is_ending() {
        return;
    }
    queue.push(ended);
    // CPython runs pending calls in the main interpreter only. Others release these objects when
    // they use this library next.
    if interpreter.id != MAIN || queue.is_called.swap(true, Ordering::AcqRel) {
        return;
    }
    let Some(_adding) = Adding::begin(queue) else { return };
    // SAFETY: may be called by any thread, with or without the GIL. The lock that it takes exists:
    // up to 3.12, CPython frees it at its end, before which `close` waits for `_adding`.
    if unsafe { (capi.add_pending_call)(called_back, ptr::null_mut()) } != 0 {
        // The queue of pending calls is full: the next release tries again.
        queue.is_called.store(false, Ordering::Release);
    }
}

/// A thread requests a pending call while this exists.
struct Adding<'a>(&'a Queue);

impl<'a> Adding<'a> {
    /// Begins, unless the interpreter is about to end.
    fn begin(queue: &'a Queue) -> Option<Self> {
        let more = |adding| (adding & CLOSED == 0).then_some(adding + 1);
        let begun = queue.adding.fetch_update(Ordering::Acquire, Ordering::Relaxed, more);
        begun.ok().map(|_| Adding(queue))
    }
}

impl Drop for Adding<'_> {
    fn drop(&mut self) {
        self.0.adding.fetch_sub(1, Ordering::Release);
    }
}

/// In `Queue.adding`: no thread requests a pending call any more.
const CLOSED: u32 = 1 << 31;

/// The id of the main interpreter.
const MAIN: i64 = 0;

/// Runs on the main thread, with the GIL held.
unsafe extern "C-unwind" fn called_back(_: *mut c_void) -> c_int {
    let Some(interpreter) = known(MAIN) else { return 0 };
    interpreter.deferred.is_called.store(false, Ordering::Release);
    Attached::with(&interpreter.capi, |attached| {
        // Up to 3.11, the main thread may be in a sub-interpreter; then the objects are released at
        // the next call.
        if let Some(py) = attached.and_then(Attached::current).filter(|py| py.id == MAIN) {
            let _ = unwind::catch(|| py.release_deferred());
        }
    });
    0
}

/// Contents of owners that threads without the GIL left to an interpreter.
#[derive(Default)]
pub struct Queue {
    first: AtomicPtr<Deferred>,
    /// A thread releases the list.
    is_releasing: AtomicBool,
    /// A pending call was requested.
    is_called: AtomicBool,
    /// The number of threads that are requesting one, and [`CLOSED`].
    adding: AtomicU32,
}

impl Queue {
    /// Requests no pending calls any more, and waits until those that are being requested have
    /// been: that takes a moment, and no GIL. Threads that a fork left behind are not waited for
    /// forever. What is added to the list from here on is released at the next use of this library.
    pub fn close(&self) {
        const MOST: u32 = 1000;
        // Acquire: the requests happen before the end of the interpreter.
        self.adding.fetch_or(CLOSED, Ordering::Acquire);
        for _ in 0..MOST {
            if self.adding.load(Ordering::Acquire) == CLOSED {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.first.load(Ordering::Relaxed).is_null()
    }

    fn push(&self, ended: Ended) {
        observer::notify_before((&raw const self.first).cast());
        let new = ended.0.as_ptr();
        let mut first = self.first.load(Ordering::Relaxed);
        loop {
            // SAFETY: not in the list yet, so nothing else uses it.
            unsafe { (*new).next = first };
            // Release: pairs with the Acquire of the thread that takes the list.
            let (success, failure) = (Ordering::Release, Ordering::Relaxed);
            match self.first.compare_exchange_weak(first, new, success, failure) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    fn take(&self) -> List {
        // Acquire: pairs with the Release in `push`.
        let first = self.first.swap(ptr::null_mut(), Ordering::Acquire);
        if !first.is_null() {
            observer::notify_after((&raw const self.first).cast());
        }
        List(first)
    }
}

struct List(*mut Deferred);

impl Iterator for List {
    type Item = Ended;

    fn next(&mut self) -> Option<Ended> {
        let first = NonNull::new(self.0)?;
        // SAFETY: only `push` adds to the list, and the whole list was taken.
        self.0 = unsafe { first.as_ref() }.next;
        Some(Ended(first))
    }
}

impl Py<'_> {
    #[cold]
    #[inline(never)]
    pub fn release_deferred(self) {
        let queue = &self.interpreter().deferred;
        // Finalizers that run here may use this library, in this thread or in others. What they add
        // to the list is released by this loop.
        if queue.is_releasing.swap(true, Ordering::Relaxed) {
            return;
        }
        let _releasing = Releasing(queue);
        // The caller may be raising a failure, or be in a destructor.
        self.keeping_exception(|| {
            while !queue.is_empty() {
                queue.take().for_each(|ended| ended.release(self));
            }
        });
    }
}

/// The list is being released while this exists.
struct Releasing<'a>(&'a Queue);

impl Drop for Releasing<'_> {
    fn drop(&mut self) {
        self.0.is_releasing.store(false, Ordering::Relaxed);
    }
}
