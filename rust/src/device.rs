//! Devices and streams.

use std::fmt;
use std::marker::PhantomData;

use crate::sys::{self, cai_device, cai_stream};

/// Location of an array's data: a `CAI_DEVICE_` number and an ordinal.
///
/// ```
/// use libcai::{Array, Device};
///
/// let array = Array::from_vec(vec![1.0f32], &[1])?;
/// assert_eq!(array.device(), Device::CPU);
/// assert!(array.device().is_host_readable() && !Device::cuda(0).is_host_readable());
/// # Ok::<(), libcai::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// A `CAI_DEVICE_` number of [`sys`].
    pub kind: i32,
    /// Ordinal of the device.
    pub id: i32,
}

impl Device {
    /// Host memory.
    pub const CPU: Device = Device { kind: sys::CAI_DEVICE_CPU, id: 0 };
    /// Not known; the CUDA driver may know it.
    pub const UNKNOWN: Device = Device { kind: sys::CAI_DEVICE_UNKNOWN, id: 0 };

    /// Memory of a CUDA device.
    #[must_use]
    pub const fn cuda(id: i32) -> Device {
        Device { kind: sys::CAI_DEVICE_CUDA, id }
    }

    /// Returns true if the host can read the memory.
    #[must_use]
    pub const fn is_host_readable(self) -> bool {
        cai::device::is_host(self.kind)
    }
}

impl From<cai_device> for Device {
    fn from(device: cai_device) -> Self {
        Device { kind: device.r#type, id: device.id }
    }
}

impl From<Device> for cai_device {
    fn from(device: Device) -> Self {
        cai_device { r#type: device.kind, id: device.id }
    }
}

/// A CUDA stream as a value: a `CUstream` (`cudaStream_t`), a default stream, or the statement that
/// there is none. It owns nothing; a handle is borrowed from its stream during `'a`.
///
/// ```
/// use libcai::{Array, Stream};
///
/// let array = Array::from_vec(vec![1u8], &[1])?;
/// assert_eq!(array.stream(), Stream::NONE);
///
/// # let handle = std::ptr::without_provenance_mut::<std::ffi::c_void>(0x1000);
/// // SAFETY: the stream with this handle exists until the program ends.
/// let stream: Stream<'static> = unsafe { Stream::from_raw(handle as u64) };
/// assert_ne!(stream, Stream::LEGACY);
/// # Ok::<(), libcai::Error>(())
/// ```
///
/// The stream of an array exists as long as the array:
///
/// ```compile_fail,E0505
/// use libcai::{Array, Stream};
///
/// let array = Array::from_vec(vec![1u8], &[1])?;
/// let stream = array.stream();
/// drop(array);
/// println!("{stream:?}");
/// # Ok::<(), libcai::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stream<'a>(cai_stream, PhantomData<&'a ()>);

impl Stream<'static> {
    /// The legacy default stream of the current context.
    pub const LEGACY: Self = Stream(sys::CAI_STREAM_LEGACY, PhantomData);
    /// The per-thread default stream of the calling thread.
    pub const PER_THREAD: Self = Stream(sys::CAI_STREAM_PER_THREAD, PhantomData);
    /// No work is pending.
    pub const NONE: Self = Stream(sys::CAI_STREAM_NONE, PhantomData);
    /// Not known.
    pub const UNKNOWN: Self = Stream(sys::CAI_STREAM_UNKNOWN, PhantomData);
}

impl<'a> Stream<'a> {
    /// Takes a `CUstream` as an integer, or a `CAI_STREAM_` value. 0, which means different streams
    /// to different libraries, is refused by all functions that a stream is passed to: pass
    /// [`Stream::LEGACY`] for a NULL handle.
    ///
    /// # Safety
    /// If the value is a handle, its stream exists during `'a`. A non-blocking stream that is being
    /// captured when [`Array::release_after`](crate::Array::release_after) names it also exists
    /// until that release.
    #[must_use]
    pub const unsafe fn from_raw(value: cai_stream) -> Stream<'a> {
        Stream(value, PhantomData)
    }

    /// Returns the value of the C interface.
    #[must_use]
    pub const fn as_raw(self) -> cai_stream {
        self.0
    }
}

impl fmt::Debug for Stream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.0 {
            sys::CAI_STREAM_LEGACY => f.write_str("Stream::LEGACY"),
            sys::CAI_STREAM_PER_THREAD => f.write_str("Stream::PER_THREAD"),
            sys::CAI_STREAM_NONE => f.write_str("Stream::NONE"),
            sys::CAI_STREAM_UNKNOWN => f.write_str("Stream::UNKNOWN"),
            value => write!(f, "Stream({value:#x})"),
        }
    }
}
