//! Graphs as text in the language DOT.

use super::graph_params::{memcpy_params, memset_params};
use super::modules::name_of;
use crate::api::macros::api;
use crate::results::{Code, Result, refuse_if};
use crate::shown::{counted, shown};
use crate::sim::{Locked, Sim, Task};
use crate::work::{Choice, Launch, Work};
use std::ffi::{OsStr, c_char};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

// `CUgraphDebugDot_flags`.
const VERBOSE: u32 = 1;
const KERNELS: u32 = 1 << 2;
const COPIES: u32 = 1 << 3;
const FILLS: u32 = 1 << 4;
const HOST: u32 = 1 << 5;
const EVENTS: u32 = 1 << 6;
const HANDLES: u32 = 1 << 10;
const ALLOCATIONS: u32 = 1 << 11;
const FREES: u32 = 1 << 12;
const MEM_OPS: u32 = 1 << 13;
const CONDITIONS: u32 = 1 << 15;
const ALL: u32 = (1 << 18) - 1;

/// Returns text for use between quotation marks.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

fn kernel(sim: &Sim, launch: &Launch, details: bool) -> Vec<String> {
    let function = sim.functions.get(launch.handle);
    let name = function.map_or_else(|| "?".into(), |function| shown(function.name.to_bytes()));
    let mut lines = vec!["KERNEL".to_owned(), name];
    if details {
        let ([x, y, z], [a, b, c]) = (launch.grid.grid, launch.grid.block);
        let shared = launch.grid.shared_bytes;
        let shared = counted(shared, "byte");
        lines.push(format!("grid ({x}, {y}, {z}), block ({a}, {b}, {c}), {shared} shared"));
    }
    lines
}

/// Returns the lines of a copy: its direction always.
fn copy(sim: &Sim, node: u64, details: bool) -> Vec<String> {
    let mut lines = vec!["MEMCPY".to_owned()];
    if let Ok(params) = memcpy_params(sim, node) {
        let ([from, to], [width, height, depth]) = params.outline();
        let side = |memory| match memory {
            1 => "H",
            2 => "D",
            3 => "A",
            _ => "U",
        };
        lines.push(format!("{}to{}", side(from), side(to)));
        if details {
            let sizes = [(width, "byte"), (height, "row"), (depth, "layer")];
            lines.push(sizes.map(|(count, thing)| counted(count, thing)).join(", "));
        }
    }
    lines
}

fn fill(sim: &Sim, node: u64, details: bool) -> Vec<String> {
    let mut lines = vec!["MEMSET".to_owned()];
    if let (true, Ok(params)) = (details, memset_params(sim, node)) {
        lines.push(params.to_string());
    }
    lines
}

fn with(name: &str, details: bool, text: impl FnOnce() -> String) -> Vec<String> {
    let mut lines = vec![name.to_owned()];
    lines.extend(details.then(text));
    lines
}

/// Returns the lines of the label of a node: its type, and what the flags select.
fn label(sim: &Sim, node: u64, task: &Task, flags: u32) -> Vec<String> {
    let shows = |flag| flags & (flag | VERBOSE) != 0;
    match task {
        Task::Work { work: Work::Kernel(launch), .. } => kernel(sim, launch, shows(KERNELS)),
        Task::Work { work: Work::Copy(_), .. } => copy(sim, node, shows(COPIES)),
        Task::Work { work: Work::Fill(_), .. } => fill(sim, node, shows(FILLS)),
        Task::Work { work: Work::Host(call, _), .. } => {
            with("HOST", shows(HOST), || format!("{:#x}({:#x})", call.function, call.data))
        }
        Task::WaitEvent(event) => with("EVENT_WAIT", shows(EVENTS), || format!("event {event:#x}")),
        Task::RecordEvent(event) => {
            with("EVENT_RECORD", shows(EVENTS), || format!("event {event:#x}"))
        }
        Task::Child(_) => vec!["GRAPH".to_owned()],
        Task::Allocate(base) => with("MEM_ALLOC", shows(ALLOCATIONS), || format!("{base:#x}")),
        Task::Free(base) => with("MEM_FREE", shows(FREES), || format!("{base:#x}")),
        Task::MemOps(of) => {
            with("BATCH_MEM_OP", shows(MEM_OPS), || counted(of.all.len(), "operation"))
        }
        Task::Conditional { condition, choice, .. } => {
            let choice = match choice {
                Choice::If => "IF",
                Choice::While => "WHILE",
                Choice::Switch => "SWITCH",
            };
            with("CONDITIONAL", shows(CONDITIONS), || format!("{choice} of {}", condition.handle))
        }
        Task::Empty | Task::Work { .. } => match task.node_type() {
            11 => vec!["MEM_FREE".to_owned()],
            12 => vec!["BATCH_MEM_OP".to_owned()],
            _ => vec!["EMPTY".to_owned()],
        },
    }
}

/// Appends a graph as a cluster, with those of its nodes inside. The names have the numbers of
/// `cuGraphGetId` and `cuGraphNodeGetLocalId`.
fn cluster(sim: &Sim, graph: u64, title: &str, flags: u32, text: &mut String) -> Result {
    let found = sim.graphs.get(graph).ok_or(Code::INVALID_VALUE)?;
    let name = |at: usize| format!("\"graph_{}_node_{at}\"", found.id);
    let place = |node: u64| found.nodes.iter().position(|other| *other == node);
    let mut line = |line: String| {
        let _ = writeln!(text, "{line}");
    };
    line(format!("subgraph cluster_{} {{", found.id));
    line(format!("label=\"{}\";", quoted(title)));
    let mut inner = Vec::new();
    for (at, handle) in found.nodes.iter().enumerate() {
        let node = sim.nodes.get(*handle).ok_or(Code::INVALID_VALUE)?;
        let mut lines = vec![at.to_string()];
        lines.extend(label(sim, *handle, &node.task, flags));
        if flags & (HANDLES | VERBOSE) != 0 {
            lines.push(format!("node {handle:#x}"));
        }
        let lines: Vec<String> = lines.iter().map(|line| quoted(line)).collect();
        line(format!("{} [shape=\"rectangle\", label=\"{}\"];", name(at), lines.join("\\n")));
        for from in node.dependencies.iter().filter_map(|from| place(*from)) {
            line(format!("{} -> {};", name(from), name(at)));
        }
        match &node.task {
            Task::Child(child) => inner.push((*child, format!("graph of node {at}"))),
            Task::Conditional { bodies, .. } => inner.extend(
                bodies
                    .iter()
                    .enumerate()
                    .map(|(i, body)| (*body, format!("body {i} of node {at}"))),
            ),
            _ => {}
        }
    }
    for (graph, title) in inner {
        cluster(sim, graph, &title, flags, text)?;
    }
    text.push_str("}\n");
    Ok(())
}

fn write(sim: &mut Locked, graph: u64, path: *const c_char, flags: u32) -> Result {
    let id = sim.graphs.get(graph).ok_or(Code::INVALID_VALUE)?.id;
    let path = name_of(path)?;
    refuse_if(flags & !ALL != 0, Code::INVALID_VALUE)?;
    let mut text = String::from("digraph dot {\n");
    cluster(sim, graph, &format!("graph_{id}"), flags, &mut text)?;
    text.push_str("}\n");
    let file = OsStr::from_bytes(path.as_bytes());
    std::fs::write(file, text).map_err(|_| Code::OPERATING_SYSTEM)
}

api! {
    fn cuGraphDebugDotPrint(graph: u64, path: *const c_char, flags: u32) |sim| { write(sim, graph, path, flags) }
}
