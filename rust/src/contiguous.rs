//! Views of elements that lie side by side.

use std::fmt;
use std::ops::Index;

use crate::view::{Ix, View};

/// The elements of a view that lie in C order without gaps: a slice with a shape. The compiler
/// knows that the last index counts elements, which makes loops over indices faster.
///
/// ```
/// use libcai::{Array, ContiguousView, Ix};
///
/// let array = Array::from_vec((0..12).collect::<Vec<u32>>(), &[3, 4])?;
/// let view = ContiguousView::new(array.view::<u32, Ix<2>>()?).expect("no gaps");
/// assert_eq!((view[[2, 1]], view.get([3, 0]), view.as_slice().len()), (9, None, 12));
/// # Ok::<(), libcai::Error>(())
/// ```
pub struct ContiguousView<'a, T, const N: usize> {
    elements: &'a [T],
    shape: [usize; N],
}

impl<'a, T, const N: usize> ContiguousView<'a, T, N> {
    /// Returns the same elements, or `None` if there are gaps between them, or another order.
    #[must_use]
    pub fn new(view: View<'a, T, Ix<N>>) -> Option<Self> {
        view.as_slice().map(|elements| ContiguousView { elements, shape: view.shape() })
    }

    /// Returns the extents.
    #[must_use]
    pub fn shape(&self) -> [usize; N] {
        self.shape
    }

    /// Returns all elements.
    #[must_use]
    pub fn as_slice(&self) -> &'a [T] {
        self.elements
    }

    /// Returns an element, or `None` if an index is out of bounds.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, index: [usize; N]) -> Option<&'a T> {
        let mut offset = 0usize;
        for (index, extent) in index.into_iter().zip(self.shape) {
            if index >= extent {
                return None;
            }
            // Below the number of elements, because every index is below its extent.
            offset = offset.wrapping_mul(extent).wrapping_add(index);
        }
        // SAFETY: the product of the extents is the length of the slice (`new`), and each index is
        // below its extent, so the offset is below the length.
        Some(unsafe { self.elements.get_unchecked(offset) })
    }

    #[cold]
    #[inline(never)]
    fn out_of_bounds(&self, index: [usize; N]) -> ! {
        panic!("index {index:?} is out of bounds of shape {:?}", self.shape)
    }
}

impl<T, const N: usize> Clone for ContiguousView<'_, T, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const N: usize> Copy for ContiguousView<'_, T, N> {}

impl<T, const N: usize> Index<[usize; N]> for ContiguousView<'_, T, N> {
    type Output = T;

    #[inline(always)]
    fn index(&self, index: [usize; N]) -> &T {
        match self.get(index) {
            Some(element) => element,
            None => self.out_of_bounds(index),
        }
    }
}

impl<T: fmt::Debug, const N: usize> fmt::Debug for ContiguousView<'_, T, N> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("ContiguousView").field("shape", &self.shape).finish_non_exhaustive()
    }
}
