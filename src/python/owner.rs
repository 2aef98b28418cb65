//! The owner that keeps Python objects alive, and the description that it holds.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_char;
use std::mem::{ManuallyDrop, MaybeUninit, offset_of};
use std::ptr::{self, NonNull};

use crate::abi::{self, CAI_TYPESTR_SIZE, cai_array, cai_descr, cai_owner};
use crate::dlpack::ManagedTensor;
use crate::dtype::fields::Fields;
use crate::error::{Failure, Result};
use crate::owner::description::{Arena, CommonField};
use crate::owner::{Destructor, GivenUp, Header, Ref};
use crate::python::deferred::{Deferred, Ended, Held};
use crate::python::interpreter::Interpreter;
use crate::python::py::{Buffer, Obj, Owned, Py};
use crate::read::{NOTHING, Unchecked};

const DIMENSIONS: usize = abi::CAI_MAX_NDIM as usize;

/// An array while it is read. At first shape and strides are beside it, and nothing keeps it alive.
/// If it has an owner, the reference is released when dropped, unless it is taken.
///
/// The order of the members keeps the initialized ones together, so that nothing else is written.
#[repr(C)]
pub struct Description {
    /// Before there is an owner, [`Description::array`] sets `shape` and `strides`.
    pub array: cai_array,
    pub has_strides: bool,
    pub holder: Holder,
    /// The first `array.ndim` extents are initialized.
    pub shape: [MaybeUninit<i64>; DIMENSIONS],
    /// The first `array.ndim` strides are initialized if `has_strides`.
    pub strides: [MaybeUninit<i64>; DIMENSIONS],
}

/// Who keeps the object of a dictionary alive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// An owner of the array.
    Owner,
    /// The caller, if the array is that of a dictionary alone. Then the array gets no owner, and
    /// this becomes [`Holder::Caller`].
    CallerIfAsked,
    Caller,
}

impl Description {
    #[inline(always)]
    pub fn new() -> Self {
        Description {
            array: NOTHING,
            shape: [MaybeUninit::uninit(); DIMENSIONS],
            strides: [MaybeUninit::uninit(); DIMENSIONS],
            has_strides: false,
            holder: Holder::Owner,
        }
    }

    pub fn reset(&mut self) {
        self.set(NOTHING);
        self.has_strides = false;
        if self.holder == Holder::Caller {
            self.holder = Holder::CallerIfAsked;
        }
    }

    pub fn set(&mut self, array: cai_array) {
        let before = std::mem::replace(&mut self.array, array);
        release(&before);
    }

    /// Returns true once an owner keeps the array alive, or the caller is to do it.
    #[inline]
    pub fn is_found(&self) -> bool {
        !self.array.owner.is_null() || self.holder == Holder::Caller
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

    pub fn extents(&self) -> &[i64] {
        let count = (self.array.ndim.max(0) as usize).min(DIMENSIONS);
        // SAFETY: code that sets `ndim` initializes as many extents.
        unsafe { std::slice::from_raw_parts(self.shape.as_ptr().cast(), count) }
    }

    #[inline]
    pub fn set_typestr(&mut self, text: &[u8]) {
        write_typestr(text, &mut self.array.typestr);
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.extents().contains(&0)
    }
}

/// Writes a typestr, padded with NULs.
#[inline(always)]
pub fn write_typestr(text: &[u8], to: &mut [c_char; CAI_TYPESTR_SIZE]) {
    *to = [0; CAI_TYPESTR_SIZE];
    if let [order, kind, size] = *text {
        // Nearly all typestrs have three characters, for which no call is needed.
        let [first, second, third, ..] = to;
        (*first, *second, *third) = (order as _, kind as _, size as _);
        return;
    }
    for (to, from) in to[..CAI_TYPESTR_SIZE - 1].iter_mut().zip(text) {
        *to = *from as c_char;
    }
}

fn release(array: &cai_array) {
    if !array.owner.is_null() {
        // SAFETY: a description holds one reference to the owner of its array.
        drop(unsafe { Ref::adopt(array.owner) });
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
    deferred: Deferred,
    interpreter: &'static Interpreter,
    size: usize,
}

/// The size of owners of arrays with up to eight dimensions, or of a few dimensions and four fields
/// or a mask. Their memory comes from a free list and returns to it: repeated imports allocate
/// nothing.
const POOLED: usize = size_of::<ObjectOwner>() + 5 * 8 * size_of::<i64>();

/// Memory for an owner and what is behind it, that nothing uses. Freed when dropped.
struct Block<'py> {
    py: Py<'py>,
    memory: NonNull<ObjectOwner>,
    size: usize,
}

impl<'py> Block<'py> {
    /// Allocates at least `size` bytes, which is at least the size of an owner.
    #[inline(always)]
    fn new(py: Py<'py>, size: usize) -> Result<Self> {
        let size = size.max(POOLED);
        let pooled = if size == POOLED { py.free_list().take() } else { None };
        // SAFETY: the size is not zero.
        let allocate = || NonNull::new(unsafe { alloc(layout(size)) });
        match pooled.or_else(allocate) {
            Some(memory) => Ok(Block { py, memory: memory.cast(), size }),
            None => Err(Failure::no_memory(size)),
        }
    }

    /// Allocates memory with a copy of fields in it, behind its first `start` bytes.
    #[cold]
    #[inline(never)]
    fn with_fields(py: Py<'py>, start: usize, fields: &Fields) -> Result<(Self, *const cai_descr)> {
        let mut measure = Arena::measure(start);
        measure.put_fields(fields)?;
        let block = Block::new(py, measure.used())?;
        let descr = block.arena(start).put_fields(fields)?;
        Ok((block, descr))
    }

    /// Returns the memory behind the first `start` bytes, to be filled while the block exists.
    #[inline(always)]
    fn arena(&self, start: usize) -> Arena {
        // SAFETY: memory of this size that nothing uses, aligned for an owner and so for pointers.
        unsafe { Arena::fill(self.memory.as_ptr().cast(), start, self.size) }
    }

    #[inline(always)]
    fn into_raw(self) -> NonNull<ObjectOwner> {
        ManuallyDrop::new(self).memory
    }
}

impl Drop for Block<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let memory = self.memory.cast();
        // SAFETY: all blocks of the pooled size are alike, and others were allocated with this
        // layout; nothing uses this one.
        unsafe {
            if self.size != POOLED || !self.py.free_list().put(memory) {
                dealloc(memory.as_ptr(), layout(self.size));
            }
        }
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
    own(py, array, Held::objects(object, more), fields)
}

/// Gives an array an owner of a tensor, which is deleted with the GIL held; on failure at once.
#[inline(always)]
pub fn attach_tensor(py: Py, array: &mut cai_array, tensor: ManagedTensor) -> Result<()> {
    let (deleter, tensor) = (tensor.deleter().0, tensor.into_raw());
    // SAFETY: the deleter takes the tensor that it belongs to, which was given up above.
    let destructor = unsafe { Destructor::new(deleter, tensor) };
    own(py, array, Held::destructor(destructor), None)
}

/// Gives an array an owner of a buffer, which is released with the GIL held; on failure at once.
pub fn attach_buffer(py: Py, array: &mut cai_array, buffer: Buffer) -> Result<()> {
    own(py, array, Held::destructor(buffer.into_destructor()), None)
}

/// Gives an array an owner that also holds a copy of common fields: those of a list of so many. They
/// are not checked. Returns false, and has done nothing, if one is not common or there are too many.
#[inline(always)]
pub fn attach_with_common_fields<'py, 'a>(
    py: Py<'py>,
    array: &mut cai_array,
    object: Obj,
    count: usize,
    field: impl Fn(usize) -> Option<CommonField<'a>>,
) -> Result<bool> {
    let block = Block::new(py, POOLED)?;
    let Some(descr) = block.arena(end_of_rows(array)).put_common_fields(count, field) else {
        return Ok(false);
    };
    array.descr = descr;
    place(py, array, Held::objects(object.share(py), None), block);
    Ok(true)
}

/// Gives an array an owner that also holds a mask and the mask's object. The mask is not checked.
/// Returns false, and has done nothing, if the two have too many dimensions.
pub fn attach_with_mask(
    py: Py,
    array: &mut cai_array,
    object: Obj,
    mask: Unchecked,
    mask_object: Obj,
) -> Result<bool> {
    let block = Block::new(py, POOLED)?;
    let owner = block.memory.cast().as_ptr();
    let Some(mask) = block.arena(end_of_rows(array)).put_common_mask(mask, owner) else {
        return Ok(false);
    };
    array.mask = mask;
    // The first one is released first: the mask may need the data.
    place(py, array, Held::objects(mask_object.share(py), Some(object.share(py))), block);
    Ok(true)
}

#[inline(always)]
fn own(py: Py, array: &mut cai_array, held: Held, fields: Option<&Fields>) -> Result<()> {
    let block = match fields {
        None => Block::new(py, end_of_rows(array)),
        Some(fields) => Block::with_fields(py, end_of_rows(array), fields).map(|(block, descr)| {
            array.descr = descr;
            block
        }),
    };
    match block {
        Ok(block) => {
            place(py, array, held, block);
            Ok(())
        }
        Err(failure) => {
            held.release(py);
            Err(failure)
        }
    }
}

/// Returns the size of an owner that holds an array's shape and strides.
#[inline(always)]
fn end_of_rows(array: &cai_array) -> usize {
    let rows = if array.strides.is_null() { 1 } else { 2 };
    size_of::<ObjectOwner>() + rows * array.ndim as usize * size_of::<i64>()
}

/// Makes the owner in a block of at least [`end_of_rows`].
#[inline(always)]
fn place(py: Py, array: &mut cai_array, held: Held, block: Block) {
    let ndim = array.ndim as usize;
    let (size, owner) = (block.size, block.into_raw());
    // SAFETY: the block has space for the structure and for the rows behind it, which have the
    // alignment of pointers; `array`'s own have as many values. `free` frees such a block.
    unsafe {
        owner.write(ObjectOwner {
            header: Header::new(destroy),
            deferred: Deferred::new(held, free),
            interpreter: py.interpreter(),
            size,
        });
        let values = owner.add(1).cast::<i64>().as_ptr();
        if ndim > 0 {
            copy(array.shape, values, ndim);
            array.shape = values;
            if !array.strides.is_null() {
                copy(array.strides, values.add(ndim), ndim);
                array.strides = values.add(ndim);
            }
        }
    }
    array.owner = owner.cast::<cai_owner>().as_ptr();
}

unsafe fn destroy(owner: GivenUp) {
    let owner = owner.as_ptr().cast::<ObjectOwner>();
    // SAFETY: only `own` installs this function, in the header of an `ObjectOwner`, and the last
    // reference was released.
    unsafe {
        let deferred = NonNull::new_unchecked(&raw mut (*owner).deferred);
        Ended::new(deferred).release_from_anywhere((*owner).interpreter);
    }
}

/// Frees the memory of an owner that was destroyed.
unsafe fn free(py: Py, deferred: NonNull<Deferred>) {
    // SAFETY: only `own` makes one, in an owner with the size of its memory.
    let (memory, size) = unsafe {
        let owner = deferred.byte_sub(offset_of!(ObjectOwner, deferred)).cast::<ObjectOwner>();
        (owner, (*owner.as_ptr()).size)
    };
    drop(Block { py, memory, size });
}

/// Copies numbers. Nearly all arrays have few dimensions, for which no call is needed.
///
/// # Safety
/// `count` values at `from` are readable, as many at `to` are writable, and they do not overlap.
#[inline(always)]
unsafe fn copy(from: *const i64, to: *mut i64, count: usize) {
    // SAFETY: each arm copies `count` values, which are readable and writable (this function's
    // contract).
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
