//! Error codes of the driver, as statuses of this library.

use std::ffi::{CStr, c_char};
use std::{fmt, ptr};

use cudarc::driver::sys::CUresult;

use crate::abi::{self, cai_status};
use crate::driver::table::{Api, Call, Function, MISSING, Table};
use crate::error::{Failure, Result, failure};
use crate::published::Published;

pub(crate) const SUCCESS: i32 = 0;
pub(crate) const INVALID_VALUE: i32 = CUresult::CUDA_ERROR_INVALID_VALUE as i32;
pub(crate) const NOT_INITIALIZED: i32 = CUresult::CUDA_ERROR_NOT_INITIALIZED as i32;
pub(crate) const DEINITIALIZED: i32 = CUresult::CUDA_ERROR_DEINITIALIZED as i32;
pub(crate) const INVALID_CONTEXT: i32 = CUresult::CUDA_ERROR_INVALID_CONTEXT as i32;
pub(crate) const INVALID_HANDLE: i32 = CUresult::CUDA_ERROR_INVALID_HANDLE as i32;
pub(crate) const NOT_FOUND: i32 = CUresult::CUDA_ERROR_NOT_FOUND as i32;
pub(crate) const NOT_READY: i32 = CUresult::CUDA_ERROR_NOT_READY as i32;
pub(crate) const NOT_SUPPORTED: i32 = CUresult::CUDA_ERROR_NOT_SUPPORTED as i32;
pub(crate) const CONTEXT_IS_DESTROYED: i32 = CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED as i32;
pub(crate) const CAPTURE_INVALIDATED: i32 = CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED as i32;
pub(crate) const CAPTURE_IMPLICIT: i32 = CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT as i32;
pub(crate) const CAPTURED_EVENT: i32 = CUresult::CUDA_ERROR_CAPTURED_EVENT as i32;
const CAPTURE_MERGE: i32 = CUresult::CUDA_ERROR_STREAM_CAPTURE_MERGE as i32;
/// Since CUDA 12.5; the enum of older headers lacks it.
const STREAM_DETACHED: i32 = 917;

impl Call {
    pub fn is_ok(self) -> bool {
        self.code == SUCCESS
    }

    pub fn is_missing(self) -> bool {
        self.code == MISSING
    }

    /// Returns the call itself unless it succeeded, for callers that examine the code.
    pub fn or_call(self) -> std::result::Result<(), Call> {
        if self.is_ok() { Ok(()) } else { Err(self) }
    }

    /// Returns true if the code means that no work of the context is running any more. That is the
    /// context which was current during the call, and the code counts only if it is returned again:
    /// a call may report the failure of another one.
    pub fn ends_work(self) -> bool {
        self.code == CONTEXT_IS_DESTROYED || is_lost(self.code)
    }

    #[inline]
    pub fn ok(self) -> Result<()> {
        if self.is_ok() { Ok(()) } else { Err(self.failure()) }
    }

    /// Returns the failure for the caller: the status, and `[call][NAME] text`.
    #[cold]
    pub fn failure(self) -> Failure {
        if self.is_missing() {
            return failure!(abi::CAI_ERR_DRIVER_FUNCTION, "driver";
                found "no {}", self.name(); expected "a newer {}", self.api.library());
        }
        let expected = match self.code {
            INVALID_CONTEXT => {
                "a current context: call cuCtxSetCurrent or cudaSetDevice in this thread first"
            }
            CAPTURE_IMPLICIT => {
                "a capture of a stream with CU_STREAM_NON_BLOCKING, or no use of the legacy default \
                 stream before its end"
            }
            _ if self.names_no_stream() => {
                "a stream or event that is alive: it must live as long as every array that names it"
            }
            _ => "success",
        };
        failure!(self.status(), "driver"; found "{self}"; expected "{expected}").driver(self.code)
    }

    /// Returns true if the code means that a stream does not exist. HIP, which has no contexts that
    /// could be destroyed, uses the other code for that.
    fn names_no_stream(self) -> bool {
        self.code == INVALID_HANDLE || (self.code == CONTEXT_IS_DESTROYED && self.api == Api::Hip)
    }

    fn status(self) -> cai_status {
        match self.code {
            NOT_INITIALIZED => abi::CAI_ERR_FORKED,
            DEINITIALIZED => abi::CAI_ERR_DRIVER_EXIT,
            34 | 100 => abi::CAI_ERR_NO_DRIVER,
            INVALID_CONTEXT => abi::CAI_ERR_NO_CONTEXT,
            _ if self.names_no_stream() => abi::CAI_ERR_STREAM_HANDLE,
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
        write!(f, "[{}]", self.name())?;
        match self.text(Table::error_name) {
            Some(name) => write!(f, "[{name}]")?,
            None => write!(f, "[{}]", self.code)?,
        }
        self.text(Table::error_text).map_or(Ok(()), |text| write!(f, " {text}"))
    }
}

impl Api {
    /// Returns what users install.
    pub fn library(self) -> &'static str {
        if self == Api::Cuda { "CUDA driver" } else { "ROCm" }
    }
}

impl Table {
    /// Fails with the name of the first of these functions that the driver lacks.
    pub fn require(&self, functions: &[Function]) -> Result<()> {
        self.lacks(functions).map_or(Ok(()), Call::ok)
    }
}

/// The tables whose functions describe codes, once there are drivers.
static TEXTS: [Published<Table>; Api::COUNT] = [const { Published::nothing() }; Api::COUNT];

/// Uses the functions of this driver to describe codes in messages.
pub fn set_error_texts(table: &'static Table) {
    TEXTS[table.api() as usize].set(Some(table));
}

impl Call {
    fn text(self, find: fn(&Table, i32, *mut *const c_char) -> Call) -> Option<&'static str> {
        let table = TEXTS[self.api as usize].get()?;
        let mut text = ptr::null();
        if !find(table, self.code, &raw mut text).is_ok() || text.is_null() {
            return None;
        }
        // SAFETY: not NULL. The driver's texts are constants, and the driver is never unloaded.
        unsafe { CStr::from_ptr(text) }.to_str().ok()
    }
}
