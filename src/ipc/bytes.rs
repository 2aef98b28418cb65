//! The form of the bytes: a head, the allocations, the array with its masks, and its fields as
//! text. All numbers are little-endian, so that their meaning does not depend on a compiler.
//!
//! | head: at | bytes | content |
//! |---|---|---|
//! | 0 | 8 | `CAI IPC` and a NUL |
//! | 8 | 4 | version of the form: 2 |
//! | 12 | 4 | number of bytes, these included |
//! | 16 | 4 | 1 if there is an event, else 0 |
//! | 20 | 4 | number of allocations |
//! | 24 | 4 | number of arrays: the array, its mask, the mask of its mask, and so on |
//! | 28 | 4 | bytes of the text of the fields |
//! | 32 | 64 | handle of the event, if there is one |
//!
//! | each allocation: at | bytes | content |
//! |---|---|---|
//! | 0 | 4 | kind: 1 plain, 2 pool, 3 mapped |
//! | 4 | 16 | UUID of the device |
//! | 20 | 8 | bytes of the allocation |
//! | 28 | 64 | handle, except for kind 3 |
//!
//! | each array: at | bytes | content |
//! |---|---|---|
//! | 0 | 4 | number of the allocation, from 1; 0 without elements |
//! | 4 | 4 | bits: 1 read-only, 2 strides follow |
//! | 8 | 4 | number of dimensions |
//! | 12 | 4 | `dtype_code` |
//! | 16 | 16 | `typestr` |
//! | 32 | 8 | bytes from the beginning of the allocation to the element at index zero |
//! | 40 | 8 each | shape, strides |
//!
//! Every allocation is used, and its first user comes after that of the allocation before it. The
//! rest is the first array's fields as text, as `cai_descr_format` writes it; masks have none.

use std::ffi::c_char;

use crate::abi::{
    CAI_MAX_MASKS, CAI_MAX_NDIM, CAI_TYPESTR_SIZE, CAI_UNSTABLE_IPC_FIELDS, CAI_UNSTABLE_IPC_SIZE,
};
use crate::argument::Buffer;
use crate::driver::{Allocation, MemoryKind};
use crate::error::{Failure, Result, fail, failure};
use crate::memory;
use crate::read::Dimensions;

const DIMENSIONS: usize = CAI_MAX_NDIM as usize;
/// Arrays of a message: one, and its masks. There are at most as many allocations.
pub(super) const ARRAYS: usize = CAI_MAX_MASKS as usize + 1;
const MAGIC: [u8; 8] = *b"CAI IPC\0";
const VERSION: u32 = 2;

const READONLY: u32 = 1;
const STRIDES: u32 = 2;

/// Bytes of a head, of a handle, and of an allocation and an array without what may follow.
const HEAD: usize = 32;
const HANDLE: usize = 64;
const ALLOCATION: usize = 28;
const PART: usize = 40;

const LARGEST: usize = HEAD
    + HANDLE
    + ARRAYS * (ALLOCATION + HANDLE)
    + ARRAYS * (PART + 16 * DIMENSIONS)
    + CAI_UNSTABLE_IPC_FIELDS;
const _: () = assert!(LARGEST <= CAI_UNSTABLE_IPC_SIZE);

/// An array or a mask. `D` is its shape, with strides if there are any.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Part<D> {
    /// Index of the allocation. `None` without elements.
    pub place: Option<usize>,
    pub is_readonly: bool,
    pub dtype_code: u16,
    pub typestr: [c_char; CAI_TYPESTR_SIZE],
    pub offset: u64,
    pub dimensions: D,
}

/// Shape and strides as they were read: bytes that are not aligned.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Raw<'a> {
    shape: &'a [u8],
    strides: Option<&'a [u8]>,
}

impl<'a> Raw<'a> {
    pub fn ndim(&self) -> usize {
        self.shape.len() / 8
    }

    pub fn has_strides(&self) -> bool {
        self.strides.is_some()
    }

    /// Returns the numbers of the shape, and then those of the strides.
    pub fn numbers(&self) -> impl Iterator<Item = i64> + 'a {
        let all =
            self.shape.chunks_exact(8).chain(self.strides.unwrap_or_default().chunks_exact(8));
        all.map(|bytes| bytes.try_into().map_or(0, i64::from_le_bytes))
    }
}

/// Values of which there are as many as arrays, or fewer. One takes no allocation.
#[derive(PartialEq, Debug)]
pub struct List<T> {
    first: Option<T>,
    rest: Vec<T>,
}

impl<T> List<T> {
    pub const fn new() -> Self {
        List { first: None, rest: Vec::new() }
    }

    /// Appends a value, and returns its index.
    pub fn push(&mut self, value: T) -> Result<usize> {
        let place = self.len();
        if place == ARRAYS {
            return Err(Failure::internal());
        }
        match self.first {
            None => self.first = Some(value),
            Some(_) => memory::push(&mut self.rest, value)?,
        }
        Ok(place)
    }

    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    pub fn get(&self, index: usize) -> Option<&T> {
        if index == 0 { self.first.as_ref() } else { self.rest.get(index - 1) }
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.first.iter().chain(&self.rest)
    }

    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> {
        self.first.iter_mut().chain(&mut self.rest)
    }
}

/// Contents of the bytes, apart from the fields.
#[derive(PartialEq, Debug)]
pub struct Message<D> {
    pub event: Option<[u8; 64]>,
    pub allocations: List<Allocation>,
    pub parts: List<Part<D>>,
}

pub(super) fn put(out: &mut Buffer<u8>, values: &[u32]) {
    values.iter().for_each(|value| out.append(&value.to_le_bytes()));
}

fn put_all(out: &mut Buffer<u8>, values: &[i64]) {
    values.iter().for_each(|value| out.append(&value.to_le_bytes()));
}

pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Reads what all forms begin with: the name of the form, its version, and the number of bytes.
    pub fn begin<const N: usize>(
        bytes: &'a [u8],
        magic: [u8; N],
        expected: u32,
    ) -> Result<Reader<'a>> {
        let mut reader = Reader(bytes);
        if reader.take()? != magic {
            return malformed("bytes", "bytes that begin otherwise");
        }
        let version = reader.u32()?;
        if version != expected {
            return fail!(CAI_ERR_IPC_VERSION, "bytes";
                found "version {version} of the format";
                expected "{expected}: use one version of libcai on both sides");
        }
        let length = reader.u32()? as usize;
        if length != bytes.len() {
            return fail!(CAI_ERR_IPC_BYTES, "size";
                found "{}", bytes.len(); expected "{length}, which the bytes state");
        }
        Ok(reader)
    }

    #[inline(always)]
    fn next(&mut self, count: usize) -> Result<&'a [u8]> {
        let Some((value, rest)) = self.0.split_at_checked(count) else {
            return malformed("size", "too few bytes");
        };
        self.0 = rest;
        Ok(value)
    }

    #[inline(always)]
    pub fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((value, rest)) = self.0.split_first_chunk() else {
            return malformed("size", "too few bytes");
        };
        self.0 = rest;
        Ok(*value)
    }

    #[inline(always)]
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    #[inline(always)]
    pub fn up_to(&mut self, limit: usize, what: &str) -> Result<usize> {
        let value = self.u32()? as usize;
        if value > limit { malformed("bytes", what) } else { Ok(value) }
    }

    #[inline(always)]
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn allocation(&mut self) -> Result<Allocation> {
        let kind = match self.u32()? {
            1 => MemoryKind::Plain,
            2 => MemoryKind::Pool,
            3 => MemoryKind::Mapped,
            _ => return malformed("bytes", "an unknown kind of memory"),
        };
        let (uuid, size) = (self.take()?, self.u64()?);
        let handle = if kind == MemoryKind::Mapped { [0; 64] } else { self.take()? };
        Ok(Allocation { kind, uuid, size, handle })
    }

    /// Reads an array that lies in one of the first `places` allocations.
    fn part(&mut self, places: usize) -> Result<Part<Raw<'a>>> {
        let place = self.up_to(places, "an unknown allocation")?.checked_sub(1);
        let bits = self.up_to((READONLY | STRIDES) as usize, "unknown bits")? as u32;
        let ndim = self.up_to(DIMENSIONS, "too many dimensions")?;
        let dtype_code = self.up_to(u16::MAX.into(), "a large dtype_code")? as u16;
        let typestr = self.take::<CAI_TYPESTR_SIZE>()?.map(|byte| byte as c_char);
        let offset = self.u64()?;
        let shape = self.next(8 * ndim)?;
        let strides = if bits & STRIDES != 0 { Some(self.next(8 * ndim)?) } else { None };
        let (is_readonly, dimensions) = (bits & READONLY != 0, Raw { shape, strides });
        Ok(Part { place, is_readonly, dtype_code, typestr, offset, dimensions })
    }
}

impl<D> Message<D> {
    pub fn new() -> Self {
        Message { event: None, allocations: List::new(), parts: List::new() }
    }

    /// Returns true if a file descriptor goes with the bytes.
    pub fn needs_descriptor(&self) -> bool {
        self.allocations.iter().any(|allocation| allocation.kind.needs_descriptor())
    }
}

impl Message<Dimensions<'_>> {
    /// Returns the number of bytes with `text` bytes for the fields.
    pub fn length(&self, text: usize) -> usize {
        let mut length = HEAD + text + if self.event.is_some() { HANDLE } else { 0 };
        for allocation in self.allocations.iter() {
            length += ALLOCATION + if allocation.kind == MemoryKind::Mapped { 0 } else { HANDLE };
        }
        for Part { dimensions: (shape, strides), .. } in self.parts.iter() {
            length += PART + size_of_val(*shape) + strides.map_or(0, size_of_val);
        }
        length
    }

    /// Writes the bytes, except for the text that follows.
    pub fn write(&self, length: usize, text: usize, out: &mut Buffer<u8>) {
        out.append(&MAGIC);
        let (allocations, parts) = (self.allocations.len() as u32, self.parts.len() as u32);
        let has_event = self.event.is_some().into();
        put(out, &[VERSION, length as u32, has_event, allocations, parts, text as u32]);
        if let Some(event) = &self.event {
            out.append(event);
        }
        for allocation in self.allocations.iter() {
            let kind = match allocation.kind {
                MemoryKind::Plain => 1,
                MemoryKind::Pool => 2,
                MemoryKind::Mapped => 3,
            };
            put(out, &[kind]);
            out.append(&allocation.uuid);
            out.append(&allocation.size.to_le_bytes());
            if allocation.kind != MemoryKind::Mapped {
                out.append(&allocation.handle);
            }
        }
        for part in self.parts.iter() {
            let (shape, strides) = part.dimensions;
            let place = part.place.map_or(0, |place| place as u32 + 1);
            let bits = if strides.is_some() { STRIDES } else { 0 };
            let bits = if part.is_readonly { READONLY | bits } else { bits };
            put(out, &[place, bits, shape.len() as u32, part.dtype_code.into()]);
            out.append(&part.typestr.map(|character| character as u8));
            out.append(&part.offset.to_le_bytes());
            put_all(out, shape);
            put_all(out, strides.unwrap_or_default());
        }
    }
}

impl<'a> Message<Raw<'a>> {
    /// Reads bytes that come from anywhere. Returns the text of the fields, too.
    pub fn read(bytes: &'a [u8]) -> Result<(Self, &'a [u8])> {
        let mut reader = Reader::begin(bytes, MAGIC, VERSION)?;
        let has_event = reader.up_to(1, "unknown bits")? == 1;
        let allocation_count = reader.up_to(ARRAYS, "too many allocations")?;
        let count = reader.up_to(ARRAYS, "too many masks")?;
        let text = reader.up_to(CAI_UNSTABLE_IPC_FIELDS, "too many fields")?;
        let event = if has_event { Some(reader.take()?) } else { None };
        let mut message = Message { event, ..Message::new() };
        for _ in 0..allocation_count {
            message.allocations.push(reader.allocation()?)?;
        }
        let mut used = 0;
        for _ in 0..count {
            let part = reader.part(allocation_count.min(used + 1))?;
            used = used.max(part.place.map_or(0, |place| place + 1));
            message.parts.push(part)?;
        }
        if used != allocation_count || (has_event && used == 0) || count == 0 {
            return malformed("bytes", "parts without use");
        }
        if reader.0.len() != text {
            return malformed("size", "another number of bytes");
        }
        Ok((message, reader.0))
    }
}

#[cold]
#[inline(never)]
pub(super) fn malformed<T>(field: &str, found: &str) -> Result<T> {
    Err(failure!(crate::abi::CAI_ERR_IPC_BYTES, "{field}";
        found "{found}"; expected "unchanged bytes of cai_unstable_ipc_export, or for a channel of \
         cai_unstable_channel_export"))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn handle() -> impl Strategy<Value = [u8; 64]> {
        any::<u8>().prop_map(|byte| [byte; 64])
    }

    fn allocation() -> impl Strategy<Value = Allocation> {
        let kinds = [MemoryKind::Plain, MemoryKind::Pool, MemoryKind::Mapped];
        let kind = prop::sample::select(kinds.to_vec());
        (kind, any::<[u8; 16]>(), any::<u64>(), handle()).prop_map(|(kind, uuid, size, handle)| {
            let handle = if kind == MemoryKind::Mapped { [0; 64] } else { handle };
            Allocation { kind, uuid, size, handle }
        })
    }

    type Owned = (Vec<i64>, Option<Vec<i64>>);

    fn part() -> impl Strategy<Value = Part<Owned>> {
        let numbers = (any::<bool>(), any::<u16>(), any::<[u8; 16]>(), any::<u64>());
        (numbers, vec(any::<i64>(), 0..=DIMENSIONS), any::<bool>()).prop_map(
            |((is_readonly, dtype_code, typestr, offset), shape, has_strides)| {
                let typestr = typestr.map(|byte| byte as c_char);
                let strides = has_strides.then(|| shape.iter().rev().copied().collect());
                let dimensions = (shape, strides);
                Part { place: None, is_readonly, dtype_code, typestr, offset, dimensions }
            },
        )
    }

    /// Messages in which each array is in a new allocation, in an earlier one, or in none.
    fn message() -> impl Strategy<Value = Message<Owned>> {
        let parts = vec((part(), allocation(), 0..2 * ARRAYS), 1..=ARRAYS);
        (parts, proptest::option::of(handle())).prop_map(|(parts, event)| {
            let mut message = Message::new();
            for (mut part, allocation, choice) in parts {
                let count = message.allocations.len();
                part.place = match choice.checked_sub(ARRAYS) {
                    None => Some(message.allocations.push(allocation).ok().unwrap()),
                    Some(choice) => Some(choice).filter(|choice| *choice < count),
                };
                message.parts.push(part).ok().unwrap();
            }
            message.event = event.filter(|_| message.allocations.len() > 0);
            message
        })
    }

    /// The same message with other types of dimensions.
    fn with<'a, D, E>(message: &'a Message<D>, convert: impl Fn(&'a D) -> E) -> Message<E> {
        let mut to = Message { event: message.event, ..Message::new() };
        message.allocations.iter().for_each(|it| drop(to.allocations.push(*it)));
        for part in message.parts.iter() {
            let Part { place, is_readonly, dtype_code, typestr, offset, .. } = *part;
            let dimensions = convert(&part.dimensions);
            let part = Part { place, is_readonly, dtype_code, typestr, offset, dimensions };
            to.parts.push(part).ok().unwrap();
        }
        to
    }

    fn owned(message: &Message<Raw>) -> Message<Owned> {
        with(message, |raw| {
            let mut shape: Vec<_> = raw.numbers().collect();
            let strides = shape.split_off(raw.ndim());
            (shape, raw.has_strides().then_some(strides))
        })
    }

    fn bytes_of(message: &Message<Owned>, text: &[u8]) -> Vec<u8> {
        let message = with(message, |(shape, strides)| (&shape[..], strides.as_deref()));
        let length = message.length(text.len());
        let mut bytes = vec![0; length];
        // SAFETY: as many bytes, which nothing else uses before `out` is done with them.
        let mut out = unsafe { Buffer::new(bytes.as_mut_ptr(), length) };
        message.write(length, text.len(), &mut out);
        out.append(text);
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn what_is_written_is_read(message in message(), text in vec(any::<u8>(), 0..99)) {
            let bytes = bytes_of(&message, &text);
            let (found, rest) = Message::read(&bytes).ok().unwrap();
            prop_assert_eq!(owned(&found), message);
            prop_assert_eq!(rest, &text);
        }

        /// Every message has one form, so altered bytes are refused, or another message.
        #[test]
        fn what_is_read_is_written(
            message in message(),
            text in vec(any::<u8>(), 0..9),
            changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            end in prop_oneof![Just(usize::MAX), 0..9999usize],
        ) {
            let mut bytes = bytes_of(&message, &text);
            for (place, value) in changes {
                // Half of the changes are in the head, which decides about the rest.
                let length = if value % 2 == 0 { bytes.len().min(128) } else { bytes.len() };
                bytes[place.index(length)] = value / 8;
            }
            bytes.truncate(end);
            if let Ok((found, rest)) = Message::read(&bytes) {
                prop_assert_eq!(bytes_of(&owned(&found), rest), bytes);
            }
        }

        #[test]
        fn any_bytes_are_accepted(bytes in vec(any::<u8>(), 0..300)) {
            prop_assert!(Message::read(&bytes).is_err());
        }
    }

    #[test]
    fn the_longest_message_fits() {
        let mut message = Message { event: Some([1; 64]), ..Message::new() };
        let numbers = [0; DIMENSIONS];
        let part = Part {
            place: None,
            is_readonly: false,
            dtype_code: 0,
            typestr: [0; CAI_TYPESTR_SIZE],
            offset: 0,
            dimensions: (&numbers[..], Some(&numbers[..])),
        };
        for _ in 0..ARRAYS {
            let place = Some(message.allocations.push(Allocation::NONE).ok().unwrap());
            message.parts.push(Part { place, ..part }).ok().unwrap();
        }
        assert_eq!(message.length(CAI_UNSTABLE_IPC_FIELDS), LARGEST);
        assert!(message.parts.push(part).is_err());
    }
}
