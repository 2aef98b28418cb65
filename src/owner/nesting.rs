//! Bounds how deep the destruction of owners nests.
//!
//! An owner may hold another one, which is released when it is destroyed. A thread runs up to
//! [`DEEPEST`] destructions inside one another: each owner is destroyed where it is released, as a
//! member of a C++ object. So that a longer chain does not take stack for each of its links, owners
//! that are released in the deepest destruction wait in a list, which that destruction empties in a
//! loop before it ends. `cai::make_owner` of `cai/abi.hpp` follows the same rule, with a variable
//! of its own; a chain of both takes the stack of both.
//!
//! A `destroy` may leave the library by `longjmp` (which the header calls undefined), by an
//! exception, or by the end of its thread. The last two unwind the stack, which ends the
//! destructions. The first skips that: a destruction whose stack frame is not below that of the
//! outermost one finds that none runs any more.
//!
//! Nothing is allocated. A link of the list lies in the waiting owner itself, and the thread's
//! variable in the block that each thread has from its start: where memory has run out, the first
//! use of a variable in a block that is made on demand would end the process.

use std::ptr::{self, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::count::Count;
use super::reserve::Reserve;
use crate::abi::{cai_owner, cai_owner_ops};

/// Head of all of the library's own owners.
#[repr(C)]
pub struct Header {
    pub(super) base: cai_owner,
    pub(super) count: Count,
    /// Runs when the last reference was released; frees the memory, at once or, if
    /// [`release_before`] returned false, when it is called again.
    pub(super) destroy: unsafe fn(*mut Header),
    /// Memory for the release of a reference.
    pub(super) reserve: Reserve,
}

/// Destructions inside one another, as in `cai/abi.hpp`.
const DEEPEST: u64 = 64;

/// One destruction in [`Thread::running`]: above all addresses of stack frames.
const ONE: u64 = 1 << 56;

/// The state of a thread's destructions.
#[repr(C)]
struct Thread {
    /// Number that run inside one another, times [`ONE`], and the address of the stack frame of the
    /// outermost one; 0: none runs. In one word, because the memory for the variables of threads
    /// is scarce in a process that loads many copies of the library.
    running: u64,
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

    /// Returns the address of the calling function's stack frame. Not that of a local variable,
    /// which an address sanitizer may place elsewhere.
    #[inline(always)]
    pub fn frame() -> u64 {
        let frame;
        // SAFETY: reads the stack pointer.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!("mov {}, rsp", out(reg) frame, options(nomem, nostack, preserves_flags));
            #[cfg(target_arch = "aarch64")]
            asm!("mov {}, sp", out(reg) frame, options(nomem, nostack, preserves_flags));
        }
        frame
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
            const { UnsafeCell::new(Thread { running: 0, waiting: std::ptr::null_mut() }) };
    }

    /// Returns an address in the calling function's stack frame.
    #[inline(always)]
    pub fn frame() -> u64 {
        let local = 0_u8;
        (&raw const local).addr() as u64
    }

    #[inline(always)]
    pub fn address() -> *mut Thread {
        THREAD.with(UnsafeCell::get)
    }
}

/// Guard for one running destruction; its Drop also runs when the stack is unwound.
struct Level {
    thread: *mut Thread,
    /// Number of destructions that this one runs in.
    outer: u64,
}

impl Drop for Level {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the thread's own variable; no reference to it exists.
        unsafe {
            if self.outer > 0 {
                // One less. Not more than there were before this one: `longjmp` skips the end of
                // those inside it. Not more than now either: a thread that switches stacks in a
                // destruction can end an outer one first.
                let running = (*self.thread).running;
                let less = (running / ONE).saturating_sub(1).min(self.outer);
                (*self.thread).running = running % ONE + less * ONE;
                return;
            }
            (*self.thread).running = 0;
            let waiting = (*self.thread).waiting;
            if !waiting.is_null() {
                // Only a destruction that was unwound leaves anything in the list.
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

/// Destroys an owner now, or queues it if [`DEEPEST`] destructions run in this thread.
///
/// # Safety
/// The last reference to the owner was given up. The calling function has a stack frame of its own
/// for each destruction: it is not inlined.
#[inline(always)]
pub unsafe fn destroy(header: *mut Header) {
    let thread = variable::address();
    let frame = variable::frame();
    // SAFETY: the thread's own variable; the owner is given up (this function's contract).
    unsafe {
        let running = (*thread).running;
        let (mut outer, mut outermost) = (running / ONE, running % ONE);
        // A stack grows downwards: this destruction runs in others only if its frame is below.
        if frame >= outermost {
            #[cfg(debug_assertions)]
            if outer != 0 {
                report_left();
            }
            (outer, outermost) = (0, frame);
        } else if outer >= DEEPEST {
            wait(thread, header);
            return;
        }
        (*thread).running = outermost + (outer + 1) * ONE;
        let level = Level { thread, outer };
        ((*header).destroy)(header);
        if (outer == 0 || outer == DEEPEST - 1)
            && (!(*thread).waiting.is_null() || !ABANDONED.load(Ordering::Relaxed).is_null())
        {
            destroy_waiting(thread);
        }
        drop(level);
    }
}

/// Reports that a destruction was left by `longjmp`, or that the thread has switched to another
/// stack in it.
#[cfg(debug_assertions)]
#[cold]
fn report_left() {
    // Miri's stack frames are in no order.
    if !cfg!(miri) {
        use std::io::Write as _;
        let _ = std::io::stderr().write_all(
            b"libcai: a destroy function did not return: it was left by longjmp, which is \
              undefined, or its thread has switched to another stack\n",
        );
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
        // SAFETY: `last` is in the list, which is given up (this function's contract).
        unsafe { link(last).write(head) };
        // Release: see `destroy_waiting`.
        match ABANDONED.compare_exchange_weak(head, first, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// Puts an owner into the thread's list.
///
/// # Safety
/// `thread` is the calling thread's variable; nothing else refers to the owner.
unsafe fn wait(thread: *mut Thread, header: *mut Header) {
    // SAFETY: the thread's own variable; the owner is given up (this function's contract).
    unsafe {
        link(header).write((*thread).waiting);
        (*thread).waiting = header;
    }
}

/// The rest of a destruction, in front of which another owner is released.
struct Rest {
    thread: *mut Thread,
    header: *mut Header,
    /// The list from before the release.
    before: *mut Header,
}

impl Drop for Rest {
    /// Runs where the release was unwound: what it has added to the list comes first, then the
    /// rest, then the list from before.
    fn drop(&mut self) {
        // SAFETY: the thread's own variable. The owners in both lists and `header` are given up,
        // and nothing else refers to them.
        unsafe {
            link(self.header).write(self.before);
            append((&raw mut (*self.thread).waiting), self.header);
        }
    }
}

/// Adds `rest` at the end of a list.
///
/// # Safety
/// `list` begins a list of owners that nothing else refers to, and so does `rest`.
unsafe fn append(mut list: *mut *mut Header, rest: *mut Header) {
    // SAFETY: nothing else refers to the owners of `list` (this function's contract), and the last
    // link is NULL.
    unsafe {
        while !(*list).is_null() {
            list = link(*list);
        }
        list.write(rest);
    }
}

/// Releases what an owner that is being destroyed holds, by calling `release`. Returns true if all
/// of it is destroyed. Otherwise, the `destroy` of the owner runs again when it is, and the caller
/// returns.
///
/// # Safety
/// Called in the destruction of the owner, which nothing else refers to.
pub unsafe fn release_before(header: *mut Header, release: impl FnOnce()) -> bool {
    let thread = variable::address();
    // SAFETY: the thread's own variable; no reference to it exists.
    let before = unsafe { ptr::replace(&raw mut (*thread).waiting, null_mut()) };
    let rest = Rest { thread, header, before };
    release();
    // SAFETY: the thread's own variable; no reference to it exists.
    if unsafe { (*thread).waiting }.is_null() {
        std::mem::forget(rest);
        // SAFETY: the thread's own variable; no reference to it exists.
        unsafe { (*thread).waiting = before };
        return true;
    }
    drop(rest);
    false
}
