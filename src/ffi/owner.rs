//! Owners, for C.

use std::ffi::c_void;

use super::guard::unguarded;
use crate::abi::{cai_error, cai_owner, cai_status};
use crate::argument::{In, Out, Reference, arguments};
use crate::owner::{self, Destructor};
use crate::sync::release_queue;

/// Creates an owner with one reference, for producers that have no reference-counted object of
/// their own.
///
/// `context`, `destroy`: `destroy(context)` is called once, when the last reference is released, as
/// in `cai_array_create`. `destroy` may be NULL: the data then lives as long as the program. While
/// the owner lives, its data is not freed: the library remembers which context the memory has.
/// `out`: the owner, whose reference belongs to the caller. It is written on success only; on
/// failure `context` still belongs to the caller.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT` or `CAI_ERR_NO_MEMORY`.
/// Thread safety: any thread; allocates one block.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_owner_create(
    context: *mut c_void,
    destroy: Option<unsafe extern "C-unwind" fn(context: *mut c_void)>,
    out: *mut *mut cai_owner,
    error: *mut cai_error,
) -> cai_status {
    arguments!(destructor: Destructor(destroy, context), out: Out, error: Out);
    unguarded(error, || {
        let out = out.given("out")?;
        out.write(owner::new(destructor)?.into_raw());
        Ok(())
    })
}

/// Adds a reference to an owner of any library. The owner must stay alive during the call: the
/// caller, or other code on its behalf, holds a reference.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT` or `CAI_ERR_OWNER_OPS`.
/// Thread safety: any thread; allocates nothing.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_owner_retain(
    owner: *mut cai_owner,
    error: *mut cai_error,
) -> cai_status {
    arguments!(owner: In, error: Out);
    unguarded(error, || {
        owner.given("owner")?.retain()?.into_raw();
        Ok(())
    })
}

/// Releases a reference to an owner of any library. The last release destroys the owner, on this
/// thread.
///
/// Does nothing for NULL. An owner whose table of operations is broken is leaked.
///
/// Cannot fail. Thread safety: any thread; allocates nothing.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_owner_release(owner: *mut cai_owner) {
    arguments!(owner: Reference);
    unguarded(Out::NONE, || {
        if owner.is_given() {
            drop(owner.adopt());
        }
        release_queue::progress_here();
        Ok(())
    });
}
