//! What one call for many arrays has ordered, so that arrays of one stream cost one event.
//!
//! Only the last few are remembered. What was forgotten is ordered once more, which changes nothing.

use std::cell::{Cell, OnceCell};

use crate::abi::cai_array;
use crate::driver::{self, CUcontext, CUevent, CallingThread, Stream};
use crate::error::Result;

/// Distinct streams that can alternate without being ordered again.
const REMEMBERED: usize = 8;

/// What a consumer waits for, or makes wait. Two arrays with the same one need the same calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// On a stream, with the id that it must have; before this event only, unless it is NULL.
    Stream(Stream, CUevent),
    /// Before an event of an unknown stream.
    Event(CUevent),
    /// On every stream of a context.
    Context(CUcontext),
}

/// State of one call for many arrays, with one consumer and the same flags.
#[derive(Default)]
pub struct Batch {
    cuda: OnceCell<CallingThread>,
    hip: OnceCell<CallingThread>,
    /// Work of the last few kinds that is done, and whether it is HIP's.
    done: [Cell<Option<(bool, Work)>>; REMEMBERED],
    next: Cell<usize>,
    has_joined: Cell<bool>,
}

impl Batch {
    /// Forgets what the consumer waited for before it joined a capture, which it does once: none of
    /// that orders the work that it captures.
    pub fn forget_after_join(&self) {
        if !self.has_joined.replace(true) {
            self.done.iter().for_each(|done| done.set(None));
        }
    }

    fn has(&self, work: (bool, Work)) -> bool {
        self.done.iter().any(|done| done.get() == Some(work))
    }

    fn add(&self, work: (bool, Work)) {
        let next = self.next.get();
        self.done[next].set(Some(work));
        self.next.set((next + 1) % REMEMBERED);
    }
}

/// Calls `body`, unless the batch has done this work before.
#[inline(always)]
pub fn once(
    batch: Option<&Batch>,
    thread: &CallingThread,
    work: Work,
    body: impl FnOnce() -> Result<()>,
) -> Result<()> {
    if batch.is_some_and(|batch| batch.has((thread.is_hip(), work))) {
        return Ok(());
    }
    body()?;
    if let Some(batch) = batch {
        batch.add((thread.is_hip(), work));
    }
    Ok(())
}

/// Returns the driver for an array: that of the batch, whose current context was queried, or one in
/// `own`.
#[inline(always)]
pub fn thread_for<'a>(
    batch: Option<&'a Batch>,
    array: &cai_array,
    own: &'a mut Option<CallingThread>,
) -> Result<&'a CallingThread> {
    let driver = driver::driver_of(array.device.r#type)?;
    Ok(match batch {
        None => own.insert(CallingThread::new(driver)),
        Some(batch) if driver.is_hip() => batch.hip.get_or_init(|| CallingThread::new(driver)),
        Some(batch) => batch.cuda.get_or_init(|| CallingThread::new(driver)),
    })
}
