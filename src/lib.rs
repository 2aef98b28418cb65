//! The C side of the CUDA Array Interface.
//!
//! This crate is a C library that happens to be written in Rust. Its manual is the headers in
//! `include/cai`; Rust programs use the crate `libcai`, which has a safe interface to it. The
//! functions have their C names with the feature `exports`, which is on by default.
//!
//! The modules below are in dependency order: each imports only from those above it.
//! `CONTRIBUTING.md` shows how they fit together.
#![deny(missing_docs)]
#![cfg_attr(
    not(test),
    deny(
        clippy::panic,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::todo,
        clippy::unimplemented
    )
)]
// Contracts of exported functions are written for C: `# Safety` sections would be in the headers.
#![allow(clippy::missing_safety_doc)]

#[cfg(all(panic = "abort", feature = "exports"))]
compile_error!("libcai turns panics into statuses: build it with panic = \"unwind\"");

pub mod abi;
mod error;
mod flags;
mod unwind;
mod environment;
mod library;
mod memory;
mod published;
mod read;
mod dtype;
mod layout;
#[doc(hidden)] // the crate `libcai` uses it
pub mod device;
mod observer;
mod owner;
mod argument;
mod driver;
mod validate;
mod sync;
mod copy;
mod dlpack;
mod arrow;
mod ipc;
mod json;
mod slice;
mod python;
pub mod ffi;
