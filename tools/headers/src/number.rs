//! The number of the C++ headers, which names their inline namespace. It is made from their code and that of the core C
//! headers, which their inline functions and members depend on: comments and spaces do not change it, and no change of
//! a layout or of a body leaves it as it was.

use std::fs;
use std::path::Path;

/// The text before each number.
const PLACES: [&str; 2] = ["#define CAI_PRIVATE_HPP 0x", "#if CAI_PRIVATE_HPP != 0x"];
const DIGITS: usize = 8;

/// Paths of the C++ headers and their texts with the number in its places. `headers` are the C headers.
pub fn all(root: &Path, headers: &[(&str, String)]) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> =
        ["include/cai", "include/cai/unstable", "contrib/include/cai"]
            .iter()
            .flat_map(|folder| fs::read_dir(root.join(folder)).into_iter().flatten())
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "hpp"))
            .map(|path| {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                (name, with_number(&fs::read_to_string(&path).unwrap(), 0))
            })
            .collect();
    all.sort();
    let core = headers.iter().filter(|(name, _)| !name.starts_with(crate::headers::UNSTABLE));
    let texts = all.iter().map(|(_, text)| text).chain(core.map(|(_, text)| text));
    // FNV-1a.
    let number = texts
        .flat_map(|text| code(text).into_bytes())
        .fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    all.into_iter().map(|(name, text)| (name, with_number(&text, number))).collect()
}

fn with_number(text: &str, number: u32) -> String {
    let mut text = text.to_owned();
    for place in PLACES {
        if let Some(found) = text.find(place) {
            let start = found + place.len();
            text.replace_range(start..start + DIGITS, &format!("{number:08x}"));
        }
    }
    text
}

/// The text without comments and, outside of strings, without spaces.
fn code(text: &str) -> String {
    let (mut code, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").expect("a comment ends") + 2
        } else {
            let length = if first == '"' { string(rest) } else { first.len_utf8() };
            if !first.is_whitespace() {
                code += &rest[..length];
            }
            length
        };
        rest = &rest[length..];
    }
    code
}

/// The length of a string literal with both of its quotes. A quote as a character is none.
fn string(text: &str) -> usize {
    let mut escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let ends = (byte == b'"' && !escaped) || byte == b'\n';
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 2)
}
