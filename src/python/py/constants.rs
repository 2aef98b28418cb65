//! Types and classes of exceptions that CPython has itself.

use std::ptr::NonNull;

use super::{Attached, Capi, Obj, Py};
use crate::python::capi::Object;

macro_rules! constants {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $field:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($variant,)* }

        impl $name {
            #[inline(always)]
            pub(super) fn address(self, capi: &Capi) -> constants!(@type $name) {
                match self { $($name::$variant => capi.$field,)* }
            }
        }
    };
    (@type Builtin) => { *mut Object };
    (@type Exception) => { *const *mut Object };
}

constants! {
    /// Objects of CPython itself, most of them types.
    Builtin {
        None = none,
        True = r#true,
        False = r#false,
        Object = object_type_object,
        Type = type_type,
        GetSet = getset_type,
        Method = method_type,
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

impl Builtin {
    /// Returns the object.
    #[inline(always)]
    pub(super) fn of(self, attached: Attached<'_>) -> Obj<'_> {
        // SAFETY: a constant of CPython.
        unsafe { Obj::new(NonNull::new_unchecked(self.address(attached.capi()))) }
    }
}

impl Exception {
    pub fn object(self, py: Py<'_>) -> Obj<'_> {
        // SAFETY: a variable in which CPython keeps a class as long as there are interpreters.
        unsafe { Obj::new(NonNull::new_unchecked(*self.address(py.capi()))) }
    }
}
