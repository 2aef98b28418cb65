//! References that last for the rest of the process, published by one thread for all.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A place for a reference that is never given back, empty at first.
pub struct Published<T: Sync + 'static>(AtomicPtr<T>);

impl<T: Sync> Published<T> {
    /// An empty place.
    pub const fn nothing() -> Self {
        Published(AtomicPtr::new(ptr::null_mut()))
    }

    /// A place that contains a reference from the start.
    pub const fn new(value: &'static T) -> Self {
        Published(AtomicPtr::new(ptr::from_ref(value).cast_mut()))
    }

    /// Returns the reference. What was written before [`set`](Self::set) is seen after it.
    #[inline(always)]
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: NULL, or a reference of this lifetime: nothing else is stored.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Returns true if the place is empty, without an order of memory.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }

    /// Replaces the reference.
    pub fn set(&self, value: Option<&'static T>) {
        let value = value.map_or(ptr::null_mut(), |value| ptr::from_ref(value).cast_mut());
        // Release: see `get`.
        self.0.store(value, Ordering::Release);
    }
}
