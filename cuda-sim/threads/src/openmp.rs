//! OpenMP as GCC compiles it: parallel regions, barriers, critical sections, ordered loops, locks.
//!
//! `libgomp` waits without the C library, so its own functions are replaced. Arguments that a
//! function does not have are passed on nevertheless: in registers or above the return address.

use crate::checker::{after, before};
use crate::next::real;
use libc::c_void;
use std::cell::Cell;
use std::ptr;

/// Body of a parallel region or a task, as the compiler outlines it.
pub type Body = unsafe extern "C-unwind" fn(*mut c_void);

/// A parallel region while it runs, in the frame of the function that began it.
pub struct Region {
    function: Body,
    data: *mut c_void,
    /// Addresses at which threads notify.
    points: [u8; 6],
}

/// Points of a region at which threads order their work.
#[derive(Clone, Copy)]
pub enum SyncPoint {
    Begin,
    End,
    /// Barriers by turns: while some threads still leave one, others may reach the next.
    Barrier,
    NextBarrier,
    Ordered,
    Tasks,
}

/// Nested groups of tasks that are distinguished.
pub const GROUPS: usize = 4;

/// Position of a thread in its regions and tasks.
#[derive(Clone, Copy)]
pub struct Here {
    pub region: *const Region,
    pub barriers: usize,
    /// The current task: the address at which its children notify.
    pub task: *const u8,
    /// Keys of the groups of tasks that the task began, after that in which it is itself.
    pub groups: [usize; GROUPS],
    pub depth: usize,
}

thread_local! {
    static HERE: Cell<Here> = const { Cell::new(Here {
        region: ptr::null(), barriers: 0, task: ptr::null(), groups: [0; GROUPS], depth: 0,
    }) };
}

/// Returns where this thread is.
pub fn here() -> Here {
    HERE.get()
}

pub fn set_here(here: Here) {
    HERE.set(here);
}

impl Here {
    /// Returns a point of the region. NULL outside.
    pub fn point(&self, point: SyncPoint) -> *const u8 {
        // SAFETY: the region is in the frame of the function that began it and that
        // waits for this thread.
        let region = unsafe { self.region.as_ref() };
        region.map_or(ptr::null(), |region| &raw const region.points[point as usize])
    }
}

/// [`before`], unless there is no such point.
pub fn before_point(point: *const u8) {
    if !point.is_null() {
        before(point);
    }
}

/// [`after`], unless there is no such point.
pub fn after_point(point: *const u8) {
    if !point.is_null() {
        after(point);
    }
}

/// Runs in each thread of a region.
unsafe extern "C-unwind" fn member(region: *mut c_void) {
    let region = region.cast_const().cast::<Region>();
    let task = 0_u8;
    let inside = Here { region, barriers: 0, task: &raw const task, groups: [0; GROUPS], depth: 0 };
    let outer = HERE.replace(inside);
    after_point(inside.point(SyncPoint::Begin));
    // SAFETY: the region is alive until all threads are done; its function gets its data.
    unsafe { ((*region).function)((*region).data) };
    before_point(inside.point(SyncPoint::End));
    HERE.set(outer);
}

/// Defines functions that run a parallel region and have up to seven more arguments.
macro_rules! regions {
    ($($name:ident;)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            function: Body, data: *mut c_void, c: usize, d: usize, e: usize, f:
            usize, g: usize, h: usize
        ) -> usize {
            type Run = unsafe extern "C-unwind" fn(
                Body, *mut c_void, usize, usize, usize, usize, usize, usize
            ) -> usize;
            let real = real!($name, Run);
            let region = Region { function, data, points: [0; 6] };
            let inside = Here { region: &raw const region, ..here() };
            before_point(inside.point(SyncPoint::Begin));
            let region = (&raw const region).cast_mut().cast();
            // SAFETY: the region is alive until the function returns, which waits for its threads.
            let result = unsafe { real(member, region, c, d, e, f, g, h) };
            after_point(inside.point(SyncPoint::End));
            after_point(inside.point(SyncPoint::Tasks));
            result
        }
    )* };
}

regions! {
    GOMP_parallel;
    GOMP_parallel_reductions;
    GOMP_parallel_sections;
    GOMP_parallel_loop_static;
    GOMP_parallel_loop_dynamic;
    GOMP_parallel_loop_guided;
    GOMP_parallel_loop_runtime;
    GOMP_parallel_loop_nonmonotonic_dynamic;
    GOMP_parallel_loop_nonmonotonic_guided;
    GOMP_parallel_loop_nonmonotonic_runtime;
    GOMP_parallel_loop_maybe_nonmonotonic_runtime;
}

/// Returns the point of the next barrier of this thread.
fn barrier() -> *const u8 {
    let here = here();
    here.point(if here.barriers % 2 == 0 { SyncPoint::Barrier } else { SyncPoint::NextBarrier })
}

fn leave_barrier() {
    after_point(barrier());
    let here = here();
    after_point(here.point(SyncPoint::Tasks));
    HERE.set(Here { barriers: here.barriers + 1, ..here });
}

/// Defines functions that are, or contain, a barrier.
macro_rules! barriers {
    ($($name:ident;)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(argument: usize) -> usize {
            let real = real!($name, unsafe extern "C-unwind" fn(usize) -> usize);
            before_point(barrier());
            // SAFETY: passes on what the caller passed.
            let result = unsafe { real(argument) };
            leave_barrier();
            result
        }
    )* };
}

barriers! {
    GOMP_barrier;
    GOMP_barrier_cancel;
    GOMP_loop_end;
    GOMP_loop_end_cancel;
    GOMP_sections_end;
    GOMP_sections_end_cancel;
    GOMP_workshare_task_reduction_unregister;
    // The first thread passes on what it computed to the others.
    GOMP_single_copy_end;
}

/// Returns NULL to the first thread. The others wait for it.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GOMP_single_copy_start() -> *mut c_void {
    let real = real!(GOMP_single_copy_start, unsafe extern "C-unwind" fn() -> *mut c_void);
    before_point(barrier());
    // SAFETY: called where the caller called it.
    let result = unsafe { real() };
    if !result.is_null() {
        leave_barrier();
    }
    result
}

/// The points of locks without an address.
static CRITICAL: [u8; 2] = [0; 2];

/// Defines functions that take a lock, those that try to, and those that release one. Each has
/// the point of its lock.
macro_rules! locks {
    ($($kind:ident $name:ident at |$argument:ident| $point:expr;)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($argument: *const u8) -> usize {
            let real = real!($name, unsafe extern "C-unwind" fn(*const u8) -> usize);
            locks!(@$kind real, $argument, $point)
        }
    )* };
    (@acquire $real:ident, $argument:ident, $point:expr) => {{
        // SAFETY: passes on what the caller passed.
        let result = unsafe { $real($argument) };
        after_point($point);
        result
    }};
    (@try $real:ident, $argument:ident, $point:expr) => {{
        // SAFETY: passes on what the caller passed.
        let result = unsafe { $real($argument) };
        // An `int`.
        if result as u32 != 0 {
            after_point($point);
        }
        result
    }};
    (@release $real:ident, $argument:ident, $point:expr) => {{
        before_point($point);
        // SAFETY: passes on what the caller passed.
        unsafe { $real($argument) }
    }};
}

locks! {
    acquire GOMP_critical_start at |_none| &raw const CRITICAL[0];
    release GOMP_critical_end at |_none| &raw const CRITICAL[0];
    acquire GOMP_critical_name_start at |name| name;
    release GOMP_critical_name_end at |name| name;
    acquire GOMP_atomic_start at |_none| &raw const CRITICAL[1];
    release GOMP_atomic_end at |_none| &raw const CRITICAL[1];
    acquire GOMP_ordered_start at |_none| here().point(SyncPoint::Ordered);
    release GOMP_ordered_end at |_none| here().point(SyncPoint::Ordered);
    acquire omp_set_lock at |lock| lock;
    try omp_test_lock at |lock| lock;
    release omp_unset_lock at |lock| lock;
    acquire omp_set_nest_lock at |lock| lock;
    try omp_test_nest_lock at |lock| lock;
    release omp_unset_nest_lock at |lock| lock;
}
