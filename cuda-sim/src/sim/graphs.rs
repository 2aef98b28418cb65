//! Graphs, their nodes, executable graphs, user objects and captures, as data.
//!
//! May use: `access`, `clock`, `work`. Unsafe: none.

use crate::access::Access;
use crate::clock::{Actor, Clock};
use crate::work::{CoreRef, Work};
use std::sync::Arc;

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

/// One node of an executable graph.
pub struct Step {
    pub task: Task,
    pub dependencies: Vec<usize>,
    pub chain: usize,
}

pub struct Exec {
    pub id: u64,
    pub steps: Arc<[Step]>,
    pub chains: usize,
    pub actors: Vec<Actor>,
    pub objects: Vec<(u64, u32)>,
    /// Where its last launch ends: the next one waits for it, wherever it goes.
    pub last: Option<(CoreRef, u64)>,
    pub clock: Option<Clock>,
}

impl Exec {
    /// Whether functions of the program are among its nodes.
    pub fn calls_the_host(&self) -> bool {
        self.steps.iter().any(|step| matches!(&step.task, Task::Work { work: Work::Host(..), .. }))
    }
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
