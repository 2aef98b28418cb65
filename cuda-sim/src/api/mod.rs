//! The functions of the driver, a file a theme, as in cuda.h. Each is thin: it reads its arguments, asks the
//! rooms behind it, and writes its results.

pub mod annotations;
mod contexts;
mod copies;
mod devices;
mod events;
mod graphs;
mod green;
pub mod init;
mod ipc;
mod memory;
mod modules;
mod pools;
mod streams;
mod stubs;
mod vmm;
