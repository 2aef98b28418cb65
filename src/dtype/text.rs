//! Structured types as text: the list of tuples that NumPy prints as `dtype.descr`.
//!
//! Reads the literals of Python and of JSON: `[('x', '<f4'), ('m', '<i4', (2, 3))]` and `[["x",
//! "<f4"], ["m", "<i4", [2, 3]]]`. Writes Python.

// Positions in the text are sums of lengths that were read, so they lie on character boundaries; a
// fuzzer searches for others.
#![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]

use std::fmt::{self, Write};

use crate::abi;
use crate::dtype::fields::{Fields, List, NewRow};
use crate::error::{Failure, Result, failure};
use crate::memory::push;
use crate::read::Descr;

/// Parses a list of fields. Types and names are only separated here; `descr::bits` checks them.
pub fn parse(text: &str) -> Result<Fields> {
    let mut reader = Reader { text, at: 0, fields: Fields::new() };
    reader.list(1)?;
    reader.space();
    if reader.at < text.len() {
        return reader.expected("the end of the text");
    }
    Ok(reader.fields)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    fields: Fields,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn space(&mut self) {
        while self.peek().is_some_and(|c| matches!(c, ' ' | '\t' | '\r' | '\n')) {
            self.at += 1;
        }
    }

    /// Skips white space, then consumes `c` if it comes next.
    fn take(&mut self, c: char) -> bool {
        self.space();
        let taken = self.peek() == Some(c);
        if taken {
            self.at += c.len_utf8();
        }
        taken
    }

    fn expected<T>(&self, what: &str) -> Result<T> {
        Err(self.unexpected(what))
    }

    #[cold]
    #[inline(never)]
    fn unexpected(&self, what: &str) -> Failure {
        let found = match self.peek() {
            Some(c) => crate::error::Text::<16>::new(format_args!("'{c}'")),
            None => crate::error::Text::new(format_args!("the end")),
        };
        failure!(abi::CAI_ERR_DESCR_SYNTAX, "text";
            found "{found} at byte {}", self.at; expected "{what}")
    }

    /// Opens a tuple or a list and returns the character that closes it.
    fn open(&mut self) -> Option<char> {
        if self.take('(') {
            Some(')')
        } else if self.take('[') {
            Some(']')
        } else {
            None
        }
    }

    /// After an element: `Ok(true)` if another may follow, `Ok(false)` at the end of the sequence.
    fn more(&mut self, close: char) -> Result<bool> {
        if self.take(',') {
            return Ok(!self.take(close));
        }
        if self.take(close) { Ok(false) } else { self.expected("',' or the end of the sequence") }
    }

    fn list(&mut self, depth: i32) -> Result<List> {
        let list = self.fields.list(depth).map_err(|failure| failure.at(format_args!("text")))?;
        if !self.take('[') {
            return self.expected("'[' and a list of fields");
        }
        let mut more = !self.take(']');
        while more {
            let row = self.row(depth)?;
            self.fields.push(list, row).map_err(|failure| failure.at(format_args!("text")))?;
            more = self.more(']')?;
        }
        Ok(list)
    }

    fn row(&mut self, depth: i32) -> Result<NewRow> {
        let Some(close) = self.open() else {
            return self.expected("a field: (name, type) or (name, type, shape)");
        };
        let mut row = NewRow::new();
        self.names(&mut row)?;
        if !self.more(close)? {
            return self.expected("the field's type");
        }
        self.space();
        if self.peek() == Some('[') {
            let nested = self.list(depth + 1)?;
            self.fields.nested(&mut row, nested);
        } else {
            let typestr = self.string()?;
            self.fields
                .typestr(&mut row, &typestr)
                .map_err(|failure| failure.at(format_args!("text")))?;
        }
        if self.more(close)? {
            self.shape(&mut row)?;
            if self.more(close)? {
                return self.expected("the end of the field");
            }
        }
        Ok(row)
    }

    fn names(&mut self, row: &mut NewRow) -> Result<()> {
        let inside = |failure: Failure| failure.at(format_args!("text"));
        let Some(close) = self.open() else {
            let name = self.string()?;
            return self.fields.name(row, &name).map_err(inside);
        };
        let title = self.string()?;
        self.fields.title(row, &title).map_err(inside)?;
        if !self.more(close)? {
            return self.expected("the name after the title");
        }
        let name = self.string()?;
        self.fields.name(row, &name).map_err(inside)?;
        if self.more(close)? {
            return self.expected("the end of title and name");
        }
        Ok(())
    }

    fn shape(&mut self, row: &mut NewRow) -> Result<()> {
        let inside = |failure: Failure| failure.at(format_args!("text"));
        let Some(close) = self.open() else {
            let extent = self.extent()?;
            return self.fields.extent(row, extent).map_err(inside);
        };
        let mut more = !self.take(close);
        while more {
            let extent = self.extent()?;
            self.fields.extent(row, extent).map_err(inside)?;
            more = self.more(close)?;
        }
        Ok(())
    }

    fn extent(&mut self) -> Result<i64> {
        self.space();
        let digits: usize = self.text[self.at..].bytes().take_while(u8::is_ascii_digit).count();
        match self.text[self.at..self.at + digits].parse() {
            Ok(extent) => {
                self.at += digits;
                Ok(extent)
            }
            Err(_) => self.expected("an extent from 0 to 2^63 - 1"),
        }
    }

    fn string(&mut self) -> Result<Vec<u8>> {
        self.space();
        let quote = match self.peek() {
            Some(c @ ('\'' | '"')) => c,
            _ => return self.expected("a text in quotes"),
        };
        self.at += 1;
        let mut out = Vec::new();
        loop {
            let c = match self.next() {
                None => return self.expected("the closing quote"),
                Some(c) if c == quote => return Ok(out),
                Some('\\') => self.escape()?,
                Some(c) => c,
            };
            for &byte in c.encode_utf8(&mut [0; 4]).as_bytes() {
                push(&mut out, byte)?;
            }
        }
    }

    /// Reads the characters after a backslash.
    fn escape(&mut self) -> Result<char> {
        let start = self.at;
        let plain = match self.next() {
            Some(c @ ('\\' | '\'' | '"' | '/')) => c,
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('x') => return self.code(2),
            Some('u') => return self.code(4),
            Some('U') => return self.code(8),
            _ => {
                self.at = start;
                return self.expected("one of \\ ' \" / n t r x u U after a backslash");
            }
        };
        Ok(plain)
    }

    fn code(&mut self, digits: usize) -> Result<char> {
        let code = self.hex(digits)?;
        // JSON writes a character above 16 bits as a surrogate pair.
        if digits == 4
            && (0xD800..0xDC00).contains(&code)
            && self.text[self.at..].starts_with("\\u")
        {
            self.at += 2;
            let low = self.hex(4)?;
            let joined = 0x10000 + ((code - 0xD800) << 10) + (low.wrapping_sub(0xDC00) & 0x3FF);
            if (0xDC00..0xE000).contains(&low) {
                return char::from_u32(joined).ok_or(()).or_else(|()| self.expected("a character"));
            }
        }
        char::from_u32(code).ok_or(()).or_else(|()| self.expected("the code of a character"))
    }

    fn hex(&mut self, digits: usize) -> Result<u32> {
        match self.text.get(self.at..self.at + digits) {
            Some(text) if text.bytes().all(|b| b.is_ascii_hexdigit()) => {
                self.at += digits;
                u32::from_str_radix(text, 16).or_else(|_| self.expected("the code of a character"))
            }
            _ => self.expected("hexadecimal digits"),
        }
    }
}

/// Writes a list of fields as Python prints it, in pieces. The fields must have been checked.
pub fn format(descr: Descr, out: &mut dyn Write) -> Result<()> {
    // An error means that `out` takes no more, which `out` records itself.
    let _ = out.write_char('[');
    for (index, field) in descr.fields().enumerate() {
        let name = Quoted(field.name()?);
        let _ = out.write_str(if index == 0 { "(" } else { ", (" });
        let _ = match field.title()? {
            Some(title) => write!(out, "({}, {name})", Quoted(title)),
            None => write!(out, "{name}"),
        };
        let _ = out.write_str(", ");
        match field.nested()? {
            Some(nested) => format(nested, out)?,
            None => {
                let typestr = crate::read::typestr(&field.typestr).unwrap_or_default();
                let _ = write!(out, "'{}'", typestr.escape_ascii());
            }
        }
        if let [first, rest @ ..] = field.shape()? {
            let _ = write!(out, ", ({first}");
            for extent in rest {
                let _ = write!(out, ", {extent}");
            }
            // Python's tuple of one has a comma.
            let _ = out.write_str(if rest.is_empty() { ",)" } else { ")" });
        }
        let _ = out.write_char(')');
    }
    let _ = out.write_char(']');
    Ok(())
}

struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_char('\'')?;
        for c in self.0.chars() {
            match c {
                '\\' | '\'' => write!(f, "\\{c}")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                '\r' => f.write_str("\\r")?,
                c if u32::from(c) < 0x20 || c == '\x7f' => write!(f, "\\x{:02x}", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('\'')
    }
}
