//! The buffer protocol of PEP 3118 of an exported array in host memory.

use std::ffi::c_int;

use crate::abi;
use crate::device;
use crate::error::{Result, fail};
use crate::python::capi::{
    BUFFER_ANY_CONTIGUOUS, BUFFER_C_CONTIGUOUS, BUFFER_F_CONTIGUOUS, BUFFER_FORMAT, BUFFER_ND,
    BUFFER_STRIDES, BUFFER_WRITABLE,
};
use crate::python::class::Instance;
use crate::python::export::cai_dict::is_readonly;
use crate::python::export::object::Exported;
use crate::python::formats::Element;
use crate::python::py::{Lent, Py, Stated};

const NAME: &str = "Py_buffer";

/// Lends the memory to a consumer that wants what is in `flags`, as `memoryview` does: the bits of
/// `PyBUF_`. The object keeps the memory; the reference that the consumer gets keeps the object.
pub fn lend<'py>(py: Py<'py>, this: Instance<'_, Exported>, flags: c_int) -> Result<Lent<'py>> {
    let wants = |bits: c_int| flags & bits != 0;
    let array = this.array()?;
    if array.device.r#type != abi::CAI_DEVICE_CPU {
        return fail!(CAI_ERR_CONVERT_DEVICE, "{NAME}";
            found "an array on device {}", device::Name(array.device.r#type);
            expected "an array in host memory");
    }
    if !array.mask.is_null() {
        return fail!(CAI_ERR_CONVERT_MASK, "{NAME}";
            found "an array with a mask"; expected "an array without a mask");
    }
    let readonly = is_readonly(&array, this.flags());
    if readonly && wants(BUFFER_WRITABLE) {
        return fail!(CAI_ERR_CONVERT_READONLY, "{NAME}.readonly";
            found "a read-only array"; expected "a writable array, which the consumer asked for");
    }
    let valid = array.valid();
    let layout = valid.layout();
    let format = match wants(BUFFER_FORMAT) && array.dtype_code == abi::CAI_DTYPE_NONE {
        true => Element::of(&valid.dtype()).format(),
        false => None,
    };
    // A byte of packed bits has several elements.
    if (format.is_none() && wants(BUFFER_FORMAT)) || layout.is_packed_bits() {
        return fail!(CAI_ERR_CONVERT_TYPE, "{NAME}.format";
            found "a type that no format names";
            expected "numbers of up to 8 bytes, complex numbers, booleans or texts");
    }
    if wants(BUFFER_FORMAT) && !wants(BUFFER_ND) {
        return fail!(CAI_ERR_CONVERT_TYPE, "{NAME}.format";
            found "PyBUF_FORMAT without PyBUF_ND";
            expected "bytes without a format, or a shape with it");
    }
    let (in_c, in_f) = (layout.is_c_contiguous(), layout.is_f_contiguous());
    let needs_c = wants(BUFFER_C_CONTIGUOUS) || !wants(BUFFER_STRIDES);
    if (needs_c && !in_c)
        || (wants(BUFFER_F_CONTIGUOUS) && !in_f)
        || (wants(BUFFER_ANY_CONTIGUOUS) && !in_c && !in_f)
    {
        return fail!(CAI_ERR_CONVERT_STRIDES, "{NAME}.strides";
            found "elements with gaps or in another order";
            expected "contiguous elements, which the consumer asked for");
    }
    let mut strides = [0; abi::CAI_MAX_NDIM as usize];
    let strides = &mut strides[..layout.shape.len()];
    if wants(BUFFER_STRIDES) {
        layout.write_strides(strides)?;
    }
    let stated =
        Stated { data: array.data, len: valid.nbytes(), itemsize: layout.itemsize(), readonly };
    Lent::new(
        this.object().share(py),
        stated,
        format,
        wants(BUFFER_ND).then_some(layout.shape),
        wants(BUFFER_STRIDES).then_some(&*strides),
    )
}
