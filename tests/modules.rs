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

/// The crate for Rust programs, in `rust/`.
fn crate_modules() -> BTreeMap<String, rules::Module> {
    rules::modules(&[(Path::new(env!("CARGO_MANIFEST_DIR")).join("rust/src"), "")])
}

fn expect_none(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn heads_state_what_a_module_uses() {
    expect_none(rules::wrong_heads(&modules()));
    expect_none(rules::wrong_heads(&crate_modules()));
}

#[test]
fn imports_form_no_circle() {
    expect_none(rules::circles(&modules()));
    expect_none(rules::circles(&crate_modules()));
}

#[test]
fn lib_declares_modules_in_the_order_of_their_imports() {
    expect_none(rules::wrong_order(&modules(), &[]));
    expect_none(rules::wrong_order(&crate_modules(), &[]));
}

#[test]
fn files_and_lines_are_short() {
    expect_none(rules::too_long(&modules(), &TABLES));
    expect_none(rules::too_long(&crate_modules(), &[]));
}

/// Every file with prose or code, but for this test's own words and what tools generate.
const CLEAN: [&str; 24] = [
    "CHANGELOG.md",
    "CMakeLists.txt",
    "CONTRIBUTING.md",
    "Makefile",
    "README.md",
    "abi",
    "bench",
    "capi-tests",
    "cmake",
    "docs",
    "examples-c",
    "examples-py",
    "examples-rs",
    "fuzz/fuzz_targets",
    "fuzz/src",
    "include",
    "interop",
    "python",
    "rust/README.md",
    "rust/examples",
    "rust/src",
    "rust/tests",
    "src",
    "tests/python",
];

#[test]
fn retired_words_and_questions_do_not_return() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for name in CLEAN {
        let path = root.join(name);
        if path.is_dir() { rules::files(&path, &mut found) } else { found.push(path) }
    }
    expect_none(rules::retired_words(root, &found, &[]));
}

/// The oldest Rust that is supported (`rust-version`) has no chains of `if` and `let`. The compiler
/// accepts them in edition 2024 whatever that version is, and `make test-targets` is not run for each
/// change.
#[test]
fn conditions_need_no_newer_rust() {
    let mut wrong = Vec::new();
    for (name, module) in modules().into_iter().chain(crate_modules()) {
        for (index, line) in module.text.lines().enumerate() {
            if line.trim_start().starts_with("&& let ") || line.contains(" && let ") {
                wrong.push(format!("{name}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    expect_none(wrong);
}

/// Programs in Rust depend on this library without its exports, which only a feature can switch off.
#[test]
fn functions_are_exported_with_the_feature_only() {
    let mut wrong = Vec::new();
    for (name, module) in modules() {
        for (index, line) in module.text.lines().enumerate() {
            let export = "#[cfg_attr(feature = \"exports\", unsafe(no_mangle))]";
            let names = line.contains("no_mangle") || line.contains("export_name");
            if names && !line.trim_start().starts_with("//") && line != export {
                wrong.push(format!("{name}:{}: write {export}", index + 1));
            }
        }
    }
    expect_none(wrong);
}

/// The headers of C++ are written by hand, and so follow the rule for sources.
#[test]
fn headers_are_short() {
    let mut found = Vec::new();
    rules::files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("include/cai"), &mut found);
    found.retain(|path| path.extension().is_some_and(|extension| extension == "hpp"));
    assert!(found.len() > 4);
    let mut wrong = Vec::new();
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        if text.lines().count() > rules::MAX_LINES {
            wrong.push(format!("{}: more than {} lines", path.display(), rules::MAX_LINES));
        }
        for (index, line) in text.lines().enumerate() {
            if line.chars().count() > rules::MAX_COLUMNS {
                wrong.push(format!("{}:{}: a long line", path.display(), index + 1));
            }
        }
    }
    expect_none(wrong);
}
