//! The end of the process: the driver is gone, and the results are reported.
//!
//! May use: `config`, `console`, `missing`, `real_driver`, `sim::state`. Unsafe: flushes the output
//! and ends the process.

use crate::config::Races;
use crate::console::print;
use crate::missing;
use crate::sim::state::{CHANGED, EXITED, PROCESS, try_lock_for};
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Reports the results at exit. From here on every call returns `CUDA_ERROR_DEINITIALIZED`. cuInit
/// registers it.
pub extern "C" fn at_exit() {
    if PROCESS.load(Ordering::Acquire) != std::process::id() as i32 {
        return;
    }
    EXITED.store(true, Ordering::Release);
    // A thread that never releases the lock must not block the process.
    let Some(mut sim) = try_lock_for(Duration::from_secs(2)) else { return };
    sim.end_shared();
    CHANGED.notify_all();
    let missing = missing::calls();
    for (name, count) in &missing {
        print(&if crate::real_driver::is_present() {
            format!(
                "cuda-sim: {name} was called {count} times in ways that the checker does not \
                 follow\n"
            )
        } else {
            format!(
                "cuda-sim: {name} is not simulated and was called {count} times; it returned \
                 {}\n",
                missing::result(name)
            )
        });
    }
    let report = sim.config.report.clone();
    let (mut found, mut mode, mut races) = (0, Races::Off, Vec::new());
    if let Some(checker) = &mut sim.checker {
        checker.end_open_waits();
        (found, mode) = (checker.found(), checker.mode);
        checker.print().iter().for_each(|text| print(text));
        checker.summary().iter().for_each(|text| print(text));
        races = if report.is_some() { checker.json() } else { races };
    }
    if found > 0 {
        print(&format!("cuda-sim: {found} race{} found\n", if found == 1 { "" } else { "s" }));
    }
    if let Some(path) = report {
        let missing: serde_json::Map<String, serde_json::Value> =
            missing.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect();
        let process = std::process::id();
        let line = serde_json::json!({
            "process": process, "count": found, "races": races, "missing": missing,
        });
        // One write for each process: several may end at the same time.
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
        if let Err(error) = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()))
        {
            print(&format!("cuda-sim: {path}: {error}\n"));
        }
    }
    if found > 0 && mode == Races::Error {
        // SAFETY: `fflush` accepts NULL, and `_exit` may be called at any time. No code of the
        // program runs afterwards.
        unsafe {
            libc::fflush(std::ptr::null_mut());
            libc::_exit(RACES_EXIT_CODE);
        }
    }
}

/// The exit status of a program in which races were found.
pub const RACES_EXIT_CODE: i32 = 66;
