//! A line of the file: the name of a kernel and its parameters.

use super::expression;
use super::{Kernel, Kind, Pointer, UNKNOWN, Value};
use crate::access::{READ, WRITE};

/// Types with their sizes and alignments; `i` marks signed integers, `u` unsigned ones.
const TYPES: &[(&str, usize, usize, char)] = &[
    ("bool", 1, 1, 'u'),
    ("signed char", 1, 1, 'i'),
    ("unsigned char", 1, 1, 'u'),
    ("char", 1, 1, 'i'),
    ("short", 2, 2, 'i'),
    ("unsigned short", 2, 2, 'u'),
    ("int", 4, 4, 'i'),
    ("unsigned", 4, 4, 'u'),
    ("unsigned int", 4, 4, 'u'),
    ("long", 8, 8, 'i'),
    ("unsigned long", 8, 8, 'u'),
    ("long long", 8, 8, 'i'),
    ("unsigned long long", 8, 8, 'u'),
    ("int8_t", 1, 1, 'i'),
    ("uint8_t", 1, 1, 'u'),
    ("int16_t", 2, 2, 'i'),
    ("uint16_t", 2, 2, 'u'),
    ("int32_t", 4, 4, 'i'),
    ("uint32_t", 4, 4, 'u'),
    ("int64_t", 8, 8, 'i'),
    ("uint64_t", 8, 8, 'u'),
    ("size_t", 8, 8, 'u'),
    ("ptrdiff_t", 8, 8, 'i'),
    ("float", 4, 4, 'f'),
    ("double", 8, 8, 'f'),
    ("half", 2, 2, 'f'),
    ("__half", 2, 2, 'f'),
    ("__half2", 4, 4, 'f'),
    ("__nv_bfloat16", 2, 2, 'f'),
    ("__nv_bfloat162", 4, 4, 'f'),
    ("dim3", 12, 4, 'f'),
    ("cudaTextureObject_t", 8, 8, 'u'),
];

/// Vector types: the name of an element, and its size.
const VECTORS: &[(&str, usize)] = &[
    ("char", 1),
    ("uchar", 1),
    ("short", 2),
    ("ushort", 2),
    ("int", 4),
    ("uint", 4),
    ("long", 8),
    ("ulong", 8),
    ("longlong", 8),
    ("ulonglong", 8),
    ("float", 4),
    ("double", 8),
];

/// Returns the size, the alignment and the kind of a type, if it is known.
pub fn type_of(name: &str) -> Option<(usize, usize, char)> {
    let plain = name.strip_suffix(" int").filter(|_| name != "unsigned int").unwrap_or(name);
    if let Some((_, size, align, kind)) = TYPES.iter().find(|row| row.0 == plain) {
        return Some((*size, *align, *kind));
    }
    let count = name.bytes().next_back().filter(|byte| (b'1'..=b'4').contains(byte))?;
    let element = VECTORS.iter().find(|row| row.0 == &name[..name.len() - 1])?.1;
    let count = usize::from(count - b'0');
    let align = if count == 3 { element } else { (element * count).min(16) };
    Some((element * count, align, 'f'))
}

/// Words of a type that do not change what is accessed.
fn is_qualifier(word: &str) -> bool {
    matches!(
        word,
        "volatile"
            | "struct"
            | "enum"
            | "restrict"
            | "__restrict__"
            | "__restrict"
            | "__grid_constant__"
    )
}

/// Returns whether a word is part of the name of a type that has several words.
fn is_keyword(word: &str) -> bool {
    matches!(word, "unsigned" | "signed" | "long" | "short" | "int" | "char" | "const" | "double")
        || type_of(word).is_some()
}

/// A parameter before the expressions in it are parsed: they may name later ones.
struct Raw<'a> {
    name: Option<&'a str>,
    /// The text in the brackets after a pointer, and the text after `=`.
    extent: Option<&'a str>,
    fill: Option<&'a str>,
    kind: char,
    /// For pointers: the mode, the size of an element, and its type.
    pointer: Option<(u32, usize, String)>,
    argument: usize,
    at: usize,
    size: usize,
}

/// Parses a line without its comment.
pub fn kernel(number: usize, line: &str) -> Result<(String, Kernel), String> {
    let (head, rest) = line.split_once('(').ok_or("expected NAME(PARAMETERS)")?;
    let name = head.split_whitespace().next_back().ok_or("expected the name of a kernel")?;
    let rest = rest.trim_end().trim_end_matches(';').trim_end();
    let close = rest.rfind(')').ok_or("expected ) at the end")?;
    if !rest[close + 1..].is_empty() {
        return Err(format!("found {} after the parameters", rest[close + 1..].trim()));
    }
    let (mut raw, mut sizes) = (Vec::new(), Vec::new());
    let list = rest[..close].trim();
    if !list.is_empty() && list != "void" {
        for text in split(list, ',') {
            let (size, _) = parameter(text.trim(), sizes.len(), 0, &mut raw)?;
            sizes.push(size);
        }
    }
    let values = raw.iter().map(|one| value(one, &raw)).collect::<Result<_, _>>()?;
    Ok((name.to_owned(), Kernel { line: number, sizes, values }))
}

/// Splits a text where a sign is in no brackets.
fn split(text: &str, sign: char) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0usize, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            _ if c == sign && depth == 0 => {
                parts.push(&text[start..at]);
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Parses a parameter, or a member at an offset of one. Adds what it contains. Returns its size and
/// its alignment.
fn parameter<'a>(
    text: &'a str,
    argument: usize,
    at: usize,
    out: &mut Vec<Raw<'a>>,
) -> Result<(usize, usize), String> {
    if let Some(rest) = text.strip_prefix('{') {
        let close = rest.rfind('}').ok_or("expected }")?;
        let (mut end, mut largest) = (0usize, 1);
        for member in split(&rest[..close], ',') {
            // The alignment is known only after the member was parsed once.
            let (_, align) = parameter(member.trim(), argument, 0, &mut Vec::new())?;
            end = end.next_multiple_of(align);
            largest = largest.max(align);
            end += parameter(member.trim(), argument, at + end, out)?.0;
        }
        return Ok((end.next_multiple_of(largest), largest));
    }
    let (text, fill) =
        text.split_once('=').map_or((text, None), |(text, fill)| (text.trim(), Some(fill.trim())));
    if let Some(rest) = text.strip_prefix("byte[") {
        let close = rest.find(']').ok_or("expected ]")?;
        let size = rest[..close].trim().parse().ok().filter(|size| (1..=1 << 16).contains(size));
        let size: usize = size.ok_or_else(|| {
            format!("found byte[{}], expected a number of bytes, 1 to 65536", &rest[..close])
        })?;
        return Ok((size, size.next_power_of_two().min(8)));
    }
    let (text, extent) = match text.split_once('[') {
        None => (text, None),
        Some((text, rest)) => {
            let extent = rest.trim_end().strip_suffix(']').ok_or("expected ]")?;
            (text, Some(extent))
        }
    };
    let (words, name) = words(text)?;
    let stars = words.iter().filter(|word| **word == "*").count();
    let base: Vec<&str> =
        words.iter().copied().filter(|word| !matches!(*word, "*" | "const")).collect();
    let base = base.join(" ");
    if base.is_empty() {
        return Err("expected a parameter".to_owned());
    }
    // As in C, brackets without a star make a pointer, too.
    let pointer = (stars > 0 || extent.is_some()).then(|| {
        let last = words.iter().rposition(|word| *word == "*").unwrap_or(words.len());
        let before = words[..last].iter().rposition(|word| *word == "*").map_or(0, |at| at + 1);
        let mode = if words[before..last].contains(&"const") { READ } else { READ | WRITE };
        let element = match (stars, type_of(&base)) {
            (2.., _) => 8,
            _ if matches!(&*base, "void" | "byte") => 1,
            (_, found) => found.map_or(0, |found| found.0),
        };
        (mode, element, base.clone())
    });
    let (size, align, kind) = match &pointer {
        Some(_) => (8, 8, 'p'),
        None => type_of(&base)
            .ok_or_else(|| format!("the size of {base} is not known: write byte[SIZE]"))?,
    };
    out.push(Raw { name, extent, fill, kind, pointer, argument, at, size });
    Ok((size, align))
}

/// Splits a type and a name into words and stars. Returns them and the name, if there is one.
fn words(text: &str) -> Result<(Vec<&str>, Option<&str>), String> {
    let (mut found, mut rest) = (Vec::new(), text.trim());
    while let Some(first) = rest.chars().next() {
        let mut depth = 0;
        let end = rest.char_indices().find(|(_, c)| match c {
            '<' => {
                depth += 1;
                false
            }
            '>' => {
                depth -= 1;
                false
            }
            _ => depth == 0 && (c.is_whitespace() || matches!(c, '*' | '&')),
        });
        let length = end.map_or(rest.len(), |(at, _)| at).max(usize::from(first == '*'));
        if length == 0 || rest[..length].starts_with(['(', '{', ')', '}']) {
            return Err(format!("found {first} in a type"));
        }
        found.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    found.retain(|word| !is_qualifier(word));
    let types = found.iter().filter(|word| !matches!(**word, "*" | "const")).count();
    let is_name = |word: &&str| types > 1 && *word != "*" && !is_keyword(word);
    let name = found.last().copied().filter(|word| is_name(word));
    if name.is_some() {
        found.pop();
    }
    Ok((found, name))
}

fn value(raw: &Raw, all: &[Raw]) -> Result<Value, String> {
    let find = |name: &str| all.iter().position(|one| one.name == Some(name));
    let same = |name: &str| all.iter().filter(|one| one.name == Some(name)).count();
    if let Some(name) = raw.name.filter(|name| same(name) > 1) {
        return Err(format!("two parameters have the name {name}"));
    }
    let kind = match &raw.pointer {
        None => match raw.kind {
            'i' => Kind::Signed,
            'u' => Kind::Unsigned,
            _ => Kind::Other,
        },
        Some((mode, element, base)) => {
            let variable = |name: &str| match find(name) {
                None => Ok(None),
                Some(index) if matches!(all[index].kind, 'i' | 'u') => Ok(Some(index)),
                Some(_) => Err(format!("{name} is no integer")),
            };
            let extent = match raw.extent {
                None => None,
                Some(_) if *element == 0 => {
                    return Err(format!(
                        "the size of {base} is not known: use char*, and bytes in the brackets"
                    ));
                }
                Some(text) => Some(match text.split_once(':') {
                    None => (None, expression::parse(text, &variable)?),
                    Some((first, count)) => (
                        Some(expression::parse(first, &variable)?),
                        expression::parse(count, &variable)?,
                    ),
                }),
            };
            let fill = match raw.fill {
                None => Some(UNKNOWN),
                Some("same") => None,
                Some(byte) => Some(
                    byte.parse()
                        .map_err(|_| format!("found {byte}, expected 0 to 255, or same"))?,
                ),
            };
            Kind::Pointer(Pointer { mode: *mode, element: *element as u64, extent, fill })
        }
    };
    let written = matches!(&kind, Kind::Pointer(pointer) if pointer.mode & WRITE != 0);
    if raw.fill.is_some() && !written {
        let name = raw.name.unwrap_or("a parameter");
        return Err(format!("{name} is no pointer that is written through"));
    }
    Ok(Value { argument: raw.argument, at: raw.at, size: raw.size, kind })
}
