//! Deferred release: releases owners once a stream gets there.
//!
//! May use: `abi`, `driver`, `error`, `library`, `observer`, `owner`, `sync`,
//! `sync::detached_thread`, `unwind`.
//! Unsafe: releases owners, and shares user objects with the driver.
//!
//! An event is recorded on the stream. A background thread of this library polls it; once it has
//! completed, the thread releases the owner, outside of every lock and every callback of the
//! driver. The thread is started at first use. It polls instead of waiting in the driver, because a
//! thread that waits there cannot be stopped at exit, and because one owner must not wait for the
//! stream of another.
//!
//! If the stream is being captured, the graph holds the owner in a user object. The destructor of a
//! user object may call neither CUDA nor user code [cuUserObjectCreate], so it only passes the
//! owner to the thread.
//!
//! At exit the thread stops, and pending owners are not released: their work may be running. A
//! forked child has no thread; nothing is released there.

use std::alloc::{Layout, alloc, dealloc};
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::{self, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::abi::{self, cai_owner};
use crate::driver::{
    self, Api, CUcontext, CUevent, CUgraph, Call, CallingThread, Capture, DEINITIALIZED, Driver,
    Event, Function, INVALID_CONTEXT, INVALID_HANDLE, Stream,
};
use crate::error::{Failure, Result, fail};
use crate::library::Library;
use crate::observer;
use crate::owner;
use crate::sync::detached_thread::{self, Program};
use crate::sync::names_a_stream;
use crate::unwind;

/// The first pause between polls. Each pause is twice as long as the one before, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// An owner that waits for an event. It is in the inbox or in a lane.
struct Waiting {
    owner: *mut cai_owner,
    event: Event,
    context: CUcontext,
    /// 0 if the driver has no ids.
    context_id: u64,
    /// Work on one stream completes in order, so only the first owner of a lane is polled.
    stream: Stream,
    /// The next one in the inbox or in the lane.
    next: *mut Waiting,
    /// In the first one of a lane: the last one.
    last: *mut Waiting,
    /// In the first one of a lane: the first one of the next lane.
    next_lane: *mut Waiting,
}

/// Memory for a [`Waiting`] that is not in use.
struct Unused {
    next: *mut Unused,
}

/// What a graph has held until now.
enum Kept {
    Owner(*mut cai_owner),
    Event(&'static Driver, CUevent),
}

/// What other threads pass to the background thread. It does not grow: waiting elements are linked.
struct Inbox {
    /// The latest first.
    waiting: *mut Waiting,
    /// What graphs have held until now, the latest first.
    kept: *mut Tag,
    unused: *mut Unused,
    thread: Thread,
    /// The thread sleeps until it is woken.
    asleep: bool,
    /// [`at_exit`] was registered.
    #[cfg(unix)]
    has_exit_handler: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Thread {
    /// Not started, or ended by a function that it called.
    None,
    Runs,
    /// Ended because the process exits.
    Exited,
}

// SAFETY: owners may be released by every thread, and events used by every thread.
unsafe impl Send for Inbox {}

static INBOX: Mutex<Inbox> = Mutex::new(Inbox {
    waiting: null_mut(),
    kept: null_mut(),
    unused: null_mut(),
    thread: Thread::None,
    asleep: false,
    #[cfg(unix)]
    has_exit_handler: false,
});

/// What the thread works on. Not on its stack, because a function that it calls may end the thread,
/// and the next thread continues with the rest.
struct Work {
    /// The first one of the first lane.
    lanes: UnsafeCell<*mut Waiting>,
    kept: UnsafeCell<*mut Tag>,
}

// SAFETY: only the thread uses it, of which there is one at a time: `INBOX.thread`.
unsafe impl Sync for Work {}

static WORK: Work = Work { lanes: UnsafeCell::new(null_mut()), kept: UnsafeCell::new(null_mut()) };

static THREAD: Program = Program { run: run_guarded, ended };

static WAKE: Condvar = Condvar::new();

/// Locked while the thread is in the driver. `true`: the process exits.
static IN_DRIVER: Mutex<bool> = Mutex::new(false);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory for a [`Waiting`].
struct Node(*mut Waiting);

impl Node {
    /// Takes memory that was used before, or allocates.
    fn new() -> Result<Self> {
        let mut inbox = lock(&INBOX);
        let unused = inbox.unused;
        if !unused.is_null() {
            // SAFETY: `drop` put it there, and nothing else refers to it.
            inbox.unused = unsafe { (*unused).next };
            return Ok(Node(unused.cast()));
        }
        let layout = Layout::new::<Waiting>();
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc(layout) }.cast::<Waiting>();
        if memory.is_null() { Err(Failure::no_memory(layout.size())) } else { Ok(Node(memory)) }
    }

    /// Passes the memory to a list.
    fn fill(self, waiting: Waiting) -> *mut Waiting {
        let memory = self.0;
        std::mem::forget(self);
        // SAFETY: of the right layout, and not used elsewhere.
        unsafe { memory.write(waiting) };
        memory
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let unused = self.0.cast::<Unused>();
        let mut inbox = lock(&INBOX);
        // SAFETY: large enough and aligned for a pointer, and not used elsewhere.
        unsafe { unused.write(Unused { next: inbox.unused }) };
        inbox.unused = unused;
    }
}

/// Releases an owner once the work enqueued on `stream` so far is done. The device type says whose
/// stream it is. On failure the caller keeps the reference.
///
/// # Safety
/// `owner` points to a live owner of any library; on success the caller gives up one reference.
pub unsafe fn release_after(owner: *mut cai_owner, device_type: i32, stream: u64) -> Result<()> {
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
    start()?;
    let thread = &CallingThread::new(driver);
    let stream = Stream::from_current_context(thread, stream)?;
    match stream.capture(thread)? {
        Capture::None => {}
        Capture::Active => {
            return driver.relaxed(|| {
                let graph = stream.graph(thread)?.1;
                keep_in(driver, graph, Kept::Owner(owner))
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
    let node = Node::new()?;
    let context = stream.context(thread)?;
    let event = thread.record(&stream, stream.checked_id(thread)?)?;
    let context_id = event.context_id();
    let (next, last, next_lane) = (null_mut(), null_mut(), null_mut());
    let waiting =
        node.fill(Waiting { owner, event, context, context_id, stream, next, last, next_lane });
    // The thread queries the event after this record. No observer sees the lock.
    observer::notify_before(waiting.cast());
    let mut inbox = lock(&INBOX);
    // SAFETY: not in any list yet.
    unsafe { (*waiting).next = inbox.waiting };
    inbox.waiting = waiting;
    wake(&mut inbox);
    Ok(())
}

fn wake(inbox: &mut Inbox) {
    if inbox.asleep {
        inbox.asleep = false;
        WAKE.notify_one();
    }
}

/// What a user object holds.
struct Tag {
    kept: Kept,
    /// False if the graph did not take the user object.
    armed: AtomicBool,
    /// The next one in the inbox.
    next: *mut Tag,
}

/// # Safety
/// `keep_in` made the tag, and nothing refers to it any more.
unsafe fn free_tag(tag: *mut Tag) {
    // SAFETY: `keep_in` allocated it with this layout; it has nothing to drop.
    unsafe { dealloc(tag.cast(), Layout::new::<Tag>()) };
}

/// Gives something to a graph, which holds it until it and everything made from it is destroyed.
fn keep_in(driver: &Driver, graph: CUgraph, kept: Kept) -> Result<()> {
    const NO_DESTRUCTOR_SYNC: u32 = 1;
    const MOVE: u32 = 1;
    let layout = Layout::new::<Tag>();
    // SAFETY: `Tag` is not zero-sized.
    let tag = unsafe { alloc(layout) }.cast::<Tag>();
    if tag.is_null() {
        return Err(Failure::no_memory(layout.size()));
    }
    // SAFETY: fresh memory of the right size and alignment.
    unsafe { tag.write(Tag { kept, armed: AtomicBool::new(true), next: null_mut() }) };
    let mut object = null_mut();
    let created = driver.user_object_create(
        &raw mut object,
        tag.cast(),
        Some(destructor),
        1,
        NO_DESTRUCTOR_SYNC,
    );
    if let Err(failure) = created.ok() {
        // SAFETY: the driver did not take the tag, so this is its only owner.
        unsafe { free_tag(tag) };
        return Err(failure);
    }
    let taken = driver.graph_retain_user_object(graph, object, 1, MOVE);
    if let Err(failure) = taken.ok() {
        // SAFETY: the tag lives until the object's only reference is released below.
        unsafe { (*tag).armed.store(false, Ordering::Release) };
        // If that fails, the tag leaks.
        let _ = driver.user_object_release(object, 1);
        return Err(failure);
    }
    Ok(())
}

/// Gives an event to a graph. It is destroyed some time after the graph.
pub fn keep_event_in(driver: &Driver, graph: CUgraph, event: Event) -> Result<CUevent> {
    start()?;
    let handle = event.handle();
    keep_in(driver, graph, Kept::Event(event.driver(), handle))?;
    Ok(event.give())
}

/// Runs on a thread of the driver, where neither CUDA nor user code may be called.
/// Allocates nothing.
unsafe extern "C" fn destructor(tag: *mut c_void) {
    let tag = tag.cast::<Tag>();
    // SAFETY: `keep_in` made it, and the driver calls this once.
    if unsafe { &(*tag).armed }.load(Ordering::Acquire) && !driver::is_forked() {
        let mut inbox = lock(&INBOX);
        // SAFETY: as above; not in any list yet.
        unsafe { (*tag).next = inbox.kept };
        inbox.kept = tag;
        wake(&mut inbox);
    } else {
        // SAFETY: as above.
        unsafe { free_tag(tag) };
    }
}

/// Starts the thread unless it is running.
fn start() -> Result<()> {
    let mut inbox = lock(&INBOX);
    if inbox.thread != Thread::None {
        return Ok(());
    }
    #[cfg(unix)]
    if !inbox.has_exit_handler {
        // SAFETY: the handler stays loaded, and locks nothing that is held while user code runs.
        // Handlers run in reverse order: this one before the driver's, which was loaded earlier.
        if unsafe { libc::atexit(at_exit) } != 0 {
            return Err(Failure::no_memory(0));
        }
        inbox.has_exit_handler = true;
    }
    detached_thread::spawn(&THREAD)?;
    inbox.thread = Thread::Runs;
    Ok(())
}

/// Runs if a function that the thread called has ended it. Another thread takes over the rest. It
/// is started at once, or, if that fails, by the next call that needs it.
fn ended() {
    let is_idle = {
        let mut inbox = lock(&INBOX);
        inbox.thread = Thread::None;
        // SAFETY: the thread is the calling one, and does not work any more.
        let done = unsafe { (*WORK.lanes.get()).is_null() && (*WORK.kept.get()).is_null() };
        done && inbox.waiting.is_null() && inbox.kept.is_null()
    };
    if !is_idle && !*lock(&IN_DRIVER) && !python_is_ending() {
        let _ = start();
    }
}

/// Returns true if the process contains a CPython that ends or has ended. Then the remaining owners
/// are left alone, as at the exit of the process: a function that needs the interpreter ends the
/// thread while the interpreter ends, and crashes afterwards.
fn python_is_ending() -> bool {
    type Query = unsafe extern "C" fn() -> c_int;
    let program = Library::program();
    // SAFETY: the functions have this type in every version of CPython.
    let find = |name: &CStr| unsafe { program.get::<Query>(name) };
    let Some(is_initialized) = find(c"Py_IsInitialized") else { return false };
    let is_finalizing = find(c"Py_IsFinalizing").or_else(|| find(c"_Py_IsFinalizing"));
    // SAFETY: both may be called by any thread at any time.
    unsafe { is_initialized() == 0 || is_finalizing.is_some_and(|query| query() != 0) }
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
    let exits = unwind::catch(run).is_ok();
    lock(&INBOX).thread = if exits { Thread::Exited } else { Thread::None };
}

/// Releases owners until the process exits.
fn run() {
    let mut pause = FIRST_PAUSE;
    let mut harmless = [false; Api::COUNT];
    loop {
        if take(pause) {
            pause = FIRST_PAUSE;
        }
        for (api, harmless) in [Api::Cuda, Api::Hip].into_iter().zip(&mut harmless) {
            // Polling an event would invalidate captures of other threads, unless this thread sets
            // the relaxed mode. [cuThreadExchangeStreamCaptureMode]
            let be_relaxed = || driver::loaded(api).is_some_and(Driver::be_relaxed);
            *harmless = *harmless || be_relaxed();
        }
        if !release_kept() {
            return;
        }
        let Some(progress) = release_done(harmless) else { return };
        pause = if progress { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
    }
}

/// Takes what other threads have passed on; sleeps first if there is nothing. Returns true if there
/// was a new owner.
fn take(pause: Duration) -> bool {
    // SAFETY: this is the thread.
    let (lanes, kept) = unsafe { (&mut *WORK.lanes.get(), &mut *WORK.kept.get()) };
    let mut inbox = lock(&INBOX);
    if inbox.waiting.is_null() && inbox.kept.is_null() && kept.is_null() {
        if lanes.is_null() {
            inbox.asleep = true;
            while inbox.asleep {
                inbox = WAKE.wait(inbox).unwrap_or_else(PoisonError::into_inner);
            }
        } else {
            drop(inbox);
            std::thread::sleep(pause);
            inbox = lock(&INBOX);
        }
    }
    let mut waiting = std::mem::replace(&mut inbox.waiting, null_mut());
    let mut tags = std::mem::replace(&mut inbox.kept, null_mut());
    drop(inbox);
    let is_new = !waiting.is_null();
    // The latest comes first in the inbox.
    let mut earliest: *mut Waiting = null_mut();
    // SAFETY: what was in the inbox is this thread's now.
    unsafe {
        while !waiting.is_null() {
            let next = std::mem::replace(&mut (*waiting).next, earliest);
            earliest = waiting;
            waiting = next;
        }
        while !earliest.is_null() {
            let next = std::mem::replace(&mut (*earliest).next, null_mut());
            observer::notify_after(earliest.cast());
            append(lanes, earliest);
            earliest = next;
        }
        while !tags.is_null() {
            let next = std::mem::replace(&mut (*tags).next, *kept);
            *kept = tags;
            tags = next;
        }
    }
    is_new
}

/// Puts an owner into the lane of its stream.
///
/// # Safety
/// All are the calling thread's; `one` is in no list.
unsafe fn append(lanes: &mut *mut Waiting, one: *mut Waiting) {
    // SAFETY: the first one of each lane knows the last one, which is an invariant of the lists.
    unsafe {
        let mut first = *lanes;
        while !first.is_null() {
            if (*first).is_beside(&*one) {
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

/// Polls the first owner of each lane, and releases those whose work is done. Returns true if there
/// were any, or `None` if the process exits.
///
/// A release may end the thread: what is released is in no list any more, and all lists are whole.
fn release_done(harmless: [bool; Api::COUNT]) -> Option<bool> {
    let mut progress = false;
    let mut place = WORK.lanes.get();
    // SAFETY: the lanes are this thread's; `place` is that of their first one, or in the first one
    // of a lane that is still there.
    unsafe {
        while !(*place).is_null() {
            let first = *place;
            match (*first).poll(harmless) {
                Poll::Exit => return None,
                Poll::Pending => {
                    place = &raw mut (*first).next_lane;
                    continue;
                }
                Poll::Done => {}
            }
            progress = true;
            let Waiting { owner, event, next, last, next_lane, .. } = first.read();
            if next.is_null() {
                *place = next_lane;
            } else {
                (*next).last = last;
                (*next).next_lane = next_lane;
                *place = next;
            }
            drop(Node(first));
            event.keep();
            // `release_after` took this reference.
            owner::release(owner);
        }
    }
    Some(progress)
}

/// Releases what graphs have held until now. Returns false if the process exits.
fn release_kept() -> bool {
    loop {
        // SAFETY: this is the thread. A tag is taken off the list before anything is released.
        let kept = unsafe {
            let tag = *WORK.kept.get();
            if tag.is_null() {
                return true;
            }
            let Tag { kept, next, .. } = tag.read();
            *WORK.kept.get() = next;
            // The destructor may not notify the observer. A simulated driver does so itself, with
            // the address of what the object holds.
            observer::notify_after(tag.cast());
            free_tag(tag);
            kept
        };
        match kept {
            // SAFETY: `release_after` took this reference.
            Kept::Owner(owner) => unsafe { owner::release(owner) },
            Kept::Event(driver, event) => {
                let exiting = lock(&IN_DRIVER);
                if *exiting {
                    return false;
                }
                // If that fails, the context was destroyed and the event with it.
                let _ = driver.event_destroy(event);
            }
        }
    }
}

enum Poll {
    Done,
    Pending,
    Exit,
}

impl Waiting {
    fn is_beside(&self, other: &Waiting) -> bool {
        ptr::eq(self.event.driver(), other.event.driver())
            && self.stream == other.stream
            && self.context == other.context
            && self.context_id == other.context_id
    }

    /// Polls the event. Work that can never complete counts as done.
    fn poll(&self, harmless: [bool; Api::COUNT]) -> Poll {
        let driver = self.event.driver();
        if !harmless[driver.api() as usize] {
            return Poll::Pending;
        }
        let exiting = lock(&IN_DRIVER);
        if *exiting {
            return Poll::Exit;
        }
        self.poll_driver(driver).unwrap_or_else(|call| match call.code {
            DEINITIALIZED => Poll::Exit,
            // After these nothing runs any more. With any other error, the work may still be
            // running.
            _ if call.ends_work() => Poll::Done,
            _ => Poll::Pending,
        })
    }

    fn poll_driver(&self, driver: &'static Driver) -> std::result::Result<Poll, Call> {
        if self.context_id != 0 {
            let mut id = 0;
            driver.context_id(self.context, &raw mut id).or_call()?;
            if id != self.context_id {
                // The context was destroyed, and its work with it.
                return Ok(Poll::Done);
            }
        }
        let thread = CallingThread::new(driver);
        let _entered = match thread.try_enter(self.context) {
            // Without ids, a destroyed context shows here.
            Err(call) if self.context_id == 0 && call.code == INVALID_CONTEXT => {
                return Ok(Poll::Done);
            }
            entered => entered?,
        };
        let queried = driver.event_query(self.event.handle());
        // The event was destroyed with its context.
        if queried.code == INVALID_HANDLE {
            Ok(Poll::Done)
        } else {
            queried.or_call().map(|()| Poll::Done)
        }
    }
}
