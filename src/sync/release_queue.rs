//! Deferred release: releases owners once nothing of the work before them can be running.
//!
//! An event is recorded on the stream. A background thread of this library polls it; once it has
//! completed, the thread releases the owner, outside of every lock and every callback of the
//! driver. The thread is started at first use. It polls because a thread that waits in the driver
//! cannot be stopped at exit, and because one owner must not wait for the stream of another.
//!
//! If the driver cannot record the event yet, or say whether it has completed, the owner stays
//! queued, and the thread asks again: [`pending_work`](super::pending_work). If no thread can be
//! started, later calls try again. What can never be found out is never released.
//!
//! If the stream is being captured, the graph holds the owner in a user object. Its destructor may
//! call neither CUDA nor user code [cuUserObjectCreate]: it passes the owner to the thread.
//!
//! At exit the thread stops, and pending owners are not released: their work may be running. A
//! forked child has no thread; nothing is released there.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::abi;
use crate::driver::{
    self, Api, CUevent, CUgraph, CallingThread, Capture, Driver, Event, Function, Stream,
};
use crate::error::{Failure, Result};
use crate::observer;
use crate::sync::deferred::Deferred;
use crate::sync::detached_thread::{self, Program};
use crate::sync::element::{Content, Element, Fifo, Node, Slot, pop};
use crate::sync::handover::Handover;
use crate::sync::pending_work::{Answer, PendingWork};
use crate::sync::python_end::python_is_ending;
use crate::sync::{invalidated, names_a_stream};
use crate::unwind;

/// The first pause between polls. Each pause is twice as long as the one before, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// Elements that other threads pass to the background thread.
#[cfg(not(loom))]
fn queue() -> &'static Handover<Element> {
    static QUEUE: Handover<Element> = Handover::new();
    &QUEUE
}

/// The model checker's locks cannot be in a static; `handover` is checked alone.
#[cfg(loom)]
fn queue() -> &'static Handover<Element> {
    Box::leak(Box::new(Handover::new()))
}

/// State of the thread. Static, so that its successor can resume if a function that it calls ends
/// it: what is released is in no list any more, and the lock is not held meanwhile.
struct Work {
    /// The first one of the first lane. Streams complete in order: only a lane's first is polled.
    lanes: Option<Element>,
    others: Option<Element>,
    held: Option<Element>,
    due: Fifo,
}

/// Used by one thread at a time: the worker of the [`Handover`].
static WORK: Mutex<Work> =
    Mutex::new(Work { lanes: None, others: None, held: None, due: Fifo::EMPTY });

static THREAD: Program = Program { run: run_guarded, ended };

/// [`restart`], set with the first element: programs that only validate link without the queue.
static RESTART: OnceLock<fn()> = OnceLock::new();

/// Locked while the thread is in the driver. `true`: the process exits.
static IN_DRIVER: Mutex<bool> = Mutex::new(false);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Releases an owner once the work enqueued on `stream` so far is done. The device type says whose
/// stream it is. A failure returns the reference. If the stream is being captured, the owner is
/// released after the work before the capture, and after its graph. `needs_thread`: it is a failure
/// that no thread can be started, although one may be started later.
pub fn release_after(
    owner: Deferred,
    device_type: i32,
    stream: u64,
    needs_thread: bool,
) -> std::result::Result<(), (Failure, Deferred)> {
    if stream == abi::CAI_STREAM_NONE {
        owner.release();
        return Ok(());
    }
    let query = || {
        names_a_stream(stream, format_args!("stream"))?;
        let driver = driver::driver_of(device_type)?;
        // The thread needs these functions.
        driver.require(match driver.api() {
            Api::Cuda => &[Function::event_query, Function::context_push, Function::context_pop],
            Api::Hip => &[Function::event_query, Function::device_set],
        })?;
        if needs_thread {
            start()?;
        }
        let thread = CallingThread::new(driver);
        let stream = Stream::from_current_context(&thread, stream)?;
        let state = stream.capture(&thread)?;
        Ok((thread, stream, state))
    };
    let (thread, stream, state) = match query() {
        Ok(found) => found,
        Err(failure) => return Err((failure, owner)),
    };
    let reserve = if state == Capture::Active { Slot::last } else { Slot::new };
    let slot = reserve(owner)?;
    let work = match state {
        Capture::None => record(&thread, device_type, &stream),
        Capture::Active => hold_in_graph(&thread, device_type, &stream, &slot),
        Capture::Invalidated => Err(invalidated()),
    };
    match work {
        Ok(work) => pass(slot.fill(Content::Work(work))),
        Err(failure) => return slot.cancel().map_or(Ok(()), |owner| Err((failure, owner))),
    }
    Ok(())
}

fn record(thread: &CallingThread, device_type: i32, stream: &Stream) -> Result<PendingWork> {
    let context = stream.context(thread)?;
    let event = thread.record(stream, stream.checked_id(thread)?)?;
    Ok(PendingWork::before(event, device_type, stream, context))
}

/// Gives a second reference to a stream's captured graph. Returns the work before the capture.
fn hold_in_graph(
    thread: &CallingThread,
    device_type: i32,
    stream: &Stream,
    slot: &Slot,
) -> Result<PendingWork> {
    let driver = thread.driver();
    driver.relaxed(|| {
        let graph = stream.graph(thread)?.1;
        let before = PendingWork::on(thread, device_type, stream)?;
        let second = slot.owner().map(Deferred::another).transpose()?;
        keep_in(driver, graph, second, Content::Graph)?;
        // For the end of the graph, at which no thread can be started.
        let _ = start();
        Ok(before)
    })
}

/// Releases an owner once the driver says that nothing of the work can be running. If that can
/// never be found out, the reference is kept.
pub fn release_later(owner: Deferred, work: PendingWork) {
    if let Ok(slot) = Slot::last(owner) {
        pass(slot.fill(Content::Work(work)));
    }
}

fn pass(element: Element) {
    RESTART.get_or_init(|| restart);
    // The thread queries the event after this record. No observer sees the lock.
    observer::notify_before(element.address().cast());
    queue().push(element);
    progress();
}

/// Starts the thread where that was impossible before. Costs nothing where nothing waits for it.
#[inline]
pub fn progress() {
    // The model checker's locks exist in its models only.
    if cfg!(not(loom)) && queue().is_stalled() {
        // Set before anything was passed to the queue.
        if let Some(restart) = RESTART.get() {
            restart();
        }
    }
}

/// As [`progress`]; where it is still impossible, does the work of the thread once. For functions
/// that may destroy an owner anyway.
#[inline]
pub fn progress_here() {
    if queue().is_stalled() {
        restart();
        if queue().is_stalled() {
            stand_in();
        }
    }
}

#[cold]
fn restart() {
    if !driver::is_forked() {
        let _ = start();
    }
}

/// Does the work of the thread once.
#[cold]
fn stand_in() {
    /// Leaves the rest to others, also where a function that was called ends the thread.
    struct StandIn;

    impl Drop for StandIn {
        fn drop(&mut self) {
            queue().leave(has_rest());
        }
    }

    if driver::is_forked() || *lock(&IN_DRIVER) || !queue().stand_in() {
        return;
    }
    let _stand_in = StandIn;
    // A panic is a defect. The next call goes on with the rest.
    let _ = unwind::catch(|| {
        take();
        release_due()
    });
}

/// Gives an owner or an event to a graph, which holds it until it and everything made from it is
/// destroyed. After a failure the owner is released: the caller has another reference.
fn keep_in(
    driver: &Driver,
    graph: CUgraph,
    owner: Option<Deferred>,
    content: Content,
) -> Result<()> {
    const NO_DESTRUCTOR_SYNC: u32 = 1;
    const MOVE: u32 = 1;
    let give_back = |owner: Option<Deferred>| owner.map_or((), Deferred::release);
    // Not in the owner: after a failure, the driver may return the element when the owner is gone.
    let slot = Slot::outside(owner).map_err(|(failure, owner)| {
        give_back(owner);
        failure
    })?;
    let mut element = slot.fill(content);
    // The destructor passes the element on a thread where it may not be set.
    RESTART.get_or_init(|| restart);
    let mut object = null_mut();
    let created = driver.user_object_create(
        &raw mut object,
        element.address().cast(),
        Some(destructor),
        1,
        NO_DESTRUCTOR_SYNC,
    );
    if let Err(failure) = created.ok() {
        if object.is_null() {
            give_back(element.empty().0);
        } else {
            // A call may report the failure of earlier work although it did its own.
            give_back(element.disarm());
            // If that fails, the element leaks.
            let _ = driver.user_object_release(object, 1);
        }
        return Err(failure);
    }
    let taken = driver.graph_retain_user_object(graph, object, 1, MOVE);
    if let Err(failure) = taken.ok() {
        give_back(element.disarm());
        // The graph may have the object all the same. Otherwise both leak.
        return Err(failure);
    }
    Ok(())
}

/// Gives an event to a graph. It is destroyed some time after the graph.
pub fn keep_event_in(driver: &Driver, graph: CUgraph, event: Event) -> Result<CUevent> {
    start()?;
    let handle = event.handle();
    keep_in(driver, graph, None, Content::Event(event.into_owned()))?;
    Ok(handle)
}

/// Runs on a thread of the driver: may call neither CUDA nor user code. Allocates nothing.
unsafe extern "C" fn destructor(node: *mut c_void) {
    let Some(node) = NonNull::new(node.cast::<Node>()) else { return };
    if driver::is_forked() {
        return;
    }
    // SAFETY: `keep_in` gave the element to the driver, which calls this once.
    let element = unsafe { Element::from_address(node) };
    // A graph that did not take the element has disarmed it.
    if element.content.is_some() {
        queue().push(element);
    } else {
        element.empty();
    }
}

fn start() -> Result<()> {
    queue().start(|| {
        #[cfg(unix)]
        {
            static HAS_EXIT_HANDLER: AtomicBool = AtomicBool::new(false);
            if !HAS_EXIT_HANDLER.load(Ordering::Relaxed) {
                // SAFETY: the handler stays loaded, and locks nothing that is held while user code
                // runs. Handlers run in reverse order: this one before the driver's, which was
                // loaded earlier.
                if unsafe { libc::atexit(at_exit) } != 0 {
                    return Err(Failure::no_memory(0));
                }
                HAS_EXIT_HANDLER.store(true, Ordering::Relaxed);
            }
        }
        detached_thread::spawn(&THREAD)
    })
}

/// Runs if a function that the thread called has ended it. Another thread takes over the rest. It
/// is started at once, or, if that fails, by the next call that needs it.
fn ended() {
    let is_left = queue().leave(has_rest());
    if is_left && !*lock(&IN_DRIVER) && !python_is_ending() {
        let _ = start();
    }
}

/// Waits until the thread has left the driver, and keeps it out: the driver is about to shut down.
#[cfg(unix)]
extern "C" fn at_exit() {
    if !driver::is_forked() {
        *lock(&IN_DRIVER) = true;
    }
}

fn run_guarded() {
    // A panic is a defect. The thread ends then, and the next call that needs one starts another.
    if unwind::catch(run).is_ok() {
        queue().exit();
    } else {
        queue().leave(has_rest());
    }
}

fn run() {
    let mut pause = FIRST_PAUSE;
    loop {
        if take() {
            pause = FIRST_PAUSE;
        }
        if !has_rest() {
            queue().wait();
            continue;
        }
        match release_due() {
            None => return,
            Some(true) => pause = FIRST_PAUSE,
            Some(false) => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

fn has_rest() -> bool {
    let Work { lanes, others, held, due } = &*lock(&WORK);
    [lanes, others, held].iter().any(|list| list.is_some()) || !due.is_empty()
}

/// Takes what other threads have passed on. Returns true if there was anything.
fn take() -> bool {
    let mut earliest = queue().take();
    let is_new = earliest.is_some();
    let mut work = lock(&WORK);
    while let Some(element) = pop(&mut earliest) {
        // A user object's destructor may not notify the observer. A simulated driver does so
        // itself, with the address of what the object holds.
        observer::notify_after(element.address().cast());
        match &element.content {
            Some(Content::Work(pending)) if pending.is_recorded() => {
                append(&mut work.lanes, element);
            }
            Some(Content::Work(_)) => insert(&mut work.others, element),
            Some(Content::Graph | Content::Event(..)) => insert(&mut work.held, element),
            None => {}
        }
    }
    is_new
}

fn insert(list: &mut Option<Element>, mut element: Element) {
    element.next = list.take();
    *list = Some(element);
}

fn append(lanes: &mut Option<Element>, element: Element) {
    let mut place = &mut *lanes;
    while let Some(first) = place {
        let works = (&first.content, &element.content);
        if let (Some(Content::Work(one)), Some(Content::Work(two))) = works {
            if one.is_in_order_with(two) {
                first.behind.push(element);
                return;
            }
        }
        place = &mut first.next;
    }
    insert(lanes, element);
}

/// Removes the first element of a lane, whose place is then that of the next one, or the next lane.
fn remove_first(place: &mut Option<Element>) -> Option<Element> {
    let mut first = pop(place)?;
    let mut behind = std::mem::take(&mut first.behind);
    if let Some(mut next) = behind.pop() {
        next.behind = behind;
        insert(place, next);
    }
    Some(first)
}

/// Releases what is due. Returns true if there was anything, or `None` if the process exits.
fn release_due() -> Option<bool> {
    release_held()?;
    {
        let work = &mut *lock(&WORK);
        work.poll_lanes()?;
        work.poll_others()?;
    }
    let mut progress = false;
    while let Some(element) = next_due() {
        progress = true;
        release(element);
    }
    Some(progress)
}

fn next_due() -> Option<Element> {
    lock(&WORK).due.pop()
}

impl Work {
    /// Polls the first element of each lane. Returns `None` if the process exits.
    fn poll_lanes(&mut self) -> Option<()> {
        let mut place = &mut self.lanes;
        loop {
            let Some(first) = place.as_mut() else { return Some(()) };
            let answer = ask(first)?;
            let is_lost =
                matches!(&first.content, Some(Content::Work(work)) if !work.is_recorded());
            if answer == Answer::Unknown && !is_lost {
                place = &mut place.as_mut()?.next;
                continue;
            }
            let Some(first) = remove_first(place) else { return Some(()) };
            if answer == Answer::NothingRuns {
                self.due.push(first);
            } else {
                // Another event has to be recorded for it.
                insert(&mut self.others, first);
            }
        }
    }

    /// Polls the elements that are in no lane. Returns `None` if the process exits.
    fn poll_others(&mut self) -> Option<()> {
        let mut place = &mut self.others;
        loop {
            let Some(element) = place.as_mut() else { return Some(()) };
            if ask(element)? == Answer::NothingRuns {
                let Some(element) = pop(place) else { return Some(()) };
                self.due.push(element);
            } else {
                place = &mut place.as_mut()?.next;
            }
        }
    }
}

/// Asks about an element's work, which may be unrecorded afterwards. `None` if the process exits.
fn ask(element: &mut Element) -> Option<Answer> {
    let Some(Content::Work(work)) = &mut element.content else { return Some(Answer::Unknown) };
    let exiting = lock(&IN_DRIVER);
    if *exiting {
        return None;
    }
    match work.ask() {
        Answer::DriverEnds => None,
        answer => Some(answer),
    }
}

/// Releases the owner of an element. Keeps its reference for ever while Python ends: its `destroy`
/// may need the interpreter, and which ones do cannot be known.
fn release(element: Element) {
    if python_is_ending() {
        return;
    }
    if let (Some(owner), _) = element.empty() {
        owner.release();
    }
}

/// Releases what graphs have held until now. Returns `None` if the process exits.
fn release_held() -> Option<()> {
    while let Some(element) = next_held() {
        if let Some(Content::Event(_)) = element.content {
            let exiting = lock(&IN_DRIVER);
            if *exiting {
                return None;
            }
            drop(element.empty());
        } else {
            release(element);
        }
    }
    Some(())
}

fn next_held() -> Option<Element> {
    pop(&mut lock(&WORK).held)
}
