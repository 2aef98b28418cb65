//! Runs the C and C++ programs below capi-tests/ and contrib/tests/: one named test for each program and each way to run it.
//!
//! The first comment of a program says how it runs, in lines that begin with `run:`. Each of these words is followed by
//! its values; semicolons have no meaning:
//!
//! - `plain`, `asan`, `valgrind`: as it is; with AddressSanitizer and UndefinedBehaviorSanitizer in the program and in
//!   the library; under valgrind, only with SLOW_TESTS.
//! - `ages COMPILER...`: with today's headers and a later library (tools/later_age.py), and the reverse; compiled by gcc
//!   and by clang, or by these. `later`: both are later.
//! - `clang`: compiled by clang as C++23. `clang libc++`: with clang's own C++ library, only with SLOW_TESTS.
//! - `sim SCHEDULE...`: on the simulated driver, each CASE by itself. Without values: all of [`SCHEDULES`]. Under
//!   `hidden`, which is `lazy`, the race checker does not observe the library, which then takes its fast path. `asan` then
//!   runs each CASE too, by default under `lazy` and `threads`, and `valgrind` all of them in one test, under `lazy`.
//! - `devices NUMBER...`: in place of 1 and 2.
//! - `arguments WORD...`: in place of cases.
//! - `with NAME= VALUE...`: each case with each value of an environment variable.
//! - `refuse`: in each case, the first, second and last call of each function of the driver returns some of [`CODES`], others
//!   in the next case; with SLOW_TESTS, each of them. `refuse each CODE...`: every call returns these; `refuse documented`:
//!   those that cuda.h documents for the function.
//! - `omit CASE...`: in these cases, each call that orders work is left out once, and the case must fail.
//! - `flags FLAG...`: for the compiler.
//! - `gpu`: also runs in `make gpu-test`.
//! - `not PLATFORM...`: tools/targets and tools/dist/programs.sh leave it out there.
//! - `by FILE`: only that test builds and runs it.
//!
//! `plain`, `asan` and `valgrind` test the library that cargo built for this test; the simulated driver runs with the
//! release build of `make lib`, or both with the one that CAI_LIBRARY names. CUDA_SIM_ROOT names the prefix of
//! the simulator. With PROGRAMS, only tests that match one of its words run, in which `*` stands for any text; with
//! FAIL_FAST, the first failure ends this process. Filters on the command line work as always.

mod build;
mod simulator;
mod special;

use build::{Result, Source, program, run, sanitizer};
use libtest_mimic::{Arguments, Trial};
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::{env, fs, thread};

/// The schedules of the simulated driver, and `hidden`.
const SCHEDULES: &[&str] = &["eager", "lazy", "random:7", "threads", "hidden"];

/// Out of memory, the process exits, no context, a bad handle, a failed kernel, a destroyed context, a capture, a
/// detached stream, something unknown, and a number that no header knows.
const CODES: &[i32] = &[2, 4, 201, 400, 719, 709, 900, 917, 999, 12345];

/// A test and its name.
type Test = (String, Box<dyn FnOnce() -> Result<()> + Send>);

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn main() {
    let arguments = Arguments::from_args();
    let only = env::var("PROGRAMS").ok();
    let is_wanted = |name: &str| {
        only.as_ref().is_none_or(|words| words.split(' ').any(|word| matches(word, name)))
    };
    let may_be_wanted = |source: &Source| {
        only.as_ref().is_none_or(|words| {
            let starts = words.split(' ').filter_map(|word| word.split(['*', ':']).next());
            starts.into_iter().any(|start| source.name.starts_with(start))
        })
    };
    build::built();
    let sources = sources().leak() as &'static [Source];
    let mut tests = special::tests();
    // Listing the cases of a program compiles it, unless that was done before.
    tests.extend(thread::scope(|scope| {
        let running: Vec<_> = sources
            .iter()
            .filter(|source| may_be_wanted(source))
            .map(|source| scope.spawn(move || tests_of(source)))
            .collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    }));
    let fails_fast = env::var_os("FAIL_FAST").is_some();
    let trials = tests.into_iter().filter(|(name, _)| is_wanted(name)).map(|(name, test)| {
        let shown = name.clone();
        let is_ignored =
            !is_slow() && ["::valgrind", "::clang libc++"].iter().any(|way| name.ends_with(way));
        let trial = Trial::test(name, move || {
            test().map_err(|why| {
                if fails_fast {
                    // The name of another test may stand on the line.
                    println!("\nfailed: {shown}\n{why}");
                    exit(1);
                }
                why.into()
            })
        });
        trial.with_ignored_flag(is_ignored)
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// True if the tests run that take as long as all others.
fn is_slow() -> bool {
    env::var_os("SLOW_TESTS").is_some()
}

/// True if a name is a text in which each `*` stands for any text.
fn matches(text: &str, name: &str) -> bool {
    match text.split_once('*') {
        None => text == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            name.char_indices()
                .map(|(at, _)| at)
                .chain([name.len()])
                .any(|at| matches(rest, &name[at..]))
        }),
    }
}

/// All programs, those that take longest first.
fn sources() -> Vec<Source> {
    fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|kind| kind == "c" || kind == "cpp") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    collect(&root().join("capi-tests"), &mut found);
    collect(&root().join("contrib/tests"), &mut found);
    found.sort();
    let mut sources: Vec<_> = found.into_iter().filter_map(Source::read).collect();
    sources.sort_by_key(|source| (!source.has("clang"), !source.has("refuse")));
    sources
}

fn tests_of(source: &'static Source) -> Vec<Test> {
    if let Err(why) = &source.run {
        let why = format!("{}: {why}", source.path.display());
        return vec![(source.name.clone(), Box::new(move || Err(why)))];
    }
    if source.has("sim") || source.has("refuse") {
        return simulator::tests_of(source);
    }
    let ways = ["valgrind", "asan", "plain", "clang"].map(|way| (way, way));
    let ages = [
        ("ages", "today with later"),
        ("ages", "later with today"),
        ("ages", "clang today with later"),
        ("ages", "clang later with today"),
        ("later", "later with later"),
    ];
    ways.into_iter()
        .chain(ages)
        .filter(|(word, way)| {
            let compiler = if way.starts_with("clang") { "clang" } else { "gcc" };
            source.has(word)
                && (*word != "ages"
                    || source.values_or(word, &["gcc", "clang"]).contains(&compiler))
        })
        .map(|(_, way)| {
            let libc =
                if way == "clang" && build::has_own_library(source) { " libc++" } else { "" };
            let name = format!("{}::{way}{libc}", source.name);
            (name, Box::new(move || alone(source, way).map(drop)) as _)
        })
        .collect()
}

/// Runs a program that needs no driver. Returns what it printed.
fn alone(source: &Source, way: &str) -> Result<String> {
    let mut command = match way {
        "valgrind" => valgrind("all"),
        _ => build::limited(120),
    };
    let way = if way == "valgrind" { "plain" } else { way };
    run(sanitizer(&mut command)
        .arg(program(source, way)?)
        .env("LD_LIBRARY_PATH", build::library()?))
}

/// Valgrind, with the kinds of leaks that are errors.
fn valgrind(leaks: &str) -> Command {
    let mut command = build::limited(600);
    command
        .args(["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--fair-sched=yes"])
        .arg(format!("--show-leak-kinds={leaks}"))
        .arg(format!("--errors-for-leak-kinds={leaks}"));
    command
}
