//! Arrays, with and without a reference of their own.

use std::ffi::{CStr, c_void};
use std::fmt;
use std::ops::Deref;
use std::ptr::{NonNull, null_mut};

use crate::device::{Device, Stream};
use crate::element::Element;
use crate::error::{Error, NO_ERROR, Result, call};
use crate::owner::{self, Owner, drop_box};
use crate::sys::{self, cai_array, cai_layout};
use crate::view::{self, Dimension, View, ViewMut};

/// A `cai_array` as `CAI_ARRAY_INIT` has it.
pub(crate) const INIT: cai_array = cai_array {
    struct_size: size_of::<cai_array>() as u32,
    flags: 0,
    owner: null_mut(),
    data: null_mut(),
    shape: std::ptr::null(),
    strides: std::ptr::null(),
    ndim: 0,
    version: sys::CAI_INTERFACE_VERSION,
    dtype_code: sys::CAI_DTYPE_NONE,
    typestr: [0; sys::CAI_TYPESTR_SIZE],
    descr: std::ptr::null(),
    mask: std::ptr::null(),
    stream: 0,
    stream_id: 0,
    event: null_mut(),
    device: sys::cai_device { r#type: sys::CAI_DEVICE_UNKNOWN, id: 0 },
    context: null_mut(),
    byte_offset: 0,
};

/// A valid array that something else keeps alive: an [`Array`], or the caller of a C function.
///
/// ```
/// use libcai::{Array, ArrayRef, Result};
///
/// fn describe(array: &ArrayRef) -> String {
///     format!("{} of {:?}, {} bytes", array.typestr(), array.shape(), array.layout().nbytes)
/// }
///
/// /// Keeps the array beyond the call.
/// fn keep(array: &ArrayRef) -> Result<Array> {
///     array.share()
/// }
///
/// let array = Array::from_vec(vec![0u16; 6], &[2, 3])?;
/// assert_eq!(describe(&array), "<u2 of [2, 3], 12 bytes");
/// assert_eq!(keep(&array)?.data(), array.data());
/// # Ok::<(), libcai::Error>(())
/// ```
///
/// Every value obeys the rules of `cai_array_validate` with `CAI_CHECK_LAYOUT`.
#[repr(transparent)]
pub struct ArrayRef(cai_array);

/// An array with a reference to its owner: the data, and everything else that it leads to, stays
/// alive as long as this value does. A clone adds a reference and copies no data.
///
/// It can be sent to other threads, and shared with them: the interface requires of every owner
/// that its operations may be called from any thread, and of every description that it is constant.
/// The data is not accessed through it, except by views (see [`ArrayRef::view`]) and by `unsafe`
/// code, which orders its work with a [`Consumer`].
///
/// ```
/// use libcai::{Array, Ix};
///
/// let array = Array::from_vec(vec![1.0f32, 2.0, 3.0], &[3])?;
/// let clone = array.clone();
/// assert_eq!(clone.data(), array.data());
/// let sum = std::thread::spawn(move || {
///     Ok::<f32, libcai::Error>(clone.view::<f32, Ix<1>>()?.iter().sum())
/// });
/// assert_eq!(sum.join().unwrap()?, 6.0);
/// # Ok::<(), libcai::Error>(())
/// ```
///
/// [`Consumer`]: crate::Consumer
#[repr(transparent)]
pub struct Array(ArrayRef);

// SAFETY: the description is constant as long as the array is alive, and a reference to it allows
// no write to the data.
unsafe impl Sync for ArrayRef {}
// SAFETY: the description belongs to no thread, and the operations of its owner may be called on
// any (`cai_owner` requires it).
unsafe impl Send for ArrayRef {}

impl ArrayRef {
    /// Borrows an array that C code passes: as long as the call, if the array has no owner.
    ///
    /// Fails with a status of `cai_array_validate`.
    ///
    /// # Safety
    /// - `array` is NULL or points to an array of the size that it states, whose pointers lead to
    ///   what they specify, and that is not changed or released during `'a`.
    /// - While a [`View`] of it exists, nothing writes to the data; while a [`ViewMut`] does,
    ///   nothing else accesses it.
    pub unsafe fn from_ptr<'a>(array: *const cai_array) -> Result<&'a ArrayRef> {
        // SAFETY: NULL, or as `cai_array_validate` requires it (this function's contract).
        call(|error| unsafe { sys::cai_array_validate(array, sys::CAI_CHECK_LAYOUT, error) })?;
        // SAFETY: not NULL, and of at least 128 bytes, as the call found; alive and constant
        // during `'a` (this function's contract). `ArrayRef` has the layout of `cai_array`.
        Ok(unsafe { &*array.cast::<ArrayRef>() })
    }

    /// Returns the structure of the C interface, for functions that borrow it or add a reference.
    #[must_use]
    pub fn as_ptr(&self) -> *const cai_array {
        &self.0
    }

    /// Returns the structure of the C interface.
    #[must_use]
    pub fn as_raw(&self) -> &cai_array {
        &self.0
    }

    /// Returns an array with a reference of its own.
    ///
    /// Fails with `CAI_ERR_BORROWED` if the array has no owner, and with `CAI_ERR_OWNER_OPS`.
    pub fn share(&self) -> Result<Array> {
        let mut out = INIT;
        // SAFETY: the array is valid, and `out` is initialized.
        call(|error| unsafe { sys::cai_array_share(&self.0, &mut out, error) })?;
        Ok(Array(ArrayRef(out)))
    }

    /// Returns the extents, in elements.
    #[must_use]
    pub fn shape(&self) -> &[i64] {
        // SAFETY: a valid array has `ndim` extents.
        unsafe { dimensions(self.0.shape, self.0.ndim) }
    }

    /// Returns the strides in bytes, or `None` if the array is C-contiguous and states none.
    #[must_use]
    pub fn strides(&self) -> Option<&[i64]> {
        // SAFETY: a valid array has `ndim` strides, or none.
        (!self.0.strides.is_null()).then(|| unsafe { dimensions(self.0.strides, self.0.ndim) })
    }

    /// Returns the number of dimensions.
    #[must_use]
    pub fn ndim(&self) -> usize {
        self.0.ndim as usize
    }

    /// Returns the type of the elements in the grammar of NumPy's array interface: `"<f4"`.
    #[must_use]
    pub fn typestr(&self) -> &str {
        // SAFETY: the text of a valid array ends in NUL within its 16 characters.
        unsafe { CStr::from_ptr(self.0.typestr.as_ptr()) }.to_str().unwrap_or_default()
    }

    /// Returns the meaning of an opaque type: a `CAI_DTYPE_` constant of [`sys`].
    #[must_use]
    pub fn dtype_code(&self) -> u16 {
        self.0.dtype_code
    }

    /// Returns the address of the element at index zero, or a handle. It is NULL exactly if there
    /// are no elements.
    #[must_use]
    pub fn data(&self) -> *mut c_void {
        self.0.data
    }

    /// Returns the location of the data.
    #[must_use]
    pub fn device(&self) -> Device {
        self.0.device.into()
    }

    /// Returns the stream on which the producer's work may be pending. It exists as long as the
    /// array.
    #[must_use]
    pub fn stream(&self) -> Stream<'_> {
        // SAFETY: an array keeps its stream alive, which the interface requires of the producer.
        unsafe { Stream::from_raw(self.0.stream) }
    }

    /// Returns true if the data must not be written through this array.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.0.flags & sys::CAI_ARRAY_READONLY != 0
    }

    /// Returns the mask, of which a non-zero element marks a valid element of the array.
    #[must_use]
    pub fn mask(&self) -> Option<&ArrayRef> {
        // SAFETY: NULL, or the mask of a valid array, which is valid, and kept alive with it.
        unsafe { self.0.mask.cast::<ArrayRef>().as_ref() }
    }

    /// Returns the number of elements, their bytes, the bytes that the array spans, and whether it
    /// is contiguous.
    ///
    /// # Panics
    /// Never: a valid array has a layout.
    #[must_use]
    pub fn layout(&self) -> cai_layout {
        let mut out = cai_layout {
            count: 0,
            nbytes: 0,
            lower: 0,
            upper: 0,
            flags: 0,
            reserved: 0,
            itemsize: 0,
            reserved_tail: [0; 2],
        };
        // SAFETY: the array is valid, and `out` is writable.
        match call(|error| unsafe { sys::cai_array_layout(&self.0, &mut out, error) }) {
            Ok(()) => out,
            Err(error) => unreachable!("{error}"),
        }
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.layout().count as usize
    }

    /// Returns true if there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.data.is_null()
    }

    /// Returns true if the elements lie in C order without gaps.
    #[must_use]
    pub fn is_c_contiguous(&self) -> bool {
        self.0.strides.is_null() || self.layout().flags & sys::CAI_LAYOUT_C_CONTIGUOUS != 0
    }

    /// Validates the array with more checks: `CAI_CHECK_` bits of [`sys`], of which
    /// `CAI_CHECK_DEVICE` and `CAI_CHECK_STREAM` query the CUDA driver.
    pub fn validate(&self, checks: u32) -> Result<()> {
        // SAFETY: the array is valid.
        call(|error| unsafe { sys::cai_array_validate(&self.0, checks, error) })
    }

    /// Blocks the calling thread until the producer's pending work is done.
    pub fn synchronize(&self) -> Result<()> {
        if self.0.stream == sys::CAI_STREAM_NONE && self.0.mask.is_null() {
            return Ok(());
        }
        // SAFETY: the array is valid.
        call(|error| unsafe { sys::cai_array_synchronize(&self.0, 0, error) })
    }

    /// Returns a view of the elements, which must be in memory that the host can read. It waits
    /// until the producer's pending work is done.
    ///
    /// `D` is the number of dimensions: `Ix<2>`, or [`IxDyn`](crate::IxDyn) for any.
    ///
    /// ```
    /// use libcai::{Array, Ix};
    ///
    /// let array = Array::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
    /// let view = array.view::<f32, Ix<2>>()?;
    /// assert_eq!(view[[1, 2]], 6.0);
    /// assert_eq!(view.iter().sum::<f32>(), 21.0);
    /// # Ok::<(), libcai::Error>(())
    /// ```
    ///
    /// Fails with `CAI_ERR_CONVERT_DEVICE`, `CAI_ERR_CONVERT_MASK`, `CAI_ERR_CONVERT_NDIM`,
    /// `CAI_ERR_CONVERT_BYTE_ORDER`, `CAI_ERR_CONVERT_TYPE` or `CAI_ERR_ALIGNMENT` if the array is
    /// of another kind, or with a status of `cai_array_synchronize`.
    #[inline]
    pub fn view<T: Element, D: Dimension>(&self) -> Result<View<'_, T, D>> {
        // SAFETY: the array is valid, and stays so while `self` is borrowed. Who made it from
        // memory that Rust does not own has promised that nothing writes while a view exists.
        unsafe { view::of_array(&self.0) }
    }

    /// Returns a view through which the elements can be written: see [`ViewMut`].
    ///
    /// Fails as [`view`](ArrayRef::view), and with `CAI_ERR_READONLY`.
    ///
    /// # Safety
    /// While the view exists, nothing else reads or writes the data: no clone of the array, and no
    /// other library that has a reference.
    pub unsafe fn view_mut<T: Element, D: Dimension>(&self) -> Result<ViewMut<'_, T, D>> {
        // SAFETY: as for `view`; nothing else accesses the data (this function's contract).
        unsafe { view::of_array_mut(&self.0) }
    }
}

/// # Safety
/// `count` values are readable at `values`, which may be NULL if it is 0, as long as `'a`.
unsafe fn dimensions<'a>(values: *const i64, count: i32) -> &'a [i64] {
    if count <= 0 {
        return &[];
    }
    // SAFETY: readable (this function's contract).
    unsafe { std::slice::from_raw_parts(values, count as usize) }
}

impl Array {
    /// Takes over an array with its reference.
    ///
    /// ```
    /// use libcai::Array;
    ///
    /// let raw = Array::from_vec(vec![1u8, 2], &[2])?.into_raw();
    /// // SAFETY: the array was given up with its reference.
    /// let array = unsafe { Array::from_raw(raw) }?;
    /// assert_eq!(array.to_vec::<u8>()?, [1, 2]);
    /// # Ok::<(), libcai::Error>(())
    /// ```
    ///
    /// Fails with a status of `cai_array_validate`, or with `CAI_ERR_BORROWED` if it has no owner;
    /// the reference is then released.
    ///
    /// # Safety
    /// - The pointers of the array lead to what they specify, as long as its reference exists. The
    ///   reference belongs to the caller, who gives it up.
    /// - While a [`View`] of the array or of a clone exists, nothing writes to the data; while a
    ///   [`ViewMut`] does, nothing else accesses it.
    pub unsafe fn from_raw(array: cai_array) -> Result<Array> {
        let mut array = array;
        let stated = array.struct_size;
        // What this value is, whatever it states: functions that clear it write no more.
        array.struct_size = INIT.struct_size;
        if stated != INIT.struct_size {
            // SAFETY: the caller gave up the reference (this function's contract).
            unsafe { sys::cai_array_release(&mut array) };
            let expected = format!("{}, sizeof(cai_array)", INIT.struct_size);
            return Err(Error::new(sys::CAI_ERR_STRUCT_SIZE, "struct_size", stated, expected));
        }
        // SAFETY: as `cai_array_validate` requires it (this function's contract).
        let mut result =
            call(|error| unsafe { sys::cai_array_validate(&array, sys::CAI_CHECK_LAYOUT, error) });
        if result.is_ok() && array.owner.is_null() {
            let found = "NULL, a borrowed array";
            result = Err(Error::new(
                sys::CAI_ERR_BORROWED,
                "owner",
                found,
                "an owner that keeps the data alive",
            ));
        }
        if result.is_ok() {
            // SAFETY: alive, because the caller has a reference to it.
            result = unsafe { owner::check(array.owner) }.map(drop);
        }
        match result {
            Ok(()) => Ok(Array(ArrayRef(array))),
            Err(error) => {
                // SAFETY: the caller gave up the reference (this function's contract).
                unsafe { sys::cai_array_release(&mut array) };
                Err(error)
            }
        }
    }

    /// Receives an array from a C function that writes it with a reference of its own:
    ///
    /// ```no_run
    /// # unsafe extern "C" { fn plugin_export(out: *mut libcai::sys::cai_array,
    /// #     error: *mut libcai::sys::cai_error) -> libcai::sys::cai_status; }
    /// // SAFETY: `plugin_export` writes an array as `cai/abi.h` specifies it.
    /// let array = unsafe { libcai::Array::receive(|out, error| plugin_export(out, error)) }?;
    /// # Ok::<(), libcai::Error>(())
    /// ```
    ///
    /// Fails with the status that the function returns, or as [`Array::from_raw`]. A function that
    /// does not fill the error is accepted.
    ///
    /// # Safety
    /// The function either writes an array as `from_raw` takes it and returns 0, or returns another
    /// status.
    pub unsafe fn receive(
        function: impl FnOnce(*mut cai_array, *mut sys::cai_error) -> sys::cai_status,
    ) -> Result<Array> {
        let (mut out, mut error) = (INIT, NO_ERROR);
        let status = function(&mut out, &mut error);
        if status != sys::CAI_OK {
            return Err(Error::foreign(status, &error));
        }
        // SAFETY: the function wrote an array with a reference (this function's contract).
        unsafe { Array::from_raw(out) }
    }

    /// Returns the structure with the reference, which the caller must release, such as a C
    /// function that takes it over.
    #[must_use]
    pub fn into_raw(self) -> cai_array {
        let raw = self.0.0;
        std::mem::forget(self);
        raw
    }

    /// Writes the array with its reference where a C function returns one.
    ///
    /// ```
    /// use libcai::{Array, sys};
    ///
    /// /// # Safety
    /// /// `out` is initialized with `CAI_ARRAY_INIT`; `error` is NULL or writable.
    /// unsafe extern "C" fn make_three(
    ///     out: *mut sys::cai_array,
    ///     error: *mut sys::cai_error,
    /// ) -> sys::cai_status {
    ///     let made = Array::from_vec(vec![1u8, 2, 3], &[3]);
    ///     match made.and_then(|array| unsafe { array.write_to(out) }) {
    ///         Ok(()) => sys::CAI_OK,
    ///         Err(why) => unsafe { why.write_to(error) },
    ///     }
    /// }
    /// # let made = unsafe { Array::receive(|out, error| make_three(out, error)) }?;
    /// # assert_eq!(made.to_vec::<u8>()?, [1, 2, 3]);
    /// # Ok::<(), libcai::Error>(())
    /// ```
    ///
    /// # Safety
    /// `out` is NULL, which is refused, or points to a structure whose `struct_size` is set.
    pub unsafe fn write_to(self, out: *mut cai_array) -> Result<()> {
        // `share` respects the size of the caller's structure; it adds the reference that is
        // released here.
        // SAFETY: the array is valid, and `out` as this function requires it.
        call(|error| unsafe { sys::cai_array_share(self.as_ptr(), out, error) })
    }

    /// Returns a new reference to the owner.
    #[must_use]
    pub fn owner(&self) -> Owner {
        let owner = self.owner_ptr();
        // SAFETY: this array has a reference, and one is added for the result, whose table was
        // checked when the array was made.
        let owner = unsafe {
            owner::retain(owner);
            Owner::from_raw(owner.as_ptr())
        };
        match owner {
            Ok(owner) => owner,
            Err(error) => unreachable!("{error}"),
        }
    }

    fn owner_ptr(&self) -> NonNull<sys::cai_owner> {
        match NonNull::new(self.0.0.owner) {
            Some(owner) => owner,
            None => unreachable!("an array without an owner is no `Array`"),
        }
    }

    /// Attaches an object that must live as long as the array, and is dropped after the data: the
    /// stream that it is exported with, an event, a pool. Clones that exist already do not hold it.
    ///
    /// ```
    /// let mut array = libcai::Array::from_vec(vec![1.0f32], &[1])?;
    /// let pool = std::sync::Arc::new("a pool");
    /// array.attach(pool.clone())?;
    /// drop(array);
    /// assert_eq!(std::sync::Arc::strong_count(&pool), 1);
    /// # Ok::<(), libcai::Error>(())
    /// ```
    ///
    /// Fails with a status of `cai_array_attach`; `object` is then dropped.
    pub fn attach<P: Send + 'static>(&mut self, object: P) -> Result<()> {
        let context = Box::into_raw(Box::new(object)).cast();
        // SAFETY: the array is valid and has an owner; `drop_box` takes back what `into_raw`
        // returned, on any thread.
        let result = call(|error| unsafe {
            sys::cai_array_attach(&mut self.0.0, context, Some(drop_box::<P>), error)
        });
        result.inspect_err(|_| {
            // SAFETY: on failure the object still belongs to this function.
            unsafe { drop(Box::from_raw(context.cast::<P>())) }
        })
    }

    /// Releases the array when the work that is enqueued on `stream` so far is done, without
    /// blocking: for consumers whose kernels still use the data.
    ///
    /// On failure it returns the array with the error.
    // The array is as large as its structure, and an allocation could fail as well.
    #[allow(clippy::result_large_err)]
    pub fn release_after(mut self, stream: Stream<'_>) -> Result<(), (Array, Error)> {
        // SAFETY: the array is valid; on success its reference is given up, and the structure is
        // cleared, which leaves nothing to release.
        let result = call(|error| unsafe {
            sys::cai_array_release_after(&mut self.0.0, stream.as_raw(), error)
        });
        match result {
            Ok(()) => {
                std::mem::forget(self);
                Ok(())
            }
            Err(error) => Err((self, error)),
        }
    }

    /// Returns the structure, of which `cai_array_produce` writes the stream.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut cai_array {
        &mut self.0.0
    }
}

impl Deref for Array {
    type Target = ArrayRef;

    fn deref(&self) -> &ArrayRef {
        &self.0
    }
}

impl AsRef<ArrayRef> for Array {
    fn as_ref(&self) -> &ArrayRef {
        &self.0
    }
}

impl Clone for Array {
    fn clone(&self) -> Array {
        // SAFETY: this array has a reference; the one that is added belongs to the result.
        unsafe { owner::retain(self.owner_ptr()) };
        Array(ArrayRef(self.0.0))
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        // SAFETY: this array has a reference, which ends here.
        unsafe { sys::cai_array_release(&mut self.0.0) };
    }
}

impl fmt::Debug for ArrayRef {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut text = f.debug_struct("Array");
        text.field("data", &self.data()).field("shape", &self.shape());
        if let Some(strides) = self.strides() {
            text.field("strides", &strides);
        }
        text.field("typestr", &self.typestr()).field("device", &self.device());
        text.field("stream", &self.stream()).field("read_only", &self.is_read_only());
        text.finish()
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)
    }
}
