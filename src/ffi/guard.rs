//! Failures and panics at the FFI boundary.
//!
//! Every exported function that calls foreign code runs in [`guard`]; threads may end in there. The
//! functions of this library that call nothing foreign run in [`guard_local`]. The few whose whole
//! work takes nanoseconds and which contain nothing that could panic run in [`unguarded`].

use crate::abi::{self, cai_error, cai_status};
use crate::error::{Failure, Result, terminated};
use crate::sync::release_queue;
use crate::unwind;

/// Runs the body of an exported function.
#[inline]
pub fn guard(error: *mut cai_error, body: impl FnOnce() -> Result<()>) -> cai_status {
    release_queue::progress();
    unguarded(error, || unwind::guarded(body))
}

/// Runs the body of an exported function that calls no foreign code. Where the body cannot panic,
/// nothing of this is left in the machine code.
#[inline]
pub fn guard_local(error: *mut cai_error, body: impl FnOnce() -> Result<()>) -> cai_status {
    unguarded(error, || unwind::catch_local(body).unwrap_or_else(|_| Err(Failure::internal())))
}

/// The same for functions that return a boolean and cannot fail.
#[inline]
pub fn guard_bool(body: impl FnOnce() -> bool) -> bool {
    unwind::catch_local(body).unwrap_or(false)
}

/// Runs the body of an exported function that cannot panic: it neither indexes nor divides, and
/// adds nothing that could overflow.
#[inline]
pub fn unguarded(error: *mut cai_error, body: impl FnOnce() -> Result<()>) -> cai_status {
    match body() {
        Ok(()) => abi::CAI_OK,
        Err(failure) => report(error, failure),
    }
}

#[cold]
#[inline(never)]
fn report(error: *mut cai_error, failure: Failure) -> cai_status {
    let status = failure.status();
    if error.is_null() {
        return status;
    }
    // SAFETY: not NULL (checked above), and a writable `cai_error` as the header requires.
    unsafe { error.write(failure.to_error()) };
    status
}

/// Fills a caller's error.
///
/// # Safety
/// `error` is writable.
pub unsafe fn write(
    error: *mut cai_error,
    code: cai_status,
    driver_code: i32,
    field: &str,
    message: &str,
) {
    let value =
        cai_error { code, driver_code, field: terminated(field), message: terminated(message) };
    // SAFETY: `error` is writable (this function's contract).
    unsafe { error.write(value) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::c_char;
    use std::mem::MaybeUninit;
    use std::panic;

    struct PanicsWhenDropped;

    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            panic!("a second time");
        }
    }

    #[test]
    fn a_panic_becomes_a_status() {
        // The hook is silenced so that the test's output shows no panics.
        let hook = panic::take_hook();
        panic::set_hook(Box::new(|_| {}));
        let mut error = MaybeUninit::<cai_error>::zeroed();
        let status = guard(error.as_mut_ptr(), || panic!("a bug"));
        let silent = guard(std::ptr::null_mut(), || panic::panic_any(PanicsWhenDropped));
        let local = guard_local(std::ptr::null_mut(), || panic!("a bug"));
        let truth = guard_bool(|| panic::panic_any(PanicsWhenDropped));
        panic::set_hook(hook);
        // SAFETY: zeroed, and then filled by `guard`.
        let error = unsafe { error.assume_init() };
        assert_eq!([status, silent, local], [abi::CAI_ERR_INTERNAL; 3]);
        assert!(!truth);
        assert_eq!(error.code, abi::CAI_ERR_INTERNAL);
        assert!(error.message.starts_with(&b"internal error".map(|byte| byte as c_char)));
    }
}
