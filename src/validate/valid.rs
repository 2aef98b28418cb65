//! The proof that an array was validated.

use std::iter;
use std::ops::Deref;

use super::{Described, array, describe};
use crate::abi::{cai_array, cai_dtype};
use crate::error::Result;
use crate::layout::{self, Layout, Span};
use crate::read::{self, Descr};

/// An array that obeys every rule of [`CAI_CHECK_LAYOUT`](crate::abi::CAI_CHECK_LAYOUT). The shape,
/// strides, fields and masks that it refers to stay readable and unchanged for `'a`, and the owners
/// of the array and of its masks are NULL or alive as long.
///
/// Dereferences to a copy of the array's members. What they point to is read by the methods, none
/// of which can fail.
#[derive(Clone, Copy)]
pub struct Valid<'a> {
    array: cai_array,
    described: Described<'a>,
}

impl<'a> Valid<'a> {
    /// Checks an array and its masks.
    ///
    /// # Safety
    /// `array` points to a structure of the size that it states. That structure, and the shape,
    /// strides, fields and masks that it refers to, are readable and unchanged for `'a`. The owners
    /// of the array and of its masks are NULL or alive for `'a`.
    pub unsafe fn check(array: *const cai_array, checks: u32) -> Result<Self> {
        // SAFETY: readable (this function's contract).
        unsafe { self::array(array, checks) }?;
        // SAFETY: validated by the line above; the rest is this function's contract.
        Ok(unsafe { Valid::assume(array) })
    }

    /// Returns an array that was validated before.
    ///
    /// # Safety
    /// As for [`check`](Self::check), and a check of the array succeeded. Nothing that it depends
    /// on has changed since.
    pub unsafe fn assume(array: *const cai_array) -> Self {
        // SAFETY: the structure has the size that it states (this function's contract).
        let array = sound(unsafe { read::array(array) });
        // SAFETY: shape and strides are readable and unchanged for `'a` (this function's contract).
        let described = sound(unsafe { describe(&array) });
        Valid { array, described }
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> cai_dtype {
        self.described.dtype
    }

    /// Returns the shape, the strides and the size of the elements.
    pub fn layout(&self) -> Layout<'a> {
        self.described.layout
    }

    /// Returns the number of elements.
    pub fn count(&self) -> i64 {
        sound(layout::count(self.layout().shape))
    }

    /// Returns the bytes of all elements without gaps.
    pub fn nbytes(&self) -> i64 {
        sound(self.layout().nbytes())
    }

    /// Returns the bytes that the array can touch.
    pub fn span(&self) -> Span {
        sound(self.layout().span())
    }

    /// Returns the list of fields, if the array has one.
    pub fn fields(&self) -> Option<Descr<'a>> {
        if self.array.descr.is_null() {
            return None;
        }
        // SAFETY: not NULL here, and readable and unchanged for `'a` (the contract of `check`).
        Some(sound(unsafe { Descr::new(self.array.descr) }))
    }

    /// Returns the mask, if the array has one.
    pub fn mask(&self) -> Option<Valid<'a>> {
        if self.array.mask.is_null() {
            return None;
        }
        // SAFETY: not NULL here. The check of an array includes its masks, and the contract of
        // `check` covers what they refer to.
        Some(unsafe { Valid::assume(self.array.mask) })
    }

    /// Returns the mask, the mask of the mask, and so on: at most `CAI_MAX_MASKS`.
    pub fn masks(&self) -> impl Iterator<Item = Valid<'a>> {
        iter::successors(self.mask(), Valid::mask)
    }
}

impl Deref for Valid<'_> {
    type Target = cai_array;

    fn deref(&self) -> &cai_array {
        &self.array
    }
}

/// The result of a rule that a check has found to hold.
fn sound<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|_| unreachable!())
}
