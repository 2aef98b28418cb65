//! Reads structures that a caller compiled, whatever size they have.
//!
//! May use: `abi`, `error`.
//! Unsafe: follows a caller's pointers, whose contract each function states.
//!
//! A caller's structure may be shorter or longer than this library's. Its size is read raw, before
//! any reference to the whole is made. As many bytes as both sides know are copied into a local;
//! the rest is zero. The values inside are not checked here: that is the task of `validate`.

use std::ffi::{CStr, c_char};
use std::mem::{MaybeUninit, offset_of, size_of};
use std::{ptr, slice};

use crate::abi::{self, CAI_TYPESTR_SIZE, cai_array, cai_descr, cai_device, cai_field};
use crate::error::{Failure, Result, fail};

/// The shortest `cai_array` that is accepted: all fields up to `stream`.
pub(crate) const MIN_ARRAY_SIZE: usize = offset_of!(cai_array, stream_id);

/// The bytes that every version of `cai_array` begins with, past and future.
pub(crate) const LEAST_PREFIX: usize = 16;

/// No version of any structure will ever be longer: a larger size is garbage.
pub(crate) const MAX_STRUCT_SIZE: usize = 4096;

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

/// Returns true if some version of a structure can have this size.
pub fn plausible(size: usize, least: usize) -> bool {
    size >= least && size <= MAX_STRUCT_SIZE && size % 8 == 0
}

/// Returns the size that a structure states.
///
/// # Safety
/// `array` points to at least 4 readable bytes, aligned for a `cai_array`.
#[inline(always)]
pub unsafe fn array_size(array: *const cai_array) -> Result<usize> {
    // SAFETY: the first four bytes are readable (this function's contract); no reference to the
    // whole is made.
    let size = unsafe { (&raw const (*array).struct_size).read() } as usize;
    if plausible(size, MIN_ARRAY_SIZE) {
        Ok(size)
    } else {
        fail!(
            CAI_ERR_STRUCT_SIZE,
            "struct_size",
            found = "{size}",
            expected = (
                "sizeof(cai_array), {} in this version: initialize it with CAI_ARRAY_INIT",
                size_of::<cai_array>()
            )
        )
    }
}

/// Fails if a caller's structure of `size` bytes is too short for a value that must not be lost.
pub fn fits(array: &cai_array, size: usize) -> Result<()> {
    let covered = offset_of!(cai_array, byte_offset) + size_of::<u64>();
    if array.byte_offset != 0 && size < covered {
        return fail!(
            CAI_ERR_STRUCT_SIZE,
            "out->struct_size",
            found = "{size}",
            expected = "at least {covered}, because the array has a byte_offset"
        );
    }
    Ok(())
}

/// Copies a caller's array, whatever size it was compiled with.
///
/// # Safety
/// `array` points to as many readable bytes as its `struct_size` states.
#[inline]
pub unsafe fn array(array: *const cai_array) -> Result<cai_array> {
    let mut scratch = MaybeUninit::uninit();
    // SAFETY: this function has the contract of `view`.
    unsafe { view(array, &mut scratch) }.copied()
}

/// Returns a caller's array without a copy if possible: a structure of this library's size or
/// longer is used in place, a shorter one is completed in `scratch`.
///
/// # Safety
/// `array` points to as many readable bytes as its `struct_size` states, which do not change while
/// the result is in use.
#[inline(always)]
pub unsafe fn view(
    array: *const cai_array,
    scratch: &mut MaybeUninit<cai_array>,
) -> Result<&cai_array> {
    // SAFETY: `struct_size` is readable (this function's contract).
    let size = unsafe { array_size(array) }?;
    if size >= size_of::<cai_array>() {
        // SAFETY: the structure is at least as long as `cai_array`, by the comparison above, and
        // readable (this function's contract).
        return Ok(unsafe { &*array });
    }
    *scratch = MaybeUninit::zeroed();
    // SAFETY: `size` bytes are readable (this function's contract) and fit into `scratch`, because
    // `size < size_of::<cai_array>()` here.
    unsafe {
        ptr::copy_nonoverlapping(array.cast::<u8>(), scratch.as_mut_ptr().cast::<u8>(), size)
    };
    // SAFETY: every field is an integer or a raw pointer, for which zero is a valid value.
    Ok(unsafe { scratch.assume_init_ref() })
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
    if !(0..=abi::CAI_MAX_NDIM).contains(&ndim) {
        return fail!(
            CAI_ERR_NDIM,
            "ndim",
            found = "{ndim}",
            expected = ("0 to {}", abi::CAI_MAX_NDIM)
        );
    }
    if ndim > 0 && shape.is_null() {
        return fail!(CAI_ERR_SHAPE_NULL, "shape", found = "NULL", expected = "{ndim} extents");
    }
    // SAFETY: if `ndim > 0`, the pointer was found not to be NULL above, so it refers to `ndim`
    // extents (this function's contract).
    Ok(unsafe { values(shape, ndim as usize) })
}

/// Returns shape and strides of an array. The number of dimensions is checked, the values are not.
///
/// # Safety
/// `shape`, and `strides` unless NULL, point to `ndim` values that stay unchanged for `'a`.
#[inline]
pub unsafe fn shape_and_strides<'a>(array: &cai_array) -> Result<(&'a [i64], Option<&'a [i64]>)> {
    // SAFETY: `array.shape` refers to `array.ndim` extents (this function's contract).
    let shape = unsafe { self::shape(array.ndim, array.shape) }?;
    if array.strides.is_null() {
        return Ok((shape, None));
    }
    // SAFETY: the pointer is not NULL, so it refers to `ndim` values (this function's contract).
    let strides = unsafe { values(array.strides, shape.len()) };
    Ok((shape, Some(strides)))
}

/// Returns an inline typestr as bytes.
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

/// Returns the characters of a typestr that a caller passes by pointer, or `None` if it is not
/// terminated within the size of a typestr.
///
/// # Safety
/// `text` points to characters that are readable up to the first NUL, or to `CAI_TYPESTR_SIZE` of
/// them.
pub unsafe fn typestr_argument<'a>(text: *const c_char) -> Option<&'a [u8]> {
    for length in 0..CAI_TYPESTR_SIZE {
        // SAFETY: no NUL came before `length`, so this character is readable (this function's
        // contract).
        if unsafe { *text.add(length) } == 0 {
            // SAFETY: the loop has read these `length` characters.
            return Some(unsafe { slice::from_raw_parts(text.cast::<u8>(), length) });
        }
    }
    None
}

/// A list of fields whose structure sizes were checked.
#[derive(Clone, Copy)]
pub struct Descr<'a> {
    rows: *const u8,
    step: usize,
    /// Number of rows.
    pub count: u64,
    alive: std::marker::PhantomData<&'a cai_field>,
}

/// One row of a list of fields. Names and shape are still pointers.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    /// The row.
    pub raw: cai_field,
    alive: std::marker::PhantomData<&'a cai_field>,
}

impl<'a> Descr<'a> {
    /// Checks the sizes of a list of fields.
    ///
    /// # Safety
    /// `descr` points to a structure of the size that it states, and to the rows that it counts,
    /// all unchanged for `'a`.
    pub unsafe fn new(descr: *const cai_descr) -> Result<Self> {
        // SAFETY: the first field is readable (this function's contract); no reference to the whole
        // is made.
        let size = unsafe { (&raw const (*descr).struct_size).read() } as usize;
        if !plausible(size, size_of::<cai_descr>()) {
            return fail!(
                CAI_ERR_DESCR_STRUCT,
                ".struct_size",
                found = "{size}",
                expected = ("sizeof(cai_descr), {} in this version", size_of::<cai_descr>())
            );
        }
        // SAFETY: the size, checked above, is at least that of `cai_descr`.
        let raw = unsafe { descr.read() };
        let step = raw.field_size as usize;
        if !plausible(step, size_of::<cai_field>()) {
            return fail!(
                CAI_ERR_DESCR_STRUCT,
                ".field_size",
                found = "{step}",
                expected = ("sizeof(cai_field), {} in this version", size_of::<cai_field>())
            );
        }
        if raw.count > 0 && raw.fields.is_null() {
            return fail!(
                CAI_ERR_DESCR_STRUCT,
                ".fields",
                found = "NULL",
                expected = ("{} fields", raw.count)
            );
        }
        if raw.count > abi::CAI_MAX_FIELDS {
            return fail!(
                CAI_ERR_DESCR_COUNT,
                ".count",
                found = ("{}", raw.count),
                expected = ("at most {} fields in all", abi::CAI_MAX_FIELDS)
            );
        }
        Ok(Descr {
            rows: raw.fields.cast(),
            step,
            count: raw.count,
            alive: std::marker::PhantomData,
        })
    }

    /// Returns row `index`, which must be below `count`.
    pub fn field(&self, index: u64) -> Field<'a> {
        // SAFETY: `count` rows of `step` bytes each lie at `rows` (contract of `new`, which checked
        // `step`). A row is at least as long as `cai_field`, and aligned because `step` is a
        // multiple of 8.
        unsafe { Field::new(self.row(index)) }
    }

    /// Returns the address of row `index`, which must be below `count`.
    pub fn row(&self, index: u64) -> *const cai_field {
        assert!(index < self.count);
        self.rows.wrapping_add(index as usize * self.step).cast()
    }

    /// Iterates over all rows.
    pub fn fields(self) -> impl Iterator<Item = Field<'a>> {
        (0..self.count).map(move |index| self.field(index))
    }
}

impl<'a> Field<'a> {
    /// Copies one row.
    ///
    /// # Safety
    /// `row` points to a row at least as long as `cai_field`, and what that points to is unchanged
    /// for `'a`.
    pub unsafe fn new(row: *const cai_field) -> Self {
        // SAFETY: the row is at least as long as `cai_field` (this function's contract).
        Field { raw: unsafe { row.read() }, alive: std::marker::PhantomData }
    }

    /// Returns the name, which is required and must be UTF-8.
    pub fn name(&self) -> Result<&'a str> {
        if self.raw.name.is_null() {
            return fail!(
                CAI_ERR_DESCR_NAME,
                ".name",
                found = "NULL",
                expected = "a string, empty for padding"
            );
        }
        text(self.raw.name, ".name")
    }

    /// Returns the title, if any, which must be UTF-8.
    pub fn title(&self) -> Result<Option<&'a str>> {
        if self.raw.title.is_null() {
            return Ok(None);
        }
        text(self.raw.title, ".title").map(Some)
    }

    /// Returns the extents of the sub-array. Their number and sign are checked.
    pub fn shape(&self) -> Result<&'a [i64]> {
        let ndim = self.raw.ndim;
        if !(0..=abi::CAI_MAX_NDIM).contains(&ndim) {
            return fail!(
                CAI_ERR_DESCR_SHAPE,
                ".ndim",
                found = "{ndim}",
                expected = ("0 to {}", abi::CAI_MAX_NDIM)
            );
        }
        if ndim > 0 && self.raw.shape.is_null() {
            return fail!(
                CAI_ERR_DESCR_SHAPE,
                ".shape",
                found = "NULL",
                expected = "{ndim} extents"
            );
        }
        // SAFETY: if `ndim > 0`, the pointer was found not to be NULL above. The contract of
        // `Descr::new` covers what the rows point to.
        let shape = unsafe { values(self.raw.shape, ndim as usize) };
        for (index, &extent) in shape.iter().enumerate() {
            if extent < 0 {
                return fail!(
                    CAI_ERR_DESCR_SHAPE,
                    (".shape[{}]", index),
                    found = "{extent}",
                    expected = "at least 0"
                );
            }
        }
        Ok(shape)
    }

    /// Returns the fields that this field consists of, or `None` if it has a typestr. Exactly one
    /// of the two is required.
    pub fn nested(&self) -> Result<Option<Descr<'a>>> {
        let has_typestr = self.raw.typestr[0] != 0;
        match (has_typestr, self.raw.nested.is_null()) {
            (true, true) => Ok(None),
            // SAFETY: not NULL in this branch. The contract of `Descr::new` covers what the rows
            // point to.
            (false, false) => unsafe { Descr::new(self.raw.nested) }.map(Some),
            (true, false) => {
                fail!(
                    CAI_ERR_DESCR_FIELD,
                    ".nested",
                    found = "both a typestr and nested fields",
                    expected = "exactly one of them"
                )
            }
            (false, true) => {
                fail!(
                    CAI_ERR_DESCR_FIELD,
                    ".typestr",
                    found = "neither a typestr nor nested fields",
                    expected = "exactly one of them"
                )
            }
        }
    }
}

/// Returns a NUL-terminated name. Callers pass only pointers inside rows, which the contract of
/// `Descr::new` covers.
fn text<'a>(pointer: *const c_char, field: &str) -> Result<&'a str> {
    // SAFETY: not NULL (checked above), and NUL-terminated by the contract of `Descr::new`.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| {
        Failure::new(
            abi::CAI_ERR_DESCR_NAME,
            format_args!("{field}"),
            format_args!("\"{}\"", text.to_bytes().escape_ascii()),
            format_args!("UTF-8"),
        )
    })
}
