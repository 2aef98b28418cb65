//! Slices of [cudarc](https://docs.rs/cudarc): `CudaSlice` to arrays, and arrays to views that
//! cudarc's functions take.
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
//! assert_eq!(stream.clone_dtoh(&imported.view(&stream)?)?, [1.0, 2.0, 3.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::cudarc::driver::result::ctx;
use ::cudarc::driver::sys::{CUcontext, CUstreamCaptureStatus};
use ::cudarc::driver::{CudaSlice, CudaStream, DevicePtrMut, DeviceRepr, DriverError};

use crate::array::{Array, ArrayRef};
use crate::builder::{Builder, check_count};
use crate::device::{Device, Stream};
use crate::element::Element;
use crate::error::{Error, Result, call};
use crate::stream::{Access, Consumer};
use crate::sys;
use crate::view;

mod views;

use views::Elements;
pub use views::{View, ViewMut};

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
    let built = unsafe {
        match is_per_thread(&from) {
            true => builder.build(PerThread(ManuallyDrop::new(slice))),
            false => builder.build(slice),
        }
    };
    let mut array = built?;
    if is_per_thread(&from) {
        // So that other threads do not take their own stream for it.
        let raw = array.as_mut_ptr();
        // SAFETY: the array is valid, and nothing else has it yet.
        call(|error| unsafe { sys::cai_unstable_array_identify(raw, error) })?;
    }
    Ok(array)
}

/// A slice on the per-thread default stream, which may be dropped by another thread, whose stream
/// it is freed on then.
struct PerThread<T>(ManuallyDrop<CudaSlice<T>>);

impl<T> Drop for PerThread<T> {
    fn drop(&mut self) {
        let stream = self.0.stream();
        // The legacy stream waits for the per-thread streams of all threads.
        let all = stream.context().default_stream();
        if stream.join(&all).is_ok() || all.synchronize().is_ok() {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
    }
}

/// An array for work with cudarc. Its stream waits for the producer's work when it is made, and the
/// producer's for it when it is dropped; then the array is released after the work.
///
/// The data is used through a [`View`] or a [`ViewMut`], each of which is made for one stream, of
/// any that belong to the same context. That stream then waits for what it must come after: for the
/// producer, and for the work on other streams that writes the data. The host does not block.
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
///     stream.memset_zeros(&mut imported.view_mut(&stream)?)?;
///     Ok(())
/// }
/// ```
///
/// A view without a stream would not be ordered, so there is none:
///
/// ```compile_fail,E0061
/// # use std::sync::Arc;
/// # use cudarc::driver::CudaStream;
/// # use libcai::{Array, cudarc::Imported};
/// fn f(array: Array, stream: &Arc<CudaStream>) {
///     let imported = Imported::<f32>::read(array, stream).unwrap();
///     let view = imported.view();
/// }
/// ```
///
/// The data stays as long as a view of it:
///
/// ```compile_fail,E0505
/// # use std::sync::Arc;
/// # use cudarc::driver::CudaStream;
/// # use libcai::{Array, cudarc::Imported};
/// fn f(array: Array, stream: &Arc<CudaStream>) {
///     let imported = Imported::<f32>::read(array, stream).unwrap();
///     let view = imported.view(stream).unwrap();
///     drop(imported);
///     stream.clone_dtoh(&view).unwrap();
/// }
/// ```
///
/// While one view may write, there is no other, on any stream:
///
/// ```compile_fail,E0502
/// # use std::sync::Arc;
/// # use cudarc::driver::CudaStream;
/// # use libcai::{Array, cudarc::Imported};
/// fn f(array: Array, stream: &Arc<CudaStream>, other: &Arc<CudaStream>) {
///     let mut imported = unsafe { Imported::<f32>::write(array, stream) }.unwrap();
///     let view = imported.view(other).unwrap();
///     stream.memset_zeros(&mut imported.view_mut(stream).unwrap()).unwrap();
///     other.clone_dtoh(&view).unwrap();
/// }
/// ```
///
/// ```compile_fail,E0499
/// # use std::sync::Arc;
/// # use cudarc::driver::CudaStream;
/// # use libcai::{Array, cudarc::Imported};
/// fn f(array: Array, stream: &Arc<CudaStream>, other: &Arc<CudaStream>) {
///     let mut imported = unsafe { Imported::<f32>::write(array, stream) }.unwrap();
///     let mut first = imported.view_mut(stream).unwrap();
///     other.memset_zeros(&mut imported.view_mut(other).unwrap()).unwrap();
///     stream.memset_zeros(&mut first).unwrap();
/// }
/// ```
///
/// A view for reading cannot be written:
///
/// ```compile_fail,E0277
/// # use std::sync::Arc;
/// # use cudarc::driver::CudaStream;
/// # use libcai::{Array, cudarc::Imported};
/// fn f(array: Array, stream: &Arc<CudaStream>) {
///     let imported = Imported::<f32>::read(array, stream).unwrap();
///     stream.memset_zeros(&mut imported.view(stream).unwrap()).unwrap();
/// }
/// ```
///
/// The compiler does not know of other accesses to the data:
///
/// ```compile_fail,E0133
/// # use std::sync::Arc;
/// # use cudarc::driver::CudaStream;
/// # use libcai::{Array, cudarc::Imported};
/// fn f(array: Array, stream: &Arc<CudaStream>) {
///     Imported::<f32>::write(array, stream).unwrap();
/// }
/// ```
pub struct Imported<T> {
    array: ManuallyDrop<Array>,
    /// The consumer's stream, after which all others are ordered. Its value means one stream in
    /// every thread.
    stream: Arc<CudaStream>,
    /// The context that was current when the work was begun, in which default streams have the same
    /// meaning at its end.
    current: usize,
    access: Access,
    /// The other streams that views were made for since the last view for writing.
    others: Mutex<Vec<Other>>,
    elements: PhantomData<T>,
}

/// A stream that a view was made for, other than the consumer's. It waits for the consumer's.
struct Other {
    stream: Arc<CudaStream>,
    writes: bool,
}

impl<T: Element + DeviceRepr> Imported<T> {
    /// Takes an array that the work only reads.
    ///
    /// `stream` waits for the producer. If it is cudarc's per-thread default stream, whose value
    /// means another stream in every thread, a new stream takes its place.
    ///
    /// Fails with `CAI_ERR_CONVERT_DEVICE` for memory of another device than the stream's,
    /// `CAI_ERR_CONVERT_MASK`, `CAI_ERR_CONVERT_CONTIGUOUS`, `CAI_ERR_ALIGNMENT`,
    /// `CAI_ERR_CONVERT_TYPE` or `CAI_ERR_CONVERT_BYTE_ORDER`, with `CAI_ERR_DRIVER`, or with a
    /// status of `cai_array_consume_begin`. If the array does not state its device, the driver is
    /// asked.
    pub fn read(array: Array, stream: &Arc<CudaStream>) -> Result<Self> {
        Imported::new(array, stream, Access::Read)
    }

    /// Takes an array that the work reads and writes.
    ///
    /// If the array states no stream (`CAI_STREAM_NONE` or `CAI_STREAM_UNKNOWN`), nothing can wait
    /// for this work later, so dropping the result blocks until it is done.
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
        let caller = Current::now()?;
        let own = on.context().cu_ctx();
        let raw = array.as_raw();
        // The array's default stream may be that of the caller's context.
        let is_open = raw.stream <= sys::CAI_STREAM_PER_THREAD && raw.context.is_null();
        let counts = is_open && !caller.0.is_null() && caller.0 != own;
        let is_default = on.cu_stream() as u64 <= sys::CAI_STREAM_PER_THREAD;
        let on = match is_per_thread(on) || (is_default && counts) {
            true => on.context().new_stream().map_err(driver)?,
            false => on.clone(),
        };
        let current = if counts { caller.0 } else { own };
        Current::set(current).map_err(|refused| {
            let expected = "a context that can be made current";
            Error::new(sys::CAI_ERR_NO_CONTEXT, "stream", refused, expected)
        })?;
        // The end is that of the result, which may move.
        std::mem::forget(Consumer::begin(&array, stream(&on), access)?);
        Ok(Imported {
            array: ManuallyDrop::new(array),
            stream: on,
            current: current as usize,
            access,
            others: Mutex::new(Vec::new()),
            elements: PhantomData,
        })
    }
}

impl<T> Imported<T> {
    /// Returns the array.
    #[must_use]
    pub fn array(&self) -> &Array {
        &self.array
    }

    /// Returns the elements in C order, for reading on a stream.
    ///
    /// Several views may be in use at once: on different streams, they are read in parallel. On
    /// cudarc's per-thread default stream, the host blocks until the work before the view is done.
    ///
    /// Fails with `CAI_ERR_CONVERT_DEVICE` for a stream of another context, and with
    /// `CAI_ERR_DRIVER`.
    pub fn view(&self, stream: &Arc<CudaStream>) -> Result<View<'_, T>> {
        self.enter(stream, false)?;
        Ok(View(self.elements(stream)))
    }

    /// Returns the elements in C order, for reading and writing on a stream.
    ///
    /// Fails as [`Imported::view`], and with `CAI_ERR_READONLY` if the array was taken for reading
    /// only.
    pub fn view_mut(&mut self, stream: &Arc<CudaStream>) -> Result<ViewMut<'_, T>> {
        if self.access == Access::Read {
            return Err(Error::new(
                sys::CAI_ERR_READONLY,
                "array",
                "an array that was taken for reading",
                "one of Imported::write",
            ));
        }
        self.enter(stream, true)?;
        Ok(ViewMut(self.elements(stream)))
    }

    fn elements(&self, stream: &Arc<CudaStream>) -> Elements<'_, T> {
        let (address, length) = (self.array.data() as u64, self.array.len());
        Elements { address, length, stream: stream.clone(), data: PhantomData }
    }

    fn others(&self) -> MutexGuard<'_, Vec<Other>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a stream wait for the work that a view on it must come after. A view for writing is
    /// made while there is no other, so all work through views is enqueued already; one for reading
    /// while there is none for writing.
    fn enter(&self, stream: &Arc<CudaStream>, writes: bool) -> Result<()> {
        if stream.context() != self.stream.context() {
            return Err(Error::new(
                sys::CAI_ERR_CONVERT_DEVICE,
                "stream",
                format_args!(
                    "a stream of another context, on device {}",
                    stream.context().ordinal()
                ),
                format_args!("one of the context of device {}", self.stream.context().ordinal()),
            ));
        }
        let mut others = self.others();
        while let Some(index) = others.iter().position(|other| writes || other.writes) {
            self.stream.join(&others[index].stream).map_err(driver)?;
            others.swap_remove(index);
        }
        if is_per_thread(stream) {
            // The view may be used by another thread, whose stream it is then.
            return self.stream.synchronize().map_err(driver);
        }
        let has_waited = |other: &Other| *other.stream == **stream;
        if **stream == *self.stream || others.iter().any(has_waited) {
            return Ok(());
        }
        stream.join(&self.stream).map_err(driver)?;
        others.push(Other { stream: stream.clone(), writes });
        Ok(())
    }
}

impl<T> Drop for Imported<T> {
    /// Ends the work. If the driver does not say whether it is done, the array is never released.
    fn drop(&mut self) {
        // SAFETY: taken once, here.
        let mut array = unsafe { ManuallyDrop::take(&mut self.array) };
        let others = std::mem::take(&mut *self.others());
        let caller = Current::now();
        let is_captured = !matches!(
            self.stream.capture_status(),
            Ok(CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
        );
        let follows = |other: &Other| {
            self.stream.join(&other.stream).is_ok() || other.stream.synchronize().is_ok()
        };
        let is_ready = caller.is_ok()
            && others.iter().all(follows)
            && Current::set(self.current as CUcontext).is_ok();
        if !is_ready {
            std::mem::forget(array);
            return;
        }
        let on = stream(&self.stream);
        drop(Consumer::resume(&array, on, self.access));
        let is_stated = !matches!(array.stream(), Stream::NONE | Stream::UNKNOWN);
        if self.access != Access::Read && !is_stated && self.stream.synchronize().is_err() {
            std::mem::forget(array);
            return;
        }
        // The library asks for the stream once its capture has ended. It lives until then, or for ever.
        if is_captured && array.attach(self.stream.clone()).is_err() {
            std::mem::forget(self.stream.clone());
        }
        if let Err((array, _)) = array.release_after(on) {
            match self.stream.synchronize() {
                Ok(()) => drop(array),
                Err(_) => std::mem::forget(array),
            }
        }
    }
}

/// The calling thread's current context, or NULL. Dropping it makes it current again.
struct Current(CUcontext);

impl Current {
    fn now() -> Result<Current> {
        ctx::get_current().map(|found| Current(found.unwrap_or(null_mut()))).map_err(driver)
    }

    fn set(context: CUcontext) -> std::result::Result<(), DriverError> {
        // SAFETY: NULL, or a context that was current before; after its end, the driver fails.
        unsafe { ctx::set_current(context) }
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        // If that fails, the context was destroyed.
        let _ = Current::set(self.0);
    }
}

/// Returns true if the stream's value means another stream in every thread.
fn is_per_thread(stream: &CudaStream) -> bool {
    stream.cu_stream() as u64 == sys::CAI_STREAM_PER_THREAD
}

fn driver(refused: DriverError) -> Error {
    Error::new(sys::CAI_ERR_DRIVER, "driver", refused, "success")
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
