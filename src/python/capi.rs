//! CPython, found in the process that loaded this library: the only file that names its functions.
//!
//! Nothing is linked. Everything that is required is in the stable ABI, or has been exported by
//! every version since 3.9; later functions are optional. Functions are called with the GIL held,
//! unless stated otherwise (in free-threaded builds: by an attached thread).

use std::ffi::{CStr, c_char, c_int, c_longlong, c_ulong, c_ulonglong, c_void};
use std::mem::{MaybeUninit, offset_of};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::abi::{self, _object};
use crate::error::{Failure, Result, fail, failure};
use crate::library::Library;
use crate::memory;
use crate::python::py::{Integers, Obj, find_places};

/// A Python object.
pub type Object = _object;

/// The type of a capsule's destructor.
pub type CapsuleDestructor = unsafe extern "C-unwind" fn(*mut Object);

/// `PyType_Slot`
#[repr(C)]
pub struct TypeSlot {
    pub slot: c_int,
    pub function: *mut c_void,
}

/// `PyType_Spec`
#[repr(C)]
pub struct TypeSpec {
    pub name: *const c_char,
    pub basicsize: c_int,
    pub itemsize: c_int,
    pub flags: u32,
    pub slots: *mut TypeSlot,
}

/// `PyMethodDef`
#[repr(C)]
pub struct MethodDef {
    pub name: *const c_char,
    pub function: *const c_void,
    pub flags: c_int,
    pub doc: *const c_char,
}

// SAFETY: plain data. Definitions in statics refer to constants, and CPython does not change them.
unsafe impl Sync for MethodDef {}

/// `PyGetSetDef`
#[repr(C)]
pub struct GetSetDef {
    pub name: *const c_char,
    pub get: Option<unsafe extern "C-unwind" fn(*mut Object, *mut c_void) -> *mut Object>,
    pub set: *const c_void,
    pub doc: *const c_char,
    pub closure: *mut c_void,
}

/// `PyMemberDef`
#[repr(C)]
pub struct MemberDef {
    pub name: *const c_char,
    pub r#type: c_int,
    pub offset: isize,
    pub flags: c_int,
    pub doc: *const c_char,
}

/// `Py_buffer`
#[repr(C)]
pub struct PyBuffer {
    pub buf: *mut c_void,
    pub obj: *mut Object,
    pub len: isize,
    pub itemsize: isize,
    pub readonly: c_int,
    pub ndim: c_int,
    pub format: *const c_char,
    pub shape: *const isize,
    pub strides: *const isize,
    pub suboffsets: *const isize,
    pub internal: *mut c_void,
}

/// `PyBUF_FULL_RO`
pub(super) const BUFFER_FULL_RO: c_int = 0x11c;
pub(super) const TP_DEALLOC: c_int = 52;
pub(super) const TP_DOC: c_int = 56;
pub(super) const TP_GETSET: c_int = 73;
pub(super) const TP_MEMBERS: c_int = 72;
pub(super) const TP_METHODS: c_int = 64;
pub(super) const TP_REPR: c_int = 66;
pub(super) const TP_ALLOC: c_int = 47;
pub(super) const TP_FREE: c_int = 74;
/// `Py_mp_length`
pub(super) const MP_LENGTH: c_int = 4;
/// `Py_nb_bool`
pub(super) const NB_BOOL: c_int = 9;
pub(super) const TPFLAGS_DEFAULT: u32 = 1 << 18;
pub(super) const TPFLAGS_DISALLOW_INSTANTIATION: u32 = 1 << 7;
pub(super) const METH_VARARGS_KEYWORDS: c_int = 1 | 2;
pub(super) const METH_VARARGS: c_int = 1;
pub(super) const METH_FASTCALL_KEYWORDS: c_int = 0x80 | 2;
pub(super) const METH_NOARGS: c_int = 4;
/// `T_PYSSIZET` / `Py_T_PYSSIZET`
pub(super) const T_PYSSIZET: c_int = 19;
pub(super) const READONLY: c_int = 1;

macro_rules! table {
    (
        anytime { $($any:ident = $anyname:literal () -> $anyret:ty;)* }
        functions { $($field:ident = $name:literal ($($arg:ty),*) $(-> $ret:ty)?;)* }
        optional_anytime { $($anyopt:ident = $anyoptname:literal () -> $anyoptret:ty;)* }
        optional { $($opt:ident = $optname:literal ($($optarg:ty),*) $(-> $optret:ty)?;)* }
        objects { $($object:ident = $objname:literal;)* }
        exceptions { $($exception:ident = $excname:literal;)* }
    ) => {
        /// CPython's functions and objects.
        #[allow(missing_docs)]
        #[repr(C)]
        pub struct Capi {
            $(pub $any: extern "C-unwind" fn() -> $anyret,)*
            $(pub $field: unsafe extern "C-unwind" fn($($arg),*) $(-> $ret)?,)*
            $(pub $anyopt: Option<extern "C-unwind" fn() -> $anyoptret>,)*
            $(pub $opt: Option<unsafe extern "C-unwind" fn($($optarg),*) $(-> $optret)?>,)*
            $(pub $object: *mut Object,)*
            /// Exceptions: the variables that hold them, because CPython creates them when it
            /// starts.
            $(pub $exception: *const *mut Object,)*
            pub facts: Facts,
        }

        /// The names of all members but the last, in their order, each with a NUL.
        const NAMES: &str = concat!(
            $($anyname, "\0",)* $($name, "\0",)*
            $($anyoptname, "\0",)* $($optname, "\0",)*
            $($objname, "\0",)* $($excname, "\0",)*
        );
        const COUNT: usize = OPTIONAL.end + [$($objname,)* $($excname,)*].len();
        const OPTIONAL: Range<usize> = {
            let start = [$($anyname,)* $($name,)*].len();
            start..start + [$($anyoptname,)* $($optname,)*].len()
        };
    };
}

table! {
    // Any thread may call these at any time, with or without the GIL.
    anytime {
        is_initialized = "Py_IsInitialized" () -> c_int;
        get_version = "Py_GetVersion" () -> *const c_char;
        this_thread_state = "PyGILState_GetThisThreadState" () -> *mut c_void;
    }
    functions {
        incref = "Py_IncRef" (*mut Object);
        decref = "Py_DecRef" (*mut Object);
        at_exit = "Py_AtExit" (unsafe extern "C-unwind" fn()) -> c_int;
        add_pending_call = "Py_AddPendingCall" (unsafe extern "C-unwind" fn(*mut c_void) -> c_int,
            *mut c_void) -> c_int;
        interpreter = "PyInterpreterState_Get" () -> *mut c_void;
        interpreter_id = "PyInterpreterState_GetID" (*mut c_void) -> i64;
        object_type = "PyObject_Type" (*mut Object) -> *mut Object;
        get_attr = "PyObject_GetAttr" (*mut Object, *mut Object) -> *mut Object;
        set_attr = "PyObject_SetAttr" (*mut Object, *mut Object, *mut Object) -> c_int;
        get_item = "PyObject_GetItem" (*mut Object, *mut Object) -> *mut Object;
        is_true = "PyObject_IsTrue" (*mut Object) -> c_int;
        callable_check = "PyCallable_Check" (*mut Object) -> c_int;
        call = "PyObject_Call" (*mut Object, *mut Object, *mut Object) -> *mut Object;
        repr = "PyObject_Repr" (*mut Object) -> *mut Object;
        clear_weakrefs = "PyObject_ClearWeakRefs" (*mut Object);
        mapping_check = "PyMapping_Check" (*mut Object) -> c_int;
        buffer_check = "PyObject_CheckBuffer" (*mut Object) -> c_int;
        buffer_get = "PyObject_GetBuffer" (*mut Object, *mut PyBuffer, c_int) -> c_int;
        buffer_release = "PyBuffer_Release" (*mut PyBuffer);
        sequence_check = "PySequence_Check" (*mut Object) -> c_int;
        contains = "PySequence_Contains" (*mut Object, *mut Object) -> c_int;
        sequence_size = "PySequence_Size" (*mut Object) -> isize;
        sequence_item = "PySequence_GetItem" (*mut Object, isize) -> *mut Object;
        list_get = "PyList_GetItem" (*mut Object, isize) -> *mut Object;
        dict_new = "PyDict_New" () -> *mut Object;
        dict_copy = "PyDict_Copy" (*mut Object) -> *mut Object;
        dict_set = "PyDict_SetItem" (*mut Object, *mut Object, *mut Object) -> c_int;
        dict_size = "PyDict_Size" (*mut Object) -> isize;
        dict_next = "PyDict_Next" (*mut Object, *mut isize, *mut *mut Object,
            *mut *mut Object) -> c_int;
        tuple_new = "PyTuple_New" (isize) -> *mut Object;
        tuple_set = "PyTuple_SetItem" (*mut Object, isize, *mut Object) -> c_int;
        tuple_get = "PyTuple_GetItem" (*mut Object, isize) -> *mut Object;
        tuple_size = "PyTuple_Size" (*mut Object) -> isize;
        long_from_signed = "PyLong_FromLongLong" (c_longlong) -> *mut Object;
        long_from_unsigned = "PyLong_FromUnsignedLongLong" (c_ulonglong) -> *mut Object;
        long_as_signed = "PyLong_AsLongLongAndOverflow" (*mut Object, *mut c_int) -> c_longlong;
        long_as_unsigned = "PyLong_AsUnsignedLongLong" (*mut Object) -> c_ulonglong;
        long_as_size = "PyLong_AsSsize_t" (*mut Object) -> isize;
        index = "PyNumber_Index" (*mut Object) -> *mut Object;
        str_from = "PyUnicode_FromStringAndSize" (*const c_char, isize) -> *mut Object;
        str_intern = "PyUnicode_InternFromString" (*const c_char) -> *mut Object;
        str_utf8 = "PyUnicode_AsUTF8AndSize" (*mut Object, *mut isize) -> *const c_char;
        str_length = "PyUnicode_GetLength" (*mut Object) -> isize;
        str_char = "PyUnicode_ReadChar" (*mut Object, isize) -> u32;
        // Compares with ASCII. Sets no exception.
        str_compare = "PyUnicode_CompareWithASCIIString" (*mut Object, *const c_char) -> c_int;
        error_occurred = "PyErr_Occurred" () -> *mut Object;
        error_clear = "PyErr_Clear" ();
        error_matches = "PyErr_ExceptionMatches" (*mut Object) -> c_int;
        error_fetch = "PyErr_Fetch" (*mut *mut Object, *mut *mut Object, *mut *mut Object);
        error_restore = "PyErr_Restore" (*mut Object, *mut Object, *mut Object);
        error_set = "PyErr_SetObject" (*mut Object, *mut Object);
        capsule_new = "PyCapsule_New" (*mut c_void, *const c_char,
            Option<CapsuleDestructor>) -> *mut Object;
        capsule_is = "PyCapsule_IsValid" (*mut Object, *const c_char) -> c_int;
        capsule_pointer = "PyCapsule_GetPointer" (*mut Object, *const c_char) -> *mut c_void;
        capsule_rename = "PyCapsule_SetName" (*mut Object, *const c_char) -> c_int;
        type_from_spec = "PyType_FromSpec" (*mut TypeSpec) -> *mut Object;
        type_slot = "PyType_GetSlot" (*mut Object, c_int) -> *mut c_void;
        type_flags = "PyType_GetFlags" (*mut Object) -> c_ulong;
        import = "PyImport_ImportModule" (*const c_char) -> *mut Object;
        function_new = "PyCFunction_NewEx" (*const MethodDef, *mut Object, *mut Object)
            -> *mut Object;
        save_thread = "PyEval_SaveThread" () -> *mut c_void;
        restore_thread = "PyEval_RestoreThread" (*mut c_void);
        type_is_subtype = "PyType_IsSubtype" (*mut Object, *mut Object) -> c_int;
    }
    optional_anytime {
        // 3.13; before that under the private name. The state of the calling thread from 3.12 on,
        // earlier that of the thread that holds the GIL.
        thread_state = "PyThreadState_GetUnchecked" () -> *mut c_void;
        thread_state_before = "_PyThreadState_UncheckedGet" () -> *mut c_void;
        // Returns 1 for every thread from 3.9 to 3.11, once there was a sub-interpreter.
        gil_check = "PyGILState_Check" () -> c_int;
        thread_ident = "PyThread_get_thread_ident" () -> c_ulong;
        is_finalizing = "Py_IsFinalizing" () -> c_int;
        is_finalizing_before = "_Py_IsFinalizing" () -> c_int;
    }
    optional {
        // 3.9. Looks a method up and calls it, without an object for the bound method.
        call_method = "PyObject_VectorcallMethod" (*mut Object, *const *mut Object, usize,
            *mut Object) -> *mut Object;
        // Without these (3.13, and a private one before), a missing attribute costs an exception.
        optional_attr = "PyObject_GetOptionalAttr" (*mut Object, *mut Object,
            *mut *mut Object) -> c_int;
        optional_attr_before = "_PyObject_LookupAttr" (*mut Object, *mut Object,
            *mut *mut Object) -> c_int;
        // Without this (3.13), a missing item costs an exception.
        optional_item = "PyMapping_GetOptionalItem" (*mut Object, *mut Object,
            *mut *mut Object) -> c_int;
        // Looks an attribute up in the types that a type derives from; borrowed, and without an
        // exception if there is none. Used up to 3.13 only.
        type_lookup = "_PyType_Lookup" (*mut Object, *mut Object) -> *mut Object;
        // The same with a new reference, as free-threaded code needs: 3.13.
        type_lookup_ref = "_PyType_LookupRef" (*mut Object, *mut Object) -> *mut Object;
        // The dictionary of a type itself: 3.12.
        type_dict = "PyType_GetDict" (*mut Object) -> *mut Object;
        // Gives a type a version if it has none: 3.12. Looking an attribute up does so as well.
        assign_version = "PyUnstable_Type_AssignVersionTag" (*mut Object) -> c_int;
        // 3.13: returns a new reference, as free-threaded code needs.
        dict_get_ref = "PyDict_GetItemRef" (*mut Object, *mut Object, *mut *mut Object) -> c_int;
        // 3.13, to some purpose in free-threaded builds only. The first argument is memory for what
        // CPython keeps about the section.
        section_begin = "PyCriticalSection_Begin" (*mut [usize; 4], *mut Object);
        section_end = "PyCriticalSection_End" (*mut [usize; 4]);
    }
    objects {
        none = "_Py_NoneStruct";
        r#true = "_Py_TrueStruct";
        r#false = "_Py_FalseStruct";
        object_type_object = "PyBaseObject_Type";
        type_type = "PyType_Type";
        getset_type = "PyGetSetDescr_Type";
        long_type = "PyLong_Type";
        bool_type = "PyBool_Type";
        tuple_type = "PyTuple_Type";
        list_type = "PyList_Type";
        dict_type = "PyDict_Type";
        str_type = "PyUnicode_Type";
        bytes_type = "PyBytes_Type";
        bytearray_type = "PyByteArray_Type";
        float_type = "PyFloat_Type";
    }
    exceptions {
        exception = "PyExc_Exception";
        attribute_error = "PyExc_AttributeError";
        import_error = "PyExc_ImportError";
        key_error = "PyExc_KeyError";
        type_error = "PyExc_TypeError";
        value_error = "PyExc_ValueError";
        buffer_error = "PyExc_BufferError";
        memory_error = "PyExc_MemoryError";
        runtime_error = "PyExc_RuntimeError";
        system_error = "PyExc_SystemError";
    }
}

// SAFETY: a table of constants. The GIL is a requirement of the calls themselves.
unsafe impl Send for Capi {}
// SAFETY: a table of constants. The GIL is a requirement of the calls themselves.
unsafe impl Sync for Capi {}

/// Differences between builds.
#[derive(Default)]
pub struct Facts {
    /// Bytes of the head that every object begins with, as `object.__basicsize__` states; 0 if it
    /// does not.
    pub head: usize,
    /// The same if objects are read in place; 0 otherwise. The type is the last word of the head. A
    /// size follows, in objects that have one.
    pub size_offset: usize,
    /// Bytes from the start of a tuple to its items, as `tuple.__basicsize__` states.
    pub tuple_items: usize,
    /// Encoding of integers, behind the head.
    pub integers: Integers,
    /// Bytes from the start of a type to its version (`tp_version_tag`); 0 if not known.
    pub type_version: usize,
    /// A type keeps the number of its last version until it gets the next one: 3.9.
    pub keeps_versions: bool,
    /// A free-threaded build: several threads run Python at once.
    pub free_threaded: bool,
    /// The version, as in 0x030d: 3.13.
    pub version: u32,
}

// Every member but the last is an address.
const _: () = assert!(offset_of!(Capi, facts) == COUNT * size_of::<*mut c_void>());

impl Capi {
    /// Looks every name up. One loop takes a tenth of the code that a call for each name takes.
    fn find(library: &Library) -> Result<Self> {
        let mut capi = MaybeUninit::<Capi>::uninit();
        let addresses = capi.as_mut_ptr().cast::<*mut c_void>();
        let names = NAMES.as_bytes().split_inclusive(|byte| *byte == 0);
        for (index, name) in names.enumerate() {
            let name = CStr::from_bytes_with_nul(name).unwrap_or_default();
            // SAFETY: an address has any type.
            let found: Option<*mut c_void> = unsafe { library.get(name) };
            if found.is_none() && !OPTIONAL.contains(&index) {
                return fail!(
                    CAI_ERR_PYTHON_VERSION,
                    "python",
                    found = ("a CPython without {}", name.to_bytes().escape_ascii()),
                    expected = "3.9 or later"
                );
            }
            // SAFETY: there are as many names as addresses before the last member, in the same
            // order (`COUNT`).
            unsafe { addresses.add(index).write(found.unwrap_or(ptr::null_mut())) };
        }
        // SAFETY: the loop has written all members but the last, which is written here. Only
        // members that may be NULL are; the table pairs each name with its type in CPython's
        // documentation.
        unsafe {
            (&raw mut (*capi.as_mut_ptr()).facts).write(Facts::default());
            Ok(capi.assume_init())
        }
    }
}

/// The last version whose `_PyType_Lookup` is known: it is private.
const LAST_TYPE_LOOKUP: u32 = 0x030d;

static CAPI: AtomicPtr<Capi> = AtomicPtr::new(ptr::null_mut());

/// Returns CPython's functions if they were found before.
#[inline(always)]
pub fn found() -> Option<&'static Capi> {
    // SAFETY: NULL or a leaked box. Acquire pairs with the Release in `find`.
    unsafe { CAPI.load(Ordering::Acquire).as_ref() }
}

/// Returns CPython's functions. If CPython is missing, the next call searches again.
#[inline]
pub fn capi() -> Result<&'static Capi> {
    match found() {
        Some(capi) => Ok(capi),
        None => find(),
    }
}

fn is_initialized(library: &Library) -> Option<extern "C-unwind" fn() -> c_int> {
    // SAFETY: the type is that of CPython's documentation, and any thread may call it at any time.
    unsafe { library.get(c"Py_IsInitialized") }
}

#[cold]
#[inline(never)]
fn find() -> Result<&'static Capi> {
    let nowhere = || {
        fail!(
            CAI_ERR_NO_PYTHON,
            "python",
            found = "none in this process",
            expected = "a running CPython, 3.9 or later"
        )
    };
    let Some(library) = library() else { return nowhere() };
    let Some(is_initialized) = is_initialized(&library) else { return nowhere() };
    if is_initialized() == 0 {
        return nowhere();
    }
    let mut capi = Capi::find(&library)?;
    if capi.thread_state.is_none() && capi.thread_state_before.is_none() {
        return fail!(
            CAI_ERR_PYTHON_VERSION,
            "python",
            found = "a CPython without PyThreadState_GetUnchecked",
            expected = "3.9 or later"
        );
    }
    // SAFETY: the function returns a constant text.
    let text = unsafe { CStr::from_ptr((capi.get_version)()) }.to_string_lossy();
    let mut numbers =
        text.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse::<u32>().ok());
    capi.facts.version = numbers.next().unwrap_or(0) << 8 | numbers.next().unwrap_or(0);
    capi.facts.free_threaded = text.contains("free-threading");
    if capi.facts.version > LAST_TYPE_LOOKUP {
        capi.type_lookup = None;
        capi.type_lookup_ref = None;
    }
    if capi.facts.version < 0x0309 {
        return fail!(
            CAI_ERR_PYTHON_VERSION,
            "python",
            found = "{text}",
            expected = "3.9 or later"
        );
    }
    if capi.facts.free_threaded && (capi.section_begin.is_none() || capi.section_end.is_none()) {
        return fail!(
            CAI_ERR_PYTHON_VERSION,
            "python",
            found = "a free-threaded CPython without PyCriticalSection_Begin",
            expected = "3.13 or later"
        );
    }
    if !capi.is_attached() {
        return Err(not_attached());
    }
    // SAFETY: the thread is attached.
    unsafe { find_places(&mut capi) };
    let capi = Box::into_raw(memory::boxed(capi)?);
    match CAPI.compare_exchange(ptr::null_mut(), capi, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: leaked above.
        Ok(_) => Ok(unsafe { &*capi }),
        Err(other) => {
            // SAFETY: this box was not published; the other one is leaked.
            unsafe {
                drop(Box::from_raw(capi));
                Ok(&*other)
            }
        }
    }
}

/// Returns a library that contains CPython: the global symbols, or a libpython that was loaded with
/// local symbols.
fn library() -> Option<Library> {
    let global = Library::program();
    if is_initialized(&global).is_some() {
        return Some(global);
    }
    loaded_libpython()
}

#[cfg(target_os = "linux")]
fn loaded_libpython() -> Option<Library> {
    const SIZE: usize = libc::PATH_MAX as usize;

    unsafe extern "C" fn look(
        info: *mut libc::dl_phdr_info,
        _: usize,
        found: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes its own structure and text; `found` is the array that was
        // passed to `dl_iterate_phdr`.
        let (name, found) = unsafe { ((*info).dlpi_name, &mut *found.cast::<[u8; SIZE]>()) };
        if name.is_null() {
            return 0;
        }
        // SAFETY: not NULL (checked above); a terminated text of the loader.
        let name = unsafe { CStr::from_ptr(name) };
        let file = name.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        // libpython3.so only forwards to the versioned library.
        if file.starts_with(b"libpython3.") && !file.starts_with(b"libpython3.so") {
            // Copied: the loader's own lock is held here, so nothing can be opened.
            for (to, from) in found[..SIZE - 1].iter_mut().zip(name.to_bytes()) {
                *to = *from;
            }
            return 1;
        }
        0
    }
    let mut found = [0; SIZE];
    // SAFETY: the function receives the array that it expects.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    Library::loaded(CStr::from_bytes_until_nul(&found).ok().filter(|name| !name.is_empty())?)
}

/// On Windows each minor version has a library of its own name; `t` marks free-threaded builds.
#[cfg(windows)]
fn loaded_libpython() -> Option<Library> {
    (9..40).flat_map(|minor| [(minor, ""), (minor, "t")]).find_map(|(minor, kind)| {
        let name = format!("python3{minor}{kind}.dll\0");
        Library::loaded(CStr::from_bytes_with_nul(name.as_bytes()).ok()?)
    })
}

#[cfg(not(any(target_os = "linux", windows)))]
fn loaded_libpython() -> Option<Library> {
    None
}

/// Releases a reference with the GIL held, and leaks it without.
///
/// Up to 3.13, CPython ends every thread that asks for the GIL once the interpreter ends. Then the
/// destructors of this library's stack frames run, and must not touch an object.
pub unsafe extern "C-unwind" fn release_if_attached(object: *mut Object) {
    if let Some(capi) = found().filter(|capi| capi.is_attached()) {
        // SAFETY: the GIL is held; the caller held the reference.
        unsafe { (capi.decref)(object) };
    }
}

/// Copies a word that another thread may free meanwhile. `None` if the memory is not there any more.
#[cfg(target_os = "linux")]
fn copy_word(address: *mut c_ulong) -> Option<c_ulong> {
    let mut word: c_ulong = 0;
    let length = size_of::<c_ulong>();
    let to = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: length };
    let from = libc::iovec { iov_base: address.cast(), iov_len: length };
    // SAFETY: only the local word is written. The kernel reads the other one, and reports memory
    // that is not mapped.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
    usize::try_from(copied).is_ok_and(|copied| copied == length).then_some(word)
}

#[cfg(not(target_os = "linux"))]
fn copy_word(_: *mut c_ulong) -> Option<c_ulong> {
    None
}

/// The failure for a calling thread that does not hold the GIL.
#[cold]
#[inline(never)]
pub fn not_attached() -> Failure {
    failure!(
        abi::CAI_ERR_PYTHON_LOCK,
        "python",
        found = "a thread without the GIL",
        expected = "the GIL to be held (ctypes.PyDLL holds it, ctypes.CDLL releases it)"
    )
}

impl Capi {
    /// Returns true if the calling thread holds the GIL, or is attached in a free-threaded build.
    /// May be called by any thread.
    #[inline(always)]
    pub fn is_attached(&self) -> bool {
        let Some(current) = self.thread_state.or(self.thread_state_before) else {
            return false;
        };
        let state = current();
        // Before 3.12 that is the state of whichever thread holds the lock.
        !state.is_null()
            && (self.facts.version >= 0x030c
                || state == (self.this_thread_state)()
                || self.is_in_another_interpreter(state))
    }

    /// Returns whether `state`, of the thread that held the GIL a moment ago, is one of this thread.
    ///
    /// Up to 3.11, CPython has no function for that. A thread keeps the state that it had first,
    /// also while it is in a sub-interpreter with another one, and `PyGILState_Check` returns true
    /// for every thread once there was a sub-interpreter. Each state contains the number of its
    /// thread: its place is looked up in the thread's own first state, and compared in `state`. If
    /// `state` belongs to another thread, that thread may free it meanwhile, so the kernel copies the
    /// word. Where it cannot, as on other systems than Linux, sub-interpreters of CPython 3.9 to 3.11
    /// are reported as not attached.
    #[cold]
    #[inline(never)]
    fn is_in_another_interpreter(&self, state: *mut c_void) -> bool {
        // The shortest state, that of 3.11, has more words than that.
        const WORDS: Range<usize> = 3..28;
        let (Some(gil_check), Some(thread_ident)) = (self.gil_check, self.thread_ident) else {
            return false;
        };
        let (own, ident) = ((self.this_thread_state)().cast::<c_ulong>(), thread_ident());
        // A thread without a state of its own is in no interpreter. Where there are no
        // sub-interpreters, the check fails.
        if own.is_null() || gil_check() == 0 {
            return false;
        }
        // SAFETY: the state that this thread had first ends no earlier than the thread, and has
        // these words.
        let word = WORDS.into_iter().find(|&word| unsafe { own.add(word).read() } == ident);
        word.is_some_and(|word| {
            copy_word(state.cast::<c_ulong>().wrapping_add(word)) == Some(ident)
        })
    }

    /// Returns true if the interpreter has begun to finalize. May be called by any thread.
    pub fn is_ending(&self) -> bool {
        let is_finalizing = self.is_finalizing.or(self.is_finalizing_before);
        (self.is_initialized)() == 0
            || is_finalizing.is_some_and(|is_finalizing| is_finalizing() != 0)
    }

    /// Runs code of others in the destructor of an object, which CPython may call with an exception
    /// set. That code expects none, and the exception is not its own.
    ///
    /// # Safety
    /// The GIL is held.
    #[inline(always)]
    pub unsafe fn keeping_exception(&self, run: impl FnOnce()) {
        // SAFETY: the GIL is held (this function's contract), and the references that
        // `error_fetch` returned are given back.
        unsafe {
            if (self.error_occurred)().is_null() {
                return run();
            }
            let [mut kind, mut value, mut trace] = [ptr::null_mut(); 3];
            (self.error_fetch)(&raw mut kind, &raw mut value, &raw mut trace);
            run();
            (self.error_restore)(kind, value, trace);
        }
    }

    /// Returns the address of an object's type, which may change when Python code runs.
    #[inline(always)]
    pub fn type_of(&self, object: Obj) -> *mut Object {
        match self.facts.size_offset {
            // SAFETY: the type is at the end of the head, where it was found when CPython was, and
            // the object is alive (`Obj`).
            offset @ 1.. => unsafe {
                object.as_ptr().byte_add(offset).cast::<*mut Object>().sub(1).read()
            },
            0 => self.ask_type_of(object),
        }
    }

    /// Asks CPython, if the place is not known.
    #[cold]
    #[inline(never)]
    fn ask_type_of(&self, object: Obj) -> *mut Object {
        // SAFETY: the GIL is held and the object is alive (`Obj`), which keeps its type alive.
        unsafe {
            let r#type = (self.object_type)(object.as_ptr());
            (self.decref)(r#type);
            r#type
        }
    }
}
