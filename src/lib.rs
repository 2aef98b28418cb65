//! The C side of the CUDA Array Interface.
//!
//! This crate is a C library that happens to be written in Rust: its manual is `include/cai/cai.h`.
//! The rooms below stand in the order in which they may depend on each other; nothing imports
//! upwards.
//!
//! | room | what it is for |
//! |---|---|
//! | [`abi`] | types and constants that both sides of the border see; no logic |
//! | `error` | the inner error: status, field, found, expected |
//! | `read` | foreign structures, read without trusting their size |
//! | `dtype` | typestr and fields: parse, format, compare |
//! | `layout` | counts, spans, contiguity: checked arithmetic |
//! | `observer` | one optional observer of exchanges: the race checker |
//! | `owner` | reference counts, and blocks that hold a copied description |
//! | `driver` | the CUDA driver, found at run time: streams, contexts, events, addresses |
//! | `validate` | the rules of the array, one status each |
//! | `sync` | ordering producers and consumers on their streams, and lifetime on streams |
//! | `dlpack` | DLPack tensors, imported and exported |
//! | `python` | Python objects, imported and exported |
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
// The contract of every exported function is written for C; a `# Safety` section would show up in
// cai.h.
#![allow(clippy::missing_safety_doc)]

#[cfg(panic = "abort")]
compile_error!("libcai turns panics into statuses: build it with panic = \"unwind\"");

pub mod abi;
mod error;
mod read;
mod dtype;
mod layout;
mod observer;
mod owner;
mod driver;
mod validate;
mod sync;
mod dlpack;
mod python;
pub mod ffi;
