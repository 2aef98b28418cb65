//! The basic step: one stream waits for another.
//!
//! May use: `abi`, `driver`, `error`, `sync::release_queue`.
//! Unsafe: none.

use crate::abi::{self, cai_status};
use crate::driver::{CUevent, Capture, Driver, Stream};
use crate::error::{Failure, Result, fail};
use crate::sync::release_queue;

/// `cuStreamWaitEvent`: an event from outside of the capture, waited for at each launch.
const EXTERNAL: u32 = 1;

/// Whose streams are ordered. Determines the status if only one of them is being captured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The consumer waits for the producer.
    ProducerThenConsumer,
    /// The producer waits for the consumer.
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
    driver: &Driver,
    from: &Stream,
    to: &Stream,
    direction: Direction,
    flags: u32,
) -> Result<()> {
    let states = (from.capture(driver)?, to.capture(driver)?);
    if states == (Capture::None, Capture::None) {
        return wait_live(driver, from, to);
    }
    match order_mode(driver, from, to, states, direction, flags)? {
        OrderMode::Event if states.0 == Capture::Active => {
            driver.relaxed(|| wait(driver, from, to))
        }
        OrderMode::Event => wait_live(driver, from, to),
        OrderMode::External => driver.relaxed(|| wait_external(driver, from, to)),
    }
}

/// Orders two streams that are not being captured, so that their ids can be checked.
#[inline]
fn wait_live(driver: &Driver, from: &Stream, to: &Stream) -> Result<()> {
    from.check_id(driver)?;
    to.check_id(driver)?;
    wait(driver, from, to)
}

#[inline]
fn wait(driver: &Driver, from: &Stream, to: &Stream) -> Result<()> {
    let context = from.context(driver)?;
    let entered = driver.enter(context)?;
    let event = driver.event(context)?;
    from.record(driver, event.handle())?;
    // A handle has the same meaning in every context, and some context must be current. A default
    // stream makes its own context current, so this one is restored first.
    let entered = Some(entered).filter(|_| !to.is_default());
    to.wait(driver, event.handle(), 0)?;
    drop(entered);
    event.keep();
    Ok(())
}

/// Makes the graph of `to` wait, at each launch, for an event that is recorded now.
fn wait_external(driver: &Driver, from: &Stream, to: &Stream) -> Result<()> {
    let (_, graph) = to.graph(driver)?;
    from.check_id(driver)?;
    let event = driver.record(from, from.context(driver)?)?;
    // The graph takes the event first, then the node that needs it is added.
    let event = release_queue::keep_event_in(driver, graph, event)?;
    to.wait(driver, event, EXTERNAL)
}

/// Makes `to` wait for an event that other code recorded on `from`, in a capture or not.
pub fn wait_for(
    driver: &Driver,
    event: CUevent,
    from: Capture,
    to: &Stream,
    flags: u32,
) -> Result<()> {
    let states = (from, to.capture(driver)?);
    match (states, flags & abi::CAI_CAPTURE_EXTERNAL) {
        ((Capture::None, Capture::None), _) => to.wait(driver, event, 0),
        ((Capture::None, Capture::Active), abi::CAI_CAPTURE_EXTERNAL) => {
            to.wait(driver, event, EXTERNAL)
        }
        _ => Err(refused(states, Direction::ProducerThenConsumer)),
    }
}

/// The matrix of capture states: returns how to order two streams, or fails.
fn order_mode(
    driver: &Driver,
    from: &Stream,
    to: &Stream,
    states: (Capture, Capture),
    direction: Direction,
    flags: u32,
) -> Result<OrderMode> {
    match states {
        (Capture::None, Capture::None) => Ok(OrderMode::Event),
        (Capture::Active, Capture::Active) => {
            let (one, other) = (from.graph(driver)?.0, to.graph(driver)?.0);
            if one == other {
                return Ok(OrderMode::Event);
            }
            fail!(
                CAI_ERR_CAPTURE_MERGE,
                "stream",
                found = "two captures ({one} and {other})",
                expected = "both streams in one capture"
            )
        }
        (Capture::Active, Capture::None) if flags & abi::CAI_CAPTURE_JOIN != 0 => {
            Ok(OrderMode::Event)
        }
        (Capture::None, Capture::Active) if flags & abi::CAI_CAPTURE_EXTERNAL != 0 => {
            Ok(OrderMode::External)
        }
        _ => Err(refused(states, direction)),
    }
}

#[cold]
fn refused((from, to): (Capture, Capture), direction: Direction) -> Failure {
    let failure = |status: cai_status, found: &str, expected: &str| {
        Failure::new(
            status,
            format_args!("stream"),
            format_args!("{found}"),
            format_args!("{expected}"),
        )
    };
    if from == Capture::Invalidated || to == Capture::Invalidated {
        return failure(
            abi::CAI_ERR_CAPTURE_INVALIDATED,
            "a stream whose capture was invalidated by an earlier call",
            "a stream without a capture: call cuStreamEndCapture first",
        );
    }
    let producer_captures = match direction {
        Direction::Producers => {
            return failure(
                abi::CAI_ERR_CAPTURE_STREAMS,
                "a stream that is being captured and one that is not",
                "all streams in one capture, or none; see CAI_CAPTURE_JOIN and \
                 CAI_CAPTURE_EXTERNAL",
            );
        }
        Direction::ProducerThenConsumer => from == Capture::Active,
        Direction::ConsumerThenProducer => to == Capture::Active,
    };
    let expected = if from == Capture::Active {
        "both streams in one capture, or none; CAI_CAPTURE_JOIN adds the waiting stream to the \
         capture"
    } else {
        "both streams in one capture, or none: call this around the launch of the graph, on the \
         launch's stream; CAI_CAPTURE_EXTERNAL waits at each launch"
    };
    if producer_captures {
        failure(abi::CAI_ERR_CAPTURE_PRODUCER, "a capture of the producer's stream alone", expected)
    } else {
        failure(abi::CAI_ERR_CAPTURE_CONSUMER, "a capture of the consumer's stream alone", expected)
    }
}
