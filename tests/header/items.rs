//! What cbindgen makes of `src/`, taken apart: constants, structures, aliases and functions with
//! their comments.

use std::fs;
use std::path::{Path, PathBuf};

use crate::c::EXPORT;

/// A comment: paragraphs and list items, each in one line.
#[derive(Clone, Default)]
pub struct Doc(pub Vec<String>);

pub struct Constant {
    pub name: String,
    /// As C writes it: `16`, `UINT64_MAX`, `(UINT64_MAX - 1)`.
    pub value: String,
    pub doc: Doc,
}

/// A member, a parameter or a function's result: `const cai_array *`, `array`, ``.
#[derive(Clone)]
pub struct Variable {
    pub ctype: String,
    pub name: String,
    /// Length of an array, or empty.
    pub length: String,
    /// Parameters of a pointer to a function; `ctype` is its result.
    pub parameters: Option<Vec<Variable>>,
    pub doc: Doc,
}

pub struct Struct {
    pub name: String,
    pub members: Vec<Variable>,
    pub doc: Doc,
}

pub struct Alias {
    pub name: String,
    pub ctype: String,
    pub doc: Doc,
}

pub struct Function {
    pub name: String,
    pub result: String,
    pub parameters: Vec<Variable>,
    pub doc: Doc,
}

#[derive(Default)]
pub struct Items {
    pub constants: Vec<Constant>,
    pub structs: Vec<Struct>,
    pub aliases: Vec<Alias>,
    pub functions: Vec<Function>,
}

/// cbindgen reads no attributes that depend on a feature. So it gets a copy of the sources in which
/// the exported functions have their names without one.
fn copy_for_cbindgen(root: &Path) -> PathBuf {
    let name = format!("cbindgen-{:?}", std::thread::current().id());
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&copy);
    copy_sources(&root.join("src"), &copy.join("src"));
    fs::write(
        copy.join("Cargo.toml"),
        "[package]\nname = \"cai\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n",
    )
    .unwrap();
    copy
}

fn copy_sources(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copy = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_sources(&path, &copy);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            fs::write(copy, text.replace(EXPORT, "#[unsafe(no_mangle)]")).unwrap();
        }
    }
}

impl Items {
    pub fn of_crate(root: &Path) -> Items {
        // One item a line, so that the text is easy to take apart.
        let mut config = cbindgen::Config {
            language: cbindgen::Language::C,
            style: cbindgen::Style::Type,
            documentation_style: cbindgen::DocumentationStyle::Cxx,
            line_length: 10_000,
            no_includes: true,
            usize_is_size_t: true,
            ..Default::default()
        };
        config.function.args = cbindgen::Layout::Horizontal;
        // Types that functions reach only through comments.
        config.export.include = vec!["cai_layout".into()];
        let mut text = Vec::new();
        cbindgen::Builder::new()
            .with_crate(copy_for_cbindgen(root))
            .with_config(config)
            .generate()
            .unwrap()
            .write(&mut text);
        Items::parse(std::str::from_utf8(&text).unwrap())
    }

    fn parse(text: &str) -> Items {
        let mut items = Items::default();
        let mut doc = Vec::new();
        let mut lines = text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            if let Some(comment) = line.strip_prefix("///") {
                doc.push(comment.strip_prefix(' ').unwrap_or(comment).to_owned());
                continue;
            }
            let comment = Doc::new(&std::mem::take(&mut doc));
            if let Some(rest) = line.strip_prefix("#define ") {
                let (name, value) = rest.split_once(' ').unwrap();
                items.constants.push(Constant {
                    name: name.to_owned(),
                    value: value.to_owned(),
                    doc: comment,
                });
            } else if line == "typedef struct {" {
                let (name, members) = members(&mut lines);
                items.structs.push(Struct { name, members, doc: comment });
            } else if let Some(rest) = line.strip_prefix("typedef ") {
                let (ctype, name) = rest.trim_end_matches(';').rsplit_once(' ').unwrap();
                items.aliases.push(Alias {
                    name: name.to_owned(),
                    ctype: ctype.to_owned(),
                    doc: comment,
                });
            } else if line.ends_with(");") {
                items.functions.push(function(line, comment));
            } else {
                assert!(line.is_empty(), "not understood: {line}");
            }
        }
        // cbindgen also writes what the library itself declares of other libraries.
        items.aliases.retain(|alias| alias.name.starts_with("cai_"));
        items.functions.retain(|function| function.name.starts_with("cai_"));
        items
    }

    pub fn constant(&self, name: &str) -> &Constant {
        self.constants
            .iter()
            .find(|item| item.name == name)
            .unwrap_or_else(|| panic!("no constant {name}"))
    }

    pub fn structure(&self, name: &str) -> &Struct {
        self.structs
            .iter()
            .find(|item| item.name == name)
            .unwrap_or_else(|| panic!("no structure {name}"))
    }

    /// The number that a constant's text stands for.
    pub fn number(&self, value: &str) -> u64 {
        match value {
            "UINT64_MAX" => u64::MAX,
            "(UINT64_MAX - 1)" => u64::MAX - 1,
            digits => digits.parse().unwrap_or_else(|_| self.number(&self.constant(digits).value)),
        }
    }
}

impl Doc {
    /// Lines that belong to one paragraph are joined. A list item, and a line that introduces a
    /// parameter, the statuses, the thread safety or the source, begins a paragraph of its own.
    fn new(lines: &[String]) -> Doc {
        let mut paragraphs: Vec<String> = Vec::new();
        let mut open = false;
        for line in lines {
            let parameter = line.starts_with('`')
                && line.split_once(": ").is_some_and(|(names, _)| {
                    names.split(", ").all(|name| {
                        let name = name.trim_matches('`');
                        !name.is_empty()
                            && name
                                .chars()
                                .all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())
                    })
                });
            let word =
                ["Returns ", "Thread safety:", "Source:"].iter().any(|word| line.starts_with(word));
            // Inside of a sentence, a name at the start of a line introduces nothing.
            let sentence = paragraphs.last().is_some_and(|last| last.ends_with(['.', ':']));
            // Rows of a table stay rows.
            let begins = line.starts_with("- ")
                || line.starts_with('|')
                || (sentence && (parameter || word));
            if line.is_empty() {
                paragraphs.push(String::new());
                open = false;
            } else if open && !begins {
                let last = paragraphs.last_mut().unwrap();
                last.push(' ');
                last.push_str(line);
            } else {
                paragraphs.push(line.clone());
                open = true;
            }
        }
        Doc(paragraphs)
    }

    /// The first paragraph.
    pub fn line(&self, name: &str) -> &str {
        match &self.0[..] {
            [line] => line,
            [line, empty, ..] if empty.is_empty() => line,
            _ => panic!("the comment of {name} does not begin with one sentence"),
        }
    }
}

fn members<'a>(lines: &mut impl Iterator<Item = &'a str>) -> (String, Vec<Variable>) {
    let mut members = Vec::new();
    let mut doc = Vec::new();
    for line in lines {
        if let Some(comment) = line.strip_prefix("///") {
            doc.push(comment.trim().to_owned());
        } else if let Some(name) = line.strip_prefix("} ") {
            return (name.trim_end_matches(';').to_owned(), members);
        } else {
            let mut member = variable(line.trim_end_matches(';'));
            member.doc = Doc::new(&std::mem::take(&mut doc));
            members.push(member);
        }
    }
    panic!("a structure without an end");
}

fn function(line: &str, doc: Doc) -> Function {
    let open = line.find('(').unwrap();
    let head = variable(&line[..open]);
    let parameters = parameters(&line[open + 1..line.len() - 2]);
    Function { name: head.name, result: head.ctype, parameters, doc }
}

/// The parts of `a, b, void (*c)(d, e)`: commas inside of brackets do not separate.
fn parameters(text: &str) -> Vec<Variable> {
    if text == "void" {
        return Vec::new();
    }
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (index, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(variable(text[start..index].trim()));
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(variable(text[start..].trim()));
    parts
}

/// `const char *name`, `uint32_t reserved[7]` or `void (*destroy)(void *context)`.
fn variable(text: &str) -> Variable {
    if let Some((result, rest)) = text.split_once(" (*") {
        let (name, rest) = rest.split_once(")(").unwrap();
        return Variable {
            ctype: result.to_owned(),
            name: name.to_owned(),
            length: String::new(),
            parameters: Some(parameters(rest.strip_suffix(')').unwrap())),
            doc: Doc::default(),
        };
    }
    let (text, length) = match text.split_once('[') {
        Some((text, length)) => (text, length.trim_end_matches(']')),
        None => (text, ""),
    };
    let name = text.rfind([' ', '*']).unwrap() + 1;
    Variable {
        ctype: text[..name].trim_end().to_owned(),
        name: text[name..].to_owned(),
        length: length.to_owned(),
        parameters: None,
        doc: Doc::default(),
    }
}
