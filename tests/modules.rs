//! The library's sources keep the rules of `common/modules.rs`.

#[path = "common/modules.rs"]
mod rules;

use std::collections::BTreeMap;
use std::path::Path;

/// Files that consist of one table of foreign functions or of constants.
const TABLES: [&str; 2] = ["python::capi", "abi::status"];

fn modules() -> BTreeMap<String, rules::Module> {
    rules::modules(&[(Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "")])
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
    expect_none(rules::wrong_order(&modules(), &[]));
}

#[test]
fn files_and_lines_are_short() {
    expect_none(rules::too_long(&modules(), &TABLES));
}

/// The folders that are clean.
const CLEAN: [&str; 9] = [
    "src",
    "include",
    "bench",
    "fuzz/fuzz_targets",
    "fuzz/src",
    "examples-c",
    "examples-py",
    "python",
    "interop",
];

#[test]
fn retired_words_and_questions_do_not_return() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in CLEAN {
        rules::files(&root.join(folder), &mut found);
    }
    expect_none(rules::retired_words(root, &found, &[]));
}
