//! The sources of all crates of the simulator keep the rules of `common/modules.rs` of the library's
//! tests.

#[path = "../../tests/common/modules.rs"]
mod rules;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

type Modules = BTreeMap<String, rules::Module>;

/// The folder of the simulator.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn core() -> Modules {
    rules::modules(&[(root().join("core/src"), "")])
}

/// The checker beside a real driver, without the modules of `cudasim_core` that it uses.
fn shadow() -> Modules {
    let crates = [(root().join("core/src"), "cudasim_core"), (root().join("shadow/src"), "")];
    let mut modules = rules::modules(&crates);
    modules.retain(|name, _| !name.starts_with("cudasim_core"));
    modules
}

fn other(name: &str) -> Modules {
    rules::modules(&[(root().join(name).join("src"), "")])
}

fn expect_none(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn heads_state_what_a_module_uses() {
    expect_none(rules::wrong_heads(&core()));
    expect_none(rules::wrong_heads(&shadow()));
}

#[test]
fn imports_form_no_circle() {
    expect_none(rules::circles(&core()));
    expect_none(rules::circles(&shadow()));
}

#[test]
fn lib_declares_modules_in_the_order_of_their_imports() {
    expect_none(rules::wrong_order(&core(), &[]));
    expect_none(rules::wrong_order(&shadow(), &[]));
}

#[test]
fn the_preloaded_redirection_keeps_the_rules() {
    let modules = other("redirect");
    expect_none(rules::wrong_heads(&modules));
    expect_none(rules::circles(&modules));
    expect_none(rules::wrong_order(&modules, &[]));
    expect_none(rules::too_long(&modules, &[]));
}

#[test]
fn files_and_lines_are_short() {
    for crates in [core(), shadow(), other("driver"), other("cli")] {
        expect_none(rules::too_long(&crates, &["results", "checker"]));
    }
}

/// Words that are retired here besides those of all sources.
const RETIRED: [&str; 5] = ["stands in for", "handed out", "verdict", "verdicts", "watched"];
/// Tables, which may be long.
const TABLES: [&str; 5] =
    ["driver_functions.h", "layout_check.c", "results.rs", "errors.h", "entry_points.txt"];

/// All texts of the simulator that people write, and its pages of the book.
fn texts() -> Vec<PathBuf> {
    let root = root();
    let mut paths = Vec::new();
    rules::files(root, &mut paths);
    paths.retain(|path| {
        let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
        // This file has the words themselves.
        ["rs", "c", "h", "py", "md"].contains(&end) && !path.ends_with("tests/modules.rs")
    });
    paths.sort();
    paths
}

#[test]
fn texts_use_standard_terms() {
    expect_none(rules::retired_words(root(), &texts(), &RETIRED));
}

#[test]
fn other_files_and_lines_are_short() {
    let mut wrong = Vec::new();
    for path in texts() {
        let text = std::fs::read_to_string(&path).unwrap();
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
