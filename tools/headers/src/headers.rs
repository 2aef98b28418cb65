//! The C headers, as cbindgen writes them: `src/abi/headers/NAME.toml` is the configuration of `cai/NAME.h`, with its
//! prose. What all headers have in common stands here.

use std::fs;
use std::path::Path;

use cbindgen::{Builder, Config, DocumentationStyle, Language, Style};

use crate::items::{self, FOREIGN, Function, Items};
use crate::symbols::{self, Symbol};
use crate::{tables, type_table};

/// The headers, in the order of `cai.h`, and the files in `src` whose items each declares: types first. Those in
/// `unstable/` are not part of `cai.h`.
const HEADERS: [(&str, &[&str]); 20] = [
    ("abi", &["abi/core"]),
    ("status", &["abi/version", "abi/status", "ffi/library"]),
    ("array", &["abi/array", "ffi/validate", "ffi/array", "ffi/owner", "ffi/layout"]),
    ("dtype", &["abi/dtype", "ffi/dtype"]),
    ("sync", &["abi/sync", "ffi/sync"]),
    ("driver", &["abi/driver", "ffi/driver"]),
    ("dlpack", &["abi/dlpack", "ffi/dlpack"]),
    ("python", &["abi/python", "ffi/python"]),
    ("unstable/arrow", &["abi/unstable/arrow", "ffi/unstable/arrow"]),
    ("unstable/capture", &["abi/unstable/capture"]),
    ("unstable/copy", &["ffi/unstable/copy"]),
    ("unstable/dlpack", &["abi/unstable/dlpack"]),
    ("unstable/exchange", &["abi/unstable/exchange", "ffi/unstable/exchange"]),
    ("unstable/ipc", &["abi/unstable/ipc", "ffi/unstable/ipc", "ffi/unstable/channel"]),
    ("unstable/json", &["ffi/unstable/json"]),
    ("unstable/many", &["ffi/unstable/many"]),
    ("unstable/release", &["ffi/unstable/release"]),
    ("unstable/slice", &["ffi/unstable/slice"]),
    ("unstable/version4", &["abi/unstable/version4"]),
    ("unstable/view", &["ffi/unstable/view"]),
];

/// The headers that a minor release may change.
pub fn unstable() -> impl Iterator<Item = &'static str> {
    HEADERS.iter().map(|(name, _)| *name).filter(|name| name.starts_with(UNSTABLE))
}

/// Folder of the headers that a minor release may change.
pub const UNSTABLE: &str = "unstable/";

/// The line above an exported function.
pub const EXPORT: &str = "#[cfg_attr(feature = \"exports\", unsafe(no_mangle))]";

/// The header that declares an exported function.
pub fn of_function(function: &Function) -> &'static str {
    let declares = |files: &[&str]| files.contains(&function.module.as_str());
    let found = HEADERS.iter().find(|(_, files)| declares(files));
    found.unwrap_or_else(|| panic!("no header declares {}", function.name)).0
}

/// The names of all headers and their texts.
pub fn all(root: &Path, items: &Items, symbols: &[Symbol]) -> Vec<(&'static str, String)> {
    let version = items.constant("CAI_ABI_MAJOR") << 16 | items.constant("CAI_ABI_MINOR");
    let mut all = Vec::from(HEADERS.map(|(name, files)| {
        (name, symbols::with_lives(&render(root, name, files, version), symbols))
    }));
    all.push(("type_table", type_table::text(root)));
    all
}

/// The text of a header. `version` is that of the ABI, as `cai_abi_version` returns it.
fn render(root: &Path, name: &str, files: &[&str], version: u64) -> String {
    let file = root.join(format!("src/abi/headers/{name}.toml"));
    let own = Config::from_file(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let mut own = own;
    if let Some(text) = &mut own.after_includes {
        *text = text.replace("@kinds@", &type_table::kinds(root));
    }
    let mut prose = own.header.clone().expect("a header has prose");
    if name.starts_with(UNSTABLE) {
        prose = prose.trim_start().replacen("\n\n", &format!("\n\n{NOTE}\n"), 1);
    }
    let guard = format!("CAI_{}_H", name.replace('/', "_").to_uppercase());
    let first = match name {
        "abi" => format!(
            "\n/// Version of this file. If several copies meet in one translation unit, the first one counts.\n\
             #define CAI_ABI_H_VERSION {version:#x}\n"
        ),
        "status" => include("abi.h", name, version),
        _ if name.starts_with(UNSTABLE) => include("../status.h", name, version),
        _ => include("status.h", name, version),
    };
    let (types, functions): (Vec<&str>, Vec<&str>) =
        files.iter().partition(|file| file.starts_with("abi/"));
    let mut items = Items::default();
    for file in &types {
        items.read_types(&root.join(format!("src/{file}.rs")));
    }
    let declared: Vec<String> =
        items.structs.iter().map(|item| format!("typedef struct {0} {0};\n", item.name)).collect();

    let mut config = Config {
        header: Some(format!("{}#ifndef {guard}\n#define {guard}\n{first}", comment(&prose))),
        after_includes: Some(format!(
            "{}\n#if defined(__cplusplus)\nextern \"C\" {{\n#endif\n\n{}",
            own.after_includes.as_deref().unwrap_or_default(),
            declared.concat()
        )),
        trailer: None,
        ..common(own.clone())
    };
    let names = items.structs.iter().map(|item| &item.name);
    config.export.include =
        names.chain(items.aliases.iter().map(|item| &item.name)).cloned().collect();
    let text = run(root, &types, config);

    // In a second run, which knows no types: it then writes all of them without `struct`.
    let config = Config {
        header: None,
        sys_includes: Vec::new(),
        after_includes: None,
        trailer: Some(format!(
            "{}#if defined(__cplusplus)\n}}\n#endif\n\n#endif /* {guard} */",
            own.trailer.as_deref().unwrap_or_default()
        )),
        ..common(own)
    };
    let mut text = text + "\n" + &run(root, &functions, config);
    while text.contains("\n\n\n") {
        text = text.replace("\n\n\n", "\n\n");
    }
    text
}

/// The first lines of a header that a minor release may change.
const NOTE: &str = "\
Unstable: a minor release may change or remove what this header declares; the change log says so.
It has not run on a GPU yet, and nobody outside this repository uses it: both are needed before its
names become part of the stable interface, without `unstable`.
";

fn include(file: &str, name: &str, version: u64) -> String {
    format!(
        "\n#include \"{file}\"\n#if CAI_ABI_H_VERSION < {version:#x}\n#error \"an older copy of cai/abi.h was \
         included before cai/{name}.h: include the newest one first\"\n#endif\n"
    )
}

pub fn comment(prose: &str) -> String {
    let lines = prose.trim().lines().chain([
        "",
        // In two parts: the licence is that of the header, and no statement about this file.
        concat!("SPDX-License-", "Identifier: MIT OR Apache-2.0"),
        "Generated from the sources of libcai: do not edit.",
    ]);
    let lines: Vec<String> =
        lines.map(|line| format!(" * {line}").trim_end().to_owned() + "\n").collect();
    format!("/*\n{} */\n", lines.concat())
}

fn common(mut config: Config) -> Config {
    config.language = Language::C;
    // A structure's `typedef` stands before all structures, which point to each other.
    config.style = Style::Tag;
    config.documentation_style = DocumentationStyle::Cxx;
    config.line_length = 100;
    config.tab_width = 4;
    config.no_includes = true;
    config.usize_is_size_t = true;
    config.function.prefix = Some("CAI_API".to_owned());
    for name in FOREIGN {
        config.export.rename.insert(name.to_owned(), format!("struct {name}"));
    }
    config
}

/// Replaces the marker `{rules}` in a comment by the statuses of the rules, which stand in `src/validate`, and breaks the
/// lines of its paragraph again.
fn with_rules(root: &Path, text: &str) -> String {
    const MARKER: &str = "{rules}";
    let Some(position) = text.find(MARKER) else { return text.to_owned() };
    let is_end = |line: &str| matches!(line, "///" | "") || line.starts_with("/// Thread safety");
    let start =
        text[..position].rfind("\n///\n").expect("a paragraph of its own") + "\n///\n".len();
    let lines = text[start..].lines().take_while(|line| !is_end(line));
    let length: usize = lines.clone().map(|line| line.len() + 1).sum();
    let paragraph: Vec<&str> = lines.map(|line| line.trim_start_matches("/// ")).collect();
    let paragraph = paragraph.join(" ").replace(MARKER, &rules(root));
    let mut broken = String::new();
    let mut column = usize::MAX;
    for word in paragraph.split(' ') {
        if column.saturating_add(word.len()) >= 100 {
            broken += "\n///";
            column = "///".len();
        }
        broken += &format!(" {word}");
        column += 1 + word.len();
    }
    format!("{}{}\n{}", &text[..start], broken.trim_start(), &text[start + length..])
}

/// The list of rules, in words.
fn rules(root: &Path) -> String {
    let mut text = String::new();
    let mut is_first = true;
    for entry in &tables::order(root) {
        let begins = entry.starts_with("with ") || entry.starts_with("for ");
        text += if begins {
            "; "
        } else if is_first {
            ""
        } else {
            ", "
        };
        text += &match entry.rsplit_once(' ') {
            Some((words, name)) if name.starts_with("CAI_") => format!("{words} `{name}`: "),
            Some(_) if begins => format!("{entry}: "),
            Some(_) => entry.to_owned(),
            None if entry.ends_with('_') => format!("a `{entry}` status"),
            None => format!("`{entry}`"),
        };
        is_first = begins;
    }
    text
}

/// cbindgen reads no attributes that depend on a feature, and no tables. So it gets copies of the sources in which the
/// exported functions have their names without one, and the constants of the tables are in their places.
fn run(root: &Path, files: &[&str], config: Config) -> String {
    let folder = crate::scratch();
    let mut builder = Builder::new().with_config(config);
    for file in files {
        let (source, copy) =
            (root.join(format!("src/{file}.rs")), folder.join(format!("{file}.rs")));
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        let text = with_rules(root, &items::source(&source));
        fs::write(&copy, text.replace(EXPORT, "#[unsafe(no_mangle)]")).unwrap();
        builder = builder.with_src(copy);
    }
    let mut text = Vec::new();
    builder.generate().unwrap_or_else(|e| panic!("{files:?}: {e}")).write(&mut text);
    fs::remove_dir_all(&folder).ok();
    String::from_utf8(text).unwrap()
}
