//! References that must not be released too early.

use std::mem::ManuallyDrop;
use std::ops::Deref;

use crate::error::Result;
use crate::owner::Ref;

/// A reference whose release waits for work. Dropping it leaks the reference: no failure, panic or
/// end of a thread releases it early.
pub struct Deferred(ManuallyDrop<Ref>);

impl Deferred {
    pub fn new(owner: Ref) -> Self {
        Deferred(ManuallyDrop::new(owner))
    }

    /// Releases the reference, which may run code of others.
    pub fn release(self) {
        drop(ManuallyDrop::into_inner(self.0));
    }

    /// Adds a reference, whose release is deferred too.
    pub fn another(&self) -> Result<Self> {
        self.0.another().map(Deferred::new)
    }
}

impl Deref for Deferred {
    type Target = Ref;

    fn deref(&self) -> &Ref {
        &self.0
    }
}
