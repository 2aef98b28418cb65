//! Lock-free bounded free list, without allocation and without order. Tested with loom.

use std::ptr::{null_mut, without_provenance_mut};

#[cfg(loom)]
use loom::sync::atomic::{AtomicPtr, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicPtr, Ordering};

/// `N` slots. NULL is an empty one; a reserved one belongs to the code that took its element.
pub struct Slots<T, const N: usize>([AtomicPtr<T>; N]);

/// A slot that [`Slots::take`] reserved, until [`give_back`](Self::give_back) or
/// [`clear`](Self::clear).
pub struct Reserved<'s, T>(&'s AtomicPtr<T>);

/// The value of a reserved slot: no address of an element.
fn reserved<T>() -> *mut T {
    without_provenance_mut(1)
}

impl<T, const N: usize> Slots<T, N> {
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Slots([const { AtomicPtr::new(null_mut()) }; N])
    }

    #[cfg(all(test, loom))]
    pub fn new() -> Self {
        Slots(std::array::from_fn(|_| AtomicPtr::new(null_mut())))
    }

    /// Takes an element and reserves its slot.
    pub fn take(&self) -> Option<(Reserved<'_, T>, *mut T)> {
        for slot in &self.0 {
            // Relaxed: the exchange below decides.
            let found = slot.load(Ordering::Relaxed);
            if found.is_null() || found == reserved() {
                continue;
            }
            // Acquire: pairs with the Release that stored the element; the thread that did so has
            // finished with it. An element that was taken and stored again in between is the same.
            if slot
                .compare_exchange(found, reserved(), Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return Some((Reserved(slot), found));
            }
        }
        None
    }

    /// Stores a new element. If every slot is taken, returns false and stores nothing.
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

impl<T> Reserved<'_, T> {
    /// Stores an element in the slot that was reserved for it.
    #[inline]
    pub fn give_back(self, it: *mut T) {
        // Release: pairs with the Acquire in `take`. No other thread writes to a reserved slot.
        self.0.store(it, Ordering::Release);
    }

    pub fn clear(self) {
        // Relaxed: it publishes no element.
        self.0.store(null_mut(), Ordering::Relaxed);
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
                let Some((slot, taken)) = slots.take() else { return 0 };
                // SAFETY: loom reports an error if another thread holds it too.
                unsafe { (*taken).with_mut(|count| *count += 1) };
                slot.give_back(taken);
                1
            };
            let other = {
                let slots = slots.clone();
                thread::spawn(move || use_it(&slots))
            };
            let used = use_it(&slots) + other.join().unwrap();
            let (slot, last) = slots.take().unwrap();
            assert_eq!(last, one);
            assert!(slots.take().is_none());
            slot.clear();
            assert!(slots.put(one));
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
            let (one, two) = (8 as *mut u8, 16 as *mut u8);
            let other = {
                let slots = slots.clone();
                thread::spawn(move || assert!(slots.put(16 as *mut u8)))
            };
            assert!(slots.put(one));
            other.join().unwrap();
            let taken = [slots.take().unwrap(), slots.take().unwrap()];
            let mut found = [taken[0].1, taken[1].1];
            found.sort();
            assert_eq!(found, [one, two]);
            assert!(!slots.put(24 as *mut u8));
            for (slot, _) in taken {
                slot.clear();
            }
            assert!(slots.put(one) && slots.put(two) && !slots.put(24 as *mut u8));
        });
    }
}
