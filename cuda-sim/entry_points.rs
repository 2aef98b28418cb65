//! The table of the driver's functions, `entry_points.txt`, for the build scripts.
//!
//! A row has the name, the version since which it has this form, and the symbol; behind that, if it
//! has a twin of another default stream, the suffix of that and its version. Functions that
//! the simulator, the checker beside a real driver or the runtime library has also state, once for
//! each symbol: the module of `core/src/api`, or `-`; what the checker does, `follows`, `own` or
//! `passes`; the functions of the runtime library that only call it, those of one major version with
//! its number in front; and the types of the arguments, as that declares them in C.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A row: name, version since which it has this form, symbol.
pub type Row = (String, u32, String);

#[derive(Clone, Default)]
pub struct Function {
    /// The module of `cudasim_core::api` that defines it, if it is simulated.
    pub module: Option<String>,
    pub checker: Checker,
    arguments: Vec<String>,
}

/// Treatment of a function by the checker beside a real driver.
#[derive(Clone, Copy, Default, PartialEq)]
pub enum Checker {
    /// Jumps into the real driver.
    #[default]
    Passes,
    /// Calls the function of `cudasim_core::api`, which calls the real driver, then reports.
    Follows,
    /// Has a function of its own in `shadow/src`.
    Own,
}

/// Returns the rows, and the functions by their symbols.
pub fn read() -> (Vec<Row>, BTreeMap<String, Function>) {
    const PATH: &str = "../entry_points.txt";
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../entry_points.rs");
    println!("cargo:rerun-if-changed={PATH}");
    let text = fs::read_to_string(PATH).unwrap();
    let (mut rows, mut functions) = (Vec::new(), BTreeMap::<String, Function>::new());
    let mut twins = Vec::new();
    let version = |text: &str| text.parse().expect("a version");
    for line in text.lines() {
        let (words, arguments) = line.split_once(" (").unwrap_or((line, ")"));
        let words: Vec<&str> = words.split(' ').collect();
        let [name, since, symbol, columns @ ..] = &words[..] else {
            panic!("entry_points.txt: expected name, version, symbol, found {line}")
        };
        let (symbol, twin) = symbol.split_once('/').unwrap_or((symbol, ""));
        rows.push(((*name).to_owned(), version(since), symbol.to_owned()));
        if let Some((suffix, since)) = twin.split_once(':') {
            let twin = format!("{symbol}_{suffix}");
            rows.push(((*name).to_owned(), version(since), twin.clone()));
            twins.push((twin, symbol.to_owned()));
        }
        let function = functions.entry(symbol.to_owned()).or_default();
        let [module, checker, ..] = columns else { continue };
        let arguments = arguments.strip_suffix(')').expect("arguments in parentheses").split(", ");
        *function = Function {
            module: (*module != "-").then(|| (*module).to_owned()),
            checker: match *checker {
                "passes" => Checker::Passes,
                "follows" => Checker::Follows,
                "own" => Checker::Own,
                other => panic!("entry_points.txt: expected follows, own or passes, found {other}"),
            },
            arguments: arguments.filter(|r#type| !r#type.is_empty()).map(str::to_owned).collect(),
        };
    }
    for (twin, base) in twins {
        functions.insert(twin, functions[&base].clone());
    }
    (rows, functions)
}

/// Returns the Rust type that is passed as a type of C. The types that pointers point to are private
/// to `cudasim_core::api`, and not needed here.
fn rust_type(r#type: &str) -> &str {
    match r#type {
        "unsigned char" => "u8",
        "unsigned short" => "u16",
        "unsigned" => "u32",
        "unsigned long long" => "u64",
        "int" | "CUdevice" => "i32",
        "size_t" => "usize",
        "struct ipc_handle" => "cudasim_core::api::ipc::IpcHandle",
        // Two numbers of 32 bits.
        "struct memory_location" => "u64",
        "host_function" | "driver_callback" => "*mut std::ffi::c_void",
        pointer if pointer.ends_with('*') => "*mut std::ffi::c_void",
        handle if handle.starts_with("CU") => "u64",
        other => panic!("entry_points.txt: unknown type {other}"),
    }
}

impl Function {
    /// Returns the definition of an exported function that calls the one of `cudasim_core::api`. It
    /// compiles only if that has the arguments that the table states.
    pub fn exported(&self, symbol: &str) -> String {
        let module = self.module.as_ref().expect("a simulated function");
        let (mut declared, mut passed) = (String::new(), String::new());
        for (at, r#type) in self.arguments.iter().enumerate() {
            let r#type = rust_type(r#type);
            declared += &format!("a{at}: {type}, ");
            passed += &format!("a{at}{}, ", if r#type.starts_with('*') { " as _" } else { "" });
        }
        format!(
            "#[unsafe(no_mangle)] pub extern \"C\" fn {symbol}({declared}) -> i32 {{\n    \
             cudasim_core::api::{module}::{symbol}({passed})\n}}\n"
        )
    }
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
