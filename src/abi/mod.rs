//! What both sides of the border see: types and constants, no logic.
//!
//! May use: nothing. `unsafe`: none.
//!
//! This is the only room with public `#[repr(C)]` types. Their doc comments become `cai.h`, so they
//! speak to the reader of C. Sizes and offsets are asserted at the end of each file; the C tests
//! assert the same numbers on their side.

#![allow(non_camel_case_types)]

mod version;
mod status;
mod error;
mod owner;
mod dtype;
mod array;
mod driver;
mod sync;
mod bridge;

pub use array::*;
pub use bridge::*;
pub use driver::*;
pub use dtype::*;
pub use error::*;
pub use owner::*;
pub use status::*;
pub use sync::*;
pub use version::*;

#[cfg(not(target_pointer_width = "64"))]
compile_error!("cai_array is specified for 64-bit platforms, the only ones that CUDA supports");
