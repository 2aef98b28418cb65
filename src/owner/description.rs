//! An owner that holds a copied description: one block of memory with the count, the owner of the
//! data, and shape, strides, fields and masks behind them.
//!
//! May use: `abi`, `error`, `raw`. `unsafe`: writes into the block that it allocated.
//!
//! The copy runs twice over the same code, once to measure and once to write. If somebody changes
//! the description in between, which its contract forbids, the writer runs out of room and says so.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_char;
use std::mem::{align_of, size_of};
use std::ptr;

use super::Header;
use crate::abi::{CAI_MAX_MASKS, cai_array, cai_descr, cai_field, cai_owner};
use crate::error::{Failure, Result, fail};
use crate::read::{self, Descr};

const MAX_OWNERS: usize = CAI_MAX_MASKS as usize + 1;

#[repr(C)]
struct Block {
    header: Header,
    size: usize,
    /// The owner of the data and those of the masks, one reference each.
    owners: [*mut cai_owner; MAX_OWNERS],
    owner_count: usize,
}

/// Memory that is handed out piece by piece; without a base it only measures.
struct Arena {
    base: *mut u8,
    used: usize,
    size: usize,
}

impl Arena {
    /// The next piece; NULL while measuring.
    fn take<T>(&mut self, count: usize) -> Result<*mut T> {
        let start = self.used.next_multiple_of(align_of::<T>());
        let end = size_of::<T>().checked_mul(count).and_then(|bytes| start.checked_add(bytes));
        let Some(end) = end.filter(|end| *end <= self.size) else {
            return fail!(
                CAI_ERR_INTERNAL,
                "description",
                found = ("more memory needed than {} bytes", self.size),
                expected = "a description that does not change while it is copied"
            );
        };
        self.used = end;
        if self.base.is_null() {
            Ok(ptr::null_mut())
        } else {
            // SAFETY: `start` is within the block.
            Ok(unsafe { self.base.add(start) }.cast())
        }
    }

    fn put<T: Copy>(&mut self, values: &[T]) -> Result<*const T> {
        let to = self.take::<T>(values.len())?;
        if !to.is_null() {
            // SAFETY: `take` answered room for as many values; fresh memory overlaps nothing.
            unsafe { ptr::copy_nonoverlapping(values.as_ptr(), to, values.len()) };
        }
        Ok(to)
    }

    fn put_text(&mut self, text: &str) -> Result<*const c_char> {
        let to = self.take::<u8>(text.len() + 1)?;
        if !to.is_null() {
            // SAFETY: `take` answered room for the text and its NUL.
            unsafe {
                ptr::copy_nonoverlapping(text.as_ptr(), to, text.len());
                to.add(text.len()).write(0);
            }
        }
        Ok(to.cast_const().cast())
    }

    fn put_descr(&mut self, from: Descr) -> Result<*const cai_descr> {
        let descr = self.take::<cai_descr>(1)?;
        let rows = self.take::<cai_field>(from.count as usize)?;
        for (index, field) in from.fields().enumerate() {
            let shape = field.shape()?;
            let row = cai_field {
                name: self.put_text(field.name()?)?,
                title: match field.title()? {
                    Some(title) => self.put_text(title)?,
                    None => ptr::null(),
                },
                nested: match field.nested()? {
                    Some(nested) => self.put_descr(nested)?,
                    None => ptr::null(),
                },
                shape: if shape.is_empty() { ptr::null() } else { self.put(shape)? },
                ..field.raw
            };
            if !rows.is_null() {
                // SAFETY: `take` answered room for `count` rows, and `index` is below that.
                unsafe { rows.add(index).write(row) };
            }
        }
        if !descr.is_null() {
            // SAFETY: `take` answered room for it.
            unsafe {
                descr.write(cai_descr {
                    struct_size: size_of::<cai_descr>() as u32,
                    field_size: size_of::<cai_field>() as u32,
                    count: from.count,
                    fields: rows,
                });
            }
        }
        Ok(descr)
    }

    /// The description with all that it points to in this room, and `owner` as its owner and that
    /// of its masks. The owners that the masks had are added to `owners`.
    ///
    /// # Safety
    /// `from` was validated and is unchanged since.
    unsafe fn put_description(
        &mut self,
        from: &cai_array,
        owner: *mut cai_owner,
        owners: &mut Owners,
    ) -> Result<cai_array> {
        // SAFETY: handed on.
        let (shape, strides) = unsafe { read::shape_and_strides(from) }?;
        let mut to = *from;
        to.struct_size = size_of::<cai_array>() as u32;
        to.owner = owner;
        to.shape = if shape.is_empty() { ptr::null() } else { self.put(shape)? };
        to.strides = match strides {
            // No strides and none given for no dimensions are the same.
            Some(strides) if !strides.is_empty() => self.put(strides)?,
            _ => ptr::null(),
        };
        if !from.descr.is_null() {
            // SAFETY: not NULL; handed on.
            to.descr = self.put_descr(unsafe { Descr::new(from.descr) }?)?;
        }
        if !from.mask.is_null() {
            let mask = self.take::<cai_array>(1)?;
            // SAFETY: not NULL; handed on.
            let source = unsafe { read::array(from.mask) }?;
            owners.add(source.owner)?;
            // SAFETY: handed on.
            let copy = unsafe { self.put_description(&source, owner, owners) }?;
            if !mask.is_null() {
                // SAFETY: `take` answered room for it.
                unsafe { mask.write(copy) };
            }
            to.mask = mask;
        }
        Ok(to)
    }
}

/// The owners that a block lets go when it is destroyed.
struct Owners {
    list: [*mut cai_owner; MAX_OWNERS],
    count: usize,
}

impl Owners {
    fn add(&mut self, owner: *mut cai_owner) -> Result<()> {
        if owner.is_null() {
            return Ok(());
        }
        match self.list.get_mut(self.count) {
            Some(place) => *place = owner,
            None => {
                return fail!(
                    CAI_ERR_MASK_DEPTH,
                    "mask",
                    found = "more masks",
                    expected = "at most {CAI_MAX_MASKS}"
                );
            }
        }
        self.count += 1;
        Ok(())
    }
}

/// Copies a description into a block that owns it. The reference in `from.owner` goes to the block;
/// the owners of masks are retained. On failure nothing has changed hands.
///
/// # Safety
/// `from` was validated, is unchanged since, and has an owner.
pub unsafe fn new(from: &cai_array) -> Result<cai_array> {
    // SAFETY: the owner is there by contract.
    unsafe { super::check(from.owner) }?;
    let mut owners = Owners { list: [ptr::null_mut(); MAX_OWNERS], count: 0 };
    owners.add(from.owner)?;
    let mut measure =
        Arena { base: ptr::null_mut(), used: size_of::<Block>(), size: isize::MAX as usize };
    // SAFETY: handed on.
    unsafe { measure.put_description(from, ptr::null_mut(), &mut owners) }?;

    let size = measure.used;
    let layout = layout(size);
    // SAFETY: at least as large as a `Block`.
    let block = unsafe { alloc(layout) }.cast::<Block>();
    if block.is_null() {
        return Err(Failure::no_memory(size));
    }
    let fill = || {
        let mut arena = Arena { base: block.cast(), used: size_of::<Block>(), size };
        let mut again = Owners { list: [ptr::null_mut(); MAX_OWNERS], count: 0 };
        // SAFETY: handed on.
        let array = unsafe { arena.put_description(from, block.cast(), &mut again) }?;
        for index in 1..owners.count {
            // SAFETY: the masks' owners are alive by contract.
            if let Err(failure) = unsafe { super::retain(owners.list[index]) } {
                for owner in &owners.list[1..index] {
                    // SAFETY: retained just now.
                    unsafe { super::release(*owner) };
                }
                return Err(failure.within("mask."));
            }
        }
        Ok(array)
    };
    match fill() {
        Ok(array) => {
            let header = Header::new(destroy);
            // SAFETY: the block begins with room for this, which `Arena` left alone.
            unsafe {
                block.write(Block { header, size, owners: owners.list, owner_count: owners.count })
            };
            Ok(array)
        }
        Err(failure) => {
            // SAFETY: allocated above with this layout.
            unsafe { dealloc(block.cast(), layout) };
            Err(failure)
        }
    }
}

fn layout(size: usize) -> Layout {
    // SAFETY: the alignment is a power of two, and `Arena` kept the size below isize::MAX.
    unsafe { Layout::from_size_align_unchecked(size, align_of::<Block>()) }
}

unsafe fn destroy(header: *mut Header) {
    // SAFETY: only `new` installs this function, on a `Block` that it allocated.
    let Block { size, owners, owner_count, .. } = unsafe { header.cast::<Block>().read() };
    // SAFETY: allocated in `new` with this layout.
    unsafe { dealloc(header.cast(), layout(size)) };
    // The data goes last: a mask's owner may hang on it.
    for owner in owners[..owner_count].iter().rev() {
        // SAFETY: the block held one reference to each.
        unsafe { super::release(*owner) };
    }
}

/// Copies a list of fields into a block that owns it: the list and its owner, with one reference.
///
/// # Safety
/// What `from` points to was checked and is unchanged since.
pub unsafe fn new_descr(from: Descr) -> Result<(*const cai_descr, *mut cai_owner)> {
    let mut measure =
        Arena { base: ptr::null_mut(), used: size_of::<Block>(), size: isize::MAX as usize };
    measure.put_descr(from)?;
    let size = measure.used;
    // SAFETY: at least as large as a `Block`.
    let block = unsafe { alloc(layout(size)) }.cast::<Block>();
    if block.is_null() {
        return Err(Failure::no_memory(size));
    }
    let mut arena = Arena { base: block.cast(), used: size_of::<Block>(), size };
    match arena.put_descr(from) {
        Ok(descr) => {
            let header = Header::new(destroy);
            let owners = [ptr::null_mut(); MAX_OWNERS];
            // SAFETY: the block begins with room for this, which `Arena` left alone.
            unsafe { block.write(Block { header, size, owners, owner_count: 0 }) };
            Ok((descr, block.cast()))
        }
        Err(failure) => {
            // SAFETY: allocated above with this layout.
            unsafe { dealloc(block.cast(), layout(size)) };
            Err(failure)
        }
    }
}
