//! What types offer to compiled code, remembered by the address of the type.
//!
//! May use: `abi`, `dlpack::exchange_table`, `memory`, `python::capi`.
//! Unsafe: reads entries that are leaked.
//!
//! Most types offer nothing. That is remembered without keeping them alive: the caller provides a
//! weak reference, whose callback calls [`Types::forget_nothing`] before another type can get the
//! address. Every 256th time the type is asked again, for it may have got an attribute. A type that
//! offers a table is kept alive by the caller, so that its address stays its own; there are places
//! for 64.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use crate::abi::{cai_array, cai_error, cai_status};
use crate::dlpack::exchange_table::ExchangeTable;
use crate::memory;
use crate::python::capi::Object;

/// `cai_exchange_api.from_object`.
pub type FromObject =
    unsafe extern "C-unwind" fn(*mut c_void, *mut cai_array, *mut cai_error) -> cai_status;

/// The function of an attribute that is implemented in C.
pub type Getter = unsafe extern "C-unwind" fn(*mut Object, *mut c_void) -> *mut Object;

/// How objects of a type are asked whether they require grad, as PyTorch's tensors may.
#[derive(Clone, Copy)]
pub enum Grad {
    /// Not at all: the type has no attribute `requires_grad`.
    Never,
    /// By the attribute.
    Attribute,
    /// By the function of the attribute, with this argument.
    Getter(Getter, *mut c_void),
}

/// What a type offers.
#[derive(Clone, Copy)]
pub struct Offer {
    /// The function of this library's table, of any age.
    pub exchange: Option<FromObject>,
    /// DLPack's table.
    pub dlpack: Option<&'static ExchangeTable>,
    /// How to ask whether an object requires grad.
    pub grad: Grad,
    /// The values of its objects may be the conjugates of those in memory, as PyTorch's: the type
    /// has an attribute `is_conj`.
    pub may_be_conjugate: bool,
}

impl Offer {
    /// No table.
    pub const NOTHING: Offer =
        Offer { exchange: None, dlpack: None, grad: Grad::Never, may_be_conjugate: false };

    /// Returns true if the type offers no table, and its objects are never asked about grad or
    /// conjugates.
    pub fn is_nothing(&self) -> bool {
        self.exchange.is_none()
            && self.dlpack.is_none()
            && matches!(self.grad, Grad::Never)
            && !self.may_be_conjugate
    }
}

struct Known {
    r#type: *mut Object,
    offer: Offer,
}

const NOTHINGS: usize = 256;

const OFFERS: usize = 64;

/// A type that offers nothing is asked again after this many objects.
const ASK_AGAIN: u32 = 256;

struct Nothing {
    r#type: AtomicUsize,
    uses: AtomicU32,
}

/// A hash table for types that offer nothing, and one for those that offer a table.
pub struct Types {
    nothing: [Nothing; NOTHINGS],
    /// For each place of `nothing` the weak reference to its type, or NULL.
    references: [AtomicPtr<Object>; NOTHINGS],
    /// A thread changes `nothing` and `references`; in free-threaded builds, another may want to.
    is_changing: AtomicBool,
    offers: [AtomicPtr<Known>; OFFERS],
}

/// Types are aligned to 16 bytes.
fn hash(r#type: *mut Object) -> usize {
    let address = r#type as usize >> 4;
    address ^ address >> 8
}

impl Types {
    /// An empty cache.
    pub fn new() -> Self {
        Types {
            nothing: [const { Nothing { r#type: AtomicUsize::new(0), uses: AtomicU32::new(0) } };
                NOTHINGS],
            references: [const { AtomicPtr::new(ptr::null_mut()) }; NOTHINGS],
            is_changing: AtomicBool::new(false),
            offers: [const { AtomicPtr::new(ptr::null_mut()) }; OFFERS],
        }
    }

    /// Returns true if a type is known to offer nothing.
    #[inline(always)]
    pub fn offers_nothing(&self, r#type: *mut Object) -> bool {
        let nothing = &self.nothing[hash(r#type) % NOTHINGS];
        if nothing.r#type.load(Ordering::Relaxed) != r#type as usize {
            return false;
        }
        let uses = nothing.uses.load(Ordering::Relaxed).wrapping_add(1);
        nothing.uses.store(uses, Ordering::Relaxed);
        uses % ASK_AGAIN != 0
    }

    /// Returns what a type is known to offer, if it offers something; `None` if it has to be asked.
    #[inline]
    pub fn get(&self, r#type: *mut Object) -> Option<&'static Offer> {
        let hash = hash(r#type);
        // SAFETY: NULL or a leaked box. Acquire pairs with the Release in `add`.
        let known: &'static Known =
            unsafe { self.offers[hash % OFFERS].load(Ordering::Acquire).as_ref() }?;
        (known.r#type == r#type).then_some(&known.offer)
    }

    /// Returns what a type is known to offer, if it offers a table, wherever it is stored.
    pub fn find(&self, r#type: *mut Object) -> Option<Offer> {
        let hash = hash(r#type);
        for place in 0..OFFERS {
            // SAFETY: NULL or a leaked box, as in `get`.
            let known =
                unsafe { self.offers[(hash + place) % OFFERS].load(Ordering::Acquire).as_ref() }?;
            if known.r#type == r#type {
                return Some(known.offer);
            }
        }
        None
    }

    /// Returns true if a type is remembered to offer nothing, also when it is time to ask it again.
    pub fn has_nothing(&self, r#type: *mut Object) -> bool {
        self.nothing[hash(r#type) % NOTHINGS].r#type.load(Ordering::Relaxed) == r#type as usize
    }

    /// Remembers that a type offers nothing. Takes a weak reference to the type, and returns one
    /// that the caller must release: that of the type whose place this was, or NULL.
    pub fn add_nothing(&self, r#type: *mut Object, reference: *mut Object) -> *mut Object {
        if self.is_changing.swap(true, Ordering::Acquire) {
            // The type is asked each time until its turn comes.
            return reference;
        }
        let place = hash(r#type) % NOTHINGS;
        // The old type may end in another thread, which no longer finds the reference then: nothing
        // is left of the type by that time.
        self.nothing[place].r#type.store(0, Ordering::Relaxed);
        let old = self.references[place].swap(reference, Ordering::AcqRel);
        self.nothing[place].r#type.store(r#type as usize, Ordering::Relaxed);
        self.is_changing.store(false, Ordering::Release);
        old
    }

    /// Forgets the type of a weak reference. Returns true if the caller must release the reference.
    pub fn forget_nothing(&self, reference: *mut Object) -> bool {
        let place = self.references.iter().position(|at| at.load(Ordering::Acquire) == reference);
        let Some(place) = place else { return false };
        self.nothing[place].r#type.store(0, Ordering::Relaxed);
        // Fails if another thread uses the place by now, and releases the reference.
        self.references[place]
            .compare_exchange(reference, ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Remembers a type that offers something. Returns true if the caller must keep the type alive
    /// for good, so that its address stays its own.
    pub fn add(&self, r#type: *mut Object, offer: Offer) -> bool {
        let hash = hash(r#type);
        if self.has_nothing(r#type) {
            // It got an attribute since.
            self.nothing[hash % NOTHINGS].r#type.store(0, Ordering::Relaxed);
        }
        // Without memory for it, such a type is asked each time.
        let Ok(known) = memory::boxed(Known { r#type, offer }) else { return false };
        let known = Box::into_raw(known);
        for place in 0..OFFERS {
            let slot = &self.offers[(hash + place) % OFFERS];
            let empty = ptr::null_mut();
            if slot.compare_exchange(empty, known, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return true;
            }
        }
        // The table is full: such a type is asked each time.
        // SAFETY: made above, and published nowhere.
        drop(unsafe { Box::from_raw(known) });
        false
    }

    /// Forgets everything. Entries of types that offer a table are leaked, with a reference each:
    /// another thread may be reading them.
    pub fn forget(&self) {
        for nothing in &self.nothing {
            nothing.r#type.store(0, Ordering::Relaxed);
        }
        for offer in &self.offers {
            offer.store(ptr::null_mut(), Ordering::Release);
        }
    }
}
