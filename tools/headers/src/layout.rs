//! `abi/layout.txt`: sizes, offsets, constants and signatures as a C compiler sees them, one fact a line.
//!
//! It begins with the lines of the last release, which stay: one that changes or vanishes breaks programs that are
//! compiled already. New lines follow. A line that docs/src/versions.md allows to vanish, such as the size of a
//! structure that grew, is removed by hand.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::c::{declaration, signature};
use crate::headers;
use crate::items::Items;

const FILE: &str = "abi/layout.txt";
const SINCE: &str = "\n# Since the last release\n";

/// The text of the file for the present headers, or the lines of the last release that they do not have any more.
pub fn text(root: &Path, items: &Items) -> Result<String, Vec<String>> {
    let file = fs::read_to_string(root.join(FILE)).unwrap();
    let (released, _) = file.split_once(SINCE).unwrap_or((&file, ""));
    let present = dump(root, items);
    let has = |text: &str, line: &str| line.is_empty() || text.lines().any(|other| other == line);
    let vanished: Vec<String> =
        released.lines().filter(|line| !has(&present, line)).map(str::to_owned).collect();
    if !vanished.is_empty() {
        return Err(vanished);
    }
    let new: String = present
        .lines()
        .filter(|line| !has(released, line))
        .map(|line| format!("{line}\n"))
        .collect();
    Ok(if new.is_empty() { released.to_owned() } else { format!("{released}{SINCE}{new}") })
}

/// Compiles a program with the headers that prints most of it.
pub fn dump(root: &Path, items: &Items) -> String {
    let mut source = String::from("#include <cai/cai.h>\n");
    for name in headers::unstable() {
        writeln!(source, "#include <cai/{name}.h>").unwrap();
    }
    source += "#include <stdio.h>\n\
         #define CONSTANT(name) printf(\"%s = %lld\\n\", #name, (long long)(name))\n\
         #define STRUCT(type) printf(\"\\n%s: %zu bytes\\n\", #type, sizeof(type))\n\
         #define MEMBER(type, name, text) \\\n\
         printf(\"%s.%s: %zu %zu  %s\\n\", #type, #name, offsetof(type, name), sizeof(((type *)0)->name), text)\n\
         int main(void) {\n";
    for constant in &items.constants {
        // The version grows with the list.
        if constant.name != "CAI_ABI_MINOR" {
            writeln!(source, "CONSTANT({});", constant.name).unwrap();
        }
    }
    for item in &items.structs {
        writeln!(source, "STRUCT({});", item.name).unwrap();
        for member in &item.members {
            let text = declaration(member);
            writeln!(source, "MEMBER({}, {}, {text:?});", item.name, member.name).unwrap();
        }
    }
    source += "return 0; }\n";

    let folder = crate::scratch();
    let (file, program) = (folder.join("layout.c"), folder.join("layout"));
    fs::write(&file, source).unwrap();
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or("cc".into()));
    compiler.arg("-std=c99").arg("-I").arg(root.join("include")).arg(&file).arg("-o").arg(&program);
    assert!(compiler.status().unwrap().success());
    let output = Command::new(&program).output().unwrap();
    assert!(output.status.success());
    fs::remove_dir_all(folder).unwrap();

    let mut text = String::from_utf8(output.stdout).unwrap() + "\n";
    for alias in &items.aliases {
        writeln!(text, "typedef {} {};", alias.ctype, alias.name).unwrap();
    }
    text += "\n";
    for function in &items.functions {
        text += &signature(function);
    }
    text
}
