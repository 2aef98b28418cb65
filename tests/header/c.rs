//! The headers: the templates of `src/abi/headers` with what cbindgen wrote in the places that they
//! name.
//!
//! | place | what comes there |
//! |---|---|
//! | `@constants A B_ ...@` | the constants of these names, or with these prefixes (a final `_`) |
//! | `@statuses 2@` | the statuses of a family, without those that an earlier place has |
//! | `@type NAME@` | an alias |
//! | `@struct NAME@` | a structure; its `typedef` is in the template |
//! | `@functions FILE@` | the functions of a file in `src/ffi` |
//! | `@ABI_VERSION@` | the version of the ABI, as `cai_abi_version` returns it |

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::items::{Constant, Doc, Function, Items, Struct, Variable};

pub const WIDTH: usize = 100;

/// Structures of other projects, which the headers only declare.
pub const FOREIGN: [&str; 5] =
    ["_object", "DLManagedTensor", "DLManagedTensorVersioned", "ArrowDeviceArray", "ArrowSchema"];

/// The headers that users include, in the order in which one needs the other.
pub const HEADERS: [&str; 13] = [
    "abi.h", "status.h", "array.h", "dtype.h", "sync.h", "copy.h", "driver.h", "dlpack.h",
    "arrow.h", "ipc.h", "json.h", "python.h", "cai.h",
];

pub struct Headers<'a> {
    root: &'a Path,
    items: &'a Items,
    /// Every item that stands in a header so far.
    placed: RefCell<BTreeSet<String>>,
}

impl<'a> Headers<'a> {
    pub fn new(root: &'a Path, items: &'a Items) -> Self {
        Headers { root, items, placed: RefCell::default() }
    }

    /// The text of one header. Call it for all of `HEADERS`, in that order.
    pub fn render(&self, header: &str) -> String {
        let path = self.root.join("src/abi/headers").join(format!("{header}.in"));
        let template =
            fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let version =
            (self.items.number("CAI_ABI_MAJOR") << 16) | self.items.number("CAI_ABI_MINOR");
        let template = template.replace("@ABI_VERSION@", &format!("{version:#x}"));
        let mut text = String::new();
        for line in template.lines() {
            match line.strip_prefix('@').and_then(|line| line.strip_suffix('@')) {
                Some(place) => text += &self.fill(place),
                None => text = text + line + "\n",
            }
        }
        text
    }

    /// Every item has a place.
    pub fn check(&self) {
        let items = self.items;
        let names = (items.constants.iter().map(|item| &item.name))
            .chain(items.structs.iter().map(|item| &item.name))
            .chain(items.aliases.iter().map(|item| &item.name))
            .chain(items.functions.iter().map(|item| &item.name));
        for name in names {
            assert!(
                self.placed.borrow().contains(name),
                "{name} is in no template of src/abi/headers"
            );
        }
    }

    fn place(&self, name: &str) {
        assert!(self.placed.borrow_mut().insert(name.to_owned()), "{name} has two places");
    }

    fn fill(&self, place: &str) -> String {
        let (kind, rest) = place.split_once(' ').unwrap();
        match kind {
            "constants" => {
                let mut chosen: Vec<&Constant> = Vec::new();
                for name in rest.split(' ') {
                    let before = chosen.len();
                    if name.ends_with('_') {
                        chosen.extend(
                            self.items.constants.iter().filter(|c| c.name.starts_with(name)),
                        );
                    } else {
                        chosen.push(self.items.constant(name));
                    }
                    assert!(chosen.len() > before, "nothing is called {name}");
                }
                self.constants(&chosen)
            }
            "statuses" => {
                let family: u64 = rest.parse().unwrap();
                let chosen: Vec<&Constant> = self
                    .items
                    .constants
                    .iter()
                    .filter(|c| {
                        c.name.starts_with("CAI_ERR_")
                            && self.items.number(&c.value) / 100 == family
                    })
                    .filter(|c| !self.placed.borrow().contains(&c.name))
                    .collect();
                self.constants(&chosen)
            }
            "type" => {
                self.place(rest);
                let alias = self.items.aliases.iter().find(|alias| alias.name == rest).unwrap();
                format!("{}typedef {} {rest};\n", comment("", &alias.doc), alias.ctype)
            }
            "struct" => {
                self.place(rest);
                structure(self.items.structure(rest))
            }
            "functions" => {
                let texts: Vec<String> = exported(&self.root.join(rest))
                    .iter()
                    .map(|name| {
                        self.place(name);
                        let function =
                            self.items.functions.iter().find(|function| function.name == *name);
                        prototype(
                            function.unwrap_or_else(|| panic!("cbindgen does not know {name}")),
                        )
                    })
                    .collect();
                assert!(!texts.is_empty(), "no functions in {rest}");
                texts.join("\n")
            }
            _ => panic!("unknown place: {place}"),
        }
    }

    /// A constant is one line where the comments of the whole group fit behind it, else two.
    fn constants(&self, constants: &[&Constant]) -> String {
        let columns =
            constants.iter().map(|c| 8 + c.name.len() + 1 + c.value.len()).max().unwrap_or(0);
        let fits = |c: &&Constant| {
            columns + c.doc.line(&c.name).chars().count() + " /**<  */".len() <= WIDTH
        };
        let behind = constants.iter().all(fits);
        let mut text = String::new();
        for constant in constants {
            self.place(&constant.name);
            let doc = constant.doc.line(&constant.name);
            let define = format!("#define {} {}", constant.name, constant.value);
            text += &if behind {
                format!("{define:columns$} /**< {doc} */\n")
            } else {
                format!("/** {doc} */\n{define}\n")
            };
        }
        text
    }
}

/// The line above an exported function.
pub const EXPORT: &str = "#[cfg_attr(feature = \"exports\", unsafe(no_mangle))]";

/// The names of the exported functions of a source file, in its order.
fn exported(path: &Path) -> Vec<String> {
    let source = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut names = Vec::new();
    let mut exported = false;
    for line in source.lines() {
        if line == EXPORT {
            exported = true;
        } else if let (true, Some((_, rest))) = (exported, line.split_once(" fn ")) {
            names.push(rest[..rest.find('(').unwrap()].to_owned());
            exported = false;
        }
    }
    names
}

/// C++ and C know all types by their `typedef`.
pub fn ctype(text: &str) -> String {
    let base = text.trim_start_matches("const ").trim_end_matches(['*', ' ']);
    if FOREIGN.contains(&base) {
        text.replace(base, &format!("struct {base}"))
    } else {
        text.to_owned()
    }
}

pub fn declaration(variable: &Variable) -> String {
    let ctype = ctype(&variable.ctype);
    if let Some(parameters) = &variable.parameters {
        let list: Vec<String> = parameters.iter().map(declaration).collect();
        return format!("{ctype} (*{})({})", variable.name, list.join(", "));
    }
    let space = if ctype.ends_with('*') { "" } else { " " };
    let length =
        if variable.length.is_empty() { String::new() } else { format!("[{}]", variable.length) };
    format!("{ctype}{space}{}{length}", variable.name)
}

fn structure(item: &Struct) -> String {
    let mut text = comment("", &item.doc);
    text += &format!("struct {} {{\n", item.name);
    for member in &item.members {
        text += &member_comment(&member.doc);
        text += &format!("    {};\n", declaration(member));
    }
    text + "};\n"
}

/// A function's head and its parameters, in as few lines as they fit.
pub fn signature(prefix: &str, function: &Function) -> String {
    let result = ctype(&function.result);
    let space = if result.ends_with('*') { "" } else { " " };
    let head = format!("{prefix}{result}{space}{}(", function.name);
    if function.parameters.is_empty() {
        return head + "void);\n";
    }
    let parameters: Vec<String> = function.parameters.iter().map(declaration).collect();
    let line = format!("{head}{});\n", parameters.join(", "));
    if line.len() <= WIDTH + 1 {
        return line;
    }
    let mut text = head + "\n   ";
    let mut column = 3;
    for (index, parameter) in parameters.iter().enumerate() {
        let end = if index + 1 == parameters.len() { ");" } else { "," };
        if column > 3 && column + 1 + parameter.len() + end.len() > WIDTH {
            text += "\n   ";
            column = 3;
        }
        text = text + " " + parameter + end;
        column += 1 + parameter.len() + end.len();
    }
    text + "\n"
}

fn prototype(function: &Function) -> String {
    comment("", &function.doc) + &signature("CAI_API ", function)
}

/// A comment in one line where it fits, else in a block.
fn comment(indent: &str, doc: &Doc) -> String {
    match &doc.0[..] {
        [line] if indent.len() + line.chars().count() + "/**  */".len() <= WIDTH => {
            return format!("{indent}/** {line} */\n");
        }
        _ => {}
    }
    let mut text = format!("{indent}/**\n");
    for paragraph in &doc.0 {
        if paragraph.is_empty() {
            text += &format!("{indent} *\n");
            continue;
        }
        let hanging = if paragraph.starts_with("- ") { "  " } else { "" };
        for (index, line) in
            wrap(paragraph, WIDTH - indent.len() - 3 - hanging.len()).iter().enumerate()
        {
            let hanging = if index > 0 { hanging } else { "" };
            text += &format!("{indent} * {hanging}{line}\n");
        }
    }
    text + indent + " */\n"
}

/// A comment without lines of its own for its ends: structures stay on one screen.
fn member_comment(doc: &Doc) -> String {
    let paragraphs: Vec<&str> = doc.0.iter().map(String::as_str).collect();
    let lines = wrap(&paragraphs.join(" "), WIDTH - "     *  ".len() - " */".len());
    format!("    /** {} */\n", lines.join("\n     *  "))
}

fn wrap(paragraph: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in paragraph.split(' ') {
        let line = lines.last_mut().unwrap();
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}
