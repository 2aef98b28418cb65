//! Tables that types offer to compiled code, remembered by the type and its version.
//!
//! CPython gives a type a version, and another one after each change of the type or of a base
//! (`tp_version_tag`). No two types of an interpreter have the same version, at any time: what is
//! remembered ends with the type and with its next change, and keeps nothing alive.

use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use crate::abi::{cai_array, cai_error, cai_status};
use crate::dlpack::exchange_table::ExchangeTable;
use crate::memory;
use crate::python::capi::Object;

/// `cai_unstable_exchange_api.from_object`.
pub type FromObject =
    unsafe extern "C-unwind" fn(*mut Object, *mut cai_array, *mut cai_error) -> cai_status;

/// The function of an attribute that is implemented in C.
pub type Getter = unsafe extern "C-unwind" fn(*mut Object, *mut c_void) -> *mut Object;

/// A type as it is until its next change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// The type, borrowed.
    pub r#type: *mut Object,
    /// The number that CPython gave it; 0 if it has none, or none that is known.
    pub number: u32,
}

#[derive(Clone, Copy)]
pub struct OfferedTables {
    /// The function of this library's table, of any age.
    pub exchange: Option<FromObject>,
    pub dlpack: Option<&'static ExchangeTable>,
    /// Its objects may require grad: the type has an attribute `requires_grad`.
    pub may_require_grad: bool,
    /// The values of its objects may be the conjugates of those in memory, as PyTorch's: the type
    /// has an attribute `is_conj`.
    pub may_be_conjugate: bool,
}

impl OfferedTables {
    pub const NOTHING: OfferedTables = OfferedTables {
        exchange: None,
        dlpack: None,
        may_require_grad: false,
        may_be_conjugate: false,
    };

    /// Returns true if the type offers no table and its objects have neither grad nor conjugates.
    pub fn is_nothing(&self) -> bool {
        self.exchange.is_none()
            && self.dlpack.is_none()
            && !self.may_require_grad
            && !self.may_be_conjugate
    }
}

/// The function of the attribute `requires_grad`, if it is implemented in C, and its argument.
pub type GradGetter = Option<(Getter, *mut c_void)>;

/// Answers of a type.
pub struct Facts {
    pub tables: OfferedTables,
    pub getter: GradGetter,
    /// `NONE` for a type that offers something.
    pub missing: Missing,
}

/// Protocols that no object of a type can have: bits of `CAI_PROTOCOL_` numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Missing(u32);

impl Missing {
    pub const NONE: Missing = Missing(0);
    /// Bit 0 is no protocol's: the type's own `__array_struct__` says what its other attributes do.
    const HAS_STRUCT: u32 = 1;

    #[inline(always)]
    pub const fn has(self, protocol: u8) -> bool {
        self.0 >> protocol & 1 != 0
    }

    #[must_use]
    pub const fn with(self, protocol: u8) -> Self {
        Missing(self.0 | 1 << protocol)
    }

    #[must_use]
    pub const fn with_struct(self) -> Self {
        Missing(self.0 | Self::HAS_STRUCT)
    }

    /// Returns true for the types of NumPy: not for classes whose objects may have more attributes.
    #[inline(always)]
    pub const fn has_struct(self) -> bool {
        self.0 & Self::HAS_STRUCT != 0
    }
}

const NOTHINGS: usize = 256;
const PLACES: usize = 64;
const TABLES: usize = 1024;

/// A type is in one of this many places.
const WAYS: usize = 4;

#[derive(Default)]
struct Nothing {
    r#type: AtomicPtr<Object>,
    /// The number of the version, and from bit 32 on what is missing in it.
    known: AtomicU64,
}

/// A type, with all that is known about it. Threads of free-threaded builds read it while another one writes
/// it: `sequence` is odd meanwhile, and another one afterwards.
#[derive(Default)]
#[repr(align(64))]
struct Known {
    sequence: AtomicU32,
    number: AtomicU32,
    r#type: AtomicPtr<Object>,
    exchange: AtomicPtr<c_void>,
    dlpack: AtomicPtr<ExchangeTable>,
    getter: AtomicPtr<c_void>,
    closure: AtomicPtr<c_void>,
    /// `GRAD` and `CONJUGATE`, and from bit `MISSING` on what is missing.
    flags: AtomicU32,
}

impl Known {
    /// Returns the values that `read` finds, if they are those of this type.
    #[inline(always)]
    fn read<T>(&self, version: Version, read: impl Fn(&Known) -> T) -> Option<T> {
        // Acquire: pairs with the Release that ends `Table::add`.
        let sequence = self.sequence.load(Ordering::Acquire);
        if self.r#type.load(Ordering::Relaxed) != version.r#type
            || self.number.load(Ordering::Relaxed) != version.number
        {
            return None;
        }
        let found = read(self);
        // The loads above come before the next one: pairs with the fence in `Table::add`.
        fence(Ordering::Acquire);
        let is_whole = sequence % 2 == 0 && self.sequence.load(Ordering::Relaxed) == sequence;
        is_whole.then_some(found)
    }
}

const GRAD: u32 = 1;
const CONJUGATE: u32 = 2;
const MISSING: u32 = 2;

impl Known {
    #[inline(always)]
    fn tables(&self) -> OfferedTables {
        let (exchange, dlpack) =
            (self.exchange.load(Ordering::Relaxed), self.dlpack.load(Ordering::Relaxed));
        let flags = self.flags.load(Ordering::Relaxed);
        // SAFETY: `Table::add` stored a function of this type or NULL, and a reference or NULL.
        let (exchange, dlpack) = unsafe {
            (std::mem::transmute::<*mut c_void, Option<FromObject>>(exchange), dlpack.as_ref())
        };
        let (may_require_grad, may_be_conjugate) = (flags & GRAD != 0, flags & CONJUGATE != 0);
        OfferedTables { exchange, dlpack, may_require_grad, may_be_conjugate }
    }

    #[inline(always)]
    fn getter(&self) -> GradGetter {
        let (getter, closure) =
            (self.getter.load(Ordering::Relaxed), self.closure.load(Ordering::Relaxed));
        // SAFETY: `Table::add` stored a function of this type or NULL.
        let getter = unsafe { std::mem::transmute::<*mut c_void, Option<Getter>>(getter) };
        getter.map(|getter| (getter, closure))
    }

    fn missing(&self) -> Missing {
        Missing(self.flags.load(Ordering::Relaxed) >> MISSING)
    }
}

/// A hash table of types.
struct Table([Known; PLACES]);

impl Table {
    fn new() -> Self {
        Table(std::array::from_fn(|_| Known::default()))
    }

    /// Reads the place of a type, if it has one. The first place is nearly always that of the type.
    #[inline(always)]
    fn read<T>(&self, hash: usize, version: Version, read: impl Fn(&Known) -> T) -> Option<T> {
        let first = hash % PLACES;
        self.0[first].read(version, &read).or_else(|| self.read_others(version, first, read))
    }

    #[cold]
    #[inline(never)]
    fn read_others<T>(
        &self,
        version: Version,
        first: usize,
        read: impl Fn(&Known) -> T,
    ) -> Option<T> {
        (1..WAYS).find_map(|way| self.0[first ^ way].read(version, &read))
    }

    /// Adds a type. Returns true if that is in place of another one.
    fn add(&self, hash: usize, version: Version, facts: &Facts) -> bool {
        let first = hash % PLACES;
        let is_free = |&way: &usize| {
            let r#type = self.0[first ^ way].r#type.load(Ordering::Relaxed);
            r#type.is_null() || r#type == version.r#type
        };
        let free = (0..WAYS).find(is_free);
        let known = &self.0[first ^ free.unwrap_or(version.number as usize % WAYS)];
        let sequence = known.sequence.load(Ordering::Relaxed);
        let writing = sequence.wrapping_add(1);
        // Acquire: pairs with the Release of the call that wrote the place before.
        if sequence % 2 != 0
            || known
                .sequence
                .compare_exchange(sequence, writing, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
        {
            // Another thread writes the place: the type is asked again.
            return false;
        }
        // The store above comes before those below.
        fence(Ordering::Release);
        let Facts { tables, getter, missing } = facts;
        let (getter, closure) = getter
            .map_or((ptr::null_mut(), ptr::null_mut()), |found| (found.0 as *mut c_void, found.1));
        let exchange = tables.exchange.map_or(ptr::null_mut(), |function| function as *mut c_void);
        let dlpack = tables.dlpack.map_or(ptr::null_mut(), |table| ptr::from_ref(table).cast_mut());
        let grad = if tables.may_require_grad { GRAD } else { 0 };
        let conjugate = if tables.may_be_conjugate { CONJUGATE } else { 0 };
        known.number.store(version.number, Ordering::Relaxed);
        known.r#type.store(version.r#type, Ordering::Relaxed);
        known.exchange.store(exchange, Ordering::Relaxed);
        known.dlpack.store(dlpack, Ordering::Relaxed);
        known.getter.store(getter, Ordering::Relaxed);
        known.closure.store(closure, Ordering::Relaxed);
        known.flags.store(grad | conjugate | missing.0 << MISSING, Ordering::Relaxed);
        known.sequence.store(writing.wrapping_add(1), Ordering::Release);
        free.is_none()
    }
}

/// Hash tables for types that offer nothing and for those that offer something. They are small, and
/// so near the processor. Types that are too many for them are in further tables as well, which are
/// made for the types that they have: each is asked twice at most.
pub struct Types {
    nothing: [Nothing; NOTHINGS],
    offers: Table,
    further: [OnceLock<Box<Table>>; TABLES],
}

/// Types are aligned to 16 bytes.
fn hash(r#type: *mut Object) -> usize {
    let address = r#type as usize >> 4;
    address ^ address >> 8
}

impl Types {
    pub fn new() -> Self {
        Types {
            nothing: std::array::from_fn(|_| Nothing::default()),
            offers: Table::new(),
            further: [const { OnceLock::new() }; TABLES],
        }
    }

    /// Returns true if a type is known to offer nothing. False for every type without a version.
    #[inline(always)]
    pub fn offers_nothing(&self, version: Version) -> bool {
        self.missing(version).is_some()
    }

    /// Returns what is missing in a type that is known to offer nothing.
    #[inline(always)]
    pub fn missing(&self, version: Version) -> Option<Missing> {
        let nothing = &self.nothing[hash(version.r#type) % NOTHINGS];
        let known = nothing.known.load(Ordering::Relaxed);
        // While another thread writes, the two may be of different types: then no type has both.
        let is_known = nothing.r#type.load(Ordering::Relaxed) == version.r#type
            && known as u32 == version.number;
        is_known.then_some(Missing((known >> 32) as u32))
    }

    /// Returns what a type is known to offer, if it offers something; `None` if it has to be
    /// recalled or asked.
    #[inline(always)]
    pub fn get(&self, version: Version) -> Option<OfferedTables> {
        self.offers.read(hash(version.r#type), version, Known::tables)
    }

    /// Returns the function of a type's attribute `requires_grad`, if it is known.
    #[inline]
    pub fn grad_getter(&self, version: Version) -> GradGetter {
        self.offers.read(hash(version.r#type), version, Known::getter)?
    }

    /// Returns what one of many types offers; `None` if it has to be asked.
    pub fn recall(&self, version: Version) -> Option<OfferedTables> {
        let (further, hash) = self.further(version);
        let facts = further.get()?.read(hash, version, |known| Facts {
            tables: known.tables(),
            getter: known.getter(),
            missing: known.missing(),
        })?;
        self.place(version, &facts);
        Some(facts.tables)
    }

    /// Remembers a type. One without a version is asked each time.
    pub fn add(&self, version: Version, facts: &Facts) {
        if version.number == 0 || !self.place(version, facts) {
            return;
        }
        let (further, hash) = self.further(version);
        if further.get().is_none() {
            // Without memory, the type is asked again. Another thread may be faster.
            let Some(table) = memory::try_boxed(Table::new()) else { return };
            drop(further.set(table));
        }
        if let Some(table) = further.get() {
            table.add(hash, version, facts);
        }
    }

    /// Adds a type to the small tables. Returns true if that is in place of another one.
    fn place(&self, version: Version, facts: &Facts) -> bool {
        if !facts.tables.is_nothing() {
            return self.offers.add(hash(version.r#type), version, facts);
        }
        let nothing = &self.nothing[hash(version.r#type) % NOTHINGS];
        let known = u64::from(facts.missing.0) << 32 | u64::from(version.number);
        let before = nothing.r#type.swap(version.r#type, Ordering::Relaxed);
        nothing.known.store(known, Ordering::Relaxed);
        !before.is_null() && before != version.r#type
    }

    /// Returns the table for one of many types, and its hash in that table.
    fn further(&self, version: Version) -> (&OnceLock<Box<Table>>, usize) {
        // The bits that differ most, others for the table than for the place in it: the addresses
        // of thousands of types have a pattern.
        let hash = (version.r#type as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (&self.further[hash as usize % TABLES], hash as usize / TABLES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types in memory at the distances that allocators leave between them.
    #[test]
    fn ten_thousand_types_are_remembered() {
        const COUNT: usize = 10_000;
        for distance in [1072, 1088, 1872, 2064, 2960, 4096] {
            let types = Box::new(Types::new());
            let version = |index: usize| Version {
                r#type: ptr::without_provenance_mut(0x7f12_3456_7890 + index * distance),
                number: index as u32 + 1,
            };
            let (tables, missing) = (OfferedTables::NOTHING, Missing::NONE);
            for index in 0..COUNT {
                types.add(version(index), &Facts { tables, getter: None, missing });
            }
            let is_forgotten = |&index: &usize| {
                let version = version(index);
                !types.offers_nothing(version) && types.recall(version).is_none()
            };
            // Those of the small tables come into the others when they are in the way.
            for index in (0..COUNT).filter(is_forgotten) {
                types.add(version(index), &Facts { tables, getter: None, missing });
            }
            let forgotten = (0..COUNT).filter(is_forgotten).count();
            assert!(forgotten < COUNT / 100, "{forgotten} of {COUNT} at {distance} bytes");
        }
    }
}
