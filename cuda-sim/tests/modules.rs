//! The sources of the simulator and of the checker beside a real driver keep the rules of
//! `common/modules.rs` of the library's tests.

#[path = "../../tests/common/modules.rs"]
mod rules;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn modules() -> BTreeMap<String, rules::Module> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Built with `--cfg passthrough`, the second folder is the module `passthrough`.
    rules::modules(&[(root.join("src"), ""), (root.join("shadow/src"), "passthrough")])
}

fn expect_none(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn heads_state_what_a_module_uses() {
    expect_none(rules::wrong_heads(&modules()));
}

#[test]
fn imports_form_no_circle() {
    expect_none(rules::circles(&modules()));
}

#[test]
fn lib_declares_modules_in_the_order_of_their_imports() {
    // `passthrough` is the lowest and the highest layer of its build: the real driver, and functions
    // that use those of `api`.
    expect_none(rules::wrong_order(
        &modules(),
        &["passthrough", "api::macros", "api::annotations"],
    ));
}

#[test]
fn files_and_lines_are_short() {
    expect_none(rules::too_long(&modules(), &["results"]));
}

/// Words that `docs` and comments no longer use: each has a standard term.
const RETIRED: [&str; 19] = [
    "whoever",
    "somebody",
    "nobody",
    "stand-in",
    "stands in for",
    "let go",
    "lets go",
    "handed on",
    "handed out",
    "keeper",
    "tombstone",
    "border",
    "verdict",
    "wishes",
    "ways in",
    "watched",
    "not told",
    "is told",
    "what it says",
];
/// Tables, which may be long.
const TABLES: [&str; 5] =
    ["driver_functions.h", "layout_check.c", "results.rs", "errors.h", "entry_points.txt"];

/// All texts of the simulator that people write, and its pages of the book.
fn texts() -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                walk(&path, found);
            } else if [".rs", ".c", ".h", ".py", ".md"].iter().any(|end| name.ends_with(end)) {
                found.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    walk(root, &mut paths);
    let pages = ["simulator.md", "race_checker.md", "driver_rules.md"];
    paths.extend(pages.map(|page| root.join("../docs/src").join(page)));
    // This file has the words themselves.
    paths.retain(|path| !path.ends_with("tests/modules.rs"));
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// Whether a text has a word that is not the beginning or the end of another.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let is_letter = |c: Option<char>| c.is_some_and(char::is_alphabetic);
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !is_letter(before.chars().next_back()) && !is_letter(after.chars().next())
    })
}

#[test]
fn texts_use_standard_terms() {
    let mut wrong = Vec::new();
    for (path, text) in texts() {
        for (number, line) in text.lines().enumerate() {
            let lower = line.to_lowercase();
            let place = || format!("{}:{}", path.display(), number + 1);
            for word in RETIRED.iter().filter(|word| has_word(&lower, word)) {
                wrong.push(format!("{}: \"{word}\": {line}", place()));
            }
            let comment = line.trim_start();
            let is_doc = comment.starts_with("///") || comment.starts_with("//!");
            if is_doc && comment.ends_with('?') {
                wrong.push(format!("{}: a question: {line}", place()));
            }
        }
    }
    expect_none(wrong);
}

#[test]
fn other_files_and_lines_are_short() {
    let mut wrong = Vec::new();
    for (path, text) in texts() {
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.ends_with(".md") || name.ends_with(".rs") {
            continue;
        }
        let lines = text.lines().count();
        if lines > 600 && !TABLES.contains(&name) {
            wrong.push(format!("{}: {lines} lines", path.display()));
        }
        for (number, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > 100 {
                wrong.push(format!("{}:{}: {columns} characters", path.display(), number + 1));
            }
        }
    }
    expect_none(wrong);
}
