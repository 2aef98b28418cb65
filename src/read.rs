//! Reads and writes the structures of a caller, whatever age of the headers it was compiled with.
//!
//! A structure states its size. That member is read by itself first; no reference to the whole is
//! made before. As many bytes as both sides know are then copied into a local, and what the writer
//! did not know is zero. [`sizes`] are the limits. What a structure contains is still unchecked:
//! that is the work of `validate`.

use std::ffi::{CStr, c_char};
use std::marker::PhantomData;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::ops::Deref;
use std::ptr::NonNull;
use std::{ptr, slice};

use crate::abi::{
    self, CAI_TYPESTR_SIZE, cai_array, cai_descr, cai_device, cai_export_options, cai_field,
    cai_import_options, cai_owner_ops,
};
use crate::error::{Count, Failure, Result, fail, failure};
use crate::flags::{self, Named};

/// Sizes of the first release. A structure of any age is at least that long, so these numbers never
/// change; today's headers may know more. They are literals because the size of today's structure
/// would refuse everything that is older.
pub(crate) mod sizes {
    /// Prefix of every array: size, flags and owner.
    pub(crate) const PREFIX: usize = 16;
    pub(crate) const ARRAY: usize = 128;
    pub(crate) const OPERATIONS: usize = 24;
    pub(crate) const DESCR: usize = 24;
    pub(crate) const FIELD: usize = 56;
    pub(crate) const EXCHANGE_API: usize = 24;
    pub(crate) const IMPORT_OPTIONS: usize = 64;
    pub(crate) const EXPORT_OPTIONS: usize = 8;
    /// No age of any structure will be longer: a larger size is garbage.
    pub(crate) const MAX: usize = 512;
}

/// A structure that may grow at its end.
///
/// # Safety
/// Each member is an integer, a raw pointer or an array of those, so that all bytes zero is a
/// value. Its size is a multiple of 8.
pub(crate) unsafe trait Growing: Copy {
    /// The type's name in the headers.
    const NAME: &str;
    /// Size in the first release.
    const FIRST: usize;
}

/// A structure that begins with its size, a `u32`, and may grow at its end.
///
/// # Safety
/// It does.
pub(crate) unsafe trait StatesSize {}

macro_rules! growing {
    ($($name:ident: $first:expr),+ $(,)?) => {$(
        // SAFETY: `abi` declares it with such members only, and the size is checked below.
        unsafe impl Growing for $name {
            const NAME: &str = stringify!($name);
            const FIRST: usize = $first;
        }
        const _: () = assert!(size_of::<$name>() >= $first && size_of::<$name>() % 8 == 0);
    )+};
}

growing! {
    cai_array: sizes::ARRAY,
    cai_descr: sizes::DESCR,
    cai_field: sizes::FIELD,
    cai_import_options: sizes::IMPORT_OPTIONS,
    cai_export_options: sizes::EXPORT_OPTIONS,
}

macro_rules! states_size {
    ($($name:ident),+ $(,)?) => {$(
        // SAFETY: the first member is the size, which is checked below.
        unsafe impl StatesSize for $name {}
        const _: () = assert!(offset_of!($name, struct_size) == 0);
    )+};
}

states_size! { cai_array, cai_descr, cai_import_options, cai_export_options, cai_owner_ops }

/// Returns true if some age of a structure can have this size.
#[inline(always)]
pub(crate) fn is_legal(size: usize, first: usize) -> bool {
    // Nearly always it is the first comparison that decides.
    size == first || size > first && size <= sizes::MAX && size % 8 == 0
}

/// A value of another side, which is only read: of a C caller, or what such a value points to.
pub struct Given<'a, T>(NonNull<T>, PhantomData<&'a T>);

impl<T> Clone for Given<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Given<'_, T> {}

impl<'a, T> Given<'a, T> {
    /// # Safety
    /// `value` points to a `T`. It is readable and unchanged for `'a`, with all that it points to,
    /// and its owners are alive as long. A structure that states its size has that size.
    #[inline(always)]
    pub unsafe fn new(value: *const T) -> Self {
        // SAFETY: it points to a value (this function's contract).
        Given(unsafe { NonNull::new_unchecked(value.cast_mut()) }, PhantomData)
    }

    /// # Safety
    /// `value` is NULL, or as for [`new`](Self::new).
    #[inline(always)]
    pub unsafe fn optional(value: *const T) -> Option<Self> {
        Some(Given(NonNull::new(value.cast_mut())?, PhantomData))
    }

    #[inline(always)]
    pub fn as_ptr(self) -> *const T {
        self.0.as_ptr()
    }
}

impl<'a, T: StatesSize> Given<'a, T> {
    #[inline(always)]
    pub fn size(self) -> usize {
        // SAFETY: it begins with an aligned `u32` (the contracts of `new` and `StatesSize`).
        unsafe { self.0.cast::<u32>().read() as usize }
    }

    /// Returns the structure in place, unless it is shorter than this library's.
    #[inline(always)]
    fn whole(self) -> Option<&'a T> {
        if self.size() < size_of::<T>() {
            return None;
        }
        // SAFETY: it has the size that it states (the contract of `new`), which suffices.
        Some(unsafe { self.0.as_ref() })
    }

    /// Returns a structure whose writer knows as much as this library.
    #[inline(always)]
    pub fn of_this_size(self) -> Option<&'a T> {
        if self.size() == size_of::<T>() { self.whole() } else { None }
    }
}

impl<'a, T: Growing + StatesSize> Given<'a, T> {
    /// Returns the bytes of the structure, or the size that it states if no version has it.
    #[inline(always)]
    fn bytes(self) -> std::result::Result<&'a [u8], usize> {
        let size = self.size();
        if !is_legal(size, T::FIRST) {
            return Err(size);
        }
        // SAFETY: `size` bytes are readable (the contract of `new`).
        Ok(unsafe { slice::from_raw_parts(self.0.as_ptr().cast(), size) })
    }

    /// Copies options. What an older caller does not know is zero; what a newer one knows must be.
    pub fn options(self) -> Result<T> {
        let bytes = self.bytes().map_err(|size| {
            failure!(abi::CAI_ERR_STRUCT_SIZE, "options->struct_size";
                found "{size}"; expected "sizeof({}), {} in this version", T::NAME, size_of::<T>())
        })?;
        let tail = bytes.iter().skip(size_of::<T>());
        if let Some(position) = tail.into_iter().position(|&byte| byte != 0) {
            return fail!(CAI_ERR_NEWER_CALLER, "options";
                found "a value at byte {}", size_of::<T>() + position;
                expected "zeros behind the {} bytes of {} that this library knows",
                    size_of::<T>(), T::NAME);
        }
        Ok(copy(bytes))
    }
}

impl<'a> Given<'a, cai_array> {
    /// Copies the array, whatever size it was compiled with.
    #[inline]
    pub fn array(self) -> Result<cai_array> {
        self.view(&mut MaybeUninit::uninit()).copied()
    }

    /// Fails if no version of a structure has the size that it states.
    #[inline(always)]
    pub fn check_size(self) -> Result<()> {
        legal_array_size(self.size()).map(drop)
    }

    /// Returns the array without a copy if possible: a structure of this library's size or longer is
    /// used in place, a shorter one is completed in `scratch`. Fails for a flag that this library
    /// does not know, so that no function overlooks it.
    #[inline(always)]
    pub fn view<'s>(self, scratch: &'s mut MaybeUninit<cai_array>) -> Result<&'s cai_array>
    where
        'a: 's,
    {
        let bytes = self.bytes().map_err(no_size)?;
        let array = match self.whole() {
            Some(array) => array,
            None => scratch.write(copy(bytes)),
        };
        known_flags(array)?;
        Ok(array)
    }

    /// Returns the array, whose size and flags are in order, as [`view`](Self::view) does.
    #[inline(always)]
    pub fn unchecked<'s>(self, scratch: &'s mut MaybeUninit<cai_array>) -> Result<Unchecked<'s, 'a>>
    where
        'a: 's,
    {
        let array = self.view(scratch)?;
        // SAFETY: all that it points to is readable and unchanged for `'a` (the contract of `new`).
        Ok(unsafe { Unchecked::new(array) })
    }
}

/// Copies the members that both sides know. The others are 0.
#[inline(always)]
fn copy<T: Growing>(bytes: &[u8]) -> T {
    let mut to = MaybeUninit::<T>::zeroed();
    // SAFETY: no more bytes are copied than either side has. Any bytes are a value of a `Growing`
    // type, and those that are not copied were zeroed.
    unsafe {
        let place = to.as_mut_ptr().cast::<u8>();
        if bytes.len() >= size_of::<T>() {
            // Of a size that the compiler knows: a few instructions instead of a call.
            ptr::copy_nonoverlapping(bytes.as_ptr(), place, size_of::<T>());
        } else {
            ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
        }
        to.assume_init()
    }
}

/// Returns a structure whose members are all 0.
pub(crate) fn zeroed<T: Growing>() -> T {
    copy(&[])
}

/// An array before it is filled in.
pub(crate) const NOTHING: cai_array = cai_array {
    struct_size: size_of::<cai_array>() as u32,
    flags: 0,
    owner: ptr::null_mut(),
    data: ptr::null_mut(),
    shape: ptr::null(),
    strides: ptr::null(),
    ndim: 0,
    version: abi::CAI_INTERFACE_VERSION,
    dtype_code: 0,
    typestr: [0; CAI_TYPESTR_SIZE],
    descr: ptr::null(),
    mask: ptr::null(),
    stream: abi::CAI_STREAM_NONE,
    stream_id: 0,
    event: ptr::null_mut(),
    device: cai_device { r#type: abi::CAI_DEVICE_UNKNOWN, id: 0 },
    context: ptr::null_mut(),
    byte_offset: 0,
};

/// Returns the size that an array states, or fails if no age has it.
#[inline(always)]
pub fn legal_array_size(size: usize) -> Result<usize> {
    if is_legal(size, sizes::ARRAY) { Ok(size) } else { Err(no_size(size)) }
}

#[cold]
#[inline(never)]
fn no_size(size: usize) -> Failure {
    failure!(abi::CAI_ERR_STRUCT_SIZE, "struct_size";
        found "{size}";
        expected "sizeof(cai_array), {} in this version: initialize it with CAI_ARRAY_INIT",
            size_of::<cai_array>())
}

/// Returns an array of which only the members that every version has were copied: an assigned copy of
/// a longer structure has fewer bytes than it states.
pub fn first_members(bytes: &[u8; sizes::ARRAY]) -> Result<cai_array> {
    let mut first: cai_array = copy(bytes);
    legal_array_size(first.struct_size as usize)?;
    first.struct_size = sizes::ARRAY as u32;
    known_flags(&first)?;
    Ok(first)
}

/// Fails for a flag that this library does not know.
#[inline(always)]
fn known_flags(array: &cai_array) -> Result<()> {
    if array.flags & !abi::CAI_ARRAY_READONLY != 0 {
        return Err(unknown_flags(array.flags));
    }
    Ok(())
}

#[cold]
#[inline(never)]
fn unknown_flags(flags: u32) -> Failure {
    failure!(abi::CAI_ERR_FLAGS, "flags";
        found "{}", Named(flags, flags::ARRAY);
        expected "CAI_ARRAY_READONLY or 0, the flags that this version knows")
}

/// Writes an array into a caller's structure of `size` bytes, which keeps that size: as much as the
/// caller's header knows, and zeros where that knows more than this library.
///
/// # Safety
/// `size` bytes at `out` are writable, and `size` is legal for an array.
#[inline(always)]
pub unsafe fn write_array(out: *mut cai_array, size: usize, array: &cai_array) {
    // SAFETY: `size` bytes are writable, and no more than those are written. The size is the first
    // member of every structure.
    unsafe {
        if size == size_of::<cai_array>() {
            // Of a size that the compiler knows: a few instructions instead of two calls.
            out.write(*array);
        } else {
            let known = size.min(size_of::<cai_array>());
            ptr::copy_nonoverlapping(ptr::from_ref(array).cast::<u8>(), out.cast::<u8>(), known);
            out.cast::<u8>().add(known).write_bytes(0, size - known);
        }
        (&raw mut (*out).struct_size).write(size as u32);
    }
}

/// Returns `length` values, or none if the length is 0; then the pointer may be anything.
///
/// # Safety
/// If `length` is not 0, `pointer` points to that many readable, aligned values that stay unchanged
/// for `'a`.
#[inline(always)]
pub unsafe fn values<'a, T>(pointer: *const T, length: usize) -> &'a [T] {
    if length == 0 {
        &[]
    } else {
        // SAFETY: `length` is not 0 here, so `pointer` refers to that many values (this function's
        // contract).
        unsafe { slice::from_raw_parts(pointer, length) }
    }
}

/// Returns a shape. The number of dimensions is checked, the extents are not.
///
/// # Safety
/// `shape` is NULL or points to `ndim` extents that stay unchanged for `'a`.
#[inline]
pub unsafe fn shape<'a>(ndim: i32, shape: *const i64) -> Result<&'a [i64]> {
    check_shape(ndim, shape)?;
    // SAFETY: `shape` refers to `ndim` extents (this function's contract), unless there are none.
    Ok(unsafe { values(shape, ndim as usize) })
}

/// Fails for a number of dimensions out of range, and for a shape that is NULL in spite of them.
#[inline]
pub fn check_shape(ndim: i32, shape: *const i64) -> Result<()> {
    if is_shape(ndim, shape) { Ok(()) } else { Err(no_shape(ndim)) }
}

/// Returns true for a number of dimensions in range, whose extents are there.
#[inline(always)]
fn is_shape(ndim: i32, shape: *const i64) -> bool {
    (0..=abi::CAI_MAX_NDIM).contains(&ndim) && (ndim == 0 || !shape.is_null())
}

/// The failure for a number of dimensions out of range, or else for a shape that is NULL.
#[cold]
#[inline(never)]
fn no_shape(ndim: i32) -> Failure {
    if (0..=abi::CAI_MAX_NDIM).contains(&ndim) {
        failure!(abi::CAI_ERR_SHAPE_NULL, "shape"; found "NULL"; expected "{}", Count(ndim, "extent"))
    } else {
        failure!(abi::CAI_ERR_NDIM, "ndim"; found "{ndim}"; expected "0 to {}", abi::CAI_MAX_NDIM)
    }
}

pub type Dimensions<'a> = (&'a [i64], Option<&'a [i64]>);

/// An array that this library describes, without an owner, fields and a mask.
pub struct Built<'a> {
    array: cai_array,
    alive: PhantomData<&'a [i64]>,
}

impl<'a> Built<'a> {
    /// Describes an array of this shape, and with these strides if there are any. `rest` has the
    /// other members.
    pub fn new(rest: cai_array, shape: &'a [i64], strides: Option<&'a [i64]>) -> Self {
        assert!(strides.is_none_or(|strides| strides.len() == shape.len()), "as many strides");
        let array = cai_array {
            owner: ptr::null_mut(),
            shape: shape.as_ptr(),
            strides: strides.map_or(ptr::null(), |strides| strides.as_ptr()),
            ndim: i32::try_from(shape.len()).unwrap_or(i32::MAX),
            descr: ptr::null(),
            mask: ptr::null(),
            ..rest
        };
        Built { array, alive: PhantomData }
    }

    /// Returns the array, whose rules are not checked.
    pub fn unchecked(&self) -> Unchecked<'_, 'a> {
        // SAFETY: `new` took the dimensions from references, and there are no other pointers. More
        // dimensions than are legal are not read.
        unsafe { Unchecked::new(&self.array) }
    }
}

/// An array whose rules were not checked, but whose pointers lead where they claim. The structure
/// lives for `'s`, what it points to for `'a`.
#[derive(Clone, Copy)]
pub struct Unchecked<'s, 'a> {
    array: &'s cai_array,
    alive: PhantomData<&'a cai_array>,
}

impl<'s, 'a> Unchecked<'s, 'a> {
    /// Takes over an array whose size and flags are in order.
    ///
    /// # Safety
    /// These pointers are NULL or stay readable and unchanged for `'a`: `shape` and `strides` with
    /// `ndim` values if `ndim` is 0 to 64; `descr` with all rows that it counts and what they point
    /// to; `mask`, a structure of the size that it states, for which the same holds. `owner` is NULL
    /// or that of an owner of any library, which is alive for `'a`.
    #[inline(always)]
    pub unsafe fn new(array: &'s cai_array) -> Self {
        Unchecked { array, alive: PhantomData }
    }

    /// Returns the array, with NULL in place of any address if it has no elements.
    #[inline]
    pub fn null_if_empty<'c>(self, scratch: &'c mut MaybeUninit<cai_array>) -> Unchecked<'c, 'a>
    where
        's: 'c,
    {
        let is_empty = |(shape, _): Dimensions| shape.contains(&0);
        if self.data.is_null() || !self.common_dimensions().is_some_and(is_empty) {
            return self;
        }
        let array =
            scratch.write(cai_array { data: ptr::null_mut(), byte_offset: 0, ..*self.array });
        Unchecked { array, alive: PhantomData }
    }

    /// Returns shape and strides, or `None` if `ndim` is out of range or there is no shape.
    #[inline(always)]
    pub fn common_dimensions(&self) -> Option<Dimensions<'a>> {
        if self.ndim == 0 {
            return Some((&[], (!self.strides.is_null()).then_some(&[])));
        }
        if !is_shape(self.ndim, self.shape) {
            return None;
        }
        let count = self.ndim as usize;
        // SAFETY: the number is in range and the shape not NULL (checked above). So the pointers
        // refer to `ndim` values (the contract of `new`).
        unsafe {
            let strides =
                (!self.strides.is_null()).then(|| slice::from_raw_parts(self.strides, count));
            Some((slice::from_raw_parts(self.shape, count), strides))
        }
    }

    /// Returns shape and strides. The number of dimensions is checked, the values are not.
    #[inline]
    pub fn dimensions(&self) -> Result<Dimensions<'a>> {
        self.common_dimensions().ok_or_else(|| no_shape(self.ndim))
    }

    /// Returns the list of fields, if the array has one. The sizes of its structures are checked.
    pub fn fields(&self) -> Result<Option<Descr<'a>>> {
        // SAFETY: readable with all that it points to (the contract of `new`).
        let Some(descr) = (unsafe { Given::optional(self.descr) }) else { return Ok(None) };
        descr.fields().map(Some)
    }

    /// Returns the mask, if the array has one. Its size and flags are checked.
    pub fn mask<'t>(
        &self,
        scratch: &'t mut MaybeUninit<cai_array>,
    ) -> Result<Option<Unchecked<'t, 'a>>> {
        // SAFETY: an array of the same kind (the contract of `new`).
        let Some(mask) = (unsafe { Given::optional(self.mask) }) else { return Ok(None) };
        mask.unchecked(scratch).map(Some)
    }

    /// Returns the mask of a description that is going to be copied: as [`mask`](Self::mask), with
    /// NULL in place of any address if it has no elements.
    pub fn mask_or_null<'t>(
        &self,
        scratch: &'t mut MaybeUninit<cai_array>,
    ) -> Result<Option<Unchecked<'t, 'a>>> {
        let mut copies = [MaybeUninit::uninit(); 2];
        let [given, without_data] = &mut copies;
        let Some(mask) = self.mask(given)? else { return Ok(None) };
        let array = scratch.write(*mask.null_if_empty(without_data));
        Ok(Some(Unchecked { array, alive: PhantomData }))
    }
}

impl Deref for Unchecked<'_, '_> {
    type Target = cai_array;

    #[inline(always)]
    fn deref(&self) -> &cai_array {
        self.array
    }
}

pub fn typestr_bytes(field: &[c_char; CAI_TYPESTR_SIZE]) -> &[u8; CAI_TYPESTR_SIZE] {
    // SAFETY: `c_char` and `u8` have the same layout and no invalid values.
    unsafe { &*ptr::from_ref(field).cast() }
}

/// Returns the characters of an inline typestr before its NUL, or `None` if it has no NUL.
pub fn typestr(field: &[c_char; CAI_TYPESTR_SIZE]) -> Option<&[u8]> {
    let bytes = typestr_bytes(field);
    let length = bytes.iter().position(|&b| b == 0)?;
    Some(&bytes[..length])
}

/// A list of fields whose structure sizes were checked.
#[derive(Clone, Copy)]
pub struct Descr<'a> {
    /// The bytes of all rows.
    rows: &'a [u8],
    /// The distance of two rows.
    step: usize,
    pub count: u64,
}

/// A row of a list of fields. Dereferences to the row, with names and shape still pointers.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    raw: cai_field,
    alive: PhantomData<&'a cai_field>,
}

impl Deref for Field<'_> {
    type Target = cai_field;

    fn deref(&self) -> &cai_field {
        &self.raw
    }
}

impl<'a> Given<'a, cai_descr> {
    /// Returns the list of fields, of which only the sizes are checked.
    pub fn fields(self) -> Result<Descr<'a>> {
        let bytes = self.bytes().map_err(|size| {
            failure!(abi::CAI_ERR_DESCR_STRUCT, ".struct_size";
                found "{size}";
                expected "sizeof(cai_descr), {} in this version", size_of::<cai_descr>())
        })?;
        let raw: cai_descr = copy(bytes);
        let step = raw.field_size as usize;
        if !is_legal(step, sizes::FIELD) {
            return fail!(CAI_ERR_DESCR_STRUCT, ".field_size";
                found "{step}";
                expected "sizeof(cai_field), {} in this version", size_of::<cai_field>());
        }
        if raw.count > 0 && raw.fields.is_null() {
            return fail!(CAI_ERR_DESCR_STRUCT, ".fields";
                found "NULL"; expected "{}", Count(raw.count, "field"));
        }
        if raw.count > abi::CAI_MAX_FIELDS {
            return fail!(CAI_ERR_DESCR_COUNT, ".count";
                found "{}", raw.count; expected "at most {} fields in all", abi::CAI_MAX_FIELDS);
        }
        // SAFETY: `count` rows of `step` bytes are readable (the contract of `Given::new`). Both
        // numbers were limited above, so that their product does not overflow.
        let rows = unsafe { values(raw.fields.cast(), raw.count as usize * step) };
        Ok(Descr { rows, step, count: raw.count })
    }
}

impl<'a> Given<'a, cai_field> {
    /// Copies one row. It does not state its size: only the members of the first release are read.
    pub fn field(self) -> Field<'a> {
        // SAFETY: a row (the contract of `Given::new`), at least as long as in the first release.
        let bytes = unsafe { self.0.cast::<[u8; sizes::FIELD]>().as_ref() };
        Field { raw: copy(bytes), alive: PhantomData }
    }
}

impl<'a> Descr<'a> {
    /// Returns row `index`, which must be below `count`.
    pub fn field(&self, index: u64) -> Field<'a> {
        Field { raw: copy(self.bytes(index)), alive: PhantomData }
    }

    /// Returns the address of row `index`, which must be below `count`.
    pub fn row(&self, index: u64) -> *const cai_field {
        self.bytes(index).as_ptr().cast()
    }

    fn bytes(&self, index: u64) -> &'a [u8] {
        assert!(index < self.count);
        let start = index as usize * self.step;
        &self.rows[start..start + self.step]
    }

    /// Returns all rows. Cannot panic.
    #[inline]
    pub fn fields(self) -> impl Iterator<Item = Field<'a>> {
        let mut rest = self.rows;
        std::iter::from_fn(move || {
            let (row, behind) = rest.split_at_checked(self.step)?;
            rest = behind;
            // Nearly all rows are at least as long as this library's.
            let raw = match row.first_chunk::<{ size_of::<cai_field>() }>() {
                Some(row) => copy(row),
                None => copy(row),
            };
            Some(Field { raw, alive: PhantomData })
        })
    }
}

impl<'a> Field<'a> {
    /// Returns the field without its sub-array.
    pub fn element(self) -> Self {
        Field { raw: cai_field { ndim: 0, ..self.raw }, ..self }
    }

    /// Returns the name, which is required and must be UTF-8.
    pub fn name(&self) -> Result<&'a str> {
        match c_text(self.raw.name) {
            Some(name) => text(name, ".name"),
            None => fail!(CAI_ERR_DESCR_NAME, ".name";
                found "NULL"; expected "a string, empty for padding"),
        }
    }

    /// Returns the bytes of the name, or `None` where [`name`](Self::name) fails.
    #[inline(always)]
    pub fn name_or_none(&self) -> Option<&'a [u8]> {
        let name = c_text(self.raw.name)?.to_bytes();
        // For a few bytes, this takes less than a call.
        let is_text = name.iter().all(u8::is_ascii) || std::str::from_utf8(name).is_ok();
        is_text.then_some(name)
    }

    /// Returns the title, if any, which must be UTF-8.
    pub fn title(&self) -> Result<Option<&'a str>> {
        c_text(self.raw.title).map(|title| text(title, ".title")).transpose()
    }

    /// Returns the extents of the sub-array. Their number and sign are checked.
    pub fn shape(&self) -> Result<&'a [i64]> {
        let ndim = self.raw.ndim;
        if !(0..=abi::CAI_MAX_NDIM).contains(&ndim) {
            return fail!(CAI_ERR_DESCR_SHAPE, ".ndim";
                found "{ndim}"; expected "0 to {}", abi::CAI_MAX_NDIM);
        }
        if ndim > 0 && self.raw.shape.is_null() {
            return fail!(CAI_ERR_DESCR_SHAPE, ".shape"; found "NULL"; expected "{}", Count(ndim, "extent"));
        }
        // SAFETY: if `ndim > 0`, the pointer was found not to be NULL above. The contract of
        // `Given::new` covers what the rows point to.
        let shape = unsafe { values(self.raw.shape, ndim as usize) };
        for (index, &extent) in shape.iter().enumerate() {
            if extent < 0 {
                return fail!(CAI_ERR_DESCR_SHAPE, ".shape[{}]", index;
                    found "{extent}"; expected "at least 0");
            }
        }
        Ok(shape)
    }

    /// Returns the fields of this field, or `None` if it has a typestr. It must have exactly one.
    pub fn nested(&self) -> Result<Option<Descr<'a>>> {
        let has_typestr = self.raw.typestr[0] != 0;
        // SAFETY: the contract of `Given::new` covers what the rows point to.
        match (has_typestr, unsafe { Given::optional(self.raw.nested) }) {
            (true, None) => Ok(None),
            (false, Some(nested)) => nested.fields().map(Some),
            (true, Some(_)) => fail!(CAI_ERR_DESCR_FIELD, ".nested";
                found "both a typestr and nested fields"; expected "exactly one of them"),
            (false, None) => fail!(CAI_ERR_DESCR_FIELD, ".typestr";
                found "neither a typestr nor nested fields"; expected "exactly one of them"),
        }
    }
}

/// Returns a NUL-terminated text, or `None` for NULL. Callers pass only pointers inside rows, which the
/// contract of `Given::new` covers.
#[inline(always)]
fn c_text<'a>(pointer: *const c_char) -> Option<&'a CStr> {
    // SAFETY: not NULL (checked first), and NUL-terminated by the contract of `Given::new`.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) })
}

fn text<'a>(text: &'a CStr, field: &str) -> Result<&'a str> {
    text.to_str().map_err(|_| {
        failure!(abi::CAI_ERR_DESCR_NAME, "{field}";
            found "\"{}\"", text.to_bytes().escape_ascii(); expected "UTF-8")
    })
}
