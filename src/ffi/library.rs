//! The library itself: versions and the texts of statuses.

use std::ffi::{CStr, c_char};

use crate::abi::{self, cai_status};

struct Status {
    code: cai_status,
    name: &'static CStr,
    message: &'static CStr,
}

/// Made by `build.rs` from `abi/status.rs`.
const STATUSES: &[Status] = include!(concat!(env!("OUT_DIR"), "/statuses.rs"));

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => c"",
};

/// The major version of the binary interface that the loaded library has. Compare it with
/// `CAI_ABI_MAJOR`, which is what your program was compiled against: they must be equal.
///
/// Cannot fail. Thread safety: any thread, any time.
#[unsafe(no_mangle)]
pub extern "C" fn cai_abi_major() -> i32 {
    abi::CAI_ABI_MAJOR
}

/// The minor version of the binary interface that the loaded library has. It serves callers that were
/// compiled against the same or a lower `CAI_ABI_MINOR`.
///
/// Cannot fail. Thread safety: any thread, any time.
#[unsafe(no_mangle)]
pub extern "C" fn cai_abi_minor() -> i32 {
    abi::CAI_ABI_MINOR
}

/// The version of the loaded library as text: `"0.1.0"`. A constant; do not free it.
///
/// Cannot fail. Thread safety: any thread, any time.
#[unsafe(no_mangle)]
pub extern "C" fn cai_version() -> *const c_char {
    VERSION.as_ptr()
}

/// The name of a status: `"CAI_ERR_NDIM"`; of a number that this library does not know,
/// `"CAI_ERR_UNKNOWN"`. Never NULL. A constant; do not free it.
///
/// Cannot fail. Thread safety: any thread, any time.
#[unsafe(no_mangle)]
pub extern "C" fn cai_status_name(status: cai_status) -> *const c_char {
    find(status).map_or(c"CAI_ERR_UNKNOWN", |row| row.name).as_ptr()
}

/// What a status means, in one sentence, for every error of this status. What was wrong in one case says
/// `cai_error.message`. Never NULL. A constant; do not free it.
///
/// Cannot fail. Thread safety: any thread, any time.
#[unsafe(no_mangle)]
pub extern "C" fn cai_status_message(status: cai_status) -> *const c_char {
    find(status)
        .map_or(c"A status that this version of the library does not know.", |row| row.message)
        .as_ptr()
}

fn find(status: cai_status) -> Option<&'static Status> {
    STATUSES.iter().find(|row| row.code == status)
}
