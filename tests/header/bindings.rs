//! Declarations for other languages: `cai.cdef` for cffi and LuaJIT, `cai.pxd` for Cython, and
//! `_abi.py` for ctypes.

use std::fmt::Write;

use crate::c::{declaration, signature};
use crate::items::{Constant, Function, Items, Struct, Variable};

/// LuaJIT and ctypes resolve a name only after its declaration, so structures come in this order.
fn structs(items: &Items) -> Vec<&Struct> {
    let first = ["cai_device", "cai_owner", "cai_owner_ops", "cai_field", "cai_descr", "cai_array"];
    let mut list: Vec<&Struct> = first.iter().map(|name| items.structure(name)).collect();
    list.extend(items.structs.iter().filter(|item| !first.contains(&item.name.as_str())));
    list
}

/// LuaJIT's constants have 32 bits.
fn is_small(items: &Items, constant: &Constant) -> bool {
    items.number(&constant.value) <= i32::MAX as u64
}

pub fn cdef(items: &Items) -> String {
    let mut text = String::from(
        "// cai.cdef: the declarations of cai/cai.h for cffi and for LuaJIT's FFI. They are constants,\n\
         // structures and functions without macros and comments; the documentation is in the headers.\n\
         //\n\
         //     ffi.cdef(open(\"cai.cdef\").read()); lib = ffi.dlopen(\"libcai.so.1\")       # cffi\n\
         //     ffi.cdef(io.open(\"cai.cdef\"):read(\"*a\")); lib = ffi.load(\"cai\")          -- LuaJIT\n\
         //\n\
         // Two constants have 64 bits, which LuaJIT cannot declare: CAI_STREAM_NONE is 2^64 - 1, and\n\
         // CAI_STREAM_UNKNOWN is 2^64 - 2. To initialize an array, zero it and set struct_size to its\n\
         // size and version to CAI_INTERFACE_VERSION.\n\
         //\n\
         // SPDX-License-Identifier: MIT OR Apache-2.0\n\
         // Generated from the sources of libcai: do not edit.\n\n",
    );
    text += "enum {\n";
    for constant in items.constants.iter().filter(|constant| is_small(items, constant)) {
        writeln!(text, "    {} = {},", constant.name, items.number(&constant.value)).unwrap();
    }
    text += "};\n\n";
    for alias in &items.aliases {
        writeln!(text, "typedef {} {};", alias.ctype, alias.name).unwrap();
    }
    text += "\nstruct _object;\nstruct DLManagedTensor;\nstruct DLManagedTensorVersioned;\n";
    for item in structs(items) {
        writeln!(text, "typedef struct {0} {0};", item.name).unwrap();
    }
    for item in structs(items) {
        writeln!(text, "\nstruct {} {{", item.name).unwrap();
        for member in &item.members {
            let mut member = member.clone();
            if !member.length.is_empty() {
                member.length = items.number(&member.length).to_string();
            }
            writeln!(text, "    {};", declaration(&member)).unwrap();
        }
        text += "};\n";
    }
    text += "\n";
    for function in &items.functions {
        text += &signature("", function);
    }
    text
}

/// The inline functions of `cai/abi.h`, which only Cython can call.
const INLINE: [&str; 5] = [
    "cai_status cai_inline_retain(const cai_array *array)",
    "cai_status cai_inline_share(const cai_array *array, cai_array *out)",
    "void cai_inline_release(cai_array *array)",
    "const cai_field *cai_inline_field(const cai_descr *descr, uint64_t index)",
    "cai_stream cai_inline_stream(const void *cuda_stream)",
];

/// Functions that need the interpreter's lock.
fn needs_python(function: &Function) -> bool {
    function.result.contains("_object")
        || function.parameters.iter().any(|p| p.ctype.contains("_object"))
}

pub fn pxd(items: &Items) -> String {
    let mut text = String::from(
        "# cai.pxd: the declarations of cai/cai.h for Cython 3. The folder of this file's folder is the\n\
         # include path: `from cai.cai cimport cai_array` in Cython, `#include <cai/cai.h>` in C.\n\
         #\n\
         # SPDX-License-Identifier: MIT OR Apache-2.0\n\
         # Generated from the sources of libcai: do not edit.\n\n\
         from cpython.object cimport PyObject\n\
         from libc.stdint cimport (\n    int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,\n)\n\n\
         cdef extern from \"<stdbool.h>\":\n    ctypedef bint cai_bool \"bool\"\n\n\
         cdef extern from \"cai/cai.h\":\n",
    );
    for name in ["DLManagedTensor", "DLManagedTensorVersioned"] {
        writeln!(text, "    cdef struct {name}:\n        pass").unwrap();
    }
    for alias in &items.aliases {
        writeln!(text, "    ctypedef {} {}", alias.ctype, alias.name).unwrap();
    }
    text += "\n    enum:\n";
    for constant in items.constants.iter().filter(|constant| is_small(items, constant)) {
        writeln!(text, "        {}", constant.name).unwrap();
    }
    for constant in items.constants.iter().filter(|constant| !is_small(items, constant)) {
        writeln!(text, "    const uint64_t {}", constant.name).unwrap();
    }
    text += "\n";
    for item in structs(items) {
        writeln!(text, "    ctypedef struct {}", item.name).unwrap();
    }
    for item in structs(items) {
        writeln!(text, "\n    ctypedef struct {}:", item.name).unwrap();
        for member in &item.members {
            // Tables are called with the interpreter's lock, owners without.
            let nogil = item.name != "cai_exchange_api";
            writeln!(text, "        {}", cython(member, nogil)).unwrap();
        }
    }
    text += "\n";
    for function in &items.functions {
        let parameters: Vec<String> = function.parameters.iter().map(|p| cython(p, true)).collect();
        let result = cython_type(&function.result);
        let space = if result.ends_with('*') { "" } else { " " };
        let nogil = if needs_python(function) { "" } else { " nogil" };
        let head = format!("    {result}{space}{}(", function.name);
        let line = format!("{head}{}) noexcept{nogil}", parameters.join(", "));
        if line.len() <= crate::c::WIDTH {
            writeln!(text, "{line}").unwrap();
        } else {
            writeln!(
                text,
                "{head}\n        {}\n    ) noexcept{nogil}",
                parameters.join(",\n        ")
            )
            .unwrap();
        }
    }
    for function in INLINE {
        writeln!(text, "    {function} noexcept nogil").unwrap();
    }
    text
}

fn cython_type(ctype: &str) -> String {
    ctype.replace("_object", "PyObject").replace("bool", "cai_bool")
}

fn cython(variable: &Variable, nogil: bool) -> String {
    let mut variable = variable.clone();
    variable.ctype = cython_type(&variable.ctype);
    let pointer = variable.parameters.is_some();
    let suffix = if pointer && nogil {
        " noexcept nogil"
    } else if pointer {
        " noexcept"
    } else {
        ""
    };
    // A structure of C needs no keyword.
    declaration(&variable).replace("struct ", "") + suffix
}

pub fn ctypes(items: &Items) -> String {
    let mut text = String::from(
        "\"\"\"The declarations of cai/cai.h for ctypes.\n\n\
         Structures have the names and members of the C headers. A `cai_owner *` is a `c_void_p`. `declare` sets\n\
         the types of a loaded library's functions; those in `PYTHON_FUNCTIONS` need a `ctypes.PyDLL`.\n\n\
         Generated from the sources of libcai: do not edit.\n\"\"\"\n\nimport ctypes as c\n\n",
    );
    for constant in &items.constants {
        writeln!(text, "{} = {}", constant.name, items.number(&constant.value)).unwrap();
    }
    text += "\n# Functions that owners call when their last reference is gone.\nDESTROY = c.CFUNCTYPE(None, c.c_void_p)\n";
    let names: Vec<&str> = structs(items).iter().map(|item| item.name.as_str()).collect();
    let structs: Vec<&Struct> = structs(items);
    for item in &structs {
        write!(text, "\n\nclass {}(c.Structure):\n    pass\n", item.name).unwrap();
    }
    for item in &structs {
        write!(text, "\n\n{}._fields_ = [\n", item.name).unwrap();
        for member in &item.members {
            let ctype = match (&member.parameters, member.length.as_str()) {
                (Some(parameters), _) => callback(&member.ctype, parameters, &names),
                (None, "") => python_type(&member.ctype, &names),
                (None, length) => {
                    format!("{} * {}", python_type(&member.ctype, &names), items.number(length))
                }
            };
            writeln!(text, "    (\"{}\", {ctype}),", member.name).unwrap();
        }
        text += "]\n";
    }
    text += "\n# Name, result and parameters of every function.\nFUNCTIONS = {\n";
    for function in &items.functions {
        let parameters: Vec<String> = function
            .parameters
            .iter()
            .map(|parameter| match &parameter.parameters {
                Some(_) => "DESTROY".to_owned(),
                None => python_type(&parameter.ctype, &names),
            })
            .collect();
        let result = python_type(&function.result, &names);
        let line = format!("    \"{}\": ({result}, [{}]),", function.name, parameters.join(", "));
        if line.len() <= crate::c::WIDTH {
            writeln!(text, "{line}").unwrap();
        } else {
            let list = parameters.join(", ");
            writeln!(
                text,
                "    \"{}\": (\n        {result},\n        [{list}],\n    ),",
                function.name
            )
            .unwrap();
        }
    }
    text += "}\n\nPYTHON_FUNCTIONS = (\n";
    for function in items.functions.iter().filter(|function| needs_python(function)) {
        writeln!(text, "    \"{}\",", function.name).unwrap();
    }
    text += ")\n\n\n\
        def init(cls, **members):\n    \
        \"\"\"What the `_INIT` macros are in C: an array or options of the size that this file describes.\"\"\"\n    \
        value = cls(struct_size=c.sizeof(cls))\n    \
        if cls is cai_array:\n        value.version = CAI_INTERFACE_VERSION\n    \
        if cls is cai_import_options:\n        value.stream = CAI_STREAM_UNKNOWN\n    \
        for name, member in members.items():\n        setattr(value, name, member)\n    \
        return value\n\n\n\
        def declare(library, names=tuple(FUNCTIONS)):\n    \
        \"\"\"Sets the types of functions of a library that `ctypes` has loaded, and returns the library.\"\"\"\n    \
        for name in names:\n        \
        function = getattr(library, name)\n        \
        function.restype, function.argtypes = FUNCTIONS[name]\n    \
        return library\n";
    text
}

fn callback(result: &str, parameters: &[Variable], structs: &[&str]) -> String {
    let list: Vec<String> = parameters.iter().map(|p| python_type(&p.ctype, structs)).collect();
    format!("c.CFUNCTYPE({}, {})", python_type(result, structs), list.join(", "))
}

fn python_type(ctype: &str, structs: &[&str]) -> String {
    let bare = ctype.replace("const ", "");
    let (base, stars) = (bare.trim_end_matches(['*', ' ']), bare.matches('*').count());
    let (mut text, stars) = match (base, stars) {
        ("void", 0) => return "None".to_owned(),
        ("char", 1..) => ("c.c_char_p".to_owned(), stars - 1),
        (
            "void" | "cai_owner" | "cai_owner_ops" | "DLManagedTensor" | "DLManagedTensorVersioned",
            1..,
        ) => ("c.c_void_p".to_owned(), stars - 1),
        ("_object", 1..) => ("c.py_object".to_owned(), stars - 1),
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
