//! A free list of memory of destroyed owners.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::python::interpreter::Here;

/// Memory of destroyed owners, all of one size. Used with the GIL held, and not at all in
/// free-threaded builds, so plain loads and stores suffice.
#[derive(Default)]
pub struct FreeList {
    first: AtomicPtr<Link>,
    count: AtomicU32,
}

struct Link(*mut Link);

impl FreeList {
    const MOST: u32 = 64;

    pub fn new() -> Self {
        FreeList { first: AtomicPtr::new(std::ptr::null_mut()), count: AtomicU32::new(0) }
    }
}

impl Here<'_, FreeList> {
    /// Takes a piece.
    #[inline]
    pub fn take(self) -> Option<NonNull<u8>> {
        let first = NonNull::new(self.first.load(Ordering::Relaxed))?;
        // SAFETY: `put` wrote the link there.
        self.first.store(unsafe { first.as_ref() }.0, Ordering::Relaxed);
        self.count.store(self.count.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        Some(first.cast())
    }

    /// Puts memory back, unless the list is full.
    ///
    /// # Safety
    /// `memory` is unused, of the size that all pieces here have, and aligned like a pointer.
    #[inline]
    pub unsafe fn put(self, memory: NonNull<u8>) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        if count >= FreeList::MOST || self.py().capi().facts.free_threaded {
            return false;
        }
        let link = memory.cast::<Link>();
        // SAFETY: the memory is unused and large enough (this function's contract).
        unsafe { link.write(Link(self.first.load(Ordering::Relaxed))) };
        self.first.store(link.as_ptr(), Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Relaxed);
        true
    }
}
