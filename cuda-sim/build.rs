//! Two jobs: the link arguments of `libcuda.so.1`, and a stub for every function of the driver that
//! `src/api/` does not define, so that programs link and load, and are told what is missing.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=entry_points.txt");
    println!("cargo:rerun-if-changed=src/api");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");

    let table = fs::read_to_string("entry_points.txt").unwrap();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(' ').collect()).collect();
    let mut defined = BTreeSet::new();
    for entry in fs::read_dir("src/api").unwrap() {
        let source = fs::read_to_string(entry.unwrap().path()).unwrap();
        // A definition is `fn cuName(` or, with its twin of another default stream, `fn cuName / cuName_ptsz(`;
        // tables have `cuName / cuName_ptsz,`.
        for line in source.lines().map(str::trim_start) {
            let line = line.trim_start_matches("pub extern \"C\" ");
            let names = match line.strip_prefix("fn ") {
                Some(rest) => rest.split('(').next().unwrap(),
                // A row of a table of functions that are made alike.
                None => line.split(',').next().unwrap(),
            };
            if names.starts_with("cu") {
                defined.extend(names.split(" / ").map(str::to_owned));
            }
        }
    }

    let mut stubs = String::new();
    let mut seen = BTreeSet::new();
    for row in &rows {
        let symbol = row[2];
        if !defined.contains(symbol) && seen.insert(symbol) {
            stubs += &format!(
                "#[unsafe(no_mangle)] pub extern \"C\" fn {symbol}() -> i32 {{ crate::border::missing(\"{symbol}\") }}\n"
            );
        }
    }
    let mut entries = String::from("&[\n");
    for row in &rows {
        let (name, version, symbol) = (row[0], row[1], row[2]);
        let present = defined.contains(symbol);
        entries += &format!("    ({name:?}, {version}, {symbol:?}, {present}),\n");
    }
    entries += "]\n";
    let out = env::var("OUT_DIR").unwrap();
    fs::write(Path::new(&out).join("stubs.rs"), stubs).unwrap();
    fs::write(Path::new(&out).join("entries.rs"), entries).unwrap();
}
