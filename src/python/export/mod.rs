//! Exports arrays as Python objects: a type whose objects hold an array and offer it in every
//! protocol.

pub mod array_interface;
pub mod cai_dict;
pub mod dlpack;
pub mod exchange_table;
pub mod sycl;
pub mod type_object;

use std::ptr;

use crate::abi::{self, cai_array, cai_export_options};
use crate::error::{Result, fail};
use crate::python::capi::{Object, TP_ALLOC};
use crate::python::export::type_object::{Body, body, export_type};
use crate::python::interpreter::{Owned, Py};
use crate::{owner, validate};

/// A caller's options: their flags.
///
/// # Safety
/// `options` is NULL or points to a structure of the size that it says.
pub unsafe fn flags(options: *const cai_export_options) -> Result<u32> {
    if options.is_null() {
        return Ok(0);
    }
    // SAFETY: the first field is there by contract.
    let size = unsafe { (&raw const (*options).struct_size).read() } as usize;
    if !(size_of::<cai_export_options>()..=4096).contains(&size) || size % 8 != 0 {
        return fail!(
            CAI_ERR_STRUCT_SIZE,
            "options->struct_size",
            found = "{size}",
            expected =
                ("sizeof(cai_export_options), which is {} here", size_of::<cai_export_options>())
        );
    }
    // SAFETY: as long as ours.
    let flags = unsafe { (&raw const (*options).flags).read() };
    const KNOWN: u32 =
        abi::CAI_EXPORT_VERSION_2 | abi::CAI_EXPORT_STRIDES | abi::CAI_EXPORT_HIDE_READONLY;
    if flags & !KNOWN != 0 {
        return fail!(
            CAI_ERR_ARGUMENT,
            "options->flags",
            found = "{flags:#x}",
            expected = "bits of {KNOWN:#x} only"
        );
    }
    Ok(flags)
}

/// A new object that holds a reference of its own to the array.
///
/// # Safety
/// `array` points to what a caller's array may point to.
pub unsafe fn export(array: &cai_array, flags: u32) -> Result<*mut Object> {
    let py = Py::here()?;
    // SAFETY: handed on.
    unsafe {
        validate::array(array, abi::CAI_CHECK_LAYOUT)?;
        if array.owner.is_null() {
            return fail!(
                CAI_ERR_BORROWED,
                "owner",
                found = "NULL, a borrowed array",
                expected = "an owner that keeps the data alive"
            );
        }
        owner::retain(array.owner)?;
        wrap(py, *array, flags)
    }
}

/// A new object around an array, whose reference it takes over, also on failure.
///
/// # Safety
/// The array is sound and has an owner.
pub unsafe fn wrap(py: Py, array: cai_array, flags: u32) -> Result<*mut Object> {
    let made = export_type(py).and_then(|exports| {
        // SAFETY: the lock is held; the slot was read from this type.
        unsafe {
            let alloc: unsafe extern "C" fn(*mut Object, isize) -> *mut Object =
                std::mem::transmute((py.capi().type_slot)(exports, TP_ALLOC));
            Owned::new(py, alloc(exports, 0))
        }
    });
    match made {
        Ok(object) => {
            let object = object.into_raw();
            // Whatever size it came with, all fields are there now.
            let array = cai_array { struct_size: size_of::<cai_array>() as u32, ..array };
            // SAFETY: the type's objects have a body, which is all zeros still.
            unsafe {
                body(py.capi(), object).write(Body {
                    array,
                    flags,
                    weak_references: ptr::null_mut(),
                })
            };
            Ok(object)
        }
        Err(failure) => {
            // SAFETY: the reference was ours.
            unsafe { owner::release(array.owner) };
            Err(failure)
        }
    }
}
