//! Makes arrays of Rust's memory, and of any other memory.

use std::ffi::{c_char, c_void};
use std::marker::PhantomData;
use std::ptr::null_mut;

use crate::array::{Array, ArrayRef, INIT};
use crate::device::{Device, Stream};
use crate::element::Element;
use crate::error::{Error, Result, call, counted};
use crate::owner::drop_box;
use crate::sys::{self, cai_array};

/// Describes an array of any memory. [`Array::from_vec`] and [`Array::from_owner`] are simpler for
/// host memory.
///
/// ```
/// use libcai::{Builder, Device, Ix, Stream};
///
/// let mut rows = vec![0u16; 12];
/// let data = rows.as_mut_ptr();
/// // The second column of three, of four rows.
/// let array = unsafe {
///     Builder::new(data.add(1), &[4])
///         .strides(&[6])
///         .device(Device::CPU)
///         .stream(Stream::NONE)
///         .build(rows)
/// }?;
/// assert_eq!(array.view::<u16, Ix<1>>()?.len(), 4);
/// # Ok::<(), libcai::Error>(())
/// ```
///
/// A stream that work is pending on, and everything else that frees itself, goes into the object:
/// `build((memory, stream))`.
#[derive(Clone)]
#[must_use = "`build` makes the array"]
pub struct Builder<'a> {
    raw: cai_array,
    invalid: Option<Error>,
    lives: PhantomData<&'a [i64]>,
}

impl<'a> Builder<'a> {
    /// Begins with the address of the element at index zero, which is ignored if there are no
    /// elements, and the extents. The type is that of the pointer, the device is not known, and the
    /// stream must be set.
    pub fn new<T: Element>(data: *mut T, shape: &'a [i64]) -> Self {
        let empty = shape.contains(&0);
        let raw = cai_array { data: if empty { null_mut() } else { data.cast() }, ..INIT };
        let mut made = Builder { raw, invalid: None, lives: PhantomData };
        made.raw.ndim = i32::try_from(shape.len()).unwrap_or(i32::MAX);
        made.raw.shape = shape.as_ptr();
        made.typestr(T::TYPESTR, T::CODE)
    }

    /// Sets another type: a typestr, and the meaning of an opaque type, or `CAI_DTYPE_NONE`.
    pub fn typestr(mut self, typestr: &str, code: u16) -> Self {
        self.raw.dtype_code = code;
        self.raw.typestr = [0; sys::CAI_TYPESTR_SIZE];
        if typestr.len() >= sys::CAI_TYPESTR_SIZE {
            let found = counted(typestr.len(), "character");
            let error =
                Error::new(sys::CAI_ERR_TYPESTR_LENGTH, "typestr", found, "at most 15 characters");
            self.invalid.get_or_insert(error);
            return self;
        }
        for (to, byte) in self.raw.typestr.iter_mut().zip(typestr.bytes()) {
            *to = byte as c_char;
        }
        self
    }

    /// Sets the strides in bytes, one for each extent. Without strides the array is C-contiguous.
    pub fn strides(mut self, strides: &'a [i64]) -> Self {
        if strides.len() as i64 != i64::from(self.raw.ndim) {
            let expected = format!("{}, as extents", self.raw.ndim);
            let error = Error::new(
                sys::CAI_ERR_ARGUMENT,
                "strides",
                counted(strides.len(), "stride"),
                expected,
            );
            self.invalid.get_or_insert(error);
        }
        self.raw.strides = strides.as_ptr();
        self
    }

    /// Sets the location of the data.
    pub fn device(mut self, device: Device) -> Self {
        self.raw.device = device.into();
        self
    }

    /// Sets the stream on which work on the data may be pending. It must exist as long as the
    /// array: keep it in the object that is passed to [`build`](Builder::build).
    pub fn stream(mut self, stream: Stream<'_>) -> Self {
        self.raw.stream = stream.as_raw();
        self
    }

    /// Sets the `CUcontext` of the stream, or of the data if there is no stream.
    pub fn context(mut self, context: *mut c_void) -> Self {
        self.raw.context = context;
        self
    }

    /// Sets the event that was recorded on the stream after the last write, a `CUevent`.
    pub fn event(mut self, event: *mut c_void) -> Self {
        self.raw.event = event;
        self
    }

    /// States that the data must not be written through the array.
    pub fn read_only(mut self) -> Self {
        self.raw.flags |= sys::CAI_ARRAY_READONLY;
        self
    }

    /// Sets the mask, of which the new array holds a reference.
    pub fn mask(mut self, mask: &'a ArrayRef) -> Self {
        self.raw.mask = mask.as_ptr();
        self
    }

    /// Makes the array, which copies the description and keeps `object` alive: the memory itself,
    /// or what frees it when it is dropped. That may happen on any thread.
    ///
    /// Fails with a status of `cai_array_create`; `object` is then dropped.
    ///
    /// # Safety
    /// - The elements are at the address, with the strides and on the device that were set, as long
    ///   as `object` exists; so are the event, the context and the stream. The pointer is valid for
    ///   all of them: with negative strides, it is made from a pointer to the whole memory.
    /// - While a view of the array or of a clone exists, nothing writes to the data through another
    ///   pointer; while a mutable view does, nothing else accesses it.
    pub unsafe fn build<P: Send + 'static>(self, object: P) -> Result<Array> {
        if let Some(error) = self.invalid {
            return Err(error);
        }
        let context = Box::into_raw(Box::new(object)).cast();
        let mut out = INIT;
        // SAFETY: the pointers of the description are those of slices that are borrowed, and the
        // rest is this function's contract. `drop_box` takes back what `into_raw` returned.
        let result = call(|error| unsafe {
            sys::cai_array_create(&self.raw, context, Some(drop_box::<P>), &mut out, error)
        });
        match result {
            // SAFETY: `cai_array_create` made a valid array, with a reference.
            Ok(()) => unsafe { Array::from_raw(out) },
            Err(error) => {
                // SAFETY: on failure the object still belongs to this function.
                unsafe { drop(Box::from_raw(context.cast::<P>())) };
                Err(error)
            }
        }
    }
}

impl std::fmt::Debug for Builder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Builder").field("data", &self.raw.data).finish_non_exhaustive()
    }
}

/// Fails if a shape does not have `count` elements.
pub(crate) fn check_count(shape: &[i64], count: usize) -> Result<()> {
    let product = if shape.contains(&0) {
        Some(0)
    } else {
        shape.iter().try_fold(1i64, |product, extent| product.checked_mul(*extent))
    };
    if product.and_then(|product| usize::try_from(product).ok()) == Some(count) {
        return Ok(());
    }
    let found =
        product.map_or("too many elements".to_owned(), |product| counted(product, "element"));
    Err(Error::new(
        sys::CAI_ERR_ARGUMENT,
        "shape",
        found,
        format_args!("{count}, the length of the data"),
    ))
}

impl Array {
    /// Makes an array of a vector, C-contiguous and writable, without copying the elements.
    ///
    /// Fails with `CAI_ERR_ARGUMENT` if the shape does not have as many elements as the vector.
    pub fn from_vec<T: Element>(values: Vec<T>, shape: &[i64]) -> Result<Array> {
        check_count(shape, values.len())?;
        let mut values = values;
        let builder = Builder::new(values.as_mut_ptr(), shape);
        // SAFETY: the vector has as many elements as the shape, and its memory stays where it is
        // when the vector moves. Only the owner has it from now on.
        unsafe { builder.device(Device::CPU).stream(Stream::NONE).build(values) }
    }

    /// Makes a read-only array of anything that has a slice, C-contiguous, without copying the
    /// elements: an `Arc<[T]>`, a `Box<[T]>`, a mapped file.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// let values: Arc<[i64]> = Arc::from([1, 2, 3]);
    /// let array = libcai::Array::from_owner(values.clone(), &[3])?;
    /// assert!(array.is_read_only() && array.data() as usize == values.as_ptr() as usize);
    /// # Ok::<(), libcai::Error>(())
    /// ```
    ///
    /// Fails with `CAI_ERR_ARGUMENT` if the shape does not have as many elements as the slice.
    pub fn from_owner<T, P>(owner: P, shape: &[i64]) -> Result<Array>
    where
        T: Element,
        P: AsRef<[T]> + Send + 'static,
    {
        // So that a slice of the object itself stays where it is.
        let owner = Pinned(Box::into_raw(Box::new(owner)));
        // SAFETY: the object exists, and nothing accesses it until it is dropped.
        let values = unsafe { &*owner.0 }.as_ref();
        check_count(shape, values.len())?;
        let builder = Builder::new(values.as_ptr().cast_mut(), shape).read_only();
        // SAFETY: the slice has as many elements as the shape. It borrows the object, which nothing
        // accesses from now on until it is dropped; and the array is read-only.
        unsafe { builder.device(Device::CPU).stream(Stream::NONE).build(owner) }
    }
}

/// An object at a fixed address, from which other pointers are made. A `Box` must not be moved
/// then: it asserts that it is the only pointer.
struct Pinned<P>(*mut P);

// SAFETY: it owns its object, as a `Box` does.
unsafe impl<P: Send> Send for Pinned<P> {}

impl<P> Drop for Pinned<P> {
    fn drop(&mut self) {
        // SAFETY: the pointer is of `Box::into_raw`, and is used here for the last time.
        unsafe { drop(Box::from_raw(self.0)) };
    }
}
