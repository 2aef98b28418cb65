use std::path::PathBuf;
use std::process::Command;

use super::*;
use crate::items::Function;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn fresh(path: &str, text: &str) {
    let stale = fs::read_to_string(root().join(path)).unwrap_or_default();
    assert!(stale == text, "{path} is stale: run `make header`");
}

#[test]
fn the_headers_are_fresh() {
    let items = Items::of_crate(&root());
    let headers = headers::all(&root(), &items, &symbols(&root(), &items).unwrap());
    for (name, text) in &headers {
        fresh(&format!("include/cai/{name}.h"), text);
    }
    for (path, text) in number::all(&root(), &headers) {
        fresh(&path, &text);
    }
    // Every item has a header.
    let text: String = headers.into_iter().map(|(_, text)| text).collect();
    let constants = items.constants.iter().map(|item| format!("\n#define {} ", item.name));
    let structs = items.structs.iter().map(|item| format!("\nstruct {} {{\n", item.name));
    let functions = items.functions.iter().map(|item| format!("{}(", item.name));
    for declaration in constants.chain(structs).chain(functions) {
        assert!(text.contains(&declaration), "no header has {declaration:?}");
    }
}

#[test]
fn the_layout_is_fresh_and_has_what_was_released() {
    match layout::text(&root(), &Items::of_crate(&root())) {
        Ok(text) => fresh("abi/layout.txt", &text),
        Err(vanished) => panic!("these lines of the last release have vanished: {vanished:#?}"),
    }
}

#[test]
fn the_list_of_exported_names_is_fresh() {
    let items = Items::of_crate(&root());
    let symbols = symbols(&root(), &items).unwrap();
    fresh("abi/symbols.txt", &symbols::text(&symbols));
}

/// The headers take no names but their own.
#[test]
fn macros_have_the_prefix() {
    let mut count = 0;
    let items = Items::of_crate(&root());
    for (header, text) in headers::all(&root(), &items, &symbols(&root(), &items).unwrap()) {
        for line in text.lines() {
            let directive = line.trim_start().strip_prefix('#').unwrap_or_default().trim_start();
            if let Some(name) = directive.strip_prefix("define ") {
                // Arrow's own, under its guards.
                let is_arrow = header == "unstable/arrow" && name.starts_with("ARROW_");
                assert!(name.starts_with("CAI_") || is_arrow, "{header}: {name}");
                count += 1;
            }
        }
        assert!(!text.contains("uintptr_t"), "{header}: sizes are size_t");
    }
    assert!(count > 200);
}

#[test]
fn numbers_are_used_once() {
    let items = Items::of_crate(&root());
    let statuses = items.constants.iter().filter(|item| item.name.starts_with("CAI_ERR_"));
    let mut numbers: Vec<u64> = statuses.map(|item| item.value).collect();
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert!(numbers.len() == count && count > 40);
}

/// What `make header` says after a change of a source file, and the number of the C++ headers. The files are copies.
fn after(file: &str, from: &str, to: &str) -> Result<String, Vec<String>> {
    let tree = scratch();
    for folder in [
        "src/abi",
        "src/abi/unstable",
        "src/abi/headers",
        "src/abi/headers/unstable",
        "src/ffi",
        "src/ffi/unstable",
        "src/validate",
        "include/cai",
        "include/cai/unstable",
        "contrib/include/cai",
        "abi",
    ] {
        fs::create_dir_all(tree.join(folder)).unwrap();
        for entry in fs::read_dir(root().join(folder)).unwrap().map(Result::unwrap) {
            if entry.path().is_file() {
                fs::copy(entry.path(), tree.join(folder).join(entry.file_name())).unwrap();
            }
        }
    }
    let text = fs::read_to_string(tree.join(file)).unwrap();
    assert_eq!(text.matches(from).count(), 1, "{file} has {from:?} not once");
    fs::write(tree.join(file), text.replace(from, to)).unwrap();
    let result = tracked(&tree, &Items::of_crate(&tree), false).map(|()| {
        let written = fs::read_to_string(tree.join("include/cai/abi.hpp")).unwrap();
        written.lines().find(|line| line.contains("#define CAI_PRIVATE_HPP ")).unwrap().to_owned()
    });
    fs::remove_dir_all(tree).unwrap();
    result
}

#[test]
fn changes_that_break_programs_are_reported() {
    let core = "src/abi/core.rs";
    for (what, file, from, to, vanished) in [
        (
            "a member of another type",
            "src/abi/array.rs",
            "pub count: i64,",
            "pub count: u64,",
            "cai_layout.count: 0 8  int64_t count",
        ),
        (
            "a renamed member",
            core,
            "pub title: *const c_char,",
            "pub heading: *const c_char,",
            "cai_field.title: 8 8  const char *title",
        ),
        (
            "a member that moves",
            "src/abi/python.rs",
            "    pub dlpack_stream: cai_stream,\n",
            "    pub dlpack_stream: cai_stream,\n    pub hint: u64,\n",
            "cai_import_options.ndim: 32 4  int32_t ndim",
        ),
        (
            "another number of a status",
            "src/abi/status.rs",
            "CAI_ERR_NDIM: cai_status = 204",
            "CAI_ERR_NDIM: cai_status = 298",
            "CAI_ERR_NDIM = 204",
        ),
        (
            "a parameter of another type",
            "src/ffi/sync.rs",
            "policy: u32,",
            "policy: u64,",
            "cai_status cai_sync_policy_set(uint32_t policy, cai_error *error);",
        ),
        (
            "a removed function",
            "src/ffi/library.rs",
            "fn cai_version(",
            "fn cai_library_version(",
            "cai_version",
        ),
    ] {
        let lines = after(file, from, to).expect_err(what);
        assert!(lines.iter().any(|line| line == vanished), "{what}: {lines:#?}");
    }
    // What is added is no change.
    let added = "pub const CAI_MAX_MASKS: i32 = 8;\n";
    after(core, added, &format!("{added}/// More.\npub const CAI_MAX_MORE: i32 = 9;\n")).unwrap();
}

/// Nobody has to think of the inline namespace.
#[test]
fn what_is_inline_has_a_number_of_its_own() {
    let (hpp, member) = ("include/cai/abi.hpp", "    cai_owner *owner_ = nullptr;\n");
    // Spaces and comments are none of it.
    let same = after(hpp, member, "    cai_owner  *owner_ =\n nullptr; /* \" */ // \"\n").unwrap();
    let mut numbers = vec![after(hpp, member, member).unwrap()];
    assert_eq!(numbers[0], same);
    for (file, from, to) in [
        (hpp, member, "    cai_owner *owner_ = nullptr;\n    int more_ = 0;\n"),
        ("include/cai/view.hpp", "size_ = layout.count;", "size_ = layout.nbytes;"),
        ("contrib/include/cai/named.hpp", "\ninline namespace ", "\nint more(); inline namespace "),
        ("src/abi/headers/abi.toml", "memset(array, 0, 16);", "memset(array, 0, 24);"),
    ] {
        numbers.push(after(file, from, to).unwrap());
    }
    let count = numbers.len();
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), count, "{numbers:?}");
}

#[test]
fn later_functions_have_a_node_and_a_condition() {
    let file =
        "# comment\ncai_a array 1.0 1.2 cai_b\ncai_b array 1.2\ncai_unstable_c unstable/copy 1.0\n";
    let function = |name: &str| Function {
        name: name.to_owned(),
        module: String::new(),
        result: "void".to_owned(),
        parameters: Vec::new(),
    };
    let items = Items {
        constants: vec![constant("CAI_ABI_MAJOR", 1), constant("CAI_ABI_MINOR", 3)],
        functions: ["cai_a", "cai_b", "cai_d", "cai_unstable_c"].map(function).into(),
        ..Items::default()
    };
    let header = |item: &Function| {
        if item.name.starts_with("cai_unstable_") { "unstable/copy" } else { "array" }
    };
    let found = symbols::current(file, &items, header).unwrap();
    let text = symbols::text(&found);
    assert!(text.lines().any(|line| line.split_whitespace().eq(["cai_d", "array", "1.3"])));
    let list = crate::scratch().join("symbols.txt");
    fs::write(&list, &text).unwrap();
    let map = Command::new(root().join("abi/map.sh")).arg(&list).args(["1", "3"]).output().unwrap();
    fs::remove_dir_all(list.parent().unwrap()).ok();
    let map = String::from_utf8(map.stdout).unwrap();
    let words = map.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        words,
        "CAI_1 { global: cai_a; local: *; }; CAI_1.2 { global: cai_b; } CAI_1; \
         CAI_1.3 { global: cai_d; } CAI_1.2; CAI_UNSTABLE_1_3 { global: cai_unstable_c; };"
    );
    let text = symbols::with_lives(
        "/// A.\nCAI_API void cai_a(void);\n\n/// B.\nCAI_API void cai_b(void);\n\nend",
        &found,
    );
    assert_eq!(
        text,
        "/// A.\n///\n/// Deprecated since ABI 1.2: use `cai_b`.\nCAI_DEPRECATED(\"use cai_b\") CAI_API void cai_a(void);\n\n\
         #if CAI_TARGET_ABI >= 0x10002\n/// B.\nCAI_API void cai_b(void);\n#endif\n\nend"
    );
    // A core function neither vanishes nor changes its header; an unstable one may.
    for (functions, header, gone) in [
        (["cai_b", "cai_d"], "array", vec!["cai_a"]),
        (["cai_a", "cai_b"], "dtype", vec!["cai_a", "cai_b"]),
    ] {
        let items = Items { functions: functions.map(function).into(), ..constants_of(&items) };
        let found = symbols::current(file, &items, |_| header);
        assert_eq!(found.err().unwrap(), gone);
    }
}

fn constant(name: &str, value: u64) -> items::Constant {
    items::Constant { name: name.to_owned(), value }
}

fn constants_of(items: &Items) -> Items {
    let constants = items.constants.iter().map(|item| constant(&item.name, item.value));
    Items { constants: constants.collect(), ..Items::default() }
}
