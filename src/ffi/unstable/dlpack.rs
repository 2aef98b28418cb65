//! DLPack's structures with several lanes, for C.

use super::super::dlpack::import;
use super::super::guard::guard;
use crate::abi::{
    self, DLManagedTensor, DLManagedTensorVersioned, cai_array, cai_error, cai_status, cai_stream,
};
use crate::argument::Out;
use crate::dlpack::{Lanes, ManagedTensor};
use crate::error::{Result, fail};

fn lanes(flags: u32) -> Result<Lanes> {
    match flags {
        0 => Ok(Lanes::Refused),
        abi::CAI_UNSTABLE_DLPACK_LANES => Ok(Lanes::Dimension),
        _ => fail!(CAI_ERR_NEWER_CALLER, "flags";
            found "{flags:#x}";
            expected "0 or CAI_UNSTABLE_DLPACK_LANES, the flag that this version knows"),
    }
}

/// Creates an array from a DLPack tensor, as `cai_array_from_dlpack` does, also one whose elements
/// have several lanes.
///
/// `tensor`, `stream`, `out`: as for `cai_array_from_dlpack`.
/// `flags`: 0, or `CAI_UNSTABLE_DLPACK_LANES`. With it, elements of `lanes` numbers of whole bytes
/// are numbers of an array with one more dimension: the last one, of `lanes` contiguous numbers. A
/// tensor of shape (3, 5) with elements of 2 floats is an array of shape (3, 5, 2) of floats. Its
/// other strides are those of the tensor, in bytes. Tensors of one lane come in as without the flag.
///
/// Returns a status of `cai_array_from_dlpack`, or `CAI_ERR_NEWER_CALLER` for an unknown flag. With
/// `CAI_UNSTABLE_DLPACK_LANES`, `CAI_ERR_NDIM` for lanes in a tensor of 64 dimensions.
/// Thread safety: any thread; allocates one block. Source: DLPack 1.3, `dlpack.h`.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_array_from_dlpack(
    tensor: *mut DLManagedTensorVersioned,
    stream: cai_stream,
    flags: u32,
    out: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    // SAFETY: the caller passes what the header requires.
    let (out, error) = unsafe { (Out::new(out), Out::new(error)) };
    guard(error, || {
        let lanes = lanes(flags)?;
        // SAFETY: NULL, or alive and the caller's, as the header requires.
        unsafe { import(tensor, ManagedTensor::versioned, stream, lanes, out) }
    })
}

/// Creates an array from a tensor of DLPack's older structure, as
/// `cai_array_from_dlpack_unversioned` does, also one whose elements have several lanes.
///
/// Parameters and thread safety: as for `cai_unstable_array_from_dlpack`.
///
/// Returns a status of `cai_unstable_array_from_dlpack`, or of `cai_array_from_dlpack_unversioned`.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cai_unstable_array_from_dlpack_unversioned(
    tensor: *mut DLManagedTensor,
    stream: cai_stream,
    flags: u32,
    out: *mut cai_array,
    error: *mut cai_error,
) -> cai_status {
    // SAFETY: the caller passes what the header requires.
    let (out, error) = unsafe { (Out::new(out), Out::new(error)) };
    guard(error, || {
        let lanes = lanes(flags)?;
        // SAFETY: NULL, or alive and the caller's, as the header requires.
        unsafe { import(tensor, ManagedTensor::unversioned, stream, lanes, out) }
    })
}
