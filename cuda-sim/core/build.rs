//! Generates the table of the driver's functions: which there are, and which `src/api/` defines.

#[path = "../build/table.rs"]
#[allow(dead_code)]
mod table;

use std::collections::BTreeSet;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../build/table.rs");
    let rows = table::rows("../entry_points.txt");
    let defined = table::defined("src/api");

    let mut text = String::from("pub const ENTRIES: &[Entry] = &[\n");
    for (name, version, symbol) in &rows {
        let simulated = defined.contains_key(symbol);
        text += &format!("    ({name:?}, {version}, {symbol:?}, {simulated}),\n");
    }
    text += "];\n/// All symbols, sorted.\npub const NAMES: &[&CStr] = &[\n";
    let symbols: BTreeSet<&String> = rows.iter().map(|row| &row.2).collect();
    for symbol in &symbols {
        text += &format!("    c\"{symbol}\",\n");
    }
    text += "];\n/// The index of each symbol in `NAMES`.\n#[allow(non_upper_case_globals)]\n";
    text += "pub mod index {\n";
    for (at, symbol) in symbols.iter().enumerate() {
        text += &format!("    pub const {symbol}: usize = {at};\n");
    }
    text += "}\n";
    table::write("functions.rs", &text);
}
