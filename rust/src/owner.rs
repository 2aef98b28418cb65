//! Owners: what keeps the data of arrays alive.

use std::alloc::{Layout, handle_alloc_error};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use crate::error::{Error, Result, call};
use crate::sys::{self, cai_owner};

/// A reference to an owner of any library, in any language: a reference count with its operations.
///
/// Any Rust object becomes an owner; it is dropped when the last reference is released, on
/// whichever thread does that. It should not block there, nor synchronize with a device.
///
/// ```
/// use std::sync::Arc;
/// use libcai::Owner;
///
/// let data = Arc::new(vec![1u8, 2, 3]);
/// let owner = Owner::from(data.clone());
/// assert_eq!(Arc::strong_count(&data), 2);
/// let second = owner.clone();
/// drop(owner);
/// assert_eq!(Arc::strong_count(&data), 2);
/// drop(second);
/// assert_eq!(Arc::strong_count(&data), 1);
/// ```
///
/// An object that must stay on its thread is no owner:
///
/// ```compile_fail,E0277
/// let owner = libcai::Owner::new(std::rc::Rc::new(vec![1u8, 2, 3]));
/// ```
pub struct Owner(NonNull<cai_owner>);

// SAFETY: the operations of an owner may be called from any thread, by several at once (`cai_owner`
// requires it of who makes one); the objects in this crate's owners are `Send`.
unsafe impl Send for Owner {}
// SAFETY: a shared reference allows only to add references, which several threads may do at once.
unsafe impl Sync for Owner {}

/// Drops what `Box::into_raw` made.
pub(crate) unsafe extern "C-unwind" fn drop_box<P>(context: *mut c_void) {
    // SAFETY: `context` is a `Box<P>`, and the owner calls this function once.
    drop_quietly(unsafe { Box::from_raw(context.cast::<P>()) });
}

unsafe extern "C-unwind" fn drop_arc<P>(context: *mut c_void) {
    // SAFETY: `context` is an `Arc<P>`, and the owner calls this function once.
    drop_quietly(unsafe { Arc::from_raw(context.cast_const().cast::<P>()) });
}

/// A function of an owner must not panic: its callers are of any language. The panic hook has
/// printed the message.
fn drop_quietly<P>(object: P) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(object))) {
        // Its destructor may panic as well.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    }
}

type Destroy = unsafe extern "C-unwind" fn(context: *mut c_void);

/// # Safety
/// `destroy` may be called with `context` once, on any thread.
unsafe fn create(context: *mut c_void, destroy: Destroy) -> Owner {
    let mut owner = null_mut();
    // SAFETY: `owner` is writable; the rest is this function's contract.
    let result =
        call(|error| unsafe { sys::cai_owner_create(context, Some(destroy), &mut owner, error) });
    match (result, NonNull::new(owner)) {
        (Ok(()), Some(owner)) => Owner(owner),
        // Both pointers are valid, so only memory can be missing: Rust's containers end the program
        // then as well.
        _ => handle_alloc_error(Layout::new::<[usize; 4]>()),
    }
}

impl Owner {
    /// Makes an owner of any object: a vector, a buffer of another crate, a tuple of them.
    #[must_use]
    pub fn new<P: Send + 'static>(object: P) -> Owner {
        Owner::from(Box::new(object))
    }

    /// Takes over a reference.
    ///
    /// Fails if the owner's table of operations is incomplete; the reference is then leaked.
    ///
    /// # Safety
    /// `owner` is NULL or points to an owner that is alive, and the caller gives up one reference.
    pub unsafe fn from_raw(owner: *mut cai_owner) -> Result<Owner> {
        // SAFETY: NULL, or alive (this function's contract).
        unsafe { check(owner) }.map(Owner)
    }

    /// Returns the owner with the reference, which the caller must release.
    #[must_use]
    pub fn into_raw(self) -> *mut cai_owner {
        let raw = self.0.as_ptr();
        std::mem::forget(self);
        raw
    }

    /// Returns the owner. It is valid as long as this reference is.
    #[must_use]
    pub fn as_ptr(&self) -> *mut cai_owner {
        self.0.as_ptr()
    }
}

/// Checks that the operations of an owner can be called, so that later calls of them cannot fail:
/// a table is constant.
///
/// # Safety
/// `owner` is NULL or points to an owner that is alive.
pub(crate) unsafe fn check(owner: *mut cai_owner) -> Result<NonNull<cai_owner>> {
    // SAFETY: NULL is refused; else the owner is alive (this function's contract). This adds a
    // reference, which the next call releases.
    unsafe {
        call(|error| sys::cai_owner_retain(owner, error))?;
        sys::cai_owner_release(owner);
    }
    NonNull::new(owner)
        .ok_or_else(|| Error::new(sys::CAI_ERR_NULL_ARGUMENT, "owner", "NULL", "an owner"))
}

/// Adds a reference to an owner whose operations were checked.
///
/// # Safety
/// The caller has a reference.
pub(crate) unsafe fn retain(owner: NonNull<cai_owner>) {
    // SAFETY: the owner is alive, because the caller has a reference (this function's contract).
    let result = call(|error| unsafe { sys::cai_owner_retain(owner.as_ptr(), error) });
    assert!(result.is_ok(), "the table of operations of an owner has changed");
}

impl<P: Send + 'static> From<Box<P>> for Owner {
    fn from(object: Box<P>) -> Owner {
        // SAFETY: `drop_box` takes back what `into_raw` returns; `P` may be dropped on any thread.
        unsafe { create(Box::into_raw(object).cast(), drop_box::<P>) }
    }
}

impl<P: Send + Sync + 'static> From<Arc<P>> for Owner {
    fn from(object: Arc<P>) -> Owner {
        // SAFETY: `drop_arc` takes back what `into_raw` returns; an `Arc` of a type that is `Send`
        // and `Sync` may be dropped on any thread.
        unsafe { create(Arc::into_raw(object).cast_mut().cast(), drop_arc::<P>) }
    }
}

impl Clone for Owner {
    fn clone(&self) -> Owner {
        // SAFETY: this value has a reference.
        unsafe { retain(self.0) };
        Owner(self.0)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: this value has a reference, which ends here.
        unsafe { sys::cai_owner_release(self.0.as_ptr()) };
    }
}

impl std::fmt::Debug for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "Owner({:p})", self.0)
    }
}
