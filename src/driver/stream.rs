//! Streams, with what gives their values a meaning: the context of default streams, and ids.
//!
//! May use: `abi`, `driver::context`, `driver::load`, `error`.
//! Unsafe: none.

use std::ptr;

use cudarc::driver::sys::{CUcontext, CUevent, CUgraph, CUstream};

use crate::abi::{CAI_STREAM_LEGACY, CAI_STREAM_PER_THREAD};
use crate::driver::context::Entered;
use crate::driver::load::Driver;
use crate::error::{Result, fail};

/// A stream of the driver: never NONE, UNKNOWN or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// 1, 2, or a `CUstream`.
    value: u64,
    /// The context of a default stream. NULL for other streams, whose handle identifies them.
    context: CUcontext,
    /// The id that `cuStreamGetId` must return; 0 if it is not known.
    id: u64,
}

/// The capture state of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// Not being captured.
    None,
    /// Being captured.
    Active,
    /// The capture was invalidated.
    Invalidated,
}

/// Returns true for the values that have a meaning only together with a context.
#[inline]
pub fn is_default(value: u64) -> bool {
    value == CAI_STREAM_LEGACY || value == CAI_STREAM_PER_THREAD
}

impl Stream {
    /// A stream as the calling thread means it: default streams are those of its current context.
    #[inline]
    pub fn from_current_context(driver: &Driver, value: u64) -> Result<Stream> {
        let context = if is_default(value) { driver.some_current()? } else { ptr::null_mut() };
        Ok(Stream { value, context, id: 0 })
    }

    /// A stream of an array. For a default stream, `context` is its context.
    #[inline]
    pub fn from_array(value: u64, context: CUcontext, id: u64) -> Stream {
        Stream { value, context: if is_default(value) { context } else { ptr::null_mut() }, id }
    }

    /// Returns true if two streams are certainly the same.
    #[inline]
    pub fn is(&self, other: &Stream) -> bool {
        self.value == other.value && self.context == other.context
    }

    /// Returns true if its value has a meaning only together with a context.
    #[inline]
    pub fn is_default(&self) -> bool {
        !self.context.is_null()
    }

    /// Returns true if its id is known.
    #[inline]
    pub fn has_id(&self) -> bool {
        self.id != 0
    }

    #[inline]
    fn handle(&self) -> CUstream {
        self.value as CUstream
    }

    /// Makes the context of a default stream current. Other streams need none.
    #[inline]
    fn enter<'a>(&self, driver: &'a Driver) -> Result<Option<Entered<'a>>> {
        if self.context.is_null() { Ok(None) } else { driver.enter(self.context).map(Some) }
    }

    /// Returns the context that its events must be created in.
    #[inline]
    pub fn context(&self, driver: &Driver) -> Result<CUcontext> {
        if self.context.is_null() { driver.context_of(self.handle()) } else { Ok(self.context) }
    }

    /// Returns its capture state. This call is always allowed. [cuStreamIsCapturing]
    #[inline]
    pub fn capture(&self, driver: &Driver) -> Result<Capture> {
        let _context = self.enter(driver)?;
        let mut status = 0;
        driver.stream_is_capturing(self.handle(), &raw mut status).ok()?;
        Ok(match status {
            0 => Capture::None,
            1 => Capture::Active,
            _ => Capture::Invalidated,
        })
    }

    /// Returns the id and the graph of its capture, which must be active.
    pub fn graph(&self, driver: &Driver) -> Result<(u64, CUgraph)> {
        let _context = self.enter(driver)?;
        let (mut status, mut id, mut graph) = (0, 0, ptr::null_mut());
        driver
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

    /// Returns the driver's id of it, or 0 if the driver has none. Not allowed during its capture.
    pub fn id(&self, driver: &Driver) -> Result<u64> {
        let _context = self.enter(driver)?;
        let mut id = 0;
        let call = driver.stream_id(self.handle(), &raw mut id);
        if !call.is_missing() {
            call.ok()?;
        }
        Ok(id)
    }

    /// Fails if the stream's id is not the expected one. Not allowed during its capture.
    #[inline]
    pub fn check_id(&self, driver: &Driver) -> Result<()> {
        if self.id == 0 {
            return Ok(());
        }
        let found = self.id(driver)?;
        if found == self.id || found == 0 {
            return Ok(());
        }
        if self.value == CAI_STREAM_PER_THREAD {
            return fail!(
                CAI_ERR_STREAM_THREAD,
                "stream",
                found = ("the per-thread default stream of another thread (stream_id {})", self.id),
                expected = "that of this thread ({found}); export an event or a stream that every \
                 thread can name"
            );
        }
        fail!(
            CAI_ERR_STREAM_STALE,
            "stream",
            found = ("{:#x}, which is now the stream {found}", self.value),
            expected =
                ("stream {}, as in stream_id: the stream was destroyed before the array", self.id)
        )
    }

    /// Records an event of its context on it.
    #[inline]
    pub fn record(&self, driver: &Driver, event: CUevent) -> Result<()> {
        let _context = self.enter(driver)?;
        driver.event_record(event, self.handle()).ok()
    }

    /// Makes it wait for an event of any context.
    #[inline]
    pub fn wait(&self, driver: &Driver, event: CUevent, flags: u32) -> Result<()> {
        let _context = self.enter(driver)?;
        driver.stream_wait(self.handle(), event, flags).ok()
    }

    /// Blocks the host until the work enqueued on it so far is done.
    pub fn synchronize(&self, driver: &Driver) -> Result<()> {
        let _context = self.enter(driver)?;
        driver.relaxed(|| driver.stream_synchronize(self.handle()).ok())
    }
}
