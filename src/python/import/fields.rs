//! Reads the fields of a structured type from Python objects: NumPy's `descr`.
//!
//! Each object is read once, without formatting it. Numbers and sequences of the producer may run
//! code that changes the lists: an object is used only while a reference to it, or to the tuple
//! that contains it, is held, and sizes are read again for each item.

use std::{fmt, ptr};

use crate::abi;
use crate::dtype;
use crate::dtype::fields::{Fields, List, NewRow};
use crate::error::{Failure, Result, fail, failure};
use crate::python::capi::Object;
use crate::python::convert::{Number, exact_integer, is_sequence, item, number, shown, size};
use crate::python::py::{Owned, Py};

const ROW: &str = "a tuple (name, type) or (name, type, shape)";

/// Reads a list of tuples into `fields`, which is empty. The rules about fields are not checked
/// here.
pub fn read(py: Py, descr: &Owned, strict: bool, fields: &mut Fields) -> Result<()> {
    let mut reader = Reader { py, strict, fields };
    if !reader.is_list(descr.get()) {
        return Err(wrong_type(py, "", descr.get(), "a list of tuples"));
    }
    reader.list(descr.get(), 1).map(drop)
}

struct Reader<'a> {
    py: Py<'a>,
    strict: bool,
    fields: &'a mut Fields,
}

#[cold]
fn wrong_type(py: Py, field: &str, found: *mut Object, expected: &str) -> Failure {
    failure!(
        abi::CAI_ERR_TYPE,
        "{field}",
        found = ("{}", shown(py, found)),
        expected = "{expected}"
    )
}

impl Reader<'_> {
    fn is_list(&self, object: *mut Object) -> bool {
        let (py, capi) = (self.py, self.py.capi());
        py.is(object, capi.list_type) || (!self.strict && py.is(object, capi.tuple_type))
    }

    fn list(&mut self, rows: *mut Object, depth: i32) -> Result<List> {
        let list = self.fields.list(depth)?;
        let mut index = 0;
        while index < size(self.py, rows)? {
            let row = item(self.py, rows, index)?;
            self.row(&row, depth)
                .and_then(|new| self.fields.push(list, new))
                .map_err(|failure| failure.within(format_args!("[{index}]")))?;
            index += 1;
        }
        Ok(list)
    }

    /// Reads a row, to which a reference is held.
    fn row(&mut self, row: &Owned, depth: i32) -> Result<NewRow> {
        let (py, row) = (self.py, row.get());
        let mut held = [const { None }; 3];
        let mut items = [ptr::null_mut(); 3];
        let is_tuple = py.type_of(row) == py.capi().tuple_type;
        if !is_tuple && !is_sequence(py, row, self.strict) {
            return Err(wrong_type(py, "", row, ROW));
        }
        // SAFETY: a live tuple.
        let count = if is_tuple { unsafe { py.capi().tuple_len(row) } } else { size(py, row)? };
        if !(2..=3).contains(&count) {
            return fail!(CAI_ERR_DESCR_SYNTAX, "", found = "{count} items", expected = "{ROW}");
        }
        for (index, place) in items.iter_mut().enumerate().take(count) {
            *place = if is_tuple {
                // SAFETY: a live tuple, and an index below its size. It does not change, so it
                // keeps the item alive.
                unsafe { py.capi().tuple_item(row, index) }
            } else {
                held[index].insert(item(py, row, index)?).get()
            };
        }
        let [name, kind, shape] = items;
        let mut new = NewRow::new();
        self.names(name, &mut new)?;
        self.kind(kind, depth, &mut new)?;
        if count == 3 {
            self.shape(shape, &mut new)?;
        }
        Ok(new)
    }

    /// Reads a name, or a title and a name.
    fn names(&mut self, names: *mut Object, new: &mut NewRow) -> Result<()> {
        const EXPECTED: &str = "a name, or a tuple (title, name)";
        let (py, capi) = (self.py, self.py.capi());
        if py.is(names, capi.str_type) {
            return self.fields.name(new, text(py, names, ".name")?);
        }
        let is_pair =
            py.is(names, capi.tuple_type) || (!self.strict && py.is(names, capi.list_type));
        if !is_pair || size(py, names)? != 2 {
            return Err(wrong_type(py, ".name", names, EXPECTED));
        }
        let title = item(py, names, 0)?;
        // NumPy reads None as no title.
        if title.get() != capi.none {
            if !py.is(title.get(), capi.str_type) {
                return Err(wrong_type(py, ".title", title.get(), "a title"));
            }
            self.fields.title(new, text(py, title.get(), ".title")?)?;
        }
        let name = item(py, names, 1)?;
        if !py.is(name.get(), capi.str_type) {
            return Err(wrong_type(py, ".name", name.get(), "a name"));
        }
        self.fields.name(new, text(py, name.get(), ".name")?)
    }

    /// Reads a typestr or a list of fields.
    fn kind(&mut self, kind: *mut Object, depth: i32, new: &mut NewRow) -> Result<()> {
        let py = self.py;
        if py.is(kind, py.capi().str_type) {
            let text = text(py, kind, ".typestr")?;
            // `descr::bits` checks the grammar. Only what cannot be right is completed here.
            let is_complete = text.len() > 2 && matches!(text[0], b'<' | b'>' | b'|');
            if is_complete || self.strict || dtype::parse(text).is_ok() {
                return self.fields.typestr(new, text);
            }
            let Some(complete) = dtype::parse_lenient(text) else {
                return self.fields.typestr(new, text);
            };
            let length = complete.iter().position(|byte| *byte == 0).unwrap_or(complete.len());
            return self.fields.typestr(new, &complete[..length]);
        }
        if !self.is_list(kind) {
            return Err(wrong_type(py, ".typestr", kind, "a typestr or a list of fields"));
        }
        let nested = self
            .list(kind, depth + 1)
            .map_err(|failure| failure.within(format_args!(".nested")))?;
        self.fields.nested(new, nested);
        Ok(())
    }

    /// Reads an extent, or a tuple of extents.
    fn shape(&mut self, shape: *mut Object, new: &mut NewRow) -> Result<()> {
        const EXPECTED: &str = "an integer or a tuple of integers";
        let py = self.py;
        if !py.is(shape, py.capi().tuple_type) {
            match number(py, shape, self.strict)? {
                Number::Other if is_sequence(py, shape, self.strict) => {}
                Number::Other => {
                    return Err(wrong_type(py, ".shape", shape, EXPECTED));
                }
                found => return self.extent(&found, new),
            }
        }
        let mut index = 0;
        while index < size(py, shape)? {
            let extent = item(py, shape, index)?;
            let at = |failure: Failure| failure.at(format_args!(".shape[{index}]"));
            match exact_integer(py, extent.get()) {
                Some(extent) => self.fields.extent(new, extent)?,
                None => match number(py, extent.get(), self.strict)? {
                    Number::Other => {
                        return Err(at(wrong_type(py, "", extent.get(), "an integer")));
                    }
                    found => self.extent(&found, new).map_err(at)?,
                },
            }
            index += 1;
        }
        Ok(())
    }

    fn extent(&mut self, number: &Number, new: &mut NewRow) -> Result<()> {
        match number {
            Number::Value(value) => match i64::try_from(*value) {
                Ok(extent) => self.fields.extent(new, extent),
                Err(_) => too_large(value),
            },
            _ => too_large(&"an integer of more than 64 bits"),
        }
    }
}

#[cold]
fn too_large(found: &dyn fmt::Display) -> Result<()> {
    fail!(
        CAI_ERR_DESCR_SHAPE,
        ".shape",
        found = "{found}",
        expected = "an extent from 0 to 2^63 - 1"
    )
}

/// Returns the characters of a string object, which must stay alive.
fn text<'a>(py: Py, object: *mut Object, field: &str) -> Result<&'a [u8]> {
    match py.text(object) {
        Some(text) => Ok(text),
        None => fail!(
            CAI_ERR_DESCR_NAME,
            "{field}",
            found = "a string that is not valid UTF-8",
            expected = "valid UTF-8"
        ),
    }
}
