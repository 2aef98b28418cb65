//! The engine: puts operations into streams and runs them.
//!
//! A stream is a queue. An operation runs when it is the first of its queue and its dependencies
//! are done. The thread that runs it removes it, unlocks, runs it, locks again and counts it as
//! done. The schedules differ in which thread that is, and when.

use crate::config::Schedule;
use crate::memory::Arena;
use crate::results::Result;
use crate::sim::objects::Op;
use crate::sim::state::{CHANGED, EXITED, Locked, Sim, lock};
use crate::sim::user_objects::release_after;
use crate::threads::start;
use crate::work::{StreamRef, Work, is_ready};
use std::ffi::CString;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

/// Maximum length of a queue. A host that enqueues more waits, as with a real driver.
const LONGEST_QUEUE: usize = 1024;

/// Maximum number of streams with work that no wait required. Beyond it, work is done that no
/// wait requires yet: programs may leave it to any number of streams that they destroyed.
const MOST_BUSY: usize = 256;

/// Work that has to run before a stream can continue.
enum Needed {
    First(StreamRef),
    /// Any: it waits for a value in memory, which other streams or the host write.
    Any,
    /// Work that another thread runs.
    Elsewhere,
}

impl Sim {
    /// Makes `stream` wait for everything that `other` was given so far.
    pub fn wait_for_stream(&mut self, stream: StreamRef, other: StreamRef) {
        let Some(found) = self.get(other) else { return };
        let (position, done, theirs) =
            (found.enqueued, found.completed >= found.enqueued, found.actor);
        let actor = self.stream_mut(stream).actor;
        self.order_actors(theirs, actor);
        if !done {
            self.push(stream, Work::Wait(other, position));
        }
    }

    /// Appends an operation to the queue of a stream, and wakes the thread that runs it: also for
    /// operations that no call of the program enqueues, as the rules of default streams do.
    pub(super) fn push(&mut self, stream: StreamRef, work: Work) -> u64 {
        // Beside a real driver, the driver performs the work. Here it only keeps its place.
        let work = if crate::real_driver::is_present() && work.is_done_elsewhere() {
            Work::Nothing
        } else {
            work
        };
        self.enqueues += 1;
        let found = self.stream_mut(stream);
        found.queue.push_back(Op { work });
        found.enqueued += 1;
        let position = found.enqueued;
        if !found.listed {
            found.listed = true;
            self.busy.push(stream);
        }
        if self.config.schedule == Schedule::Threads {
            self.wake_worker(stream);
        }
        position
    }

    /// Appends an operation to a stream that is not capturing. `prepare` and `check` were called.
    pub fn enqueue(sim: &mut Locked, stream: StreamRef, work: Work) -> u64 {
        let position = sim.push(stream, work);
        Self::after_enqueue(sim, stream);
        position
    }

    /// Runs what the schedule runs after an operation was enqueued.
    pub fn after_enqueue(sim: &mut Locked, stream: StreamRef) {
        if !sim.patience
            && !crate::real_driver::is_present()
            && sim.config.schedule != Schedule::Threads
        {
            sim.patience = true;
            start(c"cuda-sim", go_on_unasked);
        }
        match sim.config.schedule {
            Schedule::Eager => Self::run_ready(sim, stream),
            // Under `threads`, `push` has woken the stream's thread.
            Schedule::Lazy | Schedule::Threads => {}
            Schedule::Random(_) => {
                let steps = sim.roll(3);
                for _ in 0..steps {
                    if !Self::run_any(sim) {
                        break;
                    }
                }
            }
        }
        if sim.busy.len() > MOST_BUSY {
            Self::catch_up(sim);
        }
        let long =
            |sim: &Locked| sim.get(stream).is_some_and(|stream| stream.queue.len() > LONGEST_QUEUE);
        if long(sim) {
            let position = sim.stream_mut(stream).completed + 1;
            Self::wait_done(sim, stream, position);
        }
    }

    /// Does work, or waits for the streams' threads to do it, until few have any that could run.
    #[cold]
    fn catch_up(sim: &mut Locked) {
        while sim.busy.len() > MOST_BUSY / 2 {
            if sim.config.schedule != Schedule::Threads {
                if !Self::run_any(sim) {
                    break;
                }
                continue;
            }
            let Some(next) = sim.busy.iter().copied().find(|stream| sim.is_runnable(*stream))
            else {
                break;
            };
            let position = sim.stream_mut(next).completed + 1;
            Self::wait_done(sim, next, position);
        }
    }

    /// Returns a number below `n`. The same seed gives the same numbers.
    fn roll(&mut self, n: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn is_runnable(&self, stream: StreamRef) -> bool {
        let Some(found) = self.get(stream) else { return false };
        if found.running {
            return false;
        }
        match found.queue.front() {
            None => false,
            Some(op) => self.is_unblocked(&op.work),
        }
    }

    pub(super) fn is_unblocked(&self, work: &Work) -> bool {
        match work {
            Work::Wait(other, position) => self.is_done(*other, *position),
            Work::WaitShared(event, number) => event.reached(*number),
            Work::WaitValue { address, value, wide, flags } => {
                is_ready(*address, *value, *wide, *flags)
            }
            _ => true,
        }
    }

    /// Runs the first operation of a stream. It must be runnable.
    fn run_head(sim: &mut Locked, stream: StreamRef) {
        let found = sim.stream_mut(stream);
        let Some(op) = found.queue.pop_front() else { return };
        found.running = true;
        let context = found.context;
        let failed = sim.context_error(context).err();
        sim.executed += 1;
        match op.work {
            Work::Host(call, clock) => {
                // After an error, host functions are dropped and callbacks receive the error.
                if failed.is_some() && call.callback_stream.is_none() {
                    Self::complete(sim, stream);
                    return;
                }
                sim.add_host_function((stream, call, failed.map_or(0, |code| code.0), clock));
            }
            Work::Record(reached, shared) => {
                reached.nanoseconds.store(sim.now(), Ordering::Relaxed);
                reached.done.store(true, Ordering::Release);
                if let Some((event, number)) = shared {
                    event.reach(number);
                }
                Self::complete(sim, stream);
            }
            Work::Release(id) => {
                sim.pool_released(stream, id);
                Self::complete(sim, stream);
            }
            Work::Forget(objects, known) => {
                release_after(sim, &objects, &known);
                Self::complete(sim, stream);
            }
            work if work.touches_memory() && failed.is_none() => {
                sim.open_guard();
                let result = sim.unlocked(|| work.run());
                sim.close_guard();
                if let Err(code) = result {
                    let base = sim.base(context);
                    if let Some(context) = sim.contexts.get_mut(base) {
                        context.error.get_or_insert(code);
                    }
                }
                Self::complete(sim, stream);
            }
            _ => Self::complete(sim, stream),
        }
    }

    fn open_guard(&mut self) {
        if self.config.guard {
            self.guards += 1;
            if self.guards == 1 {
                self.device_arenas().for_each(|arena| arena.protect(true));
            }
        }
    }

    fn close_guard(&mut self) {
        if self.config.guard {
            self.guards -= 1;
            self.protect_devices();
        }
    }

    /// Closes device memory to the host, if that is enabled and no operation runs.
    pub fn protect_devices(&self) {
        if self.config.guard && self.guards == 0 {
            self.device_arenas().for_each(|arena| arena.protect(false));
        }
    }

    fn device_arenas(&self) -> impl Iterator<Item = &Arena> {
        self.memory.arenas.iter().filter(|arena| !arena.for_host)
    }

    /// Runs code that touches device memory outside of an operation.
    pub fn unguarded<R>(&mut self, run: impl FnOnce(&mut Sim) -> R) -> R {
        self.open_guard();
        let result = run(self);
        self.close_guard();
        result
    }

    pub(super) fn complete(sim: &mut Locked, stream: StreamRef) {
        let found = sim.stream_mut(stream);
        found.running = false;
        found.completed += 1;
        found.queries = 0;
        let waiters = std::mem::take(&mut found.waiters);
        if found.queue.is_empty() {
            found.listed = false;
            sim.busy.retain(|other| *other != stream);
        }
        if sim.config.schedule == Schedule::Threads {
            waiters.into_iter().for_each(|waiter| sim.wake_worker(waiter));
            // Another thread may have run the operation: a host function, or cudasim_step.
            if sim.get(stream).is_some_and(|found| !found.queue.is_empty()) {
                sim.wake_worker(stream);
            }
        }
        sim.drop_if_drained(stream);
        if sim.waiting > 0 {
            CHANGED.notify_all();
        }
    }

    /// Runs a stream until it blocks, and then streams that it unblocked.
    fn run_ready(sim: &mut Locked, stream: StreamRef) {
        while sim.is_runnable(stream) {
            Self::run_head(sim, stream);
        }
        Self::run_unblocked(sim);
    }

    pub(super) fn run_unblocked(sim: &mut Locked) {
        while let Some(next) = sim.busy.iter().copied().find(|stream| sim.is_runnable(*stream)) {
            Self::run_head(sim, next);
        }
    }

    /// Runs one operation of any stream. Returns false if none is runnable.
    pub fn run_any(sim: &mut Locked) -> bool {
        let runnable: Vec<StreamRef> =
            sim.busy.iter().copied().filter(|stream| sim.is_runnable(*stream)).collect();
        if runnable.is_empty() {
            return false;
        }
        let chosen = runnable[sim.roll(runnable.len() as u64) as usize];
        Self::run_head(sim, chosen);
        true
    }

    /// Returns what has to run before `stream` can continue.
    fn needed(&self, mut stream: StreamRef) -> Needed {
        for _ in 0..=self.stream_slots.len() {
            let Some(found) = self.get(stream).filter(|found| !found.running) else { break };
            match found.queue.front().map(|op| &op.work) {
                Some(Work::Wait(other, position)) if !self.is_done(*other, *position) => {
                    stream = *other;
                }
                Some(work) if self.is_unblocked(work) => return Needed::First(stream),
                Some(Work::WaitValue { .. } | Work::WaitShared(..)) => return Needed::Any,
                _ => break,
            }
        }
        Needed::Elsewhere
    }

    /// Runs an operation that a stream needs, as far as this thread can. Returns whether one ran.
    fn run_needed(sim: &mut Locked, stream: StreamRef) -> bool {
        // Under `threads`, only streams for which no thread could be started are run here.
        let has_thread = |stream| sim.get(stream).is_some_and(|found| found.wake.is_some());
        match sim.needed(stream) {
            Needed::First(next) if !has_thread(next) => Self::run_head(sim, next),
            Needed::Any if sim.config.schedule != Schedule::Threads => return Self::run_any(sim),
            Needed::First(_) | Needed::Any | Needed::Elsewhere => return false,
        }
        true
    }

    /// Waits until a stream has done a number of operations: runs the required operations, or waits
    /// for other threads to run them.
    pub fn wait_done(sim: &mut Locked, stream: StreamRef, position: u64) {
        while !sim.is_done(stream, position) && !EXITED.load(Ordering::Acquire) {
            let ran = match sim.config.schedule {
                Schedule::Random(_) => Self::run_any(sim),
                Schedule::Eager | Schedule::Lazy | Schedule::Threads => {
                    Self::run_needed(sim, stream)
                }
            };
            if !ran {
                sim.waiting += 1;
                // Changes by other processes and in the program's memory are not notified.
                sim.wait(&CHANGED, Some(Duration::from_millis(2)));
                sim.waiting -= 1;
            }
        }
    }

    /// Runs an operation that another process may wait for, if the schedule runs nothing by itself.
    pub fn wait_in_background(sim: &mut Locked, stream: StreamRef, position: u64) {
        if matches!(sim.config.schedule, Schedule::Lazy | Schedule::Random(_)) {
            while !sim.is_done(stream, position) && Self::run_needed(sim, stream) {}
        }
    }

    /// Queries an operation. Under schedules that run nothing by themselves, every query after the
    /// first runs an operation, so that a program that polls makes progress.
    pub fn poll(sim: &mut Locked, stream: StreamRef, position: u64) -> bool {
        if sim.is_done(stream, position) {
            return true;
        }
        let queries = &mut sim.stream_mut(stream).queries;
        *queries += 1;
        if *queries > 1 && sim.config.schedule != Schedule::Eager {
            Self::run_needed(sim, stream);
        }
        sim.is_done(stream, position)
    }

    /// Waits for everything that several streams were given so far, newest stream first.
    pub fn wait_all(sim: &mut Locked, streams: &[StreamRef]) {
        let mut targets: Vec<(StreamRef, u64)> = streams
            .iter()
            .filter_map(|stream| Some((*stream, sim.get(*stream)?.enqueued)))
            .collect();
        targets.sort_by_key(|(stream, _)| std::cmp::Reverse(stream.id));
        for (stream, position) in targets {
            Self::wait_done(sim, stream, position);
        }
    }

    pub fn wait_everything(sim: &mut Locked) {
        let streams = sim.busy.clone();
        Self::wait_all(sim, &streams);
    }

    /// Waits for everything, of every context, for a limited time. Returns whether all is done.
    pub fn wait_everything_for(sim: &mut Locked, time: Duration) -> bool {
        let start = Instant::now();
        while !sim.busy.is_empty() {
            if EXITED.load(Ordering::Acquire) || start.elapsed() >= time {
                return false;
            }
            let ran = match sim.config.schedule {
                Schedule::Threads => {
                    let busy = sim.busy.clone();
                    busy.into_iter().any(|stream| Self::run_needed(sim, stream))
                }
                _ => Self::run_any(sim),
            };
            if !ran {
                sim.waiting += 1;
                sim.wait(&CHANGED, Some(Duration::from_millis(2)));
                sim.waiting -= 1;
            }
        }
        true
    }

    /// Runs pending operations under any schedule. Returns how many ran.
    pub fn steps(sim: &mut Locked, count: usize) -> usize {
        (0..count).take_while(|_| Self::run_any(sim)).count()
    }

    /// Waits for a stream. The calling thread then knows its work.
    pub fn synchronize(sim: &mut Locked, stream: StreamRef) -> Result {
        sim.default_stream_rules_for_wait(stream);
        let (position, context) = {
            let found = sim.stream_mut(stream);
            (found.enqueued, found.context)
        };
        Self::wait_done(sim, stream, position);
        sim.host_knows(&[stream]);
        sim.context_error(context)
    }

    pub(super) fn wake_worker(&mut self, stream: StreamRef) {
        if self.get(stream).is_none() {
            return;
        }
        match &self.stream_mut(stream).wake {
            Some(wake) => {
                wake.notify_one();
            }
            None => {
                let wake = Arc::new(Condvar::new());
                self.stream_mut(stream).wake = Some(wake.clone());
                let worker = format!("cuda-sim {}", stream.id);
                let worker = CString::new(format!("{worker:.15}")).unwrap_or_default();
                if !start(&worker, move || work_on(stream, &wake)) {
                    // A stream without a thread is run by the threads that wait for it.
                    self.stream_mut(stream).wake = None;
                }
            }
        }
    }
}

/// Runs one stream on a thread of its own, until it is destroyed and done.
fn work_on(stream: StreamRef, wake: &Condvar) {
    let Some(mut sim) = lock() else { return };
    loop {
        if EXITED.load(Ordering::Acquire) || sim.get(stream).is_none() {
            return;
        }
        if sim.is_runnable(stream) {
            Sim::run_head(&mut sim, stream);
            continue;
        }
        let found = sim.stream_mut(stream);
        let unannounced = match found.queue.front() {
            Some(Op { work: Work::Wait(other, _) }) if !found.running => {
                let other = *other;
                if let Some(other) = sim.get_mut(other) {
                    if !other.waiters.contains(&stream) {
                        other.waiters.push(stream);
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

/// Lets the device make progress, one operation at a time, after a quarter of a second in which
/// nothing was enqueued: a program may wait for a host function or for a value in memory without
/// calling the driver, or by calls that do not wait for it.
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
        quiet = if sim.enqueues == seen { quiet + 1 } else { 0 };
        seen = sim.enqueues;
        if quiet >= PATIENCE {
            let mut ran = true;
            while ran && sim.enqueues == seen && !EXITED.load(Ordering::Acquire) {
                ran = Sim::run_any(&mut sim);
            }
        }
    }
}
