//! Objects of the class `libcai.Array`, and their contents.

use std::ops::Deref;
use std::ptr;
use std::sync::atomic::AtomicPtr;

use crate::abi::{self, cai_array};
use crate::device::{Name, is_opaque};
use crate::error::{Result, Text, fail};
use crate::owner::{Borrowed, Ref};
use crate::python::capi::Object;
use crate::python::py::{Owned, Py};
use crate::python::readers::Readers;
use crate::read::{self, Unchecked};
use crate::validate::Valid;

/// The contents of an object: a validated array, with a reference to its owner; or zeros: no array.
#[repr(C)]
pub struct Exported {
    array: cai_array,
    /// `CAI_EXPORT_` bits.
    flags: u32,
    /// For arrays that can be released: one for each [`Reading`].
    readers: Readers,
    pub weak_references: AtomicPtr<Object>,
}

// SAFETY: the array does not change once the object is made, and `owner` may be used on any thread.
unsafe impl Sync for Exported {}

/// In `Exported.flags`, beside the `CAI_EXPORT_` bits: the object may be released while others use
/// it, because it gives out its array through no protocol.
pub(crate) const CAN_BE_RELEASED: u32 = 1 << 31;

impl Exported {
    /// # Safety
    /// The array was validated, and `owner` keeps it alive.
    #[inline(always)]
    pub unsafe fn fill(&mut self, array: &cai_array, owner: Ref, flags: u32) {
        // Written in place: on the way through the stack the array would be copied once more.
        self.array = *array;
        self.array.owner = owner.into_raw();
        // Every field is present now, whatever size the array came with.
        self.array.struct_size = size_of::<cai_array>() as u32;
        self.flags = flags;
    }

    pub fn flags(&self) -> u32 {
        self.flags
    }

    /// Returns true if the object may be released while others use it. Its address was then given
    /// out only by the buffer interface, whose consumers keep the handle, or by no protocol.
    #[inline(always)]
    fn can_be_released(&self) -> bool {
        is_opaque(self.array.device.r#type) || self.flags & CAN_BE_RELEASED != 0
    }

    /// Begins to read the array. `None` if there is none.
    #[inline(always)]
    pub fn read(&self) -> Option<Reading<'_>> {
        if self.array.owner.is_null() {
            return None;
        }
        if self.can_be_released() && !self.readers.begin() {
            return None;
        }
        Some(Reading(self))
    }

    pub fn array(&self) -> Result<Reading<'_>> {
        match self.read() {
            Some(array) => Ok(array),
            None => fail!(CAI_ERR_VALUE, "self";
                found "an object without an array";
                expected "an object made by cai_array_to_python that was not released"),
        }
    }

    /// Returns the array with its owner, unless it can be released.
    #[inline(always)]
    pub fn lasting_array(&self) -> Option<(&cai_array, Borrowed<'_>)> {
        if self.can_be_released() {
            return None;
        }
        // SAFETY: NULL, or alive: the object holds its reference until it ends.
        let owner = unsafe { Borrowed::new(self.array.owner) }?;
        Some((&self.array, owner))
    }

    /// Gives up the reference to the array's owner, at once or when the last call that reads the
    /// array ends. Does nothing if it was given up before, and for arrays that are read through
    /// protocols whose consumers rely on the object.
    pub fn release(&self) {
        if self.array.owner.is_null() || !self.can_be_released() {
            return;
        }
        if self.readers.give_up() {
            // SAFETY: no call reads the array, and none begins.
            drop(unsafe { Ref::adopt(self.array.owner) });
        }
    }

    #[inline(always)]
    pub fn end(&mut self) {
        if !self.array.owner.is_null() && !self.readers.is_given_up() {
            // SAFETY: the reference was not given up before, and nothing uses the object.
            drop(unsafe { Ref::adopt(self.array.owner) });
            self.array.owner = ptr::null_mut();
        }
    }
}

/// The array of an object while a call reads it: Python code may release the object meanwhile.
pub struct Reading<'a>(&'a Exported);

impl<'a> Reading<'a> {
    pub fn valid(&self) -> Valid<'_> {
        // SAFETY: the contract of `Exported::fill`. The owner keeps all of it alive until this
        // value is dropped.
        unsafe { Valid::assume(&self.0.array) }
    }

    /// Returns the array for functions that check it themselves, or do not have to.
    #[inline]
    pub fn unchecked(&self) -> Unchecked<'_, '_> {
        // SAFETY: the array was validated (the contract of `Exported::fill`), and its owner lives as
        // long as this value.
        unsafe { Unchecked::new(&self.0.array) }
    }

    /// Adds a reference to the owner.
    #[inline(always)]
    pub fn retain(&self) -> Result<Ref> {
        // SAFETY: the object holds its reference until this value is dropped.
        unsafe { Ref::retain(self.0.array.owner) }
    }

    #[inline]
    pub fn shape_and_strides(&self) -> Result<(&[i64], Option<&[i64]>)> {
        self.unchecked().dimensions()
    }

    /// Returns the length for Python: the first extent.
    pub fn len(&self) -> Result<usize> {
        match self.shape_and_strides()?.0 {
            [extent, ..] => Ok(*extent as usize),
            [] => fail!(CAI_ERR_TYPE, "shape";
                found "no dimensions"; expected "at least one for len()"),
        }
    }
}

impl Deref for Reading<'_> {
    type Target = cai_array;

    #[inline(always)]
    fn deref(&self) -> &cai_array {
        &self.0.array
    }
}

impl Drop for Reading<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0.can_be_released() && self.0.readers.end() {
            // SAFETY: the last reader after `release`; none begins.
            drop(unsafe { Ref::adopt(self.0.array.owner) });
        }
    }
}

/// Formats one line about an array in an object of a type.
pub fn shown(r#type: &str, array: &Reading) -> Text<400> {
    let mut text: Text<400> = Text::new(format_args!("<{type} shape=("));
    let (shape, strides) = array.shape_and_strides().unwrap_or_default();
    // A full text ends in a mark; nothing else can fail.
    let _ = (|| {
        for (index, extent) in shape.iter().enumerate() {
            write!(text, "{}{extent}", if index == 0 { "" } else { ", " })?;
        }
        let comma = if shape.len() == 1 { "," } else { "" };
        write!(
            text,
            "{comma}) typestr='{}'",
            read::typestr(&array.typestr).unwrap_or_default().escape_ascii()
        )?;
        if array.dtype_code != 0 {
            write!(text, " dtype_code={}", array.dtype_code)?;
        }
        if let Some(strides) = strides {
            write!(text, " strides=(")?;
            for (index, step) in strides.iter().enumerate() {
                write!(text, "{}{step}", if index == 0 { "" } else { ", " })?;
            }
            write!(text, "{comma})")?;
        }
        write!(text, " data={:#x}", array.data as usize)?;
        if array.byte_offset != 0 {
            write!(text, "+{}", array.byte_offset)?;
        }
        if array.device.r#type != abi::CAI_DEVICE_UNKNOWN {
            write!(text, " device={}", Name(array.device.r#type))?;
            // A negative number is not known.
            if array.device.id >= 0 {
                write!(text, ":{}", array.device.id)?;
            }
        }
        match array.stream {
            abi::CAI_STREAM_NONE => write!(text, " stream=None")?,
            abi::CAI_STREAM_UNKNOWN => write!(text, " stream=unknown")?,
            stream => write!(text, " stream={stream:#x}")?,
        }
        if array.flags & abi::CAI_ARRAY_READONLY != 0 {
            write!(text, " read-only")?;
        }
        if !array.mask.is_null() {
            write!(text, " masked")?;
        }
        write!(text, ">")
    })();
    text
}

/// # Safety
/// The array was validated, and `owner` keeps it alive.
#[inline]
pub unsafe fn wrap<'py>(
    py: Py<'py>,
    array: &cai_array,
    owner: Ref,
    flags: u32,
) -> Result<Owned<'py>> {
    // SAFETY: validated, and kept alive by `owner` (this function's contract).
    py.exports().object(|exported| unsafe { exported.fill(array, owner, flags) })
}
