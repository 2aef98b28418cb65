//! Functions of the program that a stream calls.
//!
//! May use: `api::graphs`, `capture`, `clock`, `ffi`, `sim`, `watch::follow`, `watch::launches`,
//! `work`. Unsafe: calls them, and keeps their data behind a pointer that the driver returns.
//!
//! Each is wrapped, so that the thread that runs it learns what happened before it in the stream.

use super::follow::{follow, outside, tell, watched};
use super::launches::Told;
use crate::api::graphs::{HostParams, add, work};
use crate::capture::submit;
use crate::clock::Clock;
use crate::ffi::get;
use crate::sim::lock;
use crate::work::{HostCall, Work};
use std::ffi::c_void;

/// In a graph that was changed nobody knows what came before: then everything did.
fn learn(clock: &Option<Option<Clock>>) {
    let Some(mut sim) = lock() else { return };
    match clock {
        Some(clock) => sim.this_thread_learns(clock.as_ref()),
        None => {
            let contexts: Vec<u64> = sim.contexts.iter().map(|(context, _)| context).collect();
            contexts.into_iter().for_each(|context| sim.host_knows_context(context));
        }
    }
}

/// `function(stream, status, data)` of a callback, `function(data)` of all others.
fn run(told: *mut Told, callback: Option<(u64, i32)>) {
    // SAFETY: the driver gives back what it was given, once, or for as long as the graph lives.
    let (function, data, clock, again) = unsafe {
        let told = &*told;
        (told.function, told.data, told.clocks().pop_front(), told.again)
    };
    // As in the simulated driver: where threads are seen, the function comes after the stream;
    // otherwise whoever comes after the function.
    let seen = lock().is_some_and(|sim| sim.config.threads_seen);
    if seen {
        learn(&clock);
    }
    // SAFETY: the program passed a function of this type with its data.
    unsafe {
        match callback {
            None => {
                let function: unsafe extern "C" fn(usize) = std::mem::transmute(function);
                function(data);
            }
            Some((stream, status)) => {
                let function: unsafe extern "C" fn(u64, i32, usize) = std::mem::transmute(function);
                function(stream, status, data);
            }
        }
    }
    if !seen {
        learn(&clock);
    }
    if !again {
        // SAFETY: made by `Box::into_raw`, and called for the only time.
        drop(unsafe { Box::from_raw(told) });
    }
}

extern "C" fn run_function(told: *mut c_void) {
    run(told.cast(), None);
}

extern "C" fn run_callback(stream: u64, status: i32, told: *mut c_void) {
    run(told.cast(), Some((stream, status)));
}

/// `real(function, data)` enqueues a function that stands for the program's.
fn enqueue(
    symbol: &'static str,
    default: u64,
    stream: u64,
    mut told: Box<Told>,
    real: impl FnOnce(*mut c_void) -> i32,
) -> i32 {
    // Before the call: the function may run before that is back.
    tell(symbol, default, 0, |sim, default| {
        let core = sim.stream(stream, default)?;
        told.again = sim.core_mut(core).lane.is_some();
        if !told.again {
            sim.prepare(core);
            let actor = sim.core_mut(core).actor;
            let clock = sim.knowledge(actor);
            told.clocks().push_back(clock);
        }
        Ok(())
    });
    let again = told.again;
    let told = Box::into_raw(told);
    let result = outside(|| real(told.cast()));
    if result != 0 {
        // SAFETY: the driver did not take it.
        drop(unsafe { Box::from_raw(told) });
        return result;
    }
    tell(symbol, default, 0, |sim, default| {
        let core = sim.stream(stream, default)?;
        let call = HostCall { function: 0, data: told as usize, callback_stream: None };
        let work = if again { Work::Host(call, None) } else { Work::Nothing };
        submit(sim, core, work, Vec::new(), symbol)?;
        Ok(())
    });
    result
}

watched! {
    fn cuLaunchHostFunc / cuLaunchHostFunc_ptsz(
        stream: u64,
        function: usize,
        data: usize,
    ) |real, default| {
        if function == 0 {
            return outside(|| real(stream, function, data));
        }
        enqueue("cuLaunchHostFunc", default, stream, Told::new(function, data), |told| {
            real(stream, run_function as extern "C" fn(*mut c_void) as usize, told as usize)
        })
    }
    fn cuLaunchHostFunc_v2 / cuLaunchHostFunc_v2_ptsz(
        stream: u64,
        function: usize,
        data: usize,
        mode: u32,
    ) |real, default| {
        if function == 0 {
            return outside(|| real(stream, function, data, mode));
        }
        enqueue("cuLaunchHostFunc", default, stream, Told::new(function, data), |told| {
            real(stream, run_function as extern "C" fn(*mut c_void) as usize, told as usize, mode)
        })
    }
    fn cuStreamAddCallback / cuStreamAddCallback_ptsz(
        stream: u64,
        function: usize,
        data: usize,
        flags: u32,
    ) |real, default| {
        if function == 0 {
            return outside(|| real(stream, function, data, flags));
        }
        enqueue("cuStreamAddCallback", default, stream, Told::new(function, data), |told| {
            real(
                stream,
                run_callback as extern "C" fn(u64, i32, *mut c_void) as usize,
                told as usize,
                flags,
            )
        })
    }
    fn cuGraphAddHostNode(
        to: *mut u64,
        graph: u64,
        dependencies: *const u64,
        count: usize,
        params: *const HostParams,
    ) |real| {
        let Ok(HostParams { function, data }) = get(params) else {
            return outside(|| real(to, graph, dependencies, count, params));
        };
        let mut told = Told::new(function, data);
        told.again = true;
        // Graphs are cloned, and executable ones outlive them: kept as long as the process.
        let told = Box::into_raw(told) as usize;
        let wrapped = HostParams {
            function: run_function as extern "C" fn(*mut c_void) as usize,
            data: told,
        };
        follow(
            "cuGraphAddHostNode",
            1,
            || real(to, graph, dependencies, count, &wrapped),
            to,
            |sim, _| {
                let call = HostCall { function: 0, data: told, callback_stream: None };
                let task = work(Work::Host(call, None), Vec::new(), "a host node");
                add(sim, to, graph, dependencies, count, task)
            },
        )
    }
}
