//! Owners, for C.
//!
//! May use: `abi`, `ffi::guard`, `ffi::ptr`, `owner`.
//! Unsafe: follows a caller's pointers, whose contract the C documentation states.

use std::ffi::c_void;

use super::guard::unguarded;
use super::ptr::given;
use crate::abi::{cai_error, cai_owner, cai_status};
use crate::owner;

/// Makes an owner with one reference, for producers that have no counted object of their own.
///
/// `context`: handed to `destroy`; may be NULL.
/// `destroy`: called once with `context` when the last reference is gone, on whatever thread that happens,
/// with or without an interpreter's lock. It must not throw. NULL: nothing needs to be done, because the
/// data lives as long as the program.
/// `out`: the owner; the caller holds its reference. Written on success only; on failure `context` is
/// still the caller's.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT` or `CAI_ERR_NO_MEMORY`.
/// Thread safety: any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_owner_create(
    context: *mut c_void,
    destroy: Option<unsafe extern "C-unwind" fn(context: *mut c_void)>,
    out: *mut *mut cai_owner,
    error: *mut cai_error,
) -> cai_status {
    unguarded(error, || {
        given(out, "out")?;
        let owner = owner::new(context, destroy)?;
        // SAFETY: not NULL (checked above), and writable as the header requires.
        unsafe { out.write(owner) };
        Ok(())
    })
}

/// Adds a reference to an owner of any library, through its table.
///
/// The caller must hold a reference, or know that somebody does for the length of this call.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT` or `CAI_ERR_OWNER_OPS`.
/// Thread safety: any thread; allocates nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_owner_retain(
    owner: *mut cai_owner,
    error: *mut cai_error,
) -> cai_status {
    unguarded(error, || {
        given(owner, "owner")?;
        // SAFETY: not NULL (checked above), and alive as the header requires.
        unsafe { owner::retain(owner) }
    })
}

/// Gives up a reference to an owner of any library, through its table. The last one destroys the owner,
/// on this thread.
///
/// Does nothing with NULL. An owner whose table is broken cannot be released and is leaked.
///
/// Cannot fail. Thread safety: any thread; allocates nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_owner_release(owner: *mut cai_owner) {
    unguarded(std::ptr::null_mut(), || {
        if !owner.is_null() {
            // SAFETY: alive as the header requires; the caller gives up one reference.
            unsafe { owner::release(owner) };
        }
        Ok(())
    });
}
