//! Owners that run a destructor, and may hold another owner and a shape with its strides, in one
//! block of memory.

use std::alloc::{Layout, dealloc};
use std::mem::{align_of, size_of};
use std::ptr::{self, NonNull};

use super::{Destructor, Header, Ref, nesting};
use crate::error::Result;
use crate::memory::Memory;

/// The numbers follow the structure in memory.
#[repr(C)]
struct Block {
    header: Header,
    size: usize,
    /// Released before the destructor runs.
    first: Option<Ref>,
    destructor: Destructor,
}

const _: () = assert!(size_of::<Block>() % align_of::<i64>() == 0);

/// Memory for an owner, with the numbers in it: from here, nothing can fail.
pub struct Prepared {
    memory: Memory,
    size: usize,
    shape: *const i64,
    strides: *const i64,
}

/// An owner with the shape that it holds.
pub struct Owned {
    /// The owner.
    pub owner: Ref,
    /// The copied shape; NULL if it is empty.
    pub shape: *const i64,
    /// The copied strides; NULL if there are none.
    pub strides: *const i64,
}

/// Copies a shape with its strides into memory for an owner.
pub fn prepare(shape: &[i64], strides: Option<&[i64]>) -> Result<Prepared> {
    let strides = strides.unwrap_or_default();
    let size = size_of::<Block>() + size_of_val(shape) + size_of_val(strides);
    let memory = Memory::new(layout(size))?;
    let numbers = memory.start().wrapping_add(size_of::<Block>()).cast::<i64>();
    let place = |values: &[i64], offset: usize| {
        if values.is_empty() {
            return ptr::null();
        }
        // SAFETY: `size` counts the block, the shape and the strides, in this order, and the size
        // of the block is a multiple of the numbers' alignment.
        unsafe {
            let to = numbers.add(offset);
            ptr::copy_nonoverlapping(values.as_ptr(), to, values.len());
            to.cast_const()
        }
    };
    let (shape, strides) = (place(shape, 0), place(strides, shape.len()));
    Ok(Prepared { memory, size, shape, strides })
}

impl Prepared {
    /// Makes the owner. When its last reference is released, it releases `first` and then calls the
    /// destructor.
    pub fn finish(self, first: Option<Ref>, destructor: Destructor) -> Owned {
        let Prepared { memory, size, shape, strides } = self;
        let block = memory.into_raw().cast::<Block>();
        // SAFETY: `prepare` allocated the memory, which begins with space for a block.
        let owner = unsafe {
            block.write(Block { header: Header::new(destroy), size, first, destructor });
            Ref::first(NonNull::new_unchecked(block.cast()))
        };
        Owned { owner, shape, strides }
    }
}

fn layout(size: usize) -> Layout {
    // SAFETY: the alignment is a power of two, and existing slices are far below `isize::MAX`.
    unsafe { Layout::from_size_align_unchecked(size, align_of::<Block>()) }
}

unsafe fn destroy(header: *mut Header) {
    let block = header.cast::<Block>();
    // SAFETY: only `finish` installs this function, on a block that it has written, and nothing
    // else refers to it any more.
    let Block { first, destructor, .. } = unsafe { &mut *block };
    // The destructor may run only after `first` and all that it holds are destroyed, which takes
    // until the end of the deepest destruction if this is it.
    if let Some(first) = first.take_if(|_| destructor.is_some()) {
        // SAFETY: called in the destruction of this owner.
        if !unsafe { nesting::release_before(header, || drop(first)) } {
            return;
        }
    }
    // SAFETY: the block is still allocated, and this is its last use.
    let Block { size, first, destructor, .. } = unsafe { block.read() };
    // Freed first, so that nothing of this library is lost if what follows ends the thread.
    // SAFETY: allocated in `prepare` with this layout.
    unsafe { dealloc(header.cast(), layout(size)) };
    drop(first);
    destructor.run();
}
