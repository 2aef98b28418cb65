//! Counted references, and arrays that hold one.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::{self, NonNull, null_mut};

use super::reserve::Reserve;
use super::{Destroy, Header, OPS, no_owner, release_own};
use crate::abi::{self, cai_array, cai_owner, cai_owner_ops};
use crate::error::{Failure, Result, failure};
use crate::memory::Extended;
use crate::read::{Given, Unchecked, sizes};

/// A counted reference to an owner of any library. Drop releases it.
///
/// The reference keeps the owner alive, and the owner's table of operations was checked.
///
/// The release may run code of others. If the thread ends in there, the reference is given up all
/// the same. If the thread ends elsewhere, the references in its frames are released meanwhile. So
/// a reference that must be released later, or not at all, is not left in such a frame.
#[repr(transparent)]
pub struct Ref(NonNull<cai_owner>);

// SAFETY: owners are retained and released on any thread (`cai_owner_ops`).
unsafe impl Send for Ref {}
// SAFETY: owners are retained and released on any thread (`cai_owner_ops`).
unsafe impl Sync for Ref {}

type Operation = unsafe extern "C-unwind" fn(*mut cai_owner);

/// Returns the functions of a table, unless it is too short for them.
#[inline]
fn functions(table: Given<cai_owner_ops>) -> Option<(Option<Operation>, Option<Operation>)> {
    let place = table.as_ptr();
    // SAFETY: a table of this size has both members, and only they are read.
    (table.size() >= sizes::OPERATIONS).then(|| unsafe { ((*place).retain, (*place).release) })
}

/// Explains why an owner cannot be retained or released.
#[cold]
#[inline(never)]
fn no_operations(table: Option<Given<cai_owner_ops>>) -> Failure {
    let Some(table) = table else {
        return failure!(abi::CAI_ERR_OWNER_OPS, "owner.ops";
            found "NULL"; expected "a table of operations");
    };
    match functions(table) {
        None => failure!(abi::CAI_ERR_OWNER_OPS, "owner.ops.struct_size";
            found "{}", table.size(); expected "at least {}", sizes::OPERATIONS),
        Some((None, _)) => failure!(abi::CAI_ERR_OWNER_OPS, "owner.ops.retain";
            found "NULL"; expected "a function"),
        Some(_) => failure!(abi::CAI_ERR_OWNER_OPS, "owner.ops.release";
            found "NULL"; expected "a function"),
    }
}

/// An owner of any library, which is alive for `'a`.
#[derive(Clone, Copy)]
pub struct Borrowed<'a>(NonNull<cai_owner>, PhantomData<&'a cai_owner>);

impl<'a> Borrowed<'a> {
    /// # Safety
    /// `owner` is NULL, or points to an owner of any library that is alive for `'a`, and whose table
    /// is constant.
    #[inline]
    pub unsafe fn new(owner: *mut cai_owner) -> Option<Self> {
        Some(Borrowed(NonNull::new(owner)?, PhantomData))
    }

    #[inline]
    fn table(self) -> *const cai_owner_ops {
        // SAFETY: alive (the contract of `new`).
        unsafe { self.0.as_ref().ops }
    }

    #[inline]
    fn operations(self) -> Result<(Operation, Operation)> {
        // SAFETY: a table is constant, and has the size that it states (the contract of `new`).
        let table = unsafe { Given::optional(self.table()) };
        match table.and_then(functions) {
            Some((Some(retain), Some(release))) => Ok((retain, release)),
            _ => Err(no_operations(table)),
        }
    }

    /// Adds a reference. Fails for an owner that cannot be retained or released.
    #[inline]
    pub fn retain(self) -> Result<Ref> {
        if let Some(header) = self.header() {
            header.count.retain();
            return Ok(Ref(self.0));
        }
        let (retain, _) = self.operations()?;
        // SAFETY: the functions of a table take the owners that carry it, and the owner is alive
        // (the contract of `new`).
        unsafe { retain(self.0.as_ptr()) };
        Ok(Ref(self.0))
    }

    /// Returns true if the owner is of this copy of the library, which reports its end.
    #[inline(always)]
    pub fn is_own(self) -> bool {
        ptr::eq(self.table(), &OPS)
    }

    #[inline(always)]
    fn header(self) -> Option<&'a Header> {
        // SAFETY: alive (the contract of `new`). All owners of this library begin with a header.
        self.is_own().then(|| unsafe { self.0.cast::<Header>().as_ref() })
    }

    /// Returns the context of the memory at an address, if the owner knows it.
    #[inline]
    pub fn known_context(self, address: usize) -> Option<NonNull<c_void>> {
        self.header()?.context.find(address)
    }

    /// Lets the owner remember a context that the memory at an address has until it is freed.
    /// Owners of other libraries do not.
    pub fn remember_context(self, address: usize, context: NonNull<c_void>) {
        if let Some(header) = self.header() {
            header.context.remember(address, context);
        }
    }
}

impl<'a> Unchecked<'_, 'a> {
    /// Returns the owner, if the array has one.
    #[inline]
    pub fn owner(&self) -> Option<Borrowed<'a>> {
        // SAFETY: NULL or alive (the contract of `Unchecked::new`).
        unsafe { Borrowed::new(self.owner) }
    }

    /// Adds a reference to the owner. Fails for a borrowed array, and for an owner that cannot be
    /// retained or released.
    #[inline]
    pub fn retain(&self) -> Result<Ref> {
        self.owner().map_or_else(no_owner, Borrowed::retain)
    }
}

impl Ref {
    /// Takes over a reference. Fails for NULL, and for an owner that cannot be released.
    ///
    /// # Safety
    /// `owner` is NULL, or points to a live owner of any library, to which the caller gives up one
    /// reference if this succeeds.
    #[inline]
    pub unsafe fn adopt(owner: *mut cai_owner) -> Result<Self> {
        // SAFETY: NULL or alive (this function's contract).
        let Some(owner) = (unsafe { Borrowed::new(owner) }) else { return no_owner() };
        if !owner.is_own() {
            owner.operations()?;
        }
        Ok(Ref(owner.0))
    }

    /// Adds a reference. Fails for NULL, and for an owner that cannot be retained or released.
    ///
    /// # Safety
    /// `owner` is NULL, or points to a live owner of any library.
    #[inline]
    pub unsafe fn retain(owner: *mut cai_owner) -> Result<Self> {
        // SAFETY: NULL or alive (this function's contract).
        unsafe { Borrowed::new(owner) }.map_or_else(no_owner, Borrowed::retain)
    }

    /// Takes over the first reference to an owner of this library.
    ///
    /// # Safety
    /// `owner` begins with a header that was written, and nothing else has its first reference.
    pub(super) unsafe fn first(owner: NonNull<cai_owner>) -> Self {
        Ref(owner)
    }

    #[inline]
    pub fn another(&self) -> Result<Self> {
        self.borrow().retain()
    }

    /// Returns the owner, which this reference keeps alive.
    #[inline]
    pub fn borrow(&self) -> Borrowed<'_> {
        Borrowed(self.0, PhantomData)
    }

    /// Returns the address of the owner, which this reference keeps alive.
    #[inline]
    pub fn as_ptr(&self) -> *mut cai_owner {
        self.0.as_ptr()
    }

    /// Returns the owner's memory for a release. Owners of other libraries have none.
    pub fn reserve(&self) -> Option<&Reserve> {
        self.borrow().header().map(|header| &header.reserve)
    }

    #[inline]
    pub fn into_raw(self) -> *mut cai_owner {
        ManuallyDrop::new(self).as_ptr()
    }
}

impl Drop for Ref {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this reference kept the owner alive, and is given up. The table is constant, and
        // was checked when the reference was made; owners of this library have `OPS`.
        unsafe {
            if self.borrow().is_own() {
                release_own(self.as_ptr());
            } else if let Some(release) = (*self.0.as_ref().ops).release {
                release(self.as_ptr());
            }
        }
    }
}

/// An array with a reference to its owner. Drop releases it.
pub struct Array {
    raw: cai_array,
    owner: Ref,
}

impl Array {
    #[inline]
    pub fn new(raw: cai_array, owner: Ref) -> Self {
        Array { raw: cai_array { owner: owner.as_ptr(), ..raw }, owner }
    }

    /// Changes other members than the owner.
    #[inline]
    pub fn change(&mut self, change: impl FnOnce(&mut cai_array)) {
        change(&mut self.raw);
        self.raw.owner = self.owner.as_ptr();
    }

    /// Adds a reference.
    pub fn another(&self) -> Result<Self> {
        Ok(Array { raw: self.raw, owner: self.owner.another()? })
    }

    pub fn into_owner(self) -> Ref {
        self.owner
    }

    #[inline]
    pub fn into_raw(self) -> cai_array {
        let Array { raw, owner } = self;
        cai_array { owner: owner.into_raw(), ..raw }
    }
}

impl Deref for Array {
    type Target = cai_array;

    #[inline]
    fn deref(&self) -> &cai_array {
        &self.raw
    }
}

/// A function that an owner calls once with its context when it is destroyed, or none. It has no
/// Drop: until it is given to an owner, the context is the caller's.
pub struct Destructor {
    destroy: Option<Destroy>,
    context: *mut c_void,
}

impl Destructor {
    pub const NONE: Self = Destructor { destroy: None, context: null_mut() };

    /// # Safety
    /// `destroy(context)` may be called once, on any thread, until the context is taken back from
    /// a destructor that no owner has.
    #[inline]
    pub unsafe fn new(destroy: Option<Destroy>, context: *mut c_void) -> Self {
        Destructor { destroy, context }
    }

    pub fn drops<T: Send + 'static>(value: Box<T>) -> Self {
        unsafe extern "C-unwind" fn destroy<T>(value: *mut c_void) {
            // SAFETY: `drops` passes this function together with a box of this type.
            drop(unsafe { Box::from_raw(value.cast::<T>()) });
        }
        Destructor { destroy: Some(destroy::<T>), context: Box::into_raw(value).cast() }
    }

    pub fn drops_extended<T: Send + 'static, E: Copy + Send + 'static>(
        block: Extended<T, E>,
    ) -> Self {
        unsafe extern "C-unwind" fn destroy<T, E: Copy>(value: *mut c_void) {
            // SAFETY: `drops_extended` passes this function together with such a block.
            drop(unsafe { Extended::<T, E>::from_raw(value.cast()) });
        }
        Destructor { destroy: Some(destroy::<T, E>), context: block.into_raw().cast() }
    }

    #[inline]
    pub(super) fn is_some(&self) -> bool {
        self.destroy.is_some()
    }

    /// Calls the function, which may end the thread.
    #[inline]
    pub fn run(self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: the contract of `new`; this is the only call, because it consumes the value.
            unsafe { destroy(self.context) };
        }
    }
}
