//! Lock-free bounded free list, without allocation and without order. Tested with loom.
//!
//! May use: nothing.
//! Unsafe: none.

use std::ptr::null_mut;

#[cfg(loom)]
use loom::sync::atomic::{AtomicPtr, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicPtr, Ordering};

/// `N` slots; NULL is an empty one.
pub struct Slots<T, const N: usize>([AtomicPtr<T>; N]);

impl<T, const N: usize> Slots<T, N> {
    /// A list of empty slots.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Slots([const { AtomicPtr::new(null_mut()) }; N])
    }

    /// A list of empty slots.
    #[cfg(all(test, loom))]
    pub fn new() -> Self {
        Slots(std::array::from_fn(|_| AtomicPtr::new(null_mut())))
    }

    /// Takes an element, or returns NULL if none was found.
    #[inline]
    pub fn take(&self) -> *mut T {
        for slot in &self.0 {
            // Relaxed: this load only saves most of the exchanges below, which decide.
            if slot.load(Ordering::Relaxed).is_null() {
                continue;
            }
            // Acquire: pairs with the Release in `put`; the thread that stored the element has
            // finished with it.
            let taken = slot.swap(null_mut(), Ordering::Acquire);
            if !taken.is_null() {
                return taken;
            }
        }
        null_mut()
    }

    /// Stores an element. Returns false if every slot is taken; the element is still the caller's.
    #[inline]
    pub fn put(&self, it: *mut T) -> bool {
        self.0.iter().any(|slot| {
            slot.load(Ordering::Relaxed).is_null()
                // Release: pairs with the Acquire in `take`.
                && slot
                    .compare_exchange(null_mut(), it, Ordering::Release, Ordering::Relaxed)
                    .is_ok()
        })
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::Slots;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// Two threads use the elements that they take and store them again: never both at once, and
    /// each sees what the other did.
    #[test]
    fn an_element_is_never_shared() {
        loom::model(|| {
            let slots = Arc::new(Slots::<UnsafeCell<usize>, 2>::new());
            let one = Box::into_raw(Box::new(UnsafeCell::new(0)));
            assert!(slots.put(one));
            let use_it = |slots: &Slots<UnsafeCell<usize>, 2>| {
                let taken = slots.take();
                if taken.is_null() {
                    return 0;
                }
                // SAFETY: loom reports an error if another thread holds it too.
                unsafe { (*taken).with_mut(|count| *count += 1) };
                assert!(slots.put(taken));
                1
            };
            let other = {
                let slots = slots.clone();
                thread::spawn(move || use_it(&slots))
            };
            let used = use_it(&slots) + other.join().unwrap();
            let last = slots.take();
            assert_eq!(last, one);
            assert!(slots.take().is_null());
            // SAFETY: made above, and taken by this thread alone.
            let cell = unsafe { Box::from_raw(last) };
            // SAFETY: no other thread holds it.
            assert_eq!(cell.with(|count| unsafe { *count }), used);
        });
    }

    /// Two elements that are stored at the same time both stay.
    #[test]
    fn nothing_is_lost() {
        loom::model(|| {
            let slots = Arc::new(Slots::<u8, 2>::new());
            let (one, two) = (1 as *mut u8, 2 as *mut u8);
            let other = {
                let slots = slots.clone();
                thread::spawn(move || assert!(slots.put(2 as *mut u8)))
            };
            assert!(slots.put(one));
            other.join().unwrap();
            let mut found = [slots.take(), slots.take()];
            found.sort();
            assert_eq!(found, [one, two]);
            assert!(slots.put(one) && slots.put(two) && !slots.put(3 as *mut u8));
        });
    }
}
