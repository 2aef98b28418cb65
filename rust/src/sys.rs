//! The C interface as it is: structures, constants and functions of `cai/cai.h`.
//!
//! The functions are those of the C library under the same names, called as Rust functions: a
//! library that depends on this crate exports none of them. Each states in its documentation what
//! its caller has to ensure. The safe types of this crate lead here and back: [`ArrayRef::as_ptr`],
//! [`Array::from_raw`], [`Array::into_raw`].
//!
//! ```
//! use libcai::{Array, sys};
//!
//! let bytes = Array::from_vec((0..40).collect::<Vec<u8>>(), &[40])?;
//! let mut overlap = false;
//! // SAFETY: the array is valid, and the output is writable.
//! let status = unsafe {
//!     let (a, b) = (bytes.as_ptr(), bytes.as_ptr());
//!     sys::cai_array_may_overlap(a, b, &mut overlap, std::ptr::null_mut())
//! };
//! assert!(status == sys::CAI_OK && overlap);
//! # Ok::<(), libcai::Error>(())
//! ```
//!
//! [`Array::from_raw`]: crate::Array::from_raw
//! [`Array::into_raw`]: crate::Array::into_raw
//! [`ArrayRef::as_ptr`]: crate::ArrayRef::as_ptr

pub use cai::abi::*;
pub use cai::ffi::array::*;
pub use cai::ffi::dlpack::*;
pub use cai::ffi::driver::*;
pub use cai::ffi::dtype::*;
pub use cai::ffi::layout::*;
pub use cai::ffi::library::*;
pub use cai::ffi::owner::*;
pub use cai::ffi::python::*;
pub use cai::ffi::sync::*;
pub use cai::ffi::unstable::arrow::*;
pub use cai::ffi::unstable::copy::*;
pub use cai::ffi::unstable::exchange::*;
pub use cai::ffi::unstable::ipc::*;
pub use cai::ffi::unstable::json::*;
pub use cai::ffi::unstable::release::*;
pub use cai::ffi::unstable::view::*;
pub use cai::ffi::validate::*;
