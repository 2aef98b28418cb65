//! CPython inside a target: the shared library that `CAI_FUZZ_LIBPYTHON` names (`make fuzz` sets it), so that nothing of
//! it is needed to build.

use std::env;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use cai::abi::*;
use cai::ffi::{array::*, python::*};

use crate::{filled, new_array};

/// `PyObject *`
pub type Object = *mut _object;

macro_rules! functions {
    ($($field:ident = $name:literal ($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions that targets call. The lock is held by the only thread that there is.
        #[derive(Clone, Copy)]
        pub struct Python {
            $(pub $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Python {
            unsafe fn find(library: *mut c_void) -> Self {
                // SAFETY: each name has had this type since Python 3.9.
                unsafe { Python { $($field: std::mem::transmute::<*mut c_void, _>(symbol(library, $name)),)* } }
            }
        }
    };
}

functions! {
    initialize = c"Py_InitializeEx" (c_int);
    run = c"PyRun_String" (*const c_char, c_int, Object, Object) -> Object;
    main = c"PyImport_AddModule" (*const c_char) -> Object;
    dict = c"PyModule_GetDict" (Object) -> Object;
    attribute = c"PyObject_GetAttrString" (Object, *const c_char) -> Object;
    set_attribute = c"PyObject_SetAttrString" (Object, *const c_char, Object) -> c_int;
    type_of = c"PyObject_Type" (Object) -> Object;
    item = c"PySequence_GetItem" (Object, isize) -> Object;
    length = c"PySequence_Size" (Object) -> isize;
    capsule = c"PyCapsule_New" (*mut c_void, *const c_char, *const c_void) -> Object;
    pointer = c"PyCapsule_GetPointer" (Object, *const c_char) -> *mut c_void;
    release = c"Py_DecRef" (Object);
    occurred = c"PyErr_Occurred" () -> Object;
    clear = c"PyErr_Clear" ();
    print = c"PyErr_Print" ();
    raise = c"PyErr_SetString" (Object, *const c_char);
}

unsafe fn symbol(library: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: the library is open.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    assert!(!found.is_null(), "{name:?}");
    found
}

/// Starts CPython at the first call. It is never ended.
pub fn python() -> &'static Python {
    static PYTHON: OnceLock<Python> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let path = env::var("CAI_FUZZ_LIBPYTHON").expect("CAI_FUZZ_LIBPYTHON names libpython");
        let path = CString::new(path).unwrap();
        // SAFETY: what it loads is CPython; the functions have the types that its headers state.
        unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL);
            assert!(!library.is_null(), "{path:?}");
            let python = Python::find(library);
            (python.initialize)(0);
            python
        }
    })
}

impl Python {
    /// Runs a text in `__main__`, and returns its dictionary.
    pub fn run(&self, text: &str) -> Object {
        let text = CString::new(text).unwrap();
        const FILE: c_int = 257;
        // SAFETY: the interpreter has started, and this is its thread.
        unsafe {
            let names = (self.dict)((self.main)(c"__main__".as_ptr()));
            if (self.run)(text.as_ptr(), FILE, names, names).is_null() {
                (self.print)();
                panic!("the set-up fails");
            }
            (self.main)(c"__main__".as_ptr())
        }
    }

    /// Whether an exception is set, which is cleared.
    pub fn raised(&self) -> bool {
        // SAFETY: the interpreter has started, and this is its thread.
        unsafe {
            let is_set = !(self.occurred)().is_null();
            (self.clear)();
            is_set
        }
    }

    /// The references to an object: of a build with a lock, the low half of the first word.
    pub fn references(&self, object: Object) -> u32 {
        // SAFETY: the object is alive.
        unsafe { object.cast::<u32>().read() }
    }
}

/// An object that the library made, of an array with these extents.
pub fn exported(device_type: i32, mask: bool) -> Object {
    static SHAPE: [i64; 2] = [2, 3];
    let mut array = filled(&SHAPE, null_mut());
    array.device.r#type = device_type;
    let inner = array;
    array.mask = if mask { &raw const inner } else { null() };
    // SAFETY: the array obeys every rule.
    unsafe {
        let mut out = new_array();
        assert_eq!(cai_array_create(&array, null_mut(), None, &mut out, null_mut()), CAI_OK);
        let mut object = null_mut();
        assert_eq!(cai_array_to_python(&out, null(), &mut object, null_mut()), CAI_OK);
        cai_array_release(&mut out);
        object
    }
}
