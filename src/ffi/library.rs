//! The library itself: versions and the texts of statuses.

use std::ffi::{CStr, c_char};

use super::guard;
use crate::abi::{self, cai_error, cai_status};
use crate::argument::{Out, Text, arguments};
use crate::error::{self, Shown, terminated};

/// A status, and where its texts begin in [`TEXTS`].
struct Status {
    code: cai_status,
    name: u16,
    message: u16,
}

// STATUSES and TEXTS, which `build.rs` makes from `abi/status.rs`. Positions in one text need no
// relocations, and a program that does not ask for names does not carry the text.
include!(concat!(env!("OUT_DIR"), "/statuses.rs"));

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };

/// Returns the version of the binary interface of the loaded library: `major << 16 | minor`. The
/// major number must equal `CAI_ABI_MAJOR`. The library serves callers that were compiled with the
/// same or a lower `CAI_ABI_MINOR`.
///
/// Cannot fail. Thread safety: any thread.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub extern "C-unwind" fn cai_abi_version() -> u32 {
    (abi::CAI_ABI_MAJOR as u32) << 16 | abi::CAI_ABI_MINOR as u32
}

/// Returns the version of the loaded library as text: `"0.10.0"`. The text is constant; do not free
/// it.
///
/// Cannot fail. Thread safety: any thread.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub extern "C-unwind" fn cai_version() -> *const c_char {
    VERSION.as_ptr()
}

/// Returns the name of a status: `"CAI_ERR_NDIM"`, or `"CAI_ERR_UNKNOWN"` for a number that this
/// library does not know. Never NULL. The text is constant; do not free it.
///
/// Cannot fail. Thread safety: any thread.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub extern "C-unwind" fn cai_status_name(status: cai_status) -> *const c_char {
    find(status).map_or(c"CAI_ERR_UNKNOWN", |row| text(row.name)).as_ptr()
}

/// Returns the meaning of a status in one sentence. Details of a single failure are in
/// `cai_error.message`. Never NULL. The text is constant; do not free it.
///
/// Cannot fail. Thread safety: any thread.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub extern "C-unwind" fn cai_status_message(status: cai_status) -> *const c_char {
    find(status)
        .map_or(c"A status that this version of the library does not know.", |row| {
            text(row.message)
        })
        .as_ptr()
}

/// Fills an error and returns `code`, for functions of other libraries that report failures as this
/// library does: `return cai_error_set(error, MY_STATUS, "shape", "found 3, expected 2");`. Your
/// own statuses begin at `CAI_STATUS_THIRD_PARTY`.
///
/// `error`: may be NULL, then nothing is written. `driver_code` becomes 0.
/// `field`: NUL-terminated UTF-8, or NULL.
/// `message`: NUL-terminated UTF-8 that follows the field in `error->message`, or NULL.
///
/// Cannot fail; text that is too long is cut, and control characters are escaped. Thread safety:
/// any thread; allocates nothing.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_error_set(
    error: *mut cai_error,
    code: cai_status,
    field: *const c_char,
    message: *const c_char,
) -> cai_status {
    arguments!(error: Out, field: Text, message: Text);
    guard::guard_local(Out::NONE, || {
        if let Some(error) = error.optional() {
            let [field, message] =
                [field, message].map(|text| Shown(text.optional().unwrap_or_default().to_bytes()));
            let colon = if field.0.is_empty() { "" } else { ": " };
            let line: error::Text<{ abi::CAI_ERROR_MESSAGE_SIZE - 1 }> =
                error::Text::new(format_args!("{field}{colon}{message}"));
            let field: error::Text<{ abi::CAI_ERROR_FIELD_SIZE - 1 }> =
                error::Text::new(format_args!("{field}"));
            error.write(cai_error {
                code,
                driver_code: 0,
                field: terminated(field.as_str()),
                message: terminated(line.as_str()),
            });
        }
        Ok(())
    });
    code
}

fn find(status: cai_status) -> Option<&'static Status> {
    STATUSES.iter().find(|row| row.code == status)
}

/// Returns the text that begins at a position.
fn text(position: u16) -> &'static CStr {
    let rest = TEXTS.as_bytes().get(usize::from(position)..);
    rest.and_then(|rest| CStr::from_bytes_until_nul(rest).ok()).unwrap_or_default()
}
