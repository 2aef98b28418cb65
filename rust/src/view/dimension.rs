//! Dimensions of views.

use std::fmt;

use crate::sys;

mod sealed {
    pub trait Sealed {}
}

/// The dimensions of a view: [`Ix`] or [`IxDyn`]. A function that takes views of any is generic:
///
/// ```
/// use libcai::{Array, Dimension, IxDyn, View};
///
/// fn largest<D: Dimension>(view: &View<'_, f32, D>) -> f32 {
///     view.iter().copied().fold(f32::NEG_INFINITY, f32::max)
/// }
///
/// let array = Array::from_vec(vec![1.0f32, 4.0, 2.0], &[3])?;
/// assert_eq!(largest(&array.view::<f32, IxDyn>()?), 4.0);
/// # Ok::<(), libcai::Error>(())
/// ```
pub trait Dimension: Copy + sealed::Sealed + fmt::Debug {
    /// Number of dimensions, or `None` for any number.
    const NDIM: Option<usize>;
    /// One zero for each dimension, of which there are at most 64.
    #[doc(hidden)]
    fn zeros(ndim: usize) -> Self;
    #[doc(hidden)]
    fn values(&self) -> &[isize];
    #[doc(hidden)]
    fn values_mut(&mut self) -> &mut [isize];
}

/// `N` dimensions, which the compiler knows: `array.view::<f32, Ix<2>>()` fails for an array of
/// another number.
#[derive(Clone, Copy, Debug)]
pub struct Ix<const N: usize>(pub(super) [isize; N]);

/// Any number of dimensions: `array.view::<f32, IxDyn>()`.
#[derive(Clone, Copy)]
pub struct IxDyn {
    values: [isize; sys::CAI_MAX_NDIM as usize],
    ndim: usize,
}

impl<const N: usize> sealed::Sealed for Ix<N> {}
impl sealed::Sealed for IxDyn {}

impl<const N: usize> Dimension for Ix<N> {
    const NDIM: Option<usize> = Some(N);

    #[inline]
    fn zeros(_: usize) -> Self {
        Ix([0; N])
    }

    #[inline]
    fn values(&self) -> &[isize] {
        &self.0
    }

    #[inline]
    fn values_mut(&mut self) -> &mut [isize] {
        &mut self.0
    }
}

impl Dimension for IxDyn {
    const NDIM: Option<usize> = None;

    fn zeros(ndim: usize) -> Self {
        IxDyn { values: [0; sys::CAI_MAX_NDIM as usize], ndim }
    }

    #[inline]
    fn values(&self) -> &[isize] {
        &self.values[..self.ndim]
    }

    #[inline]
    fn values_mut(&mut self) -> &mut [isize] {
        &mut self.values[..self.ndim]
    }
}

impl fmt::Debug for IxDyn {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_tuple("IxDyn").field(&self.values()).finish()
    }
}
