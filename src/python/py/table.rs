//! CPython's functions, with types that make a call safe where there are such.
//!
//! A function that takes objects takes [`Obj`], which proves that they are alive and that the thread
//! is attached. A new reference is a [`New`]. What else a function requires, it checks itself, and
//! sets an exception: that an object is a tuple that may be filled, or a dictionary. These members
//! are private to the modules of [`Py`](super::Py), which is the proof for functions without
//! objects. The others are unsafe to call.
//!
//! Everything that is required is in the stable ABI, or has been exported by every version since
//! 3.9; later functions are optional.

use std::ffi::{CStr, c_char, c_int, c_longlong, c_ulong, c_ulonglong, c_void};
use std::marker::PhantomData;
use std::mem::transmute;
use std::ops::{Deref, Range};
use std::ptr::{self, NonNull};

use super::{Dict, Obj, Places, Tuple, TypeObj};
use crate::error::{Result, fail};
use crate::library::Library;
use crate::python::capi::{CapsuleDestructor, MethodDef, Object, PyBuffer, TypeSpec};

/// The result of a function of CPython: a reference that the caller owns, or NULL and an exception.
#[repr(transparent)]
#[must_use]
pub(super) struct New(pub(super) Option<NonNull<Object>>);

impl From<*mut Object> for New {
    #[inline(always)]
    fn from(object: *mut Object) -> Self {
        New(NonNull::new(object))
    }
}

/// A terminated text.
#[repr(transparent)]
pub(super) struct Text<'a>(NonNull<c_char>, PhantomData<&'a CStr>);

impl<'a> From<&'a CStr> for Text<'a> {
    #[inline(always)]
    fn from(text: &'a CStr) -> Self {
        Text(NonNull::from(text).cast(), PhantomData)
    }
}

/// CPython's structure of an interpreter that is alive.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct State(pub(super) *mut c_void);

/// State of a thread that was detached, with which it attaches again.
#[repr(transparent)]
pub(super) struct Saved(NonNull<c_void>);

macro_rules! table {
    (
        anytime { $($any:ident = $anyname:literal () -> $anyret:ty;)* }
        attached { $($name:ident = $text:literal ($($arg:ty),*) $(-> $ret:ty)?;)* }
        raw { $($raw:ident = $rawname:literal ($($rawarg:ty),*) $(-> $rawret:ty)?;)* }
        optional_anytime { $($anyopt:ident = $anyoptname:literal () -> $anyoptret:ty;)* }
        optional_attached { $($opt:ident = $optname:literal ($($optarg:ty),*) $(-> $optret:ty)?;)* }
        optional_raw {
            $($rawopt:ident = $rawoptname:literal ($($rawoptarg:ty),*) $(-> $rawoptret:ty)?;)*
        }
        objects { $($object:ident = $objname:literal;)* }
        exceptions { $($exception:ident = $excname:literal;)* }
    ) => {
        /// CPython's functions and objects.
        #[allow(missing_docs)]
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct Functions {
            $(pub $any: extern "C-unwind" fn() -> $anyret,)*
            $(pub(super) $name: extern "C-unwind" fn($($arg),*) $(-> $ret)?,)*
            $(pub $raw: unsafe extern "C-unwind" fn($($rawarg),*) $(-> $rawret)?,)*
            $(pub $anyopt: Option<extern "C-unwind" fn() -> $anyoptret>,)*
            $(pub(super) $opt: Option<extern "C-unwind" fn($($optarg),*) $(-> $optret)?>,)*
            $(pub $rawopt:
                Option<unsafe extern "C-unwind" fn($($rawoptarg),*) $(-> $rawoptret)?>,)*
            $(pub $object: *mut Object,)*
            /// Exceptions: the variables that hold them, because CPython creates them when it
            /// starts.
            $(pub $exception: *const *mut Object,)*
        }

        /// The names of all members in their order, each with a NUL.
        const NAMES: &str = concat!(
            $($anyname, "\0",)* $($text, "\0",)* $($rawname, "\0",)*
            $($anyoptname, "\0",)* $($optname, "\0",)* $($rawoptname, "\0",)*
            $($objname, "\0",)* $($excname, "\0",)*
        );
        const COUNT: usize = OPTIONAL.end + [$($objname,)* $($excname,)*].len();
        const OPTIONAL: Range<usize> = {
            let start = [$($anyname,)* $($text,)* $($rawname,)*].len();
            start..start + [$($anyoptname,)* $($optname,)* $($rawoptname,)*].len()
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
    // Called with the GIL held (in free-threaded builds: by an attached thread).
    attached {
        incref = "Py_IncRef" (Obj<'_>);
        decref = "Py_DecRef" (New);
        at_exit = "Py_AtExit" (extern "C-unwind" fn()) -> c_int;
        interpreter = "PyInterpreterState_Get" () -> State;
        interpreter_id = "PyInterpreterState_GetID" (State) -> i64;
        object_type = "PyObject_Type" (Obj<'_>) -> New;
        get_attr = "PyObject_GetAttr" (Obj<'_>, Obj<'_>) -> New;
        get_attr_generic = "PyObject_GenericGetAttr" (Obj<'_>, Obj<'_>) -> New;
        set_attr = "PyObject_SetAttr" (Obj<'_>, Obj<'_>, Obj<'_>) -> c_int;
        get_item = "PyObject_GetItem" (Obj<'_>, Obj<'_>) -> New;
        is_true = "PyObject_IsTrue" (Obj<'_>) -> c_int;
        callable_check = "PyCallable_Check" (Obj<'_>) -> c_int;
        call = "PyObject_Call" (Obj<'_>, Tuple<'_>, Option<Dict<'_>>) -> New;
        repr = "PyObject_Repr" (Obj<'_>) -> New;
        mapping_check = "PyMapping_Check" (Obj<'_>) -> c_int;
        buffer_check = "PyObject_CheckBuffer" (Obj<'_>) -> c_int;
        sequence_check = "PySequence_Check" (Obj<'_>) -> c_int;
        contains = "PySequence_Contains" (Obj<'_>, Obj<'_>) -> c_int;
        sequence_size = "PySequence_Size" (Obj<'_>) -> isize;
        sequence_item = "PySequence_GetItem" (Obj<'_>, isize) -> New;
        dict_new = "PyDict_New" () -> New;
        dict_copy = "PyDict_Copy" (Obj<'_>) -> New;
        dict_set = "PyDict_SetItem" (Obj<'_>, Obj<'_>, Obj<'_>) -> c_int;
        tuple_new = "PyTuple_New" (isize) -> New;
        tuple_set = "PyTuple_SetItem" (Obj<'_>, isize, New) -> c_int;
        tuple_get = "PyTuple_GetItem" (Tuple<'_>, isize) -> Option<Obj<'_>>;
        tuple_size = "PyTuple_Size" (Tuple<'_>) -> isize;
        long_from_signed = "PyLong_FromLongLong" (c_longlong) -> New;
        long_from_unsigned = "PyLong_FromUnsignedLongLong" (c_ulonglong) -> New;
        long_as_signed = "PyLong_AsLongLongAndOverflow" (Obj<'_>, &mut c_int) -> c_longlong;
        long_as_unsigned = "PyLong_AsUnsignedLongLong" (Obj<'_>) -> c_ulonglong;
        long_as_size = "PyLong_AsSsize_t" (Obj<'_>) -> isize;
        index = "PyNumber_Index" (Obj<'_>) -> New;
        str_intern = "PyUnicode_InternFromString" (Text<'_>) -> New;
        str_length = "PyUnicode_GetLength" (Obj<'_>) -> isize;
        str_char = "PyUnicode_ReadChar" (Obj<'_>, isize) -> u32;
        error_occurred = "PyErr_Occurred" () -> Option<NonNull<Object>>;
        error_clear = "PyErr_Clear" ();
        error_matches = "PyErr_ExceptionMatches" (Obj<'_>) -> c_int;
        error_fetch = "PyErr_Fetch" (&mut New, &mut New, &mut New);
        error_restore = "PyErr_Restore" (New, New, New);
        error_set = "PyErr_SetObject" (Obj<'_>, Obj<'_>);
        capsule_is = "PyCapsule_IsValid" (Obj<'_>, Option<Text<'_>>) -> c_int;
        capsule_pointer = "PyCapsule_GetPointer" (Obj<'_>, Option<Text<'_>>) -> Option<NonNull<c_void>>;
        capsule_rename = "PyCapsule_SetName" (Obj<'_>, Text<'static>) -> c_int;
        import = "PyImport_ImportModule" (Text<'_>) -> New;
        imported = "PyImport_GetModule" (Obj<'_>) -> New;
        save_thread = "PyEval_SaveThread" () -> Option<Saved>;
        restore_thread = "PyEval_RestoreThread" (Saved);
        type_is_subtype = "PyType_IsSubtype" (TypeObj<'_>, TypeObj<'_>) -> c_int;
    }
    // The same, and what CPython's manual requires of the arguments.
    raw {
        add_pending_call = "Py_AddPendingCall" (unsafe extern "C-unwind" fn(*mut c_void) -> c_int, *mut c_void) -> c_int;
        clear_weakrefs = "PyObject_ClearWeakRefs" (*mut Object);
        buffer_get = "PyObject_GetBuffer" (*mut Object, *mut PyBuffer, c_int) -> c_int;
        buffer_release = "PyBuffer_Release" (*mut PyBuffer);
        list_get = "PyList_GetItem" (*mut Object, isize) -> *mut Object;
        dict_size = "PyDict_Size" (*mut Object) -> isize;
        dict_next = "PyDict_Next" (*mut Object, *mut isize, *mut *mut Object, *mut *mut Object) -> c_int;
        str_from = "PyUnicode_FromStringAndSize" (*const c_char, isize) -> *mut Object;
        str_utf8 = "PyUnicode_AsUTF8AndSize" (*mut Object, *mut isize) -> *const c_char;
        // Compares with ASCII. Sets no exception.
        str_compare = "PyUnicode_CompareWithASCIIString" (*mut Object, *const c_char) -> c_int;
        capsule_new = "PyCapsule_New" (*mut c_void, *const c_char, Option<CapsuleDestructor>) -> *mut Object;
        type_from_spec = "PyType_FromSpec" (*mut TypeSpec) -> *mut Object;
        type_alloc = "PyType_GenericAlloc" (*mut Object, isize) -> *mut Object;
        object_free = "PyObject_Free" (*mut c_void);
        type_slot = "PyType_GetSlot" (*mut Object, c_int) -> *mut c_void;
        function_new = "PyCFunction_NewEx" (*const MethodDef, *mut Object, *mut Object) -> *mut Object;
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
    optional_attached {
        // Without these (3.13, and a private one before), a missing attribute costs an exception.
        optional_attr = "PyObject_GetOptionalAttr" (Obj<'_>, Obj<'_>, &mut New) -> c_int;
        optional_attr_before = "_PyObject_LookupAttr" (Obj<'_>, Obj<'_>, &mut New) -> c_int;
        // Without this (3.13), a missing item costs an exception.
        optional_item = "PyMapping_GetOptionalItem" (Obj<'_>, Obj<'_>, &mut New) -> c_int;
        // Looks an attribute up in the types that a type derives from; borrowed, and without an
        // exception if there is none. Used up to 3.13 only.
        type_lookup = "_PyType_Lookup" (TypeObj<'_>, Obj<'_>) -> *mut Object;
        // The same with a new reference, as free-threaded code needs: 3.13.
        type_lookup_ref = "_PyType_LookupRef" (TypeObj<'_>, Obj<'_>) -> New;
        // The dictionary of a type itself: 3.12.
        type_dict = "PyType_GetDict" (TypeObj<'_>) -> New;
        // Gives a type a version if it has none: 3.12. Looking an attribute up does so as well.
        assign_version = "PyUnstable_Type_AssignVersionTag" (TypeObj<'_>) -> c_int;
        // 3.13: returns a new reference, as free-threaded code needs.
        dict_get_ref = "PyDict_GetItemRef" (Dict<'_>, Obj<'_>, &mut New) -> c_int;
    }
    optional_raw {
        // 3.9. Looks a method up and calls it, without an object for the bound method.
        call_method = "PyObject_VectorcallMethod" (*mut Object, *const *mut Object, usize, *mut Object) -> *mut Object;
        // 3.11, inline before. Takes keywords without a dictionary for them.
        vectorcall = "PyObject_Vectorcall" (*mut Object, *const *mut Object, usize, *mut Object) -> *mut Object;
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
        method_type = "PyMethodDescr_Type";
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

/// CPython's functions and objects, with what is known of the build.
#[derive(Clone, Copy)]
pub struct Capi {
    functions: Functions,
    pub facts: ObjectLayout,
}

// SAFETY: a table of constants. The GIL is a requirement of the calls themselves.
unsafe impl Send for Capi {}
// SAFETY: a table of constants. The GIL is a requirement of the calls themselves.
unsafe impl Sync for Capi {}

impl Deref for Capi {
    type Target = Functions;

    #[inline(always)]
    fn deref(&self) -> &Functions {
        &self.functions
    }
}

/// Differences between builds.
#[derive(Clone, Copy, Default)]
pub struct ObjectLayout {
    /// Bytes of the head that every object begins with, as `object.__basicsize__` states; 0 if it
    /// does not.
    pub head: usize,
    /// Places of what is read without a call, if they are where that states. Otherwise CPython is
    /// called.
    pub places: Option<Places>,
    /// Bytes from the start of a type to its version (`tp_version_tag`); 0 if not known.
    pub type_version: usize,
    /// A free-threaded build: several threads run Python at once.
    pub free_threaded: bool,
    /// The version, as in 0x030d: 3.13.
    pub version: u32,
}

impl Capi {
    /// Looks every name up. One loop takes a tenth of the code that a call for each name takes.
    pub fn find(library: &Library) -> Result<Self> {
        let mut addresses = [ptr::null_mut::<c_void>(); COUNT];
        let names = NAMES.as_bytes().split_inclusive(|byte| *byte == 0);
        for (index, (name, address)) in names.zip(&mut addresses).enumerate() {
            let name = CStr::from_bytes_with_nul(name).unwrap_or_default();
            // SAFETY: an address has any type.
            match unsafe { library.get(name) } {
                Some(found) => *address = found,
                None if OPTIONAL.contains(&index) => {}
                None => {
                    return fail!(CAI_ERR_PYTHON_VERSION, "python";
                        found "a CPython without {}", name.to_bytes().escape_ascii();
                        expected "3.9 or later");
                }
            }
        }
        // SAFETY: there are as many names as members, in the same order, and only optional members
        // are NULL. The table pairs each name with its type in CPython's documentation, in which
        // `Obj`, `New` and the others are addresses of objects, and references those of values.
        let functions = unsafe { transmute::<[*mut c_void; COUNT], Functions>(addresses) };
        Ok(Capi { functions, facts: ObjectLayout::default() })
    }

    /// Returns the address of the function that looks attributes up in the type and in the object's
    /// dictionary, which is in the slot `tp_getattro` of most types.
    pub fn generic_get_attr(&self) -> *const c_void {
        self.functions.get_attr_generic as *const c_void
    }

    /// Sets the version. Forgets a private function that is known up to a version only.
    pub fn set_version(&mut self, version: u32) {
        /// The last version whose `_PyType_Lookup` is known.
        const LAST_TYPE_LOOKUP: u32 = 0x030d;
        self.facts.version = version;
        if version > LAST_TYPE_LOOKUP {
            self.functions.type_lookup = None;
            self.functions.type_lookup_ref = None;
        }
    }
}
