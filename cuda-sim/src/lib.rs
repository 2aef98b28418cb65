//! A simulated CUDA driver: `libcuda.so.1` for machines without a GPU.
//!
//! It moves real bytes, runs streams asynchronously, and finds accesses that nothing orders. The
//! modules below are declared in the order in which they may use each other.
//!
//! Built with `--cfg passthrough` (by `shadow/`), the same modules follow a real driver instead of
//! being one: objects have its handles, addresses are its addresses, and the simulator performs no
//! work but keeps track of the order.

#![recursion_limit = "1024"]
#![cfg_attr(passthrough, allow(dead_code))]
#![allow(clippy::missing_safety_doc, clippy::not_unsafe_ptr_arg_deref, clippy::type_complexity)]

pub mod access;
mod actor;
mod clock;
pub mod results;
pub mod config;
mod console;
mod handles;
mod missing;
mod resources;
mod stack;
mod shadow;
mod site;
mod timeline;
mod rules;
mod race;
mod checker;
mod memory;
mod ipc;
mod vmm;
mod work;
mod cudasim;
pub mod sim;
#[cfg(passthrough)]
#[path = "../shadow/src/mod.rs"]
mod passthrough;
mod queue;
mod graph;
mod capture;
mod ffi;
#[allow(non_snake_case)]
mod api;

/// Whether this build follows a real driver.
pub const PASSTHROUGH: bool = cfg!(passthrough);

pub use api::init::{ENTRIES, find_entry};
