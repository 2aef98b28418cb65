//! Rules of the structures that describe host memory: NumPy's and that of PEP 3118.

use std::ffi::c_void;
use std::ptr;

use crate::abi::{self, CAI_TYPESTR_SIZE, cai_device};
use crate::error::{Count, Result, Text, fail};
use crate::python::owner::Description;
use crate::validate;

/// Checks the number of dimensions, which the structure calls `name`, and that there are extents.
pub fn check_ndim(protocol: &str, name: &str, ndim: i32, has_shape: bool) -> Result<()> {
    if !(0..=abi::CAI_MAX_NDIM).contains(&ndim) {
        return fail!(CAI_ERR_NDIM, "{protocol}.{name}";
            found "{ndim}"; expected "0 to {}", abi::CAI_MAX_NDIM);
    }
    if ndim > 0 && !has_shape {
        return fail!(CAI_ERR_SHAPE_NULL, "{protocol}.shape";
            found "NULL"; expected "{}", Count(ndim, "extent"));
    }
    Ok(())
}

/// Writes a typestr. Nearly all have one digit, for which nothing is formatted.
pub fn set_typestr(to: &mut Description, order: u8, kind: u8, count: i64) {
    match count {
        0..=9 => to.set_typestr(&[order, kind, b'0' + count as u8]),
        _ => {
            let (order, kind) = (char::from(order), char::from(kind));
            let text: Text<CAI_TYPESTR_SIZE> = Text::new(format_args!("{order}{kind}{count}"));
            to.set_typestr(text.as_str().as_bytes());
        }
    }
}

/// Completes a description whose type, shape and strides are set, and checks it.
pub fn complete(
    to: &mut Description,
    protocol: &str,
    readonly: bool,
    data: *mut c_void,
) -> Result<()> {
    to.array.flags = if readonly { abi::CAI_ARRAY_READONLY } else { 0 };
    to.array.data = if to.is_empty() { ptr::null_mut() } else { data };
    to.array.device = cai_device { r#type: abi::CAI_DEVICE_CPU, id: 0 };
    // SAFETY: the description has `ndim` extents, and as many strides if it has strides; neither
    // fields nor a mask. Its other members are those set here, and those of an array without work.
    unsafe { validate::described_layout(to.array()) }
        .map_err(|failure| failure.within(format_args!("{protocol}.")))
}
