//! Memory whose allocation may fail: the standard library's containers end the process then.

use std::alloc::{Layout, alloc, dealloc};
use std::marker::PhantomData;
use std::mem;
use std::ptr::NonNull;
use std::slice;

use crate::error::{Failure, Result};

/// Memory freed when this is dropped: after a failure, or where a called function ends the thread.
pub struct Memory {
    start: *mut u8,
    layout: Layout,
}

impl Memory {
    /// Allocates memory. The layout is not empty.
    pub fn new(layout: Layout) -> Result<Self> {
        Self::allocate(layout).ok_or_else(|| Failure::no_memory(layout.size()))
    }

    fn allocate(layout: Layout) -> Option<Self> {
        assert!(layout.size() > 0);
        // SAFETY: the layout is not empty (checked above).
        let start = unsafe { alloc(layout) };
        if start.is_null() { None } else { Some(Memory { start, layout }) }
    }

    /// Takes memory back, to free it.
    ///
    /// # Safety
    /// [`Memory::into_raw`] gave it away, [`Memory::new`] allocated it with this layout, and nothing
    /// uses it once this is dropped.
    pub unsafe fn from_raw(start: *mut u8, layout: Layout) -> Self {
        Memory { start, layout }
    }

    /// The memory, which still belongs to this.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// The memory, which the caller frees from now on.
    pub fn into_raw(self) -> *mut u8 {
        let start = self.start;
        mem::forget(self);
        start
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `new` allocated it with this layout, and `into_raw` did not give it away.
        unsafe { dealloc(self.start, self.layout) };
    }
}

pub fn boxed<T>(value: T) -> Result<Box<T>> {
    try_boxed(value).ok_or_else(|| Failure::no_memory(size_of::<T>()))
}

/// Makes space for a value in a vector.
pub fn reserve<T>(of: &mut Vec<T>) -> Result<()> {
    of.try_reserve(1).map_err(|_| Failure::no_memory(size_of::<T>()))
}

/// Appends a value to a vector.
pub fn push<T>(to: &mut Vec<T>, value: T) -> Result<()> {
    reserve(to)?;
    to.push(value);
    Ok(())
}

/// Returns an empty vector that takes `count` values without another allocation.
pub fn with_capacity<T>(count: usize) -> Result<Vec<T>> {
    let mut made = Vec::new();
    let bytes = || count.saturating_mul(size_of::<T>());
    made.try_reserve_exact(count).map_err(|_| Failure::no_memory(bytes()))?;
    Ok(made)
}

pub fn copied<T: Copy>(values: &[T]) -> Result<Vec<T>> {
    let mut copy = with_capacity(values.len())?;
    copy.extend_from_slice(values);
    Ok(copy)
}

/// Moves a value to the heap; `None` without memory.
pub fn try_boxed<T>(value: T) -> Option<Box<T>> {
    const { assert!(size_of::<T>() > 0) };
    let memory = Memory::allocate(Layout::new::<T>())?.into_raw().cast::<T>();
    // SAFETY: fresh memory from the global allocator, of the layout that a box of this type has.
    unsafe {
        memory.write(value);
        Some(Box::from_raw(memory))
    }
}

/// A value on the heap, and more values behind it in the same block.
///
/// Drop frees the block before it drops the value: nothing leaks if that ends the thread.
pub struct Extended<T, E: Copy> {
    head: NonNull<Head<T, E>>,
    value: PhantomData<T>,
}

#[repr(C)]
struct Head<T, E> {
    value: T,
    count: usize,
    /// For the alignment: they begin behind this structure.
    rest: [E; 0],
}

impl<T, E: Copy> Extended<T, E> {
    /// Moves a value to the heap, with `count` times `rest` behind it.
    pub fn new(value: T, count: usize, rest: E) -> Result<Self> {
        let memory = Memory::new(Self::layout(count)?)?;
        let head = memory.into_raw().cast::<Head<T, E>>();
        // SAFETY: fresh memory of a layout with space for the head and for `count` values behind
        // it, which are aligned, because the head is a multiple of their alignment.
        unsafe {
            head.write(Head { value, count, rest: [] });
            let first = head.add(1).cast::<E>();
            (0..count).for_each(|index| first.add(index).write(rest));
            Ok(Extended { head: NonNull::new_unchecked(head), value: PhantomData })
        }
    }

    fn layout(count: usize) -> Result<Layout> {
        let rest = count.saturating_mul(size_of::<E>());
        let size = size_of::<Head<T, E>>().saturating_add(rest);
        Layout::from_size_align(size, align_of::<Head<T, E>>())
            .map_err(|_| Failure::no_memory(size))
    }

    /// Returns the value and those behind it. Their addresses are valid as long as the block.
    pub fn parts(&mut self) -> (&mut T, &mut [E]) {
        // SAFETY: `new` has written the head and `count` values behind it, and this value is their
        // only owner. The two do not overlap.
        unsafe {
            let head = self.head.as_ptr();
            let rest = slice::from_raw_parts_mut(head.add(1).cast(), (*head).count);
            (&mut (*head).value, rest)
        }
    }

    /// Returns the address of the value, which still belongs to this.
    pub fn as_ptr(&self) -> *mut T {
        self.head.as_ptr().cast()
    }

    /// Returns the address of the value. The block must be made one of these again to be freed.
    pub fn into_raw(self) -> *mut T {
        let value = self.as_ptr();
        mem::forget(self);
        value
    }

    /// # Safety
    /// `value` was returned by [`into_raw`](Self::into_raw) of this type, and is given up.
    pub unsafe fn from_raw(value: *mut T) -> Self {
        // SAFETY: the address of a block (this function's contract), which is not NULL.
        let head = unsafe { NonNull::new_unchecked(value.cast()) };
        Extended { head, value: PhantomData }
    }
}

impl<T, E: Copy> Drop for Extended<T, E> {
    fn drop(&mut self) {
        // SAFETY: `new` wrote the head.
        let Head { value, count, .. } = unsafe { self.head.as_ptr().read() };
        if let Ok(layout) = Self::layout(count) {
            // SAFETY: allocated by `new` with this layout. The value was moved out.
            unsafe { dealloc(self.head.as_ptr().cast(), layout) };
        }
        drop(value);
    }
}
