//! The whole state, behind one lock, and the engine that runs streams. Uses every room but `border` and `api`.
//! `unsafe`: none but what a thread needs to say that it ends.
//!
//! A stream is a queue. An operation runs when it is the first of its queue and what it waits for is done.
//! Whoever runs one takes it out, unlocks, runs it, locks again and counts it as done. The schedules differ in
//! who that is and when.

use crate::access::Access;
use crate::checker::{Checker, Moment, Who};
use crate::clock::{Actor, Clock};
use crate::config::{Config, Races, Schedule};
use crate::graph::{Capture, Exec, Graph, Lane, UserObject};
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

/// A stream refuses to grow longer than this: then the host waits, as with a real driver.
const LONGEST_QUEUE: usize = 1024;

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
    pub imported: bool,
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
        if EXITED.load(Ordering::Acquire) || PROCESS.load(Ordering::Acquire) != std::process::id() as i32 {
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
    let guard = SIM.get()?.lock();
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
        let checker = (config.races != Races::Off).then(|| Checker::new(config.races));
        let mut sim = Sim {
            started: Instant::now(),
            devices: Vec::new(),
            contexts: Table::new(Kind::Context),
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

    // --- host threads -----------------------------------------------------------------------------------

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

    /// The calling thread, as the checker knows it. Where nobody sees how host threads order themselves, they
    /// count as one: ordered as their calls came.
    pub fn host_actor(&mut self) -> Actor {
        let number = thread_id();
        if !self.config.threads_seen {
            if let Some(actor) = self.one_host {
                return actor;
            }
            let Some(checker) = &mut self.checker else { return 0 };
            let actor = checker.actor(None, Who::Host { thread: u64::from(number) });
            self.one_host = Some(actor);
            return actor;
        }
        let thread = self.threads.entry(number).or_default();
        if let Some(actor) = thread.actor {
            return actor;
        }
        let Some(checker) = &mut self.checker else { return 0 };
        let actor = checker.actor(None, Who::Host { thread: u64::from(number) });
        thread.actor = Some(actor);
        actor
    }

    pub fn current_context(&mut self) -> Result<u64> {
        let handle = self.thread().contexts.last().copied().unwrap_or(0);
        match self.contexts.get(handle) {
            None if handle == 0 => Err(Code::INVALID_CONTEXT),
            None => Err(Code::CONTEXT_IS_DESTROYED),
            Some(context) => context.error.map_or(Ok(handle), Err),
        }
    }

    pub fn context(&mut self, handle: u64) -> Result<&mut Context> {
        self.contexts.get_mut(handle).ok_or(Code::INVALID_CONTEXT)
    }

    // --- streams ----------------------------------------------------------------------------------------

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
                CoreKind::Legacy => "legacy default stream",
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

    /// All streams of a context, also those that are destroyed and not done.
    pub fn cores_of(&self, context: u64) -> Vec<CoreRef> {
        let all = self.cores.iter().enumerate();
        let of_context = |(slot, core): (usize, &Option<Core>)| {
            core.as_ref().filter(|core| core.context == context).map(|core| CoreRef { slot, id: core.id })
        };
        all.filter_map(of_context).collect()
    }

    /// The calling thread knows from here on what these streams did so far.
    pub fn host_knows(&mut self, cores: &[CoreRef]) {
        if self.checker.is_some() {
            let host = self.host_actor();
            for core in cores {
                let actor = self.get(*core).and_then(|core| core.actor);
                self.order_actors(actor, Some(host));
            }
        }
    }

    fn this_thread_learns(&mut self, clock: Option<&Clock>) {
        let host = self.host_actor();
        if let (Some(clock), Some(checker)) = (clock, &mut self.checker) {
            checker.learn(host, clock);
        }
    }

    /// What a stream knows now.
    pub fn knowledge(&mut self, actor: Option<Actor>) -> Option<Clock> {
        Some(self.checker.as_mut()?.tell(actor?))
    }

    /// `core` goes on only after what `other` was given so far.
    pub fn wait_for_core(&mut self, core: CoreRef, other: CoreRef) {
        let Some(found) = self.get(other) else { return };
        let (position, done, theirs) = (found.enqueued, found.completed >= found.enqueued, found.actor);
        let actor = self.core_mut(core).actor;
        self.order_actors(theirs, actor);
        if !done {
            self.push(core, Work::Wait(other, position));
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

    /// The legacy stream and whoever waits for the context still wait for a stream that is gone.
    fn remember_destroyed(&mut self, core: CoreRef, context: u64) {
        let (kind, actor) = (self.core_mut(core).kind, self.core_mut(core).actor);
        let (Some(checker), Some(context)) = (&mut self.checker, self.contexts.get_mut(context)) else {
            return;
        };
        let blocking = matches!(kind, CoreKind::Blocking | CoreKind::PerThread);
        for (gone, counts) in context.gone.iter_mut().zip([blocking, true]) {
            if counts {
                let gone = *gone.get_or_insert_with(|| checker.actor(None, Who::Destroyed));
                actor.iter().for_each(|actor| checker.order(*actor, gone));
            }
        }
    }

    /// The calling thread knows from here on all that a context was given.
    pub fn host_knows_context(&mut self, context: u64) {
        let all = self.cores_of(context);
        self.host_knows(&all);
        if self.checker.is_some() {
            let host = self.host_actor();
            let gone = self.contexts.get(context).and_then(|context| context.gone[1]);
            self.order_actors(gone, Some(host));
        }
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

    /// The stream that a handle names, for the calling thread.
    pub fn stream(&mut self, handle: u64, default: u64) -> Result<CoreRef> {
        let token = if handle == 0 { default } else { handle };
        if token > 2 {
            let core = *self.streams.get(token).ok_or(Code::INVALID_HANDLE)?;
            let context = self.get(core).map_or(0, |core| core.context);
            return match self.contexts.get(context) {
                Some(context) => context.error.map_or(Ok(core), Err),
                None => Err(Code::CONTEXT_IS_DESTROYED),
            };
        }
        let context = self.current_context()?;
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

    // --- enqueueing -------------------------------------------------------------------------------------

    fn push(&mut self, core: CoreRef, work: Work) -> u64 {
        let found = self.core_mut(core);
        found.queue.push_back(Op { work });
        found.enqueued += 1;
        let position = found.enqueued;
        if !found.listed {
            found.listed = true;
            self.busy.push(core);
        }
        position
    }

    fn order_actors(&mut self, earlier: Option<Actor>, later: Option<Actor>) {
        if let (Some(earlier), Some(later), Some(checker)) = (earlier, later, &mut self.checker) {
            checker.order(earlier, later);
        }
    }

    /// The rules of the default streams, for an operation that is about to be enqueued: the legacy stream waits
    /// for all blocking ones of its context, and they for it.
    pub fn default_stream_rules(&mut self, core: CoreRef) {
        let (kind, handle, actor) = {
            let found = self.core_mut(core);
            (found.kind, found.context, found.actor)
        };
        match kind {
            CoreKind::NonBlocking => {}
            CoreKind::Legacy => {
                let Some(context) = self.contexts.get_mut(handle) else { return };
                let gone = context.gone[0];
                let dirty = std::mem::take(&mut context.dirty);
                self.order_actors(gone, actor);
                for other in dirty {
                    let Some(found) = self.get_mut(other) else { continue };
                    found.dirty = false;
                    self.wait_for_core(core, other);
                }
            }
            CoreKind::Blocking | CoreKind::PerThread => {
                let Some(context) = self.contexts.get(handle) else { return };
                let legacy = context.legacy;
                let Some(found) = self.get(legacy) else { return };
                let (position, completed, theirs) = (found.enqueued, found.completed, found.actor);
                if self.core_mut(core).legacy_seen < position {
                    self.core_mut(core).legacy_seen = position;
                    self.order_actors(theirs, actor);
                    if completed < position {
                        self.push(core, Work::Wait(legacy, position));
                    }
                }
                if !self.core_mut(core).dirty {
                    self.core_mut(core).dirty = true;
                    if let Some(context) = self.contexts.get_mut(handle) {
                        context.dirty.push(core);
                    }
                }
            }
        }
    }

    /// What comes before every operation on a stream: the rules of the default streams, and that the calling
    /// thread's past comes before it.
    pub fn prepare(&mut self, core: CoreRef) {
        self.default_stream_rules(core);
        if self.checker.is_some() {
            let host = self.host_actor();
            let actor = self.core_mut(core).actor;
            self.order_actors(Some(host), actor);
        }
    }

    pub fn label(&mut self, name: &'static str) -> Cow<'static, str> {
        match &self.thread().label {
            None => Cow::Borrowed(name),
            Some(label) => Cow::Owned(format!("{label} ({name})")),
        }
    }

    /// Text that lives as long as the process: there are as many as the program has names.
    pub fn interned(&mut self, text: &str) -> &'static str {
        match self.names.get(text) {
            Some(name) => name,
            None => {
                let name: &'static str = Box::leak(text.to_owned().into_boxed_str());
                self.names.insert(name);
                name
            }
        }
    }

    pub fn kernel_label(&mut self, function: u64) -> &'static str {
        let name = self.functions.get(function).map(|function| function.name.to_string_lossy().into_owned());
        name.map_or("a kernel", |name| self.interned(&name))
    }

    /// The accesses of an operation on a stream, judged.
    pub fn check(&mut self, core: CoreRef, accesses: &[Access], label: &'static str) {
        if self.checker.is_none() || accesses.is_empty() {
            return;
        }
        let label = self.label(label);
        let Some(actor) = self.core_mut(core).actor else { return };
        let Some(checker) = &mut self.checker else { return };
        let moment = checker.step(actor, label, u64::from(thread_id()));
        self.check_at(&moment, accesses);
    }

    /// The same for what the calling thread does by itself.
    pub fn check_host(&mut self, accesses: &[Access], label: Cow<'static, str>) -> Option<Moment> {
        let host = self.host_actor();
        let checker = self.checker.as_mut()?;
        let moment = checker.host(host, label, u64::from(thread_id()));
        self.check_at(&moment, accesses);
        Some(moment)
    }

    /// The moment of a call that frees memory.
    pub fn freeing(&mut self, label: &'static str) -> Option<Moment> {
        let host = self.host_actor();
        let label = self.label(label);
        Some(self.checker.as_mut()?.host_frees(host, label, u64::from(thread_id())))
    }

    /// A synchronous call came back before its work on a stream is done.
    pub fn synchronous_call(&mut self, core: CoreRef) {
        let host = self.host_actor();
        if let (Some(actor), Some(checker)) = (self.get(core).and_then(|core| core.actor), &mut self.checker)
        {
            checker.order_before_free(actor, host);
        }
    }

    pub fn check_at(&mut self, moment: &Moment, accesses: &[Access]) {
        for access in accesses {
            let access = self.memory.on_device(access);
            let Some(checker) = &mut self.checker else { return };
            let Some(allocation) = self.memory.find_mut(access.address) else { continue };
            let place = allocation.place();
            checker.access(&mut allocation.shadow, &place, &access, moment);
        }
    }

    /// Puts an operation at the end of a stream that is not capturing. `prepare` and `check` came before.
    pub fn enqueue(sim: &mut Locked, core: CoreRef, work: Work) -> u64 {
        let position = sim.push(core, work);
        Self::after_enqueue(sim, core);
        position
    }

    /// Gives the schedule its chance.
    pub fn after_enqueue(sim: &mut Locked, core: CoreRef) {
        if !sim.patience && sim.config.schedule != Schedule::Threads {
            sim.patience = true;
            let _ = std::thread::Builder::new().name("cuda-sim".to_owned()).spawn(go_on_unasked);
        }
        match sim.config.schedule {
            Schedule::Eager => Self::run_ready(sim, core),
            Schedule::Lazy => {}
            Schedule::Random(_) => {
                let steps = sim.roll(3);
                for _ in 0..steps {
                    if !Self::run_any(sim) {
                        break;
                    }
                }
            }
            Schedule::Threads => sim.wake_worker(core),
        }
        let long = |sim: &Locked| sim.get(core).is_some_and(|core| core.queue.len() > LONGEST_QUEUE);
        if long(sim) {
            let position = sim.core_mut(core).completed + 1;
            Self::wait_done(sim, core, position);
        }
    }

    /// A number below `n`. The same seed gives the same numbers.
    fn roll(&mut self, n: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    // --- running ----------------------------------------------------------------------------------------

    fn is_runnable(&self, core: CoreRef) -> bool {
        let Some(found) = self.get(core) else { return false };
        if found.running {
            return false;
        }
        match found.queue.front() {
            None => false,
            Some(op) => self.is_unblocked(&op.work),
        }
    }

    fn is_unblocked(&self, work: &Work) -> bool {
        match work {
            Work::Wait(other, position) => self.is_done(*other, *position),
            Work::WaitShared(event, number) => event.reached(*number),
            Work::WaitValue { address, value, wide, flags } => is_ready(*address, *value, *wide, *flags),
            _ => true,
        }
    }

    /// Runs the first operation of a stream, which is runnable.
    fn run_head(sim: &mut Locked, core: CoreRef) {
        let found = sim.core_mut(core);
        let Some(op) = found.queue.pop_front() else { return };
        found.running = true;
        let context = found.context;
        let failed = sim.contexts.get(context).and_then(|context| context.error);
        sim.executed += 1;
        match op.work {
            Work::Host(call, clock) => {
                // After an error host functions are dropped, and callbacks are told.
                if failed.is_some() && call.callback_stream.is_none() {
                    Self::complete(sim, core);
                    return;
                }
                let job = (core, call, failed.map_or(0, |code| code.0), clock);
                let sender = sim.callbacks.get_or_insert_with(start_callback_thread);
                // The thread lives as long as the process.
                let _ = sender.send(job);
            }
            Work::Record(reached, shared) => {
                reached.nanoseconds.store(sim.now(), Ordering::Relaxed);
                reached.done.store(true, Ordering::Release);
                if let Some((event, number)) = shared {
                    event.reach(number);
                }
                Self::complete(sim, core);
            }
            Work::Release(id) => {
                sim.pool_released(id);
                Self::complete(sim, core);
            }
            Work::Forget(objects) => {
                crate::graph::release_objects(sim, &objects);
                Self::complete(sim, core);
            }
            work if work.touches_memory() && failed.is_none() => {
                sim.open_guard();
                let result = sim.unlocked(|| work.run());
                sim.close_guard();
                if let Err(code) = result {
                    if let Some(context) = sim.contexts.get_mut(context) {
                        context.error.get_or_insert(code);
                    }
                }
                Self::complete(sim, core);
            }
            _ => Self::complete(sim, core),
        }
    }

    fn open_guard(&mut self) {
        if self.config.guard {
            self.guards += 1;
            if self.guards == 1 {
                let devices = self.config.devices;
                self.memory.arenas[..devices].iter().for_each(|arena| arena.protect(true));
            }
        }
    }

    fn close_guard(&mut self) {
        if self.config.guard {
            self.guards -= 1;
            self.protect_devices();
        }
    }

    /// Closes device memory to the host, where that was asked for and nothing runs.
    pub fn protect_devices(&self) {
        if self.config.guard && self.guards == 0 {
            let devices = self.config.devices;
            self.memory.arenas[..devices].iter().for_each(|arena| arena.protect(false));
        }
    }

    /// Runs something that touches device memory while no operation does.
    pub fn unguarded<R>(&mut self, run: impl FnOnce(&mut Sim) -> R) -> R {
        self.open_guard();
        let result = run(self);
        self.close_guard();
        result
    }

    fn complete(sim: &mut Locked, core: CoreRef) {
        let found = sim.core_mut(core);
        found.running = false;
        found.completed += 1;
        found.queries = 0;
        let waiters = std::mem::take(&mut found.waiters);
        if found.queue.is_empty() {
            found.listed = false;
            sim.busy.retain(|other| *other != core);
        }
        if sim.config.schedule == Schedule::Threads {
            waiters.into_iter().for_each(|waiter| sim.wake_worker(waiter));
        }
        sim.drop_if_drained(core);
        if sim.waiting > 0 {
            CHANGED.notify_all();
        }
    }

    /// Runs a stream as far as it goes, and what that unblocks.
    fn run_ready(sim: &mut Locked, core: CoreRef) {
        while sim.is_runnable(core) {
            Self::run_head(sim, core);
        }
        Self::run_unblocked(sim);
    }

    fn run_unblocked(sim: &mut Locked) {
        while let Some(next) = sim.busy.iter().copied().find(|core| sim.is_runnable(*core)) {
            Self::run_head(sim, next);
        }
    }

    /// One operation of any stream; `false` where none can run.
    pub fn run_any(sim: &mut Locked) -> bool {
        let runnable: Vec<CoreRef> = sim.busy.iter().copied().filter(|core| sim.is_runnable(*core)).collect();
        if runnable.is_empty() {
            return false;
        }
        let chosen = runnable[sim.roll(runnable.len() as u64) as usize];
        Self::run_head(sim, chosen);
        true
    }

    /// The stream whose first operation has to run for `core` to get on; `None`: somebody else is at it.
    fn needed(&self, mut core: CoreRef) -> Option<CoreRef> {
        for _ in 0..=self.cores.len() {
            let found = self.get(core)?;
            if found.running {
                return None;
            }
            match &found.queue.front()?.work {
                Work::Wait(other, position) if !self.is_done(*other, *position) => core = *other,
                work => return self.is_unblocked(work).then_some(core),
            }
        }
        None
    }

    /// Waits until a stream has done so many operations: runs what that takes, or lets others do it.
    pub fn wait_done(sim: &mut Locked, core: CoreRef, position: u64) {
        while !sim.is_done(core, position) && !EXITED.load(Ordering::Acquire) {
            let ran = match sim.config.schedule {
                Schedule::Threads => false,
                Schedule::Random(_) => Self::run_any(sim),
                Schedule::Eager | Schedule::Lazy => match sim.needed(core) {
                    Some(next) => {
                        Self::run_head(sim, next);
                        true
                    }
                    None => false,
                },
            };
            if !ran {
                sim.waiting += 1;
                // What other processes and the program's own memory do is not announced.
                sim.wait(&CHANGED, Some(Duration::from_millis(2)));
                sim.waiting -= 1;
            }
        }
    }

    /// Somebody outside this process waits: under schedules that run nothing by themselves, runs it now.
    pub fn wait_in_background(sim: &mut Locked, core: CoreRef, position: u64) {
        if matches!(sim.config.schedule, Schedule::Lazy | Schedule::Random(_)) {
            while !sim.is_done(core, position) {
                match sim.needed(core) {
                    Some(next) => Self::run_head(sim, next),
                    None => break,
                }
            }
        }
    }

    /// A query of something that is not done. Whoever asks again and again must get an answer some day, under
    /// schedules that run nothing by themselves: every second query runs something.
    pub fn poll(sim: &mut Locked, core: CoreRef, position: u64) -> bool {
        if sim.is_done(core, position) {
            return true;
        }
        if matches!(sim.config.schedule, Schedule::Lazy | Schedule::Random(_)) {
            let found = sim.core_mut(core);
            found.queries += 1;
            if found.queries > 1 {
                if let Some(next) = sim.needed(core) {
                    Self::run_head(sim, next);
                }
            }
        }
        sim.is_done(core, position)
    }

    /// Waits for everything that several streams were given so far, the newest stream first.
    pub fn wait_all(sim: &mut Locked, cores: &[CoreRef]) {
        let mut targets: Vec<(CoreRef, u64)> =
            cores.iter().filter_map(|core| Some((*core, sim.get(*core)?.enqueued))).collect();
        targets.sort_by_key(|(core, _)| std::cmp::Reverse(core.id));
        for (core, position) in targets {
            Self::wait_done(sim, core, position);
        }
    }

    /// Waits for everything, of every context.
    pub fn wait_everything(sim: &mut Locked) {
        let cores = sim.busy.clone();
        Self::wait_all(sim, &cores);
    }

    /// Runs pending operations whatever the schedule. How many ran.
    pub fn steps(sim: &mut Locked, count: usize) -> usize {
        (0..count).take_while(|_| Self::run_any(sim)).count()
    }

    /// The calling thread waits for a stream, and knows then what it did.
    pub fn synchronize(sim: &mut Locked, core: CoreRef) -> Result {
        sim.default_stream_rules_for_wait(core);
        let (position, context) = {
            let found = sim.core_mut(core);
            (found.enqueued, found.context)
        };
        Self::wait_done(sim, core, position);
        sim.host_knows(&[core]);
        sim.contexts.get(context).and_then(|context| context.error).map_or(Ok(()), Err)
    }

    /// Waiting for the legacy stream waits for what it would wait for.
    pub fn default_stream_rules_for_wait(&mut self, core: CoreRef) {
        if self.core_mut(core).kind == CoreKind::Legacy {
            self.default_stream_rules(core);
            if self.config.schedule == Schedule::Threads {
                self.wake_worker(core);
            }
        }
    }

    // --- workers of the schedule `threads` --------------------------------------------------------------

    fn wake_worker(&mut self, core: CoreRef) {
        if self.get(core).is_none() {
            return;
        }
        match &self.core_mut(core).wake {
            Some(wake) => {
                wake.notify_one();
            }
            None => {
                let wake = Arc::new(Condvar::new());
                self.core_mut(core).wake = Some(wake.clone());
                let worker = std::thread::Builder::new().name(format!("cuda-sim {}", core.id));
                if worker.spawn(move || work_on(core, &wake)).is_err() {
                    // Without a thread of its own the stream is served by whoever waits.
                    self.core_mut(core).wake = None;
                }
            }
        }
    }

    // --- stream-ordered memory --------------------------------------------------------------------------

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
        self.memory.remove(base, moment.map(|moment| moment.mark.site.clone()))
    }

    /// Ends all allocations of a context that goes.
    pub fn end_allocations_of(&mut self, context: u64) {
        let bases: Vec<u64> =
            self.memory.allocations.values().filter(|a| a.context == context).map(|a| a.base).collect();
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

    // --- reports ----------------------------------------------------------------------------------------

    /// Says what was found since the last time, on stderr.
    pub fn report_now(&mut self) {
        if let Some(checker) = self.checker.as_mut().filter(|_| !self.config.print_at_exit) {
            for text in checker.print() {
                eprint!("{text}");
            }
        }
    }
}

/// A worker serves one stream until it is destroyed and done.
fn work_on(core: CoreRef, wake: &Condvar) {
    let Some(mut sim) = lock() else { return };
    loop {
        if EXITED.load(Ordering::Acquire) || sim.get(core).is_none() {
            return;
        }
        if sim.is_runnable(core) {
            Sim::run_head(&mut sim, core);
            continue;
        }
        let found = sim.core_mut(core);
        let unannounced = match found.queue.front() {
            Some(Op { work: Work::Wait(other, _) }) if !found.running => {
                let other = *other;
                if let Some(other) = sim.get_mut(other) {
                    if !other.waiters.contains(&core) {
                        other.waiters.push(core);
                    }
                }
                false
            }
            Some(Op { work: Work::WaitShared(..) | Work::WaitValue { .. } }) => true,
            _ => false,
        };
        if unannounced {
            sim.wait(wake, Some(Duration::from_millis(1)));
        } else {
            sim.wait(wake, None);
        }
    }
}

/// A program may wait for the device without a call: for a host function, or for a value in memory. When nobody
/// has called for a quarter of a second, the device gets on by itself, one operation at a time.
fn go_on_unasked() {
    const STEP: Duration = Duration::from_millis(25);
    const PATIENCE: u32 = 10;
    let (mut seen, mut quiet) = (0, 0);
    loop {
        std::thread::sleep(STEP);
        if EXITED.load(Ordering::Acquire) {
            return;
        }
        let Some(mut sim) = lock() else { return };
        quiet = if sim.touched == seen { quiet + 1 } else { 0 };
        seen = sim.touched;
        if quiet >= PATIENCE {
            while sim.touched == seen && !EXITED.load(Ordering::Acquire) && Sim::run_any(&mut sim) {}
        }
    }
}

/// Host functions and callbacks run one after another on a thread of their own, as drivers do it.
fn start_callback_thread() -> mpsc::Sender<HostJob> {
    let (sender, receiver) = mpsc::channel::<HostJob>();
    let run = move || {
        for (core, call, status, clock) in receiver {
            if EXITED.load(Ordering::Acquire) {
                return;
            }
            let Some(mut sim) = lock() else { return };
            // The function comes after what was before it in the stream, and whoever it tells, too.
            if sim.config.threads_seen {
                sim.this_thread_learns(clock.as_ref());
            }
            sim.unlocked(|| call.run(status));
            if !sim.config.threads_seen {
                sim.this_thread_learns(clock.as_ref());
            }
            Sim::complete(&mut sim, core);
            match sim.config.schedule {
                Schedule::Eager => Sim::run_unblocked(&mut sim),
                Schedule::Threads => sim.wake_worker(core),
                Schedule::Lazy | Schedule::Random(_) => {}
            }
        }
    };
    if std::thread::Builder::new().name("cuda-sim host functions".to_owned()).spawn(run).is_err() {
        eprintln!("cuda-sim: no thread for host functions: they will not run");
    }
    sender
}

/// Registered at cuInit: from here on every call answers that the driver is gone, and the verdict is given.
pub extern "C" fn at_exit() {
    if PROCESS.load(Ordering::Acquire) != std::process::id() as i32 {
        return;
    }
    EXITED.store(true, Ordering::Release);
    let Some(mutex) = SIM.get() else { return };
    // A thread that holds the lock and never lets go must not keep the process.
    let Some(mut sim) = mutex.try_lock_for(Duration::from_secs(2)).map(Locked) else { return };
    HERE.set(true);
    CHANGED.notify_all();
    let (report, missing) = (sim.config.report.clone(), crate::border::missing_calls());
    for (name, count) in &missing {
        eprintln!(
            "cuda-sim: {name} is not simulated and was called {count} times; it answered \"not supported\""
        );
    }
    let Some(checker) = &mut sim.checker else { return };
    let (found, mode) = (checker.found(), checker.mode);
    checker.print().iter().for_each(|text| eprint!("{text}"));
    if found > 0 {
        eprintln!("cuda-sim: {found} race{} found", if found == 1 { "" } else { "s" });
    }
    if let Some(path) = report {
        let missing: serde_json::Map<String, serde_json::Value> =
            missing.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect();
        let text =
            serde_json::json!({"races": checker.json(), "count": found, "missing": missing}).to_string();
        if let Err(error) = std::fs::write(&path, text) {
            eprintln!("cuda-sim: {path}: {error}");
        }
    }
    if found > 0 && mode == Races::Error {
        // SAFETY: what the program has not written yet is written; nothing of it runs afterwards.
        unsafe {
            libc::fflush(std::ptr::null_mut());
            libc::_exit(RACES_EXIT_CODE);
        }
    }
}

/// The exit code of a program in which races were found.
pub const RACES_EXIT_CODE: i32 = 66;
