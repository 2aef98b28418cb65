//! The elements of the queue of deferred releases, and their memory.
//!
//! An element lies in the owner itself, if it is this library's, so that nothing needs to be
//! allocated for it. There is one in each owner; for further references, and for owners of other
//! libraries, elements are allocated and used again, and some are kept for the case that memory has
//! run out.

use std::alloc::{Layout, alloc};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::abi::cai_owner;
use crate::driver::{CUevent, Driver};
use crate::error::{Failure, Result};
use crate::owner::{self, reserve};
use crate::sync::handover::Link;
use crate::sync::pending_work::PendingWork;

/// An element of the queue.
pub struct Node {
    /// The next one in its list.
    pub next: *mut Node,
    /// In the first one of a lane: the last one.
    pub last: *mut Node,
    /// In the first one of a lane: the first one of the next lane.
    pub next_lane: *mut Node,
    /// Whose reference is released, or NULL.
    pub owner: *mut cai_owner,
    /// It lies in the owner.
    pub is_inside: bool,
    /// False if a graph did not take the user object.
    pub is_armed: AtomicBool,
    pub content: Content,
}

/// What must have happened before the release.
pub enum Content {
    /// The work is done.
    Work(PendingWork),
    /// A graph has held the owner until now.
    Graph,
    /// A graph has held this event until now.
    Event(&'static Driver, CUevent),
}

const _: () = assert!(size_of::<Node>() <= reserve::SIZE && align_of::<Node>() <= reserve::ALIGN);

impl Link for Node {
    unsafe fn next(this: *mut Self) -> *mut *mut Self {
        // SAFETY: points to an element (this function's contract).
        unsafe { &raw mut (*this).next }
    }
}

/// Memory for a [`Node`] that is not in use.
struct Unused {
    next: *mut Unused,
}

struct Pool {
    unused: *mut Unused,
    /// How many of [`LAST`] were used.
    used_last: usize,
}

// SAFETY: it is memory that nothing refers to.
unsafe impl Send for Pool {}

static POOL: Mutex<Pool> = Mutex::new(Pool { unused: null_mut(), used_last: 0 });

/// Memory for when there is none.
struct Last([UnsafeCell<MaybeUninit<Node>>; 64]);

// SAFETY: each one is given away once, under the lock of `POOL`.
unsafe impl Sync for Last {}

static LAST: Last = Last([const { UnsafeCell::new(MaybeUninit::uninit()) }; 64]);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory for a [`Node`].
pub struct Space {
    memory: *mut Node,
    /// Whose it is, or NULL if it is the pool's.
    inside: *mut cai_owner,
}

impl Space {
    /// Takes the memory in the owner, or memory that was used before, or allocates.
    ///
    /// # Safety
    /// `owner` is NULL or points to a live owner of any library, which lives until the space is
    /// given back.
    pub unsafe fn new(owner: *mut cai_owner) -> Result<Self> {
        // SAFETY: this function's contract.
        if let Some(reserve) = unsafe { owner::reserve(owner) } {
            let inside = reserve.take();
            if !inside.is_null() {
                return Ok(Space { memory: inside.cast(), inside: owner });
            }
        }
        let mut pool = lock(&POOL);
        let unused = pool.unused;
        if !unused.is_null() {
            // SAFETY: `drop` put it there, and nothing else refers to it.
            pool.unused = unsafe { (*unused).next };
            return Ok(Space { memory: unused.cast(), inside: null_mut() });
        }
        let layout = Layout::new::<Node>();
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc(layout) }.cast::<Node>();
        if memory.is_null() {
            return Err(Failure::no_memory(layout.size()));
        }
        Ok(Space { memory, inside: null_mut() })
    }

    /// As [`new`](Self::new), also where memory has run out, as long as there is some left that was
    /// kept for that.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    pub unsafe fn last(owner: *mut cai_owner) -> Result<Self> {
        // SAFETY: this function's contract.
        unsafe { Space::new(owner) }.or_else(|failure| {
            let mut pool = lock(&POOL);
            let last = LAST.0.get(pool.used_last).ok_or(failure)?;
            pool.used_last += 1;
            Ok(Space { memory: last.get().cast(), inside: null_mut() })
        })
    }

    /// Makes an element of it.
    pub fn fill(self, owner: *mut cai_owner, content: Content) -> *mut Node {
        let (memory, is_inside) = (self.memory, !self.inside.is_null());
        std::mem::forget(self);
        let (next, last, next_lane) = (null_mut(), null_mut(), null_mut());
        let is_armed = AtomicBool::new(true);
        // SAFETY: of the right layout, and not used elsewhere.
        unsafe {
            memory.write(Node { next, last, next_lane, owner, is_inside, is_armed, content });
        }
        memory
    }

    /// Takes an element apart. Its memory is free again.
    ///
    /// # Safety
    /// `fill` made it, and nothing refers to it any more. The owner is alive if it lies in there.
    pub unsafe fn empty(node: *mut Node) -> (*mut cai_owner, Content) {
        // SAFETY: this function's contract.
        let Node { owner, is_inside, content, .. } = unsafe { node.read() };
        drop(Space { memory: node, inside: if is_inside { owner } else { null_mut() } });
        (owner, content)
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        if !self.inside.is_null() {
            // SAFETY: the memory was taken from it by `new`; it is alive, by the contract there.
            if let Some(reserve) = unsafe { owner::reserve(self.inside) } {
                reserve.give_back();
            }
            return;
        }
        let unused = self.memory.cast::<Unused>();
        let mut pool = lock(&POOL);
        // SAFETY: large enough and aligned for a pointer, and not used elsewhere.
        unsafe { unused.write(Unused { next: pool.unused }) };
        pool.unused = unused;
    }
}
