//! The functions of the driver, one file for each subject, as in cuda.h. Each is thin: it reads its
//! arguments, calls the modules below, and writes its results.

pub mod annotations;
pub mod contexts;
mod copy_order;
pub mod copies;
pub mod devices;
pub mod events;
pub mod fills;
pub mod pools;
pub mod streams;
pub mod batches;
pub mod mem_ops;
pub mod graph_params;
pub mod graphs;
pub mod graph_dot;
pub mod conditionals;
pub mod graph_nodes;
pub mod green;
pub mod init;
pub mod instrumented;
mod macros;
pub mod ipc;
pub mod managed;
pub mod memory;
pub mod modules;
pub mod vmm;
