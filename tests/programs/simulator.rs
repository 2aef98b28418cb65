//! Programs on the simulated driver: each case under each schedule, with each call of the driver failing once, and with
//! each call that orders work left out once.

use crate::build::{self, Result, Source, compiler, limited, program, run, sanitizer};
use crate::{CODES, SCHEDULES, Test, is_slow, root, valgrind};
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::{env, fs, thread};

/// The schedules under AddressSanitizer.
const ASAN: &[&str] = &["lazy", "threads"];

/// These have a status of their own (tests/python/test_driver.py).
const NOT_REFUSED: &[&str] = &["cuInit", "hipInit"];

/// How many codes a call is refused with in a case, without SLOW_TESTS. Others follow in the next case.
const FEW: usize = 3;

/// The functions that order work.
const ORDER: &[&str] = &[
    "cuEventRecord",
    "cuStreamWaitEvent",
    "cuStreamSynchronize",
    "cuEventSynchronize",
    "cuCtxRecordEvent",
    "cuCtxWaitEvent",
    "cuCtxSynchronize",
    "hipEventRecord",
    "hipStreamWaitEvent",
    "hipStreamSynchronize",
    "hipEventSynchronize",
    "hipDeviceSynchronize",
];

/// Errors of earlier work, which every call may return.
const EARLIER: [i32; 3] = [700, 709, 719];

pub struct Simulator {
    command: PathBuf,
    headers: PathBuf,
    /// The folder of libcuda.so.
    pub libraries: PathBuf,
}

/// Returns the installed simulator.
pub fn get() -> Result<&'static Simulator> {
    static FOUND: LazyLock<Result<Simulator>> = LazyLock::new(|| {
        let built = root().join("build/sim");
        let prefix = env::var_os("CUDA_SIM_ROOT").map_or(built, PathBuf::from);
        let command = prefix.join("bin/cuda-sim");
        if !command.exists() {
            return Err("no simulated driver: run `make sim`".to_owned());
        }
        let libraries = run(Command::new(&command).arg("libdir"))?.trim_end().into();
        Ok(Simulator { headers: prefix.join("include"), command, libraries })
    });
    FOUND.as_ref().map_err(String::clone)
}

fn cuda_headers() -> Result<PathBuf> {
    let mut versions = fs::read_dir(root().join("build/venv/lib")).into_iter().flatten().flatten();
    let folder = |path: PathBuf| path.join("site-packages/nvidia/cu13/include");
    let found = versions.find_map(|it| Some(folder(it.path())).filter(|path| path.exists()));
    found.ok_or(build::NO_PACKAGES.to_owned())
}

/// The options for headers of NVIDIA and of the simulator.
pub fn headers(command: &mut Command) -> Result<()> {
    command.arg("-I").arg(&get()?.headers);
    command.arg("-isystem").arg(cuda_headers()?);
    Ok(())
}

/// Drivers that fail on demand: CUDA's, and HIP's on CUDA.
fn drivers() -> Result<[(&'static str, PathBuf); 2]> {
    let folder = root().join("capi-tests/sync");
    let shared = || {
        let mut command = compiler(false);
        command.args([
            "-std=gnu11",
            "-g",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-shared",
            "-fPIC",
        ]);
        command.arg(folder.join("shim.c"));
        command
    };
    let shim = build::compiled("drivers", "libshim.so", shared().arg("-ldl"))?;
    let mut hip = shared();
    hip.arg("-DHIP").arg(folder.join("hip_on_cuda.c"));
    headers(&mut hip)?;
    hip.arg("-L").arg(&get()?.libraries).args(["-lcuda", "-ldl"]);
    let hip = build::compiled("drivers", "libhip.so", &mut hip)?;
    Ok([("CAI_CUDA_DRIVER", shim), ("CAI_HIP_DRIVER", hip)])
}

/// A variable of the environment.
type With = Option<(&'static str, &'static str)>;

/// Environment of one process.
#[derive(Clone, Copy)]
struct Way {
    schedule: &'static str,
    devices: &'static str,
    with: With,
}

const REFUSALS: Way = Way { schedule: "lazy", devices: "2", with: None };

impl Way {
    /// The command that runs a program on the simulated driver.
    fn command(&self, program: &Path, seconds: u32) -> Result<Command> {
        let simulator = get()?;
        let mut command = limited(seconds);
        let (schedule, exchanges) = match self.schedule {
            "hidden" => ("lazy", "hidden"),
            schedule => (schedule, "seen"),
        };
        command.arg(&simulator.command).args(["run", "--print=exit"]);
        command.arg(format!("--schedule={schedule}")).arg(format!("--devices={}", self.devices));
        // The library's own waits must do without the order of an allocation or a free.
        command.arg("--docs=11");
        command.arg("--").arg(program);
        command.envs(drivers()?).envs(self.with);
        command.env("CUDASIM_EXCHANGES", exchanges).env("LD_LIBRARY_PATH", build::release()?);
        Ok(command)
    }

    /// The environment in which a program runs without that command, which instruments would follow.
    fn environment(&self, command: &mut Command) -> Result<()> {
        let (driver, library) = (&get()?.libraries, build::release()?);
        command.envs(drivers()?).envs(self.with);
        command.env("LD_LIBRARY_PATH", format!("{}:{}", library.display(), driver.display()));
        command.env("CUDASIM_SCHEDULE", self.schedule).env("CUDASIM_DEVICES", self.devices);
        command.env("CUDASIM_RACES", "off");
        Ok(())
    }
}

/// The cases of a program: its arguments if it has none, and one case without a name if it has neither.
fn cases(source: &'static Source, with: With) -> Result<&'static [String]> {
    let arguments = source.values("arguments");
    if !arguments.is_empty() {
        return Ok(arguments.into_iter().map(str::to_owned).collect::<Vec<_>>().leak());
    }
    let program = program(source, "sim")?;
    let text = fs::read_to_string(&source.path).unwrap();
    if !text.contains("run_cases(") && !text.contains("ipc_main(") {
        return Ok(vec![String::new()].leak());
    }
    // The list is kept beside the program.
    let value = with.map_or("", |(_, value)| value);
    let (stamp, list) =
        (program.with_extension("stamp"), program.with_extension(format!("cases{value}")));
    let stamp = fs::read_to_string(stamp).unwrap() + "\n";
    let kept = fs::read_to_string(&list).unwrap_or_default();
    if let Some(cases) = kept.strip_prefix(&stamp) {
        return Ok(split(cases));
    }
    let mut command = Command::new(program);
    let (library, driver) = (build::release()?, &get()?.libraries);
    command.arg("list").envs(with);
    command.env("LD_LIBRARY_PATH", format!("{}:{}", library.display(), driver.display()));
    let cases = run(&mut command)?;
    if cases.is_empty() {
        return Err("no cases".to_owned());
    }
    fs::write(list, stamp + &cases).unwrap();
    Ok(split(&cases))
}

fn split(list: &str) -> &'static [String] {
    list.split_whitespace().map(str::to_owned).collect::<Vec<_>>().leak()
}

pub fn tests_of(source: &'static Source) -> Vec<Test> {
    listed(source).unwrap_or_else(|why| vec![(source.name.clone(), Box::new(|| Err(why)))])
}

fn listed(source: &'static Source) -> Result<Vec<Test>> {
    let mut tests: Vec<Test> = Vec::new();
    let mut add = |words: &[&str], test: Box<dyn FnOnce() -> Result<()> + Send>| {
        let words: Vec<_> = words.iter().copied().filter(|word| !word.is_empty()).collect();
        tests.push((format!("{}::{}", source.name, words.join("::")), test));
    };
    let with = match source.values("with").split_first() {
        Some((name, values)) => {
            values.iter().map(|value| Some((name.trim_end_matches('='), *value))).collect()
        }
        None => vec![None],
    };
    let all = cases(source, with[0])?;
    if source.has("valgrind") {
        add(&["valgrind"], Box::new(move || under_valgrind(source, all)));
    }
    if source.has("refuse") {
        for case in all {
            add(&[case, "refuse"], Box::new(move || refusals(source, case)));
        }
    }
    for case in source.values("omit") {
        add(&[case, "omit"], Box::new(move || omissions(source, case)));
    }
    for with in if source.has("sim") { with } else { vec![] } {
        for case in cases(source, with)?.iter().map(String::as_str) {
            for schedule in source.values_or("sim", SCHEDULES) {
                for devices in source.values_or("devices", &["1", "2"]) {
                    let way = Way { schedule, devices, with };
                    let words = [case, with.map_or("", |(_, value)| value), schedule, devices];
                    add(&words, Box::new(move || simulated(source, way, case)));
                }
            }
        }
    }
    for schedule in if source.has("asan") { source.values_or("asan", ASAN) } else { vec![] } {
        for case in all {
            let way = Way { schedule, ..REFUSALS };
            add(&[case, "asan", schedule], Box::new(move || under_asan(source, way, case)));
        }
    }
    Ok(tests)
}

fn simulated(source: &Source, way: Way, case: &str) -> Result<()> {
    run(way.command(&program(source, "sim")?, 120)?.arg(case)).map(drop)
}

fn under_asan(source: &Source, way: Way, case: &str) -> Result<()> {
    let mut command = limited(300);
    way.environment(sanitizer(&mut command))?;
    run(command.arg(program(source, "sim asan")?).arg(case)).map(drop)
}

fn under_valgrind(source: &Source, cases: &[String]) -> Result<()> {
    let mut command = valgrind("definite");
    REFUSALS.environment(&mut command)?;
    all_pass(each(command.arg(program(source, "sim")?), cases)?)
}

/// Result of a line of `each`.
struct Ended {
    line: String,
    status: i32,
    output: String,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}\n{}", self.line, self.status, self.output)
    }
}

/// Runs cases, each in a child of a process that has the libraries loaded. A line is a case, and perhaps `calls` or a
/// value of SHIM.
fn each(command: &mut Command, lines: &[String]) -> Result<Vec<Ended>> {
    command.arg("each").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let mut input = child.stdin.take().unwrap();
    let output = thread::scope(|scope| {
        // A process that ends early says why itself.
        scope.spawn(move || lines.iter().try_for_each(|line| writeln!(input, "{line}")));
        child.wait_with_output().unwrap()
    });
    let text = String::from_utf8_lossy(&output.stdout);
    // Valgrind writes to the error output that the parent had.
    let errors = String::from_utf8_lossy(&output.stderr);
    let (mut found, mut rest) = (Vec::new(), &*text);
    while let Some((before, after)) = rest.split_once("\nended ") {
        let (numbers, next) = after.split_once('\n').unwrap_or((after, ""));
        let line = lines[found.len()].clone();
        let expected = format!("{} ", found.len());
        let status = numbers.strip_prefix(&expected).and_then(|status| status.parse().ok());
        let status = status.ok_or(format!("{command:?}: ended {numbers}"))?;
        found.push(Ended { line, status, output: format!("{before}{errors}") });
        rest = next;
    }
    // 66: a case has raced, and the simulator reports it in the status of the parent too.
    let is_good = matches!(output.status.code(), Some(0 | 66)) && found.len() == lines.len();
    if is_good { Ok(found) } else { Err(format!("{command:?}: {}\n{text}{errors}", output.status)) }
}

fn all_pass(ended: Vec<Ended>) -> Result<()> {
    let failed = ended.into_iter().find(|ended| ended.status != 0);
    failed.map_or(Ok(()), |ended| Err(ended.to_string()))
}

/// Returns the driver functions that the library calls in a case, and the number of calls.
fn calls(source: &Source, case: &str) -> Result<HashMap<String, usize>> {
    let mut command = REFUSALS.command(&program(source, "sim")?, 600)?;
    let ended = each(&mut command, &[format!("{case} calls")])?.remove(0);
    if ended.status != 0 {
        return Err(ended.to_string());
    }
    let mut found = HashMap::new();
    for line in ended.output.lines() {
        if let ["called", name, count] = line.split(' ').collect::<Vec<_>>()[..] {
            // Two processes may make calls.
            let most: &mut usize = found.entry(name.to_owned()).or_default();
            *most = count.parse::<usize>().unwrap().max(*most);
        }
    }
    Ok(found)
}

/// The library says what failed, or does without; nothing is lost, and the next call works. The macro OK of the programs
/// checks that; the rest of the case checks that all is in order in the end.
fn refusals(source: &Source, case: &str) -> Result<()> {
    let words = source.values("refuse");
    let own: Vec<i32> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let mut lines = Vec::new();
    for (name, count) in calls(source, case)? {
        if NOT_REFUSED.contains(&&*name) {
            continue;
        }
        let codes = match words.contains(&"documented") {
            true => documented(&name)?,
            false if own.is_empty() => CODES.to_vec(),
            false => own.clone(),
        };
        let is_tried = |number: usize| {
            // The first call, the second, which finds what the first left, and the last.
            words.contains(&"each") || number <= 2 || number == count
        };
        for number in (1..=count).filter(|number| is_tried(*number)) {
            let tried =
                if is_slow() || !own.is_empty() { codes.len() } else { FEW.min(codes.len()) };
            let first = build::hash_of((case, &name, number)) as usize;
            let codes = (0..tried).map(|next| codes[(first.wrapping_add(next)) % codes.len()]);
            lines.extend(codes.map(|code| format!("{case} {name}:{number}:{code}")));
        }
    }
    all_pass(each(&mut REFUSALS.command(&program(source, "sim")?, 600)?, &lines)?)
}

/// Leaving out any one record, wait or synchronization makes the case fail.
fn omissions(source: &Source, case: &str) -> Result<()> {
    let mut lines = Vec::new();
    for (name, count) in calls(source, case)? {
        // An end records an event for either context, or for each of many streams, of the same work.
        let is_repeated = ["_in_either", "_of_many"].iter().any(|part| case.contains(part));
        if ORDER.contains(&&*name) && !(is_repeated && name == "cuEventRecord") {
            lines.extend((1..=count).map(|number| format!("{case} {name}:{number}:skip")));
        }
    }
    if lines.is_empty() {
        return Err("no call orders anything".to_owned());
    }
    each(&mut REFUSALS.command(&program(source, "sim")?, 600)?, &lines)?
        .into_iter()
        .find(|ended| ended.status == 0)
        .map_or(Ok(()), |ended| Err(format!("{} is superfluous", ended.line)))
}

/// The codes that cuda.h documents for a function, and those of earlier work.
fn documented(function: &str) -> Result<Vec<i32>> {
    static HEADER: LazyLock<Result<String>> = LazyLock::new(|| {
        let path = cuda_headers()?.join("cuda.h");
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    });
    let text = HEADER.as_ref().map_err(String::clone)?;
    let value = |name: &str| {
        text.match_indices(name).find_map(|(at, _)| {
            let number = text[at + name.len()..].trim_start().strip_prefix("= ")?;
            number.split(|c: char| !c.is_ascii_digit()).next()?.parse::<i32>().ok()
        })
    };
    let mut found = EARLIER.to_vec();
    let base = function.strip_suffix("_v2").unwrap_or(function);
    for name in [base, &format!("{base}_v2")] {
        let Some((before, _)) = text.split_once(&format!("CUresult CUDAAPI {name}(")) else {
            continue;
        };
        let before = before.trim_end().trim_end_matches("__CUDA_DEPRECATED").trim_end();
        let comment = before.strip_suffix("*/").and_then(|it| it.rsplit_once("/**"));
        let codes = comment.and_then(|(_, comment)| comment.rsplit_once("\\return"));
        for word in codes.map_or("", |(_, codes)| codes).split("::CUDA_ERROR_").skip(1) {
            let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            found.extend(end.and_then(|end| value(&format!("CUDA_ERROR_{}", &word[..end]))));
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}
