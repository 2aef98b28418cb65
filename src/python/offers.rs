//! The exchange tables that types publish in their attributes.

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};

use crate::abi::{self, cai_exchange_api};
use crate::dlpack::exchange_table::{ExchangeTable, MAJOR};
use crate::error::{Result, fail};
use crate::python::cache::Offer;
use crate::python::capi::Object;
use crate::python::capsules::{DLPACK_CAPSULE, EXCHANGE_CAPSULE};
use crate::python::interpreter::{Owned, Py};

/// What an object's type offers.
#[inline]
pub fn offer(py: Py, object: *mut Object) -> Result<Offer> {
    let r#type = py.type_of(object);
    match py.types.get(r#type) {
        Some(offer) => Ok(offer),
        None => ask(py, r#type),
    }
}

/// What an object's type offers. A type that is not known to offer a table is asked again.
pub fn offer_anew(py: Py, object: *mut Object) -> Result<Offer> {
    ask(py, py.type_of(object))
}

#[cold]
#[inline(never)]
fn ask(py: Py, r#type: *mut Object) -> Result<Offer> {
    if let Some(offer) = py.types.find(r#type) {
        return Ok(offer);
    }
    // Code that looks up an attribute may give the object another type: this one is kept meanwhile.
    let kept = NonNull::new(r#type).map(|r#type| Owned::share(py, r#type));
    let offer = Offer { exchange: exchange(py, r#type)?, dlpack: dlpack(py, r#type)? };
    if py.types.add(r#type, offer) {
        // The reference is never given up.
        std::mem::forget(kept);
    }
    Ok(offer)
}

/// The pointer in a capsule of this name in an attribute of the type. Anything else there is
/// somebody else's.
fn capsule(
    py: Py,
    r#type: *mut Object,
    attribute: *mut Object,
    name: &CStr,
) -> Result<*const c_void> {
    let Some(value) = py.attribute(r#type, attribute)? else { return Ok(ptr::null()) };
    let capi = py.capi();
    // SAFETY: the lock is held; any object may be asked.
    unsafe {
        if (capi.capsule_is)(value.get(), name.as_ptr()) == 0 {
            return Ok(ptr::null());
        }
        Ok((capi.capsule_pointer)(value.get(), name.as_ptr()))
    }
}

fn exchange(py: Py, r#type: *mut Object) -> Result<Option<&'static cai_exchange_api>> {
    let table =
        capsule(py, r#type, py.names.exchange, EXCHANGE_CAPSULE)?.cast::<cai_exchange_api>();
    if table.is_null() {
        return Ok(None);
    }
    // SAFETY: a table under this name begins like this in every version.
    let major = unsafe { (&raw const (*table).abi_major).read() };
    if major != abi::CAI_ABI_MAJOR {
        return Ok(None);
    }
    // SAFETY: published under the contract of `cai_exchange_api`.
    unsafe { check_table(table) }.map(Some)
}

/// A table as its contract has it, or why not.
///
/// # Safety
/// `table` points to a table of the size that it says, which lives as long as the process.
pub unsafe fn check_table(table: *const cai_exchange_api) -> Result<&'static cai_exchange_api> {
    // SAFETY: every version begins with these two.
    let (size, major) = unsafe {
        ((&raw const (*table).struct_size).read(), (&raw const (*table).abi_major).read())
    };
    if (size as usize) < size_of::<cai_exchange_api>() {
        return fail!(
            CAI_ERR_EXCHANGE_TABLE,
            "__cai_exchange_api__.struct_size",
            found = "{size}",
            expected = ("at least {}", size_of::<cai_exchange_api>())
        );
    }
    if major != abi::CAI_ABI_MAJOR {
        return fail!(
            CAI_ERR_EXCHANGE_TABLE,
            "__cai_exchange_api__.abi_major",
            found = "{major}",
            expected = ("{}", abi::CAI_ABI_MAJOR)
        );
    }
    // SAFETY: at least as long as ours.
    let table = unsafe { &*table };
    if table.from_object.is_none() {
        return fail!(
            CAI_ERR_EXCHANGE_TABLE,
            "__cai_exchange_api__.from_object",
            found = "NULL",
            expected = "a function"
        );
    }
    Ok(table)
}

fn dlpack(py: Py, r#type: *mut Object) -> Result<Option<&'static ExchangeTable>> {
    let mut table =
        capsule(py, r#type, py.names.dlpack_exchange, DLPACK_CAPSULE)?.cast::<ExchangeTable>();
    // Newer ones name their predecessors.
    for _ in 0..8 {
        // SAFETY: DLPack: a table lives as long as the process, and every version begins with
        // number and predecessor.
        let Some((major, previous)) =
            (!table.is_null()).then(|| unsafe { ((*table).major, (*table).previous) })
        else {
            break;
        };
        if major == MAJOR {
            // SAFETY: of the version that is described above.
            let table = unsafe { &*table };
            return Ok(table.from_object.is_some().then_some(table));
        }
        table = previous;
    }
    Ok(None)
}
