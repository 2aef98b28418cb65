//! Calls of functions that are not simulated, counted for the report at the end of the process.
//!
//! May use: nothing. Unsafe: none.

use std::collections::BTreeMap;
use std::sync::Mutex;

static MISSING: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// Counts a call of a function that is not simulated or could not be followed. Returns the number
/// of its calls so far.
pub fn count(symbol: &'static str) -> u64 {
    let mut calls = MISSING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let count = calls.entry(symbol).or_insert(0);
    *count += 1;
    *count
}

/// Returns what a function that is not simulated returns.
pub fn result(symbol: &str) -> &'static str {
    match symbol {
        // A program that finds no private table may have another way.
        "cuGetExportTable" => "CUDA_ERROR_NOT_FOUND",
        _ => "CUDA_ERROR_NOT_SUPPORTED",
    }
}

/// Returns the functions that were called, and how often.
pub fn calls() -> Vec<(&'static str, u64)> {
    let calls = MISSING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    calls.iter().map(|(name, count)| (*name, *count)).collect()
}
