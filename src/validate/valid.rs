//! The proof that an array was validated.

use std::iter;
use std::mem::MaybeUninit;
use std::ops::Deref;

use super::{Described, common, masks};
use crate::abi::{self, cai_array, cai_dtype};
use crate::argument::Given;
use crate::dtype::descr;
use crate::error::Result;
use crate::layout::{self, Bytes, Layout, Span};
use crate::owner::Ref;
use crate::owner::description::{self, Prepared};
use crate::read::{Descr, Unchecked};

/// An array that obeys every rule of [`CAI_CHECK_LAYOUT`](crate::abi::CAI_CHECK_LAYOUT). The shape,
/// strides, fields and masks that it refers to stay readable and unchanged for `'a`, and the owners
/// of the array and of its masks are NULL or alive as long.
///
/// Dereferences to a copy of the members. The methods, which cannot fail, read their targets.
#[derive(Clone, Copy)]
pub struct Valid<'a> {
    array: cai_array,
    described: Described<'a>,
}

impl<'a> Valid<'a> {
    /// Returns an array that was validated before.
    ///
    /// # Safety
    /// As for [`Given::new`], and a check of the array succeeded. Nothing that it depends
    /// on has changed since.
    pub unsafe fn assume(array: *const cai_array) -> Self {
        let mut scratch = MaybeUninit::uninit();
        // SAFETY: all is readable and unchanged for `'a` (this function's contract).
        let given = unsafe { Given::new(array) };
        Valid::of(sound(given.unchecked(&mut scratch)))
    }

    /// Returns an array that was validated before, of which nothing has changed since.
    fn of(array: Unchecked<'_, 'a>) -> Self {
        Valid { array: *array, described: sound(Described::new(array)) }
    }

    /// Returns the array for functions that take arrays which were not checked.
    pub fn unchecked(&self) -> Unchecked<'_, 'a> {
        // SAFETY: the contract of `Given::new`.
        unsafe { Unchecked::new(&self.array) }
    }

    /// Adds a reference to the owner. Fails if there is none, or if it lacks retain or release.
    pub fn retain(&self) -> Result<Ref> {
        self.unchecked().retain()
    }

    /// Copies the description into memory for an owner.
    pub fn prepare(&self) -> Result<Prepared> {
        description::prepare(self.unchecked())
    }

    pub fn dtype(&self) -> cai_dtype {
        self.described.dtype
    }

    /// Checks that the elements, or all of their fields, have the machine's byte order.
    pub fn byte_order(&self) -> Result<()> {
        super::byte_order(self.unchecked(), &self.described.dtype)
    }

    /// Returns true if an element, or a field of one, is a Python object.
    pub fn has_objects(&self) -> Result<bool> {
        match self.fields() {
            Some(fields) => descr::has_objects(fields),
            None => Ok(self.dtype().kind as u8 == b'O'),
        }
    }

    /// Returns the shape, the strides and the size of the elements.
    pub fn layout(&self) -> Layout<'a> {
        self.described.layout
    }

    pub fn count(&self) -> i64 {
        sound(layout::count(self.layout().shape))
    }

    /// Returns the bytes of all elements without gaps, and those that the array can touch.
    pub fn bytes(&self) -> Bytes {
        sound(self.layout().bytes())
    }

    /// Returns the bytes of all elements without gaps.
    pub fn nbytes(&self) -> i64 {
        self.bytes().all
    }

    /// Returns the bytes that the array can touch.
    pub fn span(&self) -> Span {
        self.bytes().span
    }

    pub fn fields(&self) -> Option<Descr<'a>> {
        sound(self.unchecked().fields())
    }

    pub fn mask(&self) -> Option<Valid<'a>> {
        // The check of an array includes its masks.
        sound(self.unchecked().mask(&mut MaybeUninit::uninit())).map(Valid::of)
    }

    /// Returns the mask, the mask of the mask, and so on: at most `CAI_MAX_MASKS`.
    pub fn masks(&self) -> impl Iterator<Item = Valid<'a>> {
        iter::successors(self.mask(), Valid::mask)
    }
}

impl<'a> Given<'a, cai_array> {
    /// Returns the array in place, if its writer knows as much as this library.
    #[inline(always)]
    fn common(self) -> Option<Unchecked<'a, 'a>> {
        // SAFETY: the contract of `Given::new`.
        self.of_this_size().map(|array| unsafe { Unchecked::new(array) })
    }

    /// Returns true for a sound array of the most common kind, without a call. `false` says nothing:
    /// [`validate`](Self::validate) decides.
    #[inline(always)]
    pub fn is_plain(self) -> bool {
        self.common().is_some_and(common::is_plain)
    }

    /// Returns the layout and the bytes of a sound array that [`is_plain`](Self::is_plain) accepts,
    /// if it has elements. Cannot fail, and looks at less than a validation.
    #[inline(always)]
    pub fn plain_layout(self) -> Option<(Layout<'a>, Bytes)> {
        self.common().and_then(common::plain_layout)
    }

    /// Returns true for a sound array of a common kind, as [`is_plain`](Self::is_plain) does. Cannot
    /// panic.
    #[inline]
    pub fn is_common(self) -> bool {
        self.common().is_some_and(common::is_common)
    }

    /// Checks an array and its masks.
    pub fn validate(self, checks: u32) -> Result<()> {
        let mut scratch = MaybeUninit::uninit();
        super::check(self.as_ptr(), self.unchecked(&mut scratch)?, checks)
    }

    /// Checks the layout of a description that is going to be copied, of which `local` is taken for
    /// the array. Masks without elements may have any address, too.
    pub fn validate_description(self, local: Unchecked) -> Result<()> {
        super::without_mask(local, abi::CAI_CHECK_LAYOUT)?;
        masks::check(self.as_ptr(), local, abi::CAI_CHECK_LAYOUT, |of, to| of.mask_or_null(to))
    }

    /// Returns the array, if a check of it and its masks finds that it is valid.
    pub fn valid(self, checks: u32) -> Result<Valid<'a>> {
        let mut scratch = MaybeUninit::uninit();
        let local = self.unchecked(&mut scratch)?;
        super::check(self.as_ptr(), local, checks)?;
        Ok(Valid::of(local))
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
