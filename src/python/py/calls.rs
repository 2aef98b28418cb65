//! CPython's functions with types that make a call safe.
//!
//! A function that takes objects takes [`Obj`], which proves that they are alive and that the thread
//! is attached. A new reference is a [`New`]. What else a function requires, it checks itself, and
//! sets an exception: that an object is a tuple that may be filled, or a dictionary. The members
//! are private to the modules of [`Py`](super::Py), which is the proof for functions without
//! objects.

use std::ffi::{CStr, c_char, c_int, c_longlong, c_ulong, c_ulonglong, c_void};
use std::marker::PhantomData;
use std::mem::transmute;
use std::ptr::NonNull;

use super::{Dict, Obj, Tuple, TypeObj};
use crate::python::capi::{Capi, Object};

/// The result of a function of CPython: a reference that the caller owns, or NULL and an exception.
#[repr(transparent)]
#[must_use]
pub(super) struct New(pub(super) Option<NonNull<Object>>);

#[repr(transparent)]
pub(super) struct Text<'a>(NonNull<c_char>, PhantomData<&'a CStr>);

impl<'a> From<&'a CStr> for Text<'a> {
    #[inline(always)]
    fn from(text: &'a CStr) -> Self {
        Text(NonNull::from(text).cast(), PhantomData)
    }
}

macro_rules! calls {
    (
        functions { $($name:ident ($($arg:ty),*) $(-> $ret:ty)?;)* }
        optional { $($opt:ident ($($optarg:ty),*) $(-> $optret:ty)?;)* }
    ) => {
        pub struct Calls {
            $(pub(super) $name: extern "C-unwind" fn($($arg),*) $(-> $ret)?,)*
            $(pub(super) $opt: Option<extern "C-unwind" fn($($optarg),*) $(-> $optret)?>,)*
        }

        impl Calls {
            pub fn new(capi: &Capi) -> Self {
                // SAFETY: the same functions. `Obj`, `New` and the others are addresses of
                // objects, and references addresses of what they refer to.
                unsafe {
                    Calls {
                        $($name: transmute::<
                            *const (),
                            extern "C-unwind" fn($($arg),*) $(-> $ret)?,
                        >(capi.$name as *const ()),)*
                        $($opt: capi.$opt.map(|function| transmute::<
                            *const (),
                            extern "C-unwind" fn($($optarg),*) $(-> $optret)?,
                        >(function as *const ())),)*
                    }
                }
            }
        }
    };
}

calls! {
    functions {
        incref(Obj<'_>);
        decref(New);
        get_attr(Obj<'_>, Obj<'_>) -> New;
        set_attr(Obj<'_>, Obj<'_>, Obj<'_>) -> c_int;
        get_item(Obj<'_>, Obj<'_>) -> New;
        is_true(Obj<'_>) -> c_int;
        callable_check(Obj<'_>) -> c_int;
        call(Obj<'_>, Tuple<'_>, Option<Dict<'_>>) -> New;
        repr(Obj<'_>) -> New;
        mapping_check(Obj<'_>) -> c_int;
        buffer_check(Obj<'_>) -> c_int;
        sequence_check(Obj<'_>) -> c_int;
        contains(Obj<'_>, Obj<'_>) -> c_int;
        sequence_size(Obj<'_>) -> isize;
        sequence_item(Obj<'_>, isize) -> New;
        dict_new() -> New;
        dict_copy(Obj<'_>) -> New;
        dict_set(Obj<'_>, Obj<'_>, Obj<'_>) -> c_int;
        str_intern(Text<'_>) -> New;
        str_length(Obj<'_>) -> isize;
        str_char(Obj<'_>, isize) -> u32;
        tuple_new(isize) -> New;
        tuple_set(Obj<'_>, isize, New) -> c_int;
        tuple_get(Tuple<'_>, isize) -> Option<Obj<'_>>;
        tuple_size(Tuple<'_>) -> isize;
        long_from_signed(c_longlong) -> New;
        long_from_unsigned(c_ulonglong) -> New;
        long_as_signed(Obj<'_>, &mut c_int) -> c_longlong;
        long_as_unsigned(Obj<'_>) -> c_ulonglong;
        long_as_size(Obj<'_>) -> isize;
        index(Obj<'_>) -> New;
        capsule_is(Obj<'_>, Option<Text<'_>>) -> c_int;
        capsule_pointer(Obj<'_>, Option<Text<'_>>) -> Option<NonNull<c_void>>;
        capsule_rename(Obj<'_>, Text<'static>) -> c_int;
        type_flags(TypeObj<'_>) -> c_ulong;
        type_is_subtype(TypeObj<'_>, TypeObj<'_>) -> c_int;
        import(Text<'_>) -> New;
        error_occurred() -> Option<NonNull<Object>>;
        error_clear();
        error_matches(Obj<'_>) -> c_int;
        error_fetch(&mut New, &mut New, &mut New);
        error_restore(New, New, New);
        error_set(Obj<'_>, Obj<'_>);
    }
    optional {
        optional_attr(Obj<'_>, Obj<'_>, &mut New) -> c_int;
        optional_attr_before(Obj<'_>, Obj<'_>, &mut New) -> c_int;
        optional_item(Obj<'_>, Obj<'_>, &mut New) -> c_int;
        dict_get_ref(Dict<'_>, Obj<'_>, &mut New) -> c_int;
        type_lookup(TypeObj<'_>, Obj<'_>) -> *mut Object;
        type_lookup_ref(TypeObj<'_>, Obj<'_>) -> New;
        type_dict(TypeObj<'_>) -> New;
        assign_version(TypeObj<'_>) -> c_int;
    }
}
