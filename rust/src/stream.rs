//! Consumers and producers: order on streams.
//!
//! May use: `array`, `device`, `error`, `sys`.
//! Unsafe: calls functions of the C interface.

use crate::array::{Array, ArrayRef};
use crate::device::Stream;
use crate::error::{Result, call};
use crate::sys::{self, cai_stream};

/// What a consumer does with the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It reads and writes.
    ReadWrite,
}

impl Access {
    fn flags(self) -> u32 {
        match self {
            Access::Read => sys::CAI_ACCESS_READ,
            Access::Write => sys::CAI_ACCESS_WRITE,
            Access::ReadWrite => sys::CAI_ACCESS_READ | sys::CAI_ACCESS_WRITE,
        }
    }
}

/// A consumer's work on an array: the consumer's stream waits for the producer's when it is made,
/// and the producer's for the consumer's when it ends or is dropped. The host does not block.
///
/// ```
/// use libcai::{Access, Array, Consumer, Stream};
///
/// let array = Array::from_vec(vec![1.0f64, 2.0], &[2])?;
/// let work = Consumer::begin(&array, Stream::LEGACY, Access::Read)?;
/// // Enqueue kernels on the stream that read `work.array().data()`.
/// work.end()?;
/// # Ok::<(), libcai::Error>(())
/// ```
///
/// The array must outlive the kernels, which a consumer does not see to:
/// [`Array::release_after`] releases it when they are done.
#[must_use = "it ends when it is dropped"]
#[derive(Debug)]
pub struct Consumer<'a> {
    array: &'a ArrayRef,
    stream: Stream,
    flags: u32,
}

impl<'a> Consumer<'a> {
    /// Makes `stream` wait for the producer's pending work.
    ///
    /// Fails with a status of `cai_array_consume_begin`; the data must not be accessed then.
    #[inline]
    pub fn begin(array: &'a ArrayRef, stream: Stream, access: Access) -> Result<Self> {
        Consumer::begin_with(array, stream, access, 0)
    }

    /// The same with `CAI_SYNC_` and `CAI_CAPTURE_` flags of [`sys`].
    #[inline]
    pub fn begin_with(
        array: &'a ArrayRef,
        stream: Stream,
        access: Access,
        flags: u32,
    ) -> Result<Self> {
        let flags = flags | access.flags();
        let (raw, to) = (array.as_ptr(), stream.as_raw());
        // SAFETY: the array is valid, and the stream exists (`Stream::from_raw` requires it).
        call(|error| unsafe { sys::cai_array_consume_begin(raw, to, flags, error) })?;
        Ok(Consumer { array, stream, flags })
    }

    /// Continues work that was begun by a consumer that was forgotten.
    #[cfg(feature = "cudarc")]
    pub(crate) fn resume(array: &'a ArrayRef, stream: Stream, access: Access) -> Self {
        Consumer { array, stream, flags: access.flags() }
    }

    /// Returns the array.
    #[must_use]
    pub fn array(&self) -> &'a ArrayRef {
        self.array
    }

    /// Returns the consumer's stream.
    #[must_use]
    pub fn stream(&self) -> Stream {
        self.stream
    }

    /// Makes the producer's stream wait for all that was enqueued on the consumer's.
    ///
    /// Fails with a status of `cai_array_consume_end`, after it has blocked until the consumer's
    /// stream is done, as far as that is possible.
    #[inline]
    pub fn end(self) -> Result<()> {
        let result = self.finish();
        std::mem::forget(self);
        result
    }

    #[inline]
    fn finish(&self) -> Result<()> {
        let (raw, stream) = (self.array.as_ptr(), self.stream.as_raw());
        // SAFETY: as in `begin_with`.
        call(|error| unsafe { sys::cai_array_consume_end(raw, stream, self.flags, error) })
            .inspect_err(|_| self.synchronize())
    }

    /// Blocks until the consumer's stream is done, because the producer will not wait for it.
    #[cold]
    fn synchronize(&self) {
        let mut own = *self.array.as_raw();
        (own.stream, own.stream_id) = (self.stream.as_raw(), 0);
        (own.event, own.context, own.mask) =
            (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null());
        // SAFETY: a valid array, borrowed, whose stream is the consumer's.
        let _ = call(|error| unsafe { sys::cai_array_synchronize(&own, 0, error) });
    }
}

impl Drop for Consumer<'_> {
    /// Ends the work. Where that fails, it blocks until the consumer's stream is done: call
    /// [`Consumer::end`] to learn of the failure.
    #[inline]
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

/// A producer's streams: which one it exports arrays on, and which other ones have pending work.
///
/// ```
/// use libcai::{Array, Producer, Stream};
///
/// let mut array = Array::from_vec(vec![0u8; 4], &[4])?;
/// // No stream has work on host memory: consumers need not wait.
/// Producer::new(Stream::LEGACY).export(&mut array)?;
/// assert_eq!(array.stream(), Stream::NONE);
/// # Ok::<(), libcai::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Producer {
    export: Stream,
    pending: Vec<cai_stream>,
    flags: u32,
}

impl Producer {
    /// Names the stream that consumers synchronize with.
    #[must_use]
    pub fn new(export: Stream) -> Self {
        Producer { export, pending: Vec::new(), flags: 0 }
    }

    /// Adds a stream on which work on the data may be pending: also the export stream itself.
    #[must_use]
    pub fn pending(mut self, stream: Stream) -> Self {
        self.pending.push(stream.as_raw());
        self
    }

    /// Adds `CAI_SYNC_EXPORT_NONE`, `CAI_SYNC_THIS_CALL` or `CAI_CAPTURE_` flags of [`sys`].
    #[must_use]
    pub fn flags(mut self, flags: u32) -> Self {
        self.flags |= flags;
        self
    }

    /// Makes the export stream wait for the others, and writes it into the array. Clones that exist
    /// already keep their stream.
    ///
    /// Fails with a status of `cai_array_produce`; the array is then unchanged.
    pub fn export(&self, array: &mut Array) -> Result<()> {
        let (streams, count) = (self.pending.as_ptr(), self.pending.len());
        let (export, flags) = (self.export.as_raw(), self.flags);
        let array = array.as_mut_ptr();
        // SAFETY: the array is valid, and the streams exist (`Stream::from_raw` requires it).
        call(|error| unsafe { sys::cai_array_produce(array, streams, count, export, flags, error) })
    }
}
