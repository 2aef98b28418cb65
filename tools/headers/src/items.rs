//! The public items of `src/abi` and `src/ffi`: constants, structures, aliases and exported functions, with the types
//! that they have in C.

use std::fs;
use std::path::{Path, PathBuf};

use syn::ext::IdentExt;
use syn::{Expr, FnArg, Item, Lit, Pat, PatType, ReturnType, Type, Visibility};

use crate::tables;

/// Structures of other projects, which the headers only declare.
pub const FOREIGN: [&str; 5] =
    ["_object", "DLManagedTensor", "DLManagedTensorVersioned", "ArrowDeviceArray", "ArrowSchema"];

pub struct Constant {
    pub name: String,
    pub value: u64,
}

/// A member, a parameter, or the result of a function pointer: `const cai_array *`, `array`.
#[derive(Clone)]
pub struct Variable {
    pub ctype: String,
    pub name: String,
    /// Name or number of an array's length, or empty.
    pub length: String,
    /// Parameters of a pointer to a function; `ctype` is its result.
    pub parameters: Option<Vec<Variable>>,
}

pub struct Struct {
    pub name: String,
    pub members: Vec<Variable>,
}

pub struct Alias {
    pub name: String,
    pub ctype: String,
}

pub struct Function {
    pub name: String,
    /// The file in `src` that has it, as `ffi/array`.
    #[cfg_attr(not(feature = "headers"), allow(dead_code))]
    pub module: String,
    pub result: String,
    pub parameters: Vec<Variable>,
}

#[derive(Default)]
pub struct Items {
    pub constants: Vec<Constant>,
    pub structs: Vec<Struct>,
    pub aliases: Vec<Alias>,
    pub functions: Vec<Function>,
}

impl Items {
    /// Reads the sources of the library.
    pub fn of_crate(root: &Path) -> Items {
        let mut items = Items::default();
        let sources = root.join("src");
        for file in modules(&sources.join("abi")) {
            items.read_types(&file);
        }
        for file in modules(&sources.join("ffi")) {
            let module = file.strip_prefix(&sources).unwrap().with_extension("");
            items.read_functions(&file, module.to_str().unwrap());
        }
        items
    }

    /// Constants, aliases and structures of a file in `src/abi`.
    pub fn read_types(&mut self, path: &Path) {
        for item in parse(path).items {
            match item {
                Item::Const(item) if is_public(&item.vis) => {
                    let (name, value) = (item.ident.to_string(), self.number(&item.expr));
                    self.constants.push(Constant { name, value });
                }
                Item::Type(item) if is_public(&item.vis) => {
                    let (name, ctype) = (item.ident.to_string(), c_type(&item.ty));
                    self.aliases.push(Alias { name, ctype });
                }
                Item::Struct(item) if is_public(&item.vis) => {
                    let members = item.fields.iter().map(|field| {
                        let name = field.ident.as_ref().unwrap().unraw();
                        variable(&name.to_string(), &field.ty)
                    });
                    let (name, members) = (item.ident.to_string(), members.collect());
                    self.structs.push(Struct { name, members });
                }
                _ => {}
            }
        }
    }

    /// Exported functions of a file in `src/ffi`.
    fn read_functions(&mut self, path: &Path, module: &str) {
        for item in parse(path).items {
            let Item::Fn(item) = item else { continue };
            if is_exported(&item.attrs) {
                let name = item.sig.ident.to_string();
                let parameters = item.sig.inputs.iter().map(|input| match input {
                    FnArg::Typed(PatType { pat, ty, .. }) => match &**pat {
                        Pat::Ident(pattern) => variable(&pattern.ident.unraw().to_string(), ty),
                        _ => panic!("{name}: a parameter without a name"),
                    },
                    FnArg::Receiver(_) => panic!("{name} is a method"),
                });
                let parameters = parameters.collect();
                let (module, result) = (module.to_owned(), result(&item.sig.output));
                self.functions.push(Function { name, module, result, parameters });
            }
        }
    }

    /// The value of a constant's expression.
    fn number(&self, value: &Expr) -> u64 {
        match value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(number) => number.base10_parse().unwrap(),
                _ => panic!("a constant that is no number"),
            },
            Expr::Path(path) if path.path.segments.len() == 1 => {
                self.constant(&path.path.segments[0].ident.to_string())
            }
            Expr::Path(path) if path.path.segments[1].ident == "MAX" => {
                assert!(path.path.segments[0].ident == "u64", "only u64::MAX is known");
                u64::MAX
            }
            Expr::Binary(sum) if matches!(sum.op, syn::BinOp::Sub(_)) => {
                self.number(&sum.left) - self.number(&sum.right)
            }
            _ => panic!("a constant whose expression is not known here"),
        }
    }

    /// The value that a length stands for: a number, or a constant's name.
    pub fn length(&self, text: &str) -> u64 {
        text.parse().unwrap_or_else(|_| self.constant(text))
    }

    pub fn constant(&self, name: &str) -> u64 {
        let found = self.constants.iter().find(|item| item.name == name);
        found.unwrap_or_else(|| panic!("no constant {name} above its use")).value
    }

    pub fn structure(&self, name: &str) -> &Struct {
        let found = self.structs.iter().find(|item| item.name == name);
        found.unwrap_or_else(|| panic!("no structure {name}"))
    }
}

/// The files of the modules that `mod.rs` declares, in its order.
fn modules(folder: &Path) -> Vec<PathBuf> {
    let file = parse(&folder.join("mod.rs"));
    let declared = file.items.iter().filter_map(|item| match item {
        Item::Mod(module) if module.content.is_none() => Some(module.ident.to_string()),
        _ => None,
    });
    let files = declared.flat_map(|name| match folder.join(&name) {
        nested if nested.is_dir() => modules(&nested),
        _ => vec![folder.join(format!("{name}.rs"))],
    });
    files.collect()
}

/// The text of a source file, with the constants that the build script makes from the tables in the same folder.
pub fn source(path: &Path) -> String {
    let mut text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    for file in ["devices.rs", "dtypes.rs"] {
        let place = format!("include!(concat!(env!(\"OUT_DIR\"), \"/{file}\"));");
        if text.contains(&place) {
            text = text.replace(&place, &tables::constants(path.parent().unwrap(), file));
        }
    }
    text
}

fn parse(path: &Path) -> syn::File {
    let text = source(path);
    syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Exported functions have their names under a condition: the feature `exports`.
fn is_exported(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg_attr")
            && matches!(&attribute.meta, syn::Meta::List(list)
                if list.tokens.to_string().contains("no_mangle"))
    })
}

fn last(path: &syn::Path) -> &syn::PathSegment {
    path.segments.last().unwrap()
}

/// A type that is no array and no pointer to a function.
fn c_type(ty: &Type) -> String {
    match ty {
        Type::Ptr(pointer) => {
            let target = c_type(&pointer.elem);
            let text = match (&*pointer.elem, pointer.const_token.is_some()) {
                (Type::Ptr(_), true) => format!("{target} const *"),
                (_, true) => format!("const {target} *"),
                (_, false) => format!("{target} *"),
            };
            text.replace("* ", "*")
        }
        Type::Path(path) => match last(&path.path).ident.to_string().as_str() {
            "c_void" => "void".to_owned(),
            "c_char" => "char".to_owned(),
            "usize" => "size_t".to_owned(),
            number @ ("i8" | "i16" | "i32" | "i64") => format!("int{}_t", &number[1..]),
            number @ ("u8" | "u16" | "u32" | "u64") => format!("uint{}_t", &number[1..]),
            name => name.to_owned(),
        },
        _ => panic!("a type that has no name in C"),
    }
}

fn result(output: &ReturnType) -> String {
    match output {
        ReturnType::Default => "void".to_owned(),
        ReturnType::Type(_, ty) => c_type(ty),
    }
}

/// A member or a parameter.
fn variable(name: &str, ty: &Type) -> Variable {
    let plain = |ctype: String| Variable {
        ctype,
        name: name.to_owned(),
        length: String::new(),
        parameters: None,
    };
    match ty {
        Type::Array(array) => {
            let length = match &array.len {
                Expr::Lit(literal) => match &literal.lit {
                    Lit::Int(number) => number.base10_digits().to_owned(),
                    _ => panic!("{name}: a length that is no number"),
                },
                Expr::Path(path) => last(&path.path).ident.to_string(),
                _ => panic!("{name}: a length that is no number and no constant"),
            };
            Variable { length, ..plain(c_type(&array.elem)) }
        }
        Type::Path(path) if last(&path.path).ident == "Option" => {
            let syn::PathArguments::AngleBracketed(arguments) = &last(&path.path).arguments else {
                panic!("{name}: Option of nothing")
            };
            let Some(syn::GenericArgument::Type(Type::BareFn(function))) = arguments.args.first()
            else {
                panic!("{name}: Option of something else than a function")
            };
            let parameters = function.inputs.iter().map(|input| {
                let name = input.name.as_ref().map(|(name, _)| name.to_string());
                variable(&name.unwrap_or_default(), &input.ty)
            });
            Variable { parameters: Some(parameters.collect()), ..plain(result(&function.output)) }
        }
        _ => plain(c_type(ty)),
    }
}
