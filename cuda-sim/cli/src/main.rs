//! The command `cuda-sim`: runs a program on the simulated driver and reports its races.

mod child;
mod folder;
mod html;
mod images;
mod junit;
mod kernels;
mod manual;
mod nearest;
mod options;
mod report;
mod sarif;
mod shadow;

use cudasim_core::declarations::Declarations;
use cudasim_core::shown::shown;
use folder::PrivateFolder;
use options::Options;
use report::Reports;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let called = arguments.next().unwrap_or_default();
    let mut arguments: Vec<OsString> = arguments.collect();
    // Under the name cai-race, the rules of array exchange are on.
    if Path::new(&called).file_name().is_some_and(|name| name == "cai-race") {
        let asked = arguments.first().and_then(|first| first.to_str());
        if !matches!(asked, Some("--help" | "-h" | "--version")) {
            arguments.splice(0..0, ["run".into(), "--rules=strict".into()]);
        }
    }
    match run(&arguments) {
        Ok(code) => code,
        Err(message) => {
            complain(&message);
            ExitCode::from(2)
        }
    }
}

fn complain(message: &str) {
    eprintln!("cuda-sim: {}", shown(message.as_bytes()));
}

fn run(arguments: &[OsString]) -> Result<ExitCode, String> {
    if requests_help(arguments) {
        print!("{}", options::usage());
        return Ok(ExitCode::SUCCESS);
    }
    match arguments.first().and_then(|first| first.to_str()) {
        Some("run") => run_program(&arguments[1..]),
        Some("--missing") => list_missing(&arguments[1..]),
        Some("kernels") => {
            let files = arguments[1..].strip_prefix(&[OsString::from("--")]);
            let files = files.unwrap_or(&arguments[1..]);
            if files.is_empty() {
                return Err("expected a program or a library".to_owned());
            }
            let found: Vec<OsString> = files
                .iter()
                .map(|file| find_program(Path::new(file)).map_or(file.clone(), Into::into))
                .collect();
            print!("{}", kernels::list(&found)?);
            Ok(ExitCode::SUCCESS)
        }
        Some("libdir") => {
            println!("{}", library_folders(false)?[0].display());
            Ok(ExitCode::SUCCESS)
        }
        Some("entries") => {
            for (name, version, symbol, simulated) in cudasim_core::functions::ENTRIES {
                println!(
                    "{symbol} ({name} since {}.{}): {}",
                    version / 1000,
                    version % 1000 / 10,
                    if *simulated { "simulated" } else { "not supported" }
                );
            }
            Ok(ExitCode::SUCCESS)
        }
        Some("manual") => {
            print!("{}", manual::page(&options::usage()));
            Ok(ExitCode::SUCCESS)
        }
        Some("options") => {
            print!("{}", options::listing());
            Ok(ExitCode::SUCCESS)
        }
        Some("--version") => {
            println!(
                "cuda-sim {} (driver {})",
                env!("CARGO_PKG_VERSION"),
                cudasim_core::config::DRIVER_VERSION
            );
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            for line in unknown_command(arguments.first()) {
                complain(&line);
            }
            Ok(ExitCode::from(2))
        }
    }
}

/// Returns what is wrong, and what was probably meant.
fn unknown_command(given: Option<&OsString>) -> [String; 2] {
    let help = "cuda-sim --help describes all of them".to_owned();
    let list = options::COMMANDS.join(", ");
    let Some(given) = given else { return [format!("expected a command: {list}"), help] };
    let word = given.to_string_lossy();
    let meant = match nearest::nearest(&word, options::COMMANDS.iter().copied()) {
        Some(command) => format!("did you mean cuda-sim {command}?"),
        None if find_program(Path::new(given)).is_some() => {
            format!("to run this program: cuda-sim run {word}")
        }
        None => help,
    };
    [format!("found the command {word}, expected one of {list}"), meant]
}

/// Returns the file of a program, as a shell finds it.
fn find_program(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program.is_file().then(|| program.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Returns whether help is requested, before the name of the program: its arguments are its own.
fn requests_help(arguments: &[OsString]) -> bool {
    let mut words = arguments.iter().map(|word| word.to_str().unwrap_or(""));
    match words.next() {
        Some("--help" | "-h" | "help") => true,
        Some("run" | "--missing") => words
            .take_while(|word| word.starts_with('-') && *word != "--")
            .any(|word| matches!(word, "--help" | "-h")),
        _ => false,
    }
}

/// Finds a library by its name: in `../lib/cuda-sim` of an installation, otherwise beside this
/// program, where cargo puts it.
fn library(name: &str) -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = program.parent().unwrap_or(Path::new("."));
    let installed = folder.join("../lib/cuda-sim");
    let places = [
        installed.join("driver").join(name),
        installed.join("runtime").join(name),
        installed.join(name),
        folder.join(name),
    ];
    let found = places.into_iter().find(|path| path.exists());
    found.ok_or_else(|| {
        format!("{name} is neither in {} nor in {}", installed.display(), folder.display())
    })
}

/// Returns the folders in which the libraries have the names that programs load.
fn library_folders(runtime: bool) -> Result<Vec<PathBuf>, String> {
    let parent = |path: PathBuf| path.parent().map_or(PathBuf::new(), Path::to_owned);
    if let Ok(driver) = library("libcuda.so.1") {
        let mut folders = vec![parent(driver)];
        if runtime {
            folders.push(parent(library("libcudart.so.13")?));
        }
        return Ok(folders);
    }
    linked_folder(runtime).map(|folder| vec![folder])
}

/// Returns a folder with links of those names, in a build tree.
fn linked_folder(runtime: bool) -> Result<PathBuf, String> {
    let driver = library("libcuda.so")?;
    let folder = driver.parent().unwrap_or(Path::new(".")).join(if runtime {
        "cuda-sim-runtime"
    } else {
        "cuda-sim-driver"
    });
    link_into(&folder, &driver, &["libcuda.so.1", "libcuda.so"])?;
    // It is built separately.
    if let Ok(host) = library("libcudasim_host.a") {
        link_into(&folder, &host, &["libcudasim_host.a"])?;
    }
    if runtime {
        for name in ["libcudart.so.12", "libcudart.so.13"] {
            link_into(&folder, &library(name)?, &[name])?;
        }
    }
    Ok(folder)
}

fn link_into(folder: &Path, library: &Path, names: &[&str]) -> Result<(), String> {
    let fail = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(fail)?;
    let target = library.canonicalize().map_err(fail)?;
    for name in names {
        let link = folder.join(name);
        if std::fs::read_link(&link).is_ok_and(|old| old == target) {
            continue;
        }
        // Another process may do the same now: the link gets its name when it is complete.
        let fresh = folder.join(format!("{name}.{}", std::process::id()));
        std::os::unix::fs::symlink(&target, &fresh).map_err(fail)?;
        std::fs::rename(&fresh, &link).map_err(fail)?;
    }
    Ok(())
}

fn prepend(variable: &str, path: &Path) -> OsString {
    let mut value = path.as_os_str().to_owned();
    if let Some(old) = std::env::var_os(variable).filter(|old| !old.is_empty()) {
        value.push(":");
        value.push(old);
    }
    value
}

/// Creates a driver without some functions: a copy of the library in which their names are changed.
fn library_without(folder: &Path, names: &[String]) -> Result<PrivateFolder, String> {
    let fail = |error: std::io::Error| error.to_string();
    let mut bytes = std::fs::read(folder.join("libcuda.so.1")).map_err(fail)?;
    for name in names {
        // Names in a symbol table are preceded by a NUL and end with one.
        let pattern = [b"\0", name.as_bytes(), b"\0"].concat();
        let found = bytes
            .windows(pattern.len())
            .position(|window| window == pattern)
            .ok_or(format!("the driver has no function {name}"))?;
        bytes[found + 1] = b'-';
    }
    let own = PrivateFolder::new()?;
    std::fs::write(own.path().join("libcuda.so.1"), bytes).map_err(fail)?;
    Ok(own)
}

/// Returns the command, and the folder of its driver if that is a copy.
fn command(
    options: &Options,
    program: &[OsString],
) -> Result<(Command, Option<PrivateFolder>), String> {
    let (name, arguments) = program.split_first().ok_or("expected a program")?;
    let variables = variables(options)?;
    let mut folders = match options.shadow {
        None => library_folders(options.runtime)?,
        Some(_) => vec![shadow::folder()?],
    };
    let mut temporary = None;
    let mut hidden: Vec<String> =
        options.without.iter().flat_map(|name| symbols_of(name)).collect();
    if let Some(version) = options.version {
        hidden.extend(
            cudasim_core::functions::ENTRIES
                .iter()
                .filter(|entry| entry.1 > version)
                .map(|entry| entry.2.to_owned()),
        );
    }
    hidden.sort();
    hidden.dedup();
    if !hidden.is_empty() {
        let own = library_without(&folders[0], &hidden)?;
        folders.insert(0, own.path().to_owned());
        temporary = Some(own);
    }
    let path =
        folders.iter().map(|folder| folder.as_os_str()).collect::<Vec<_>>().join(OsStr::new(":"));
    let mut command = Command::new(name);
    command.args(arguments).env("LD_LIBRARY_PATH", prepend("LD_LIBRARY_PATH", Path::new(&path)));
    let mut preload: Vec<PathBuf> =
        options.preload.iter().map(|name| library(name)).collect::<Result<_, _>>()?;
    if options.threads_seen {
        preload.push(library("libcudasim_threads.so")?);
    }
    if options.shadow.is_none() {
        // They are built separately.
        match (library("libcudasim_redirect.so"), library("libcudart.so.13")) {
            (Ok(redirect), Ok(runtime)) => {
                command.env("CUDASIM_REDIRECT", runtime.parent().unwrap_or(Path::new(".")));
                preload.push(redirect);
            }
            (Err(error), _) | (_, Err(error)) if options.explain => return Err(error),
            _ => {}
        }
    }
    if !preload.is_empty() {
        let list =
            preload.iter().map(|path| path.as_os_str()).collect::<Vec<_>>().join(OsStr::new(":"));
        command.env("LD_PRELOAD", prepend("LD_PRELOAD", Path::new(&list)));
    }
    command.envs(variables);
    Ok((command, temporary))
}

/// Returns the variables for the program, the user's choices last.
fn variables(options: &Options) -> Result<Vec<(String, String)>, String> {
    let prefix = if options.shadow.is_some() { "CUDASIM_SHADOW_" } else { "CUDASIM_" };
    let mut variables = vec![(format!("{prefix}RACES"), "error".to_owned())];
    if options.threads_seen {
        variables.push((format!("{prefix}HOST_THREADS"), "seen".to_owned()));
    }
    match &options.shadow {
        None => variables.push(("CUDASIM_SCHEDULE".to_owned(), "lazy".to_owned())),
        Some(path) => {
            if let Some(option) = options.of_driver {
                return Err(format!("--{option} is for the simulated driver, not for --shadow"));
            }
            let real = shadow::real(path.as_deref())?.to_string_lossy().into_owned();
            variables.push(("CUDASIM_REAL".to_owned(), real));
        }
    }
    let chosen = options.variables.iter();
    variables.extend(chosen.map(|(name, value)| (format!("{prefix}{name}"), value.clone())));
    Ok(variables)
}

/// Returns all symbols of a function, by any of its names.
fn symbols_of(name: &str) -> Vec<String> {
    let of = |entry: &&(&str, i32, &str, bool)| entry.0 == name || entry.2 == name;
    let found: Vec<String> = cudasim_core::functions::ENTRIES
        .iter()
        .filter(of)
        .map(|entry| entry.2.to_owned())
        .collect();
    if found.is_empty() { vec![name.to_owned()] } else { found }
}

/// Returns the options and the program, after a look at the declared kernels.
fn parse(arguments: &[OsString]) -> Result<(Options, &[OsString]), String> {
    let (mut options, program) = options::parse(arguments)?;
    if let Some((_, path)) = options.variables.iter_mut().find(|(name, _)| name == "KERNELS") {
        Declarations::read(path.as_ref())?;
        // Processes that the program starts may run in other folders.
        let absolute = std::path::absolute(&*path).map_err(|error| error.to_string())?;
        *path = absolute.to_string_lossy().into_owned();
    }
    Ok((options, program))
}

fn run_program(arguments: &[OsString]) -> Result<ExitCode, String> {
    let (mut options, program) = parse(arguments)?;
    let reports = Reports::new(&options.reports)?;
    options.variables.extend(reports.iter().flat_map(Reports::variables));
    let (mut command, temporary) = command(&options, program)?;
    command.envs(reports.iter().map(Reports::folder_variable));
    let status = child::run(command)
        .map_err(|error| format!("{}: {error}", Path::new(&program[0]).display()));
    drop(temporary);
    let status = status?;
    let Some(reports) = reports else { return Ok(exit_code(status)) };
    let written = reports.write();
    if let Err(message) = &written {
        complain(message);
    }
    if !status.success() {
        return Ok(exit_code(status));
    }
    if let Some((message, status)) = reports.failure(options.undeclared_fails) {
        complain(&message);
        return Ok(ExitCode::from(status));
    }
    Ok(if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

fn exit_code(status: std::process::ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitCode::from(code as u8),
        // As in shells.
        (None, Some(signal)) => {
            eprintln!("cuda-sim: the program was ended by signal {signal}");
            ExitCode::from(128 + signal as u8)
        }
        _ => ExitCode::FAILURE,
    }
}

/// Lists the functions that are not simulated, or only in part, by what a program does with them.
fn list_missing(arguments: &[OsString]) -> Result<ExitCode, String> {
    let (mut options, program) = parse(arguments)?;
    if !options.reports.is_empty() || options.shadow.is_some() {
        return Err("--missing writes no report, and has no --shadow".to_owned());
    }
    let folder = PrivateFolder::new()?;
    let log = folder.path().join("missing");
    // Before the user's choices, which count.
    let defaults = [("RACES", "off"), ("SCHEDULE", "eager")];
    options.variables.splice(0..0, defaults.map(|(name, value)| (name.into(), value.into())));
    options.variables.push(("MISSING_LOG".to_owned(), log.to_string_lossy().into_owned()));
    // Only the checker needs it.
    let races = options.variables.iter().rev().find(|variable| variable.0 == "RACES");
    options.threads_seen &= races.is_some_and(|variable| variable.1 != "off");
    let (command, _temporary) = command(&options, program)?;
    let status = child::run(command)
        .map_err(|error| format!("{}: {error}", Path::new(&program[0]).display()))?;
    let text = std::fs::read_to_string(&log).unwrap_or_default();
    drop(folder);
    let lines: BTreeSet<(&str, &str)> =
        text.lines().filter_map(|line| line.split_once(' ')).collect();
    let of = |what| -> Vec<&str> {
        lines.iter().filter(|line| line.0 == what).map(|line| line.1).collect()
    };
    let called = of("called");
    list("not simulated, and called", &called);
    let kernels = of("kernel");
    list("kernels that are not declared", &kernels);
    list("simulated, and refused with CUDA_ERROR_NOT_SUPPORTED", &of("refused"));
    let mut looked_up = of("looked-up");
    looked_up.retain(|name| !called.contains(name));
    list("not simulated, and looked up with cuGetProcAddress only", &looked_up);
    list("looked up with cuGetProcAddress, and not found", &of("not-found"));
    let file = Path::new(&program[0]);
    list(&format!("not simulated, and named in {}", file.display()), &mentioned(file)?);
    println!("the program ended with {status}");
    let is_complete = called.is_empty() && (kernels.is_empty() || !options.undeclared_fails);
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn list(what: &str, names: &[&str]) {
    println!("{what}: {}", if names.is_empty() { "nothing" } else { "" });
    names.iter().for_each(|name| println!("  {name}"));
}

/// Returns the functions that are not simulated and whose names are in a program file, as symbols
/// or as text.
fn mentioned(program: &Path) -> Result<Vec<&'static str>, String> {
    let bytes = find_program(program).and_then(|path| std::fs::read(path).ok()).unwrap_or_default();
    let mut words: Vec<&[u8]> =
        bytes.split(|byte| *byte == 0).filter(|word| word.starts_with(b"cu")).collect();
    words.sort_unstable();
    let entries = cudasim_core::functions::ENTRIES;
    // The name without a version is that of the oldest form, and what programs look up.
    let has_newer = |name: &str| entries.iter().any(|other| other.0 == name && other.3);
    let mut found: Vec<&'static str> = entries
        .iter()
        .filter(|entry| entry.2 == "cuGetExportTable" || !entry.3 && !has_newer(entry.2))
        .filter(|entry| words.binary_search(&OsStr::new(entry.2).as_bytes()).is_ok())
        .map(|entry| entry.2)
        .collect();
    found.dedup();
    Ok(found)
}
