//! The whole state, behind one lock, and who has it. Uses every room but `border` and `api`. `unsafe`: none but
//! for a pointer that a program registered.
//!
//! `engine` runs streams, `order` knows what comes before what, `green` has what is true of whole contexts, `exit`
//! gives the verdict.

mod engine;
pub mod exchange;
mod exit;
mod green;
mod order;

pub use exit::at_exit;
pub use green::Green;

use crate::access::Access;
use crate::capture::{Capture, Lane};
use crate::checker::{Checker, Moment, Place, Who};
use crate::clock::{Actor, Clock};
use crate::config::{Config, Races, Schedule};
use crate::graph::{Exec, Graph, UserObject};
use crate::handles::{Kind, Table};
use crate::ipc::SharedEvent;
use crate::memory::{self, Allocation, Memory};
use crate::results::{Code, Result};
use crate::work::{CoreRef, HostCall, Reached, Work, is_ready};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

/// The state, while this thread has the lock.
pub struct Locked(MutexGuard<'static, Sim>);

impl std::ops::Deref for Locked {
    type Target = Sim;
    fn deref(&self) -> &Sim {
        &self.0
    }
}

impl std::ops::DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Sim {
        &mut self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        HERE.set(false);
    }
}

impl Locked {
    /// Runs something with the lock given up.
    pub fn unlocked<R>(&mut self, run: impl FnOnce() -> R) -> R {
        HERE.set(false);
        let result = MutexGuard::unlocked(&mut self.0, run);
        HERE.set(true);
        result
    }

    fn wait(&mut self, condition: &Condvar, at_most: Option<Duration>) {
        match at_most {
            Some(time) => {
                condition.wait_for(&mut self.0, time);
            }
            None => condition.wait(&mut self.0),
        }
    }
}

static SIM: OnceLock<Mutex<Sim>> = OnceLock::new();
/// Something was done: for whoever waits for it.
static CHANGED: Condvar = Condvar::new();
/// The process that called cuInit; 0: none.
pub static PROCESS: AtomicI32 = AtomicI32::new(0);
/// The process is ending.
pub static EXITED: AtomicBool = AtomicBool::new(false);

pub struct Device {
    pub primary: u64,
    pub primary_refs: u32,
    pub primary_flags: u32,
    pub default_pool: u64,
    pub current_pool: u64,
}

pub struct Context {
    pub device: i32,
    pub id: u64,
    pub flags: u32,
    pub api_version: u32,
    pub primary: bool,
    pub legacy: CoreRef,
    /// Blocking streams that did something which the legacy stream has not waited for.
    pub dirty: Vec<CoreRef>,
    /// All streams of the context.
    pub cores: Vec<CoreRef>,
    pub error: Option<Code>,
    pub peers: Vec<u64>,
    pub limits: [u64; 16],
    pub attached: u32,
    /// What streams that were destroyed did: the blocking ones, and all.
    pub gone: [Option<Actor>; 2],
    pub green: Option<Green>,
    /// What streams that are still to be made wait for, because the whole context was told to.
    pub waits: Vec<Work>,
    /// Knows what those waits order.
    pub waited: Option<Actor>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CoreKind {
    Legacy,
    PerThread,
    Blocking,
    NonBlocking,
}

pub struct Op {
    pub work: Work,
}

pub struct Core {
    pub id: u64,
    pub kind: CoreKind,
    pub context: u64,
    pub device: i32,
    /// What the program holds; 0 for the two implicit streams.
    pub handle: u64,
    pub flags: u32,
    pub priority: i32,
    queue: VecDeque<Op>,
    pub enqueued: u64,
    pub completed: u64,
    running: bool,
    destroyed: bool,
    /// Its green context was destroyed: all that is left to do with it is to destroy it.
    pub detached: bool,
    listed: bool,
    /// How far into the legacy stream this one has waited.
    legacy_seen: u64,
    dirty: bool,
    pub actor: Option<Actor>,
    pub lane: Option<Lane>,
    /// Streams whose first operation waits for this one.
    waiters: Vec<CoreRef>,
    wake: Option<Arc<Condvar>>,
    /// A query that found work pending: so often since something ran.
    queries: u32,
    pub attributes: BTreeMap<i32, [u64; 8]>,
}

#[derive(Clone)]
pub enum Recorded {
    Never,
    /// The state of a stream at a moment.
    Live {
        core: CoreRef,
        position: u64,
        reached: Arc<Reached>,
        clock: Option<Clock>,
        shared: Option<u64>,
    },
    Captured {
        capture: u64,
        nodes: Vec<u64>,
    },
}

pub struct Event {
    pub context: u64,
    pub device: i32,
    pub flags: u32,
    pub recorded: Recorded,
    pub shared: Option<Arc<SharedEvent>>,
}

impl Event {
    /// Whether another process recorded it last.
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
    /// Contexts, the current one last. 0 stands for none.
    pub contexts: Vec<u64>,
    pub capture_mode: i32,
    pub actor: Option<Actor>,
    pub label: Option<Arc<str>>,
    /// The per-thread default streams, by context.
    pub streams: Vec<(u64, CoreRef)>,
}

#[derive(Clone, Copy)]
pub struct Registered {
    pub run: unsafe extern "C" fn(*const crate::work::Grid, *mut *mut std::ffi::c_void),
    pub accesses: Option<
        unsafe extern "C" fn(
            *const crate::work::Grid,
            *mut *mut std::ffi::c_void,
            *mut Access,
            usize,
        ) -> usize,
    >,
    pub nargs: usize,
    pub sizes: *const usize,
}
// SAFETY: the pointer is to a constant of the program, which promised that it stays.
unsafe impl Send for Registered {}

pub struct Function {
    pub name: std::ffi::CString,
    pub module: u64,
}

/// A block that was freed in stream order and may not have been reached yet.
pub struct Freed {
    pub core: CoreRef,
    pub position: u64,
    pub address: u64,
    pub size: u64,
    pub arena: usize,
    pub pool: u64,
    /// Handed out again before the free was reached.
    pub taken: bool,
}

#[derive(Default)]
pub struct Pool {
    pub device: i32,
    pub used: u64,
    pub used_high: u64,
    pub reserved_high: u64,
    pub threshold: u64,
    pub reuse: [i32; 3],
    pub access: HashMap<i32, i32>,
    pub host: bool,
    pub default: bool,
    pub imported: bool,
    pub handle_types: i32,
}

/// A host function with the stream that waits for it, the state that a callback is told, and what the stream
/// knew.
type HostJob = (CoreRef, HostCall, i32, Option<Clock>);

pub struct Sim {
    pub config: Config,
    started: Instant,
    pub devices: Vec<Device>,
    pub contexts: Table<Context>,
    /// Green contexts: the context that each is.
    pub greens: Table<u64>,
    /// The device and the multiprocessors of each.
    pub descriptors: Table<(i32, crate::resources::Sms)>,
    pub streams: Table<CoreRef>,
    pub events: Table<Event>,
    pub modules: Table<()>,
    pub libraries: Table<()>,
    pub functions: Table<Function>,
    pub graphs: Table<Graph>,
    pub nodes: Table<crate::graph::Node>,
    pub execs: Table<Exec>,
    pub user_objects: Table<UserObject>,
    pub pools: Table<Pool>,
    pub physical: Table<crate::vmm::Physical>,
    pub mappings: crate::vmm::Mappings,
    pub captures: HashMap<u64, Capture>,
    pub next_id: u64,
    cores: Vec<Option<Core>>,
    free_cores: Vec<usize>,
    busy: Vec<CoreRef>,
    pub memory: Memory,
    pub freed: BTreeMap<u64, Freed>,
    pub checker: Option<Checker>,
    pub threads: HashMap<u32, Thread>,
    one_host: Option<Actor>,
    random: u64,
    pub kernels: HashMap<Vec<u8>, Registered>,
    callbacks: Option<mpsc::Sender<HostJob>>,
    pub calls: HashMap<&'static str, u64>,
    pub every_call: u64,
    guards: u32,
    waiting: u32,
    /// Grows with every call, so that a program that waits without calling is noticed.
    pub touched: u64,
    patience: bool,
    pub executed: u64,
    names: std::collections::HashSet<&'static str>,
}

// --- threads of the host ----------------------------------------------------------------------------------

thread_local! {
    static THREAD: Cell<u32> = const { Cell::new(0) };
    static ENDING: Ending = const { Ending };
    static HERE: Cell<bool> = const { Cell::new(false) };
}

/// The number of the calling thread, from 1.
pub fn thread_id() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let id = THREAD.get();
    if id != 0 {
        return id;
    }
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    THREAD.set(id);
    let _ = ENDING.try_with(|_| ());
    id
}

/// Its destructor runs when a thread ends that called the driver.
struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        let id = THREAD.get();
        if EXITED.load(Ordering::Acquire)
            || PROCESS.load(Ordering::Acquire) != std::process::id() as i32
        {
            return;
        }
        if let Some(mut sim) = lock() {
            sim.thread_ends(id);
        }
    }
}

// --- the lock ---------------------------------------------------------------------------------------------

/// The state; `None` before cuInit.
pub fn lock() -> Option<Locked> {
    let mutex = SIM.get()?;
    // What ends with a thread is registered with the loader, whose lock a thread may have that waits for ours: libraries
    // start threads while they are being loaded.
    thread_id();
    crate::stack::touch();
    let guard = mutex.lock();
    HERE.set(true);
    Some(Locked(guard))
}

/// Whether this thread has the lock: whatever it does then is the simulator's own.
pub fn is_locked_here() -> bool {
    HERE.try_with(Cell::get).unwrap_or(true)
}

/// Makes the state, once. Says whether this call did.
pub fn start(config: Config) -> bool {
    let mut mine = false;
    SIM.get_or_init(|| {
        mine = true;
        PROCESS.store(std::process::id() as i32, Ordering::Release);
        Mutex::new(Sim::new(config))
    });
    mine
}

pub fn config() -> Option<Config> {
    lock().map(|sim| sim.config.clone())
}

impl Sim {
    fn new(config: Config) -> Sim {
        let random = match config.schedule {
            Schedule::Random(seed) => seed,
            _ => 0,
        };
        let checker =
            (config.races != Races::Off).then(|| Checker::new(config.races, config.strict));
        let mut sim = Sim {
            started: Instant::now(),
            devices: Vec::new(),
            contexts: Table::new(Kind::Context),
            greens: Table::new(Kind::Green),
            descriptors: Table::new(Kind::Descriptor),
            streams: Table::new(Kind::Stream),
            events: Table::new(Kind::Event),
            modules: Table::new(Kind::Module),
            libraries: Table::new(Kind::Library),
            functions: Table::new(Kind::Function),
            graphs: Table::new(Kind::Graph),
            nodes: Table::new(Kind::Node),
            execs: Table::new(Kind::Exec),
            user_objects: Table::new(Kind::UserObject),
            pools: Table::new(Kind::Pool),
            physical: Table::new(Kind::Physical),
            mappings: Default::default(),
            captures: HashMap::new(),
            // 0, 1 and 2 look like tokens.
            next_id: 3,
            cores: Vec::new(),
            free_cores: Vec::new(),
            busy: Vec::new(),
            memory: Memory::default(),
            freed: BTreeMap::new(),
            checker,
            threads: HashMap::new(),
            one_host: None,
            random,
            kernels: HashMap::new(),
            callbacks: None,
            calls: HashMap::new(),
            every_call: 0,
            guards: 0,
            waiting: 0,
            touched: 0,
            patience: false,
            executed: 0,
            names: Default::default(),
            config,
        };
        for device in 0..sim.config.devices as i32 {
            let pool = sim.pools.insert(Pool { device, default: true, ..Pool::default() });
            sim.devices.push(Device {
                primary: 0,
                primary_refs: 0,
                primary_flags: 0,
                default_pool: pool,
                current_pool: pool,
            });
        }
        sim.memory.arenas.resize_with(sim.config.devices + 2, Default::default);
        sim
    }

    pub fn pinned_arena(&self) -> usize {
        self.config.devices
    }

    pub fn managed_arena(&self) -> usize {
        self.config.devices + 1
    }

    pub fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub fn now(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    pub fn thread(&mut self) -> &mut Thread {
        self.threads.entry(thread_id()).or_default()
    }

    fn thread_ends(&mut self, id: u32) {
        let Some(thread) = self.threads.remove(&id) else { return };
        for (context, core) in thread.streams {
            if let Some(context) = self.contexts.get_mut(context) {
                context.cores.retain(|other| *other != core);
            }
            self.destroy_core(core);
        }
        if let (Some(actor), Some(checker)) = (thread.actor, &mut self.checker) {
            checker.retire(actor);
        }
    }

    /// What memory, events and modules belong to: where a green context is current, its primary one.
    pub fn current_context(&mut self) -> Result<u64> {
        let handle = self.execution_context()?;
        Ok(self.base(handle))
    }

    /// What streams belong to: the current context, green or not.
    pub fn execution_context(&mut self) -> Result<u64> {
        let handle = if crate::WATCHING {
            crate::handles::CURRENT.get().0
        } else {
            self.thread().contexts.last().copied().unwrap_or(0)
        };
        match self.contexts.get(handle) {
            None if handle == 0 => Err(Code::INVALID_CONTEXT),
            None => Err(Code::CONTEXT_IS_DESTROYED),
            Some(_) => self.context_error(handle).map(|()| handle),
        }
    }

    pub fn context(&mut self, handle: u64) -> Result<&mut Context> {
        self.contexts.get_mut(handle).ok_or(Code::INVALID_CONTEXT)
    }

    pub fn new_core(
        &mut self,
        kind: CoreKind,
        context: u64,
        device: i32,
        flags: u32,
        priority: i32,
    ) -> CoreRef {
        let id = self.id();
        let core = Core {
            id,
            kind,
            context,
            device,
            handle: 0,
            flags,
            priority,
            queue: VecDeque::new(),
            enqueued: 0,
            completed: 0,
            running: false,
            destroyed: false,
            detached: false,
            listed: false,
            legacy_seen: 0,
            dirty: false,
            actor: None,
            lane: None,
            waiters: Vec::new(),
            wake: None,
            queries: 0,
            attributes: BTreeMap::new(),
        };
        let slot = match self.free_cores.pop() {
            Some(slot) => slot,
            None => {
                self.cores.push(None);
                self.cores.len() - 1
            }
        };
        self.cores[slot] = Some(core);
        let core = CoreRef { slot, id };
        if self.checker.is_some() {
            let host = self.host_actor();
            let name = match kind {
                CoreKind::Legacy => crate::checker::LEGACY,
                CoreKind::PerThread => "per-thread default stream",
                CoreKind::Blocking => "stream",
                CoreKind::NonBlocking => "non-blocking stream",
            };
            if let Some(checker) = &mut self.checker {
                let actor = checker.actor(Some(host), Who::Stream { id, device, kind: name });
                self.core_mut(core).actor = Some(actor);
            }
        }
        if let Some(context) = self.contexts.get_mut(context) {
            context.cores.push(core);
        }
        self.wait_as_told(core, context);
        core
    }

    pub fn get(&self, core: CoreRef) -> Option<&Core> {
        self.cores.get(core.slot)?.as_ref().filter(|found| found.id == core.id)
    }

    pub fn get_mut(&mut self, core: CoreRef) -> Option<&mut Core> {
        self.cores.get_mut(core.slot)?.as_mut().filter(|found| found.id == core.id)
    }

    /// Of a stream that was just found.
    pub fn core_mut(&mut self, core: CoreRef) -> &mut Core {
        match self.cores[core.slot].as_mut() {
            Some(core) => core,
            None => unreachable!("a stream that was found is there"),
        }
    }

    pub fn is_done(&self, core: CoreRef, position: u64) -> bool {
        self.get(core).is_none_or(|core| core.completed >= position)
    }

    /// The stream goes; its work goes on.
    pub fn destroy_core(&mut self, core: CoreRef) {
        let context = match self.get_mut(core) {
            Some(found) => {
                found.destroyed = true;
                found.context
            }
            None => return,
        };
        if let Some(context) = self.contexts.get_mut(context) {
            context.cores.retain(|other| *other != core);
        }
        self.remember_destroyed(core, context);
        if let (Some(actor), Some(checker)) = (self.core_mut(core).actor, &mut self.checker) {
            checker.retire(actor);
        }
        self.drop_if_drained(core);
    }

    fn drop_if_drained(&mut self, core: CoreRef) {
        let Some(found) = self.get(core) else { return };
        if found.destroyed && found.queue.is_empty() && !found.running {
            if let Some(wake) = &found.wake {
                wake.notify_all();
            }
            self.cores[core.slot] = None;
            self.free_cores.push(core.slot);
        }
    }

    /// A stream that a real driver made without a word that was heard: taken for a blocking one, which is
    /// ordered after more than others are.
    fn adopt_stream(&mut self, handle: u64) -> Result {
        let context = self.current_context()?;
        let device = self.context(context)?.device;
        let core = self.new_core(CoreKind::Blocking, context, device, 0, 0);
        // Found on the way to something else that was made.
        let given = crate::handles::GIVEN.replace(handle);
        self.streams.insert(core);
        crate::handles::GIVEN.set(given);
        self.core_mut(core).handle = handle;
        Ok(())
    }

    /// The stream that a handle names, for the calling thread.
    pub fn stream(&mut self, handle: u64, default: u64) -> Result<CoreRef> {
        let token = if handle == 0 { default } else { handle };
        if token > 2 {
            if crate::WATCHING && self.streams.get(token).is_none() {
                self.adopt_stream(token)?;
            }
            let core = *self.streams.get(token).ok_or(Code::INVALID_HANDLE)?;
            let (context, detached) =
                self.get(core).map_or((0, false), |core| (core.context, core.detached));
            if detached {
                return Err(Code::STREAM_DETACHED);
            }
            if self.contexts.get(context).is_none() {
                return Err(Code::CONTEXT_IS_DESTROYED);
            }
            return self.context_error(context).map(|()| core);
        }
        let mut context = self.execution_context()?;
        if let Some(green) = &self.context(context)?.green {
            // There is none per thread in a green context. [cuStreamGetCtx_v2]
            if token != 1 {
                return Err(Code::INVALID_HANDLE);
            }
            if !green.default_stream {
                context = green.base;
            }
        }
        if token == 1 {
            return Ok(self.context(context)?.legacy);
        }
        if let Some((_, core)) = self.thread().streams.iter().find(|(of, _)| *of == context) {
            return Ok(*core);
        }
        let device = self.context(context)?.device;
        let core = self.new_core(CoreKind::PerThread, context, device, 0, 0);
        self.thread().streams.push((context, core));
        Ok(core)
    }

    /// A free in stream order is reached: the bytes go back, unless somebody has them again already.
    fn pool_released(&mut self, id: u64) {
        let Some(freed) = self.freed.remove(&id) else { return };
        if !freed.taken {
            self.unguarded(|sim| {
                memory::poison(freed.address, freed.size);
                sim.memory.arenas[freed.arena].release(freed.address, freed.size);
            });
        }
    }

    pub fn arena_used(&self, device: i32) -> u64 {
        self.memory.arenas[device as usize].used
    }

    /// Ends an allocation: what is not ordered before its end is a race.
    pub fn end_allocation(&mut self, base: u64, moment: Option<&Moment>) -> Option<Allocation> {
        if let Some(moment) = moment {
            let allocation = self.memory.allocations.get_mut(&base)?;
            let (place, access) =
                (allocation.place(), Access::range(base, allocation.size, crate::access::WRITE));
            if let Some(checker) = &mut self.checker {
                checker.access(&mut allocation.shadow, &place, &access, moment);
            }
        }
        if let (Some(checker), Some(allocation)) =
            (&mut self.checker, self.memory.allocations.get(&base))
        {
            checker.rules.forget(base, base + allocation.size);
        }
        self.memory.remove(base, moment.map(|moment| moment.mark.site.clone()))
    }

    /// Ends all allocations of a context that goes.
    pub fn end_allocations_of(&mut self, context: u64) {
        let bases: Vec<u64> = self
            .memory
            .allocations
            .values()
            .filter(|a| a.context == context)
            .map(|a| a.base)
            .collect();
        for base in bases {
            if let Some(allocation) = self.memory.remove(base, None) {
                self.give_back(&allocation);
            }
        }
    }

    /// The bytes of an allocation that ended.
    pub fn give_back(&mut self, allocation: &Allocation) {
        if let Some((arena, size)) = allocation.block {
            let base = allocation.base;
            self.unguarded(|sim| {
                memory::poison(base, size);
                sim.memory.arenas[arena].release(base, size);
            });
        }
    }
}
