//! Objects as native values, and as text for messages.

use crate::error::{Result, Shown, Text, fail};
use crate::python::py::{Builtin, Exception, Int, Obj, Owned, Py, Type};

/// Object read as an integer.
#[derive(Clone, Copy)]
pub enum Number {
    /// An integer of 64 bits, signed or unsigned.
    Value(i128),
    /// An integer of more bits.
    Wide,
    /// No integer: a boolean, a float, a text, or any other object without `__index__`.
    Other,
}

impl<'a> Obj<'a> {
    /// Converts an integer of any type: in strict mode only Python's own. Calls `__index__`.
    pub fn number(self, py: Py, strict: bool) -> Result<Number> {
        if let Some(value) = self.exact_int(py) {
            return Ok(Number::Value(value.into()));
        }
        // A boolean is an integer in Python, but not an address or an extent.
        if self.is_exactly(py, Builtin::Bool) || (strict && !self.is_a(py, Builtin::Int)) {
            return Ok(Number::Other);
        }
        let made = if strict { None } else { self.optional_index(py)? };
        if !strict && made.is_none() {
            return Ok(Number::Other);
        }
        let integer = made.as_ref().map_or(self, Owned::obj);
        if let Some(value) = integer.exact_int(py) {
            return Ok(Number::Value(value.into()));
        }
        Ok(match integer.int(py)? {
            Int::Value(value) => Number::Value(value.into()),
            Int::Above => {
                integer.unsigned(py).map_or(Number::Wide, |value| Number::Value(value.into()))
            }
            Int::Below => Number::Wide,
        })
    }

    /// Converts the object as [`Obj::index`] does. `None` for floats, texts and most objects.
    pub fn optional_index<'py>(self, py: Py<'py>) -> Result<Option<Owned<'py>>> {
        match self.index(py) {
            Ok(index) => Ok(Some(index)),
            Err(_) => py.clear_if(Exception::Type).map(|()| None),
        }
    }

    /// Returns the value of an exact integer of up to 64 bits, signed. Runs no Python code and sets
    /// no exception.
    #[inline(always)]
    pub fn exact_int(self, py: Py) -> Option<i64> {
        match py.capi().facts.places.as_ref().and_then(|places| places.integer(self)) {
            Some(value) => Some(value),
            None if self.is_exactly(py, Builtin::Int) => self.long_int(py),
            None => None,
        }
    }

    /// As [`Obj::exact_int`], for an exact integer of any length.
    #[inline(never)]
    fn long_int(self, py: Py) -> Option<i64> {
        match self.int(py) {
            Ok(Int::Value(value)) => Some(value),
            _ => None,
        }
    }

    /// Returns true for a sequence that may be used instead of a tuple.
    pub fn is_like_tuple(self, py: Py, strict: bool) -> bool {
        const OTHERS: [Builtin; 4] =
            [Builtin::Str, Builtin::Bytes, Builtin::ByteArray, Builtin::Dict];
        self.is_a(py, Builtin::Tuple)
            || (!strict && !OTHERS.iter().any(|&of| self.is_a(py, of)) && self.is_sequence(py))
    }

    /// Returns the integers of a sequence of two, such as the result of `__dlpack_device__`.
    /// Integers of more than 64 bits are the nearest ones.
    pub fn two_ints(self, py: Py, name: &'static str) -> Result<(i64, i64)> {
        let item = |index: usize| -> Result<i64> {
            let item = self.item(py, index)?;
            let Some(number) = item.obj().optional_index(py)? else {
                return fail!(CAI_ERR_TYPE, "{name}[{index}]";
                    found "an object of type {}", item.obj().type_name(py); expected "an integer");
            };
            Ok(match number.obj().int(py)? {
                Int::Value(value) => value,
                Int::Above => i64::MAX,
                Int::Below => i64::MIN,
            })
        };
        if !self.is_sequence(py) || self.len(py)? != 2 {
            return fail!(CAI_ERR_TYPE, "{name}";
                found "an object of type {}", self.type_name(py);
                expected "a tuple of two integers");
        }
        Ok((item(0)?, item(1)?))
    }

    /// Formats the object for a message: its value if that is short, otherwise its type.
    pub fn shown(self, py: Py) -> Text<64> {
        const PLAIN: [Builtin; 5] =
            [Builtin::Int, Builtin::Str, Builtin::Bool, Builtin::Float, Builtin::Bytes];
        if self.is_none(py) {
            return Text::new(format_args!("None"));
        }
        if PLAIN.iter().any(|&of| self.is_exactly(py, of)) {
            match self.repr(py) {
                Ok(text) => {
                    let text = text.obj().text(py).unwrap_or_default();
                    return Text::new(format_args!("{}", Shown(text)));
                }
                Err(_) => py.clear(),
            }
        }
        Text::new(format_args!("an object of type {}", self.type_name(py)))
    }

    pub fn type_name(self, py: Py) -> Text<64> {
        match Type::of(py, self).obj().optional_attr(py, py.names.name) {
            Ok(Some(name)) if name.obj().is_a(py, Builtin::Str) => {
                let text = name.obj().text(py).unwrap_or_default();
                Text::new(format_args!("{}", text.escape_ascii()))
            }
            Ok(_) => Text::new(format_args!("object")),
            Err(_) => {
                py.clear();
                Text::new(format_args!("object"))
            }
        }
    }
}
