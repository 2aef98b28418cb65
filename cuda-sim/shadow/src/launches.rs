//! Functions of the program that a stream calls, each with what happened before it in the stream.
//!
//! May use: `clock`, `work`. Unsafe: follows the pointer that was given to the driver.

use crate::clock::Clock;
use crate::work::HostCall;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

/// A function with its data, and what it comes after: one clock for each time that it will be
/// called.
pub struct Told {
    pub function: usize,
    pub data: usize,
    /// In a graph it is called as often as that is launched.
    pub again: bool,
    clocks: Mutex<VecDeque<Option<Clock>>>,
}

impl Told {
    pub fn new(function: usize, data: usize) -> Box<Told> {
        Box::new(Told { function, data, again: false, clocks: Mutex::default() })
    }

    pub fn clocks(&self) -> MutexGuard<'_, VecDeque<Option<Clock>>> {
        self.clocks.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A graph is launched: what a function in it comes after this time.
pub fn tell_of_launch(call: &HostCall, clock: Option<Clock>) {
    // SAFETY: nodes are made below, with what is kept as long as the process.
    unsafe { &*(call.data as *const Told) }.clocks().push_back(clock);
}
