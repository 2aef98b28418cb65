//! Types and constants of both sides of the ABI boundary, one file for each header; no logic.
//!
//! The only module with public `#[repr(C)]` types. The doc comments are those of the headers: they
//! address C programmers. Sizes and offsets are asserted at the end of each file, and by the
//! headers. `core` is the data of `cai/abi.h`, which programs copy; every other file is named as
//! its header. `headers/` has the configuration of each header, with its prose, for `tools/headers`.
//! `dtypes.txt` and `devices.txt` are the tables of element types and of devices, which
//! `tables.rs` reads for the build script and for `tools/headers`.

#![allow(non_camel_case_types)]

/// Asserts the size of a structure, and where some of its members begin.
macro_rules! layout {
    ($name:ident: $size:literal $(; $($member:ident $offset:literal),+)?) => {
        const _: () = assert!(size_of::<$name>() == $size);
        $($(const _: () = assert!(std::mem::offset_of!($name, $member) == $offset);)+)?
    };
}

mod version;
mod core;
mod status;
mod array;
mod dtype;
mod sync;
mod driver;
mod dlpack;
mod arrow;
mod python;
mod unstable;

pub use array::*;
pub use arrow::*;
pub use core::*;
pub use dlpack::*;
pub use driver::*;
pub use dtype::*;
pub use python::*;
pub use status::*;
pub use sync::*;
pub use unstable::*;
pub use version::*;

#[cfg(not(target_pointer_width = "64"))]
compile_error!("the layouts are specified for 64-bit platforms, the only ones that CUDA supports");
