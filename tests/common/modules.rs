//! The rules for modules, checked against the sources of a crate. Every function returns what is
//! wrong, one line each.
//!
//! - The head of a file states what the module may use (`May use: a, b.`) and whether it has `unsafe`
//!   code (`Unsafe: why.` or `Unsafe: none.`). Both must match the code exactly.
//! - Imports form no circle between files. Between the modules that `lib.rs` declares, they go only
//!   to modules that are declared earlier.
//! - A file has at most 600 lines, and a line at most 100 characters.
//! - Texts use standard terms, and doc comments are statements.
//!
//! Tests inside the sources are exempt.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

pub const MAX_LINES: usize = 600;
pub const MAX_COLUMNS: usize = 100;
/// The statements must be on the first screen.
const FIRST_SCREEN: usize = 30;

/// One file of sources.
pub struct Module {
    /// `python::import::dict`; the crate's root has no name.
    pub name: String,
    pub text: String,
    /// The modules that it imports from.
    pub imports: BTreeSet<String>,
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn module_name(root: &Path, prefix: &str, path: &Path) -> String {
    let relative = path.strip_prefix(root).unwrap().with_extension("");
    let mut parts = vec![prefix.to_owned()];
    parts.retain(|part| !part.is_empty());
    parts.extend(relative.iter().map(|part| part.to_str().unwrap().to_owned()));
    if parts.last().is_some_and(|last| last == "mod" || last == "lib") {
        parts.pop();
    }
    parts.join("::")
}

/// The code without comments, texts and tests.
fn code(text: &str) -> String {
    let mut out = String::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with('"') {
            at += 1;
            while at < bytes.len() && bytes[at] != b'"' {
                at += if bytes[at] == b'\\' { 2 } else { 1 };
            }
            at += 1;
            out.push_str("\"\"");
        } else if let Some(character) = rest.strip_prefix('\'') {
            // A character; else it is a lifetime.
            let length = character.chars().next().map_or(0, char::len_utf8);
            if character.starts_with('\\') {
                at += 3 + rest[3..].find('\'').unwrap();
                out.push_str("' '");
            } else if character[length..].starts_with('\'') {
                at += 2 + length;
                out.push_str("' '");
            } else {
                at += 1;
            }
        } else {
            let character = rest.chars().next().unwrap();
            out.push(character);
            at += character.len_utf8();
        }
    }
    let tests = out.find("#[cfg(test)]\nmod ").or(out.find("#[cfg(all(test, loom))]\nmod "));
    out.truncate(tests.unwrap_or(out.len()));
    out
}

fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let length = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

/// The paths of a path or a use tree at `tokens[at]`, each beginning with `before`.
fn paths(tokens: &[&str], at: &mut usize, before: &[String], found: &mut Vec<Vec<String>>) {
    let mut path = before.to_vec();
    loop {
        let token = tokens.get(*at).copied().unwrap_or_default();
        if token == "{" {
            *at += 1;
            while tokens[*at] != "}" {
                paths(tokens, at, &path, found);
                if tokens[*at] == "as" {
                    *at += 2;
                }
                if tokens[*at] == "," {
                    *at += 1;
                }
            }
            *at += 1;
            return;
        }
        if token != "self" {
            path.push(token.to_owned());
        }
        *at += 1;
        if tokens.get(*at) != Some(&"::") {
            found.push(path);
            return;
        }
        *at += 1;
    }
}

/// The modules that a module imports from. `names`: all there are. `crates`: those of them that are
/// other crates.
fn imports(
    name: &str,
    is_folder: bool,
    code: &str,
    names: &BTreeSet<String>,
    crates: &[&str],
) -> BTreeSet<String> {
    let tokens = tokens(code);
    let own_crate = name.split("::").next().filter(|first| crates.contains(first));
    let mut own: Vec<String> = name.split("::").map(str::to_owned).collect();
    own.retain(|part| !part.is_empty());
    let children: BTreeSet<&str> =
        tokens.windows(3).filter(|w| w[0] == "mod" && w[2] == ";").map(|w| w[1]).collect();
    let mut imports = BTreeSet::new();
    for start in 0..tokens.len() {
        let is_path =
            tokens.get(start + 1) == Some(&"::") && (start == 0 || tokens[start - 1] != "::");
        if !is_path {
            continue;
        }
        let base: Vec<String> = match tokens[start] {
            "crate" => own_crate.map(str::to_owned).into_iter().collect(),
            other if crates.contains(&other) => vec![other.to_owned()],
            "super" => own[..own.len().saturating_sub(1)].to_vec(),
            "self" => own.clone(),
            child if is_folder && children.contains(child) => {
                let mut base = own.clone();
                base.push(child.to_owned());
                base
            }
            _ => continue,
        };
        let mut found = Vec::new();
        paths(&tokens, &mut (start + 2), &base, &mut found);
        for path in found {
            // The longest beginning that is a module.
            let module = (1..=path.len())
                .rev()
                .map(|length| path[..length].join("::"))
                .find(|path| names.contains(path));
            if let Some(module) = module.filter(|module| module != name) {
                imports.insert(module);
            }
        }
    }
    imports
}

/// The modules of crates: each folder of sources with the crate that it is, "" for the one whose
/// rules are checked.
pub fn modules(roots: &[(PathBuf, &str)]) -> BTreeMap<String, Module> {
    let files: Vec<(String, PathBuf)> = roots
        .iter()
        .flat_map(|(root, prefix)| {
            let name = |file: PathBuf| (module_name(root, prefix, &file), file);
            sources(root).into_iter().map(name).collect::<Vec<_>>()
        })
        .collect();
    let names: BTreeSet<String> = files.iter().map(|(name, _)| name.clone()).collect();
    let crates: Vec<&str> =
        roots.iter().map(|(_, name)| *name).filter(|name| !name.is_empty()).collect();
    let modules = files.iter().map(|(name, file)| {
        let text = fs::read_to_string(file).unwrap();
        let is_folder = file.ends_with("mod.rs") || file.ends_with("lib.rs");
        let imports = imports(name, is_folder, &code(&text), &names, &crates);
        (name.clone(), Module { name: name.clone(), text, imports })
    });
    modules.collect()
}

/// The text of the head that begins a file.
fn head(text: &str) -> String {
    let lines = text.lines().take(FIRST_SCREEN).take_while(|line| line.starts_with("//!"));
    lines.map(|line| line[3..].trim()).collect::<Vec<_>>().join(" ")
}

/// What follows a label in a head, up to the end of the sentence.
fn statement<'a>(head: &'a str, label: &str) -> Option<&'a str> {
    let start = head.find(label)? + label.len();
    let rest = &head[start..];
    Some(rest[..rest.find(". ").unwrap_or(rest.len())].trim().trim_end_matches('.'))
}

/// Heads that do not state what the module uses.
pub fn wrong_heads(modules: &BTreeMap<String, Module>) -> Vec<String> {
    let mut wrong = Vec::new();
    for module in modules.values().filter(|module| !module.name.is_empty()) {
        let list: Vec<String> = module.imports.iter().map(|name| format!("`{name}`")).collect();
        let list = if list.is_empty() { "nothing".to_owned() } else { list.join(", ") };
        let head = head(&module.text);
        let stated = statement(&head, "May use:").unwrap_or("no statement");
        if stated != list {
            wrong.push(format!("{}: May use: {list}. (stated: {stated})", module.name));
        }
        let code = code(&module.text);
        let is_unsafe = tokens(&code).contains(&"unsafe");
        let stated = statement(&head, "Unsafe:");
        if stated.is_none_or(|stated| (stated != "none") != is_unsafe) {
            let has = if is_unsafe { "has unsafe code" } else { "has no unsafe code" };
            wrong.push(format!("{}: Unsafe: {has} (stated: {stated:?})", module.name));
        }
    }
    wrong
}

/// Modules in circles of imports.
pub fn circles(modules: &BTreeMap<String, Module>) -> Vec<String> {
    let mut done = BTreeSet::new();
    // A module is done when all that it imports is done.
    while let Some(next) = modules
        .values()
        .find(|module| !done.contains(&module.name) && module.imports.is_subset(&done))
    {
        done.insert(next.name.clone());
    }
    // What nothing else imports is not in the circle itself.
    let mut left: BTreeMap<&str, BTreeSet<&String>> = modules
        .values()
        .filter(|module| !done.contains(&module.name))
        .map(|module| (module.name.as_str(), module.imports.difference(&done).collect()))
        .collect();
    let is_imported = |left: &BTreeMap<&str, BTreeSet<&String>>, name: &str| {
        left.values().any(|imports| imports.iter().any(|import| *import == name))
    };
    while let Some(name) = left.keys().copied().find(|name| !is_imported(&left, name)) {
        left.remove(name);
    }
    let text = |(name, imports): (&str, BTreeSet<&String>)| format!("{name} -> {imports:?}");
    left.into_iter().map(text).collect()
}

/// Imports from modules that `lib.rs` declares later. `exempt`: modules that may have them.
pub fn wrong_order(modules: &BTreeMap<String, Module>, exempt: &[&str]) -> Vec<String> {
    let lib = code(&modules[""].text);
    let tokens = tokens(&lib);
    let order: Vec<&str> =
        tokens.windows(3).filter(|w| w[0] == "mod" && w[2] == ";").map(|w| w[1]).collect();
    // `None` for another crate.
    let place = |name: &str| {
        let first = name.split("::").next().unwrap();
        order.iter().position(|module| *module == first)
    };
    let mut wrong = Vec::new();
    for module in modules.values() {
        if module.name.is_empty() || exempt.iter().any(|name| module.name.starts_with(name)) {
            continue;
        }
        for import in &module.imports {
            if place(import) > place(&module.name) {
                wrong.push(format!(
                    "{} imports from {import}, which is declared later",
                    module.name
                ));
            }
        }
    }
    wrong
}

/// Files and lines that are too long. `tables`: files of which one table is the contents.
pub fn too_long(modules: &BTreeMap<String, Module>, tables: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    for module in modules.values() {
        let lines = module.text.lines().count();
        if lines > MAX_LINES && !tables.contains(&module.name.as_str()) {
            wrong.push(format!("{}: {lines} lines, at most {MAX_LINES}", module.name));
        }
        for (number, line) in module.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > MAX_COLUMNS {
                wrong.push(format!("{}:{}: {columns} characters", module.name, number + 1));
            }
        }
    }
    wrong
}

/// Words with a standard term instead, as whole words: `language` of the style in CONTRIBUTING.md.
const RETIRED: [&str; 28] = [
    "whoever",
    "lets go",
    "let go",
    "lets it go",
    "letting go",
    "handed on",
    "keeper",
    "keepers",
    "tombstone",
    "whereabouts",
    "way in",
    "ways in",
    "way out",
    "ways out",
    "told",
    "tells",
    "stand-in",
    "stand-ins",
    "somebody",
    "nobody",
    "everybody",
    "anybody",
    "by contract",
    "border",
    "room",
    "rooms",
    "wishes",
    "the long way",
];

/// All files in a folder and the folders in it.
pub fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// The position of a phrase in a text in lower case, as whole words.
fn find_words(text: &str, phrase: &str) -> Option<usize> {
    let is_word = |c: char| c.is_alphanumeric();
    let mut from = 0;
    while let Some(at) = text[from..].find(phrase).map(|at| at + from) {
        let before = text[..at].chars().next_back().is_some_and(is_word);
        let after = text[at + phrase.len()..].chars().next().is_some_and(is_word);
        if !before && !after {
            return Some(at);
        }
        from = at + phrase.len();
    }
    None
}

/// Retired words, and doc comments that are questions, in texts. `more`: other retired words.
pub fn retired_words(root: &Path, paths: &[PathBuf], more: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    for path in paths {
        let Ok(text) = fs::read_to_string(path) else { continue };
        let name = path.strip_prefix(root).unwrap_or(path).display();
        for (number, line) in text.lines().enumerate() {
            let (place, lower) = (format!("{name}:{}", number + 1), line.to_lowercase());
            let words = RETIRED.iter().chain(more);
            for word in words.filter(|word| find_words(&lower, word).is_some()) {
                wrong.push(format!("{place}: \"{word}\": {line}"));
            }
            let is_doc =
                ["///", "//!", "* "].iter().any(|mark| line.trim_start().starts_with(mark));
            if is_doc && line.trim_end().ends_with('?') {
                wrong.push(format!("{place}: a question: {line}"));
            }
        }
    }
    wrong
}

#[test]
fn imports_are_found_in_every_form() {
    let names = ["a", "a::b", "a::b::c", "d", "e"].map(str::to_owned).into();
    let found = |name, is_folder, text: &str| -> Vec<String> {
        imports(name, is_folder, &code(text), &names, &["e"]).into_iter().collect()
    };
    assert_eq!(
        found("d", false, "use crate::a::{self, b::{c, x as y}, Z};"),
        ["a", "a::b", "a::b::c"]
    );
    assert_eq!(found("a::b", true, "mod c; pub use c::*; use super::Y;"), ["a", "a::b::c"]);
    assert_eq!(found("d", false, "let x = e::f(crate::a::b::G);"), ["a::b", "e"]);
    assert_eq!(found("e", false, "let x = e::f(crate::a::b::G);"), [""; 0]);
    assert_eq!(
        found("d", false, "// crate::e::f\nlet x = (\"crate::a::b\", 'c', '\\'', &'a T);"),
        [""; 0]
    );
    assert_eq!(
        found("d", false, "pub(crate) use std::e::x; #[cfg(test)]\nmod tests { use crate::a; }"),
        [""; 0]
    );
}
