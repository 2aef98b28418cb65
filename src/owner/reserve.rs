//! Memory in an owner for the release of one reference, so that deferring it allocates nothing.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

pub const SIZE: usize = 20 * size_of::<usize>();
pub const ALIGN: usize = align_of::<usize>();

/// The memory, which lies in an owner.
pub struct Reserve {
    is_taken: AtomicBool,
    memory: UnsafeCell<MaybeUninit<[usize; SIZE / size_of::<usize>()]>>,
}

impl Reserve {
    #[inline(always)]
    pub fn new() -> Self {
        let memory = UnsafeCell::new(MaybeUninit::uninit());
        Reserve { is_taken: AtomicBool::new(false), memory }
    }

    /// Takes the memory. Returns NULL if it is taken.
    pub fn take(&self) -> *mut u8 {
        // Acquire: what the code before did with the memory comes before what this one does.
        let is_taken = self.is_taken.swap(true, Ordering::Acquire);
        if is_taken { null_mut() } else { self.memory.get().cast() }
    }

    /// Gives the memory back. Nothing uses it any more.
    pub fn give_back(&self) {
        // Release: see `take`.
        self.is_taken.store(false, Ordering::Release);
    }
}
