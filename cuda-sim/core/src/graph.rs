//! Graphs: nodes, instantiation and launch.
//!
//! A graph is expanded when it is launched: its nodes become operations of the stream, in an order
//! that respects every dependency. For the checker, nodes without a dependency between them are
//! unordered: each chain of nodes is an actor of its own.

use crate::access::Access;
use crate::actor::Actor;
use crate::actor::Who;
use crate::clock::Clock;
use crate::conditions::Condition;
use crate::open_waits::Wanted;
use crate::queue::{record_now, wait_only, with_knowledge};
use crate::results::{Code, Result, refuse_if};
use crate::sim::{
    Exec, Graph, Locked, Node, Sim, Step, Task, known_at_release, release_graph_memory,
    release_objects, retain_objects, thread_id,
};
use crate::site::{Content, Moment};
use crate::work::{Choice, Conditional, StreamRef, Work};
use std::collections::HashSet;
use std::sync::Arc;

impl Sim {
    pub fn add_node(&mut self, graph: u64, task: Task, dependencies: Vec<u64>) -> Result<u64> {
        let mut unique = Vec::with_capacity(dependencies.len());
        for node in dependencies {
            if self.nodes.get(node).is_none_or(|node| node.graph != graph) || unique.contains(&node)
            {
                return Err(Code::INVALID_VALUE);
            }
            unique.push(node);
        }
        self.graphs.get(graph).ok_or(Code::INVALID_VALUE)?;
        let node = self.nodes.insert(Node::new(graph, task, unique));
        if let Some(graph) = self.graphs.get_mut(graph) {
            graph.nodes.push(node);
        }
        Ok(node)
    }
}

pub fn destroy_graph(sim: &mut Locked, graph: u64) {
    let Some(graph) = sim.graphs.remove(graph) else { return };
    for node in graph.nodes {
        destroy_node(sim, node);
    }
    release_objects(sim, &graph.objects, None);
}

pub fn destroy_node(sim: &mut Locked, node: u64) {
    match sim.nodes.remove(node).map(|node| node.task) {
        Some(Task::Child(graph)) => destroy_graph(sim, graph),
        Some(Task::Allocate(base)) => release_graph_memory(sim, base),
        Some(Task::Conditional { bodies, .. }) => {
            bodies.iter().for_each(|body| destroy_graph(sim, *body));
        }
        _ => {}
    }
}

/// Returns a copy of a graph, with nodes of its own.
pub fn clone_graph(sim: &mut Locked, graph: u64, child: bool) -> Result<u64> {
    let id = sim.id();
    let original = sim.graphs.get(graph).ok_or(Code::INVALID_VALUE)?;
    let (nodes, objects) = (original.nodes.clone(), original.objects.clone());
    // Graphs that allocate or free memory, or with conditional nodes, cannot be cloned.
    // [cuGraphClone]
    let task = |node: &u64| sim.nodes.get(*node).map(|node| &node.task);
    let is_unique = |node: &u64| {
        matches!(task(node), Some(Task::Allocate(_) | Task::Free(_) | Task::Conditional { .. }))
    };
    refuse_if(nodes.iter().any(is_unique), Code::NOT_SUPPORTED)?;
    retain_objects(sim, &objects);
    let copy = sim.graphs.insert(Graph { id, objects, child, ..Graph::default() });
    let mut twins = std::collections::HashMap::new();
    for old in &nodes {
        let Some(mut node) = sim.nodes.get(*old).map(|node| node.copy_for(copy)) else { continue };
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
            node.dependencies =
                node.dependencies.iter().filter_map(|old| twins.get(old).copied()).collect();
        }
    }
    Ok(copy)
}

/// Returns the nodes of a graph in an order in which each comes after its dependencies. Fails if
/// the dependencies form a circle.
fn sorted(sim: &Sim, graph: u64) -> Result<Vec<u64>> {
    let graph = sim.graphs.get(graph).ok_or(Code::INVALID_VALUE)?;
    let mut done = HashSet::new();
    let mut order = Vec::with_capacity(graph.nodes.len());
    let mut left = graph.nodes.clone();
    while !left.is_empty() {
        let before = left.len();
        left.retain(|handle| {
            let ready = sim
                .nodes
                .get(*handle)
                .is_none_or(|node| node.dependencies.iter().all(|d| done.contains(d)));
            if ready {
                done.insert(*handle);
                order.push(*handle);
            }
            !ready
        });
        refuse_if(left.len() == before, Code::INVALID_VALUE)?;
    }
    Ok(order)
}

/// Appends the steps of a graph, with those of child graphs in their place. `after`: the steps that
/// its first ones follow. Returns its last steps.
fn plan(sim: &Sim, graph: u64, after: &[usize], steps: &mut Vec<Step>) -> Result<Vec<usize>> {
    let mut ends: std::collections::HashMap<u64, Vec<usize>> = std::collections::HashMap::new();
    let mut last: HashSet<usize> = HashSet::new();
    for handle in sorted(sim, graph)? {
        let Some(node) = sim.nodes.get(handle) else { continue };
        let mut dependencies: Vec<usize> = node
            .dependencies
            .iter()
            .flat_map(|d| ends.get(d).cloned().unwrap_or_default())
            .collect();
        dependencies.iter().for_each(|step| {
            last.remove(step);
        });
        if dependencies.is_empty() {
            dependencies = after.to_vec();
        }
        let end = match &node.task {
            Task::Child(inner) => plan(sim, *inner, &dependencies, steps)?,
            Task::MemOps(of) => {
                for task in &of.tasks {
                    let task = task.clone();
                    steps.push(Step { node: handle, enabled: true, task, dependencies, chain: 0 });
                    dependencies = vec![steps.len() - 1];
                }
                dependencies
            }
            task => {
                let task = match task {
                    Task::Conditional { condition, choice, bodies } => {
                        conditional(sim, condition, *choice, bodies)?
                    }
                    task => task.clone(),
                };
                steps.push(Step { node: handle, enabled: true, task, dependencies, chain: 0 });
                vec![steps.len() - 1]
            }
        };
        last.extend(end.iter());
        ends.insert(handle, end);
    }
    let mut last: Vec<usize> = last.into_iter().collect();
    last.sort_unstable();
    // An empty graph ends where it began.
    Ok(if last.is_empty() { after.to_vec() } else { last })
}

/// Returns a conditional node as one operation, which makes the accesses of all of its bodies.
fn conditional(
    sim: &Sim,
    condition: &Arc<Condition>,
    choice: Choice,
    graphs: &[u64],
) -> Result<Task> {
    let mut all: Vec<Access> = Vec::new();
    let mut bodies = Vec::with_capacity(graphs.len());
    for graph in graphs {
        let mut steps = Vec::new();
        plan(sim, *graph, &[], &mut steps)?;
        let mut body = Vec::with_capacity(steps.len());
        for step in steps {
            match step.task {
                Task::Empty => {}
                Task::Work { work, accesses, .. } if is_for_bodies(&work) => {
                    all.extend(accesses);
                    body.push(work);
                }
                // Bodies have no other nodes. [CUDA_CONDITIONAL_NODE_PARAMS]
                _ => return Err(Code::INVALID_VALUE),
            }
        }
        bodies.push(body);
    }
    let node = Conditional { condition: condition.clone(), choice, bodies };
    let (work, label) = (Work::Conditional(Arc::new(node)), "a conditional node");
    Ok(Task::Work { work, accesses: all, label })
}

fn is_for_bodies(work: &Work) -> bool {
    matches!(work, Work::Kernel(_) | Work::Copy(_) | Work::Fill(_) | Work::Conditional(_))
}

/// Replaces the work of an executable graph by that of another graph with the same nodes and
/// dependencies. Returns why it cannot: the number of `CUgraphExecUpdateResult` and the node.
pub fn update(
    sim: &mut Locked,
    exec: u64,
    graph: u64,
) -> Result<std::result::Result<(), (i32, u64)>> {
    let mut new = Vec::new();
    plan(sim, graph, &[], &mut new)?;
    let old = sim.execs.get(exec).ok_or(Code::INVALID_VALUE)?.steps.clone();
    if old.len() != new.len() {
        return Ok(Err((TOPOLOGY_CHANGED, 0)));
    }
    for (old, new) in old.iter().zip(&mut new) {
        if old.dependencies != new.dependencies {
            return Ok(Err((TOPOLOGY_CHANGED, new.node)));
        }
        if old.task.node_type() != new.task.node_type() {
            return Ok(Err((NODE_TYPE_CHANGED, new.node)));
        }
        (new.chain, new.enabled) = (old.chain, old.enabled);
        // The program names nodes by the graph that was instantiated.
        new.node = old.node;
    }
    let objects = sim.graphs.get(graph).map_or_else(Vec::new, |graph| graph.objects.clone());
    retain_objects(sim, &objects);
    if let Some(exec) = sim.execs.get_mut(exec) {
        exec.steps = new.into();
        exec.objects.extend(objects);
    }
    Ok(Ok(()))
}

const TOPOLOGY_CHANGED: i32 = 2;
const NODE_TYPE_CHANGED: i32 = 3;

/// Changes a step of an executable graph, by its node.
pub fn change_step(
    sim: &mut Locked,
    exec: u64,
    node: u64,
    change: impl FnOnce(&mut Step) -> Result,
) -> Result {
    let exec = sim.execs.get_mut(exec).ok_or(Code::INVALID_VALUE)?;
    // Launches that were enqueued do not change.
    let mut steps = exec.steps.to_vec();
    change(steps.iter_mut().find(|step| step.node == node).ok_or(Code::INVALID_VALUE)?)?;
    exec.steps = steps.into();
    Ok(())
}

/// Replaces the tasks of a node of an executable graph by as many of the same types.
pub fn replace_tasks(sim: &mut Locked, exec: u64, node: u64, tasks: Vec<Task>) -> Result {
    let exec = sim.execs.get_mut(exec).ok_or(Code::INVALID_VALUE)?;
    let mut steps = exec.steps.to_vec();
    let mut of_node: Vec<&mut Step> = steps.iter_mut().filter(|step| step.node == node).collect();
    refuse_if(of_node.is_empty() || of_node.len() != tasks.len(), Code::INVALID_VALUE)?;
    for (step, task) in of_node.iter_mut().zip(tasks) {
        refuse_if(step.task.node_type() != task.node_type(), Code::INVALID_VALUE)?;
        step.task = task;
    }
    exec.steps = steps.into();
    Ok(())
}

/// Replaces the work of a child graph's node in an executable graph by that of another graph with
/// the same nodes and dependencies.
pub fn replace_child(sim: &mut Locked, exec: u64, node: u64, graph: u64) -> Result {
    let Some(Task::Child(child)) = sim.nodes.get(node).map(|node| &node.task) else {
        return Err(Code::INVALID_VALUE);
    };
    let (mut old, mut new) = (Vec::new(), Vec::new());
    plan(sim, *child, &[], &mut old)?;
    plan(sim, graph, &[], &mut new)?;
    let differs = |(old, new): (&Step, &Step)| {
        old.dependencies != new.dependencies || old.task.node_type() != new.task.node_type()
    };
    refuse_if(old.len() != new.len() || old.iter().zip(&new).any(differs), Code::INVALID_VALUE)?;
    for steps in old.chunk_by(|one, next| one.node == next.node) {
        let tasks = new.drain(..steps.len()).map(|step| step.task).collect();
        replace_tasks(sim, exec, steps[0].node, tasks)?;
    }
    Ok(())
}

pub fn instantiate(sim: &mut Locked, graph: u64, flags: u64) -> Result<u64> {
    let mut steps = Vec::new();
    plan(sim, graph, &[], &mut steps)?;
    // Chains: a step continues the chain of a step that it follows, if no other does.
    let mut tails: Vec<Option<usize>> = Vec::new();
    for (at, step) in steps.iter_mut().enumerate() {
        let follows = tails
            .iter()
            .position(|tail| tail.is_some_and(|tail| step.dependencies.contains(&tail)));
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
    let allocated = |step: &Step| match step.task {
        Task::Allocate(base) => Some(base),
        _ => None,
    };
    let memory: Vec<u64> = steps.iter().filter_map(allocated).collect();
    for base in &memory {
        if let Some(found) = sim.graph_memory.get_mut(base) {
            found.owners += 1;
        }
    }
    let exec = Exec { id, flags, memory, chains, objects, ..Exec::default() };
    Ok(sim.execs.insert(Exec { steps: steps.into(), ..exec }))
}

pub fn destroy_exec(sim: &mut Locked, exec: u64) -> Result {
    let exec = sim.execs.remove(exec).ok_or(Code::INVALID_VALUE)?;
    for base in &exec.memory {
        release_graph_memory(sim, *base);
    }
    if let Some(checker) = &mut sim.checker {
        exec.actors.iter().for_each(|actor| checker.retire(*actor));
    }
    // Work that still runs keeps the objects that it uses.
    match exec.last.filter(|(stream, position)| !sim.is_done(*stream, *position)) {
        Some((stream, _)) if !exec.objects.is_empty() => {
            let known = known_at_release(sim, exec.clock);
            Sim::enqueue(sim, stream, Work::Forget(exec.objects.into(), known.into()));
        }
        _ => release_objects(sim, &exec.objects, exec.clock),
    }
    Ok(())
}

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`
pub const AUTO_FREE_ON_LAUNCH: u64 = 1;

pub fn launch(sim: &mut Locked, handle: u64, stream: StreamRef) -> Result {
    let exec = sim.execs.get(handle).ok_or(Code::INVALID_VALUE)?;
    let (memory, frees) = (exec.memory.clone(), exec.flags & AUTO_FREE_ON_LAUNCH != 0);
    if let Some(lane) = sim.lane_of(stream)? {
        if crate::real_driver::is_present() {
            // Real drivers add a node, of which nothing else is known.
            return sim.capture_task(stream, lane, Task::Empty);
        }
        sim.invalidate(lane.capture);
        return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
    }
    sim.forbid_legacy(stream)?;
    // What the last launch allocated must have been freed. [cuGraphAddMemAllocNode]
    let mut freed = Vec::new();
    for base in memory {
        if sim.graph_memory.get(&base).is_some_and(|found| found.exists) {
            refuse_if(!frees, Code::INVALID_VALUE)?;
            freed.push(base);
        }
    }
    let steps = sim.execs.get(handle).ok_or(Code::INVALID_VALUE)?.steps.clone();
    for step in steps.iter() {
        if let Task::Work { work, .. } = &step.task {
            sim.track_number(work);
        }
    }
    sim.prepare(stream);
    let stream_id = sim.stream_mut(stream).id;
    let actor = sim.stream_mut(stream).actor;
    let Sim { execs, checker, .. } = &mut **sim;
    let Some(exec) = execs.get_mut(handle) else { return Err(Code::INVALID_VALUE) };
    if let Some(checker) = checker {
        while exec.actors.len() < exec.chains {
            exec.actors
                .push(checker.actor(None, Who::Branch { stream: stream_id, graph: exec.id }));
        }
        if let (Some(actor), Some(clock)) = (actor, &exec.clock) {
            checker.learn(actor, clock);
        }
    }
    let (actors, last) = (exec.actors.clone(), exec.last);
    for base in freed {
        let moment = sim.moment_on(stream, "cuGraphLaunch, which frees memory,");
        sim.graph_memory_ends(base, moment.as_ref())?;
    }
    let conditions: Vec<Arc<Condition>> = steps.iter().flat_map(conditions_of).collect();
    if let Some((other, position)) = last {
        if other != stream && !sim.is_done(other, position) {
            Sim::enqueue(sim, stream, Work::Wait(other, position));
        }
    }
    if !conditions.is_empty() {
        Sim::enqueue(sim, stream, Work::Assign(conditions.into()));
    }
    let start = actor.and_then(|actor| Some(sim.checker.as_mut()?.snapshot(actor)));
    let mut clocks: Vec<Option<Clock>> = Vec::with_capacity(steps.len());
    let mut is_shared = false;
    for step in steps.iter() {
        let branch = actors.get(step.chain).copied();
        if let (Some(branch), Some(checker)) = (branch, &mut sim.checker) {
            start.iter().for_each(|clock| checker.learn(branch, clock));
            for dependency in &step.dependencies {
                clocks[*dependency].iter().for_each(|clock| checker.learn(branch, clock));
            }
        }
        if step.enabled {
            run_step(sim, stream, branch, &step.task);
            is_shared |= matches!(&step.task, Task::Work { work, accesses, .. }
                if sim.writes_shared_number(work, accesses));
        }
        clocks.push(branch.and_then(|branch| Some(sim.checker.as_mut()?.snapshot(branch))));
    }
    let mut known = None;
    if let (Some(actor), Some(checker)) = (actor, &mut sim.checker) {
        clocks.iter().flatten().for_each(|clock| checker.learn(actor, clock));
        known = Some(checker.snapshot(actor));
    }
    // A launch has an end of its own, also if the graph is empty.
    let end = Sim::enqueue(sim, stream, Work::Nothing);
    if is_shared {
        Sim::wait_in_background(sim, stream, end);
    }
    if let Some(exec) = sim.execs.get_mut(handle) {
        exec.last = Some((stream, end));
        exec.clock = known;
    }
    Ok(())
}

fn conditions_of(step: &Step) -> Vec<Arc<Condition>> {
    match &step.task {
        Task::Work { work: Work::Conditional(node), .. } => node.conditions(),
        _ => Vec::new(),
    }
}

/// Returns the moment of a node without accesses of its own.
fn moment_of(
    sim: &mut Locked,
    stream: StreamRef,
    branch: Option<Actor>,
    label: &'static str,
) -> Option<Moment> {
    let (branch, label) = (branch?, sim.label(label));
    let stream = sim.stream_mut(stream).actor.unwrap_or(branch);
    let thread = u64::from(thread_id());
    Some(sim.checker.as_mut()?.step_of(branch, stream, label, thread, Content::Any))
}

fn run_step(sim: &mut Locked, stream: StreamRef, branch: Option<Actor>, task: &Task) {
    match task {
        Task::Work { work, accesses, label } => {
            if let Some(branch) = branch {
                let label = sim.label(label);
                let thread = u64::from(thread_id());
                let stream = sim.stream_mut(stream).actor.unwrap_or(branch);
                let content = work.content(accesses);
                let checker = sim.checker.as_mut();
                if let Some(moment) =
                    checker.map(|checker| checker.step_of(branch, stream, label, thread, content))
                {
                    sim.check_at(&moment, accesses);
                }
                if let Work::WaitValue { address, value, wide, flags } = *work {
                    let word = sim.word_at(address, wide);
                    sim.wait_for_number(branch, Wanted { word, value, flags });
                }
            }
            sim.report_ignored(work, accesses, label);
            let work = sim.or_fault(stream, work.clone(), accesses);
            let work = with_knowledge(sim, branch, work);
            Sim::enqueue(sim, stream, work);
        }
        Task::RecordEvent(event) => {
            let clock = branch.and_then(|branch| Some(sim.checker.as_mut()?.snapshot(branch)));
            let shared = sim.events.get(*event).and_then(|event| event.shared.clone());
            record_now(sim, *event, stream, shared, clock);
        }
        Task::WaitEvent(event) => {
            let Some(found) = sim.events.get(*event) else { return };
            let (recorded, shared) =
                (found.recorded.clone(), found.shared.clone().filter(|_| found.is_foreign()));
            let clock = sim.counted(*event, "an event wait node", branch);
            if let (Some(branch), Some(checker)) = (branch, &mut sim.checker) {
                match &shared {
                    Some(event) => checker.learn_counts(branch, &event.known()),
                    None => clock.iter().for_each(|clock| checker.learn(branch, clock)),
                }
            }
            // The stream learns it from the branches at the end of the launch.
            if let Some(work) = wait_only(sim, &recorded, shared) {
                Sim::enqueue(sim, stream, work);
            }
        }
        Task::Allocate(base) => {
            let moment = moment_of(sim, stream, branch, "an allocation node (cuMemAllocAsync)");
            sim.graph_memory_begins(*base, moment);
        }
        // Another graph or the program may have freed it.
        Task::Free(base) => {
            let moment = moment_of(sim, stream, branch, "a free node (cuMemFreeAsync)");
            let _ = sim.graph_memory_ends(*base, moment.as_ref());
        }
        // The plan has what they consist of.
        Task::Empty | Task::Child(_) | Task::MemOps(_) | Task::Conditional { .. } => {}
    }
}
