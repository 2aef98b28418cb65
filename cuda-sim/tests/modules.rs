//! The sources of the simulator and of the checker beside a real driver keep the rules of
//! `common/modules.rs` of the library's tests.

#[path = "../../tests/common/modules.rs"]
mod rules;

use std::collections::BTreeMap;
use std::path::Path;

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
