//! Arrays and their lifetime, for C.

use std::ffi::c_void;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::ptr::null_mut;

use super::guard::{guard, unguarded};
use super::ptr::{array, given, output_size, write_array};
use crate::abi::{self, cai_array, cai_error, cai_owner, cai_status};
use crate::error::fail;
use crate::owner::{self, Destructor, Ref, description, not_borrowed};
use crate::read::{self, sizes};
use crate::sync::release_queue;
use crate::validate;

/// Adds a reference to the owner of an array. The data, and everything that the structure points
/// to, stays alive until the reference is released with `cai_array_release` of this structure or of
/// a copy.
///
/// An array without an owner is borrowed: it cannot be kept alive, and the status is
/// `CAI_ERR_BORROWED`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_BORROWED` or
/// `CAI_ERR_OWNER_OPS`.
/// Thread safety: any thread; allocates nothing.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_retain(
    array: *const cai_array,
    error: *mut cai_error,
) -> cai_status {
    unguarded(error, || {
        given(array, "array")?;
        // SAFETY: not NULL (checked above); the header requires the rest of the caller.
        unsafe { read::array_size(array) }?;
        // SAFETY: not NULL (checked above). The first 16 bytes of every version are the same; no
        // reference to the whole is made.
        let owner = unsafe { (&raw const (*array).owner).read() };
        not_borrowed(owner)?;
        // SAFETY: not NULL (checked above), and alive as the header requires.
        unsafe { owner::retain(owner) }
    })
}

/// Clears a structure: sets the members that every version has to 0, except `struct_size`. Not as
/// many bytes as it states, because an assigned copy of a longer structure has fewer.
///
/// # Safety
/// `array` points to a structure of a legal size.
#[inline(always)]
pub(super) unsafe fn clear(array: *mut cai_array) {
    let kept = offset_of!(cai_array, flags);
    // SAFETY: every version has as many bytes.
    unsafe { array.cast::<u8>().add(kept).write_bytes(0, sizes::ARRAY - kept) };
}

/// Releases the reference that a structure holds on its owner, and clears the structure: sets its
/// first 128 bytes, which every version has, to 0, except `struct_size`. A borrowed array is only
/// cleared. Does nothing for NULL, a zeroed structure, `CAI_ARRAY_INIT`, and an array that was
/// already released.
///
/// The structure is cleared before the owner is released. Arrays of every version of `cai/abi.h`
/// are accepted.
///
/// Cannot fail. Thread safety: any thread, but not two on one structure at once; allocates nothing.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_release(array: *mut cai_array) {
    unguarded(null_mut(), || {
        if array.is_null() {
            return Ok(());
        }
        // SAFETY: not NULL (checked above). The first 16 bytes of every version are the same, and
        // readable even if `struct_size` was never set.
        let (size, owner) = unsafe {
            ((&raw const (*array).struct_size).read(), (&raw const (*array).owner).read())
        };
        // The structure is cleared first, so that the owner's callback finds a cleared structure,
        // whatever it does. An invalid `struct_size` was never set: then only the prefix of all
        // versions is cleared.
        if read::is_legal(size as usize, sizes::ARRAY) {
            // SAFETY: the size is legal.
            unsafe { clear(array) };
        } else {
            // SAFETY: the prefix is readable and writable even if `struct_size` was never set.
            unsafe {
                (&raw mut (*array).flags).write(0);
                (&raw mut (*array).owner).write(null_mut());
            }
        }
        if !owner.is_null() {
            // SAFETY: the structure held a reference to this owner, which is alive as the header
            // requires.
            unsafe { owner::release(owner) };
        }
        release_queue::progress_here();
        Ok(())
    });
}

/// Makes a second structure for the same array, with a reference of its own. Use it instead of an
/// assignment, which reads past the end of a shorter structure and copies a `struct_size` that can
/// exceed the copy.
///
/// `out`: must be initialized (`CAI_ARRAY_INIT`) and hold no reference, which would be lost. It
/// keeps its `struct_size`, which limits what is written, and is written on success only. Release
/// it with `cai_array_release`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_FLAGS`,
/// `CAI_ERR_BORROWED` or `CAI_ERR_OWNER_OPS`.
/// Thread safety: any thread; allocates nothing.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_share(
    array: *const cai_array,
    out: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    unguarded(error, || {
        // `cai_inline_share` checks in the same order: pointers, sizes, flags.
        given(array, "array")?;
        given(out, "out")?;
        // SAFETY: not NULL (checked above).
        unsafe { read::array_size(array) }?;
        // SAFETY: the header requires of the caller what this function requires.
        let size = unsafe { output_size(out, "out") }?;
        let mut scratch = MaybeUninit::uninit();
        // SAFETY: not NULL (checked above); the header requires the rest of the caller. Copied,
        // because `out` may be the same structure.
        let local = *unsafe { read::view(array, &mut scratch) }?;
        not_borrowed(local.owner)?;
        // SAFETY: not NULL (checked above), and alive as the header requires.
        unsafe { owner::retain(local.owner) }?;
        // SAFETY: the caller's structure has `size` writable bytes, which it stated.
        unsafe { write_array(out, size, &local) };
        Ok(())
    })
}

/// Creates an array from a description, which may lie on the stack: copies shape, strides, fields
/// and masks into one block, which is the owner of the new array. The data is not copied.
///
/// `description`: must pass `cai_array_validate` with `CAI_CHECK_LAYOUT`; `data` is NULL if there
/// are no elements. It is not changed. If it has an owner, the new array holds a reference of its
/// own to that owner, and the caller keeps the one in `description`. The same holds for the owners
/// of masks. Each mask of `out` can be shared by itself.
/// `context`, `destroy`: `destroy(context)` is called once, after the last reference to the new
/// array and its masks and the references to the owners above have been released. It runs on any
/// thread, with or without an interpreter's lock, with any CUDA context current or none, and
/// perhaps during a stream capture, where `cudaFree` fails or blocks. It must not throw (an
/// exception passes through the library), and leaving it by `longjmp` is undefined. Its code must
/// stay loaded. `destroy` may be NULL. If the function fails, `destroy` is not called,
/// and `context` still belongs to the caller.
/// `out`: must be initialized (`CAI_ARRAY_INIT`), hold no reference, which would be lost, and not
/// be `description`. It is written on success only. Release it with `cai_array_release`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_ARGUMENT` if `out` is `description`,
/// `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_OWNER_OPS`, `CAI_ERR_NO_MEMORY`, or a status of
/// `cai_array_validate`.
/// Thread safety: any thread; allocates one block.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_create(
    description: *const cai_array,
    context: *mut c_void,
    destroy: Option<unsafe extern "C-unwind" fn(context: *mut c_void)>,
    out: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    guard(error, || {
        // SAFETY: NULL, or a structure of the size that it specifies, by the caller's contract.
        let local = unsafe { self::array(description, "description") }?;
        // SAFETY: NULL, or a structure whose `struct_size` is set, by the caller's contract.
        let size = unsafe { output_size(out, "out") }?;
        if out.cast_const() == description {
            return fail!(
                CAI_ERR_ARGUMENT,
                "out",
                found = "description",
                expected = "another structure"
            );
        }
        // SAFETY: `array` above found that it is not NULL; what it points to is readable by the
        // caller's contract.
        unsafe { validate::array(description, abi::CAI_CHECK_LAYOUT) }?;
        // SAFETY: `local` was validated above; owners are alive by the caller's contract.
        let prepared = unsafe { description::prepare(&local) }?;
        // SAFETY: the header requires of the caller what this function requires.
        let array = prepared.finish(unsafe { Destructor::new(destroy, context) });
        // SAFETY: `output_size` read `size` from `out`, which has as many bytes.
        unsafe { write_array(out, size, &array.into_raw()) };
        Ok(())
    })
}

/// Attaches something to an array that must live as long as the array: the stream that it is
/// exported with, an event, a pool. Replaces the owner of the array and of its masks. The new owner
/// first releases the old owners and then calls `destroy(context)`, so an attached stream still
/// exists when the data is freed on it.
///
/// `array`: must have an owner. On success it holds the only reference to the new owner; on failure
/// it is unchanged. If it has a mask, it must pass `cai_array_validate` with `CAI_CHECK_LAYOUT`,
/// and `mask` is replaced by a copy: a mask that is shared by itself keeps the attachment alive.
/// `context`, `destroy`: as in `cai_array_create`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_FLAGS`,
/// `CAI_ERR_BORROWED`, `CAI_ERR_OWNER_OPS`, `CAI_ERR_NO_MEMORY` or, if there is a mask, a status of
/// `cai_array_validate`.
/// Thread safety: any thread, but not two on one structure at once; allocates one block. Source:
/// CAI version 3, "Lifetime management", "Streams".
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_attach(
    array: *mut cai_array,
    context: *mut c_void,
    destroy: Option<unsafe extern "C-unwind" fn(context: *mut c_void)>,
    error: *mut cai_error,
) -> cai_status {
    guard(error, || {
        // SAFETY: NULL, or a structure of the size that it specifies, by the caller's contract.
        let local = unsafe { self::array(array, "array") }?;
        not_borrowed(local.owner)?;
        // SAFETY: the header requires of the caller what this function requires.
        let destructor = unsafe { Destructor::new(destroy, context) };
        if local.mask.is_null() {
            let prepared = owner::prepare()?;
            // SAFETY: alive by the caller's contract; the reference moves.
            let first = unsafe { Ref::adopt(local.owner) }?;
            let owner = prepared.finish(Some(first), destructor).owner;
            // SAFETY: `array` is not NULL, and every size of it covers the owner.
            unsafe { (&raw mut (*array).owner).write(owner.into_raw()) };
            return Ok(());
        }
        // SAFETY: not NULL; what it points to is readable by the caller's contract.
        unsafe { validate::array(array, abi::CAI_CHECK_LAYOUT) }?;
        // SAFETY: `local` was validated above; owners are alive by the caller's contract.
        let copy = unsafe { description::prepare(&local) }?.finish(destructor).into_raw();
        // SAFETY: `array` is not NULL, and the smallest size of it covers both members. The rest of
        // the description stays where it is: the copy holds a reference to the old owner.
        unsafe {
            (&raw mut (*array).owner).write(copy.owner);
            (&raw mut (*array).mask).write(copy.mask);
            owner::release(local.owner);
        }
        Ok(())
    })
}

const _: () = assert!(sizes::PREFIX == offset_of!(cai_array, owner) + size_of::<*mut cai_owner>());
