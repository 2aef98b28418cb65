//! Letting owners go once a stream gets there.
//!
//! An event is recorded on the stream, and a thread of this library asks for it until it has
//! happened; then it releases the owner, outside of every lock and every callback of the driver.
//! The thread is started when it is first needed. It asks instead of waiting in the driver because
//! a thread that waits there cannot be told that the process exits, and one owner must not wait for
//! the stream of another.
//!
//! Where the stream is being captured, the graph keeps the owner: as a user object, whose
//! destructor may call neither CUDA nor user code [cuUserObjectCreate], and so just tells the
//! thread.
//!
//! At exit the thread stops asking, and what is still pending is left alone: its work may be
//! running. In a forked child there is no thread; nothing is released there.

use std::alloc::{Layout, alloc};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::abi::{self, cai_owner};
use crate::driver::{
    self, CUcontext, CUevent, CUgraph, Call, Capture, DEINITIALIZED, Driver, Event,
    INVALID_CONTEXT, INVALID_HANDLE, Stream,
};
use crate::error::{Failure, Result, fail};
use crate::owner;
use crate::sync::names_a_stream;

/// The thread asks again after this long, then after twice as long, and so on, up to the longest
/// pause.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// An owner that waits for an event.
struct Waiting {
    owner: *mut cai_owner,
    event: Event<'static>,
    context: CUcontext,
    /// 0 where the driver has no ids.
    context_id: u64,
    /// Work on one stream ends in order: it is enough to ask for the first.
    stream: Stream,
}

/// What a graph kept until now.
enum Kept {
    Owner(*mut cai_owner),
    Event(CUevent),
}

// SAFETY: owners may be released from every thread, and events used from every thread.
unsafe impl Send for Waiting {}
// SAFETY: the same.
unsafe impl Send for Kept {}

/// What others hand to the thread.
struct Inbox {
    waiting: Vec<Waiting>,
    kept: Vec<Kept>,
    /// Has the thread been started?
    started: bool,
    /// Does it sleep until somebody wakes it?
    asleep: bool,
}

static INBOX: Mutex<Inbox> =
    Mutex::new(Inbox { waiting: Vec::new(), kept: Vec::new(), started: false, asleep: false });
static WAKE: Condvar = Condvar::new();
/// Held while the thread is in the driver. `true`: the process exits.
static IN_DRIVER: Mutex<bool> = Mutex::new(false);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives up a reference once the work enqueued on `stream` so far is done. On failure it is still
/// the caller's.
///
/// # Safety
/// `owner` points to a live owner of any library; the caller gives up one reference, on success.
pub unsafe fn release_after(owner: *mut cai_owner, stream: u64) -> Result<()> {
    // SAFETY: handed on.
    unsafe { owner::check(owner) }?;
    if stream == abi::CAI_STREAM_NONE {
        // SAFETY: by contract.
        unsafe { owner::release(owner) };
        return Ok(());
    }
    names_a_stream(stream, "stream")?;
    let driver = driver::driver()?;
    start()?;
    let stream = Stream::from_current_context(driver, stream)?;
    match stream.capture(driver)? {
        Capture::None => {}
        Capture::Active => {
            return driver.relaxed(|| {
                let graph = stream.graph(driver)?.1;
                keep_in(driver, graph, Kept::Owner(owner))
            });
        }
        Capture::Invalidated => {
            return fail!(
                CAI_ERR_CAPTURE_INVALIDATED,
                "stream",
                found = "a stream whose capture was broken by an earlier call",
                expected = "the capture to be ended first"
            );
        }
    }
    let context = stream.context(driver)?;
    let event = driver.record(&stream, context)?;
    let context_id = event.context_id();
    let mut inbox = lock(&INBOX);
    if inbox.waiting.try_reserve(1).is_err() {
        return Err(Failure::no_memory(size_of::<Waiting>()));
    }
    inbox.waiting.push(Waiting { owner, event, context, context_id, stream });
    wake(&mut inbox);
    Ok(())
}

fn wake(inbox: &mut Inbox) {
    if inbox.asleep {
        inbox.asleep = false;
        WAKE.notify_one();
    }
}

/// What the driver is handed for a user object.
struct Tag {
    kept: Kept,
    /// Unset where the graph did not take it after all.
    armed: AtomicBool,
}

/// Gives something to a graph, which keeps it until it and everything made from it is destroyed.
fn keep_in(driver: &Driver, graph: CUgraph, kept: Kept) -> Result<()> {
    const NO_DESTRUCTOR_SYNC: u32 = 1;
    const MOVE: u32 = 1;
    let layout = Layout::new::<Tag>();
    // SAFETY: the layout is not empty.
    let tag = unsafe { alloc(layout) }.cast::<Tag>();
    if tag.is_null() {
        return Err(Failure::no_memory(layout.size()));
    }
    // SAFETY: fresh memory of the right size and alignment, such as a `Box` has.
    unsafe { tag.write(Tag { kept, armed: AtomicBool::new(true) }) };
    let mut object = ptr::null_mut();
    let created = driver.user_object_create(
        &raw mut object,
        tag.cast(),
        Some(destructor),
        1,
        NO_DESTRUCTOR_SYNC,
    );
    if let Err(failure) = created.ok() {
        // SAFETY: the driver did not take it.
        drop(unsafe { Box::from_raw(tag) });
        return Err(failure);
    }
    let taken = driver.graph_retain_user_object(graph, object, 1, MOVE);
    if let Err(failure) = taken.ok() {
        // SAFETY: the object, and with it the tag, lives until its only reference is released
        // below.
        unsafe { (*tag).armed.store(false, Ordering::Release) };
        // Where this fails, some bytes are lost and nothing else.
        let _ = driver.user_object_release(object, 1);
        return Err(failure);
    }
    Ok(())
}

/// Gives an event to a graph. It is destroyed some time after the graph.
pub fn keep_event_in(driver: &Driver, graph: CUgraph, event: Event) -> Result<CUevent> {
    start()?;
    let handle = event.handle();
    keep_in(driver, graph, Kept::Event(handle))?;
    Ok(event.give())
}

/// Runs on a thread of the driver, where neither CUDA nor anything of a user's may be called.
unsafe extern "C" fn destructor(tag: *mut c_void) {
    // SAFETY: `keep_in` made it, and the driver calls this once.
    let tag = unsafe { Box::from_raw(tag.cast::<Tag>()) };
    if tag.armed.load(Ordering::Acquire) && !driver::is_forked() {
        let mut inbox = lock(&INBOX);
        inbox.kept.push(tag.kept);
        wake(&mut inbox);
    }
}

/// Starts the thread, once.
fn start() -> Result<()> {
    let mut inbox = lock(&INBOX);
    if inbox.started {
        return Ok(());
    }
    let spawned =
        without_signals(|| std::thread::Builder::new().name("cai-release".to_owned()).spawn(run));
    match spawned {
        Ok(_detached) => {
            inbox.started = true;
            #[cfg(unix)]
            // SAFETY: the handler stays loaded, and locks nothing that is held while user code
            // runs. Handlers run in reverse order: this one before the driver's, which was loaded
            // earlier.
            unsafe {
                libc::atexit(at_exit)
            };
            Ok(())
        }
        Err(error) => {
            fail!(CAI_ERR_THREAD, "thread", found = "{error}", expected = "one more thread")
        }
    }
}

/// A thread inherits which signals are blocked. Those of the program are not this thread's
/// business.
#[cfg(unix)]
fn without_signals<T>(spawn: impl FnOnce() -> T) -> T {
    use std::mem::MaybeUninit;
    let (mut all, mut before) = (MaybeUninit::zeroed(), MaybeUninit::zeroed());
    // SAFETY: both are writable, and all zeros is a value of a signal set.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = spawn();
    // SAFETY: filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    result
}

#[cfg(not(unix))]
fn without_signals<T>(spawn: impl FnOnce() -> T) -> T {
    spawn()
}

/// Waits until the thread is out of the driver, and keeps it out: the driver is about to go away.
#[cfg(unix)]
extern "C" fn at_exit() {
    if !driver::is_forked() {
        *lock(&IN_DRIVER) = true;
    }
}

/// What the thread does.
fn run() {
    let Ok(driver) = driver::driver() else { return };
    let mut lanes: Vec<VecDeque<Waiting>> = Vec::new();
    let (mut waiting, mut kept) = (Vec::new(), Vec::new());
    let mut pause = FIRST_PAUSE;
    // Asking for an event would break captures of other threads, unless this one says that it means
    // no harm. [cuThreadExchangeStreamCaptureMode]
    let mut harmless = false;
    loop {
        take(&mut waiting, &mut kept, lanes.is_empty(), pause);
        for one in waiting.drain(..) {
            pause = FIRST_PAUSE;
            match lanes
                .iter_mut()
                .find(|lane| lane.front().is_some_and(|first| first.is_beside(&one)))
            {
                Some(lane) => lane.push_back(one),
                None => lanes.push(VecDeque::from([one])),
            }
        }
        harmless = harmless || driver.be_relaxed();
        let mut progress = false;
        for kept in kept.drain(..) {
            if !let_go(driver, kept) {
                return;
            }
        }
        for lane in lanes.iter_mut().filter(|_| harmless) {
            while let Some(first) = lane.front() {
                match first.ask(driver) {
                    Answer::Exit => return,
                    Answer::NotYet => break,
                    Answer::Done => {}
                }
                progress = true;
                if let Some(done) = lane.pop_front() {
                    done.let_go();
                }
            }
        }
        lanes.retain(|lane| !lane.is_empty());
        pause = if progress { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
    }
}

/// Gets what others have handed in; sleeps before that, where there is nothing.
fn take(waiting: &mut Vec<Waiting>, kept: &mut Vec<Kept>, idle: bool, pause: Duration) {
    let mut inbox = lock(&INBOX);
    if inbox.waiting.is_empty() && inbox.kept.is_empty() {
        if idle {
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
    // The lists change places, so that neither is allocated anew.
    std::mem::swap(&mut inbox.waiting, waiting);
    std::mem::swap(&mut inbox.kept, kept);
}

enum Answer {
    Done,
    NotYet,
    Exit,
}

impl Waiting {
    fn is_beside(&self, other: &Waiting) -> bool {
        self.stream == other.stream
            && self.context == other.context
            && self.context_id == other.context_id
    }

    /// Has the work been done, or will it never be?
    fn ask(&self, driver: &Driver) -> Answer {
        let exiting = lock(&IN_DRIVER);
        if *exiting {
            return Answer::Exit;
        }
        self.ask_driver(driver).unwrap_or_else(|call| match call.code {
            DEINITIALIZED => Answer::Exit,
            // After these nothing runs any more. Whatever else the driver says, the work may still
            // be running.
            _ if call.ends_work() => Answer::Done,
            _ => Answer::NotYet,
        })
    }

    fn ask_driver(&self, driver: &Driver) -> std::result::Result<Answer, Call> {
        if self.context_id != 0 {
            let mut id = 0;
            driver.context_id(self.context, &raw mut id).or_call()?;
            if id != self.context_id {
                // The context is gone, and its work with it.
                return Ok(Answer::Done);
            }
        }
        let _entered = match driver.try_enter(self.context) {
            // Where contexts have no ids this is how one that is gone shows.
            Err(call) if self.context_id == 0 && call.code == INVALID_CONTEXT => {
                return Ok(Answer::Done);
            }
            entered => entered?,
        };
        let asked = driver.event_query(self.event.handle());
        // An event that is not there went with its context.
        if asked.code == INVALID_HANDLE {
            Ok(Answer::Done)
        } else {
            asked.or_call().map(|()| Answer::Done)
        }
    }

    fn let_go(self) {
        self.event.keep();
        // SAFETY: `release_after` was given this reference.
        unsafe { owner::release(self.owner) };
    }
}

/// `false`: the process exits.
fn let_go(driver: &Driver, kept: Kept) -> bool {
    match kept {
        // SAFETY: `release_after` was given this reference.
        Kept::Owner(owner) => unsafe { owner::release(owner) },
        Kept::Event(event) => {
            let exiting = lock(&IN_DRIVER);
            if *exiting {
                return false;
            }
            // Where it fails, its context is gone and the event with it.
            let _ = driver.event_destroy(event);
        }
    }
    true
}
