//! Managed tensors, and the views of what is inside them.

use std::ffi::c_void;
use std::mem::{self, MaybeUninit};
use std::ops::Deref;
use std::ptr;

use crate::abi::{self, DLManagedTensor, DLManagedTensorVersioned};
use crate::dlpack::abi::{
    DIMENSIONS, DataType, Deleter, IS_COPIED, Tensor, Unversioned, VERSION, Version, Versioned,
};
use crate::error::{Count, Result, fail};
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
    fail!(CAI_ERR_DLPACK_VERSION, "version";
        found "{}.{}", version.major, version.minor;
        expected "{}, with any minor number", VERSION.major)
}

/// The parts of a tensor whose lanes are a last dimension.
pub struct Expanded<'t> {
    shape: &'t mut [MaybeUninit<i64>; DIMENSIONS],
    strides: [i64; DIMENSIONS],
    tensor: Option<Tensor>,
}

impl<'t> Expanded<'t> {
    /// `shape`: scratch memory for the shape.
    pub fn new(shape: &'t mut [MaybeUninit<i64>; DIMENSIONS]) -> Self {
        Expanded { shape, strides: [0; DIMENSIONS], tensor: None }
    }
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

    /// Returns the tensor with its lanes as a last dimension. Strides that are used must not exceed
    /// 2^63 lanes; others become one element.
    pub fn with_lanes<'t>(&self, to: &'t mut Expanded<'_>) -> Result<View<'t>> {
        let (shape, strides) = self.shape_and_strides()?;
        let (ndim, lanes) = (shape.len(), i64::from(self.dtype.lanes));
        if ndim == DIMENSIONS {
            return fail!(CAI_ERR_NDIM, "ndim";
                found "{ndim}, and one for the lanes"; expected "at most {}", abi::CAI_MAX_NDIM);
        }
        let Expanded { shape: to_shape, strides: to_strides, tensor } = to;
        for (to, extent) in to_shape.iter_mut().zip(shape.iter().chain([&lanes])) {
            to.write(*extent);
        }
        let is_empty = shape.contains(&0);
        for (index, &stride) in strides.unwrap_or_default().iter().enumerate() {
            to_strides[index] = match stride.checked_mul(lanes) {
                Some(stride) => stride,
                None if is_empty || shape[index] <= 1 => lanes,
                None => {
                    return fail!(CAI_ERR_SPAN_OVERFLOW, "strides[{index}]";
                        found "{} of {}", Count(stride, "element"), Count(lanes, "lane");
                        expected "a stride within 2^63 bytes");
                }
            };
        }
        to_strides[ndim] = 1;
        let dtype = DataType { lanes: 1, ..self.dtype };
        let strides = strides.map_or(ptr::null_mut(), |_| to_strides.as_mut_ptr());
        let shape = to_shape.as_mut_ptr().cast();
        let ndim = self.ndim + 1;
        // `ndim + 1` values of both were written above.
        let tensor = tensor.insert(Tensor { ndim, dtype, shape, strides, ..*self.tensor });
        Ok(View { tensor, flags: self.flags })
    }
}

impl Deref for View<'_> {
    type Target = Tensor;

    #[inline(always)]
    fn deref(&self) -> &Tensor {
        self.tensor
    }
}
