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
//! Nothing is allocated, if the thread's variable lies in the block that each thread has from its
//! start: where memory has run out, the first use of a variable in a block that is made on demand
//! ends the process. That block has no room if the library is loaded late, into a process with many
//! others; a descriptor then finds the variable elsewhere, where "initial exec" refuses to load.

use std::cell::Cell;

use super::context::KnownContext;
use super::count::Count;
use super::given_up::{GivenUp, List, Shared};
use super::reference::Ref;
use super::reserve::Reserve;
use crate::abi::cai_owner;

/// Head of all of the library's own owners.
#[repr(C)]
pub struct Header {
    pub(super) base: cai_owner,
    pub(super) count: Count,
    /// Runs when the last reference was released; frees the memory, at once or, if
    /// [`release_before`] kept the owner, when it is called again. It takes the owners that have it.
    pub(super) destroy: unsafe fn(GivenUp),
    /// The context of the memory that it keeps alive.
    pub(super) context: KnownContext,
    /// Memory for the release of a reference.
    pub(super) reserve: Reserve,
}

/// Destructions inside one another, as in `cai/abi.hpp`.
const DEEPEST: u64 = 64;

/// One destruction in [`Thread::running`]: above all addresses of stack frames.
const ONE: u64 = 1 << 56;

#[repr(C)]
pub struct Thread {
    /// Number that run inside one another, times [`ONE`], and the address of the stack frame of the
    /// outermost one; 0: none runs. In one word, because the memory for the variables of threads
    /// is scarce in a process that loads many copies of the library.
    running: Cell<u64>,
    /// Owners that wait for their destruction.
    waiting: Cell<List>,
}

impl Thread {
    /// Looks at the owners that wait, or changes them.
    #[inline(always)]
    fn waiting<R>(&self, body: impl FnOnce(&mut List) -> R) -> R {
        let mut list = self.waiting.take();
        let result = body(&mut list);
        self.waiting.set(list);
        result
    }
}

/// Owners that waited in threads which have ended since.
static ABANDONED: Shared = Shared::new();

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
    pub fn with<R>(body: impl FnOnce(&Thread) -> R) -> R {
        let address: *const Thread;
        // SAFETY: computes the address of the variable above, as the ABI for thread-local variables
        // has it ("TLS descriptors", whose instructions linkers expect in this form). It is the same
        // for the whole life of a thread. The function of the descriptor keeps all registers but the
        // result's, though that of older C libraries not those of vectors: it counts as any call.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!(
                "lea rax, [rip + cai_private_nesting@TLSDESC]",
                "call qword ptr [rax + cai_private_nesting@TLSCALL]",
                "add rax, qword ptr fs:[0]",
                out("rax") address,
                clobber_abi("C"),
                options(pure, nomem),
            );
            #[cfg(target_arch = "aarch64")]
            asm!(
                "adrp x0, :tlsdesc:cai_private_nesting",
                "ldr x1, [x0, :tlsdesc_lo12:cai_private_nesting]",
                "add x0, x0, :tlsdesc_lo12:cai_private_nesting",
                ".tlsdesccall cai_private_nesting",
                "blr x1",
                "mrs x1, tpidr_el0",
                "add x0, x0, x1",
                out("x0") address,
                clobber_abi("C"),
                options(pure, nomem),
            );
        }
        // SAFETY: this thread's own, which lasts as long as the thread. Zeros are a value of it, and
        // it is only changed through shared references.
        body(unsafe { &*address })
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
    use crate::owner::given_up::List;
    use crate::owner::nesting::Thread;
    use std::cell::Cell;

    thread_local! {
        // Without a destructor, so that it can be used for the whole life of a thread.
        static THREAD: Thread =
            const { Thread { running: Cell::new(0), waiting: Cell::new(List::EMPTY) } };
    }

    /// Returns an address in the calling function's stack frame.
    #[inline(always)]
    pub fn frame() -> u64 {
        let local = 0_u8;
        (&raw const local).addr() as u64
    }

    #[inline(always)]
    pub fn with<R>(body: impl FnOnce(&Thread) -> R) -> R {
        THREAD.with(body)
    }
}

/// Guard for one running destruction; its Drop also runs when the stack is unwound.
struct Level<'t> {
    thread: &'t Thread,
    /// Number of destructions that this one runs in.
    outer: u64,
}

impl Drop for Level<'_> {
    #[inline]
    fn drop(&mut self) {
        let thread = self.thread;
        if self.outer > 0 {
            // One less. Not more than there were before this one: `longjmp` skips the end of those
            // inside it. Not more than now either: a thread that switches stacks in a destruction
            // can end an outer one first.
            let running = thread.running.get();
            let less = (running / ONE).saturating_sub(1).min(self.outer);
            thread.running.set(running % ONE + less * ONE);
            return;
        }
        thread.running.set(0);
        if !thread.waiting(|list| list.is_empty()) {
            // Only a destruction that was unwound leaves anything in the list.
            abandon(thread);
        }
    }
}

/// Destroys an owner now, or queues it if [`DEEPEST`] destructions run in this thread. The calling
/// function has a stack frame of its own for each destruction: it is not inlined.
#[inline(always)]
pub fn destroy(owner: GivenUp) {
    let frame = variable::frame();
    variable::with(|thread| {
        let running = thread.running.get();
        let (mut outer, mut outermost) = (running / ONE, running % ONE);
        // A stack grows downwards: this destruction runs in others only if its frame is below.
        if frame >= outermost {
            #[cfg(debug_assertions)]
            if outer != 0 {
                report_left();
            }
            (outer, outermost) = (0, frame);
        } else if outer >= DEEPEST {
            thread.waiting(|list| list.push(owner));
            return;
        }
        thread.running.set(outermost + (outer + 1) * ONE);
        let level = Level { thread, outer };
        owner.destroy();
        if (outer == 0 || outer == DEEPEST - 1)
            && (!thread.waiting(|list| list.is_empty()) || !ABANDONED.is_empty())
        {
            destroy_waiting(thread);
        }
        drop(level);
    });
}

/// Reports that a destruction was left by `longjmp`, or that the thread switched stacks in it.
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
#[cold]
#[inline(never)]
fn destroy_waiting(thread: &Thread) {
    loop {
        match thread.waiting(List::pop) {
            Some(first) => first.destroy(),
            None => {
                let left = ABANDONED.take();
                if left.is_empty() {
                    return;
                }
                thread.waiting.set(left);
            }
        }
    }
}

/// Leaves what waits in this thread to the next thread that destroys an owner.
#[cold]
#[inline(never)]
fn abandon(thread: &Thread) {
    ABANDONED.leave(thread.waiting.take());
}

/// The rest of a destruction, in front of which another owner is released.
struct Rest<'t> {
    thread: &'t Thread,
    /// The owner, and the list from before the release.
    kept: Option<(GivenUp, List)>,
}

impl Drop for Rest<'_> {
    /// The list: owners that the release has added, then the rest, then those from before.
    fn drop(&mut self) {
        if let Some((owner, mut before)) = self.kept.take() {
            before.push(owner);
            self.thread.waiting(|list| list.append(before));
        }
    }
}

/// Releases a reference that an owner which is being destroyed holds. Returns the owner if all of it
/// is destroyed. Otherwise, or if the release is unwound, the `destroy` of the owner runs again when
/// it is.
#[inline(never)]
pub fn release_before(owner: GivenUp, first: Ref) -> Option<GivenUp> {
    variable::with(|thread| {
        let mut rest = Rest { thread, kept: Some((owner, thread.waiting.take())) };
        drop(first);
        if !thread.waiting(|list| list.is_empty()) {
            return None;
        }
        let (owner, before) = rest.kept.take()?;
        thread.waiting.set(before);
        Some(owner)
    })
}
