//! The simulated CUDA driver and its race checker, without the functions that a library exports.
//!
//! It moves real bytes, runs streams asynchronously, and finds accesses that nothing orders. The
//! modules below are declared in the order in which they may use each other. Front ends export the
//! functions of `api`: `driver/` as a driver, `shadow/` beside a real one.
//!
//! Beside a real driver, the same modules follow it instead of being one: objects have its handles,
//! addresses are its addresses, and the simulator performs no work but keeps track of the order.

#![recursion_limit = "1024"]
#![allow(clippy::missing_safety_doc, clippy::not_unsafe_ptr_arg_deref, clippy::type_complexity)]

pub mod functions;
pub mod access;
mod actor;
mod counts;
pub mod clock;
pub mod cudasim;
pub mod real_driver;
pub mod results;
pub mod environment;
pub mod console;
pub mod shown;
pub mod config;
pub mod handles;
mod missing;
mod journal;
pub mod resources;
mod modules;
mod python;
mod stack;
mod lines;
mod shadow;
mod site;
mod timeline;
mod rules;
mod waits;
mod again;
mod race;
mod advice;
mod instrumented;
pub mod memory;
pub mod declarations;
mod written;
mod processes;
mod foreign;
mod ipc;
mod conditions;
pub mod work;
mod threads;
mod open_waits;
mod checker;
mod vmm;
pub mod sim;
mod queue;
pub mod graph;
pub mod capture;
pub mod context;
pub mod ffi;
pub mod follow;
#[allow(non_snake_case)]
pub mod api;
