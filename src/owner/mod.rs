//! Owners: the library's own, and those of other libraries through their table of operations.
//!
//! A [`Ref`] is a counted reference to an owner of any library. It uses only the table, so the owner
//! may be that of any copy of this library. [`new`] makes an owner around a destructor, [`shape`] one
//! that also holds another owner, shape and strides, [`description`] one that holds a copied
//! description of an array.

mod atomics;

mod count;
pub mod description;
mod nesting;
mod reference;
pub mod reserve;
pub mod shape;

use std::ffi::c_void;
use std::mem::size_of;
use std::ptr::{self, NonNull};

use crate::abi::{cai_owner, cai_owner_ops};
use crate::error::{Result, fail};
use crate::observer;
use crate::read::sizes;
pub use count::Count;
pub use nesting::Header;
pub use reference::{Array, Destructor, Ref};
use reserve::Reserve;

type Operation = unsafe extern "C-unwind" fn(*mut cai_owner);

/// A caller's function that is called once with its context.
pub type Destroy = unsafe extern "C-unwind" fn(context: *mut c_void);

/// Returns the two operations of an owner.
///
/// # Safety
/// `owner` points to a live owner whose table is constant.
#[inline]
unsafe fn operations(owner: *mut cai_owner) -> Result<(Operation, Operation)> {
    // SAFETY: `owner` is alive (this function's contract).
    let ops = unsafe { (*owner).ops };
    if ops.is_null() {
        return fail!(
            CAI_ERR_OWNER_OPS,
            "owner.ops",
            found = "NULL",
            expected = "a table of operations"
        );
    }
    // SAFETY: a table begins with its size; no reference to the whole is made before that was read.
    let size = unsafe { (&raw const (*ops).struct_size).read() } as usize;
    if size < sizes::OPERATIONS {
        return fail!(
            CAI_ERR_OWNER_OPS,
            "owner.ops.struct_size",
            found = "{size}",
            expected = ("at least {}", sizes::OPERATIONS)
        );
    }
    // SAFETY: a table of the size checked above has both members, and only they are read.
    match unsafe { ((*ops).retain, (*ops).release) } {
        (Some(retain), Some(release)) => Ok((retain, release)),
        (None, _) => {
            fail!(CAI_ERR_OWNER_OPS, "owner.ops.retain", found = "NULL", expected = "a function")
        }
        (_, None) => {
            fail!(CAI_ERR_OWNER_OPS, "owner.ops.release", found = "NULL", expected = "a function")
        }
    }
}

/// Fails if an array that must outlive the call has no owner.
#[inline]
pub fn not_borrowed(owner: *mut cai_owner) -> Result<NonNull<cai_owner>> {
    NonNull::new(owner).map_or_else(borrowed, Ok)
}

#[cold]
#[inline(never)]
fn borrowed<T>() -> Result<T> {
    fail!(
        CAI_ERR_BORROWED,
        "owner",
        found = "NULL, a borrowed array",
        expected = "an owner that keeps the data alive"
    )
}

/// Fails if this owner cannot be retained and released.
///
/// # Safety
/// As for [`retain`].
pub unsafe fn check(owner: *mut cai_owner) -> Result<()> {
    // SAFETY: the owner is alive (this function's contract).
    unsafe { operations(owner) }.map(drop)
}

/// Adds a reference.
///
/// # Safety
/// `owner` points to a live owner of any library.
#[inline]
pub unsafe fn retain(owner: *mut cai_owner) -> Result<()> {
    // SAFETY: the owner is alive (this function's contract).
    let (retain, _) = unsafe { operations(owner) }?;
    // SAFETY: the functions of a table take the owners that carry it, and the owner is alive.
    unsafe { retain(owner) };
    Ok(())
}

/// Removes a reference. If the table is broken, the owner leaks.
///
/// # Safety
/// `owner` points to a live owner of any library; the caller gives up one reference.
#[inline]
pub unsafe fn release(owner: *mut cai_owner) {
    // SAFETY: the owner is alive (this function's contract).
    if let Ok((_, release)) = unsafe { operations(owner) } {
        // SAFETY: the functions of a table take the owners that carry it; the caller gives up one
        // reference.
        unsafe { release(owner) };
    }
}

/// Returns true if the owner belongs to this copy of the library, which reports its end to the
/// observer.
///
/// # Safety
/// `owner` is NULL or points to a live owner of any library.
pub unsafe fn is_own(owner: *const cai_owner) -> bool {
    // SAFETY: NULL or alive (this function's contract).
    unsafe { owner.as_ref() }.is_some_and(|owner| ptr::eq(owner.ops, &OPS))
}

static OPS: cai_owner_ops = cai_owner_ops {
    struct_size: size_of::<cai_owner_ops>() as u32,
    reserved: 0,
    retain: Some(retain_own),
    release: Some(release_own),
};

impl Header {
    /// A header with one reference.
    pub fn new(destroy: unsafe fn(*mut Header)) -> Self {
        let base = cai_owner { ops: &raw const OPS };
        Header { base, count: Count::one(), destroy, reserve: Reserve::new() }
    }
}

unsafe extern "C-unwind" fn retain_own(owner: *mut cai_owner) {
    // SAFETY: only owners that begin with a `Header` carry `OPS`, and the caller holds a reference.
    unsafe { (*owner.cast::<Header>()).count.retain() };
}

// Not inlined: each destruction has a stack frame of its own.
#[inline(never)]
unsafe extern "C-unwind" fn release_own(owner: *mut cai_owner) {
    let header = owner.cast::<Header>();
    // SAFETY: only owners that begin with a `Header` carry `OPS`, and the caller holds a reference.
    if unsafe { (*header).count.release() } {
        observer::notify_destroy(owner.cast());
        // SAFETY: that was the last reference, so nothing else refers to the object any more. This
        // function is not inlined.
        unsafe { nesting::destroy(header) };
    }
}

/// Allocates an owner, which [`shape::Prepared::finish`] makes: from here, nothing can fail.
#[inline]
pub fn prepare() -> Result<shape::Prepared> {
    shape::prepare(&[], None)
}

/// Makes an owner that runs a destructor when its last reference is released.
#[inline]
pub fn new(destructor: Destructor) -> Result<Ref> {
    Ok(prepare()?.finish(None, destructor).owner)
}

#[cfg(all(test, loom))]
mod tests {
    use super::Count;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// Two threads release while a third reference is added and released: exactly one sees the last
    /// release, and it sees everything that the others did before.
    #[test]
    fn the_last_release_sees_all() {
        loom::model(|| {
            let shared = Arc::new((Count::one(), [UnsafeCell::new(0), UnsafeCell::new(0)]));
            shared.0.retain();
            let threads: Vec<_> = (0..2)
                .map(|index| {
                    let shared = shared.clone();
                    thread::spawn(move || {
                        shared.0.retain();
                        // SAFETY: each thread has a cell of its own.
                        shared.1[index].with_mut(|cell| unsafe { *cell = 1 });
                        usize::from(shared.0.release()) + usize::from(destroyed(&shared))
                    })
                })
                .collect();
            let ends: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
            assert_eq!(ends, 1);
        });
    }

    fn destroyed(shared: &(Count, [UnsafeCell<i32>; 2])) -> bool {
        let last = shared.0.release();
        if last {
            for cell in &shared.1 {
                // SAFETY: loom reports a race if the other thread's write is not ordered before
                // this.
                cell.with_mut(|cell| unsafe { *cell += 1 });
            }
        }
        last
    }
}
