//! Failures and panics on their way out.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::{self, cai_error, cai_status};
use crate::error::{Failure, Result, terminated};

/// Runs the body of an exported function. Where the body cannot panic, nothing of this is left in the
/// machine code.
#[inline]
pub fn guard(error: *mut cai_error, body: impl FnOnce() -> Result<()>) -> cai_status {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => abi::CAI_OK,
        Ok(Err(failure)) => report(error, &failure),
        Err(payload) => {
            // A payload may itself panic when it is dropped.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
            let failure = Failure::new(
                abi::CAI_ERR_INTERNAL,
                format_args!(""),
                format_args!("a contradiction inside the library"),
                format_args!("none; please report it"),
            );
            report(error, &failure)
        }
    }
}

/// The same for functions that answer a truth and cannot fail.
#[inline]
pub fn guard_bool(body: impl FnOnce() -> bool) -> bool {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
        false
    })
}

#[cold]
#[inline(never)]
fn report(error: *mut cai_error, failure: &Failure) -> cai_status {
    let status = failure.status();
    if error.is_null() {
        return status;
    }
    // SAFETY: not NULL, and by the contract of every function a `cai_error` of the caller's.
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
    // SAFETY: by contract.
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
        // The test's own output should not show the panics that it makes.
        let hook = panic::take_hook();
        panic::set_hook(Box::new(|_| {}));
        let mut error = MaybeUninit::<cai_error>::zeroed();
        let status = guard(error.as_mut_ptr(), || panic!("a bug"));
        let silent = guard(std::ptr::null_mut(), || panic::panic_any(PanicsWhenDropped));
        let truth = guard_bool(|| panic::panic_any(PanicsWhenDropped));
        panic::set_hook(hook);
        // SAFETY: zeroed, and then filled by `guard`.
        let error = unsafe { error.assume_init() };
        assert_eq!((status, silent, truth), (abi::CAI_ERR_INTERNAL, abi::CAI_ERR_INTERNAL, false));
        assert_eq!(error.code, abi::CAI_ERR_INTERNAL);
        assert!(error.message.starts_with(&b"found a contradiction".map(|byte| byte as c_char)));
    }
}
