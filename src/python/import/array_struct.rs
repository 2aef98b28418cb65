//! `__array_struct__`: NumPy's structure for arrays in host memory.

use std::ffi::{c_char, c_int, c_void};

use crate::abi;
use crate::dtype::NATIVE;
use crate::error::{Result, fail, failure};
use crate::python::capi::Object;
use crate::python::import::exchange_table::Answer;
use crate::python::import::host_memory;
use crate::python::owner::{Description, attach};
use crate::python::py::{Obj, Py};

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
        return fail!(CAI_ERR_TYPE, "{NAME}";
            found "an object of type {}", capsule.obj().type_name(py); expected "a capsule");
    };
    // SAFETY: the capsule without a name contains this structure by NumPy's manual, and `two`
    // confirms it.
    let interface = unsafe {
        let interface = interface.cast::<ArrayInterface>();
        let two = (&raw const (*interface.as_ptr()).two).read();
        if two != 2 {
            return fail!(CAI_ERR_VALUE, "{NAME}.two"; found "{two}"; expected "2");
        }
        interface.read()
    };
    let kind = interface.typekind as u8;
    if !matches!(kind, b'b' | b'i' | b'u' | b'f' | b'c') {
        return Ok(Some(Answer::Refused(failure!(abi::CAI_ERR_CONVERT_TYPE, "{NAME}.typekind";
            found "'{}'", [kind].escape_ascii();
            expected "b, i, u, f or c: the structure does not describe other types completely, \
                __array_interface__ does (CAI_PROTOCOL_ARRAY_INTERFACE)"))));
    }
    host_memory::check_ndim(NAME, "nd", interface.nd, !interface.shape.is_null())?;
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
        (1, _) => b'|',
        (_, true) => NATIVE,
        (_, false) => b'<' + b'>' - NATIVE,
    };
    host_memory::set_typestr(to, order, kind, interface.itemsize.into());
    let readonly = interface.flags & WRITEABLE == 0;
    host_memory::complete(to, NAME, readonly, interface.data)?;
    // The capsule keeps the array alive.
    attach(py, &mut to.array, object.share(py), Some(capsule))?;
    Ok(Some(Answer::Array))
}
