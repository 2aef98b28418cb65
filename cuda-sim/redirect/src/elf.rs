//! Sections, segments and symbols of an ELF file of this machine. All positions and sizes come from
//! the file: each is checked before it is used.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::ops::Range;
use std::os::unix::fs::FileExt;

const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
const LOAD: u32 = 1;
const SYMTAB: u32 = 2;
const DYNAMIC: u32 = 6;
const DYNSYM: u32 = 11;
const FUNCTION: u8 = 2;
const NEEDED: u64 = 1;
const SONAME: u64 = 14;
/// Larger tables are not read.
const TABLE_LIMIT: u64 = 1 << 30;

/// A part of the file that the dynamic linker maps.
pub struct Segment {
    pub offset: u64,
    pub address: u64,
    pub file_size: u64,
    pub readable: bool,
    pub writable: bool,
    pub executable: bool,
}

/// A function that the file defines.
pub struct Function {
    pub name: String,
    pub address: u64,
    pub size: u64,
}

pub struct Elf {
    file: File,
    pub segments: Vec<Segment>,
    /// The sections: type, offset, size, and the section of their names.
    sections: Vec<(u32, u64, u64, usize)>,
}

fn bad(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what.to_owned())
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap_or_default())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default())
}

/// Returns the text at an offset of a table of names.
fn text(names: &[u8], at: u32) -> &[u8] {
    let rest = names.get(at as usize..).unwrap_or_default();
    &rest[..rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len())]
}

impl Elf {
    pub fn open(path: &str) -> Result<Elf> {
        let file = File::open(path)?;
        let mut head = [0; 64];
        file.read_exact_at(&mut head, 0)?;
        // 64 bits, little-endian.
        if head[..6] != *b"\x7fELF\x02\x01" || u16_at(&head, 18) != MACHINE {
            return Err(bad("not an ELF file of this machine"));
        }
        let mut elf = Elf { file, segments: Vec::new(), sections: Vec::new() };
        let (size, count) = (u16_at(&head, 54), u16_at(&head, 56));
        for entry in elf.table(u64_at(&head, 32), count, size, 56)? {
            let flags = u32_at(&entry, 4);
            if u32_at(&entry, 0) == LOAD {
                elf.segments.push(Segment {
                    offset: u64_at(&entry, 8),
                    address: u64_at(&entry, 16),
                    file_size: u64_at(&entry, 32),
                    readable: flags & 4 != 0,
                    writable: flags & 2 != 0,
                    executable: flags & 1 != 0,
                });
            }
        }
        let (size, count) = (u16_at(&head, 58), u16_at(&head, 60));
        for entry in elf.table(u64_at(&head, 40), count, size, 64)? {
            elf.sections.push((
                u32_at(&entry, 4),
                u64_at(&entry, 24),
                u64_at(&entry, 32),
                u32_at(&entry, 40) as usize,
            ));
        }
        Ok(elf)
    }

    fn table(&self, offset: u64, count: u16, size: u16, least: usize) -> Result<Vec<Vec<u8>>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        if usize::from(size) < least {
            return Err(bad("the entries of a table are too small"));
        }
        let bytes = self.bytes(offset, u64::from(count) * u64::from(size))?;
        Ok(bytes.chunks_exact(size.into()).map(<[u8]>::to_vec).collect())
    }

    /// Reads a part of the file.
    fn bytes(&self, offset: u64, size: u64) -> Result<Vec<u8>> {
        // Compared with the file first, so that a wrong size allocates nothing.
        let end = offset.checked_add(size).ok_or_else(|| bad("a size is too large"))?;
        if size > TABLE_LIMIT || end > self.file.metadata()?.len() {
            return Err(bad("a size is too large"));
        }
        let mut bytes = vec![0; size as usize];
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// Returns the contents of a section of this type, and its names.
    fn section(&self, wanted: u32) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let found = self.sections.iter().find(|(kind, ..)| *kind == wanted);
        let Some((_, offset, size, link)) = found else { return Ok(None) };
        let (_, names, length, _) = self.sections.get(*link).ok_or_else(|| bad("no names"))?;
        Ok(Some((self.bytes(*offset, *size)?, self.bytes(*names, *length)?)))
    }

    /// Returns the functions that a symbol table defines and whose names `wanted` accepts.
    fn functions(&self, kind: u32, wanted: fn(&[u8]) -> bool) -> Result<Option<Vec<Function>>> {
        let Some((symbols, names)) = self.section(kind)? else { return Ok(None) };
        let mut found = Vec::new();
        for symbol in symbols.chunks_exact(24) {
            let section = u16_at(symbol, 6);
            if symbol[4] & 15 != FUNCTION || section == 0 || section >= 0xff00 {
                continue;
            }
            let name = text(&names, u32_at(symbol, 0));
            if wanted(name) {
                found.push(Function {
                    name: String::from_utf8_lossy(name).into_owned(),
                    address: u64_at(symbol, 8),
                    size: u64_at(symbol, 16),
                });
            }
        }
        Ok(Some(found))
    }

    /// Returns functions of the symbol table for debuggers. None: the file was stripped.
    pub fn symbols(&self, wanted: fn(&[u8]) -> bool) -> Result<Option<Vec<Function>>> {
        self.functions(SYMTAB, wanted)
    }

    /// Returns functions that the file exports.
    pub fn exports(&self, wanted: fn(&[u8]) -> bool) -> Result<Vec<Function>> {
        Ok(self.functions(DYNSYM, wanted)?.unwrap_or_default())
    }

    /// Returns the file's own name and the names of the libraries that it needs.
    pub fn libraries(&self) -> Result<(Option<String>, Vec<String>)> {
        let (mut own, mut needed) = (None, Vec::new());
        if let Some((entries, names)) = self.section(DYNAMIC)? {
            for entry in entries.chunks_exact(16) {
                let at = u32::try_from(u64_at(entry, 8)).unwrap_or(u32::MAX);
                let name = || String::from_utf8_lossy(text(&names, at)).into_owned();
                match u64_at(entry, 0) {
                    NEEDED => needed.push(name()),
                    SONAME => own = Some(name()),
                    _ => {}
                }
            }
        }
        Ok((own, needed))
    }

    /// Returns the segment that contains an address, and the offset in the file.
    pub fn place(&self, address: u64) -> Option<(&Segment, u64)> {
        let inside = |segment: &&Segment| {
            address.checked_sub(segment.address).is_some_and(|offset| offset < segment.file_size)
        };
        let segment = self.segments.iter().find(inside)?;
        Some((segment, segment.offset.checked_add(address - segment.address)?))
    }

    /// Returns whether the file has the same bytes at an offset.
    pub fn has_at(&self, offset: u64, bytes: &[u8]) -> bool {
        let mut own = vec![0; bytes.len()];
        self.file.read_exact_at(&mut own, offset).is_ok() && own == bytes
    }

    /// Returns whether a text occurs in a part of the file that is mapped.
    pub fn contains(&self, wanted: &[u8]) -> bool {
        self.segments.iter().any(|segment| {
            let (mut at, end) = (segment.offset, segment.offset.saturating_add(segment.file_size));
            let mut bytes = vec![0; 1 << 20];
            while at < end {
                let size = ((end - at) as usize).min(bytes.len());
                if self.file.read_exact_at(&mut bytes[..size], at).is_err() {
                    return false;
                }
                if find(&bytes[..size], wanted) {
                    return true;
                }
                if size < bytes.len() {
                    break;
                }
                // The text may lie across two blocks.
                at += (size - wanted.len()) as u64;
            }
            false
        })
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// Returns the mapped ranges of this process and their names.
pub fn mappings() -> Result<Vec<(Range<usize>, String)>> {
    let mut text = String::new();
    File::open("/proc/self/maps")?.read_to_string(&mut text)?;
    let address = |text: &str| usize::from_str_radix(text, 16).ok();
    Ok(text
        .lines()
        .filter_map(|line| {
            let (from, rest) = line.split_once('-')?;
            let (to, rest) = rest.split_once(' ')?;
            let name = rest.split_whitespace().nth(4).unwrap_or("");
            Some((address(from)?..address(to)?, name.to_owned()))
        })
        .collect())
}
