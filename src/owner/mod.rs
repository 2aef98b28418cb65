//! Owners: the library's own, and those of other libraries through their table of operations.
//!
//! A [`Ref`] is a counted reference to an owner of any library. It uses only the table, so the owner
//! may be that of any copy of this library. [`new`] makes an owner around a destructor, [`shape`] one
//! that also holds another owner, shape and strides, [`description`] one that holds a copied
//! description of an array.

mod atomics;
mod block;

mod context;
mod count;
pub mod description;
mod given_up;
mod nesting;
mod reference;
pub mod reserve;
pub mod shape;

use std::ffi::c_void;
use std::mem::size_of;
use std::ptr::NonNull;

use crate::abi::{cai_owner, cai_owner_ops};
use crate::error::{Result, fail};
use crate::observer;
use context::KnownContext;
pub use count::Count;
pub use given_up::GivenUp;
pub use nesting::Header;
pub use reference::{Array, Borrowed, Destructor, Ref};
use reserve::Reserve;

/// A caller's function that is called once with its context.
pub type Destroy = unsafe extern "C-unwind" fn(context: *mut c_void);

/// Fails if an array that must outlive the call has no owner: success without effect would leave
/// the caller with a dangling pointer.
#[inline]
pub fn not_borrowed(owner: *mut cai_owner) -> Result<NonNull<cai_owner>> {
    NonNull::new(owner).map_or_else(no_owner, Ok)
}

#[cold]
#[inline(never)]
fn no_owner<T>() -> Result<T> {
    fail!(CAI_ERR_BORROWED, "owner";
        found "NULL, a borrowed array"; expected "an owner that keeps the data alive")
}

static OPS: cai_owner_ops = cai_owner_ops {
    struct_size: size_of::<cai_owner_ops>() as u32,
    reserved: 0,
    retain: Some(retain_own),
    release: Some(release_own),
};

impl Header {
    pub fn new(destroy: unsafe fn(GivenUp)) -> Self {
        let base = cai_owner { ops: &raw const OPS };
        Header {
            base,
            count: Count::one(),
            destroy,
            context: KnownContext::new(),
            reserve: Reserve::new(),
        }
    }
}

unsafe extern "C-unwind" fn retain_own(owner: *mut cai_owner) {
    // SAFETY: only owners that begin with a `Header` carry `OPS`, and the caller holds a reference.
    unsafe { (*owner.cast::<Header>()).count.retain() };
}

unsafe extern "C-unwind" fn release_own(owner: *mut cai_owner) {
    let header = owner.cast::<Header>();
    // SAFETY: only owners that begin with a `Header` carry `OPS`, and the caller holds a reference.
    if unsafe { (*header).count.release() } {
        // SAFETY: an owner, so not NULL; that was the last reference.
        destroy_own(unsafe { GivenUp::new(NonNull::new_unchecked(header)) });
    }
}

// Not inlined: each destruction has a stack frame of its own, and other releases need none.
#[inline(never)]
fn destroy_own(owner: GivenUp) {
    observer::notify_destroy(owner.as_ptr().cast());
    nesting::destroy(owner);
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
