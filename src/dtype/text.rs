//! Structured types as text: the list of tuples that NumPy prints as `dtype.descr`.
//!
//! May use: `abi`, `error`, `read`.
//! Unsafe: none.
//!
//! Reads the literals of Python and of JSON: `[('x', '<f4'), ('m', '<i4', (2, 3))]` and `[["x",
//! "<f4"], ["m", "<i4", [2, 3]]]`. Writes Python.

// Positions in the text are sums of lengths that were read, so they lie on character boundaries; a
// fuzzer searches for others.
#![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]

use std::fmt::{self, Write};
use std::ptr;

use crate::abi::{self, CAI_TYPESTR_SIZE, cai_descr, cai_field};
use crate::error::{Failure, Result, fail};
use crate::read::Descr;

/// A list of fields that was read from a text, with all the memory that its rows point to.
pub struct Fields {
    // One element; a vector, so that its address does not change.
    descr: Vec<cai_descr>,
    // Keeps alive what the pointers in the list refer to.
    _rows: Vec<cai_field>,
    _names: Vec<Name>,
    _shapes: Vec<Vec<i64>>,
    _nested: Vec<Fields>,
}

/// A name with its NUL.
type Name = Vec<u8>;

/// Appends a value, or fails if there is no memory.
fn push<T>(list: &mut Vec<T>, value: T) -> Result<()> {
    match list.try_reserve(1) {
        Ok(()) => {
            list.push(value);
            Ok(())
        }
        Err(_) => Err(Failure::no_memory(size_of::<T>())),
    }
}

impl Fields {
    /// Returns the list, valid as long as `self`.
    pub fn as_ptr(&self) -> *const cai_descr {
        self.descr.as_ptr()
    }

    /// Returns true for one nameless row with a type, which NumPy writes for types that have no
    /// fields.
    pub fn is_plain(&self) -> bool {
        match (self._rows.as_slice(), self._names.as_slice()) {
            ([row], [name]) => name.as_slice() == [0] && row.typestr[0] != 0 && row.ndim == 0,
            _ => false,
        }
    }

    fn new(rows: Vec<Row>) -> Result<Self> {
        let mut fields = Fields {
            descr: Vec::new(),
            _rows: Vec::new(),
            _names: Vec::new(),
            _shapes: Vec::new(),
            _nested: Vec::new(),
        };
        for row in rows {
            let mut raw = cai_field {
                name: row.name.as_ptr().cast(),
                title: row.title.as_ref().map_or(ptr::null(), |title| title.as_ptr().cast()),
                typestr: [0; CAI_TYPESTR_SIZE],
                nested: ptr::null(),
                shape: if row.shape.is_empty() { ptr::null() } else { row.shape.as_ptr() },
                ndim: row.shape.len() as i32,
                dtype_code: abi::CAI_DTYPE_NONE,
                reserved: 0,
            };
            match row.kind {
                Kind::Typestr(text) => {
                    for (to, from) in raw.typestr.iter_mut().zip(text) {
                        *to = from as std::ffi::c_char;
                    }
                }
                Kind::Nested(rows) => {
                    let nested = Fields::new(rows)?;
                    raw.nested = nested.as_ptr();
                    push(&mut fields._nested, nested)?;
                }
            }
            push(&mut fields._names, row.name)?;
            if let Some(title) = row.title {
                push(&mut fields._names, title)?;
            }
            push(&mut fields._shapes, row.shape)?;
            push(&mut fields._rows, raw)?;
        }
        let descr = cai_descr {
            struct_size: size_of::<cai_descr>() as u32,
            field_size: size_of::<cai_field>() as u32,
            count: fields._rows.len() as u64,
            fields: fields._rows.as_ptr(),
        };
        push(&mut fields.descr, descr)?;
        Ok(fields)
    }
}

struct Row {
    name: Name,
    title: Option<Name>,
    kind: Kind,
    shape: Vec<i64>,
}

enum Kind {
    Typestr([u8; CAI_TYPESTR_SIZE]),
    Nested(Vec<Row>),
}

/// Parses a list of fields. Types and names are only separated here; `descr::bits` checks them.
pub fn parse(text: &str) -> Result<Fields> {
    let mut reader = Reader { text, at: 0, fields: 0 };
    let rows = reader.list(1)?;
    reader.space();
    if reader.at < text.len() {
        return reader.expected("the end of the text");
    }
    Fields::new(rows)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    fields: u64,
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
        let found = match self.peek() {
            Some(c) => crate::error::Text::<16>::new(format_args!("'{c}'")),
            None => crate::error::Text::new(format_args!("the end")),
        };
        fail!(
            CAI_ERR_DESCR_SYNTAX,
            "text",
            found = ("{found} at byte {}", self.at),
            expected = "{what}"
        )
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

    /// Continues after an element: `Ok(true)` if another may follow, `Ok(false)` at the end of the
    /// sequence.
    fn more(&mut self, close: char) -> Result<bool> {
        if self.take(',') {
            return Ok(!self.take(close));
        }
        if self.take(close) { Ok(false) } else { self.expected("',' or the end of the sequence") }
    }

    fn list(&mut self, depth: i32) -> Result<Vec<Row>> {
        if depth > abi::CAI_MAX_DESCR_DEPTH {
            return fail!(
                CAI_ERR_DESCR_DEPTH,
                "text",
                found = "fields nested {depth} deep",
                expected = ("at most {} deep", abi::CAI_MAX_DESCR_DEPTH)
            );
        }
        if !self.take('[') {
            return self.expected("'[' and a list of fields");
        }
        let mut rows = Vec::new();
        let mut more = !self.take(']');
        while more {
            self.fields += 1;
            if self.fields > abi::CAI_MAX_FIELDS {
                return fail!(
                    CAI_ERR_DESCR_COUNT,
                    "text",
                    found = ("{} fields", self.fields),
                    expected = ("at most {} fields in all", abi::CAI_MAX_FIELDS)
                );
            }
            let row = self.row(depth)?;
            push(&mut rows, row)?;
            more = self.more(']')?;
        }
        Ok(rows)
    }

    fn row(&mut self, depth: i32) -> Result<Row> {
        let Some(close) = self.open() else {
            return self.expected("a field: (name, type) or (name, type, shape)");
        };
        let (name, title) = self.names()?;
        if !self.more(close)? {
            return self.expected("the field's type");
        }
        self.space();
        let kind = if self.peek() == Some('[') {
            Kind::Nested(self.list(depth + 1)?)
        } else {
            let typestr = self.string()?;
            if typestr.is_empty() || typestr.len() >= CAI_TYPESTR_SIZE || typestr.contains(&0) {
                return fail!(
                    CAI_ERR_TYPESTR_LENGTH,
                    "text",
                    found = ("\"{}\" before byte {}", typestr.escape_ascii(), self.at),
                    expected = ("1 to {} characters", CAI_TYPESTR_SIZE - 1)
                );
            }
            let mut characters = [0; CAI_TYPESTR_SIZE];
            characters[..typestr.len()].copy_from_slice(&typestr);
            Kind::Typestr(characters)
        };
        let mut shape = Vec::new();
        if self.more(close)? {
            shape = self.shape()?;
            if self.more(close)? {
                return self.expected("the end of the field");
            }
        }
        Ok(Row { name, title, kind, shape })
    }

    fn names(&mut self) -> Result<(Name, Option<Name>)> {
        let Some(close) = self.open() else { return Ok((self.name()?, None)) };
        let title = self.name()?;
        if !self.more(close)? {
            return self.expected("the name after the title");
        }
        let name = self.name()?;
        if self.more(close)? {
            return self.expected("the end of title and name");
        }
        Ok((name, Some(title)))
    }

    fn name(&mut self) -> Result<Name> {
        let mut name = self.string()?;
        if name.contains(&0) {
            return fail!(
                CAI_ERR_DESCR_NAME,
                "text",
                found = ("a NUL in \"{}\" before byte {}", name.escape_ascii(), self.at),
                expected = "a name without NUL"
            );
        }
        push(&mut name, 0)?;
        Ok(name)
    }

    fn shape(&mut self) -> Result<Vec<i64>> {
        let mut shape = Vec::new();
        let Some(close) = self.open() else {
            push(&mut shape, self.extent()?)?;
            return Ok(shape);
        };
        let mut more = !self.take(close);
        while more {
            if shape.len() == abi::CAI_MAX_NDIM as usize {
                return fail!(
                    CAI_ERR_DESCR_SHAPE,
                    "text",
                    found = ("more extents at byte {}", self.at),
                    expected = ("at most {}", abi::CAI_MAX_NDIM)
                );
            }
            push(&mut shape, self.extent()?)?;
            more = self.more(close)?;
        }
        Ok(shape)
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

    /// Reads a quoted text, as UTF-8.
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
                let typestr = crate::read::typestr(&field.raw.typestr).unwrap_or_default();
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

/// A text as a Python literal.
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
