//! A list of fields while it is read: flat, without pointers, and on the stack if it is short.
//!
//! Readers of texts and of Python objects fill a [`Fields`]; `owner::description` copies it into a
//! block as a `cai_descr`. Rows of one list are linked, because those of nested lists come between
//! them.

// Positions are lengths that were counted here, below the sizes that vectors can have.
#![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]

use std::ffi::c_char;

use crate::abi::{self, CAI_TYPESTR_SIZE};
use crate::dtype;
use crate::error::{Failure, Result, fail};
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

#[derive(Clone, Copy)]
pub struct List(usize);

/// The place of no row, list or text.
const NOTHING: usize = usize::MAX;

#[derive(Clone, Copy)]
struct Ends {
    first: usize,
    last: usize,
    count: usize,
}

#[derive(Clone, Copy)]
struct Row {
    typestr: [c_char; CAI_TYPESTR_SIZE],
    nested: usize,
    name: usize,
    title: usize,
    shape: usize,
    ndim: usize,
    next: usize,
}

const NO_ROW: Row = Row {
    typestr: [0; CAI_TYPESTR_SIZE],
    nested: NOTHING,
    name: NOTHING,
    title: NOTHING,
    shape: 0,
    ndim: 0,
    next: NOTHING,
};

/// A list of fields with all that its rows contain. The rules about fields are not checked yet.
pub struct Fields {
    lists: Few<Ends, 2>,
    rows: Few<Row, 4>,
    /// Names and titles, each with a NUL.
    texts: Few<u8, 64>,
    extents: Few<i64, 8>,
}

pub struct NewRow(Row);

pub struct FieldRow<'a> {
    /// The name, without its NUL.
    pub name: &'a [u8],
    pub title: Option<&'a [u8]>,
    /// The typestr, which is empty if `nested` is given.
    pub typestr: [c_char; CAI_TYPESTR_SIZE],
    /// The list of fields that the field consists of, if any.
    pub nested: Option<List>,
    pub shape: &'a [i64],
}

impl NewRow {
    pub fn new() -> Self {
        NewRow(NO_ROW)
    }
}

impl Fields {
    pub fn new() -> Self {
        Fields {
            lists: Few::new(Ends { first: NOTHING, last: NOTHING, count: 0 }),
            rows: Few::new(NO_ROW),
            texts: Few::new(0),
            extents: Few::new(0),
        }
    }

    /// Adds an empty list, which is in `depth - 1` others.
    pub fn list(&mut self, depth: i32) -> Result<List> {
        if depth > abi::CAI_MAX_DESCR_DEPTH {
            return fail!(
                CAI_ERR_DESCR_DEPTH,
                "",
                found = "fields nested {depth} deep",
                expected = ("at most {} deep", abi::CAI_MAX_DESCR_DEPTH)
            );
        }
        self.lists.extend(&[Ends { first: NOTHING, last: NOTHING, count: 0 }])?;
        Ok(List(self.lists.count - 1))
    }

    /// Appends a row to a list. Fails for more rows than there may be in all lists together.
    pub fn push(&mut self, list: List, row: NewRow) -> Result<()> {
        let place = self.rows.count;
        if place as u64 >= abi::CAI_MAX_FIELDS {
            return fail!(
                CAI_ERR_DESCR_COUNT,
                "",
                found = ("{} fields", place + 1),
                expected = ("at most {} fields in all", abi::CAI_MAX_FIELDS)
            );
        }
        self.rows.extend(&[row.0])?;
        let ends = &mut self.lists.as_mut_slice()[list.0];
        let last = std::mem::replace(&mut ends.last, place);
        ends.count += 1;
        if last == NOTHING {
            ends.first = place;
        } else {
            self.rows.as_mut_slice()[last].next = place;
        }
        Ok(())
    }

    fn text(&mut self, text: &[u8]) -> Result<usize> {
        if text.contains(&0) {
            return fail!(
                CAI_ERR_DESCR_NAME,
                ".name",
                found = ("a NUL in \"{}\"", text.escape_ascii()),
                expected = "a name without NUL"
            );
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
            return fail!(
                CAI_ERR_TYPESTR_LENGTH,
                ".typestr",
                found = ("\"{}\"", text.escape_ascii()),
                expected = ("1 to {} characters", CAI_TYPESTR_SIZE - 1)
            );
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
            return fail!(
                CAI_ERR_DESCR_SHAPE,
                ".shape",
                found = "more extents",
                expected = ("at most {}", abi::CAI_MAX_NDIM)
            );
        }
        if row.0.ndim == 0 {
            row.0.shape = self.extents.count;
        }
        self.extents.extend(&[extent])?;
        row.0.ndim += 1;
        Ok(())
    }

    /// Returns the outermost list, the first one that was added.
    pub fn outermost(&self) -> List {
        List(0)
    }

    pub fn count(&self, list: List) -> usize {
        self.lists.as_slice().get(list.0).map_or(0, |ends| ends.count)
    }

    pub fn rows(&self, list: List) -> impl Iterator<Item = FieldRow<'_>> {
        let rows = self.rows.as_slice();
        let mut next = self.lists.as_slice().get(list.0).map_or(NOTHING, |ends| ends.first);
        std::iter::from_fn(move || {
            let row = rows.get(next)?;
            next = row.next;
            Some(FieldRow {
                name: self.text_at(row.name).unwrap_or_default(),
                title: self.text_at(row.title),
                typestr: row.typestr,
                nested: (row.nested != NOTHING).then_some(List(row.nested)),
                shape: &self.extents.as_slice()[row.shape..row.shape + row.ndim],
            })
        })
    }

    fn text_at(&self, place: usize) -> Option<&[u8]> {
        self.texts.as_slice().get(place..)?.split(|byte| *byte == 0).next()
    }

    /// Returns true for the one nameless row that only repeats the type of the array: NumPy writes
    /// it for types without fields.
    pub fn is_trivial(&self, typestr: &[c_char; CAI_TYPESTR_SIZE]) -> bool {
        let rows = self.rows(self.outermost());
        let [row] = self.rows.as_slice() else { return false };
        let nameless = rows.take(1).all(|row| row.name.is_empty() && row.title.is_none());
        if !nameless || row.nested != NOTHING || row.ndim != 0 {
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
