//! Functions of the program that a stream calls, each with what happened before it in the stream.

use cudasim_core::clock::Clock;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

/// A function with its data, and the knowledge before each of its calls: one clock for each.
pub struct Wrapper {
    pub function: usize,
    pub data: usize,
    /// Whether it is a node of a graph, which is called at every launch.
    pub again: bool,
    clocks: Mutex<VecDeque<Option<Clock>>>,
}

impl Wrapper {
    pub fn new(function: usize, data: usize) -> Box<Wrapper> {
        Box::new(Wrapper { function, data, again: false, clocks: Mutex::default() })
    }

    pub fn clocks(&self) -> MutexGuard<'_, VecDeque<Option<Clock>>> {
        self.clocks.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Records the knowledge before a function of a graph at a launch.
pub fn record_launch(data: usize, clock: Option<Clock>) {
    // SAFETY: `cuGraphAddHostNode` in `host`, and `enqueue` while capturing, pass a `Wrapper` that
    // is never freed as the data of such calls.
    unsafe { &*(data as *const Wrapper) }.clocks().push_back(clock);
}
