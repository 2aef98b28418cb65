//! Collects what the processes of a program found, from their journals: for the exit status, and
//! for the option `--report`, in the formats that the names of the files end with.

use super::folder::PrivateFolder;
use super::{html, junit, sarif};
use cudasim_core::shown::shown;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, PartialEq)]
enum Format {
    Json,
    Junit,
    Sarif,
    Html,
}

impl Format {
    fn of(path: &Path) -> Format {
        match path.extension().and_then(|end| end.to_str()) {
            Some("xml") => Format::Junit,
            Some("sarif") => Format::Sarif,
            Some("html") => Format::Html,
            _ => Format::Json,
        }
    }
}

/// The reports of a run, before they are written.
pub struct Reports {
    /// Each process writes its results here, and test runners the names of their tests.
    folder: PrivateFolder,
    files: Vec<PathBuf>,
}

/// The journal that processes write unless they are those of a test.
const MAIN: &str = "main.json";

/// Findings of one process, or of one test in it.
#[derive(Default)]
pub struct Findings {
    pub process: u64,
    /// The name of the file that the process ran.
    pub program: Option<String>,
    pub test: Option<String>,
    pub races: Vec<Value>,
    pub missing: Vec<(String, u64)>,
    /// The kernels that the process looked for, and did not declare.
    pub kernels: Vec<String>,
    /// The place where it looked for each of them first, if that is known.
    kernel_places: Vec<Option<String>>,
    /// The exchanges that were not ordered because a stream was unknown: `count` and `first`.
    pub unordered: Option<Value>,
    /// The newest operations and orders of the process, if a report draws them.
    pub timeline: Option<Value>,
    /// Whether the process treats races as errors.
    fails: bool,
    /// Whether the process ended without its exit handlers: more may have been missing.
    ended_early: bool,
}

impl Findings {
    /// Returns the number of findings that are faults.
    pub fn count(&self) -> usize {
        self.races.iter().filter(|race| race["remark"] != true).count()
    }

    /// Returns a sentence about the exchanges that were not ordered, if there were any.
    pub fn unordered_text(&self) -> Option<String> {
        let unordered = self.unordered.as_ref()?;
        let count = unordered["count"].as_u64().unwrap_or(0);
        let (s, were) = if count == 1 { ("", "was") } else { ("s", "were") };
        let first = side_title(&unordered["first"]);
        Some(format!(
            "{count} exchange{s} with an unknown stream {were} not ordered; the first: {first}"
        ))
    }

    fn line(&self) -> Value {
        let missing: serde_json::Map<String, Value> =
            self.missing.iter().map(|(name, count)| (name.clone(), (*count).into())).collect();
        let mut line = json!({
            "process": self.process, "count": self.count(), "races": self.races,
            "missing": missing,
        });
        if !self.kernels.is_empty() {
            line["kernels"] = self.kernels.clone().into();
        }
        if let Some(unordered) = &self.unordered {
            line["unordered"] = unordered.clone();
        }
        if let Some(timeline) = &self.timeline {
            line["timeline"] = timeline.clone();
        }
        if let Some(program) = &self.program {
            line["program"] = program.as_str().into();
        }
        if let Some(test) = &self.test {
            line["test"] = test.as_str().into();
        }
        if self.ended_early {
            line["ended_early"] = true.into();
        }
        line
    }
}

/// The exit status if a program ended with 0 and had looked for kernels that it did not declare.
const UNDECLARED_EXIT_CODE: u8 = 67;

impl Reports {
    /// Prepares the reports, and the journals of a run. Fails if a file cannot be written.
    pub fn new(files: &[String]) -> Result<Option<Reports>, String> {
        // A test runner in another one, or a command that its test starts, adds to the outer one's.
        let is_inner = std::env::var_os("CUDASIM_PYTEST").is_some()
            && std::env::var_os("CUDASIM_REPORT_FOLDER").is_some();
        if files.is_empty() && is_inner {
            return Ok(None);
        }
        let files = files.iter().map(PathBuf::from).collect();
        let reports = Reports { folder: PrivateFolder::new()?, files };
        for path in &reports.files {
            std::fs::write(path, "").map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(Some(reports))
    }

    /// Returns the variables of the checker, by their names without a prefix.
    pub fn variables(&self) -> Vec<(String, String)> {
        let main = self.folder.path().join(MAIN).to_string_lossy().into_owned();
        let mut variables = vec![("REPORT".to_owned(), main)];
        if self.files.iter().any(|path| Format::of(path) == Format::Html) {
            variables.push(("TIMELINE".to_owned(), "1".to_owned()));
        }
        variables
    }

    /// Returns the variable of all processes of the run.
    pub fn folder_variable(&self) -> (&'static str, &Path) {
        ("CUDASIM_REPORT_FOLDER", self.folder.path())
    }

    pub fn write(&self) -> Result<(), String> {
        let results = self.results();
        for path in &self.files {
            let text = match Format::of(path) {
                Format::Json => {
                    results.iter().map(|findings| format!("{}\n", findings.line())).collect()
                }
                Format::Junit => junit::text(&results),
                Format::Sarif => sarif::text(&results),
                Format::Html => html::text(&results),
            };
            std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// Returns why the run failed although the program ended with status 0, and the exit status.
    /// That of the program says nothing of processes that ended without their exit handlers, or
    /// whose status was ignored. The plug-in for pytest decides about the files of tests.
    pub fn failure(&self, undeclared_fails: bool) -> Option<(String, u8)> {
        let text = std::fs::read(self.folder.path().join(MAIN)).unwrap_or_default();
        let results = merged(&String::from_utf8_lossy(&text));
        let counts = results.iter().filter(|findings| findings.fails).map(Findings::count);
        let (races, processes) = counts.fold((0, 0), |(races, processes), count| {
            (races + count, processes + usize::from(count > 0))
        });
        if races > 0 {
            let text = format!(
                "races: {races}, in {processes} process{}; the program ended with status 0",
                if processes == 1 { "" } else { "es" }
            );
            return Some((text, cudasim_core::sim::RACES_EXIT_CODE as u8));
        }
        let kernels: BTreeMap<String, Option<String>> = results
            .into_iter()
            .flat_map(|findings| findings.kernels.into_iter().zip(findings.kernel_places))
            .collect();
        let at = |place: &Option<String>| place.as_ref().map(|place| format!(" (in {place})"));
        let kernels: Vec<String> = kernels
            .iter()
            .map(|(name, place)| format!("{name}{}", at(place).unwrap_or_default()))
            .collect();
        (undeclared_fails && !kernels.is_empty()).then(|| {
            let text = format!(
                "the program ended with status 0, but these kernels are not declared, and were \
                 not launched: {}; declare them (`cuda-sim kernels` lists them), or use --undeclared=warn",
                kernels.join(", ")
            );
            (text, UNDECLARED_EXIT_CODE)
        })
    }

    fn results(&self) -> Vec<Findings> {
        let tests = self.tests();
        let mut results = Vec::new();
        for (name, text) in self.read("json") {
            for mut findings in merged(&text) {
                // The runner's own process has tests in its own lines.
                let started_by = tests.get(&name).filter(|(runner, _)| *runner != findings.process);
                if let (None, Some((_, test))) = (&findings.test, started_by) {
                    findings.test = Some(test.clone());
                }
                results.push(findings);
            }
        }
        results
    }

    /// Returns the test whose processes write each file, with the process of the test itself.
    fn tests(&self) -> HashMap<String, (u64, String)> {
        let mut tests = HashMap::new();
        for (_, text) in self.read("tests") {
            for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
                let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
                let process = line["process"].as_u64().unwrap_or(0);
                tests.insert(text("file"), (process, text("test")));
            }
        }
        tests
    }

    /// Returns the files of the folder whose names end so, with their texts.
    fn read(&self, end: &str) -> Vec<(String, String)> {
        let entries = std::fs::read_dir(self.folder.path()).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|found| found == end))
            .collect();
        paths.sort();
        let read = |path: PathBuf| {
            let name = path.file_name()?.to_string_lossy().into_owned();
            Some((name, String::from_utf8_lossy(&std::fs::read(&path).ok()?).into_owned()))
        };
        paths.into_iter().filter_map(read).collect()
    }
}

/// Reads a journal: a part for each process, and one for each line that a test runner wrote.
fn merged(text: &str) -> Vec<Findings> {
    let mut results: Vec<Findings> = Vec::new();
    let mut of_process: HashMap<u64, (usize, BTreeMap<u64, Value>)> = HashMap::new();
    // A process that was killed may have left a part of a line.
    for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let process = line["process"].as_u64().unwrap_or(0);
        if let Some(races) = line["races"].as_array() {
            let test = line["test"].as_str().map(str::to_owned);
            results.push(Findings { process, test, races: races.clone(), ..Findings::default() });
            continue;
        }
        let (at, races) = of_process.entry(process).or_insert_with(|| {
            results.push(Findings { process, ended_early: true, ..Findings::default() });
            (results.len() - 1, BTreeMap::new())
        });
        let findings = &mut results[*at];
        findings.fails = line["mode"] == "error";
        findings.program = line["program"].as_str().map(|name| shown(name.as_bytes()));
        if let (Some(id), Some(race)) = (line["id"].as_u64(), line.get("race")) {
            races.insert(id, race.clone());
        }
        for id in line["withdrawn"].as_array().into_iter().flatten() {
            id.as_u64().map(|id| races.remove(&id));
        }
        if let Some(last) = line["taken"].as_u64() {
            races.retain(|id, _| *id > last);
        }
        if let Some(kernel) = line["kernel"].as_str() {
            findings.kernels.push(kernel.to_owned());
            findings.kernel_places.push(line["stack"][0].as_str().map(str::to_owned));
        }
        if let Some(unordered) = line.get("unordered") {
            findings.unordered = Some(unordered.clone());
        }
        if line["end"] == true {
            findings.ended_early = false;
            findings.timeline = line.get("timeline").cloned();
            let missing = line["missing"].as_object().into_iter().flatten();
            findings.missing =
                missing.map(|(name, count)| (name.clone(), count.as_u64().unwrap_or(0))).collect();
        }
    }
    for (at, races) in of_process.into_values() {
        results[at].races = races.into_values().collect();
    }
    results
}

/// Returns whether a frame is one of Python's interpreter, whose lines do not help.
fn is_interpreter(frame: &Value) -> bool {
    let text = |name: &str| frame[name].as_str().unwrap_or_default();
    text("function").trim_start_matches('_').starts_with("Py")
        || text("file").contains("/Python-3.")
}

/// Returns the frames of an access that a reader wants to see first, innermost first: those of the
/// user's Python code, or of any, those in the working folder, or those that are not the system's.
pub fn user_frames(side: &Value) -> Vec<&Value> {
    let here = std::env::current_dir().unwrap_or_default();
    let file = |frame: &Value| frame["file"].as_str().unwrap_or_default().to_owned();
    let is_python = |frame: &Value| frame["language"] == "python";
    let is_own = |frame: &Value| Path::new(&file(frame)).starts_with(&here);
    // The replacement runtime library is between the program and the driver.
    let is_foreign = |frame: &Value| {
        file(frame).starts_with("/usr/") || file(frame).contains("/cuda-sim/runtime/src/")
    };
    let kinds: [&dyn Fn(&Value) -> bool; 5] = [
        &|frame| is_python(frame) && frame["library"] != true,
        &is_python,
        &|frame| is_own(frame) && !is_interpreter(frame),
        &|frame| !is_foreign(frame) && !is_interpreter(frame),
        &|_| true,
    ];
    let frames: Vec<&Value> = side["frames"].as_array().into_iter().flatten().collect();
    let with_file = || frames.iter().copied().filter(|frame| frame["file"].is_string());
    let of = |kind: &&dyn Fn(&Value) -> bool| with_file().filter(|frame| kind(frame)).collect();
    let found = kinds.iter().map(of).find(|found: &Vec<&Value>| !found.is_empty());
    found.unwrap_or(frames)
}

/// Returns the place of an access that a reader wants to see first.
pub fn place(side: &Value) -> Option<(String, u64)> {
    let frame = *user_frames(side).first()?;
    Some((frame["file"].as_str()?.to_owned(), frame["line"].as_u64()?))
}

/// Returns a file as a path in the working folder, if it is there.
pub fn relative(file: &str) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    Path::new(file)
        .strip_prefix(here)
        .map_or_else(|_| file.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// Returns what was called, and where.
fn side_title(side: &Value) -> String {
    let label = side["label"].as_str().unwrap_or("?");
    place(side).map_or_else(
        || label.to_owned(),
        |(file, line)| format!("{label} at {}:{line}", relative(&file)),
    )
}

/// Returns one line that names a finding.
pub fn title(race: &Value) -> String {
    let side = side_title;
    let what = match race["rule"].as_str() {
        Some(rule) => format!("{rule}: {}", race["sentence"].as_str().unwrap_or_default()),
        None => "race".to_owned(),
    };
    match race.get("first") {
        Some(first) => format!("{what}: {} and {}", side(first), side(&race["second"])),
        None => format!("{what}: {}", side(&race["second"])),
    }
}
