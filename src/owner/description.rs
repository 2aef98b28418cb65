//! An owner that holds a copied description: one block of memory with the count, references to the
//! owners of data and masks, a callback, and shape, strides, fields and masks behind them.
//!
//! The copy runs the same code twice, first to measure and then to write. If the description
//! changes in between, which its contract forbids, the arena is too small and the copy fails.

use std::ffi::c_char;
use std::mem::{MaybeUninit, align_of, size_of};
use std::ptr;

use super::block::{self, Contents};
use super::{Array, Borrowed, Destructor, Ref, shape};
use crate::abi::{
    self, CAI_MAX_MASKS, CAI_TYPESTR_SIZE, cai_array, cai_descr, cai_field, cai_owner,
};
use crate::dtype::fields::Fields;
use crate::error::{Count, Result, fail, failure};
use crate::read::{Descr, Given, Unchecked};

const MAX_OWNERS: usize = CAI_MAX_MASKS as usize + 1;
/// The bytes before the description.
const HEAD: usize = block::Space::<Held>::HEAD;

/// Contents of the owner. The description follows it in memory.
struct Held {
    /// References to the owners of the data and of the masks, in this order, without gaps.
    owners: [Option<Ref>; MAX_OWNERS],
    /// Runs after the owners were released.
    destructor: Destructor,
}

impl Contents for Held {
    /// The data's owner, the first one, is released after those of the masks, which may need it.
    fn first(&mut self) -> Option<Ref> {
        let last = self.owners.iter().rposition(Option::is_some).unwrap_or_default();
        if last > 0 || self.destructor.is_some() { self.owners[last].take() } else { None }
    }

    fn end(self) {
        drop(self.owners);
        self.destructor.run();
    }
}

/// Space for values in the block of an arena; none while it measures. Used while the block exists.
struct Space<T> {
    start: *mut T,
    count: usize,
}

impl<T> Space<T> {
    #[inline(always)]
    fn write(&self, index: usize, value: T) {
        assert!(index < self.count);
        if !self.start.is_null() {
            // SAFETY: the arena gave space for `count` values, and `index` is below it.
            unsafe { self.start.add(index).write(value) };
        }
    }

    #[inline(always)]
    fn write_all(&self, values: &[T])
    where
        T: Copy,
    {
        assert!(values.len() == self.count);
        if !self.start.is_null() {
            // SAFETY: the arena gave space for so many values. The block is fresh, so it overlaps
            // nothing.
            unsafe { ptr::copy_nonoverlapping(values.as_ptr(), self.start, values.len()) };
        }
    }
}

/// A field as nearly all are: a name, a type, and perhaps a sub-array of a few dimensions.
pub struct CommonField<'a> {
    /// Without a NUL.
    pub name: &'a [u8],
    pub typestr: [c_char; CAI_TYPESTR_SIZE],
    pub extents: [i64; 4],
    /// At most 4.
    pub ndim: usize,
}

/// A bump allocator over one block; without a base it only measures.
pub struct Arena {
    base: *mut u8,
    used: usize,
    size: usize,
}

impl Arena {
    /// Measures what a block needs behind its first `used` bytes.
    pub fn measure(used: usize) -> Self {
        Arena { base: ptr::null_mut(), used, size: isize::MAX as usize }
    }

    /// Fills a block of `size` bytes behind its first `used` bytes.
    ///
    /// # Safety
    /// `size` bytes at `base` are writable, unused behind the first `used`, and aligned for every
    /// type of a description.
    pub unsafe fn fill(base: *mut u8, used: usize, size: usize) -> Self {
        Arena { base, used, size }
    }

    /// Returns the bytes in use, with those before the arena.
    pub fn used(&self) -> usize {
        self.used
    }

    fn take<T>(&mut self, count: usize) -> Result<Space<T>> {
        let size = self.size;
        self.take_if_there(count).ok_or_else(|| {
            failure!(abi::CAI_ERR_INTERNAL, "description";
                found "a description of more than {}", Count(size, "byte");
                expected "a description that does not change while it is copied")
        })
    }

    #[inline(always)]
    fn take_if_there<T>(&mut self, count: usize) -> Option<Space<T>> {
        let start = self.used.next_multiple_of(align_of::<T>());
        let end = size_of::<T>().checked_mul(count).and_then(|bytes| start.checked_add(bytes));
        self.used = end.filter(|end| *end <= self.size)?;
        let is_measure = self.base.is_null();
        // Not more than `self.size`, as checked above, so inside the block.
        let start = if is_measure { ptr::null_mut() } else { self.base.wrapping_add(start) };
        Some(Space { start: start.cast(), count })
    }

    fn put<T: Copy>(&mut self, values: &[T]) -> Result<*const T> {
        let to = self.take::<T>(values.len())?;
        to.write_all(values);
        Ok(to.start)
    }

    #[inline(always)]
    fn put_if_there<T: Copy>(&mut self, values: &[T]) -> Option<*const T> {
        let to = self.take_if_there::<T>(values.len())?;
        to.write_all(values);
        Some(to.start)
    }

    fn put_text(&mut self, text: &[u8]) -> Result<*const c_char> {
        let characters = self.put(text)?;
        self.put(b"\0")?;
        Ok(characters.cast())
    }

    fn put_descr(&mut self, from: Descr) -> Result<*const cai_descr> {
        let descr = self.take::<cai_descr>(1)?;
        let rows = self.take::<cai_field>(from.count as usize)?;
        for (index, field) in from.fields().enumerate() {
            let shape = field.shape()?;
            let row = cai_field {
                name: self.put_text(field.name()?.as_bytes())?,
                title: match field.title()? {
                    Some(title) => self.put_text(title.as_bytes())?,
                    None => ptr::null(),
                },
                nested: match field.nested()? {
                    Some(nested) => self.put_descr(nested)?,
                    None => ptr::null(),
                },
                shape: if shape.is_empty() { ptr::null() } else { self.put(shape)? },
                ..*field
            };
            rows.write(index, row);
        }
        descr.write(0, list_of(rows.start, rows.count));
        Ok(descr.start)
    }

    /// Copies fields that were read: lists, rows in the order of their lists, extents and texts.
    pub fn put_fields(&mut self, fields: &Fields) -> Result<*const cai_descr> {
        let lists = self.take::<cai_descr>(fields.lists().len())?;
        let rows = self.take::<cai_field>(fields.row_count())?;
        let extents = self.put(fields.extents())?;
        let texts = self.put(fields.texts())?.cast::<c_char>();
        if lists.start.is_null() {
            return Ok(ptr::null());
        }
        let mut end = 0;
        for (place, list) in fields.lists().enumerate() {
            let start = end;
            for from in fields.rows(list) {
                let row = cai_field {
                    name: texts.wrapping_add(from.name),
                    title: match from.title() {
                        Some(title) => texts.wrapping_add(title),
                        None => ptr::null(),
                    },
                    typestr: from.typestr,
                    nested: match from.nested() {
                        Some(nested) => lists.start.wrapping_add(nested),
                        None => ptr::null(),
                    },
                    shape: if from.ndim == 0 {
                        ptr::null()
                    } else {
                        extents.wrapping_add(from.shape)
                    },
                    ndim: from.ndim as i32,
                    dtype_code: abi::CAI_DTYPE_NONE,
                    reserved: 0,
                };
                rows.write(end, row);
                end += 1;
            }
            lists.write(place, list_of(rows.start.wrapping_add(start), end - start));
        }
        Ok(lists.start)
    }

    /// Copies the common fields of a list, whose rules are not checked. `None`: there is no space, or
    /// one is not common.
    pub fn put_common_fields<'a>(
        &mut self,
        count: usize,
        field: impl Fn(usize) -> Option<CommonField<'a>>,
    ) -> Option<*const cai_descr> {
        let descr = self.take_if_there::<cai_descr>(1)?;
        let rows = self.take_if_there::<cai_field>(count)?;
        for index in 0..count {
            let CommonField { name, typestr, extents, ndim } = field(index)?;
            let shape = match extents.get(..ndim)? {
                [] => ptr::null(),
                shape => self.put_if_there(shape)?,
            };
            let name = self.put_if_there(name)?;
            self.put_if_there(b"\0")?;
            let row = cai_field {
                name: name.cast(),
                title: ptr::null(),
                typestr,
                nested: ptr::null(),
                shape,
                ndim: ndim as i32,
                dtype_code: abi::CAI_DTYPE_NONE,
                reserved: 0,
            };
            rows.write(index, row);
        }
        descr.write(0, list_of(rows.start, count));
        Some(descr.start)
    }

    /// Copies a mask without fields and a mask of its own, for `owner`. `None`: there is no space.
    pub fn put_common_mask(
        &mut self,
        mask: Unchecked,
        owner: *mut cai_owner,
    ) -> Option<*const cai_array> {
        let copy = self.take_if_there::<cai_array>(1)?;
        let (shape, strides) = mask.common_dimensions()?;
        let mut put = |row: &[i64]| match row {
            [] => Some(ptr::null()),
            row => self.put_if_there(row),
        };
        let (shape, strides) = (put(shape)?, put(strides.unwrap_or_default())?);
        copy.write(0, cai_array { owner, shape, strides, ..*mask });
        Some(copy.start)
    }

    /// Copies the description with all that it points to, with `owner` as its owner and that of its
    /// masks. The owners that the masks had are added to `owners`.
    fn put_description<'a>(
        &mut self,
        from: Unchecked<'_, 'a>,
        owner: *mut cai_owner,
        owners: &mut Owners<'a>,
    ) -> Result<cai_array> {
        let (shape, strides) = from.dimensions()?;
        let mut to = *from;
        to.struct_size = size_of::<cai_array>() as u32;
        to.owner = owner;
        to.shape = if shape.is_empty() { ptr::null() } else { self.put(shape)? };
        to.strides = match strides {
            // Strides without dimensions are the same as no strides.
            Some(strides) if !strides.is_empty() => self.put(strides)?,
            _ => ptr::null(),
        };
        if let Some(fields) = from.fields()? {
            to.descr = self.put_descr(fields)?;
        }
        let mut scratch = MaybeUninit::uninit();
        if let Some(source) = from.mask_or_null(&mut scratch)? {
            let mask = self.take::<cai_array>(1)?;
            owners.add(source.owner())?;
            mask.write(0, self.put_description(source, owner, owners)?);
            to.mask = mask.start;
        }
        Ok(to)
    }
}

fn list_of(fields: *const cai_field, count: usize) -> cai_descr {
    cai_descr {
        struct_size: size_of::<cai_descr>() as u32,
        field_size: size_of::<cai_field>() as u32,
        count: count as u64,
        fields,
    }
}

/// The owners of an array and of its masks, which another owner will hold.
struct Owners<'a> {
    list: [Option<Borrowed<'a>>; MAX_OWNERS],
    count: usize,
}

impl<'a> Owners<'a> {
    fn none() -> Self {
        Owners { list: [None; MAX_OWNERS], count: 0 }
    }

    fn add(&mut self, owner: Option<Borrowed<'a>>) -> Result<()> {
        if owner.is_none() {
            return Ok(());
        }
        match self.list.get_mut(self.count) {
            Some(place) => *place = owner,
            None => {
                return fail!(CAI_ERR_MASK_DEPTH, "mask";
                    found "a longer chain of masks"; expected "at most {CAI_MAX_MASKS}");
            }
        }
        self.count += 1;
        Ok(())
    }
}

/// A copied description in memory for its owner: from here, nothing can fail. Holds a reference to
/// each owner of the description.
pub struct Prepared {
    array: cai_array,
    rest: Rest,
}

/// Parts of an owner that is not made yet.
enum Rest {
    /// The common case, three times as fast: neither fields nor masks.
    Plain(shape::Prepared, Option<Ref>),
    Block(block::Space<Held>, [Option<Ref>; MAX_OWNERS]),
}

/// Copies a description, which was validated, into memory for an owner. On failure nothing is
/// retained.
pub fn prepare(from: Unchecked) -> Result<Prepared> {
    if from.descr.is_null() && from.mask.is_null() {
        return prepare_plain(from);
    }
    let mut owners = Owners::none();
    owners.add(from.owner())?;
    let mut measure = Arena::measure(HEAD);
    measure.put_description(from, ptr::null_mut(), &mut owners)?;

    let size = measure.used;
    let memory = block::Space::<Held>::new(size)?;
    // SAFETY: fresh memory of this size, which is aligned for an owner.
    let mut arena = unsafe { Arena::fill(memory.start(), HEAD, size) };
    let owner = memory.start().cast();
    let array = arena.put_description(from, owner, &mut Owners::none())?;
    let mut held = [const { None }; MAX_OWNERS];
    for (index, (place, owner)) in
        held.iter_mut().zip(owners.list.iter().map_while(|owner| *owner)).enumerate()
    {
        *place = Some(owner.retain().map_err(|failure| {
            let of_data = index == 0 && !from.owner.is_null();
            if of_data { failure } else { failure.in_mask(1) }
        })?);
    }
    Ok(Prepared { array, rest: Rest::Block(memory, held) })
}

fn prepare_plain(from: Unchecked) -> Result<Prepared> {
    let (shape, strides) = from.dimensions()?;
    let owner = from.owner().map(Borrowed::retain).transpose()?;
    let rest = Rest::Plain(shape::prepare(shape, strides)?, owner);
    Ok(Prepared { array: cai_array { struct_size: size_of::<cai_array>() as u32, ..*from }, rest })
}

impl Prepared {
    /// Makes the array with its owner. When the last reference is released, it releases the owners
    /// of the description and then calls the destructor.
    pub fn finish(self, destructor: Destructor) -> Array {
        let Prepared { array, rest } = self;
        match rest {
            Rest::Plain(prepared, first) => {
                let shape::Owned { owner, shape, strides } = prepared.finish(first, destructor);
                Array::new(cai_array { shape, strides, ..array }, owner)
            }
            Rest::Block(space, owners) => {
                Array::new(array, space.finish(Held { owners, destructor }))
            }
        }
    }
}

pub struct OwnedFields {
    descr: *const cai_descr,
    owner: Ref,
}

impl OwnedFields {
    /// Returns the list, whose rules are not checked.
    pub fn fields(&self) -> Result<Descr<'_>> {
        // SAFETY: the owner keeps the list alive as long as the result is borrowed from this.
        unsafe { Given::new(self.descr) }.fields()
    }

    /// Returns the address of the list, which lives as long as this.
    pub fn as_ptr(&self) -> *const cai_descr {
        self.descr
    }

    pub fn into_parts(self) -> (*const cai_descr, Ref) {
        (self.descr, self.owner)
    }
}

/// Copies a list of fields that was read into a block that owns it.
pub fn new_descr(fields: &Fields) -> Result<OwnedFields> {
    let mut measure = Arena::measure(HEAD);
    measure.put_fields(fields)?;
    let size = measure.used;
    let memory = block::Space::<Held>::new(size)?;
    // SAFETY: fresh memory of this size, which is aligned for an owner.
    let mut arena = unsafe { Arena::fill(memory.start(), HEAD, size) };
    let descr = arena.put_fields(fields)?;
    let held = Held { owners: [const { None }; MAX_OWNERS], destructor: Destructor::NONE };
    let owner = memory.finish(held);
    Ok(OwnedFields { descr, owner })
}
