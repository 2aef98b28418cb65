//! Deferred release: releases owners once nothing of the work before them can be running.
//!
//! An event is recorded on the stream. A background thread of this library polls it; once it has
//! completed, the thread releases the owner, outside of every lock and every callback of the
//! driver. The thread is started at first use. It polls instead of waiting in the driver, because a
//! thread that waits there cannot be stopped at exit, and because one owner must not wait for the
//! stream of another.
//!
//! Where the driver cannot record the event yet, or does not say whether it has completed, the
//! owner stays in the queue, and the thread asks again: [`pending_work`](super::pending_work).
//! Where no thread can be started, later calls try again. What can never be found out is never
//! released.
//!
//! If the stream is being captured, the graph holds the owner in a user object. The destructor of a
//! user object may call neither CUDA nor user code [cuUserObjectCreate], so it only passes the
//! owner to the thread.
//!
//! At exit the thread stops, and pending owners are not released: their work may be running. A
//! forked child has no thread; nothing is released there.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::abi::{self, cai_owner};
use crate::driver::{
    self, Api, CUevent, CUgraph, CallingThread, Capture, Driver, Event, Function, Stream,
};
use crate::error::{Failure, Result, fail};
use crate::observer;
use crate::owner;
use crate::sync::detached_thread::{self, Program};
use crate::sync::element::{Content, Node, Space};
use crate::sync::handover::Handover;
use crate::sync::names_a_stream;
use crate::sync::pending_work::{Answer, PendingWork};
use crate::sync::python_end::python_is_ending;
use crate::unwind;

/// The first pause between polls. Each pause is twice as long as the one before, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// What other threads pass to the background thread.
#[cfg(not(loom))]
fn queue() -> &'static Handover<Node> {
    static QUEUE: Handover<Node> = Handover::new();
    &QUEUE
}

/// The model checker's locks cannot be in a static; `handover` is checked alone.
#[cfg(loom)]
fn queue() -> &'static Handover<Node> {
    Box::leak(Box::new(Handover::new()))
}

/// What the thread works on. Not on its stack, because a function that it calls may end the thread,
/// and the next thread continues with the rest.
struct Work {
    /// The first one of the first lane. Work on one stream completes in order, so only the first
    /// one of a lane is polled.
    lanes: UnsafeCell<*mut Node>,
    /// Those that are asked about one by one.
    others: UnsafeCell<*mut Node>,
    /// What graphs have held.
    kept: UnsafeCell<*mut Node>,
}

// SAFETY: only one thread uses it at a time, which is the worker of the `Handover`.
unsafe impl Sync for Work {}

static WORK: Work = Work {
    lanes: UnsafeCell::new(null_mut()),
    others: UnsafeCell::new(null_mut()),
    kept: UnsafeCell::new(null_mut()),
};

static THREAD: Program = Program { run: run_guarded, ended };

/// [`restart`], set by what passes the first element: programs that only validate arrays are linked
/// without the queue.
static RESTART: OnceLock<fn()> = OnceLock::new();

/// Locked while the thread is in the driver. `true`: the process exits.
static IN_DRIVER: Mutex<bool> = Mutex::new(false);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Releases an owner once the work enqueued on `stream` so far is done. The device type says whose
/// stream it is. On failure the caller keeps the reference. If the stream is being captured, the
/// owner is released after the work before the capture, and after its graph. `needs_thread`: it is
/// a failure that no thread can be started, although one may be started later.
///
/// # Safety
/// `owner` points to a live owner of any library; on success the caller gives up one reference.
pub unsafe fn release_after(
    owner: *mut cai_owner,
    device_type: i32,
    stream: u64,
    needs_thread: bool,
) -> Result<()> {
    // SAFETY: the owner is alive (this function's contract).
    unsafe { owner::check(owner) }?;
    if stream == abi::CAI_STREAM_NONE {
        // SAFETY: the owner is alive, and the caller gives up one reference (this function's
        // contract).
        unsafe { owner::release(owner) };
        return Ok(());
    }
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
    let thread = &CallingThread::new(driver);
    let stream = Stream::from_current_context(thread, stream)?;
    match stream.capture(thread)? {
        Capture::None => {}
        Capture::Active => {
            return driver.relaxed(|| {
                let graph = stream.graph(thread)?.1;
                let before = PendingWork::on(thread, device_type, &stream)?;
                // SAFETY: the owner is alive (this function's contract). The second reference, for
                // the work before the capture, is passed on if the graph takes the first one, and
                // released if not.
                unsafe {
                    owner::retain(owner)?;
                    let kept = keep_in(driver, graph, owner, Content::Graph);
                    if kept.is_ok() {
                        release_later(owner, before);
                    } else {
                        owner::release(owner);
                    }
                    kept?;
                }
                // For the end of the graph, at which no thread can be started.
                let _ = start();
                Ok(())
            });
        }
        Capture::Invalidated => {
            return fail!(
                CAI_ERR_CAPTURE_INVALIDATED,
                "stream",
                found = "a stream whose capture was invalidated by an earlier call",
                expected = "a stream without a capture: call cuStreamEndCapture first"
            );
        }
    }
    // SAFETY: the owner is alive until it is released, after the element is emptied.
    let space = unsafe { Space::new(owner) }?;
    let context = stream.context(thread)?;
    let event = thread.record(&stream, stream.checked_id(thread)?)?;
    let work = PendingWork::before(event, device_type, &stream, context);
    // SAFETY: the caller gives up one reference (this function's contract).
    unsafe { pass(space.fill(owner, Content::Work(work))) };
    Ok(())
}

/// Releases an owner once the driver says that nothing of the work can be running. If that can
/// never be found out, the reference is kept.
///
/// # Safety
/// `owner` points to a live owner of any library; the caller gives up one reference.
pub unsafe fn release_later(owner: *mut cai_owner, work: PendingWork) {
    // SAFETY: the owner is alive until it is released, after the element is emptied.
    if let Ok(space) = unsafe { Space::last(owner) } {
        // SAFETY: the caller gives up one reference (this function's contract).
        unsafe { pass(space.fill(owner, Content::Work(work))) };
    }
}

/// Passes an element to the thread.
///
/// # Safety
/// `fill` made it, and it is in no list.
unsafe fn pass(node: *mut Node) {
    RESTART.get_or_init(|| restart);
    // The thread queries the event after this record. No observer sees the lock.
    observer::notify_before(node.cast());
    // SAFETY: in no list (this function's contract).
    unsafe { queue().push(node) };
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
            // SAFETY: this thread stands in.
            queue().leave(unsafe { has_rest() });
        }
    }

    if driver::is_forked() || *lock(&IN_DRIVER) || !queue().stand_in() {
        return;
    }
    let _stand_in = StandIn;
    // A panic is a defect. The next call goes on with the rest.
    // SAFETY: this thread stands in.
    let _ = unwind::catch(|| unsafe {
        take();
        release_ready()
    });
}

/// Gives an owner or an event to a graph, which holds it until it and everything made from it is
/// destroyed.
///
/// # Safety
/// `owner` is NULL or alive; on success the caller gives up one reference.
unsafe fn keep_in(
    driver: &Driver,
    graph: CUgraph,
    owner: *mut cai_owner,
    content: Content,
) -> Result<()> {
    const NO_DESTRUCTOR_SYNC: u32 = 1;
    const MOVE: u32 = 1;
    // Not in the owner: after a failure, the driver may return the element when the owner is gone.
    // SAFETY: no owner's memory is used.
    let node = unsafe { Space::last(null_mut()) }?.fill(owner, content);
    // The destructor passes the element on a thread where it may not be set.
    RESTART.get_or_init(|| restart);
    let mut object = null_mut();
    let created = driver.user_object_create(
        &raw mut object,
        node.cast(),
        Some(destructor),
        1,
        NO_DESTRUCTOR_SYNC,
    );
    if let Err(failure) = created.ok() {
        // If the driver took the element all the same, it leaks, because the object stays.
        if object.is_null() {
            // SAFETY: the driver did not take the element, so this is its only owner.
            unsafe { Space::empty(node) };
        }
        return Err(failure);
    }
    let taken = driver.graph_retain_user_object(graph, object, 1, MOVE);
    if let Err(failure) = taken.ok() {
        // SAFETY: the element lives until the object's only reference is released below.
        unsafe { (*node).is_armed.store(false, Ordering::Release) };
        // If that fails, the element leaks.
        let _ = driver.user_object_release(object, 1);
        return Err(failure);
    }
    Ok(())
}

/// Gives an event to a graph. It is destroyed some time after the graph.
pub fn keep_event_in(driver: &Driver, graph: CUgraph, event: Event) -> Result<CUevent> {
    start()?;
    let handle = event.handle();
    // SAFETY: there is no owner.
    unsafe { keep_in(driver, graph, null_mut(), Content::Event(event.driver(), handle)) }?;
    Ok(event.give())
}

/// Runs on a thread of the driver, where neither CUDA nor user code may be called.
/// Allocates nothing.
unsafe extern "C" fn destructor(node: *mut c_void) {
    let node = node.cast::<Node>();
    if driver::is_forked() {
        return;
    }
    // SAFETY: `keep_in` made it, and the driver calls this once.
    unsafe {
        if (*node).is_armed.load(Ordering::Acquire) {
            queue().push(node);
        } else {
            Space::empty(node);
        }
    }
}

/// Starts the thread unless it is running.
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
    // SAFETY: the thread is the calling one, and does not work any more.
    let is_left = queue().leave(unsafe { has_rest() });
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

/// The thread's loop.
fn run_guarded() {
    // A panic is a defect. The thread ends then, and the next call that needs one starts another.
    if unwind::catch(run).is_ok() {
        queue().exit();
    } else {
        // SAFETY: the thread is the calling one, and does not work any more.
        queue().leave(unsafe { has_rest() });
    }
}

/// Releases owners until the process exits.
fn run() {
    let mut pause = FIRST_PAUSE;
    loop {
        // SAFETY: this is the thread.
        unsafe {
            if take() {
                pause = FIRST_PAUSE;
            }
            if !has_rest() {
                queue().wait();
                continue;
            }
            match release_ready() {
                None => return,
                Some(true) => pause = FIRST_PAUSE,
                Some(false) => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }
}

/// Returns true if there are elements that were taken.
///
/// # Safety
/// The calling thread is the worker, or the last one, which works no more.
unsafe fn has_rest() -> bool {
    let Work { lanes, others, kept } = &WORK;
    // SAFETY: this function's contract.
    [lanes, others, kept].iter().any(|list| unsafe { !(*list.get()).is_null() })
}

/// Takes what other threads have passed on. Returns true if there was anything.
///
/// # Safety
/// The calling thread is the worker.
unsafe fn take() -> bool {
    let mut earliest = queue().take();
    let is_new = !earliest.is_null();
    // SAFETY: what was in the queue is this thread's now, as is `WORK` (this function's contract).
    unsafe {
        while !earliest.is_null() {
            let node = earliest;
            earliest = std::mem::replace(&mut (*node).next, null_mut());
            // A user object's destructor may not notify the observer. A simulated driver does so
            // itself, with the address of what the object holds.
            observer::notify_after(node.cast());
            match &(*node).content {
                Content::Work(work) if work.is_recorded() => append(WORK.lanes.get(), node),
                Content::Work(_) => insert(WORK.others.get(), node),
                Content::Graph | Content::Event(..) => insert(WORK.kept.get(), node),
            }
        }
    }
    is_new
}

/// Adds an element to a list.
///
/// # Safety
/// All are the calling thread's; the element is in no list.
unsafe fn insert(list: *mut *mut Node, node: *mut Node) {
    // SAFETY: this function's contract.
    unsafe {
        (*node).next = *list;
        *list = node;
    }
}

/// Puts an owner into the lane of its stream.
///
/// # Safety
/// As for [`insert`].
unsafe fn append(lanes: *mut *mut Node, one: *mut Node) {
    // SAFETY: the first one of each lane knows the last one, which is an invariant of the lists.
    unsafe {
        let mut first = *lanes;
        while !first.is_null() {
            let works = (&(*first).content, &(*one).content);
            if matches!(works, (Content::Work(a), Content::Work(b)) if a.is_in_order_with(b)) {
                (*(*first).last).next = one;
                (*first).last = one;
                return;
            }
            first = (*first).next_lane;
        }
        (*one).last = one;
        (*one).next_lane = *lanes;
        *lanes = one;
    }
}

/// Releases what may be released. Returns true if there was anything, or `None` if the process
/// exits.
///
/// A release may end the thread: what is released is in no list any more, and all lists are whole.
///
/// # Safety
/// The calling thread is the worker.
unsafe fn release_ready() -> Option<bool> {
    // SAFETY: this function's contract.
    unsafe {
        release_kept()?;
        let lanes = release_first()?;
        let others = release_others()?;
        Some(lanes || others)
    }
}

/// Asks about the first owner of each lane.
///
/// # Safety
/// As for [`release_ready`].
unsafe fn release_first() -> Option<bool> {
    let mut progress = false;
    let mut place = WORK.lanes.get();
    // SAFETY: the lanes are this thread's; `place` is that of their first one, or in the first one
    // of a lane that is still there.
    unsafe {
        while !(*place).is_null() {
            let first = *place;
            let answer = ask(first)?;
            let is_lost = matches!(&(*first).content, Content::Work(work) if !work.is_recorded());
            if answer == Answer::Unknown && !is_lost {
                place = &raw mut (*first).next_lane;
                continue;
            }
            let Node { next, last, next_lane, .. } = &*first;
            if next.is_null() {
                *place = *next_lane;
            } else {
                (**next).last = *last;
                (**next).next_lane = *next_lane;
                *place = *next;
            }
            if answer == Answer::NothingRuns {
                progress = true;
                release(first);
            } else {
                // Another event has to be recorded for it.
                insert(WORK.others.get(), first);
            }
        }
    }
    Some(progress)
}

/// Asks about the owners that are in no lane.
///
/// # Safety
/// As for [`release_ready`].
unsafe fn release_others() -> Option<bool> {
    let mut progress = false;
    let mut place = WORK.others.get();
    // SAFETY: the list is this thread's; `place` is in an element that is still there.
    unsafe {
        while !(*place).is_null() {
            let node = *place;
            if ask(node)? == Answer::NothingRuns {
                *place = (*node).next;
                progress = true;
                release(node);
            } else {
                place = &raw mut (*node).next;
            }
        }
    }
    Some(progress)
}

/// Asks about the work of an element, which may no longer be recorded afterwards. Returns `None` if
/// the process exits.
///
/// # Safety
/// The element is the calling thread's.
unsafe fn ask(node: *mut Node) -> Option<Answer> {
    // SAFETY: this function's contract.
    let Content::Work(work) = (unsafe { &mut (*node).content }) else {
        return Some(Answer::Unknown);
    };
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
///
/// # Safety
/// The element is the calling thread's, and in no list.
unsafe fn release(node: *mut Node) {
    if python_is_ending() {
        return;
    }
    // SAFETY: `fill` made it, and the owner is alive, because its reference is released here.
    unsafe {
        let (owner, _) = Space::empty(node);
        owner::release(owner);
    }
}

/// Releases what graphs have held until now. Returns `None` if the process exits.
///
/// # Safety
/// As for [`release_ready`].
unsafe fn release_kept() -> Option<()> {
    loop {
        // SAFETY: the list is this thread's (this function's contract). An element is taken off
        // before anything is released.
        unsafe {
            let node = *WORK.kept.get();
            if node.is_null() {
                return Some(());
            }
            *WORK.kept.get() = (*node).next;
            if let Content::Event(driver, event) = (*node).content {
                let exiting = lock(&IN_DRIVER);
                if *exiting {
                    return None;
                }
                // If that fails, the context was destroyed and the event with it.
                let _ = driver.event_destroy(event);
                Space::empty(node);
            } else {
                release(node);
            }
        }
    }
}
