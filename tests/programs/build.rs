//! Compiles programs and libraries, each once: what was compiled before from the same files in the same way is kept
//! below target/programs.

use crate::{root, simulator};
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::hash::{Hash, Hasher};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::time::SystemTime;
use std::{env, fs, process};

pub type Result<T> = std::result::Result<T, String>;

pub const STRICT: &[&str] =
    &["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"];
pub const SANITIZE: &[&str] =
    &["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];

const WORDS: &[&str] = &[
    "plain",
    "asan",
    "valgrind",
    "ages",
    "later",
    "clang",
    "sim",
    "devices",
    "arguments",
    "with",
    "refuse",
    "omit",
    "flags",
    "gpu",
    "not",
    "by",
];

/// A file of a program, and how the program runs.
pub struct Source {
    pub path: PathBuf,
    /// Its path below capi-tests, or else below the root, without the extension.
    pub name: String,
    /// The words of its `run:` lines, each with its values.
    pub run: Result<Vec<(String, Vec<String>)>>,
}

impl Source {
    /// Returns None for a file without `main`, which belongs to another program.
    pub fn read(path: PathBuf) -> Option<Source> {
        let text = fs::read_to_string(&path).unwrap();
        let below = |folder: &str| path.strip_prefix(root().join(folder));
        let name = below("capi-tests").or(below("")).unwrap().with_extension("");
        let is_program = text.contains("int main(") || words(&text).is_ok();
        is_program.then(|| Source { name: name.display().to_string(), run: words(&text), path })
    }

    pub fn has(&self, word: &str) -> bool {
        self.run.iter().flatten().any(|(found, _)| found == word)
    }

    pub fn values(&self, word: &str) -> Vec<&str> {
        let all = self.run.iter().flatten().filter(|(found, _)| found == word);
        all.flat_map(|(_, values)| values.iter().map(String::as_str)).collect()
    }

    pub fn values_or<'a>(&'a self, word: &str, otherwise: &[&'a str]) -> Vec<&'a str> {
        let found = self.values(word);
        if found.is_empty() { otherwise.to_vec() } else { found }
    }
}

/// The words of the first comment's `run:` lines.
fn words(text: &str) -> Result<Vec<(String, Vec<String>)>> {
    let comment = if text.starts_with("//") {
        text.lines().take_while(|line| line.starts_with("//")).collect::<Vec<_>>().join("\n")
    } else {
        text.split("*/").next().unwrap().to_owned()
    };
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for line in comment.lines() {
        let line = line.trim_start_matches([' ', '*', '/']);
        for (index, word) in line.strip_prefix("run: ").unwrap_or("").split([' ', ';']).enumerate()
        {
            if WORDS.contains(&word) {
                found.push((word.to_owned(), Vec::new()));
            } else if !word.is_empty() {
                let last = found.last_mut().filter(|_| index > 0);
                let last = last.ok_or(format!("`run: {word}` is not in tests/programs/main.rs"))?;
                last.1.push(word.to_owned());
            }
        }
    }
    if found.is_empty() {
        return Err("its first comment needs a line `run:`, see tests/programs/main.rs".to_owned());
    }
    Ok(found)
}

/// Runs a command that must succeed. Returns what it printed.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    Err(format!("{command:?}: {}\n{text}", output.status))
}

/// A command that ends after so many seconds.
pub fn limited(seconds: u32) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", &seconds.to_string()]);
    command
}

/// Without an alternate signal stack: where a thread that was ended inside a call unwinds, the sanitizer itself would use
/// stack whose shadow the skipped frames left poisoned.
pub fn sanitizer(command: &mut Command) -> &mut Command {
    command.env("ASAN_OPTIONS", "detect_leaks=1:use_sigaltstack=0")
}

/// Copies of `libcai.so` and `libcai.a` that cargo built for this test. Cargo has them beside it, and replaces them when it
/// builds another package that depends on the library.
pub fn built() -> &'static Path {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let (exe, folder) = (env::current_exe().unwrap(), programs().join("library"));
        fs::create_dir_all(&folder).unwrap();
        for name in ["libcai.so", "libcai.a"] {
            let (from, to) = (exe.with_file_name(name), folder.join(name));
            if modified(&to) < modified(&from) {
                let made = folder.join(format!("{name}.{}", process::id()));
                fs::copy(from, &made).unwrap();
                fs::rename(made, to).unwrap();
            }
        }
        folder
    });
    &FOLDER
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|data| data.modified()).ok()
}

/// Cargo's folder for this tree.
pub fn target() -> PathBuf {
    env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned()
}

/// Returns the folder of the programs that this test compiles.
pub fn programs() -> PathBuf {
    target().join("programs")
}

/// The folder of the library that programs run with, under its SONAME.
pub fn library() -> Result<PathBuf> {
    linked(&env::var_os("CAI_LIBRARY").map_or(built().join("libcai.so"), PathBuf::from))
}

/// The folder of the release build. One that is older than the sources would test what they were.
pub fn release() -> Result<PathBuf> {
    if let Some(library) = env::var_os("CAI_LIBRARY") {
        return linked(Path::new(&library));
    }
    let library = target().join("release/libcai.so");
    if !library.exists() {
        return Err("no release build of the library: run `make lib`".to_owned());
    }
    let mut find = Command::new("find");
    find.arg(root().join("src")).args(["-type", "f", "-newer"]).arg(&library);
    if let Some(newer) = run(&mut find)?.lines().next() {
        return Err(format!("{} is older than {newer}: run `make lib`", library.display()));
    }
    linked(&library)
}

/// A folder with a library under its SONAME.
pub fn linked(library: &Path) -> Result<PathBuf> {
    if !library.exists() {
        return Err(format!("{} does not exist", library.display()));
    }
    let folder = programs().join(format!("library-{:x}", hash_of(library)));
    fs::create_dir_all(&folder).unwrap();
    let made = std::os::unix::fs::symlink(library, folder.join("libcai.so.1"));
    made.or_else(
        |error| if error.kind() == ErrorKind::AlreadyExists { Ok(()) } else { Err(error) },
    )
    .unwrap();
    Ok(folder)
}

pub fn hash_of(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The compiler for C or C++ that CC or CXX names, or gcc's.
pub fn compiler(cpp: bool) -> Command {
    let (name, otherwise) = if cpp { ("CXX", "g++") } else { ("CC", "gcc") };
    let text = env::var(name).unwrap_or(otherwise.to_owned());
    let mut words = text.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    command.args(words);
    command
}

/// Clang is that of zig. Its own C++ library, which zig compiles first, takes three minutes of a core: only programs
/// that ask for it have it, the others have that of gcc.
fn clang(cpp: bool, own_library: bool) -> Result<Command> {
    let mut command = Command::new(python());
    command.args(["-m", "ziglang", if cpp && own_library { "c++" } else { "cc" }]);
    command.env("ZIG_GLOBAL_CACHE_DIR", root().join("build/zig"));
    if !own_library {
        // Undefined behavior, which zig looks for, ends a program with a signal. To compile the library that would print
        // what it was takes 40 seconds of a core.
        command.arg("-fsanitize-trap=undefined");
    }
    if cpp && !own_library {
        let mut gcc = compiler(true);
        let text = run(gcc.args(["-E", "-v", "-x", "c++", "/dev/null"]))?;
        // Before C's, which theirs include next; those of another directory are for gcc's own built-in functions.
        let folders = text.lines().map(str::trim).filter(|line| line.starts_with('/'));
        let folders = folders.filter(|line| line.contains("c++") && Path::new(line).is_dir());
        command.arg("-nostdinc++").args(folders.map(|folder| format!("-I{folder}")));
    }
    if root().join("build/venv/ready").exists() { Ok(command) } else { Err(NO_PACKAGES.to_owned()) }
}

/// The path of a library of gcc.
fn of_gcc(library: &str) -> Result<String> {
    let path = run(compiler(false).arg(format!("-print-file-name={library}")))?;
    Ok(path.trim().to_owned())
}

pub const NO_PACKAGES: &str = "the packages for tests are missing: run `make build/venv/ready`";

pub fn python() -> PathBuf {
    let own = root().join("build/venv/bin/python");
    if own.exists() { own } else { "python3".into() }
}

/// True if clang compiles a program with its own C++ library.
pub fn has_own_library(source: &Source) -> bool {
    source.values("clang").contains(&"libc++")
}

/// Compiles a program for a way to run it.
pub fn program(source: &Source, way: &str) -> Result<PathBuf> {
    let is_cpp = source.path.extension() == Some(OsStr::new("cpp"));
    let (is_clang, ages) = match way.strip_prefix("clang") {
        Some(ages) => (true, ages.trim_start()),
        None => (false, way),
    };
    let own_library = has_own_library(source);
    let mut command = if is_clang { clang(is_cpp, own_library)? } else { compiler(is_cpp) };
    let (headers, library) = match ages {
        "asan" | "sim asan" => ("today", Some("today")),
        "today with later" => ("today", Some("later")),
        "later with today" => ("later", Some("today")),
        "later with later" => ("later", Some("later")),
        _ => ("today", None),
    };
    let is_simulated = way.starts_with("sim");
    command.arg(match way {
        "clang" => "-std=c++23",
        _ if is_cpp => "-std=c++17",
        "plain" | "asan" => "-std=c99",
        _ => "-std=gnu11",
    });
    command.args(STRICT).args(match way {
        // With other options, zig would compile its C++ library once more.
        "clang" => &["-Wsign-conversion"][..],
        "sim" => &["-g", "-O1", "-Wno-pedantic", "-Wno-conversion", "-Wno-shadow"],
        "plain" => &["-g", "-O1"],
        // With optimization, gcc takes two to seven times as long for the sanitizers' code.
        "asan" => &["-g"],
        "sim asan" => &["-g", "-Wno-pedantic", "-Wno-conversion", "-Wno-shadow"],
        // Initializers of today do not name the later members.
        _ => &["-g", "-w"],
    });
    command.args(source.values("flags"));
    let sanitized = library.map(shared).transpose()?;
    if sanitized.is_some() && !is_clang {
        command.args(SANITIZE);
    }
    command.arg("-I").arg(self::headers(headers)?).arg("-I").arg(root().join("contrib/include"));
    command.arg("-I").arg(root().join("capi-tests"));
    if is_simulated {
        simulator::headers(&mut command)?;
    }
    command.arg(&source.path);
    match &sanitized {
        // The first library of a process.
        Some(library) if is_clang => command.arg(of_gcc("libasan.so")?).arg(library),
        Some(library) => command.arg(library),
        None => command.arg("-L").arg(built()).arg("-lcai"),
    };
    if is_clang && is_cpp && !own_library {
        command.arg(of_gcc("libstdc++.so")?).arg(of_gcc("libgcc_s.so.1")?);
    }
    if is_simulated {
        command.arg("-rdynamic").arg("-L").arg(&simulator::get()?.libraries).arg("-lcuda");
    }
    command.args(["-lpthread", "-ldl", "-lm"]);
    compiled(&way.replace(' ', "_"), &source.name, &mut command)
}

/// The library of an age as [`sanitized`] has it, as a shared object, which programs find by its path: linking it into
/// each takes longer than most of them run.
fn shared(age: &str) -> Result<PathBuf> {
    let archive = sanitized(age)?;
    let mut command = compiler(false);
    command.args(SANITIZE).args(["-shared", "-x", "c", "/dev/null", "-x", "none"]);
    command.arg("-Wl,--whole-archive").arg(archive).arg("-Wl,--no-whole-archive");
    command.args(["-lpthread", "-ldl", "-lm"]);
    compiled("shared", &format!("libcai-{age}.so"), &mut command)
}

/// The result of a compiler's command, which gets the option for its output here: `target/programs/WAY/NAME`. It runs
/// where an input has changed, or the command.
pub fn compiled(way: &str, name: &str, command: &mut Command) -> Result<PathBuf> {
    type Once = Arc<OnceLock<Result<PathBuf>>>;
    static DONE: LazyLock<Mutex<HashMap<PathBuf, Once>>> = LazyLock::new(Mutex::default);
    let target = programs().join(way).join(name);
    let cell = DONE.lock().unwrap().entry(target.clone()).or_default().clone();
    cell.get_or_init(|| compile(target, command)).clone()
}

fn compile(target: PathBuf, command: &mut Command) -> Result<PathBuf> {
    let beside = |kind: &str| {
        let mut path = target.clone().into_os_string();
        path.push(kind);
        PathBuf::from(path)
    };
    let (inputs, stamp) = (beside(".d"), beside(".stamp"));
    let line = format!("{command:?}");
    if fs::read_to_string(&stamp).is_ok_and(|text| Some(text) == state(&line, &inputs)) {
        return Ok(target);
    }
    fs::create_dir_all(target.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&stamp);
    // Another process may run the program.
    let made = beside(&format!(".{}", process::id()));
    run(command.arg("-MMD").arg("-MF").arg(&inputs).arg("-o").arg(&made))?;
    fs::rename(&made, &target).unwrap();
    fs::write(stamp, state(&line, &inputs).unwrap()).unwrap();
    Ok(target)
}

/// A number for a command and the files that it has read: those that the compiler has listed, and archives.
fn state(line: &str, inputs: &Path) -> Option<String> {
    let listed = fs::read_to_string(inputs).ok()?;
    let files = listed.split([' ', '\n', '\\', '"']).chain(line.split('"'));
    let mut hashes = vec![hash_of(line)];
    for file in files.filter(|word| word.starts_with('/') && Path::new(word).is_file()) {
        // Libraries are large.
        hashes.push(if file.ends_with(".a") || file.ends_with(".so") {
            hash_of(modified(Path::new(file)))
        } else {
            hash_of(fs::read(file).ok()?)
        });
    }
    Some(format!("{:x}", hash_of(hashes)))
}

/// The sources and headers of the later age.
fn later_tree() -> Result<PathBuf> {
    static DONE: OnceLock<Result<PathBuf>> = OnceLock::new();
    let made = DONE.get_or_init(|| {
        let tree = target().join("ages/tree");
        run(Command::new(python()).arg(root().join("tools/later_age.py")).arg(&tree))?;
        Ok(tree)
    });
    made.clone()
}

/// The headers of an age.
pub fn headers(age: &str) -> Result<PathBuf> {
    let tree = if age == "today" { root().to_owned() } else { later_tree()? };
    Ok(tree.join("include"))
}

/// The static library of an age with AddressSanitizer in its own code: rustc's option for it is unstable, which
/// RUSTC_BOOTSTRAP allows. Its reports need lines; with all else that debuggers read, it is twice as large.
pub fn sanitized(age: &str) -> Result<PathBuf> {
    static DONE: [OnceLock<Result<PathBuf>>; 2] = [OnceLock::new(), OnceLock::new()];
    let later = age == "later";
    DONE[usize::from(later)]
        .get_or_init(|| {
            let tree = if later { later_tree()? } else { root().to_owned() };
            let folder = target().join(if later { "ages" } else { "asan" });
            let triple = format!("{}-unknown-linux-gnu", env::consts::ARCH);
            run(Command::new(env!("CARGO"))
                .current_dir(&tree)
                .env("RUSTC_BOOTSTRAP", "1")
                .env("RUSTFLAGS", "-Zsanitizer=address")
                .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
                .args(["rustc", "-q", "--lib", "--crate-type", "staticlib", "--target", &triple])
                .arg("--target-dir")
                .arg(&folder))?;
            let library = folder.join(triple).join("debug/libcai.a");
            let symbols = run(Command::new("nm").arg("-u").arg(&library))?;
            if symbols.contains("__asan_report_load") {
                Ok(library)
            } else {
                Err("not instrumented".into())
            }
        })
        .clone()
}
