//! Host functions, callbacks and destructors of user objects: functions of the program, which run
//! on threads of the driver.

use crate::clock::Knowledge;
use crate::config::Schedule;
use crate::console::print;
use crate::sim::state::{EXITED, HostJob, Locked, Sim, lock};
use crate::threads;
use crate::work::HostCall;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Condvar;
use std::sync::atomic::Ordering;

/// Signalled when a host function was added.
static ADDED: Condvar = Condvar::new();

impl Sim {
    /// Runs a host function after those that were added before, as drivers do, on one thread. When
    /// it has returned, its stream continues.
    pub(super) fn add_host_function(&mut self, job: HostJob) {
        self.host_functions.push_back(job);
        if self.host_function_thread {
            ADDED.notify_one();
        } else {
            self.start_host_function_thread();
        }
    }

    fn start_host_function_thread(&mut self) {
        // SAFETY: the function uses no argument.
        self.host_function_thread =
            unsafe { threads::spawn(c"cuda-sim host", run_host_functions, null_mut()) };
        if !self.host_function_thread {
            print("cuda-sim: no thread for host functions: they will not run\n");
        }
    }

    /// Continues where a function of the program has ended the thread that called it.
    pub(super) fn host_function_ended_thread(sim: &mut Locked) {
        if sim.thread().host_function.is_some() {
            end_host_function(sim);
            sim.host_function_thread = false;
            if !sim.host_functions.is_empty() {
                sim.start_host_function_thread();
            }
        }
    }

    pub(super) fn destroy_user_object(call: HostCall, known: Knowledge) {
        if !threads::spawn_with(c"cuda-sim objects", destroy, (call, known)) {
            print("cuda-sim: no thread for the destructor of a user object: it will not run\n");
        }
    }
}

unsafe extern "C-unwind" fn run_host_functions(_: *mut c_void) -> *mut c_void {
    while let Some((call, status)) = begin_host_function() {
        call.run(status);
        if let Some(mut sim) = lock() {
            end_host_function(&mut sim);
        }
    }
    threads::NOTHING
}

/// Waits for the next host function. Returns `None` when the process ends.
fn begin_host_function() -> Option<(HostCall, i32)> {
    let mut sim = lock()?;
    loop {
        if EXITED.load(Ordering::Acquire) {
            return None;
        }
        if let Some((stream, call, status, clock)) = sim.host_functions.pop_front() {
            // The function, and threads that it signals, come after earlier work of its stream.
            if sim.config.threads_seen {
                sim.this_thread_learns(clock.as_ref());
                sim.publish_host();
            }
            sim.thread().host_function = Some((stream, clock));
            return Some((call, status));
        }
        sim.wait(&ADDED, None);
    }
}

fn end_host_function(sim: &mut Locked) {
    let Some((stream, clock)) = sim.thread().host_function.take() else { return };
    if !sim.config.threads_seen {
        sim.this_thread_learns(clock.as_ref());
    }
    Sim::complete(sim, stream);
    if sim.config.schedule == Schedule::Eager {
        Sim::run_unblocked(sim);
    }
}

unsafe extern "C-unwind" fn destroy(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `destroy_user_object` started this thread with a value of this type.
    let call = unsafe { begin_destroying(argument) };
    call.run(0);
    threads::NOTHING
}

/// Returns the destructor. It happens after the work that used the object. It must not call the
/// driver, so it passes what it frees to another thread: one that acquires the address of the
/// object's data happens after that work too.
///
/// # Safety
///
/// `argument` is that of `destroy`, and is passed once.
unsafe fn begin_destroying(argument: *mut c_void) -> HostCall {
    // SAFETY: as the caller states.
    let (call, known): (HostCall, Knowledge) = unsafe { threads::take(argument) };
    if let Some(mut sim) = lock() {
        let (host, seen) = (sim.host_actor(), sim.config.threads_seen);
        if let Some(checker) = &mut sim.checker {
            checker.learn_all(host, &known);
            if seen {
                checker.hb_before(host, call.data);
            }
        }
    }
    call
}
