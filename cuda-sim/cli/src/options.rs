//! The options of `cuda-sim run`: one table, by which they are parsed and described.

use crate::nearest::nearest;
use cudasim_core::config;
use std::ffi::OsString;
use std::fmt::Write;

/// Subject of an option.
#[derive(Clone, Copy, PartialEq)]
enum Scope {
    /// The simulated driver. Sets a variable: `CUDASIM_` and the name of the option.
    Driver,
    /// The checker. Sets this variable, or `CUDASIM_SHADOW_` and the name beside a real driver.
    Checker,
    /// The command, if the driver is the simulated one.
    Simulation,
    Command,
}
use Scope::*;

struct Row {
    name: &'static str,
    /// The value: words between which to choose, or a name in capitals for what `is_valid` checks.
    /// Brackets: it may be left out.
    value: &'static str,
    scope: Scope,
    text: &'static str,
}

const fn row(name: &'static str, value: &'static str, scope: Scope, text: &'static str) -> Row {
    Row { name, value, scope, text }
}

#[rustfmt::skip]
const TABLE: &[Row] = &[
    row("races", "=error|warn|off", Checker,
        "how races are treated; error: also as exit status (default: error)"),
    row("schedule", "=KIND", Driver,
        "when the device runs its work (default: lazy):\n\
         \u{20} lazy           only what a wait requires: shows missing waits\n\
         \u{20} eager          at once\n\
         \u{20} random[:SEED]  in an order that the seed determines\n\
         \u{20} threads        on a thread for each stream"),
    row("devices", "=N", Driver, "number of devices, 0 to 16 (default: 1)"),
    row("peers", "=all|none", Driver, "none: no device can access the memory of another"),
    row("memory", "=BYTES", Driver, "memory of each device (default: 8 GiB)"),
    row("fail", "=CALL[:N]=CODE,...", Driver,
        "the N-th call of a function fails: cuMemAlloc:3=2,\n\
         cuStreamSynchronize=700; any call: *:100=lost (a lost device)"),
    row("without", "=NAME,...", Driver, "functions that this driver does not have"),
    row("driver-version", "=N", Driver,
        "an older driver, for example 11040, without newer functions"),
    row("stub", "", Driver, "the stub library of the toolkit: every call returns 34"),
    row("guard", "", Driver, "the host faults when it accesses device memory"),
    row("register", "=same|shifted", Driver,
        "shifted: registered host memory has another address on the device"),
    row("kernels", "=FILE", Checker,
        "a file that declares the accesses of kernels, a line for each, as\n\
         cuda-sim kernels prints them"),
    row("docs", "=11|13", Checker,
        "the version of NVIDIA's documentation whose order holds (default:\n\
         13); 11: cuMemFree and cuMemAlloc do not synchronize"),
    row("host-threads", "=seen|ordered", Checker,
        "ordered: host threads are ordered by their calls; seen (default):\n\
         only by what the checker observes and by annotations"),
    row("rules", "=races|strict", Checker,
        "strict: also report waits that block the host, and calls that a\n\
         capture or a library refuses; print a summary of exchanged arrays"),
    row("exchanges", "=seen|hidden", Checker,
        "hidden: do not observe the arrays that libraries exchange"),
    row("print", "=now|exit", Checker,
        "exit: print races when the program ends, not when they are found"),
    row("native", "", Checker,
        "print all frames of a call from Python, native ones and those of\n\
         libraries too"),
    row("explain", "", Driver,
        "print which CUDA runtime library each module has, and whether it\n\
         can be used here"),
    row("runtime", "[=12|13]", Simulation,
        "put the replacement runtime libraries into the path, too; with a\n\
         number, load one of them first: for programs that bundle their own"),
    row("undeclared", "=error|warn", Command,
        "warn: kernels that are not declared do not change the exit status"),
    row("report", "=FILE", Command,
        "write a report; may be repeated. FILE ends with\n\
         \u{20} .json   one line for each process\n\
         \u{20} .xml    JUnit: a test case for each race\n\
         \u{20} .sarif  SARIF 2.1.0, for code hosts and editors\n\
         \u{20} .html   a page with a timeline of each race, or of a run without one"),
];

/// The options that were given.
#[derive(Default)]
pub struct Options {
    /// Variables for the program, by their names without a prefix.
    pub variables: Vec<(String, String)>,
    /// The first option that has no meaning beside a real driver.
    pub of_driver: Option<&'static str>,
    pub reports: Vec<String>,
    pub without: Vec<String>,
    pub version: Option<i32>,
    pub runtime: bool,
    pub preload: Vec<String>,
    pub threads_seen: bool,
    pub explain: bool,
    /// Whether kernels without a declaration change the exit status.
    pub undeclared_fails: bool,
    /// Whether to run beside a real driver, and its path.
    pub shadow: Option<Option<String>>,
}

/// Returns the options before the program, and the rest.
pub fn parse(arguments: &[OsString]) -> Result<(Options, &[OsString]), String> {
    let mut options = Options { threads_seen: true, undeclared_fails: true, ..Options::default() };
    let mut rest = arguments;
    while let Some((argument, after)) = rest.split_first() {
        let text = argument.to_string_lossy();
        if text == "--" {
            rest = after;
            break;
        }
        let Some(option) = text.strip_prefix("--") else { break };
        let (name, value) =
            option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        if name == "shadow" {
            options.shadow = Some(value.map(str::to_owned));
        } else {
            let row = TABLE.iter().find(|row| row.name == name);
            let row = row.ok_or_else(|| unknown_option(name))?;
            row.check(value)?;
            options.add(row, value);
        }
        rest = after;
    }
    Ok((options, rest))
}

fn unknown_option(name: &str) -> String {
    match nearest(name, TABLE.iter().map(|row| row.name)) {
        Some(meant) => format!("unknown option --{name}: did you mean --{meant}?"),
        None => format!("unknown option --{name}; see cuda-sim --help"),
    }
}

impl Row {
    fn text_in_one_line(&self) -> String {
        self.text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn check(&self, value: Option<&str>) -> Result<(), String> {
        let shape = self.value.trim_start_matches('[').trim_end_matches(']');
        let fits = match (shape.strip_prefix('='), value) {
            (None, None) => true,
            (Some(_), None) => self.value.starts_with('['),
            (None, Some(_)) => false,
            (Some(shape), Some(value)) if shape.starts_with(|first: char| first.is_uppercase()) => {
                self.is_valid(value)?
            }
            (Some(shape), Some(value)) => shape.split('|').any(|word| word == value),
        };
        if fits {
            return Ok(());
        }
        let found = value.map_or("no value", |value| value);
        let text = self.text_in_one_line();
        Err(format!("expected --{}{}, found {found}: {text}", self.name, self.value))
    }

    /// Returns whether a value that is not one of several words is valid, or what is wrong with it.
    fn is_valid(&self, value: &str) -> Result<bool, String> {
        let number = value.parse::<u64>();
        Ok(match self.name {
            "schedule" => {
                matches!(value, "lazy" | "eager" | "random" | "threads")
                    || value.strip_prefix("random:").is_some_and(|seed| seed.parse::<u64>().is_ok())
            }
            "devices" => number.is_ok_and(|number| number <= config::MOST_DEVICES),
            "driver-version" => {
                let newest = config::DRIVER_VERSION.unsigned_abs().into();
                number.is_ok_and(|number| (2000..=newest).contains(&number))
            }
            "memory" => number.is_ok(),
            "fail" => {
                for part in value.split(',') {
                    let Some(fault) = config::parse_fault(part) else { return Ok(false) };
                    if fault.call != "*" {
                        known(&fault.call)?;
                    }
                }
                true
            }
            "without" => {
                value.split(',').try_for_each(known)?;
                true
            }
            _ => !value.is_empty(),
        })
    }
}

/// Fails if the driver has no function of this name, in any of its forms.
fn known(name: &str) -> Result<(), String> {
    let mut entries = cudasim_core::functions::ENTRIES.iter();
    let found = entries.any(|entry| entry.0 == name || entry.2 == name);
    found.then_some(()).ok_or_else(|| format!("the driver has no function {name}"))
}

impl Options {
    fn add(&mut self, row: &'static Row, value: Option<&str>) {
        let text = value.unwrap_or("1").to_owned();
        match row.name {
            "without" => self.without = text.split(',').map(str::to_owned).collect(),
            "driver-version" => self.version = text.parse().ok(),
            "explain" => self.explain = true,
            "host-threads" => self.threads_seen = text == "seen",
            "undeclared" => self.undeclared_fails = text == "error",
            "report" => self.reports.push(text.clone()),
            "runtime" => {
                self.runtime = true;
                self.preload.extend(value.map(|major| format!("libcudart.so.{major}")));
            }
            _ => {}
        }
        if matches!(row.scope, Driver | Simulation) {
            self.of_driver.get_or_insert(row.name);
        }
        if matches!(row.scope, Driver | Checker) {
            self.variables.push((row.name.replace('-', "_").to_uppercase(), text));
        }
    }
}

/// Returns the options, one a line, for programs that pass them on: name, value, text.
pub fn listing() -> String {
    let line = |row: &Row| format!("{}\t{}\t{}\n", row.name, row.value, row.text_in_one_line());
    TABLE.iter().map(line).collect()
}

/// The width of the options in the help, after which their text begins.
pub const WIDTH: usize = 38;

/// The first words of a command line.
pub const COMMANDS: &[&str] = &[
    "run",
    "kernels",
    "--missing",
    "libdir",
    "entries",
    "manual",
    "options",
    "--version",
    "--help",
];

/// Returns the help.
pub fn usage() -> String {
    let mut options = String::new();
    for Row { name, value, text, .. } in TABLE {
        let mut head = format!("        --{name}{value}");
        for line in text.lines() {
            let _ = writeln!(options, "{head:WIDTH$}{line}");
            head.clear();
        }
    }
    let listed = |scopes: &[Scope]| {
        let rows = TABLE.iter().filter(|row| scopes.contains(&row.scope));
        rows.map(|row| format!("--{}", row.name)).collect::<Vec<_>>().join(", ")
    };
    let (beside, of_command) = (listed(&[Checker, Command]), listed(&[Simulation, Command]));
    format!(
        "\
cuda-sim: a simulated CUDA driver that finds races

    cuda-sim run [options] [--] program [arguments]
        Runs a program with the simulated libcuda.so.1 as the driver. Kernels are not executed:
        declare them with --kernels or cudasim_register, or use --shadow with a GPU. Exit status: 66
        if races were found, in this process or in one that it started; 67 if the program ended with
        0, but had looked for kernels that are not declared; 2 if an option is wrong, the program
        does not start, or a report cannot be written; 128 and the number of the signal that ended
        the program; otherwise the program's own.

{options}
        All but {of_command} are environment variables as well:
        CUDASIM_DRIVER_VERSION=11040 stands for --driver-version=11040, CUDASIM_GUARD=1 for --guard.
        Programs that run without this command read them, unless they are set-user-id. Their defaults
        are CUDASIM_RACES=warn, CUDASIM_SCHEDULE=eager and CUDASIM_HOST_THREADS=ordered.

    cuda-sim run --shadow[=FILE] [options] [--] program [arguments]
        Runs a program with the real driver, FILE or the installed one, and the race checker beside
        it. These options are as above, and their variables begin with CUDASIM_SHADOW_:
        {beside}.

    cai-race [options] [--] program [arguments]
        cuda-sim run --rules=strict: for producers and consumers of arrays.

    cuda-sim kernels [--] file...
        Lists the kernels of programs, libraries, cubins and PTX as a file for --kernels: pointers to
        const are read, others are read and written, from the pointer to the end of its allocation.

    cuda-sim --missing [options] [--] program [arguments]
        Runs a program, with options as above, and lists the functions of the driver that are not
        simulated and that it called, looked up or names in its file, those that are simulated and
        refused its arguments, and kernels that are not declared. Exit status: 1 if it called a
        function that is not simulated, or looked for such a kernel.

    cuda-sim libdir               the folder for LD_LIBRARY_PATH
    cuda-sim entries              all functions of the driver, and whether they are simulated
    cuda-sim manual               this text as a manual page, for man
    cuda-sim options              the options of run, one a line, for programs that pass them on
    cuda-sim --version
    cuda-sim --help
"
    )
}
