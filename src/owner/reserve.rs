//! Memory in an owner for the release of one reference, so that deferring it allocates nothing.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

const WORDS: usize = 20;
pub const SIZE: usize = WORDS * size_of::<usize>();
pub const ALIGN: usize = align_of::<usize>();

/// The memory, which lies in an owner.
pub struct Reserve {
    is_taken: AtomicBool,
    memory: [UnsafeCell<MaybeUninit<usize>>; WORDS],
}

impl Reserve {
    #[inline(always)]
    pub fn new() -> Self {
        // One cell for each word: the compiler writes zeros into a single one of this size.
        let memory = [const { UnsafeCell::new(MaybeUninit::uninit()) }; WORDS];
        Reserve { is_taken: AtomicBool::new(false), memory }
    }

    /// Takes the memory. Returns NULL if it is taken.
    pub fn take(&self) -> *mut u8 {
        // Acquire: what the code before did with the memory comes before what this one does.
        let is_taken = self.is_taken.swap(true, Ordering::Acquire);
        if is_taken { null_mut() } else { self.memory.as_ptr().cast_mut().cast() }
    }

    /// Gives the memory back. Nothing uses it any more.
    pub fn give_back(&self) {
        // Release: see `take`.
        self.is_taken.store(false, Ordering::Release);
    }
}
