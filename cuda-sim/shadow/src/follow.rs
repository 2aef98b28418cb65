//! Calls that are passed on to the real driver and reported to the checker after they succeeded.
//!
//! May use: `ffi`, `graph`, `handles`, `missing`, `results`, `sim`, `watch::real`. Unsafe:
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
    /// This thread is in the real driver: what that calls of its own functions is its own business.
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

/// Not before cuInit, after the verdict, and in a forked child, where a driver does not work
/// either.
fn is_alive() -> bool {
    PROCESS.load(Ordering::Acquire) != 0
        && !EXITED.load(Ordering::Acquire)
        && !FORKED.load(Ordering::Relaxed)
}

/// A graph was changed, and nobody knows which: nodes of captures have handles that are not known
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

/// Tells the checker of a call. `given`: the handle or the address that the driver made, 0 for
/// none.
pub fn tell(
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

/// Tells the checker of a call that was illegal because of a capture.
pub fn refused(symbol: &'static str, result: i32) {
    if (900..=908).contains(&result) {
        tell(symbol, 1, 0, |sim, _| {
            sim.refused_in_capture(symbol, Code(result));
            Ok(())
        });
    }
}

/// Calls the real driver, and tells the checker if that succeeded. `made`: where the driver wrote
/// what it made.
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
        tell(symbol, default, get(made).unwrap_or(0), body);
    }
    result
}

/// In this build, the functions of `api/`: called in the real driver, and told afterwards. Their
/// bodies are the simulator's. Where the first argument takes a handle or an address, the real one
/// names what the body makes.
macro_rules! api {
    () => {};
    ($(#[$doc:meta])* fn $name:ident($to:ident: *mut u64 $(, $arg:ident: $ty:ty)* $(,)?) |$sim:ident| $body:block $($rest:tt)*) => {
        crate::watch::follow::api! { @one $name, 1, $to, ($to: *mut u64 $(, $arg: $ty)*), |$sim, _unused| $body }
        crate::watch::follow::api! { $($rest)* }
    };
    ($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) |$sim:ident| $body:block $($rest:tt)*) => {
        crate::watch::follow::api! { @one $name, 1, (std::ptr::null()), ($($arg: $ty),*), |$sim, _unused| $body }
        crate::watch::follow::api! { $($rest)* }
    };
    ($(#[$doc:meta])* fn $name:ident / $twin:ident($to:ident: *mut u64 $(, $arg:ident: $ty:ty)* $(,)?) |$sim:ident, $default:ident| $body:block $($rest:tt)*) => {
        crate::watch::follow::api! { @one $name, 1, $to, ($to: *mut u64 $(, $arg: $ty)*), |$sim, $default| $body }
        crate::watch::follow::api! { @one $twin, 2, $to, ($to: *mut u64 $(, $arg: $ty)*), |$sim, $default| $body }
        crate::watch::follow::api! { $($rest)* }
    };
    ($(#[$doc:meta])* fn $name:ident / $twin:ident($($arg:ident: $ty:ty),* $(,)?) |$sim:ident, $default:ident| $body:block $($rest:tt)*) => {
        crate::watch::follow::api! { @one $name, 1, (std::ptr::null()), ($($arg: $ty),*), |$sim, $default| $body }
        crate::watch::follow::api! { @one $twin, 2, (std::ptr::null()), ($($arg: $ty),*), |$sim, $default| $body }
        crate::watch::follow::api! { $($rest)* }
    };
    (@one $name:ident, $number:literal, $made:tt, ($($arg:ident: $ty:ty),*), |$sim:ident, $default:ident| $body:block) => {
        pub extern "C" fn $name($($arg: $ty),*) -> i32 {
            let real = crate::watch::real::function!($name($($ty),*));
            crate::watch::follow::follow(stringify!($name), $number, || real($($arg),*), $made, |$sim, $default| $body)
        }
    };
}
pub(crate) use api;

/// Functions that do their own telling. `|real|` is the driver's.
macro_rules! watched {
    () => {};
    ($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) |$real:ident| $body:block $($rest:tt)*) => {
        crate::watch::follow::watched! { @one $name, ($($arg: $ty),*), |$real| $body }
        crate::watch::follow::watched! { $($rest)* }
    };
    ($(#[$doc:meta])* fn $name:ident / $twin:ident($($arg:ident: $ty:ty),* $(,)?) |$real:ident, $default:ident| $body:block $($rest:tt)*) => {
        crate::watch::follow::watched! { @one $name, ($($arg: $ty),*), |$real| { let $default = 1; $body } }
        crate::watch::follow::watched! { @one $twin, ($($arg: $ty),*), |$real| { let $default = 2; $body } }
        crate::watch::follow::watched! { $($rest)* }
    };
    (@one $name:ident, ($($arg:ident: $ty:ty),*), |$real:ident| $body:block) => {
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $ty),*) -> i32 {
            let $real = crate::watch::real::function!($name($($ty),*));
            if crate::watch::follow::is_outside() {
                return $real($($arg),*);
            }
            $body
        }
    };
}
pub(crate) use watched;
