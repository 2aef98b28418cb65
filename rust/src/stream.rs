//! Consumers and producers: order on streams.

use std::marker::PhantomData;

use crate::array::{Array, ArrayRef};
use crate::device::Stream;
use crate::error::{Result, call};
use crate::sys::{self, cai_stream};

/// Access of a consumer to the data. A [`Consumer`] that writes refuses a read-only array.
///
/// ```
/// use libcai::{Access, Array, Consumer, Stream, sys};
///
/// let array = Array::from_owner([1.0f32, 2.0], &[2])?;
/// Consumer::begin(&array, Stream::LEGACY, Access::Read)?.end()?;
/// let refused = Consumer::begin(&array, Stream::LEGACY, Access::Write).unwrap_err();
/// assert_eq!(refused.status(), sys::CAI_ERR_READONLY);
/// # Ok::<(), libcai::Error>(())
/// ```
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
/// A consumer borrows its array and its stream, but kernels may run longer than both borrows:
/// [`Array::release_after`] releases the array when they are done. On a default stream, end the
/// consumer on the thread that began it, with the same context current: elsewhere,
/// [`Stream::PER_THREAD`] and [`Stream::LEGACY`] mean other streams.
///
/// ```compile_fail,E0505
/// use libcai::{Access, Array, Consumer, Stream};
///
/// let array = Array::from_vec(vec![1.0f64, 2.0], &[2])?;
/// let work = Consumer::begin(&array, Stream::LEGACY, Access::Read)?;
/// drop(array);
/// work.end()?;
/// # Ok::<(), libcai::Error>(())
/// ```
#[must_use = "it ends when it is dropped"]
#[derive(Debug)]
pub struct Consumer<'a> {
    array: &'a ArrayRef,
    stream: Stream<'a>,
    flags: u32,
}

impl<'a> Consumer<'a> {
    /// Makes `stream` wait for the producer's pending work.
    ///
    /// Fails with a status of `cai_array_consume_begin`; the data must not be accessed then.
    #[inline]
    pub fn begin(array: &'a ArrayRef, stream: Stream<'a>, access: Access) -> Result<Self> {
        Consumer::begin_with(array, stream, access, 0)
    }

    /// The same with `CAI_SYNC_` and `CAI_CAPTURE_` flags of [`sys`].
    #[inline]
    pub fn begin_with(
        array: &'a ArrayRef,
        stream: Stream<'a>,
        access: Access,
        flags: u32,
    ) -> Result<Self> {
        let flags = flags | access.flags();
        let (raw, to) = (array.as_ptr(), stream.as_raw());
        // SAFETY: the array is valid, and the stream exists during `'a`.
        call(|error| unsafe { sys::cai_array_consume_begin(raw, to, flags, error) })?;
        Ok(Consumer { array, stream, flags })
    }

    /// Continues work that was begun by a consumer that was forgotten.
    #[cfg(feature = "cudarc")]
    pub(crate) fn resume(array: &'a ArrayRef, stream: Stream<'a>, access: Access) -> Self {
        Consumer { array, stream, flags: access.flags() }
    }

    /// Returns the array.
    #[must_use]
    pub fn array(&self) -> &'a ArrayRef {
        self.array
    }

    /// Returns the consumer's stream.
    #[must_use]
    pub fn stream(&self) -> Stream<'a> {
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
        // SAFETY: the array is valid, and the stream exists: both are borrowed during `'a`.
        call(|error| unsafe { sys::cai_array_consume_end(raw, stream, self.flags, error) })
            .inspect_err(|_| self.synchronize())
    }

    /// Blocks until the consumer's stream is done, because the producer will not wait for it.
    #[cold]
    fn synchronize(&self) {
        let mut own = *self.array.as_raw();
        own.version = sys::CAI_INTERFACE_VERSION;
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
///
/// The array states the export stream as long as it and its clones exist, in other libraries as
/// well. So a handle must be [`Stream::from_raw`] of a stream that exists as long:
/// [`attach`](Array::attach) its owner to the array. A stream of a shorter life is not accepted:
///
/// ```compile_fail,E0597
/// use libcai::{Array, Producer};
///
/// let mut mine = Array::from_vec(vec![0u8; 4], &[4])?;
/// let producer = {
///     let theirs = Array::from_vec(vec![0u8; 4], &[4])?;
///     Producer::new(theirs.stream())
/// };
/// producer.export(&mut mine)?;
/// # Ok::<(), libcai::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Producer<'a> {
    export: Stream<'static>,
    pending: Vec<cai_stream>,
    flags: u32,
    lives: PhantomData<Stream<'a>>,
}

impl<'a> Producer<'a> {
    /// Names the stream that consumers synchronize with.
    #[must_use]
    pub fn new(export: Stream<'static>) -> Self {
        Producer { export, pending: Vec::new(), flags: 0, lives: PhantomData }
    }

    /// Adds a stream on which work on the data may be pending: also the export stream itself.
    #[must_use]
    pub fn pending(mut self, stream: Stream<'a>) -> Self {
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
        // SAFETY: the array is valid, and the streams exist: the others during `'a`, and the one
        // that the array states until the program ends (`Stream<'static>`).
        call(|error| unsafe { sys::cai_array_produce(array, streams, count, export, flags, error) })
    }
}
