//! The consumer's side: orders streams before and after its work on the data.

use std::mem::MaybeUninit;

use crate::abi::{self, cai_array};
use crate::device;
use crate::driver::{self, CUcontext, CallingThread, Capture, Driver, Stream};
use crate::error::{Failure, Result, fail};
use crate::read::Unchecked;
use crate::sync::array_context::{ArrayContext, ArrayContexts, with_streams};
use crate::sync::order::{Direction, order, wait_for};
use crate::sync::{bad_flags, invalidated, names_a_stream, no_streams, policy};

const ACCESS: u32 = abi::CAI_ACCESS_READ | abi::CAI_ACCESS_WRITE;
const CAPTURE: u32 = abi::CAI_CAPTURE_JOIN | abi::CAI_UNSTABLE_CAPTURE_EXTERNAL;
const CONSUMER: u32 =
    ACCESS | abi::CAI_SYNC_IGNORE | abi::CAI_SYNC_CONSERVATIVE | abi::CAI_SYNC_THIS_CALL | CAPTURE;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before the work: the consumer's stream waits for the producer's.
    Begin,
    /// After the work: the producer's stream waits for the consumer's.
    End,
}

/// Fast path: returns true if no synchronization is needed and the arguments are valid, for work on
/// the array's own stream or on an array without pending work. A result of false means nothing; the
/// slow path knows all the rules.
#[inline(always)]
pub fn is_fast_path(local: &cai_array, consumer: u64, flags: u32) -> bool {
    let names_a_stream = consumer.wrapping_sub(1) < abi::CAI_STREAM_UNKNOWN - 1;
    let flags_fit = matches!(flags & (ACCESS | !CONSUMER), 1..=ACCESS);
    let allowed = if flags & abi::CAI_ACCESS_WRITE == 0 { abi::CAI_ARRAY_READONLY } else { 0 };
    names_a_stream
        && flags_fit
        && local.flags <= allowed
        && local.mask.is_null()
        && is_settled(local, consumer)
}

/// Returns how an array may be used: read, and written unless it is read-only.
#[inline]
pub fn access(array: &cai_array) -> u32 {
    if array.flags & abi::CAI_ARRAY_READONLY == 0 { ACCESS } else { abi::CAI_ACCESS_READ }
}

/// Orders a consumer's stream and that of an array and its masks.
#[inline]
pub fn exchange(phase: Phase, array: Unchecked, consumer: u64, flags: u32) -> Result<()> {
    if flags & !CONSUMER != 0 || flags & ACCESS == 0 {
        return Err(bad_flags(flags, "flags", CONSUMER));
    }
    names_a_stream(consumer, format_args!("consumer_stream"))?;
    writable(&array, flags)?;
    order_one(phase, &array, consumer, flags)?;
    if array.mask.is_null() {
        return Ok(());
    }
    masks(array, 0, &mut |mask| order_one(phase, mask, consumer, flags))
}

/// Fails if the flags request a write to a read-only array.
fn writable(array: &cai_array, flags: u32) -> Result<()> {
    if array.flags & abi::CAI_ARRAY_READONLY != 0 && flags & abi::CAI_ACCESS_WRITE != 0 {
        return fail!(
            CAI_ERR_READONLY,
            "flags",
            found = "CAI_ARRAY_READONLY",
            expected = "a writable array, because flags contain CAI_ACCESS_WRITE"
        );
    }
    Ok(())
}

/// Returns true if there is nothing to do, whatever the driver's state.
#[inline(always)]
fn is_settled(array: &cai_array, consumer: u64) -> bool {
    if array.stream == abi::CAI_STREAM_NONE {
        return true;
    }
    // Work on one stream is in order anyway.
    array.stream == consumer
        && consumer > abi::CAI_STREAM_PER_THREAD
        && array.version >= 3
        && has_streams(array)
}

/// Calls `body` for each mask of an array, which is itself a mask at this depth.
#[cold]
fn masks(
    array: Unchecked,
    depth: usize,
    body: &mut dyn FnMut(&cai_array) -> Result<()>,
) -> Result<()> {
    if array.mask.is_null() {
        return Ok(());
    }
    if depth == abi::CAI_MAX_MASKS as usize {
        return fail!(
            CAI_ERR_MASK_DEPTH,
            "mask",
            found = "a longer chain of masks",
            expected = ("at most {}", abi::CAI_MAX_MASKS)
        )
        .map_err(|failure| failure.in_mask(depth));
    }
    let inside = |failure: Failure| failure.in_mask(depth + 1);
    let mut scratch = MaybeUninit::uninit();
    let Some(mask) = array.mask(&mut scratch).map_err(inside)? else { return Ok(()) };
    body(&mask).map_err(inside)?;
    masks(mask, depth + 1, body)
}

#[inline]
fn has_streams(array: &cai_array) -> bool {
    device::has_streams(array.device.r#type)
}

/// The pending work that an array states.
enum Pending {
    /// None, or the user has disabled synchronization.
    Nothing,
    /// Possibly on every stream of its context.
    Anywhere,
    /// On its stream.
    Stream,
}

/// Returns true if a begin orders nothing although work may be pending, because neither the stream
/// nor an event is known, and nobody decided so.
pub fn is_left_unordered(array: &cai_array, flags: u32) -> bool {
    const DECIDED: u32 = abi::CAI_SYNC_CONSERVATIVE | abi::CAI_SYNC_IGNORE;
    array.stream == abi::CAI_STREAM_UNKNOWN
        && array.event.is_null()
        && !array.data.is_null()
        && has_streams(array)
        && policy::in_force(flags).is_ok_and(|policy| policy & DECIDED == 0)
}

/// `waits_for_unknown`: work may be pending although the array states neither stream nor event.
#[inline(always)]
fn pending(array: &cai_array, flags: u32, waits_for_unknown: bool) -> Result<Pending> {
    if array.stream == 0 {
        return fail!(
            CAI_ERR_STREAM_ZERO,
            "stream",
            found = "0",
            expected = "CAI_STREAM_NONE if no work is pending, else 1, 2 or a CUstream"
        );
    }
    // An array without elements has no data to race for.
    if array.stream == abi::CAI_STREAM_NONE || array.data.is_null() {
        return Ok(Pending::Nothing);
    }
    let unknown = array.stream == abi::CAI_STREAM_UNKNOWN;
    if array.version < 3 && !unknown {
        return fail!(
            CAI_ERR_STREAM_VERSION,
            "stream",
            found = ("{:#x} in version {}", array.stream, array.version),
            expected = "CAI_STREAM_UNKNOWN below version 3"
        );
    }
    let policy = policy::in_force(flags)?;
    if policy & abi::CAI_SYNC_IGNORE != 0 {
        return Ok(Pending::Nothing);
    }
    let is_waited_for = policy & abi::CAI_SYNC_CONSERVATIVE != 0 || waits_for_unknown;
    if unknown && array.event.is_null() && !is_waited_for {
        return Ok(Pending::Nothing);
    }
    if !has_streams(array) {
        return Err(no_streams(array, "streams of other devices cannot be ordered"));
    }
    Ok(if unknown { Pending::Anywhere } else { Pending::Stream })
}

/// The context of an array, for work that needs it to be current.
pub struct Inside {
    thread: CallingThread,
    context: ArrayContext,
}

impl Inside {
    pub fn of(array: &cai_array) -> Result<Inside> {
        let thread = CallingThread::new(driver::driver_of(array.device.r#type)?);
        let context = ArrayContext::of(&thread, array)?;
        Ok(Inside { thread, context })
    }

    /// Runs `body` with the context current. Captures of other threads forbid it no call. `body`
    /// orders no stream of an array, which may be of the context that is current outside.
    pub fn run<T>(&self, body: impl FnOnce(&'static Driver) -> Result<T>) -> Result<T> {
        let _entered = self.thread.enter(self.context.context)?;
        self.thread.relaxed(|| body(self.thread.driver()))
    }
}

#[inline(never)]
fn order_one(phase: Phase, array: &cai_array, consumer: u64, flags: u32) -> Result<()> {
    if is_settled(array, consumer) {
        return Ok(());
    }
    match pending(array, flags, false)? {
        Pending::Nothing => Ok(()),
        Pending::Anywhere => with_unknown(phase, array, consumer, flags),
        Pending::Stream => {
            let thread = &CallingThread::new(driver::driver_of(array.device.r#type)?);
            if array.stream > abi::CAI_STREAM_PER_THREAD && consumer > abi::CAI_STREAM_PER_THREAD {
                let producer = Stream::from_handle(array.stream, array.stream_id);
                let consumer = Stream::from_handle(consumer, 0);
                return order_phase(thread, phase, array, &producer, &consumer, flags);
            }
            with_default(thread, phase, array, consumer, flags)
        }
    }
}

/// Orders two streams of which one at least is a default stream. One of the array may be either of
/// two streams: then the consumer's is ordered with both.
#[inline(never)]
fn with_default(
    thread: &CallingThread,
    phase: Phase,
    array: &cai_array,
    consumer: u64,
    flags: u32,
) -> Result<()> {
    let consumer = Stream::from_current_context(thread, consumer)?;
    with_streams(thread, array, |producer| {
        order_phase(thread, phase, array, &producer, &consumer, flags)
    })
}

/// Orders two streams in one phase of the consumer's work.
#[inline(always)]
fn order_phase(
    thread: &CallingThread,
    phase: Phase,
    array: &cai_array,
    producer: &Stream,
    consumer: &Stream,
    flags: u32,
) -> Result<()> {
    match phase {
        Phase::Begin => begin(thread, array, producer, consumer, flags),
        Phase::End => end(thread, producer, consumer, flags),
    }
}

#[inline(always)]
fn begin(
    thread: &CallingThread,
    array: &cai_array,
    producer: &Stream,
    consumer: &Stream,
    flags: u32,
) -> Result<()> {
    if producer.is(consumer) {
        return same_thread(thread, producer);
    }
    if event_suffices(array, flags) {
        let state = producer.capture(thread)?;
        // An event that was recorded in a capture has no meaning outside of it.
        if state == Capture::None {
            return wait_for(thread, array.event.cast(), state, consumer, flags);
        }
    }
    order(thread, producer, consumer, Direction::ProducerThenConsumer, flags)
}

#[inline(always)]
fn end(thread: &CallingThread, producer: &Stream, consumer: &Stream, flags: u32) -> Result<()> {
    if producer.is(consumer) {
        return same_thread(thread, producer);
    }
    order(thread, consumer, producer, Direction::ConsumerThenProducer, flags)
}

/// Returns true if waiting for the array's event is enough, so that readers do not wait for each
/// other. A read-only array is written by its producer alone, which records the event. A
/// consumer that writes and knows the stream alone leaves the event as it was.
fn event_suffices(array: &cai_array, flags: u32) -> bool {
    !array.event.is_null()
        && array.flags & abi::CAI_ARRAY_READONLY != 0
        && flags & abi::CAI_ACCESS_WRITE == 0
}

/// Fails for the per-thread default stream of another thread, and for a handle that was reused. A
/// default stream with the same name in the same context is otherwise the same stream.
pub(super) fn same_thread(thread: &CallingThread, stream: &Stream) -> Result<()> {
    if stream.has_id() && stream.capture(thread)? == Capture::None {
        stream.check_id(thread)?;
    }
    Ok(())
}

/// Orders a stream after an unknown one: readers and writers wait for the event, which is all that
/// is known, and with `CAI_SYNC_CONSERVATIVE` for the whole context.
fn with_unknown(phase: Phase, array: &cai_array, consumer: u64, flags: u32) -> Result<()> {
    let thread = &CallingThread::new(driver::driver_of(array.device.r#type)?);
    let consumer = Stream::from_current_context(thread, consumer)?;
    let begins = phase == Phase::Begin;
    let conservative = policy::in_force(flags)? & abi::CAI_SYNC_CONSERVATIVE != 0
        && !(begins && event_suffices(array, flags));
    if conservative && consumer.capture(thread)? != Capture::None {
        return fail!(
            CAI_ERR_CAPTURE_CONSUMER,
            "stream",
            found = "a capture of the consumer's stream, and a producer whose stream is not known",
            expected = "no capture: call this around the launch of the graph"
        );
    }
    if begins && !array.event.is_null() {
        wait_for(thread, array.event.cast(), Capture::None, &consumer, flags)?;
    }
    if !conservative {
        return Ok(());
    }
    let contexts = ArrayContexts::of(thread, array)?;
    contexts.each(|context| whole_context(thread, phase, context, &consumer))
}

fn whole_context(
    thread: &CallingThread,
    phase: Phase,
    context: CUcontext,
    consumer: &Stream,
) -> Result<()> {
    // Fails if a blocking stream of the context is being captured: all that can be queried here.
    Stream::from_array(thread, abi::CAI_STREAM_LEGACY, context, 0).capture(thread)?;
    match phase {
        Phase::Begin => {
            let entered = thread.enter(context)?;
            let event = thread.event(context)?;
            let recorded = thread.context_record(context, event.handle());
            if recorded.is_missing() {
                return thread.relaxed(|| thread.context_synchronize().ok());
            }
            recorded.ok()?;
            drop(entered);
            consumer.wait(thread, event.handle(), 0)?;
            event.keep();
        }
        Phase::End => {
            let own = consumer.context(thread)?;
            let entered = thread.enter(own)?;
            let event = thread.event(own)?;
            consumer.record(thread, event.handle())?;
            let waits = thread.context_wait(context, event.handle());
            drop(entered);
            if waits.is_missing() {
                return consumer.synchronize(thread);
            }
            waits.ok()?;
            event.keep();
        }
    }
    Ok(())
}

/// Blocks the host until the work that is pending on an array and its masks is done.
pub fn synchronize(array: Unchecked, flags: u32) -> Result<()> {
    let known = CONSUMER & !CAPTURE;
    if flags & !known != 0 || flags & ACCESS == 0 {
        return Err(bad_flags(flags, "flags", known));
    }
    writable(&array, flags)?;
    synchronize_one(&array, flags)?;
    masks(array, 0, &mut |mask| synchronize_one(mask, flags))
}

/// Blocks the host until the work on one array is done, whatever is pending on its masks.
pub(super) fn synchronize_one(array: &cai_array, flags: u32) -> Result<()> {
    let by_event = event_suffices(array, flags);
    // No driver orders work on host memory.
    match pending(array, flags, array.device.r#type != abi::CAI_DEVICE_CPU)? {
        Pending::Nothing => Ok(()),
        Pending::Anywhere => {
            let thread = &CallingThread::new(driver::driver_of(array.device.r#type)?);
            if !array.event.is_null() {
                thread.relaxed(|| thread.event_synchronize(array.event.cast()).ok())?;
                if by_event || policy::in_force(flags)? & abi::CAI_SYNC_CONSERVATIVE == 0 {
                    return Ok(());
                }
            }
            ArrayContexts::of(thread, array)?.each(|context| {
                Stream::from_array(thread, abi::CAI_STREAM_LEGACY, context, 0).capture(thread)?;
                let _entered = thread.enter(context)?;
                thread.relaxed(|| thread.context_synchronize().ok())
            })
        }
        Pending::Stream => {
            let thread = &CallingThread::new(driver::driver_of(array.device.r#type)?);
            with_streams(thread, array, |producer| {
                match producer.capture(thread)? {
                    Capture::None => {}
                    Capture::Active => {
                        return fail!(
                            CAI_ERR_CAPTURE_HOST,
                            "stream",
                            found = "a stream that is being captured",
                            expected = "a stream outside of a capture: the host cannot wait for \
                             captured work"
                        );
                    }
                    Capture::Invalidated => return Err(invalidated()),
                }
                if by_event {
                    return thread.relaxed(|| thread.event_synchronize(array.event.cast()).ok());
                }
                producer.check_id(thread)?;
                producer.synchronize(thread)
            })
        }
    }
}
