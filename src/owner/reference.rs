//! Counted references, and arrays that hold one.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::{NonNull, null_mut};

use super::reserve::Reserve;
use super::{Destroy, Header, check, is_own, not_borrowed, retain};
use crate::abi::{cai_array, cai_owner};
use crate::error::Result;
use crate::memory::Extended;

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
// SAFETY: as above.
unsafe impl Sync for Ref {}

impl Ref {
    /// Takes over a reference. Fails for NULL, and for an owner that cannot be released.
    ///
    /// # Safety
    /// `owner` is NULL, or points to a live owner of any library, to which the caller gives up one
    /// reference if this succeeds.
    #[inline]
    pub unsafe fn adopt(owner: *mut cai_owner) -> Result<Self> {
        let reference = not_borrowed(owner)?;
        // SAFETY: not NULL (checked above), so alive (this function's contract).
        unsafe { check(owner) }?;
        Ok(Ref(reference))
    }

    /// Adds a reference. Fails for NULL, and for an owner that cannot be retained or released.
    ///
    /// # Safety
    /// `owner` is NULL, or points to a live owner of any library.
    #[inline]
    pub unsafe fn retain(owner: *mut cai_owner) -> Result<Self> {
        let reference = not_borrowed(owner)?;
        // SAFETY: not NULL (checked above), so alive (this function's contract).
        unsafe { retain(owner) }?;
        Ok(Ref(reference))
    }

    /// Takes over the first reference to an owner of this library.
    ///
    /// # Safety
    /// `owner` begins with a header that was written, and nothing else has its first reference.
    pub(super) unsafe fn first(owner: NonNull<cai_owner>) -> Self {
        Ref(owner)
    }

    /// Adds a reference.
    #[inline]
    pub fn another(&self) -> Result<Self> {
        // SAFETY: this reference keeps the owner alive.
        unsafe { Self::retain(self.as_ptr()) }
    }

    /// Returns the owner, which this reference keeps alive.
    #[inline]
    pub fn as_ptr(&self) -> *mut cai_owner {
        self.0.as_ptr()
    }

    /// Returns the memory in the owner for the release of a reference. Owners of other libraries
    /// have none.
    pub fn reserve(&self) -> Option<&Reserve> {
        // SAFETY: alive as long as this reference. All owners of this library begin with a header.
        unsafe { is_own(self.as_ptr()).then(|| &(*self.as_ptr().cast::<Header>()).reserve) }
    }

    /// Gives the reference to the caller.
    #[inline]
    pub fn into_raw(self) -> *mut cai_owner {
        ManuallyDrop::new(self).as_ptr()
    }
}

impl Drop for Ref {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this reference kept the owner alive, and is given up. The table is constant, and
        // was checked when the reference was made.
        unsafe {
            if let Some(release) = (*self.0.as_ref().ops).release {
                release(self.as_ptr());
            }
        }
    }
}

/// An array with a reference to its owner. Drop releases it.
pub struct Array {
    /// Its owner is `owner`.
    raw: cai_array,
    owner: Ref,
}

impl Array {
    /// An array that `owner` keeps alive.
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

    /// Returns the owner alone.
    pub fn into_owner(self) -> Ref {
        self.owner
    }

    /// Gives the reference to the caller, in the structure.
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
    /// No function.
    pub const NONE: Self = Destructor { destroy: None, context: null_mut() };

    /// Wraps a function with its context.
    ///
    /// # Safety
    /// `destroy(context)` may be called once, on any thread, until the context is taken back from
    /// a destructor that no owner has.
    #[inline]
    pub unsafe fn new(destroy: Option<Destroy>, context: *mut c_void) -> Self {
        Destructor { destroy, context }
    }

    /// Drops a value.
    pub fn drops<T: Send + 'static>(value: Box<T>) -> Self {
        unsafe extern "C-unwind" fn destroy<T>(value: *mut c_void) {
            // SAFETY: `drops` passes this function together with a box of this type.
            drop(unsafe { Box::from_raw(value.cast::<T>()) });
        }
        Destructor { destroy: Some(destroy::<T>), context: Box::into_raw(value).cast() }
    }

    /// Drops a value, with those behind it.
    pub fn drops_extended<T: Send + 'static, E: Copy + Send + 'static>(
        block: Extended<T, E>,
    ) -> Self {
        unsafe extern "C-unwind" fn destroy<T, E: Copy>(value: *mut c_void) {
            // SAFETY: `drops_extended` passes this function together with such a block.
            drop(unsafe { Extended::<T, E>::from_raw(value.cast()) });
        }
        Destructor { destroy: Some(destroy::<T, E>), context: block.into_raw().cast() }
    }

    /// Returns true if there is a function.
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
