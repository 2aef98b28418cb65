//! The context that memory belongs to, which its owner remembers. Tested with loom.
//!
//! An owner keeps memory alive, and memory that was not registered belongs to one context until it
//! is freed. A program may still destroy the context, so callers trust it only while it is the
//! current one. It is known of one address: an owner may keep several arrays.

#[cfg(loom)]
use loom::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::ffi::c_void;
use std::ptr::NonNull;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// An address and its context. Each is written once.
pub struct KnownContext {
    /// 0 until a thread remembers a context.
    address: AtomicUsize,
    /// NULL until it is known.
    context: AtomicPtr<c_void>,
}

impl KnownContext {
    #[inline(always)]
    pub fn new() -> Self {
        KnownContext { address: AtomicUsize::new(0), context: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Returns the context of the memory at an address, if it is known.
    #[inline]
    pub fn find(&self, address: usize) -> Option<NonNull<c_void>> {
        // Relaxed: each is written once, so two values that are there belong together.
        let context = NonNull::new(self.context.load(Ordering::Relaxed))?;
        (self.address.load(Ordering::Relaxed) == address).then_some(context)
    }

    /// Remembers the context of the memory at an address, unless that of another one is.
    #[cold]
    pub fn remember(&self, address: usize, context: NonNull<c_void>) {
        // Relaxed: see `find`. Only the thread that changed it goes on.
        let before =
            self.address.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed);
        if before.is_ok() {
            self.context.store(context.as_ptr(), Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::KnownContext;
    use loom::sync::Arc;
    use loom::thread;
    use std::ptr::NonNull;

    /// Two threads remember the contexts of two addresses: each finds its own, or none.
    #[test]
    fn a_context_is_that_of_its_address() {
        loom::model(|| {
            let known = Arc::new(KnownContext::new());
            let context = |address: usize| {
                NonNull::new(std::ptr::without_provenance_mut(address * 16)).unwrap()
            };
            let other = {
                let known = known.clone();
                thread::spawn(move || {
                    known.remember(2, context(2));
                    assert!(known.find(1).is_none_or(|found| found == context(1)));
                    known.find(2)
                })
            };
            known.remember(1, context(1));
            let one = known.find(1);
            let two = other.join().unwrap();
            assert!(one.is_none_or(|found| found == context(1)));
            assert!(two.is_none_or(|found| found == context(2)));
            // One of them was first, and is known from then on.
            assert_eq!(known.find(1).is_some(), known.find(2).is_none());
        });
    }
}
