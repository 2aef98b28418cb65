//! Preloaded by `cuda-sim run`: functions of the C library that order threads, each of which does
//! what it always does and tells the race checker. Whatever releases says "before", whatever
//! acquires says "after", on the address of the lock. A program that never initializes the driver
//! pays for a null check.
//!
//! Each function is as unsafe as the one that it stands for, and passes on what it is given.
//!
//! Order by atomics cannot be seen here; programs say it with `cudasim_hb_before` and
//! `cudasim_hb_after`.

#![allow(clippy::missing_safety_doc)]

use libc::{
    c_int, c_void, pthread_attr_t, pthread_barrier_t, pthread_cond_t, pthread_mutex_t,
    pthread_rwlock_t, pthread_t, sem_t, timespec,
};
use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

// --- the checker's side
// -------------------------------------------------------------------------------------

/// As `cudasim_api`, up to what is used here.
#[repr(C)]
pub struct Api {
    struct_size: u32,
    version: u32,
    others: [usize; 3],
    hb_before: extern "C" fn(usize),
    hb_after: extern "C" fn(usize),
}

thread_local! {
    /// The checker itself locks; what happens inside it is not the program's.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The checker's table, once there is one.
static CHECKER: AtomicPtr<Api> = AtomicPtr::new(std::ptr::null_mut());

/// The simulated driver calls this when it is initialized.
#[unsafe(no_mangle)]
pub extern "C" fn cudasim_threads_attach(api: *mut Api) {
    CHECKER.store(api, Ordering::Release);
}

fn checker() -> Option<&'static Api> {
    // SAFETY: NULL, or a constant of a library that is never unloaded.
    unsafe { CHECKER.load(Ordering::Acquire).as_ref() }
}

fn tell(object: usize, function: impl Fn(&Api) -> extern "C" fn(usize)) {
    let Some(api) = checker() else { return };
    let _ = INSIDE.try_with(|inside| {
        if !inside.replace(true) {
            function(api)(object);
            inside.set(false);
        }
    });
}

fn before<T>(object: *const T) {
    tell(object as usize, |api| api.hb_before);
}

fn after<T>(object: *const T) {
    tell(object as usize, |api| api.hb_after);
}

thread_local! {
    /// The locks that this thread holds for reading: unlocking does not say which kind it was. A
    /// thread that holds more of them at once is taken to write with the rest, which only orders
    /// more.
    static READING: Cell<[usize; 32]> = const { Cell::new([0; 32]) };
}

/// Notes that this thread reads under a lock, or no longer does. Whether it was so, for the latter.
fn reading(lock: usize, begins: bool) -> bool {
    let change = |list: &Cell<[usize; 32]>| {
        let mut locks = list.get();
        let (from, to) = if begins { (0, lock) } else { (lock, 0) };
        let found = locks.iter().position(|held| *held == from);
        found.into_iter().for_each(|at| locks[at] = to);
        list.set(locks);
        found.is_some()
    };
    READING.try_with(change).unwrap_or(false)
}

/// Where the readers of a lock tell.
fn readers<T>(lock: *const T) -> *const u8 {
    (lock as *const u8).wrapping_add(1)
}

// --- the functions
// ------------------------------------------------------------------------------------------

/// The next definition of a function, found once. `@VERSION` where the C library has several.
macro_rules! real {
    ($name:ident $(@ $version:literal)?, $type:ty) => {{
        static REAL: AtomicUsize = AtomicUsize::new(0);
        let mut found = REAL.load(Ordering::Relaxed);
        if found == 0 {
            #[allow(unused_mut, unused_assignments)]
            let mut symbol = std::ptr::null_mut::<c_void>();
            $(
                // SAFETY: asks the dynamic linker for a name.
                symbol = unsafe { libc::dlvsym(libc::RTLD_NEXT, concat!(stringify!($name), "\0").as_ptr().cast(), concat!($version, "\0").as_ptr().cast()) };
            )?
            if symbol.is_null() {
                // SAFETY: as above.
                symbol = unsafe { libc::dlsym(libc::RTLD_NEXT, concat!(stringify!($name), "\0").as_ptr().cast()) };
            }
            found = symbol as usize;
            REAL.store(found, Ordering::Relaxed);
        }
        // SAFETY: the function has this type by POSIX; without it the program could not have been
        // linked.
        unsafe { std::mem::transmute::<usize, $type>(found) }
    }};
}

/// Functions that take a lock when they return 0, and functions that give one up.
macro_rules! locks {
    ($($kind:ident $name:ident($($arg:ident: $type:ty),*);)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
            locks!(@$kind $name($($arg: $type),*))
        }
    )* };
    (@acquire $name:ident($object:ident: $first:ty $(, $arg:ident: $type:ty)*)) => {{
        let real = real!(
$name, unsafe extern "C" fn($first $(, $type)*) -> c_int);
        // SAFETY: passes on what the caller passed.
        let result = unsafe { real($object $(, $arg)*) };
        if result == 0 {
            after($object);
        }
        result
    }};
    // Readers come after writers, and writers after both; readers do not come after each other.
    // What readers tell is told beside the lock's own address.
    (@read $name:ident($object:ident: $first:ty $(, $arg:ident: $type:ty)*)) => {{
        let real = real!($name, unsafe extern "C" fn($first $(, $type)*) -> c_int);
        // SAFETY: passes on what the caller passed.
        let result = unsafe { real($object $(, $arg)*) };
        if result == 0 {
            after($object);
            reading($object as usize, true);
        }
        result
    }};
    (@write $name:ident($object:ident: $first:ty $(, $arg:ident: $type:ty)*)) => {{
        let real = real!($name, unsafe extern "C" fn($first $(, $type)*) -> c_int);
        // SAFETY: passes on what the caller passed.
        let result = unsafe { real($object $(, $arg)*) };
        if result == 0 {
            after($object);
            after(readers($object));
        }
        result
    }};
    (@unlock $name:ident($object:ident: $first:ty)) => {{
        let real = real!($name, unsafe extern "C" fn($first) -> c_int);
        if reading($object as usize, false) {
            before(readers($object));
        } else {
            before($object);
        }
        // SAFETY: passes on what the caller passed.
        unsafe { real($object) }
    }};
    (@release $name:ident($object:ident: $first:ty)) => {{
        let real = real!(
$name, unsafe extern "C" fn($first) -> c_int);
        before($object);
        // SAFETY: passes on what the caller passed.
        unsafe { real($object) }
    }};
}

locks! {
    acquire pthread_mutex_lock(mutex: *mut pthread_mutex_t);
    acquire pthread_mutex_trylock(mutex: *mut pthread_mutex_t);
    acquire pthread_mutex_timedlock(mutex: *mut pthread_mutex_t, time: *const timespec);
    acquire pthread_mutex_clocklock(mutex: *mut pthread_mutex_t, clock: libc::clockid_t, time: *const timespec);
    release pthread_mutex_unlock(mutex: *mut pthread_mutex_t);
    read pthread_rwlock_rdlock(lock: *mut pthread_rwlock_t);
    read pthread_rwlock_tryrdlock(lock: *mut pthread_rwlock_t);
    read pthread_rwlock_timedrdlock(lock: *mut pthread_rwlock_t, time: *const timespec);
    read pthread_rwlock_clockrdlock(lock: *mut pthread_rwlock_t, clock: libc::clockid_t, time: *const timespec);
    write pthread_rwlock_wrlock(lock: *mut pthread_rwlock_t);
    write pthread_rwlock_trywrlock(lock: *mut pthread_rwlock_t);
    write pthread_rwlock_timedwrlock(lock: *mut pthread_rwlock_t, time: *const timespec);
    write pthread_rwlock_clockwrlock(lock: *mut pthread_rwlock_t, clock: libc::clockid_t, time: *const timespec);
    unlock pthread_rwlock_unlock(lock: *mut pthread_rwlock_t);
    acquire mtx_lock(mutex: *mut c_void);
    acquire mtx_trylock(mutex: *mut c_void);
    acquire mtx_timedlock(mutex: *mut c_void, time: *const timespec);
    release mtx_unlock(mutex: *mut c_void);
    acquire pthread_spin_lock(lock: *mut libc::pthread_spinlock_t);
    acquire pthread_spin_trylock(lock: *mut libc::pthread_spinlock_t);
    release pthread_spin_unlock(lock: *mut libc::pthread_spinlock_t);
    acquire sem_wait(semaphore: *mut sem_t);
    acquire sem_trywait(semaphore: *mut sem_t);
    acquire sem_timedwait(semaphore: *mut sem_t, time: *const timespec);
    acquire sem_clockwait(semaphore: *mut sem_t, clock: libc::clockid_t, time: *const timespec);
    release sem_post(semaphore: *mut sem_t);
}

/// Waiting gives the mutex up and takes it again.
macro_rules! waits {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t $(, $arg: $type)*) -> c_int {
            // The first version of conditions is kept for programs of 2002; everybody means the
            // second.
            let real = real!(
$name @ "GLIBC_2.3.2",
                unsafe extern "C" fn(*mut pthread_cond_t, *mut pthread_mutex_t $(, $type)*) -> c_int
            );
            before(mutex);
            // SAFETY: passes on what the caller passed.
            let result = unsafe { real(condition, mutex $(, $arg)*) };
            after(mutex);
            result
        }
    )* };
}

waits! {
    pthread_cond_wait();
    pthread_cond_timedwait(time: *const timespec);
    pthread_cond_clockwait(clock: libc::clockid_t, time: *const timespec);
}

/// The conditions of C11.
macro_rules! c11_waits {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(condition: *mut c_void, mutex: *mut c_void $(, $arg: $type)*) -> c_int {
            let real = real!($name, unsafe extern "C" fn(*mut c_void, *mut c_void $(, $type)*) -> c_int);
            before(mutex);
            // SAFETY: passes on what the caller passed.
            let result = unsafe { real(condition, mutex $(, $arg)*) };
            after(mutex);
            result
        }
    )* };
}

c11_waits! {
    cnd_wait();
    cnd_timedwait(time: *const timespec);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int {
    let real = real!(pthread_barrier_wait, unsafe extern "C" fn(*mut pthread_barrier_t) -> c_int);
    before(barrier);
    // SAFETY: passes on what the caller passed.
    let result = unsafe { real(barrier) };
    after(barrier);
    result
}

/// What a thread begins with: its function, and the address that its creator told at.
struct Start {
    function: extern "C" fn(*mut c_void) -> *mut c_void,
    data: *mut c_void,
}

extern "C" fn begin(start: *mut c_void) -> *mut c_void {
    after(start);
    // SAFETY: made by `pthread_create` below, for this thread alone.
    let start = unsafe { Box::from_raw(start.cast::<Start>()) };
    let (function, data) = (start.function, start.data);
    // Freed before the thread works, so that its address means nothing later.
    drop(start);
    let result = function(data);
    before(own() as *const c_void);
    result
}

fn own() -> pthread_t {
    // SAFETY: may be called anywhere.
    unsafe { libc::pthread_self() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    function: extern "C" fn(*mut c_void) -> *mut c_void,
    data: *mut c_void,
) -> c_int {
    type Create = unsafe extern "C" fn(
        *mut pthread_t,
        *const pthread_attr_t,
        extern "C" fn(*mut c_void) -> *mut c_void,
        *mut c_void,
    ) -> c_int;
    let real = real!(pthread_create, Create);
    let start = Box::into_raw(Box::new(Start { function, data })).cast::<c_void>();
    before(start);
    // SAFETY: passes on what the caller passed, with a function that calls the caller's.
    let result = unsafe { real(thread, attributes, begin, start) };
    if result != 0 {
        // SAFETY: no thread has it.
        drop(unsafe { Box::from_raw(start.cast::<Start>()) });
    }
    result
}

/// The same for the threads of C11, whose functions return numbers.
struct C11Start {
    function: extern "C" fn(*mut c_void) -> c_int,
    data: *mut c_void,
}

extern "C" fn begin_c11(start: *mut c_void) -> c_int {
    after(start);
    // SAFETY: made by `thrd_create` below, for this thread alone.
    let start = unsafe { Box::from_raw(start.cast::<C11Start>()) };
    let (function, data) = (start.function, start.data);
    drop(start);
    let result = function(data);
    before(own() as *const c_void);
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create(
    thread: *mut pthread_t,
    function: extern "C" fn(*mut c_void) -> c_int,
    data: *mut c_void,
) -> c_int {
    type Create = unsafe extern "C" fn(
        *mut pthread_t,
        extern "C" fn(*mut c_void) -> c_int,
        *mut c_void,
    ) -> c_int;
    let real = real!(thrd_create, Create);
    let start = Box::into_raw(Box::new(C11Start { function, data })).cast::<c_void>();
    before(start);
    // SAFETY: passes on what the caller passed, with a function that calls the caller's.
    let result = unsafe { real(thread, begin_c11, start) };
    if result != 0 {
        // SAFETY: no thread has it.
        drop(unsafe { Box::from_raw(start.cast::<C11Start>()) });
    }
    result
}

/// A thread that ends here says so, as one does that returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_exit(value: *mut c_void) -> ! {
    let real = real!(pthread_exit, unsafe extern "C" fn(*mut c_void) -> !);
    before(own() as *const c_void);
    // SAFETY: passes on what the caller passed.
    unsafe { real(value) }
}

macro_rules! joins {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(thread: pthread_t $(, $arg: $type)*) -> c_int {
            let real = real!(
$name, unsafe extern "C" fn(pthread_t $(, $type)*) -> c_int);
            // SAFETY: passes on what the caller passed.
            let result = unsafe { real(thread $(, $arg)*) };
            if result == 0 {
                after(thread as *const c_void);
            }
            result
        }
    )* };
}

joins! {
    pthread_join(value: *mut *mut c_void);
    thrd_join(value: *mut c_int);
    pthread_tryjoin_np(value: *mut *mut c_void);
    pthread_timedjoin_np(value: *mut *mut c_void, time: *const timespec);
}

/// C++ lets exceptions out of it.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_once(
    control: *mut c_int,
    function: extern "C-unwind" fn(),
) -> c_int {
    let real = real!(
        pthread_once,
        unsafe extern "C-unwind" fn(*mut c_int, extern "C-unwind" fn()) -> c_int
    );
    let outer = ONCE.replace((control, Some(function)));
    // SAFETY: passes on what the caller passed, with `run_once` for its function.
    let result = unsafe { real(control, run_once) };
    ONCE.set(outer);
    after(control);
    result
}

thread_local! {
    /// What this thread would run now, if it is the one.
    static ONCE: Cell<(*mut c_int, Option<extern "C-unwind" fn()>)> = const { Cell::new((std::ptr::null_mut(), None)) };
}

/// Says "before" while others still wait for it: afterwards they may be gone on already.
extern "C-unwind" fn run_once() {
    let (control, function) = ONCE.get();
    if let Some(function) = function {
        function();
    }
    before(control);
}
