//! `abi/layout.txt`: sizes, offsets, constants and signatures as a C compiler sees them. What it
//! lists may only grow: a line that changes or vanishes breaks programs that are compiled already.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::c::{declaration, signature};
use crate::items::Items;

/// A program that prints the layout, compiled against the headers and run.
pub fn dump(root: &Path, items: &Items) -> String {
    let mut source = String::from(
        "#include <cai/cai.h>\n#include <stdio.h>\n\
         #define CONSTANT(name) printf(\"%s = %lld\\n\", #name, (long long)(name))\n\
         #define STRUCT(type) printf(\"\\n%s: %zu bytes\\n\", #type, sizeof(type))\n\
         #define MEMBER(type, name, text) \\\n\
         printf(\"%5zu %4zu  %s\\n\", offsetof(type, name), sizeof(((type *)0)->name), text)\n\
         int main(void) {\n",
    );
    for constant in &items.constants {
        writeln!(source, "CONSTANT({});", constant.name).unwrap();
    }
    for item in &items.structs {
        writeln!(source, "STRUCT({});", item.name).unwrap();
        for member in &item.members {
            let text = declaration(member);
            writeln!(source, "MEMBER({}, {}, {text:?});", item.name, member.name).unwrap();
        }
    }
    source += "return 0; }\n";

    let folder = root.join("target/capi/layout");
    fs::create_dir_all(&folder).unwrap();
    let (file, program) = (folder.join("layout.c"), folder.join("layout"));
    fs::write(&file, source).unwrap();
    let compiler = std::env::var_os("CC").unwrap_or("cc".into());
    let mut command = Command::new(compiler);
    command.arg("-std=c99").arg("-I").arg(root.join("include")).arg(file).arg("-o").arg(&program);
    assert!(command.status().unwrap().success());
    let output = Command::new(program).output().unwrap();
    assert!(output.status.success());

    let mut text = String::from_utf8(output.stdout).unwrap() + "\n";
    for alias in &items.aliases {
        writeln!(text, "typedef {} {};", alias.ctype, alias.name).unwrap();
    }
    text += "\n";
    for function in &items.functions {
        text += &signature("", function);
    }
    text
}
