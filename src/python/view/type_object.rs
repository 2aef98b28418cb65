//! The type `libcai.View`.

use std::ffi::{CStr, c_int, c_void};
use std::mem::offset_of;
use std::ptr;

use crate::error::Result;
use crate::memory;
use crate::python::capi::{
    GetSetDef, METH_NOARGS, METH_VARARGS, MP_LENGTH, MemberDef, MethodDef, NB_BOOL, READONLY,
    T_PYSSIZET, TP_DEALLOC, TP_DOC, TP_GETSET, TP_MEMBERS, TP_METHODS, TP_REPR, TPFLAGS_DEFAULT,
    TPFLAGS_DISALLOW_INSTANTIATION, TypeSlot, TypeSpec,
};
use crate::python::export::object::{Body, checked_head, get_bool};
use crate::python::py::{Owned, Py};
use crate::python::view::attributes::{Attribute, get};
use crate::python::view::object::{View, dealloc, enter_method, get_length, release_method, repr};

const DOC: &CStr = c"A view of an array of another object, made by libcai.view.";

/// The attributes and methods of the type.
struct Members {
    getters: [GetSetDef; 10],
    methods: [MethodDef; 4],
    members: [MemberDef; 2],
}

/// Makes the type, for one interpreter.
#[cold]
#[inline(never)]
pub fn make_type<'py>(py: Py<'py>) -> Result<Owned<'py>> {
    let capi = py.capi();
    let head = checked_head(capi)?;
    let getter = |name: &'static CStr, attribute: Attribute, doc: &'static CStr| GetSetDef {
        name: name.as_ptr(),
        get: Some(get),
        set: ptr::null(),
        doc: doc.as_ptr(),
        closure: ptr::without_provenance_mut(attribute as usize),
    };
    let method = |name: &'static CStr, function: *const c_void, flags, doc: &'static CStr| {
        MethodDef { name: name.as_ptr(), function, flags, doc: doc.as_ptr() }
    };
    // The type refers to these as long as it lives, which is not known here: they are leaked, once
    // for each interpreter.
    let mut members = memory::boxed(Members {
        getters: [
            getter(c"ptr", Attribute::Address, c"The address of the element at index zero."),
            getter(c"shape", Attribute::Shape, c"The extents."),
            getter(c"strides", Attribute::Strides, c"The strides in elements; None for C order."),
            getter(
                c"dtype",
                Attribute::Dtype,
                c"The type as a numpy.dtype; without NumPy, the typestr.",
            ),
            getter(
                c"device_id",
                Attribute::Device,
                c"The number of the device; -1 for host memory.",
            ),
            getter(
                c"is_device_accessible",
                Attribute::IsDeviceAccessible,
                c"False for host memory.",
            ),
            getter(c"readonly", Attribute::Readonly, c"True if the array must not be written."),
            getter(c"size", Attribute::Size, c"The number of elements."),
            getter(c"exporting_obj", Attribute::Exporter, c"The object that is viewed."),
            GetSetDef {
                name: ptr::null(),
                get: None,
                set: ptr::null(),
                doc: ptr::null(),
                closure: ptr::null_mut(),
            },
        ],
        methods: [
            method(
                c"release",
                release_method as *const c_void,
                METH_NOARGS,
                c"release($self, /)\n--\n\nMakes the producer wait for the work on the view's \
                 stream, and gives up the array.",
            ),
            method(
                c"__enter__",
                enter_method as *const c_void,
                METH_NOARGS,
                c"__enter__($self, /)\n--\n\nReturns the view.",
            ),
            method(
                c"__exit__",
                release_method as *const c_void,
                METH_VARARGS,
                c"__exit__($self, /, *exception)\n--\n\nReleases the view.",
            ),
            MethodDef { name: ptr::null(), function: ptr::null(), flags: 0, doc: ptr::null() },
        ],
        members: [
            MemberDef {
                name: c"__weaklistoffset__".as_ptr(),
                r#type: T_PYSSIZET,
                offset: (head + offset_of!(View, body) + offset_of!(Body, weak_references))
                    as isize,
                flags: READONLY,
                doc: ptr::null(),
            },
            MemberDef { name: ptr::null(), r#type: 0, offset: 0, flags: 0, doc: ptr::null() },
        ],
    })?;
    let mut slots = [
        TypeSlot { slot: TP_DEALLOC, function: dealloc as *mut c_void },
        TypeSlot { slot: TP_REPR, function: repr as *mut c_void },
        TypeSlot { slot: MP_LENGTH, function: get_length as *mut c_void },
        TypeSlot { slot: NB_BOOL, function: get_bool as *mut c_void },
        TypeSlot { slot: TP_DOC, function: DOC.as_ptr().cast_mut().cast() },
        TypeSlot { slot: TP_GETSET, function: members.getters.as_mut_ptr().cast() },
        TypeSlot { slot: TP_METHODS, function: members.methods.as_mut_ptr().cast() },
        TypeSlot { slot: TP_MEMBERS, function: members.members.as_mut_ptr().cast() },
        TypeSlot { slot: 0, function: ptr::null_mut() },
    ];
    // 3.9 lacks the flag and allows empty objects, which raise ValueError when they are used.
    let no_new = if capi.facts.version >= 0x030a { TPFLAGS_DISALLOW_INSTANTIATION } else { 0 };
    let mut spec = TypeSpec {
        name: c"libcai.View".as_ptr(),
        basicsize: (head + size_of::<View>()) as c_int,
        itemsize: 0,
        flags: TPFLAGS_DEFAULT | no_new,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the GIL is held. CPython copies the slots, and what they refer to is leaked.
    let made = Owned::new(py, unsafe { (capi.type_from_spec)(&raw mut spec) })?;
    Box::leak(members);
    Ok(made)
}
