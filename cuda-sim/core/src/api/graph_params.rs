//! The parameters of nodes, as programs pass and read them.

use super::copies::{Copy3D, node_of, params_of};
use super::fills::fill_node_of;
use super::mem_ops::mem_ops_task;
use crate::access::Access;
use crate::cudasim::Grid;
use crate::ffi::{get, put};
use crate::results::{Code, Result, refuse_if};
use crate::shown::counted;
use crate::sim::{Locked, Sim, Task};
use crate::work::{HostCall, Work};
use std::ffi::c_void;

/// `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FillParams {
    to: u64,
    pitch: usize,
    value: u32,
    element: u32,
    width: usize,
    height: usize,
}

impl std::fmt::Display for FillParams {
    fn fmt(&self, to: &mut std::fmt::Formatter) -> std::fmt::Result {
        let FillParams { to: address, pitch, value, element, width, height } = self;
        write!(
            to,
            "{address:#x}: {} of {} with {value:#x}, {}, pitch {pitch}",
            counted(*width, "element"),
            counted(*element, "byte"),
            counted(*height, "row"),
        )
    }
}

/// `CUDA_HOST_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HostParams {
    pub function: usize,
    pub data: usize,
}

/// `CUDA_KERNEL_NODE_PARAMS`, the common part of all versions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelParams {
    function: u64,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
}

/// The second version of it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelParamsV2 {
    common: KernelParams,
    kernel: u64,
    context: u64,
}

const _: () = assert!(size_of::<FillParams>() == 40 && size_of::<KernelParams>() == 56);

pub fn work(work: Work, accesses: Vec<Access>, label: &'static str) -> Task {
    Task::Work { work, accesses, label }
}

pub fn host_task(params: HostParams) -> Result<Task> {
    let HostParams { function, data } = params;
    refuse_if(function == 0, Code::INVALID_VALUE)?;
    let call = HostCall { function, data, callback_stream: None };
    Ok(work(Work::Host(call, None), Vec::new(), "a host node"))
}

pub fn event_task(sim: &Sim, event: u64, record: bool) -> Result<Task> {
    sim.events.get(event).ok_or(Code::INVALID_VALUE)?;
    Ok(if record { Task::RecordEvent(event) } else { Task::WaitEvent(event) })
}

pub fn memcpy_task(sim: &Sim, params: &Copy3D) -> Result<Task> {
    let (copy, accesses) = node_of(sim, params)?;
    Ok(work(copy, accesses, "a memcpy node"))
}

pub fn memset_task(sim: &Sim, of: &FillParams) -> Result<Task> {
    let (pitch, width, height) = (of.pitch as u64, of.width as u64, of.height as u64);
    let (fill, accesses) = fill_node_of(sim, of.to, pitch, of.value, of.element, width, height)?;
    Ok(work(fill, accesses, "a memset node"))
}

pub fn kernel_task(sim: &mut Locked, of: &KernelParams) -> Result<Task> {
    let grid = Grid { grid: of.grid, block: of.block, shared_bytes: of.shared_bytes };
    let (launch, accesses) =
        super::modules::prepare_known(sim, of.function, grid, of.arguments, of.extra)?;
    Ok(work(launch, accesses, "a kernel node"))
}

/// The second version names a function or, without one, a kernel.
pub fn kernel_task_v2(sim: &mut Locked, of: &KernelParamsV2) -> Result<Task> {
    let function = if of.common.function == 0 { of.kernel } else { of.common.function };
    kernel_task(sim, &KernelParams { function, ..of.common })
}

fn task_of(sim: &Sim, node: u64) -> Result<&Task> {
    sim.nodes.get(node).map(|node| &node.task).ok_or(Code::INVALID_VALUE)
}

pub fn host_params(sim: &Sim, node: u64) -> Result<HostParams> {
    match task_of(sim, node)? {
        Task::Work { work: Work::Host(call, _), .. } => {
            Ok(HostParams { function: call.function, data: call.data })
        }
        _ => Err(Code::INVALID_VALUE),
    }
}

pub fn memset_params(sim: &Sim, node: u64) -> Result<FillParams> {
    match task_of(sim, node)? {
        Task::Work { work: Work::Fill(fill), accesses, .. } => Ok(FillParams {
            to: accesses.first().map_or(fill.to.address, |access| access.address),
            pitch: fill.to.row as usize,
            value: fill.value,
            element: fill.element as u32,
            width: (fill.extent.width / fill.element) as usize,
            height: fill.extent.rows as usize,
        }),
        _ => Err(Code::INVALID_VALUE),
    }
}

pub fn memcpy_params(sim: &Sim, node: u64) -> Result<Copy3D> {
    match task_of(sim, node)? {
        Task::Work { work: Work::Copy(copy), accesses, .. } => Ok(params_of(sim, copy, accesses)),
        _ => Err(Code::INVALID_VALUE),
    }
}

/// Returns the parameters of a kernel node. The arguments are those of the node and live as long.
pub fn kernel_params(sim: &mut Locked, node: u64) -> Result<KernelParams> {
    let Task::Work { work: Work::Kernel(launch), .. } = task_of(sim, node)? else {
        return Err(Code::INVALID_VALUE);
    };
    let launch = launch.clone();
    let base = launch.arguments.as_ptr();
    let pointers =
        launch.offsets.iter().map(|offset| base.wrapping_add(*offset) as usize).collect();
    let node = sim.nodes.get_mut(node).ok_or(Code::INVALID_VALUE)?;
    node.arguments = pointers;
    Ok(KernelParams {
        function: launch.handle,
        grid: launch.grid.grid,
        block: launch.grid.block,
        shared_bytes: launch.grid.shared_bytes,
        arguments: node.arguments.as_mut_ptr().cast(),
        extra: std::ptr::null_mut(),
    })
}

pub fn kernel_params_v2(sim: &mut Locked, node: u64) -> Result<KernelParamsV2> {
    let context = sim.current_context().unwrap_or(0);
    Ok(KernelParamsV2 { common: kernel_params(sim, node)?, kernel: 0, context })
}

/// The head of `CUgraphNodeParams`; the parameters of the kind follow.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AnyParams {
    kind: i32,
    reserved: [i32; 3],
}

/// Returns the task of parameters of any kind, unless creating it is an allocation or a clone.
pub fn any_task(sim: &mut Locked, params: *mut AnyParams) -> Result<Task> {
    let kind = get(params)?.kind;
    let of = params.wrapping_add(1).cast::<c_void>();
    Ok(match kind {
        0 => kernel_task_v2(sim, &get(of.cast())?)?,
        // Flags, and the context, are in front.
        1 => memcpy_task(sim, &get(of.cast::<u64>().wrapping_add(2).cast())?)?,
        2 => memset_task(sim, &get(of.cast())?)?,
        3 => host_task(get(of.cast())?)?,
        5 => Task::Empty,
        6 | 7 => event_task(sim, get(of.cast())?, kind == 7)?,
        11 => {
            let base = get(of.cast::<u64>())?;
            refuse_if(!sim.is_graph_memory(base), Code::INVALID_VALUE)?;
            Task::Free(base)
        }
        12 => mem_ops_task(sim, &get(of.cast())?)?,
        4 | 8..=10 | 13 => return Err(Code::NOT_SUPPORTED),
        _ => return Err(Code::INVALID_VALUE),
    })
}

/// Returns the parameters of any kind in a union.
pub fn union_of<T>(params: *mut AnyParams) -> *mut T {
    params.wrapping_add(1).cast()
}

/// Two members of a structure of cuda.h that follow each other.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Both<A, B>(pub A, pub B);

/// Writes the parameters of a kind. Unused bytes of the structure are 0.
pub fn put_union<T>(to: *mut AnyParams, kind: i32, params: T) -> Result {
    put(to.cast(), [0u64; 32])?;
    put(to, AnyParams { kind, reserved: [0; 3] })?;
    put(union_of(to), params)
}

pub fn kind_of(params: *mut AnyParams) -> Result<i32> {
    Ok(get(params)?.kind)
}
