//! Compiles and runs the C programs of `capi-tests/` against the library that `cargo test` built: plainly,
//! under AddressSanitizer and UndefinedBehaviorSanitizer, and under valgrind where it is installed.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const STRICT: &[&str] =
    &["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-g"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where `cargo test` leaves `libcai.so` and `libcai.a`: beside this test.
fn library_folder() -> PathBuf {
    let folder = env::current_exe().unwrap().parent().unwrap().to_owned();
    assert!(folder.join("libcai.so").exists(), "no libcai.so in {}", folder.display());
    folder
}

/// A fresh folder for what one test builds. It also holds the library under its SONAME.
fn scratch(name: &str) -> PathBuf {
    let folder = root().join("target/capi").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(library_folder().join("libcai.so"), folder.join("libcai.so.1"))
        .unwrap();
    folder
}

/// A compiler for C or C++, as `CC` and `CXX` say or as the platform has it.
fn compiler(cpp: bool) -> Command {
    let target = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    let mut build = cc::Build::new();
    build
        .cpp(cpp)
        .target(&target)
        .host(&target)
        .opt_level(1)
        .debug(true)
        .cargo_metadata(false)
        .warnings(true);
    let tool = build.get_compiler();
    let mut command = Command::new(tool.path());
    command
        .args(tool.args())
        .args(STRICT)
        .arg("-I")
        .arg(root().join("include"))
        .arg("-I")
        .arg(root().join("capi-tests"));
    command.arg(if cpp { "-std=c++17" } else { "-std=c99" });
    command
}

fn run(command: &mut Command) -> String {
    let line = |command: &Command| {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    };
    let output = command.output().unwrap_or_else(|error| panic!("{}: {error}", line(command)));
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{}: {}\n{text}", line(command), output.status);
    text
}

/// Compiles a program against the shared library.
fn build(folder: &Path, source: &Path, extra: &[&str]) -> PathBuf {
    let program = folder.join(source.file_stem().unwrap());
    let mut command = compiler(source.extension() == Some(OsStr::new("cpp")));
    command.args(extra).arg(source).arg("-o").arg(&program).arg("-L").arg(library_folder());
    command.args(["-lcai", "-lpthread", "-ldl"]).arg(format!("-Wl,-rpath,{}", folder.display()));
    run(&mut command);
    program
}

fn sources() -> Vec<PathBuf> {
    let mut sources: Vec<PathBuf> = fs::read_dir(root().join("capi-tests"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension().is_some_and(|extension| extension == "c" || extension == "cpp")
        })
        .collect();
    sources.sort();
    assert!(sources.len() > 7);
    sources
}

/// Calls `work` for every program, in as many threads as there are processors.
fn for_each_source(work: impl Fn(&Path) + Sync) {
    let sources = sources();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(source) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(source);
                }
            });
        }
    });
}

/// The folder of the programs as they are, compiled once for all tests of this process.
fn programs_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = scratch("programs");
        for_each_source(|source| drop(build(&folder, source, &[])));
        folder
    })
}

#[test]
fn programs() {
    let folder = programs_folder();
    for_each_source(|source| {
        drop(run(&mut Command::new(folder.join(source.file_stem().unwrap()))))
    });
}

#[test]
#[cfg(debug_assertions)]
fn a_destroy_that_is_left_by_longjmp_is_reported() {
    let text = run(&mut Command::new(programs_folder().join("cpp_owner")));
    assert!(text.contains("libcai: a destroy function did not return"), "{text}");
}

/// The library is instrumented too: rustc's option for it is unstable, which RUSTC_BOOTSTRAP allows.
#[test]
fn programs_under_sanitizers() {
    let folder = scratch("sanitizers");
    let target = root().join("target/asan");
    let triple = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    run(Command::new(env!("CARGO"))
        .current_dir(root())
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Zsanitizer=address")
        .args([
            "rustc",
            "-q",
            "--lib",
            "--crate-type",
            "staticlib",
            "--target",
            &triple,
            "--target-dir",
        ])
        .arg(&target));
    let library = target.join(triple).join("debug/libcai.a");
    let flags =
        ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];
    for_each_source(|source| {
        let program = folder.join(source.file_stem().unwrap());
        let mut command = compiler(source.extension() == Some(OsStr::new("cpp")));
        command.args(flags).arg(source).arg(&library).arg("-o").arg(&program);
        run(command.args(["-lpthread", "-ldl", "-lm"]));
        // The proof that the sanitizer is in the program.
        assert!(run(Command::new("nm").arg(&program)).contains("__asan_init"));
        // Without an alternate signal stack: where a thread that was ended inside a call unwinds,
        // the sanitizer itself would use stack whose shadow the skipped frames left poisoned.
        run(Command::new(program).env("ASAN_OPTIONS", "detect_leaks=1:use_sigaltstack=0"));
    });
    let symbols = run(Command::new("nm").arg("-u").arg(&library));
    assert!(symbols.contains("__asan_report_load"), "the library is not instrumented");
}

#[test]
fn programs_under_valgrind() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("valgrind is not installed: skipped");
        return;
    }
    let folder = programs_folder();
    for_each_source(|source| {
        let program = folder.join(source.file_stem().unwrap());
        run(Command::new("valgrind")
            .args([
                "-q",
                "--error-exitcode=9",
                "--leak-check=full",
                "--show-leak-kinds=all",
                "--fair-sched=yes",
            ])
            .arg("--errors-for-leak-kinds=all")
            .arg(program));
    });
}

#[test]
fn a_consumer_that_links_nothing() {
    let folder = scratch("header_only");
    let program = folder.join("header_only");
    for (cpp, standard) in [(false, "-std=c99"), (true, "-std=c++11")] {
        let mut command = compiler(cpp);
        command.arg(standard).args(["-x", if cpp { "c++" } else { "c" }, "-Wno-unused-function"]);
        // The test's helpers for owners need the library; this program does not call them.
        command.args([
            "-O1",
            "-ffunction-sections",
            "-Wl,--gc-sections",
            "-Wl,--unresolved-symbols=report-all",
        ]);
        command.arg(root().join("capi-tests/special/header_only.c")).arg("-o").arg(&program);
        run(&mut command);
        run(&mut Command::new(&program));
        assert!(!run(Command::new("nm").arg("-u").arg(&program)).contains("cai_"));
    }
}

/// Two plug-ins, each with a copy of the library of its own, built apart: one debug, one release.
#[test]
fn two_copies_in_one_process() {
    let folder = scratch("copies");
    // What `make lib` has built, or now: cargo locks the folder of each profile by itself, and that of
    // the other one while this test runs.
    let target = root().join("target");
    run(Command::new(env!("CARGO"))
        .current_dir(root())
        .args(["rustc", "-q", "--release", "--lib", "--crate-type", "staticlib", "--target-dir"])
        .arg(&target));
    let copies = [library_folder().join("libcai.a"), target.join("release/libcai.a")];
    let mut plugins = Vec::new();
    for (name, archive) in ["a.so", "b.so"].iter().zip(&copies) {
        let plugin = folder.join(name);
        let mut command = compiler(false);
        command.args(["-shared", "-fPIC", "-fvisibility=hidden", "-DCAI_STATIC"]);
        command.arg(root().join("capi-tests/special/copy.c")).arg(archive).arg("-o").arg(&plugin);
        command.args([
            "-Wl,--exclude-libs,libcai.a",
            "-Wl,--gc-sections",
            "-lpthread",
            "-ldl",
            "-lm",
        ]);
        run(&mut command);
        let exported = run(Command::new("nm").args(["-D", "--defined-only"]).arg(&plugin));
        assert!(!exported.contains("cai_"), "the copy must be the plug-in's own:\n{exported}");
        plugins.push(plugin);
    }
    let main = folder.join("copies");
    let mut command = compiler(false);
    command.arg("-Wno-unused-function").args(["-ffunction-sections", "-Wl,--gc-sections"]);
    command.arg(root().join("capi-tests/special/copies.c")).arg("-o").arg(&main).arg("-ldl");
    run(&mut command);
    run(Command::new(&main).args(&plugins));
}

/// Each allocation of each function fails once. The program stands in for malloc, so no sanitizer is in it.
#[test]
fn out_of_memory() {
    let folder = scratch("out_of_memory");
    let program =
        build(&folder, &root().join("capi-tests/special/out_of_memory.c"), &["-std=gnu99"]);
    run(&mut Command::new(program));
}

/// Only the names in `abi/symbols.txt` leave the library.
#[test]
fn exported_symbols() {
    let text = run(Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library_folder().join("libcai.so")));
    let mut names: Vec<&str> =
        text.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    names.sort_unstable();
    let list = root().join("abi/symbols.txt");
    let found = names.join("\n") + "\n";
    if env::var_os("CAI_BLESS").is_some() {
        fs::create_dir_all(root().join("abi")).unwrap();
        fs::write(&list, &found).unwrap();
    }
    assert!(names.iter().all(|name| name.starts_with("cai_")), "{found}");
    assert_eq!(
        found,
        fs::read_to_string(list).unwrap(),
        "run `make header` if a function was added"
    );
}
