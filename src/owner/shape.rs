//! An owner around a callback that also holds shape and strides in the same block.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_void;
use std::mem::{align_of, size_of};
use std::ptr;

use super::Header;
use crate::abi::cai_owner;
use crate::error::{Failure, Result};

/// The numbers follow the structure in memory.
#[repr(C)]
struct Lists {
    header: Header,
    size: usize,
    context: *mut c_void,
    destroy: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
}

const _: () = assert!(size_of::<Lists>() % align_of::<i64>() == 0);

/// The result of [`new`].
pub struct Made {
    /// The owner, with one reference.
    pub owner: *mut cai_owner,
    /// The copied shape; NULL if it is empty.
    pub shape: *const i64,
    /// The copied strides; NULL if there are none.
    pub strides: *const i64,
}

/// Makes an owner that holds copies of both lists. `destroy(context)` runs once, when the last
/// reference is released.
pub fn new(
    context: *mut c_void,
    destroy: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
    shape: &[i64],
    strides: Option<&[i64]>,
) -> Result<Made> {
    let strides = strides.unwrap_or_default();
    let size = size_of::<Lists>() + size_of_val(shape) + size_of_val(strides);
    // SAFETY: the size is at least that of the structure, which is not zero.
    let lists = unsafe { alloc(layout(size)) }.cast::<Lists>();
    if lists.is_null() {
        return Err(Failure::no_memory(size));
    }
    // SAFETY: not NULL (checked above). The block has space for the structure, the shape and the
    // strides, in this order.
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
    // SAFETY: the alignment is a power of two, and existing slices are far below `isize::MAX`.
    unsafe { Layout::from_size_align_unchecked(size, align_of::<Lists>()) }
}

unsafe fn destroy_lists(header: *mut Header) {
    // SAFETY: only `new` installs this function, on a block that it allocated.
    let Lists { size, context, destroy, .. } = unsafe { header.cast::<Lists>().read() };
    // Freed first, so that nothing leaks if the callback ends the thread.
    // SAFETY: allocated in `new` with this layout.
    unsafe { dealloc(header.cast(), layout(size)) };
    if let Some(destroy) = destroy {
        // SAFETY: `destroy` takes this context, by the contract of `new`.
        unsafe { destroy(context) };
    }
}
