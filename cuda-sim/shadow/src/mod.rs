//! Beside a real driver: every function of the driver is passed on to it, and those that matter to order and
//! memory are told to the checker once they succeeded. What the program sees does not change. Uses every room.
//!
//! `real` finds the driver. `init`, `waits`, `ends`, `host`, `kernels`, `graphs`, `green` and `memory` have the functions
//! that need more than to be told afterwards; all others are in `followed.txt` or are not followed.
//!
//! The rules of telling:
//! - What begins is told after the call, what ends is set aside before it: in between, another thread may be
//!   given the same address or handle.
//! - What a wait is over for is noted before it: what others enqueue meanwhile is not part of it.

pub mod context;
pub mod follow;
pub mod launches;
pub mod real;

mod ends;
mod graphs;
mod green;
mod host;
mod init;
mod kernels;
mod memory;
mod waits;
