//! The order of copies whose order is not that of their stream.

use crate::access::Access;
use crate::results::Result;
use crate::sim::{Locked, Sim, thread_id};
use crate::site::Content;
use crate::work::{StreamRef, Work};

pub const IN_STREAM: i32 = 1;
pub const DURING_THE_CALL: i32 = 2;

/// Checks a read of a source that is not in stream order: during the call, or at any time until the
/// copy is done. [CUmemcpySrcAccessOrder]
pub fn read_early(
    sim: &mut Locked,
    stream: StreamRef,
    order: i32,
    read: Access,
    label: &'static str,
) {
    let name = sim.label(label);
    if order == DURING_THE_CALL {
        sim.check_host(&[read], name);
        return;
    }
    sim.learn_from_processes();
    let (host, thread) = (sim.host_actor(), u64::from(thread_id()));
    let Some(stream) = sim.stream_mut(stream).actor else { return };
    let Some(checker) = &mut sim.checker else { return };
    let reader = checker.like(host, stream);
    let moment = checker.step_of(reader, stream, name, thread, Content::Any);
    sim.check_at(&moment, &[read]);
    if let Some(checker) = &mut sim.checker {
        checker.order(reader, stream);
        checker.retire(reader);
    }
}

/// Performs a copy that comes after all work of the current and two other contexts, and before all
/// their later work. The host does not wait. [cuMemcpyPeer]
pub fn serialized(
    sim: &mut Locked,
    default: u64,
    of: [u64; 2],
    run: impl FnOnce(&mut Locked) -> Result,
) -> Result {
    let stream = sim.stream(0, default)?;
    let mut contexts = vec![sim.execution_context()?];
    for context in of {
        if !contexts.contains(&context) && sim.contexts.get(context).is_some() {
            contexts.push(context);
        }
    }
    sim.forbid_on_capturing(stream)?;
    sim.forbid_while_capturing()?;
    for context in &contexts {
        for other in sim.streams_of(*context) {
            if other != stream {
                sim.wait_for_stream(stream, other);
            }
        }
        sim.comes_after_destroyed(stream, *context);
    }
    run(sim)?;
    let (position, actor) = (sim.stream_mut(stream).enqueued, sim.stream_mut(stream).actor);
    let known = sim.knowledge(actor);
    for context in contexts {
        sim.future_streams_wait(context, Work::Wait(stream, position));
        known.iter().for_each(|clock| sim.future_streams_learn(context, clock));
        for other in sim.live_streams_of(context) {
            // Enqueueing may have waited, and the stream may have been destroyed meanwhile.
            let Some(found) = sim.get(other).filter(|_| other != stream) else { continue };
            let theirs = found.actor;
            if let (Some(theirs), Some(clock), Some(checker)) = (theirs, &known, &mut sim.checker) {
                checker.learn(theirs, clock);
            }
            if !sim.is_done(stream, position) {
                Sim::enqueue(sim, other, Work::Wait(stream, position));
            }
        }
    }
    Ok(())
}
