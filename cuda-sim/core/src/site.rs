//! Where an access came from and which bytes it belongs to, for the checker and its reports.
//!
//! May use: `actor`, `clock`, `shadow`, `stack`. Unsafe: none.

use crate::actor::Life;
use crate::clock::Clock;
use crate::shadow::Mark;
use crate::stack::StackId;
use std::borrow::Cow;
use std::sync::Arc;

/// The origin of an access.
#[derive(Debug)]
pub struct Site {
    pub actor: Arc<Life>,
    /// The actor that the rules consider: for a branch of a graph, the stream of the launch.
    pub stream: Arc<Life>,
    /// A number that grows with every recorded access.
    pub time: u64,
    pub label: Cow<'static, str>,
    pub stack: StackId,
    pub thread: u64,
}

/// The moment and the origin of an operation, which its accesses share.
pub struct Moment {
    pub clock: Clock,
    pub mark: Mark<Site>,
}

/// An allocation, as reports describe it.
#[derive(Clone, Debug)]
pub struct Place {
    pub base: u64,
    pub size: u64,
    pub device: i32,
    pub kind: &'static str,
}
