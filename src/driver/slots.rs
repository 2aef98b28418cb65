//! Places where something is left for whoever comes next: without locks, without allocation, in no
//! order.
//!
//! `unsafe`: none. Tested with loom.

use std::ptr::null_mut;

#[cfg(loom)]
use loom::sync::atomic::{AtomicPtr, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicPtr, Ordering};

/// `N` places; NULL is an empty one.
pub struct Slots<T, const N: usize>([AtomicPtr<T>; N]);

impl<T, const N: usize> Slots<T, N> {
    /// All empty.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Slots([const { AtomicPtr::new(null_mut()) }; N])
    }

    /// All empty.
    #[cfg(loom)]
    pub fn new() -> Self {
        Slots(std::array::from_fn(|_| AtomicPtr::new(null_mut())))
    }

    /// Takes something out; NULL if nothing was found.
    #[inline]
    pub fn take(&self) -> *mut T {
        for slot in &self.0 {
            // Relaxed: a look that saves most of the exchanges, and decides nothing.
            if slot.load(Ordering::Relaxed).is_null() {
                continue;
            }
            // Acquire: whoever put it there has finished with it.
            let taken = slot.swap(null_mut(), Ordering::Acquire);
            if !taken.is_null() {
                return taken;
            }
        }
        null_mut()
    }

    /// Leaves something. `false`: all places are taken, and it is still the caller's.
    #[inline]
    pub fn put(&self, it: *mut T) -> bool {
        self.0.iter().any(|slot| {
            slot.load(Ordering::Relaxed).is_null()
                // Release: see `take`.
                && slot.compare_exchange(null_mut(), it, Ordering::Release, Ordering::Relaxed).is_ok()
        })
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::Slots;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// Two threads use what they find and put it back: never both at once, and each sees what the
    /// other did.
    #[test]
    fn nobody_shares_what_was_taken() {
        loom::model(|| {
            let slots = Arc::new(Slots::<UnsafeCell<usize>, 2>::new());
            let one = Box::into_raw(Box::new(UnsafeCell::new(0)));
            assert!(slots.put(one));
            let use_it = |slots: &Slots<UnsafeCell<usize>, 2>| {
                let taken = slots.take();
                if taken.is_null() {
                    return 0;
                }
                // SAFETY: loom reports it if somebody else has it too.
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
            // SAFETY: made above, and taken out by this thread.
            let cell = unsafe { Box::from_raw(last) };
            // SAFETY: nobody else has it.
            assert_eq!(cell.with(|count| unsafe { *count }), used);
        });
    }

    /// Two that are put at once both stay.
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
