//! Arrays and their lifetime, for C.
//!
//! May use: `abi`, `error`, `ffi::guard`, `ffi::ptr`, `owner`, `owner::description`, `read`,
//! `validate`.
//! Unsafe: follows a caller's pointers, whose contract the C documentation states.

use std::mem::{offset_of, size_of};
use std::ptr::null_mut;

use super::guard::{guard, unguarded};
use super::ptr::{array, fits, given, output_size, write_array};
use crate::abi::{self, cai_array, cai_error, cai_owner, cai_status};
use crate::error::fail;
use crate::owner::{self, description, not_borrowed};
use crate::read;
use crate::validate;

/// Adds a reference to the owner of an array: from now on the data, and all that the structure points to,
/// stays alive until `cai_array_release` of this structure or of a copy of it.
///
/// An array without an owner is borrowed: nothing can be kept alive, and the function says so.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_BORROWED` or
/// `CAI_ERR_OWNER_OPS`.
/// Thread safety: any thread; allocates nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_retain(
    array: *const cai_array,
    error: *mut cai_error,
) -> cai_status {
    unguarded(error, || {
        given(array, "array")?;
        // SAFETY: not NULL; the rest by contract.
        unsafe { read::array_size(array) }?;
        // SAFETY: the first 16 bytes of every version are the same; no reference to the whole is made.
        let owner = unsafe { (&raw const (*array).owner).read() };
        not_borrowed(owner)?;
        // SAFETY: not NULL; a live owner by contract.
        unsafe { owner::retain(owner) }
    })
}

/// Gives up the reference that this structure holds on its owner, and clears the structure: all fields but
/// `struct_size` become 0. So a second release does nothing, and neither does one of `CAI_ARRAY_INIT`, of
/// a zeroed structure, of a borrowed array, or of NULL.
///
/// Works on arrays of every version of this header, past and future.
///
/// Cannot fail. Thread safety: any thread, but not two on one structure at once; allocates nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_release(array: *mut cai_array) {
    unguarded(null_mut(), || {
        if array.is_null() {
            return Ok(());
        }
        // SAFETY: not NULL; the first 16 bytes of every version are the same, and readable even where
        // struct_size was never set.
        let (size, owner) = unsafe {
            ((&raw const (*array).struct_size).read(), (&raw const (*array).owner).read())
        };
        // The structure is cleared first: whatever the owner's callback does, it finds a tombstone.
        let size = match size as usize {
            size @ read::LEAST_PREFIX..=read::MAX_STRUCT_SIZE => size,
            // Never initialized or garbage: touch no more than the prefix that every version has.
            _ => read::LEAST_PREFIX,
        };
        let kept = offset_of!(cai_array, flags);
        // SAFETY: `size` bytes are the caller's.
        let clear =
            |size: usize| unsafe { array.cast::<u8>().add(kept).write_bytes(0, size - kept) };
        // Of a size that the compiler knows, that is eight instructions instead of a call.
        if size == size_of::<cai_array>() {
            clear(size_of::<cai_array>())
        } else {
            clear(size)
        }
        if !owner.is_null() {
            // SAFETY: a live owner by contract, of which the structure held a reference.
            unsafe { owner::release(owner) };
        }
        Ok(())
    });
}

/// Makes a second structure for the same array: copies it, whatever header the other side was compiled
/// with, and adds a reference. A consumer that keeps an array it was handed uses this instead of `*out =
/// *array`, which reads past the end of a shorter structure.
///
/// `out`: must be initialized (`CAI_ARRAY_INIT`) and hold no reference, which would be lost. Gets as much
/// as its `struct_size` covers, on success only; release it with `cai_array_release`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_STRUCT_SIZE`, `CAI_ERR_FLAGS`, `CAI_ERR_BORROWED` or
/// `CAI_ERR_OWNER_OPS`.
/// Thread safety: any thread; allocates nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_share(
    array: *const cai_array,
    out: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    unguarded(error, || {
        // SAFETY: handed on.
        let local = unsafe { self::array(array, "array") }?;
        // SAFETY: handed on.
        let size = unsafe { output_size(out, "out") }?;
        if local.flags & !abi::CAI_ARRAY_READONLY != 0 {
            return fail!(
                CAI_ERR_FLAGS,
                "flags",
                found = ("{:#x}", local.flags),
                expected = "flags that this library knows"
            );
        }
        fits(&local, size)?;
        not_borrowed(local.owner)?;
        // SAFETY: not NULL; a live owner by contract.
        unsafe { owner::retain(local.owner) }?;
        // SAFETY: `size` bytes are the caller's.
        unsafe { write_array(out, size, &local) };
        Ok(())
    })
}

/// Copies a description into memory of its own: shape, strides, fields and masks go into one block, which
/// becomes the new array's owner and takes over `description->owner`. For producers whose shape and strides
/// live on the stack. The data is not copied.
///
/// `description`: must have an owner and pass `cai_array_validate` with `CAI_CHECK_LAYOUT`; mind that `data` is
/// NULL where slicing left no elements. On success its reference has moved to `out` and `description->owner` is
/// NULL; on failure nothing has changed. So it may be released in either case. Owners of masks get one more
/// reference each, and `out`'s masks hang on the new block: each can be kept by itself.
/// `out`: must be initialized (`CAI_ARRAY_INIT`); may be the same structure as `description`. Gets as much
/// as its `struct_size` covers, on success only; release it with `cai_array_release`.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT`, `CAI_ERR_BORROWED`, `CAI_ERR_OWNER_OPS`, `CAI_ERR_NO_MEMORY`,
/// `CAI_ERR_STRUCT_SIZE`, or what `cai_array_validate` says.
/// Thread safety: any thread; allocates one block.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cai_array_create(
    description: *mut cai_array,
    out: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    guard(error, || {
        // SAFETY: handed on.
        let local = unsafe { self::array(description, "description") }?;
        // SAFETY: handed on.
        let size = unsafe { output_size(out, "out") }?;
        // SAFETY: not NULL; handed on.
        unsafe { validate::array(description, abi::CAI_CHECK_LAYOUT) }?;
        fits(&local, size)?;
        not_borrowed(local.owner)?;
        // SAFETY: validated just now, and it has an owner.
        let array = unsafe { description::new(&local) }?;
        // SAFETY: both are the caller's; `size` bytes are at `out`. The order matters where they are one.
        unsafe {
            (&raw mut (*description).owner).write(null_mut());
            write_array(out, size, &array);
        }
        Ok(())
    })
}

const _: () =
    assert!(read::LEAST_PREFIX == offset_of!(cai_array, owner) + size_of::<*mut cai_owner>());
