//! Per-interpreter state: names, what types offer, and objects that wait for their release.
//!
//! The state is leaked when the interpreter ends: its objects are gone, and arrays may outlive it.

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crate::error::{Failure, Result};
use crate::memory;
use crate::observer;
use crate::python::at_exit;
use crate::python::cache::Types;
use crate::python::capi::{Capi, Object};
use crate::python::class::Class;
use crate::python::export::object::Exported;
use crate::python::names::Names;
use crate::python::py::{Calls, Once, Py};
use crate::python::texts::Texts;
use crate::python::view::object::View;
use crate::unwind;

/// One interpreter, from its first use on.
pub struct Interpreter {
    pub capi: &'static Capi,
    /// The same functions for [`Py`] and objects.
    pub calls: Calls,
    /// The id, which CPython counts from 0, the main interpreter.
    pub id: i64,
    /// CPython's own structure. That of a sub-interpreter may be reused for a new one.
    pub state: *mut c_void,
    /// Interned names.
    pub names: Names,
    /// What types offer.
    pub types: Types,
    /// The class of exported objects.
    pub exports: Class<Exported>,
    /// The class of views.
    pub views: Class<View>,
    /// The dictionary that those of exported arrays are copied from.
    pub dictionary: Once,
    /// The function that makes views.
    pub view: Once,
    /// Typestrs as Python strings.
    pub texts: Texts,
    /// NumPy's types of typestrs.
    pub dtypes: Texts,
    /// Memory for owners.
    pub spare: Spare,
    /// Objects released by threads without the GIL.
    pub waiting: AtomicPtr<Waiting>,
    /// A thread releases the objects that wait.
    pub is_releasing: AtomicBool,
    /// `Py_DecRef`; once the interpreter is about to end, [`capi::release_if_attached`].
    pub decref: AtomicPtr<c_void>,
    /// A pending call was requested for them.
    pub is_called: AtomicBool,
    pub next: AtomicPtr<Interpreter>,
}

/// What an owner of Python objects holds. If a thread without the GIL releases the owner, this
/// waits in the owner's own memory.
pub struct Waiting {
    pub next: *mut Waiting,
    pub held: Held,
    /// Frees the memory that contains this.
    pub free: unsafe fn(Py<'_>, *mut Waiting),
}

/// What is released with the GIL held.
#[derive(Clone, Copy)]
pub struct Held {
    /// One reference each, or NULL.
    pub objects: [*mut Object; 2],
    /// NULL, or a function that is called with `context`: the deleter of a tensor, which may run
    /// Python code.
    pub finish: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
    /// The argument of `finish`.
    pub context: *mut c_void,
}

impl Waiting {
    /// Fills in the memory of an owner.
    pub fn new(held: Held, free: unsafe fn(Py, *mut Waiting)) -> Self {
        Waiting { next: ptr::null_mut(), held, free }
    }
}

/// A free list of memory of destroyed owners. Used with the GIL held, and not at all in
/// free-threaded builds.
pub struct Spare {
    first: AtomicPtr<Unused>,
    count: AtomicU32,
}

struct Unused {
    next: *mut Unused,
}

impl Spare {
    const MOST: u32 = 64;

    fn new() -> Self {
        Spare { first: AtomicPtr::new(ptr::null_mut()), count: AtomicU32::new(0) }
    }

    /// Takes a piece. Only the thread that holds the GIL uses the list, so plain loads and stores
    /// suffice.
    #[inline]
    pub fn take(&self, _: Py) -> Option<NonNull<u8>> {
        let first = NonNull::new(self.first.load(Ordering::Relaxed))?;
        // SAFETY: `put` wrote the link there.
        self.first.store(unsafe { first.as_ref() }.next, Ordering::Relaxed);
        self.count.store(self.count.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        Some(first.cast())
    }

    /// Puts memory back, unless the list is full.
    ///
    /// # Safety
    /// `memory` is unused, of the size that all pieces here have, and aligned like a pointer.
    #[inline]
    pub unsafe fn put(&self, py: Py, memory: *mut u8) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        if count >= Self::MOST || py.capi().facts.free_threaded {
            return false;
        }
        // SAFETY: the memory is unused and large enough (this function's contract).
        unsafe {
            memory.cast::<Unused>().write(Unused { next: self.first.load(Ordering::Relaxed) })
        };
        self.first.store(memory.cast(), Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Relaxed);
        true
    }
}

// SAFETY: an interpreter is used with its GIL held. In free-threaded builds `Texts` is not used,
// and the rest are atomics.
unsafe impl Sync for Interpreter {}

static INTERPRETERS: AtomicPtr<Interpreter> = AtomicPtr::new(ptr::null_mut());

impl Py<'_> {
    /// Releases what other threads left.
    #[cold]
    #[inline(never)]
    fn release_waiting(self) {
        // Finalizers that run here may use this library, in this thread or in others. What they add
        // to the list is released by this loop.
        if self.is_releasing.swap(true, Ordering::Relaxed) {
            return;
        }
        let _releasing = Releasing(self.interpreter());
        loop {
            // Acquire: pairs with the Release in `push`.
            let mut waiting = self.waiting.swap(ptr::null_mut(), Ordering::Acquire);
            if waiting.is_null() {
                break;
            }
            observer::notify_after((&raw const self.waiting).cast());
            while !waiting.is_null() {
                // SAFETY: only `push` adds to the list, and the whole list was taken.
                let Waiting { next, held, free } = unsafe { waiting.read() };
                // SAFETY: the memory was taken from the list, so nothing else uses it.
                unsafe { free(self, waiting) };
                self.release_held(held);
                waiting = next;
            }
        }
    }

    /// Releases what an owner held.
    #[inline]
    fn release_held(self, held: Held) {
        for object in held.objects {
            self.release(object);
        }
        if let Some(finish) = held.finish {
            // SAFETY: the function belongs to this context, and is called once.
            unsafe { finish(held.context) };
        }
    }
}

/// The objects that wait are being released while this exists.
struct Releasing(&'static Interpreter);

impl Drop for Releasing {
    fn drop(&mut self) {
        self.0.is_releasing.store(false, Ordering::Relaxed);
    }
}

/// Returns the interpreter that the calling thread is in, which is made at its first use, and
/// releases what other threads left.
///
/// # Safety
/// The calling thread is attached during `'py`.
#[inline]
pub unsafe fn attached<'py>(capi: &'static Capi) -> Result<Py<'py>> {
    // SAFETY: the thread is attached (this function's contract).
    unsafe {
        let Some(interpreter) = current(capi) else { return Ok(Py::attached_to(make(capi)?)) };
        let py = Py::attached_to(interpreter);
        if !interpreter.waiting.load(Ordering::Relaxed).is_null() {
            py.release_waiting();
        }
        Ok(py)
    }
}

/// Returns the interpreter that the calling thread is in, if it was used before.
///
/// # Safety
/// The calling thread is attached.
#[inline(always)]
pub unsafe fn current(capi: &Capi) -> Option<&'static Interpreter> {
    // SAFETY: the thread is attached (this function's contract).
    let state = unsafe { (capi.interpreter)() };
    // SAFETY: NULL or leaked.
    match unsafe { INTERPRETERS.load(Ordering::Acquire).as_ref() } {
        // The main interpreter ends last, so its structure is not reused before `forget_all`.
        Some(first) if first.state == state && first.id == 0 => Some(first),
        // SAFETY: the thread is attached (this function's contract).
        Some(_) => known(unsafe { (capi.interpreter_id)(state) }),
        None => None,
    }
}

pub fn known(id: i64) -> Option<&'static Interpreter> {
    let mut next = INTERPRETERS.load(Ordering::Acquire).cast_const();
    // SAFETY: NULL or leaked; not changed after it was added.
    while let Some(interpreter) = unsafe { next.as_ref() } {
        if interpreter.id == id {
            return Some(interpreter);
        }
        next = interpreter.next.load(Ordering::Acquire).cast_const();
    }
    None
}

/// Adds the interpreter that this thread is in.
///
/// # Safety
/// The calling thread is attached.
#[cold]
#[inline(never)]
unsafe fn make(capi: &'static Capi) -> Result<&'static Interpreter> {
    // SAFETY: the thread is attached (this function's contract).
    let (state, names) = unsafe { ((capi.interpreter)(), Names::new(capi)) };
    // SAFETY: the thread is attached (this function's contract).
    let id = unsafe { (capi.interpreter_id)(state) };
    let Some(names) = names else {
        // SAFETY: the thread is attached (this function's contract).
        unsafe { (capi.error_clear)() };
        return Err(Failure::no_memory(size_of::<Interpreter>()));
    };
    let mut made = memory::boxed(Interpreter {
        capi,
        calls: Calls::new(capi),
        id,
        state,
        names,
        types: Types::new(),
        exports: Class::new(),
        views: Class::new(),
        dictionary: Once::new(),
        view: Once::new(),
        texts: Texts::new(),
        dtypes: Texts::new(),
        spare: Spare::new(),
        waiting: AtomicPtr::new(ptr::null_mut()),
        is_releasing: AtomicBool::new(false),
        decref: AtomicPtr::new(capi.decref as *mut c_void),
        is_called: AtomicBool::new(false),
        next: AtomicPtr::new(ptr::null_mut()),
    })?;
    let (interpreter, is_first) = loop {
        // Another thread of a free-threaded build may be faster.
        let first = INTERPRETERS.load(Ordering::Acquire);
        // SAFETY: NULL or leaked.
        let (place, next) = match unsafe { first.as_ref() } {
            // The first place is the fast one; nearly always it belongs to the main interpreter.
            Some(first) => (&first.next, first.next.load(Ordering::Acquire)),
            None => (&INTERPRETERS, ptr::null_mut()),
        };
        // Nothing is added after this look, or the exchange below fails: all places but the first
        // are added where `place` is.
        if let Some(known) = known(id) {
            return Ok(known);
        }
        made.next = AtomicPtr::new(next);
        let new = Box::into_raw(made);
        match place.compare_exchange(next, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: leaked from here on.
            Ok(_) => break (unsafe { &*new }, ptr::eq(place, &INTERPRETERS)),
            // SAFETY: published nowhere.
            Err(_) => made = unsafe { Box::from_raw(new) },
        }
    };
    if is_first {
        // If CPython cannot store one more function, an interpreter that is started again in this
        // process is taken for the old one.
        // SAFETY: the thread is attached (this function's contract).
        unsafe { (capi.at_exit)(forget_all) };
    }
    if capi.facts.version < THREADS_NEVER_END {
        // SAFETY: the thread is attached to it (this function's contract).
        at_exit::register(unsafe { Py::attached_to(interpreter) });
    }
    Ok(interpreter)
}

/// From this version on, CPython suspends a thread that it would have ended before.
const THREADS_NEVER_END: u32 = 0x030e;

/// Forgets every interpreter: the runtime has ended.
unsafe extern "C-unwind" fn forget_all() {
    INTERPRETERS.store(ptr::null_mut(), Ordering::Release);
}

impl Interpreter {
    /// Adds to the list.
    ///
    /// # Safety
    /// `waiting` is in memory that nothing else uses.
    unsafe fn push(&self, waiting: *mut Waiting) {
        observer::notify_before((&raw const self.waiting).cast());
        let mut first = self.waiting.load(Ordering::Relaxed);
        loop {
            // SAFETY: not in the list yet, so nothing else uses it (this function's contract).
            unsafe { (*waiting).next = first };
            // Release: pairs with the Acquire of the thread that takes the list.
            match self.waiting.compare_exchange_weak(
                first,
                waiting,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }
}

/// Releases the references in `waiting`, from any thread: at once if the thread is in
/// `interpreter`, otherwise when the interpreter gets to it. After the end of the interpreter
/// nothing is done: the memory leaks; the objects were lost before.
///
/// # Safety
/// `waiting` is in memory that nothing else uses; its objects belong to `interpreter`.
pub unsafe fn release_from_anywhere(interpreter: &'static Interpreter, waiting: *mut Waiting) {
    let capi = interpreter.capi;
    // SAFETY: called only if the thread is attached, which no thread is after the end.
    if capi.is_attached() && unsafe { current(capi) }.is_some_and(|here| ptr::eq(here, interpreter))
    {
        // SAFETY: nothing else uses it (this function's contract).
        let Waiting { held, free, .. } = unsafe { waiting.read() };
        // SAFETY: the thread is attached to it, as checked above.
        let py = unsafe { Py::attached_to(interpreter) };
        // SAFETY: `waiting` was read, and nothing else uses its memory (this function's contract).
        unsafe { free(py, waiting) };
        py.release_held(held);
        return;
    }
    // SAFETY: the contract is that of this function.
    unsafe { queue_release(interpreter, waiting) }
}

/// As [`release_from_anywhere`], for threads that are not in `interpreter`.
///
/// # Safety
/// As for [`release_from_anywhere`].
#[cold]
#[inline(never)]
unsafe fn queue_release(interpreter: &'static Interpreter, waiting: *mut Waiting) {
    let capi = interpreter.capi;
    if capi.is_ending() {
        return;
    }
    // SAFETY: nothing else uses it (this function's contract).
    unsafe { interpreter.push(waiting) };
    // CPython runs pending calls in the main interpreter only. Others release these objects when
    // they use this library next.
    if interpreter.id != 0 || interpreter.is_called.swap(true, Ordering::AcqRel) {
        return;
    }
    let argument = ptr::from_ref(interpreter).cast_mut().cast();
    // SAFETY: may be called by any thread, with or without the GIL.
    if unsafe { (capi.add_pending_call)(called_back, argument) } != 0 {
        // The queue of pending calls is full: the next release tries again.
        interpreter.is_called.store(false, Ordering::Release);
    }
}

/// Runs on the main thread, with the GIL held.
unsafe extern "C-unwind" fn called_back(interpreter: *mut c_void) -> c_int {
    let interpreter = interpreter.cast::<Interpreter>().cast_const();
    // SAFETY: `queue_release` passed it; interpreters are leaked.
    let interpreter: &'static Interpreter = unsafe { &*interpreter };
    interpreter.is_called.store(false, Ordering::Release);
    // Up to 3.11, the main thread may be in a sub-interpreter; then the objects are released at the
    // next call.
    // SAFETY: the thread is attached, because CPython calls this function.
    let here = unsafe { current(interpreter.capi) };
    if here.is_some_and(|here| ptr::eq(here, interpreter)) {
        // SAFETY: the thread is attached to it, as checked above.
        let py = unsafe { Py::attached_to(interpreter) };
        let _ = unwind::catch(|| py.release_waiting());
    }
    0
}
