//! Graphs and stream capture. Uses `sim` and what that uses; no `unsafe`.
//!
//! A graph is expanded when it is launched: its nodes become operations of the stream, in an order that keeps
//! every dependency. For the checker, nodes that no dependency orders are not ordered: each chain of nodes is
//! an actor of its own.

use crate::access::Access;
use crate::checker::Who;
use crate::clock::{Actor, Clock};
use crate::results::{Code, Result};
use crate::sim::{CoreKind, Locked, Recorded, Sim, thread_id};
use crate::work::{CoreRef, Reached, Work};
use std::collections::HashSet;
use std::sync::Arc;

pub const GLOBAL: i32 = 0;
pub const RELAXED: i32 = 2;

/// What a node does. The numbers of `CUgraphNodeType` are in `node_type`.
#[derive(Clone)]
pub enum Task {
    Empty,
    Work {
        work: Work,
        accesses: Vec<Access>,
        label: &'static str,
    },
    RecordEvent(u64),
    WaitEvent(u64),
    /// A graph of its own that ends with this node.
    Child(u64),
}

#[derive(Clone)]
pub struct Node {
    pub graph: u64,
    pub task: Task,
    pub dependencies: Vec<u64>,
}

impl Node {
    pub fn node_type(&self) -> i32 {
        match &self.task {
            Task::Work { work: Work::Kernel(_), .. } => 0,
            Task::Work { work: Work::Copy(_), .. } => 1,
            Task::Work { work: Work::Fill(_), .. } => 2,
            Task::Work { work: Work::Host(..), .. } => 3,
            Task::Child(_) => 4,
            Task::Empty => 5,
            Task::WaitEvent(_) => 6,
            Task::RecordEvent(_) => 7,
            Task::Work { work: Work::Store { .. } | Work::WaitValue { .. }, .. } => 12,
            Task::Work { work: Work::Release(_), .. } => 11,
            Task::Work { .. } => 5,
        }
    }
}

#[derive(Default)]
pub struct Graph {
    pub id: u64,
    pub nodes: Vec<u64>,
    /// Objects with the number of references that the graph holds.
    pub objects: Vec<(u64, u32)>,
    pub child: bool,
}

/// What a graph, or the program, keeps alive.
pub struct UserObject {
    pub destroy: usize,
    pub data: usize,
    pub refs: u64,
}

struct Step {
    task: Task,
    dependencies: Vec<usize>,
    chain: usize,
}

pub struct Exec {
    pub id: u64,
    steps: Arc<[Step]>,
    chains: usize,
    actors: Vec<Actor>,
    objects: Vec<(u64, u32)>,
    /// Where its last launch ends: the next one waits for it, wherever it goes.
    last: Option<(CoreRef, u64)>,
    clock: Option<Clock>,
}

/// A stream's part in a capture: the nodes that its next one follows.
#[derive(Clone, Debug)]
pub struct Lane {
    pub capture: u64,
    pub tail: Vec<u64>,
}

pub struct Capture {
    pub id: u64,
    pub graph: u64,
    pub mode: i32,
    pub thread: u32,
    pub origin: CoreRef,
    pub streams: Vec<CoreRef>,
    pub invalidated: bool,
    /// The graph was the program's before: it survives a failure.
    pub to_graph: bool,
}

// --- what may be called while somebody captures -------------------------------------------------------------

impl Sim {
    /// A call that might break a capture elsewhere: refused according to the thread's mode, and then it does
    /// break it. [cuThreadExchangeStreamCaptureMode]
    pub fn forbid_while_capturing(&mut self) -> Result {
        if self.captures.is_empty() {
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
            .filter(
                |c| if c.thread == thread { c.mode != RELAXED } else { mode == GLOBAL && c.mode == GLOBAL },
            )
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

    /// A host that waits for, or asks about, what is only being recorded.
    pub fn forbid_on_capturing(&mut self, core: CoreRef) -> Result {
        let lane = self.core_mut(core).lane.as_ref().map(|lane| lane.capture);
        if let Some(capture) = lane {
            self.invalidate(capture);
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        self.forbid_legacy(core)
    }

    /// The legacy stream would depend on a capture of a blocking stream of its context.
    pub fn forbid_legacy(&mut self, core: CoreRef) -> Result {
        let broken = self.captures_under(core);
        broken.iter().for_each(|id| self.invalidate(*id));
        if broken.is_empty() { Ok(()) } else { Err(Code::STREAM_CAPTURE_IMPLICIT) }
    }

    /// Captures in blocking streams of the context whose legacy stream this is; none for other streams.
    pub fn captures_under(&mut self, core: CoreRef) -> Vec<u64> {
        if self.captures.is_empty() {
            return Vec::new();
        }
        let (kind, context) = {
            let found = self.core_mut(core);
            (found.kind, found.context)
        };
        if kind != CoreKind::Legacy {
            return Vec::new();
        }
        let under = |capture: &&crate::graph::Capture| {
            capture.streams.iter().filter_map(|other| self.get(*other)).any(|other| {
                other.context == context && other.lane.is_some() && other.kind != CoreKind::NonBlocking
            })
        };
        self.captures.values().filter(under).map(|capture| capture.id).collect()
    }

    fn lane_of(&mut self, core: CoreRef) -> Result<Option<Lane>> {
        let Some(lane) = self.core_mut(core).lane.clone() else { return Ok(None) };
        match self.captures.get(&lane.capture) {
            Some(capture) if capture.invalidated => Err(Code::STREAM_CAPTURE_INVALIDATED),
            Some(_) => Ok(Some(lane)),
            None => Ok(None),
        }
    }

    pub fn add_node(&mut self, graph: u64, task: Task, dependencies: Vec<u64>) -> Result<u64> {
        let mut unique = Vec::with_capacity(dependencies.len());
        for node in dependencies {
            if self.nodes.get(node).is_none_or(|node| node.graph != graph) || unique.contains(&node) {
                return Err(Code::INVALID_VALUE);
            }
            unique.push(node);
        }
        self.graphs.get(graph).ok_or(Code::INVALID_VALUE)?;
        let node = self.nodes.insert(Node { graph, task, dependencies: unique });
        if let Some(graph) = self.graphs.get_mut(graph) {
            graph.nodes.push(node);
        }
        Ok(node)
    }

    fn capture_task(&mut self, core: CoreRef, lane: Lane, task: Task) -> Result {
        let graph = self.captures.get(&lane.capture).map_or(0, |capture| capture.graph);
        let node = self.add_node(graph, task, lane.tail)?;
        self.core_mut(core).lane = Some(Lane { capture: lane.capture, tail: vec![node] });
        Ok(())
    }
}

/// Gives a stream something to do; while it captures, that becomes a node. The position of the operation, or
/// `None` of a node.
pub fn submit(
    sim: &mut Locked,
    core: CoreRef,
    work: Work,
    accesses: Vec<Access>,
    label: &'static str,
) -> Result<Option<u64>> {
    if let Some(lane) = sim.lane_of(core)? {
        sim.capture_task(core, lane, Task::Work { work, accesses, label })?;
        return Ok(None);
    }
    sim.forbid_legacy(core)?;
    sim.prepare(core);
    sim.check(core, &accesses, label);
    let actor = sim.core_mut(core).actor;
    let work = with_knowledge(sim, actor, work);
    Ok(Some(Sim::enqueue(sim, core, work)))
}

/// A host function takes along what it comes after.
fn with_knowledge(sim: &mut Locked, actor: Option<Actor>, work: Work) -> Work {
    match work {
        Work::Host(call, _) => Work::Host(call, sim.knowledge(actor)),
        work => work,
    }
}

// --- events -------------------------------------------------------------------------------------------------

/// cuEventRecord. `external`: a node that records at every launch, while capturing.
pub fn record(sim: &mut Locked, event: u64, core: CoreRef, external: bool) -> Result {
    let (of, shared) = {
        let found = sim.events.get(event).ok_or(Code::INVALID_HANDLE)?;
        (found.context, found.shared.clone())
    };
    // "Event and stream must be of the same context." [cuEventRecord]
    if of != sim.core_mut(core).context {
        return Err(Code::INVALID_HANDLE);
    }
    if let Some(lane) = sim.lane_of(core)? {
        if external {
            return sim.capture_task(core, lane, Task::RecordEvent(event));
        }
        let recorded = Recorded::Captured { capture: lane.capture, nodes: lane.tail };
        if let Some(found) = sim.events.get_mut(event) {
            found.recorded = recorded;
        }
        return Ok(());
    }
    if external {
        return Err(Code::INVALID_VALUE);
    }
    sim.forbid_legacy(core)?;
    sim.prepare(core);
    record_now(sim, event, core, shared, None);
    Ok(())
}

fn record_now(
    sim: &mut Locked,
    event: u64,
    core: CoreRef,
    shared: Option<Arc<crate::ipc::SharedEvent>>,
    clock: Option<Clock>,
) {
    let reached = Arc::new(Reached::default());
    let number = shared.as_ref().map(|shared| shared.record());
    let is_shared = shared.is_some();
    let position = sim.core_mut(core).enqueued + 1;
    let actor = sim.core_mut(core).actor;
    let clock = clock.or_else(|| Some(sim.checker.as_mut()?.tell(actor?)));
    if let Some(found) = sim.events.get_mut(event) {
        found.recorded = Recorded::Live { core, position, reached: reached.clone(), clock, shared: number };
    }
    Sim::enqueue(sim, core, Work::Record(reached, shared.zip(number)));
    // Nobody in this process may ever wait for what another process waits for.
    if is_shared {
        Sim::wait_in_background(sim, core, position);
    }
}

/// cuStreamWaitEvent.
pub fn wait(sim: &mut Locked, core: CoreRef, event: u64, external: bool) -> Result {
    let (recorded, shared, foreign) = {
        let found = sim.events.get(event).ok_or(Code::INVALID_HANDLE)?;
        (found.recorded.clone(), found.shared.clone(), found.is_foreign())
    };
    let lane = sim.lane_of(core)?;
    if external {
        let Some(lane) = lane else { return Err(Code::INVALID_VALUE) };
        return sim.capture_task(core, lane, Task::WaitEvent(event));
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
                    tail.extend(nodes.into_iter().filter(|node| !tail.contains(node)).collect::<Vec<_>>());
                    sim.core_mut(core).lane = Some(Lane { capture, tail });
                }
                None => {
                    if sim.core_mut(core).kind == CoreKind::Legacy {
                        sim.invalidate(capture);
                        return Err(Code::STREAM_CAPTURE_IMPLICIT);
                    }
                    sim.core_mut(core).lane = Some(Lane { capture, tail: nodes });
                    if let Some(capture) = sim.captures.get_mut(&capture) {
                        capture.streams.push(core);
                    }
                }
            }
            Ok(())
        }
        Recorded::Never if !foreign => {
            if lane.is_none() {
                sim.forbid_legacy(core)?;
                sim.prepare(core);
            }
            Ok(())
        }
        recorded => {
            if let Some(lane) = lane {
                sim.invalidate(lane.capture);
                return Err(Code::STREAM_CAPTURE_ISOLATION);
            }
            sim.forbid_legacy(core)?;
            sim.prepare(core);
            let work = wait_now(sim, core, &recorded, shared.filter(|_| foreign));
            // In the legacy stream also a wait that is over is something that blocking streams come after.
            let legacy = sim.core_mut(core).kind == CoreKind::Legacy;
            if let Some(work) = work.or(legacy.then_some(Work::Nothing)) {
                Sim::enqueue(sim, core, work);
            }
            Ok(())
        }
    }
}

/// The wait that a recorded event asks for, if it is not over; what was known when it was recorded is known
/// from here on.
fn wait_now(
    sim: &mut Locked,
    core: CoreRef,
    recorded: &Recorded,
    foreign: Option<Arc<crate::ipc::SharedEvent>>,
) -> Option<Work> {
    let actor = sim.core_mut(core).actor;
    if let (Some(actor), Recorded::Live { clock: Some(clock), .. }, Some(checker)) =
        (actor, recorded, &mut sim.checker)
    {
        checker.learn(actor, clock);
    }
    wait_only(sim, recorded, foreign)
}

// --- capture ------------------------------------------------------------------------------------------------

pub fn begin(sim: &mut Locked, core: CoreRef, mode: i32, into: Option<(u64, Vec<u64>)>) -> Result {
    if !(0..=2).contains(&mode) {
        return Err(Code::INVALID_VALUE);
    }
    if sim.core_mut(core).kind == CoreKind::Legacy {
        return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
    }
    if sim.core_mut(core).lane.is_some() {
        return Err(Code::ILLEGAL_STATE);
    }
    let id = sim.id();
    let to_graph = into.is_some();
    let (graph, tail) = match into {
        Some(into) => into,
        None => (sim.graphs.insert(Graph { id, ..Graph::default() }), Vec::new()),
    };
    let thread = thread_id();
    sim.captures.insert(
        id,
        Capture { id, graph, mode, thread, origin: core, streams: vec![core], invalidated: false, to_graph },
    );
    sim.core_mut(core).lane = Some(Lane { capture: id, tail });
    Ok(())
}

/// The graph, or why there is none. The capture is over either way, unless this was not its origin.
pub fn end(sim: &mut Locked, core: CoreRef) -> Result<u64> {
    let lane = sim.core_mut(core).lane.clone().ok_or(Code::ILLEGAL_STATE)?;
    let Some(capture) = sim.captures.get(&lane.capture) else { return Err(Code::ILLEGAL_STATE) };
    if capture.origin != core {
        let id = capture.id;
        sim.invalidate(id);
        return Err(Code::STREAM_CAPTURE_UNMATCHED);
    }
    let wrong_thread = capture.mode != RELAXED && capture.thread != thread_id();
    let Some(capture) = sim.captures.remove(&lane.capture) else { return Err(Code::ILLEGAL_STATE) };
    let mut joined = HashSet::new();
    let mut next = lane.tail.clone();
    while let Some(node) = next.pop() {
        if joined.insert(node) {
            next.extend(sim.nodes.get(node).into_iter().flat_map(|node| node.dependencies.clone()));
        }
    }
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

// --- graphs -------------------------------------------------------------------------------------------------

pub fn destroy_graph(sim: &mut Locked, graph: u64) {
    let Some(graph) = sim.graphs.remove(graph) else { return };
    for node in graph.nodes {
        destroy_node(sim, node);
    }
    release_objects(sim, &graph.objects);
}

pub fn destroy_node(sim: &mut Locked, node: u64) {
    if let Some(Node { task: Task::Child(graph), .. }) = sim.nodes.remove(node) {
        destroy_graph(sim, graph);
    }
}

/// A copy with nodes of its own.
pub fn clone_graph(sim: &mut Locked, graph: u64, child: bool) -> Result<u64> {
    let id = sim.id();
    let original = sim.graphs.get(graph).ok_or(Code::INVALID_VALUE)?;
    let (nodes, objects) = (original.nodes.clone(), original.objects.clone());
    retain_objects(sim, &objects);
    let copy = sim.graphs.insert(Graph { id, nodes: Vec::new(), objects, child });
    let mut twins = std::collections::HashMap::new();
    for old in &nodes {
        let Some(mut node) = sim.nodes.get(*old).cloned() else { continue };
        node.graph = copy;
        if let Task::Child(inner) = node.task {
            node.task = Task::Child(clone_graph(sim, inner, true)?);
        }
        let new = sim.nodes.insert(node);
        twins.insert(*old, new);
        if let Some(copy) = sim.graphs.get_mut(copy) {
            copy.nodes.push(new);
        }
    }
    for new in twins.values() {
        if let Some(node) = sim.nodes.get_mut(*new) {
            node.dependencies = node.dependencies.iter().filter_map(|old| twins.get(old).copied()).collect();
        }
    }
    Ok(copy)
}

pub fn retain_objects(sim: &mut Locked, objects: &[(u64, u32)]) {
    for (object, count) in objects {
        if let Some(object) = sim.user_objects.get_mut(*object) {
            object.refs += u64::from(*count);
        }
    }
}

/// Gives references back; what nobody holds any more is destroyed, on a thread of the driver.
pub fn release_objects(sim: &mut Sim, objects: &[(u64, u32)]) {
    for (handle, count) in objects {
        let Some(object) = sim.user_objects.get_mut(*handle) else { continue };
        object.refs = object.refs.saturating_sub(u64::from(*count));
        if object.refs == 0 {
            let (destroy, data) = (object.destroy, object.data);
            sim.user_objects.remove(*handle);
            let call = crate::work::HostCall { function: destroy, data, callback_stream: None };
            let _ = std::thread::Builder::new()
                .name("cuda-sim user objects".to_owned())
                .spawn(move || call.run(0));
        }
    }
}

/// Nodes so that each comes after what it depends on. An error where they go in circles.
fn sorted(sim: &Sim, graph: u64) -> Result<Vec<u64>> {
    let graph = sim.graphs.get(graph).ok_or(Code::INVALID_VALUE)?;
    let mut done = HashSet::new();
    let mut order = Vec::with_capacity(graph.nodes.len());
    let mut left = graph.nodes.clone();
    while !left.is_empty() {
        let before = left.len();
        left.retain(|handle| {
            let ready =
                sim.nodes.get(*handle).is_none_or(|node| node.dependencies.iter().all(|d| done.contains(d)));
            if ready {
                done.insert(*handle);
                order.push(*handle);
            }
            !ready
        });
        if left.len() == before {
            return Err(Code::INVALID_VALUE);
        }
    }
    Ok(order)
}

/// The steps of a graph, with its children's in their place. `after`: what its first ones follow. Returns what
/// its last ones are.
fn plan(sim: &Sim, graph: u64, after: &[usize], steps: &mut Vec<Step>) -> Result<Vec<usize>> {
    let mut ends: std::collections::HashMap<u64, Vec<usize>> = std::collections::HashMap::new();
    let mut last: HashSet<usize> = HashSet::new();
    for handle in sorted(sim, graph)? {
        let Some(node) = sim.nodes.get(handle) else { continue };
        let mut dependencies: Vec<usize> =
            node.dependencies.iter().flat_map(|d| ends.get(d).cloned().unwrap_or_default()).collect();
        dependencies.iter().for_each(|step| {
            last.remove(step);
        });
        if dependencies.is_empty() {
            dependencies = after.to_vec();
        }
        let end = match &node.task {
            Task::Child(inner) => plan(sim, *inner, &dependencies, steps)?,
            task => {
                steps.push(Step { task: task.clone(), dependencies, chain: 0 });
                vec![steps.len() - 1]
            }
        };
        last.extend(end.iter());
        ends.insert(handle, end);
    }
    let mut last: Vec<usize> = last.into_iter().collect();
    last.sort_unstable();
    // A graph of nothing ends where it began.
    Ok(if last.is_empty() { after.to_vec() } else { last })
}

pub fn instantiate(sim: &mut Locked, graph: u64) -> Result<u64> {
    let mut steps = Vec::new();
    plan(sim, graph, &[], &mut steps)?;
    // Chains: a step continues the chain of a step that it follows, if no other does.
    let mut tails: Vec<Option<usize>> = Vec::new();
    for (at, step) in steps.iter_mut().enumerate() {
        let follows =
            tails.iter().position(|tail| tail.is_some_and(|tail| step.dependencies.contains(&tail)));
        let chain = follows.unwrap_or_else(|| {
            tails.push(None);
            tails.len() - 1
        });
        tails[chain] = Some(at);
        step.chain = chain;
    }
    let id = sim.id();
    let objects = sim.graphs.get(graph).map_or_else(Vec::new, |graph| graph.objects.clone());
    retain_objects(sim, &objects);
    let chains = tails.len();
    Ok(sim.execs.insert(Exec {
        id,
        steps: steps.into(),
        chains,
        actors: Vec::new(),
        objects,
        last: None,
        clock: None,
    }))
}

pub fn destroy_exec(sim: &mut Locked, exec: u64) -> Result {
    let exec = sim.execs.remove(exec).ok_or(Code::INVALID_VALUE)?;
    if let Some(checker) = &mut sim.checker {
        exec.actors.iter().for_each(|actor| checker.retire(*actor));
    }
    // What still runs keeps what it uses.
    match exec.last.filter(|(core, position)| !sim.is_done(*core, *position)) {
        Some((core, _)) if !exec.objects.is_empty() => {
            Sim::enqueue(sim, core, Work::Forget(exec.objects.into()));
        }
        _ => release_objects(sim, &exec.objects),
    }
    Ok(())
}

pub fn launch(sim: &mut Locked, handle: u64, core: CoreRef) -> Result {
    sim.execs.get(handle).ok_or(Code::INVALID_VALUE)?;
    if let Some(lane) = sim.lane_of(core)? {
        sim.invalidate(lane.capture);
        return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
    }
    sim.forbid_legacy(core)?;
    sim.prepare(core);
    let stream = sim.core_mut(core).id;
    let actor = sim.core_mut(core).actor;
    let Sim { execs, checker, .. } = &mut **sim;
    let Some(exec) = execs.get_mut(handle) else { return Err(Code::INVALID_VALUE) };
    if let Some(checker) = checker {
        while exec.actors.len() < exec.chains {
            exec.actors.push(checker.actor(None, Who::Branch { stream, graph: exec.id }));
        }
        if let (Some(actor), Some(clock)) = (actor, &exec.clock) {
            checker.learn(actor, clock);
        }
    }
    let (steps, actors, last) = (exec.steps.clone(), exec.actors.clone(), exec.last);
    if let Some((other, position)) = last {
        if other != core && !sim.is_done(other, position) {
            Sim::enqueue(sim, core, Work::Wait(other, position));
        }
    }
    let start = actor.and_then(|actor| Some(sim.checker.as_mut()?.tell(actor)));
    let mut clocks: Vec<Option<Clock>> = Vec::with_capacity(steps.len());
    for step in steps.iter() {
        let branch = actors.get(step.chain).copied();
        if let (Some(branch), Some(checker)) = (branch, &mut sim.checker) {
            start.iter().for_each(|clock| checker.learn(branch, clock));
            for dependency in &step.dependencies {
                clocks[*dependency].iter().for_each(|clock| checker.learn(branch, clock));
            }
        }
        run_step(sim, core, branch, &step.task);
        clocks.push(branch.and_then(|branch| Some(sim.checker.as_mut()?.tell(branch))));
    }
    let mut known = None;
    if let (Some(actor), Some(checker)) = (actor, &mut sim.checker) {
        clocks.iter().flatten().for_each(|clock| checker.learn(actor, clock));
        known = Some(checker.tell(actor));
    }
    // An end of its own, also for a graph of nothing.
    let end = Sim::enqueue(sim, core, Work::Nothing);
    if let Some(exec) = sim.execs.get_mut(handle) {
        exec.last = Some((core, end));
        exec.clock = known;
    }
    Ok(())
}

fn run_step(sim: &mut Locked, core: CoreRef, branch: Option<Actor>, task: &Task) {
    match task {
        Task::Work { work, accesses, label } => {
            if let Some(branch) = branch {
                let label = sim.label(label);
                let thread = u64::from(thread_id());
                if let Some(moment) = sim.checker.as_mut().map(|checker| checker.step(branch, label, thread))
                {
                    sim.check_at(&moment, accesses);
                }
            }
            let work = with_knowledge(sim, branch, work.clone());
            Sim::enqueue(sim, core, work);
        }
        Task::RecordEvent(event) => {
            let clock = branch.and_then(|branch| Some(sim.checker.as_mut()?.tell(branch)));
            let shared = sim.events.get(*event).and_then(|event| event.shared.clone());
            record_now(sim, *event, core, shared, clock);
        }
        Task::WaitEvent(event) => {
            let Some(found) = sim.events.get(*event) else { return };
            let (recorded, shared) =
                (found.recorded.clone(), found.shared.clone().filter(|_| found.is_foreign()));
            if let (Some(branch), Recorded::Live { clock: Some(clock), .. }, Some(checker)) =
                (branch, &recorded, &mut sim.checker)
            {
                checker.learn(branch, clock);
            }
            // The stream's own knowledge comes from the branches at the end.
            if let Some(work) = wait_only(sim, &recorded, shared) {
                Sim::enqueue(sim, core, work);
            }
        }
        Task::Empty | Task::Child(_) => {}
    }
}

fn wait_only(sim: &Sim, recorded: &Recorded, foreign: Option<Arc<crate::ipc::SharedEvent>>) -> Option<Work> {
    if let Some(event) = foreign {
        let number = event.newest();
        return (!event.reached(number)).then_some(Work::WaitShared(event, number));
    }
    let Recorded::Live { core, position, .. } = recorded else { return None };
    (!sim.is_done(*core, *position)).then_some(Work::Wait(*core, *position))
}
