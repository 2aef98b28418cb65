//! What is kept for each interpreter: names, what types offer, and objects that wait to be let go.
//!
//! May use: `abi`, `error`, `owner`; of this folder `capi`. `unsafe`: calls CPython with its lock
//! held, which a [`Py`] proves.
//!
//! All of it is leaked when the interpreter ends: its objects are gone, and whoever still holds an
//! array may come later than that.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::{Failure, Result, fail};
use crate::python::cache::Types;
use crate::python::capi::{self, Capi, Object};

macro_rules! names {
    ($($field:ident = $text:literal;)*) => {
        /// Names as interned Python strings, so that most comparisons are of pointers.
        #[allow(missing_docs)]
        pub struct Names { $(pub $field: *mut Object,)* }

        impl Names {
            /// # Safety
            /// The lock is held.
            unsafe fn new(capi: &Capi) -> Option<Self> {
                // SAFETY: the lock is held; the texts are terminated. A few strings are lost where
                // memory runs out.
                unsafe { Some(Names { $($field: NonNull::new((capi.str_intern)($text.as_ptr()))?.as_ptr(),)* }) }
            }
        }
    };
}

names! {
    shape = c"shape";
    typestr = c"typestr";
    data = c"data";
    version = c"version";
    strides = c"strides";
    descr = c"descr";
    mask = c"mask";
    stream = c"stream";
    offset = c"offset";
    syclobj = c"syclobj";
    cuda_array_interface = c"__cuda_array_interface__";
    sycl_usm_array_interface = c"__sycl_usm_array_interface__";
    array_interface = c"__array_interface__";
    array_struct = c"__array_struct__";
    dlpack = c"__dlpack__";
    dlpack_device = c"__dlpack_device__";
    dlpack_exchange = c"__dlpack_c_exchange_api__";
    exchange = c"__cai_exchange_api__";
    max_version = c"max_version";
    module = c"__module__";
    name = c"__name__";
    buffer = c"buffer";
    base_data = c"base_data";
    ptr = c"_ptr";
    int_ptr = c"int_ptr";
    dtype = c"dtype";
    str = c"str";
    context = c"context";
    queue = c"queue";
    get_capsule = c"_get_capsule";
    is_conj = c"is_conj";
    is_neg = c"is_neg";
}

/// One interpreter, from its first use on.
pub struct Interpreter {
    pub capi: &'static Capi,
    /// As CPython counts them, from 0: the main one.
    pub id: i64,
    /// CPython's own structure. That of another interpreter than the main one may be given to a new
    /// one.
    pub state: *mut c_void,
    /// Names.
    pub names: Names,
    /// What types offer.
    pub types: Types,
    /// The type of exported objects, made when it is first needed.
    pub exports: AtomicPtr<Object>,
    /// Typestrs as Python strings.
    pub texts: Texts,
    /// Memory for owners.
    pub spare: Spare,
    /// Objects that were let go by threads without the lock.
    pub waiting: AtomicPtr<Waiting>,
    /// How many owners are being let go, inside of one another or by several threads:
    /// [`Interpreter::deeper`].
    pub depth: AtomicU32,
    /// The interpreter was asked to call back for them.
    pub is_called: AtomicBool,
    pub next: AtomicPtr<Interpreter>,
}

/// What an owner of this folder holds. When the owner is let go by a thread without the lock, it
/// waits in the owner's own memory.
pub struct Waiting {
    pub next: *mut Waiting,
    pub held: Held,
    /// Frees the memory that this lies in.
    pub free: unsafe fn(Py, *mut Waiting),
}

/// What is given up with the interpreter's lock held.
#[derive(Clone, Copy)]
pub struct Held {
    /// One reference each, or NULL.
    pub objects: [*mut Object; 2],
    /// NULL, or what is called with `context`: the deleter of a tensor, which may run Python code.
    pub finish: Option<unsafe extern "C" fn(*mut c_void)>,
    /// See `finish`.
    pub context: *mut c_void,
}

impl Waiting {
    /// For the memory of an owner.
    pub fn new(held: Held, free: unsafe fn(Py, *mut Waiting)) -> Self {
        Waiting { next: ptr::null_mut(), held, free }
    }
}

/// Memory of owners that are gone, for the next ones. Used under the lock, and not at all in builds
/// without one.
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

    /// A piece of it. The owner of an interpreter's lock is alone with its list, so loads and
    /// stores will do.
    #[inline]
    pub fn take(&self, _: Py) -> Option<NonNull<u8>> {
        let first = NonNull::new(self.first.load(Ordering::Relaxed))?;
        // SAFETY: `put` wrote it there.
        self.first.store(unsafe { first.as_ref() }.next, Ordering::Relaxed);
        self.count.store(self.count.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        Some(first.cast())
    }

    /// Puts memory back, unless there is enough of it.
    ///
    /// # Safety
    /// `memory` is nobody's, of the size that all pieces here have, and aligned like a pointer.
    #[inline]
    pub unsafe fn put(&self, py: Py, memory: *mut u8) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        if count >= Self::MOST || py.capi().facts.free_threaded {
            return false;
        }
        // SAFETY: by contract.
        unsafe {
            memory.cast::<Unused>().write(Unused { next: self.first.load(Ordering::Relaxed) })
        };
        self.first.store(memory.cast(), Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Relaxed);
        true
    }
}

/// A few strings that were made before, by their eight first bytes.
pub struct Texts(pub UnsafeCell<[(u64, *mut Object); 64]>);

// SAFETY: an interpreter is used under its lock; in builds without one, `Texts` is not used, and
// the rest are atomics.
unsafe impl Sync for Interpreter {}

/// From here on, owners that hang on one another wait for their turn.
const DEEPEST: u32 = 32;

static INTERPRETERS: AtomicPtr<Interpreter> = AtomicPtr::new(ptr::null_mut());

static MAKING: Mutex<()> = Mutex::new(());

/// The proof that the calling thread holds an interpreter's lock (in a build without one: is
/// attached to it).
#[derive(Clone, Copy)]
pub struct Py {
    pub interpreter: &'static Interpreter,
    /// Other threads have no part in it.
    pub thread: PhantomData<*mut ()>,
}

impl Deref for Py {
    type Target = Interpreter;

    #[inline(always)]
    fn deref(&self) -> &Interpreter {
        self.interpreter
    }
}

impl Py {
    /// The interpreter that this thread is in.
    #[inline]
    pub fn here() -> Result<Py> {
        let capi = capi::capi()?;
        if !capi.is_attached() {
            return capi::not_attached();
        }
        // SAFETY: attached, as was just seen.
        unsafe { Self::attached(capi) }
    }

    /// # Safety
    /// The calling thread is attached.
    #[inline]
    unsafe fn attached(capi: &'static Capi) -> Result<Py> {
        // SAFETY: handed on.
        match unsafe { current(capi) } {
            Some(interpreter) => {
                let py = Py { interpreter, thread: PhantomData };
                if !interpreter.waiting.load(Ordering::Relaxed).is_null() {
                    py.release_waiting();
                }
                Ok(py)
            }
            // SAFETY: handed on.
            None => unsafe { make(capi) },
        }
    }

    /// CPython's functions.
    #[inline(always)]
    pub fn capi(&self) -> &'static Capi {
        self.interpreter.capi
    }

    /// The interpreter, to compare.
    pub fn interpreter(&self) -> &'static Interpreter {
        self.interpreter
    }

    /// Lets go what other threads left.
    #[cold]
    #[inline(never)]
    fn release_waiting(self) {
        // What is let go here puts what it holds into the list, and the list is taken again.
        if self.deeper(DEEPEST) >= DEEPEST {
            self.shallower(DEEPEST);
            return;
        }
        loop {
            // Acquire: what the threads wrote before they left it here.
            let mut waiting = self.waiting.swap(ptr::null_mut(), Ordering::Acquire);
            if waiting.is_null() {
                break;
            }
            while !waiting.is_null() {
                // SAFETY: only `push` puts it there, and the list was taken off as a whole.
                let Waiting { next, held, free } = unsafe { waiting.read() };
                // SAFETY: the memory is nobody else's.
                unsafe { free(self, waiting) };
                self.release_held(held);
                waiting = next;
            }
        }
        self.shallower(DEEPEST);
    }

    /// Gives up what an owner held.
    #[inline]
    fn release_held(self, held: Held) {
        for object in held.objects {
            self.release(object);
        }
        if let Some(finish) = held.finish {
            // SAFETY: the pair was handed over together, for one call.
            unsafe { finish(held.context) };
        }
    }

    /// Gives up a reference; NULL is none. Runs whatever the object's end runs.
    #[inline]
    pub fn release(self, object: *mut Object) {
        if !object.is_null() {
            // SAFETY: the lock is held; the caller held the reference.
            unsafe { (self.capi().decref)(object) };
        }
    }
}

/// The interpreter that the calling thread is in, if it was used before.
///
/// # Safety
/// The calling thread is attached.
#[inline]
unsafe fn current(capi: &Capi) -> Option<&'static Interpreter> {
    // SAFETY: by contract.
    let state = unsafe { (capi.interpreter)() };
    // SAFETY: NULL or leaked.
    match unsafe { INTERPRETERS.load(Ordering::Acquire).as_ref() } {
        // The main one ends last: its structure is nobody else's before `forget_all`.
        Some(first) if first.state == state && first.id == 0 => Some(first),
        // SAFETY: by contract.
        Some(_) => known(unsafe { (capi.interpreter_id)(state) }),
        None => None,
    }
}

pub fn known(id: i64) -> Option<&'static Interpreter> {
    let mut next = INTERPRETERS.load(Ordering::Acquire).cast_const();
    // SAFETY: NULL or leaked; never changed after it was put there.
    while let Some(interpreter) = unsafe { next.as_ref() } {
        if interpreter.id == id {
            return Some(interpreter);
        }
        next = interpreter.next.load(Ordering::Acquire).cast_const();
    }
    None
}

/// # Safety
/// The calling thread is attached.
#[cold]
#[inline(never)]
unsafe fn make(capi: &'static Capi) -> Result<Py> {
    // SAFETY: by contract.
    let (state, names) = unsafe { ((capi.interpreter)(), Names::new(capi)) };
    // SAFETY: by contract.
    let id = unsafe { (capi.interpreter_id)(state) };
    let Some(names) = names else {
        // SAFETY: by contract.
        unsafe { (capi.error_clear)() };
        return Err(Failure::no_memory(size_of::<Interpreter>()));
    };
    let _one_at_a_time = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    // Another thread of a build without a lock may have been faster; its names are the same
    // strings.
    let interpreter = known(id).unwrap_or_else(|| {
        let first = INTERPRETERS.load(Ordering::Acquire);
        // SAFETY: NULL or leaked.
        let behind = unsafe { first.as_ref() };
        let made = Box::leak(Box::new(Interpreter {
            capi,
            id,
            state,
            names,
            types: Types::new(),
            exports: AtomicPtr::new(ptr::null_mut()),
            texts: Texts(UnsafeCell::new([(0, ptr::null_mut()); 64])),
            spare: Spare::new(),
            waiting: AtomicPtr::new(ptr::null_mut()),
            depth: AtomicU32::new(0),
            is_called: AtomicBool::new(false),
            next: AtomicPtr::new(
                behind.map_or(ptr::null_mut(), |first| first.next.load(Ordering::Acquire)),
            ),
        }));
        if let Some(first) = behind {
            // The first place is the fast one; nearly always it is the main interpreter's.
            first.next.store(made, Ordering::Release);
        } else {
            // Where there is no room for one more function, an interpreter that is started anew in
            // this process is taken for the old one. SAFETY: by contract.
            unsafe { (capi.at_exit)(forget_all) };
            INTERPRETERS.store(made, Ordering::Release);
        }
        &*made
    });
    Ok(Py { interpreter, thread: PhantomData })
}

/// The runtime has ended: all that is remembered of it is dead.
unsafe extern "C" fn forget_all() {
    INTERPRETERS.store(ptr::null_mut(), Ordering::Release);
}

impl Interpreter {
    /// Adds to the depth and answers what it was. Finalizers give the lock up, so several threads
    /// may be in here at once; but not between a load and its store, where there is a lock.
    #[inline]
    fn deeper(&self, by: u32) -> u32 {
        if self.capi.facts.free_threaded {
            return self.depth.fetch_add(by, Ordering::Relaxed);
        }
        let depth = self.depth.load(Ordering::Relaxed);
        self.depth.store(depth.wrapping_add(by), Ordering::Relaxed);
        depth
    }

    /// Takes away from the depth and answers what it is.
    #[inline]
    fn shallower(&self, by: u32) -> u32 {
        if self.capi.facts.free_threaded {
            return self.depth.fetch_sub(by, Ordering::Relaxed).wrapping_sub(by);
        }
        let depth = self.depth.load(Ordering::Relaxed).wrapping_sub(by);
        self.depth.store(depth, Ordering::Relaxed);
        depth
    }

    /// # Safety
    /// `waiting` lies in memory that nobody else uses.
    unsafe fn push(&self, waiting: *mut Waiting) {
        let mut first = self.waiting.load(Ordering::Relaxed);
        loop {
            // SAFETY: not in the list yet.
            unsafe { (*waiting).next = first };
            // Release: whoever takes the list sees what was written here.
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

/// Gives up the references in `waiting`, from any thread: at once where the thread is in
/// `interpreter`, else when the interpreter gets to it. After its end, nothing is done: memory is
/// lost, and the objects were lost before.
///
/// # Safety
/// `waiting` lies in memory that nobody else uses; its objects are of `interpreter`.
pub unsafe fn release_from_anywhere(interpreter: &'static Interpreter, waiting: *mut Waiting) {
    let capi = interpreter.capi;
    // SAFETY: only asked where the thread is attached, which none is after the end.
    if capi.is_attached() && unsafe { current(capi) }.is_some_and(|here| ptr::eq(here, interpreter))
    {
        // SAFETY: by contract.
        let Waiting { held, free, .. } = unsafe { waiting.read() };
        let py = Py { interpreter, thread: PhantomData };
        // What goes here may hold what goes next: a long chain is taken apart in a loop, not on the
        // stack.
        if interpreter.deeper(1) < DEEPEST {
            // SAFETY: by contract.
            unsafe { free(py, waiting) };
            py.release_held(held);
        } else {
            // SAFETY: by contract.
            unsafe { interpreter.push(waiting) };
        }
        if interpreter.shallower(1) == 0 && !interpreter.waiting.load(Ordering::Relaxed).is_null() {
            py.release_waiting();
        }
        return;
    }
    // SAFETY: by contract.
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
    // SAFETY: by contract.
    unsafe { interpreter.push(waiting) };
    // CPython calls back into the main interpreter only; others get to it when they are in this
    // library next.
    if interpreter.id != 0 || interpreter.is_called.swap(true, Ordering::AcqRel) {
        return;
    }
    let argument = ptr::from_ref(interpreter).cast_mut().cast();
    // SAFETY: may be called by any thread, with the lock or without.
    if unsafe { (capi.add_pending_call)(called_back, argument) } != 0 {
        // No room: the next one tries again.
        interpreter.is_called.store(false, Ordering::Release);
    }
}

/// Runs on the main thread, with the lock.
unsafe extern "C" fn called_back(interpreter: *mut c_void) -> c_int {
    let interpreter = interpreter.cast::<Interpreter>().cast_const();
    // SAFETY: `release_from_anywhere` passed it; leaked.
    let interpreter: &'static Interpreter = unsafe { &*interpreter };
    interpreter.is_called.store(false, Ordering::Release);
    // Up to 3.11, the main thread may be in a sub-interpreter; what waits then goes at the next
    // call. SAFETY: attached.
    let here = unsafe { current(interpreter.capi) };
    if here.is_some_and(|here| ptr::eq(here, interpreter)) {
        let run = || Py { interpreter, thread: PhantomData }.release_waiting();
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    }
    0
}

/// A reference to an object that is given up when this goes.
pub struct Owned {
    pub object: NonNull<Object>,
    pub py: Py,
}

impl Drop for Owned {
    #[inline]
    fn drop(&mut self) {
        self.py.release(self.object.as_ptr());
    }
}

impl Owned {
    /// Takes over what a function of CPython answered: NULL means that an exception is set.
    #[inline]
    pub fn new(py: Py, object: *mut Object) -> Result<Self> {
        match NonNull::new(object) {
            Some(object) => Ok(Owned { object, py }),
            None => raised(),
        }
    }

    /// One more reference to an object.
    #[inline]
    pub fn share(py: Py, object: NonNull<Object>) -> Self {
        // SAFETY: the lock is held; the object is alive.
        unsafe { (py.capi().incref)(object.as_ptr()) };
        Owned { object, py }
    }

    /// The object.
    #[inline]
    pub fn get(&self) -> *mut Object {
        self.object.as_ptr()
    }

    /// Gives the reference to the caller.
    #[inline]
    pub fn into_raw(self) -> *mut Object {
        let object = self.object.as_ptr();
        std::mem::forget(self);
        object
    }
}

/// An exception is set, which is to be passed on.
#[cold]
pub fn raised<T>() -> Result<T> {
    fail!(
        CAI_ERR_PYTHON_EXCEPTION,
        "python",
        found = "an exception, which is set",
        expected = "none"
    )
}
