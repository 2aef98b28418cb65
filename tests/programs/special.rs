//! Programs that a line `run:` cannot describe: those that link nothing, copies of the library, and what only its files show.

use crate::build::{self, Result, Source, compiled, compiler, headers, limited, run, sanitizer};
use crate::{Test, alone, root};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn tests() -> Vec<Test> {
    let mut tests: Vec<Test> = vec![
        ("exported_symbols".to_owned(), Box::new(exported_symbols)),
        ("special/copies::debug and release".to_owned(), Box::new(copies_of_builds)),
        ("special/copies::ages".to_owned(), Box::new(copies_of_ages)),
    ];
    for (cpp, standard) in [(false, "-std=c99"), (true, "-std=c++11")] {
        let name = format!("special/header_only::{}", &standard[5..]);
        tests.push((name, Box::new(move || header_only(cpp, standard))));
    }
    if cfg!(debug_assertions) {
        tests.push(("cpp_owner::reports longjmp".to_owned(), Box::new(longjmp)));
    }
    tests
}

/// Only the names in abi/symbols.txt leave the library.
fn exported_symbols() -> Result<()> {
    let library = build::built().join("libcai.so");
    let text = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library))?;
    let mut names: Vec<_> = text.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    names.sort_unstable();
    let found = names.join("\n") + "\n";
    if !names.iter().all(|name| name.starts_with("cai_")) {
        return Err(found);
    }
    let list = fs::read_to_string(root().join("abi/symbols.txt"));
    let is_row = |line: &&str| !line.starts_with('#');
    let is_listed = list.is_ok_and(|list| {
        let rows = list.lines().filter(is_row).filter_map(|line| line.split(' ').next());
        rows.eq(names.iter().copied())
    });
    if is_listed { Ok(()) } else { Err("run `make header` if a function was added".to_owned()) }
}

fn special(name: &str) -> PathBuf {
    root().join("capi-tests/special").join(name)
}

/// A consumer that links nothing. The test's helpers for owners need the library; this program does not call them.
fn header_only(cpp: bool, standard: &str) -> Result<()> {
    let mut command = compiler(cpp);
    command.args([standard, "-O1", "-x", if cpp { "c++" } else { "c" }]).args(build::STRICT);
    command.args(["-Wno-unused-function", "-ffunction-sections", "-Wl,--gc-sections"]);
    command.args(["-Wl,--unresolved-symbols=report-all", "-I"]).arg(headers("today")?);
    command.arg("-I").arg(root().join("capi-tests")).arg(special("header_only.c"));
    let program = compiled("special", &format!("header_only{standard}"), &mut command)?;
    run(&mut Command::new(&program))?;
    let needed = run(Command::new("nm").arg("-u").arg(program))?;
    if needed.contains("cai_") { Err(needed) } else { Ok(()) }
}

/// A destroy function that is left by longjmp is reported.
fn longjmp() -> Result<()> {
    let source = Source::read(root().join("capi-tests/cpp_owner.cpp")).unwrap();
    let text = alone(&source, "plain")?;
    if text.contains("libcai: a destroy function did not return") { Ok(()) } else { Err(text) }
}

/// Two plug-ins in one process, each with a copy of the library of its own, built apart.
fn copies_of_builds() -> Result<()> {
    build::release()?;
    let release = build::target().join("release/libcai.a");
    let debug = build::built().join("libcai.a");
    copies("builds", &[("debug", "today", debug), ("release", "today", release)], build::STRICT)
}

/// The same with headers and library of two ages: each takes, keeps and releases the other's arrays.
fn copies_of_ages() -> Result<()> {
    let ages = [
        ("today", "today", build::sanitized("today")?),
        ("later", "later", build::sanitized("later")?),
    ];
    let flags = [&["-w", "-g"], build::SANITIZE].concat();
    copies("ages", &ages, &flags)
}

fn copies(kind: &str, plugins: &[(&str, &str, PathBuf); 2], flags: &[&str]) -> Result<()> {
    let compiler = |age: &str, source: &str| -> Result<Command> {
        let mut command = compiler(false);
        command.arg("-std=gnu99").args(flags).arg("-Wno-unused-function");
        command.args(["-ffunction-sections", "-Wl,--gc-sections", "-I"]).arg(headers(age)?);
        command.arg("-I").arg(root().join("capi-tests")).arg(special(source));
        Ok(command)
    };
    let mut made = Vec::new();
    for (name, age, archive) in plugins {
        let mut command = compiler(age, "copy.c")?;
        command.args(["-shared", "-fPIC", "-fvisibility=hidden", "-DCAI_STATIC"]).arg(archive);
        command.args(["-Wl,--exclude-libs,ALL", "-lpthread", "-ldl", "-lm"]);
        let plugin = compiled("special", &format!("copy-{kind}-{name}.so"), &mut command)?;
        let exported = run(Command::new("nm").args(["-D", "--defined-only"]).arg(&plugin))?;
        if exported.contains("cai_") {
            return Err(format!("the copy must be the plug-in's own:\n{exported}"));
        }
        made.push(plugin);
    }
    let main = compiler("today", "copies.c")?;
    let main = compiled("special", &format!("copies-{kind}"), { main }.arg("-ldl"))?;
    let both = |first: &Path, second: &Path| {
        run(sanitizer(limited(120).arg(&main).arg(first).arg(second))).map(drop)
    };
    both(&made[0], &made[1])?;
    both(&made[1], &made[0])
}
