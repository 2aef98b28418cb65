//! Python objects out: a type whose objects hold an array and say so in every protocol.
//!
//! May use: `abi`, `error`, `dtype`, `layout`, `owner`, `sync`, `validate`, `bridge::dlpack`; of this folder all. `unsafe`: calls
//! CPython with its lock held, and keeps the array behind the head of its objects.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::Ordering;

use super::capi::{
    Capi, GetSetDef, METH_NOARGS, METH_VARARGS_KEYWORDS, MemberDef, MethodDef, Object, READONLY, T_PYSSIZET,
    TP_ALLOC, TP_DEALLOC, TP_DOC, TP_FREE, TP_GETSET, TP_MEMBERS, TP_METHODS, TP_REPR, TPFLAGS_DEFAULT,
    TPFLAGS_DISALLOW_INSTANTIATION, TypeSlot, TypeSpec,
};
use super::exception::{self, raise_as};
use super::import::pair;
use super::interpreter::{Owned, Py, raised};
use super::sycl;
use super::types::{DLPACK_CAPSULE, EXCHANGE_CAPSULE};
use crate::abi::{
    self, DLManagedTensor, DLManagedTensorVersioned, cai_array, cai_error, cai_exchange_api,
    cai_export_options, cai_status,
};
use crate::bridge::dlpack;
use crate::error::{Failure, Result, Text, fail};
use crate::owner;
use crate::raw::{self, Descr};
use crate::sync::consume::{self, Half};
use crate::validate;

/// What lies behind the head of an object.
#[repr(C)]
struct Body {
    array: cai_array,
    /// `CAI_EXPORT_` bits.
    flags: u32,
    weak_references: *mut Object,
}

const NAME: &CStr = c"libcai.Array";
const DOC: &CStr = c"A GPU array that another library exported.";

/// A caller's options: their flags.
///
/// # Safety
/// `options` is NULL or points to a structure of the size that it says.
pub unsafe fn flags(options: *const cai_export_options) -> Result<u32> {
    if options.is_null() {
        return Ok(0);
    }
    // SAFETY: the first field is there by contract.
    let size = unsafe { (&raw const (*options).struct_size).read() } as usize;
    if !(size_of::<cai_export_options>()..=4096).contains(&size) || size % 8 != 0 {
        return fail!(CAI_ERR_STRUCT_SIZE, "options->struct_size"; found "{size}";
            expected "sizeof(cai_export_options), which is {} here", size_of::<cai_export_options>());
    }
    // SAFETY: as long as ours.
    let flags = unsafe { (&raw const (*options).flags).read() };
    const KNOWN: u32 = abi::CAI_EXPORT_VERSION_2 | abi::CAI_EXPORT_STRIDES | abi::CAI_EXPORT_HIDE_READONLY;
    if flags & !KNOWN != 0 {
        return fail!(CAI_ERR_ARGUMENT, "options->flags"; found "{flags:#x}"; expected "bits of {KNOWN:#x} only");
    }
    Ok(flags)
}

/// A new object that holds a reference of its own to the array.
///
/// # Safety
/// `array` points to what a caller's array may point to.
pub unsafe fn export(array: &cai_array, flags: u32) -> Result<*mut Object> {
    let py = Py::here()?;
    // SAFETY: handed on.
    unsafe {
        validate::array(array, abi::CAI_CHECK_LAYOUT)?;
        if array.owner.is_null() {
            return fail!(CAI_ERR_BORROWED, "owner"; found "NULL, a borrowed array"; expected "an owner that keeps the data alive");
        }
        owner::retain(array.owner)?;
        wrap(py, *array, flags)
    }
}

/// A new object around an array, whose reference it takes over, also on failure.
///
/// # Safety
/// The array is sound and has an owner.
unsafe fn wrap(py: Py, array: cai_array, flags: u32) -> Result<*mut Object> {
    let made = export_type(py).and_then(|exports| {
        // SAFETY: the lock is held; the slot was read from this type.
        unsafe {
            let alloc: unsafe extern "C" fn(*mut Object, isize) -> *mut Object =
                std::mem::transmute((py.capi().type_slot)(exports, TP_ALLOC));
            Owned::new(py, alloc(exports, 0))
        }
    });
    match made {
        Ok(object) => {
            let object = object.into_raw();
            // Whatever size it came with, all fields are there now.
            let array = cai_array { struct_size: size_of::<cai_array>() as u32, ..array };
            // SAFETY: the type's objects have a body, which is all zeros still.
            unsafe { body(py.capi(), object).write(Body { array, flags, weak_references: ptr::null_mut() }) };
            Ok(object)
        }
        Err(failure) => {
            // SAFETY: the reference was ours.
            unsafe { owner::release(array.owner) };
            Err(failure)
        }
    }
}

/// Where an object keeps its array.
fn body(capi: &Capi, object: *mut Object) -> *mut Body {
    object.cast::<u8>().wrapping_add(capi.facts.head).cast()
}

/// Is it an object of the type that is made below, in whichever interpreter? Anybody can show the tables on another type.
fn is_ours(capi: &Capi, object: *mut Object) -> bool {
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

fn not_ours<T>(py: Py, object: *mut Object) -> Result<T> {
    fail!(CAI_ERR_TYPE, "object"; found "an object of type {}", py.type_name(object); expected "a libcai.Array")
}

/// The array of an object, and its flags.
fn array_of(py: Py, object: *mut Object) -> Result<(&'static cai_array, u32)> {
    // SAFETY: called for objects of the type only, which are alive during the call.
    let body = unsafe { &*body(py.capi(), object) };
    if body.array.owner.is_null() {
        return fail!(CAI_ERR_VALUE, "self"; found "an object without an array"; expected "one that cai_to_python made");
    }
    Ok((&body.array, body.flags))
}

/// The type, made at its first use in an interpreter.
fn export_type(py: Py) -> Result<*mut Object> {
    let known = py.exports.load(Ordering::Acquire);
    if known.is_null() { make_type(py) } else { Ok(known) }
}

#[cold]
#[inline(never)]
fn make_type(py: Py) -> Result<*mut Object> {
    let capi = py.capi();
    let head = capi.facts.head;
    if head < 2 * size_of::<usize>() || head > 64 || head % align_of::<Body>() != 0 {
        return fail!(CAI_ERR_PYTHON_VERSION, "python"; found "objects with a head of {head} bytes"; expected "16 to 64");
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
    let null_method = MethodDef { name: ptr::null(), function: ptr::null(), flags: 0, doc: ptr::null() };
    let null_getter = GetSetDef {
        name: ptr::null(),
        get: None,
        set: ptr::null(),
        doc: ptr::null(),
        closure: ptr::null_mut(),
    };
    let null_member = MemberDef { name: ptr::null(), r#type: 0, offset: 0, flags: 0, doc: ptr::null() };
    // The type points to these for as long as it lives, which nobody can tell: they are leaked, once an interpreter.
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
            (py.names.dlpack_exchange, (&raw const DLPACK_EXCHANGE).cast_mut().cast(), DLPACK_CAPSULE),
        ];
        for (attribute, table, name) in tables {
            let capsule = Owned::new(py, (capi.capsule_new)(table, name.as_ptr(), None))?;
            if (capi.set_attr)(made.get(), attribute, capsule.get()) != 0 {
                return raised();
            }
        }
    }
    match py.exports.compare_exchange(ptr::null_mut(), made.get(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(made.into_raw()),
        // Another thread of a build without a lock was faster.
        Err(other) => Ok(other),
    }
}

/// The body of a function that CPython calls: failures and panics become exceptions.
fn answer(body: impl FnOnce(Py) -> Result<*mut Object>) -> *mut Object {
    match catch_unwind(AssertUnwindSafe(|| Py::here().and_then(body))) {
        Ok(Ok(object)) => object,
        Ok(Err(failure)) => {
            exception::raise_failure(&failure);
            ptr::null_mut()
        }
        Err(payload) => {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
            exception::raise_failure(&Failure::new(
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
fn attribute(body: impl FnOnce(Py) -> Result<*mut Object>) -> *mut Object {
    answer(|py| {
        body(py).map_err(|failure| {
            // SAFETY: a place that CPython keeps it in.
            let attribute_error = unsafe { *py.capi().attribute_error };
            if failure.status() == abi::CAI_ERR_PYTHON_EXCEPTION || failure.status() == abi::CAI_ERR_NO_MEMORY
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

unsafe extern "C" fn get_cuda(object: *mut Object, _: *mut c_void) -> *mut Object {
    attribute(|py| {
        let (array, flags) = array_of(py, object)?;
        match array.device.r#type {
            abi::CAI_DEVICE_UNKNOWN
            | abi::CAI_DEVICE_CUDA
            | abi::CAI_DEVICE_CUDA_HOST
            | abi::CAI_DEVICE_CUDA_MANAGED => cuda(py, array, flags).map(Owned::into_raw),
            other => {
                fail!(CAI_ERR_CONVERT_DEVICE, "__cuda_array_interface__"; found "an array on a device of type {other}";
                expected "one of CUDA's")
            }
        }
    })
}

unsafe extern "C" fn get_host(object: *mut Object, _: *mut c_void) -> *mut Object {
    attribute(|py| {
        let (array, flags) = array_of(py, object)?;
        if array.device.r#type != abi::CAI_DEVICE_CPU {
            return fail!(CAI_ERR_CONVERT_DEVICE, "__array_interface__"; found "an array on a device of type {}", array.device.r#type;
                expected "one in host memory");
        }
        if array.typestr[1] as u8 == b't' {
            return fail!(CAI_ERR_CONVERT_TYPE, "__array_interface__"; found "bit fields"; expected "a type of NumPy");
        }
        let dictionary = Dictionary::new(py)?;
        common(&dictionary, array, flags, 3)?;
        if let Some(mask) = mask_of(py, array, flags)? {
            dictionary.set(py.names.mask, mask)?;
        }
        Ok(dictionary.0.into_raw())
    })
}

unsafe extern "C" fn get_sycl(object: *mut Object, _: *mut c_void) -> *mut Object {
    attribute(|py| {
        const NAME: &str = "__sycl_usm_array_interface__";
        let (array, flags) = array_of(py, object)?;
        if array.device.r#type != abi::CAI_DEVICE_ONEAPI {
            return fail!(CAI_ERR_CONVERT_DEVICE, "{NAME}"; found "an array on a device of type {}", array.device.r#type;
                expected "one of oneAPI's ({})", abi::CAI_DEVICE_ONEAPI);
        }
        if !array.mask.is_null() {
            return fail!(CAI_ERR_CONVERT_MASK, "{NAME}"; found "an array with a mask"; expected "one without");
        }
        let Some(syclobj) = sycl::syclobj(py, array)? else {
            return fail!(CAI_ERR_CONVERT_DEVICE, "{NAME}['syclobj']"; found "neither a queue in stream nor a context";
                expected "one of them");
        };
        // SAFETY: validated when the object was made.
        let described = unsafe { validate::describe(array) }?;
        if !matches!(described.dtype.kind as u8, b'b' | b'i' | b'u' | b'f' | b'c') {
            return fail!(CAI_ERR_CONVERT_TYPE, "{NAME}['typestr']"; found "kind '{}'", described.dtype.kind as u8 as char;
                expected "one of b i u f c");
        }
        // `data` is where the memory begins, as far as the array reaches, and `offset` leads to the element with index zero.
        let itemsize = described.dtype.itemsize.max(1);
        let below = described.layout.span()?.lower;
        if below % itemsize != 0 {
            return fail!(CAI_ERR_CONVERT_STRIDES, "{NAME}['offset']"; found "{below} bytes"; expected "a multiple of {itemsize}");
        }
        let lowest = cai_array { data: array.data.wrapping_byte_offset(below as isize), ..*array };
        let dictionary = Dictionary::new(py)?;
        dictionary.set(py.names.shape, row(py, described.layout.shape)?)?;
        dictionary.set(py.names.typestr, typestr(py, array)?)?;
        dictionary.set(py.names.data, data(py, &lowest, flags)?)?;
        let c_order = described.layout.is_c_contiguous() && flags & abi::CAI_EXPORT_STRIDES == 0;
        let strides = if c_order { none(py) } else { element_steps(py, &described)? };
        dictionary.set(py.names.strides, strides)?;
        dictionary.set(py.names.offset, integer(py, below.unsigned_abs() as i64 / itemsize)?)?;
        dictionary.set(py.names.version, integer(py, 1)?)?;
        dictionary.set(py.names.syclobj, syclobj)?;
        Ok(dictionary.0.into_raw())
    })
}

/// Steps in elements, which is what SYCL's dictionary counts in.
fn element_steps(py: Py, described: &validate::Described) -> Result<Owned> {
    let mut steps = [0; abi::CAI_MAX_NDIM as usize];
    let steps = &mut steps[..described.layout.shape.len()];
    described.layout.write_strides(steps)?;
    let itemsize = described.dtype.itemsize.max(1);
    for (index, step) in steps.iter_mut().enumerate() {
        let used = described.layout.shape[index] > 1;
        if used && *step % itemsize != 0 {
            return fail!(CAI_ERR_CONVERT_STRIDES, "strides[{index}]"; found "{step}"; expected "a multiple of {itemsize}");
        }
        *step /= itemsize;
    }
    row(py, steps)
}

/// A dictionary that is being filled.
struct Dictionary(Owned, Py);

impl Dictionary {
    fn new(py: Py) -> Result<Self> {
        // SAFETY: the lock is held.
        Ok(Dictionary(Owned::new(py, unsafe { (py.capi().dict_new)() })?, py))
    }

    fn set(&self, key: *mut Object, value: Owned) -> Result<()> {
        // SAFETY: the lock is held; the dictionary takes references of its own.
        match unsafe { (self.1.capi().dict_set)(self.0.get(), key, value.get()) } {
            0 => Ok(()),
            _ => raised(),
        }
    }
}

fn none(py: Py) -> Owned {
    shared(py, py.capi().none)
}

/// A reference to an object that is always there.
fn shared(py: Py, constant: *mut Object) -> Owned {
    match ptr::NonNull::new(constant) {
        Some(object) => Owned::share(py, object),
        // `capi` found it.
        None => unreachable!(),
    }
}

fn integer(py: Py, value: i64) -> Result<Owned> {
    // SAFETY: the lock is held.
    Owned::new(py, unsafe { (py.capi().long_from_signed)(value) })
}

fn unsigned(py: Py, value: u64) -> Result<Owned> {
    // SAFETY: the lock is held.
    Owned::new(py, unsafe { (py.capi().long_from_unsigned)(value) })
}

/// A tuple of integers.
fn row(py: Py, values: &[i64]) -> Result<Owned> {
    let capi = py.capi();
    // SAFETY: the lock is held; what is put into a tuple is given away.
    unsafe {
        let tuple = Owned::new(py, (capi.tuple_new)(values.len() as isize))?;
        for (index, &value) in values.iter().enumerate() {
            (capi.tuple_set)(tuple.get(), index as isize, integer(py, value)?.into_raw());
        }
        Ok(tuple)
    }
}

fn typestr(py: Py, array: &cai_array) -> Result<Owned> {
    py.typestr(raw::typestr(&array.typestr).unwrap_or_default())
}

/// Address and read-only flag.
fn data(py: Py, array: &cai_array, flags: u32) -> Result<Owned> {
    let capi = py.capi();
    let readonly = array.flags & abi::CAI_FLAG_READONLY != 0 && flags & abi::CAI_EXPORT_HIDE_READONLY == 0;
    // SAFETY: the lock is held; what is put into a tuple is given away.
    unsafe {
        let tuple = Owned::new(py, (capi.tuple_new)(2))?;
        (capi.tuple_set)(tuple.get(), 0, unsigned(py, array.data as u64)?.into_raw());
        let flag = shared(py, if readonly { capi.r#true } else { capi.r#false });
        (capi.tuple_set)(tuple.get(), 1, flag.into_raw());
        Ok(tuple)
    }
}

/// What CUDA's and NumPy's dictionaries have in common.
fn common(dictionary: &Dictionary, array: &cai_array, flags: u32, version: i64) -> Result<()> {
    let (py, names) = (dictionary.1, &dictionary.1.names);
    // SAFETY: validated when the object was made.
    let (shape, strides) = unsafe { raw::shape_and_strides(array) }?;
    dictionary.set(names.shape, row(py, shape)?)?;
    dictionary.set(names.typestr, typestr(py, array)?)?;
    dictionary.set(names.data, data(py, array, flags)?)?;
    let strides = if flags & abi::CAI_EXPORT_STRIDES == 0 && strides.is_none() {
        none(py)
    } else {
        // SAFETY: as above.
        let layout = unsafe { validate::describe(array) }?.layout;
        if layout.is_packed_bits() || (flags & abi::CAI_EXPORT_STRIDES == 0 && layout.is_c_contiguous()) {
            none(py)
        } else {
            let mut steps = [0; abi::CAI_MAX_NDIM as usize];
            let steps = &mut steps[..shape.len()];
            layout.write_strides(steps)?;
            row(py, steps)?
        }
    };
    dictionary.set(names.strides, strides)?;
    dictionary.set(names.version, integer(py, version)?)?;
    if !array.descr.is_null() {
        // SAFETY: as above.
        dictionary.set(names.descr, fields(py, unsafe { Descr::new(array.descr) }?)?)?;
    }
    Ok(())
}

/// `__cuda_array_interface__`
fn cuda(py: Py, array: &cai_array, flags: u32) -> Result<Owned> {
    let old = flags & abi::CAI_EXPORT_VERSION_2 != 0 || array.stream == abi::CAI_STREAM_UNKNOWN;
    let dictionary = Dictionary::new(py)?;
    common(&dictionary, array, flags, if old { 2 } else { 3 })?;
    if !old {
        let stream =
            if array.stream == abi::CAI_STREAM_NONE { none(py) } else { unsigned(py, array.stream)? };
        dictionary.set(py.names.stream, stream)?;
    }
    if let Some(mask) = mask_of(py, array, flags)? {
        dictionary.set(py.names.mask, mask)?;
    }
    Ok(dictionary.0)
}

/// The mask as an object of its own.
fn mask_of(py: Py, array: &cai_array, flags: u32) -> Result<Option<Owned>> {
    if array.mask.is_null() {
        return Ok(None);
    }
    // SAFETY: validated when the object was made; the owner of the array covers the mask.
    unsafe {
        let mut mask = raw::array(array.mask)?;
        if mask.owner.is_null() {
            mask.owner = array.owner;
        }
        // What is not known of the mask is as for the array.
        if mask.device.r#type == abi::CAI_DEVICE_UNKNOWN {
            mask.device = array.device;
        }
        owner::retain(mask.owner)?;
        Owned::new(py, wrap(py, mask, flags)?).map(Some)
    }
}

/// A list of fields as NumPy writes `descr`.
fn fields(py: Py, descr: Descr) -> Result<Owned> {
    let capi = py.capi();
    let name_of = |field: &raw::Field| -> Result<Owned> {
        let name = py.string(field.name()?.as_bytes())?;
        match field.title()? {
            None => Ok(name),
            Some(title) => tuple(py, [py.string(title.as_bytes())?, name]),
        }
    };
    // SAFETY: the lock is held; what is put into a tuple is given away.
    let rows = unsafe { Owned::new(py, (capi.tuple_new)(descr.count as isize))? };
    for (index, field) in descr.fields().enumerate() {
        let name = name_of(&field)?;
        let r#type = match field.nested()? {
            Some(nested) => fields(py, nested)?,
            None => py.string(raw::typestr(&field.raw.typestr).unwrap_or_default())?,
        };
        let shape = field.shape()?;
        let made = if shape.is_empty() {
            tuple(py, [name, r#type])?
        } else {
            tuple(py, [name, r#type, row(py, shape)?])?
        };
        // SAFETY: as above.
        unsafe { (capi.tuple_set)(rows.get(), index as isize, made.into_raw()) };
    }
    // SAFETY: the lock is held.
    unsafe {
        let arguments = tuple(py, [rows])?;
        Owned::new(py, (capi.call)(capi.list_type, arguments.get(), ptr::null_mut()))
    }
}

fn tuple<const N: usize>(py: Py, items: [Owned; N]) -> Result<Owned> {
    let capi = py.capi();
    // SAFETY: the lock is held; what is put into a tuple is given away.
    unsafe {
        let tuple = Owned::new(py, (capi.tuple_new)(N as isize))?;
        for (index, item) in items.into_iter().enumerate() {
            (capi.tuple_set)(tuple.get(), index as isize, item.into_raw());
        }
        Ok(tuple)
    }
}

unsafe extern "C" fn repr(object: *mut Object) -> *mut Object {
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
    let (shape, strides) = unsafe { raw::shape_and_strides(array) }.unwrap_or_default();
    // A text that is full says so by itself; nothing else can fail.
    let _ = (|| {
        for (index, extent) in shape.iter().enumerate() {
            write!(text, "{}{extent}", if index == 0 { "" } else { ", " })?;
        }
        let comma = if shape.len() == 1 { "," } else { "" };
        write!(
            text,
            "{comma}) typestr='{}'",
            raw::typestr(&array.typestr).unwrap_or_default().escape_ascii()
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
        if array.flags & abi::CAI_FLAG_READONLY != 0 {
            write!(text, " read-only")?;
        }
        if !array.mask.is_null() {
            write!(text, " masked")?;
        }
        write!(text, ">")
    })();
    text
}

unsafe extern "C" fn dlpack_device_method(object: *mut Object, _: *mut Object) -> *mut Object {
    answer(|py| {
        let (array, _) = array_of(py, object)?;
        let (r#type, id) = dlpack::device_of(array).map_err(|failure| cannot(py, failure))?;
        pair(py, r#type.into(), id.into()).map(Owned::into_raw)
    })
}

/// What DLPack's Python side raises where an array cannot be exported.
fn cannot(py: Py, failure: Failure) -> Failure {
    if failure.status() == abi::CAI_ERR_PYTHON_EXCEPTION || failure.status() == abi::CAI_ERR_NO_MEMORY {
        return failure;
    }
    // SAFETY: a place that CPython keeps it in.
    raise_as(py, unsafe { *py.capi().buffer_error }, &failure)
}

unsafe extern "C" fn dlpack_method(
    object: *mut Object,
    arguments: *mut Object,
    keywords: *mut Object,
) -> *mut Object {
    answer(|py| {
        let (array, flags) = array_of(py, object)?;
        let asked = Asked::read(py, arguments, keywords)?;
        let versioned = asked.versioned(py)?;
        let device = dlpack::device_of(array).map_err(|failure| cannot(py, failure))?;
        asked.check_device(py, device).map_err(|failure| cannot(py, failure))?;
        let mut array = *array;
        if flags & abi::CAI_EXPORT_HIDE_READONLY != 0 {
            array.flags &= !abi::CAI_FLAG_READONLY;
        }
        // First whether it can be done at all, so that nothing is ordered for nothing.
        let capsule = if versioned {
            // SAFETY: validated when the object was made.
            let tensor = unsafe { dlpack::to_versioned(&array, 0) }.map_err(|failure| cannot(py, failure))?;
            Capsule::Versioned(tensor)
        } else {
            // SAFETY: as above.
            let tensor =
                unsafe { dlpack::to_unversioned(&array, 0) }.map_err(|failure| cannot(py, failure))?;
            Capsule::Unversioned(tensor)
        };
        asked.order(py, &array, device.0)?;
        capsule.into_object(py)
    })
}

/// What `__dlpack__` was asked for.
struct Asked {
    stream: Option<Owned>,
    max_version: Option<Owned>,
    device: Option<Owned>,
}

impl Asked {
    fn read(py: Py, arguments: *mut Object, keywords: *mut Object) -> Result<Self> {
        let capi = py.capi();
        let mut asked = Asked { stream: None, max_version: None, device: None };
        let mut take = |key: &[u8], value: *mut Object| -> Result<()> {
            let value = ptr::NonNull::new(value).filter(|value| value.as_ptr() != capi.none);
            let value = value.map(|value| Owned::share(py, value));
            match key {
                b"stream" => asked.stream = value,
                b"max_version" => asked.max_version = value,
                b"dl_device" => asked.device = value,
                b"copy" => {
                    let copies = match &value {
                        // SAFETY: the lock is held.
                        Some(copy) => unsafe { (capi.is_true)(copy.get()) },
                        None => 0,
                    };
                    if copies < 0 {
                        return raised();
                    }
                    if copies > 0 {
                        return fail!(CAI_ERR_UNSUPPORTED, "copy"; found "True"; expected "None or False: nothing is copied here")
                            .map_err(|failure| cannot(py, failure));
                    }
                }
                other => {
                    return fail!(CAI_ERR_TYPE, "__dlpack__"; found "a keyword {}", other.escape_ascii();
                        expected "stream, max_version, dl_device or copy");
                }
            }
            Ok(())
        };
        // SAFETY: the lock is held; CPython passes a tuple, and a dictionary of its own or NULL, with texts for keys.
        unsafe {
            match (capi.tuple_size)(arguments) {
                0 => {}
                // From before the keywords had to be named.
                1 => take(b"stream", (capi.tuple_get)(arguments, 0))?,
                more => {
                    return fail!(CAI_ERR_TYPE, "__dlpack__"; found "{more} arguments"; expected "keywords");
                }
            }
            if !keywords.is_null() {
                let (mut position, mut key, mut value) = (0, ptr::null_mut(), ptr::null_mut());
                while (capi.dict_next)(keywords, &raw mut position, &raw mut key, &raw mut value) != 0 {
                    // The truth of a value, and a name without a text, may run code; the dictionary may be somebody's.
                    let kept = [key, value]
                        .map(|object| ptr::NonNull::new(object).map(|object| Owned::share(py, object)));
                    take(py.text(key).unwrap_or_default(), value)?;
                    drop(kept);
                }
            }
        }
        Ok(asked)
    }

    /// Does the consumer know DLPack 1?
    fn versioned(&self, py: Py) -> Result<bool> {
        match &self.max_version {
            Some(version) => Ok(two_integers(py, version, "max_version")?.0 >= 1),
            None => Ok(false),
        }
    }

    fn check_device(&self, py: Py, device: (i32, i32)) -> Result<()> {
        let Some(wanted) = &self.device else { return Ok(()) };
        let wanted = two_integers(py, wanted, "dl_device")?;
        if wanted != (device.0.into(), device.1.into()) {
            return fail!(CAI_ERR_CONVERT_DEVICE, "dl_device"; found "{wanted:?}"; expected "{device:?}, where the data is");
        }
        Ok(())
    }

    /// Makes the consumer's stream wait for the array's work.
    fn order(&self, py: Py, array: &cai_array, device_type: i32) -> Result<()> {
        let capi = py.capi();
        if !dlpack::has_streams(device_type) {
            return Ok(());
        }
        let stream = match &self.stream {
            None => abi::CAI_STREAM_LEGACY,
            // SAFETY: the lock is held.
            Some(stream) => unsafe {
                let number = Owned::new(py, (capi.index)(stream.get()))?;
                let mut overflow = 0;
                match (capi.long_as_signed)(number.get(), &raw mut overflow) {
                    -1 if overflow == 0 => return Ok(()),
                    value @ 1.. if overflow == 0 => value as u64,
                    0 if overflow == 0 => {
                        return fail!(CAI_ERR_STREAM_ZERO, "stream"; found "0";
                            expected "None or 1 (legacy default stream), 2 (per-thread default stream), -1 (no order) or a cudaStream_t");
                    }
                    _ if overflow != 0 => {
                        return fail!(CAI_ERR_VALUE, "stream"; found "an integer beyond 63 bits"; expected "a cudaStream_t");
                    }
                    value => {
                        return fail!(CAI_ERR_VALUE, "stream"; found "{value}"; expected "-1, or at least 1");
                    }
                }
            },
        };
        let access = if array.flags & abi::CAI_FLAG_READONLY == 0 {
            abi::CAI_ACCESS_READ | abi::CAI_ACCESS_WRITE
        } else {
            abi::CAI_ACCESS_READ
        };
        // DLPack has no word for work on a stream that nobody knows: it has to be waited for.
        let unknown = if array.stream == abi::CAI_STREAM_UNKNOWN { abi::CAI_SYNC_CONSERVATIVE } else { 0 };
        // SAFETY: validated when the object was made.
        unsafe { consume::exchange(Half::Begin, array, stream, access | unknown) }
    }
}

fn two_integers(py: Py, tuple: &Owned, name: &'static str) -> Result<(i64, i64)> {
    let capi = py.capi();
    let item = |index: isize| -> Result<i64> {
        // SAFETY: the lock is held.
        unsafe {
            let item = Owned::new(py, (capi.sequence_item)(tuple.get(), index))?;
            let number = Owned::new(py, (capi.index)(item.get()))?;
            let mut overflow = 0;
            let value = (capi.long_as_signed)(number.get(), &raw mut overflow);
            Ok(match overflow {
                0 => value,
                1.. => i64::MAX,
                _ => i64::MIN,
            })
        }
    };
    // SAFETY: the lock is held; any object may be asked.
    unsafe {
        let size = match (capi.sequence_check)(tuple.get()) {
            0 => 0,
            _ => (capi.sequence_size)(tuple.get()),
        };
        if size < 0 {
            return raised();
        }
        if size != 2 {
            return fail!(CAI_ERR_TYPE, "{name}"; found "an object of type {}", py.type_name(tuple.get()); expected "a tuple of two integers");
        }
    }
    Ok((item(0)?, item(1)?))
}

const VERSIONED: &CStr = c"dltensor_versioned";
const UNVERSIONED: &CStr = c"dltensor";

/// A tensor on its way into a capsule.
enum Capsule {
    Versioned(*mut DLManagedTensorVersioned),
    Unversioned(*mut DLManagedTensor),
}

impl Drop for Capsule {
    fn drop(&mut self) {
        // SAFETY: still ours.
        unsafe {
            match *self {
                Capsule::Versioned(tensor) => dlpack::delete_versioned(tensor),
                Capsule::Unversioned(tensor) => dlpack::delete_unversioned(tensor),
            }
        }
    }
}

impl Capsule {
    fn into_object(self, py: Py) -> Result<*mut Object> {
        let (tensor, name): (*mut c_void, &CStr) = match self {
            Capsule::Versioned(tensor) => (tensor.cast(), VERSIONED),
            Capsule::Unversioned(tensor) => (tensor.cast(), UNVERSIONED),
        };
        // SAFETY: the lock is held; a live tensor.
        let capsule = unsafe { (py.capi().capsule_new)(tensor, name.as_ptr(), Some(capsule_ends)) };
        if capsule.is_null() {
            return raised();
        }
        std::mem::forget(self);
        Ok(capsule)
    }
}

/// A capsule that nobody took: whoever does renames it.
unsafe extern "C" fn capsule_ends(capsule: *mut Object) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let Ok(py) = Py::here() else { return };
        let capi = py.capi();
        // SAFETY: the lock is held; what is in a capsule of such a name is a tensor that was not taken.
        unsafe {
            if (capi.capsule_is)(capsule, VERSIONED.as_ptr()) != 0 {
                dlpack::delete_versioned((capi.capsule_pointer)(capsule, VERSIONED.as_ptr()).cast());
            } else if (capi.capsule_is)(capsule, UNVERSIONED.as_ptr()) != 0 {
                dlpack::delete_unversioned((capi.capsule_pointer)(capsule, UNVERSIONED.as_ptr()).cast());
            }
        }
    }));
}

/// This library's table for its own objects.
static EXCHANGE: cai_exchange_api = cai_exchange_api {
    struct_size: size_of::<cai_exchange_api>() as u32,
    abi_major: abi::CAI_ABI_MAJOR,
    from_object: Some(table_from_object),
    to_object: Some(table_to_object),
};

/// The body of a function in a table: failures become exceptions and a status.
fn status(error: *mut cai_error, body: impl FnOnce(Py) -> Result<()>) -> cai_status {
    let result = catch_unwind(AssertUnwindSafe(|| Py::here().and_then(body)));
    let failure = match result {
        Ok(Ok(())) => return abi::CAI_OK,
        Ok(Err(failure)) => failure,
        Err(payload) => {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
            Failure::no_memory(0)
        }
    };
    if !error.is_null() {
        // SAFETY: not NULL; the caller's.
        unsafe { error.write(failure.to_error()) };
    }
    failure.status()
}

unsafe extern "C" fn table_from_object(
    object: *mut c_void,
    out: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    // The usual caller is this library itself, with a structure of the same size.
    let Some(capi) = super::capi::found() else { return abi::CAI_ERR_NO_PYTHON };
    if object.is_null() || out.is_null() {
        return status(error, |_| fail!(CAI_ERR_NULL_ARGUMENT, "object"; found "NULL"; expected "a pointer"));
    }
    if !is_ours(capi, object.cast()) {
        return status(error, |py| not_ours(py, object.cast()));
    }
    // SAFETY: an object of our type; `out` has the size that it says.
    unsafe {
        let array = &(*body(capi, object.cast())).array;
        let size = (&raw const (*out).struct_size).read() as usize;
        if size != size_of::<cai_array>() || array.owner.is_null() {
            return status(
                error,
                |_| fail!(CAI_ERR_STRUCT_SIZE, "out->struct_size"; found "{size}"; expected "{}, and an object with an array", size_of::<cai_array>()),
            );
        }
        if let Err(failure) = owner::retain(array.owner) {
            return status(error, |_| Err(failure));
        }
        out.write(*array);
    }
    abi::CAI_OK
}

unsafe extern "C" fn table_to_object(
    array: *const cai_array,
    out: *mut *mut c_void,
    error: *mut cai_error,
) -> cai_status {
    status(error, |_| {
        if array.is_null() || out.is_null() {
            return fail!(CAI_ERR_NULL_ARGUMENT, "array"; found "NULL"; expected "a pointer");
        }
        // SAFETY: not NULL; by contract of the table.
        unsafe {
            let array = raw::array(array)?;
            out.write(export(&array, 0)?.cast());
        }
        Ok(())
    })
}

/// `DLPackExchangeAPI` of DLPack 1.3.
#[repr(C)]
struct DlpackTable {
    major: u32,
    minor: u32,
    previous: *const c_void,
    allocator: unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut c_void, Option<SetError>) -> c_int,
    from_object: unsafe extern "C" fn(*mut c_void, *mut *mut DLManagedTensorVersioned) -> c_int,
    to_object: unsafe extern "C" fn(*mut DLManagedTensorVersioned, *mut *mut c_void) -> c_int,
    view: Option<unsafe extern "C" fn(*mut c_void, *mut dlpack::Tensor) -> c_int>,
    current_stream: unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int,
}

type SetError = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char);

// SAFETY: never written after it was made.
unsafe impl Sync for DlpackTable {}

/// DLPack's table asks for the producer's current stream without saying for which array. So each array is ordered before
/// the legacy default stream when it is taken, and that stream is the answer.
static DLPACK_EXCHANGE: DlpackTable = DlpackTable {
    major: 1,
    minor: 3,
    previous: ptr::null(),
    allocator: dlpack_allocate,
    from_object: dlpack_from_object,
    to_object: dlpack_to_object,
    // A borrowed tensor has its strides in the producer's memory, and ours are in bytes.
    view: None,
    current_stream: dlpack_current_stream,
};

unsafe extern "C" fn dlpack_allocate(
    _: *mut c_void,
    _: *mut *mut c_void,
    context: *mut c_void,
    set_error: Option<SetError>,
) -> c_int {
    if let Some(set_error) = set_error {
        // SAFETY: the caller's function, with its own context.
        unsafe { set_error(context, c"BufferError".as_ptr(), c"libcai allocates no device memory".as_ptr()) };
    }
    -1
}

/// 0, or -1 with an exception.
fn code(body: impl FnOnce(Py) -> Result<()>) -> c_int {
    let mut done = false;
    answer(|py| {
        body(py)?;
        done = true;
        Ok(ptr::null_mut())
    });
    if done { 0 } else { -1 }
}

unsafe extern "C" fn dlpack_from_object(
    object: *mut c_void,
    out: *mut *mut DLManagedTensorVersioned,
) -> c_int {
    code(|py| {
        if !is_ours(py.capi(), object.cast()) {
            return not_ours(py, object.cast());
        }
        let (array, flags) = array_of(py, object.cast())?;
        let mut array = *array;
        if flags & abi::CAI_EXPORT_HIDE_READONLY != 0 {
            array.flags &= !abi::CAI_FLAG_READONLY;
        }
        let device = dlpack::device_of(&array).map_err(|failure| cannot(py, failure))?;
        // SAFETY: validated when the object was made.
        let tensor = unsafe { dlpack::to_versioned(&array, 0) }.map_err(|failure| cannot(py, failure))?;
        let tensor = Capsule::Versioned(tensor);
        Asked { stream: None, max_version: None, device: None }.order(py, &array, device.0)?;
        if let Capsule::Versioned(tensor) = tensor {
            // SAFETY: the caller's.
            unsafe { out.write(tensor) };
        }
        std::mem::forget(tensor);
        Ok(())
    })
}

unsafe extern "C" fn dlpack_to_object(tensor: *mut DLManagedTensorVersioned, out: *mut *mut c_void) -> c_int {
    code(|py| {
        // SAFETY: a tensor that the caller gives away, whatever becomes of it.
        unsafe {
            let made = dlpack::inside_versioned(tensor).and_then(|(inside, _)| {
                let cpu = (*inside).device().0 == abi::CAI_DEVICE_CPU;
                let stream = if cpu { abi::CAI_STREAM_NONE } else { abi::CAI_STREAM_UNKNOWN };
                dlpack::from_versioned(tensor, stream, size_of::<cai_array>())
            });
            let array = made.inspect_err(|_| dlpack::delete_versioned(tensor))?;
            out.write(wrap(py, array, 0)?.cast());
        }
        Ok(())
    })
}

unsafe extern "C" fn dlpack_current_stream(_: i32, _: i32, out: *mut *mut c_void) -> c_int {
    if out.is_null() {
        return -1;
    }
    // SAFETY: the caller's.
    unsafe { out.write(ptr::null_mut()) };
    0
}
