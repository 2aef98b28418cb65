//! The objects of the driver, as data: devices, contexts, streams, events, functions, pools.

use crate::access::Access;
use crate::actor::Actor;
use crate::clock::{Clock, Epoch};
use crate::cudasim::Grid;
use crate::ipc::SharedEvent;
use crate::open_waits::Word;
use crate::resources::Sms;
use crate::results::Code;
use crate::shadow::Mark;
use crate::sim::graphs::Lane;
use crate::site::Site;
use crate::work::{Reached, StreamRef, Work};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::c_void;
use std::sync::{Arc, Condvar};

pub struct Device {
    pub primary: u64,
    pub primary_refs: u32,
    pub primary_flags: u32,
    pub default_pool: u64,
    pub current_pool: u64,
}

#[derive(Default)]
pub struct Context {
    pub device: i32,
    pub id: u64,
    pub flags: u32,
    pub api_version: u32,
    pub primary: bool,
    pub legacy: StreamRef,
    /// Blocking streams with work that the legacy stream has not waited for.
    pub dirty: Vec<StreamRef>,
    pub streams: Vec<StreamRef>,
    pub error: Option<Code>,
    pub peers: Vec<u64>,
    pub limits: [u64; 16],
    pub attached: u32,
    /// Actors that stand for destroyed streams: the blocking ones, and all.
    pub gone: [Option<Actor>; 2],
    pub green: Option<Green>,
    /// Waits of the whole context, which new streams perform too.
    pub waits: Vec<Work>,
    /// The actor with the knowledge of those waits.
    pub waited: Option<Actor>,
    pub barrier: Barrier,
}

/// The last call that synchronized the streams of a context.
#[derive(Default)]
pub struct Barrier {
    /// The number of such calls; 0 before the first.
    pub(super) number: u64,
    /// Knows the work that came before.
    pub(super) actor: Option<Actor>,
    /// Streams with work that it may not know.
    pub(super) news: Vec<StreamRef>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StreamKind {
    Legacy,
    PerThread,
    Blocking,
    #[default]
    NonBlocking,
}

pub struct Op {
    pub work: Work,
}

#[derive(Default)]
pub struct Stream {
    pub id: u64,
    pub kind: StreamKind,
    pub context: u64,
    pub device: i32,
    /// The handle of the program; 0 for the two implicit streams.
    pub handle: u64,
    pub flags: u32,
    pub priority: i32,
    pub(super) queue: VecDeque<Op>,
    pub enqueued: u64,
    pub completed: u64,
    pub(super) running: bool,
    pub(super) destroyed: bool,
    /// Whether its green context was destroyed: it can only be destroyed.
    pub detached: bool,
    pub(super) listed: bool,
    /// The position in the legacy stream up to which this one has waited.
    pub(super) legacy_seen: u64,
    /// The number of the last barrier that its work comes after.
    pub(super) barrier_seen: u64,
    /// Whether the list of the barrier has it.
    pub(super) is_news: bool,
    pub(super) dirty: bool,
    pub actor: Option<Actor>,
    pub lane: Option<Lane>,
    /// Streams whose first operation waits for this one.
    pub(super) waiters: Vec<StreamRef>,
    pub(super) wake: Option<Arc<Condvar>>,
    /// The number of queries that found work pending since an operation ran.
    pub(super) queries: u32,
    pub attributes: BTreeMap<i32, [u64; 8]>,
}

#[derive(Clone)]
pub enum Recorded {
    Never,
    /// The state of a stream at a moment.
    Live {
        stream: StreamRef,
        position: u64,
        reached: Arc<Reached>,
        clock: Option<Clock>,
        shared: Option<u64>,
        /// The call, if the order of host threads matters.
        by: Option<Mark<Site>>,
    },
    Captured {
        capture: u64,
        nodes: Vec<u64>,
    },
}

/// A record that a later one took the place of.
pub struct Earlier {
    /// The call.
    pub at: Epoch,
    pub clock: Clock,
}

pub struct Event {
    pub context: u64,
    pub device: i32,
    pub flags: u32,
    pub recorded: Recorded,
    /// Records before that, the newest last.
    pub earlier: VecDeque<Earlier>,
    pub shared: Option<Arc<SharedEvent>>,
}

impl Event {
    pub fn new(context: u64, device: i32, flags: u32, shared: Option<Arc<SharedEvent>>) -> Event {
        let (recorded, earlier) = (Recorded::Never, VecDeque::new());
        Event { context, device, flags, recorded, earlier, shared }
    }

    /// Returns whether another process recorded it last.
    pub fn is_foreign(&self) -> bool {
        let own = match &self.recorded {
            Recorded::Live { shared: Some(number), .. } => *number,
            _ => 0,
        };
        self.shared.as_ref().is_some_and(|shared| shared.newest() != own)
    }
}

#[derive(Default)]
pub struct Thread {
    /// The stack of contexts, the current one last; 0 for none.
    pub contexts: Vec<u64>,
    pub capture_mode: i32,
    pub actor: Option<Actor>,
    pub label: Option<Arc<str>>,
    /// The per-thread default streams, by context.
    pub streams: Vec<(u64, StreamRef)>,
    /// The stream whose host function this thread runs, and what the stream knew.
    pub host_function: Option<(StreamRef, Option<Clock>)>,
    /// The lists of nodes and of edges that its last query of a capture returned.
    pub queried: [Vec<u64>; 2],
    /// The version of the clock of each other process that this thread read last.
    pub learned: Vec<u64>,
    /// Numbers in memory, from before its last call of a real driver that may change them.
    pub numbers: Vec<(Word, u64)>,
}

#[derive(Clone, Copy)]
pub struct Registered {
    /// NULL: what the kernel writes is overwritten.
    pub run: Option<unsafe extern "C" fn(*const Grid, *mut *mut c_void)>,
    pub accesses:
        Option<unsafe extern "C" fn(*const Grid, *mut *mut c_void, *mut Access, usize) -> usize>,
    pub nargs: usize,
    pub sizes: *const usize,
}
// SAFETY: `sizes` points to a constant that cudasim.h requires to live as long as the process, and
// it is only read.
unsafe impl Send for Registered {}

pub struct Function {
    pub name: std::ffi::CString,
    pub module: u64,
}

/// A block that was freed in stream order and may not have been reached yet.
pub struct Freed {
    pub address: u64,
    pub size: u64,
    pub arena: usize,
    pub pool: u64,
    /// Whether it was reused before the free was reached.
    pub taken: bool,
}

/// Location of a pool's memory: the numbers of `CUmemAllocationType` and `CUmemLocationType`, and
/// the device or the node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct PoolLocation {
    pub kind: i32,
    pub location: i32,
    pub id: i32,
}

pub const PINNED: i32 = 1;
pub const MANAGED: i32 = 2;
pub const DEVICE: i32 = 1;

#[derive(Default)]
pub struct Pool {
    pub place: PoolLocation,
    /// The arena that has its memory, and the one that gets it back.
    pub arena: usize,
    pub home: usize,
    pub used: u64,
    pub used_high: u64,
    pub reserved_high: u64,
    pub threshold: u64,
    /// The most that it reserves; 0 for no limit.
    pub max_size: u64,
    /// By the number of the attribute, 1 to 3: whether this kind of reuse is forbidden.
    pub reuse: [i32; 3],
    pub access: HashMap<i32, i32>,
    pub default: bool,
    pub imported: bool,
    pub handle_types: i32,
}

impl Pool {
    /// Returns the device whose memory it has, or that it prefers; 0 if there is none.
    pub fn device(&self) -> i32 {
        if self.place.location == DEVICE { self.place.id } else { 0 }
    }
}

/// Advice of the program about a managed allocation. Places are `CUmemLocation`: type and number.
#[derive(Default)]
pub struct Advice {
    pub read_mostly: bool,
    pub preferred: Option<(i32, i32)>,
    pub accessed_by: std::collections::BTreeSet<(i32, i32)>,
    pub prefetched: Option<(i32, i32)>,
}

pub struct Green {
    /// The handle of the green context itself; the context that represents it has another.
    pub handle: u64,
    /// The primary context.
    pub base: u64,
    pub sms: Sms,
    /// Whether it has a default stream; otherwise the one of the primary context is used.
    pub default_stream: bool,
}
