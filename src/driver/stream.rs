//! Streams, with what gives their values a meaning: the context of default streams, and ids.

use std::ptr;

use cudarc::driver::sys::{CUcontext, CUevent, CUgraph, CUstream};

use crate::abi::{CAI_STREAM_LEGACY, CAI_STREAM_PER_THREAD};
use crate::driver::context::{CallingThread, Entered};
use crate::driver::known_streams;
use crate::driver::table::Call;
use crate::error::{Result, fail};

/// A stream of the driver: never NONE, UNKNOWN or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// 1, 2, or a handle. HIP's legacy stream is 0 here, which every version of HIP knows.
    value: u64,
    /// The context of a default stream. NULL for other streams, whose handle identifies them.
    context: CUcontext,
    /// The id that `cuStreamGetId` must return; 0 if it is not known.
    id: u64,
}

/// The capture state of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    None,
    Active,
    Invalidated,
}

/// Returns true for the values that have a meaning only together with a context.
pub fn is_default(value: u64) -> bool {
    value == CAI_STREAM_LEGACY || value == CAI_STREAM_PER_THREAD
}

impl Stream {
    pub fn from_handle(value: u64, id: u64) -> Stream {
        Stream { value, context: ptr::null_mut(), id }
    }

    /// A stream as the calling thread means it: default streams are those of its current context.
    #[inline]
    pub fn from_current_context(thread: &CallingThread, value: u64) -> Result<Stream> {
        let context = if is_default(value) { thread.some_current()? } else { ptr::null_mut() };
        Ok(Stream::from_array(thread, value, context, 0))
    }

    /// A stream of an array. For a default stream, `context` is its context.
    pub fn from_array(thread: &CallingThread, value: u64, context: CUcontext, id: u64) -> Stream {
        if !is_default(value) {
            return Stream::from_handle(value, id);
        }
        let is_null = value == CAI_STREAM_LEGACY && thread.is_hip();
        Stream { value: if is_null { 0 } else { value }, context, id }
    }

    /// Returns true if two streams are certainly the same.
    pub fn is(&self, other: &Stream) -> bool {
        self.value == other.value && self.context == other.context
    }

    /// Returns true if its value has a meaning only together with a context.
    pub fn is_default(&self) -> bool {
        !self.context.is_null()
    }

    pub fn has_id(&self) -> bool {
        self.id != 0
    }

    pub fn value(&self) -> u64 {
        self.value
    }

    fn handle(&self) -> CUstream {
        self.value as CUstream
    }

    /// Makes the context of a default stream current. Other streams need none.
    pub fn enter<'a>(&self, thread: &'a CallingThread) -> Result<Option<Entered<'a>>> {
        if self.context.is_null() { Ok(None) } else { thread.enter(self.context).map(Some) }
    }

    /// Returns the context that its events must be created in.
    #[inline]
    pub fn context(&self, thread: &CallingThread) -> Result<CUcontext> {
        if self.context.is_null() { thread.context_of(self.handle()) } else { Ok(self.context) }
    }

    /// Returns its capture state. This call is always allowed. [cuStreamIsCapturing]
    pub fn capture(&self, thread: &CallingThread) -> Result<Capture> {
        let _context = self.enter(thread)?;
        self.capture_here(thread)
    }

    /// The same for a handle, and for a default stream of the current context.
    #[inline(always)]
    pub fn capture_here(&self, thread: &CallingThread) -> Result<Capture> {
        let mut status = 0;
        thread.stream_is_capturing(self.handle(), &raw mut status).ok()?;
        Ok(match status {
            0 => Capture::None,
            1 => Capture::Active,
            _ => Capture::Invalidated,
        })
    }

    /// Returns the id and the graph of its capture, which must be active.
    pub fn graph(&self, thread: &CallingThread) -> Result<(u64, CUgraph)> {
        let _context = self.enter(thread)?;
        let (mut status, mut id, mut graph) = (0, 0, ptr::null_mut());
        thread
            .stream_capture_info(
                self.handle(),
                &raw mut status,
                &raw mut id,
                &raw mut graph,
                ptr::null_mut(),
                ptr::null_mut(),
            )
            .ok()?;
        Ok((id, graph))
    }

    /// Fails unless its capture is that of another stream. Both must be active.
    pub fn check_same_capture(&self, thread: &CallingThread, other: &Stream) -> Result<()> {
        let (own, other) = (self.graph(thread)?.0, other.graph(thread)?.0);
        if own == other {
            return Ok(());
        }
        fail!(CAI_ERR_CAPTURE_MERGE, "stream";
            found "two captures ({own} and {other})"; expected "both streams in one capture")
    }

    /// Returns the driver's id of it, or 0 if the driver has none. Not allowed during its capture.
    pub fn id(&self, thread: &CallingThread) -> Result<u64> {
        let _context = self.enter(thread)?;
        let mut id = 0;
        let call = thread.stream_id(self.handle(), &raw mut id);
        if !call.is_missing() {
            call.ok()?;
        }
        Ok(id)
    }

    /// Returns its context and id, 0 if the driver has none. `state` is its capture state.
    pub fn identity(&self, thread: &CallingThread, state: Capture) -> Result<(CUcontext, u64)> {
        let query = || {
            let id = self.id(thread)?;
            Ok(match known_streams::find(id) {
                Some(known) if !self.is_default() => (known.context, id),
                _ => (self.context(thread)?, id),
            })
        };
        if state == Capture::None { query() } else { thread.relaxed(query) }
    }

    /// Returns true if the legacy default stream waits for it: it is that one, or a blocking stream.
    /// False if the driver has no function that tells.
    pub fn is_blocking(&self, thread: &CallingThread) -> Result<bool> {
        const NON_BLOCKING: u32 = 1;
        if self.is_default() {
            return Ok(true);
        }
        let mut flags = 0;
        let call = thread.stream_flags(self.handle(), &raw mut flags);
        if call.is_missing() {
            return Ok(false);
        }
        call.ok()?;
        Ok(flags & NON_BLOCKING == 0)
    }

    /// Fails if the stream's id is not the expected one. Not allowed during its capture.
    #[inline]
    pub fn check_id(&self, thread: &CallingThread) -> Result<()> {
        if self.id == 0 { Ok(()) } else { self.checked_id(thread).map(|_| ()) }
    }

    /// Returns its id, or 0 if it is not known. Fails if it is not the expected one. Not allowed
    /// during its capture.
    #[inline(always)]
    pub fn checked_id(&self, thread: &CallingThread) -> Result<u64> {
        if self.id != 0 {
            let found = self.id(thread)?;
            return if found == self.id || found == 0 { Ok(found) } else { self.other(found) };
        }
        // A default stream is identified by its context.
        if self.is_default() {
            return Ok(0);
        }
        // The id is not required: where the stream is unusable, the calls that follow fail.
        let mut id = 0;
        let call = thread.stream_id(self.handle(), &raw mut id);
        Ok(if call.is_ok() { id } else { 0 })
    }

    /// The failure for a stream whose id is not the expected one.
    #[cold]
    fn other<T>(&self, found: u64) -> Result<T> {
        if self.value == CAI_STREAM_PER_THREAD {
            return fail!(CAI_ERR_STREAM_THREAD, "stream";
                found "the per-thread default stream of another thread (stream_id {})", self.id;
                expected "that of this thread ({found}); export an event or a stream that every \
                    thread can name");
        }
        fail!(CAI_ERR_STREAM_STALE, "stream";
            found "{:#x}, which is now the stream {found}", self.value;
            expected "stream {}, as in stream_id: the stream was destroyed before the array",
                self.id)
    }

    pub fn record(&self, thread: &CallingThread, event: CUevent) -> Result<()> {
        let _context = self.enter(thread)?;
        thread.event_record(event, self.handle()).ok()
    }

    /// Records an event of its context on it, whatever context is current. The stream is a handle.
    #[inline]
    pub fn try_record(&self, thread: &CallingThread, event: CUevent) -> Call {
        thread.event_record(event, self.handle())
    }

    /// Makes it, a handle, wait for an event of any context, whatever context is current.
    #[inline]
    pub fn try_wait(&self, thread: &CallingThread, event: CUevent) -> Call {
        thread.stream_wait(self.handle(), event, 0)
    }

    /// Makes it wait for an event of any context.
    pub fn wait(&self, thread: &CallingThread, event: CUevent, flags: u32) -> Result<()> {
        let _context = self.enter(thread)?;
        thread.stream_wait(self.handle(), event, flags).ok()
    }

    /// Blocks the host until the work enqueued on it so far is done.
    pub fn synchronize(&self, thread: &CallingThread) -> Result<()> {
        let _context = self.enter(thread)?;
        thread.relaxed(|| thread.stream_synchronize(self.handle()).ok())
    }
}
