//! The type `libcai.Array`.

use std::ffi::{CStr, c_int, c_void};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::Ordering;

use crate::abi::{self, cai_array};
use crate::error::{Failure, Result, Text, fail};
use crate::python::capi::{
    Capi, GetSetDef, METH_NOARGS, METH_VARARGS_KEYWORDS, MemberDef, MethodDef, Object, READONLY,
    T_PYSSIZET, TP_DEALLOC, TP_DOC, TP_FREE, TP_GETSET, TP_MEMBERS, TP_METHODS, TP_REPR,
    TPFLAGS_DEFAULT, TPFLAGS_DISALLOW_INSTANTIATION, TypeSlot, TypeSpec,
};
use crate::python::capsules::{DLPACK_CAPSULE, EXCHANGE_CAPSULE};
use crate::python::error::{self, raise_as};
use crate::python::export::array_interface::get_host;
use crate::python::export::cai_dict::get_cuda;
use crate::python::export::dlpack::{dlpack_device_method, dlpack_method};
use crate::python::export::exchange_table::{DLPACK_EXCHANGE, EXCHANGE};
use crate::python::export::sycl::get_sycl;
use crate::python::interpreter::{Owned, Py, raised};
use crate::{owner, read};

/// What lies behind the head of an object.
#[repr(C)]
pub struct Body {
    pub array: cai_array,
    /// `CAI_EXPORT_` bits.
    pub flags: u32,
    pub weak_references: *mut Object,
}

pub(crate) const NAME: &CStr = c"libcai.Array";

const DOC: &CStr = c"A GPU array that another library exported.";

/// Where an object keeps its array.
pub fn body(capi: &Capi, object: *mut Object) -> *mut Body {
    object.cast::<u8>().wrapping_add(capi.facts.head).cast()
}

/// Is it an object of the type that is made below, in whichever interpreter? Anybody can show the
/// tables on another type.
pub fn is_ours(capi: &Capi, object: *mut Object) -> bool {
    // SAFETY: the lock is held; the object is alive. The type has no types derived from it.
    unsafe {
        let slot = (capi.type_slot)(capi.type_of(object), TP_DEALLOC);
        // Before 3.10, types that were not made at run time have an exception for an answer.
        if slot.is_null() {
            (capi.error_clear)();
        }
        slot == dealloc as *mut c_void
    }
}

pub fn not_ours<T>(py: Py, object: *mut Object) -> Result<T> {
    fail!(
        CAI_ERR_TYPE,
        "object",
        found = ("an object of type {}", py.type_name(object)),
        expected = "a libcai.Array"
    )
}

/// The array of an object, and its flags.
pub fn array_of(py: Py, object: *mut Object) -> Result<(&'static cai_array, u32)> {
    // SAFETY: called for objects of the type only, which are alive during the call.
    let body = unsafe { &*body(py.capi(), object) };
    if body.array.owner.is_null() {
        return fail!(
            CAI_ERR_VALUE,
            "self",
            found = "an object without an array",
            expected = "one that cai_array_to_python made"
        );
    }
    Ok((&body.array, body.flags))
}

/// The type, made at its first use in an interpreter.
pub fn export_type(py: Py) -> Result<*mut Object> {
    let known = py.exports.load(Ordering::Acquire);
    if known.is_null() { make_type(py) } else { Ok(known) }
}

#[cold]
#[inline(never)]
fn make_type(py: Py) -> Result<*mut Object> {
    let capi = py.capi();
    let head = capi.facts.head;
    if head < 2 * size_of::<usize>() || head > 64 || head % align_of::<Body>() != 0 {
        return fail!(
            CAI_ERR_PYTHON_VERSION,
            "python",
            found = "objects with a head of {head} bytes",
            expected = "16 to 64"
        );
    }
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
    // The type points to these for as long as it lives, which nobody can tell: they are leaked,
    // once an interpreter.
    let getters = Box::leak(Box::new([
        getter(c"__cuda_array_interface__", get_cuda, c"The CUDA Array Interface."),
        getter(c"__sycl_usm_array_interface__", get_sycl, c"The SYCL USM array interface."),
        getter(c"__array_interface__", get_host, c"NumPy's array interface, for host memory."),
        null_getter,
    ]));
    let methods = Box::leak(Box::new([
        method(
            c"__dlpack__",
            dlpack_method as *const c_void,
            METH_VARARGS_KEYWORDS,
            c"__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nA DLPack capsule, ordered before `stream`.",
        ),
        method(
            c"__dlpack_device__",
            dlpack_device_method as *const c_void,
            METH_NOARGS,
            c"__dlpack_device__($self, /)\n--\n\nDevice type and number of DLPack.",
        ),
        null_method,
    ]));
    let members = Box::leak(Box::new([
        MemberDef {
            name: c"__weaklistoffset__".as_ptr(),
            r#type: T_PYSSIZET,
            offset: (head + std::mem::offset_of!(Body, weak_references)) as isize,
            flags: READONLY,
            doc: ptr::null(),
        },
        null_member,
    ]));
    let mut slots = [
        TypeSlot { slot: TP_DEALLOC, function: dealloc as *mut c_void },
        TypeSlot { slot: TP_REPR, function: repr as *mut c_void },
        TypeSlot { slot: TP_DOC, function: DOC.as_ptr().cast_mut().cast() },
        TypeSlot { slot: TP_GETSET, function: getters.as_mut_ptr().cast() },
        TypeSlot { slot: TP_METHODS, function: methods.as_mut_ptr().cast() },
        TypeSlot { slot: TP_MEMBERS, function: members.as_mut_ptr().cast() },
        TypeSlot { slot: 0, function: ptr::null_mut() },
    ];
    // 3.9 does not know the flag, and lets people make empty objects, which then say so.
    let no_new = if capi.facts.version >= 0x030a { TPFLAGS_DISALLOW_INSTANTIATION } else { 0 };
    let mut spec = TypeSpec {
        name: NAME.as_ptr(),
        basicsize: (head + size_of::<Body>()) as c_int,
        itemsize: 0,
        flags: TPFLAGS_DEFAULT | no_new,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the lock is held; CPython copies the slots, and what they point to is leaked.
    let made = Owned::new(py, unsafe { (capi.type_from_spec)(&raw mut spec) })?;
    // SAFETY: the lock is held; both tables live as long as the process.
    unsafe {
        let tables: [(*mut Object, *mut c_void, &CStr); 2] = [
            (py.names.exchange, (&raw const EXCHANGE).cast_mut().cast(), EXCHANGE_CAPSULE),
            (
                py.names.dlpack_exchange,
                (&raw const DLPACK_EXCHANGE).cast_mut().cast(),
                DLPACK_CAPSULE,
            ),
        ];
        for (attribute, table, name) in tables {
            let capsule = Owned::new(py, (capi.capsule_new)(table, name.as_ptr(), None))?;
            if (capi.set_attr)(made.get(), attribute, capsule.get()) != 0 {
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
        // Another thread of a build without a lock was faster.
        Err(other) => Ok(other),
    }
}

/// The body of a function that CPython calls: failures and panics become exceptions.
pub fn answer(body: impl FnOnce(Py) -> Result<*mut Object>) -> *mut Object {
    match catch_unwind(AssertUnwindSafe(|| Py::here().and_then(body))) {
        Ok(Ok(object)) => object,
        Ok(Err(failure)) => {
            error::raise_failure(&failure);
            ptr::null_mut()
        }
        Err(payload) => {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
            error::raise_failure(&Failure::new(
                abi::CAI_ERR_INTERNAL,
                format_args!(""),
                format_args!("a contradiction inside the library"),
                format_args!("none; please report it"),
            ));
            ptr::null_mut()
        }
    }
}

/// The same, where every failure means that there is no such attribute.
pub fn attribute(body: impl FnOnce(Py) -> Result<*mut Object>) -> *mut Object {
    answer(|py| {
        body(py).map_err(|failure| {
            // SAFETY: a place that CPython keeps it in.
            let attribute_error = unsafe { *py.capi().attribute_error };
            if failure.status() == abi::CAI_ERR_PYTHON_EXCEPTION
                || failure.status() == abi::CAI_ERR_NO_MEMORY
            {
                failure
            } else {
                raise_as(py, attribute_error, &failure)
            }
        })
    })
}

unsafe extern "C" fn dealloc(object: *mut Object) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let Ok(py) = Py::here() else { return };
        let capi = py.capi();
        // SAFETY: the lock is held; the last reference to an object of our type is gone.
        unsafe {
            let r#type = py.type_of(object);
            let body = body(capi, object);
            // Without a lock, another thread may be making one, and CPython has to look.
            if !(*body).weak_references.is_null() || capi.facts.free_threaded {
                (capi.clear_weakrefs)(object);
            }
            let owner = std::mem::replace(&mut (*body).array.owner, ptr::null_mut());
            if !owner.is_null() {
                owner::release(owner);
            }
            let free: unsafe extern "C" fn(*mut c_void) =
                std::mem::transmute((capi.type_slot)(r#type, TP_FREE));
            free(object.cast());
            // Objects of types that were made at run time hold a reference to them.
            (capi.decref)(r#type);
        }
    }));
}

pub unsafe extern "C" fn repr(object: *mut Object) -> *mut Object {
    answer(|py| {
        let Ok((array, _)) = array_of(py, object) else {
            return py.string(b"<libcai.Array, empty>").map(Owned::into_raw);
        };
        py.string(shown(array).as_str().as_bytes()).map(Owned::into_raw)
    })
}

/// One line about an array.
fn shown(array: &cai_array) -> Text<400> {
    let mut text: Text<400> = Text::new(format_args!("<libcai.Array shape=("));
    // SAFETY: validated when the object was made.
    let (shape, strides) = unsafe { read::shape_and_strides(array) }.unwrap_or_default();
    // A text that is full says so by itself; nothing else can fail.
    let _ = (|| {
        for (index, extent) in shape.iter().enumerate() {
            write!(text, "{}{extent}", if index == 0 { "" } else { ", " })?;
        }
        let comma = if shape.len() == 1 { "," } else { "" };
        write!(
            text,
            "{comma}) typestr='{}'",
            read::typestr(&array.typestr).unwrap_or_default().escape_ascii()
        )?;
        if array.dtype_code != 0 {
            write!(text, " dtype_code={}", array.dtype_code)?;
        }
        if let Some(strides) = strides {
            write!(text, " strides=(")?;
            for (index, step) in strides.iter().enumerate() {
                write!(text, "{}{step}", if index == 0 { "" } else { ", " })?;
            }
            write!(text, "{comma})")?;
        }
        write!(text, " data={:#x}", array.data as usize)?;
        if array.byte_offset != 0 {
            write!(text, "+{}", array.byte_offset)?;
        }
        let device = match array.device.r#type {
            abi::CAI_DEVICE_UNKNOWN => "",
            abi::CAI_DEVICE_CPU => " device=cpu",
            abi::CAI_DEVICE_CUDA => " device=cuda",
            abi::CAI_DEVICE_CUDA_HOST => " device=cuda_host",
            abi::CAI_DEVICE_OPENCL => " device=opencl",
            abi::CAI_DEVICE_CUDA_MANAGED => " device=cuda_managed",
            abi::CAI_DEVICE_ONEAPI => " device=oneapi",
            _ => " device=other",
        };
        write!(text, "{device}")?;
        if !device.is_empty() {
            write!(text, ":{}", array.device.id)?;
        }
        match array.stream {
            abi::CAI_STREAM_NONE => write!(text, " stream=None")?,
            abi::CAI_STREAM_UNKNOWN => write!(text, " stream=unknown")?,
            stream => write!(text, " stream={stream:#x}")?,
        }
        if array.flags & abi::CAI_ARRAY_READONLY != 0 {
            write!(text, " read-only")?;
        }
        if !array.mask.is_null() {
            write!(text, " masked")?;
        }
        write!(text, ">")
    })();
    text
}
