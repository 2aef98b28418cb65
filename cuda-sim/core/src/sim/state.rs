//! The whole state of the simulated driver, behind one lock, and the thread that holds it.

use crate::actor::Actor;
use crate::checker::Checker;
use crate::clock::Clock;
use crate::config::{Config, Races, Schedule};
use crate::console::print;
use crate::declarations::Declarations;
use crate::handles::{Kind, Table};
use crate::journal::Journal;
use crate::memory::Memory;
use crate::open_waits::Word;
use crate::python;
use crate::resources::Sms;
use crate::shown::shown;
use crate::sim::graphs::{Capture, Exec, Graph, GraphMemory, GraphMemoryUse, Node, UserObject};
use crate::sim::objects::{
    Advice, Context, DEVICE, Device, Event, Freed, Function, PINNED, Pool, PoolLocation,
    Registered, Stream, Thread,
};
use crate::sim::shared::Shared;
use crate::stack::StackId;
use crate::threads::at_end;
use crate::vmm::{Mappings, Physical};
use crate::work::{HostCall, StreamRef};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// The state, while this thread has the lock.
pub struct Locked {
    /// Absent only while `unlocked` and `wait` have released it.
    guard: Option<MutexGuard<'static, Sim>>,
}

impl std::ops::Deref for Locked {
    type Target = Sim;
    fn deref(&self) -> &Sim {
        self.guard.as_ref().expect("the lock is held")
    }
}

impl std::ops::DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Sim {
        self.guard.as_mut().expect("the lock is held")
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        HERE.set(false);
        python::note(0);
    }
}

impl Locked {
    /// Runs a function with the lock released.
    pub fn unlocked<R>(&mut self, run: impl FnOnce() -> R) -> R {
        HERE.set(false);
        self.guard = None;
        let frames = python::noted();
        let result = run();
        python::note(frames);
        self.guard = SIM.get().map(guard);
        result
    }

    pub(super) fn wait(&mut self, condition: &Condvar, at_most: Option<Duration>) {
        let Some(guard) = self.guard.take() else { return };
        let guard = match at_most {
            Some(time) => {
                let woken = condition.wait_timeout(guard, time);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
            None => condition.wait(guard).unwrap_or_else(PoisonError::into_inner),
        };
        self.guard = Some(guard);
    }
}

pub(super) static SIM: OnceLock<Mutex<Sim>> = OnceLock::new();
/// Signalled when an operation is done.
pub(super) static CHANGED: Condvar = Condvar::new();
/// The process that called cuInit; 0 for none.
pub static PROCESS: AtomicI32 = AtomicI32::new(0);
/// Whether the process is ending.
pub static EXITED: AtomicBool = AtomicBool::new(false);

/// A host function: the stream that waits for it, the call, the state for a callback, and the
/// knowledge of the stream.
pub(super) type HostJob = (StreamRef, HostCall, i32, Option<Clock>);

pub struct Sim {
    pub config: Config,
    pub(super) started: Instant,
    pub devices: Vec<Device>,
    pub contexts: Table<Context>,
    /// Green contexts: the context that represents each.
    pub greens: Table<u64>,
    /// Resource descriptors: the device and the multiprocessors of each.
    pub descriptors: Table<(i32, Sms)>,
    pub streams: Table<StreamRef>,
    pub events: Table<Event>,
    pub modules: Table<()>,
    pub libraries: Table<()>,
    pub functions: Table<Function>,
    pub graphs: Table<Graph>,
    pub nodes: Table<Node>,
    pub execs: Table<Exec>,
    pub user_objects: Table<UserObject>,
    pub pools: Table<Pool>,
    /// Memory of allocation nodes, by address, and what each device has of it.
    pub graph_memory: BTreeMap<u64, GraphMemory>,
    pub graph_memory_use: BTreeMap<i32, GraphMemoryUse>,
    /// Advice of the program about managed allocations, by address.
    pub advice: BTreeMap<u64, Advice>,
    /// The pools of places that are no device: the default one and the current one.
    pub other_pools: BTreeMap<PoolLocation, [u64; 2]>,
    /// Arenas of destroyed pools with allocations, and the arenas that get their memory back.
    pub(super) left_arenas: Vec<(usize, usize)>,
    pub(super) free_arenas: Vec<usize>,
    /// Whether memory was freed that a pool may release.
    pub(super) pools_freed: bool,
    pub physical: Table<Physical>,
    pub mappings: Mappings,
    pub captures: HashMap<u64, Capture>,
    pub next_id: u64,
    pub(super) stream_slots: Vec<Option<Stream>>,
    /// The last stream that had the number of an actor.
    pub(super) stream_of_actor: HashMap<Actor, StreamRef>,
    pub(super) free_stream_slots: Vec<usize>,
    pub(super) busy: Vec<StreamRef>,
    pub memory: Memory,
    /// By the number of the stream and a number of its own.
    pub freed: BTreeMap<(u64, u64), Freed>,
    pub checker: Option<Checker>,
    pub journal: Option<Journal>,
    /// The kernels that were looked for, and were not declared, with the place of the first time.
    pub undeclared: BTreeMap<String, (u64, Option<StackId>)>,
    /// The kernels that declared accesses which were not checked.
    pub ignored: HashSet<&'static str>,
    /// Memory that is shared with other processes.
    pub shared: Shared,
    pub threads: HashMap<u32, Thread>,
    pub(super) one_host: Option<Actor>,
    pub(super) random: u64,
    pub kernels: HashMap<Vec<u8>, Registered>,
    pub declared: Declarations,
    /// Host functions that wait for the thread that runs them, and whether there is one.
    pub(super) host_functions: VecDeque<HostJob>,
    pub(super) host_function_thread: bool,
    pub calls: HashMap<&'static str, u64>,
    pub every_call: u64,
    /// Numbers that are tracked beside a real driver, by the addresses where the host finds them.
    pub(super) numbers: HashMap<Word, u64>,
    pub(super) guards: u32,
    pub(super) waiting: u32,
    /// Grows with every operation that is enqueued, to detect programs that only wait.
    pub(super) enqueues: u64,
    pub(super) patience: bool,
    pub executed: u64,
    pub(super) names: HashSet<&'static str>,
}

// --- threads of the host ---

thread_local! {
    static THREAD: Cell<u32> = const { Cell::new(0) };
    /// Whether `ending` ran. Destructors of the program may come after it.
    static ENDED: Cell<bool> = const { Cell::new(false) };
    pub(super) static HERE: Cell<bool> = const { Cell::new(false) };
}

/// Returns the number of the calling thread, from 1.
pub fn thread_id() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let id = THREAD.get();
    if id != 0 {
        return id;
    }
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    THREAD.set(id);
    at_end(ending);
    id
}

/// Runs at the end of every thread that called the driver.
extern "C" fn ending() {
    let is_here = PROCESS.load(Ordering::Acquire) == std::process::id() as i32;
    if is_here && !EXITED.load(Ordering::Acquire) {
        ENDED.set(true);
        if let Some(mut sim) = lock() {
            Sim::host_function_ended_thread(&mut sim);
            sim.thread_ends(THREAD.get());
        }
    }
    crate::stack::forget();
    python::forget();
}

/// Returns whether the calling thread runs its last destructors.
pub fn has_ended() -> bool {
    ENDED.get()
}

/// Returns the object at which a thread that ends leaves its knowledge for its last destructors.
/// Later threads reuse the address.
pub(super) fn end_of_thread() -> usize {
    THREAD.with(|thread| std::ptr::from_ref(thread).addr())
}

// --- the lock ---

/// Locks and returns the state; `None` before cuInit, and if this thread has it locked: it runs a
/// function of the program then, which declares the accesses of a launch.
pub fn lock() -> Option<Locked> {
    let mutex = SIM.get()?;
    if is_locked_here() {
        return None;
    }
    thread_id();
    Some(Locked { guard: Some(guard(mutex)) })
}

// Nothing that this thread does before it has the lock, or while it has it, may need the dynamic
// linker's lock, whose holder may wait for ours: libraries use the driver and start threads while
// they are loaded. Destructors of thread-local variables need it when they are registered.
fn guard(mutex: &'static Mutex<Sim>) -> MutexGuard<'static, Sim> {
    let guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
    HERE.set(true);
    guard
}

pub(super) fn try_lock_for(time: Duration) -> Option<Locked> {
    let (mutex, start) = (SIM.get()?, Instant::now());
    loop {
        let guard = match mutex.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if start.elapsed() < time => {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            Err(TryLockError::WouldBlock) => return None,
        };
        HERE.set(true);
        return Some(Locked { guard: Some(guard) });
    }
}

/// Returns whether this thread holds the lock: its actions then are the simulator's own.
pub fn is_locked_here() -> bool {
    HERE.try_with(Cell::get).unwrap_or(true)
}

/// Creates the state once. Returns whether this call did.
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

/// Returns the kernels that a file declares, or prints why it cannot be read.
fn declared(config: &Config) -> Declarations {
    let Some(path) = &config.kernels else { return Declarations::default() };
    Declarations::read(path.as_ref()).unwrap_or_else(|fault| {
        print(&format!("cuda-sim: {}\n", shown(fault.as_bytes())));
        Declarations::default()
    })
}

impl Sim {
    fn new(config: Config) -> Sim {
        let random = match config.schedule {
            Schedule::Random(seed) => seed,
            _ => 0,
        };
        let checker = (config.races != Races::Off)
            .then(|| Checker::new(config.races, config.strict, config.threads_seen))
            .map(|checker| if config.timeline { checker.with_timeline() } else { checker });
        let checker = checker.map(|mut checker| {
            checker.stacks.unfolded = config.native;
            checker
        });
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
            advice: BTreeMap::new(),
            other_pools: BTreeMap::new(),
            graph_memory: BTreeMap::new(),
            graph_memory_use: BTreeMap::new(),
            left_arenas: Vec::new(),
            free_arenas: Vec::new(),
            pools_freed: false,
            physical: Table::new(Kind::Physical),
            mappings: Default::default(),
            captures: HashMap::new(),
            // The numbers 0, 1 and 2 are stream tokens.
            next_id: 3,
            stream_slots: Vec::new(),
            stream_of_actor: HashMap::new(),
            free_stream_slots: Vec::new(),
            busy: Vec::new(),
            memory: Memory::default(),
            freed: BTreeMap::new(),
            checker,
            journal: config.report.as_deref().map(|path| Journal::new(path, config.races)),
            undeclared: BTreeMap::new(),
            ignored: HashSet::new(),
            shared: Shared::default(),
            threads: HashMap::new(),
            one_host: None,
            random,
            kernels: HashMap::new(),
            declared: declared(&config),
            host_functions: VecDeque::new(),
            host_function_thread: false,
            calls: HashMap::new(),
            every_call: 0,
            numbers: HashMap::new(),
            guards: 0,
            waiting: 0,
            enqueues: 0,
            patience: false,
            executed: 0,
            names: Default::default(),
            config,
        };
        sim.memory.arenas.resize_with(sim.config.devices + 2, Default::default);
        for arena in [sim.pinned_arena(), sim.managed_arena()] {
            sim.memory.arenas[arena].for_host = true;
        }
        for device in 0..sim.config.devices as i32 {
            let place = PoolLocation { kind: PINNED, location: DEVICE, id: device };
            let pool = sim.new_pool(place, 0, 0, true);
            sim.devices.push(Device {
                primary: 0,
                primary_refs: 0,
                primary_flags: 0,
                default_pool: pool,
                current_pool: pool,
            });
        }
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

    /// Forgets a thread. The calling thread is this one.
    pub fn thread_ends(&mut self, id: u32) {
        let Some(thread) = self.threads.remove(&id) else { return };
        for (context, stream) in thread.streams {
            if let Some(context) = self.contexts.get_mut(context) {
                context.streams.retain(|other| *other != stream);
            }
            self.destroy_stream(stream);
        }
        if let (Some(actor), Some(checker)) = (thread.actor, &mut self.checker) {
            checker.hb_before(actor, end_of_thread());
            checker.retire(actor);
        }
    }
}
