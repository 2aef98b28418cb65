//! Memory whose allocation may fail: the standard library's containers end the process then.

use std::alloc::{Layout, alloc, dealloc};

use crate::error::{Failure, Result};

/// Memory that is freed when this is dropped: after a failure, or where a function that is called
/// meanwhile ends the thread.
pub struct Memory {
    start: *mut u8,
    layout: Layout,
}

impl Memory {
    /// Allocates memory. The layout is not empty.
    pub fn new(layout: Layout) -> Result<Self> {
        debug_assert!(layout.size() > 0);
        // SAFETY: the layout is not empty, as every caller's type is not.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            Err(Failure::no_memory(layout.size()))
        } else {
            Ok(Memory { start, layout })
        }
    }

    /// The memory, which still belongs to this.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// The memory, which the caller frees from now on.
    pub fn into_raw(self) -> *mut u8 {
        let start = self.start;
        std::mem::forget(self);
        start
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `new` allocated it with this layout, and `into_raw` did not give it away.
        unsafe { dealloc(self.start, self.layout) };
    }
}

/// Moves a value to the heap.
pub fn boxed<T>(value: T) -> Result<Box<T>> {
    const { assert!(size_of::<T>() > 0) };
    let memory = Memory::new(Layout::new::<T>())?.into_raw().cast::<T>();
    // SAFETY: fresh memory from the global allocator, of the layout that a box of this type has.
    unsafe {
        memory.write(value);
        Ok(Box::from_raw(memory))
    }
}
