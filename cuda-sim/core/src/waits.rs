//! Waits for events that may run before the record that they are meant for.
//!
//! A record and a wait of two host threads that nothing orders may run in either order. The wait
//! then orders nothing, or only what an earlier record did. Such waits are kept, so that the report
//! of a race that the record would have prevented names both calls.

use crate::clock::{Clock, Epoch};
use crate::site::Site;
use std::collections::VecDeque;
use std::sync::Arc;

/// A wait that does not count.
pub struct Wait {
    pub event: u64,
    pub record: Arc<Site>,
    pub wait: Arc<Site>,
    /// The work that the record would have ordered.
    pub known: Clock,
    /// The place of the wait: what comes after it.
    pub since: Epoch,
}

/// Maximum number of those. The oldest are forgotten; then reports do not name them.
const MOST_WAITS: usize = 64;

#[derive(Default)]
pub struct Waits(VecDeque<Wait>);

impl Waits {
    pub fn push(&mut self, wait: Wait) {
        if self.0.len() == MOST_WAITS {
            self.0.pop_front();
        }
        self.0.push_back(wait);
    }

    /// Returns the newest wait that would have ordered `first` before what `second` knows.
    pub fn between(&self, first: Epoch, second: &Clock) -> Option<&Wait> {
        self.0.iter().rev().find(|wait| wait.known.knows(first) && second.knows(wait.since))
    }
}
