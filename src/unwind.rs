//! Catches panics at the FFI boundary without stopping threads that end.
//!
//! `pthread_exit` and `pthread_cancel` unwind the stack of the thread that ends ("forced
//! unwinding"); CPython up to 3.13 ends threads in this way when they ask for its lock during
//! finalization. Each frame of `std::panic::catch_unwind` stops that and aborts the process. So
//! code that calls foreign functions runs in [`catch`], whose frame stops Rust's panics only.
//! Functions and callbacks on such a path have the `C-unwind` ABI.
//!
//! Code that calls no foreign function runs in [`catch_local`], free where no panic is possible.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Failure, Result};

/// The body panicked. The panic hook has printed the message.
pub struct Panicked;

/// Runs code that calls no foreign function.
#[inline]
pub fn catch_local<R>(body: impl FnOnce() -> R) -> std::result::Result<R, Panicked> {
    catch_unwind(AssertUnwindSafe(body)).map_err(panicked)
}

#[cold]
#[inline(never)]
fn panicked(payload: Box<dyn Any + Send>) -> Panicked {
    // A payload may itself panic when it is dropped.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    Panicked
}

/// Runs code that may call foreign functions. A thread may end in there.
#[inline]
pub fn catch<R>(body: impl FnOnce() -> R) -> std::result::Result<R, Panicked> {
    frame::catch(body)
}

/// The same for code that may fail: a panic is an internal error.
#[inline]
pub fn guarded<R>(body: impl FnOnce() -> Result<R>) -> Result<R> {
    catch(body).unwrap_or_else(|_| Err(Failure::internal()))
}

// Miri executes no assembly.
#[cfg(not(all(
    not(miri),
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
mod frame {
    pub use crate::unwind::catch_local as catch;
}

/// cbindgen:ignore
#[cfg(all(not(miri), target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod frame {
    use crate::unwind::{Panicked, catch_local};
    use std::ffi::{c_int, c_void};
    use std::mem::ManuallyDrop;

    /// `_Unwind_Exception`
    type Exception = c_void;
    /// `_Unwind_Context`
    type Context = c_void;

    type Function = unsafe extern "C-unwind" fn(*mut c_void);

    // The standard library's unwinder. ["Itanium C++ ABI: Exception Handling", 1]
    unsafe extern "C-unwind" {
        fn _Unwind_RaiseException(exception: *mut Exception) -> c_int;
    }
    unsafe extern "C" {
        fn _Unwind_SetGR(context: *mut Context, register: c_int, value: usize);
        fn _Unwind_SetIP(context: *mut Context, address: usize);
    }

    // `cai_private_frame` calls `function(data)` and returns NULL. A panic of the function ends at
    // `cai_private_landing`, and the panic's exception is returned. The names are hidden: they are
    // not exported, and copies of the library in one process do not share them.
    unsafe extern "C-unwind" {
        fn cai_private_frame(function: Function, data: *mut c_void) -> *mut Exception;
    }
    unsafe extern "C" {
        fn cai_private_landing();
    }

    // 0x1b: the personality's address is relative and has four bytes.
    #[cfg(target_arch = "x86_64")]
    core::arch::global_asm!(
        ".pushsection .text.cai_private_frame,\"ax\",@progbits",
        ".globl cai_private_frame, cai_private_landing",
        ".hidden cai_private_frame, cai_private_landing",
        ".type cai_private_frame, @function",
        ".p2align 4",
        "cai_private_frame:",
        ".cfi_startproc",
        ".cfi_personality 0x1b, {personality}",
        "sub rsp, 8",
        ".cfi_def_cfa_offset 16",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "xor eax, eax",
        "cai_private_landing:",
        "add rsp, 8",
        ".cfi_def_cfa_offset 8",
        "ret",
        ".cfi_endproc",
        ".size cai_private_frame, . - cai_private_frame",
        ".popsection",
        personality = sym personality,
    );

    #[cfg(target_arch = "aarch64")]
    core::arch::global_asm!(
        ".pushsection .text.cai_private_frame,\"ax\",@progbits",
        ".globl cai_private_frame, cai_private_landing",
        ".hidden cai_private_frame, cai_private_landing",
        ".type cai_private_frame, @function",
        ".p2align 4",
        "cai_private_frame:",
        ".cfi_startproc",
        ".cfi_personality 0x1b, {personality}",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "mov x2, x0",
        "mov x0, x1",
        "blr x2",
        "mov x0, #0",
        "cai_private_landing:",
        "ldp x29, x30, [sp], #16",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ret",
        ".cfi_endproc",
        ".size cai_private_frame, . - cai_private_frame",
        ".popsection",
        personality = sym personality,
    );

    /// `_URC_HANDLER_FOUND`, `_URC_INSTALL_CONTEXT`, `_URC_CONTINUE_UNWIND`
    const HANDLER_FOUND: c_int = 6;
    const INSTALL_CONTEXT: c_int = 7;
    const CONTINUE_UNWIND: c_int = 8;
    /// `_UA_SEARCH_PHASE`, `_UA_HANDLER_FRAME`
    const SEARCH_PHASE: c_int = 1;
    const HANDLER_FRAME: c_int = 4;
    /// Rust's panics. Newer compilers write it in the machine's byte order, older ones a number.
    const PANICS: [u64; 2] = [u64::from_ne_bytes(*b"MOZ\0RUST"), u64::from_be_bytes(*b"MOZ\0RUST")];
    /// The register of a function's result: rax and x0 both have the number 0 in DWARF.
    const RESULT: c_int = 0;

    /// The unwinder asks this for each exception that reaches the frame. Only panics stop here:
    /// ending threads and exceptions of C++ pass, and leave nothing to clean up in this frame.
    unsafe extern "C" fn personality(
        version: c_int,
        actions: c_int,
        class: u64,
        exception: *mut Exception,
        context: *mut Context,
    ) -> c_int {
        if version != 1 || !PANICS.contains(&class) {
            return CONTINUE_UNWIND;
        }
        if actions & SEARCH_PHASE != 0 {
            return HANDLER_FOUND;
        }
        if actions & HANDLER_FRAME == 0 {
            return CONTINUE_UNWIND;
        }
        // SAFETY: the unwinder passed the context of the frame. At the landing, the frame is as
        // after the call, and the register holds what the frame returns.
        unsafe {
            _Unwind_SetGR(context, RESULT, exception as usize);
            _Unwind_SetIP(context, cai_private_landing as *const () as usize);
        }
        INSTALL_CONTEXT
    }

    /// The body before the call, its result after it.
    union Slot<F, R> {
        body: ManuallyDrop<F>,
        result: ManuallyDrop<R>,
    }

    unsafe extern "C-unwind" fn run<R, F: FnOnce() -> R>(slot: *mut c_void) {
        let slot = slot.cast::<Slot<F, R>>();
        // SAFETY: `catch` passed a slot of this type with a body in it, which is taken out once.
        let body = ManuallyDrop::into_inner(unsafe { (&raw const (*slot).body).read() });
        let result = ManuallyDrop::new(body());
        // SAFETY: `catch` passed a slot that is large enough for the body and for the result.
        unsafe { (&raw mut (*slot).result).write(result) };
    }

    #[inline]
    pub fn catch<R, F: FnOnce() -> R>(body: F) -> Result<R, Panicked> {
        let mut slot = Slot::<F, R> { body: ManuallyDrop::new(body) };
        // SAFETY: `run` is instantiated for the type of the slot, which outlives the call.
        let panic = unsafe { cai_private_frame(run::<R, F>, (&raw mut slot).cast()) };
        if panic.is_null() {
            // SAFETY: `run` returned, so the result was written.
            Ok(ManuallyDrop::into_inner(unsafe { slot.result }))
        } else {
            // SAFETY: `personality` passed on the exception of a panic, which nothing else refers
            // to.
            Err(unsafe { recover(panic) })
        }
    }

    /// Ends a panic. Only `catch_unwind` can, so the exception is raised a second time.
    ///
    /// # Safety
    /// `panic` is the exception of a Rust panic that was taken from the unwinder.
    #[cold]
    #[inline(never)]
    unsafe fn recover(panic: *mut Exception) -> Panicked {
        let raised = catch_local(|| {
            // SAFETY: the exception is complete, and `catch_unwind` is above this frame.
            unsafe { _Unwind_RaiseException(panic) }
        });
        match raised {
            Err(panicked) => panicked,
            // The unwinder returns only where it finds no handler: its tables are broken.
            Ok(_) => std::process::abort(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::panic;

    struct OnDrop<'a>(&'a Cell<u32>);

    impl Drop for OnDrop<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    struct PanicsWhenDropped;

    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            panic!("a second time");
        }
    }

    /// Runs with a hook that prints nothing.
    fn quietly(body: impl FnOnce()) {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(|_| {}));
        body();
        panic::set_hook(hook);
    }

    #[test]
    fn a_result_is_returned() {
        let text = String::from("moved in");
        assert_eq!(catch(move || text).ok().as_deref(), Some("moved in"));
        assert!(catch(|| [7_u64; 100]).is_ok_and(|numbers| numbers == [7; 100]));
    }

    #[test]
    fn a_panic_is_caught_with_its_destructors_run() {
        quietly(|| {
            for _ in 0..3 {
                let dropped = Cell::new(0);
                let nested = catch(|| {
                    let _outer = OnDrop(&dropped);
                    let inner = catch(|| {
                        let _inner = OnDrop(&dropped);
                        if dropped.get() == 0 {
                            panic!("a bug")
                        }
                    });
                    assert!(inner.is_err());
                    panic!("another")
                });
                let nested: std::result::Result<(), Panicked> = nested;
                assert!(nested.is_err());
                assert_eq!(dropped.get(), 2);
                assert!(!std::thread::panicking());
            }
        });
    }

    #[test]
    fn a_panic_is_an_internal_error() {
        quietly(|| {
            let failure = guarded::<()>(|| panic!("a bug")).unwrap_err();
            assert_eq!(failure.status(), crate::abi::CAI_ERR_INTERNAL);
        });
    }

    #[test]
    fn a_payload_that_panics_is_caught() {
        quietly(|| {
            let caught: std::result::Result<(), Panicked> =
                catch(|| panic::panic_any(PanicsWhenDropped));
            assert!(caught.is_err());
            let caught: std::result::Result<(), Panicked> =
                catch_local(|| panic::panic_any(PanicsWhenDropped));
            assert!(caught.is_err());
        });
    }
}
