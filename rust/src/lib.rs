//! GPU arrays between libraries and languages.
//!
//! An [`Array`] describes an n-dimensional array in the memory of a GPU or of the host, and keeps
//! it alive: address, shape, strides, type, device, and the CUDA stream on which work on it may be
//! pending. Its 128 bytes are plain data of a stable C ABI, so that a plug-in in C, C++, Rust or
//! Python passes an array on without knowing who made it, and without copying the data. The
//! contents are those of the [CUDA Array Interface], version 3; DLPack tensors and Python objects
//! become arrays, and arrays become them.
//!
//! [CUDA Array Interface]: https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html
//!
//! | type | is |
//! |---|---|
//! | [`Array`] | an array with a reference; [`ArrayRef`], a borrowed one |
//! | [`Builder`] | describes an array of any memory |
//! | [`View`], [`ViewMut`] | the elements of an array in memory that the host can read |
//! | [`ContiguousView`] | those of a view without gaps: a slice with a shape |
//! | [`Owner`] | keeps data alive: any `Box`, `Arc` or other object |
//! | [`Device`], [`Stream`] | where the data is, and on which stream work on it is pending |
//! | [`Element`] | the types of elements: numbers, [`Bool`], [`Complex`], and yours |
//! | [`ImportOptions`] | what is accepted of a Python object |
//! | [`Consumer`], [`Producer`] | order the work of two libraries on their CUDA streams |
//! | [`Error`] | status, field, value found and value expected |
//! | [`sys`] | the C interface as it is |
//!
//! # Example
//!
//! A function of a plug-in that C code calls: it receives an array of any library, and returns one
//! of its own.
//!
//! ```
//! use libcai::{Array, ArrayRef, Ix, Result, sys};
//!
//! /// Returns the sums of the rows, in host memory.
//! fn row_sums(array: &ArrayRef) -> Result<Array> {
//!     let view = array.view::<f32, Ix<2>>()?;
//!     let sums: Vec<f32> = view.rows().map(|row| row.iter().sum()).collect();
//!     Array::from_vec(sums, &[view.extent(0) as i64])
//! }
//!
//! /// # Safety
//! /// As `cai/cai.h` requires it of arrays that are passed, and of outputs.
//! #[unsafe(no_mangle)]
//! pub unsafe extern "C" fn plugin_row_sums(
//!     array: *const sys::cai_array,
//!     out: *mut sys::cai_array,
//!     error: *mut sys::cai_error,
//! ) -> sys::cai_status {
//!     let result = unsafe {
//!         ArrayRef::from_ptr(array).and_then(row_sums).and_then(|sums| sums.write_to(out))
//!     };
//!     match result {
//!         Ok(()) => sys::CAI_OK,
//!         Err(why) => unsafe { why.write_to(error) },
//!     }
//! }
//! # let array = Array::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
//! # let sums = unsafe {
//! #     Array::receive(|out, error| plugin_row_sums(array.as_ptr(), out, error))
//! # }?;
//! # assert_eq!(sums.to_vec::<f32>()?, [3.0, 7.0]);
//! # Ok::<(), libcai::Error>(())
//! ```
//!
//! # What is safe
//!
//! The type of an array is dynamic, so every access checks: a wrong type, shape or device is an
//! [`Error`]. Two things cannot be checked, and are promises in `unsafe` functions:
//!
//! - What comes from other code ([`Array::from_raw`], [`Array::from_python`], ...) is what it
//!   states.
//! - Nothing else writes to the data of such an array while a [`View`] of it exists. Arrays of
//!   Rust's own memory ([`Array::from_vec`], [`Array::from_owner`]) are not written by safe code.
//!
//! Data in the memory of a device is accessed by kernels, which are `unsafe` to launch; a
//! [`Consumer`] orders them with the work of the producer. Lifetimes bind a [`Stream`] to the
//! stream whose handle it has, and a [`View`] to its array.
//!
//! # Threads
//!
//! All types are `Send` and `Sync` if their elements are, except [`Builder`]. An owner's object may
//! be dropped on any thread, with any CUDA context current or none, and during a stream capture.
//!
//! # CUDA
//!
//! The CUDA driver is loaded when the first function needs it, and nothing of it is linked. Arrays
//! in host memory, and device arrays that are consumed on their own stream, need no driver.
//!
//! # Libraries
//!
//! A `cdylib` or `staticlib` that uses this crate exports none of its functions: several copies, of
//! any version, work in one process. If a shared library can be unloaded while others hold arrays
//! of it, keep its code mapped; with GNU's linker and LLVM's, in its build script:
//!
//! ```
//! println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
//! ```
//!
//! # Features
//!
//! - `cudarc`: conversions of the slices of [cudarc](https://docs.rs/cudarc), see the module
//!   `cudarc`. Choose the version of CUDA by the features of cudarc.
#![deny(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod sys;
mod error;
mod device;
mod element;
mod owner;
mod view;
mod contiguous;
mod array;
mod builder;
mod copy;
mod stream;
mod exchange;
#[cfg(feature = "cudarc")]
pub mod cudarc;

pub use array::{Array, ArrayRef};
pub use builder::Builder;
pub use contiguous::ContiguousView;
pub use device::{Device, Stream};
pub use element::{Bool, Complex, Element};
pub use error::{Error, Result};
pub use exchange::{ImportOptions, PyObject};
pub use owner::Owner;
pub use stream::{Access, Consumer, Producer};
pub use view::{Dimension, Iter, Ix, IxDyn, Rows, View, ViewMut};

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
