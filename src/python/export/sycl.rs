//! `__sycl_usm_array_interface__` of an exported array.

use std::ffi::c_void;

use crate::abi::{self, cai_array};
use crate::error::{Result, fail};
use crate::python::capi::Object;
use crate::python::capsules::{CONTEXT, QUEUE};
use crate::python::convert::{integer, none};
use crate::python::export::cai_dict::{Dictionary, data, row, typestr};
use crate::python::export::object::{array_of, attribute};
use crate::python::py::{Owned, Py};
use crate::{device, validate};

pub unsafe extern "C-unwind" fn get_sycl(object: *mut Object, _: *mut c_void) -> *mut Object {
    attribute(|py| {
        const NAME: &str = "__sycl_usm_array_interface__";
        let (array, flags) = array_of(py, object)?;
        if array.device.r#type != abi::CAI_DEVICE_ONEAPI {
            return fail!(
                CAI_ERR_CONVERT_DEVICE,
                "{NAME}",
                found = ("an array on device {}", device::Name(array.device.r#type)),
                expected = "a oneAPI device"
            );
        }
        if !array.mask.is_null() {
            return fail!(
                CAI_ERR_CONVERT_MASK,
                "{NAME}",
                found = "an array with a mask",
                expected = "an array without a mask"
            );
        }
        let Some(syclobj) = syclobj(py, &array)? else {
            return fail!(
                CAI_ERR_CONVERT_DEVICE,
                "{NAME}['syclobj']",
                found = "neither a queue in stream nor a context",
                expected = "a queue or a context"
            );
        };
        // SAFETY: the array was validated when the object was made.
        let described = unsafe { validate::describe(&array) }?;
        if !matches!(described.dtype.kind as u8, b'b' | b'i' | b'u' | b'f' | b'c') {
            return fail!(
                CAI_ERR_CONVERT_TYPE,
                "{NAME}['typestr']",
                found = ("kind '{}'", described.dtype.kind as u8 as char),
                expected = "one of b i u f c"
            );
        }
        // `data` is the lowest address of the array, and `offset` leads to the element with index
        // zero.
        let itemsize = described.dtype.itemsize.max(1);
        let below = described.layout.span()?.lower;
        if below % itemsize != 0 {
            return fail!(
                CAI_ERR_CONVERT_STRIDES,
                "{NAME}['offset']",
                found = "{below} bytes",
                expected = "a multiple of {itemsize}"
            );
        }
        let lowest = cai_array { data: array.data.wrapping_byte_offset(below as isize), ..*array };
        let dictionary = Dictionary::new(py)?;
        dictionary.set(py.names.shape, row(py, described.layout.shape)?)?;
        dictionary.set(py.names.typestr, typestr(py, &array)?)?;
        dictionary.set(py.names.data, data(py, &lowest, flags)?)?;
        let c_order = described.layout.is_c_contiguous() && flags & abi::CAI_EXPORT_STRIDES == 0;
        let strides = if c_order { none(py) } else { element_steps(py, &described)? };
        dictionary.set(py.names.strides, strides)?;
        dictionary.set(py.names.offset, integer(py, below.unsigned_abs() as i64 / itemsize)?)?;
        dictionary.set(py.names.version, integer(py, 1)?)?;
        dictionary.set(py.names.syclobj, syclobj)?;
        Ok(dictionary.into_object().into_raw())
    })
}

/// Makes the tuple of strides in elements, which is the unit of SYCL's dictionary.
fn element_steps<'py>(py: Py<'py>, described: &validate::Described) -> Result<Owned<'py>> {
    let mut steps = [0; abi::CAI_MAX_NDIM as usize];
    let steps = &mut steps[..described.layout.shape.len()];
    described.layout.write_strides(steps)?;
    let itemsize = described.dtype.itemsize.max(1);
    for (index, step) in steps.iter_mut().enumerate() {
        let used = described.layout.shape[index] > 1;
        if used && *step % itemsize != 0 {
            return fail!(
                CAI_ERR_CONVERT_STRIDES,
                "strides[{index}]",
                found = "{step}",
                expected = "a multiple of {itemsize}"
            );
        }
        *step /= itemsize;
    }
    row(py, steps)
}

/// Makes the `syclobj` of an array: a capsule around its queue or its context, or `None` if neither
/// is known.
pub fn syclobj<'py>(py: Py<'py>, array: &cai_array) -> Result<Option<Owned<'py>>> {
    let capi = py.capi();
    let (pointer, name) =
        if array.stream > abi::CAI_STREAM_PER_THREAD && array.stream < abi::CAI_STREAM_UNKNOWN {
            (array.stream as *mut c_void, QUEUE)
        } else if !array.context.is_null() {
            (array.context, CONTEXT)
        } else {
            return Ok(None);
        };
    // A consumer copies the reference, so the capsule needs no destructor.
    // SAFETY: the GIL is held; the pointer is not NULL.
    Owned::new(py, unsafe { (capi.capsule_new)(pointer, name.as_ptr(), None) }).map(Some)
}
