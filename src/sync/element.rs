//! The elements of the queue of deferred releases, and their memory.
//!
//! An element lies in the owner itself, if it is this library's, so that nothing needs to be
//! allocated for it. There is one in each owner; for further references, and for owners of other
//! libraries, elements are allocated and used again, and some are kept for the case that memory has
//! run out. That is why elements are linked: a container would need memory when a reference is
//! released, and a release must not fail.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::driver::OwnedEvent;
use crate::error::{Failure, Result};
use crate::memory;
use crate::owner::reserve;
use crate::sync::deferred::Deferred;
use crate::sync::handover::Link;
use crate::sync::pending_work::PendingWork;

/// An element of the queue. Dropping it leaks it, with the reference in it.
pub struct Element(NonNull<Node>);

// SAFETY: this value is the only owner of the node, all parts of which may be used by any thread.
unsafe impl Send for Element {}

pub struct Node {
    /// The next one in its list. In the first one of a lane: the first one of the next lane.
    pub next: Option<Element>,
    /// In the first one of a lane: the others.
    pub behind: Fifo,
    owner: Option<Deferred>,
    /// The node lies in the owner.
    is_inside: bool,
    /// `None` in an element that is not in use, or was disarmed.
    pub content: Option<Content>,
}

/// Event that must come before the release.
pub enum Content {
    /// The work is done.
    Work(PendingWork),
    /// A graph has held the owner until now.
    Graph,
    /// A graph has held this event until now. It is destroyed when this is dropped.
    Event(#[expect(dead_code)] OwnedEvent),
}

const _: () = assert!(size_of::<Node>() <= reserve::SIZE && align_of::<Node>() <= reserve::ALIGN);

impl Node {
    fn unused() -> Self {
        Node { next: None, behind: Fifo::EMPTY, owner: None, is_inside: false, content: None }
    }
}

impl Deref for Element {
    type Target = Node;

    fn deref(&self) -> &Node {
        // SAFETY: the node lives until this value, its only owner, gives it away.
        unsafe { self.0.as_ref() }
    }
}

impl DerefMut for Element {
    fn deref_mut(&mut self) -> &mut Node {
        // SAFETY: the node lives until this value, its only owner, gives it away.
        unsafe { self.0.as_mut() }
    }
}

impl Link for Element {
    fn next(&mut self) -> &mut Option<Self> {
        &mut self.next
    }
}

impl Element {
    /// # Safety
    /// `memory` has space for a node and the alignment of one, and nothing else uses it until the
    /// element gives it back.
    unsafe fn place(memory: NonNull<Node>) -> Self {
        // SAFETY: large enough, aligned, and used by nothing else (this function's contract).
        unsafe { memory.write(Node::unused()) };
        Element(memory)
    }

    /// Returns the address of the element, which identifies it.
    pub fn address(&self) -> *mut Node {
        self.0.as_ptr()
    }

    /// # Safety
    /// `node` is the [`address`](Self::address) of an element that was forgotten.
    pub unsafe fn from_address(node: NonNull<Node>) -> Self {
        Element(node)
    }

    /// Takes the reference out of an element, after which nothing is left to do.
    pub fn disarm(&mut self) -> Option<Deferred> {
        self.content = None;
        self.owner.take()
    }

    /// Takes an element apart. Its memory is free again.
    pub fn empty(mut self) -> (Option<Deferred>, Option<Content>) {
        let (owner, content) = (self.owner.take(), self.content.take());
        match owner.as_ref().and_then(|owner| owner.reserve()) {
            Some(reserve) if self.is_inside => reserve.give_back(),
            _ => {
                let mut pool = lock(&POOL);
                self.next = pool.unused.take();
                pool.unused = Some(self);
            }
        }
        (owner, content)
    }
}

/// Elements in the order in which they came.
#[derive(Default)]
pub struct Fifo {
    /// The earliest first.
    front: Option<Element>,
    /// Those that came later, the latest first.
    back: Option<Element>,
}

impl Fifo {
    pub const EMPTY: Self = Fifo { front: None, back: None };

    pub fn push(&mut self, mut element: Element) {
        element.next = self.back.take();
        self.back = Some(element);
    }

    pub fn pop(&mut self) -> Option<Element> {
        if self.front.is_none() {
            while let Some(mut latest) = pop(&mut self.back) {
                latest.next = self.front.take();
                self.front = Some(latest);
            }
        }
        pop(&mut self.front)
    }

    pub fn is_empty(&self) -> bool {
        self.front.is_none() && self.back.is_none()
    }
}

pub fn pop(list: &mut Option<Element>) -> Option<Element> {
    let mut first = list.take()?;
    *list = first.next.take();
    Some(first)
}

struct Pool {
    unused: Option<Element>,
    /// Number of the places of [`LAST`] that were used.
    used_last: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { unused: None, used_last: 0 });

/// Memory for when there is none.
struct Last([UnsafeCell<MaybeUninit<Node>>; 64]);

// SAFETY: each one is given away once, under the lock of `POOL`.
unsafe impl Sync for Last {}

static LAST: Last = Last([const { UnsafeCell::new(MaybeUninit::uninit()) }; 64]);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place in the queue for a reference, reserved before the driver is called: from here, nothing
/// can fail. Dropping it leaks the place and the reference.
pub struct Slot(Element);

impl Slot {
    /// Reserves a place in the owner, or a used one, or allocates. A failure returns the reference.
    pub fn new(owner: Deferred) -> std::result::Result<Self, (Failure, Deferred)> {
        Slot::with(owner, outside)
    }

    /// As [`new`](Self::new), also without memory, as long as some is left that was kept for that.
    pub fn last(owner: Deferred) -> std::result::Result<Self, (Failure, Deferred)> {
        Slot::with(owner, last)
    }

    fn with(
        owner: Deferred,
        outside: fn() -> Result<Element>,
    ) -> std::result::Result<Self, (Failure, Deferred)> {
        match inside(&owner).map_or_else(outside, Ok) {
            Ok(element) => Ok(Slot::of(element, Some(owner))),
            Err(failure) => Err((failure, owner)),
        }
    }

    /// As [`last`](Self::last), but not in the owner, and with none if there is nothing to release.
    pub fn outside(
        owner: Option<Deferred>,
    ) -> std::result::Result<Self, (Failure, Option<Deferred>)> {
        match last() {
            Ok(element) => Ok(Slot::of(element, owner)),
            Err(failure) => Err((failure, owner)),
        }
    }

    fn of(mut element: Element, owner: Option<Deferred>) -> Self {
        element.owner = owner;
        Slot(element)
    }

    pub fn owner(&self) -> Option<&Deferred> {
        self.0.owner.as_ref()
    }

    pub fn fill(mut self, content: Content) -> Element {
        self.0.content = Some(content);
        self.0
    }

    pub fn cancel(self) -> Option<Deferred> {
        self.0.empty().0
    }
}

fn inside(owner: &Deferred) -> Option<Element> {
    let memory = NonNull::new(owner.reserve()?.take())?;
    // SAFETY: memory of this size and alignment (checked above), which was taken for this element.
    // It keeps the owner alive, and gives the memory back.
    let mut element = unsafe { Element::place(memory.cast()) };
    element.is_inside = true;
    Some(element)
}

/// Takes an element that was used before, or allocates one.
fn outside() -> Result<Element> {
    if let Some(unused) = pop(&mut lock(&POOL).unused) {
        return Ok(unused);
    }
    memory::boxed(Node::unused()).map(|node| Element(NonNull::from(Box::leak(node))))
}

/// As [`outside`], also where memory has run out.
fn last() -> Result<Element> {
    outside().or_else(|failure| {
        let mut pool = lock(&POOL);
        let memory = LAST.0.get(pool.used_last).and_then(|last| NonNull::new(last.get()));
        let memory = memory.ok_or(failure)?;
        pool.used_last += 1;
        // SAFETY: memory for a node, which is given away once.
        Ok(unsafe { Element::place(memory.cast()) })
    })
}
