//! A list of fields while it is read: flat, without pointers, and on the stack if it is short.
//!
//! Readers of texts and of Python objects fill a [`Fields`]; `owner::description` copies it into a
//! block as a `cai_descr`. Rows of one list are linked, because those of nested lists come between
//! them. Texts and extents are copied as they are: rows refer to them by their places.

// Positions are lengths that were counted here, below the sizes that vectors can have.
#![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]

use std::ffi::c_char;

use crate::abi::{self, CAI_TYPESTR_SIZE};
use crate::dtype;
use crate::error::{Count, Failure, Result, fail};
use crate::read;

/// Values of which a few need no memory from the heap.
struct Few<T, const N: usize> {
    inline: [T; N],
    count: usize,
    /// All values, once they are more than `N`.
    heap: Vec<T>,
}

impl<T: Copy, const N: usize> Few<T, N> {
    /// No values. `fill` is what unused places contain.
    #[inline(always)]
    fn new(fill: T) -> Self {
        Few { inline: [fill; N], count: 0, heap: Vec::new() }
    }

    fn as_slice(&self) -> &[T] {
        if self.count <= N { &self.inline[..self.count] } else { &self.heap }
    }

    fn as_mut_slice(&mut self) -> &mut [T] {
        if self.count <= N { &mut self.inline[..self.count] } else { &mut self.heap }
    }

    fn extend(&mut self, values: &[T]) -> Result<()> {
        let count = self.count + values.len();
        if count <= N {
            self.inline[self.count..count].copy_from_slice(values);
        } else {
            let before = if self.count <= N { &self.inline[..self.count] } else { &[] };
            if self.heap.try_reserve(before.len() + values.len()).is_err() {
                return Err(Failure::no_memory(count.saturating_mul(size_of::<T>())));
            }
            self.heap.extend_from_slice(before);
            self.heap.extend_from_slice(values);
        }
        self.count = count;
        Ok(())
    }
}

/// The place of a list.
#[derive(Clone, Copy)]
pub struct List(usize);

/// The place of no row, list or text.
const NOTHING: usize = usize::MAX;

/// The place of the empty text.
const EMPTY: usize = 0;

#[derive(Clone, Copy)]
struct Ends {
    first: usize,
    last: usize,
}

const NO_ROWS: Ends = Ends { first: NOTHING, last: NOTHING };

#[derive(Clone, Copy)]
pub struct Row {
    /// Empty if the field consists of fields.
    pub typestr: [c_char; CAI_TYPESTR_SIZE],
    nested: usize,
    /// The place of the name.
    pub name: usize,
    title: usize,
    /// The place of the first extent.
    pub shape: usize,
    pub ndim: usize,
    next: usize,
}

const NO_ROW: Row = Row {
    typestr: [0; CAI_TYPESTR_SIZE],
    nested: NOTHING,
    name: EMPTY,
    title: NOTHING,
    shape: 0,
    ndim: 0,
    next: NOTHING,
};

impl Row {
    /// Returns the place of the title, if there is one.
    pub fn title(&self) -> Option<usize> {
        (self.title != NOTHING).then_some(self.title)
    }

    /// Returns the place of the list of fields that the field consists of, if any.
    pub fn nested(&self) -> Option<usize> {
        (self.nested != NOTHING).then_some(self.nested)
    }
}

/// A list of fields with all that its rows contain. The rules about fields are not checked yet.
pub struct Fields {
    lists: Few<Ends, 2>,
    rows: Few<Row, 4>,
    /// The empty text, names and titles, each with a NUL.
    texts: Few<u8, 64>,
    extents: Few<i64, 8>,
}

pub struct NewRow(Row);

impl NewRow {
    pub fn new() -> Self {
        NewRow(NO_ROW)
    }
}

impl Fields {
    pub fn new() -> Self {
        Fields {
            lists: Few::new(NO_ROWS),
            rows: Few::new(NO_ROW),
            texts: Few { count: 1, ..Few::new(0) },
            extents: Few::new(0),
        }
    }

    /// Adds an empty list, which is in `depth - 1` others.
    pub fn list(&mut self, depth: i32) -> Result<List> {
        if depth > abi::CAI_MAX_DESCR_DEPTH {
            return fail!(CAI_ERR_DESCR_DEPTH, "";
                found "fields nested {depth} deep";
                expected "at most {} deep", abi::CAI_MAX_DESCR_DEPTH);
        }
        self.lists.extend(&[NO_ROWS])?;
        Ok(List(self.lists.count - 1))
    }

    /// Appends a row to a list. Fails for more rows than there may be in all lists together.
    pub fn push(&mut self, list: List, row: NewRow) -> Result<()> {
        let place = self.rows.count;
        if place as u64 >= abi::CAI_MAX_FIELDS {
            return fail!(CAI_ERR_DESCR_COUNT, "";
                found "{}", Count(place + 1, "field");
                expected "at most {} fields in all", abi::CAI_MAX_FIELDS);
        }
        self.rows.extend(&[row.0])?;
        let ends = &mut self.lists.as_mut_slice()[list.0];
        let last = std::mem::replace(&mut ends.last, place);
        if last == NOTHING {
            ends.first = place;
        } else {
            self.rows.as_mut_slice()[last].next = place;
        }
        Ok(())
    }

    fn text(&mut self, text: &[u8]) -> Result<usize> {
        if text.contains(&0) {
            return fail!(CAI_ERR_DESCR_NAME, ".name";
                found "a NUL in \"{}\"", text.escape_ascii(); expected "a name without NUL");
        }
        if text.is_empty() {
            return Ok(EMPTY);
        }
        let place = self.texts.count;
        self.texts.extend(text)?;
        self.texts.extend(&[0])?;
        Ok(place)
    }

    pub fn name(&mut self, row: &mut NewRow, name: &[u8]) -> Result<()> {
        row.0.name = self.text(name)?;
        Ok(())
    }

    pub fn title(&mut self, row: &mut NewRow, title: &[u8]) -> Result<()> {
        row.0.title = self.text(title)?;
        Ok(())
    }

    /// Sets the typestr of a row. Its grammar is not checked.
    pub fn typestr(&self, row: &mut NewRow, text: &[u8]) -> Result<()> {
        if text.is_empty() || text.len() >= CAI_TYPESTR_SIZE || text.contains(&0) {
            return fail!(CAI_ERR_TYPESTR_LENGTH, ".typestr";
                found "\"{}\"", text.escape_ascii();
                expected "1 to {} characters", CAI_TYPESTR_SIZE - 1);
        }
        for (to, from) in row.0.typestr.iter_mut().zip(text) {
            *to = *from as c_char;
        }
        Ok(())
    }

    pub fn nested(&self, row: &mut NewRow, list: List) {
        row.0.nested = list.0;
    }

    /// Appends an extent to the sub-array of a row. The extents of one row follow each other.
    pub fn extent(&mut self, row: &mut NewRow, extent: i64) -> Result<()> {
        if row.0.ndim == abi::CAI_MAX_NDIM as usize {
            return fail!(CAI_ERR_DESCR_SHAPE, ".shape";
                found "more extents"; expected "at most {}", abi::CAI_MAX_NDIM);
        }
        if row.0.ndim == 0 {
            row.0.shape = self.extents.count;
        }
        self.extents.extend(&[extent])?;
        row.0.ndim += 1;
        Ok(())
    }

    /// Returns the lists, of which the outermost one is the first.
    pub fn lists(&self) -> impl ExactSizeIterator<Item = List> {
        (0..self.lists.count).map(List)
    }

    /// Returns the number of rows of all lists.
    pub fn row_count(&self) -> usize {
        self.rows.count
    }

    /// Returns the rows of a list.
    pub fn rows(&self, list: List) -> impl Iterator<Item = &Row> {
        let rows = self.rows.as_slice();
        let mut next = self.lists.as_slice().get(list.0).map_or(NOTHING, |ends| ends.first);
        std::iter::from_fn(move || {
            let row = rows.get(next)?;
            next = row.next;
            Some(row)
        })
    }

    pub fn texts(&self) -> &[u8] {
        self.texts.as_slice()
    }

    pub fn extents(&self) -> &[i64] {
        self.extents.as_slice()
    }

    /// Returns true for the one nameless row that only repeats the type of the array: NumPy writes
    /// it for types without fields.
    pub fn is_trivial(&self, typestr: &[c_char; CAI_TYPESTR_SIZE]) -> bool {
        let [row] = self.rows.as_slice() else { return false };
        let is_nameless = row.name == EMPTY && row.title == NOTHING;
        if !is_nameless || row.nested != NOTHING || row.ndim != 0 {
            return false;
        }
        let parsed = |text| read::typestr(text).and_then(|text: &[u8]| dtype::parse(text).ok());
        row.typestr == *typestr
            || matches!(
                (parsed(&row.typestr), parsed(typestr)),
                (Some(row), Some(array)) if dtype::equal(&row, &array)
            )
    }
}
