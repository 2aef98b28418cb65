//! Operations given to streams. While a stream captures, operations, records and waits become nodes
//! of a graph.

use crate::access::Access;
use crate::graph::destroy_graph;
use crate::queue::{record_now, wait_now, wait_only, with_knowledge};
use crate::results::{Code, Result, refuse_if};
use crate::sim::{Capture, Graph, Lane, Locked, Recorded, Sim, StreamKind, Task, thread_id};
use crate::work::{StreamRef, Work};
use std::collections::HashSet;

pub const GLOBAL: i32 = 0;
pub const RELAXED: i32 = 2;

// --- calls that a capture forbids ---

impl Sim {
    /// Refuses a call that is unsafe during a capture, according to the thread's mode. A refused
    /// call invalidates the capture. [cuThreadExchangeStreamCaptureMode]
    pub fn forbid_while_capturing(&mut self) -> Result {
        // A real driver decides this itself.
        if self.captures.is_empty() || crate::real_driver::is_present() {
            return Ok(());
        }
        let mode = self.thread().capture_mode;
        if mode == RELAXED {
            return Ok(());
        }
        let thread = thread_id();
        let broken: Vec<u64> = self
            .captures
            .values()
            .filter(|c| {
                if c.thread == thread {
                    c.mode != RELAXED
                } else {
                    mode == GLOBAL && c.mode == GLOBAL
                }
            })
            .map(|capture| capture.id)
            .collect();
        broken.iter().for_each(|id| self.invalidate(*id));
        if broken.is_empty() { Ok(()) } else { Err(Code::STREAM_CAPTURE_UNSUPPORTED) }
    }

    pub fn invalidate(&mut self, capture: u64) {
        if let Some(capture) = self.captures.get_mut(&capture) {
            capture.invalidated = true;
        }
    }

    /// Refuses a wait for, or a query of, work that is only being captured.
    pub fn forbid_on_capturing(&mut self, stream: StreamRef) -> Result {
        let lane = self.stream_mut(stream).lane.as_ref().map(|lane| lane.capture);
        if let Some(capture) = lane.filter(|_| !crate::real_driver::is_present()) {
            self.invalidate(capture);
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        self.forbid_legacy(stream)
    }

    /// Refuses an operation on all streams of a context while one of them captures.
    pub fn forbid_capturing_context(&mut self, context: u64) -> Result {
        let streams = self.live_streams_of(context);
        let broken: Vec<u64> = streams
            .iter()
            .filter_map(|stream| Some(self.get(*stream)?.lane.as_ref()?.capture))
            .collect();
        broken.iter().for_each(|id| self.invalidate(*id));
        if broken.is_empty() { Ok(()) } else { Err(Code::STREAM_CAPTURE_UNSUPPORTED) }
    }

    /// Refuses work on a legacy stream that would depend on a capture of a blocking stream of its
    /// context.
    pub fn forbid_legacy(&mut self, stream: StreamRef) -> Result {
        let broken = self.captures_under(stream);
        broken.iter().for_each(|id| self.invalidate(*id));
        if broken.is_empty() { Ok(()) } else { Err(Code::STREAM_CAPTURE_IMPLICIT) }
    }

    /// Returns the captures in blocking streams of the context of a legacy stream; none for other
    /// streams.
    pub fn captures_under(&mut self, stream: StreamRef) -> Vec<u64> {
        if self.captures.is_empty() || crate::real_driver::is_present() {
            return Vec::new();
        }
        let (kind, context) = {
            let found = self.stream_mut(stream);
            (found.kind, found.context)
        };
        if kind != StreamKind::Legacy {
            return Vec::new();
        }
        let under = |capture: &&Capture| {
            capture.streams.iter().filter_map(|other| self.get(*other)).any(|other| {
                other.context == context
                    && other.lane.is_some()
                    && other.kind != StreamKind::NonBlocking
            })
        };
        self.captures.values().filter(under).map(|capture| capture.id).collect()
    }

    pub fn lane_of(&mut self, stream: StreamRef) -> Result<Option<Lane>> {
        let Some(lane) = self.stream_mut(stream).lane.clone() else { return Ok(None) };
        match self.captures.get(&lane.capture) {
            Some(capture) if capture.invalidated => Err(Code::STREAM_CAPTURE_INVALIDATED),
            Some(_) => Ok(Some(lane)),
            None => Ok(None),
        }
    }

    pub fn capture_task(&mut self, stream: StreamRef, lane: Lane, task: Task) -> Result {
        let graph = self.captures.get(&lane.capture).map_or(0, |capture| capture.graph);
        let node = self.add_node(graph, task, lane.tail)?;
        self.stream_mut(stream).lane = Some(Lane { capture: lane.capture, tail: vec![node] });
        Ok(())
    }
}

/// Gives a stream an operation. While it captures, that becomes a node. Returns the position of the
/// operation, or `None` for a node.
pub fn submit(
    sim: &mut Locked,
    stream: StreamRef,
    work: Work,
    accesses: Vec<Access>,
    label: &'static str,
) -> Result<Option<u64>> {
    if let Some(lane) = sim.lane_of(stream)? {
        sim.capture_task(stream, lane, Task::Work { work, accesses, label })?;
        return Ok(None);
    }
    sim.forbid_legacy(stream)?;
    sim.prepare(stream);
    sim.check(stream, &accesses, label, work.content(&accesses));
    let actor = sim.stream_mut(stream).actor;
    sim.report_ignored(&work, &accesses, label);
    let is_shared = sim.writes_shared_number(&work, &accesses);
    let work = with_knowledge(sim, actor, sim.or_fault(stream, work, &accesses));
    let position = Sim::enqueue(sim, stream, work);
    if is_shared {
        Sim::wait_in_background(sim, stream, position);
    }
    Ok(Some(position))
}

// --- events ---

/// Performs cuEventRecord. `external`: while capturing, adds a node that records at every launch.
pub fn record(sim: &mut Locked, event: u64, stream: StreamRef, external: bool) -> Result {
    let (of, shared) = {
        let found = sim.events.get(event).ok_or(Code::INVALID_HANDLE)?;
        (found.context, found.shared.clone())
    };
    // Event and stream must belong to the same context. [cuEventRecord] A green context counts as
    // its primary context.
    let context = sim.stream_mut(stream).context;
    refuse_if(of != sim.base(context) && !crate::real_driver::is_present(), Code::INVALID_HANDLE)?;
    if let Some(lane) = sim.lane_of(stream)? {
        if external {
            return sim.capture_task(stream, lane, Task::RecordEvent(event));
        }
        let recorded = Recorded::Captured { capture: lane.capture, nodes: lane.tail };
        if let Some(found) = sim.events.get_mut(event) {
            found.recorded = recorded;
        }
        return Ok(());
    }
    refuse_if(external, Code::INVALID_VALUE)?;
    sim.forbid_legacy(stream)?;
    sim.prepare(stream);
    record_now(sim, event, stream, shared, None);
    Ok(())
}

/// Performs cuStreamWaitEvent.
pub fn wait(sim: &mut Locked, stream: StreamRef, event: u64, external: bool) -> Result {
    let (recorded, shared, foreign) = {
        let found = sim.events.get(event).ok_or(Code::INVALID_HANDLE)?;
        (found.recorded.clone(), found.shared.clone(), found.is_foreign())
    };
    let lane = sim.lane_of(stream)?;
    if external {
        let Some(lane) = lane else { return Err(Code::INVALID_VALUE) };
        return sim.capture_task(stream, lane, Task::WaitEvent(event));
    }
    match recorded {
        Recorded::Captured { capture, nodes } => {
            if sim.captures.get(&capture).is_none_or(|capture| capture.invalidated) {
                if let Some(lane) = lane {
                    sim.invalidate(lane.capture);
                }
                return Err(Code::INVALID_VALUE);
            }
            match lane {
                Some(lane) if lane.capture != capture => {
                    sim.invalidate(lane.capture);
                    sim.invalidate(capture);
                    return Err(Code::STREAM_CAPTURE_MERGE);
                }
                Some(lane) => {
                    let mut tail = lane.tail;
                    tail.extend(
                        nodes.into_iter().filter(|node| !tail.contains(node)).collect::<Vec<_>>(),
                    );
                    sim.stream_mut(stream).lane = Some(Lane { capture, tail });
                }
                None => {
                    if sim.stream_mut(stream).kind == StreamKind::Legacy {
                        sim.invalidate(capture);
                        return Err(Code::STREAM_CAPTURE_IMPLICIT);
                    }
                    sim.stream_mut(stream).lane = Some(Lane { capture, tail: nodes });
                    if let Some(capture) = sim.captures.get_mut(&capture) {
                        capture.streams.push(stream);
                    }
                }
            }
            Ok(())
        }
        Recorded::Never if !foreign => {
            if lane.is_none() {
                sim.forbid_legacy(stream)?;
                sim.prepare(stream);
            }
            Ok(())
        }
        recorded => {
            if let Some(lane) = lane {
                sim.invalidate(lane.capture);
                return Err(Code::STREAM_CAPTURE_ISOLATION);
            }
            sim.forbid_legacy(stream)?;
            sim.prepare(stream);
            let actor = sim.stream_mut(stream).actor;
            let clock = sim.counted(event, "cuStreamWaitEvent", actor);
            let foreign = shared.filter(|_| foreign);
            let work = wait_now(sim, stream, &recorded, clock.as_ref(), foreign);
            // In the legacy stream, blocking streams come after a wait even if it is over.
            let legacy = sim.stream_mut(stream).kind == StreamKind::Legacy;
            if let Some(work) = work.or(legacy.then_some(Work::Nothing)) {
                Sim::enqueue(sim, stream, work);
            }
            Ok(())
        }
    }
}

/// Performs cuCtxWaitEvent: every stream waits, also streams that are created later. The streams do
/// not wait for each other, so the rules of the default streams do not apply.
pub fn wait_in_context(sim: &mut Locked, context: u64, event: u64) -> Result {
    let (recorded, shared, foreign) = {
        let found = sim.events.get(event).ok_or(Code::INVALID_HANDLE)?;
        (found.recorded.clone(), found.shared.clone(), found.is_foreign())
    };
    if let Recorded::Captured { capture, .. } = recorded {
        let ongoing = sim.captures.contains_key(&capture);
        sim.invalidate(capture);
        return Err(if ongoing { Code::STREAM_CAPTURE_UNSUPPORTED } else { Code::INVALID_VALUE });
    }
    sim.forbid_capturing_context(context)?;
    if matches!(recorded, Recorded::Never) && !foreign {
        return Ok(());
    }
    let foreign = shared.filter(|_| foreign);
    if let Some(work) = wait_only(sim, &recorded, foreign.clone()) {
        sim.future_streams_wait(context, work);
    }
    let clock = sim.counted(event, "cuCtxWaitEvent", None);
    if let Some(clock) = &clock {
        sim.future_streams_learn(context, clock);
    }
    for stream in sim.live_streams_of(context) {
        // Enqueueing may have waited, and the stream may have been destroyed meanwhile.
        if sim.get(stream).is_some() {
            if let Some(work) = wait_now(sim, stream, &recorded, clock.as_ref(), foreign.clone()) {
                Sim::enqueue(sim, stream, work);
            }
        }
    }
    Ok(())
}

// --- capture ---

pub fn begin(
    sim: &mut Locked,
    stream: StreamRef,
    mode: i32,
    into: Option<(u64, Vec<u64>)>,
) -> Result {
    refuse_if(!(0..=2).contains(&mode), Code::INVALID_VALUE)?;
    refuse_if(sim.stream_mut(stream).kind == StreamKind::Legacy, Code::STREAM_CAPTURE_UNSUPPORTED)?;
    refuse_if(sim.stream_mut(stream).lane.is_some(), Code::ILLEGAL_STATE)?;
    let id = sim.id();
    let to_graph = into.is_some();
    let (graph, tail) = match into {
        Some(into) => into,
        None => (sim.graphs.insert(Graph { id, ..Graph::default() }), Vec::new()),
    };
    let thread = thread_id();
    sim.captures.insert(
        id,
        Capture {
            id,
            graph,
            mode,
            thread,
            origin: stream,
            streams: vec![stream],
            invalidated: false,
            to_graph,
        },
    );
    sim.stream_mut(stream).lane = Some(Lane { capture: id, tail });
    Ok(())
}

/// Ends the capture of a stream that is destroyed before it ended the capture.
pub fn abandon(sim: &mut Locked, origin: StreamRef) {
    let Some(id) =
        sim.captures.values().find(|capture| capture.origin == origin).map(|capture| capture.id)
    else {
        return;
    };
    let Some(capture) = sim.captures.remove(&id) else { return };
    for stream in capture.streams {
        if let Some(found) = sim.get_mut(stream) {
            found.lane.take_if(|lane| lane.capture == id);
        }
    }
    if !capture.to_graph {
        destroy_graph(sim, capture.graph);
    }
}

/// Returns nodes with all that they depend on.
fn with_dependencies(sim: &Sim, mut next: Vec<u64>) -> HashSet<u64> {
    let mut found = HashSet::new();
    while let Some(node) = next.pop() {
        if found.insert(node) {
            next.extend(sim.nodes.get(node).into_iter().flat_map(|node| node.dependencies.clone()));
        }
    }
    found
}

/// Ends the part of a stream in a capture, when the stream is destroyed. The capture goes on if all
/// of the stream's work has joined other streams: cuda.core destroys a stream of its own then.
pub fn leave(sim: &mut Locked, stream: StreamRef) {
    let Some(lane) = sim.get_mut(stream).and_then(|stream| stream.lane.take()) else { return };
    let Some(capture) = sim.captures.get(&lane.capture) else { return };
    let (is_origin, mut others) = (capture.origin == stream, capture.streams.clone());
    others.retain(|other| *other != stream);
    let tails =
        others.iter().filter_map(|other| sim.get(*other)?.lane.as_ref()).flat_map(|l| &l.tail);
    let joined = with_dependencies(sim, tails.copied().collect());
    if is_origin || lane.tail.iter().any(|node| !joined.contains(node)) {
        sim.invalidate(lane.capture);
    } else if let Some(capture) = sim.captures.get_mut(&lane.capture) {
        capture.streams = others;
    }
}

/// Ends a capture. Returns the graph, or the reason why there is none. The capture is over either
/// way, unless the stream is not its origin.
pub fn end(sim: &mut Locked, stream: StreamRef) -> Result<u64> {
    let lane = sim.stream_mut(stream).lane.clone().ok_or(Code::ILLEGAL_STATE)?;
    let Some(capture) = sim.captures.get(&lane.capture) else { return Err(Code::ILLEGAL_STATE) };
    if capture.origin != stream {
        let id = capture.id;
        sim.invalidate(id);
        return Err(Code::STREAM_CAPTURE_UNMATCHED);
    }
    let wrong_thread = capture.mode != RELAXED && capture.thread != thread_id();
    let Some(capture) = sim.captures.remove(&lane.capture) else { return Err(Code::ILLEGAL_STATE) };
    let joined = with_dependencies(sim, lane.tail);
    let mut unjoined = false;
    for stream in &capture.streams {
        if let Some(found) = sim.get_mut(*stream) {
            if let Some(lane) = found.lane.take_if(|lane| lane.capture == capture.id) {
                unjoined |= lane.tail.iter().any(|node| !joined.contains(node));
            }
        }
    }
    let refused = if wrong_thread {
        Some(Code::STREAM_CAPTURE_WRONG_THREAD)
    } else if capture.invalidated {
        Some(Code::STREAM_CAPTURE_INVALIDATED)
    } else {
        unjoined.then_some(Code::STREAM_CAPTURE_UNJOINED)
    };
    match refused {
        None => Ok(capture.graph),
        Some(code) => {
            if !capture.to_graph {
                destroy_graph(sim, capture.graph);
            }
            Err(code)
        }
    }
}
