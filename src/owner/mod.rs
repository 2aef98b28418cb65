//! Owners: the library's own, and everybody else's through their table of operations.
//!
//! May use: `abi`, `error`, `raw`. `unsafe`: allocation, and calls through foreign tables.
//!
//! [`retain`] and [`release`] know nothing but the table, so they serve owners of any library and
//! of any copy of this one. [`new`] makes an owner around a callback; [`shape`] one that also holds
//! a shape and steps; [`description`] one that holds a copied description of an array.

mod atomics;

mod count;
pub mod description;
pub mod shape;

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_void;
use std::mem::size_of;
use std::ptr::null_mut;

use crate::abi::{cai_owner, cai_owner_ops};
use crate::error::{Failure, Result, fail};
use crate::observer;
pub use count::Count;

type Operation = unsafe extern "C" fn(*mut cai_owner);

/// The two operations of an owner.
///
/// # Safety
/// `owner` points to a live owner whose table is constant.
#[inline]
unsafe fn operations(owner: *mut cai_owner) -> Result<(Operation, Operation)> {
    // SAFETY: `owner` is alive by contract.
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
    if size < size_of::<cai_owner_ops>() {
        return fail!(
            CAI_ERR_OWNER_OPS,
            "owner.ops.struct_size",
            found = "{size}",
            expected = ("at least {}", size_of::<cai_owner_ops>())
        );
    }
    // SAFETY: the table is at least as long as ours.
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

/// An array that is to be kept must have an owner.
pub fn not_borrowed(owner: *mut cai_owner) -> Result<()> {
    if owner.is_null() {
        return fail!(
            CAI_ERR_BORROWED,
            "owner",
            found = "NULL, a borrowed array",
            expected = "an owner that keeps the data alive"
        );
    }
    Ok(())
}

/// Can this owner be retained and released?
///
/// # Safety
/// As for [`retain`].
pub unsafe fn check(owner: *mut cai_owner) -> Result<()> {
    // SAFETY: handed on.
    unsafe { operations(owner) }.map(drop)
}

/// Adds a reference.
///
/// # Safety
/// `owner` points to a live owner of any library.
#[inline]
pub unsafe fn retain(owner: *mut cai_owner) -> Result<()> {
    // SAFETY: handed on.
    let (retain, _) = unsafe { operations(owner) }?;
    // SAFETY: the maker of the table says that its functions take its owners.
    unsafe { retain(owner) };
    Ok(())
}

/// Takes a reference away. With a broken table nothing can be done: the owner is leaked.
///
/// # Safety
/// `owner` points to a live owner of any library; the caller gives up one reference.
#[inline]
pub unsafe fn release(owner: *mut cai_owner) {
    // SAFETY: handed on.
    if let Ok((_, release)) = unsafe { operations(owner) } {
        // SAFETY: as in `retain`.
        unsafe { release(owner) };
    }
}

/// What all of the library's own owners begin with.
#[repr(C)]
pub struct Header {
    base: cai_owner,
    count: Count,
    /// Runs when the last reference is gone; frees the memory.
    destroy: unsafe fn(*mut Header),
}

static OPS: cai_owner_ops = cai_owner_ops {
    struct_size: size_of::<cai_owner_ops>() as u32,
    reserved: 0,
    retain: Some(retain_own),
    release: Some(release_own),
};

impl Header {
    /// One reference.
    pub fn new(destroy: unsafe fn(*mut Header)) -> Self {
        Header { base: cai_owner { ops: &raw const OPS }, count: Count::one(), destroy }
    }
}

unsafe extern "C" fn retain_own(owner: *mut cai_owner) {
    // SAFETY: only owners that begin with a `Header` carry `OPS`, and the caller holds a reference.
    unsafe { (*owner.cast::<Header>()).count.retain() };
}

unsafe extern "C" fn release_own(owner: *mut cai_owner) {
    let header = owner.cast::<Header>();
    // SAFETY: as above.
    if unsafe { (*header).count.release() } {
        observer::notify_destroy(owner.cast());
        // SAFETY: that was the last reference, so nobody else looks at the object any more.
        unsafe { ((*header).destroy)(header) };
    }
}

/// An owner around a callback.
#[repr(C)]
struct Callback {
    header: Header,
    /// NULL, or an owner that is let go first.
    first: *mut cai_owner,
    context: *mut c_void,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// A new owner with one reference; `destroy(context)` runs once, when the last one is gone.
pub fn new(
    context: *mut c_void,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
) -> Result<*mut cai_owner> {
    callback(null_mut(), context, destroy)
}

/// The same, which also holds `first` and lets it go before.
///
/// # Safety
/// `first` points to a live owner of any library; the caller gives up one reference, on success.
pub unsafe fn both(
    first: *mut cai_owner,
    context: *mut c_void,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
) -> Result<*mut cai_owner> {
    // SAFETY: handed on.
    unsafe { check(first) }?;
    callback(first, context, destroy)
}

fn callback(
    first: *mut cai_owner,
    context: *mut c_void,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
) -> Result<*mut cai_owner> {
    let layout = Layout::new::<Callback>();
    // SAFETY: the layout is not empty.
    let callback = unsafe { alloc(layout) }.cast::<Callback>();
    if callback.is_null() {
        return Err(Failure::no_memory(layout.size()));
    }
    // SAFETY: fresh memory of the right size and alignment.
    unsafe {
        callback.write(Callback { header: Header::new(destroy_callback), first, context, destroy })
    };
    Ok(callback.cast())
}

unsafe fn destroy_callback(header: *mut Header) {
    // SAFETY: only `new` installs this function, on a `Callback` that it allocated.
    let Callback { first, context, destroy, .. } = unsafe { header.cast::<Callback>().read() };
    // Freed first, so that nothing of ours is lost if the callback never returns (a thread that
    // ends). SAFETY: allocated in `new` with this layout.
    unsafe { dealloc(header.cast(), Layout::new::<Callback>()) };
    if !first.is_null() {
        // SAFETY: this owner held a reference to it.
        unsafe { release(first) };
    }
    if let Some(destroy) = destroy {
        // SAFETY: `new`'s caller vouched for the pair.
        unsafe { destroy(context) };
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::Count;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// Two threads let go while a third reference is made and let go: exactly one sees the end, and
    /// it sees everything that the others did before.
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
