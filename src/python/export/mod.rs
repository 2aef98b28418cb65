//! Exports arrays as Python objects: a type whose objects hold an array and offer it in every
//! protocol.

pub mod array_interface;
pub mod cai_dict;
pub mod dlpack;
pub mod exchange_table;
pub mod object;
pub mod sycl;
pub mod type_object;

use crate::abi::{self, cai_array, cai_export_options};
use crate::error::{Result, fail};
use crate::python::capi::Object;
use crate::python::export::type_object::export_type;
use crate::python::interpreter::Py;

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
    // SAFETY: the caller's array, by this function's own contract.
    unsafe { object::export(py, export_type(py), array, flags) }
}
