//! Captures and graphs.
//!
//! The nodes of a capture are known. A call that changes a graph or an executable graph in a way
//! that is not followed makes it unknown, and its launches count as operations that touch nothing.

use crate::passed_on::passed_on;
use cudasim_core::api::graphs::add;
use cudasim_core::capture;
use cudasim_core::ffi::{get, missing};
use cudasim_core::follow::{follow, forget_all, notify, outside};
use cudasim_core::graph::{clone_graph, destroy_exec, destroy_graph, launch};
use cudasim_core::results::Result;
use cudasim_core::sim::{Locked, Task};
use cudasim_core::work::Work;

/// Gives a captured graph the handle of the driver.
fn adopt(sim: &mut Locked, own: u64, handle: u64) {
    sim.graphs.rename(own, Some(handle));
    let nodes = sim.graphs.get(handle).map_or_else(Vec::new, |graph| graph.nodes.clone());
    for node in nodes {
        if let Some(node) = sim.nodes.get_mut(node) {
            node.graph = handle;
        }
    }
}

/// Ends a capture. It is over either way, unless the stream is not its origin.
fn end_capture(
    sim: &mut Locked,
    stream: u64,
    default: u64,
    result: i32,
    graph: *const u64,
) -> Result {
    let stream = sim.stream(stream, default)?;
    let Some(capture) = sim.stream_mut(stream).lane.as_ref().map(|lane| lane.capture) else {
        return Ok(());
    };
    let to_graph = sim.captures.get(&capture).is_some_and(|capture| capture.to_graph);
    if result != 0 {
        sim.invalidate(capture);
    }
    match capture::end(sim, stream) {
        Ok(own) if !to_graph => adopt(sim, own, get(graph)?),
        // The driver refused it as well.
        Err(_) if result != 0 => {}
        ended => drop(ended?),
    }
    Ok(())
}

fn launched(sim: &mut Locked, exec: u64, stream: u64, default: u64) -> Result {
    let stream = sim.stream(stream, default)?;
    if sim.execs.get(exec).is_some() {
        return launch(sim, exec, stream);
    }
    capture::submit(sim, stream, Work::Nothing, Vec::new(), "cuGraphLaunch")?;
    Ok(())
}

fn forget_exec(exec: u64) {
    if let Some(mut sim) = cudasim_core::sim::lock() {
        let _ = destroy_exec(&mut sim, exec);
    }
}

const CONDITIONAL: i32 = 13;

/// Forgets all graphs after a node was added by its parameters. What the bodies of a conditional
/// node access is never known, which the report at the end says.
fn added(result: i32, kind: *const i32) -> i32 {
    if result == 0 {
        if get(kind) == Ok(CONDITIONAL) {
            missing("cuGraphAddNode");
        }
        forget_all();
    }
    result
}

passed_on! {
    fn cuStreamEndCapture / cuStreamEndCapture_ptsz(stream: u64, graph: *mut u64) |real, default| {
        let result = outside(|| real(stream, graph));
        notify("cuStreamEndCapture", default, 0, |sim, default| {
            end_capture(sim, stream, default, result, graph)
        });
        result
    }
    fn cuStreamBeginRecaptureToGraph / cuStreamBeginRecaptureToGraph_ptsz(
        stream: u64, mode: i32, graph: u64, callback: usize, data: usize,
    ) |real, default| {
        // Capturing into a graph is followed as a capture that ends with this handle.
        let real = || real(stream, mode, graph, callback, data);
        follow("cuStreamBeginRecaptureToGraph", default, real, std::ptr::null(), |sim, default| {
            let stream = sim.stream(stream, default)?;
            capture::begin(sim, stream, mode, None)
        })
    }
    fn cuStreamBeginCaptureToCig / cuStreamBeginCaptureToCig_ptsz(stream: u64, params: *const u64) |real, default| {
        follow("cuStreamBeginCaptureToCig", default, || real(stream, params), std::ptr::null(), |sim, default| {
            let stream = sim.stream(stream, default)?;
            capture::begin(sim, stream, capture::RELAXED, None)
        })
    }
    fn cuStreamEndCaptureToCig / cuStreamEndCaptureToCig_ptsz(stream: u64) |real, default| {
        // Launches by a graphics API are not known.
        follow("cuStreamEndCaptureToCig", default, || real(stream), std::ptr::null(), |sim, default| {
            let stream = sim.stream(stream, default)?;
            let graph = capture::end(sim, stream)?;
            destroy_graph(sim, graph);
            Ok(())
        })
    }
    fn cuStreamBeginCaptureToGraph / cuStreamBeginCaptureToGraph_ptsz(
        stream: u64, graph: u64, dependencies: *const u64, edges: *const u64, count: usize, mode: i32,
    ) |real, default| {
        let real = || real(stream, graph, dependencies, edges, count, mode);
        follow("cuStreamBeginCaptureToGraph", default, real, std::ptr::null(), |sim, default| {
            let stream = sim.stream(stream, default)?;
            let tail: Vec<u64> = cudasim_core::ffi::slice(dependencies, count)?.to_vec();
            if tail.iter().any(|node| sim.nodes.get(*node).is_none_or(|node| node.graph != graph)) {
                // In a graph of its own, which is never launched.
                sim.graphs.remove(graph);
                return capture::begin(sim, stream, mode, None);
            }
            capture::begin(sim, stream, mode, Some((graph, tail)))
        })
    }
    fn cuGraphAddChildGraphNode(to: *mut u64, graph: u64, dependencies: *const u64, count: usize, child: u64) |real| {
        let real = || real(to, graph, dependencies, count, child);
        follow("cuGraphAddChildGraphNode", 1, real, std::ptr::null(), |sim, _| {
            let copy = clone_graph(sim, child, true)?;
            cudasim_core::handles::GIVEN.set(get(to)?);
            add(sim, to, graph, dependencies, count, Task::Child(copy))
        })
    }
    fn cuGraphAddNode(to: u64, graph: u64, dependencies: u64, count: usize, params: *const i32) |real| {
        added(outside(|| real(to, graph, dependencies, count, params)), params)
    }
    fn cuGraphAddNode_v2(to: u64, graph: u64, dependencies: u64, edges: u64, count: usize, params: *const i32) |real| {
        added(outside(|| real(to, graph, dependencies, edges, count, params)), params)
    }
    fn cuGraphAddNode_v3(to: u64, graph: u64, dependencies: u64, edges: u64, count: usize, params: *const i32) |real| {
        added(outside(|| real(to, graph, dependencies, edges, count, params)), params)
    }
    fn cuGraphLaunch / cuGraphLaunch_ptsz(exec: u64, stream: u64) |real, default| {
        // Functions of the program may run before the call returns, so they are reported first.
        let mut wrapper = false;
        notify("cuGraphLaunch", default, 0, |sim, default| {
            if !sim.execs.get(exec).is_some_and(|exec| exec.calls_the_host()) {
                return Ok(());
            }
            let stream = sim.stream(stream, default)?;
            wrapper = sim.stream_mut(stream).lane.is_none();
            if wrapper { launch(sim, exec, stream) } else { Ok(()) }
        });
        let result = outside(|| real(exec, stream));
        if result == 0 && !wrapper {
            notify("cuGraphLaunch", default, 0, |sim, default| {
                launched(sim, exec, stream, default)
            });
        }
        result
    }
}

/// Defines functions of up to six arguments, all of which are passed in integer registers.
macro_rules! forgetting {
    (|$first:ident| $forget:block $($name:ident,)*) => {
        passed_on! { $(
            fn $name(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) |real| {
                let result = outside(|| real(a, b, c, d, e, f));
                if result == 0 {
                    let $first = a;
                    $forget
                }
                result
            }
        )* }
    };
}

forgetting! { |exec| { forget_exec(exec) }
    cuGraphExecUpdate,
    cuGraphExecUpdate_v2,
    cuGraphExecKernelNodeSetParams,
    cuGraphExecKernelNodeSetParams_v2,
    cuGraphExecMemcpyNodeSetParams,
    cuGraphExecMemsetNodeSetParams,
    cuGraphExecHostNodeSetParams,
    cuGraphExecChildGraphNodeSetParams,
    cuGraphExecEventRecordNodeSetEvent,
    cuGraphExecEventWaitNodeSetEvent,
    cuGraphExecBatchMemOpNodeSetParams,
    cuGraphExecNodeSetParams,
    cuGraphNodeSetEnabled,
}

forgetting! { |_graph| { forget_all() }
    cuGraphKernelNodeSetParams,
    cuGraphKernelNodeSetParams_v2,
    cuGraphMemcpyNodeSetParams,
    cuGraphMemsetNodeSetParams,
    cuGraphHostNodeSetParams,
    cuGraphEventRecordNodeSetEvent,
    cuGraphEventWaitNodeSetEvent,
    cuGraphBatchMemOpNodeSetParams,
    cuGraphNodeSetParams,
    cuGraphNodeSetParams_v2,
    cuGraphAddMemAllocNode,
    cuGraphAddMemFreeNode,
    cuGraphAddBatchMemOpNode,
}
