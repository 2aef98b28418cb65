//! The owner that keeps Python objects alive, and the description that it holds.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_void;
use std::mem::{MaybeUninit, offset_of};
use std::ptr;

use crate::abi::{self, CAI_TYPESTR_SIZE, cai_array, cai_descr, cai_owner};
use crate::dlpack::Deleter;
use crate::dtype::fields::Fields;
use crate::error::{Failure, Result};
use crate::owner::description::Arena;
use crate::owner::{self, Header, Ref};
use crate::python::interpreter::{Held, Interpreter, Waiting, release_from_anywhere};
use crate::python::py::{Owned, Py};
use crate::read::NOTHING;

const DIMENSIONS: usize = abi::CAI_MAX_NDIM as usize;

/// An array while it is read. At first shape and strides are beside it, and nothing keeps it alive.
/// If it has an owner, the reference is released when dropped, unless it is taken.
///
/// The order of the members keeps the initialized ones together, so that nothing else is written.
#[repr(C)]
pub struct Description {
    /// Before there is an owner, [`Description::array`] sets `shape` and `strides`.
    pub array: cai_array,
    /// Strides are stated.
    pub has_strides: bool,
    /// The first `array.ndim` extents are initialized.
    pub shape: [MaybeUninit<i64>; DIMENSIONS],
    /// The first `array.ndim` strides are initialized if `has_strides`.
    pub strides: [MaybeUninit<i64>; DIMENSIONS],
}

impl Description {
    /// An empty description.
    #[inline(always)]
    pub fn new() -> Self {
        Description {
            array: NOTHING,
            shape: [MaybeUninit::uninit(); DIMENSIONS],
            strides: [MaybeUninit::uninit(); DIMENSIONS],
            has_strides: false,
        }
    }

    /// Makes the description empty.
    pub fn reset(&mut self) {
        self.set(NOTHING);
        self.has_strides = false;
    }

    /// Replaces the array, with its reference.
    pub fn set(&mut self, array: cai_array) {
        let before = std::mem::replace(&mut self.array, array);
        release(&before);
    }

    /// Returns true once an owner keeps the array alive.
    #[inline]
    pub fn has_owner(&self) -> bool {
        !self.array.owner.is_null()
    }

    /// Takes the reference out. Fails if there is none, or the owner cannot be released.
    #[inline]
    pub fn take_owner(&mut self) -> Result<Ref> {
        let owner = std::mem::replace(&mut self.array.owner, ptr::null_mut());
        // SAFETY: a description holds one reference to the owner of its array.
        unsafe { Ref::adopt(owner) }
    }

    /// Gives the reference to the caller, who has copied the array.
    #[inline]
    pub fn taken(&mut self) {
        self.array.owner = ptr::null_mut();
    }

    /// Returns the array, with its pointers into this description.
    #[inline]
    pub fn array(&mut self) -> &cai_array {
        let some = self.array.ndim > 0;
        self.array.shape = if some { self.shape.as_ptr().cast() } else { ptr::null() };
        self.array.strides =
            if some && self.has_strides { self.strides.as_ptr().cast() } else { ptr::null() };
        &self.array
    }

    /// Returns the initialized extents.
    pub fn extents(&self) -> &[i64] {
        let count = (self.array.ndim.max(0) as usize).min(DIMENSIONS);
        // SAFETY: code that sets `ndim` initializes as many extents.
        unsafe { std::slice::from_raw_parts(self.shape.as_ptr().cast(), count) }
    }

    /// Sets the typestr.
    #[inline]
    pub fn set_typestr(&mut self, text: &[u8]) {
        self.array.typestr = [0; CAI_TYPESTR_SIZE];
        if let [order, kind, size] = *text {
            // Nearly all typestrs have three characters, for which no call is needed.
            let [first, second, third, ..] = &mut self.array.typestr;
            (*first, *second, *third) = (order as _, kind as _, size as _);
            return;
        }
        for (to, from) in self.array.typestr[..CAI_TYPESTR_SIZE - 1].iter_mut().zip(text) {
            *to = *from as std::ffi::c_char;
        }
    }

    /// Returns true if an extent is 0.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.extents().contains(&0)
    }
}

fn release(array: &cai_array) {
    if !array.owner.is_null() {
        // SAFETY: a description holds one reference to the owner of its array.
        unsafe { owner::release(array.owner) };
    }
}

impl Drop for Description {
    #[inline]
    fn drop(&mut self) {
        release(&self.array);
    }
}

#[repr(C)]
struct ObjectOwner {
    header: Header,
    waiting: Waiting,
    interpreter: &'static Interpreter,
    size: usize,
}

/// The size of owners of arrays with up to eight dimensions, or of a few dimensions and fields.
/// Their memory comes from a free list and returns to it: repeated imports allocate nothing.
const POOLED: usize = size_of::<ObjectOwner>() + 4 * 8 * size_of::<i64>();

fn allocate(py: Py, size: usize) -> (*mut ObjectOwner, usize) {
    if size > POOLED {
        // SAFETY: the size is at least that of `ObjectOwner`, which is not zero.
        return (unsafe { alloc(layout(size)) }.cast(), size);
    }
    match py.spare.take(py) {
        Some(memory) => (memory.as_ptr().cast(), POOLED),
        // SAFETY: the size is at least that of `ObjectOwner`, which is not zero.
        None => (unsafe { alloc(layout(POOLED)) }.cast(), POOLED),
    }
}

fn layout(size: usize) -> Layout {
    // SAFETY: the alignment is a power of two, and the size some hundred bytes.
    unsafe { Layout::from_size_align_unchecked(size, align_of::<ObjectOwner>()) }
}

/// Gives an array an owner of up to two objects, which holds a copy of shape and strides. `array`
/// refers to `ndim` values of each; on failure it does not change.
#[inline(always)]
pub fn attach<'py>(
    py: Py<'py>,
    array: &mut cai_array,
    object: Owned<'py>,
    more: Option<Owned<'py>>,
) -> Result<()> {
    attach_with_fields(py, array, object, more, None)
}

/// As [`attach`]. The owner also holds a copy of the fields, which `array.descr` points to then.
/// Their rules have not been checked.
#[inline(always)]
pub fn attach_with_fields<'py>(
    py: Py<'py>,
    array: &mut cai_array,
    object: Owned<'py>,
    more: Option<Owned<'py>>,
    fields: Option<&Fields>,
) -> Result<()> {
    let objects = [object.get(), more.as_ref().map_or(ptr::null_mut(), Owned::get)];
    own(py, array, Held { objects, finish: None, context: ptr::null_mut() }, fields)?;
    std::mem::forget((object, more));
    Ok(())
}

/// Gives an array an owner of a tensor: `deleter(tensor)` is called once, with the GIL held. On
/// failure the caller keeps the tensor.
pub fn attach_tensor(
    py: Py,
    array: &mut cai_array,
    deleter: Deleter,
    tensor: *mut c_void,
) -> Result<()> {
    let objects = [ptr::null_mut(); 2];
    own(py, array, Held { objects, finish: deleter, context: tensor }, None)
}

#[inline(always)]
fn own(py: Py, array: &mut cai_array, held: Held, fields: Option<&Fields>) -> Result<()> {
    let ndim = array.ndim as usize;
    let rows = if array.strides.is_null() { 1 } else { 2 };
    let start_of_fields = size_of::<ObjectOwner>() + rows * ndim * size_of::<i64>();
    let (block, size) = match fields {
        None => allocate(py, start_of_fields),
        Some(fields) => {
            let (block, size, descr) = allocate_with_fields(py, start_of_fields, fields)?;
            array.descr = descr;
            (block, size)
        }
    };
    if block.is_null() {
        return Err(Failure::no_memory(size));
    }
    // SAFETY: the block has space for the structure and for the rows behind it, which have the
    // alignment of pointers; `array`'s own have as many values.
    unsafe {
        block.write(ObjectOwner {
            header: Header::new(destroy),
            waiting: Waiting::new(held, free),
            interpreter: py.interpreter(),
            size,
        });
        let values = block.add(1).cast::<i64>();
        if ndim > 0 {
            copy(array.shape, values, ndim);
            array.shape = values;
            if !array.strides.is_null() {
                copy(array.strides, values.add(ndim), ndim);
                array.strides = values.add(ndim);
            }
        }
    }
    array.owner = block.cast::<cai_owner>();
    Ok(())
}

/// Allocates a block, and copies fields into it, behind its first `start` bytes.
#[cold]
#[inline(never)]
fn allocate_with_fields(
    py: Py,
    start: usize,
    fields: &Fields,
) -> Result<(*mut ObjectOwner, usize, *const cai_descr)> {
    let mut measure = Arena::measure(start);
    measure.put_fields(fields, fields.outermost())?;
    let (block, size) = allocate(py, measure.used());
    if block.is_null() {
        return Err(Failure::no_memory(size));
    }
    // SAFETY: fresh memory of this size, aligned for an owner and so for pointers.
    let mut arena = unsafe { Arena::fill(block.cast(), start, size) };
    match arena.put_fields(fields, fields.outermost()) {
        Ok(descr) => Ok((block, size, descr)),
        Err(failure) => {
            // SAFETY: allocated above, and not used any more.
            unsafe { free_block(py, block, size) };
            Err(failure)
        }
    }
}

unsafe fn destroy(header: *mut Header) {
    let block = header.cast::<ObjectOwner>();
    // SAFETY: only `own` installs this function, and the last reference was released.
    unsafe { release_from_anywhere((*block).interpreter, &raw mut (*block).waiting) };
}

/// Copies numbers. Nearly all arrays have few dimensions, for which no call is needed.
///
/// # Safety
/// As `ptr::copy_nonoverlapping`.
#[inline(always)]
unsafe fn copy(from: *const i64, to: *mut i64, count: usize) {
    // SAFETY: the contract is that of this function.
    unsafe {
        match count {
            1 => to.write(from.read()),
            2 => to.cast::<[i64; 2]>().write(from.cast::<[i64; 2]>().read()),
            3 => to.cast::<[i64; 3]>().write(from.cast::<[i64; 3]>().read()),
            4 => to.cast::<[i64; 4]>().write(from.cast::<[i64; 4]>().read()),
            _ => ptr::copy_nonoverlapping(from, to, count),
        }
    }
}

unsafe fn free(py: Py, waiting: *mut Waiting) {
    // SAFETY: only `own` makes one, inside a block of the size that it states.
    unsafe {
        let block = waiting.byte_sub(offset_of!(ObjectOwner, waiting)).cast::<ObjectOwner>();
        let size = (*block).size;
        free_block(py, block, size);
    }
}

/// Frees what `allocate` returned.
///
/// # Safety
/// The block has this size, and nothing uses it.
#[inline(always)]
unsafe fn free_block(py: Py, block: *mut ObjectOwner, size: usize) {
    // SAFETY: all blocks of the pooled size are alike, and others were allocated with this layout;
    // nothing uses this one (this function's contract).
    unsafe {
        if size != POOLED || !py.spare.put(py, block.cast()) {
            dealloc(block.cast(), layout(size));
        }
    }
}
