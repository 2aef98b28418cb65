//! Graphs, their nodes, executable graphs, user objects and captures, as data.

use crate::access::Access;
use crate::actor::Actor;
use crate::clock::{Clock, Knowledge};
use crate::conditions::Condition;
use crate::site::Site;
use crate::work::{Choice, StreamRef, Work};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The work of a node. `node_type` returns the number of `CUgraphNodeType`.
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
    /// A graph of its own, destroyed with this node.
    Child(u64),
    /// Memory of a graph begins or ends, by its address.
    Allocate(u64),
    Free(u64),
    /// Operations on values in memory, one after another.
    MemOps(Arc<MemOps>),
    /// A conditional node. Its bodies are destroyed with it.
    Conditional {
        condition: Arc<Condition>,
        choice: Choice,
        bodies: Arc<[u64]>,
    },
}

/// `CUstreamBatchMemOpParams`: a wait for or a write of a value. The others are shorter.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemOp {
    pub operation: i32,
    pub address: u64,
    pub value: u64,
    pub flags: u32,
    rest: [u64; 2],
}
const _: () = assert!(size_of::<MemOp>() == 48);

pub struct MemOps {
    pub context: u64,
    /// The operations as the program passed them.
    pub all: Vec<MemOp>,
    /// The work of each of them.
    pub tasks: Vec<Task>,
}

#[derive(Clone)]
pub struct Node {
    pub graph: u64,
    /// A number of its own, because handles are used again.
    pub id: u64,
    /// The number of the node of which it is a copy; 0 for none.
    pub original: u64,
    pub task: Task,
    pub dependencies: Vec<u64>,
    /// The pointers to the arguments of a kernel, once the program has asked for them.
    pub arguments: Vec<usize>,
}

impl Node {
    pub fn new(graph: u64, task: Task, dependencies: Vec<u64>) -> Node {
        let (id, original) = (Node::next_id(), 0);
        Node { graph, id, original, task, dependencies, arguments: Vec::new() }
    }

    /// Returns a copy for another graph, with the dependencies of the original.
    pub fn copy_for(&self, graph: u64) -> Node {
        Node { graph, id: Node::next_id(), original: self.id, ..self.clone() }
    }

    fn next_id() -> u64 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        LAST.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Task {
    pub fn node_type(&self) -> i32 {
        match self {
            Task::Work { work: Work::Kernel(_), .. } => 0,
            Task::Work { work: Work::Copy(_), .. } => 1,
            Task::Work { work: Work::Fill(_), .. } => 2,
            Task::Work { work: Work::Host(..), .. } => 3,
            Task::Child(_) => 4,
            Task::Empty => 5,
            Task::WaitEvent(_) => 6,
            Task::RecordEvent(_) => 7,
            Task::Allocate(_) => 10,
            Task::Free(_) => 11,
            Task::Work { work: Work::Store { .. } | Work::WaitValue { .. }, .. } => 12,
            Task::Work { work: Work::Release(_), .. } => 11,
            Task::MemOps(_) => 12,
            Task::Conditional { .. } | Task::Work { work: Work::Conditional(_), .. } => 13,
            Task::Work { .. } => 5,
        }
    }
}

#[derive(Default)]
pub struct Graph {
    pub id: u64,
    pub nodes: Vec<u64>,
    /// User objects, with the number of references that the graph holds.
    pub objects: Vec<(u64, u32)>,
    pub child: bool,
    pub conditions: Vec<Arc<Condition>>,
}

/// Memory of allocation nodes. Its address is fixed when the node is created, and remains that of
/// the node; its content exists from an allocation to a free.
pub struct GraphMemory {
    pub size: u64,
    pub device: i32,
    pub exists: bool,
    /// Where it was freed last.
    pub freed: Option<Arc<Site>>,
    /// The number of nodes and executable graphs that allocate it.
    pub owners: u32,
}

/// Memory of the graphs of a device: the pool that has the addresses, and the values of
/// `CUgraphMem_attribute`.
#[derive(Default)]
pub struct GraphMemoryUse {
    pub pool: u64,
    pub attributes: [u64; 4],
}

/// An object of the program that graphs keep alive.
pub struct UserObject {
    pub destroy: usize,
    pub data: usize,
    pub refs: u64,
    /// Everything that happens before its end.
    pub known: Knowledge,
}

/// One node of an executable graph.
#[derive(Clone)]
pub struct Step {
    /// The node of the graph that it was made from.
    pub node: u64,
    pub enabled: bool,
    pub task: Task,
    pub dependencies: Vec<usize>,
    pub chain: usize,
}

#[derive(Default)]
pub struct Exec {
    pub id: u64,
    /// `CUgraphInstantiate_flags`.
    pub flags: u64,
    /// The memory that its nodes allocate, by address.
    pub memory: Vec<u64>,
    pub steps: Arc<[Step]>,
    pub chains: usize,
    pub actors: Vec<Actor>,
    pub objects: Vec<(u64, u32)>,
    /// The end of its last launch: the next one waits for it, in whatever stream.
    pub last: Option<(StreamRef, u64)>,
    pub clock: Option<Clock>,
}

impl Exec {
    /// Returns whether it has nodes that call functions of the program.
    pub fn calls_the_host(&self) -> bool {
        self.steps.iter().any(|step| matches!(&step.task, Task::Work { work: Work::Host(..), .. }))
    }
}

/// The part of a stream in a capture: the nodes that its next node depends on.
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
    pub origin: StreamRef,
    pub streams: Vec<StreamRef>,
    pub invalidated: bool,
    /// The graph existed before the capture, so it survives a failure.
    pub to_graph: bool,
}
