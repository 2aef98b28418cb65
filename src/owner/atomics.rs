//! Atomics of the standard library, or of loom's model checker under `--cfg loom`.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicUsize, Ordering};
