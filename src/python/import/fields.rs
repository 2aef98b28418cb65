//! Reads the fields of a structured type from Python objects: NumPy's `descr`.
//!
//! Each object is read once, without formatting it. Numbers and sequences of the producer may run
//! code that changes the lists: an object is used only while a reference to it, or to the tuple
//! that contains it, is held, and sizes are read again for each item.

use std::fmt;

use crate::abi;
use crate::dtype;
use crate::dtype::fields::{Fields, List, NewRow};
use crate::error::{Count, Failure, Result, fail, failure};
use crate::python::py::{Builtin, Obj, Owned, Py};
use crate::python::values::Number;

const ROW: &str = "a tuple (name, type) or (name, type, shape)";

/// Reads a list of tuples into `fields`, which is empty. The rules are not checked here.
pub fn read(py: Py, descr: Obj, strict: bool, fields: &mut Fields) -> Result<()> {
    let mut reader = Reader { py, strict, fields };
    if !reader.is_list(descr) {
        return Err(wrong_type(py, "", descr, "a list of tuples"));
    }
    reader.list(descr, 1).map(drop)
}

struct Reader<'a> {
    py: Py<'a>,
    strict: bool,
    fields: &'a mut Fields,
}

#[cold]
fn wrong_type(py: Py, field: &str, found: Obj, expected: &str) -> Failure {
    failure!(abi::CAI_ERR_TYPE, "{field}"; found "{}", found.shown(py); expected "{expected}")
}

impl Reader<'_> {
    fn is_list(&self, object: Obj) -> bool {
        object.is_a(self.py, Builtin::List)
            || (!self.strict && object.is_a(self.py, Builtin::Tuple))
    }

    fn list(&mut self, rows: Obj, depth: i32) -> Result<List> {
        let list = self.fields.list(depth)?;
        let mut index = 0;
        while index < rows.len(self.py)? {
            let row = rows.item(self.py, index)?;
            self.row(row.obj(), depth)
                .and_then(|new| self.fields.push(list, new))
                .map_err(|failure| failure.within(format_args!("[{index}]")))?;
            index += 1;
        }
        Ok(list)
    }

    /// Reads a row, to which a reference is held.
    fn row(&mut self, row: Obj, depth: i32) -> Result<NewRow> {
        let py = self.py;
        let tuple = row.exact_tuple(py);
        if tuple.is_none() && !row.is_like_tuple(py, self.strict) {
            return Err(wrong_type(py, "", row, ROW));
        }
        let count = match tuple {
            Some(tuple) => tuple.len(py),
            None => row.len(py)?,
        };
        if !(2..=3).contains(&count) {
            return fail!(CAI_ERR_DESCR_SYNTAX, ""; found "{}", Count(count, "item"); expected "{ROW}");
        }
        // A tuple does not change, so it keeps its items alive.
        let mut held = [const { None }; 3];
        for (index, place) in held.iter_mut().enumerate().take(count) {
            if tuple.is_none() {
                *place = Some(row.item(py, index)?);
            }
        }
        let item = |index: usize| match tuple {
            Some(tuple) => tuple.get(py, index),
            None => held[index].as_ref().map(Owned::obj),
        };
        let (Some(name), Some(kind)) = (item(0), item(1)) else {
            return Err(wrong_type(py, "", row, ROW));
        };
        let mut new = NewRow::new();
        self.names(name, &mut new)?;
        self.kind(kind, depth, &mut new)?;
        if let Some(shape) = item(2) {
            self.shape(shape, &mut new)?;
        }
        Ok(new)
    }

    fn names(&mut self, names: Obj, new: &mut NewRow) -> Result<()> {
        const EXPECTED: &str = "a name, or a tuple (title, name)";
        let py = self.py;
        if names.is_a(py, Builtin::Str) {
            return self.fields.name(new, text(py, names, ".name")?);
        }
        let is_pair =
            names.is_a(py, Builtin::Tuple) || (!self.strict && names.is_a(py, Builtin::List));
        if !is_pair || names.len(py)? != 2 {
            return Err(wrong_type(py, ".name", names, EXPECTED));
        }
        let title = names.item(py, 0)?;
        // NumPy reads None as no title.
        if !title.obj().is_none(py) {
            if !title.obj().is_a(py, Builtin::Str) {
                return Err(wrong_type(py, ".title", title.obj(), "a title"));
            }
            self.fields.title(new, text(py, title.obj(), ".title")?)?;
        }
        let name = names.item(py, 1)?;
        if !name.obj().is_a(py, Builtin::Str) {
            return Err(wrong_type(py, ".name", name.obj(), "a name"));
        }
        self.fields.name(new, text(py, name.obj(), ".name")?)
    }

    fn kind(&mut self, kind: Obj, depth: i32, new: &mut NewRow) -> Result<()> {
        let py = self.py;
        if kind.is_a(py, Builtin::Str) {
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

    fn shape(&mut self, shape: Obj, new: &mut NewRow) -> Result<()> {
        const EXPECTED: &str = "an integer or a tuple of integers";
        let py = self.py;
        if !shape.is_a(py, Builtin::Tuple) {
            match shape.number(py, self.strict)? {
                Number::Other if shape.is_like_tuple(py, self.strict) => {}
                Number::Other => {
                    return Err(wrong_type(py, ".shape", shape, EXPECTED));
                }
                found => return self.extent(&found, new),
            }
        }
        let mut index = 0;
        while index < shape.len(py)? {
            let extent = shape.item(py, index)?;
            let at = |failure: Failure| failure.at(format_args!(".shape[{index}]"));
            match extent.obj().exact_int(py) {
                Some(extent) => self.fields.extent(new, extent)?,
                None => match extent.obj().number(py, self.strict)? {
                    Number::Other => {
                        return Err(at(wrong_type(py, "", extent.obj(), "an integer")));
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
    fail!(CAI_ERR_DESCR_SHAPE, ".shape"; found "{found}"; expected "an extent from 0 to 2^63 - 1")
}

fn text<'a>(py: Py, object: Obj<'a>, field: &str) -> Result<&'a [u8]> {
    match object.text(py) {
        Some(text) => Ok(text),
        None => fail!(CAI_ERR_DESCR_NAME, "{field}";
            found "a string that is not valid UTF-8"; expected "valid UTF-8"),
    }
}
