//! What types offer to compiled code: the exchange tables in their attributes, remembered.
//!
//! May use: `abi`, `error`, `bridge::dlpack`; of this folder `capi`, `interpreter`. `unsafe`: reads
//! tables that types publish.
//!
//! Most types offer nothing, and that is remembered without keeping them alive: an address that
//! another type got meanwhile costs a slower way in, and now and then the type is asked again; so
//! it is before an object is refused. A type that offers a table is kept alive, so that its address
//! stays its own; there is room for some dozens.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use crate::abi::{self, cai_exchange_api};
use crate::dlpack::exchange_table::{ExchangeTable, MAJOR};
use crate::error::{Result, fail};
use crate::python::capi::Object;
use crate::python::capsules::{DLPACK_CAPSULE, EXCHANGE_CAPSULE};
use crate::python::interpreter::{Owned, Py};

/// What a type offers.
#[derive(Clone, Copy)]
pub struct Offer {
    /// This library's table.
    pub exchange: Option<&'static cai_exchange_api>,
    /// DLPack's.
    pub dlpack: Option<&'static ExchangeTable>,
}

impl Offer {
    const NOTHING: Offer = Offer { exchange: None, dlpack: None };

    /// Neither.
    pub fn is_nothing(&self) -> bool {
        self.exchange.is_none() && self.dlpack.is_none()
    }
}

struct Known {
    r#type: *mut Object,
    offer: Offer,
}

const NOTHINGS: usize = 256;

const OFFERS: usize = 64;

/// A type that offers nothing is asked again after so many objects.
const ASK_AGAIN: u32 = 256;

struct Nothing {
    r#type: AtomicUsize,
    uses: AtomicU32,
}

/// What is remembered.
pub struct Types {
    nothing: [Nothing; NOTHINGS],
    offers: [AtomicPtr<Known>; OFFERS],
}

/// Types lie at multiples of 16.
fn hash(r#type: *mut Object) -> usize {
    let address = r#type as usize >> 4;
    address ^ address >> 8
}

impl Types {
    pub fn new() -> Self {
        Types {
            nothing: [const { Nothing { r#type: AtomicUsize::new(0), uses: AtomicU32::new(0) } };
                NOTHINGS],
            offers: [const { AtomicPtr::new(ptr::null_mut()) }; OFFERS],
        }
    }

    /// What an object's type offers.
    #[inline]
    pub fn offer(&self, py: Py, r#type: *mut Object) -> Result<Offer> {
        let hash = hash(r#type);
        let nothing = &self.nothing[hash % NOTHINGS];
        if nothing.r#type.load(Ordering::Relaxed) == r#type as usize {
            let uses = nothing.uses.load(Ordering::Relaxed).wrapping_add(1);
            nothing.uses.store(uses, Ordering::Relaxed);
            if uses % ASK_AGAIN != 0 {
                return Ok(Offer::NOTHING);
            }
        }
        // SAFETY: NULL or a leaked box. Acquire pairs with the Release below.
        if let Some(known) = unsafe { self.offers[hash % OFFERS].load(Ordering::Acquire).as_ref() }
        {
            if known.r#type == r#type {
                return Ok(known.offer);
            }
        }
        self.ask(py, r#type)
    }

    /// Forgets everything. What was remembered of types that offer something is lost, with a
    /// reference each: others may be looking at it.
    pub fn forget(&self) {
        for nothing in &self.nothing {
            nothing.r#type.store(0, Ordering::Relaxed);
        }
        for offer in &self.offers {
            offer.store(ptr::null_mut(), Ordering::Release);
        }
    }

    /// The same, asked from the type itself where it is not known to offer something.
    #[cold]
    #[inline(never)]
    pub fn ask(&self, py: Py, r#type: *mut Object) -> Result<Offer> {
        let hash = hash(r#type);
        // A place that is taken by another type: look at the rest.
        for place in 0..OFFERS {
            // SAFETY: as above.
            match unsafe { self.offers[(hash + place) % OFFERS].load(Ordering::Acquire).as_ref() } {
                Some(known) if known.r#type == r#type => return Ok(known.offer),
                Some(_) => {}
                None => break,
            }
        }
        // What looks attributes up may give the object another type: this one is kept meanwhile.
        let kept = ptr::NonNull::new(r#type).map(|r#type| Owned::share(py, r#type));
        let offer = Offer { exchange: exchange(py, r#type)?, dlpack: dlpack(py, r#type)? };
        if offer.is_nothing() {
            let nothing = &self.nothing[hash % NOTHINGS];
            nothing.r#type.store(r#type as usize, Ordering::Relaxed);
            return Ok(offer);
        }
        let known = Box::into_raw(Box::new(Known { r#type, offer }));
        for place in 0..OFFERS {
            let slot = &self.offers[(hash + place) % OFFERS];
            if slot
                .compare_exchange(ptr::null_mut(), known, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
            {
                // The reference is never given up.
                std::mem::forget(kept);
                return Ok(offer);
            }
        }
        // No room: it is asked each time.
        // SAFETY: made above, seen by nobody.
        drop(unsafe { Box::from_raw(known) });
        Ok(offer)
    }
}

/// The pointer in a capsule of this name in an attribute of the type. Anything else there is
/// somebody else's.
fn capsule(
    py: Py,
    r#type: *mut Object,
    attribute: *mut Object,
    name: &std::ffi::CStr,
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
