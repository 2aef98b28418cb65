//! The options in the environment, read once at cuInit.
//!
//! `cuda-sim run --help` describes those that are options of the command, of the table in
//! `cli/src/options.rs`. The others are set by the command, or name files:
//!
//! | variable | value |
//! |---|---|
//! | `CUDASIM_REPORT` | file that the report is written to, as JSON |
//! | `CUDASIM_REPORT_FOLDER` | folder for the reports of all processes of a run |
//! | `CUDASIM_TIMELINE` | 1: the report has what came before each race |
//! | `CUDASIM_MISSING_LOG` | file that missing functions are written to, by `--missing` |
//! | `CUDASIM_REAL` | the real driver that is followed, see `shadow/` |
//! | `CUDASIM_REDIRECT` | folder of the runtime libraries, see `redirect/` |
//!
//! Without the command, races are warnings, the schedule is `eager`, and host threads are ordered by
//! their calls. Beside a real driver, variables for the checker begin with `CUDASIM_SHADOW_`.

use crate::console::print;
use crate::environment::variable;
use crate::results::{self, Code};
use crate::shown::shown;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Schedule {
    Eager,
    Lazy,
    Random(u64),
    Threads,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Races {
    #[default]
    Off,
    Warn,
    Error,
}

/// An injected fault: the `nth` call of functions named `call` returns a code, which remains for
/// the context if it is sticky.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub call: String,
    pub nth: u64,
    pub code: Code,
    pub sticky: bool,
}

#[derive(Clone, Debug)]
pub struct Config {
    pub schedule: Schedule,
    pub races: Races,
    pub devices: usize,
    /// Whether devices can access the memory of each other.
    pub peers: bool,
    pub memory: u64,
    pub faults: Vec<Fault>,
    pub driver_version: i32,
    pub without: Vec<String>,
    pub stub: bool,
    pub guard: bool,
    pub shifted: bool,
    /// Whether the order is that of the documentation of CUDA 11, and not that of 13.
    pub old_docs: bool,
    pub threads_seen: bool,
    pub report: Option<String>,
    pub print_at_exit: bool,
    pub strict: bool,
    pub timeline: bool,
    /// Whether reports have all frames of a stack.
    pub native: bool,
    /// The file that declares kernels.
    pub kernels: Option<String>,
}

pub const DRIVER_VERSION: i32 = 13050;

/// Maximum number of devices.
pub const MOST_DEVICES: u64 = 16;

/// The paths at which distributions and containers install the real driver.
pub const REAL_DRIVERS: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    "/usr/lib/aarch64-linux-gnu/libcuda.so.1",
    "/usr/lib64/libcuda.so.1",
    "/usr/lib/libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
    "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1",
    "/run/opengl-driver/lib/libcuda.so.1",
];

impl Config {
    /// Reads the environment. Invalid values are reported on stderr and replaced by the default: a
    /// typing error must not look like a passing test.
    pub fn from_environment() -> Config {
        // A real driver may be a simulated one, so the checker beside it has variables of its own.
        let own = |name: &str| match name.strip_prefix("CUDASIM_") {
            Some(rest) if crate::real_driver::is_present() => format!("CUDASIM_SHADOW_{rest}"),
            _ => name.to_owned(),
        };
        let get = |name: &str| variable(&own(name)).filter(|value| !value.is_empty());
        let bad = not_understood;
        let flag = |name: &str| get(name).is_some_and(|value| value != "0");
        let number = |name: &str, default: u64| match get(name) {
            None => default,
            Some(value) => value.parse().unwrap_or_else(|_| {
                bad(name, &value);
                default
            }),
        };
        let schedule = match get("CUDASIM_SCHEDULE").as_deref() {
            None | Some("eager") => Schedule::Eager,
            Some("lazy") => Schedule::Lazy,
            Some("threads") => Schedule::Threads,
            Some("random") => Schedule::Random(0),
            Some(text) => match text.strip_prefix("random:").map(str::parse) {
                Some(Ok(seed)) => Schedule::Random(seed),
                _ => {
                    bad("CUDASIM_SCHEDULE", text);
                    Schedule::Eager
                }
            },
        };
        let races = match get("CUDASIM_RACES").as_deref() {
            None | Some("warn") => Races::Warn,
            Some("off") => Races::Off,
            Some("error") => Races::Error,
            Some(text) => {
                bad("CUDASIM_RACES", text);
                Races::Warn
            }
        };
        let faults = get("CUDASIM_FAIL").map_or_else(Vec::new, |text| {
            let parsed = text.split(',').map(|part| parse_fault(part).ok_or(part));
            parsed
                .filter_map(|fault| fault.map_err(|part| bad("CUDASIM_FAIL", part)).ok())
                .collect()
        });
        let mut devices = number("CUDASIM_DEVICES", 1);
        if devices > MOST_DEVICES {
            bad("CUDASIM_DEVICES", &devices.to_string());
            devices = 1;
        }
        Config {
            schedule,
            races,
            devices: devices as usize,
            peers: get("CUDASIM_PEERS").as_deref() != Some("none"),
            memory: number("CUDASIM_MEMORY", 8 << 30),
            faults,
            driver_version: number("CUDASIM_DRIVER_VERSION", DRIVER_VERSION as u64) as i32,
            without: get("CUDASIM_WITHOUT")
                .map_or_else(Vec::new, |text| text.split(',').map(str::to_owned).collect()),
            stub: flag("CUDASIM_STUB"),
            guard: flag("CUDASIM_GUARD"),
            shifted: get("CUDASIM_REGISTER").as_deref() == Some("shifted"),
            old_docs: get("CUDASIM_DOCS").as_deref() == Some("11"),
            threads_seen: get("CUDASIM_HOST_THREADS").as_deref() == Some("seen"),
            report: get("CUDASIM_REPORT"),
            timeline: flag("CUDASIM_TIMELINE"),
            native: flag("CUDASIM_NATIVE"),
            kernels: get("CUDASIM_KERNELS"),
            strict: get("CUDASIM_RULES").as_deref() == Some("strict"),
            print_at_exit: get("CUDASIM_PRINT").as_deref() == Some("exit"),
        }
    }
}

/// Returns true if libraries may report the arrays that they exchange. Read before cuInit too, when
/// a library asks for the checker.
pub fn observes_exchanges() -> bool {
    let name = if crate::real_driver::is_present() {
        "CUDASIM_SHADOW_EXCHANGES"
    } else {
        "CUDASIM_EXCHANGES"
    };
    match variable(name).as_deref() {
        None | Some("" | "seen") => true,
        Some("hidden") => false,
        Some(text) => {
            not_understood(name, text);
            true
        }
    }
}

/// Reports an invalid value. Ignores errors: stderr may be closed.
fn not_understood(name: &str, value: &str) {
    print(&format!("cuda-sim: {name}={} is not understood and ignored\n", shown(value.as_bytes())));
}

/// Parses `cuMemAlloc:3=2`, `cuStreamSynchronize=LAUNCH_FAILED` (the first call) or `*:100=lost`.
pub fn parse_fault(text: &str) -> Option<Fault> {
    let (which, code) = text.split_once('=')?;
    let (call, nth) = match which.split_once(':') {
        Some((call, nth)) => (call, nth.parse().ok()?),
        None => (which, 1),
    };
    let sticky = code == "lost";
    let code = if sticky { Code::LAUNCH_FAILED } else { results::parse(code)? };
    (!call.is_empty() && nth > 0).then(|| Fault { call: call.to_owned(), nth, code, sticky })
}
