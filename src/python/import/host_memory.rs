//! Rules of the structures that describe host memory: NumPy's and that of PEP 3118.

use std::ffi::c_void;
use std::ptr;

use crate::abi::{self, cai_device};
use crate::error::{Result, fail};
use crate::python::owner::Description;
use crate::validate;

/// Checks the number of dimensions, which the structure calls `name`, and that there are extents.
pub fn check_ndim(protocol: &str, name: &str, ndim: i32, has_shape: bool) -> Result<()> {
    if !(0..=abi::CAI_MAX_NDIM).contains(&ndim) {
        return fail!(
            CAI_ERR_NDIM,
            "{protocol}.{name}",
            found = "{ndim}",
            expected = ("0 to {}", abi::CAI_MAX_NDIM)
        );
    }
    if ndim > 0 && !has_shape {
        return fail!(
            CAI_ERR_SHAPE_NULL,
            "{protocol}.shape",
            found = "NULL",
            expected = "{ndim} extents"
        );
    }
    Ok(())
}

pub fn complete(
    to: &mut Description,
    protocol: &str,
    typestr: &str,
    readonly: bool,
    data: *mut c_void,
) -> Result<()> {
    to.set_typestr(typestr.as_bytes());
    to.array.flags = if readonly { abi::CAI_ARRAY_READONLY } else { 0 };
    to.array.data = if to.is_empty() { ptr::null_mut() } else { data };
    to.array.device = cai_device { r#type: abi::CAI_DEVICE_CPU, id: 0 };
    // SAFETY: the description has `ndim` extents, and as many strides if it has strides.
    unsafe { validate::array(to.array(), abi::CAI_CHECK_LAYOUT) }
        .map_err(|failure| failure.within(format_args!("{protocol}.")))
}
