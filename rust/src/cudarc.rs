//! Slices of [cudarc](https://docs.rs/cudarc): `CudaSlice` to arrays, and arrays to `CudaView`.
//!
//! A slice becomes an array by `Array::try_from`, which takes it over. Its stream is that of the
//! slice, which waits for the work that cudarc has on others.
//!
//! ```no_run
//! use cudarc::driver::CudaContext;
//! use libcai::{Array, cudarc::Imported};
//!
//! let stream = CudaContext::new(0)?.new_stream()?;
//! let array = Array::try_from(stream.clone_htod(&[1.0f32, 2.0, 3.0])?)?;
//! // Pass the array on; or use one that came from elsewhere, on a stream of cudarc.
//! let imported = Imported::<f32>::read(array, &stream)?;
//! assert_eq!(stream.clone_dtoh(&imported.as_view())?, [1.0, 2.0, 3.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! May use: `array`, `builder`, `device`, `element`, `error`, `stream`, `sys`, `view`.
//! Unsafe: makes slices of addresses.

use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::Arc;

use ::cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtrMut, DeviceRepr};

use crate::array::{Array, ArrayRef};
use crate::builder::{Builder, check_count};
use crate::device::{Device, Stream};
use crate::element::Element;
use crate::error::{Error, Result, call};
use crate::stream::{Access, Consumer};
use crate::sys;
use crate::view;

/// Returns a stream of cudarc as a stream of this crate, which borrows it.
///
/// ```no_run
/// use cudarc::driver::CudaContext;
/// use libcai::{Access, Array, Consumer};
///
/// # let array = Array::from_vec(vec![1u8], &[1])?;
/// let stream = CudaContext::new(0)?.new_stream()?;
/// let work = Consumer::begin(&array, libcai::cudarc::stream(&stream), Access::Read)?;
/// // Enqueue kernels on the stream that read `array.data()`.
/// work.end()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn stream(stream: &CudaStream) -> Stream<'_> {
    match stream.cu_stream() as u64 {
        // cudarc's default stream is a NULL handle.
        0 => Stream::LEGACY,
        // SAFETY: the stream exists as long as it is borrowed.
        handle => unsafe { Stream::from_raw(handle) },
    }
}

/// Makes a one-dimensional array of a slice, without copying the elements. The memory is freed when
/// the last reference to the array is released, in the order of the slice's stream.
///
/// Fails with a status of `cai_array_create`; the slice is then dropped.
impl<T: Element + DeviceRepr> TryFrom<CudaSlice<T>> for Array {
    type Error = Error;

    fn try_from(slice: CudaSlice<T>) -> Result<Array> {
        let length = [slice.len() as i64];
        array_of(slice, &length)
    }
}

/// Makes an array of a slice with a shape, C-contiguous, as `Array::try_from` does.
///
/// ```no_run
/// use cudarc::driver::CudaContext;
/// use libcai::cudarc::array_of;
///
/// let stream = CudaContext::new(0)?.new_stream()?;
/// let matrix = array_of(stream.alloc_zeros::<f32>(6)?, &[2, 3])?;
/// assert_eq!(matrix.shape(), [2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Fails with `CAI_ERR_ARGUMENT` if the shape does not have as many elements as the slice; the
/// slice is then dropped.
pub fn array_of<T: Element + DeviceRepr>(slice: CudaSlice<T>, shape: &[i64]) -> Result<Array> {
    let mut slice = slice;
    check_count(shape, slice.len())?;
    let from = slice.stream().clone();
    // The stream waits for what cudarc has enqueued on others.
    let (address, recorded) = slice.device_ptr_mut(&from);
    drop(recorded);
    let context = from.context();
    let builder = Builder::new(address as *mut T, shape)
        .device(Device::cuda(context.ordinal() as i32))
        .stream(stream(&from))
        .context(context.cu_ctx().cast());
    // SAFETY: the slice has as many elements as the shape, and owns its memory and its stream.
    // Nothing else has them from now on.
    unsafe { builder.build(slice) }
}

/// An array as a slice of cudarc, for work on one stream. That stream waits for the producer's work
/// when it is made, and the producer's for that stream when it is dropped; then the array is
/// released after the work on the stream.
///
/// ```no_run
/// use cudarc::driver::CudaContext;
/// use libcai::{Array, cudarc::Imported};
///
/// /// Sets all elements to zero.
/// ///
/// /// # Safety
/// /// Nothing else accesses the data, except on streams that are ordered with the array's.
/// unsafe fn clear(array: Array) -> Result<(), Box<dyn std::error::Error>> {
///     let stream = CudaContext::new(array.device().id as usize)?.new_stream()?;
///     let mut imported = unsafe { Imported::<f32>::write(array, &stream) }?;
///     stream.memset_zeros(&mut imported.as_view_mut().expect("taken for writing"))?;
///     Ok(())
/// }
/// ```
pub struct Imported<T> {
    slice: ManuallyDrop<CudaSlice<T>>,
    array: ManuallyDrop<Array>,
    stream: Arc<CudaStream>,
    access: Access,
}

impl<T: Element + DeviceRepr> Imported<T> {
    /// Takes an array that the work only reads.
    ///
    /// Fails with `CAI_ERR_CONVERT_DEVICE` for memory of another device than the stream's,
    /// `CAI_ERR_CONVERT_MASK`, `CAI_ERR_CONVERT_CONTIGUOUS`, `CAI_ERR_ALIGNMENT`,
    /// `CAI_ERR_CONVERT_TYPE` or `CAI_ERR_CONVERT_BYTE_ORDER`, or with a status of
    /// `cai_array_consume_begin`. If the array does not state its device, the driver is asked.
    pub fn read(array: Array, stream: &Arc<CudaStream>) -> Result<Self> {
        Imported::new(array, stream, Access::Read)
    }

    /// Takes an array that the work reads and writes.
    ///
    /// Fails as [`Imported::read`], and with `CAI_ERR_READONLY`.
    ///
    /// # Safety
    /// While the result exists, nothing else accesses the data, except on streams that are ordered
    /// with the array's.
    pub unsafe fn write(array: Array, stream: &Arc<CudaStream>) -> Result<Self> {
        Imported::new(array, stream, Access::ReadWrite)
    }

    fn new(array: Array, on: &Arc<CudaStream>, access: Access) -> Result<Self> {
        check::<T>(&array, on)?;
        let context = on.context();
        context.bind_to_thread().map_err(|refused| {
            Error::new(
                sys::CAI_ERR_NO_CONTEXT,
                "stream",
                refused,
                "a context that can be made current",
            )
        })?;
        let begun = Consumer::begin(&array, stream(on), access)?;
        // cudarc panics if it cannot make an event: then the consumer ends.
        // SAFETY: as many elements are at the address, and stay there as long as the array; the
        // slice is never dropped, which would free them.
        let slice = unsafe { on.upgrade_device_ptr::<T>(array.data() as u64, array.len()) };
        // The end is that of this value, which may move.
        std::mem::forget(begun);
        Ok(Imported {
            slice: ManuallyDrop::new(slice),
            array: ManuallyDrop::new(array),
            stream: on.clone(),
            access,
        })
    }
}

impl<T> Imported<T> {
    /// Returns the array.
    #[must_use]
    pub fn array(&self) -> &Array {
        &self.array
    }

    /// Returns the elements in C order.
    #[must_use]
    pub fn as_view(&self) -> CudaView<'_, T> {
        self.slice.as_view()
    }

    /// Returns the elements for writing, or `None` if the array was taken for reading only.
    #[must_use]
    pub fn as_view_mut(&mut self) -> Option<CudaViewMut<'_, T>> {
        (self.access != Access::Read).then(|| self.slice.as_view_mut())
    }
}

/// Returns the device of an array, which the driver knows if the producer did not state it: a
/// `__cuda_array_interface__` never does.
fn device_of(array: &ArrayRef) -> Result<Device> {
    if array.device().kind != sys::CAI_DEVICE_UNKNOWN || array.is_empty() {
        return Ok(array.device());
    }
    let mut info = MaybeUninit::<sys::cai_pointer_info>::uninit();
    // SAFETY: the function writes all of the structure if it succeeds.
    let info = unsafe {
        call(|error| sys::cai_pointer_info_get(array.data(), info.as_mut_ptr(), error))?;
        info.assume_init()
    };
    Ok(info.device.into())
}

fn check<T: Element>(array: &ArrayRef, stream: &CudaStream) -> Result<()> {
    let (device, wanted) = (device_of(array)?, Device::cuda(stream.context().ordinal() as i32));
    let managed = matches!(device.kind, sys::CAI_DEVICE_CUDA_MANAGED | sys::CAI_DEVICE_CUDA_HOST);
    let nowhere = array.is_empty() && device.kind == sys::CAI_DEVICE_UNKNOWN;
    if device != wanted && !managed && !nowhere {
        return Err(Error::new(
            sys::CAI_ERR_CONVERT_DEVICE,
            "device",
            format_args!("type {}, id {}", device.kind, device.id),
            format_args!("the device of the stream, {}", wanted.id),
        ));
    }
    if array.mask().is_some() {
        return Err(Error::new(sys::CAI_ERR_CONVERT_MASK, "mask", "a mask", "none"));
    }
    if !array.is_c_contiguous() {
        let expected = "a C-contiguous array";
        let status = sys::CAI_ERR_CONVERT_CONTIGUOUS;
        return Err(Error::new(status, "strides", "other strides", expected));
    }
    if array.data() as usize % align_of::<T>() != 0 {
        let found = format!("{:p}", array.data());
        let expected = format!("a multiple of {}", align_of::<T>());
        return Err(Error::new(sys::CAI_ERR_ALIGNMENT, "data", found, expected));
    }
    view::check_type::<T>(array.as_raw())
}

impl<T> Drop for Imported<T> {
    fn drop(&mut self) {
        // SAFETY: taken once, here. The slice must not free memory that is not its own; its stream
        // waits for what cudarc has enqueued on others.
        let (slice, array) =
            unsafe { (ManuallyDrop::take(&mut self.slice), ManuallyDrop::take(&mut self.array)) };
        slice.leak();
        // Default streams are those of the current context. If it cannot be made current, there is
        // no work to wait for any more.
        let _ = self.stream.context().bind_to_thread();
        let on = stream(&self.stream);
        drop(Consumer::resume(&array, on, self.access));
        if let Err((array, _)) = array.release_after(on) {
            let _ = self.stream.synchronize();
            drop(array);
        }
    }
}
