//! The operations of a stream, and how they are performed.

use crate::access::Access;
use crate::conditions::Condition;
use crate::cudasim::Grid;
use crate::results::Code;
use crate::site::Content;
use crate::written::satisfies;
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A stream's identity: its slot in the table, and a number that the process never reuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Default)]
pub struct StreamRef {
    pub slot: usize,
    pub id: u64,
}

/// A box of bytes: `rows` rows of `width` bytes in each of `layers` layers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extent {
    pub width: u64,
    pub rows: u64,
    pub layers: u64,
}

/// The start of a box, and the strides in bytes between rows and between layers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin {
    pub address: u64,
    pub row: u64,
    pub layer: u64,
}

#[derive(Clone)]
pub struct Copy {
    pub to: Origin,
    pub from: Origin,
    pub extent: Extent,
    /// A copy of pageable memory from the time of the call; `from.address` is then an offset in it.
    pub staged: Option<Arc<[u8]>>,
}

#[derive(Clone, Copy)]
pub struct Fill {
    pub to: Origin,
    pub extent: Extent,
    pub value: u32,
    /// Bytes of one element: 1, 2 or 4.
    pub element: u64,
}

#[derive(Clone, Copy)]
pub enum KernelBody {
    /// From `cudasim_register`.
    Named(unsafe extern "C" fn(*const Grid, *mut *mut c_void)),
    /// Without a function of the program: what overwrites the bytes that it writes.
    Unknown(fn(&[(u8, Access)])),
    /// From `cudasim_launch`.
    Direct(unsafe extern "C" fn(*mut c_void)),
    /// Of either kind, on a device that cannot access the memory of its arguments.
    Faulting,
}

/// A kernel with its arguments, copied at the launch.
pub struct Launch {
    /// The function of the driver; 0 for one of `cudasim_launch`.
    pub handle: u64,
    pub function: KernelBody,
    pub grid: Grid,
    /// The arguments one after another, each aligned to 16 bytes.
    pub arguments: Vec<u128>,
    /// The offset of each argument, in units of 16 bytes.
    pub offsets: Vec<usize>,
    /// The writes of a kernel without a function, with the value of the bytes afterwards.
    pub fills: Vec<(u8, Access)>,
}

/// Whether and when a record was reached.
#[derive(Default)]
pub struct Reached {
    pub done: AtomicBool,
    pub nanoseconds: AtomicU64,
}

#[derive(Clone, Copy)]
pub struct HostCall {
    pub function: usize,
    pub data: usize,
    /// For cuStreamAddCallback: the stream that is passed to the callback.
    pub callback_stream: Option<u64>,
}

/// What `CUgraphConditionalNodeType` numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// The first body if the condition is not 0, otherwise the second, if there is one.
    If,
    /// The first body, as long as the condition is not 0.
    While,
    /// The body at the condition, if there is one.
    Switch,
}

/// A conditional node: its bodies, each in an order that respects every dependency.
pub struct Conditional {
    pub condition: Arc<Condition>,
    pub choice: Choice,
    pub bodies: Vec<Vec<Work>>,
}

#[derive(Clone)]
pub enum Work {
    Nothing,
    /// Waits until another stream has done a number of operations.
    Wait(StreamRef, u64),
    /// Waits until another process has recorded its event a number of times.
    WaitShared(Arc<crate::ipc::SharedEvent>, u64),
    Record(Arc<Reached>, Option<(Arc<crate::ipc::SharedEvent>, u64)>),
    Copy(Copy),
    Fill(Fill),
    Kernel(Arc<Launch>),
    Conditional(Arc<Conditional>),
    /// Sets conditions to their default values.
    Assign(Arc<[Arc<Condition>]>),
    /// A host function, with the knowledge of its stream when it was enqueued.
    Host(HostCall, Option<crate::clock::Clock>),
    /// Stores a number of 4 or 8 bytes.
    Store {
        address: u64,
        value: u64,
        wide: bool,
    },
    /// Waits until a number in memory satisfies a comparison.
    WaitValue {
        address: u64,
        value: u64,
        wide: bool,
        flags: u32,
    },
    /// Stream-ordered free of a block, by its number in `Sim::freed`.
    Release(u64),
    /// Releases the user objects of a graph that was destroyed, and what happened before.
    Forget(Arc<[(u64, u32)]>, Arc<[crate::clock::Clock]>),
}

thread_local! {
    /// The error that the kernel on this thread reports; 0 for none.
    pub static FAILED: Cell<i32> = const { Cell::new(0) };
    /// Whether a host function or a kernel runs on this thread: it may not call the driver.
    pub static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Returns the number at an address.
pub fn number_at(address: u64, wide: bool) -> u64 {
    // SAFETY: `value_address` in `api::streams` checked, before the write or the wait was enqueued,
    // that the aligned number is in an allocation. Pages of allocations stay mapped.
    unsafe {
        if wide {
            (*(address as *const AtomicU64)).load(Ordering::Acquire)
        } else {
            u64::from((*(address as *const std::sync::atomic::AtomicU32)).load(Ordering::Acquire))
        }
    }
}

pub fn is_ready(address: u64, value: u64, wide: bool, flags: u32) -> bool {
    satisfies(number_at(address, wide), value, wide, flags)
}

impl Work {
    /// Performs the operation on this thread. The caller holds no lock. The engine handles waits
    /// and records.
    pub fn run(&self) -> Result<(), Code> {
        match self {
            Work::Copy(copy) => copy.run(),
            Work::Fill(fill) => fill.run(),
            Work::Kernel(launch) => return launch.run(),
            Work::Conditional(node) => return node.run(),
            Work::Assign(conditions) => {
                conditions.iter().for_each(|condition| condition.assign_default());
            }
            Work::Store { address, value, wide } => {
                // SAFETY: `value_address` in `api::streams` checked, when this was enqueued, that
                // the aligned number is in an allocation. Pages of allocations stay mapped.
                unsafe {
                    if *wide {
                        (*(*address as *const AtomicU64)).store(*value, Ordering::Release);
                    } else {
                        (*(*address as *const std::sync::atomic::AtomicU32))
                            .store(*value as u32, Ordering::Release);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns what it writes with its accesses, as far as waits for numbers need to know.
    pub fn content(&self, accesses: &[Access]) -> Content {
        let at = accesses.last().map_or(0, |access| access.address);
        match self {
            Work::Store { value, .. } => Content::Number { at, value: *value },
            Work::Fill(Fill { value, element, .. }) => {
                Content::Repeated { value: *value, element: *element }
            }
            Work::Copy(Copy { staged: Some(bytes), extent, .. }) if extent.rows == 1 => {
                Content::of(at, bytes)
            }
            _ => Content::Any,
        }
    }

    /// Returns whether the real driver performs it, beside one.
    pub fn is_done_elsewhere(&self) -> bool {
        self.touches_memory() || matches!(self, Work::Host(..) | Work::WaitShared(..))
    }

    /// Returns whether it reads or writes device memory. Conditions are there.
    pub fn touches_memory(&self) -> bool {
        matches!(
            self,
            Work::Copy(_)
                | Work::Fill(_)
                | Work::Kernel(_)
                | Work::Conditional(_)
                | Work::Assign(_)
                | Work::Store { .. }
                | Work::WaitValue { .. }
        )
    }
}

impl Copy {
    fn run(&self) {
        let base = self.staged.as_ref().map_or(0, |bytes| bytes.as_ptr() as u64);
        for_each_row(&self.extent, |layer, row| {
            let from = base + self.from.address + layer * self.from.layer + row * self.from.row;
            let to = self.to.address + layer * self.to.layer + row * self.to.row;
            // SAFETY: `locate` in `api::copies` checked both ends against their allocations, whose
            // pages stay mapped. Pageable memory is accessed only during the program's call, or is
            // the staged copy. `copy` allows overlap.
            unsafe { std::ptr::copy(from as *const u8, to as *mut u8, self.extent.width as usize) };
        });
    }
}

impl Fill {
    fn run(&self) {
        for_each_row(&self.extent, |layer, row| {
            let to = self.to.address + layer * self.to.layer + row * self.to.row;
            let count = (self.extent.width / self.element) as usize;
            // SAFETY: `fill_of` in `api::fills` checked that the range is in an allocation, whose
            // pages stay mapped, and that the address is a multiple of the element size.
            unsafe {
                match self.element {
                    1 => std::ptr::write_bytes(to as *mut u8, self.value as u8, count),
                    2 => std::slice::from_raw_parts_mut(to as *mut u16, count)
                        .fill(self.value as u16),
                    _ => std::slice::from_raw_parts_mut(to as *mut u32, count).fill(self.value),
                }
            }
        });
    }
}

fn for_each_row(extent: &Extent, mut each: impl FnMut(u64, u64)) {
    if extent.width == 0 {
        return;
    }
    for layer in 0..extent.layers {
        for row in 0..extent.rows {
            each(layer, row);
        }
    }
}

impl Launch {
    /// Returns the launch of a kernel that accesses memory out of its reach.
    pub fn faulting() -> Launch {
        let (arguments, offsets) = (Vec::new(), Vec::new());
        let (handle, grid, fills) = (0, Grid::default(), Vec::new());
        Launch { handle, function: KernelBody::Faulting, grid, arguments, offsets, fills }
    }

    fn run(&self) -> Result<(), Code> {
        match self.function {
            KernelBody::Faulting => return Err(Code::ILLEGAL_ADDRESS),
            KernelBody::Unknown(overwrite) => {
                overwrite(&self.fills);
                return Ok(());
            }
            KernelBody::Named(_) | KernelBody::Direct(_) => {}
        }
        let mut arguments = self.arguments.clone();
        FAILED.set(0);
        INSIDE.set(true);
        // SAFETY: the program registered or passed the function for arguments of these sizes. The
        // arguments were copied in this layout at the launch, and each pointer is to a copy that
        // lives until the call returns.
        unsafe {
            match self.function {
                KernelBody::Faulting | KernelBody::Unknown(_) => {}
                KernelBody::Direct(function) => function(arguments.as_mut_ptr().cast()),
                KernelBody::Named(function) => {
                    let base = arguments.as_mut_ptr();
                    let mut pointers: Vec<*mut c_void> =
                        self.offsets.iter().map(|offset| base.add(*offset).cast()).collect();
                    function(&self.grid, pointers.as_mut_ptr());
                }
            }
        }
        INSIDE.set(false);
        match FAILED.replace(0) {
            0 => Ok(()),
            code => Err(Code(code)),
        }
    }
}

impl Conditional {
    fn run(&self) -> Result<(), Code> {
        let value = self.condition.get();
        let at = match self.choice {
            Choice::While => {
                while self.condition.get() != 0 {
                    self.run_body(0)?;
                }
                return Ok(());
            }
            Choice::If => usize::from(value == 0),
            Choice::Switch => value as usize,
        };
        self.run_body(at)
    }

    fn run_body(&self, at: usize) -> Result<(), Code> {
        self.bodies.get(at).map_or(Ok(()), |body| body.iter().try_for_each(Work::run))
    }

    /// Returns its condition and those of nodes in its bodies.
    pub fn conditions(&self) -> Vec<Arc<Condition>> {
        let mut all = vec![self.condition.clone()];
        for work in self.bodies.iter().flatten() {
            if let Work::Conditional(inner) = work {
                all.extend(inner.conditions());
            }
        }
        all
    }
}

impl HostCall {
    /// Calls the function on a thread of the driver, which it may end: see `threads`. `status`: the
    /// state that is passed to a callback.
    pub fn run(&self, status: i32) {
        INSIDE.set(true);
        // SAFETY: the program passed `function` as a CUhostFn or, with a callback stream, as a
        // CUstreamCallback, together with `data`. It was checked for NULL when it was enqueued.
        unsafe {
            match self.callback_stream {
                None => {
                    let function: unsafe extern "C-unwind" fn(*mut c_void) =
                        std::mem::transmute(self.function);
                    function(self.data as *mut c_void);
                }
                Some(stream) => {
                    let function: unsafe extern "C-unwind" fn(*mut c_void, i32, *mut c_void) =
                        std::mem::transmute(self.function);
                    function(stream as *mut c_void, status, self.data as *mut c_void);
                }
            }
        }
        INSIDE.set(false);
    }
}
