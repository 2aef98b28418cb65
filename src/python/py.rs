//! Python objects as Rust values: [`Py`] proves that the thread may use them, [`Obj`] borrows one,
//! [`Owned`] holds a reference, and their methods are the safe part of CPython's interface.
//!
//! NULL and -1 become a failure here, and only here: it says that an exception is set.

#![allow(dead_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::abi;
use crate::error::{Failure, Result, failure};
use crate::python::capi::{self, Capi, CapsuleDestructor, Object};
use crate::python::interpreter::{Interpreter, attached, current};

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
        body(Py::here()?)
    }

    /// Runs `body` with `py`, or, without it, as [`Py::with`] does.
    #[inline(always)]
    pub fn with_known<T>(
        py: Option<Py<'_>>,
        body: impl for<'a> FnOnce(Py<'a>) -> Result<T>,
    ) -> Result<T> {
        match py {
            Some(py) => body(py),
            None => body(Py::here()?),
        }
    }

    /// Runs `body`, which receives the interpreter that this thread is in, if it was used before
    /// and nothing waits for its release: no code of Python runs then.
    #[inline(always)]
    pub fn with_ready<T>(body: impl for<'a> FnOnce(Option<Py<'a>>) -> T) -> T {
        body(Py::ready())
    }

    #[inline(always)]
    fn ready() -> Option<Self> {
        let capi = capi::found()?;
        if !capi.is_attached() {
            return None;
        }
        // SAFETY: the thread is attached, as checked above.
        let interpreter = unsafe { current(capi) }?;
        let is_ready = interpreter.waiting.load(Ordering::Relaxed).is_null();
        // SAFETY: the thread is attached to this interpreter, and the lifetime is that of the body
        // of `with_ready`.
        is_ready.then_some(unsafe { Py::attached_to(interpreter) })
    }

    /// Returns true if objects were exported before. Then the next export of an interpreter that is
    /// ready runs no code of Python either: it allocates an object that the garbage collector does
    /// not know.
    #[inline(always)]
    pub fn has_exported(self) -> bool {
        self.exports.is_made()
    }

    #[inline(never)]
    fn here() -> Result<Self> {
        let capi = capi::capi()?;
        if !capi.is_attached() {
            return Err(capi::not_attached());
        }
        // SAFETY: the thread is attached, as checked above, and the lifetime is that of the body of
        // `with`.
        unsafe { attached(capi) }
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
        self.interpreter.capi
    }

    /// Returns the interpreter.
    pub fn interpreter(&self) -> &'static Interpreter {
        self.interpreter
    }

    /// Runs `body` without the GIL, which other threads may hold meanwhile.
    ///
    /// # Safety
    /// `body` uses no Python: neither this value nor an object.
    pub unsafe fn without_lock<T>(self, body: impl FnOnce() -> T) -> T {
        /// Takes the GIL again when dropped.
        struct Saved(&'static Capi, *mut c_void);
        impl Drop for Saved {
            fn drop(&mut self) {
                // SAFETY: the state that `save_thread` returned to this thread.
                unsafe { (self.0.restore_thread)(self.1) };
            }
        }
        // SAFETY: the GIL is held.
        let _saved = Saved(self.capi(), unsafe { (self.capi().save_thread)() });
        body()
    }

    /// Releases a reference, which may be NULL. Runs the object's finalizer.
    #[inline]
    pub fn release(self, object: *mut Object) {
        if !object.is_null() {
            let decref = self.decref.load(Ordering::Relaxed);
            // SAFETY: only functions of this type are stored there.
            let decref = unsafe { std::mem::transmute::<*mut c_void, Decref>(decref) };
            // SAFETY: the GIL is held, except in a thread that CPython ends because the interpreter
            // does: then `decref` has been replaced. The caller held the reference.
            unsafe { decref(object) };
        }
    }

    /// Takes over the result of a function of CPython: NULL means that an exception is set.
    ///
    /// # Safety
    /// NULL, or a reference that the caller gives away.
    #[inline(always)]
    pub unsafe fn take(self, object: *mut Object) -> Result<Owned<'py>> {
        Owned::new(self, object)
    }

    /// Borrows an object that the interpreter keeps for good.
    ///
    /// # Safety
    /// Such an object.
    #[inline(always)]
    unsafe fn kept(self, object: *mut Object) -> Obj<'py> {
        // SAFETY: not NULL, and alive as long as the interpreter (this function's contract).
        unsafe { Obj::new(NonNull::new_unchecked(object)) }
    }

    /// `None`
    #[inline(always)]
    pub fn none(self) -> Obj<'py> {
        // SAFETY: a constant of CPython.
        unsafe { self.kept(self.capi().none) }
    }

    /// `True` or `False`
    #[inline(always)]
    pub fn bool(self, value: bool) -> Obj<'py> {
        let object = if value { self.capi().r#true } else { self.capi().r#false };
        // SAFETY: a constant of CPython.
        unsafe { self.kept(object) }
    }

    /// Returns one of CPython's own types.
    #[inline(always)]
    pub fn builtin(self, r#type: Builtin) -> Obj<'py> {
        // SAFETY: a constant of CPython.
        unsafe { self.kept(r#type.address(self.capi())) }
    }

    /// Makes an integer.
    pub fn int(self, value: i64) -> Result<Owned<'py>> {
        // SAFETY: the GIL is held; the result is new.
        unsafe { self.take((self.capi().long_from_signed)(value)) }
    }

    /// Makes an integer of an unsigned number, such as an address.
    pub fn unsigned(self, value: u64) -> Result<Owned<'py>> {
        // SAFETY: the GIL is held; the result is new.
        unsafe { self.take((self.capi().long_from_unsigned)(value)) }
    }

    /// Makes a string.
    pub fn string(self, text: &[u8]) -> Result<Owned<'py>> {
        // SAFETY: the GIL is held, and the text has this length. The result is new.
        unsafe {
            self.take((self.capi().str_from)(text.as_ptr().cast::<c_char>(), text.len() as isize))
        }
    }

    /// Makes a tuple of `count` items.
    #[inline(always)]
    pub fn tuple(
        self,
        count: usize,
        mut item: impl FnMut(usize) -> Result<Owned<'py>>,
    ) -> Result<Owned<'py>> {
        // SAFETY: the GIL is held; the result is new.
        let tuple = unsafe { self.take((self.capi().tuple_new)(count as isize)) }?;
        for index in 0..count {
            let item = item(index)?.into_raw();
            // SAFETY: a tuple that only this function refers to, and an index below its size. The
            // tuple takes over the reference to the item.
            unsafe { (self.capi().tuple_set)(tuple.get(), index as isize, item) };
        }
        Ok(tuple)
    }

    /// Makes a tuple of integers.
    #[inline]
    pub fn tuple_of_ints(self, values: &[i64]) -> Result<Owned<'py>> {
        // Zipped, so that no index is checked.
        let mut values = values.iter();
        self.tuple(values.len(), |_| values.next().map_or_else(raised, |&value| self.int(value)))
    }

    /// Makes a tuple of two objects.
    #[inline(always)]
    pub fn pair(self, first: Owned<'py>, second: Owned<'py>) -> Result<Owned<'py>> {
        let capi = self.capi();
        // SAFETY: the GIL is held; the result is new. A tuple of two that only this function refers
        // to takes over the references to its items.
        unsafe {
            let pair = self.take((capi.tuple_new)(2))?;
            (capi.tuple_set)(pair.get(), 0, first.into_raw());
            (capi.tuple_set)(pair.get(), 1, second.into_raw());
            Ok(pair)
        }
    }

    /// Makes a capsule.
    ///
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

    /// Returns a string from the cache, or makes and caches it: for the few typestrs that arrays
    /// have.
    pub fn typestr(self, text: &[u8]) -> Result<Owned<'py>> {
        if let Some(known) = self.texts.get(self, text) {
            return Ok(known.share(self));
        }
        let made = self.string(text)?;
        self.texts.add(self, text, made.obj());
        Ok(made)
    }

    /// Imports a module.
    pub fn import(self, module: &CStr) -> Result<Owned<'py>> {
        // SAFETY: the GIL is held; the name is terminated. The result is new.
        unsafe { self.take((self.capi().import)(module.as_ptr())) }
    }

    /// Returns true if an exception is set.
    pub fn has_exception(self) -> bool {
        // SAFETY: the GIL is held.
        !unsafe { (self.capi().error_occurred)() }.is_null()
    }

    /// Returns true if the exception that is set is of this class or one derived from it.
    pub fn raised(self, class: Exception) -> bool {
        // SAFETY: the GIL is held. An exception is set: at first one is looked for.
        self.has_exception()
            && unsafe { (self.capi().error_matches)(class.object(self).as_ptr()) } != 0
    }

    /// Clears the exception that is set.
    pub fn clear(self) {
        // SAFETY: the GIL is held.
        unsafe { (self.capi().error_clear)() };
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
            // SAFETY: the GIL is held; both objects are alive.
            unsafe { (self.capi().error_set)(class.object(self).as_ptr(), text.get()) };
        }
    }

    /// Runs code of others, which expects no exception, while one may be set that is not its own.
    pub fn keeping_exception(self, run: impl FnOnce()) {
        // SAFETY: the GIL is held.
        unsafe { self.capi().keeping_exception(run) };
    }

    /// Takes the exception that is set away, if there is one.
    pub fn take_exception(self) -> Pending<'py> {
        let mut parts = [ptr::null_mut(); 3];
        let [kind, value, trace] = &mut parts;
        // SAFETY: the GIL is held; three places, for a reference or NULL each.
        unsafe { (self.capi().error_fetch)(kind, value, trace) };
        Pending { py: self, parts }
    }
}

type Decref = unsafe extern "C-unwind" fn(*mut Object);

macro_rules! constants {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $field:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum $name { $($variant,)* }

        impl $name {
            /// Returns the member of the table.
            #[inline(always)]
            fn address(self, capi: &Capi) -> constants!(@type $name) {
                match self { $($name::$variant => capi.$field,)* }
            }
        }
    };
    (@type Builtin) => { *mut Object };
    (@type Exception) => { *const *mut Object };
}

constants! {
    /// Types of CPython itself.
    Builtin {
        Object = object_type_object,
        Type = type_type,
        GetSet = getset_type,
        Int = long_type,
        Bool = bool_type,
        Tuple = tuple_type,
        List = list_type,
        Dict = dict_type,
        Str = str_type,
        Bytes = bytes_type,
        ByteArray = bytearray_type,
        Float = float_type,
    }
}

constants! {
    /// Classes of exceptions.
    Exception {
        Any = exception,
        Attribute = attribute_error,
        Import = import_error,
        Key = key_error,
        Type = type_error,
        Value = value_error,
        Buffer = buffer_error,
        Memory = memory_error,
        Runtime = runtime_error,
        System = system_error,
    }
}

impl Exception {
    /// Returns the class.
    pub fn object(self, py: Py<'_>) -> Obj<'_> {
        // SAFETY: a variable that CPython keeps a class in for good.
        unsafe { py.kept(*self.address(py.capi())) }
    }
}

/// An exception that was taken away. Released when dropped.
pub struct Pending<'py> {
    py: Py<'py>,
    /// One reference each, or NULL.
    parts: [*mut Object; 3],
}

impl Pending<'_> {
    /// Sets the exception again.
    pub fn restore(mut self) {
        let [kind, value, trace] = std::mem::replace(&mut self.parts, [ptr::null_mut(); 3]);
        // SAFETY: the GIL is held; `error_restore` takes over the references.
        unsafe { (self.py.capi().error_restore)(kind, value, trace) };
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        for object in self.parts {
            self.py.release(object);
        }
    }
}

/// A borrowed object. During `'a` it is alive, and the thread is attached.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Obj<'a> {
    object: NonNull<Object>,
    alive: PhantomData<&'a ()>,
}

/// An interned string that the interpreter keeps for good: the name of an attribute, or a key.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Name(NonNull<Object>);

impl Name {
    /// Interns a string. `None` if there is no memory.
    ///
    /// # Safety
    /// The GIL is held.
    pub unsafe fn new(capi: &Capi, text: &'static CStr) -> Option<Self> {
        // SAFETY: the GIL is held (this function's contract); the text is terminated. The reference
        // is never released.
        NonNull::new(unsafe { (capi.str_intern)(text.as_ptr()) }).map(Name)
    }

    /// Returns the address of the string.
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
    /// Borrows an object.
    ///
    /// # Safety
    /// During `'a` the object is alive, and the thread attached.
    #[inline(always)]
    pub unsafe fn new(object: NonNull<Object>) -> Self {
        Obj { object, alive: PhantomData }
    }

    /// Borrows an object that may be missing.
    ///
    /// # Safety
    /// NULL, or as for [`Obj::new`].
    #[inline(always)]
    pub unsafe fn from_ptr(object: *mut Object) -> Option<Self> {
        // SAFETY: as this function's contract.
        NonNull::new(object).map(|object| unsafe { Obj::new(object) })
    }

    /// Returns the address.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut Object {
        self.object.as_ptr()
    }

    /// Returns the address.
    #[inline(always)]
    pub fn pointer(self) -> NonNull<Object> {
        self.object
    }

    /// Adds a reference.
    #[inline(always)]
    pub fn share<'py>(self, py: Py<'py>) -> Owned<'py> {
        Owned::share(py, self.object)
    }

    /// Returns true for `None`.
    #[inline(always)]
    pub fn is_none(self, py: Py<'_>) -> bool {
        self.as_ptr() == py.capi().none
    }

    /// Returns the address of the type, which may change when Python code runs.
    #[inline(always)]
    pub fn type_address(self, py: Py<'_>) -> *mut Object {
        // SAFETY: the GIL is held; the object is alive.
        unsafe { py.capi().type_of(self.as_ptr()) }
    }

    /// Returns true for an object of this very type.
    #[inline(always)]
    pub fn is_exactly(self, py: Py<'_>, r#type: Builtin) -> bool {
        self.type_address(py) == r#type.address(py.capi())
    }

    /// Returns true for an object of this type or of one derived from it.
    #[inline]
    pub fn is_a(self, py: Py<'_>, r#type: Builtin) -> bool {
        // SAFETY: the GIL is held; the object is alive.
        unsafe { py.capi().is_instance(self.as_ptr(), r#type.address(py.capi())) }
    }

    /// Returns the type.
    pub fn r#type<'py>(self, py: Py<'py>) -> Owned<'py> {
        // SAFETY: the object has a type, and keeps it alive until the reference is added.
        unsafe { Obj::new(NonNull::new_unchecked(self.type_address(py))) }.share(py)
    }

    /// Returns an attribute.
    pub fn attr<'py>(self, py: Py<'py>, name: impl Into<Obj<'a>>) -> Result<Owned<'py>> {
        // SAFETY: the GIL is held; both objects are alive. The result is new.
        unsafe { py.take((py.capi().get_attr)(self.as_ptr(), name.into().as_ptr())) }
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
        let capi = py.capi();
        let name = name.into();
        if let Some(get) = capi.optional_attr.or(capi.optional_attr_before) {
            let mut found = ptr::null_mut();
            // SAFETY: the GIL is held; both objects are alive.
            let status = unsafe { get(self.as_ptr(), name.as_ptr(), &raw mut found) };
            // SAFETY: NULL or a new reference.
            return match unsafe { Owned::from_ptr(py, found) } {
                None if status < 0 => raised(),
                found => Ok(found),
            };
        }
        match self.attr(py, name) {
            Ok(found) => Ok(Some(found)),
            Err(_) => py.clear_if(Exception::Attribute).map(|()| None),
        }
    }

    /// Sets an attribute.
    pub fn set_attr(self, py: Py<'_>, name: Name, value: Obj<'_>) -> Result<()> {
        // SAFETY: the GIL is held; the objects are alive.
        done(unsafe { (py.capi().set_attr)(self.as_ptr(), name.as_ptr(), value.as_ptr()) })
    }

    /// Calls the object.
    pub fn call<'py, const N: usize>(
        self,
        py: Py<'py>,
        arguments: [Obj<'_>; N],
    ) -> Result<Owned<'py>> {
        self.call_with(py, N, arguments.into_iter(), None)
    }

    /// Calls the object with `count` arguments and keywords.
    pub fn call_with<'py, 'b>(
        self,
        py: Py<'py>,
        count: usize,
        mut arguments: impl Iterator<Item = Obj<'b>>,
        keywords: Option<Dict<'_>>,
    ) -> Result<Owned<'py>> {
        let next = |_| arguments.next().map(|next| next.share(py)).ok_or_else(Failure::internal);
        let arguments = py.tuple(count, next)?;
        let keywords = keywords.map_or(ptr::null_mut(), |keywords| keywords.0.as_ptr());
        // SAFETY: the GIL is held; a tuple, and NULL or a dictionary. The result is new.
        unsafe { py.take((py.capi().call)(self.as_ptr(), arguments.get(), keywords)) }
    }

    /// Calls a method without arguments.
    pub fn call_method<'py>(self, py: Py<'py>, name: Name) -> Result<Owned<'py>> {
        match py.capi().call_method {
            // SAFETY: the GIL is held; the arguments are one object. The result is new.
            Some(call) => unsafe {
                py.take(call(name.as_ptr(), &self.as_ptr(), 1, ptr::null_mut()))
            },
            None => self.attr(py, name)?.obj().call(py, []),
        }
    }

    /// Returns true for an object that can be called.
    pub fn is_callable(self, py: Py<'_>) -> bool {
        // SAFETY: the GIL is held; the object is alive.
        unsafe { (py.capi().callable_check)(self.as_ptr()) != 0 }
    }

    /// Returns true for an object that has numbered items.
    pub fn is_sequence(self, py: Py<'_>) -> bool {
        // SAFETY: the GIL is held; the object is alive.
        unsafe { (py.capi().sequence_check)(self.as_ptr()) != 0 }
    }

    /// Returns true for an object that has items by keys.
    pub fn is_mapping(self, py: Py<'_>) -> bool {
        // SAFETY: the GIL is held; the object is alive.
        unsafe { (py.capi().mapping_check)(self.as_ptr()) != 0 }
    }

    /// Returns the number of items of a sequence. May run Python code.
    pub fn len(self, py: Py<'_>) -> Result<usize> {
        // SAFETY: the GIL is held; the object is alive.
        let size = unsafe { (py.capi().sequence_size)(self.as_ptr()) };
        // A negative result is an exception of the producer.
        usize::try_from(size).map_err(|_| python_exception())
    }

    /// Returns an item of a sequence. May run Python code.
    pub fn item<'py>(self, py: Py<'py>, index: usize) -> Result<Owned<'py>> {
        // SAFETY: the GIL is held; the object is alive. The result is new.
        unsafe { py.take((py.capi().sequence_item)(self.as_ptr(), index as isize)) }
    }

    /// Returns the item of a mapping. May run Python code.
    pub fn get_item<'py>(self, py: Py<'py>, key: impl Into<Obj<'a>>) -> Result<Owned<'py>> {
        // SAFETY: the GIL is held; both objects are alive. The result is new.
        unsafe { py.take((py.capi().get_item)(self.as_ptr(), key.into().as_ptr())) }
    }

    /// Returns true if the object has this item, or a mapping this key. May run Python code.
    pub fn contains(self, py: Py<'_>, key: impl Into<Obj<'a>>) -> Result<bool> {
        // SAFETY: the GIL is held; both objects are alive.
        truth(unsafe { (py.capi().contains)(self.as_ptr(), key.into().as_ptr()) })
    }

    /// Returns the value as a boolean. May run Python code.
    pub fn is_true(self, py: Py<'_>) -> Result<bool> {
        // SAFETY: the GIL is held; the object is alive.
        truth(unsafe { (py.capi().is_true)(self.as_ptr()) })
    }

    /// Converts the object to an integer of Python, as `operator.index` does. May run Python code.
    pub fn index<'py>(self, py: Py<'py>) -> Result<Owned<'py>> {
        // SAFETY: the GIL is held; the object is alive. The result is new.
        unsafe { py.take((py.capi().index)(self.as_ptr())) }
    }

    /// Returns the value of an integer as [`Obj::index`] returns it. Runs no Python code then.
    #[inline]
    pub fn int(self, py: Py<'_>) -> Result<Int> {
        let mut overflow: c_int = 0;
        // SAFETY: the GIL is held; the object is alive.
        let value = unsafe { (py.capi().long_as_signed)(self.as_ptr(), &raw mut overflow) };
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
        // SAFETY: the GIL is held; the object is alive.
        let value = unsafe { (py.capi().long_as_unsigned)(self.as_ptr()) };
        if value == u64::MAX && py.has_exception() {
            py.clear();
            return None;
        }
        Some(value)
    }

    /// Returns the text that `repr` makes. May run Python code.
    pub fn repr<'py>(self, py: Py<'py>) -> Result<Owned<'py>> {
        // SAFETY: the GIL is held; the object is alive. The result is new.
        unsafe { py.take((py.capi().repr)(self.as_ptr())) }
    }

    /// Returns the characters of a string. `None` for any other object, and if they are not valid
    /// UTF-8.
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

    /// Returns the pointer in a capsule of this name. `None` for any other object.
    pub fn capsule(self, py: Py<'_>, name: Option<&CStr>) -> Option<NonNull<c_void>> {
        let name = name.map_or(ptr::null(), CStr::as_ptr);
        // SAFETY: the GIL is held; `capsule_is` accepts any object.
        unsafe {
            match (py.capi().capsule_is)(self.as_ptr(), name) {
                0 => None,
                _ => NonNull::new((py.capi().capsule_pointer)(self.as_ptr(), name)),
            }
        }
    }

    /// Returns the object as a tuple, if it is one.
    #[inline]
    pub fn tuple(self, py: Py<'_>) -> Option<Tuple<'a>> {
        self.is_a(py, Builtin::Tuple).then_some(Tuple(self))
    }

    /// Returns the object as a dictionary, if it is one.
    pub fn dict(self, py: Py<'_>) -> Option<Dict<'a>> {
        self.is_a(py, Builtin::Dict).then_some(Dict(self))
    }
}

/// The value of an integer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Int {
    /// At most 64 bits, signed.
    Value(i64),
    /// More than `i64::MAX`.
    Above,
    /// Less than `i64::MIN`.
    Below,
}

/// A reference to an object, released when dropped.
pub struct Owned<'py> {
    pub object: NonNull<Object>,
    pub py: Py<'py>,
}

impl Drop for Owned<'_> {
    #[inline]
    fn drop(&mut self) {
        self.py.release(self.object.as_ptr());
    }
}

impl<'py> Owned<'py> {
    /// Takes over the result of a function of CPython: NULL means that an exception is set.
    #[inline]
    pub fn new(py: Py<'py>, object: *mut Object) -> Result<Self> {
        match NonNull::new(object) {
            Some(object) => Ok(Owned { object, py }),
            None => Err(python_exception()),
        }
    }

    /// Takes over a reference that may be missing.
    ///
    /// # Safety
    /// NULL, or a reference that the caller gives away.
    #[inline(always)]
    pub unsafe fn from_ptr(py: Py<'py>, object: *mut Object) -> Option<Self> {
        NonNull::new(object).map(|object| Owned { object, py })
    }

    /// Adds a reference to an object.
    #[inline]
    pub fn share(py: Py<'py>, object: NonNull<Object>) -> Self {
        // SAFETY: the GIL is held; the object is alive.
        unsafe { (py.capi().incref)(object.as_ptr()) };
        Owned { object, py }
    }

    /// Borrows the object.
    #[inline(always)]
    pub fn obj(&self) -> Obj<'_> {
        Obj { object: self.object, alive: PhantomData }
    }

    /// Returns the address of the object.
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

/// A borrowed tuple, which does not change.
#[derive(Clone, Copy)]
pub struct Tuple<'a>(Obj<'a>);

impl<'a> Tuple<'a> {
    /// Borrows a tuple that may be missing.
    ///
    /// # Safety
    /// NULL, or a tuple as for [`Obj::new`].
    #[inline(always)]
    pub unsafe fn from_ptr(tuple: *mut Object) -> Option<Self> {
        // SAFETY: as this function's contract.
        unsafe { Obj::from_ptr(tuple) }.map(Tuple)
    }

    /// Returns the number of items.
    #[inline]
    pub fn len(self, py: Py<'_>) -> usize {
        // SAFETY: the GIL is held; a tuple.
        unsafe { py.capi().tuple_len(self.0.as_ptr()) }
    }

    /// Returns an item.
    #[inline]
    pub fn get(self, py: Py<'_>, index: usize) -> Option<Obj<'a>> {
        if index >= self.len(py) {
            return None;
        }
        // SAFETY: the GIL is held; a tuple, which keeps the item alive, and an index below its
        // size.
        unsafe { Obj::from_ptr(py.capi().tuple_item(self.0.as_ptr(), index)) }
    }

    /// Returns all items.
    pub fn items<'py>(self, py: Py<'py>) -> impl Iterator<Item = Obj<'a>> + use<'a, 'py> {
        (0..).map_while(move |index| self.get(py, index))
    }
}

/// A borrowed dictionary.
#[derive(Clone, Copy)]
pub struct Dict<'a>(Obj<'a>);

impl<'a> Dict<'a> {
    /// Borrows a dictionary that may be missing.
    ///
    /// # Safety
    /// NULL, or a dictionary as for [`Obj::new`].
    #[inline(always)]
    pub unsafe fn from_ptr(dictionary: *mut Object) -> Option<Self> {
        // SAFETY: as this function's contract.
        unsafe { Obj::from_ptr(dictionary) }.map(Dict)
    }

    /// Returns the value of a key. Used where CPython has `PyDict_GetItemRef`.
    pub fn get<'py>(self, py: Py<'py>, key: Name) -> Result<Option<Owned<'py>>> {
        let Some(get) = py.capi().dict_get_ref else { return Ok(None) };
        let mut found = ptr::null_mut();
        // SAFETY: the GIL is held; a dictionary, a string and a place for a new reference.
        let status = unsafe { get(self.0.as_ptr(), key.as_ptr(), &raw mut found) };
        // SAFETY: NULL or a new reference.
        let found = unsafe { Owned::from_ptr(py, found) };
        if status < 0 { raised() } else { Ok(found) }
    }

    /// Returns the next entry. `position` begins at 0, and is only used here. References are added:
    /// code that looks at an entry may change the dictionary.
    pub fn next<'py>(self, py: Py<'py>, position: &mut isize) -> Option<(Owned<'py>, Owned<'py>)> {
        let (mut key, mut value) = (ptr::null_mut(), ptr::null_mut());
        let next = py.capi().dict_next;
        // SAFETY: the GIL is held; a dictionary. CPython accepts any position. The dictionary keeps
        // both objects alive until the references are added.
        unsafe {
            if next(self.0.as_ptr(), position, &raw mut key, &raw mut value) == 0 {
                return None;
            }
            Some((Obj::from_ptr(key)?.share(py), Obj::from_ptr(value)?.share(py)))
        }
    }
}

/// A dictionary that is being filled.
pub struct Dictionary<'py>(Owned<'py>);

impl<'py> Dictionary<'py> {
    /// An empty dictionary.
    pub fn new(py: Py<'py>) -> Result<Self> {
        // SAFETY: the GIL is held; the result is new.
        unsafe { py.take((py.capi().dict_new)()) }.map(Dictionary)
    }

    /// A copy of a dictionary. CPython raises SystemError for any other object.
    pub fn copy(py: Py<'py>, original: Obj) -> Result<Self> {
        // SAFETY: the GIL is held; the object is alive. The result is new.
        unsafe { py.take((py.capi().dict_copy)(original.as_ptr())) }.map(Dictionary)
    }

    /// Sets the value of a key.
    #[inline]
    pub fn set<'a>(&self, key: Name, value: impl Into<Obj<'a>>) -> Result<()> {
        let set = self.0.py.capi().dict_set;
        // SAFETY: the GIL is held; the objects are alive. The dictionary adds references of its
        // own.
        done(unsafe { set(self.0.get(), key.as_ptr(), value.into().as_ptr()) })
    }

    /// Borrows the dictionary.
    pub fn dict(&self) -> Dict<'_> {
        Dict(self.0.obj())
    }

    /// Returns the object.
    pub fn into_object(self) -> Owned<'py> {
        self.0
    }
}

/// An object that is made at its first use in an interpreter, which keeps it for good.
pub struct Once(AtomicPtr<Object>);

impl Once {
    /// No object yet.
    pub const fn new() -> Self {
        Once(AtomicPtr::new(ptr::null_mut()))
    }

    /// Returns the address of the object, or NULL.
    #[inline(always)]
    pub fn address(&self) -> *mut Object {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the object. `self` belongs to the interpreter of `py`.
    #[inline(always)]
    pub fn get<'py>(
        &self,
        py: Py<'py>,
        make: impl FnOnce(Py<'py>) -> Result<Owned<'py>>,
    ) -> Result<Obj<'py>> {
        let mut object = self.0.load(Ordering::Acquire);
        if object.is_null() {
            object = self.set(make(py)?);
        }
        // SAFETY: `set` stored a reference, which is never released.
        Ok(unsafe { py.kept(object) })
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
    failure!(
        abi::CAI_ERR_PYTHON_EXCEPTION,
        "python",
        found = "an exception, which is set",
        expected = "no exception"
    )
}
