//! Two jobs, neither of which writes into the source tree:
//! the link arguments that cargo does not set by itself (SONAME, install name, no unloading), and
//! the table of statuses, made from `src/abi` so that number, name and text stand there alone.

use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/abi/core.rs");
    println!("cargo:rerun-if-changed=src/abi/status.rs");
    println!("cargo:rerun-if-changed=src/abi/version.rs");
    // cargo passes these arguments to every shared library that depends on this package.
    if env::var_os("CARGO_FEATURE_EXPORTS").is_some() {
        link_arguments();
    }
    status_table();
}

fn link_arguments() {
    let major = abi_major();
    match env::var("CARGO_CFG_TARGET_OS").unwrap().as_str() {
        "macos" => {
            println!("cargo:rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libcai.{major}.dylib")
        }
        "windows" => {}
        _ => {
            println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcai.so.{major}");
            // Owners outlive dlclose(): their operations must stay mapped.
            println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
        }
    }
}

fn abi_major() -> String {
    let text = fs::read_to_string("src/abi/version.rs").unwrap();
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix("pub const CAI_ABI_MAJOR: i32 = "))
        .expect("src/abi/version.rs states CAI_ABI_MAJOR");
    line.trim_end_matches(';').to_owned()
}

/// A status is a doc comment whose first paragraph is its text, and a constant below it.
fn status_table() {
    let source = ["src/abi/core.rs", "src/abi/status.rs"]
        .map(|file| fs::read_to_string(file).unwrap())
        .concat();
    let (mut rows, mut texts) = (String::new(), String::new());
    let mut text: Vec<&str> = Vec::new();
    let mut first_paragraph = true;
    for line in source.lines() {
        if let Some(doc) = line.strip_prefix("///") {
            first_paragraph &= !doc.trim().is_empty();
            if first_paragraph {
                text.push(doc.trim());
            }
        } else if let Some(rest) = line.strip_prefix("pub const ") {
            let name = rest.split(':').next().unwrap();
            if name != "CAI_OK" && !name.starts_with("CAI_ERR_") {
                text.clear();
                first_paragraph = true;
                continue;
            }
            let message = text.join(" ");
            assert!(!message.is_empty(), "{name} has no text");
            let position = texts.len();
            let behind = position + name.len() + 1;
            rows +=
                &format!("Status {{ code: abi::{name}, name: {position}, message: {behind} }},\n");
            texts += &format!("{name}\0{message}\0");
            text.clear();
            first_paragraph = true;
        } else {
            text.clear();
            first_paragraph = true;
        }
    }
    let out = Path::new(&env::var("OUT_DIR").unwrap()).join("statuses.rs");
    let made =
        format!("const STATUSES: &[Status] = &[\n{rows}];\nstatic TEXTS: &str = {texts:?};\n");
    fs::write(out, made).unwrap();
}
