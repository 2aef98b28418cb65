//! The checker's side: the functions that it offers, and keys for what has no address.

use crate::{modules, next};
use std::cell::Cell;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// `cudasim_api` of cudasim.h, up to the last member that is used here.
#[repr(C)]
pub struct Api {
    struct_size: u32,
    version: u32,
    others: [usize; 3],
    hb_before: extern "C" fn(usize),
    hb_after: extern "C" fn(usize),
}

thread_local! {
    /// Whether this thread is inside the checker, whose own locks are not reported.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// The address of a frame of the function that runs a signal handler on this thread, or 0.
    static HANDLER: Cell<usize> = const { Cell::new(0) };
}

/// The checker's table, once there is one.
static CHECKER: AtomicPtr<Api> = AtomicPtr::new(std::ptr::null_mut());

/// The addresses of drivers: one that is followed has another below it, which may attach, too.
static DRIVERS: [[AtomicUsize; 2]; 4] = [const { [const { AtomicUsize::new(0) }; 2] }; 4];
/// The addresses of this library, once there is a checker.
static OWN: OnceLock<Range<usize>> = OnceLock::new();

/// The simulated driver calls this when it is initialized.
#[unsafe(no_mangle)]
pub extern "C" fn cudasim_threads_attach(api: *mut Api) {
    let here = cudasim_threads_attach as extern "C" fn(*mut Api) as usize;
    OWN.get_or_init(|| modules::range(here));
    let Range { start, end } = modules::range(api.addr());
    for [first, last] in &DRIVERS {
        let found = first
            .compare_exchange(0, start, Ordering::Relaxed, Ordering::Relaxed)
            .unwrap_or_else(|now| now);
        if found == 0 || found == start {
            last.store(end, Ordering::Release);
            break;
        }
    }
    next::find_all();
    CHECKER.store(api, Ordering::Release);
}

fn is_of_driver(address: usize) -> bool {
    DRIVERS.iter().any(|[first, last]| {
        let last = last.load(Ordering::Acquire);
        (first.load(Ordering::Relaxed)..last).contains(&address)
    })
}

fn checker() -> Option<&'static Api> {
    // SAFETY: `cudasim_threads_attach` stored NULL or a constant of a library that stays loaded.
    unsafe { CHECKER.load(Ordering::Acquire).as_ref() }
}

/// Returns true if there is a checker.
#[inline]
pub fn is_attached() -> bool {
    !CHECKER.load(Ordering::Relaxed).is_null()
}

/// Returns true if a function that this library replaces was called by the program and not by
/// the driver, whose own locks order nothing that the program may rely on.
pub fn is_of_program() -> bool {
    let (true, Some(own)) = (is_attached(), OWN.get()) else { return false };
    let is_outside = |inside: &Cell<bool>| {
        // The unwinder takes locks of its own.
        let was_inside = inside.replace(true);
        let result = !was_inside && !is_of_driver(modules::caller(own.clone()));
        inside.set(was_inside);
        result
    };
    INSIDE.try_with(is_outside).unwrap_or(false)
}

/// Runs a signal handler. The checker is not notified meanwhile: the thread may have been
/// interrupted inside `malloc`, or inside the checker.
pub fn in_handler(handler: impl FnOnce()) {
    let here = 0_u8;
    let outer = HANDLER.replace((&raw const here).addr());
    handler();
    HANDLER.set(outer);
}

/// Returns true if a signal handler runs. One that was left by `siglongjmp` has a frame below
/// the current one.
fn is_in_handler() -> bool {
    let here = 0_u8;
    let frame = HANDLER.get();
    if frame != 0 && (&raw const here).addr() > frame {
        HANDLER.set(0);
        return false;
    }
    frame != 0
}

fn notify(object: usize, function: impl Fn(&Api) -> extern "C" fn(usize)) {
    let Some(api) = checker() else { return };
    let _ = INSIDE.try_with(|inside| {
        if !inside.replace(true) {
            if !is_in_handler() {
                keeping_errno(|| function(api)(object));
            }
            inside.set(false);
        }
    });
}

/// Runs what may change `errno`, and restores it.
pub fn keeping_errno<T>(run: impl FnOnce() -> T) -> T {
    // SAFETY: the address is that of this thread's `errno`, which lives as long as the thread.
    let errno = unsafe { &mut *libc::__errno_location() };
    let saved = *errno;
    let result = run();
    *errno = saved;
    result
}

/// Notifies that everything that this thread did so far happens before what a thread does after
/// [`after`] of the same object.
pub fn before<T>(object: *const T) {
    before_key(object.addr());
}

/// The other side of [`before`].
pub fn after<T>(object: *const T) {
    after_key(object.addr());
}

pub fn before_key(key: usize) {
    notify(key, |api| api.hb_before);
}

pub fn after_key(key: usize) {
    notify(key, |api| api.hb_after);
}

/// Kinds of objects that have a key instead of an address.
#[derive(Clone, Copy)]
#[repr(usize)]
pub enum Kind {
    Pipe = 1,
    Socket,
    Connection,
    Event,
    Queue,
    Semaphores,
    Messages,
    Signal,
    TaskGroup,
    /// A dependence of tasks, for those that come after tasks that write.
    Written,
    /// A dependence of tasks, for those that come after tasks that read.
    Read,
}

/// Returns a key that is the address of nothing: those of programs have their highest bit clear.
pub fn key(kind: Kind, number: u64) -> usize {
    const BITS: u32 = 56;
    1 << 63 | (kind as usize) << BITS | number as usize & ((1 << BITS) - 1)
}

/// Mixes the bits of a number (the finalizer of SplitMix64, of public domain).
pub fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
