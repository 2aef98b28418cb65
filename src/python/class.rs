//! Types of Python that are written in Rust: a class is the type of its objects' contents with
//! tables of safe functions, [`Attribute`] and [`Method`].
//!
//! CPython calls a function of a table only with an object of the class that has the table, or that
//! the function was bound to. So the functions receive an [`Instance`], and return a result: a
//! failure or a panic becomes an exception here.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::slice::from_raw_parts as slice;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::error::{Count, Failure, Result, fail};
use crate::python::capi::{
    self, BF_GETBUFFER, BF_RELEASEBUFFER, Capi, GetSetDef, METH_FASTCALL_KEYWORDS, METH_NOARGS,
    METH_VARARGS, METH_VARARGS_KEYWORDS, MP_LENGTH, MemberDef, MethodDef, NB_BOOL, Object,
    PyBuffer, READONLY, T_PYSSIZET, TP_ALLOC, TP_DEALLOC, TP_DOC, TP_FREE, TP_GETSET, TP_MEMBERS,
    TP_METHODS, TP_REPR, TPFLAGS_DEFAULT, TPFLAGS_DISALLOW_INSTANTIATION, TypeSlot, TypeSpec,
};
use crate::python::error::{raise_as, raise_failure};
use crate::python::interpreter::Here;
use crate::python::py::{
    Attached, Dict, Exception, Lent, Obj, Once, Owned, Py, Tuple, release_lent,
};
use crate::python::readers::Readers;
use crate::unwind;

/// The contents of the objects of a class, which are behind the head of each object.
///
/// # Safety
/// All zeros are a value: an object has it at first, and for good if CPython 3.9 makes one. At
/// [`Contents::WEAK_REFERENCES`] is an atomic pointer that Rust does not use.
pub unsafe trait Contents: Sync + Sized + 'static {
    const NAME: &'static CStr;
    const DOC: &'static CStr;
    /// Bytes from the start of the contents to the list of weak references.
    const WEAK_REFERENCES: usize;

    /// Returns the attributes: a table that ends in [`Attribute::END`].
    fn attributes() -> &'static [Attribute<Self>];

    /// Returns the methods: a table that ends in [`Method::END`].
    fn methods() -> &'static [Method<Self>];

    fn repr<'py>(py: Py<'py>, this: Instance<'_, Self>) -> Result<Owned<'py>>;

    fn len(py: Py, this: Instance<'_, Self>) -> Result<usize>;

    /// Lends the memory of an array on the host to a consumer of the buffer protocol. `flags` are
    /// the bits of `PyBUF_`.
    fn lend<'py>(py: Py<'py>, this: Instance<'_, Self>, flags: c_int) -> Result<Lent<'py>>;

    /// Gives up what an object holds, to which there is no reference any more. Does not panic.
    fn finalize(&mut self, ending: Ending);

    fn complete(_: Py, _: Obj<'_>) -> Result<()> {
        Ok(())
    }
}

/// The end of an object. No exception is set.
#[derive(Clone, Copy)]
pub struct Ending<'a>(Attached<'a>);

/// A reference that an object holds until it is released.
pub struct Held(AtomicPtr<Object>);

impl Held {
    /// Sets the reference of a new object.
    pub fn set(&mut self, object: Owned) {
        *self.0.get_mut() = object.into_raw();
    }

    /// Returns the object. If there is none, sets the reference to what `make` returns. What is held
    /// this way is never released before the end.
    pub fn get_or_set<'a>(
        &'a self,
        py: Py<'a>,
        make: impl FnOnce() -> Result<Owned<'a>>,
    ) -> Result<Obj<'a>> {
        let mut found = self.0.load(Ordering::Acquire);
        if found.is_null() {
            let made = make()?.into_raw();
            let set = self.0.compare_exchange(found, made, Ordering::AcqRel, Ordering::Acquire);
            found = match set {
                Ok(_) => made,
                Err(others) => {
                    // SAFETY: new above, and nobody else has it.
                    unsafe { py.release(made) };
                    others
                }
            };
        }
        // SAFETY: held until the object ends.
        unsafe { Obj::from_ptr(found) }.ok_or_else(|| Failure::null("object"))
    }

    pub fn release(&self, py: Py) {
        // SAFETY: NULL, or the reference that `set` stored, which only this call took out.
        unsafe { py.release(self.0.swap(ptr::null_mut(), Ordering::AcqRel)) };
    }

    /// Releases the reference with the object.
    pub fn end(&mut self, ending: Ending) {
        let object = std::mem::replace(self.0.get_mut(), ptr::null_mut());
        // SAFETY: NULL, or the reference that `set` stored.
        unsafe { ending.0.release(object) };
    }
}

/// The same, which others may read meanwhile.
pub struct Readable {
    held: Held,
    readers: Readers,
}

impl Readable {
    /// Sets the reference of a new object.
    pub fn set(&mut self, object: Owned) {
        self.held.set(object);
    }

    /// Returns a reference, unless it was released.
    pub fn share<'py>(&self, py: Py<'py>) -> Option<Owned<'py>> {
        if !self.readers.begin() {
            return None;
        }
        // SAFETY: NULL, or alive: the reference is not released while it is read.
        let object = unsafe { Obj::from_ptr(self.held.0.load(Ordering::Relaxed)) };
        let shared = object.map(|object| object.share(py));
        if self.readers.end() {
            self.held.release(py);
        }
        shared
    }

    /// Releases the reference, or has the last of those do so who read it.
    pub fn release(&self, py: Py) {
        if self.readers.give_up() {
            self.held.release(py);
        }
    }

    /// Releases the reference with the object.
    pub fn end(&mut self, ending: Ending) {
        self.held.end(ending);
    }
}

pub struct Instance<'a, T> {
    object: Obj<'a>,
    contents: &'a T,
}

impl<T> Clone for Instance<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Instance<'_, T> {}

impl<T> Deref for Instance<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.contents
    }
}

/// An object of a class, as CPython passes it to the functions in the tables of the class.
#[repr(transparent)]
pub struct This<'a, T>(Obj<'a>, PhantomData<T>);

impl<'a, T: Contents> This<'a, T> {
    /// Returns the object with its contents.
    #[inline(always)]
    pub fn instance(self, capi: &Capi) -> Instance<'a, T> {
        let object = self.0;
        // SAFETY: the contents of an object of the class are behind a head of the size that
        // `Class::make` checked, and are a value of this type at any time (`Contents`).
        let contents = unsafe { &*object.as_ptr().byte_add(capi.facts.head).cast() };
        Instance { object, contents }
    }
}

impl<'a, T: Contents> Instance<'a, T> {
    /// Returns an object as one of the class in any interpreter. `None` for objects of other types,
    /// which may publish the same exchange tables.
    #[inline]
    pub fn of(capi: &Capi, object: Obj<'a>) -> Option<Self> {
        let table = object.type_slot(capi, TP_GETSET);
        // A type with this table was made by `Class::make`: it cannot be derived from.
        let is_of_class = ptr::eq(table.cast(), T::attributes().as_ptr());
        is_of_class.then(|| This(object, PhantomData).instance(capi))
    }

    #[inline(always)]
    pub fn object(self) -> Obj<'a> {
        self.object
    }

    #[inline(always)]
    pub fn contents(self) -> &'a T {
        self.contents
    }
}

/// A class of an interpreter, made at its first use.
pub struct Class<T> {
    r#type: Once,
    contents: PhantomData<fn() -> T>,
}

impl<T: Contents> Class<T> {
    pub const fn new() -> Self {
        Class { r#type: Once::new(), contents: PhantomData }
    }

    #[inline(always)]
    pub fn is_made(&self) -> bool {
        !self.r#type.address().is_null()
    }

    #[cold]
    #[inline(never)]
    fn make(py: Py<'_>) -> Result<Owned<'_>> {
        let capi = py.capi();
        let head = capi.facts.head;
        if head < 2 * size_of::<usize>() || head > 64 || head % align_of::<T>() != 0 {
            return fail!(CAI_ERR_PYTHON_VERSION, "python";
                found "objects with a head of {}", Count(head, "byte"); expected "16 to 64");
        }
        const NO_MEMBER: MemberDef =
            MemberDef { name: ptr::null(), r#type: 0, offset: 0, flags: 0, doc: ptr::null() };
        let weak_references = MemberDef {
            name: c"__weaklistoffset__".as_ptr(),
            r#type: T_PYSSIZET,
            offset: (head + T::WEAK_REFERENCES) as isize,
            flags: READONLY,
            doc: ptr::null(),
        };
        let mut members = [weak_references, NO_MEMBER];
        let slot = |slot, function| TypeSlot { slot, function };
        let mut slots = [
            slot(TP_DEALLOC, dealloc::<T> as *mut c_void),
            // What a type without these has as well; stated, because they are called directly.
            slot(TP_ALLOC, capi.type_alloc as *mut c_void),
            slot(TP_FREE, capi.object_free as *mut c_void),
            slot(TP_REPR, repr::<T> as *mut c_void),
            slot(MP_LENGTH, length::<T> as *mut c_void),
            slot(NB_BOOL, is_true as *mut c_void),
            slot(BF_GETBUFFER, get_buffer::<T> as *mut c_void),
            slot(BF_RELEASEBUFFER, release_buffer as *mut c_void),
            slot(TP_DOC, T::DOC.as_ptr().cast_mut().cast()),
            slot(TP_GETSET, T::attributes().as_ptr().cast_mut().cast()),
            slot(TP_METHODS, T::methods().as_ptr().cast_mut().cast()),
            slot(TP_MEMBERS, members.as_mut_ptr().cast()),
            slot(0, ptr::null_mut()),
        ];
        // 3.9 lacks the flag and allows empty objects, which raise ValueError when they are used.
        let no_new = if capi.facts.version >= 0x030a { TPFLAGS_DISALLOW_INSTANTIATION } else { 0 };
        let mut spec = TypeSpec {
            name: T::NAME.as_ptr(),
            basicsize: (head + size_of::<T>()) as c_int,
            itemsize: 0,
            flags: TPFLAGS_DEFAULT | no_new,
            slots: slots.as_mut_ptr(),
        };
        // SAFETY: the GIL is held. CPython copies slots and members, and refers to the tables and
        // texts, which are statics. The functions are those of the slots. The result is new.
        let made = unsafe { py.take((capi.type_from_spec)(&raw mut spec)) }?;
        T::complete(py, made.obj())?;
        Ok(made)
    }
}

impl<'py, T: Contents> Here<'py, Class<T>> {
    /// Returns the type.
    #[inline(always)]
    pub fn get(self) -> Result<Obj<'py>> {
        // SAFETY: a part of the class.
        unsafe { self.part(|class| &class.r#type) }.get(Class::<T>::make)
    }

    /// Returns an object of this class as such.
    #[inline(always)]
    pub fn instance<'a>(self, object: Obj<'a>) -> Option<Instance<'a, T>> {
        // No object has a type at NULL.
        let is_of_class = object.type_address(self.py()) == self.r#type.address();
        is_of_class.then(|| This(object, PhantomData).instance(self.py().capi()))
    }

    /// Makes an object, whose contents `fill` receives as zeros.
    #[inline(always)]
    pub fn object(self, fill: impl FnOnce(&mut T)) -> Result<Owned<'py>> {
        let (py, r#type) = (self.py(), self.get()?.as_ptr());
        let capi = py.capi();
        // SAFETY: the GIL is held; the class has this function in its slot. It returns a new object
        // of zeros or NULL. The object has contents of this type behind its head, and nothing else
        // refers to it.
        unsafe {
            let object = py.take((capi.type_alloc)(r#type, 0))?;
            fill(&mut *object.get().byte_add(capi.facts.head).cast());
            Ok(object)
        }
    }
}

/// The function of an attribute.
type Get<T> = for<'py> fn(Py<'py>, Instance<'_, T>) -> Result<Owned<'py>>;

/// The function that CPython calls for an attribute. It only passes the other function on.
#[allow(improper_ctypes_definitions)]
type GetAttribute<T> = extern "C-unwind" fn(This<'_, T>, Get<T>) -> *mut Object;

/// An attribute of a class: `PyGetSetDef`, whose closure is the function of the attribute.
#[repr(C)]
pub struct Attribute<T> {
    name: *const c_char,
    get: Option<GetAttribute<T>>,
    set: *const c_void,
    doc: *const c_char,
    closure: Option<Get<T>>,
}

const _: () = assert!(size_of::<Attribute<()>>() == size_of::<GetSetDef>());

// SAFETY: plain data, which nothing changes.
unsafe impl<T> Sync for Attribute<T> {}

impl<T: Contents> Attribute<T> {
    pub const END: Self = Attribute {
        name: ptr::null(),
        get: None,
        set: ptr::null(),
        doc: ptr::null(),
        closure: None,
    };

    /// An attribute. A failure is raised.
    pub const fn new(name: &'static CStr, get: Get<T>, doc: &'static CStr) -> Self {
        Self::with(name, get_attribute::<T, false>, get, doc)
    }

    /// An attribute that an object may lack: a failure becomes an AttributeError.
    pub const fn optional(name: &'static CStr, get: Get<T>, doc: &'static CStr) -> Self {
        Self::with(name, get_attribute::<T, true>, get, doc)
    }

    const fn with(
        name: &'static CStr,
        function: GetAttribute<T>,
        get: Get<T>,
        doc: &'static CStr,
    ) -> Self {
        let (name, doc) = (name.as_ptr(), doc.as_ptr());
        Attribute { name, get: Some(function), set: ptr::null(), doc, closure: Some(get) }
    }
}

#[allow(improper_ctypes_definitions)]
extern "C-unwind" fn get_attribute<T: Contents, const OPTIONAL: bool>(
    this: This<'_, T>,
    get: Get<T>,
) -> *mut Object {
    run(|py| {
        let got = get(py, this.instance(py.capi()));
        if OPTIONAL {
            got.map_err(|failure| raise_as(py, Exception::Attribute, failure))
        } else {
            got
        }
    })
}

/// Runs the body of a function that CPython calls: failures and panics become exceptions.
#[inline(always)]
pub fn run(body: impl for<'py> FnOnce(Py<'py>) -> Result<Owned<'py>>) -> *mut Object {
    let raw = |py: Py<'_>| body(py).map(Owned::into_raw);
    unwind::guarded(|| Py::with(raw)).unwrap_or_else(|failure| raise(&failure, ptr::null_mut()))
}

/// Sets the exception for the failure of a function that returns `result` then.
#[cold]
#[inline(never)]
pub fn raise<R>(failure: &Failure, result: R) -> R {
    raise_failure(failure);
    result
}

/// Makes the function that CPython calls for a function of Rust: a method or a function, without
/// arguments or with `arguments`. [`Method`] and [`Function`] are made of it.
macro_rules! entry {
    ($this:ty => $function:path) => {{
        use $crate::python::{capi::Object, class};
        extern "C-unwind" fn entry(this: class::This<'_, $this>, _: *mut Object) -> *mut Object {
            class::run(|py| $function(py, this.instance(py.capi())))
        }
        entry
    }};
    ($this:ty => $function:path, arguments) => {{
        use $crate::python::{capi::Object, class, py::Dict, py::Tuple};
        extern "C-unwind" fn entry(
            this: class::This<'_, $this>,
            arguments: Tuple<'_>,
            keywords: Option<Dict<'_>>,
        ) -> *mut Object {
            class::run(|py| $function(py, this.instance(py.capi()), arguments, keywords))
        }
        entry
    }};
    ($function:path) => {{
        use $crate::python::{capi::Object, class};
        extern "C-unwind" fn entry(_: *mut Object, _: *mut Object) -> *mut Object {
            class::run(|py| $function(py))
        }
        entry
    }};
    ($function:path, arguments) => {{
        use $crate::error::Result;
        use $crate::python::{Owned, Py, class};
        struct Entry;
        impl class::WithArguments for Entry {
            fn call<'py>(py: Py<'py>, arguments: class::Arguments<'_>) -> Result<Owned<'py>> {
                $function(py, arguments)
            }
        }
        class::call_with_arguments::<Entry>
    }};
}

pub(crate) use entry;

/// A method of a class: `PyMethodDef`.
#[repr(transparent)]
pub struct Method<T>(MethodDef, PhantomData<fn(Instance<'_, T>)>);

impl<T: Contents> Method<T> {
    pub const END: Self = Method(definition(ptr::null(), ptr::null(), 0, ptr::null()), PhantomData);

    pub const fn new(
        name: &'static CStr,
        entry: extern "C-unwind" fn(This<'_, T>, *mut Object) -> *mut Object,
        doc: &'static CStr,
    ) -> Self {
        Self::with(name, entry as *const c_void, METH_NOARGS, doc)
    }

    /// A method that accepts any positional arguments, and uses none.
    pub const fn ignoring(
        name: &'static CStr,
        entry: extern "C-unwind" fn(This<'_, T>, *mut Object) -> *mut Object,
        doc: &'static CStr,
    ) -> Self {
        Self::with(name, entry as *const c_void, METH_VARARGS, doc)
    }

    pub const fn with_keywords(
        name: &'static CStr,
        entry: extern "C-unwind" fn(This<'_, T>, Tuple<'_>, Option<Dict<'_>>) -> *mut Object,
        doc: &'static CStr,
    ) -> Self {
        Self::with(name, entry as *const c_void, METH_VARARGS_KEYWORDS, doc)
    }

    const fn with(
        name: &'static CStr,
        entry: *const c_void,
        flags: c_int,
        doc: &'static CStr,
    ) -> Self {
        Method(definition(name.as_ptr(), entry, flags, doc.as_ptr()), PhantomData)
    }

    /// Makes a function that calls the method of one object, which it keeps alive.
    pub fn bind<'py>(&'static self, py: Py<'py>, this: Instance<'_, T>) -> Result<Owned<'py>> {
        // SAFETY: the definition is of a method of the object's class.
        unsafe { make(py, &self.0, Some(this.object), None) }
    }
}

/// A function that is no method: `PyMethodDef`.
#[repr(transparent)]
pub struct Function(MethodDef);

impl Function {
    pub const fn new(
        name: &'static CStr,
        entry: extern "C-unwind" fn(*mut Object, *mut Object) -> *mut Object,
    ) -> Self {
        Function(definition(name.as_ptr(), entry as *const c_void, METH_NOARGS, ptr::null()))
    }

    pub const fn with_keywords(
        name: &'static CStr,
        entry: CallWithArguments,
        doc: &'static CStr,
    ) -> Self {
        let entry = entry as *const c_void;
        Function(definition(name.as_ptr(), entry, METH_FASTCALL_KEYWORDS, doc.as_ptr()))
    }

    /// Makes the function. `this` is its `__self__`, and `module` its `__module__`.
    pub fn make<'py>(
        &'static self,
        py: Py<'py>,
        this: Option<Obj<'_>>,
        module: Option<Obj<'_>>,
    ) -> Result<Owned<'py>> {
        // SAFETY: the definition uses no `__self__`.
        unsafe { make(py, &self.0, this, module) }
    }
}

/// Makes a function, which takes references of its own.
///
/// # Safety
/// `this` is what the function in the definition expects.
unsafe fn make<'py>(
    py: Py<'py>,
    definition: &'static MethodDef,
    this: Option<Obj<'_>>,
    module: Option<Obj<'_>>,
) -> Result<Owned<'py>> {
    let raw = |object: Option<Obj<'_>>| object.map_or(ptr::null_mut(), Obj::as_ptr);
    let new = py.capi().function_new;
    // SAFETY: the GIL is held; the definition is constant. The result is new.
    unsafe { py.take(new(definition, raw(this), raw(module))) }
}

const fn definition(
    name: *const c_char,
    function: *const c_void,
    flags: c_int,
    doc: *const c_char,
) -> MethodDef {
    MethodDef { name, function, flags, doc }
}

#[derive(Clone, Copy)]
pub struct Arguments<'a> {
    pub positional: &'a [Obj<'a>],
    /// The names of the others.
    names: Option<Tuple<'a>>,
    /// As many as there are names.
    values: &'a [Obj<'a>],
}

impl<'a> Arguments<'a> {
    #[inline]
    pub fn keywords<'py>(
        self,
        py: Py<'py>,
    ) -> impl Iterator<Item = (Obj<'a>, Obj<'a>)> + use<'a, 'py> {
        let names = self.names.into_iter().flat_map(move |names| names.items(py));
        names.zip(self.values.iter().copied())
    }
}

/// The body of a function with positional arguments and keywords.
pub trait WithArguments {
    fn call<'py>(py: Py<'py>, arguments: Arguments<'_>) -> Result<Owned<'py>>;
}

type CallWithArguments =
    extern "C-unwind" fn(*mut Object, Vector<'_>, usize, Option<Tuple<'_>>) -> *mut Object;

/// The first of the objects that CPython passes to a function, which nothing else makes.
#[repr(transparent)]
pub struct Vector<'a>(*const Obj<'a>);

pub extern "C-unwind" fn call_with_arguments<F: WithArguments>(
    _: *mut Object,
    arguments: Vector<'_>,
    count: usize,
    names: Option<Tuple<'_>>,
) -> *mut Object {
    run(|py| {
        let all = match count + names.map_or(0, |names| names.len(py)) {
            0 => &[],
            // SAFETY: CPython passes `count` objects, and then one for each name.
            all => unsafe { slice(arguments.0, all) },
        };
        let (positional, values) = all.split_at(count);
        F::call(py, Arguments { positional, names, values })
    })
}

extern "C-unwind" fn repr<T: Contents>(this: This<'_, T>) -> *mut Object {
    run(|py| T::repr(py, this.instance(py.capi())))
}

extern "C-unwind" fn length<T: Contents>(this: This<'_, T>) -> isize {
    match unwind::guarded(|| Py::with(|py| T::len(py, this.instance(py.capi())))) {
        Ok(length) => length as isize,
        Err(failure) => raise(&failure, -1),
    }
}

/// CPython passes the place of a view, which is written on success only, except `obj`.
unsafe extern "C-unwind" fn get_buffer<T: Contents>(
    this: This<'_, T>,
    view: *mut PyBuffer,
    flags: c_int,
) -> c_int {
    let Some(view) = NonNull::new(view) else {
        return raise(&Failure::null("view"), -1);
    };
    // SAFETY: the place of a view, whose members need no Drop.
    unsafe {
        let lent = unwind::guarded(|| {
            Py::with(|py| T::lend(py, this.instance(py.capi()), flags).map(Lent::into_view))
        });
        match lent {
            Ok(lent) => {
                view.write(lent);
                0
            }
            Err(failure) => {
                (&raw mut (*view.as_ptr()).obj).write(ptr::null_mut());
                raise(&failure, -1)
            }
        }
    }
}

unsafe extern "C-unwind" fn release_buffer(_: *mut Object, view: *mut PyBuffer) {
    // SAFETY: CPython passes a view that `get_buffer` wrote, once.
    unsafe { release_lent(&*view) };
}

/// An object is true: that does not depend on values, which Python cannot read, and an array
/// without elements is an array.
extern "C-unwind" fn is_true(_: *mut Object) -> c_int {
    1
}

/// Unguarded, because nothing in it can panic.
unsafe extern "C-unwind" fn dealloc<T: Contents>(object: *mut Object) {
    // The functions were found before the type was made.
    let Some(capi) = capi::found() else { return };
    // SAFETY: the GIL is held, and the last reference to an object of the class was released. Its
    // contents are behind its head. An object of a heap type holds a reference to its type.
    unsafe {
        let attached = Attached::assume(capi);
        let r#type = capi.type_of(Obj::new(NonNull::new_unchecked(object)));
        let contents = object.byte_add(capi.facts.head);
        // In a free-threaded build another thread may be adding one, and CPython has to look.
        let weak_references = contents.byte_add(T::WEAK_REFERENCES).cast::<*mut Object>();
        if capi.facts.free_threaded || !weak_references.read().is_null() {
            (capi.clear_weakrefs)(object);
        }
        attached.keeping_exception(|| (*contents.cast::<T>()).finalize(Ending(attached)));
        (capi.object_free)(object.cast());
        attached.release(r#type);
    }
}
