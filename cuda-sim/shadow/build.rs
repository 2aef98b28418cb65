//! Sets the link arguments, and generates the exported functions that `src/` does not define: those
//! in `followed.txt` call the functions of `../src/api`, which notify the checker; all others jump
//! into the real driver.

#[path = "../build/table.rs"]
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=followed.txt");
    println!("cargo:rerun-if-changed=../build/table.rs");
    println!("cargo:rustc-cfg=passthrough");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");

    let rows = table::rows("../entry_points.txt");
    let (own, api) = (table::defined("src"), table::defined("../src/api"));
    let text = fs::read_to_string("followed.txt").unwrap();
    let mut followed = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (module, names) = line.split_once(": ").expect("module: names");
        for name in names.split(' ') {
            let twins = ["", "_ptsz", "_ptds"].map(|twin| format!("{name}{twin}"));
            let known: Vec<_> = twins.into_iter().filter(|name| api.contains(name)).collect();
            assert!(!known.is_empty(), "followed.txt: nothing defines {name}");
            followed.extend(known.into_iter().map(|name| (name, module)));
        }
    }
    if let Some(twice) = followed.keys().find(|name| own.contains(*name)) {
        panic!("{twice} is in followed.txt and in src/");
    }

    let symbols: BTreeSet<&String> = rows.iter().map(|row| &row.2).collect();
    let (mut stubs, mut slots) =
        (String::new(), String::from("pub const NAMES: &[&std::ffi::CStr] = &[\n"));
    for symbol in &symbols {
        slots += &format!("c\"{symbol}\",\n");
    }
    slots += "];\n#[allow(non_upper_case_globals)]\npub mod slot {\n";
    for (at, symbol) in symbols.iter().enumerate() {
        slots += &format!("pub const {symbol}: usize = {at};\n");
        if own.contains(*symbol) {
            continue;
        }
        let body = match followed.get(*symbol) {
            Some(module) => format!("crate::passthrough::real::jump!(super::{module}::{symbol})"),
            None => format!("crate::passthrough::real::jump!({at})"),
        };
        stubs += &format!(
            "#[unsafe(naked)] #[unsafe(no_mangle)] pub extern \"C\" fn {symbol}() {{ {body} }}\n"
        );
    }
    slots += "}\n";
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    fs::write(out.join("stubs.rs"), stubs).unwrap();
    fs::write(out.join("slots.rs"), slots).unwrap();
    table::write_entries(
        &rows,
        |symbol| own.contains(symbol) || followed.contains_key(symbol),
        &out,
    );
}
