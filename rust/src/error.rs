//! Errors: status, field, message.

use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::mem::MaybeUninit;

use crate::sys::{self, cai_error, cai_status};

/// A violated rule: a status, the field or parameter that violates it, and a message with the value
/// found and the value expected.
///
/// ```
/// let error = libcai::Array::from_vec(vec![1.0f32; 6], &[2, 4]).unwrap_err();
/// assert_eq!(error.status(), libcai::sys::CAI_ERR_ARGUMENT);
/// assert_eq!(error.field(), "shape");
/// assert_eq!(error.to_string(), "shape: found 8 elements, expected 6, the length of the data");
/// ```
#[derive(Clone)]
pub struct Error(Box<cai_error>);

/// The result of the functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error that no function has filled.
pub(crate) const NO_ERROR: cai_error =
    cai_error { code: 0, driver_code: 0, field: [0; 96], message: [0; 408] };

impl Error {
    /// Makes an error: `field: found …, expected …`.
    #[cold]
    pub(crate) fn new(
        status: cai_status,
        field: &str,
        found: impl fmt::Display,
        expected: impl fmt::Display,
    ) -> Self {
        Error::custom(status, field, &format!("found {found}, expected {expected}"))
    }

    /// Makes an error of your own, to return it to C or Python code as this crate's are: a status
    /// of the library that fits, or a number from `CAI_STATUS_THIRD_PARTY` on. `CAI_OK` is no
    /// failure, and becomes `CAI_ERR_ARGUMENT`.
    ///
    /// ```
    /// use libcai::{Error, sys};
    ///
    /// const NOT_READY: i32 = sys::CAI_STATUS_THIRD_PARTY + 1;
    /// let error = Error::custom(NOT_READY, "input", "not ready");
    /// assert_eq!((error.status(), error.message()), (NOT_READY, "input: not ready"));
    /// ```
    #[cold]
    #[must_use]
    pub fn custom(status: cai_status, field: &str, message: &str) -> Self {
        // The caller of a C function that returns 0 reads an output that was not written.
        let status = if status == sys::CAI_OK { sys::CAI_ERR_ARGUMENT } else { status };
        // A text with a NUL, which C cannot express, is left out.
        let texts = (CString::new(field), CString::new(message));
        let (field, message) = (texts.0.unwrap_or_default(), texts.1.unwrap_or_default());
        Error::fill(|error| {
            // SAFETY: `error` is writable, and both texts end in NUL.
            unsafe { sys::cai_error_set(error, status, field.as_ptr(), message.as_ptr()) };
        })
    }

    /// Makes the error of a foreign function that returned `status`, and may not have filled the
    /// error that it was given, which was all zero.
    #[cold]
    pub(crate) fn foreign(status: cai_status, error: &cai_error) -> Self {
        if error.code == sys::CAI_OK {
            // SAFETY: the function returns a constant text.
            let message = unsafe { CStr::from_ptr(sys::cai_status_message(status)) };
            return Error::custom(status, "", &message.to_string_lossy());
        }
        Error(Box::new(cai_error { code: status, ..*error }))
    }

    /// Makes the error that `write` fills.
    fn fill(write: impl FnOnce(*mut cai_error)) -> Self {
        let mut error = Box::new(NO_ERROR);
        write(&mut *error);
        Error(error)
    }

    /// Returns the status: one of the `CAI_ERR_` constants of [`sys`], or, from
    /// `CAI_STATUS_THIRD_PARTY` on, a number of another library.
    #[must_use]
    pub fn status(&self) -> cai_status {
        self.0.code
    }

    /// Returns the name of the status, such as `"CAI_ERR_NDIM"`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        // SAFETY: the function returns a constant text.
        unsafe { CStr::from_ptr(sys::cai_status_name(self.0.code)) }.to_str().unwrap_or_default()
    }

    /// Returns the path of the member, or the name of the parameter: `"mask.shape[2]"`. It may be
    /// empty.
    #[must_use]
    pub fn field(&self) -> &str {
        text(&self.0.field)
    }

    /// Returns one line with the field, the value found and the value expected.
    #[must_use]
    pub fn message(&self) -> &str {
        text(&self.0.message)
    }

    /// Returns the driver's `CUresult` if the CUDA driver refused, otherwise 0.
    #[must_use]
    pub fn driver_code(&self) -> i32 {
        self.0.driver_code
    }

    /// Returns the structure of the C interface.
    #[must_use]
    pub fn as_raw(&self) -> &cai_error {
        &self.0
    }

    /// Writes the error where a C function reports one, and returns the status, for functions that
    /// C code calls: `return error.write_to(out_error)`.
    ///
    /// # Safety
    /// `out` is NULL, then nothing is written, or points to writable memory for a `cai_error`.
    pub unsafe fn write_to(&self, out: *mut cai_error) -> cai_status {
        if !out.is_null() {
            // SAFETY: writable (this function's contract).
            unsafe { out.write(*self.0) };
        }
        self.status()
    }
}

fn text(characters: &[c_char]) -> &str {
    // SAFETY: `c_char` has the size and alignment of `u8`, and every value is valid.
    let bytes = unsafe { std::slice::from_raw_parts(characters.as_ptr().cast(), characters.len()) };
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    std::str::from_utf8(&bytes[..end]).unwrap_or("(not UTF-8)")
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut text = f.debug_struct("Error");
        text.field("status", &format_args!("{} ({})", self.name(), self.status()));
        text.field("field", &self.field()).field("message", &self.message());
        if self.driver_code() != 0 {
            text.field("driver_code", &self.driver_code());
        }
        text.finish()
    }
}

impl std::error::Error for Error {}

/// A number of things in a message: "1 element", "2 elements".
pub(crate) fn counted<N: fmt::Display + PartialEq + From<u8>>(count: N, thing: &str) -> String {
    let ending = if count == N::from(1) { "" } else { "s" };
    format!("{count} {thing}{ending}")
}

/// Calls a function of the C interface, which fills the error that it is given if it fails.
#[inline(always)]
pub(crate) fn call(function: impl FnOnce(*mut cai_error) -> cai_status) -> Result<()> {
    let mut error = MaybeUninit::<cai_error>::uninit();
    let status = function(error.as_mut_ptr());
    if status == sys::CAI_OK { Ok(()) } else { Err(failed(&error)) }
}

#[cold]
#[inline(never)]
fn failed(error: &MaybeUninit<cai_error>) -> Error {
    // SAFETY: a function that fails writes all of the error, which the C interface requires.
    Error::fill(|copy| unsafe { copy.write(error.assume_init_read()) })
}
