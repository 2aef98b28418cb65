//! Calls that are passed on to the real driver and reported to the checker after they succeeded.
//!
//! May use: `ffi`, `graph`, `handles`, `missing`, `passthrough::real`, `results`, `sim`. Unsafe:
//! `no_mangle` on functions of cuda.h, in a macro.

use crate::ffi::{FORKED, enter, get};
use crate::graph::destroy_graph;
use crate::handles::GIVEN;
use crate::missing;
use crate::results::{Code, Result};
use crate::sim::{EXITED, Locked, PROCESS, lock};
use std::cell::Cell;
use std::sync::atomic::Ordering;

thread_local! {
    /// Whether this thread is in the real driver, whose calls of its own functions are not
    /// followed.
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

/// Forgets all graphs after a change of an unknown one: the handles of captured nodes are not known
/// here.
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

/// Reports a call to the checker. `given`: the handle or address that the driver returned; 0 for
/// none.
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
    let result = outside(real);
    refused(symbol, result);
    if result == 0 {
        notify(symbol, default, get(made).unwrap_or(0), body);
    }
    result
}

/// Defines the functions of `api/` in this build: each calls the real driver and then runs the
/// simulator's body for the checker. If the first argument receives a handle or an address, the
/// real one names what the body creates.
macro_rules! api {
    () => {};
    (
        $(#[$doc:meta])*
        fn $name:ident($to:ident: *mut u64 $(, $arg:ident: $ty:ty)* $(,)?)
        |$sim:ident| $body:block
        $($rest:tt)*
    ) => {
        crate::passthrough::follow::api! {
            @one $name, 1, $to, ($to: *mut u64 $(, $arg: $ty)*), |$sim, _unused| $body
        }
        crate::passthrough::follow::api! { $($rest)* }
    };
    (
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) |$sim:ident| $body:block
        $($rest:tt)*
    ) => {
        crate::passthrough::follow::api! {
            @one $name, 1, (std::ptr::null()), ($($arg: $ty),*), |$sim, _unused| $body
        }
        crate::passthrough::follow::api! { $($rest)* }
    };
    (
        $(#[$doc:meta])*
        fn $name:ident / $twin:ident($to:ident: *mut u64 $(, $arg:ident: $ty:ty)* $(,)?)
        |$sim:ident, $default:ident| $body:block
        $($rest:tt)*
    ) => {
        crate::passthrough::follow::api! {
            @one $name, 1, $to, ($to: *mut u64 $(, $arg: $ty)*), |$sim, $default| $body
        }
        crate::passthrough::follow::api! {
            @one $twin, 2, $to, ($to: *mut u64 $(, $arg: $ty)*), |$sim, $default| $body
        }
        crate::passthrough::follow::api! { $($rest)* }
    };
    (
        $(#[$doc:meta])*
        fn $name:ident / $twin:ident($($arg:ident: $ty:ty),* $(,)?)
        |$sim:ident, $default:ident| $body:block
        $($rest:tt)*
    ) => {
        crate::passthrough::follow::api! {
            @one $name, 1, (std::ptr::null()), ($($arg: $ty),*), |$sim, $default| $body
        }
        crate::passthrough::follow::api! {
            @one $twin, 2, (std::ptr::null()), ($($arg: $ty),*), |$sim, $default| $body
        }
        crate::passthrough::follow::api! { $($rest)* }
    };
    (
        @one $name:ident, $number:literal, $made:tt, ($($arg:ident: $ty:ty),*),
        |$sim:ident, $default:ident| $body:block
    ) => {
        pub extern "C" fn $name($($arg: $ty),*) -> i32 {
            let real = crate::passthrough::real::function!($name($($ty),*));
            crate::passthrough::follow::follow(
                stringify!($name),
                $number,
                || real($($arg),*),
                $made,
                |$sim, $default| $body,
            )
        }
    };
}
pub(crate) use api;

/// Defines functions that report to the checker by themselves. `|real|` is the driver's function.
macro_rules! passed_on {
    () => {};
    (
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) |$real:ident| $body:block
        $($rest:tt)*
    ) => {
        crate::passthrough::follow::passed_on! { @one $name, ($($arg: $ty),*), |$real| $body }
        crate::passthrough::follow::passed_on! { $($rest)* }
    };
    (
        $(#[$doc:meta])*
        fn $name:ident / $twin:ident($($arg:ident: $ty:ty),* $(,)?)
        |$real:ident, $default:ident| $body:block
        $($rest:tt)*
    ) => {
        crate::passthrough::follow::passed_on! {
            @one $name, ($($arg: $ty),*), |$real| { let $default = 1; $body }
        }
        crate::passthrough::follow::passed_on! {
            @one $twin, ($($arg: $ty),*), |$real| { let $default = 2; $body }
        }
        crate::passthrough::follow::passed_on! { $($rest)* }
    };
    (@one $name:ident, ($($arg:ident: $ty:ty),*), |$real:ident| $body:block) => {
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $ty),*) -> i32 {
            let $real = crate::passthrough::real::function!($name($($ty),*));
            if crate::passthrough::follow::is_outside() {
                return $real($($arg),*);
            }
            $body
        }
    };
}
pub(crate) use passed_on;
