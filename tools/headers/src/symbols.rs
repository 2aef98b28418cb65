//! `abi/symbols.txt`, the life of each exported function: its header, the first version of the ABI that has it, and, if it
//! is deprecated, the version since which it is and the function to call instead. `make header` adds new functions. From
//! it come the symbol versions (`abi/map.sh`), the conditions around the functions of later versions in the headers, and the reference.

use std::fmt::Write;

use crate::items::{Function, Items};

const HEAD: &str = "\
# The exported functions: header, first version of the ABI that has it, and, if it is deprecated: since, what to call
# instead. `make header` adds new ones.
";

pub struct Symbol {
    pub name: String,
    pub header: String,
    /// Major and minor version.
    pub since: (u64, u64),
    pub deprecated: Option<(String, String)>,
}

impl Symbol {
    pub fn is_unstable(&self) -> bool {
        self.header.starts_with(crate::headers::UNSTABLE)
    }
}

/// The rows of the file for the present functions, which `header` finds. A function that no row has is new. A core
/// function stays for ever, in its header: the rows that are no longer true otherwise.
pub fn current(
    file: &str,
    items: &Items,
    header: impl Fn(&Function) -> &'static str,
) -> Result<Vec<Symbol>, Vec<String>> {
    let now = (items.constant("CAI_ABI_MAJOR"), items.constant("CAI_ABI_MINOR"));
    let mut symbols: Vec<Symbol> = rows(file);
    let is_true = |row: &Symbol| {
        items.functions.iter().any(|item| item.name == row.name && header(item) == row.header)
    };
    let wrong: Vec<String> = symbols
        .iter()
        .filter(|row| !row.is_unstable() && !is_true(row))
        .map(|row| row.name.clone())
        .collect();
    if !wrong.is_empty() {
        return Err(wrong);
    }
    symbols.retain(is_true);
    for item in &items.functions {
        if !symbols.iter().any(|row| row.name == item.name) {
            let (name, header) = (item.name.clone(), header(item).to_owned());
            symbols.push(Symbol { name, header, since: now, deprecated: None });
        }
    }
    symbols.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(symbols)
}

fn rows(file: &str) -> Vec<Symbol> {
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    lines.map(row).collect()
}

fn row(line: &str) -> Symbol {
    let cells: Vec<&str> = line.split_whitespace().collect();
    let ([name, header, since] | [name, header, since, ..]) = cells[..] else {
        panic!("abi/symbols.txt: {line}")
    };
    let deprecated = match cells[3..] {
        [] => None,
        [since, instead] => Some((since.to_owned(), instead.to_owned())),
        _ => panic!("abi/symbols.txt: {line}"),
    };
    let (major, minor) = since.split_once('.').expect("a version has a minor one");
    let since = (major.parse().unwrap(), minor.parse().unwrap());
    Symbol { name: name.to_owned(), header: header.to_owned(), since, deprecated }
}

pub fn text(symbols: &[Symbol]) -> String {
    let mut text = String::from(HEAD);
    for Symbol { name, header, since: (major, minor), deprecated } in symbols {
        let (since, instead) = deprecated.as_ref().map_or(("", ""), |(a, b)| (a, b));
        let line = format!("{name:<40} {header:<17} {major}.{minor} {since} {instead}");
        writeln!(text, "{}", line.trim_end()).unwrap();
    }
    text
}

/// Declarations with what depends on the version of the ABI: those of later versions than the first are behind a
/// condition, and a deprecated one warns.
pub fn with_lives(text: &str, symbols: &[Symbol]) -> String {
    let paragraph = |paragraph: &str| {
        let is_it = |symbol: &&Symbol| {
            paragraph.contains("CAI_API") && paragraph.contains(&format!("{}(", symbol.name))
        };
        let Some(symbol) = symbols.iter().find(is_it) else { return paragraph.to_owned() };
        let mut paragraph = paragraph.to_owned();
        if let Some((since, instead)) = &symbol.deprecated {
            let at = paragraph.rfind("CAI_API").unwrap();
            let note = format!("///\n/// Deprecated since ABI {since}: use `{instead}`.\n");
            paragraph.insert_str(at, &format!("{note}CAI_DEPRECATED(\"use {instead}\") "));
        }
        let (major, minor) = symbol.since;
        if minor > 0 && !symbol.is_unstable() {
            let version = major << 16 | minor;
            paragraph = format!("#if CAI_TARGET_ABI >= {version:#x}\n{paragraph}\n#endif");
        }
        paragraph
    };
    text.split("\n\n").map(paragraph).collect::<Vec<_>>().join("\n\n")
}
