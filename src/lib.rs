//! The C side of the CUDA Array Interface.
//!
//! This crate is a C library that happens to be written in Rust. Its manual is the headers in
//! `include/cai`; Rust programs use the crate `libcai`, which has a safe interface to it. The
//! functions have their C names with the feature `exports`, which is on by default.
//!
//! The modules below are listed in dependency order: a module imports only from modules above it,
//! and the test `modules` checks that.
//!
//! | module | purpose |
//! |---|---|
//! | [`abi`] | types and constants of the ABI; no logic |
//! | `error` | the inner error: status, field, found, expected |
//! | `flags` | names of flags, for messages |
//! | `unwind` | catches panics without stopping threads that end |
//! | `environment` | reads environment variables without allocation |
//! | `library` | opens shared libraries without allocation |
//! | `memory` | boxes whose allocation may fail |
//! | `read` | reads foreign structures without trusting their size |
//! | `dtype` | typestr and fields: parse, format, compare |
//! | `layout` | counts, spans, contiguity: checked arithmetic |
//! | `device` | what a device type implies: streams of CUDA or HIP, an address or a handle |
//! | `observer` | one optional observer of exchanges: the race checker |
//! | `owner` | reference counts, and blocks that hold a copied description |
//! | `argument` | pointers of a C caller, typed by what the header requires of them |
//! | `driver` | the CUDA driver and HIP, loaded at run time: streams, contexts, events, addresses |
//! | `validate` | the rules of the array, one status each |
//! | `sync` | orders producers and consumers on their streams; deferred release |
//! | `copy` | copies to and from host memory, in C order |
//! | `dlpack` | imports and exports DLPack tensors |
//! | `arrow` | imports and exports arrays of the Arrow C device interface |
//! | `ipc` | arrays as bytes for other processes |
//! | `json` | the array interface as text |
//! | `python` | imports and exports Python objects |
//! | [`ffi`] | the exported functions: thin, literal, documented for C |
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
// The contract of every exported function is written for C; a `# Safety` section would appear in
// the headers.
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
mod python;
pub mod ffi;
