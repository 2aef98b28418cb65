//! Owners that run a destructor, and may hold another owner, a shape and strides, in one block.

use std::ptr;

use super::block::{Contents, Space};
use super::{Destructor, Ref};
use crate::error::Result;

/// Contents of the owner. The numbers follow it in memory.
struct Held {
    /// Released before the destructor runs.
    first: Option<Ref>,
    destructor: Destructor,
}

impl Contents for Held {
    fn first(&mut self) -> Option<Ref> {
        self.first.take_if(|_| self.destructor.is_some())
    }

    fn end(self) {
        drop(self.first);
        self.destructor.run();
    }
}

/// Memory for an owner, with the numbers in it: from here, nothing can fail.
pub struct Prepared {
    space: Space<Held>,
    shape: *const i64,
    strides: *const i64,
}

pub struct Owned {
    pub owner: Ref,
    /// The copied shape; NULL if it is empty.
    pub shape: *const i64,
    /// The copied strides; NULL if there are none.
    pub strides: *const i64,
}

pub fn prepare(shape: &[i64], strides: Option<&[i64]>) -> Result<Prepared> {
    let strides = strides.unwrap_or_default();
    let space = Space::new(Space::<Held>::HEAD + size_of_val(shape) + size_of_val(strides))?;
    let numbers = space.start().wrapping_add(Space::<Held>::HEAD).cast::<i64>();
    let place = |values: &[i64], offset: usize| {
        if values.is_empty() {
            return ptr::null();
        }
        // SAFETY: the size counts the owner, the shape and the strides, in this order, and the size
        // of the owner is a multiple of the numbers' alignment.
        unsafe {
            let to = numbers.add(offset);
            ptr::copy_nonoverlapping(values.as_ptr(), to, values.len());
            to.cast_const()
        }
    };
    let (shape, strides) = (place(shape, 0), place(strides, shape.len()));
    Ok(Prepared { space, shape, strides })
}

impl Prepared {
    /// Makes the owner. Its last release releases `first` and then calls the destructor.
    pub fn finish(self, first: Option<Ref>, destructor: Destructor) -> Owned {
        let Prepared { space, shape, strides } = self;
        let owner = space.finish(Held { first, destructor });
        Owned { owner, shape, strides }
    }
}
