//! Error codes of the driver, as statuses of this library.
//!
//! May use: `abi`, `error`, `library`.
//! Unsafe: calls two functions of the driver and reads their texts.

use std::ffi::{CStr, c_char};
use std::sync::OnceLock;
use std::{fmt, ptr};

use cudarc::driver::sys::CUresult;

use crate::abi::{self, cai_status};
use crate::error::{Failure, Result};
use crate::library::Library;

/// A call of the driver that has returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Call {
    /// Name of the function.
    pub name: &'static str,
    /// Its `CUresult`, or [`MISSING`].
    pub code: i32,
}

/// The code of a call whose function this driver lacks; no driver returns it.
pub(crate) const MISSING: i32 = i32::MIN;
pub(crate) const SUCCESS: i32 = 0;
pub(crate) const INVALID_VALUE: i32 = CUresult::CUDA_ERROR_INVALID_VALUE as i32;
pub(crate) const NOT_INITIALIZED: i32 = CUresult::CUDA_ERROR_NOT_INITIALIZED as i32;
pub(crate) const DEINITIALIZED: i32 = CUresult::CUDA_ERROR_DEINITIALIZED as i32;
pub(crate) const INVALID_CONTEXT: i32 = CUresult::CUDA_ERROR_INVALID_CONTEXT as i32;
pub(crate) const INVALID_HANDLE: i32 = CUresult::CUDA_ERROR_INVALID_HANDLE as i32;
pub(crate) const NOT_FOUND: i32 = CUresult::CUDA_ERROR_NOT_FOUND as i32;
pub(crate) const NOT_SUPPORTED: i32 = CUresult::CUDA_ERROR_NOT_SUPPORTED as i32;
const CONTEXT_IS_DESTROYED: i32 = CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED as i32;
pub(crate) const CAPTURE_INVALIDATED: i32 = CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED as i32;
pub(crate) const CAPTURE_IMPLICIT: i32 = CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT as i32;
const CAPTURE_MERGE: i32 = CUresult::CUDA_ERROR_STREAM_CAPTURE_MERGE as i32;
/// Since CUDA 12.5; the enum of older headers lacks it.
const STREAM_DETACHED: i32 = 917;

impl Call {
    /// Returns true if the call succeeded.
    #[inline]
    pub fn is_ok(self) -> bool {
        self.code == SUCCESS
    }

    /// Returns true if this driver lacks the function.
    pub fn is_missing(self) -> bool {
        self.code == MISSING
    }

    /// Returns the call itself unless it succeeded, for callers that examine the code.
    #[inline]
    pub fn or_call(self) -> std::result::Result<(), Call> {
        if self.is_ok() { Ok(()) } else { Err(self) }
    }

    /// Returns true if the code means that no work of the context is running any more.
    pub fn ends_work(self) -> bool {
        self.code == CONTEXT_IS_DESTROYED || is_lost(self.code)
    }

    /// Fails unless the call succeeded.
    #[inline]
    pub fn ok(self) -> Result<()> {
        if self.is_ok() { Ok(()) } else { Err(self.failure()) }
    }

    /// Returns the failure for the caller: the status, and `[call][NAME] text`.
    #[cold]
    #[inline(never)]
    pub fn failure(self) -> Failure {
        if self.is_missing() {
            return Failure::new(
                abi::CAI_ERR_DRIVER_FUNCTION,
                format_args!("driver"),
                format_args!("no {}", self.name),
                format_args!("a newer CUDA driver"),
            );
        }
        let expected = match self.code {
            INVALID_CONTEXT => {
                "a current context: call cuCtxSetCurrent or cudaSetDevice in this thread first"
            }
            INVALID_HANDLE => {
                "a stream that is alive: it must live as long as every array that names it"
            }
            _ => "success",
        };
        Failure::new(
            self.status(),
            format_args!("driver"),
            format_args!("{self}"),
            format_args!("{expected}"),
        )
        .driver(self.code)
    }

    fn status(self) -> cai_status {
        match self.code {
            NOT_INITIALIZED => abi::CAI_ERR_FORKED,
            DEINITIALIZED => abi::CAI_ERR_DRIVER_EXIT,
            34 | 100 => abi::CAI_ERR_NO_DRIVER,
            INVALID_CONTEXT => abi::CAI_ERR_NO_CONTEXT,
            INVALID_HANDLE => abi::CAI_ERR_STREAM_HANDLE,
            CONTEXT_IS_DESTROYED => abi::CAI_ERR_CONTEXT_DESTROYED,
            STREAM_DETACHED => abi::CAI_ERR_STREAM_DETACHED,
            CAPTURE_INVALIDATED => abi::CAI_ERR_CAPTURE_INVALIDATED,
            CAPTURE_MERGE => abi::CAI_ERR_CAPTURE_MERGE,
            CAPTURE_IMPLICIT => abi::CAI_ERR_CAPTURE_LEGACY,
            900..=908 => abi::CAI_ERR_CAPTURE,
            _ if is_lost(self.code) => abi::CAI_ERR_DEVICE_LOST,
            _ => abi::CAI_ERR_DRIVER,
        }
    }
}

/// Codes after which nothing runs in the context any more: uncorrectable memory and link errors,
/// and failed kernels. For each of them, cuda.h requires that the process is terminated.
fn is_lost(code: i32) -> bool {
    matches!(code, 214 | 220 | 226 | 700 | 702 | 710 | 714..=719 | 721)
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let texts = TEXTS.get();
        let name = texts.and_then(|texts| texts.find(texts.name, self.code));
        let text = texts.and_then(|texts| texts.find(texts.text, self.code));
        write!(f, "[{}]", self.name)?;
        match name {
            Some(name) => write!(f, "[{name}]")?,
            None => write!(f, "[{}]", self.code)?,
        }
        text.map_or(Ok(()), |text| write!(f, " {text}"))
    }
}

/// The type of `cuGetErrorName` and `cuGetErrorString`.
type FindText = unsafe extern "system" fn(i32, *mut *const c_char) -> i32;

/// The functions of the driver that describe a code, if it has them.
struct ErrorTexts {
    name: Option<FindText>,
    text: Option<FindText>,
}

/// Set once, when a driver is started.
static TEXTS: OnceLock<ErrorTexts> = OnceLock::new();

/// Uses the functions of this driver to describe codes in messages.
pub fn set_error_texts(driver: &Library) {
    // SAFETY: the type is that of cuda.h for exactly these names.
    let find = |name| unsafe { driver.get(name) };
    let texts = ErrorTexts { name: find(c"cuGetErrorName"), text: find(c"cuGetErrorString") };
    // A driver is started once; another call would set the same functions.
    let _ = TEXTS.set(texts);
}

impl ErrorTexts {
    fn find(&self, function: Option<FindText>, code: i32) -> Option<&'static str> {
        let mut text = ptr::null();
        // SAFETY: the function has the type of cuda.h and writes one pointer, to a local.
        let found = unsafe { function?(code, &raw mut text) };
        if found != SUCCESS || text.is_null() {
            return None;
        }
        // SAFETY: not NULL. The driver's texts are constants, and the driver is never unloaded.
        unsafe { CStr::from_ptr(text) }.to_str().ok()
    }
}
