//! Declarations for other languages: `cai.cdef` for cffi and LuaJIT, `cai.pxd` for Cython, and `_abi.py` for ctypes.

use std::fmt::Write;
use std::path::Path;

use crate::c::{declaration, signature};
use crate::items::{Constant, FOREIGN, Function, Items, Struct, Variable};
use crate::tables::{self, Dtype};

/// A template with its declarations.
fn fill(template: &str, declarations: &str) -> String {
    assert!(template.contains("@declarations@\n"), "a template has no place for declarations");
    template.replace("@declarations@\n", declarations)
}

/// LuaJIT and ctypes resolve a name only after its declaration, so structures come in this order.
fn structs(items: &Items) -> Vec<&Struct> {
    let first = ["cai_device", "cai_owner", "cai_owner_ops", "cai_field", "cai_descr", "cai_array"];
    let mut list: Vec<&Struct> = first.iter().map(|name| items.structure(name)).collect();
    list.extend(items.structs.iter().filter(|item| !first.contains(&item.name.as_str())));
    list
}

/// LuaJIT's constants have 32 bits.
fn is_small(constant: &&Constant) -> bool {
    constant.value <= i32::MAX as u64
}

pub fn cdef(items: &Items) -> String {
    let mut text = String::from("enum {\n");
    for constant in items.constants.iter().filter(is_small) {
        writeln!(text, "    {} = {},", constant.name, constant.value).unwrap();
    }
    text += "};\n\n";
    for alias in &items.aliases {
        writeln!(text, "typedef {} {};", alias.ctype, alias.name).unwrap();
    }
    text += "\n";
    for name in FOREIGN {
        writeln!(text, "struct {name};").unwrap();
    }
    for item in structs(items) {
        writeln!(text, "typedef struct {0} {0};", item.name).unwrap();
    }
    for item in structs(items) {
        writeln!(text, "\nstruct {} {{", item.name).unwrap();
        for member in &item.members {
            let mut member = member.clone();
            if !member.length.is_empty() {
                member.length = items.length(&member.length).to_string();
            }
            writeln!(text, "    {};", declaration(&member)).unwrap();
        }
        text += "};\n";
    }
    text += "\n";
    for function in &items.functions {
        text += &signature(function);
    }
    fill(include_str!("cai.cdef.in"), &text)
}

/// Functions that need the interpreter's lock.
fn needs_python(function: &Function) -> bool {
    function.result.contains("_object")
        || function.parameters.iter().any(|p| p.ctype.contains("_object"))
}

/// Names of what a minor release may change.
fn is_unstable(name: &str) -> bool {
    name.starts_with("cai_unstable_") || name.starts_with("CAI_UNSTABLE_")
}

pub fn pxd(items: &Items) -> String {
    let mut text = String::new();
    for alias in &items.aliases {
        writeln!(text, "    ctypedef {} {}", alias.ctype, alias.name).unwrap();
    }
    text += &cython_items(items, false);
    fill(include_str!("cai.pxd.in"), &text)
}

pub fn unstable_pxd(items: &Items) -> String {
    fill(include_str!("unstable.pxd.in"), &cython_items(items, true))
}

/// Constants, structures and functions that a minor release may change, or those that it may not.
fn cython_items(items: &Items, unstable: bool) -> String {
    let mut text = String::new();
    let is_here = |name: &str| is_unstable(name) == unstable;
    let functions: Vec<&Function> =
        items.functions.iter().filter(|item| is_here(&item.name)).collect();
    let is_used = |name: &str| {
        let mut types = functions.iter().flat_map(|item| &item.parameters);
        types.any(|parameter| parameter.ctype.split([' ', '*']).any(|word| word == name))
    };
    for name in FOREIGN.iter().filter(|name| **name != "_object" && is_used(name)) {
        writeln!(text, "    cdef struct cai_{name} \"{name}\":\n        pass").unwrap();
    }
    text += "\n    enum:\n";
    let constants: Vec<&Constant> =
        items.constants.iter().filter(|item| is_here(&item.name)).collect();
    for constant in constants.iter().filter(|constant| is_small(constant)) {
        writeln!(text, "        {}", constant.name).unwrap();
    }
    for constant in constants.iter().filter(|constant| !is_small(constant)) {
        writeln!(text, "    const uint64_t {}", constant.name).unwrap();
    }
    text += "\n";
    let structs: Vec<&Struct> =
        structs(items).into_iter().filter(|item| is_here(&item.name)).collect();
    for item in &structs {
        writeln!(text, "    ctypedef struct {}", item.name).unwrap();
    }
    for item in structs {
        writeln!(text, "\n    ctypedef struct {}:", item.name).unwrap();
        for member in &item.members {
            // Tables are called with the interpreter's lock, owners without.
            let nogil = item.name != "cai_unstable_exchange_api";
            writeln!(text, "        {}", cython(member, nogil)).unwrap();
        }
    }
    text += "\n";
    for function in functions {
        let parameters: Vec<String> = function.parameters.iter().map(|p| cython(p, true)).collect();
        let result = cython_type(&function.result);
        let space = if result.ends_with('*') { "" } else { " " };
        let nogil = if needs_python(function) { "" } else { " nogil" };
        let list = parameters.join(", ");
        // It always sets an exception.
        let raises = if function.name == "cai_python_raise" { "except NULL" } else { "noexcept" };
        writeln!(text, "    {result}{space}{}({list}) {raises}{nogil}", function.name).unwrap();
    }
    text
}

/// Structures of DLPack and Arrow have names of their own in Cython: `cimport *` then leaves a module's own
/// declarations of them as they are.
fn cython_type(ctype: &str) -> String {
    let word = |word: &str| match word {
        "_object" => "PyObject".to_owned(),
        "bool" => "cai_bool".to_owned(),
        name if FOREIGN.contains(&name) => format!("cai_{name}"),
        name => name.to_owned(),
    };
    ctype.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn cython(variable: &Variable, nogil: bool) -> String {
    let mut variable = variable.clone();
    variable.ctype = cython_type(&variable.ctype);
    for parameter in variable.parameters.iter_mut().flatten() {
        parameter.ctype = cython_type(&parameter.ctype);
    }
    let suffix = match (&variable.parameters, nogil) {
        (None, _) => "",
        (Some(_), true) => " noexcept nogil",
        (Some(_), false) => " noexcept",
    };
    // A structure of C needs no keyword.
    declaration(&variable).replace("struct ", "") + suffix
}

/// `folder` has the tables of element types and devices.
pub fn ctypes(items: &Items, folder: &Path) -> String {
    let mut text = String::new();
    for constant in &items.constants {
        writeln!(text, "{} = {}", constant.name, constant.value).unwrap();
    }
    text += "\n# Names of device types, and those whose data is behind a handle.\nDEVICES = {\n";
    let devices = tables::devices(folder);
    for one in &devices {
        writeln!(text, "    {}: \"{}\",", one.number, one.name).unwrap();
    }
    let handles = devices.iter().filter(|one| one.data == "handle");
    let handles: Vec<String> = handles.map(|one| one.number.to_string()).collect();
    writeln!(text, "}}\nHANDLES = {{{}}}", handles.join(", ")).unwrap();
    text += "\n# The sizes of each kind of typestr: bytes, or None for any number of bytes, characters or bits.\n";
    text += "KINDS: dict[str, tuple[int, ...] | None] = {\n";
    let (kinds, types) = tables::dtypes(folder);
    for one in kinds {
        let is_any = matches!(one.sizes.as_str(), "any" | "characters" | "bits");
        let sizes =
            if is_any { "None".to_owned() } else { format!("({},)", one.sizes.replace(',', ", ")) };
        writeln!(text, "    \"{}\": {sizes},", one.letter).unwrap();
    }
    text += "}\n";
    text += "\n# Name, code, kind, size and DLPack's code, bits and lanes of element types.\n";
    text += "DTYPES: list[tuple[str, int, str, int, tuple[int, int, int] | None]] = [\n";
    for one in types {
        let dlpack = one.dlpack.map_or("None".to_owned(), |of| format!("{of:?}"));
        let Dtype { name, code, kind, size, .. } = one;
        writeln!(text, "    (\"{name}\", {code}, \"{kind}\", {size}, {dlpack}),").unwrap();
    }
    text += "]\n";
    let structs = structs(items);
    let names: Vec<&str> = structs.iter().map(|item| item.name.as_str()).collect();
    for item in &structs {
        write!(text, "\n\nclass {}(c.Structure):\n", item.name).unwrap();
        for member in &item.members {
            writeln!(text, "    {}: {}", member.name, value_type(member, &names)).unwrap();
        }
    }
    for item in &structs {
        write!(text, "\n\n{}._fields_ = [\n", item.name).unwrap();
        for member in &item.members {
            let ctype = match (&member.parameters, member.length.as_str()) {
                (Some(parameters), _) => callback(&member.ctype, parameters, &names),
                (None, "") => python_type(&member.ctype, &names),
                (None, length) => {
                    format!("{} * {}", python_type(&member.ctype, &names), items.length(length))
                }
            };
            writeln!(text, "    (\"{}\", {ctype}),", member.name).unwrap();
        }
        text += "]\n";
    }
    text += "\n# Name, result and parameters of every function.\nFUNCTIONS: dict[str, tuple[Any, list[Any]]] = {\n";
    for function in &items.functions {
        let parameter = |parameter: &Variable| match &parameter.parameters {
            Some(_) => "DESTROY".to_owned(),
            None => python_type(&parameter.ctype, &names),
        };
        let parameters: Vec<String> = function.parameters.iter().map(parameter).collect();
        let result = python_type(&function.result, &names);
        let list = parameters.join(", ");
        writeln!(text, "    \"{}\": ({result}, [{list}]),", function.name).unwrap();
    }
    text += "}\n\nPYTHON_FUNCTIONS = (\n";
    for function in items.functions.iter().filter(|function| needs_python(function)) {
        writeln!(text, "    \"{}\",", function.name).unwrap();
    }
    text += ")\n";
    fill(include_str!("_abi.py.in"), &text)
}

fn callback(result: &str, parameters: &[Variable], structs: &[&str]) -> String {
    let mut list = vec![python_type(result, structs)];
    list.extend(parameters.iter().map(|parameter| python_type(&parameter.ctype, structs)));
    // Functions of Python objects are called with the interpreter's lock held.
    let has_object = parameters.iter().any(|parameter| parameter.ctype.contains("_object"));
    format!("c.{}FUNCTYPE({})", if has_object { "PY" } else { "C" }, list.join(", "))
}

/// Type of a member's value, for checkers of types.
fn value_type(member: &Variable, structs: &[&str]) -> String {
    if member.parameters.is_some() {
        return "Any".to_owned();
    }
    let ctype = python_type(&member.ctype, structs);
    match (ctype.as_str(), member.length.is_empty()) {
        ("c.c_char", _) => "bytes".to_owned(),
        (_, false) => format!("c.Array[{ctype}]"),
        ("c.c_char_p", _) => "bytes | None".to_owned(),
        ("c.c_void_p", _) => "int | None".to_owned(),
        ("c.c_bool", _) => "bool".to_owned(),
        (name, _) if structs.contains(&name) => ctype,
        (name, _) => match name.strip_prefix("c.POINTER(") {
            Some(target) => format!("c._Pointer[{}]", target.trim_end_matches(')')),
            None => "int".to_owned(),
        },
    }
}

fn python_type(ctype: &str, structs: &[&str]) -> String {
    let bare = ctype.replace("const ", "");
    let (base, stars) = (bare.trim_end_matches(['*', ' ']), bare.matches('*').count());
    let (mut text, stars) = match (base, stars) {
        ("void", 0) => return "None".to_owned(),
        ("char", 1..) => ("c.c_char_p".to_owned(), stars - 1),
        ("_object", 1..) => ("c.py_object".to_owned(), stars - 1),
        ("void" | "cai_owner" | "cai_owner_ops", 1..) => ("c.c_void_p".to_owned(), stars - 1),
        (name, 1..) if FOREIGN.contains(&name) => ("c.c_void_p".to_owned(), stars - 1),
        ("bool" | "char", _) => (format!("c.c_{base}"), stars),
        ("size_t", _) => ("c.c_size_t".to_owned(), stars),
        ("cai_status", _) => ("c.c_int32".to_owned(), stars),
        ("cai_stream", _) => ("c.c_uint64".to_owned(), stars),
        (name, _) if structs.contains(&name) => (name.to_owned(), stars),
        (name, _) => (format!("c.c_{}", name.strip_suffix("_t").unwrap()), stars),
    };
    for _ in 0..stars {
        text = format!("c.POINTER({text})");
    }
    text
}
