//! A pool of events: a free list for each context, without locks and without allocation.
//!
//! May use: `driver::load`, `driver::slots`, `driver::stream`, `error`.
//! Unsafe: none.
//!
//! An event can be reused as soon as a stream waits for it: the wait refers to the event's state at
//! the time of that call [cuStreamWaitEvent]. It may have been recorded in a capture: recording it
//! again overwrites that.
//!
//! Contexts are distinguished by their id, because a handle may return for another context, or for
//! the same primary context after a reset, whose earlier events no longer exist. If the driver has
//! no ids (before CUDA 12.0), or if the process has used more contexts than the table has buckets,
//! events are created and destroyed each time.

use std::ptr;
use std::sync::atomic::AtomicU64;
#[cfg(not(loom))]
use std::sync::atomic::Ordering;

use cudarc::driver::sys::{CUcontext, CUevent, CUevent_st};

use crate::driver::load::Driver;
use crate::driver::slots::Slots;
use crate::driver::stream::Stream;
use crate::error::Result;

#[cfg(not(loom))]
const BUCKETS: usize = 64;
const EVENTS: usize = 64;

/// No timing: the fastest kind to record and to wait for. [cuEventCreate]
const DISABLE_TIMING: u32 = 2;

struct Bucket {
    /// The context's id; 0 if the bucket is free. Set once.
    #[cfg_attr(loom, allow(dead_code))]
    id: AtomicU64,
    events: Slots<CUevent_st, EVENTS>,
}

#[cfg(not(loom))]
static POOL: [Bucket; BUCKETS] =
    [const { Bucket { id: AtomicU64::new(0), events: Slots::new() } }; BUCKETS];

/// Returns the bucket of a context, if there is a free one.
#[cfg(not(loom))]
fn bucket(id: u64) -> Option<&'static Bucket> {
    let start = id as usize % BUCKETS;
    let (behind, front) = (&POOL[start..], &POOL[..start]);
    behind.iter().chain(front).find(|bucket| {
        match bucket.id.load(Ordering::Relaxed) {
            // Relaxed: a bucket's id publishes no other memory; the free list publishes its events
            // itself.
            0 => match bucket.id.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => true,
                Err(other) => other == id,
            },
            other => other == id,
        }
    })
}

/// The model checker's atomics cannot be in a static; `slots` is checked alone.
#[cfg(loom)]
fn bucket(_: u64) -> Option<&'static Bucket> {
    None
}

/// An event that this library created. Destroyed when dropped, unless [`Event::keep`] returns it to
/// the pool.
pub struct Event<'a> {
    driver: &'a Driver,
    bucket: Option<&'static Bucket>,
    context_id: u64,
    event: CUevent,
}

impl Driver {
    /// Takes an event of a context, which must be the current one, from the pool or from the
    /// driver.
    #[inline]
    pub fn event(&self, context: CUcontext) -> Result<Event<'_>> {
        let mut id = 0;
        if !self.context_id(context, &raw mut id).is_ok() {
            id = 0;
        }
        let bucket = if id != 0 { bucket(id) } else { None };
        let kept = bucket.map_or(ptr::null_mut(), |bucket| bucket.events.take());
        if !kept.is_null() {
            return Ok(Event { driver: self, bucket, context_id: id, event: kept });
        }
        let mut event = ptr::null_mut();
        self.event_create(&raw mut event, DISABLE_TIMING).ok()?;
        Ok(Event { driver: self, bucket, context_id: id, event })
    }

    /// Records an event that marks what was enqueued on a stream so far. `context` is the stream's.
    /// [cuEventRecord]
    #[inline]
    pub fn record(&self, stream: &Stream, context: CUcontext) -> Result<Event<'_>> {
        let _entered = self.enter(context)?;
        let event = self.event(context)?;
        stream.record(self, event.handle())?;
        Ok(event)
    }
}

impl Event<'_> {
    /// Returns the driver's handle.
    #[inline]
    pub fn handle(&self) -> CUevent {
        self.event
    }

    /// Returns the id of its context, or 0 if the driver has none.
    pub fn context_id(&self) -> u64 {
        self.context_id
    }

    /// Returns the event to the pool. Every call with it must have succeeded.
    #[inline]
    pub fn keep(mut self) {
        if self.bucket.is_some_and(|bucket| bucket.events.put(self.event)) {
            self.event = ptr::null_mut();
        }
    }

    /// Returns the handle; the caller must destroy it.
    pub fn give(mut self) -> CUevent {
        std::mem::replace(&mut self.event, ptr::null_mut())
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        if !self.event.is_null() {
            // An event may be destroyed while work on it is pending. [cuEventDestroy] If that
            // fails, the context is lost, and the event with it.
            let _ = self.driver.event_destroy(self.event);
        }
    }
}
