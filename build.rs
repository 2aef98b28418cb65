//! Four jobs, none of which writes into the source tree:
//! the link arguments that cargo does not set by itself (SONAME, install name, no unloading),
//! the table of statuses, made from `src/abi` so that number, name and text stand there alone,
//! the statuses that each function returns, made from its manual in `src/ffi`, and
//! the tables of element types and devices, made from `src/abi/dtypes.txt` and `devices.txt`.

#[path = "src/abi/tables.rs"]
#[allow(dead_code)] // the rest is for the headers
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use tables::{Kind, constants, devices, dtypes, order};

const TABLES: &str = "src/abi";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for file in ["core.rs", "devices.txt", "dtypes.txt", "status.rs", "tables.rs", "version.rs"] {
        println!("cargo:rerun-if-changed=src/abi/{file}");
    }
    println!("cargo:rerun-if-changed=src/ffi");
    println!("cargo:rerun-if-changed=src/validate/mod.rs");
    // cargo passes these arguments to every shared library that depends on this package.
    if env::var_os("CARGO_FEATURE_EXPORTS").is_some() {
        link_arguments();
    }
    status_table();
    write("returns.rs", &returns());
    for file in ["devices.rs", "dtypes.rs"] {
        write(file, &constants(Path::new(TABLES), file));
    }
    write("dtype_table.rs", &dtype_table());
    write("device_table.rs", &device_table());
}

fn write(file: &str, text: &str) {
    fs::write(Path::new(&env::var("OUT_DIR").unwrap()).join(file), text).unwrap();
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

/// A status is a doc comment whose first paragraph is its text, and a constant below it. A last
/// paragraph "In Python: TypeError." names an exception that is not that of its hundred.
fn status_table() {
    let source = ["src/abi/core.rs", "src/abi/status.rs"]
        .map(|file| fs::read_to_string(file).unwrap())
        .concat();
    let (mut rows, mut texts, mut exceptions) = (String::new(), String::new(), String::new());
    let mut text: Vec<&str> = Vec::new();
    let mut exception = None;
    let mut first_paragraph = true;
    for line in source.lines() {
        if let Some(doc) = line.strip_prefix("///") {
            exception = doc.trim().strip_prefix("In Python: ").or(exception);
            first_paragraph &= !doc.trim().is_empty();
            if first_paragraph {
                text.push(doc.trim());
            }
        } else if let Some(rest) = line.strip_prefix("pub const ") {
            let name = rest.split(':').next().unwrap();
            if name != "CAI_OK" && !name.starts_with("CAI_ERR_") {
                (text, exception, first_paragraph) = (Vec::new(), None, true);
                continue;
            }
            let message = text.join(" ");
            assert!(!message.is_empty(), "{name} has no text");
            let position = texts.len();
            let behind = position + name.len() + 1;
            rows +=
                &format!("Status {{ code: abi::{name}, name: {position}, message: {behind} }},\n");
            texts += &format!("{name}\0{message}\0");
            if let Some(exception) = exception.take() {
                let class = exception.strip_suffix("Error.").expect("a class of exceptions");
                exceptions += &format!("(abi::{name}, Exception::{class}),\n");
            }
            text.clear();
            first_paragraph = true;
        } else {
            (text, exception, first_paragraph) = (Vec::new(), None, true);
        }
    }
    let made =
        format!("const STATUSES: &[Status] = &[\n{rows}];\nstatic TEXTS: &str = {texts:?};\n");
    write("statuses.rs", &made);
    let made = format!("const EXCEPTIONS: &[(cai_status, Exception)] = &[\n{exceptions}];\n");
    write("exceptions.rs", &made);
}

/// The statuses that each function returns, for `src/ffi/returns.rs`: those between backquotes in the
/// paragraph of its manual that begins with "Returns", and those of the functions there. A name that
/// ends in `_` stands for all that begin with it. Those after "other than" are left out.
fn returns() -> String {
    let order = order(Path::new("."));
    // What other functions return that validate an array: only the manual of that one adds more.
    let (mut layout, mut is_layout) = (vec!["CAI_ERR_NO_MEMORY"], true);
    for entry in &order {
        is_layout = !entry.starts_with("with ") && (is_layout || entry.starts_with("for "));
        layout.extend(is_layout.then_some(entry.as_str()));
    }
    let mut lists = BTreeMap::new();
    let files = ["src/ffi", "src/ffi/unstable"].map(|folder| fs::read_dir(folder).unwrap());
    let files = files.into_iter().flatten().map(|file| file.unwrap().path());
    for file in files.filter(|path| path.is_file()) {
        let source = fs::read_to_string(file).unwrap();
        // Neither a manual nor the head of its function has an empty line.
        for item in source.split("\n\n") {
            let Some((manual, function)) = item.split_once("fn ") else { continue };
            let (name, _) = function.split_once('(').unwrap_or_default();
            let has_status = function.split(" {").next().unwrap().ends_with("-> cai_status");
            let is_list = |text: &&str| text.starts_with('`') || text.starts_with("a status of");
            let list = manual.split("/// Returns ").find(is_list).map(|text| {
                let lines = text.lines().map(|line| line.trim_start_matches(['/', ' ']));
                let is_end = |line: &&str| line.is_empty() || line.starts_with("Thread safety");
                let text = lines.take_while(|line| !is_end(line)).collect::<Vec<_>>().join(" ");
                text.replace("{rules}", &format!("`{}`", order.join("` `")))
                    .replace("cai_array_validate", &layout.join("` `"))
            });
            if manual.contains("no_mangle") && name != "cai_error_set" {
                assert_eq!(list.is_some(), has_status, "{name}: a list of statuses");
            } else if list.is_none() {
                continue;
            }
            lists.insert(name.to_owned(), list.unwrap_or_default());
        }
    }
    let core = fs::read_to_string("src/abi/core.rs").unwrap();
    let all = core + &fs::read_to_string("src/abi/status.rs").unwrap();
    let all = all.lines().filter_map(|line| line.strip_prefix("pub const ")?.split(':').next());
    let all: Vec<&str> = all.filter(|name| name.starts_with("CAI_ERR_")).collect();
    let rows = lists.keys().map(|name| {
        let mut found = BTreeSet::new();
        expand(name, &lists, &all, &mut found);
        let found: Vec<String> = found.iter().map(|name| format!("abi::{name}")).collect();
        format!("({name:?}, &[{}]),\n", found.join(", "))
    });
    let rows: String = rows.collect();
    format!("const RETURNS: &[(&str, &[cai_status])] = &[\n{rows}];\n")
}

/// Adds the statuses of a function's list.
fn expand<'a>(
    name: &str,
    lists: &BTreeMap<String, String>,
    all: &[&'a str],
    found: &mut BTreeSet<&'a str>,
) {
    let quoted = |text| str::split(text, '`').skip(1).step_by(2);
    let list = &lists[name];
    let (list, except) = list.split_at(list.find(" other than `").unwrap_or(list.len()));
    for word in quoted(list) {
        if lists.contains_key(word) {
            expand(word, lists, all, found);
        } else if word.starts_with("CAI_ERR_") {
            let is_it =
                |name: &&&str| **name == word || word.ends_with('_') && name.starts_with(word);
            let before = all.iter().filter(is_it).map(|name| found.insert(name)).count();
            assert!(before > 0, "{name}: no status {word}");
        } else if word == "from_object" {
            // Whatever the function of another library returned.
            found.insert("CAI_STATUS_THIRD_PARTY");
        }
    }
    quoted(except).for_each(|name| _ = found.remove(name));
}

/// The kinds and the types for `src/dtype/table.rs`.
fn dtype_table() -> String {
    let (kinds, types) = dtypes(Path::new(TABLES));
    let mut text = String::from(
        "/// Returns what is known of a kind.\n\
         pub const fn kind(letter: u8) -> Option<Kind> {\n    Some(match letter {\n",
    );
    for kind in &kinds {
        let class = kind.class[..1].to_uppercase() + &kind.class[1..];
        let (sizes, expected) = sizes(kind);
        writeln!(
            text,
            "b'{}' => Kind {{ class: Class::{class}, sizes: {sizes}, expected: {expected:?} }},",
            kind.letter
        )
        .unwrap();
    }
    let letters: Vec<String> = kinds.iter().map(|kind| kind.letter.to_string()).collect();
    let count = types.len();
    write!(
        text,
        "_ => return None }})\n}}\n/// The letters of all kinds, for messages.\n\
         pub const KINDS: &str = {:?};\n/// All types of the table.\n\
         pub static TYPES: [Type; {count}] = [\n",
        letters.join(" ")
    )
    .unwrap();
    for one in &types {
        let arrow = match one.arrow.as_str() {
            "" => "None".to_owned(),
            format => format!("Some(c{format:?})"),
        };
        writeln!(
            text,
            "Type {{ name: {:?}, code: {}, kind: b'{}', size: {}, alignment: {}, dlpack: {:?}, \
             arrow: {arrow} }},",
            one.name, one.code, one.kind, one.size, one.alignment, one.dlpack
        )
        .unwrap();
    }
    text += "];\n/// Returns the type with a code other than `CAI_DTYPE_NONE`.\n\
             pub fn of_code(code: u16) -> Option<&'static Type> {\n    Some(match code {\n";
    for (index, one) in types.iter().enumerate().filter(|(_, one)| one.code != 0) {
        writeln!(text, "{} => &TYPES[{index}],", one.code).unwrap();
    }
    text + "_ => return None })\n}\n"
}

/// The sizes of a kind, and how a message lists them.
fn sizes(kind: &Kind) -> (String, String) {
    let numbers: Vec<u32> = match kind.sizes.as_str() {
        "any" => return ("Sizes::Any".to_owned(), "a number of bytes".to_owned()),
        "characters" => {
            return ("Sizes::Characters".to_owned(), "a number of characters".to_owned());
        }
        "bits" => return ("Sizes::Bits".to_owned(), "a number of bits, at least 1".to_owned()),
        list => list.split(',').map(|size| size.parse().expect("a size is a number")).collect(),
    };
    let set = numbers.iter().fold(0u64, |set, size| set | 1 << size);
    let [first @ .., last] = numbers.as_slice() else { unreachable!() };
    let first = first.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let list = if first.is_empty() { last.to_string() } else { format!("{first} or {last}") };
    let unit = if list == "1" { "byte" } else { "bytes" };
    // The size of a Python object may be missing.
    let or = if kind.class == "object" { ", or no size" } else { "" };
    (format!("Sizes::Bytes({set:#x})"), format!("{list} {unit}{or}"))
}

/// The names of device types and their sets for `src/device.rs`.
fn device_table() -> String {
    let devices = devices(Path::new(TABLES));
    let last = devices.last().unwrap().number;
    let mut names = vec![""; usize::from(last) + 1];
    let (mut cuda, mut hip, mut addresses, mut handles, mut host) = (0u32, 0u32, 0u32, 0u32, 0u32);
    for one in &devices {
        let bit = 1 << one.number;
        names[usize::from(one.number)] = &one.name;
        for (set, is_in) in [
            (&mut cuda, one.streams == "cuda"),
            (&mut hip, one.streams == "hip"),
            (&mut addresses, one.data == "address"),
            (&mut handles, one.data == "handle"),
            (&mut host, one.is_host),
        ] {
            *set |= if is_in { bit } else { 0 };
        }
    }
    let count = names.len();
    format!(
        "/// The last device type.\npub(crate) const LAST: i32 = {last};\n\
         /// Types whose work is enqueued on CUDA's streams.\nconst CUDA: u32 = {cuda:#x};\n\
         /// Types whose work is enqueued on HIP's streams.\nconst HIP: u32 = {hip:#x};\n\
         /// Types whose data certainly has an address.\nconst ADDRESSES: u32 = {addresses:#x};\n\
         /// Types whose data is behind a handle.\nconst HANDLES: u32 = {handles:#x};\n\
         /// Types whose data the host can read.\nconst HOST: u32 = {host:#x};\n\
         const NAMES: [&str; {count}] = {names:?};\n"
    )
}
