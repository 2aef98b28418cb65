//! The state of the simulated driver: data, streams that run, order, and the end of the process.
//!
//! `objects` and `graphs` are the data, `state` holds them behind one lock. `contexts`, `streams`,
//! `allocations` and `user_objects` create and end objects, `pools` and `graph_memory` have theirs;
//! `order` determines what happens before what, `barrier` what allocating and freeing memory orders, `numbers` has waits for numbers in memory, `engine`
//! runs streams, `callbacks` calls functions of the program, `green` has green contexts, `exchange`
//! checks the rules of array exchange, and `exit` reports at the end of the process.

pub mod graphs;
pub mod objects;
mod shared;
pub mod state;

mod allocations;
mod barrier;
mod callbacks;
mod contexts;
mod engine;
mod exchange;
mod exit;
mod graph_memory;
mod green;
mod order;
mod numbers;
mod pools;
mod streams;
mod records;
mod sharing;
mod user_objects;

pub use contexts::{end_context, new_context};
pub use exit::{RACES_EXIT_CODE, at_exit};
pub use graph_memory::{give_back_graph_memory, release_graph_memory};
pub use graphs::{
    Capture, Exec, Graph, GraphMemory, GraphMemoryUse, Lane, MemOp, MemOps, Node, Step, Task,
    UserObject,
};
pub use objects::{
    Context, DEVICE, Event, Freed, Function, Green, MANAGED, PINNED, Pool, PoolLocation, Recorded,
    Registered, Stream, StreamKind,
};
pub use state::{
    EXITED, Locked, PROCESS, Sim, config, has_ended, is_locked_here, lock, start, thread_id,
};
pub use user_objects::{known_at_release, release_objects, retain_objects};
