//! DLPack tensors from arrays.

use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr;

use crate::abi::{self, cai_array};
use crate::device::is_host;
use crate::dlpack::abi::{
    DIMENSIONS, Deleter, PADDED, READ_ONLY, Tensor, Unversioned, VERSION, Versioned,
};
use crate::dlpack::dtype::to_dlpack;
use crate::dlpack::managed::ManagedTensor;
use crate::error::{Count, Result, fail};
use crate::layout::{self, Layout};
use crate::memory::Extended;
use crate::owner::Ref;
use crate::validate::Valid;
use crate::{driver, read};

/// Returns DLPack's device type and id of an array, from the driver if the array has none.
///
/// Host memory and managed memory belong to no single device, so their id is 0.
pub fn device_of(array: &cai_array) -> Result<(i32, i32)> {
    let device = match array.device.r#type {
        abi::CAI_DEVICE_UNKNOWN if array.data.is_null() => {
            driver::device_without_memory(array.context)
        }
        abi::CAI_DEVICE_UNKNOWN => {
            let (found, _) = driver::locate(array.data)?;
            if found.r#type == abi::CAI_DEVICE_CPU {
                return fail!(CAI_ERR_CONVERT_DEVICE, "device.type";
                    found "device unknown, and {:p}, which the CUDA driver does not know either",
                        array.data;
                    expected "a device type");
            }
            found
        }
        _ => array.device,
    };
    let is_of_no_device = is_host(device.r#type);
    if device.id < 0 && !is_of_no_device {
        return fail!(CAI_ERR_CONVERT_DEVICE, "device.id";
            found "{}, which means that it is not known", device.id;
            expected "the number of the device, which DLPack requires");
    }
    Ok((device.r#type, if is_of_no_device { 0 } else { device.id }))
}

/// Fails for flags that this version does not know.
pub fn check_flags(flags: u32) -> Result<()> {
    if flags & !abi::CAI_DLPACK_HIDE_READONLY != 0 {
        return fail!(CAI_ERR_NEWER_CALLER, "flags";
            found "{:#x}", flags & !abi::CAI_DLPACK_HIDE_READONLY;
            expected "CAI_DLPACK_HIDE_READONLY or 0");
    }
    Ok(())
}

/// An array as DLPack describes it.
struct Export<'a> {
    /// Without shape and strides.
    tensor: Tensor,
    flags: u64,
    shape: &'a [i64],
}

/// Converts an array. As many of `steps` are written as it has dimensions.
fn convert<'a>(array: &Valid<'a>, flags: u32, steps: &mut [i64; DIMENSIONS]) -> Result<Export<'a>> {
    if !array.mask.is_null() {
        return fail!(CAI_ERR_CONVERT_MASK, "mask";
            found "a mask"; expected "NULL, because DLPack has no masks");
    }
    let (dtype, layout) = (array.dtype(), array.layout());
    let Some(theirs) = to_dlpack(&dtype) else {
        let text = read::typestr(&array.typestr).unwrap_or_default();
        return fail!(CAI_ERR_CONVERT_TYPE, "typestr";
            found "\"{}\"", text.escape_ascii();
            expected "a type of DLPack: b1, i and u of 1 to 16 bytes, f2 f4 f8, c4 c8 c16, t1, or \
                a dtype_code");
    };
    array.byte_order()?;
    let is_empty = array.data.is_null();
    element_steps(layout, is_empty, steps)?;
    let (device_type, device_id) = device_of(array)?;
    let states_read_only =
        array.flags & abi::CAI_ARRAY_READONLY != 0 && flags & abi::CAI_DLPACK_HIDE_READONLY == 0;
    let read_only = if states_read_only { READ_ONLY } else { 0 };
    let is_padded = theirs.is_below_a_byte() && dtype.code != abi::CAI_DTYPE_NONE;
    let padded = if is_padded { PADDED } else { 0 };
    Ok(Export {
        tensor: Tensor {
            data: array.data,
            device_type,
            device_id,
            ndim: array.ndim,
            dtype: theirs,
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: array.byte_offset,
        },
        flags: read_only | padded,
        shape: layout.shape,
    })
}

/// Converts strides in bytes, stated or not, to strides in elements. A stride that is never used
/// may be any number of bytes: without an equivalent, it becomes one element.
fn element_steps(layout: Layout, is_empty: bool, steps: &mut [i64; DIMENSIONS]) -> Result<()> {
    let Some(strides) = layout.strides else {
        let steps = steps.get_mut(..layout.shape.len()).unwrap_or_default();
        if layout::c_strides(layout.shape, 1, steps).is_err() {
            // Only an empty array can have extents whose product overflows.
            steps.fill(1);
        }
        return Ok(());
    };
    // Packed bits have no strides, so elements are whole bytes here.
    let itemsize = (layout.bits / 8).max(1);
    for (index, ((&extent, &stride), step)) in
        layout.shape.iter().zip(strides).zip(steps).enumerate()
    {
        *step = match (stride.checked_rem(itemsize), stride.checked_div(itemsize)) {
            (Some(0), Some(elements)) => elements,
            _ if is_empty || extent <= 1 => 1,
            _ => {
                return fail!(CAI_ERR_CONVERT_STRIDES, "strides[{index}]";
                    found "{}", Count(stride, "byte"); expected "a multiple of the itemsize {itemsize}");
            }
        };
    }
    Ok(())
}

trait Managed {
    fn new(tensor: Tensor, flags: u64, deleter: Deleter) -> Self;
    fn tensor(&mut self) -> &mut Tensor;
}

impl Managed for Versioned {
    fn new(tensor: Tensor, flags: u64, deleter: Deleter) -> Self {
        Versioned { version: VERSION, manager_ctx: ptr::null_mut(), deleter, flags, tensor }
    }

    fn tensor(&mut self) -> &mut Tensor {
        &mut self.tensor
    }
}

impl Managed for Unversioned {
    fn new(tensor: Tensor, _: u64, deleter: Deleter) -> Self {
        Unversioned { tensor, manager_ctx: ptr::null_mut(), deleter }
    }

    fn tensor(&mut self) -> &mut Tensor {
        &mut self.tensor
    }
}

/// A managed tensor of this library. Shape and strides follow it in memory.
#[repr(C)]
struct Exported<T> {
    managed: T,
    #[allow(dead_code)]
    owner: Ref,
}

const _: () = assert!(offset_of!(Exported<Versioned>, managed) == 0);
const _: () = assert!(offset_of!(Exported<Unversioned>, managed) == 0);

/// Makes a managed tensor, with a reference to the array's owner.
fn place<T: Managed>(export: Export, steps: &[i64; DIMENSIONS], array: &Valid) -> Result<*mut T> {
    let Export { tensor, flags, shape } = export;
    let owner = array.retain()?;
    let managed = T::new(tensor, flags, Some(delete::<T>));
    let mut block = Extended::new(Exported { managed, owner }, 2 * shape.len(), 0)?;
    let (Exported { managed, .. }, numbers) = block.parts();
    if !shape.is_empty() {
        let (their_shape, their_steps) = numbers.split_at_mut(shape.len());
        their_shape.copy_from_slice(shape);
        their_steps.iter_mut().zip(steps).for_each(|(to, from)| *to = *from);
        let tensor = managed.tensor();
        (tensor.shape, tensor.strides) = (their_shape.as_mut_ptr(), their_steps.as_mut_ptr());
    }
    Ok(block.into_raw().cast())
}

/// The deleter of this library's tensors: releases the owner, on any thread. Does nothing for NULL.
unsafe extern "C-unwind" fn delete<T: Managed>(managed: *mut c_void) {
    if managed.is_null() {
        return;
    }
    // SAFETY: only `place` makes structures with this deleter, in a block of this type, which its
    // consumer gives up. The consumer may have changed any member of the structure.
    drop(unsafe { Extended::<Exported<T>, i64>::from_raw(managed.cast()) });
}

/// Makes a versioned tensor, with a reference to the owner. `flags` are `CAI_DLPACK_` bits.
pub fn to_versioned(array: &Valid, flags: u32) -> Result<ManagedTensor> {
    let mut steps = [0; DIMENSIONS];
    let export = convert(array, flags, &mut steps)?;
    let tensor = place::<Versioned>(export, &steps, array)?;
    // SAFETY: a new tensor, which has no other owner.
    Ok(unsafe { ManagedTensor::versioned(tensor.cast()) })
}

/// Makes a tensor without a version. It can express neither that it is read-only nor the padding of
/// elements of less than a byte.
pub fn to_unversioned(array: &Valid, flags: u32) -> Result<ManagedTensor> {
    let mut steps = [0; DIMENSIONS];
    let export = convert(array, flags, &mut steps)?;
    if export.flags & READ_ONLY != 0 {
        return fail!(CAI_ERR_CONVERT_READONLY, "flags";
            found "CAI_ARRAY_READONLY";
            expected "a writable array, a versioned tensor, or CAI_DLPACK_HIDE_READONLY");
    }
    if export.tensor.dtype.is_below_a_byte() {
        let text = read::typestr(&array.typestr).unwrap_or_default();
        return fail!(CAI_ERR_CONVERT_TYPE, "typestr";
            found "\"{}\", elements of less than a byte", text.escape_ascii();
            expected "elements of whole bytes, or a versioned tensor");
    }
    let tensor = place::<Unversioned>(export, &steps, array)?;
    // SAFETY: a new tensor, which has no other owner.
    Ok(unsafe { ManagedTensor::unversioned(tensor.cast()) })
}
