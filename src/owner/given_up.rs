//! Owners whose last reference was released, and lists of them.
//!
//! Nothing is allocated: the link of a list lies in the owner, in place of its table, which is not
//! used any more.

use std::mem::{self, offset_of};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::nesting::Header;
use crate::abi::{cai_owner, cai_owner_ops};

/// An owner of this library that nothing else refers to. It leaks unless it is destroyed.
#[repr(transparent)]
pub struct GivenUp(NonNull<Header>);

impl GivenUp {
    /// Takes over an owner.
    ///
    /// # Safety
    /// The last reference to the owner that begins with this header was released.
    #[inline(always)]
    pub unsafe fn new(header: NonNull<Header>) -> Self {
        GivenUp(header)
    }

    /// Returns the address of the owner.
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut Header {
        self.0.as_ptr()
    }

    /// Destroys the owner, or puts it into a list if something that it holds has to be destroyed
    /// before.
    #[inline(always)]
    pub fn destroy(self) {
        // SAFETY: nothing else refers to the owner (the contract of `new`), whose function this is.
        unsafe { (self.0.as_ref().destroy)(self) };
    }
}

/// Owners that were given up. They leak unless they are taken out.
#[repr(transparent)]
pub struct List(Option<GivenUp>);

const _: () = assert!(offset_of!(Header, base) == 0 && offset_of!(cai_owner, ops) == 0);
const _: () = assert!(size_of::<*const cai_owner_ops>() == size_of::<List>());

impl List {
    /// No owners.
    pub const EMPTY: Self = List(None);

    /// Returns true if there is none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Adds an owner in front.
    pub fn push(&mut self, owner: GivenUp) {
        // SAFETY: the place of the table, in memory that belongs to the value alone.
        unsafe { owner.0.cast::<List>().write(mem::take(self)) };
        self.0 = Some(owner);
    }

    /// Takes the first owner out.
    pub fn pop(&mut self) -> Option<GivenUp> {
        let rest = mem::take(self.rest()?);
        mem::replace(self, rest).0
    }

    /// Adds the owners of another list behind those of this one.
    pub fn append(&mut self, other: List) {
        let mut end = self;
        while !end.is_empty() {
            let Some(rest) = end.rest() else { return };
            end = rest;
        }
        *end = other;
    }

    /// Returns the list behind the first owner, if there is one.
    fn rest(&mut self) -> Option<&mut List> {
        let first = self.0.as_mut()?;
        // SAFETY: `push` has written the link, in memory that belongs to the first owner alone.
        Some(unsafe { first.0.cast::<List>().as_mut() })
    }
}

impl Default for List {
    #[inline(always)]
    fn default() -> Self {
        List::EMPTY
    }
}

/// A list that any thread may take.
pub struct Shared(AtomicPtr<Header>);

impl Shared {
    /// A list without owners.
    pub const fn new() -> Self {
        Shared(AtomicPtr::new(null_mut()))
    }

    /// Returns true if there was none a moment ago.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }

    /// Takes all owners out.
    pub fn take(&self) -> List {
        // Acquire: what the other thread did with the owners comes before their destruction.
        List(NonNull::new(self.0.swap(null_mut(), Ordering::Acquire)).map(GivenUp))
    }

    /// Adds owners.
    pub fn leave(&self, mut list: List) {
        while let Some(first) = &list.0 {
            // Release: see `take`.
            let left = self.0.compare_exchange(
                null_mut(),
                first.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            );
            if left.is_ok() {
                return;
            }
            list.append(self.take());
        }
    }
}
