//! `Py_buffer` of PEP 3118: memory that `bytes`, `mmap`, `memoryview` and others lend.

use crate::abi;
use crate::error::{Result, fail, failure};
use crate::python::formats::Element;
use crate::python::import::exchange_table::Answer;
use crate::python::import::host_memory;
use crate::python::owner::{Description, attach_buffer};
use crate::python::py::{Buffer, Obj, Py};

const NAME: &str = "Py_buffer";

/// Imports an array of numbers, booleans or texts of a fixed size. `None` if the object does not
/// lend memory. Other types, and rows behind pointers, are left to other protocols, as the object is
/// after an exception of the request.
pub fn import(py: Py, object: Obj, to: &mut Description) -> Result<Option<Answer>> {
    let buffer = match Buffer::request(py, object) {
        Ok(Some(buffer)) => buffer,
        Ok(None) => return Ok(None),
        Err(failure) => return Ok(Some(Answer::Refused(failure))),
    };
    let view = buffer.view();
    if !view.suboffsets.is_null() {
        return Ok(Some(Answer::Refused(
            failure!(abi::CAI_ERR_CONVERT_STRIDES, "{NAME}.suboffsets";
            found "rows behind pointers";
            expected "NULL: elements at strides from the first one"),
        )));
    }
    let Some(element) = Element::parse(buffer.format(), view.itemsize) else {
        return Ok(Some(Answer::Refused(failure!(abi::CAI_ERR_CONVERT_TYPE, "{NAME}.format";
            found "'{}'", buffer.format().escape_ascii();
            expected "one of ? b B h H i I l L q Q n N e f d g Zf Zd Zg c s w, the last two with a \
                count, and @ ^ = < > or ! before it"))));
    };
    if element.size != view.itemsize as i64 {
        return fail!(CAI_ERR_VALUE, "{NAME}.itemsize";
            found "{}", view.itemsize;
            expected "the size of the format '{}'", buffer.format().escape_ascii());
    }
    host_memory::check_ndim(NAME, "ndim", view.ndim, !view.shape.is_null())?;
    to.reset();
    to.array.ndim = view.ndim;
    for (to, from) in to.shape.iter_mut().zip(buffer.shape().unwrap_or_default()) {
        to.write(*from as i64);
    }
    if let Some(strides) = buffer.strides() {
        to.has_strides = true;
        for (to, from) in to.strides.iter_mut().zip(strides) {
            to.write(*from as i64);
        }
    }
    host_memory::set_typestr(to, element.order, element.kind, element.count);
    host_memory::complete(to, NAME, view.readonly != 0, view.buf)?;
    attach_buffer(py, &mut to.array, buffer)?;
    Ok(Some(Answer::Array))
}
