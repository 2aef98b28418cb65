//! Sets the link arguments of `libcuda.so.1`, and generates a stub for every function of the driver
//! that `src/api/` does not define. The stub lets programs link and counts the call.

#[path = "build/table.rs"]
mod table;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build/table.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");

    let rows = table::rows("entry_points.txt");
    let defined = table::defined("src/api");
    let mut stubs = String::new();
    let mut seen = BTreeSet::new();
    for (_, _, symbol) in &rows {
        if !defined.contains(symbol) && seen.insert(symbol) {
            stubs += &format!(
                "#[unsafe(no_mangle)] pub extern \"C\" fn {symbol}() -> i32 {{ crate::ffi::missing(\"{symbol}\") }}\n"
            );
        }
    }
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    fs::write(out.join("stubs.rs"), stubs).unwrap();
    table::write_entries(&rows, |symbol| defined.contains(symbol), &out);
}
