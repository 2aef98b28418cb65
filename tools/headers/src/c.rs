//! Declarations as C has them.

use crate::items::{FOREIGN, Function, Variable};

/// C++ and C know all types by their `typedef`, except those of other projects.
fn ctype(text: &str) -> String {
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

/// A function's head and its parameters in one line.
pub fn signature(function: &Function) -> String {
    let result = ctype(&function.result);
    let space = if result.ends_with('*') { "" } else { " " };
    let parameters: Vec<String> = function.parameters.iter().map(declaration).collect();
    let list = if parameters.is_empty() { "void".to_owned() } else { parameters.join(", ") };
    format!("{result}{space}{}({list});\n", function.name)
}
