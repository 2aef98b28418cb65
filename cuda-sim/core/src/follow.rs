//! Calls that are passed on to the real driver and reported to the checker after they succeeded.

use crate::ffi::{FORKED, enter, get};
use crate::graph::destroy_graph;
use crate::handles::GIVEN;
use crate::missing;
use crate::real_driver;
use crate::results::{Code, Result};
use crate::sim::{EXITED, Locked, PROCESS, lock};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::Ordering;

thread_local! {
    /// Whether this thread is in the real driver, whose calls of itself are not followed.
    static OUTSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Calls the real driver.
pub fn outside<R>(call: impl FnOnce() -> R) -> R {
    let before = OUTSIDE.replace(true);
    let result = call();
    OUTSIDE.set(before);
    result
}

pub fn is_outside() -> bool {
    OUTSIDE.get()
}

/// Returns whether calls are reported: not before cuInit, not after the report at exit, and not in
/// a forked child, where drivers do not work.
fn is_alive() -> bool {
    PROCESS.load(Ordering::Acquire) != 0
        && !EXITED.load(Ordering::Acquire)
        && !FORKED.load(Ordering::Relaxed)
}

/// Forgets all graphs after a change of an unknown one: handles of captured nodes are unknown.
pub fn forget_all() {
    if let Some(mut sim) = lock() {
        let graphs: Vec<u64> =
            sim.graphs.iter().filter(|(_, graph)| !graph.child).map(|(handle, _)| handle).collect();
        let capturing: Vec<u64> = sim.captures.values().map(|capture| capture.graph).collect();
        for graph in graphs.into_iter().filter(|graph| !capturing.contains(graph)) {
            destroy_graph(&mut sim, graph);
        }
    }
}

/// Reports a call to the checker. `given`: the handle or address that the driver returned, or 0.
pub fn notify(
    symbol: &'static str,
    default: u64,
    given: u64,
    body: impl FnOnce(&mut Locked, u64) -> Result,
) {
    if !is_alive() {
        return;
    }
    let code = enter(symbol, default, |sim, default| {
        GIVEN.set(given);
        body(sim, default)
    });
    GIVEN.set(0);
    if code != 0 {
        missing::count(symbol);
        if symbol.starts_with("cuGraph") && symbol != "cuGraphLaunch" {
            forget_all();
        }
    }
}

/// Reports a call that was illegal because of a capture.
pub fn refused(symbol: &'static str, result: i32) {
    if (900..=908).contains(&result) {
        notify(symbol, 1, 0, |sim, _| {
            sim.refused_in_capture(symbol, Code(result));
            Ok(())
        });
    }
}

/// Calls the real driver, and reports the call to the checker if it succeeded. `made`: the output
/// with the new handle or address.
pub fn follow(
    symbol: &'static str,
    default: u64,
    real: impl FnOnce() -> i32,
    made: *const u64,
    body: impl FnOnce(&mut Locked, u64) -> Result,
) -> i32 {
    if is_outside() {
        return real();
    }
    remember_numbers(symbol);
    let result = outside(real);
    refused(symbol, result);
    if result == 0 {
        notify(symbol, default, get(made).unwrap_or(0), body);
    }
    result
}

/// Before a call that writes numbers in memory or waits for them: the host may have changed them.
fn remember_numbers(symbol: &str) {
    let names = ["cuStreamWriteValue", "cuStreamWaitValue", "cuStreamBatchMemOp", "cuGraphLaunch"];
    if names.iter().any(|name| symbol.starts_with(name)) {
        if let Some(mut sim) = lock() {
            sim.remember_numbers();
        }
    }
}

/// Runs a function of the driver: its body alone, or beside a real driver the function of that, and
/// then the body for the checker. `index`: of the function in the table; `real`: calls what it
/// finds there. `made`: the output with the new handle or address.
#[inline]
pub fn run(
    symbol: &'static str,
    default: u64,
    index: usize,
    real: impl FnOnce(*mut c_void) -> i32,
    made: *const u64,
    body: impl FnOnce(&mut Locked, u64) -> Result,
) -> i32 {
    match real_driver::get() {
        None => enter(symbol, default, body),
        Some(driver) => {
            let function = driver.functions[index].load(Ordering::Relaxed);
            follow(symbol, default, || real(function), made, body)
        }
    }
}
