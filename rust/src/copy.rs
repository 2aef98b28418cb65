//! Copies between arrays and slices of the host.

use std::ptr::null_mut;

use crate::array::{ArrayRef, INIT};
use crate::element::Element;
use crate::error::{Error, Result, call, counted};
use crate::sys;
use crate::view;

impl ArrayRef {
    /// Copies the elements to host memory, in C order, after the work that is pending on them. It
    /// blocks until the copy is done.
    ///
    /// ```
    /// let array = libcai::Array::from_vec(vec![1i64, 2, 3, 4], &[2, 2])?;
    /// assert_eq!(array.to_vec::<i64>()?, [1, 2, 3, 4]);
    /// assert!(array.to_vec::<f64>().is_err());
    /// # Ok::<(), libcai::Error>(())
    /// ```
    ///
    /// Fails with `CAI_ERR_CONVERT_TYPE` or `CAI_ERR_CONVERT_BYTE_ORDER` for elements of another
    /// type, with `CAI_ERR_NO_MEMORY`, or with a status of `cai_unstable_array_copy_to_host`.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        view::check_type::<T>(self.as_raw())?;
        let layout = self.layout();
        let count = layout.count as usize;
        let mut values = Vec::<T>::new();
        // An array whose strides are zero has more elements than bytes.
        if values.try_reserve_exact(count).is_err() {
            let found = counted(count, "element");
            let expected = "as many as the memory has space for";
            return Err(Error::new(sys::CAI_ERR_NO_MEMORY, "shape", found, expected));
        }
        let (mut out, stream) = (INIT, sys::CAI_STREAM_NONE);
        let (buffer, size) = (values.as_mut_ptr().cast(), layout.nbytes as usize);
        let buffer = if size == 0 { null_mut() } else { buffer };
        // SAFETY: the array is valid, its elements have the size of `T` (`check_type`), and so
        // `size` bytes are writable. `CAI_STREAM_NONE` blocks until all of them are written.
        call(|error| unsafe {
            sys::cai_unstable_array_copy_to_host(
                self.as_raw(),
                stream,
                0,
                buffer,
                size,
                &mut out,
                error,
            )
        })?;
        // SAFETY: the copy is an array, whose reference ends here; `count` elements were written,
        // and any bytes are a valid `T` (`Element`).
        unsafe {
            sys::cai_array_release(&mut out);
            values.set_len(count);
        }
        Ok(values)
    }

    /// Copies values, in C order, to the elements of an array of host memory or of a device, after
    /// the work that is pending on them. It blocks until the copy is done.
    ///
    /// ```
    /// let array = libcai::Array::from_vec(vec![0i32; 4], &[2, 2])?;
    /// // SAFETY: there is no view of the array, and no clone.
    /// unsafe { array.copy_from_slice(&[1, 2, 3, 4]) }?;
    /// assert_eq!(array.to_vec::<i32>()?, [1, 2, 3, 4]);
    /// # Ok::<(), libcai::Error>(())
    /// ```
    ///
    /// Fails with `CAI_ERR_ARGUMENT` for another number of values, with `CAI_ERR_CONVERT_TYPE` or
    /// `CAI_ERR_CONVERT_BYTE_ORDER` for another type, or with a status of
    /// `cai_unstable_array_copy_from_host`, such as `CAI_ERR_READONLY`.
    ///
    /// # Safety
    /// During the call, no view of the data exists, and nothing else accesses it, except on streams
    /// that are ordered with the array's. `values` is not the data itself.
    pub unsafe fn copy_from_slice<T: Element>(&self, values: &[T]) -> Result<()> {
        view::check_type::<T>(self.as_raw())?;
        if values.len() != self.len() {
            let expected = format!("{}, as elements", self.len());
            let found = counted(values.len(), "value");
            return Err(Error::new(sys::CAI_ERR_ARGUMENT, "values", found, expected));
        }
        let size = size_of_val(values);
        let buffer = if size == 0 { null_mut() } else { values.as_ptr().cast() };
        let stream = sys::CAI_STREAM_NONE;
        // SAFETY: the array is valid, and its elements have the size of `T` (`check_type`), so that
        // `size` bytes are all of its bytes; nothing else accesses them (this function's contract).
        // `CAI_STREAM_NONE` blocks until the copy is done.
        call(|error| unsafe {
            sys::cai_unstable_array_copy_from_host(self.as_raw(), stream, 0, buffer, size, error)
        })
    }
}
