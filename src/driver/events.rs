//! Events for waiting, kept for the next time: a list for each context, without locks and without
//! allocation.
//!
//! An event may be used again as soon as a stream was told to wait for it: the wait means what the
//! event said at that time [cuStreamWaitEvent]. It may have been recorded in a capture: recording
//! it again overwrites that.
//!
//! Contexts are told apart by their id, because a handle may come back for another context, or for
//! the same primary context after a reset, and the events of the one before are gone then. Where
//! the driver has no ids (before CUDA 12.0), or where more contexts than the table has rooms have
//! come and gone, events are made and destroyed each time.

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
const ROOMS: usize = 64;
const EVENTS: usize = 64;

/// No timing: the fastest kind to record and to wait for. [cuEventCreate]
const DISABLE_TIMING: u32 = 2;

struct Bucket {
    /// The context's id; 0: the bucket is empty. Once it is another number it stays.
    id: AtomicU64,
    events: Slots<CUevent_st, EVENTS>,
}

#[cfg(not(loom))]
static POOL: [Bucket; ROOMS] =
    [const { Bucket { id: AtomicU64::new(0), events: Slots::new() } }; ROOMS];

/// The bucket of a context, if one is to be had.
#[cfg(not(loom))]
fn bucket(id: u64) -> Option<&'static Bucket> {
    let start = id as usize % ROOMS;
    let (behind, front) = (&POOL[start..], &POOL[..start]);
    behind.iter().chain(front).find(|bucket| {
        match bucket.id.load(Ordering::Relaxed) {
            // Relaxed: a bucket's id says nothing about other memory; events are published by
            // themselves.
            0 => match bucket.id.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => true,
                Err(other) => other == id,
            },
            other => other == id,
        }
    })
}

/// The model checker's atomics cannot be in a static; the lists are checked by themselves.
#[cfg(loom)]
fn bucket(_: u64) -> Option<&'static Bucket> {
    None
}

/// An event that this library made. Destroyed when dropped; [`Event::keep`] puts it back instead.
pub struct Event<'a> {
    driver: &'a Driver,
    bucket: Option<&'static Bucket>,
    context_id: u64,
    event: CUevent,
}

impl Driver {
    /// An event of a context, which must be the current one.
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

    /// An event that marks what was enqueued on a stream so far. `context` is the stream's.
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
    /// The driver's handle.
    #[inline]
    pub fn handle(&self) -> CUevent {
        self.event
    }

    /// The number of its context; 0 where the driver has none.
    pub fn context_id(&self) -> u64 {
        self.context_id
    }

    /// All calls with it have succeeded: keeps it for the next time.
    #[inline]
    pub fn keep(mut self) {
        if self.bucket.is_some_and(|bucket| bucket.events.put(self.event)) {
            self.event = ptr::null_mut();
        }
    }

    /// Gives the event away: whoever gets it destroys it.
    pub fn give(mut self) -> CUevent {
        std::mem::replace(&mut self.event, ptr::null_mut())
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        if !self.event.is_null() {
            // May be destroyed while work on it is pending. [cuEventDestroy] Where it fails, the
            // context is lost and the event with it.
            let _ = self.driver.event_destroy(self.event);
        }
    }
}
