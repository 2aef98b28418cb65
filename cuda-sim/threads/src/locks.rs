//! Locks, conditions, semaphores and threads of POSIX and C11.

use crate::checker::{after, before};
use crate::next::real;
use libc::{
    c_int, c_void, pthread_attr_t, pthread_cond_t, pthread_mutex_t, pthread_rwlock_t, pthread_t,
    sem_t, timespec,
};
use std::cell::Cell;
use std::sync::OnceLock;

thread_local! {
    /// The locks that this thread holds for reading, because unlocking does not distinguish. Locks
    /// beyond this number count as locked for writing, which only adds order.
    static READING: Cell<[usize; 32]> = const { Cell::new([0; 32]) };
}

/// Records that this thread begins or ends to hold a lock for reading. Returns whether there was a
/// slot.
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

/// Returns the address at which the readers of a lock notify.
fn readers<T>(lock: *const T) -> *const u8 {
    (lock as *const u8).wrapping_add(1)
}

/// Defines functions that take a lock if they return 0, and functions that release one.
macro_rules! locks {
    ($($kind:ident $name:ident($($arg:ident: $type:ty),*);)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            locks!(@$kind $name($($arg: $type),*))
        }
    )* };
    (@acquire $name:ident($object:ident: $first:ty $(, $arg:ident: $type:ty)*)) => {{
        let real = real!(
$name, unsafe extern "C-unwind" fn($first $(, $type)*) -> c_int);
        // SAFETY: the caller's arguments satisfy the contract of libc's function of this name.
        let result = unsafe { real($object $(, $arg)*) };
        if result == 0 {
            after($object);
        }
        result
    }};
    // Readers come after writers, and writers after both; readers are not ordered among themselves.
    // They notify at an address of their own.
    (@read $name:ident($object:ident: $first:ty $(, $arg:ident: $type:ty)*)) => {{
        let result = locks!(@acquire $name($object: $first $(, $arg: $type)*));
        if result == 0 {
            reading($object as usize, true);
        }
        result
    }};
    (@write $name:ident($object:ident: $first:ty $(, $arg:ident: $type:ty)*)) => {{
        let result = locks!(@acquire $name($object: $first $(, $arg: $type)*));
        if result == 0 {
            after(readers($object));
        }
        result
    }};
    (@unlock $name:ident($object:ident: $first:ty)) => {{
        let real = real!($name, unsafe extern "C-unwind" fn($first) -> c_int);
        if reading($object as usize, false) {
            before(readers($object));
        } else {
            before($object);
        }
        // SAFETY: the caller's arguments satisfy the contract of libc's function of this name.
        unsafe { real($object) }
    }};
    (@release $name:ident($object:ident: $first:ty)) => {{
        let real = real!(
$name, unsafe extern "C-unwind" fn($first) -> c_int);
        before($object);
        // SAFETY: the caller's arguments satisfy the contract of libc's function of this name.
        unsafe { real($object) }
    }};
}

locks! {
    acquire pthread_mutex_lock(mutex: *mut pthread_mutex_t);
    acquire pthread_mutex_trylock(mutex: *mut pthread_mutex_t);
    acquire pthread_mutex_timedlock(mutex: *mut pthread_mutex_t, time: *const timespec);
    acquire pthread_mutex_clocklock(
        mutex: *mut pthread_mutex_t, clock: libc::clockid_t, time: *const timespec
    );
    release pthread_mutex_unlock(mutex: *mut pthread_mutex_t);
    read pthread_rwlock_rdlock(lock: *mut pthread_rwlock_t);
    read pthread_rwlock_tryrdlock(lock: *mut pthread_rwlock_t);
    read pthread_rwlock_timedrdlock(lock: *mut pthread_rwlock_t, time: *const timespec);
    read pthread_rwlock_clockrdlock(
        lock: *mut pthread_rwlock_t, clock: libc::clockid_t, time: *const timespec
    );
    write pthread_rwlock_wrlock(lock: *mut pthread_rwlock_t);
    write pthread_rwlock_trywrlock(lock: *mut pthread_rwlock_t);
    write pthread_rwlock_timedwrlock(lock: *mut pthread_rwlock_t, time: *const timespec);
    write pthread_rwlock_clockwrlock(
        lock: *mut pthread_rwlock_t, clock: libc::clockid_t, time: *const timespec
    );
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

/// Defines waits of POSIX and C11, which release the mutex and take it again.
macro_rules! waits {
    ($($name:ident $(@ $version:literal)? ($of:ty, $with:ty $(, $arg:ident: $type:ty)*);)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            condition: *mut $of, mutex: *mut $with $(, $arg: $type)*
        ) -> c_int {
            let real = real!(
                $name $(@ $version)?,
                unsafe extern "C-unwind" fn(*mut $of, *mut $with $(, $type)*) -> c_int
            );
            before(mutex);
            // SAFETY: the caller's arguments satisfy the contract of libc's function of this name.
            let result = unsafe { real(condition, mutex $(, $arg)*) };
            after(mutex);
            result
        }
    )* };
}

// GLIBC_2.3.2 is the current version of conditions; older ones are for old binaries.
waits! {
    pthread_cond_wait @ c"GLIBC_2.3.2"(pthread_cond_t, pthread_mutex_t);
    pthread_cond_timedwait @ c"GLIBC_2.3.2"(pthread_cond_t, pthread_mutex_t, time: *const timespec);
    pthread_cond_clockwait @ c"GLIBC_2.3.2"(
        pthread_cond_t, pthread_mutex_t, clock: libc::clockid_t, time: *const timespec
    );
    cnd_wait(c_void, c_void);
    cnd_timedwait(c_void, c_void, time: *const timespec);
}

/// A function of a thread, which returns a pointer or, of C11, a number.
type Function<R> = extern "C-unwind" fn(*mut c_void) -> R;

/// The function and data of a new thread. Its address is the one at which the creator notifies.
struct Start<R> {
    function: Function<R>,
    data: *mut c_void,
}

extern "C-unwind" fn begin<R>(start: *mut c_void) -> R {
    after(start);
    // Freed before the function runs, so that the address can be reused.
    // SAFETY: `create` below created it with `Box::into_raw` for this thread alone.
    let Start { function, data } = *unsafe { Box::from_raw(start.cast::<Start<R>>()) };
    notify_end_later();
    let result = function(data);
    before(own() as *const c_void);
    result
}

/// Creates a thread by a call of the C library with a function and its data, which returns 0 if
/// there is one.
fn create<R>(
    function: Function<R>,
    data: *mut c_void,
    call: impl FnOnce(Function<R>, *mut c_void) -> c_int,
) -> c_int {
    let start = Box::into_raw(Box::new(Start { function, data })).cast::<c_void>();
    before(start);
    let result = call(begin::<R>, start);
    if result != 0 {
        // SAFETY: no thread was created, so the box of `Box::into_raw` above is still ours.
        drop(unsafe { Box::from_raw(start.cast::<Start<R>>()) });
    }
    result
}

/// Notifies the end of this thread after the destructors of its variables, and however it ends.
fn notify_end_later() {
    /// PTHREAD_DESTRUCTOR_ITERATIONS of limits.h.
    const ROUNDS: usize = 4;
    extern "C" fn destroy(round: *mut c_void) {
        if round.addr() < ROUNDS {
            arm(round.addr() + 1);
        } else {
            before(own() as *const c_void);
        }
    }
    fn arm(round: usize) {
        static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
        let key = KEY.get_or_init(|| {
            let mut key = 0;
            // SAFETY: `key` is writable. `destroy` may run on every thread: libraries that are
            // preloaded are never unloaded.
            let result = unsafe { libc::pthread_key_create(&mut key, Some(destroy)) };
            (result == 0).then_some(key)
        });
        if let Some(key) = key {
            // SAFETY: the key was created above and is never deleted.
            unsafe { libc::pthread_setspecific(*key, std::ptr::without_provenance(round)) };
        }
    }
    // The C library calls destructors in rounds while they set values. The last one comes after
    // those of the program.
    arm(1);
}

fn own() -> pthread_t {
    // SAFETY: `pthread_self` has no preconditions.
    unsafe { libc::pthread_self() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    function: Function<*mut c_void>,
    data: *mut c_void,
) -> c_int {
    type Create = unsafe extern "C-unwind" fn(
        *mut pthread_t,
        *const pthread_attr_t,
        Function<*mut c_void>,
        *mut c_void,
    ) -> c_int;
    let real = real!(pthread_create, Create);
    // SAFETY: the caller's arguments satisfy the contract of the C library; `begin` calls the
    // caller's function with its data, once.
    create(function, data, |begin, start| unsafe { real(thread, attributes, begin, start) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn thrd_create(
    thread: *mut pthread_t,
    function: Function<c_int>,
    data: *mut c_void,
) -> c_int {
    type Create =
        unsafe extern "C-unwind" fn(*mut pthread_t, Function<c_int>, *mut c_void) -> c_int;
    let real = real!(thrd_create, Create);
    // SAFETY: as for `pthread_create`.
    create(function, data, |begin, start| unsafe { real(thread, begin, start) })
}

/// Notifies the end of a thread, like a return of its function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_exit(value: *mut c_void) -> ! {
    let real = real!(pthread_exit, unsafe extern "C-unwind" fn(*mut c_void) -> !);
    before(own() as *const c_void);
    // SAFETY: the caller's arguments satisfy the contract of the C library's function of this name.
    unsafe { real(value) }
}

/// The same for threads of C11.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn thrd_exit(result: c_int) -> ! {
    let real = real!(thrd_exit, unsafe extern "C-unwind" fn(c_int) -> !);
    before(own() as *const c_void);
    // SAFETY: passes on what the caller passed.
    unsafe { real(result) }
}

macro_rules! joins {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(thread: pthread_t $(, $arg: $type)*) -> c_int {
            let real = real!(
$name, unsafe extern "C-unwind" fn(pthread_t $(, $type)*) -> c_int);
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

/// Runs a function once. C++ lets exceptions pass through it.
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
    // SAFETY: the caller's control satisfies the contract of the C library; `run_once` calls the
    // caller's function from `ONCE`, on this thread.
    let result = unsafe { real(control, run_once) };
    ONCE.set(outer);
    after(control);
    result
}

/// The same of C11.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn call_once(control: *mut c_int, function: extern "C-unwind" fn()) {
    // SAFETY: the caller's arguments satisfy the contract; the C library has one form of control.
    unsafe { pthread_once(control, function) };
}

thread_local! {
    /// The control and the function of the innermost `pthread_once` of this thread.
    static ONCE: Cell<(*mut c_int, Option<extern "C-unwind" fn()>)> =
        const { Cell::new((std::ptr::null_mut(), None)) };
}

/// Runs the function and notifies before `pthread_once` releases other threads.
extern "C-unwind" fn run_once() {
    let (control, function) = ONCE.get();
    if let Some(function) = function {
        function();
    }
    before(control);
}
