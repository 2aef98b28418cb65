//! The type `libcai.Array`: its attributes, its methods and its exchange tables.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::Ordering;

use crate::abi::{
    self, DLManagedTensorVersioned, cai_array, cai_error, cai_exchange_api, cai_status,
};
use crate::dlpack::exchange_table::{ExchangeTable, MAJOR, MINOR};
use crate::error::Result;
use crate::memory;
use crate::python::capi::{
    GetSetDef, METH_NOARGS, METH_VARARGS_KEYWORDS, MP_LENGTH, MemberDef, MethodDef, NB_BOOL,
    Object, READONLY, T_PYSSIZET, TP_DEALLOC, TP_DOC, TP_GETSET, TP_MEMBERS, TP_METHODS, TP_REPR,
    TPFLAGS_DEFAULT, TPFLAGS_DISALLOW_INSTANTIATION, TypeSlot, TypeSpec,
};
use crate::python::capsules::{DLPACK_CAPSULE, EXCHANGE_CAPSULE};
use crate::python::export::array_interface::get_host;
use crate::python::export::attributes::{
    array_method, get_device, get_dtype, get_shape, get_strides,
};
use crate::python::export::buffer::{get_buffer, get_int_ptr, get_offset, get_ptr, get_release};
use crate::python::export::cai_dict::get_cuda;
use crate::python::export::dlpack::{dlpack_device_method, dlpack_method};
use crate::python::export::exchange_table;
use crate::python::export::object::{Body, checked_head, dealloc, get_bool, get_length, repr};
use crate::python::export::sycl::get_sycl;
use crate::python::py::{Name, Owned, Py, raised};

pub(crate) const NAME: &CStr = c"libcai.Array";

const DOC: &CStr = c"An array, in the memory of a GPU or of the host, that a library exported.";

/// Returns the type, which is made at its first use in an interpreter.
pub fn export_type(py: Py) -> Result<*mut Object> {
    let known = py.exports.load(Ordering::Acquire);
    if known.is_null() { make_type(py) } else { Ok(known) }
}

/// The attributes and methods of the type.
struct Members {
    getters: [GetSetDef; 13],
    methods: [MethodDef; 4],
    members: [MemberDef; 2],
}

#[cold]
#[inline(never)]
fn make_type(py: Py) -> Result<*mut Object> {
    let capi = py.capi();
    let head = checked_head(capi)?;
    let getter = |name: &'static CStr, get, doc: &'static CStr| GetSetDef {
        name: name.as_ptr(),
        get: Some(get),
        set: ptr::null(),
        doc: doc.as_ptr(),
        closure: ptr::null_mut(),
    };
    let method = |name: &'static CStr, function, flags, doc: &'static CStr| MethodDef {
        name: name.as_ptr(),
        function,
        flags,
        doc: doc.as_ptr(),
    };
    let null_method =
        MethodDef { name: ptr::null(), function: ptr::null(), flags: 0, doc: ptr::null() };
    let null_getter = GetSetDef {
        name: ptr::null(),
        get: None,
        set: ptr::null(),
        doc: ptr::null(),
        closure: ptr::null_mut(),
    };
    let null_member =
        MemberDef { name: ptr::null(), r#type: 0, offset: 0, flags: 0, doc: ptr::null() };
    // The type refers to these as long as it lives, which is not known here: they are leaked, once
    // for each interpreter.
    let mut members = memory::boxed(Members {
        getters: [
            getter(c"__cuda_array_interface__", get_cuda, c"The CUDA Array Interface."),
            getter(c"__sycl_usm_array_interface__", get_sycl, c"The SYCL USM array interface."),
            getter(c"__array_interface__", get_host, c"NumPy's array interface, for host memory."),
            getter(c"shape", get_shape, c"The extents."),
            getter(c"strides", get_strides, c"The strides in bytes."),
            getter(c"dtype", get_dtype, c"The type as a numpy.dtype; without NumPy, the typestr."),
            getter(c"device", get_device, c"The device, such as 'cuda:0', or None."),
            getter(c"buffer", get_buffer, c"The buffer interface: the object itself."),
            getter(c"_ptr", get_ptr, c"The buffer interface: the cl_mem."),
            getter(c"int_ptr", get_int_ptr, c"The cl_mem, under pyopencl's name."),
            getter(c"offset", get_offset, c"The buffer interface: bytes from the buffer's start."),
            getter(c"release", get_release, c"The buffer interface: gives up the buffer."),
            null_getter,
        ],
        methods: [
            method(
                c"__dlpack__",
                dlpack_method as *const c_void,
                METH_VARARGS_KEYWORDS,
                c"__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, \
             copy=None)\n--\n\nA DLPack capsule, ordered before `stream`.",
            ),
            method(
                c"__dlpack_device__",
                dlpack_device_method as *const c_void,
                METH_NOARGS,
                c"__dlpack_device__($self, /)\n--\n\nDevice type and number of DLPack.",
            ),
            method(
                c"__array__",
                array_method as *const c_void,
                METH_VARARGS_KEYWORDS,
                c"__array__($self, dtype=None, /, *, copy=None)\n--\n\nFor NumPy: raises TypeError \
             unless the array is in host memory.",
            ),
            null_method,
        ],
        members: [
            MemberDef {
                name: c"__weaklistoffset__".as_ptr(),
                r#type: T_PYSSIZET,
                offset: (head + std::mem::offset_of!(Body, weak_references)) as isize,
                flags: READONLY,
                doc: ptr::null(),
            },
            null_member,
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
        name: NAME.as_ptr(),
        basicsize: (head + size_of::<Body>()) as c_int,
        itemsize: 0,
        flags: TPFLAGS_DEFAULT | no_new,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the GIL is held. CPython copies the slots, and what they refer to is leaked.
    let made = Owned::new(py, unsafe { (capi.type_from_spec)(&raw mut spec) })?;
    Box::leak(members);
    // SAFETY: the GIL is held; both tables live as long as the process.
    unsafe {
        let tables: [(Name, *mut c_void, &CStr); 2] = [
            (py.names.exchange, (&raw const EXCHANGE).cast_mut().cast(), EXCHANGE_CAPSULE),
            (
                py.names.dlpack_exchange,
                (&raw const DLPACK_EXCHANGE).cast_mut().cast(),
                DLPACK_CAPSULE,
            ),
        ];
        for (attribute, table, name) in tables {
            let capsule = Owned::new(py, (capi.capsule_new)(table, name.as_ptr(), None))?;
            if (capi.set_attr)(made.get(), attribute.as_ptr(), capsule.get()) != 0 {
                return raised();
            }
        }
    }
    match py.exports.compare_exchange(
        ptr::null_mut(),
        made.get(),
        Ordering::AcqRel,
        Ordering::Acquire,
    ) {
        Ok(_) => Ok(made.into_raw()),
        // Another thread of a free-threaded build was faster.
        Err(other) => Ok(other),
    }
}

/// This library's table for its own objects.
static EXCHANGE: cai_exchange_api = cai_exchange_api {
    struct_size: size_of::<cai_exchange_api>() as u32,
    data_abi: abi::CAI_DATA_ABI,
    from_object: Some(exchange_table::table_from_object),
    to_object: Some(table_to_object),
};

/// DLPack's table returns the producer's current stream without naming an array. So each array is
/// ordered before the legacy default stream when it is taken, and that stream is returned.
static DLPACK_EXCHANGE: ExchangeTable = ExchangeTable {
    major: MAJOR,
    minor: MINOR,
    previous: ptr::null(),
    allocator: Some(exchange_table::dlpack_allocate),
    from_object: Some(exchange_table::dlpack_from_object),
    to_object: Some(dlpack_to_object),
    // A borrowed tensor would need strides in elements in the producer's memory; this library's are
    // in bytes.
    view: None,
    current_stream: Some(exchange_table::dlpack_current_stream),
};

unsafe extern "C-unwind" fn table_to_object(
    array: *const cai_array,
    out: *mut *mut c_void,
    error: *mut cai_error,
) -> cai_status {
    // SAFETY: the contract of the table is that of this function.
    unsafe { exchange_table::to_object(array, out, error, export_type) }
}

unsafe extern "C-unwind" fn dlpack_to_object(
    tensor: *mut DLManagedTensorVersioned,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: the contract of DLPack's table is that of this function.
    unsafe { exchange_table::dlpack_to_object(tensor, out, export_type) }
}
