//! Sets the link arguments, and generates the exported functions that `src/` does not define: those
//! in `followed.txt` call the functions of `cudasim_core::api`, which notify the checker; all others
//! jump into the real driver.

#[path = "../build/table.rs"]
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=followed.txt");
    println!("cargo:rerun-if-changed=../build/table.rs");
    table::link_as_driver();

    let rows = table::rows("../entry_points.txt");
    let (own, api) = (table::defined("src"), table::defined("../core/src/api"));
    let text = fs::read_to_string("followed.txt").unwrap();
    let mut followed = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (module, names) = line.split_once(": ").expect("module: names");
        for name in names.split(' ') {
            let twins = ["", "_ptsz", "_ptds"].map(|twin| format!("{name}{twin}"));
            let known = twins.iter().filter_map(|name| api.get_key_value(name));
            let known: Vec<_> = known.filter(|(_, function)| function.module == module).collect();
            assert!(!known.is_empty(), "followed.txt: {module} does not define {name}");
            followed.extend(known);
        }
    }
    if let Some(twice) = followed.keys().find(|name| own.contains_key(**name)) {
        panic!("{twice} is in followed.txt and in src/");
    }

    let symbols: BTreeSet<&String> = rows.iter().map(|row| &row.2).collect();
    let mut text = String::new();
    for (at, symbol) in symbols.iter().enumerate() {
        if own.contains_key(*symbol) {
            continue;
        }
        text += &match followed.get(symbol) {
            Some(function) => table::exported(symbol, function),
            None => format!(
                "#[unsafe(naked)] #[unsafe(no_mangle)] pub extern \"C\" fn {symbol}() {{\n    \
                 crate::real::jump!({at})\n}}\n"
            ),
        };
    }
    let is_followed =
        |symbol: &&&String| own.contains_key(**symbol) || followed.contains_key(**symbol);
    let names: Vec<&&String> = symbols.iter().filter(is_followed).collect();
    text += &format!(
        "/// The functions that are followed, sorted.\npub const FOLLOWED: &[&str] = &{names:?};\n"
    );
    table::write("exports.rs", &text);
}
