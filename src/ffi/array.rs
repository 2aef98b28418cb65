//! Arrays and their lifetime, for C.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use super::guard::{guard, unguarded};
use crate::abi::{self, cai_array, cai_error, cai_status};
use crate::argument::{In, InOut, Out, Room, arguments};
use crate::owner::{self, Destructor, description};
use crate::sync::release_queue;

/// Initializes an array as `CAI_ARRAY_INIT` does, for languages that declare `cai_array` by
/// themselves.
///
/// `array`: memory that holds no reference, which would be lost. It need not be initialized. All
/// `size` bytes are written: members that this library does not know become 0.
/// `size`: the size of the caller's own declaration, never a number that the library or a header of
/// another version states. It becomes `struct_size`, which limits what every function writes. A size
/// that no version has is refused, and nothing is written: below 128, above 512, or not a multiple
/// of 8.
///
/// Returns `CAI_OK`, `CAI_ERR_NULL_ARGUMENT` or `CAI_ERR_STRUCT_SIZE`.
/// Thread safety: any thread; allocates nothing.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_array_init(array: *mut c_void, size: usize) -> cai_status {
    arguments!(array: Room(array, size));
    array.initialize(|array: &mut cai_array| array.version = abi::CAI_INTERFACE_VERSION)
}

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
    arguments!(array: In, error: Out);
    unguarded(error, || {
        array.given("array")?.retain()?.into_raw();
        Ok(())
    })
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
    arguments!(array: InOut);
    unguarded(Out::NONE, || {
        if array.is_given() {
            // The structure is cleared first, so that the owner's callback finds a cleared
            // structure, whatever it does.
            drop(array.take());
            release_queue::progress_here();
        }
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
    arguments!(array: In, out: Out, error: Out);
    unguarded(error, || {
        // `cai_inline_share` checks in the same order: pointers, sizes, flags.
        let array = array.given("array")?;
        out.given("out")?;
        array.check_size()?;
        let out = out.array("out")?;
        let mut scratch = MaybeUninit::uninit();
        // Copied, because `out` may be the same structure.
        let local = *array.view(&mut scratch)?;
        out.give_copy(&local, array.retain()?);
        Ok(())
    })
}

/// Creates an array from a description, which may lie on the stack: copies shape, strides, fields
/// and masks into one block, which is the owner of the new array. The data is not copied.
///
/// `description`: must pass `cai_array_validate` with `CAI_CHECK_LAYOUT`; but without elements,
/// `data` of the array and of each mask may be any address, and the copy's is NULL. It is not
/// changed. If it has an owner, the new array holds a reference of its own to that owner, and the
/// caller keeps the one in `description`. The same holds for the owners of masks. Each mask of
/// `out` can be shared by itself.
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
    arguments!(
        description: In, destructor: Destructor(destroy, context), out: Out, error: Out,
    );
    guard(error, || {
        let given = description.given("description")?;
        let (mut scratch, mut without_data) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        let local = given.unchecked(&mut scratch)?.null_if_empty(&mut without_data);
        let out = out.array("out")?;
        out.differs_from(description, "description")?;
        given.validate_description(local)?;
        out.give(description::prepare(local)?.finish(destructor));
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
    arguments!(array: InOut, destructor: Destructor(destroy, context), error: Out);
    guard(error, || {
        let mut structure = array.given("array")?;
        let mut scratch = MaybeUninit::uninit();
        let local = structure.input().unchecked(&mut scratch)?;
        if local.mask.is_null() {
            let prepared = owner::prepare()?;
            let first = structure.take_owner()?;
            structure.set_owner(prepared.finish(Some(first), destructor).owner);
            return Ok(());
        }
        structure.input().validate(abi::CAI_CHECK_LAYOUT)?;
        let prepared = description::prepare(local)?;
        let before = structure.take_owner()?;
        // The rest of the description stays where it is: the copy keeps the old owner alive.
        let copy = prepared.finish(destructor);
        structure.set_mask(copy.mask);
        structure.set_owner(copy.into_owner());
        drop(before);
        Ok(())
    })
}
