//! Nodes with operations on values in memory.

use super::batches::operations;
use super::streams::value_address;
use crate::access::{Access, WRITE};
use crate::results::{Code, Result};
use crate::sim::{Locked, MemOp, MemOps, Task};
use crate::work::Work;
use std::sync::Arc;

/// `CUDA_BATCH_MEM_OP_NODE_PARAMS`, both versions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemOpsParams {
    context: u64,
    count: u32,
    all: *const MemOp,
    flags: u32,
}
const _: () = assert!(size_of::<MemOpsParams>() == 32);

fn task_of(sim: &Locked, op: &MemOp) -> Result<Task> {
    let wide = op.operation >= 4;
    let value = if wide { op.value } else { op.value & 0xffff_ffff };
    let (work, accesses) = match op.operation {
        1 | 4 => {
            let address = value_address(sim, op.address, wide)?;
            (Work::WaitValue { address, value, wide, flags: op.flags }, Vec::new())
        }
        2 | 5 => {
            let address = value_address(sim, op.address, wide)?;
            let access = Access::range(op.address, if wide { 8 } else { 4 }, WRITE);
            (Work::Store { address, value, wide }, vec![access])
        }
        // Writes are visible in order.
        _ => return Ok(Task::Empty),
    };
    Ok(Task::Work { work, accesses, label: "a batch memory operation node" })
}

pub fn mem_ops_task(sim: &Locked, params: &MemOpsParams) -> Result<Task> {
    let all = operations(params.count, params.all, params.flags, true)?.to_vec();
    let tasks = all.iter().map(|op| task_of(sim, op)).collect::<Result<Vec<Task>>>()?;
    Ok(Task::MemOps(Arc::new(MemOps { context: params.context, all, tasks })))
}

/// Returns the parameters of a node. The operations are those of the node and live as long.
pub fn mem_ops_params(sim: &Locked, node: u64) -> Result<MemOpsParams> {
    let Some(Task::MemOps(of)) = sim.nodes.get(node).map(|node| &node.task) else {
        return Err(Code::INVALID_VALUE);
    };
    let (count, all) = (of.all.len() as u32, of.all.as_ptr());
    Ok(MemOpsParams { context: of.context, count, all, flags: 0 })
}
