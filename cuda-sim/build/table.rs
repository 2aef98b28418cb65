//! The driver's functions, for the build scripts: which there are, and which the sources define.

use std::collections::BTreeMap;
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

/// A function that the sources define: its module and arguments.
pub struct Defined {
    pub module: String,
    /// Names and types. Empty for a row of a table of similar functions.
    arguments: Vec<(String, String)>,
}

/// Returns the functions of the driver that the sources in a folder define. A definition is `fn
/// cuName(` or, with its twin of another default stream, `fn cuName / cuName_ptsz(`; tables have
/// `cuName,`.
pub fn defined(folder: &str) -> BTreeMap<String, Defined> {
    println!("cargo:rerun-if-changed={folder}");
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let source = fs::read_to_string(&path).unwrap();
        let mut at = 0;
        for line in source.split_inclusive('\n') {
            let rest = &source[at..];
            at += line.len();
            let rest = rest.trim_start().trim_start_matches("pub extern \"C\" ");
            let (names, arguments) = match rest.strip_prefix("fn ") {
                Some(rest) => {
                    let (names, rest) = rest.split_once('(').unwrap();
                    (names, rest.split(')').next().unwrap())
                }
                None => (line.trim_start().split(',').next().unwrap(), ""),
            };
            if !names.starts_with("cu") {
                continue;
            }
            let argument = |text: &str| {
                let (name, r#type) = text.split_once(':')?;
                Some((name.trim().to_owned(), r#type.trim().to_owned()))
            };
            let arguments: Vec<_> = arguments.split(',').filter_map(argument).collect();
            for name in names.split(" / ") {
                let defined = Defined { module: module.clone(), arguments: arguments.clone() };
                found.insert(name.to_owned(), defined);
            }
        }
    }
    found
}

/// Returns the definition of an exported function that calls the one of `cudasim_core::api`. The
/// types that its arguments point to are private there and not needed here.
pub fn exported(symbol: &str, function: &Defined) -> String {
    let path = format!("cudasim_core::api::{}", function.module);
    let (mut declared, mut passed) = (Vec::new(), Vec::new());
    for (name, r#type) in &function.arguments {
        let (r#type, cast) = match r#type.as_str() {
            text if text.starts_with("*mut ") => ("*mut std::ffi::c_void".to_owned(), ".cast()"),
            text if text.starts_with("*const ") => {
                ("*const std::ffi::c_void".to_owned(), ".cast()")
            }
            "u8" | "u16" | "u32" | "u64" | "i32" | "usize" => (r#type.clone(), ""),
            _ => (format!("{path}::{}", r#type), ""),
        };
        declared.push(format!("{name}: {}", r#type));
        passed.push(format!("{name}{cast}"));
    }
    let (declared, passed) = (declared.join(", "), passed.join(", "));
    format!(
        "#[unsafe(no_mangle)] pub extern \"C\" fn {symbol}({declared}) -> i32 {{\n    \
         {path}::{symbol}({passed})\n}}\n"
    )
}

/// Writes a generated file for `include!`.
pub fn write(name: &str, text: &str) {
    let folder = std::env::var("OUT_DIR").unwrap();
    fs::write(Path::new(&folder).join(name), text).unwrap();
}

/// Sets the name by which programs load the library, and that it stays loaded.
pub fn link_as_driver() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
