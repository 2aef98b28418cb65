//! Streams, with what gives their values a meaning.

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
    /// The context of a default stream. NULL for others, whose handle says it all.
    context: CUcontext,
    /// What `cuStreamGetId` must say; 0: not known.
    id: u64,
}

/// Whether a stream is being captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// It runs.
    None,
    /// It is being captured.
    Active,
    /// Its capture was broken.
    Invalidated,
}

/// Is this one of the values that mean something only together with a context?
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

    /// A stream of somebody else, whose context is known if it is a default stream.
    #[inline]
    pub fn from_array(value: u64, context: CUcontext, id: u64) -> Stream {
        Stream { value, context: if is_default(value) { context } else { ptr::null_mut() }, id }
    }

    /// Are these certainly the same?
    #[inline]
    pub fn is(&self, other: &Stream) -> bool {
        self.value == other.value && self.context == other.context
    }

    /// Does it mean something only together with a context?
    #[inline]
    pub fn is_default(&self) -> bool {
        !self.context.is_null()
    }

    /// Is its number known?
    #[inline]
    pub fn has_id(&self) -> bool {
        self.id != 0
    }

    #[inline]
    fn handle(&self) -> CUstream {
        self.value as CUstream
    }

    /// Makes the context of a default stream current; others need none.
    #[inline]
    fn enter<'a>(&self, driver: &'a Driver) -> Result<Option<Entered<'a>>> {
        if self.context.is_null() { Ok(None) } else { driver.enter(self.context).map(Some) }
    }

    /// The context that its events must be made in.
    #[inline]
    pub fn context(&self, driver: &Driver) -> Result<CUcontext> {
        if self.context.is_null() { driver.context_of(self.handle()) } else { Ok(self.context) }
    }

    /// Is it being captured? The one question that is always allowed. [cuStreamIsCapturing]
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

    /// The number and the graph of its capture, which must be active.
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

    /// The driver's number of it; 0 where the driver has none. Not while it is being captured.
    pub fn id(&self, driver: &Driver) -> Result<u64> {
        let _context = self.enter(driver)?;
        let mut id = 0;
        let call = driver.stream_id(self.handle(), &raw mut id);
        if !call.is_missing() {
            call.ok()?;
        }
        Ok(id)
    }

    /// Is it the one that its number names? Not while it is being captured.
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
                expected = "that of this thread ({found}); export an event or a stream that every thread can name"
            );
        }
        fail!(
            CAI_ERR_STREAM_STALE,
            "stream",
            found = ("{:#x}, which is now the stream {found}", self.value),
            expected =
                ("the stream {} as stream_id says: it was destroyed before the array", self.id)
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

    /// Blocks the host until its work so far is done.
    pub fn synchronize(&self, driver: &Driver) -> Result<()> {
        let _context = self.enter(driver)?;
        driver.relaxed(|| driver.stream_synchronize(self.handle()).ok())
    }
}
