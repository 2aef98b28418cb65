//! `__array_struct__`: NumPy's structure for arrays in host memory.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use crate::abi::{self, cai_device};
use crate::dtype::NATIVE;
use crate::error::{Result, Text, fail, failure};
use crate::python::capi::Object;
use crate::python::import::exchange_table::Answer;
use crate::python::owner::{Description, attach};
use crate::python::py::{Obj, Py};
use crate::validate;

/// `PyArrayInterface`
#[repr(C)]
struct ArrayInterface {
    two: c_int,
    nd: c_int,
    typekind: c_char,
    itemsize: c_int,
    flags: c_int,
    shape: *const isize,
    strides: *const isize,
    data: *mut c_void,
    descr: *mut Object,
}

const NOT_SWAPPED: c_int = 0x200;

const WRITEABLE: c_int = 0x400;

/// Imports an array of numbers or booleans. `None` if the object does not offer the structure.
/// Types that it cannot name completely (texts, times, records) are left to the dictionary.
pub fn import(py: Py, object: Obj, to: &mut Description) -> Result<Option<Answer>> {
    const NAME: &str = "__array_struct__";
    let Some(capsule) = object.optional_attr(py, py.names.array_struct)? else {
        return Ok(None);
    };
    let Some(interface) = capsule.obj().capsule(py, None) else {
        return fail!(
            CAI_ERR_TYPE,
            "{NAME}",
            found = ("an object of type {}", capsule.obj().type_name(py)),
            expected = "a capsule"
        );
    };
    // SAFETY: the capsule without a name contains this structure by NumPy's manual, and `two`
    // confirms it.
    let interface = unsafe {
        let interface = interface.cast::<ArrayInterface>();
        let two = (&raw const (*interface.as_ptr()).two).read();
        if two != 2 {
            return fail!(CAI_ERR_VALUE, "{NAME}.two", found = "{two}", expected = "2");
        }
        interface.read()
    };
    let kind = interface.typekind as u8;
    if !matches!(kind, b'b' | b'i' | b'u' | b'f' | b'c') {
        return Ok(Some(Answer::Refused(failure!(
            abi::CAI_ERR_CONVERT_TYPE,
            "{NAME}.typekind",
            found = ("'{}'", [kind].escape_ascii()),
            expected = "b, i, u, f or c: the structure does not describe other types completely, \
                        __array_interface__ does (CAI_PROTOCOL_ARRAY_INTERFACE)"
        ))));
    }
    if !(0..=abi::CAI_MAX_NDIM).contains(&interface.nd) {
        return fail!(
            CAI_ERR_NDIM,
            "{NAME}.nd",
            found = ("{}", interface.nd),
            expected = ("0 to {}", abi::CAI_MAX_NDIM)
        );
    }
    if interface.nd > 0 && interface.shape.is_null() {
        return fail!(
            CAI_ERR_SHAPE_NULL,
            "{NAME}.shape",
            found = "NULL",
            expected = ("{} extents", interface.nd)
        );
    }
    to.reset();
    to.array.ndim = interface.nd;
    to.has_strides = !interface.strides.is_null();
    for index in 0..interface.nd as usize {
        // SAFETY: `nd` values each by NumPy's manual; neither pointer is NULL here.
        unsafe {
            to.shape[index].write(interface.shape.add(index).read() as i64);
            if to.has_strides {
                to.strides[index].write(interface.strides.add(index).read() as i64);
            }
        }
    }
    let order = match (interface.itemsize, interface.flags & NOT_SWAPPED != 0) {
        (1, _) => '|',
        (_, true) => char::from(NATIVE),
        (_, false) => char::from(b'<' + b'>' - NATIVE),
    };
    let text: Text<16> =
        Text::new(format_args!("{order}{}{}", char::from(kind), interface.itemsize));
    to.set_typestr(text.as_str().as_bytes());
    to.array.flags = if interface.flags & WRITEABLE == 0 { abi::CAI_ARRAY_READONLY } else { 0 };
    to.array.data = if to.is_empty() { ptr::null_mut() } else { interface.data };
    to.array.device = cai_device { r#type: abi::CAI_DEVICE_CPU, id: 0 };
    // SAFETY: the array was described above, with `ndim` values.
    unsafe { validate::array(to.array(), abi::CAI_CHECK_LAYOUT) }
        .map_err(|failure| failure.within(format_args!("{NAME}.")))?;
    // The capsule keeps the array alive.
    attach(py, &mut to.array, object.share(py), Some(capsule))?;
    Ok(Some(Answer::Array))
}
