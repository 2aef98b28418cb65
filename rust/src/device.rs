//! Devices and streams.
//!
//! May use: `sys`.
//! Unsafe: declares a function whose callers promise that a handle is alive.

use std::fmt;

use crate::sys::{self, cai_device, cai_stream};

/// Location of an array's data: a `CAI_DEVICE_` number and an ordinal.
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
        matches!(
            self.kind,
            sys::CAI_DEVICE_CPU
                | sys::CAI_DEVICE_CUDA_HOST
                | sys::CAI_DEVICE_CUDA_MANAGED
                | sys::CAI_DEVICE_ROCM_HOST
        )
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
/// there is none. It owns nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stream(cai_stream);

impl Stream {
    /// The legacy default stream of the current context.
    pub const LEGACY: Stream = Stream(sys::CAI_STREAM_LEGACY);
    /// The per-thread default stream of the calling thread.
    pub const PER_THREAD: Stream = Stream(sys::CAI_STREAM_PER_THREAD);
    /// No work is pending.
    pub const NONE: Stream = Stream(sys::CAI_STREAM_NONE);
    /// Not known.
    pub const UNKNOWN: Stream = Stream(sys::CAI_STREAM_UNKNOWN);

    /// Takes a `CUstream` as an integer, or a `CAI_STREAM_` value. 0, which means different streams
    /// to different libraries, is refused by all functions that a stream is passed to.
    ///
    /// # Safety
    /// If the value is a handle, its stream exists as long as the result is passed to functions,
    /// and as long as an array with this stream exists.
    #[must_use]
    pub const unsafe fn from_raw(value: cai_stream) -> Stream {
        Stream(value)
    }

    /// Returns the value of the C interface.
    #[must_use]
    pub const fn as_raw(self) -> cai_stream {
        self.0
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match *self {
            Stream::LEGACY => f.write_str("Stream::LEGACY"),
            Stream::PER_THREAD => f.write_str("Stream::PER_THREAD"),
            Stream::NONE => f.write_str("Stream::NONE"),
            Stream::UNKNOWN => f.write_str("Stream::UNKNOWN"),
            Stream(value) => write!(f, "Stream({value:#x})"),
        }
    }
}
