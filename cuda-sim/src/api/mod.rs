//! The functions of the driver, a file a theme, as in cuda.h. Each is thin: it reads its arguments, asks the
//! rooms behind it, and writes its results.

pub mod annotations;
pub mod contexts;
pub mod copies;
mod devices;
pub mod events;
pub mod graphs;
pub mod green;
pub mod init;
mod macros;
mod ipc;
pub mod memory;
pub mod modules;
pub mod pools;
pub mod streams;
mod stubs;
mod vmm;
