//! A pool of events: a free list for each context, without locks and without allocation.
//!
//! An event can be reused as soon as a stream waits for it: the wait is for its state then
//! [cuStreamWaitEvent]. It may have been recorded in a capture: recording it again overwrites that.
//!
//! Contexts are distinguished by their id, because a handle may return for another context, or for
//! the same primary context after a reset, whose earlier events no longer exist. If the driver has
//! no ids (before CUDA 12.0), or if the process has used more contexts than the table has buckets,
//! events are created and destroyed each time.
//!
//! By the id too: the context of a stream whose id is known is not queried again.
//!
//! HIP has ids of neither: events are created and destroyed each time.

use std::ptr;
use std::sync::atomic::AtomicU64;
#[cfg(not(loom))]
use std::sync::atomic::Ordering;

use cudarc::driver::sys::{CUcontext, CUevent, CUevent_st};

use crate::driver::context::{CallingThread, KnownContext};
use crate::driver::known_streams::{self, Known};
use crate::driver::load::{self, Driver};
use crate::driver::result::INVALID_CONTEXT;
use crate::driver::slots::{Reserved, Slots};
use crate::driver::stream::Stream;
use crate::driver::table::Call;
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

/// Returns the number of the bucket of a context, if there is a free one.
#[cfg(not(loom))]
#[inline]
fn bucket_of(id: u64) -> Option<usize> {
    let start = id as usize % BUCKETS;
    (start..BUCKETS).chain(0..start).find(|&index| {
        let bucket = &POOL[index];
        match bucket.id.load(Ordering::Relaxed) {
            // Relaxed: a bucket's id publishes nothing; the free list publishes its events itself.
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
fn bucket_of(_: u64) -> Option<usize> {
    None
}

#[cfg(not(loom))]
fn bucket_at(index: usize) -> Option<&'static Bucket> {
    POOL.get(index)
}

#[cfg(loom)]
fn bucket_at(_: usize) -> Option<&'static Bucket> {
    None
}

type Slot = Reserved<'static, CUevent_st>;

/// An event of this library. Destroyed when dropped, unless [`Event::keep`] returns it to the pool.
pub struct Event {
    driver: &'static Driver,
    event: CUevent,
    /// The slot that is reserved for it, if it came from the pool.
    slot: Option<Slot>,
    bucket: Option<usize>,
    context: KnownContext,
}

impl CallingThread {
    /// Takes an event of the current context, which is passed, from the pool or the driver.
    pub fn event(&self, context: CUcontext) -> Result<Event> {
        let context = KnownContext::new(self, context);
        let bucket = if context.id != 0 { bucket_of(context.id) } else { None };
        if let Some(event) = bucket.and_then(|bucket| self.pooled(bucket, context.handle)) {
            return Ok(event);
        }
        let mut event = ptr::null_mut();
        self.event_create(&raw mut event, DISABLE_TIMING).ok()?;
        Ok(Event { driver: self.driver(), event, slot: None, bucket, context })
    }

    /// Fast path for two handles: records an event of the pool on `from`, whose id is known, and
    /// makes `to` wait for it. Returns `None` if the slow path has to do that.
    #[inline(always)]
    pub fn pass(&self, from: &Stream, to: &Stream, id: u64) -> Option<Result<()>> {
        if from.is_default() || to.is_default() {
            return None;
        }
        let bucket = bucket_at(known_streams::find(id)?.bucket)?;
        let (slot, event) = bucket.events.take()?;
        // Neither needs the stream's context.
        let mut call = from.try_record(self, event);
        if call.is_ok() {
            call = to.try_wait(self, event);
            if call.is_ok() {
                slot.give_back(event);
                return Some(Ok(()));
            }
        }
        self.not_passed(call, slot, event)
    }

    /// The end of [`pass`](Self::pass) after a call that failed.
    #[cold]
    fn not_passed(&self, call: Call, slot: Slot, event: CUevent) -> Option<Result<()>> {
        let (driver, slot) = (self.driver(), Some(slot));
        let context = KnownContext::with_id(ptr::null_mut(), 0);
        let event = Event { driver, event, slot, bucket: None, context };
        if call.code == INVALID_CONTEXT {
            // This driver needs some current context.
            event.keep();
            return None;
        }
        Some(call.ok())
    }

    fn pooled(&self, index: usize, context: CUcontext) -> Option<Event> {
        let bucket = bucket_at(index)?;
        let (slot, event) = bucket.events.take()?;
        // Relaxed: set once, before the bucket was first used.
        #[cfg(not(loom))]
        let id = bucket.id.load(Ordering::Relaxed);
        #[cfg(loom)]
        let id = 0;
        let (driver, slot, bucket) = (self.driver(), Some(slot), Some(index));
        Some(Event { driver, event, slot, bucket, context: KnownContext::with_id(context, id) })
    }

    /// Records an event that marks what was enqueued on a stream so far. `id` is the stream's, or 0
    /// if it is not known. [cuEventRecord]
    #[inline(never)]
    pub fn record(&self, stream: &Stream, id: u64) -> Result<Event> {
        // A default stream is identified by its context, which has to be current anyway.
        let known = if stream.is_default() { None } else { known_streams::find(id) };
        if let Some(event) = known.and_then(|known| self.pooled(known.bucket, known.context)) {
            // The context need not be the current one.
            let recorded = stream.try_record(self, event.handle());
            if recorded.code != INVALID_CONTEXT {
                return recorded.ok().map(|()| event);
            }
            // This driver needs some current context.
            event.keep();
        }
        let context = stream.context(self)?;
        let _entered = self.enter(context)?;
        let event = self.event(context)?;
        stream.record(self, event.handle())?;
        if let (Some(bucket), false) = (event.bucket, stream.is_default()) {
            known_streams::remember(id, Known { context, bucket });
        }
        Ok(event)
    }
}

impl Event {
    pub fn driver(&self) -> &'static Driver {
        self.driver
    }

    pub fn handle(&self) -> CUevent {
        self.event
    }

    /// Returns the id of its context, or 0 if the driver has none.
    pub fn context_id(&self) -> u64 {
        self.context.id
    }

    /// Returns the event to the pool. Every call with it must have succeeded.
    pub fn keep(mut self) {
        let kept = match self.slot.take() {
            Some(slot) => {
                slot.give_back(self.event);
                true
            }
            None => {
                self.bucket.and_then(bucket_at).is_some_and(|bucket| bucket.events.put(self.event))
            }
        };
        if kept {
            self.event = ptr::null_mut();
        }
    }

    /// Takes it out of the pool, to live for longer than one operation.
    pub fn into_owned(mut self) -> OwnedEvent {
        let event = std::mem::replace(&mut self.event, ptr::null_mut());
        OwnedEvent { driver: self.driver, event, context: self.context }
    }

    /// Forgets an event whose context was destroyed.
    pub fn forget(mut self) {
        self.event = ptr::null_mut();
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            slot.clear();
        }
        if !self.event.is_null() {
            // An event may be destroyed while work on it is pending. [cuEventDestroy] If that
            // fails, the context is lost, and the event with it.
            let _ = self.driver.event_destroy(self.event);
        }
    }
}

/// An event that lives for longer than one operation. Dropping it destroys the event, unless its
/// context was destroyed.
pub struct OwnedEvent {
    driver: &'static Driver,
    event: CUevent,
    context: KnownContext,
}

// SAFETY: handles of the driver are those of the process.
unsafe impl Send for OwnedEvent {}

impl OwnedEvent {
    /// Takes over an event of the current context.
    pub fn of_current(driver: &'static Driver, event: CUevent) -> OwnedEvent {
        let current = driver.query_current().unwrap_or(ptr::null_mut());
        OwnedEvent { driver, event, context: KnownContext::new(driver, current) }
    }

    pub fn driver(&self) -> &'static Driver {
        self.driver
    }

    pub fn handle(&self) -> CUevent {
        self.event
    }
}

impl Drop for OwnedEvent {
    fn drop(&mut self) {
        // An event may be destroyed while work on it is pending. [cuEventDestroy] In a child of
        // fork, it is that of the parent.
        if !load::is_forked() && self.context.exists(self.driver) {
            let _ = self.driver.event_destroy(self.event);
        }
    }
}
