//! Calls of functions that are not simulated, counted for the report at the end of the process, and
//! the log for `cuda-sim --missing`.

use crate::environment::variable;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::{Mutex, OnceLock};

static MISSING: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// Counts a call of a function that is not simulated or could not be followed. Returns the number
/// of its calls so far.
pub fn count(symbol: &'static str) -> u64 {
    let mut calls = MISSING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let count = calls.entry(symbol).or_insert(0);
    *count += 1;
    *count
}

/// Returns what a function that is not simulated returns, and what that means if it is known.
pub fn result(symbol: &str) -> &'static str {
    match symbol {
        // A program that finds no private table may have another way.
        "cuGetExportTable" => {
            "CUDA_ERROR_NOT_FOUND. NVIDIA's own libraries, the CUDA runtime among them, do not \
             start without it; `cuda-sim run --explain` names the module that contains the \
             runtime, and the remedy"
        }
        _ => "CUDA_ERROR_NOT_SUPPORTED",
    }
}

/// Returns the functions that were called, and how often.
pub fn calls() -> Vec<(&'static str, u64)> {
    let calls = MISSING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    calls.iter().map(|(name, count)| (*name, *count)).collect()
}

/// Writes a line of the log if there is one: what happened to a function, and its name. The same
/// line is written once for each process, and at once, because the program may crash.
pub fn log(what: &'static str, name: &str) {
    static PATH: OnceLock<Option<String>> = OnceLock::new();
    static WRITTEN: Mutex<BTreeSet<(&str, String)>> = Mutex::new(BTreeSet::new());
    let Some(path) = PATH.get_or_init(|| variable("CUDASIM_MISSING_LOG")) else { return };
    let mut written = WRITTEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if written.insert((what, name.to_owned())) {
        let file = OpenOptions::new().create(true).append(true).open(path);
        // A line that cannot be written is not worth an error in the program.
        let _ = file.and_then(|mut file| file.write_all(format!("{what} {name}\n").as_bytes()));
    }
}
