//! An owner around a callback that also holds a shape and steps: one block for what another
//! protocol describes with numbers of its own.
//!
//! May use: `abi`, `error`. `unsafe`: writes into the block that it allocated.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_void;
use std::mem::{align_of, size_of};
use std::ptr;

use super::Header;
use crate::abi::cai_owner;
use crate::error::{Failure, Result};

/// The numbers follow behind it.
#[repr(C)]
struct Lists {
    header: Header,
    size: usize,
    context: *mut c_void,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
}

const _: () = assert!(size_of::<Lists>() % align_of::<i64>() == 0);

/// What [`new`] made.
pub struct Made {
    /// With one reference.
    pub owner: *mut cai_owner,
    /// The copied shape; NULL where it is empty.
    pub shape: *const i64,
    /// The copied steps; NULL where there are none.
    pub strides: *const i64,
}

/// A new owner that holds copies of both lists; `destroy(context)` runs once, when the last
/// reference is gone.
pub fn new(
    context: *mut c_void,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    shape: &[i64],
    strides: Option<&[i64]>,
) -> Result<Made> {
    let strides = strides.unwrap_or_default();
    let size = size_of::<Lists>() + size_of_val(shape) + size_of_val(strides);
    // SAFETY: the size is not zero.
    let lists = unsafe { alloc(layout(size)) }.cast::<Lists>();
    if lists.is_null() {
        return Err(Failure::no_memory(size));
    }
    // SAFETY: fresh memory for all of it: the head, the shape, then the steps.
    unsafe {
        lists.write(Lists { header: Header::new(destroy_lists), size, context, destroy });
        let numbers = lists.add(1).cast::<i64>();
        ptr::copy_nonoverlapping(shape.as_ptr(), numbers, shape.len());
        ptr::copy_nonoverlapping(strides.as_ptr(), numbers.add(shape.len()), strides.len());
        Ok(Made {
            owner: lists.cast(),
            shape: if shape.is_empty() { ptr::null() } else { numbers },
            strides: if strides.is_empty() { ptr::null() } else { numbers.add(shape.len()) },
        })
    }
}

fn layout(size: usize) -> Layout {
    // SAFETY: the alignment is a power of two, and slices that exist are far below isize::MAX.
    unsafe { Layout::from_size_align_unchecked(size, align_of::<Lists>()) }
}

unsafe fn destroy_lists(header: *mut Header) {
    // SAFETY: only `new` installs this function, on a block that it allocated.
    let Lists { size, context, destroy, .. } = unsafe { header.cast::<Lists>().read() };
    // Freed first, as in `destroy_callback`.
    // SAFETY: allocated in `new` with this layout.
    unsafe { dealloc(header.cast(), layout(size)) };
    if let Some(destroy) = destroy {
        // SAFETY: `new`'s caller vouched for the pair.
        unsafe { destroy(context) };
    }
}
