//! Views: typed access to elements in memory that the host can read.

mod dimension;
mod elements;

use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use crate::device::Device;
use crate::element::Element;
use crate::error::{Error, Result, call, counted};
use crate::sys::{self, cai_array};
pub use dimension::{Dimension, Ix, IxDyn};
pub(crate) use elements::check_type;

/// The elements of an array of host memory, with any strides. It borrows the array, and allocates
/// nothing.
///
/// ```
/// use libcai::{Array, IxDyn, Ix};
///
/// let array = Array::from_vec((0..24).collect::<Vec<i32>>(), &[2, 3, 4])?;
/// let view = array.view::<i32, Ix<3>>()?;
/// assert_eq!((view.shape(), view[[1, 2, 3]]), ([2, 3, 4], 23));
/// assert_eq!(view.get([2, 0, 0]), None);
/// // Rows are slices where the elements lie side by side.
/// let sums: Vec<i32> = view.rows().map(|row| row.as_slice().unwrap().iter().sum()).collect();
/// assert_eq!(sums, [6, 22, 38, 54, 70, 86]);
///
/// let any = array.view::<i32, IxDyn>()?;
/// assert_eq!((any.ndim(), any[&[0, 1, 0]]), (3, 4));
/// # Ok::<(), libcai::Error>(())
/// ```
///
/// The array outlives its views:
///
/// ```compile_fail,E0505
/// use libcai::{Array, Ix};
///
/// let array = Array::from_vec(vec![1u8, 2], &[2])?;
/// let view = array.view::<u8, Ix<1>>()?;
/// drop(array);
/// assert_eq!(view[[0]], 1);
/// # Ok::<(), libcai::Error>(())
/// ```
pub struct View<'a, T, D> {
    data: *const T,
    shape: D,
    /// In bytes.
    strides: D,
    lives: PhantomData<&'a [T]>,
}

/// The elements of an array of host memory, which may be written, by this view alone.
///
/// ```
/// use libcai::{Array, Ix};
///
/// let array = Array::from_vec(vec![0i32; 4], &[2, 2])?;
/// // SAFETY: nothing else accesses the data: there is no clone of the array.
/// let mut view = unsafe { array.view_mut::<i32, Ix<2>>() }?;
/// view[[0, 1]] = 5;
/// view.as_mut_slice().expect("no gaps")[3] = 7;
/// assert_eq!(view.as_view().iter().sum::<i32>(), 12);
/// # Ok::<(), libcai::Error>(())
/// ```
///
/// A slice borrows the view, so that there are no two of one element:
///
/// ```compile_fail,E0499
/// # let array = libcai::Array::from_vec(vec![0i32; 4], &[4])?;
/// # let mut view = unsafe { array.view_mut::<i32, libcai::Ix<1>>() }?;
/// let first = view.as_mut_slice().expect("no gaps");
/// let second = view.as_mut_slice().expect("no gaps");
/// first[0] = second[0];
/// # Ok::<(), libcai::Error>(())
/// ```
pub struct ViewMut<'a, T, D> {
    view: View<'a, T, D>,
    lives: PhantomData<&'a mut [T]>,
}

impl<T, D: Copy> Clone for View<'_, T, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, D: Copy> Copy for View<'_, T, D> {}

// SAFETY: a view is as good as a shared slice of elements; nothing writes while it exists.
unsafe impl<T: Sync, D: Sync> Sync for View<'_, T, D> {}
// SAFETY: as for `Sync`: elements are only read.
unsafe impl<T: Sync, D: Send> Send for View<'_, T, D> {}
// SAFETY: a mutable view is as good as a mutable slice of elements.
unsafe impl<T: Sync, D: Sync> Sync for ViewMut<'_, T, D> {}
// SAFETY: a mutable view is as good as a mutable slice of elements, which moves with `T: Send`.
unsafe impl<T: Send, D: Send> Send for ViewMut<'_, T, D> {}

#[cold]
fn device_refused(array: &cai_array) -> Error {
    Error::new(
        sys::CAI_ERR_CONVERT_DEVICE,
        "device.type",
        array.device.r#type,
        "memory that the host can read; copy it with `to_vec`",
    )
}

/// Returns a view of an array.
///
/// # Safety
/// The array is valid and lives as long as `'a`, during which nothing writes to the data.
#[inline]
pub(crate) unsafe fn of_array<'a, T: Element, D: Dimension>(
    array: &'a cai_array,
) -> Result<View<'a, T, D>> {
    if !Device::from(array.device).is_host_readable() {
        return Err(device_refused(array));
    }
    if !array.mask.is_null() {
        return Err(Error::new(sys::CAI_ERR_CONVERT_MASK, "mask", "a mask", "none"));
    }
    let ndim = array.ndim as usize;
    if let Some(wanted) = D::NDIM.filter(|wanted| *wanted != ndim) {
        let expected = counted(wanted, "dimension");
        return Err(Error::new(sys::CAI_ERR_CONVERT_NDIM, "ndim", ndim, expected));
    }
    check_type::<T>(array)?;
    let (mut shape, mut strides) = (D::zeros(ndim), D::zeros(ndim));
    let mut step = size_of::<T>() as isize;
    let alignment = align_of::<T>();
    for d in (0..ndim).rev() {
        // SAFETY: a valid array has `ndim` extents, and as many strides or none.
        let (extent, stride) = unsafe {
            let stride = if array.strides.is_null() { None } else { Some(*array.strides.add(d)) };
            (*array.shape.add(d) as isize, stride.map(|stride| stride as isize))
        };
        shape.values_mut()[d] = extent;
        strides.values_mut()[d] = stride.unwrap_or(step);
        // The steps of an array with elements fit: validation has measured it.
        step = step.wrapping_mul(extent);
        let stride = strides.values()[d];
        if extent > 1 && stride % alignment as isize != 0 && !array.data.is_null() {
            let field = format!("strides[{d}]");
            let expected = format!("a multiple of {alignment}");
            return Err(Error::new(sys::CAI_ERR_ALIGNMENT, &field, stride, expected));
        }
    }
    if array.data as usize % alignment != 0 {
        let found = format!("{:p}", array.data);
        let expected = format!("a multiple of {alignment}");
        return Err(Error::new(sys::CAI_ERR_ALIGNMENT, "data", found, expected));
    }
    if array.stream != sys::CAI_STREAM_NONE {
        // SAFETY: the array is valid (this function's contract).
        call(|error| unsafe { sys::cai_array_synchronize(array, 0, error) })?;
    }
    Ok(View { data: array.data.cast(), shape, strides, lives: PhantomData })
}

/// Returns a mutable view of an array.
///
/// # Safety
/// As for [`of_array`]; during `'a`, nothing else accesses the data.
pub(crate) unsafe fn of_array_mut<'a, T: Element, D: Dimension>(
    array: &'a cai_array,
) -> Result<ViewMut<'a, T, D>> {
    // SAFETY: this function requires what `of_array` does.
    let view = unsafe { of_array(array) }?;
    if array.flags & sys::CAI_ARRAY_READONLY != 0 {
        let found = "a read-only array";
        return Err(Error::new(sys::CAI_ERR_READONLY, "flags", found, "a writable one"));
    }
    Ok(ViewMut { view, lives: PhantomData })
}

impl<'a, T, D: Dimension> View<'a, T, D> {
    /// Returns the number of dimensions.
    #[must_use]
    pub fn ndim(&self) -> usize {
        self.shape.values().len()
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.is_empty() { 0 } else { self.shape.values().iter().product::<isize>() as usize }
    }

    /// Returns true if there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.data.is_null()
    }

    /// Returns an extent.
    ///
    /// # Panics
    /// If there is no such dimension.
    #[must_use]
    pub fn extent(&self, dimension: usize) -> usize {
        self.shape.values()[dimension] as usize
    }

    /// Returns a stride in bytes.
    ///
    /// # Panics
    /// If there is no such dimension.
    #[must_use]
    pub fn stride(&self, dimension: usize) -> isize {
        self.strides.values()[dimension]
    }

    /// Returns the address of the element whose indices are all zero, or NULL.
    #[must_use]
    pub fn as_ptr(&self) -> *const T {
        self.data
    }

    /// Returns true if the elements lie in C order without gaps.
    #[must_use]
    pub fn is_c_contiguous(&self) -> bool {
        let mut step = size_of::<T>() as isize;
        let dimensions = self.shape.values().iter().zip(self.strides.values()).rev();
        self.is_empty()
            || dimensions.fold(true, |so_far, (extent, stride)| {
                let fits = *extent == 1 || *stride == step;
                step = step.wrapping_mul(*extent);
                so_far && fits
            })
    }

    /// Returns all elements as a slice if they lie in C order without gaps.
    #[must_use]
    pub fn as_slice(&self) -> Option<&'a [T]> {
        if self.is_empty() {
            return Some(&[]);
        }
        // SAFETY: `len` elements lie side by side, aligned, and nothing writes during `'a`.
        self.is_c_contiguous().then(|| unsafe { std::slice::from_raw_parts(self.data, self.len()) })
    }

    /// Returns an iterator over all elements in C order.
    #[must_use]
    pub fn iter(&self) -> Iter<'a, T, D> {
        let ndim = self.ndim();
        Iter { view: *self, index: D::zeros(ndim), at: self.data, left: self.len() }
    }

    /// Returns an iterator over the rows, in C order: the views of the last dimension. A view
    /// without dimensions is one row of one element.
    #[must_use]
    pub fn rows(&self) -> Rows<'a, T, D> {
        let count = self.len();
        let length = self.shape.values().last().map_or(1, |extent| *extent as usize);
        let left = if count == 0 { 0 } else { count / length };
        Rows { view: *self, index: D::zeros(self.ndim()), at: self.data, left }
    }

    /// Returns the distance of an element in bytes, or `None` if an index is out of bounds.
    #[inline(always)]
    fn offset(&self, index: &[usize]) -> Option<isize> {
        let (shape, strides) = (self.shape.values(), self.strides.values());
        if index.len() != shape.len() {
            return None;
        }
        let mut offset = 0isize;
        for d in 0..index.len() {
            if index[d] >= shape[d] as usize {
                return None;
            }
            // Validation has measured that the distance of every element fits.
            offset = offset.wrapping_add((index[d] as isize).wrapping_mul(strides[d]));
        }
        (!self.data.is_null()).then_some(offset)
    }

    #[inline(always)]
    fn at(&self, index: &[usize]) -> Option<&'a T> {
        // SAFETY: `offset` found that the element exists; it is aligned, because `of_array` checked
        // the address and the strides, and nothing writes during `'a`.
        self.offset(index).map(|offset| unsafe { &*self.data.byte_offset(offset) })
    }

    #[cold]
    #[inline(never)]
    fn out_of_bounds(&self, index: &[usize]) -> ! {
        panic!("index {index:?} is out of bounds of shape {:?}", self.shape.values())
    }
}

impl<'a, T, const N: usize> View<'a, T, Ix<N>> {
    /// Returns the extents.
    #[must_use]
    pub fn shape(&self) -> [usize; N] {
        self.shape.0.map(|extent| extent as usize)
    }

    /// Returns an element, or `None` if an index is out of bounds.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, index: [usize; N]) -> Option<&'a T> {
        self.at(&index)
    }

    /// Returns an element without checking the indices.
    ///
    /// # Safety
    /// Each index is below its extent.
    #[inline(always)]
    #[must_use]
    pub unsafe fn get_unchecked(&self, index: [usize; N]) -> &'a T {
        let mut offset = 0isize;
        for (index, stride) in index.iter().zip(&self.strides.0) {
            offset = offset.wrapping_add((*index as isize).wrapping_mul(*stride));
        }
        // SAFETY: the element exists (this function's contract); the rest as in `at`.
        unsafe { &*self.data.byte_offset(offset) }
    }
}

impl<'a, T> View<'a, T, IxDyn> {
    /// Returns an element, or `None` if there are not as many indices as dimensions, or one is out
    /// of bounds.
    #[must_use]
    pub fn get(&self, index: &[usize]) -> Option<&'a T> {
        self.at(index)
    }
}

impl<T, const N: usize> Index<[usize; N]> for View<'_, T, Ix<N>> {
    type Output = T;

    #[inline(always)]
    fn index(&self, index: [usize; N]) -> &T {
        match self.at(&index) {
            Some(element) => element,
            None => self.out_of_bounds(&index),
        }
    }
}

impl<T, const N: usize> Index<&[usize; N]> for View<'_, T, IxDyn> {
    type Output = T;

    fn index(&self, index: &[usize; N]) -> &T {
        &self[&index[..]]
    }
}

impl<T> Index<&[usize]> for View<'_, T, IxDyn> {
    type Output = T;

    fn index(&self, index: &[usize]) -> &T {
        self.at(index).unwrap_or_else(|| self.out_of_bounds(index))
    }
}

impl<'a, T, D: Dimension> ViewMut<'a, T, D> {
    /// Returns the same elements for reading, as long as this view is borrowed.
    #[must_use]
    pub fn as_view(&self) -> View<'_, T, D> {
        self.view
    }

    /// Returns all elements as a slice if they lie in C order without gaps.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        let (data, length) = (self.view.data.cast_mut(), self.view.as_slice()?.len());
        if length == 0 {
            return Some(&mut []);
        }
        // SAFETY: `length` elements lie side by side; nothing else accesses them, and this view is
        // borrowed as long as the slice is.
        Some(unsafe { std::slice::from_raw_parts_mut(data, length) })
    }
}

impl<T, const N: usize> Index<[usize; N]> for ViewMut<'_, T, Ix<N>> {
    type Output = T;

    #[inline(always)]
    fn index(&self, index: [usize; N]) -> &T {
        match self.view.at(&index) {
            Some(element) => element,
            None => self.view.out_of_bounds(&index),
        }
    }
}

impl<T, const N: usize> IndexMut<[usize; N]> for ViewMut<'_, T, Ix<N>> {
    #[inline(always)]
    fn index_mut(&mut self, index: [usize; N]) -> &mut T {
        match self.view.offset(&index) {
            // SAFETY: the element exists; nothing else accesses it, and this view is borrowed as
            // long as the reference is.
            Some(offset) => unsafe { &mut *self.view.data.cast_mut().byte_offset(offset) },
            None => self.view.out_of_bounds(&index),
        }
    }
}

impl<T: fmt::Debug, D: Dimension> fmt::Debug for View<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut text = f.debug_struct("View");
        text.field("shape", &self.shape.values()).field("strides", &self.strides.values());
        text.field("data", &self.data).finish()
    }
}

impl<T: fmt::Debug, D: Dimension> fmt::Debug for ViewMut<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.view.fmt(f)
    }
}

/// Moves to the next element of the first `ndim` dimensions in C order.
#[inline]
fn advance<T, D: Dimension>(
    view: &View<'_, T, D>,
    index: &mut D,
    mut at: *const T,
    ndim: usize,
) -> *const T {
    let (shape, strides) = (view.shape.values(), view.strides.values());
    for d in (0..ndim).rev() {
        let place = &mut index.values_mut()[d];
        *place += 1;
        at = at.wrapping_byte_offset(strides[d]);
        if *place < shape[d] {
            return at;
        }
        at = at.wrapping_byte_offset(strides[d].wrapping_mul(*place).wrapping_neg());
        *place = 0;
    }
    at
}

/// Iterates over the elements of a view in C order; made by [`View::iter`].
///
/// ```
/// use libcai::{Array, Ix};
///
/// let array = Array::from_vec(vec![1u32, 2, 3, 4], &[2, 2])?;
/// let view = array.view::<u32, Ix<2>>()?;
/// assert_eq!((view.iter().len(), view.iter().max()), (4, Some(&4)));
/// # Ok::<(), libcai::Error>(())
/// ```
pub struct Iter<'a, T, D> {
    view: View<'a, T, D>,
    index: D,
    at: *const T,
    left: usize,
}

impl<'a, T, D: Dimension> Iterator for Iter<'a, T, D> {
    type Item = &'a T;

    #[inline]
    fn next(&mut self) -> Option<&'a T> {
        self.left = self.left.checked_sub(1)?;
        // SAFETY: `at` is the element at `index`, which is inside of the shape while elements are
        // left; nothing writes during `'a`.
        let element = unsafe { &*self.at };
        self.at = advance(&self.view, &mut self.index, self.at, self.view.ndim());
        Some(element)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }

    /// Row by row, where no row has begun.
    fn fold<B, F: FnMut(B, &'a T) -> B>(mut self, init: B, mut f: F) -> B {
        if self.left != self.view.len() {
            let mut so_far = init;
            for element in self.by_ref() {
                so_far = f(so_far, element);
            }
            return so_far;
        }
        if let Some(all) = self.view.as_slice() {
            return all.iter().fold(init, f);
        }
        self.view.rows().fold(init, |so_far, row| {
            (0..row.len()).fold(so_far, |so_far, index| {
                // SAFETY: the index is below the only extent.
                f(so_far, unsafe { row.get_unchecked([index]) })
            })
        })
    }
}

impl<T, D: Dimension> ExactSizeIterator for Iter<'_, T, D> {}
impl<T, D: Dimension> FusedIterator for Iter<'_, T, D> {}

impl<'a, T, D: Dimension> IntoIterator for View<'a, T, D> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T, D>;

    fn into_iter(self) -> Iter<'a, T, D> {
        self.iter()
    }
}

/// Iterates over the rows of a view; made by [`View::rows`].
///
/// ```
/// use libcai::{Array, Ix};
///
/// let array = Array::from_vec(vec![1u32, 2, 3, 4], &[2, 2])?;
/// let rows = array.view::<u32, Ix<2>>()?.rows();
/// assert_eq!(rows.map(|row| row[[0]] + row[[1]]).collect::<Vec<_>>(), [3, 7]);
/// # Ok::<(), libcai::Error>(())
/// ```
pub struct Rows<'a, T, D> {
    view: View<'a, T, D>,
    index: D,
    at: *const T,
    left: usize,
}

impl<'a, T, D: Dimension> Iterator for Rows<'a, T, D> {
    type Item = View<'a, T, Ix<1>>;

    #[inline]
    fn next(&mut self) -> Option<View<'a, T, Ix<1>>> {
        self.left = self.left.checked_sub(1)?;
        let (shape, strides) = (self.view.shape.values(), self.view.strides.values());
        let row = View {
            data: self.at,
            shape: Ix([shape.last().copied().unwrap_or(1)]),
            strides: Ix([strides.last().copied().unwrap_or(0)]),
            lives: PhantomData,
        };
        let outer = self.view.ndim().saturating_sub(1);
        self.at = advance(&self.view, &mut self.index, self.at, outer);
        Some(row)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T, D: Dimension> ExactSizeIterator for Rows<'_, T, D> {}
impl<T, D: Dimension> FusedIterator for Rows<'_, T, D> {}

// SAFETY: an iterator is as good as a view, and its address as a reference to an element.
unsafe impl<T: Sync, D: Sync> Sync for Iter<'_, T, D> {}
// SAFETY: as for `Sync`: elements are only read.
unsafe impl<T: Sync, D: Send> Send for Iter<'_, T, D> {}
// SAFETY: an iterator is as good as a view, and its address as a reference to an element.
unsafe impl<T: Sync, D: Sync> Sync for Rows<'_, T, D> {}
// SAFETY: as for `Sync`: elements are only read.
unsafe impl<T: Sync, D: Send> Send for Rows<'_, T, D> {}

impl<T, D: Copy> Clone for Iter<'_, T, D> {
    fn clone(&self) -> Self {
        Iter { view: self.view, index: self.index, at: self.at, left: self.left }
    }
}

impl<T, D: Copy> Clone for Rows<'_, T, D> {
    fn clone(&self) -> Self {
        Rows { view: self.view, index: self.index, at: self.at, left: self.left }
    }
}
