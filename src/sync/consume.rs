//! The consumer's side: before and after its work on the data.

use std::mem::MaybeUninit;
use std::ptr;

use crate::abi::{self, cai_array, cai_owner};
use crate::driver::{self, Capture, Driver, Stream};
use crate::error::{Failure, Result, fail};
use crate::sync::order::{Direction, order, wait_for};
use crate::sync::{names_a_stream, policy, release_queue, view};

const ACCESS: u32 = abi::CAI_ACCESS_READ | abi::CAI_ACCESS_WRITE;
const CAPTURE: u32 = abi::CAI_CAPTURE_JOIN | abi::CAI_CAPTURE_EXTERNAL;
const CONSUMER: u32 =
    ACCESS | abi::CAI_SYNC_IGNORE | abi::CAI_SYNC_CONSERVATIVE | abi::CAI_SYNC_THIS_CALL | CAPTURE;

/// Which half.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before the work: the consumer's stream waits for the producer's.
    Begin,
    /// After it: the producer's stream waits for the consumer's.
    End,
}

/// Is there certainly nothing to do and nothing wrong? The short way for the usual cases: work on
/// the array's own stream, or on an array without pending work. `false` means nothing: the long way
/// knows all the rules.
///
/// # Safety
/// As for [`exchange`], or NULL.
#[inline(always)]
pub unsafe fn is_fast_path(
    phase: Phase,
    array: *const cai_array,
    consumer: u64,
    flags: u32,
) -> bool {
    if array.is_null() {
        return false;
    }
    // SAFETY: not NULL; a structure begins with its size.
    let size = unsafe { (&raw const (*array).struct_size).read() } as usize;
    if size != size_of::<cai_array>() {
        return false;
    }
    // SAFETY: it is as long as ours.
    let local = unsafe { &*array };
    let names_a_stream = consumer.wrapping_sub(1) < abi::CAI_STREAM_UNKNOWN - 1;
    let flags_fit = flags & !CONSUMER == 0
        && flags & ACCESS != 0
        && local.flags & !abi::CAI_ARRAY_READONLY == 0;
    names_a_stream
        && flags_fit
        && !breaks_read_only(local, flags)
        && local.mask.is_null()
        && is_settled(phase, local, consumer, flags)
}

/// Orders a consumer's stream and that of an array and its masks.
///
/// # Safety
/// `array` points to a structure of the size it says, and its masks do too.
#[inline]
pub unsafe fn exchange(
    phase: Phase,
    array: *const cai_array,
    consumer: u64,
    flags: u32,
) -> Result<()> {
    let mut scratch = MaybeUninit::uninit();
    // SAFETY: handed on.
    let local = unsafe { view(array, &mut scratch) }?;
    if flags & !CONSUMER != 0 || flags & ACCESS == 0 {
        return Err(bad_flags(flags, CONSUMER));
    }
    names_a_stream(consumer, "consumer_stream")?;
    writable(local, flags)?;
    one(phase, local, consumer, flags)?;
    if local.mask.is_null() {
        return Ok(());
    }
    // SAFETY: handed on.
    unsafe { masks(local, |mask| one(phase, mask, consumer, flags)) }
}

#[cold]
fn bad_flags(flags: u32, known: u32) -> Failure {
    Failure::new(
        abi::CAI_ERR_ARGUMENT,
        format_args!("flags"),
        format_args!("{flags:#x}"),
        format_args!("CAI_ACCESS_READ, CAI_ACCESS_WRITE or both, and bits of {known:#x} only"),
    )
}

/// Is a read-only array to be written?
#[inline]
fn breaks_read_only(array: &cai_array, flags: u32) -> bool {
    array.flags & abi::CAI_ARRAY_READONLY != 0 && flags & abi::CAI_ACCESS_WRITE != 0
}

fn writable(array: &cai_array, flags: u32) -> Result<()> {
    if breaks_read_only(array, flags) {
        return fail!(
            CAI_ERR_READONLY,
            "flags",
            found = "CAI_ARRAY_READONLY",
            expected = "a writable array, for CAI_ACCESS_WRITE is asked for"
        );
    }
    Ok(())
}

/// Is there nothing to do, whatever the driver would say?
#[inline]
fn is_settled(phase: Phase, array: &cai_array, consumer: u64, flags: u32) -> bool {
    if array.stream == abi::CAI_STREAM_NONE {
        return true;
    }
    // On one stream everything is in order anyway. The event has to follow what was written,
    // though.
    let event_follows =
        phase == Phase::End && !array.event.is_null() && flags & abi::CAI_ACCESS_WRITE != 0;
    array.stream == consumer
        && consumer > abi::CAI_STREAM_PER_THREAD
        && array.version >= 3
        && is_cuda(array)
        && !event_follows
}

/// Calls `body` for each mask of an array.
///
/// # Safety
/// As for [`exchange`].
#[cold]
unsafe fn masks(array: &cai_array, body: impl Fn(&cai_array) -> Result<()>) -> Result<()> {
    let mut next = array.mask;
    for depth in 0.. {
        if next.is_null() {
            break;
        }
        let inside =
            |failure: Failure| (0..=depth).fold(failure, |failure, _| failure.within("mask."));
        if depth == abi::CAI_MAX_MASKS {
            return fail!(
                CAI_ERR_MASK_DEPTH,
                "mask",
                found = "more masks",
                expected = ("at most {}", abi::CAI_MAX_MASKS)
            )
            .map_err(|failure| (0..depth).fold(failure, |failure, _| failure.within("mask.")));
        }
        let mut scratch = MaybeUninit::uninit();
        // SAFETY: not NULL; handed on.
        let mask = unsafe { view(next, &mut scratch) }.map_err(inside)?;
        body(mask).map_err(inside)?;
        next = mask.mask;
    }
    Ok(())
}

/// Are its streams CUDA's?
#[inline]
fn is_cuda(array: &cai_array) -> bool {
    matches!(
        array.device.r#type,
        abi::CAI_DEVICE_UNKNOWN
            | abi::CAI_DEVICE_CUDA
            | abi::CAI_DEVICE_CUDA_HOST
            | abi::CAI_DEVICE_CUDA_MANAGED
    )
}

/// What an array says about pending work.
enum Pending {
    /// Nothing, or the user answers for it.
    Nothing,
    /// On every stream of its context, for all that is known.
    Anywhere,
    /// On its stream.
    Stream,
}

fn pending(array: &cai_array, flags: u32) -> Result<Pending> {
    if array.stream == 0 {
        return fail!(
            CAI_ERR_STREAM_ZERO,
            "stream",
            found = "0",
            expected = "CAI_STREAM_NONE if no work is pending, else 1, 2 or a CUstream"
        );
    }
    // Where there are no elements there is nothing to race for.
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
    if unknown && array.event.is_null() && policy & abi::CAI_SYNC_CONSERVATIVE == 0 {
        return Ok(Pending::Nothing);
    }
    if !is_cuda(array) {
        return fail!(
            CAI_ERR_STREAM_DEVICE,
            "device.type",
            found = ("{}, with a stream", array.device.r#type),
            expected = "a CUDA device: the streams of others cannot be ordered"
        );
    }
    Ok(if unknown { Pending::Anywhere } else { Pending::Stream })
}

/// The context of an array, and a reference to it that lives as long as this.
struct ArrayContext<'a> {
    driver: &'a Driver,
    context: driver::CUcontext,
    primary: Option<i32>,
}

impl Drop for ArrayContext<'_> {
    fn drop(&mut self) {
        if let Some(device) = self.primary {
            self.driver.release_primary(device);
        }
    }
}

impl ArrayContext<'_> {
    /// What the array says; else the memory's; else, for memory that belongs to a device, the
    /// device's primary one, where that memory was made; else the current one.
    fn of<'a>(driver: &'a Driver, array: &cai_array) -> Result<ArrayContext<'a>> {
        let found = |context| Ok(ArrayContext { driver, context, primary: None });
        if !array.context.is_null() {
            return found(array.context.cast());
        }
        driver.relaxed(|| {
            let (context, device) = driver::owner_context(driver, array.data as u64)?;
            if !context.is_null() {
                return found(context);
            }
            let said = (array.device.r#type == abi::CAI_DEVICE_CUDA).then_some(array.device.id);
            match device.or(said) {
                Some(device) => Ok(ArrayContext {
                    driver,
                    context: driver.primary(device)?,
                    primary: Some(device),
                }),
                None => found(driver.some_current()?),
            }
        })
    }
}

/// Gives up a reference once the work that is enqueued on the array's own stream is done; a default
/// stream is that of the array's context, whichever is current here. On failure the reference is
/// still the caller's.
///
/// # Safety
/// `owner` points to a live owner of any library; the caller gives up one reference, on success.
pub unsafe fn release_after_own(owner: *mut cai_owner, array: &cai_array) -> Result<()> {
    if array.stream > abi::CAI_STREAM_PER_THREAD {
        // SAFETY: handed on.
        return unsafe { release_queue::release_after(owner, array.stream) };
    }
    let driver = driver::driver()?;
    let context = ArrayContext::of(driver, array)?;
    let _entered = driver.enter(context.context)?;
    // SAFETY: handed on.
    unsafe { release_queue::release_after(owner, array.stream) }
}

/// Orders the stream of one array.
#[inline(never)]
fn one(phase: Phase, array: &cai_array, consumer: u64, flags: u32) -> Result<()> {
    if is_settled(phase, array, consumer, flags) {
        return Ok(());
    }
    match pending(array, flags)? {
        Pending::Nothing => Ok(()),
        Pending::Anywhere => unknown(phase, array, consumer, flags),
        Pending::Stream => {
            let driver = driver::driver()?;
            let consumer = Stream::from_current_context(driver, consumer)?;
            with_stream(driver, array, |producer| match phase {
                Phase::Begin => begin(driver, array, &producer, &consumer, flags),
                Phase::End => end(driver, array, &producer, &consumer, flags),
            })
        }
    }
}

/// Calls `body` with the stream of an array, in its context.
#[inline]
fn with_stream<T>(
    driver: &Driver,
    array: &cai_array,
    body: impl FnOnce(Stream) -> Result<T>,
) -> Result<T> {
    if array.stream > abi::CAI_STREAM_PER_THREAD {
        return body(Stream::from_array(array.stream, ptr::null_mut(), array.stream_id));
    }
    let context = ArrayContext::of(driver, array)?;
    body(Stream::from_array(array.stream, context.context, array.stream_id))
}

fn begin(
    driver: &Driver,
    array: &cai_array,
    producer: &Stream,
    consumer: &Stream,
    flags: u32,
) -> Result<()> {
    if producer.is(consumer) {
        return thread(driver, producer);
    }
    // Readers need to wait for the last writer only, and not for each other.
    if !array.event.is_null() && flags & abi::CAI_ACCESS_WRITE == 0 {
        let state = producer.capture(driver)?;
        // What is recorded in a capture says nothing about the event outside of it.
        if state == Capture::None {
            return wait_for(driver, array.event.cast(), state, consumer, flags);
        }
    }
    order(driver, producer, consumer, Direction::ProducerThenConsumer, flags)
}

fn end(
    driver: &Driver,
    array: &cai_array,
    producer: &Stream,
    consumer: &Stream,
    flags: u32,
) -> Result<()> {
    if producer.is(consumer) {
        thread(driver, producer)?;
    } else {
        order(driver, consumer, producer, Direction::ConsumerThenProducer, flags)?;
    }
    // Later readers wait for the event: it has to follow what was written.
    if !array.event.is_null()
        && flags & abi::CAI_ACCESS_WRITE != 0
        && producer.capture(driver)? == Capture::None
    {
        producer.record(driver, array.event.cast())?;
    }
    Ok(())
}

/// A default stream that this thread calls by the same name in the same context is the same one,
/// unless it is the per-thread one of another thread.
fn thread(driver: &Driver, stream: &Stream) -> Result<()> {
    if stream.has_id() && stream.capture(driver)? == Capture::None {
        stream.check_id(driver)?;
    }
    Ok(())
}

/// A stream that nobody knows: an event orders readers; else the whole context has to wait.
fn unknown(phase: Phase, array: &cai_array, consumer: u64, flags: u32) -> Result<()> {
    let driver = driver::driver()?;
    let consumer = Stream::from_current_context(driver, consumer)?;
    let reads = flags & abi::CAI_ACCESS_WRITE == 0;
    if phase == Phase::Begin && reads && !array.event.is_null() {
        return wait_for(driver, array.event.cast(), Capture::None, &consumer, flags);
    }
    if policy::in_force(flags)? & abi::CAI_SYNC_CONSERVATIVE == 0 {
        // Only an event is known, and a writer must wait for more than that says: at least for
        // that.
        return match phase {
            Phase::Begin => wait_for(driver, array.event.cast(), Capture::None, &consumer, flags),
            Phase::End => Ok(()),
        };
    }
    if consumer.capture(driver)? != Capture::None {
        return fail!(
            CAI_ERR_CAPTURE_CONSUMER,
            "stream",
            found = "a capture of the consumer's stream, and a producer whose stream is not known",
            expected = "no capture: call this around the launch of the graph"
        );
    }
    let context = ArrayContext::of(driver, array)?;
    // Asks whether a blocking stream of the context is being captured: the one thing that can be
    // known here.
    Stream::from_array(abi::CAI_STREAM_LEGACY, context.context, 0).capture(driver)?;
    match phase {
        Phase::Begin => {
            let entered = driver.enter(context.context)?;
            let event = driver.event(context.context)?;
            let recorded = driver.context_record(context.context, event.handle());
            if recorded.is_missing() {
                return driver.relaxed(|| driver.context_synchronize().ok());
            }
            recorded.ok()?;
            drop(entered);
            consumer.wait(driver, event.handle(), 0)?;
            event.keep();
        }
        Phase::End => {
            let own = consumer.context(driver)?;
            let entered = driver.enter(own)?;
            let event = driver.event(own)?;
            consumer.record(driver, event.handle())?;
            let waits = driver.context_wait(context.context, event.handle());
            drop(entered);
            if waits.is_missing() {
                return consumer.synchronize(driver);
            }
            waits.ok()?;
            event.keep();
        }
    }
    Ok(())
}

/// Blocks the host until the work that is pending on an array and its masks is done.
///
/// # Safety
/// As for [`exchange`].
pub unsafe fn synchronize(array: *const cai_array, flags: u32) -> Result<()> {
    let known = CONSUMER & !CAPTURE;
    let mut scratch = MaybeUninit::uninit();
    // SAFETY: handed on.
    let local = unsafe { view(array, &mut scratch) }?;
    if flags & !known != 0 || flags & ACCESS == 0 {
        return Err(bad_flags(flags, known));
    }
    writable(local, flags)?;
    synchronize_one(local, flags)?;
    // SAFETY: handed on.
    unsafe { masks(local, |mask| synchronize_one(mask, flags)) }
}

fn synchronize_one(array: &cai_array, flags: u32) -> Result<()> {
    let by_event = !array.event.is_null() && flags & abi::CAI_ACCESS_WRITE == 0;
    match pending(array, flags)? {
        Pending::Nothing => Ok(()),
        Pending::Anywhere => {
            let driver = driver::driver()?;
            if !array.event.is_null() {
                driver.relaxed(|| driver.event_synchronize(array.event.cast()).ok())?;
            }
            if by_event || policy::in_force(flags)? & abi::CAI_SYNC_CONSERVATIVE == 0 {
                return Ok(());
            }
            let context = ArrayContext::of(driver, array)?;
            Stream::from_array(abi::CAI_STREAM_LEGACY, context.context, 0).capture(driver)?;
            let _entered = driver.enter(context.context)?;
            driver.relaxed(|| driver.context_synchronize().ok())
        }
        Pending::Stream => {
            let driver = driver::driver()?;
            with_stream(driver, array, |producer| {
                match producer.capture(driver)? {
                    Capture::None => {}
                    Capture::Active => {
                        return fail!(
                            CAI_ERR_CAPTURE_HOST,
                            "stream",
                            found = "a stream that is being captured",
                            expected = "one that runs: the host cannot wait for work that is only being captured"
                        );
                    }
                    Capture::Invalidated => {
                        return fail!(
                            CAI_ERR_CAPTURE_INVALIDATED,
                            "stream",
                            found = "a stream whose capture was broken by an earlier call",
                            expected = "the capture to be ended first"
                        );
                    }
                }
                if by_event {
                    return driver.relaxed(|| driver.event_synchronize(array.event.cast()).ok());
                }
                producer.check_id(driver)?;
                producer.synchronize(driver)
            })
        }
    }
}
