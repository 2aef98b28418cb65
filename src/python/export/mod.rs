//! Exports arrays as Python objects: a type whose objects hold an array and offer it in every
//! protocol that can represent it.

pub mod array_interface;
pub mod arrow;
pub mod attributes;
pub mod buffer;
pub mod cai_dict;
pub mod class;
pub mod dlpack;
pub mod exchange_table;
pub mod object;
pub mod pep3118;
pub mod sycl;

use crate::abi::{self, cai_array, cai_export_options};
use crate::argument::In;
use crate::error::{Result, fail};
use crate::flags::{self, Named};
use crate::owner::Ref;
use crate::python::export::object::wrap;
use crate::python::py::{Owned, Py};
use crate::validate;

pub fn flags(options: In<cai_export_options>) -> Result<u32> {
    let Some(options) = options.optional() else { return Ok(0) };
    let flags = options.options()?.flags;
    const KNOWN: u32 = abi::CAI_EXPORT_VERSION_2
        | abi::CAI_EXPORT_STRIDES
        | abi::CAI_EXPORT_HIDE_READONLY
        | abi::CAI_UNSTABLE_EXPORT_VERSION_4;
    if flags & !KNOWN != 0 {
        return fail!(CAI_ERR_NEWER_CALLER, "options->flags";
            found "{}", Named(flags & !KNOWN, flags::EXPORT);
            expected "only {}", Named(KNOWN, flags::EXPORT));
    }
    const VERSIONS: u32 = abi::CAI_EXPORT_VERSION_2 | abi::CAI_UNSTABLE_EXPORT_VERSION_4;
    if flags & VERSIONS == VERSIONS {
        return fail!(CAI_ERR_ARGUMENT, "options->flags";
            found "{}", Named(VERSIONS, flags::EXPORT); expected "at most one of them");
    }
    Ok(flags)
}

/// Makes an object that holds a reference of its own to the array.
///
/// # Safety
/// `array` is readable as [`validate::array`] requires.
pub unsafe fn export<'py>(py: Py<'py>, array: &cai_array, flags: u32) -> Result<Owned<'py>> {
    // SAFETY: the array is readable (this function's contract). It is validated and has an owner
    // when it is wrapped.
    unsafe {
        validate::array(array, abi::CAI_CHECK_LAYOUT)?;
        wrap(py, array, Ref::retain(array.owner)?, flags)
    }
}
