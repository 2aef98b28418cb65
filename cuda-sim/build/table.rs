//! The table of the driver's functions, for the build scripts.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A function: name, version since which it has this form, symbol.
pub type Row = (String, u32, String);

pub fn rows(path: &str) -> Vec<Row> {
    println!("cargo:rerun-if-changed={path}");
    let row = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        let mut word = || words.next().expect("name, version, symbol");
        (word(), word().parse().expect("a version"), word())
    };
    fs::read_to_string(path).unwrap().lines().map(row).collect()
}

/// Returns the functions of the driver that the sources in a folder define. A definition is `fn
/// cuName(` or, with its twin of another default stream, `fn cuName / cuName_ptsz(`; tables have
/// `cuName / cuName_ptsz,`.
pub fn defined(folder: &str) -> BTreeSet<String> {
    println!("cargo:rerun-if-changed={folder}");
    let mut defined = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let source = fs::read_to_string(entry.unwrap().path()).unwrap();
        for line in source.lines().map(str::trim_start) {
            let line = line.trim_start_matches("pub extern \"C\" ");
            let names = match line.strip_prefix("fn ") {
                Some(rest) => rest.split('(').next().unwrap(),
                // A row of a table of similar functions.
                None => line.split(',').next().unwrap(),
            };
            if names.starts_with("cu") {
                defined.extend(names.split(" / ").map(str::to_owned));
            }
        }
    }
    defined
}

/// Writes `entries.rs`: the rows, and whether each function is present.
pub fn write_entries(rows: &[Row], present: impl Fn(&str) -> bool, out: &Path) {
    let mut entries = String::from("&[\n");
    for (name, version, symbol) in rows {
        entries += &format!("    ({name:?}, {version}, {symbol:?}, {}),\n", present(symbol));
    }
    entries += "]\n";
    fs::write(out.join("entries.rs"), entries).unwrap();
}
