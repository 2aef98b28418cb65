//! Managed tensors, and the views of what is inside them.

use std::ffi::c_void;
use std::mem;
use std::ops::Deref;

use crate::abi::{DLManagedTensor, DLManagedTensorVersioned};
use crate::dlpack::abi::{Deleter, IS_COPIED, Tensor, Unversioned, VERSION, Version, Versioned};
use crate::error::{Result, fail};
use crate::read;

/// A live managed tensor that this value owns: dropping it calls the deleter.
pub struct ManagedTensor(Structure);

#[derive(Clone, Copy)]
enum Structure {
    Versioned(*mut Versioned),
    Unversioned(*mut Unversioned),
}

impl ManagedTensor {
    /// # Safety
    /// `tensor` points to a live managed tensor of any version, which the caller owns and gives up.
    pub unsafe fn versioned(tensor: *mut DLManagedTensorVersioned) -> Self {
        ManagedTensor(Structure::Versioned(tensor.cast()))
    }

    /// # Safety
    /// As for [`versioned`](Self::versioned).
    pub unsafe fn unversioned(tensor: *mut DLManagedTensor) -> Self {
        ManagedTensor(Structure::Unversioned(tensor.cast()))
    }

    /// Returns the tensor inside. Fails for another major version, whose layout is not known.
    #[inline(always)]
    pub fn view(&self) -> Result<View<'_>> {
        match self.0 {
            Structure::Versioned(managed) => {
                // SAFETY: alive while this value exists. The version is the first member in every
                // version of the structure; no reference to the whole is made.
                let version = unsafe { (&raw const (*managed).version).read() };
                if version.major != VERSION.major {
                    return other_version(version);
                }
                // SAFETY: alive, and the major version, checked above, has these members at these
                // offsets.
                let (tensor, flags) = unsafe { (&(*managed).tensor, (*managed).flags) };
                Ok(View { tensor, flags: Some(flags) })
            }
            Structure::Unversioned(managed) => {
                // SAFETY: alive while this value exists.
                let tensor = unsafe { &(*managed).tensor };
                Ok(View { tensor, flags: None })
            }
        }
    }

    pub fn deleter(&self) -> (Deleter, *mut c_void) {
        // SAFETY: alive while this value exists. The deleter has the same offset in every version.
        let deleter = unsafe {
            match self.0 {
                Structure::Versioned(managed) => (&raw const (*managed).deleter).read(),
                Structure::Unversioned(managed) => (&raw const (*managed).deleter).read(),
            }
        };
        (deleter, self.as_raw())
    }

    pub fn is_versioned(&self) -> bool {
        matches!(self.0, Structure::Versioned(_))
    }

    fn as_raw(&self) -> *mut c_void {
        match self.0 {
            Structure::Versioned(managed) => managed.cast(),
            Structure::Unversioned(managed) => managed.cast(),
        }
    }

    /// Returns the managed tensor, which the caller owns from now on.
    pub fn into_raw(self) -> *mut c_void {
        let managed = self.as_raw();
        mem::forget(self);
        managed
    }

    /// States that the tensor is a copy that only its consumer uses, if it has a version.
    pub fn mark_copied(&mut self) {
        if let (Structure::Versioned(managed), Ok(_)) = (self.0, self.view()) {
            // SAFETY: alive, owned by this value, and of the major version that has this member,
            // which `view` checked.
            unsafe { (*managed).flags |= IS_COPIED };
        }
    }
}

impl Drop for ManagedTensor {
    fn drop(&mut self) {
        if let (Some(deleter), managed) = self.deleter() {
            // SAFETY: the deleter is that of this tensor, which this value owns and gives up.
            unsafe { deleter(managed) };
        }
    }
}

#[cold]
fn other_version<T>(version: Version) -> Result<T> {
    fail!(
        CAI_ERR_DLPACK_VERSION,
        "version",
        found = ("{}.{}", version.major, version.minor),
        expected = ("{}, with any minor number", VERSION.major)
    )
}

/// A live tensor, which stays unchanged for `'a`. Its shape refers to `ndim` extents, and its
/// strides to as many values, unless either is NULL.
#[derive(Clone, Copy)]
pub struct View<'a> {
    tensor: &'a Tensor,
    flags: Option<u64>,
}

impl<'a> View<'a> {
    /// A view of a tensor. `flags` are those of a versioned one.
    ///
    /// # Safety
    /// `shape` and `strides` are NULL or point to `ndim` values that stay unchanged for `'a`.
    #[cfg(test)]
    pub unsafe fn new(tensor: &'a Tensor, flags: Option<u64>) -> Self {
        View { tensor, flags }
    }

    /// Returns the flags, which only a versioned tensor has.
    #[inline(always)]
    pub fn flags(&self) -> Option<u64> {
        self.flags
    }

    /// Returns shape and strides. The number of dimensions is checked, the values are not.
    #[inline(always)]
    pub fn shape_and_strides(&self) -> Result<(&'a [i64], Option<&'a [i64]>)> {
        let Tensor { ndim, shape, strides, .. } = *self.tensor;
        // SAFETY: both refer to `ndim` values, unless NULL (an invariant of a view): that of the
        // shape and the range of `ndim` are checked by `shape`, before it is used for the strides.
        unsafe {
            let shape = read::shape(ndim, shape)?;
            let has_strides = !strides.is_null();
            Ok((shape, has_strides.then(|| read::values(strides, shape.len()))))
        }
    }
}

impl Deref for View<'_> {
    type Target = Tensor;

    #[inline(always)]
    fn deref(&self) -> &Tensor {
        self.tensor
    }
}
