//! Sections, segments and symbols of an ELF file of this machine. All positions and sizes come from
//! the file: each is checked before it is used.

use object::elf::*;
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{LittleEndian, Pod, ReadCache, StringTable};
use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;

const MACHINE: u16 = if cfg!(target_arch = "aarch64") { EM_AARCH64 } else { EM_X86_64 };
const LE: LittleEndian = LittleEndian;

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

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
    tables: ReadCache<File>,
    pub segments: Vec<Segment>,
}

impl Elf {
    pub fn open(path: &str) -> Result<Elf> {
        let file = File::open(path)?;
        let tables = ReadCache::new(file.try_clone()?);
        let head = FileHeader64::<LittleEndian>::parse(&tables)?;
        if head.e_machine(head.endian()?) != MACHINE {
            return Err("not an ELF file of this machine".into());
        }
        let mut segments = Vec::new();
        for entry in head.program_headers(LE, &tables)? {
            let flags = entry.p_flags(LE);
            if entry.p_type(LE) == PT_LOAD {
                segments.push(Segment {
                    offset: entry.p_offset(LE),
                    address: entry.p_vaddr(LE),
                    file_size: entry.p_filesz(LE),
                    readable: flags & PF_R != 0,
                    writable: flags & PF_W != 0,
                    executable: flags & PF_X != 0,
                });
            }
        }
        Ok(Elf { file, tables, segments })
    }

    /// Returns the entries of the first section of this type, and its names.
    fn section<T: Pod>(&self, wanted: u32) -> Result<Option<(&[T], StringTable<'_>)>> {
        let sections = FileHeader64::parse(&self.tables)?.sections(LE, &self.tables)?;
        let found = sections.iter().find(|section| section.sh_type(LE) == wanted);
        let Some(found) = found else { return Ok(None) };
        let names = sections.section(found.link(LE))?.data(LE, &self.tables)?;
        let entries = found.data_as_array(LE, &self.tables)?;
        Ok(Some((entries, StringTable::new(names, 0, names.len() as u64))))
    }

    /// Returns the functions that a symbol table defines and whose names `wanted` accepts.
    fn functions(&self, kind: u32, wanted: fn(&[u8]) -> bool) -> Result<Option<Vec<Function>>> {
        let Some((symbols, names)) = self.section::<Sym64<_>>(kind)? else { return Ok(None) };
        let mut found = Vec::new();
        for symbol in symbols {
            let section = symbol.st_shndx(LE);
            if symbol.st_type() != STT_FUNC || section == SHN_UNDEF || section >= SHN_LORESERVE {
                continue;
            }
            let name = symbol.name(LE, names).unwrap_or_default();
            if wanted(name) {
                found.push(Function {
                    name: String::from_utf8_lossy(name).into_owned(),
                    address: symbol.st_value(LE),
                    size: symbol.st_size(LE),
                });
            }
        }
        Ok(Some(found))
    }

    /// Returns functions of the symbol table for debuggers. None: the file was stripped.
    pub fn symbols(&self, wanted: fn(&[u8]) -> bool) -> Result<Option<Vec<Function>>> {
        self.functions(SHT_SYMTAB, wanted)
    }

    pub fn exports(&self, wanted: fn(&[u8]) -> bool) -> Result<Vec<Function>> {
        Ok(self.functions(SHT_DYNSYM, wanted)?.unwrap_or_default())
    }

    /// Returns the file's own name and the names of the libraries that it needs.
    pub fn libraries(&self) -> Result<(Option<String>, Vec<String>)> {
        let (mut own, mut needed) = (None, Vec::new());
        if let Some((entries, names)) = self.section::<Dyn64<_>>(SHT_DYNAMIC)? {
            for entry in entries {
                let name = entry.string(LE, names).unwrap_or_default();
                let name = || String::from_utf8_lossy(name).into_owned();
                match entry.tag32(LE) {
                    Some(DT_NEEDED) => needed.push(name()),
                    Some(DT_SONAME) => own = Some(name()),
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
pub fn mappings() -> std::io::Result<Vec<(Range<usize>, String)>> {
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
