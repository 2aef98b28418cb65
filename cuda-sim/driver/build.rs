//! Sets the link arguments of `libcuda.so.1`, and generates its functions: those of
//! `cudasim_core::api`, and for all others a stub, which lets programs link and counts the call.

#[path = "../build/table.rs"]
mod table;

use std::collections::BTreeSet;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../build/table.rs");
    table::link_as_driver();

    let rows = table::rows("../entry_points.txt");
    let defined = table::defined("../core/src/api");
    let symbols: BTreeSet<&String> = rows.iter().map(|row| &row.2).collect();
    let mut text = String::new();
    for symbol in symbols {
        text += &match defined.get(symbol) {
            Some(function) => table::exported(symbol, function),
            None => format!(
                "#[unsafe(no_mangle)] pub extern \"C\" fn {symbol}() -> i32 {{\n    \
                 cudasim_core::ffi::missing(\"{symbol}\")\n}}\n"
            ),
        };
    }
    table::write("exports.rs", &text);
}
