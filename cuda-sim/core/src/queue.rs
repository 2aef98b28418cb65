//! Records, waits and host functions, as operations in the queue of a stream that is not capturing.

use crate::actor::Actor;
use crate::clock::Clock;
use crate::ipc::SharedEvent;
use crate::real_driver;
use crate::sim::{Locked, Recorded, Sim};
use crate::work::{Reached, StreamRef, Work};
use std::sync::Arc;

/// Adds the knowledge of the stream to a host function.
pub fn with_knowledge(sim: &mut Locked, actor: Option<Actor>, work: Work) -> Work {
    match work {
        Work::Host(call, _) => match real_driver::get() {
            None => Work::Host(call, sim.knowledge(actor)),
            Some(real) => {
                (real.record_launch)(call.data, sim.knowledge(actor));
                Work::Nothing
            }
        },
        work => work,
    }
}

pub fn record_now(
    sim: &mut Locked,
    event: u64,
    stream: StreamRef,
    shared: Option<Arc<SharedEvent>>,
    clock: Option<Clock>,
) {
    let reached = Arc::new(Reached::default());
    let is_shared = shared.is_some();
    let position = sim.stream_mut(stream).enqueued + 1;
    let actor = sim.stream_mut(stream).actor;
    let clock = clock.or_else(|| Some(sim.checker.as_mut()?.snapshot(actor?)));
    let number = shared.as_ref().map(|shared| shared.record(&sim.counts_of(clock.as_ref())));
    let by = sim.place_of_record(actor);
    let live = reached.clone();
    sim.set_recorded(
        event,
        Recorded::Live { stream, position, reached: live, clock, shared: number, by },
    );
    Sim::enqueue(sim, stream, Work::Record(reached, shared.zip(number)));
    // Another process may wait for this event although no call of this process does.
    if is_shared {
        Sim::wait_in_background(sim, stream, position);
    }
}

/// Returns the operation that waits for a recorded event, if it is not over. The stream knows from
/// here on what was known at the record, `clock`.
pub fn wait_now(
    sim: &mut Locked,
    stream: StreamRef,
    recorded: &Recorded,
    clock: Option<&Clock>,
    foreign: Option<Arc<SharedEvent>>,
) -> Option<Work> {
    let actor = sim.stream_mut(stream).actor;
    if let (Some(actor), Some(checker)) = (actor, &mut sim.checker) {
        match &foreign {
            Some(event) => checker.learn_counts(actor, &event.known()),
            None => clock.iter().for_each(|clock| checker.learn(actor, clock)),
        }
    }
    wait_only(sim, recorded, foreign)
}

pub fn wait_only(
    sim: &Sim,
    recorded: &Recorded,
    foreign: Option<Arc<SharedEvent>>,
) -> Option<Work> {
    if let Some(event) = foreign {
        let number = event.newest();
        return (!event.reached(number)).then_some(Work::WaitShared(event, number));
    }
    let Recorded::Live { stream, position, .. } = recorded else { return None };
    (!sim.is_done(*stream, *position)).then_some(Work::Wait(*stream, *position))
}
