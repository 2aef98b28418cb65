//! The end of the process: the driver is gone, and the verdict is given. `unsafe`: ends the process.

use super::*;

/// Registered at cuInit: from here on every call answers that the driver is gone, and the verdict is given.
pub extern "C" fn at_exit() {
    if PROCESS.load(Ordering::Acquire) != std::process::id() as i32 {
        return;
    }
    EXITED.store(true, Ordering::Release);
    let Some(mutex) = SIM.get() else { return };
    // A thread that holds the lock and never lets go must not keep the process.
    let Some(mut sim) = mutex.try_lock_for(Duration::from_secs(2)).map(Locked) else { return };
    HERE.set(true);
    CHANGED.notify_all();
    let (report, missing) = (sim.config.report.clone(), crate::border::missing_calls());
    for (name, count) in &missing {
        eprintln!(
            "cuda-sim: {name} is not simulated and was called {count} times; it answered \"not supported\""
        );
    }
    let Some(checker) = &mut sim.checker else { return };
    let (found, mode) = (checker.found(), checker.mode);
    checker.print().iter().for_each(|text| eprint!("{text}"));
    if found > 0 {
        eprintln!("cuda-sim: {found} race{} found", if found == 1 { "" } else { "s" });
    }
    if let Some(path) = report {
        let missing: serde_json::Map<String, serde_json::Value> =
            missing.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect();
        let text =
            serde_json::json!({"races": checker.json(), "count": found, "missing": missing}).to_string();
        if let Err(error) = std::fs::write(&path, text) {
            eprintln!("cuda-sim: {path}: {error}");
        }
    }
    if found > 0 && mode == Races::Error {
        // SAFETY: what the program has not written yet is written; nothing of it runs afterwards.
        unsafe {
            libc::fflush(std::ptr::null_mut());
            libc::_exit(RACES_EXIT_CODE);
        }
    }
}

/// The exit code of a program in which races were found.
pub const RACES_EXIT_CODE: i32 = 66;
