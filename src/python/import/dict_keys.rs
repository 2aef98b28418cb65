//! Keys and protocols of the interface dictionaries.

use std::ffi::CStr;

use crate::abi;
use crate::error::Failure;
use crate::python::names;
use crate::python::py::{Obj, Owned};

/// The protocol that a dictionary belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `__cuda_array_interface__`
    Cuda,
    /// `__sycl_usm_array_interface__`: strides and offset are in elements.
    Sycl,
    /// `__array_interface__`
    Host,
    /// Attributes with the same contents instead of a dictionary: the buffer interface.
    Buffer,
}

impl Protocol {
    /// Returns the name of the attribute.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Cuda => "__cuda_array_interface__",
            Protocol::Sycl => "__sycl_usm_array_interface__",
            Protocol::Host => "__array_interface__",
            Protocol::Buffer => "buffer interface",
        }
    }

    /// Returns its number, `CAI_PROTOCOL_`.
    pub fn number(self) -> u8 {
        match self {
            Protocol::Cuda => abi::CAI_PROTOCOL_CUDA_ARRAY_INTERFACE,
            Protocol::Sycl => abi::CAI_PROTOCOL_SYCL_USM,
            Protocol::Host => abi::CAI_PROTOCOL_ARRAY_INTERFACE,
            Protocol::Buffer => abi::CAI_PROTOCOL_OPENCL_BUFFER,
        }
    }

    pub fn versions(self) -> std::ops::RangeInclusive<i64> {
        match self {
            Protocol::Cuda => 0..=3,
            Protocol::Sycl => 1..=1,
            Protocol::Host | Protocol::Buffer => 3..=3,
        }
    }
}

// The keys have the order in which most producers write them.
pub(crate) const SHAPE: usize = 0;

pub(crate) const TYPESTR: usize = 1;

pub(crate) const DATA: usize = 2;

pub(crate) const VERSION: usize = 3;

pub(crate) const STRIDES: usize = 4;

pub(crate) const STREAM: usize = 5;

pub(crate) const DESCR: usize = 6;

pub(crate) const MASK: usize = 7;

pub(crate) const OFFSET: usize = 8;

pub(crate) const SYCLOBJ: usize = 9;

pub(crate) const KEYS: usize = names::KEYS;

pub(crate) const TEXTS: [&CStr; KEYS] = [
    c"shape", c"typestr", c"data", c"version", c"strides", c"stream", c"descr", c"mask", c"offset",
    c"syclobj",
];

/// Objects of a dictionary besides the description.
pub struct OtherObjects<'py> {
    /// The object in `descr`, if it is used or has to be checked.
    pub descr: Option<Owned<'py>>,
    /// The object in `mask`.
    pub mask: Option<Owned<'py>>,
    /// The object in `syclobj`.
    pub syclobj: Option<Owned<'py>>,
    /// The owner of the memory in `data`, if an object lends it.
    pub lent: Option<Owned<'py>>,
}

impl OtherObjects<'_> {
    /// Returns the object in `mask`.
    pub fn mask_object(&self) -> Option<Obj<'_>> {
        self.mask.as_ref().map(Owned::obj)
    }
}

/// The values of the keys, borrowed.
pub type Values<'a> = [Option<Obj<'a>>; KEYS];

/// The values of the keys, with a reference to each.
pub type Held<'py> = [Option<Owned<'py>>; KEYS];

/// Renames `shape[1]` of the array to `__cuda_array_interface__['shape'][1]`, as producers write
/// it.
pub fn in_dictionary(protocol: Protocol, failure: Failure) -> Failure {
    let Some(field) = failure.details().map(|details| details.field) else { return failure };
    let field = field.as_str();
    let end = field.find(['.', '[']).unwrap_or(field.len());
    let (key, rest) = field.split_at(end);
    failure.at(format_args!("{}['{key}']{rest}", protocol.name()))
}
