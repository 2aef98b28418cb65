//! The error that a caller allocates.

use std::ffi::c_char;
use std::mem::{offset_of, size_of};

use super::status::cai_status;

/// Bytes of `cai_error.field`, the terminating NUL included.
pub const CAI_ERROR_FIELD_SIZE: usize = 96;

/// Bytes of `cai_error.message`, the terminating NUL included.
pub const CAI_ERROR_MESSAGE_SIZE: usize = 408;

/// What went wrong, in the caller's memory.
///
/// Every function that can fail takes a `cai_error *` as its last argument, and takes NULL there
/// from whoever needs the status only. It is written when the function fails, all of it, and not
/// touched when the function succeeds; it needs no initialization and no release. There is no last
/// error anywhere, global or per thread.
///
/// Its layout never changes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct cai_error {
    /// The status that the function returned.
    pub code: cai_status,
    /// The CUDA driver's own `CUresult` where the driver refused, else 0.
    pub driver_code: i32,
    /// What was wrong: the path of a field (`mask.shape[2]`, `descr[1].typestr`) or the name of a
    /// parameter. NUL-terminated; a path that is too long ends in "...".
    pub field: [c_char; CAI_ERROR_FIELD_SIZE],
    /// A line with the field, the value that was found and the value that was expected:
    /// `ndim: found -1, expected 0 to 64`. NUL-terminated UTF-8.
    pub message: [c_char; CAI_ERROR_MESSAGE_SIZE],
}

const _: () = assert!(size_of::<cai_error>() == 512);
const _: () = assert!(offset_of!(cai_error, driver_code) == 4);
const _: () = assert!(offset_of!(cai_error, field) == 8);
const _: () = assert!(offset_of!(cai_error, message) == 104);
