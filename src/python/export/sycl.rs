//! `__sycl_usm_array_interface__` of an exported array.

use std::ffi::c_void;

use crate::abi::{self, cai_array};
use crate::device;
use crate::error::{Count, Result, fail};
use crate::layout::Layout;
use crate::python::capsules::{CONTEXT, QUEUE};
use crate::python::class::Instance;
use crate::python::export::cai_dict::{data, is_readonly, typestr};
use crate::python::export::object::Exported;
use crate::python::py::{Dictionary, Owned, Py};

const NAME: &str = "__sycl_usm_array_interface__";

pub fn sycl_usm_array_interface<'py>(
    py: Py<'py>,
    this: Instance<'_, Exported>,
) -> Result<Owned<'py>> {
    let array = this.array()?;
    if array.device.r#type != abi::CAI_DEVICE_ONEAPI {
        return fail!(CAI_ERR_CONVERT_DEVICE, "{NAME}";
            found "an array on device {}", device::Name(array.device.r#type);
            expected "a oneAPI device");
    }
    if !array.mask.is_null() {
        return fail!(CAI_ERR_CONVERT_MASK, "{NAME}";
            found "an array with a mask"; expected "an array without a mask");
    }
    let Some(syclobj) = syclobj(py, &array)? else {
        return fail!(CAI_ERR_CONVERT_DEVICE, "{NAME}['syclobj']";
            found "neither a queue in stream nor a context"; expected "a queue or a context");
    };
    let valid = array.valid();
    let (dtype, layout) = (valid.dtype(), valid.layout());
    if !matches!(dtype.kind as u8, b'b' | b'i' | b'u' | b'f' | b'c') {
        return fail!(CAI_ERR_CONVERT_TYPE, "{NAME}['typestr']";
            found "kind '{}'", dtype.kind as u8 as char; expected "one of b i u f c");
    }
    // `data` is the array's lowest address, and `offset` leads to the element with index zero.
    let itemsize = dtype.itemsize.max(1);
    let below = valid.span().lower;
    if below % itemsize != 0 {
        return fail!(CAI_ERR_CONVERT_STRIDES, "{NAME}['offset']";
            found "{}", Count(below, "byte"); expected "a multiple of {itemsize}");
    }
    let lowest = array.data.addr().wrapping_add_signed(below as isize);
    let c_order = layout.is_c_contiguous() && this.flags() & abi::CAI_EXPORT_STRIDES == 0;
    let (dictionary, names) = (Dictionary::new(py)?, &py.names);
    dictionary.set(names.shape, &py.tuple_of_ints(layout.shape)?)?;
    dictionary.set(names.typestr, &typestr(py, &array)?)?;
    dictionary.set(names.data, &data(py, lowest, is_readonly(&array, this.flags()))?)?;
    if c_order {
        dictionary.set(names.strides, py.none())?;
    } else {
        dictionary.set(names.strides, &element_steps(py, &layout, itemsize)?)?;
    }
    dictionary.set(names.offset, &py.int(below.unsigned_abs() as i64 / itemsize)?)?;
    dictionary.set(names.version, &py.int(1)?)?;
    dictionary.set(names.syclobj, &syclobj)?;
    Ok(dictionary.into_object())
}

/// Makes the tuple of strides in elements, which is the unit of SYCL's dictionary.
fn element_steps<'py>(py: Py<'py>, layout: &Layout, itemsize: i64) -> Result<Owned<'py>> {
    let mut steps = [0; abi::CAI_MAX_NDIM as usize];
    let steps = &mut steps[..layout.shape.len()];
    layout.write_strides(steps)?;
    for (index, step) in steps.iter_mut().enumerate() {
        let used = layout.shape[index] > 1;
        if used && *step % itemsize != 0 {
            return fail!(CAI_ERR_CONVERT_STRIDES, "strides[{index}]";
                found "{step}"; expected "a multiple of {itemsize}");
        }
        *step /= itemsize;
    }
    py.tuple_of_ints(steps)
}

/// Makes the `syclobj` of an array: a capsule of its queue or context, or `None` without either.
fn syclobj<'py>(py: Py<'py>, array: &cai_array) -> Result<Option<Owned<'py>>> {
    let (pointer, name) =
        if array.stream > abi::CAI_STREAM_PER_THREAD && array.stream < abi::CAI_STREAM_UNKNOWN {
            (array.stream as *mut c_void, QUEUE)
        } else if !array.context.is_null() {
            (array.context, CONTEXT)
        } else {
            return Ok(None);
        };
    // SAFETY: the array's producer stated the reference, which lives as long as the array. A
    // consumer copies it, so the capsule needs no destructor.
    unsafe { py.capsule(pointer, name, None) }.map(Some)
}
