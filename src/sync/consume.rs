//! The consumer's side: orders streams before and after its work on the data.

use std::mem::MaybeUninit;
use std::ptr;

use crate::abi::{self, cai_array};
use crate::device;
use crate::driver::{self, CUcontext, CUevent, CallingThread, Capture, Driver, Stream};
use crate::error::{Failure, Result, fail};
use crate::owner::Borrowed;
use crate::read::Unchecked;
use crate::sync::array_context::{ArrayContext, ArrayContexts, known_context, with_streams};
use crate::sync::batch::{Batch, Work, once, thread_for};
use crate::sync::order::{Direction, order, order_handles, wait_for};
use crate::sync::{bad_flags, invalidated, lost_streams, names_a_stream, no_streams, policy};
use crate::unwind;

const ACCESS: u32 = abi::CAI_ACCESS_READ | abi::CAI_ACCESS_WRITE;
const CAPTURE: u32 = abi::CAI_CAPTURE_JOIN | abi::CAI_UNSTABLE_CAPTURE_EXTERNAL;
const CONSUMER: u32 =
    ACCESS | abi::CAI_SYNC_IGNORE | abi::CAI_SYNC_CONSERVATIVE | abi::CAI_SYNC_THIS_CALL | CAPTURE;

/// Added to the flags of a call whose caller must not miss work: an array that states neither stream
/// nor event may have work pending on every stream of its context.
const ALL_WORK: u32 = 1 << 31;
const _: () = assert!(ALL_WORK & CONSUMER == 0);

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
    is_plain(local, consumer, flags) && is_settled(local, consumer)
}

/// Returns true if the arguments are valid and fit the array, which has no mask. A result of false
/// means nothing.
#[inline(always)]
pub fn is_plain(local: &cai_array, consumer: u64, flags: u32) -> bool {
    let names_a_stream = consumer.wrapping_sub(1) < abi::CAI_STREAM_UNKNOWN - 1;
    let flags_fit = matches!(flags & (ACCESS | !CONSUMER), 1..=ACCESS);
    let allowed = if flags & abi::CAI_ACCESS_WRITE == 0 { abi::CAI_ARRAY_READONLY } else { 0 };
    names_a_stream && flags_fit && local.flags <= allowed && local.mask.is_null()
}

/// The same for a wait of the host, which takes no flags about captures.
#[inline(always)]
pub fn is_idle(local: &cai_array, flags: u32) -> bool {
    flags & CAPTURE == 0 && is_fast_path(local, abi::CAI_STREAM_LEGACY, flags)
}

/// Returns how an array may be used: read, and written unless it is read-only.
#[inline]
pub fn access(array: &cai_array) -> u32 {
    if array.flags & abi::CAI_ARRAY_READONLY == 0 { ACCESS } else { abi::CAI_ACCESS_READ }
}

/// Orders a consumer's stream and that of an array and its masks.
#[inline]
pub fn exchange(phase: Phase, array: Unchecked, consumer: u64, flags: u32) -> Result<()> {
    check_exchange(consumer, flags)?;
    exchange_with(None, phase, array, consumer, flags)
}

/// As [`exchange`], for consumers to which an array is handed as one without pending work: if it states
/// neither stream nor event, all work of its context is ordered, as [`synchronize`] waits for it.
pub fn exchange_all_work(phase: Phase, array: Unchecked, consumer: u64, flags: u32) -> Result<()> {
    check_exchange(consumer, flags)?;
    exchange_with(None, phase, array, consumer, flags | ALL_WORK)
}

/// As [`exchange`], for arguments that are plain, of an array that states a stream with work. Returns
/// `None`, before any call of the driver, where there is more to find out. All that could panic runs
/// in a guard of its own, so that the common cases need none.
#[inline(always)]
pub fn exchange_plain(
    phase: Phase,
    array: Unchecked,
    consumer: u64,
    flags: u32,
) -> Option<Result<()>> {
    let states_work = array.stream.wrapping_sub(1) < abi::CAI_STREAM_UNKNOWN - 1
        && !array.data.is_null()
        && array.version >= 3
        && has_streams(&array)
        && lost_streams::are_none()
        && policy::known(flags)? & abi::CAI_SYNC_IGNORE == 0;
    if !states_work {
        return None;
    }
    let is_default = |stream: u64| stream <= abi::CAI_STREAM_PER_THREAD;
    let thread = &CallingThread::new(driver::ready(array.device.r#type)?);
    Some(match (is_default(array.stream), is_default(consumer)) {
        (false, false) if phase == Phase::End || array.event.is_null() => {
            with_handles(thread, phase, &array, consumer, flags)
        }
        (false, false) => {
            unwind::guarded(|| with_event(None, thread, phase, &array, consumer, flags))
        }
        (true, true) if array.stream == consumer => match is_current_default(thread, array) {
            Ok(true) => Ok(()),
            Ok(false) => {
                unwind::guarded(|| with_default(None, thread, phase, array, consumer, flags))
            }
            Err(failure) => Err(failure),
        },
        _ => unwind::guarded(|| with_default(None, thread, phase, array, consumer, flags)),
    })
}

/// Checks the arguments of an exchange that do not depend on the array.
#[inline]
pub fn check_exchange(consumer: u64, flags: u32) -> Result<()> {
    if flags & !CONSUMER != 0 || flags & ACCESS == 0 {
        return Err(bad_flags(flags, "flags", CONSUMER));
    }
    names_a_stream(consumer, format_args!("consumer_stream"))
}

/// As [`exchange`], after [`check_exchange`], for an array of a batch in the same phase, with the same
/// consumer and flags.
#[inline]
pub fn exchange_with(
    batch: Option<&Batch>,
    phase: Phase,
    array: Unchecked,
    consumer: u64,
    flags: u32,
) -> Result<()> {
    if phase == Phase::Begin {
        lost_streams::check(array.stream)?;
    }
    writable(&array, flags)?;
    order_one(batch, phase, array, consumer, flags)?;
    if array.mask.is_null() {
        return Ok(());
    }
    masks(array, 0, &mut |mask| order_one(batch, phase, mask, consumer, flags))
}

/// Fails if the flags request a write to a read-only array.
fn writable(array: &cai_array, flags: u32) -> Result<()> {
    if array.flags & abi::CAI_ARRAY_READONLY != 0 && flags & abi::CAI_ACCESS_WRITE != 0 {
        return fail!(CAI_ERR_READONLY, "flags";
            found "CAI_ARRAY_READONLY";
            expected "a writable array, because flags contain CAI_ACCESS_WRITE");
    }
    Ok(())
}

/// Returns true if there is nothing to do, whatever the driver's state.
#[inline(always)]
pub fn is_settled(array: &cai_array, consumer: u64) -> bool {
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
    body: &mut dyn FnMut(Unchecked) -> Result<()>,
) -> Result<()> {
    if array.mask.is_null() {
        return Ok(());
    }
    if depth == abi::CAI_MAX_MASKS as usize {
        return fail!(CAI_ERR_MASK_DEPTH, "mask";
            found "a longer chain of masks"; expected "at most {}", abi::CAI_MAX_MASKS)
        .map_err(|failure| failure.in_mask(depth));
    }
    let inside = |failure: Failure| failure.in_mask(depth + 1);
    let mut scratch = MaybeUninit::uninit();
    let Some(mask) = array.mask(&mut scratch).map_err(inside)? else { return Ok(()) };
    body(mask).map_err(inside)?;
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
    let Ok(policy) = policy::in_force(flags) else { return false };
    array.stream == abi::CAI_STREAM_UNKNOWN
        && array.event.is_null()
        && !array.data.is_null()
        && has_streams(array)
        && policy & abi::CAI_SYNC_IGNORE == 0
        && !orders_context(array, policy, flags)
}

#[inline(always)]
fn pending(array: &cai_array, flags: u32) -> Result<Pending> {
    if array.stream == 0 {
        return fail!(CAI_ERR_STREAM_ZERO, "stream";
            found "0"; expected "CAI_STREAM_NONE if no work is pending, else 1, 2 or a CUstream");
    }
    // An array without elements has no data to race for.
    if array.stream == abi::CAI_STREAM_NONE || array.data.is_null() {
        return Ok(Pending::Nothing);
    }
    let unknown = array.stream == abi::CAI_STREAM_UNKNOWN;
    if array.version < 3 && !unknown {
        return fail!(CAI_ERR_STREAM_VERSION, "stream";
            found "{:#x} in version {}", array.stream, array.version;
            expected "CAI_STREAM_UNKNOWN below version 3");
    }
    let policy = policy::in_force(flags)?;
    if policy & abi::CAI_SYNC_IGNORE != 0 {
        return Ok(Pending::Nothing);
    }
    if unknown && array.event.is_null() && !orders_context(array, policy, flags) {
        return Ok(Pending::Nothing);
    }
    if !has_streams(array) {
        return Err(no_streams(array, "streams of other devices cannot be ordered"));
    }
    Ok(if unknown { Pending::Anywhere } else { Pending::Stream })
}

/// Returns true if an unknown stream of an array means every stream of its context.
fn orders_context(array: &cai_array, policy: u32, flags: u32) -> bool {
    // No driver orders work on host memory.
    let all_work = flags & ALL_WORK != 0 && array.device.r#type != abi::CAI_DEVICE_CPU;
    policy & abi::CAI_SYNC_CONSERVATIVE != 0 || all_work && array.event.is_null()
}

/// The context of an array, for work that needs it to be current.
pub struct Inside {
    thread: CallingThread,
    context: ArrayContext,
}

impl Inside {
    pub fn of(array: &cai_array) -> Result<Inside> {
        let thread = CallingThread::new(driver::driver_of(array.device.r#type)?);
        let context = ArrayContext::of(&thread, array, None)?;
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
fn order_one(
    batch: Option<&Batch>,
    phase: Phase,
    array: Unchecked,
    consumer: u64,
    flags: u32,
) -> Result<()> {
    if is_settled(&array, consumer) {
        return Ok(());
    }
    match pending(&array, flags)? {
        Pending::Nothing => Ok(()),
        Pending::Anywhere => with_unknown(batch, phase, array, consumer, flags),
        Pending::Stream => {
            let mut own = None;
            let thread = thread_for(batch, &array, &mut own)?;
            if array.stream > abi::CAI_STREAM_PER_THREAD && consumer > abi::CAI_STREAM_PER_THREAD {
                if batch.is_none() && array.event.is_null() {
                    return with_handles(thread, phase, &array, consumer, flags);
                }
                return with_event(batch, thread, phase, &array, consumer, flags);
            }
            if array.stream == consumer && is_current_default(thread, array)? {
                return Ok(());
            }
            with_default(batch, thread, phase, array, consumer, flags)
        }
    }
}

/// Orders two streams of which neither is a default stream. They are not the same: then there was
/// nothing to do.
#[inline(always)]
fn with_handles(
    thread: &CallingThread,
    phase: Phase,
    array: &cai_array,
    consumer: u64,
    flags: u32,
) -> Result<()> {
    let producer = Stream::from_handle(array.stream, array.stream_id);
    let consumer = Stream::from_handle(consumer, 0);
    let (from, to, direction) = match phase {
        Phase::Begin => (producer, consumer, Direction::ProducerThenConsumer),
        Phase::End => (consumer, producer, Direction::ConsumerThenProducer),
    };
    order_handles(thread, &from, &to, direction, flags)
}

/// The same for a batch, and for an array with an event, which may suffice.
fn with_event(
    batch: Option<&Batch>,
    thread: &CallingThread,
    phase: Phase,
    array: &cai_array,
    consumer: u64,
    flags: u32,
) -> Result<()> {
    let producer = Stream::from_handle(array.stream, array.stream_id);
    let consumer = Stream::from_handle(consumer, 0);
    order_phase(batch, thread, phase, array, &producer, &consumer, flags)
}

/// Fast path: returns true if a default stream of an array is certainly the one of the current
/// context, which this asks for. A result of false means nothing.
#[inline(always)]
fn is_current_default(thread: &CallingThread, array: Unchecked) -> Result<bool> {
    if array.stream_id != 0 {
        return Ok(false);
    }
    if array.context.is_null() {
        return Ok(known_context(thread, &array, array.owner())?.is_some());
    }
    Ok(thread.current()? == array.context.cast())
}

/// Orders two streams of which one at least is a default stream. One of the array may be either of
/// two streams: then the consumer's is ordered with both.
#[inline(never)]
fn with_default(
    batch: Option<&Batch>,
    thread: &CallingThread,
    phase: Phase,
    array: Unchecked,
    consumer: u64,
    flags: u32,
) -> Result<()> {
    let consumer = Stream::from_current_context(thread, consumer)?;
    with_streams(thread, &array, array.owner(), |producer| {
        order_phase(batch, thread, phase, &array, &producer, &consumer, flags)
    })
}

/// Orders two streams in one phase of the consumer's work.
#[inline(never)]
fn order_phase(
    batch: Option<&Batch>,
    thread: &CallingThread,
    phase: Phase,
    array: &cai_array,
    producer: &Stream,
    consumer: &Stream,
    flags: u32,
) -> Result<()> {
    let by_event = phase == Phase::Begin && event_suffices(array, flags);
    let event = if by_event { array.event.cast() } else { ptr::null_mut() };
    match batch {
        None => order_now(thread, phase, event, producer, consumer, flags),
        Some(batch) => order_once(batch, thread, phase, event, producer, consumer, flags),
    }
}

/// `event`: that of the array if waiting for it is enough, or NULL.
#[inline(always)]
fn order_now(
    thread: &CallingThread,
    phase: Phase,
    event: CUevent,
    producer: &Stream,
    consumer: &Stream,
    flags: u32,
) -> Result<()> {
    match phase {
        Phase::Begin => begin(thread, event, producer, consumer, flags),
        Phase::End => end(thread, producer, consumer, flags),
    }
}

/// As [`order_now`], unless the batch has ordered the same before.
#[inline(never)]
fn order_once(
    batch: &Batch,
    thread: &CallingThread,
    phase: Phase,
    event: CUevent,
    producer: &Stream,
    consumer: &Stream,
    flags: u32,
) -> Result<()> {
    once(Some(batch), thread, Work::Stream(*producer, event), || {
        order_now(thread, phase, event, producer, consumer, flags)?;
        match phase {
            // On its own stream, the consumer joins nothing.
            Phase::Begin if flags & abi::CAI_CAPTURE_JOIN != 0 && !producer.is(consumer) => {
                after_join(batch, thread, producer)
            }
            _ => Ok(()),
        }
    })
}

/// Tells the batch if the consumer may have joined the producer's capture.
#[cold]
fn after_join(batch: &Batch, thread: &CallingThread, producer: &Stream) -> Result<()> {
    if producer.capture(thread)? == Capture::Active {
        batch.forget_after_join();
    }
    Ok(())
}

/// `event`: that of the array if waiting for it is enough, or NULL.
#[inline(always)]
fn begin(
    thread: &CallingThread,
    event: CUevent,
    producer: &Stream,
    consumer: &Stream,
    flags: u32,
) -> Result<()> {
    if producer.is(consumer) {
        return same_thread(thread, producer);
    }
    if !event.is_null() {
        let state = producer.capture(thread)?;
        // An event that was recorded in a capture has no meaning outside of it.
        if state == Capture::None {
            return wait_for(thread, event, state, consumer, flags);
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
/// is known, and with `CAI_SYNC_CONSERVATIVE` for the whole context. By default not for the context:
/// that fails in every capture, and PyTorch's dictionaries, which name no stream, would cost it all.
fn with_unknown(
    batch: Option<&Batch>,
    phase: Phase,
    array: Unchecked,
    consumer: u64,
    flags: u32,
) -> Result<()> {
    let mut own = None;
    let thread = thread_for(batch, &array, &mut own)?;
    let consumer = Stream::from_current_context(thread, consumer)?;
    let begins = phase == Phase::Begin;
    let conservative = orders_context(&array, policy::in_force(flags)?, flags)
        && !(begins && event_suffices(&array, flags));
    if conservative && consumer.capture(thread)? != Capture::None {
        return fail!(CAI_ERR_CAPTURE_CONSUMER, "stream";
            found "a capture of the consumer's stream, and a producer whose stream is not known";
            expected "no capture: call this around the launch of the graph");
    }
    if begins && !array.event.is_null() {
        let event = array.event.cast();
        once(batch, thread, Work::Event(event), || {
            wait_for(thread, event, Capture::None, &consumer, flags)
        })?;
    }
    if !conservative {
        return Ok(());
    }
    let contexts = ArrayContexts::of(thread, &array, array.owner())?;
    contexts.each(|context| {
        let work = Work::Context(context);
        once(batch, thread, work, || whole_context(thread, phase, context, &consumer))
    })
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
    check_synchronize(flags)?;
    synchronize_with(None, array, flags)
}

/// Checks the argument of a wait that does not depend on the array.
pub fn check_synchronize(flags: u32) -> Result<()> {
    let known = CONSUMER & !CAPTURE;
    if flags & !known != 0 || flags & ACCESS == 0 {
        return Err(bad_flags(flags, "flags", known));
    }
    Ok(())
}

/// As [`synchronize`], after [`check_synchronize`], for an array of a batch with the same flags.
pub fn synchronize_with(batch: Option<&Batch>, array: Unchecked, flags: u32) -> Result<()> {
    lost_streams::check(array.stream)?;
    writable(&array, flags)?;
    synchronize_one(batch, &array, array.owner(), flags)?;
    masks(array, 0, &mut |mask| synchronize_one(batch, &mask, mask.owner(), flags))
}

/// Blocks the host until the work on one array is done, whatever is pending on its masks.
pub(super) fn synchronize_one(
    batch: Option<&Batch>,
    array: &cai_array,
    owner: Option<Borrowed>,
    flags: u32,
) -> Result<()> {
    let mut own = None;
    let flags = flags | ALL_WORK;
    let by_event = event_suffices(array, flags);
    match pending(array, flags)? {
        Pending::Nothing => Ok(()),
        Pending::Anywhere => {
            let thread = thread_for(batch, array, &mut own)?;
            if !array.event.is_null() {
                let event = array.event.cast();
                once(batch, thread, Work::Event(event), || {
                    thread.relaxed(|| thread.event_synchronize(event).ok())
                })?;
                if by_event || !orders_context(array, policy::in_force(flags)?, flags) {
                    return Ok(());
                }
            }
            ArrayContexts::of(thread, array, owner)?.each(|context| {
                once(batch, thread, Work::Context(context), || {
                    let legacy = Stream::from_array(thread, abi::CAI_STREAM_LEGACY, context, 0);
                    legacy.capture(thread)?;
                    let _entered = thread.enter(context)?;
                    thread.relaxed(|| thread.context_synchronize().ok())
                })
            })
        }
        Pending::Stream => {
            let thread = thread_for(batch, array, &mut own)?;
            let event = if by_event { array.event.cast() } else { ptr::null_mut() };
            with_streams(thread, array, owner, |producer| {
                once(batch, thread, Work::Stream(producer, event), || {
                    wait_on_host(thread, &producer, event)
                })
            })
        }
    }
}

/// Fails for work that is captured.
pub fn check_host_can_wait(state: Capture) -> Result<()> {
    match state {
        Capture::None => Ok(()),
        Capture::Active => fail!(CAI_ERR_CAPTURE_HOST, "stream";
            found "a stream that is being captured";
            expected "a stream outside of a capture: the host cannot wait for captured work"),
        Capture::Invalidated => Err(invalidated()),
    }
}

/// Blocks the host until the work on a stream, or before an event of it unless that is NULL, is done.
fn wait_on_host(thread: &CallingThread, producer: &Stream, event: CUevent) -> Result<()> {
    check_host_can_wait(producer.capture(thread)?)?;
    if !event.is_null() {
        return thread.relaxed(|| thread.event_synchronize(event).ok());
    }
    producer.check_id(thread)?;
    producer.synchronize(thread)
}
