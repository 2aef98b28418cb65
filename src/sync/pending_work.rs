//! The work that an owner waits for, and what the driver says about it.
//!
//! An owner is released only if nothing of its work can be running any more. Everything else that
//! the driver may answer leaves that open: then the same is asked again later. Work that was
//! enqueued on a stream by now is before everything that is recorded there later, so an event may
//! be recorded as late as the driver permits, on that stream, or on one that waits for it.
//!
//! A context that is destroyed, a device that is lost and a driver that shuts down stay so. A call
//! may report the failure of another one, or one that passes. So an answer counts if it repeats.

use cudarc::driver::sys::CUcontext;

use crate::abi::{self, cai_array, cai_device};
use crate::driver::{
    self, CAPTURED_EVENT, CONTEXT_IS_DESTROYED, CallingThread, Capture, DEINITIALIZED, Driver,
    Event, Function, INVALID_CONTEXT, INVALID_HANDLE, NOT_READY, SUCCESS, Stream,
};
use crate::error::{Failure, Result};
use crate::read::NOTHING;
use crate::sync::array_context::ArrayContext;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Nothing of it can be running any more: it is complete, or its context was destroyed or lost.
    NothingRuns,
    /// It may be running.
    Unknown,
    /// The driver shuts down. There will be no other answer.
    DriverEnds,
}

/// Position of an event behind the work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Position {
    /// On its stream, which is a handle.
    Stream,
    /// On the legacy default stream of its context: the stream is that one, or the per-thread
    /// default stream of a thread.
    Legacy,
    /// Behind everything in its context: the stream was destroyed.
    Context,
    /// Nowhere: a graph may launch it later, and it is not known which one.
    Nowhere,
}

/// An answer that counts if it is repeated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// Nothing runs in the context any more. With the driver's code, or 0.
    Ended(i32),
    /// The driver shuts down.
    DriverEnds,
    /// The event or the stream does not exist any more. That says nothing about the work.
    Lost,
}

enum Reply {
    Complete,
    Claims(Claim),
    Nothing,
}

/// The first pause after an attempt that may have invalidated a capture, in steps.
const FIRST_REST: u32 = 1 << 10;

pub struct PendingWork {
    /// Recorded behind the work.
    event: Option<Event>,
    /// That of the event. Before: that of the stream, or NULL if it is not known.
    context: CUcontext,
    /// The device memory that the work uses, or 0 if the context is known.
    data: usize,
    stream: u64,
    /// 0 if it is not known.
    stream_id: u64,
    device: cai_device,
    position: Position,
    claim: Option<Claim>,
    /// The steps in which nothing is asked, and how many it will be next time.
    rests: (u32, u32),
}

impl PendingWork {
    /// The work before an event. `stream` is that of the event, and `context` its context.
    pub fn before(event: Event, device_type: i32, stream: &Stream, context: CUcontext) -> Self {
        PendingWork {
            event: Some(event),
            context,
            data: 0,
            stream: stream.value(),
            stream_id: 0,
            device: cai_device { r#type: device_type, id: -1 },
            position: if stream.is_default() { Position::Legacy } else { Position::Stream },
            claim: None,
            rests: (0, FIRST_REST),
        }
    }

    /// The work on an array's stream, behind which no event could be recorded yet. For a default
    /// stream, the array states the context if it is known.
    pub fn of(array: &cai_array, position: Position) -> Self {
        PendingWork {
            event: None,
            context: array.context.cast(),
            data: array.data.addr(),
            stream: array.stream,
            stream_id: array.stream_id,
            device: array.device,
            position,
            claim: None,
            rests: (0, FIRST_REST),
        }
    }

    /// The work on a stream that exists, behind which no event can be recorded yet. The event is
    /// recorded on the legacy default stream if that waits for the stream, because the stream may be
    /// destroyed before. Otherwise it is identified, because another one may get its handle.
    pub fn on(thread: &CallingThread, device_type: i32, stream: &Stream) -> Result<Self> {
        let (context, stream_id) = if stream.is_default() {
            // Its context identifies it.
            (stream.context(thread)?, 0)
        } else {
            stream.identity(thread, stream.capture(thread)?)?
        };
        let position =
            if stream.is_blocking(thread)? { Position::Legacy } else { Position::Stream };
        let (context, stream) = (context.cast(), stream.value());
        let device = cai_device { r#type: device_type, id: -1 };
        let array = cai_array { device, context, stream, stream_id, ..NOTHING };
        Ok(PendingWork::of(&array, position))
    }

    pub fn is_on(&self, stream_id: u64) -> bool {
        self.stream_id == stream_id
    }

    /// Returns true if an event is recorded behind the work.
    pub fn is_recorded(&self) -> bool {
        self.event.is_some()
    }

    /// Returns true if the work of `other`, which was enqueued later, is certainly done later.
    pub fn is_in_order_with(&self, other: &PendingWork) -> bool {
        let (Some(one), Some(two)) = (&self.event, &other.event) else { return false };
        std::ptr::eq(one.driver(), two.driver())
            && one.context_id() == two.context_id()
            && self.context == other.context
            && self.stream == other.stream
    }

    /// Asks the driver. After [`Answer::NothingRuns`], it must not be called again.
    pub fn ask(&mut self) -> Answer {
        let before = self.claim.take();
        let claim = match self.ask_once() {
            Reply::Complete => {
                if let Some(event) = self.event.take() {
                    event.keep();
                }
                return Answer::NothingRuns;
            }
            Reply::Nothing => return Answer::Unknown,
            Reply::Claims(claim) => claim,
        };
        if before != Some(claim) {
            self.claim = Some(claim);
            return Answer::Unknown;
        }
        match claim {
            Claim::Ended(_) => {
                self.forget_event();
                Answer::NothingRuns
            }
            Claim::DriverEnds => Answer::DriverEnds,
            Claim::Lost => {
                // Another event, behind all that this one was behind.
                self.forget_event();
                self.position = Position::Context;
                Answer::Unknown
            }
        }
    }

    /// Does not destroy the event: that would be undefined after its context.
    fn forget_event(&mut self) {
        if let Some(event) = self.event.take() {
            event.forget();
        }
    }

    fn ask_once(&mut self) -> Reply {
        let driver = match driver::driver_of(self.device.r#type) {
            Ok(driver) => driver,
            // Without a driver in the process, nothing can have been enqueued.
            Err(_) if driver::is_absent(self.device.r#type) => {
                return Reply::Claims(Claim::Ended(0));
            }
            Err(_) => return Reply::Nothing,
        };
        // A query would invalidate captures of other threads, unless this thread sets the relaxed
        // mode. [cuThreadExchangeStreamCaptureMode]
        driver.relaxed(|| self.ask_driver(driver)).unwrap_or_else(|failure| self.refused(&failure))
    }

    /// Returns the meaning of a failed attempt.
    fn refused(&mut self, failure: &Failure) -> Reply {
        match failure.status() {
            abi::CAI_ERR_DRIVER_EXIT => Reply::Claims(Claim::DriverEnds),
            // Only the context that was entered for it is asked.
            abi::CAI_ERR_DEVICE_LOST => Reply::Claims(Claim::Ended(-1)),
            status if names_no_stream(status) && self.position == Position::Stream => {
                Reply::Claims(Claim::Lost)
            }
            abi::CAI_ERR_CAPTURE if self.position == Position::Context => {
                // The attempt has invalidated a capture. [cuCtxRecordEvent]
                self.rests.0 = self.rests.1;
                self.rests.1 = self.rests.1.saturating_mul(2);
                Reply::Nothing
            }
            _ => Reply::Nothing,
        }
    }

    fn ask_driver(&mut self, driver: &'static Driver) -> Result<Reply> {
        let thread = &CallingThread::new(driver);
        if let Some(event) = &self.event {
            return query(thread, self.context, event);
        }
        if self.rests.0 > 0 {
            self.rests.0 -= 1;
            return Ok(Reply::Nothing);
        }
        if self.position == Position::Stream {
            let stream = Stream::from_handle(self.stream, self.stream_id);
            if stream.capture(thread)? == Capture::None {
                self.context = stream.context(thread)?;
                let event = thread.record(&stream, stream.checked_id(thread)?)?;
                // Between the two calls, the stream may have been destroyed, and another one may
                // have got its handle and the event. Ids do not come back.
                stream.checked_id(thread)?;
                self.event = Some(event);
            }
            return Ok(Reply::Nothing);
        }
        let array = cai_array {
            data: std::ptr::without_provenance_mut(self.data),
            device: self.device,
            context: self.context.cast(),
            ..NOTHING
        };
        let found = ArrayContext::of(thread, &array, None)?;
        let context = found.context;
        if let Some(claim) = ended(thread, context, 0) {
            return Ok(Reply::Claims(claim));
        }
        let _entered = match thread.try_enter(context) {
            Ok(entered) => entered,
            Err(call) => return Ok(not_entered(call)),
        };
        let legacy = Stream::from_array(thread, abi::CAI_STREAM_LEGACY, context, 0);
        // Fails while a blocking stream of the context is being captured.
        if self.position == Position::Nowhere || legacy.capture(thread)? != Capture::None {
            return Ok(Reply::Nothing);
        }
        if self.position == Position::Legacy {
            self.event = Some(thread.record(&legacy, 0)?);
            self.context = context;
            return Ok(Reply::Nothing);
        }
        let event = thread.event(context)?;
        let recorded = thread.context_record(context, event.handle());
        if recorded.is_missing() {
            return thread.context_synchronize().ok().map(|()| Reply::Complete);
        }
        recorded.ok()?;
        self.event = Some(event);
        self.context = context;
        Ok(Reply::Nothing)
    }
}

/// Returns true for failures that say that a stream does not exist.
pub fn names_no_stream(status: abi::cai_status) -> bool {
    matches!(
        status,
        abi::CAI_ERR_STREAM_HANDLE
            | abi::CAI_ERR_STREAM_STALE
            | abi::CAI_ERR_STREAM_DETACHED
            | abi::CAI_ERR_CONTEXT_DESTROYED
    )
}

/// Asks whether a context is destroyed. An id of 0 is not compared. [cuCtxGetId]
fn ended(thread: &CallingThread, context: CUcontext, expected: u64) -> Option<Claim> {
    let mut id = 0;
    let call = thread.context_id(context, &raw mut id);
    match call.code {
        // Another context has the handle now, or the same primary one after a reset.
        SUCCESS if expected != 0 && id != 0 && id != expected => Some(Claim::Ended(0)),
        CONTEXT_IS_DESTROYED => Some(Claim::Ended(CONTEXT_IS_DESTROYED)),
        DEINITIALIZED => Some(Claim::DriverEnds),
        _ => None,
    }
}

/// Returns the meaning of the failure to make a context current. The current context may be another one,
/// whose failure says nothing.
fn not_entered(call: driver::Call) -> Reply {
    match call.code {
        DEINITIALIZED => Reply::Claims(Claim::DriverEnds),
        // "not a valid handle (such as a context that has had cuCtxDestroy() invoked on it)"
        INVALID_CONTEXT | CONTEXT_IS_DESTROYED if call.is_of(Function::context_push) => {
            Reply::Claims(Claim::Ended(call.code))
        }
        _ => Reply::Nothing,
    }
}

/// Queries an event in its context: a failure of the context's work shows only there.
fn query(thread: &CallingThread, context: CUcontext, event: &Event) -> Result<Reply> {
    if let Some(claim) = ended(thread, context, event.context_id()) {
        return Ok(Reply::Claims(claim));
    }
    let _entered = match thread.try_enter(context) {
        Ok(entered) => entered,
        Err(call) => return Ok(not_entered(call)),
    };
    let call = thread.event_query(event.handle());
    Ok(match call.code {
        SUCCESS => Reply::Complete,
        NOT_READY => Reply::Nothing,
        DEINITIALIZED => Reply::Claims(Claim::DriverEnds),
        // No other code destroys it, or records it: its context was destroyed, and perhaps another
        // one has the handle, or it was recorded into a capture that began just before.
        INVALID_HANDLE | CAPTURED_EVENT => Reply::Claims(Claim::Lost),
        // HIP, whose contexts cannot be destroyed, uses it for handles.
        CONTEXT_IS_DESTROYED if thread.is_hip() => Reply::Claims(Claim::Lost),
        code if call.ends_work() => Reply::Claims(Claim::Ended(code)),
        _ => Reply::Nothing,
    })
}
