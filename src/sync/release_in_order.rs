//! Releases an array after the work on its own stream, in every case.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut, without_provenance_mut};

use crate::abi::{self, cai_array};
use crate::driver::{self, CUcontext, CallingThread, Capture, SharedStream, Stream};
use crate::error::{Failure, Result};
use crate::owner::Ref;
use crate::read::NOTHING;
use crate::sync::array_context::{ArrayContext, with_stream};
use crate::sync::consume::same_thread;
use crate::sync::deferred::Deferred;
use crate::sync::pending_work::{PendingWork, Position, names_no_stream};
use crate::sync::release_queue;
use crate::unwind;

/// Releases an owner once the work on the array's own stream is done. A default stream is that of
/// the array's context, whichever is current in this thread. A failure returns the reference.
fn release_after_own(
    owner: Deferred,
    array: &cai_array,
) -> std::result::Result<(), (Failure, Deferred)> {
    let (r#type, stream) = (array.device.r#type, array.stream);
    let prepare = || {
        if array.stream_id != 0 && stream != abi::CAI_STREAM_LEGACY {
            let thread = &CallingThread::new(driver::driver_of(r#type)?);
            with_stream(thread, array, None, |stream| same_thread(thread, &stream))?;
        }
        if stream > abi::CAI_STREAM_PER_THREAD {
            return Ok(None);
        }
        let thread = CallingThread::new(driver::driver_of(r#type)?);
        let context = ArrayContext::of(&thread, array, None)?;
        Ok(Some((thread, context)))
    };
    let inside = match prepare() {
        Ok(inside) => inside,
        Err(failure) => return Err((failure, owner)),
    };
    let entered = inside.as_ref().map(|(thread, context)| thread.enter(context.context));
    let _entered = match entered.transpose() {
        Ok(entered) => entered,
        Err(failure) => return Err((failure, owner)),
    };
    release_queue::release_after(owner, r#type, stream, false)
}

/// Releases an owner as [`release_after_own`] does, in every case: without elements there is
/// nothing to wait for. If an event cannot be recorded now, it is recorded later, and behind more
/// work where the stream does not exist any more or is that of another thread. What cannot be
/// waited for is never released. `begun`: NULL, or another context that a default stream may be of.
pub fn release(owner: Ref, array: &cai_array, begun: CUcontext) {
    if array.data.is_null() || array.stream == abi::CAI_STREAM_NONE {
        drop(owner);
        return;
    }
    let owner = Deferred::new(owner);
    // A panic is a defect. The reference is kept then.
    let _ = unwind::catch(|| release_work_in_order(owner, array, begun));
}

/// Work on a stream of the library, which is not a default stream.
#[derive(Clone, Copy)]
pub struct WorkOn {
    stream: abi::cai_stream,
    stream_id: u64,
    /// The address of its `CUcontext`.
    context: usize,
}

impl WorkOn {
    pub fn new(stream: &SharedStream) -> Self {
        let context = stream.context().addr();
        WorkOn { stream: stream.value(), stream_id: stream.id(), context }
    }

    /// Releases an owner once the work so far is done, in every case. The stream may be destroyed.
    pub fn release(self, owner: Ref) {
        let WorkOn { stream, stream_id, context } = self;
        let context = without_provenance_mut(context);
        // Only what has memory has work.
        let data = NonNull::<u8>::dangling().as_ptr().cast();
        release(owner, &cai_array { data, stream, stream_id, context, ..NOTHING }, null_mut());
    }
}

/// Attempts at what must not fail: a call may report another one's failure, or one that passes.
const ATTEMPTS: u32 = 4;

fn repeated<T>(query: impl Fn() -> Result<T>) -> Option<T> {
    (0..ATTEMPTS).find_map(|_| query().ok())
}

/// Returns the thread's current context if a default stream of the array may be of it, or NULL.
pub fn current_context(array: &cai_array) -> Result<CUcontext> {
    let r#type = array.device.r#type;
    let is_stated = !driver::is_default(array.stream) || !array.context.is_null();
    if is_stated || array.data.is_null() || driver::is_absent(r#type) {
        return Ok(null_mut());
    }
    let thread = &CallingThread::new(driver::driver_of(r#type)?);
    let current = thread.current()?;
    // Green contexts have no per-thread default stream. [cuStreamGetCtx]
    let has_none = !current.is_null()
        && array.stream == abi::CAI_STREAM_PER_THREAD
        && thread.is_green().unwrap_or_default();
    Ok(if has_none { null_mut() } else { current })
}

/// A default stream without a context may be of several: then each gets a reference to release.
fn release_work_in_order(owner: Deferred, given: &cai_array, begun: CUcontext) {
    let mut array = *given;
    if matches!(array.stream, 0 | abi::CAI_STREAM_UNKNOWN) {
        (array.stream, array.stream_id) = (abi::CAI_STREAM_LEGACY, 0);
    }
    if !driver::is_default(array.stream) || !array.context.is_null() {
        return release_work_of_one_stream(owner, array);
    }
    // Work in a context that is not known cannot be waited for: the reference is kept.
    let Some(current) = repeated(|| current_context(&array)) else { return };
    // Without an answer, the thread of the queue asks for the context of the memory.
    let of_memory = repeated(|| {
        let thread = CallingThread::new(driver::driver_of(array.device.r#type)?);
        ArrayContext::of(&thread, &array, None)
    });
    if let Some(found) = &of_memory {
        array.context = found.context.cast();
    }
    let others = [current, if begun == current { null_mut() } else { begun }];
    for context in others.map(CUcontext::cast::<c_void>) {
        let is_other = !context.is_null() && context != array.context;
        if !is_other {
            continue;
        }
        if let Ok(another) = owner.another() {
            release_work_of_one_stream(another, cai_array { context, ..array });
        }
    }
    release_work_of_one_stream(owner, array);
}

/// Releases an owner after one stream's work: a default stream has a context if the driver has.
fn release_work_of_one_stream(mut owner: Deferred, mut array: cai_array) {
    const REPEATED: u32 = 2;
    let (mut lost, mut last) = (0, abi::CAI_OK);
    for _ in 0..ATTEMPTS {
        let failure;
        (failure, owner) = match release_after_own(owner, &array) {
            Ok(()) => return,
            Err(refused) => refused,
        };
        last = failure.status();
        match last {
            abi::CAI_ERR_NO_DRIVER if driver::is_absent(array.device.r#type) => {
                // Nothing was enqueued with a driver that is not there.
                owner.release();
                return;
            }
            // Only the end of another stream's capture helps.
            abi::CAI_ERR_CAPTURE_LEGACY if array.stream == abi::CAI_STREAM_LEGACY => break,
            // The legacy default stream waits for it.
            abi::CAI_ERR_STREAM_THREAD => {
                (array.stream, array.stream_id) = (abi::CAI_STREAM_LEGACY, 0);
            }
            _ if names_no_stream(last) => {
                lost += 1;
                if lost == REPEATED {
                    break;
                }
            }
            _ => {}
        }
    }
    // In a child of a process that has started the driver, its work may run in the parent.
    if last == abi::CAI_ERR_FORKED {
        return;
    }
    let work = match capture_of(&array) {
        _ if array.stream == abi::CAI_STREAM_LEGACY => PendingWork::of(&array, Position::Legacy),
        Ok(Capture::None | Capture::Invalidated) if array.stream == abi::CAI_STREAM_PER_THREAD => {
            PendingWork::of(&array, Position::Legacy)
        }
        Ok(Capture::None | Capture::Invalidated) => repeated(|| identified(&array))
            .unwrap_or_else(|| PendingWork::of(&array, Position::Nowhere)),
        Err(failure) if lost == REPEATED || failure.status() == abi::CAI_ERR_DEVICE_LOST => {
            PendingWork::of(&array, Position::Context)
        }
        // A graph may launch the work later.
        _ => PendingWork::of(&array, Position::Nowhere),
    };
    release_queue::release_later(owner, work);
}

/// Returns the work on an array's stream, which is a handle, with the identity of the stream.
fn identified(array: &cai_array) -> Result<PendingWork> {
    let r#type = array.device.r#type;
    let thread = &CallingThread::new(driver::driver_of(r#type)?);
    let work = PendingWork::on(thread, r#type, &Stream::from_handle(array.stream, 0))?;
    // If the handle is that of another stream by now, the array's was destroyed before.
    let is_it = array.stream_id == 0 || work.is_on(array.stream_id);
    Ok(if is_it { work } else { PendingWork::of(array, Position::Stream) })
}

fn capture_of(array: &cai_array) -> Result<Capture> {
    let query = || {
        let thread = &CallingThread::new(driver::driver_of(array.device.r#type)?);
        with_stream(thread, array, None, |stream| stream.capture(thread))
    };
    (1..ATTEMPTS).fold(query(), |found, _| found.or_else(|_| query()))
}
