//! A simulated CUDA driver: `libcuda.so.1` for machines without a GPU. It moves real bytes, runs streams
//! asynchronously, and finds accesses that nothing orders.
//!
//! The rooms, each using only those before it (`sim`, `capture`, `graph` and `vmm` are one state and know each other):

#![recursion_limit = "1024"]
#![allow(clippy::missing_safety_doc, clippy::not_unsafe_ptr_arg_deref, clippy::type_complexity)]

pub mod access;
mod clock;
pub mod config;
mod handles;
mod memory;
mod resources;
pub mod results;
mod shadow;
mod stack;

mod checker;
mod ipc;
mod work;

mod capture;
mod graph;
pub mod sim;
mod vmm;

mod border;
#[allow(non_snake_case)]
mod api;

pub use api::init::{ENTRIES, find_entry};
