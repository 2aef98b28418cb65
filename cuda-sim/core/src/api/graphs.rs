//! Graphs that captures create and programs extend, and user objects.

use super::copies::{Copy3D, check_contexts};
use super::graph_params::{
    FillParams, HostParams, KernelParams, host_task, kernel_task, memcpy_task, memset_task,
};
use crate::api::macros::api;
use crate::ffi::{get, put, put_if, put_list, slice};
use crate::graph::{self, AUTO_FREE_ON_LAUNCH};
use crate::results::{Code, Result, refuse_if};
use crate::sim::{Graph, Locked, Task, UserObject, release_objects, retain_objects};

/// Adds a node.
pub fn add(
    sim: &mut Locked,
    to: *mut u64,
    graph: u64,
    dependencies: *const u64,
    count: usize,
    task: Task,
) -> Result {
    refuse_if(to.is_null(), Code::INVALID_VALUE)?;
    let dependencies = slice(dependencies, count)?.to_vec();
    put(to, sim.add_node(graph, task, dependencies)?)
}

/// `CUDA_GRAPH_INSTANTIATE_FLAG_...`
const UPLOAD: u64 = 2;
const DEVICE_LAUNCH: u64 = 4;
const USE_NODE_PRIORITY: u64 = 8;

fn instantiate(sim: &mut Locked, to: *mut u64, graph: u64, flags: u64) -> Result {
    const KNOWN: u64 = AUTO_FREE_ON_LAUNCH | UPLOAD | DEVICE_LAUNCH | USE_NODE_PRIORITY;
    let exclusive = AUTO_FREE_ON_LAUNCH | DEVICE_LAUNCH;
    if to.is_null() || flags & !KNOWN != 0 || flags & exclusive == exclusive {
        return Err(Code::INVALID_VALUE);
    }
    put(to, graph::instantiate(sim, graph, flags)?)
}

fn edges(sim: &Locked, graph: u64) -> Result<Vec<(u64, u64)>> {
    let nodes = &sim.graphs.get(graph).ok_or(Code::INVALID_VALUE)?.nodes;
    let of_node = |to: &u64| {
        let from = sim.nodes.get(*to).map_or_else(Vec::new, |node| node.dependencies.clone());
        from.into_iter().map(|from| (from, *to)).collect::<Vec<_>>()
    };
    Ok(nodes.iter().flat_map(of_node).collect())
}

fn put_edges(sim: &Locked, graph: u64, from: *mut u64, to: *mut u64, count: *mut usize) -> Result {
    let edges = edges(sim, graph)?;
    let capacity = get(count)?;
    let (starts, ends): (Vec<u64>, Vec<u64>) = edges.into_iter().unzip();
    put_list(from, count, &starts)?;
    put(count, capacity)?;
    put_list(to, count, &ends)
}

fn dependents(sim: &Locked, node: u64) -> Result<Vec<u64>> {
    let graph = sim.nodes.get(node).ok_or(Code::INVALID_VALUE)?.graph;
    Ok(edges(sim, graph)?.into_iter().filter(|(from, _)| *from == node).map(|(_, to)| to).collect())
}

fn connect(
    sim: &mut Locked,
    graph: u64,
    from: *const u64,
    to: *const u64,
    count: usize,
    add: bool,
) -> Result {
    let (from, to) = (slice(from, count)?, slice(to, count)?);
    for (from, to) in from.iter().zip(to) {
        let known = |node: u64| sim.nodes.get(node).is_some_and(|node| node.graph == graph);
        refuse_if(!known(*from) || !known(*to) || from == to, Code::INVALID_VALUE)?;
        let Some(node) = sim.nodes.get_mut(*to) else { continue };
        let there = node.dependencies.contains(from);
        refuse_if(there == add, Code::INVALID_VALUE)?;
        if add {
            node.dependencies.push(*from);
        } else {
            node.dependencies.retain(|other| other != from);
        }
    }
    Ok(())
}

api! {
    fn cuGraphCreate(to: *mut u64, flags: u32) |sim| {
        refuse_if(to.is_null() || flags != 0, Code::INVALID_VALUE)?;
        let id = sim.id();
        put(to, sim.graphs.insert(Graph { id, ..Graph::default() }))
    }
    fn cuGraphDestroy(graph: u64) |sim| {
        refuse_if(sim.graphs.get(graph).is_none_or(|graph| graph.child), Code::INVALID_VALUE)?;
        graph::destroy_graph(sim, graph);
        Ok(())
    }
    fn cuGraphClone(to: *mut u64, graph: u64) |sim| {
        refuse_if(to.is_null(), Code::INVALID_VALUE)?;
        put(to, graph::clone_graph(sim, graph, false)?)
    }
    fn cuGraphNodeFindInClone(to: *mut u64, original: u64, copy: u64) |sim| {
        let wanted = sim.nodes.get(original).ok_or(Code::INVALID_VALUE)?.id;
        let nodes = &sim.graphs.get(copy).ok_or(Code::INVALID_VALUE)?.nodes;
        let is_it = |node: &u64| sim.nodes.get(*node).is_some_and(|node| node.original == wanted);
        put(to, nodes.iter().copied().find(is_it).ok_or(Code::INVALID_VALUE)?)
    }
    fn cuGraphAddEmptyNode(to: *mut u64, graph: u64, dependencies: *const u64, count: usize) |sim| {
        add(sim, to, graph, dependencies, count, Task::Empty)
    }
    fn cuGraphAddHostNode(
        to: *mut u64, graph: u64, dependencies: *const u64, count: usize, params: *const HostParams,
    ) |sim| {
        let task = host_task(get(params)?)?;
        add(sim, to, graph, dependencies, count, task)
    }
    fn cuGraphAddMemcpyNode(
        to: *mut u64, graph: u64, dependencies: *const u64, count: usize, params: *const Copy3D, context: u64,
    ) |sim| {
        check_contexts(sim, &[context])?;
        let task = memcpy_task(sim, &get(params)?)?;
        add(sim, to, graph, dependencies, count, task)
    }
    fn cuGraphAddMemsetNode(
        to: *mut u64, graph: u64, dependencies: *const u64, count: usize, params: *const FillParams, context: u64,
    ) |sim| {
        check_contexts(sim, &[context])?;
        let task = memset_task(sim, &get(params)?)?;
        add(sim, to, graph, dependencies, count, task)
    }
    fn cuGraphAddKernelNode, cuGraphAddKernelNode_v2(
        to: *mut u64, graph: u64, dependencies: *const u64, count: usize, params: *const KernelParams,
    ) |sim| {
        let task = kernel_task(sim, &get(params)?)?;
        add(sim, to, graph, dependencies, count, task)
    }
    fn cuGraphAddEventRecordNode(to: *mut u64, graph: u64, dependencies: *const u64, count: usize, event: u64) |sim| {
        sim.events.get(event).ok_or(Code::INVALID_VALUE)?;
        add(sim, to, graph, dependencies, count, Task::RecordEvent(event))
    }
    fn cuGraphAddEventWaitNode(to: *mut u64, graph: u64, dependencies: *const u64, count: usize, event: u64) |sim| {
        sim.events.get(event).ok_or(Code::INVALID_VALUE)?;
        add(sim, to, graph, dependencies, count, Task::WaitEvent(event))
    }
    fn cuGraphAddChildGraphNode(to: *mut u64, graph: u64, dependencies: *const u64, count: usize, child: u64) |sim| {
        let copy = graph::clone_graph(sim, child, true)?;
        let added = add(sim, to, graph, dependencies, count, Task::Child(copy));
        if added.is_err() {
            graph::destroy_graph(sim, copy);
        }
        added
    }
    fn cuGraphChildGraphNodeGetGraph(node: u64, to: *mut u64) |sim| {
        match sim.nodes.get(node).map(|node| &node.task) {
            Some(Task::Child(graph)) => put(to, *graph),
            _ => Err(Code::INVALID_VALUE),
        }
    }
    fn cuGraphEventRecordNodeGetEvent(node: u64, to: *mut u64) |sim| {
        match sim.nodes.get(node).map(|node| &node.task) {
            Some(Task::RecordEvent(event)) => put(to, *event),
            _ => Err(Code::INVALID_VALUE),
        }
    }
    fn cuGraphEventWaitNodeGetEvent(node: u64, to: *mut u64) |sim| {
        match sim.nodes.get(node).map(|node| &node.task) {
            Some(Task::WaitEvent(event)) => put(to, *event),
            _ => Err(Code::INVALID_VALUE),
        }
    }
    fn cuGraphAddDependencies(graph: u64, from: *const u64, to: *const u64, count: usize) |sim| {
        connect(sim, graph, from, to, count, true)
    }
    fn cuGraphAddDependencies_v2(graph: u64, from: *const u64, to: *const u64, edges: *const u64, count: usize) |sim| {
        connect(sim, graph, from, to, count, true)
    }
    fn cuGraphRemoveDependencies(graph: u64, from: *const u64, to: *const u64, count: usize) |sim| {
        connect(sim, graph, from, to, count, false)
    }
    fn cuGraphRemoveDependencies_v2(
        graph: u64, from: *const u64, to: *const u64, edges: *const u64, count: usize,
    ) |sim| {
        connect(sim, graph, from, to, count, false)
    }
    fn cuGraphGetNodes(graph: u64, nodes: *mut u64, count: *mut usize) |sim| {
        let found = sim.graphs.get(graph).ok_or(Code::INVALID_VALUE)?;
        put_list(nodes, count, &found.nodes)
    }
    fn cuGraphGetRootNodes(graph: u64, nodes: *mut u64, count: *mut usize) |sim| {
        let found = sim.graphs.get(graph).ok_or(Code::INVALID_VALUE)?;
        let root =
            |node: &&u64| sim.nodes.get(**node).is_some_and(|node| node.dependencies.is_empty());
        let roots: Vec<u64> = found.nodes.iter().filter(root).copied().collect();
        put_list(nodes, count, &roots)
    }
    fn cuGraphGetEdges(graph: u64, from: *mut u64, to: *mut u64, count: *mut usize) |sim| {
        put_edges(sim, graph, from, to, count)
    }
    fn cuGraphGetEdges_v2(graph: u64, from: *mut u64, to: *mut u64, data: *mut u64, count: *mut usize) |sim| {
        put_edges(sim, graph, from, to, count)?;
        if !data.is_null() {
            let zeros = vec![0u64; get(count)?];
            put_list(data, count, &zeros)?;
        }
        Ok(())
    }
    fn cuGraphNodeGetType(node: u64, kind: *mut i32) |sim| {
        let found = sim.nodes.get(node).ok_or(Code::INVALID_VALUE)?;
        put(kind, found.task.node_type())
    }
    fn cuGraphNodeGetDependencies(node: u64, nodes: *mut u64, count: *mut usize) |sim| {
        let found = sim.nodes.get(node).ok_or(Code::INVALID_VALUE)?;
        put_list(nodes, count, &found.dependencies)
    }
    fn cuGraphNodeGetDependencies_v2(node: u64, nodes: *mut u64, data: *mut u64, count: *mut usize) |sim| {
        let found = sim.nodes.get(node).ok_or(Code::INVALID_VALUE)?;
        if !data.is_null() {
            let capacity = get(count)?;
            put_list(data, count, &vec![0u64; found.dependencies.len()])?;
            put(count, capacity)?;
        }
        put_list(nodes, count, &found.dependencies)
    }
    fn cuGraphNodeGetDependentNodes(node: u64, nodes: *mut u64, count: *mut usize) |sim| {
        put_list(nodes, count, &dependents(sim, node)?)
    }
    fn cuGraphNodeGetDependentNodes_v2(node: u64, nodes: *mut u64, data: *mut u64, count: *mut usize) |sim| {
        let found = dependents(sim, node)?;
        if !data.is_null() {
            let capacity = get(count)?;
            put_list(data, count, &vec![0u64; found.len()])?;
            put(count, capacity)?;
        }
        put_list(nodes, count, &found)
    }
    fn cuGraphDestroyNode(node: u64) |sim| {
        let graph = sim.nodes.get(node).ok_or(Code::INVALID_VALUE)?.graph;
        let nodes = sim.graphs.get_mut(graph).map(|graph| {
            graph.nodes.retain(|other| *other != node);
            graph.nodes.clone()
        });
        for other in nodes.unwrap_or_default() {
            if let Some(other) = sim.nodes.get_mut(other) {
                other.dependencies.retain(|dependency| *dependency != node);
            }
        }
        graph::destroy_node(sim, node);
        Ok(())
    }
    fn cuGraphInstantiate, cuGraphInstantiate_v2(
        to: *mut u64, graph: u64, node: *mut u64, log: *mut u8, capacity: usize,
    ) |sim| {
        put_if(node, 0);
        instantiate(sim, to, graph, 0)
    }
    fn cuGraphInstantiateWithFlags(to: *mut u64, graph: u64, flags: u64) |sim| {
        // Only cuGraphInstantiateWithParams has a stream to upload on.
        refuse_if(flags & UPLOAD != 0, Code::INVALID_VALUE)?;
        instantiate(sim, to, graph, flags)
    }
    fn cuGraphInstantiateWithParams / cuGraphInstantiateWithParams_ptsz(
        to: *mut u64, graph: u64, params: *mut [u64; 4],
    ) |sim, default| {
        let _ = default;
        let mut params_now = get(params)?;
        let result = instantiate(sim, to, graph, params_now[0]);
        // No node failed. CUDA_GRAPH_INSTANTIATE_ERROR is 1.
        params_now[2] = 0;
        params_now[3] = result.is_err().into();
        put(params, params_now)?;
        result
    }
    fn cuGraphUpload / cuGraphUpload_ptsz(exec: u64, stream: u64) |sim, default| {
        sim.stream(stream, default)?;
        sim.execs.get(exec).map(|_| ()).ok_or(Code::INVALID_VALUE)
    }
    fn cuGraphLaunch / cuGraphLaunch_ptsz(exec: u64, stream: u64) |sim, default, stream| {
        graph::launch(sim, exec, stream)?;
        crate::sim::give_back_graph_memory(sim);
        Ok(())
    }
    fn cuGraphExecDestroy(exec: u64) |sim| { graph::destroy_exec(sim, exec) }
    fn cuGraphExecGetFlags(exec: u64, flags: *mut u64) |sim| {
        put(flags, sim.execs.get(exec).ok_or(Code::INVALID_VALUE)?.flags)
    }

    fn cuUserObjectCreate(to: *mut u64, data: usize, destroy: usize, count: u32, flags: u32) |sim| {
        // CU_USER_OBJECT_NO_DESTRUCTOR_SYNC is required. [cuUserObjectCreate]
        refuse_if(to.is_null() || destroy == 0 || count == 0 || flags != 1, Code::INVALID_VALUE)?;
        let (refs, known) = (u64::from(count), Default::default());
        put(to, sim.user_objects.insert(UserObject { destroy, data, refs, known }))
    }
    fn cuUserObjectRetain(object: u64, count: u32) |sim| {
        let found =
            sim.user_objects.get_mut(object).filter(|_| count > 0).ok_or(Code::INVALID_VALUE)?;
        found.refs += u64::from(count);
        Ok(())
    }
    fn cuUserObjectRelease(object: u64, count: u32) |sim| {
        let found =
            sim.user_objects.get(object).filter(|_| count > 0).ok_or(Code::INVALID_VALUE)?;
        refuse_if(found.refs < u64::from(count), Code::INVALID_VALUE)?;
        release_objects(sim, &[(object, count)], None);
        Ok(())
    }
    fn cuGraphRetainUserObject(graph: u64, object: u64, count: u32, flags: u32) |sim| {
        sim.user_objects
            .get(object)
            .filter(|_| count > 0 && flags <= 1)
            .ok_or(Code::INVALID_VALUE)?;
        let held = sim.graphs.get_mut(graph).ok_or(Code::INVALID_VALUE)?;
        match held.objects.iter_mut().find(|(other, _)| *other == object) {
            Some((_, held)) => *held += count,
            None => held.objects.push((object, count)),
        }
        // CU_GRAPH_USER_OBJECT_MOVE transfers the caller's references.
        if flags == 0 {
            retain_objects(sim, &[(object, count)]);
        }
        Ok(())
    }
    fn cuGraphReleaseUserObject(graph: u64, object: u64, count: u32) |sim| {
        let held = sim.graphs.get_mut(graph).ok_or(Code::INVALID_VALUE)?;
        let found = held
            .objects
            .iter_mut()
            .find(|(other, held)| *other == object && *held >= count && count > 0);
        found.ok_or(Code::INVALID_VALUE)?.1 -= count;
        held.objects.retain(|(_, count)| *count > 0);
        release_objects(sim, &[(object, count)], None);
        Ok(())
    }
}
