//! The exchange tables that types publish in their attributes.
//!
//! The attributes are looked up as Python looks up special methods: in the type and its bases,
//! neither in the object nor in the metaclass. So the version of the type covers them.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{Ordering, fence};

use crate::abi::{self, cai_exchange_api};
use crate::dlpack::exchange_table::{ExchangeTable, MAJOR};
use crate::error::{Result, fail};
use crate::python::cache::{FromObject, GradGetter, Offer, Version};
use crate::python::capi::{GetSetDef, Object};
use crate::python::capsules::{DLPACK_CAPSULE, EXCHANGE_CAPSULE};
use crate::python::py::{Owned, Py};
use crate::read::sizes;

/// Returns what an object's type offers.
#[inline]
pub fn offer(py: Py, object: *mut Object) -> Result<Offer> {
    let version = py.version_of(object);
    if py.types.offers_nothing(version) {
        return Ok(Offer::NOTHING);
    }
    something(py, object, version)
}

/// Returns what an object's type offers, after [`crate::python::cache::Types::offers_nothing`] has
/// denied.
#[inline]
pub fn something(py: Py, object: *mut Object, version: Version) -> Result<Offer> {
    match py.types.get(version) {
        Some(offer) => Ok(offer),
        None => ask(py, object),
    }
}

/// A type is asked this often if it changes meanwhile.
const ATTEMPTS: usize = 8;

#[cold]
#[inline(never)]
fn ask(py: Py, object: *mut Object) -> Result<Offer> {
    for _ in 0..ATTEMPTS {
        let Some(r#type) = NonNull::new(py.type_of(object)) else { break };
        // Code that looks up an attribute may give the object another type, so a reference to this
        // one is held meanwhile.
        let r#type = Owned::share(py, r#type);
        let version = py.assign_version(r#type.get())?;
        let (offer, getter, is_lasting) = look(py, version.r#type)?;
        // The answers come before this look at the version.
        fence(Ordering::Acquire);
        if py.version_of(object) == version {
            if is_lasting {
                py.types.add(version, &offer, getter);
            }
            return Ok(offer);
        }
    }
    fail!(
        CAI_ERR_TYPE,
        "object",
        found = "an object whose type changes while it is read",
        expected = "a type that stays the same during a call"
    )
}

/// Returns what a type offers, and whether only a change of the type can change that.
fn look(py: Py, r#type: *mut Object) -> Result<(Offer, GradGetter, bool)> {
    let is_lasting = Cell::new(true);
    let raw = |name| -> Result<Option<Owned>> {
        let (found, is_known) = py.own_attribute(r#type, name)?;
        is_lasting.set(is_lasting.get() && is_known);
        Ok(found)
    };
    let grad = raw(py.names.requires_grad)?;
    let getter = match &grad {
        Some(descriptor) => getter(py, r#type, descriptor)?,
        None => None,
    };
    let may_be_conjugate = raw(py.names.is_conj)?.is_some();
    let value = |name| -> Result<Option<Owned>> {
        let Some(found) = raw(name)? else { return Ok(None) };
        let capi = py.capi();
        // SAFETY: the GIL is held; `capsule_is` accepts any object.
        let is_plain = py.type_of(found.get()) == capi.tuple_type
            || found.get() == capi.none
            || [EXCHANGE_CAPSULE, DLPACK_CAPSULE]
                .iter()
                .any(|name| unsafe { (capi.capsule_is)(found.get(), name.as_ptr()) } != 0);
        if is_plain {
            return Ok(Some(found));
        }
        // A descriptor may return something else each time.
        is_lasting.set(false);
        py.attribute(r#type, name)
    };
    let (ours, dlpacks) = (value(py.names.exchange)?, value(py.names.dlpack_exchange)?);
    let offer = Offer {
        exchange: exchange(py, ours)?,
        dlpack: dlpack(py, dlpacks)?,
        may_require_grad: grad.is_some(),
        may_be_conjugate,
    };
    Ok((offer, getter, is_lasting.get()))
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
fn getter(py: Py, r#type: *mut Object, descriptor: &Owned) -> Result<GradGetter> {
    let (capi, name) = (py.capi(), py.names.requires_grad);
    if py.type_of(descriptor.get()) != capi.getset_type {
        return Ok(None);
    }
    // Objects may look their attributes up in another way.
    let look_up = |of| py.own_attribute(of, py.names.get_attribute);
    let (own, usual) = (look_up(r#type)?.0, look_up(capi.object_type_object)?.0);
    if own.map(|own| own.get()) != usual.map(|usual| usual.get()) {
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
    if found.name != name.as_ptr() || found.definition.is_null() {
        return Ok(None);
    }
    // SAFETY: the name, which is interned, is where it was expected, so the rest is as well: the
    // type that has the attribute, and its definition, which lives as long as the descriptor.
    let (is_of_type, definition) =
        unsafe { ((capi.type_is_subtype)(r#type, found.r#type) != 0, found.definition.read()) };
    Ok(definition.get.filter(|_| is_of_type).map(|get| (get, definition.closure)))
}

/// Returns the pointer in a capsule of this name, or in the first one of a tuple: a type that
/// serves two data ABIs has one for each. Other values are ignored.
fn capsule<'py>(py: Py<'py>, value: Option<Owned<'py>>, name: &CStr) -> *const c_void {
    let Some(value) = value else { return ptr::null() };
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
        return pointer(value.get());
    }
    // SAFETY: the GIL is held; a tuple, and positions below its size.
    let mut capsules = unsafe {
        (0..(capi.tuple_size)(value.get())).map(|index| (capi.tuple_get)(value.get(), index))
    };
    capsules
        .find_map(|object| NonNull::new(pointer(object)))
        .map_or(ptr::null(), |found| found.as_ptr())
}

fn exchange<'py>(py: Py<'py>, value: Option<Owned<'py>>) -> Result<Option<FromObject>> {
    let table = capsule(py, value, EXCHANGE_CAPSULE).cast::<cai_exchange_api>();
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

fn dlpack<'py>(py: Py<'py>, value: Option<Owned<'py>>) -> Result<Option<&'static ExchangeTable>> {
    let mut table = capsule(py, value, DLPACK_CAPSULE).cast::<ExchangeTable>();
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
