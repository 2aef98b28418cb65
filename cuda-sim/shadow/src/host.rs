//! Functions of the program that a stream calls.
//!
//! Each is wrapped, so that the thread that runs it learns what happened before it in the stream.

use crate::launches::Wrapper;
use crate::passed_on::passed_on;
use cudasim_core::api::graph_params::{AnyParams, HostParams, kind_of, union_of, work};
use cudasim_core::api::graphs::add;
use cudasim_core::capture::submit;
use cudasim_core::clock::Clock;
use cudasim_core::ffi::get;
use cudasim_core::follow::{follow, notify, outside};
use cudasim_core::sim::lock;
use cudasim_core::work::{HostCall, Work};
use std::ffi::c_void;

const HOST_NODE: i32 = 3;

/// Adds a clock to the knowledge of the calling thread. `None`: the graph was changed, so all work
/// is taken to come before.
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

/// Calls `function(stream, status, data)` for a callback, otherwise `function(data)`.
fn run(wrapper: *mut Wrapper, callback: Option<(u64, i32)>) {
    // SAFETY: the driver passes the pointer of `enqueue` or `cuGraphAddHostNode`, which is freed
    // below at its only call, or never for a node.
    let (function, data, clock, again) = unsafe {
        let wrapper = &*wrapper;
        (wrapper.function, wrapper.data, wrapper.clocks().pop_front(), wrapper.again)
    };
    // As in the simulated driver: if threads are observed, the function comes after the stream;
    // otherwise only later work does.
    let seen = lock().is_some_and(|sim| sim.config.threads_seen);
    if seen {
        learn(&clock);
    }
    // SAFETY: the program passed `function` as a CUhostFn, or as a CUstreamCallback if `callback`
    // is set, together with `data`.
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
        // SAFETY: `enqueue` created it with `Box::into_raw`; the driver calls the function once.
        drop(unsafe { Box::from_raw(wrapper) });
    }
}

extern "C" fn run_function(wrapper: *mut c_void) {
    run(wrapper.cast(), None);
}

extern "C" fn run_callback(stream: u64, status: i32, wrapper: *mut c_void) {
    run(wrapper.cast(), Some((stream, status)));
}

/// Enqueues the wrapper of a function of the program with `real(data)`.
fn enqueue(
    symbol: &'static str,
    default: u64,
    stream: u64,
    mut wrapper: Box<Wrapper>,
    real: impl FnOnce(*mut c_void) -> i32,
) -> i32 {
    // Before the real call: the function may run before it returns.
    notify(symbol, default, 0, |sim, default| {
        let stream = sim.stream(stream, default)?;
        wrapper.again = sim.stream_mut(stream).lane.is_some();
        if !wrapper.again {
            sim.prepare(stream);
            let actor = sim.stream_mut(stream).actor;
            let clock = sim.knowledge(actor);
            wrapper.clocks().push_back(clock);
        }
        Ok(())
    });
    let again = wrapper.again;
    let wrapper = Box::into_raw(wrapper);
    let result = outside(|| real(wrapper.cast()));
    if result != 0 {
        // SAFETY: the call failed, so the driver did not keep the pointer of `Box::into_raw` above.
        drop(unsafe { Box::from_raw(wrapper) });
        return result;
    }
    notify(symbol, default, 0, |sim, default| {
        let stream = sim.stream(stream, default)?;
        let call = HostCall { function: 0, data: wrapper as usize, callback_stream: None };
        let work = if again { Work::Host(call, None) } else { Work::Nothing };
        submit(sim, stream, work, Vec::new(), symbol)?;
        Ok(())
    });
    result
}

/// Calls the destructor of a user object. The last reference may have been released by the end of
/// work that is not known here, so all work is taken to come before. The destructor may end the
/// thread, as CPython does: nothing is left to drop then.
extern "C-unwind" fn run_destructor(wrapper: *mut c_void) {
    learn(&None);
    let (function, data) = {
        // SAFETY: `cuUserObjectCreate` gave it to the driver, which calls the destructor once.
        let wrapper = unsafe { Box::from_raw(wrapper.cast::<Wrapper>()) };
        (wrapper.function, wrapper.data)
    };
    // What frees the memory may be another thread, which acquires the address of the data.
    if let Some(mut sim) = lock().filter(|sim| sim.config.threads_seen) {
        let host = sim.host_actor();
        if let Some(checker) = &mut sim.checker {
            checker.hb_before(host, data);
        }
    }
    // SAFETY: the program passed `function` as a CUhostFn, together with `data`.
    unsafe {
        let function: unsafe extern "C-unwind" fn(usize) = std::mem::transmute(function);
        function(data);
    }
}

/// Replaces the wrapper in the parameters of a node by the function of the program.
fn show_own(params: *mut HostParams) {
    let Ok(HostParams { function, data }) = get(params) else { return };
    if function != run_function as extern "C" fn(*mut c_void) as usize {
        return;
    }
    // SAFETY: only `enqueue` and `cuGraphAddHostNode` pass `run_function`, with a `Wrapper` that a
    // node keeps for good.
    let wrapper = unsafe { &*(data as *const Wrapper) };
    // SAFETY: not NULL, because `get` read it, and the driver wrote the same bytes.
    unsafe { params.write(HostParams { function: wrapper.function, data: wrapper.data }) };
}

passed_on! {
    fn cuLaunchHostFunc / cuLaunchHostFunc_ptsz(stream: u64, function: usize, data: usize) |real, default| {
        if function == 0 {
            return outside(|| real(stream, function, data));
        }
        enqueue("cuLaunchHostFunc", default, stream, Wrapper::new(function, data), |wrapper| {
            real(stream, run_function as extern "C" fn(*mut c_void) as usize, wrapper as usize)
        })
    }
    fn cuLaunchHostFunc_v2 / cuLaunchHostFunc_v2_ptsz(
        stream: u64, function: usize, data: usize, mode: u32,
    ) |real, default| {
        if function == 0 {
            return outside(|| real(stream, function, data, mode));
        }
        enqueue("cuLaunchHostFunc", default, stream, Wrapper::new(function, data), |wrapper| {
            real(stream, run_function as extern "C" fn(*mut c_void) as usize, wrapper as usize, mode)
        })
    }
    fn cuStreamAddCallback / cuStreamAddCallback_ptsz(
        stream: u64, function: usize, data: usize, flags: u32,
    ) |real, default| {
        if function == 0 {
            return outside(|| real(stream, function, data, flags));
        }
        enqueue("cuStreamAddCallback", default, stream, Wrapper::new(function, data), |wrapper| {
            real(stream, run_callback as extern "C" fn(u64, i32, *mut c_void) as usize, wrapper as usize, flags)
        })
    }
    fn cuUserObjectCreate(to: *mut u64, data: usize, destroy: usize, count: u32, flags: u32) |real| {
        if destroy == 0 {
            return outside(|| real(to, data, destroy, count, flags));
        }
        let wrapper = Box::into_raw(Wrapper::new(destroy, data));
        let own = run_destructor as extern "C-unwind" fn(*mut c_void) as usize;
        let result = outside(|| real(to, wrapper as usize, own, count, flags));
        if result != 0 {
            // SAFETY: the real call failed, so the driver did not keep the pointer of
            // `Box::into_raw` above.
            drop(unsafe { Box::from_raw(wrapper) });
        }
        result
    }
    fn cuGraphNodeGetParams(node: u64, params: *mut AnyParams) |real| {
        let result = outside(|| real(node, params));
        if result == 0 && kind_of(params) == Ok(HOST_NODE) {
            show_own(union_of(params));
        }
        result
    }
    fn cuGraphHostNodeGetParams(node: u64, params: *mut HostParams) |real| {
        let result = outside(|| real(node, params));
        if result == 0 {
            show_own(params);
        }
        result
    }
    fn cuGraphAddHostNode(
        to: *mut u64, graph: u64, dependencies: *const u64, count: usize, params: *const HostParams,
    ) |real| {
        let Ok(HostParams { function, data }) = get(params) else {
            return outside(|| real(to, graph, dependencies, count, params));
        };
        let mut wrapper = Wrapper::new(function, data);
        wrapper.again = true;
        // Never freed: graphs are cloned, and executable graphs outlive them.
        let wrapper = Box::into_raw(wrapper) as usize;
        let wrapped = HostParams {
            function: run_function as extern "C" fn(*mut c_void) as usize,
            data: wrapper,
        };
        follow("cuGraphAddHostNode", 1, || real(to, graph, dependencies, count, &wrapped), to, |sim, _| {
            let call = HostCall { function: 0, data: wrapper, callback_stream: None };
            let task = work(Work::Host(call, None), Vec::new(), "a host node");
            add(sim, to, graph, dependencies, count, task)
        })
    }
}
