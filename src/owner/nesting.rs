//! Bounds how deep the destruction of owners nests.
//!
//! May use: `abi`, `owner::count`, `owner::reserve`.
//! Unsafe: a variable of each thread, and owners that nothing else refers to.
//!
//! An owner may hold another one, which is released when it is destroyed. So a chain of owners
//! would take stack for each of its links. Here, a thread destroys [`DEEPEST`] owners inside one
//! another; further ones wait in a list of the thread, from which the outermost destruction takes
//! them in a loop. The last one in is the first one out: whatever an owner waits for was added
//! after it.
//!
//! Nothing is allocated. A link of the list lies in the waiting owner itself, and the thread's
//! variable in the block that each thread has from its start: where memory has run out, the first
//! use of a variable in a block that is made on demand would end the process.

use std::ptr::{self, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::count::Count;
use super::reserve::Reserve;
use crate::abi::{cai_owner, cai_owner_ops};

/// What all of the library's own owners begin with.
#[repr(C)]
pub struct Header {
    pub(super) base: cai_owner,
    pub(super) count: Count,
    /// Runs when the last reference was released; frees the memory, at once or, after
    /// [`wait`], when it is called again.
    pub(super) destroy: unsafe fn(*mut Header),
    /// Memory for the release of a reference.
    pub(super) reserve: Reserve,
}

/// Destructions inside one another.
const DEEPEST: usize = 8;

/// The state of a thread's destructions.
#[repr(C)]
struct Thread {
    /// How many run inside one another.
    depth: usize,
    /// Owners that wait for their destruction.
    waiting: *mut Header,
}

/// Owners that waited in threads which have ended since.
static ABANDONED: AtomicPtr<Header> = AtomicPtr::new(null_mut());

/// The thread's own variable. Miri executes no assembly.
#[cfg(all(
    not(miri),
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod variable {
    use crate::owner::nesting::Thread;
    use std::arch::{asm, global_asm};

    const _: () = assert!(size_of::<Thread>() == 16 && align_of::<Thread>() == 8);

    global_asm!(
        ".pushsection .tbss.cai_private_nesting,\"awT\",@nobits",
        ".globl cai_private_nesting",
        ".hidden cai_private_nesting",
        ".type cai_private_nesting, @object",
        ".size cai_private_nesting, 16",
        ".p2align 3",
        "cai_private_nesting:",
        ".zero 16",
        ".popsection",
    );

    #[inline(always)]
    pub fn address() -> *mut Thread {
        let address;
        // SAFETY: computes the address of the variable above, as the ABI for thread-local variables
        // has it ("initial exec"). It is the same for the whole life of a thread.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!(
                "mov {address}, qword ptr fs:[0]",
                "add {address}, qword ptr [rip + cai_private_nesting@GOTTPOFF]",
                address = out(reg) address,
                options(pure, nomem, nostack),
            );
            #[cfg(target_arch = "aarch64")]
            asm!(
                "mrs {address}, tpidr_el0",
                "adrp {offset}, :gottprel:cai_private_nesting",
                "ldr {offset}, [{offset}, :gottprel_lo12:cai_private_nesting]",
                "add {address}, {address}, {offset}",
                address = out(reg) address,
                offset = out(reg) _,
                options(pure, nomem, nostack),
            );
        }
        address
    }
}

#[cfg(not(all(
    not(miri),
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
mod variable {
    use crate::owner::nesting::Thread;
    use std::cell::UnsafeCell;

    thread_local! {
        // Without a destructor, so that it can be used for the whole life of a thread.
        static THREAD: UnsafeCell<Thread> =
            const { UnsafeCell::new(Thread { depth: 0, waiting: std::ptr::null_mut() }) };
    }

    #[inline(always)]
    pub fn address() -> *mut Thread {
        THREAD.with(UnsafeCell::get)
    }
}

/// A destruction that runs. Ends with it, also where the thread ends in it.
struct Level {
    thread: *mut Thread,
}

impl Drop for Level {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the thread's own variable; no reference to it exists.
        let waiting = unsafe {
            (*self.thread).depth -= 1;
            (*self.thread).waiting
        };
        // SAFETY: as above.
        if !waiting.is_null() && unsafe { (*self.thread).depth } == 0 {
            // SAFETY: as above. Only a thread that ends leaves anything in its list.
            unsafe {
                (*self.thread).waiting = null_mut();
                abandon(waiting);
            }
        }
    }
}

/// The link of a waiting owner takes the place of its table, which is not used any more.
///
/// # Safety
/// `header` is an owner in a list, or about to be.
#[inline]
unsafe fn link(header: *mut Header) -> *mut *mut Header {
    // SAFETY: in memory of the owner's, which nothing else refers to.
    unsafe { (&raw mut (*header).base.ops).cast::<*mut Header>() }
}

const _: () = assert!(size_of::<*const cai_owner_ops>() == size_of::<*mut Header>());

/// Destroys an owner, now or when the destructions that run in this thread have come to it.
///
/// # Safety
/// The last reference to the owner was given up.
#[inline]
pub unsafe fn destroy(header: *mut Header) {
    let thread = variable::address();
    // SAFETY: the thread's own variable; the owner is given up (this function's contract).
    unsafe {
        if (*thread).depth >= DEEPEST {
            wait(header);
            return;
        }
        (*thread).depth += 1;
        let level = Level { thread };
        ((*header).destroy)(header);
        if (*thread).depth == 1
            && (!(*thread).waiting.is_null() || !ABANDONED.load(Ordering::Relaxed).is_null())
        {
            destroy_waiting(thread);
        }
        drop(level);
    }
}

/// Destroys what waits in this thread, and what other threads left.
///
/// # Safety
/// `thread` is the calling thread's variable.
#[cold]
#[inline(never)]
unsafe fn destroy_waiting(thread: *mut Thread) {
    loop {
        // SAFETY: the thread's own variable; owners in its list are not used elsewhere.
        unsafe {
            let first = (*thread).waiting;
            if first.is_null() {
                // Acquire: what the other thread did with the owners comes before their
                // destruction.
                (*thread).waiting = ABANDONED.swap(null_mut(), Ordering::Acquire);
                if (*thread).waiting.is_null() {
                    return;
                }
                continue;
            }
            (*thread).waiting = link(first).read();
            ((*first).destroy)(first);
        }
    }
}

/// Leaves a list to the next thread that destroys an owner.
///
/// # Safety
/// `first` begins a list of owners that nothing else refers to.
#[cold]
#[inline(never)]
unsafe fn abandon(first: *mut Header) {
    let mut last = first;
    // SAFETY: the list is given up (this function's contract).
    while let Some(next) = ptr::NonNull::new(unsafe { link(last).read() }) {
        last = next.as_ptr();
    }
    let mut head = ABANDONED.load(Ordering::Relaxed);
    loop {
        // SAFETY: as above.
        unsafe { link(last).write(head) };
        // Release: see `destroy_waiting`.
        match ABANDONED.compare_exchange_weak(head, first, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// Puts an owner that is being destroyed into the thread's list: its `destroy` runs again when all
/// owners that are added after it are destroyed.
///
/// # Safety
/// Called in the destruction of the owner, which nothing else refers to.
pub unsafe fn wait(header: *mut Header) {
    let thread = variable::address();
    // SAFETY: the thread's own variable; the owner is given up (this function's contract).
    unsafe {
        link(header).write((*thread).waiting);
        (*thread).waiting = header;
    }
}

/// Takes an owner out of the list again. `false`: others were added after it, and it has to wait
/// for them.
///
/// # Safety
/// The calling thread has called [`wait`] with the owner, in the same destruction.
pub unsafe fn is_next(header: *mut Header) -> bool {
    let thread = variable::address();
    // SAFETY: the thread's own variable; the owner is still in the list, because only the outermost
    // destruction takes owners out, and this one runs inside it.
    unsafe {
        if (*thread).waiting != header {
            return false;
        }
        (*thread).waiting = link(header).read();
    }
    true
}
