//! The exchange tables that types publish in their attributes.
//!
//! May use: `abi`, `dlpack::exchange_table`, `error`, `python::cache`, `python::capi`,
//! `python::capsules`, `python::interpreter`, `read`.
//! Unsafe: reads tables that types publish, and is called by CPython when a type ends.

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};

use crate::abi::{self, cai_exchange_api};
use crate::dlpack::exchange_table::{ExchangeTable, MAJOR};
use crate::error::{Result, fail};
use crate::python::cache::{FromObject, Getter, Grad, Offer};
use crate::python::capi::{self, GetSetDef, METH_O, MethodDef, Object};
use crate::python::capsules::{DLPACK_CAPSULE, EXCHANGE_CAPSULE};
use crate::python::interpreter::{self, Owned, Py};
use crate::read::sizes;

/// Returns what an object's type offers.
#[inline]
pub fn offer(py: Py, object: *mut Object) -> Result<Offer> {
    if py.types.offers_nothing(py.type_of(object)) {
        return Ok(Offer::NOTHING);
    }
    something(py, object)
}

/// Returns what an object's type offers, after [`crate::python::cache::Types::offers_nothing`] has
/// denied: a type that it is time to ask again is asked.
#[inline]
pub fn something(py: Py, object: *mut Object) -> Result<Offer> {
    let r#type = py.type_of(object);
    match py.types.get(r#type) {
        Some(offer) => Ok(*offer),
        None => ask(py, r#type),
    }
}

/// Returns what an object's type offers. A type that is not known to offer a table is asked again.
pub fn offer_anew(py: Py, object: *mut Object) -> Result<Offer> {
    ask(py, py.type_of(object))
}

#[cold]
#[inline(never)]
fn ask(py: Py, r#type: *mut Object) -> Result<Offer> {
    if let Some(offer) = py.types.find(r#type) {
        return Ok(offer);
    }
    // Code that looks up an attribute may give the object another type, so a reference to this one
    // is held meanwhile.
    let kept = NonNull::new(r#type).map(|r#type| Owned::share(py, r#type));
    let descriptor = py.attribute(r#type, py.names.requires_grad)?;
    let grad = match &descriptor {
        None => Grad::Never,
        Some(descriptor) => getter(py, r#type, descriptor)?
            .map_or(Grad::Attribute, |(get, closure)| Grad::Getter(get, closure)),
    };
    let offer = Offer {
        exchange: exchange(py, r#type)?,
        dlpack: dlpack(py, r#type)?,
        grad,
        may_be_conjugate: py.attribute(r#type, py.names.is_conj)?.is_some(),
    };
    if offer.is_nothing() {
        remember_nothing(py, r#type);
    } else if py.types.add(r#type, offer) {
        // The references are never released.
        std::mem::forget((kept, descriptor));
    }
    Ok(offer)
}

/// Remembers that a type offers nothing, for as long as it lives: another type that gets its
/// address may have the attribute `requires_grad`, and would not be asked.
fn remember_nothing(py: Py, r#type: *mut Object) {
    if py.types.has_nothing(r#type) {
        return;
    }
    let capi = py.capi();
    // SAFETY: the GIL is held; the definition is constant.
    let function = unsafe { (capi.function_new)(&FORGET, ptr::null_mut(), ptr::null_mut()) };
    let mut reference = ptr::null_mut();
    if !function.is_null() {
        // SAFETY: the GIL is held; the caller keeps the type alive.
        reference = unsafe { (capi.weakref_new)(r#type, function) };
        py.release(function);
    }
    if reference.is_null() {
        // Without memory for it, the type is asked each time.
        // SAFETY: the GIL is held.
        unsafe { (capi.error_clear)() };
        return;
    }
    py.release(py.types.add_nothing(r#type, reference));
}

/// What CPython calls before the memory of a type is free.
static FORGET: MethodDef = MethodDef {
    name: c"libcai_forget_type".as_ptr(),
    function: forget as *const c_void,
    flags: METH_O,
    doc: ptr::null(),
};

unsafe extern "C-unwind" fn forget(_: *mut Object, reference: *mut Object) -> *mut Object {
    let Some(capi) = capi::found() else { return ptr::null_mut() };
    // SAFETY: CPython calls this with the GIL held, and holds a reference to the argument.
    unsafe {
        let known = interpreter::current(capi);
        if known.is_some_and(|interpreter| interpreter.types.forget_nothing(reference)) {
            (capi.decref)(reference);
        }
        (capi.incref)(capi.none);
    }
    capi.none
}

/// `PyGetSetDescrObject` behind its head: an attribute that is implemented in C.
#[repr(C)]
struct GetSetDescriptor {
    r#type: *mut Object,
    name: *mut Object,
    qualified_name: *mut Object,
    definition: *const GetSetDef,
}

/// Returns the function of the attribute `requires_grad` and its argument, if the attribute is
/// implemented in C. It is called directly then, which takes a third of the time.
fn getter(
    py: Py,
    r#type: *mut Object,
    descriptor: &Owned,
) -> Result<Option<(Getter, *mut c_void)>> {
    let (capi, name) = (py.capi(), py.names.requires_grad);
    if py.type_of(descriptor.get()) != capi.getset_type {
        return Ok(None);
    }
    // The layout is CPython's own: it is used if the size and the name confirm it.
    let head = capi.facts.head;
    let Some(size) = py.attribute(capi.getset_type, py.names.basicsize)? else { return Ok(None) };
    let mut overflow = 0;
    // SAFETY: the GIL is held; the size of a type is an integer.
    let size = unsafe { (capi.long_as_signed)(size.get(), &raw mut overflow) };
    if head == 0 || size != (head + size_of::<GetSetDescriptor>()) as i64 {
        return Ok(None);
    }
    // SAFETY: the object has as many bytes behind its head, and every bit pattern is a valid
    // pointer.
    let found = unsafe {
        descriptor.get().cast::<u8>().add(head).cast::<GetSetDescriptor>().read_unaligned()
    };
    if found.name != name || found.definition.is_null() {
        return Ok(None);
    }
    // SAFETY: the name, which is interned, is where it was expected, so the rest is as well: the
    // type that has the attribute, and its definition, which lives as long as the descriptor.
    let (is_of_type, definition) =
        unsafe { ((capi.type_is_subtype)(r#type, found.r#type) != 0, found.definition.read()) };
    Ok(definition.get.filter(|_| is_of_type).map(|get| (get, definition.closure)))
}

/// Returns the pointer in a capsule of this name in an attribute of the type. The attribute may
/// also hold a tuple of capsules: a type that serves two data ABIs has one for each. Other values
/// are ignored.
fn capsule(
    py: Py,
    r#type: *mut Object,
    attribute: *mut Object,
    name: &CStr,
) -> Result<*const c_void> {
    let Some(value) = py.attribute(r#type, attribute)? else { return Ok(ptr::null()) };
    let capi = py.capi();
    let pointer = |object: *mut Object| {
        // SAFETY: the GIL is held; `capsule_is` accepts any object.
        unsafe {
            match (capi.capsule_is)(object, name.as_ptr()) {
                0 => ptr::null_mut(),
                _ => (capi.capsule_pointer)(object, name.as_ptr()),
            }
        }
    };
    if !py.is(value.get(), capi.tuple_type) {
        return Ok(pointer(value.get()));
    }
    // SAFETY: the GIL is held; a tuple, and positions below its size.
    let mut capsules = unsafe {
        (0..(capi.tuple_size)(value.get())).map(|index| (capi.tuple_get)(value.get(), index))
    };
    Ok(capsules
        .find_map(|object| NonNull::new(pointer(object)))
        .map_or(ptr::null(), |found| found.as_ptr()))
}

fn exchange(py: Py, r#type: *mut Object) -> Result<Option<FromObject>> {
    let table =
        capsule(py, r#type, py.names.exchange, EXCHANGE_CAPSULE)?.cast::<cai_exchange_api>();
    if table.is_null() {
        return Ok(None);
    }
    // SAFETY: tables of every age begin with their size and their data ABI.
    let data_abi = unsafe { (&raw const (*table).data_abi).read() };
    if data_abi != abi::CAI_DATA_ABI {
        return Ok(None);
    }
    // SAFETY: published under the contract of `cai_exchange_api`.
    unsafe { check_table(table) }.map(Some)
}

/// Checks a table of any age and returns the one function of it that is called.
///
/// # Safety
/// `table` points to a table of the size that it states, which lives as long as the process.
pub unsafe fn check_table(table: *const cai_exchange_api) -> Result<FromObject> {
    // SAFETY: tables of every age begin with these two.
    let (size, data_abi) = unsafe {
        ((&raw const (*table).struct_size).read(), (&raw const (*table).data_abi).read())
    };
    if (size as usize) < sizes::EXCHANGE_API {
        return fail!(
            CAI_ERR_EXCHANGE_TABLE,
            "__cai_exchange_api__.struct_size",
            found = "{size}",
            expected = ("at least {}", sizes::EXCHANGE_API)
        );
    }
    if data_abi != abi::CAI_DATA_ABI {
        return fail!(
            CAI_ERR_EXCHANGE_TABLE,
            "__cai_exchange_api__.data_abi",
            found = "{data_abi}",
            expected = ("{}", abi::CAI_DATA_ABI)
        );
    }
    // SAFETY: a table of that size has this member; no reference to the whole is made.
    match unsafe { (&raw const (*table).from_object).read() } {
        Some(from_object) => Ok(from_object),
        None => fail!(
            CAI_ERR_EXCHANGE_TABLE,
            "__cai_exchange_api__.from_object",
            found = "NULL",
            expected = "a function"
        ),
    }
}

fn dlpack(py: Py, r#type: *mut Object) -> Result<Option<&'static ExchangeTable>> {
    let mut table =
        capsule(py, r#type, py.names.dlpack_exchange, DLPACK_CAPSULE)?.cast::<ExchangeTable>();
    // Newer tables refer to their predecessors.
    for _ in 0..8 {
        // SAFETY: DLPack requires that a table lives as long as the process and that every version
        // begins with number and predecessor.
        let Some((major, previous)) =
            (!table.is_null()).then(|| unsafe { ((*table).major, (*table).previous) })
        else {
            break;
        };
        if major == MAJOR {
            // SAFETY: the major version, checked above, has these members.
            let table = unsafe { &*table };
            return Ok(table.from_object.is_some().then_some(table));
        }
        table = previous;
    }
    Ok(None)
}
