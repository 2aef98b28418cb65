//! The memory of an owner of this library: one block with its header, what it holds, and copied
//! numbers or a description behind them.

use std::alloc::{Layout, dealloc};
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::{GivenUp, Header, Ref, nesting};
use crate::error::{Failure, Result};
use crate::memory::Memory;

pub trait Contents {
    /// Takes a reference whose owner must be destroyed, with all that it holds, before the rest.
    fn first(&mut self) -> Option<Ref>;

    /// Gives up the rest. The block was freed: nothing is lost if a call from here ends the thread.
    fn end(self);
}

#[repr(C)]
struct Block<C> {
    header: Header,
    size: usize,
    contents: C,
}

fn layout<C>(size: usize) -> Result<Layout> {
    Layout::from_size_align(size, align_of::<Block<C>>()).map_err(|_| Failure::no_memory(size))
}

/// Memory for an owner, and for what lies behind it. Freed when dropped.
pub struct Space<C> {
    memory: Memory,
    size: usize,
    contents: PhantomData<C>,
}

impl<C: Contents> Space<C> {
    /// The bytes before what lies behind the owner: a multiple of 8.
    pub const HEAD: usize = size_of::<Block<C>>();

    /// Allocates `size` bytes, those of the owner included.
    pub fn new(size: usize) -> Result<Self> {
        const { assert!(Self::HEAD % align_of::<i64>() == 0) };
        assert!(size >= Self::HEAD);
        Ok(Space { memory: Memory::new(layout::<C>(size)?)?, size, contents: PhantomData })
    }

    /// Returns the address of the owner, which still belongs to this.
    pub fn start(&self) -> *mut u8 {
        self.memory.start()
    }

    pub fn finish(self, contents: C) -> Ref {
        let block = self.memory.into_raw().cast::<Block<C>>();
        let header = Header::new(destroy::<C>);
        // SAFETY: `new` allocated the memory, with space for a block at its beginning.
        unsafe {
            block.write(Block { header, size: self.size, contents });
            Ref::first(NonNull::new_unchecked(block.cast()))
        }
    }
}

unsafe fn destroy<C: Contents>(mut owner: GivenUp) {
    let block = owner.as_ptr().cast::<Block<C>>();
    // SAFETY: only `finish` installs this function, on a block that it has written, and nothing else
    // refers to it any more.
    while let Some(first) = unsafe { &mut *block }.contents.first() {
        // The rest may end only after `first` and all that it holds are destroyed, which takes until
        // the end of the deepest destruction if this is it.
        let Some(again) = nesting::release_before(owner, first) else { return };
        owner = again;
    }
    // SAFETY: the block is still allocated, and this is its last use.
    let Block { size, contents, .. } = unsafe { block.read() };
    if let Ok(layout) = layout::<C>(size) {
        // SAFETY: allocated in `Space::new` with this layout. The contents were moved out.
        unsafe { dealloc(block.cast(), layout) };
    }
    contents.end();
}
