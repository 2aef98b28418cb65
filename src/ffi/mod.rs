//! The exported functions, one file for each module.
//!
//! Every function is written out: it gives its arguments the types of [`argument`](crate::argument),
//! calls the module, and writes its outputs on success only. [`guard`] turns a failure, or a panic,
//! into a status and the caller's `cai_error`. The order of the public files is that of the functions in cai.h.

mod guard;
#[cfg(debug_assertions)]
mod returns;
mod text;

pub mod library;
pub mod dtype;
pub mod layout;
pub mod owner;
pub mod array;
pub mod driver;
pub mod validate;
pub mod sync;
pub mod dlpack;
pub mod python;

pub mod unstable;
