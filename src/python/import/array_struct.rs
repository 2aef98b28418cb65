//! `__array_struct__`: NumPy's structure for arrays in host memory.

use std::ffi::{c_char, c_int, c_void};

use crate::abi;
use crate::dtype::NATIVE;
use crate::error::{Result, fail, failure};
use crate::python::capi::Object;
use crate::python::import::exchange_table::Answer;
use crate::python::import::host_memory;
use crate::python::ndarray::{Element, Fields, LASTING};
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

const NAME: &str = "__array_struct__";

const NOT_SWAPPED: c_int = 0x200;

const WRITEABLE: c_int = 0x400;

/// `NPY_ARRAY_OWNDATA`, which says nothing about the elements.
const OWNS_DATA: c_int = 0x4;

/// The flags of arrays that are read in place. `__array_struct__` may change others.
const IN_PLACE: c_int = LASTING | OWNS_DATA;

/// Imports an array of numbers or booleans. `None` if the object does not offer the structure.
/// Types that it cannot name completely (texts, times, records) are left to the dictionary.
pub fn import(py: Py, object: Obj, to: &mut Description) -> Result<Option<Answer>> {
    ask(py, object, false, to)
}

/// The same for an object of a type of NumPy, which is read in place once its type is known.
pub fn import_numpys(py: Py, object: Obj, to: &mut Description) -> Result<Option<Answer>> {
    if let Some((fields, element)) = py.arrays().read(object) {
        // What is wrong is explained below.
        if fields.flags & !IN_PLACE == 0 && describe(&fields, element, to).is_ok() {
            // Twice, as with a capsule: NumPy resizes an array that has no more than two references.
            attach(py, &mut to.array, object.share(py), Some(object.share(py)))?;
            return Ok(Some(Answer::Array));
        }
    }
    ask(py, object, true, to)
}

fn ask(py: Py, object: Obj, learns: bool, to: &mut Description) -> Result<Option<Answer>> {
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
    let order = match (interface.itemsize, interface.flags & NOT_SWAPPED != 0) {
        (1, _) => b'|',
        (_, true) => NATIVE,
        (_, false) => b'<' + b'>' - NATIVE,
    };
    let ArrayInterface { data, nd, shape, strides, flags, .. } = interface;
    let told = Fields { data, ndim: nd, shape, strides, flags, ..Fields::NONE };
    let element = Element { order, kind, size: interface.itemsize };
    describe(&told, element, to)?;
    if learns {
        py.arrays().learn(object, &told, element)?;
    }
    // The capsule keeps the array alive.
    attach(py, &mut to.array, object.share(py), Some(capsule))?;
    Ok(Some(Answer::Array))
}

/// Describes the array in `fields`, which have `ndim` extents and, unless NULL, as many strides.
#[inline(always)]
fn describe(fields: &Fields, element: Element, to: &mut Description) -> Result<()> {
    let &Fields { data, ndim, shape, strides, flags, .. } = fields;
    host_memory::check_ndim(NAME, "nd", ndim, !shape.is_null())?;
    to.reset();
    to.array.ndim = ndim;
    to.has_strides = !strides.is_null();
    for index in 0..ndim as usize {
        // SAFETY: `ndim` values each by NumPy's manual; neither pointer is NULL here.
        unsafe {
            to.shape[index].write(shape.add(index).read() as i64);
            if to.has_strides {
                to.strides[index].write(strides.add(index).read() as i64);
            }
        }
    }
    host_memory::set_typestr(to, element.order, element.kind, element.size.into());
    host_memory::complete(to, NAME, flags & WRITEABLE == 0, data)
}
