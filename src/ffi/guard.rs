//! Failures and panics at the FFI boundary.
//!
//! Every exported function that calls foreign code runs in [`guard`]; threads may end in there. The
//! functions of this library that call nothing foreign run in [`guard_local`]. The few whose whole
//! work takes nanoseconds and which contain nothing that could panic, but in guards of their own, run
//! in [`unguarded`].

use crate::abi::{self, cai_error, cai_status};
use crate::argument::Out;
use crate::error::{Failure, Result};
use crate::sync::release_queue;
use crate::unwind;

/// Runs the body of an exported function.
#[inline]
pub fn guard<F: FnOnce() -> Result<()>>(error: Out<cai_error>, body: F) -> cai_status {
    end::<F>(error, foreign(body))
}

/// Runs the body of an exported function that calls no foreign code. Compiles to nothing if the body
/// cannot panic.
#[inline]
pub fn guard_local<F: FnOnce() -> Result<()>>(error: Out<cai_error>, body: F) -> cai_status {
    end::<F>(error, local(body))
}

/// Runs code that may call foreign code.
#[inline]
pub fn foreign(body: impl FnOnce() -> Result<()>) -> Result<()> {
    release_queue::progress();
    unwind::guarded(body)
}

/// Runs code that calls no foreign code.
#[inline]
pub fn local(body: impl FnOnce() -> Result<()>) -> Result<()> {
    unwind::catch_local(body).unwrap_or_else(|_| Err(Failure::internal()))
}

/// Runs the body of an exported function that returns a boolean and cannot fail.
#[inline]
pub fn guard_bool(body: impl FnOnce() -> bool) -> bool {
    unwind::catch_local(body).unwrap_or(false)
}

/// Runs the body of an exported function that cannot panic: it neither indexes nor divides, and
/// adds nothing that could overflow.
#[inline]
pub fn unguarded<F: FnOnce() -> Result<()>>(error: Out<cai_error>, body: F) -> cai_status {
    end::<F>(error, body())
}

/// Returns the status of an exported function. `F` is a closure in it.
#[inline]
pub fn end<F>(error: Out<cai_error>, result: Result<()>) -> cai_status {
    match result {
        Ok(()) => abi::CAI_OK,
        Err(failure) => {
            #[cfg(debug_assertions)]
            super::returns::check(std::any::type_name::<F>(), &failure);
            report(error, failure)
        }
    }
}

#[cold]
#[inline(never)]
fn report(error: Out<cai_error>, failure: Failure) -> cai_status {
    if let Some(error) = error.optional() {
        error.write(failure.to_error());
    }
    failure.status()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::c_char;
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
        let mut error = Failure::null("nothing").to_error();
        // SAFETY: a local that nothing else uses meanwhile.
        let status = guard(unsafe { Out::new(&raw mut error) }, || panic!("a bug"));
        let silent = guard(Out::NONE, || panic::panic_any(PanicsWhenDropped));
        let local = guard_local(Out::NONE, || panic!("a bug"));
        let truth = guard_bool(|| panic::panic_any(PanicsWhenDropped));
        panic::set_hook(hook);
        assert_eq!([status, silent, local], [abi::CAI_ERR_INTERNAL; 3]);
        assert!(!truth);
        assert_eq!(error.code, abi::CAI_ERR_INTERNAL);
        assert!(error.message.starts_with(&b"internal error".map(|byte| byte as c_char)));
    }
}
