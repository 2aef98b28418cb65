//! The owner: a counted handle that carries its own operations.

use std::mem::{offset_of, size_of};

/// What keeps an array alive: a counted handle that carries its own operations, so that an array
/// made by one library, or by one of several copies of this library, is released through any other.
///
/// Whoever makes an owner puts this structure first in an object of its own; the rest of the object
/// is nobody else's business. `cai_owner_create` makes one for those who have no counted object.
///
/// An owner keeps alive all that is reachable from the `cai_array` that names it: the data, the
/// shape, strides, descr and mask, and the exported stream, which must live at least as long as the
/// exported array (CAI version 3, "Lifetime management", "Streams").
///
/// Thread safety: retain and release may be called from any thread at any time.
#[repr(C)]
pub struct cai_owner {
    /// The owner's operations. Must stay valid, and the code behind it loaded, until the last release
    /// has returned.
    pub ops: *const cai_owner_ops,
}

/// An owner's operations: a constant table in the library that made the owner.
///
/// The functions are called from any thread, at any time, with or without an interpreter's lock,
/// several at once. They must not throw. A table may be longer than this header says: use only what
/// `struct_size` covers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct cai_owner_ops {
    /// `sizeof(cai_owner_ops)` as the maker of the owner compiled it.
    pub struct_size: u32,
    /// Zero.
    pub reserved: u32,
    /// Adds one reference.
    pub retain: Option<unsafe extern "C" fn(owner: *mut cai_owner)>,
    /// Takes one reference away; the last one destroys the owner. Must not block on other threads'
    /// work and must not make CUDA calls that could synchronize.
    pub release: Option<unsafe extern "C" fn(owner: *mut cai_owner)>,
}

// SAFETY: a table is never written after it was made, and the functions in it are callable from any
// thread by contract.
unsafe impl Sync for cai_owner_ops {}

const _: () = assert!(size_of::<cai_owner>() == 8);
const _: () = assert!(size_of::<cai_owner_ops>() == 24);
const _: () = assert!(offset_of!(cai_owner_ops, retain) == 8);
const _: () = assert!(offset_of!(cai_owner_ops, release) == 16);
