//! The basic step: one stream waits for another.

use crate::abi::{self, cai_status};
use crate::driver::{CUevent, CallingThread, Capture, INVALID_CONTEXT, Stream};
use crate::error::{Failure, Result, failure};
use crate::sync::{invalidated, release_queue};
use crate::unwind;

/// `cuStreamWaitEvent`: an event from outside of the capture, waited for at each launch.
const EXTERNAL: u32 = 1;

/// Whose streams are ordered. Determines the status if only one of them is being captured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    ProducerThenConsumer,
    ConsumerThenProducer,
    /// A producer joins its own streams.
    Producers,
}

/// The way to record an event and to wait for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OrderMode {
    /// Neither stream is being captured, or both belong to one capture.
    Event,
    /// Only the waiting stream is being captured.
    External,
}

/// Makes `to` wait for everything that was enqueued on `from` so far. On failure, no call was made
/// that could invalidate a capture.
#[inline]
pub fn order(
    thread: &CallingThread,
    from: &Stream,
    to: &Stream,
    direction: Direction,
    flags: u32,
) -> Result<()> {
    if from.is_default() || to.is_default() {
        return order_default(thread, from, to, direction, flags);
    }
    order_handles(thread, from, to, direction, flags)
}

/// As [`order`], for two streams of which neither is a default stream. What could panic runs in a
/// guard: a caller in a common case needs none.
#[inline(always)]
pub fn order_handles(
    thread: &CallingThread,
    from: &Stream,
    to: &Stream,
    direction: Direction,
    flags: u32,
) -> Result<()> {
    let states = (from.capture_here(thread)?, to.capture_here(thread)?);
    if states != (Capture::None, Capture::None) {
        return unwind::guarded(|| order_captured(thread, from, to, states, direction, flags));
    }
    wait_live(thread, from, to)
}

/// As [`order`], for two streams of which one at least is a default stream.
#[inline(never)]
fn order_default(
    thread: &CallingThread,
    from: &Stream,
    to: &Stream,
    direction: Direction,
    flags: u32,
) -> Result<()> {
    // Handles mean the same in every context, so that of a default stream is current throughout.
    let _entered = if from.is_default() { from.enter(thread) } else { to.enter(thread) }?;
    let states = (from.capture(thread)?, to.capture(thread)?);
    order_in(thread, from, to, states, direction, flags)
}

/// As [`order`], for streams whose capture states are known.
#[inline(always)]
pub fn order_in(
    thread: &CallingThread,
    from: &Stream,
    to: &Stream,
    states: (Capture, Capture),
    direction: Direction,
    flags: u32,
) -> Result<()> {
    if states == (Capture::None, Capture::None) {
        return wait_live(thread, from, to);
    }
    order_captured(thread, from, to, states, direction, flags)
}

/// As [`order_in`], where at least one of the streams is being captured.
#[cold]
#[inline(never)]
fn order_captured(
    thread: &CallingThread,
    from: &Stream,
    to: &Stream,
    states: (Capture, Capture),
    direction: Direction,
    flags: u32,
) -> Result<()> {
    match order_mode(thread, from, to, states, direction, flags)? {
        OrderMode::Event if states.0 == Capture::Active => {
            thread.relaxed(|| wait(thread, from, to, 0))
        }
        OrderMode::Event => wait_live(thread, from, to),
        OrderMode::External => thread.relaxed(|| wait_external(thread, from, to)),
    }
}

/// Orders two streams that are not being captured, so that their ids can be queried.
#[inline(always)]
fn wait_live(thread: &CallingThread, from: &Stream, to: &Stream) -> Result<()> {
    let id = from.checked_id(thread)?;
    to.check_id(thread)?;
    match thread.pass(from, to, id) {
        Some(done) => done,
        None => unwind::guarded(|| wait(thread, from, to, id)),
    }
}

/// Records an event on `from`, whose id is 0 if it is not known, and makes `to` wait for it.
#[inline(never)]
fn wait(thread: &CallingThread, from: &Stream, to: &Stream, id: u64) -> Result<()> {
    let event = thread.record(from, id)?;
    if to.is_default() {
        to.wait(thread, event.handle(), 0)?;
    } else {
        let waits = to.try_wait(thread, event.handle());
        if waits.code == INVALID_CONTEXT {
            // This driver needs some current context.
            let _entered = thread.enter(from.context(thread)?)?;
            to.wait(thread, event.handle(), 0)?;
        } else {
            waits.ok()?;
        }
    }
    event.keep();
    Ok(())
}

/// Makes the graph of `to` wait, at each launch, for an event that is recorded now.
fn wait_external(thread: &CallingThread, from: &Stream, to: &Stream) -> Result<()> {
    let (_, graph) = to.graph(thread)?;
    let event = thread.record(from, from.checked_id(thread)?)?;
    // The graph takes the event first, then the node that needs it is added.
    let event = release_queue::keep_event_in(thread, graph, event)?;
    to.wait(thread, event, EXTERNAL)
}

/// Makes `to` wait for an event that other code recorded on `from`, in a capture or not.
pub fn wait_for(
    thread: &CallingThread,
    event: CUevent,
    from: Capture,
    to: &Stream,
    flags: u32,
) -> Result<()> {
    let states = (from, to.capture(thread)?);
    match (states, flags & abi::CAI_UNSTABLE_CAPTURE_EXTERNAL) {
        ((Capture::None, Capture::None), _) => to.wait(thread, event, 0),
        ((Capture::None, Capture::Active), abi::CAI_UNSTABLE_CAPTURE_EXTERNAL) => {
            to.wait(thread, event, EXTERNAL)
        }
        _ => Err(refused(states, Direction::ProducerThenConsumer)),
    }
}

/// The matrix of capture states: returns how to order two streams, or fails.
fn order_mode(
    thread: &CallingThread,
    from: &Stream,
    to: &Stream,
    states: (Capture, Capture),
    direction: Direction,
    flags: u32,
) -> Result<OrderMode> {
    match states {
        (Capture::None, Capture::None) => Ok(OrderMode::Event),
        (Capture::Active, Capture::Active) => {
            from.check_same_capture(thread, to).map(|()| OrderMode::Event)
        }
        (Capture::Active, Capture::None) if flags & abi::CAI_CAPTURE_JOIN != 0 => {
            // The attempt would invalidate the capture.
            if to.value() == abi::CAI_STREAM_LEGACY {
                return Err(failure!(abi::CAI_ERR_CAPTURE_LEGACY, "stream";
                    found "the legacy default stream as the one that joins a capture";
                    expected "a stream that can be captured"));
            }
            Ok(OrderMode::Event)
        }
        (Capture::None, Capture::Active) if flags & abi::CAI_UNSTABLE_CAPTURE_EXTERNAL != 0 => {
            Ok(OrderMode::External)
        }
        _ => Err(refused(states, direction)),
    }
}

#[cold]
fn refused((from, to): (Capture, Capture), direction: Direction) -> Failure {
    let failure = |status: cai_status, found: &str, expected: &str| failure!(status, "stream"; found "{found}"; expected "{expected}");
    if from == Capture::Invalidated || to == Capture::Invalidated {
        return invalidated();
    }
    let producer_captures = match direction {
        Direction::Producers => {
            return failure(
                abi::CAI_ERR_CAPTURE_STREAMS,
                "a stream that is being captured and one that is not",
                "all streams in one capture, or none; see CAI_CAPTURE_JOIN and \
                 CAI_UNSTABLE_CAPTURE_EXTERNAL",
            );
        }
        Direction::ProducerThenConsumer => from == Capture::Active,
        Direction::ConsumerThenProducer => to == Capture::Active,
    };
    let expected = match (from, direction) {
        // A producer that joined the capture would not wait for the launches.
        (Capture::Active, Direction::ConsumerThenProducer) => {
            "both streams in one capture, or none: call this after each launch of the graph, on \
             the launch's stream"
        }
        (Capture::Active, _) => {
            "both streams in one capture, or none; CAI_CAPTURE_JOIN adds the waiting stream to \
             the capture"
        }
        (_, Direction::ConsumerThenProducer) => {
            "both streams in one capture, or none; CAI_UNSTABLE_CAPTURE_EXTERNAL waits at each \
             launch"
        }
        _ => {
            "both streams in one capture, or none: call this around the launch of the graph, on \
             the launch's stream; CAI_UNSTABLE_CAPTURE_EXTERNAL waits at each launch"
        }
    };
    if producer_captures {
        failure(abi::CAI_ERR_CAPTURE_PRODUCER, "a capture of the producer's stream alone", expected)
    } else {
        failure(abi::CAI_ERR_CAPTURE_CONSUMER, "a capture of the consumer's stream alone", expected)
    }
}
