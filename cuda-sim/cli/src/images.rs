//! Kernels of compiled device code: fat binaries anywhere in a file, with cubins and PTX in them,
//! compressed or not. All positions and sizes come from the file: each is checked.

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol, SymbolFlags};
use std::collections::BTreeMap;
use std::io::Read;

/// A parameter as device code describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    pub size: usize,
    /// Its type as in a declaration, if that is known.
    pub text: Option<&'static str>,
}

/// Kernels by their names, with their parameters if they are known.
pub type Kernels = BTreeMap<String, Option<Vec<Parameter>>>;

const FAT_BINARY: u32 = 0xba55_ed50;
const PTX: u16 = 1;
const CUBIN: u16 = 2;
/// The machine of ELF files for a GPU.
const CUDA: u16 = 190;
/// The flag of a symbol that is a kernel.
const ENTRY: u8 = 0x10;
/// The flags of a compressed image.
const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;
/// Larger images are not decompressed.
const IMAGE_LIMIT: u64 = 1 << 30;

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let found = bytes.get(at..at.checked_add(N)?)?;
    let mut all = [0; 8];
    all[..N].copy_from_slice(found);
    Some(u64::from_le_bytes(all))
}

/// Adds the kernels of a file: a program, a library, a fat binary, a cubin or PTX. Returns the number
/// of images that could not be read.
pub fn find(file: &[u8], out: &mut Kernels) -> usize {
    let mut unread = 0;
    // Images are aligned to 8 bytes, in sections that are.
    let mut at = 0;
    while let Some(word) = number::<4>(file, at) {
        at += match word as u32 {
            FAT_BINARY => fat_binary(&file[at..], out, &mut unread).unwrap_or(8),
            0x464c_457f if number::<2>(file, at + 18) == Some(CUDA.into()) => {
                // The size of a cubin is not stated: it is found again if others follow.
                unread += usize::from(cubin(&file[at..], out).is_none());
                8
            }
            _ => 8,
        };
    }
    ptx(file, out);
    unread
}

/// Returns the size of the fat binary, if there is one.
fn fat_binary(bytes: &[u8], out: &mut Kernels, unread: &mut usize) -> Option<usize> {
    let header = number::<2>(bytes, 6)? as usize;
    let end = header.checked_add(usize::try_from(number::<8>(bytes, 8)?).ok()?)?;
    let bytes = bytes.get(..end)?;
    let mut at = header;
    while at < end {
        let entry = &bytes[at..];
        let header = number::<4>(entry, 4)? as usize;
        let size = usize::try_from(number::<8>(entry, 8)?).ok()?;
        let next = header.checked_add(size).filter(|size| *size > 0)?;
        let image = entry.get(header..next)?;
        let packed = number::<4>(entry, 16)? as usize;
        let (flags, unpacked) = (number::<8>(entry, 40)?, number::<8>(entry, 56)?);
        let image = match image.get(..packed) {
            Some(packed) if flags & ZSTD != 0 => zstd(packed, unpacked),
            Some(packed) if flags & LZ4 != 0 => lz4(packed, unpacked),
            _ => Some(image.to_vec()),
        };
        let done = image.and_then(|image| match number::<2>(entry, 0)? as u16 {
            PTX => {
                ptx(&image, out);
                Some(())
            }
            CUBIN => cubin(&image, out),
            _ => Some(()),
        });
        *unread += usize::from(done.is_none());
        at += next;
    }
    Some(end)
}

fn zstd(packed: &[u8], size: u64) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let decoder = ruzstd::decoding::StreamingDecoder::new(packed).ok()?;
    decoder.take(size.min(IMAGE_LIMIT)).read_to_end(&mut out).ok()?;
    Some(out)
}

/// Decompresses a block of LZ4.
fn lz4(packed: &[u8], size: u64) -> Option<Vec<u8>> {
    let size = usize::try_from(size.min(IMAGE_LIMIT)).ok()?;
    let (mut out, mut rest) = (Vec::new(), packed.iter().copied());
    let length = |first: u8, rest: &mut dyn Iterator<Item = u8>| {
        let mut length = usize::from(first);
        if first == 15 {
            loop {
                let more = rest.next()?;
                length = length.checked_add(more.into())?;
                if more != 255 {
                    break;
                }
            }
        }
        Some(length)
    };
    while let Some(token) = rest.next() {
        let literals = length(token >> 4, &mut rest)?;
        out.extend(rest.by_ref().take(literals));
        if out.len() > size {
            return None;
        }
        // The last sequence has literals only.
        let Some(low) = rest.next() else { break };
        let distance = usize::from(u16::from_le_bytes([low, rest.next()?]));
        let count = length(token & 15, &mut rest)?.checked_add(4)?;
        let start = out.len().checked_sub(distance).filter(|_| distance > 0)?;
        if count > size - out.len() {
            return None;
        }
        for at in start..start + count {
            out.push(out[at]);
        }
    }
    Some(out)
}

/// Adds the kernels of a cubin, with the sizes of their parameters.
fn cubin(bytes: &[u8], out: &mut Kernels) -> Option<()> {
    let file = ElfFile64::<Endianness>::parse(bytes).ok()?;
    for symbol in file.symbols() {
        let SymbolFlags::Elf { st_other, .. } = symbol.flags() else { continue };
        if st_other & ENTRY == 0 {
            continue;
        }
        let Ok(name) = symbol.name() else { continue };
        let section = file.section_by_name(&format!(".nv.info.{name}"));
        let parameters = section.and_then(|section| parameters(section.data().ok()?));
        let found = out.entry(name.to_owned()).or_default();
        // PTX says more.
        if found.is_none() {
            *found = parameters;
        }
    }
    Some(())
}

/// Returns the parameters of a section of attributes: the format, the number and the size of each.
fn parameters(attributes: &[u8]) -> Option<Vec<Parameter>> {
    const PARAMETER: u64 = 0x17;
    const WITH_BYTES: u64 = 4;
    let (mut at, mut found) = (0, BTreeMap::new());
    while let Some(format) = number::<1>(attributes, at) {
        let attribute = number::<1>(attributes, at + 1)?;
        let size = if format == WITH_BYTES { number::<2>(attributes, at + 2)? as usize } else { 0 };
        if attribute == PARAMETER && size >= 12 {
            let ordinal = number::<2>(attributes, at + 8)?;
            let size = (number::<4>(attributes, at + 12)? >> 18) as usize;
            found.insert(ordinal, Parameter { size, text: None });
        }
        at += 4 + size;
    }
    Some(found.into_values().collect())
}

/// Adds the kernels of PTX, which may be anywhere in a file.
fn ptx(bytes: &[u8], out: &mut Kernels) {
    const WORD: &[u8] = b".entry ";
    let mut at = 0;
    while let Some(next) = bytes[at..].iter().position(|byte| *byte == b'.') {
        at += next;
        if bytes[at..].starts_with(WORD) {
            let end = bytes.len().min(at + (1 << 16));
            let text = String::from_utf8_lossy(&bytes[at + WORD.len()..end]);
            entry(&text, out);
        }
        at += 1;
    }
}

/// Adds the kernel whose name begins a text.
fn entry(text: &str, out: &mut Kernels) {
    let text = text.trim_start();
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
    let length = text.find(|c| !is_of_name(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(length);
    let list = match rest.trim_start().strip_prefix('(') {
        Some(rest) => rest.split_once(')').map(|(list, _)| list),
        None if rest.trim_start().starts_with(['{', '.']) => Some(""),
        // A text in a compiler.
        None => return,
    };
    if name.is_empty() {
        return;
    }
    let list = list.map(str::trim).unwrap_or_default();
    let all: Option<Vec<Parameter>> =
        list.split(',').filter(|text| !text.trim().is_empty()).map(parameter).collect();
    if let Some(all) = all {
        out.insert(name.to_owned(), Some(all));
    } else {
        out.entry(name.to_owned()).or_default();
    }
}

/// Parses `.param .align 8 .b8 name[24]` or `.param .u64 .ptr .align 1 name`.
fn parameter(text: &str) -> Option<Parameter> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.first() != Some(&".param") {
        return None;
    }
    let (size, text) = words.iter().find_map(|word| match *word {
        ".u64" | ".b64" | ".s64" if words.contains(&".ptr") => Some((8, Some("void*"))),
        ".u64" | ".b64" => Some((8, None)),
        ".s64" => Some((8, Some("long"))),
        ".f64" => Some((8, Some("double"))),
        ".u32" | ".b32" => Some((4, Some("unsigned"))),
        ".s32" => Some((4, Some("int"))),
        ".f32" => Some((4, Some("float"))),
        ".u16" | ".s16" | ".b16" | ".f16" => Some((2, None)),
        ".u8" | ".s8" | ".b8" => Some((1, None)),
        _ => None,
    })?;
    match words.last()?.split_once('[') {
        None => Some(Parameter { size, text }),
        Some((_, count)) => {
            let count: usize = count.strip_suffix(']')?.parse().ok()?;
            Some(Parameter { size: size.checked_mul(count)?, text: None })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_blocks() {
        // "abcdabcdabcdabcdabcdab!": four literals, a match of 18 bytes at distance 4, one literal.
        let block = [&[0x4e][..], b"abcd", &[4, 0, 0x10], b"!"].concat();
        assert_eq!(lz4(&block, 23).as_deref(), Some(&b"abcdabcdabcdabcdabcdab!"[..]));
        // A length in more bytes, and faults: too long, a distance before the start, a cut block.
        let long = [&[0xf0, 1][..], &[b'x'; 16]].concat();
        assert_eq!(lz4(&long, 16), Some(vec![b'x'; 16]));
        assert_eq!(lz4(&block, 21), None);
        assert_eq!(lz4(&[0x10, b'a', 2, 0], 99), None);
        assert_eq!(lz4(&[0x1f, b'a', 1, 0], 99), None);
        assert_eq!(lz4(&[0xf0], 99), None);
    }

    #[test]
    fn entries() {
        let mut found = Kernels::new();
        ptx(
            b"\0.visible .entry _Z1kPfS_mi(\n.param .u64 .ptr .align 1 p0,\n.param .u64 p1,\n\
              .param .align 8 .b8 p2[24], .param .u32 p3\n)\n{ }.entry none\n{ .entry point.",
            &mut found,
        );
        let of = |size, text| Parameter { size, text };
        let expected =
            vec![of(8, Some("void*")), of(8, None), of(24, None), of(4, Some("unsigned"))];
        assert_eq!(found["_Z1kPfS_mi"], Some(expected));
        assert_eq!(found["none"], Some(Vec::new()));
    }

    #[test]
    fn damaged_files() {
        // Every cut of a fat binary with a cubin that is none, and sizes that are too large.
        let mut file = FAT_BINARY.to_le_bytes().to_vec();
        file.extend([1, 0, 16, 0]);
        file.extend(80u64.to_le_bytes());
        file.extend([2, 0, 1, 1, 64, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0]);
        file.extend([0; 64]);
        assert_eq!(find(&file, &mut Kernels::new()), 1);
        for end in 0..file.len() {
            find(&file[..end], &mut Kernels::new());
        }
        for at in 0..file.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut file = file.clone();
                file[at] = value;
                find(&file, &mut Kernels::new());
            }
        }
    }
}
