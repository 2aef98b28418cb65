//! Conditional nodes of graphs, and the conditions that they depend on.

use super::copies::check_contexts;
use super::graphs::add;
use crate::api::macros::api;
use crate::conditions::Condition;
use crate::ffi::{get, put};
use crate::graph::destroy_graph;
use crate::real_driver;
use crate::results::{Code, Result, refuse_if};
use crate::sim::{Graph, Locked, Task};
use crate::work::Choice;

/// `CUDA_CONDITIONAL_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ConditionalParams {
    handle: u64,
    choice: i32,
    count: u32,
    bodies: *const u64,
    context: u64,
}
const _: () = assert!(size_of::<ConditionalParams>() == 32);

const ASSIGN_DEFAULT: u32 = 1;

/// Adds a conditional node with empty bodies, and writes their array into the parameters. It lives
/// as long as the node.
pub fn add_conditional(
    sim: &mut Locked,
    to: *mut u64,
    graph: u64,
    dependencies: *const u64,
    count: usize,
    params: *mut ConditionalParams,
) -> Result {
    if real_driver::is_present() {
        // The handles of the bodies are the real driver's.
        return Err(Code::NOT_SUPPORTED);
    }
    let of = get(params)?;
    let condition = Condition::find(of.handle).ok_or(Code::INVALID_VALUE)?;
    let choice = match (of.choice, of.count) {
        (0, 1 | 2) => Choice::If,
        (1, 1) => Choice::While,
        (2, 1..) => Choice::Switch,
        _ => return Err(Code::INVALID_VALUE),
    };
    check_contexts(sim, &[of.context])?;
    let mut bodies = Vec::with_capacity(of.count as usize);
    for _ in 0..of.count {
        let id = sim.id();
        bodies.push(sim.graphs.insert(Graph { id, child: true, ..Graph::default() }));
    }
    let bodies: std::sync::Arc<[u64]> = bodies.into();
    let task = Task::Conditional { condition, choice, bodies: bodies.clone() };
    let added = add(sim, to, graph, dependencies, count, task);
    if added.is_err() {
        bodies.iter().for_each(|body| destroy_graph(sim, *body));
        return added;
    }
    put(params, ConditionalParams { bodies: bodies.as_ptr(), ..of })
}

/// Returns the parameters of a node, for a current context. The bodies are those of the node and
/// live as long.
pub fn conditional_params(sim: &Locked, node: u64, context: u64) -> Result<ConditionalParams> {
    let Some(Task::Conditional { condition, choice, bodies }) =
        sim.nodes.get(node).map(|node| &node.task)
    else {
        return Err(Code::INVALID_VALUE);
    };
    let choice = match choice {
        Choice::If => 0,
        Choice::While => 1,
        Choice::Switch => 2,
    };
    let (handle, count) = (condition.handle, bodies.len() as u32);
    Ok(ConditionalParams { handle, choice, count, bodies: bodies.as_ptr(), context })
}

api! {
    fn cuGraphConditionalHandleCreate(to: *mut u64, graph: u64, context: u64, value: u32, flags: u32) |sim| {
        refuse_if(to.is_null() || flags & !ASSIGN_DEFAULT != 0, Code::INVALID_VALUE)?;
        sim.graphs.get(graph).ok_or(Code::INVALID_VALUE)?;
        check_contexts(sim, &[context])?;
        let condition = Condition::new(value, flags & ASSIGN_DEFAULT != 0);
        put(to, condition.handle)?;
        if let Some(graph) = sim.graphs.get_mut(graph) {
            graph.conditions.push(condition);
        }
        Ok(())
    }
}
