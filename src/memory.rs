//! Boxes whose allocation may fail: the standard library's end the process then.
//!
//! May use: `error`.
//! Unsafe: makes a box of memory that it allocated.

use std::alloc::{Layout, alloc};

use crate::error::{Failure, Result};

/// Moves a value to the heap.
pub fn boxed<T>(value: T) -> Result<Box<T>> {
    let layout = Layout::new::<T>();
    const { assert!(size_of::<T>() > 0) };
    // SAFETY: the layout is not empty, as asserted above.
    let memory = unsafe { alloc(layout) }.cast::<T>();
    if memory.is_null() {
        return Err(Failure::no_memory(layout.size()));
    }
    // SAFETY: fresh memory from the global allocator, of the layout that a box of this type has.
    unsafe {
        memory.write(value);
        Ok(Box::from_raw(memory))
    }
}
