//! Tasks of OpenMP: their start, their end, and what waits for it.
//!
//! A task comes after its creation, and after tasks on which it depends. Its end comes before
//! the next `taskwait` of its parent, the end of its group, and the next barrier. `libgomp`
//! copies what a task is given; here a header precedes the copy. Not observed: `taskloop`,
//! `detach`.

use crate::checker::{Kind, after_key, before, before_key, key};
use crate::next::real;
use crate::openmp::{Body, GROUPS, Here, SyncPoint, after_point, before_point, here, set_here};
use libc::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

type Copy = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void);

/// Dependences of one task that are observed.
const DEPENDENCES: usize = 8;

/// An object on which tasks depend.
#[derive(Clone, Copy)]
struct Dependence {
    address: u64,
    writes: bool,
}

impl Dependence {
    fn written(&self) -> usize {
        key(Kind::Written, self.address)
    }

    fn read(&self) -> usize {
        key(Kind::Read, self.address)
    }

    fn begins(&self) {
        after_key(self.written());
        if self.writes {
            after_key(self.read());
        }
    }

    fn ends(&self) {
        before_key(if self.writes { self.written() } else { self.read() });
    }
}

/// Header in front of the copy of a task's data. The creator notifies at its address.
#[derive(Clone, Copy)]
struct Header {
    function: Body,
    /// Bytes from here to the data.
    offset: usize,
    /// Position at which it was created.
    creator: Here,
    dependences: [Option<Dependence>; DEPENDENCES],
}

/// What `libgomp` is given to copy.
struct Source {
    header: Header,
    data: *mut c_void,
    copy: Option<Copy>,
    size: usize,
}

/// Copies a header and data. Called on the thread that creates the task.
unsafe extern "C-unwind" fn copy(to: *mut c_void, source: *mut c_void) {
    // SAFETY: `GOMP_task` below passed its source, and space for the header, aligned at
    // least to 16, and for the data.
    unsafe {
        let source = &*source.cast::<Source>();
        to.cast::<Header>().write(source.header);
        let data = to.byte_add(source.header.offset);
        match source.copy {
            Some(copy) => copy(data, source.data),
            None => ptr::copy_nonoverlapping(source.data.cast::<u8>(), data.cast(), source.size),
        }
    }
    before(to);
}

unsafe extern "C-unwind" fn run(task: *mut c_void) {
    // SAFETY: `copy` wrote it.
    let header = unsafe { task.cast::<Header>().read() };
    let outer = here();
    let creator = header.creator;
    let group = creator.groups[creator.depth.saturating_sub(1).min(creator.groups.len() - 1)];
    let mut groups = [0; GROUPS];
    groups[0] = group;
    set_here(Here { region: creator.region, task: task.cast(), groups, depth: 1, ..outer });
    let dependences = header.dependences.iter().flatten();
    after_point(task.cast());
    dependences.clone().for_each(Dependence::begins);
    // SAFETY: the data is behind the header, and the function is the task's.
    unsafe { (header.function)(task.byte_add(header.offset)) };
    dependences.for_each(Dependence::ends);
    before_point(children(creator.task));
    before_point(creator.point(SyncPoint::Tasks));
    if group != 0 {
        before_key(group);
    }
    set_here(outer);
}

/// Returns the address at which the children of a task notify.
fn children(task: *const u8) -> *const u8 {
    if task.is_null() { task } else { task.wrapping_add(1) }
}

/// Returns dependences in the form of the compiler.
///
/// # Safety
/// `list` is NULL or such a list.
unsafe fn dependences(list: *const usize) -> [Option<Dependence>; DEPENDENCES] {
    let mut found = [None; DEPENDENCES];
    if list.is_null() {
        return found;
    }
    // SAFETY: a list begins with its length and the number of those that are written. If the
    // first is 0, with another form, of five numbers.
    unsafe {
        let at = |index: usize| *list.add(index);
        let (count, writes, reads, first) = match at(0) {
            0 => (at(1), at(2) + at(3), at(4), 5),
            count => (count, at(1), count - at(1), 2),
        };
        for (index, slot) in found.iter_mut().enumerate().take(count) {
            let address = at(first + index);
            // The last ones of the second form are objects that contain the address.
            let is_object = index >= writes + reads;
            let address = if is_object { *(address as *const usize) } else { address };
            let writes = index < writes || is_object;
            *slot = Some(Dependence { address: address as u64, writes });
        }
    }
    found
}

const DEPEND: u32 = 1 << 3;
const DETACH: u32 = 1 << 13;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GOMP_task(
    function: Body,
    data: *mut c_void,
    copy_data: Option<Copy>,
    size: usize,
    align: usize,
    is_deferred: bool,
    flags: u32,
    depend: *const usize,
    priority: usize,
    detach: usize,
) {
    type Task = unsafe extern "C-unwind" fn(
        Body,
        *mut c_void,
        Option<Copy>,
        usize,
        usize,
        bool,
        u32,
        *const usize,
        usize,
        usize,
    );
    let real = real!(GOMP_task, Task);
    if flags & DETACH != 0 {
        // SAFETY: passes on what the caller passed.
        return unsafe {
            real(
                function,
                data,
                copy_data,
                size,
                align,
                is_deferred,
                flags,
                depend,
                priority,
                detach,
            )
        };
    }
    let list = if flags & DEPEND != 0 { depend } else { ptr::null() };
    let align = align.max(16);
    let offset = size_of::<Header>().next_multiple_of(align);
    // SAFETY: the flag says that there is a list.
    let dependences = unsafe { dependences(list) };
    let header = Header { function, offset, creator: here(), dependences };
    let source = Source { header, data, copy: copy_data, size };
    let source = (&raw const source).cast_mut().cast();
    let whole = offset + size;
    // SAFETY: `libgomp` calls `copy` before it returns, with space of this size and
    // alignment, and `run` with the copy.
    unsafe {
        real(run, source, Some(copy), whole, align, is_deferred, flags, depend, priority, detach);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GOMP_taskwait() {
    let real = real!(GOMP_taskwait, unsafe extern "C-unwind" fn());
    // SAFETY: called where the caller called it.
    unsafe { real() };
    after_point(children(here().task));
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GOMP_taskwait_depend(depend: *const usize) {
    let real = real!(GOMP_taskwait_depend, unsafe extern "C-unwind" fn(*const usize));
    // SAFETY: passes on what the caller passed.
    unsafe { real(depend) };
    // SAFETY: the caller passed a list.
    unsafe { dependences(depend) }.iter().flatten().for_each(Dependence::begins);
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GOMP_taskgroup_start() {
    let real = real!(GOMP_taskgroup_start, unsafe extern "C-unwind" fn());
    // SAFETY: called where the caller called it.
    unsafe { real() };
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    let mut here = here();
    if let Some(slot) = here.groups.get_mut(here.depth) {
        // So many that the checker's memory is bounded.
        *slot = key(Kind::TaskGroup, NUMBERS.fetch_add(1, Ordering::Relaxed) & 0xffff);
    }
    here.depth += 1;
    set_here(here);
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GOMP_taskgroup_end() {
    let real = real!(GOMP_taskgroup_end, unsafe extern "C-unwind" fn());
    // SAFETY: called where the caller called it.
    unsafe { real() };
    let mut here = here();
    here.depth = here.depth.saturating_sub(1);
    let innermost = here.groups[here.depth.min(here.groups.len() - 1)];
    if innermost != 0 {
        after_key(innermost);
    }
    set_here(here);
}
