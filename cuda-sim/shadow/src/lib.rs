//! The checker beside a real driver. Every function of the driver is passed on to it; calls that
//! affect order or memory are reported to the checker after they succeeded. Programs see no
//! difference.
//!
//! `real` finds the driver. `init`, `waits`, `ends`, `host`, `kernels`, `graphs`, `green` and
//! `memory` have the functions that need more than a report afterwards; for all others,
//! `entry_points.txt` states whether they are followed.
//!
//! - An object that begins is reported after the call; one that ends is set aside before it. In
//!   between, another thread may receive the same address or handle.
//! - What a wait is for is recorded before the call: operations that others enqueue meanwhile are
//!   not part of it.

#![recursion_limit = "1024"]
#![allow(non_snake_case, clippy::not_unsafe_ptr_arg_deref)]
// What only newer compilers than those of cuda-sim know.
#![allow(clippy::collapsible_if, clippy::manual_is_multiple_of)]

mod launches;
mod real;
mod exports;
mod passed_on;
mod ends;
mod graphs;
mod green;
mod host;
mod init;
mod kernels;
mod memory;
mod waits;
