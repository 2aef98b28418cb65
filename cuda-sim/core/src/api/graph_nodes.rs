//! Parameters of nodes, in graphs and in executable graphs, and nodes that allocate memory.

use super::conditionals::{add_conditional, conditional_params};
use super::copies::Copy3D;
use super::graph_params::{
    AnyParams, Both, FillParams, HostParams, KernelParams, KernelParamsV2, any_task, event_task,
    host_params, host_task, kernel_params, kernel_params_v2, kernel_task, kernel_task_v2, kind_of,
    memcpy_params, memcpy_task, memset_params, memset_task, put_union, union_of,
};
use super::graphs::add;
use super::mem_ops::{MemOpsParams, mem_ops_params, mem_ops_task};
use crate::api::macros::api;
use crate::ffi::{get, put, put_if};
use crate::graph;
use crate::results::{Code, Result, refuse_if};
use crate::sim::{Locked, Task};
use std::ffi::c_void;

/// `CUDA_MEM_ALLOC_NODE_PARAMS`, both versions.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct AllocParams {
    kind: i32,
    handle_types: i32,
    location: i32,
    device: i32,
    rest: [u64; 9],
    access: u64,
    access_count: usize,
    size: usize,
    address: u64,
}
const _: () = assert!(size_of::<AllocParams>() == 120);

/// Replaces the task of a node by one of the same type.
fn set(sim: &mut Locked, node: u64, task: Task) -> Result {
    let found = sim.nodes.get_mut(node).ok_or(Code::INVALID_VALUE)?;
    refuse_if(found.task.node_type() != task.node_type(), Code::INVALID_VALUE)?;
    found.task = task;
    Ok(())
}

/// Does so in an executable graph only.
fn set_step(sim: &mut Locked, exec: u64, node: u64, task: Task) -> Result {
    let tasks = match &task {
        Task::MemOps(of) => of.tasks.clone(),
        _ => vec![task],
    };
    graph::replace_tasks(sim, exec, node, tasks)
}

/// Adds a node that allocates memory, and writes its address into the parameters.
fn add_alloc(
    sim: &mut Locked,
    to: *mut u64,
    graph: u64,
    dependencies: *const u64,
    count: usize,
    params: *mut AllocParams,
) -> Result {
    let mut of = get(params)?;
    // Memory of a device, which cannot be shared. [CUDA_MEM_ALLOC_NODE_PARAMS]
    if of.kind != 1 || of.location != 1 || of.handle_types != 0 || of.size == 0 {
        return Err(Code::INVALID_VALUE);
    }
    super::devices::check(sim, of.device)?;
    crate::sim::give_back_graph_memory(sim);
    of.address = sim.new_graph_memory(of.device, of.size as u64)?;
    let added = add(sim, to, graph, dependencies, count, Task::Allocate(of.address));
    if added.is_err() {
        crate::sim::release_graph_memory(sim, of.address);
        return added;
    }
    put(params, of)
}

fn alloc_params(sim: &Locked, node: u64) -> Result<AllocParams> {
    let Some(Task::Allocate(base)) = sim.nodes.get(node).map(|node| &node.task) else {
        return Err(Code::INVALID_VALUE);
    };
    let found = sim.graph_memory.get(base).ok_or(Code::INVALID_VALUE)?;
    let (device, size) = (found.device, found.size as usize);
    let fixed = AllocParams { kind: 1, location: 1, ..AllocParams::default() };
    Ok(AllocParams { device, size, address: *base, ..fixed })
}

/// Writes the parameters of a node of any kind.
fn put_any(sim: &mut Locked, node: u64, to: *mut AnyParams) -> Result {
    let found = sim.nodes.get(node).ok_or(Code::INVALID_VALUE)?;
    let (kind, task) = (found.task.node_type(), found.task.clone());
    let context = sim.current_context().unwrap_or(0);
    match task {
        Task::Empty => put_union(to, kind, ()),
        Task::Child(graph) => put_union(to, kind, graph),
        Task::WaitEvent(event) | Task::RecordEvent(event) => put_union(to, kind, event),
        Task::Allocate(_) => put_union(to, kind, alloc_params(sim, node)?),
        Task::Free(base) => put_union(to, kind, base),
        Task::MemOps(_) => put_union(to, kind, mem_ops_params(sim, node)?),
        Task::Conditional { .. } => put_union(to, kind, conditional_params(sim, node, context)?),
        Task::Work { .. } => match kind {
            0 => put_union(to, kind, kernel_params_v2(sim, node)?),
            1 => put_union(to, kind, Both([0, context], memcpy_params(sim, node)?)),
            2 => put_union(to, kind, Both(memset_params(sim, node)?, context)),
            3 => put_union(to, kind, host_params(sim, node)?),
            5 => put_union(to, kind, ()),
            // Captured operations on values, and captured frees of other memory.
            _ => Err(Code::NOT_SUPPORTED),
        },
    }
}

fn add_any(
    sim: &mut Locked,
    to: *mut u64,
    graph: u64,
    dependencies: *const u64,
    count: usize,
    params: *mut AnyParams,
) -> Result {
    match kind_of(params)? {
        4 => {
            let copy = graph::clone_graph(sim, get(union_of::<u64>(params))?, true)?;
            let added = add(sim, to, graph, dependencies, count, Task::Child(copy));
            if added.is_err() {
                graph::destroy_graph(sim, copy);
            }
            added
        }
        10 => add_alloc(sim, to, graph, dependencies, count, union_of(params)),
        13 => add_conditional(sim, to, graph, dependencies, count, union_of(params)),
        _ => {
            let task = any_task(sim, params)?;
            add(sim, to, graph, dependencies, count, task)
        }
    }
}

fn update(sim: &mut Locked, exec: u64, graph: u64, info: impl FnOnce(i32, u64)) -> Result {
    match graph::update(sim, exec, graph)? {
        Ok(()) => info(0, 0),
        Err((result, node)) => {
            info(result, node);
            return Err(Code::GRAPH_EXEC_UPDATE_FAILURE);
        }
    }
    Ok(())
}

/// Defines functions that change the parameters of nodes of a graph, and of an executable one.
macro_rules! setters {
    ($(
        $set:ident, $set_exec:ident($params:ident: $ty:ty $(, $context:ident: u64)?)
        |$sim:ident| $task:expr;
    )*) => {
        api! { $(
            fn $set(node: u64, $params: $ty) |$sim| {
                let task = $task;
                set($sim, node, task)
            }
            fn $set_exec(exec: u64, node: u64, $params: $ty $(, $context: u64)?) |$sim| {
                $( let _ = $context; )?
                let task = $task;
                set_step($sim, exec, node, task)
            }
        )* }
    };
}

setters! {
    cuGraphNodeSetParams, cuGraphExecNodeSetParams(params: *mut AnyParams) |sim| any_task(sim, params)?;
    cuGraphKernelNodeSetParams, cuGraphExecKernelNodeSetParams(params: *const KernelParams) |sim|
        kernel_task(sim, &get(params)?)?;
    cuGraphKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams_v2(params: *const KernelParamsV2) |sim|
        kernel_task_v2(sim, &get(params)?)?;
    cuGraphMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams(params: *const Copy3D, context: u64) |sim|
        memcpy_task(sim, &get(params)?)?;
    cuGraphMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams(params: *const FillParams, context: u64) |sim|
        memset_task(sim, &get(params)?)?;
    cuGraphHostNodeSetParams, cuGraphExecHostNodeSetParams(params: *const HostParams) |sim| host_task(get(params)?)?;
    cuGraphEventRecordNodeSetEvent, cuGraphExecEventRecordNodeSetEvent(event: u64) |sim| event_task(sim, event, true)?;
    cuGraphEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent(event: u64) |sim| event_task(sim, event, false)?;
    cuGraphBatchMemOpNodeSetParams, cuGraphExecBatchMemOpNodeSetParams(params: *const MemOpsParams) |sim|
        mem_ops_task(sim, &get(params)?)?;
}

api! {
    fn cuGraphAddNode(to: *mut u64, graph: u64, dependencies: *const u64, count: usize, params: *mut AnyParams) |sim| {
        add_any(sim, to, graph, dependencies, count, params)
    }
    fn cuGraphAddNode_v2(
        to: *mut u64, graph: u64, dependencies: *const u64, edges: *const u64, count: usize, params: *mut AnyParams,
    ) |sim| {
        add_any(sim, to, graph, dependencies, count, params)
    }
    fn cuGraphNodeGetParams(node: u64, params: *mut AnyParams) |sim| { put_any(sim, node, params) }

    fn cuGraphKernelNodeGetParams(node: u64, params: *mut KernelParams) |sim| { put(params, kernel_params(sim, node)?) }
    fn cuGraphKernelNodeGetParams_v2(node: u64, params: *mut KernelParamsV2) |sim| {
        put(params, kernel_params_v2(sim, node)?)
    }
    fn cuGraphMemcpyNodeGetParams(node: u64, params: *mut Copy3D) |sim| { put(params, memcpy_params(sim, node)?) }
    fn cuGraphMemsetNodeGetParams(node: u64, params: *mut FillParams) |sim| { put(params, memset_params(sim, node)?) }
    fn cuGraphHostNodeGetParams(node: u64, params: *mut HostParams) |sim| { put(params, host_params(sim, node)?) }
    fn cuGraphAddBatchMemOpNode(
        to: *mut u64, graph: u64, dependencies: *const u64, count: usize, params: *const MemOpsParams,
    ) |sim| {
        let task = mem_ops_task(sim, &get(params)?)?;
        add(sim, to, graph, dependencies, count, task)
    }
    fn cuGraphBatchMemOpNodeGetParams(node: u64, params: *mut MemOpsParams) |sim| {
        put(params, mem_ops_params(sim, node)?)
    }
    fn cuGraphExecChildGraphNodeSetParams(exec: u64, node: u64, child: u64) |sim| {
        graph::replace_child(sim, exec, node, child)
    }
    fn cuGraphNodeSetEnabled(exec: u64, node: u64, enabled: u32) |sim| {
        graph::change_step(sim, exec, node, |step| {
            // Only kernel, memcpy and memset nodes. [cuGraphNodeSetEnabled]
            refuse_if(step.task.node_type() > 2, Code::INVALID_VALUE)?;
            step.enabled = enabled != 0;
            Ok(())
        })
    }
    fn cuGraphNodeGetEnabled(exec: u64, node: u64, enabled: *mut u32) |sim| {
        let steps = &sim.execs.get(exec).ok_or(Code::INVALID_VALUE)?.steps;
        let step = steps.iter().find(|step| step.node == node && step.task.node_type() <= 2);
        put(enabled, u32::from(step.ok_or(Code::INVALID_VALUE)?.enabled))
    }
    fn cuGraphExecUpdate(exec: u64, graph: u64, node: *mut u64, result: *mut i32) |sim| {
        update(sim, exec, graph, |found, at| {
            put_if(node, at);
            put_if(result, found);
        })
    }
    fn cuGraphExecUpdate_v2(exec: u64, graph: u64, info: *mut [u64; 3]) |sim| {
        update(sim, exec, graph, |found, at| put_if(info, [found as u64, at, 0]))
    }

    fn cuGraphAddMemAllocNode(
        to: *mut u64, graph: u64, dependencies: *const u64, count: usize, params: *mut AllocParams,
    ) |sim| {
        add_alloc(sim, to, graph, dependencies, count, params)
    }
    fn cuGraphMemAllocNodeGetParams(node: u64, params: *mut AllocParams) |sim| { put(params, alloc_params(sim, node)?) }
    fn cuGraphAddMemFreeNode(to: *mut u64, graph: u64, dependencies: *const u64, count: usize, address: u64) |sim| {
        refuse_if(!sim.is_graph_memory(address), Code::INVALID_VALUE)?;
        add(sim, to, graph, dependencies, count, Task::Free(address))
    }
    fn cuGraphMemFreeNodeGetParams(node: u64, address: *mut u64) |sim| {
        match sim.nodes.get(node).map(|node| &node.task) {
            Some(Task::Free(base)) => put(address, *base),
            _ => Err(Code::INVALID_VALUE),
        }
    }
    fn cuDeviceGraphMemTrim(device: i32) |sim| {
        super::devices::check(sim, device)?;
        sim.trim_graph_memory(device);
        Ok(())
    }
    fn cuDeviceGetGraphMemAttribute(device: i32, which: i32, value: *mut c_void) |sim| {
        super::devices::check(sim, device)?;
        put(value.cast(), sim.graph_memory_attribute(device, which)?)
    }
    fn cuDeviceSetGraphMemAttribute(device: i32, which: i32, value: *const c_void) |sim| {
        super::devices::check(sim, device)?;
        refuse_if(get(value.cast::<u64>())? != 0, Code::INVALID_VALUE)?;
        sim.reset_graph_memory_attribute(device, which)
    }

    fn cuGraphGetId(graph: u64, id: *mut u32) |sim| {
        put(id, sim.graphs.get(graph).ok_or(Code::INVALID_VALUE)?.id as u32)
    }
    fn cuGraphExecGetId(exec: u64, id: *mut u32) |sim| {
        put(id, sim.execs.get(exec).ok_or(Code::INVALID_VALUE)?.id as u32)
    }
    fn cuGraphNodeGetContainingGraph(node: u64, graph: *mut u64) |sim| {
        put(graph, sim.nodes.get(node).ok_or(Code::INVALID_VALUE)?.graph)
    }
    fn cuGraphNodeGetLocalId(node: u64, id: *mut u32) |sim| {
        let graph = sim.nodes.get(node).ok_or(Code::INVALID_VALUE)?.graph;
        let nodes = &sim.graphs.get(graph).ok_or(Code::INVALID_VALUE)?.nodes;
        let at = nodes.iter().position(|other| *other == node).ok_or(Code::INVALID_VALUE)?;
        put(id, at as u32)
    }
}
