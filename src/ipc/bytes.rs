//! The form of the bytes: a head of fixed size, then shape and strides. All numbers are
//! little-endian, so that their meaning does not depend on a compiler.
//!
//! | at | bytes | content |
//! |---|---|---|
//! | 0 | 8 | `CAI IPC` and a NUL |
//! | 8 | 4 | version of the form: 1 |
//! | 12 | 4 | number of bytes, these included |
//! | 16 | 4 | kind of memory: 0 none, 1 plain, 2 pool, 3 mapped |
//! | 20 | 4 | bits: 1 read-only, 2 strides follow, 4 an event |
//! | 24 | 4 | number of dimensions |
//! | 28 | 4 | `dtype_code` |
//! | 32 | 16 | `typestr` |
//! | 48 | 16 | UUID of the device |
//! | 64 | 8 | bytes of the allocation |
//! | 72 | 8 | bytes from its beginning to the element at index zero |
//! | 80 | 64 | handle of the memory |
//! | 144 | 64 | handle of the event |
//! | 208 | 8 each | shape, strides |
//!
//! May use: `abi`, `driver`, `error`.
//! Unsafe: none.

use std::ffi::c_char;

use crate::abi::{CAI_IPC_SIZE, CAI_MAX_NDIM, CAI_TYPESTR_SIZE};
use crate::driver::MemoryKind;
use crate::error::{Failure, Result, fail};

const DIMENSIONS: usize = CAI_MAX_NDIM as usize;
const MAGIC: [u8; 8] = *b"CAI IPC\0";
const VERSION: u32 = 1;
/// Bytes of the head.
const HEAD: usize = 208;

const READONLY: u32 = 1;
const STRIDES: u32 = 2;
const EVENT: u32 = 4;

const _: () = assert!(HEAD + 16 * DIMENSIONS <= CAI_IPC_SIZE);

/// What the bytes specify.
pub struct Message {
    /// `None` for an array without elements.
    pub kind: Option<MemoryKind>,
    pub is_readonly: bool,
    pub ndim: usize,
    pub dtype_code: u16,
    pub typestr: [c_char; CAI_TYPESTR_SIZE],
    pub uuid: [u8; 16],
    pub size: u64,
    pub offset: u64,
    pub memory: [u8; 64],
    pub event: Option<[u8; 64]>,
    pub shape: [i64; DIMENSIONS],
    pub strides: Option<[i64; DIMENSIONS]>,
}

/// Returns the number of bytes of an array.
pub fn length(ndim: usize, has_strides: bool) -> usize {
    HEAD + 8 * ndim * if has_strides { 2 } else { 1 }
}

/// Writes one member after another. All offsets are constants of the form, within `CAI_IPC_SIZE`.
struct Writer {
    bytes: [u8; CAI_IPC_SIZE],
    used: usize,
}

impl Writer {
    fn put(&mut self, value: &[u8]) {
        let end = self.used + value.len();
        if let Some(to) = self.bytes.get_mut(self.used..end) {
            to.copy_from_slice(value);
        }
        self.used = end;
    }

    fn put_all(&mut self, values: &[i64]) {
        for value in values {
            self.put(&value.to_le_bytes());
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((value, rest)) = self.0.split_first_chunk::<N>() else {
            return fail!(
                CAI_ERR_IPC_BYTES,
                "size",
                found = "too few bytes",
                expected = "all bytes that cai_ipc_export wrote"
            );
        };
        self.0 = rest;
        Ok(*value)
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn values(&mut self, count: usize) -> Result<[i64; DIMENSIONS]> {
        let mut values = [0; DIMENSIONS];
        for value in values.iter_mut().take(count) {
            *value = i64::from_le_bytes(self.take()?);
        }
        Ok(values)
    }
}

impl Message {
    /// Returns the bytes, of which the first [`length`] are used.
    pub fn write(&self) -> [u8; CAI_IPC_SIZE] {
        let length = length(self.ndim, self.strides.is_some());
        let kind: u32 = match self.kind {
            None => 0,
            Some(MemoryKind::Plain) => 1,
            Some(MemoryKind::Pool) => 2,
            Some(MemoryKind::Mapped) => 3,
        };
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        let bits = bit(self.is_readonly, READONLY)
            | bit(self.strides.is_some(), STRIDES)
            | bit(self.event.is_some(), EVENT);
        let mut writer = Writer { bytes: [0; CAI_IPC_SIZE], used: 0 };
        writer.put(&MAGIC);
        for number in
            [VERSION, length as u32, kind, bits, self.ndim as u32, u32::from(self.dtype_code)]
        {
            writer.put(&number.to_le_bytes());
        }
        writer.put(&self.typestr.map(|character| character as u8));
        writer.put(&self.uuid);
        writer.put(&self.size.to_le_bytes());
        writer.put(&self.offset.to_le_bytes());
        writer.put(&self.memory);
        writer.put(&self.event.unwrap_or([0; 64]));
        let used = self.ndim.min(DIMENSIONS);
        writer.put_all(self.shape.get(..used).unwrap_or_default());
        if let Some(strides) = &self.strides {
            writer.put_all(strides.get(..used).unwrap_or_default());
        }
        writer.bytes
    }

    /// Reads bytes that come from anywhere.
    pub fn read(bytes: &[u8]) -> Result<Message> {
        let mut reader = Reader(bytes);
        if reader.take()? != MAGIC {
            return malformed("bytes", "bytes that begin otherwise");
        }
        let version = reader.u32()?;
        if version != VERSION {
            return fail!(
                CAI_ERR_IPC_VERSION,
                "bytes",
                found = "version {version} of the form",
                expected = "{VERSION}: use libraries of one age on both sides"
            );
        }
        let length = reader.u32()? as usize;
        let kind = match reader.u32()? {
            0 => None,
            1 => Some(MemoryKind::Plain),
            2 => Some(MemoryKind::Pool),
            3 => Some(MemoryKind::Mapped),
            _ => return malformed("bytes", "an unknown kind of memory"),
        };
        let bits = reader.u32()?;
        let (ndim, code) = (reader.u32()? as usize, reader.u32()?);
        let Ok(dtype_code) = u16::try_from(code) else {
            return malformed("dtype_code", "a number that is too large");
        };
        if bits & !(READONLY | STRIDES | EVENT) != 0 || ndim > DIMENSIONS {
            return malformed("bytes", "unknown bits, or too many dimensions");
        }
        let has_strides = bits & STRIDES != 0;
        if length != bytes.len() || length != self::length(ndim, has_strides) {
            return fail!(
                CAI_ERR_IPC_BYTES,
                "size",
                found = ("{}", bytes.len()),
                expected = ("{}", self::length(ndim, has_strides))
            );
        }
        let typestr = reader.take::<CAI_TYPESTR_SIZE>()?.map(|byte| byte as c_char);
        let (uuid, size, offset) = (reader.take()?, reader.u64()?, reader.u64()?);
        let (memory, event) = (reader.take()?, reader.take()?);
        let has_handle = matches!(kind, Some(MemoryKind::Plain | MemoryKind::Pool));
        let has_event = bits & EVENT != 0;
        if (!has_handle && memory != [0; 64]) || (!has_event && event != [0; 64]) {
            return malformed("bytes", "a handle that has no use");
        }
        let shape = reader.values(ndim)?;
        let strides = if has_strides { Some(reader.values(ndim)?) } else { None };
        Ok(Message {
            kind,
            is_readonly: bits & READONLY != 0,
            ndim,
            dtype_code,
            typestr,
            uuid,
            size,
            offset,
            memory,
            event: has_event.then_some(event),
            shape,
            strides,
        })
    }
}

fn malformed<T>(field: &str, found: &str) -> Result<T> {
    Err(Failure::new(
        crate::abi::CAI_ERR_IPC_BYTES,
        format_args!("{field}"),
        format_args!("{found}"),
        format_args!("the bytes that cai_ipc_export wrote, unchanged"),
    ))
}
